"""Input and output of classic assignors, and the orders in which Java leaders iterate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kgroup.assignor.java.java_hash import hash_order, utf16
from kgroup.model.cluster import TopicPartition

_T = TypeVar("_T")

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id, in the order in which the assignor returns them."""


class AssignorError(Exception):
    """The client's own assignor throws an exception, so the group's leader fails.

    Attributes:
        type: simple name of the exception, or of the signal that kills the leader's process.
        message: message of the exception; empty if it has none.
    """

    def __init__(self, type: str, message: str = "") -> None:  # noqa: A002 -- the word of the output
        super().__init__(f"{type}: {message}" if message else type)
        self.type = type
        self.message = message


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic in the leader's cluster metadata.

    Attributes:
        partitions: number of partitions.
        racks: racks of the replicas, by partition; None if no broker has a rack.
        leader_racks: rack of the leader, by partition; None if no broker has a rack.
        listed: partitions in the order of the Metadata response; None: ascending, as Kafka 4.3
            lists them.
        is_listing_known: whether that order is known. It is not for a topic with hypothetical new
            partitions if brokers list them in hash order, as Kafka 3.9 does.
    """

    partitions: int
    racks: tuple[frozenset[str], ...] | None = None
    leader_racks: tuple[str | None, ...] | None = None
    listed: tuple[int, ...] | None = None
    is_listing_known: bool = True

    def racks_of(self, partition: int) -> frozenset[str]:
        """Return the racks of one partition's replicas."""
        return frozenset() if self.racks is None else self.racks[partition]

    @property
    def as_listed(self) -> Sequence[int]:
        """The partitions, in the order of the Metadata response."""
        return range(self.partitions) if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member's subscription as the leader reads it (`ConsumerPartitionAssignor.Subscription`).

    Attributes:
        member_id: member id, assigned by the coordinator.
        topics: topic names in the order of the message; Java clients sort them.
        instance_id: `group.instance.id` of a static member; else None.
        rack: `client.rack`; None if not sent. Only librdkafka sends an empty one.
        owned: `ownedPartitions`, in the order of the message.
        generation: generation of `owned`; None if the message has none.
        remembered: partitions in the sticky assignor's user data; None without user data.
        remembered_generation: generation in the user data; None if it has none.
        generation_again: `UserData.generation_again`.
        failure: message of the exception that parsing the user data throws; None if it parses.
        is_empty: whether user data without partitions have length 0, and are not absent.
        goes_on: whether the message has fields after the user data (version 1 and later).
        is_short: whether the message has only topics and user data, whatever its version.
        remembered_in_python: partitions and generation in the user data of kafka-python 3.0 and
            later, which begins with a version; other libraries cannot parse it.
        leads: whether this member is known to be the leader.
        version: version of the message; fields of later versions are not set.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    remembered: tuple[TopicPartition, ...] | None = None
    remembered_generation: int | None = None
    generation_again: int = -1
    failure: str | None = None
    is_empty: bool = False
    goes_on: bool = False
    is_short: bool = False
    remembered_in_python: tuple[tuple[TopicPartition, ...], int] | None = None
    leads: bool = False
    version: int = 3


ClassicAssignor = Callable[[Sequence[Subscriber], Mapping[str, TopicMetadata]], Assignment]
"""Assigns partitions as the group's leader does.

Takes the members in the order of the JoinGroup response and the topics of the cluster; raises
`AssignorError` where the client's own assignor throws.
"""


def in_hash_order(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return the members in the iteration order of a Java HashMap by member id."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in hash_order(by_id)]


def with_metadata(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Return the subscribed topics that exist, in the order of `partitionsPerTopic`.

    Source: `AbstractPartitionAssignor.assign`: a HashSet of all topics, then a HashMap.

    Args:
        members: in hash order.
        topics: topics of the cluster.
    """
    subscriptions = dict.fromkeys(member.topics for member in members)
    subscribed = dict.fromkeys(topic for topics in subscriptions for topic in topics)
    known = [name for name in hash_order(subscribed) if name in topics and topics[name].partitions]
    return hash_order(known)


def consumers_by_topic(
    subscriptions: Sequence[tuple[_T, ...]], topics: Iterable[_T]
) -> dict[_T, Sequence[int]]:
    """Return the indices of the members that subscribe to each topic.

    Topics with the same subscribers share one sequence.

    Args:
        subscriptions: topics of each member.
        topics: topics to look up; the result keeps their order.
    """
    numbers: dict[tuple[_T, ...], int] = {}
    of_member = [numbers.setdefault(own, len(numbers)) for own in subscriptions]
    of_topic: dict[_T, list[int]] = {topic: [] for topic in topics}
    for own, number in numbers.items():
        for topic in dict.fromkeys(own):
            if topic in of_topic:
                of_topic[topic].append(number)
    members_of_numbers: dict[tuple[int, ...], Sequence[int]] = {
        tuple(range(len(numbers))): range(len(of_member))
    }
    for chosen in map(tuple, of_topic.values()):
        if chosen not in members_of_numbers:
            apart = frozenset(chosen)
            members_of_numbers[chosen] = [
                at for at, number in enumerate(of_member) if number in apart
            ]
    return {topic: members_of_numbers[tuple(chosen)] for topic, chosen in of_topic.items()}


def by_member_info(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return members sorted: static ones by instance id, then the others by member id.

    Source: `AbstractPartitionAssignor.MemberInfo`.
    """
    return sorted(members, key=lambda member: static_first(member.instance_id, member.member_id))


def static_first(instance_id: str | None, member_id: str) -> tuple[bool, bytes]:
    """Return a sort key: static members by instance id, then the others by member id."""
    return instance_id is None, utf16(member_id if instance_id is None else instance_id)


def java_order(partition: TopicPartition) -> tuple[bytes, int]:
    """Return a sort key: by topic, as Java compares strings, then by partition."""
    return utf16(partition[0]), partition[1]


def uses_racks(consumers: frozenset[str], partitions: Sequence[frozenset[str]]) -> bool:
    """Return whether assignment is rack-aware.

    It is if consumers and replicas share a rack and not all partitions have the same racks.

    Source: `AbstractPartitionAssignor.useRackAwareAssignment` (KIP-881).

    Args:
        consumers: racks of the consumers.
        partitions: racks of each partition's replicas.
    """
    every = frozenset[str]().union(*partitions)
    return not consumers.isdisjoint(every) and any(racks != every for racks in set(partitions))
