"""What a coordinator knows when it assigns for a consumer or share group, in Java's order.

Its assignors walk the target assignment that stands, which was read from records: a HashMap by
topic id of HashSets of partitions. Where they change a member's, they copy it first, which gives
the tables other sizes.

Source: `TargetAssignmentBuilder`, `GroupSpecImpl`, `TopicIds`, `AssignorHelpers` of
group-coordinator 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import static_first
from kgroup.assignor.java_hash import JavaHashMap, hash_order, spread, uncrowded_size

__all__ = [
    "IntSet",
    "ServerAssignment",
    "ServerGroup",
    "ServerMember",
    "ServerTopic",
    "Target",
    "capacity_for",
    "uuid_order",
]


ServerAssignment = dict[str, list[tuple[bytes, int]]]
"""Partitions of each member by topic id, in Java's order; perhaps of topics that are gone."""


@dataclass(frozen=True, slots=True)
class ServerTopic:
    """A topic: its id (16 bytes), and how many partitions it has."""

    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True)
class ServerMember:
    """A member of a consumer or share group.

    Attributes:
        member_id: its id.
        topics: that it subscribes to, those that its regex gives included, in the record's order.
        instance_id: of a static member.
        target: its target assignment, by topic id, in the record's order.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    target: tuple[tuple[bytes, int], ...] = ()


def uuid_hash(topic_id: bytes) -> int:
    """Return ``Uuid.hashCode`` of Kafka."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return both >> 32 ^ both & 0xFFFFFFFF


def uuid_order(topic_id: bytes) -> bytes:
    """Return a key that sorts ids as ``Uuid.compareTo`` does: by two signed longs."""
    return bytes(byte ^ 0x80 if at % 8 == 0 else byte for at, byte in enumerate(topic_id))


def capacity_for(size: int) -> int:
    """Return the capacity of a HashSet made of a collection (`new HashSet<>(collection)`)."""
    return max(int(size / 0.75) + 1, 16)


class IntSet:
    """A HashSet of numbers from 0 on, of partitions for instance.

    Args:
        numbers: put in this order.
        capacity: that it is made with; None: the default.
    """

    __slots__ = ("_capacity", "_numbers", "_peak", "_steps")

    def __init__(self, numbers: Iterable[int] = (), capacity: int | None = None) -> None:
        self._capacity = capacity
        self._numbers = dict.fromkeys(numbers)
        self._peak = len(self._numbers)
        self._steps = list(self._numbers)  # what was put, and what was removed as ~number

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        size = uncrowded_size([spread(step) for step in self._steps], self._peak, self._capacity)
        if size is None:
            return self._replayed()
        return iter(sorted(self._numbers, key=lambda number: spread(number) & (size - 1)))

    def _replayed(self) -> Iterator[int]:
        table = JavaHashMap[int](self._capacity)
        for step in self._steps:
            if step < 0:
                table.remove(~step)
            else:
                table.put(step, step)
        return iter(table)

    def add(self, number: int) -> None:
        """Put a number."""
        if number not in self._numbers:
            self._numbers[number] = None
            self._steps.append(number)
            self._peak = max(self._peak, len(self._numbers))

    def remove(self, number: int) -> bool:
        """Take a number away; tell whether it was there."""
        if number not in self._numbers:
            return False
        del self._numbers[number]
        self._steps.append(~number)
        return True


Partitions = IntSet | range
"""Partitions of a topic; the coordinator's range assignor makes ranges."""


