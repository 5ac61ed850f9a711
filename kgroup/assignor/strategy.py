"""Every assignor by protocol, version of Kafka and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.assignor import range as range_assignor
from kgroup.assignor import round_robin, zookeeper
from kgroup.assignor.base import Assignment, ClassicAssignor, Subscriber, Topic
from kgroup.assignor.server import range as server_range
from kgroup.assignor.server import uniform
from kgroup.assignor.server.server import ServerGroup
from kgroup.assignor.spec import NEWEST, OF_ZOOKEEPER, GroupSpec
from kgroup.assignor.sticky import sticky
from kgroup.assignor.subscription import as_sent, as_sent_1_1
from kgroup.assignor.zookeeper import ThreadAssignment, ZookeeperAssignor

__all__ = [
    "assign",
    "assign_as_leader",
    "assign_threads",
    "by_member",
    "computed_as",
    "is_cooperative",
    "strategies",
    "versions",
]

_Server = Callable[[ServerGroup], Assignment]


def _assign_sticky_1_1(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    from kgroup.assignor.sticky import sticky_1_1  # which needs numpy

    return sticky_1_1.assign(members, topics)


def _assign_simple(group: ServerGroup) -> Assignment:
    from kgroup.assignor.server import simple  # likewise

    return simple.assign(group)


_CLASSIC: Mapping[str, Mapping[str, ClassicAssignor]] = {
    NEWEST: {
        "range": range_assignor.assign,
        "roundrobin": round_robin.assign,
        "sticky": sticky.assign,
        "cooperative-sticky": sticky.assign_cooperative,
    },
    "1.1.1": {
        "range": range_assignor.assign_1_1,
        "roundrobin": round_robin.assign,
        "sticky": _assign_sticky_1_1,
    },
}
_SERVER: Mapping[str, Mapping[str, _Server]] = {
    "consumer": {"uniform": uniform.assign, "range": server_range.assign},
    "share": {"simple": _assign_simple},
}
_ZOOKEEPER: Mapping[str, ZookeeperAssignor] = {
    "range": zookeeper.assign_range,
    "roundrobin": zookeeper.assign_round_robin,
}


def versions(protocol: str) -> tuple[str, ...]:
    """Give the versions of Kafka that are imitated, the newest first."""
    if protocol == "zookeeper":
        return (OF_ZOOKEEPER,)
    return tuple(_CLASSIC) if protocol == "classic" else (NEWEST,)


def strategies(protocol: str, kafka_version: str = NEWEST) -> tuple[str, ...]:
    """Give the names of the assignors of a protocol, the default one first."""
    if protocol == "zookeeper":
        return tuple(_ZOOKEEPER)
    return tuple(_CLASSIC[kafka_version] if protocol == "classic" else _SERVER[protocol])


def computed_as(spec: GroupSpec) -> str:
    """Say what an assignment imitates; other client libraries may assign otherwise."""
    libraries = {"classic": "kafka-clients", "zookeeper": "kafka"}
    return f"{libraries.get(spec.protocol, 'group-coordinator')} {spec.kafka_version}"


def is_cooperative(spec: GroupSpec) -> bool:
    """Tell whether members keep what they own while the group is assigned anew."""
    return spec.has_topic_ids or spec.strategy == "cooperative-sticky"


def assign(spec: GroupSpec) -> Assignment:
    """Assign as Kafka does.

    Args:
        spec: with a protocol, version and strategy that exist, and at least one member.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    if spec.protocol == "classic":
        sent = as_sent if spec.kafka_version == NEWEST else as_sent_1_1
        subscribers = sent(spec.members_as_sent, spec.strategy)
        return assign_as_leader(spec.strategy, subscribers, spec.topics, spec.kafka_version)
    if spec.protocol == "zookeeper":
        return by_member(spec, assign_threads(spec))
    return _SERVER[spec.protocol][spec.strategy](ServerGroup(spec))


def assign_as_leader(
    strategy: str,
    subscribers: Sequence[Subscriber],
    topics: Mapping[str, Topic],
    kafka_version: str = NEWEST,
) -> Assignment:
    """Assign as the leader of a classic group does, from what it is told.

    Args:
        strategy: name of an assignor of that version.
        subscribers: in the order of the JoinGroup response.
        topics: of the cluster.
        kafka_version: of the leader.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    return _CLASSIC[kafka_version][strategy](subscribers, topics)


def assign_threads(spec: GroupSpec) -> ThreadAssignment:
    """Assign to the threads of ZooKeeper consumers, as Kafka does.

    Args:
        spec: of protocol "zookeeper", with a strategy that exists.

    Raises:
        AssignorError: every consumer fails to assign.
    """
    consumers = {
        member.member_id: {topic: member.streams_of(topic) for topic in member.topics}
        for member in spec.members
    }
    return _ZOOKEEPER[spec.strategy](consumers, spec.topics)


def by_member(spec: GroupSpec, threads: ThreadAssignment) -> Assignment:
    """Put together what the threads of each member got, thread by thread."""
    assignment: Assignment = {member.member_id: [] for member in spec.members}
    for (member_id, _), partitions in threads.items():
        assignment[member_id] += partitions
    return assignment
