"""All assignors, by protocol, software and name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from kgroup.assignor import connect, kafka_streams, sticky_tasks, zookeeper
from kgroup.assignor.base import Assignment, AssignorError, Subscriber
from kgroup.assignor.group_spec import CLIENTS, GroupSpec, newest
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS, STICKY_TASKS, STREAM
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server import range as server_range
from kgroup.assignor.server import streams, uniform
from kgroup.assignor.server.server import ServerGroup, Target
from kgroup.assignor.zookeeper import ThreadAssignment, ZookeeperAssignor
from kgroup.errors import UnknownStrategyError


def _assign_simple(group: ServerGroup) -> Assignment:
    from kgroup.assignor.server import simple  # which needs numpy

    return simple.assign(group)


_SERVER: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "consumer": {"uniform": uniform.assign_targets, "range": server_range.assign_targets},
    "share": {"simple": _assign_simple},
}
_ZOOKEEPER: Mapping[str, ZookeeperAssignor] = {
    "range": zookeeper.assign_range,
    "roundrobin": zookeeper.assign_round_robin,
}

_CONNECT: Mapping[str, Callable[..., Any]] = {
    "sessioned": connect.assign_incremental,
    "compatible": connect.assign_incremental,
    connect.EAGER: connect.assign_eager,
}


def strategies(protocol: str, client: Software | None = None) -> tuple[str, ...]:
    """Return the names of the assignors of a protocol, the default first.

    Args:
        protocol: protocol of the group.
        client: library of a classic group; None: the newest version of Kafka's own.
    """
    return tuple(_assignors(protocol, client))


def _assignors(protocol: str, client: Software | None) -> Mapping[str, Callable[..., Any]]:
    if protocol == "zookeeper":
        return _ZOOKEEPER
    if protocol == "connect":
        return _CONNECT
    if protocol == "streams":
        return {"sticky": streams.assign}
    if protocol == CLASSIC_STREAMS:
        return {STREAM: kafka_streams.assign, STICKY_TASKS: sticky_tasks.assign}
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
    """Return the assignor with this name.

    Args:
        protocol: protocol of the group.
        strategy: name of the assignor.
        client: library of a classic group; None: the newest version of Kafka's own.
        group_id: group that uses the strategy, for the error.
        remark: text appended to the error.

    Raises:
        UnknownStrategyError: the software has no assignor with this name.
    """
    known = _assignors(protocol, client)
    if strategy not in known:
        software = client or newest(protocol)
        raise UnknownStrategyError(strategy, software, known, group_id=group_id, remark=remark)
    return known[strategy]


def assign(spec: GroupSpec) -> Assignment:
    """Return the assignment that the group's leader or coordinator computes.

    Args:
        spec: a group with at least one member, and a known protocol and client.

    Raises:
        AssignorError: the assignor itself throws an exception.
        UnknownStrategyError: the software has no assignor with this name.
    """
    if spec.protocol == "zookeeper":
        return by_member(spec, assign_threads(spec))
    assignor = assignor_of(spec.protocol, spec.strategy, spec.computed_as, group_id=spec.id)
    if spec.protocol == "consumer":
        group = ServerGroup(spec)
        return group.assignment(assignor(group))
    assigned: Assignment
    if spec.protocol != "classic":
        assigned = assignor(ServerGroup(spec))
        return assigned
    sent = as_sent(spec)
    read = _as_read(sent, spec.computed_as)
    assigned = assignor(read, spec.topics)
    if len(read) < len(sent):
        assigned = {member.member_id: assigned.get(member.member_id, []) for member in sent}
    return assigned


def assign_targets(strategy: str, group: ServerGroup, group_id: str) -> Mapping[str, Target]:
    """Return the new target assignments of a consumer group; members without one get no partitions.

    Args:
        strategy: name of an assignor of the coordinator.
        group: the group with its current targets, which may become part of the result.
        group_id: id of the group, for an error.

    Raises:
        AssignorError: the assignor itself throws an exception.
        UnknownStrategyError: brokers have no such assignor.
    """
    targets: Mapping[str, Target] = assignor_of("consumer", strategy, group_id=group_id)(group)
    return targets


def is_determined(spec: GroupSpec) -> bool:
    """Return whether the known facts about a group determine its assignment."""
    if spec.protocol != "classic":
        return True
    library = CLIENTS[spec.computed_as.name]
    is_determined, is_same_without = library.is_determined, library.is_same_without
    if is_determined is None and is_same_without is None:
        return True
    assignor = assignor_of("classic", spec.strategy, spec.computed_as, group_id=spec.id)
    members = _as_read(as_sent(spec), spec.computed_as)
    if is_determined is not None and not is_determined(assignor, members, spec.topics):
        return False
    return is_same_without is None or all(
        is_same_without(assignor, members, spec.topics, known)
        for known in _topics_known_at_first(spec)
    )


def _topics_known_at_first(spec: GroupSpec) -> set[frozenset[str]]:
    """Return the sets of topics that a leader may know before it fetches all metadata.

    A member that was the leader before knows the topics of all former members. If members have
    left, it may be gone, and a new leader knows only its own topics.
    """
    so_far = (*(member for member in spec.members if not member.unknown_id), *spec.departed)
    leaders = [so_far]
    if spec.leader is not None and spec.is_leader_new:
        leaders.append((spec.leader,))
    elif spec.leader is None and spec.departed:
        leaders += ((member,) for member in spec.members)
    return {
        frozenset(name for member in subscribed for name in member.topics if name in spec.topics)
        for subscribed in leaders
    }


def as_sent(spec: GroupSpec) -> list[Subscriber]:
    """Return the subscriptions of a classic group as the leader reads them.

    Each is as its member's library writes it.
    Members whose library is unknown, or has no such strategy, are taken to use the leader's.
    """
    by_client: dict[Software, list[MemberSpec]] = defaultdict(list)
    for member in spec.members_as_sent:
        client = spec.client_of(member)
        known = spec.strategy in CLIENTS[client.name].strategies[client.version]
        if member.keeps is False:
            member = structs.replace(member, owned=None, generation=None, user_data=None)
        by_client[client if known else spec.computed_as].append(member)
    sent = {
        subscriber.member_id: subscriber
        for (name, version), members in by_client.items()
        for subscriber in CLIENTS[name].as_sent(members, spec.strategy, version)
    }
    if spec.leader_id in sent:
        sent[spec.leader_id] = replace(sent[spec.leader_id], leads=True)
    return [sent[member.member_id] for member in spec.members_as_sent]


def ignored(spec: GroupSpec) -> list[str]:
    """Return the member ids of members whose subscription the leader of a group cannot read."""
    leads = spec.computed_as
    if spec.protocol != "classic" or CLIENTS[leads.name].on_short.get(leads.version, True):
        return []  # the leader reads all, or fails
    sent = as_sent(spec)
    read = {member.member_id for member in _as_read(sent, leads)}
    return [member.member_id for member in sent if member.member_id not in read]


def _as_read(sent: list[Subscriber], leads: Software) -> list[Subscriber]:
    """Return the subscriptions that a leader can read.

    Raises:
        AssignorError: it fails if it cannot read one.
    """
    on_short = CLIENTS[leads.name].on_short
    if leads.version not in on_short or not any(member.is_short for member in sent):
        return sent
    if failure := on_short[leads.version]:
        raise AssignorError(*failure)
    return [member for member in sent if not member.is_short]


def assign_threads(spec: GroupSpec) -> ThreadAssignment:
    """Return the partitions that each thread of ZooKeeper consumers claims.

    Args:
        spec: a group of protocol "zookeeper".

    Raises:
        AssignorError: every consumer fails to compute the assignment.
        UnknownStrategyError: the consumer has no assignor with this name.
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
    """Return the partitions of each member, in the order of its threads."""
    assignment: Assignment = {member.member_id: [] for member in spec.members}
    for (member_id, _), partitions in threads.items():
        assignment[member_id] += partitions
    return assignment
