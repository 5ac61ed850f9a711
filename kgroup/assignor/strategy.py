"""Every assignor by protocol, the software that brings it, and name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.assignor import zookeeper
from kgroup.assignor.base import Assignment, Subscriber
from kgroup.assignor.group_spec import CLIENTS, GroupSpec, newest
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server import range as server_range
from kgroup.assignor.server import uniform
from kgroup.assignor.server.server import ServerGroup
from kgroup.assignor.zookeeper import ThreadAssignment, ZookeeperAssignor
from kgroup.errors import UnknownStrategyError

_Server = Callable[[ServerGroup], Assignment]


def _assign_simple(group: ServerGroup) -> Assignment:
    from kgroup.assignor.server import simple  # which needs numpy

    return simple.assign(group)


_SERVER: Mapping[str, Mapping[str, _Server]] = {
    "consumer": {"uniform": uniform.assign, "range": server_range.assign},
    "share": {"simple": _assign_simple},
}
_ZOOKEEPER: Mapping[str, ZookeeperAssignor] = {
    "range": zookeeper.assign_range,
    "roundrobin": zookeeper.assign_round_robin,
}


def strategies(protocol: str, client: Software | None = None) -> tuple[str, ...]:
    """Return the names of the assignors of a protocol, the default one first.

    Args:
        protocol: of the group.
        client: of a classic group whose assignors; None: those of Kafka's newest.
    """
    return tuple(_assignors(protocol, client))


def _assignors(protocol: str, client: Software | None) -> Mapping[str, Callable[..., Any]]:
    if protocol == "zookeeper":
        return _ZOOKEEPER
    if protocol != "classic":
        return _SERVER[protocol]
    name, version = client or newest(protocol)
    return CLIENTS[name].strategies[version]


def assignor_of(
    protocol: str,
    strategy: str,
    client: Software | None = None,
    *,
    group_id: str | None = None,
    remark: str = "",
) -> Callable[..., Any]:
    """Return the assignor that a strategy names.

    Args:
        protocol: of the group.
        strategy: its name.
        client: of a classic group whose assignors; None: those of Kafka's newest.
        group_id: of the group that uses the strategy, for the error.
        remark: the end of the error's sentence.

    Raises:
        UnknownStrategyError: there is no such strategy.
    """
    known = _assignors(protocol, client)
    if strategy not in known:
        software = client or newest(protocol)
        raise UnknownStrategyError(strategy, software, known, group_id=group_id, remark=remark)
    return known[strategy]


def assign(spec: GroupSpec) -> Assignment:
    """Assign as Kafka does.

    Args:
        spec: with a protocol and client that exist, and at least one member.

    Raises:
        AssignorError: Kafka's assignor fails.
        UnknownStrategyError: there is no such strategy.
    """
    if spec.protocol == "zookeeper":
        return by_member(spec, assign_threads(spec))
    assignor = assignor_of(spec.protocol, spec.strategy, spec.computed_as, group_id=spec.id)
    is_classic = spec.protocol == "classic"
    given = (_as_sent(spec), spec.topics) if is_classic else (ServerGroup(spec),)
    assigned: Assignment = assignor(*given)
    return assigned


def is_determined(spec: GroupSpec) -> bool:
    """Return whether what is known of a group that can be assigned determines its assignment."""
    if spec.protocol != "classic":
        return True
    library = CLIENTS[spec.computed_as.name]
    is_determined, is_same_without = library.is_determined, library.is_same_without
    if is_determined is None and is_same_without is None:
        return True
    assignor = assignor_of("classic", spec.strategy, spec.computed_as, group_id=spec.id)
    members = _as_sent(spec)
    if is_determined is not None and not is_determined(assignor, members, spec.topics):
        return False
    return is_same_without is None or all(
        is_same_without(assignor, members, spec.topics, known)
        for known in _topics_known_at_first(spec)
    )


def _topics_known_at_first(spec: GroupSpec) -> set[frozenset[str]]:
    """Return what a leader may know before it asks brokers for all topics: one of these sets.

    A member that has led so far knows the topics of all members that were there. Where some have
    left, it may be gone; any other, who begins to lead, knows its own topics.
    """
    so_far = (*(member for member in spec.members if not member.unknown_id), *spec.departed)
    leaders = [so_far]
    if spec.leader_id is None and spec.departed:
        leaders += ((member,) for member in spec.members)
    return {
        frozenset(name for member in subscribed for name in member.topics if name in spec.topics)
        for subscribed in leaders
    }


def _as_sent(spec: GroupSpec) -> list[Subscriber]:
    """Return what the leader reads: each member writes as its own library does.

    Members of an unknown library, or of one that has no such strategy, count as the leader's.
    """
    by_client: dict[Software, list[MemberSpec]] = defaultdict(list)
    for member in spec.members_as_sent:
        client = spec.client_of(member)
        known = spec.strategy in CLIENTS[client.name].strategies[client.version]
        by_client[client if known else spec.computed_as].append(member)
    sent = {
        subscriber.member_id: subscriber
        for (name, version), members in by_client.items()
        for subscriber in CLIENTS[name].as_sent(members, spec.strategy, version)
    }
    if spec.leader_id in sent:
        sent[spec.leader_id] = replace(sent[spec.leader_id], leads=True)
    return [sent[member.member_id] for member in spec.members_as_sent]


def assign_threads(spec: GroupSpec) -> ThreadAssignment:
    """Assign to the threads of ZooKeeper consumers, as Kafka does.

    Args:
        spec: of protocol "zookeeper".

    Raises:
        AssignorError: every consumer fails to assign.
        UnknownStrategyError: there is no such strategy.
    """
    consumers = {
        member.member_id: {topic: member.streams_of(topic) for topic in member.topics}
        for member in spec.members
    }
    partitions: ThreadAssignment = assignor_of("zookeeper", spec.strategy, group_id=spec.id)(
        consumers, spec.topics
    )
    return partitions


def by_member(spec: GroupSpec, threads: ThreadAssignment) -> Assignment:
    """Put together what the threads of each member got, thread by thread."""
    assignment: Assignment = {member.member_id: [] for member in spec.members}
    for (member_id, _), partitions in threads.items():
        assignment[member_id] += partitions
    return assignment