class Target:
    """The partitions of one member: a HashMap by topic id of IntSets.

    Args:
        capacity: that it is made with; None: the default.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._order = JavaHashMap[bytes](capacity)
        self._partitions: dict[bytes, Partitions] = {}

    @classmethod
    def from_record(cls, partitions: Iterable[tuple[bytes, int]]) -> Target:
        """Make one as the coordinator does of a record."""
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in partitions:
            by_topic.setdefault(topic_id, []).append(partition)
        target = cls()
        for topic_id, numbers in by_topic.items():
            target.put(topic_id, IntSet(numbers, capacity_for(len(numbers))))
        return target

    def __iter__(self) -> Iterator[tuple[bytes, Partitions]]:
        for topic_id in self._order:
            yield topic_id, self._partitions[topic_id]

    def get(self, topic_id: bytes) -> Partitions | None:
        """Give the partitions of a topic; None where there is no such entry."""
        return self._partitions.get(topic_id)

    def put(self, topic_id: bytes, partitions: Partitions) -> None:
        """Put a topic."""
        self._order.put(topic_id, uuid_hash(topic_id), uuid_order(topic_id))
        self._partitions[topic_id] = partitions

    def add(self, topic_id: bytes, partition: int, capacity: int | None = None) -> None:
        """Add a partition; `capacity` is that of the set where it has to be made."""
        self._order.put(topic_id, uuid_hash(topic_id), uuid_order(topic_id), prepend=True)
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            self._partitions[topic_id] = partitions = IntSet((), capacity)
        assert isinstance(partitions, IntSet)
        partitions.add(partition)

    def discard(self, topic_id: bytes, partition: int) -> bool:
        """Take a partition away, but not its topic; tell whether it was there."""
        partitions = self._partitions.get(topic_id)
        assert partitions is None or isinstance(partitions, IntSet)
        return partitions is not None and partitions.remove(partition)

    def remove(self, topic_id: bytes) -> None:
        """Take a topic away, if it is there."""
        if self._partitions.pop(topic_id, None) is not None:
            self._order.remove(topic_id)

    def copy(self) -> Target:
        """Copy as `AssignorHelpers.deepCopyAssignment` does."""
        copied = Target(len(self._partitions))
        for topic_id, partitions in self:
            copied.put(topic_id, IntSet(partitions, capacity_for(len(partitions))))
        return copied


class ServerGroup:
    """A group as an assignor of the coordinator sees it.

    Args:
        members: in the order in which they are put in a map.
        topics: of the cluster.

    Attributes:
        member_ids: in hash order.
        targets: the target assignments that stand.
        subscriptions: by member, ids of its topics that exist, in Java's order.
        sizes: by member, how many topics it names, existing or not.
        is_homogeneous: whether every topic that anybody subscribes to is subscribed by all.
    """

    def __init__(self, members: Sequence[ServerMember], topics: Mapping[str, ServerTopic]) -> None:
        by_id = {member.member_id: member for member in members}
        self.member_ids = hash_order(by_id)
        self.instance_ids = {member.member_id: member.instance_id for member in members}
        ids = {name: topic.topic_id for name, topic in topics.items()}
        self._counts = {topic.topic_id: topic.partitions for topic in topics.values()}
        self.targets = {
            member_id: Target.from_record(by_id[member_id].target) for member_id in self.member_ids
        }
        orders: dict[tuple[str, ...], list[bytes]] = {}
        for member in members:
            if member.topics not in orders:
                names = hash_order(member.topics, capacity_for(len(member.topics)))
                orders[member.topics] = [ids[name] for name in names if name in ids]
        self.subscriptions = {name: orders[by_id[name].topics] for name in self.member_ids}
        self.sizes = {name: len(by_id[name].topics) for name in self.member_ids}
        counts = Counter(name for member in members for name in set(member.topics))
        self.is_homogeneous = all(count == len(members) for count in counts.values())

    def partitions(self, topic_id: bytes) -> int:
        """Give the number of partitions of a topic."""
        return self._counts[topic_id]

    def static_first(self) -> list[str]:
        """Sort member ids: static ones first, by instance id (`RangeAssignor.sortMemberIds`)."""
        return sorted(self.member_ids, key=lambda name: static_first(self.instance_ids[name], name))

    def assignment(self, targets: Mapping[str, Target]) -> ServerAssignment:
        """Give new target assignments as lists; who has none gets nothing."""
        return {
            member_id: [
                (topic_id, partition)
                for topic_id, partitions in targets.get(member_id, ())
                for partition in partitions
            ]
            for member_id in self.member_ids
        }
