"""What the leader of a classic group knows when it assigns, and the order in which it walks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kgroup.assignor.java.java_hash import hash_order, utf16

_T = TypeVar("_T")

TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
"""Partitions of each member, by its id, in the order in which the assignor lists them."""


class AssignorError(Exception):
    """The assignor itself throws here, so that the group's leader fails.

    Attributes:
        type: simple name of the exception, or of the signal that ends the leader's process.
        message: its message; empty where it has none.
    """

    def __init__(self, type: str, message: str = "") -> None:  # noqa: A002 -- the word of the output
        super().__init__(f"{type}: {message}" if message else type)
        self.type = type
        self.message = message


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as the leader's metadata has it.

    Attributes:
        partitions: how many.
        racks: of each partition, the racks of its replicas; None where no broker names its rack.
        leader_racks: of each partition, the rack of its leader; None likewise.
        listed: partitions as brokers list them; None: by their numbers, as those of 4.3 do.
        is_listing_known: whether brokers list them so; not of a topic that is thought to grow where
            they go by something else: by hashes, those of 3.9.
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
        """The partitions, in the order in which brokers list them."""
        return range(self.partitions) if self.listed is None else self.listed


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as its subscription tells of it (`ConsumerPartitionAssignor.Subscription`).

    Attributes:
        member_id: given by the coordinator.
        topics: in the order of the message, which is sorted if a Java client wrote it.
        instance_id: of a static member.
        rack: None where there is none; empty as librdkafka sends it, else never.
        owned: `ownedPartitions`, in the order of the message.
        generation: in which they were owned; None where the message has none.
        remembered: the partitions that the sticky assignor's user data names; None where there is
            no user data.
        remembered_generation: the generation that it names; None where it names none.
        failure: message of the exception that reading it throws; None where there is none.
        goes_on: whether anything stands behind the user data, as since version 1 of the message.
        remembered_in_python: partitions and their generation in user data of kafka-python since
            3.0, where they come after a version; who does not know that reads nothing there.
        leads: whether this member assigns, where that is known.
        version: of the message; what came with a later one it has no place for.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    remembered: tuple[TopicPartition, ...] | None = None
    remembered_generation: int | None = None
    failure: str | None = None
    goes_on: bool = False
    remembered_in_python: tuple[tuple[TopicPartition, ...], int] | None = None
    leads: bool = False
    version: int = 3


ClassicAssignor = Callable[[Sequence[Subscriber], Mapping[str, TopicMetadata]], Assignment]
"""Assigns to members, in the order of the JoinGroup response, as the leader of their group does.

It is given the topics of the cluster, and raises `AssignorError` where Kafka's own fails.
"""


def in_hash_order(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Order members as the HashMap does into which the leader puts them, one by one."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in hash_order(by_id)]


def with_metadata(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Return the subscribed topics that exist, in the order of `partitionsPerTopic`.

    Source: `AbstractPartitionAssignor.assign`: a HashSet of all topics, then a HashMap.

    Args:
        members: in hash order.
        topics: those of the cluster.
    """
    subscriptions = dict.fromkeys(member.topics for member in members)
    subscribed = dict.fromkeys(topic for topics in subscriptions for topic in topics)
    known = [name for name in hash_order(subscribed) if name in topics and topics[name].partitions]
    return hash_order(known)


def consumers_by_topic(
    subscriptions: Sequence[tuple[_T, ...]], topics: Iterable[_T]
) -> dict[_T, Sequence[int]]:
    """Give the indices of the members that subscribe to each topic.

    Topics with the same subscribers share one list: most members subscribe to the same.

    Args:
        subscriptions: of each member.
        topics: that are asked for; the answer has their order.
    """
    numbers: dict[tuple[_T, ...], int] = {}
    of_member = [numbers.setdefault(own, len(numbers)) for own in subscriptions]
    of_topic: dict[_T, list[int]] = {topic: [] for topic in topics}
    for own, number in numbers.items():
        for topic in dict.fromkeys(own):
            if topic in of_topic:
                of_topic[topic].append(number)
    found: dict[tuple[int, ...], Sequence[int]] = {
        tuple(range(len(numbers))): range(len(of_member))
    }
    for chosen in map(tuple, of_topic.values()):
        if chosen not in found:
            apart = frozenset(chosen)
            found[chosen] = [at for at, number in enumerate(of_member) if number in apart]
    return {topic: found[tuple(chosen)] for topic, chosen in of_topic.items()}


def by_member_info(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort members: static ones first, by instance id, then the others by member id.

    Source: `AbstractPartitionAssignor.MemberInfo`.
    """
    return sorted(members, key=lambda member: static_first(member.instance_id, member.member_id))


def static_first(instance_id: str | None, member_id: str) -> tuple[bool, bytes]:
    """Return a sort key: static members by instance id, then the others by member id."""
    return instance_id is None, utf16(member_id if instance_id is None else instance_id)


def java_order(partition: TopicPartition) -> tuple[bytes, int]:
    """Return a sort key: by topic, as Java compares texts, then by partition."""
    return utf16(partition[0]), partition[1]


def uses_racks(consumers: frozenset[str], partitions: Sequence[frozenset[str]]) -> bool:
    """Return whether racks matter: some are shared, and not every partition has a replica in each.

    Source: `AbstractPartitionAssignor.useRackAwareAssignment` (KIP-881).

    Args:
        consumers: racks of the consumers.
        partitions: racks of each partition's replicas.
    """
    every = frozenset[str]().union(*partitions)
    return not consumers.isdisjoint(every) and any(racks != every for racks in set(partitions))
