"""What a coordinator knows when it assigns for a consumer or share group, in Java's order.

Its assignors walk the target assignment that stands, which was read from records: a HashMap by
topic id of HashSets of partitions. Where they change a member's, they copy it first, which gives
the tables other sizes.

Source: `TargetAssignmentBuilder`, `GroupSpecImpl`, `TopicIds`, `AssignorHelpers` of
group-coordinator 4.3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from kgroup.assignor.base import Assignment, TopicPartition, static_first
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import (
    TABLE,
    JavaHashMap,
    hash_order,
    map_order,
    spread,
    uncrowded_size,
)

_PUT, _ADD, _REMOVE = range(3)
_KIND = 3
_FEW = 7  # keys that neither let it grow nor crowd one of its buckets
_BITS = 2  # of a step, below the number of its topic


def capacity_for(size: int) -> int:
    """Return the capacity of a HashSet made of a collection (`new HashSet<>(collection)`)."""
    return max(int(size / 0.75) + 1, TABLE)


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
        self._steps: list[int] | None = None  # once one was removed: all, removals as ~number

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        if len(self._numbers) < 2:
            return iter(list(self._numbers))
        size: int | None = TABLE
        if self._capacity is not None or self._steps is not None or self._peak > _FEW:
            put = [step for step in self._steps or self._numbers if step >= 0]
            removed = len(put) - len(self._numbers)
            size = uncrowded_size([n ^ n >> 16 for n in put], self._peak, self._capacity, removed)
        if size is None:
            return iter(_replayed(tuple(self._steps or self._numbers), self._capacity))
        if max(self._numbers) < min(size, 1 << 16):
            return iter(sorted(self._numbers))
        return iter(sorted(self._numbers, key=lambda n: (n ^ n >> 16) & (size - 1)))

    def add(self, numbers: Iterable[int]) -> None:
        """Put numbers."""
        if self._steps is not None:
            self._steps += [number for number in numbers if number not in self._numbers]
        self._numbers.update(dict.fromkeys(numbers))
        self._peak = max(self._peak, len(self._numbers))

    def remove(self, number: int) -> None:
        """Take away a number that is there."""
        if self._steps is None:
            self._steps = list(self._numbers)
        self._steps.append(~number)
        del self._numbers[number]


@lru_cache(maxsize=1 << 12)  # many sets are alike: those of every 64th partition of a topic, say
def _replayed(steps: tuple[int, ...], capacity: int | None) -> list[int]:
    """Return the order of one set; a step is a number that is put, or removed: ~number."""
    table = JavaHashMap[int](capacity)
    for step in steps:
        if step < 0:
            table.remove(~step)
        else:
            table.put(step, step)
    return list(table)


Partitions = IntSet | range
"""Partitions of a topic; the coordinator's range assignor makes ranges.

A set that holds one number, and never held more, is a range too: there may be a million of them.
"""


def int_set(numbers: Collection[int], capacity: int | None) -> Partitions:
    """Make a HashSet of numbers, or of what is one already."""
    if isinstance(numbers, range):
        return numbers
    if len(numbers) == 1 and (capacity is None or capacity == TABLE):
        (number,) = numbers
        return range(number, number + 1)
    return IntSet(numbers, capacity)


def copied_set(numbers: Collection[int]) -> Partitions:
    """Copy numbers into a HashSet (`new HashSet<>(collection)`)."""
    return int_set(numbers, capacity_for(len(numbers)) if len(numbers) > _FEW else None)


def writable(numbers: Partitions) -> IntSet:
    """Return a HashSet that can be changed in the place of what `int_set` made."""
    return numbers if isinstance(numbers, IntSet) else IntSet(numbers)


class Target:
    """The partitions of one member: a HashMap of IntSets by the number of the topic.

    Args:
        group: that the member is in.
        capacity: that it is made with; None: the default.
    """

    __slots__ = ("_capacity", "_group", "_partitions", "_steps")

    def __init__(self, group: ServerGroup, capacity: int | None = None) -> None:
        self._group = group
        self._capacity = capacity
        self._partitions: dict[int, Partitions] = {}
        self._steps: list[int] = []  # what was done to which topic, from which its order follows

    @classmethod
    def from_record(cls, group: ServerGroup, partitions: Iterable[tuple[int, int]]) -> Target:
        """Make one as the coordinator does of a record."""
        by_topic: dict[int, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        target = cls(group)
        target.put({topic: copied_set(numbers) for topic, numbers in by_topic.items()})
        return target

    def __iter__(self) -> Iterator[tuple[int, Partitions]]:
        for topic in self._group.order(self._steps, self._capacity):
            yield topic, self._partitions[topic]

    def get(self, topic: int) -> Partitions | None:
        """Return the partitions of a topic; None where there is no such entry."""
        return self._partitions.get(topic)

    def put(self, partitions: Mapping[int, Partitions]) -> None:
        """Put topics that are not there."""
        self._steps += [topic << _BITS | _PUT for topic in partitions]
        self._partitions.update(partitions)

    def add(self, partitions: Sequence[tuple[int, int]], capacity: int | None = None) -> None:
        """Add partitions, one by one; `capacity` is that of sets that have to be made."""
        self._steps += [topic << _BITS | _ADD for topic, _ in partitions]
        by_topic: dict[int, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        for topic, numbers in by_topic.items():
            found = self._partitions.get(topic)
            if found is None:
                self._partitions[topic] = int_set(numbers, capacity)
            else:
                self._partitions[topic] = changed = writable(found)
                changed.add(numbers)

    def discard(self, topic: int, partition: int) -> None:
        """Take a partition away, if it is there, but not its topic."""
        partitions = self._partitions.get(topic)
        if partitions and partition in partitions:
            self._partitions[topic] = changed = writable(partitions)
            changed.remove(partition)

    def remove(self, topic: int) -> None:
        """Take a topic away, if it is there."""
        if self._partitions.pop(topic, None) is not None:
            self._steps.append(topic << _BITS | _REMOVE)

    def copy(self) -> Target:
        """Copy as `AssignorHelpers.deepCopyAssignment` does."""
        copied = Target(self._group, len(self._partitions))
        copied.put({topic: copied_set(partitions) for topic, partitions in self})
        return copied


class ServerGroup:
    """A group as an assignor of the coordinator sees it; topics are numbered.

    Args:
        spec: of a consumer or share group, with ids of all its topics.

    Attributes:
        member_ids: in hash order.
        subscriptions: by member, its topics that exist, in Java's order.
        sizes: by member, how many topics it names, existing or not.
        names: of the topics, by number.
        hashes: of their ids.
        is_homogeneous: whether every topic that anybody subscribes to is subscribed by all.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._members = {member.member_id: member for member in spec.members}
        self.member_ids = hash_order(member.member_id for member in spec.members_as_sent)
        self.names = list(spec.topic_ids)
        self._ids = list(spec.topic_ids.values())
        self._numbers = {name: topic for topic, name in enumerate(self.names)}
        self.hashes = [_uuid_hash(topic_id) for topic_id in self._ids]
        self._spreads = [spread(each) for each in self.hashes]
        self._counts = {
            self._numbers[name]: metadata.partitions for name, metadata in spec.topics.items()
        }
        self._orders: dict[tuple[int | None, tuple[int, ...]], Sequence[int]] = {}
        orders: dict[tuple[str, ...], list[int]] = {}
        for member in spec.members:
            if member.topics not in orders:
                names = hash_order(member.topics, capacity_for(len(member.topics)))
                orders[member.topics] = [
                    self._numbers[name] for name in names if name in spec.topics
                ]
        self.subscriptions = {name: orders[self._members[name].topics] for name in self.member_ids}
        self.sizes = {name: len(self._members[name].topics) for name in self.member_ids}
        counts: Counter[str] = Counter()
        for topics, members in Counter(member.topics for member in spec.members).items():
            counts.update(dict.fromkeys(topics, members))
        self.is_homogeneous = all(count == len(self._members) for count in counts.values())

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """The target assignments that stand, by member."""
        return {
            member_id: Target.from_record(
                self, [(self._numbers[name], p) for name, p in self._members[member_id].owned or ()]
            )
            for member_id in self.member_ids
        }

    @cached_property
    def owned(self) -> Mapping[int, set[int]]:
        """What is in any target assignment that stands, by topic."""
        owned: dict[int, set[int]] = defaultdict(set)
        for member in self._members.values():
            for name, partition in member.owned or ():
                owned[self._numbers[name]].add(partition)
        return owned

    def records(self) -> list[Sequence[TopicPartition]]:
        """Give the target assignments that stand, member by member, as their records have them."""
        return [self._members[member_id].owned or () for member_id in self.member_ids]

    def partitions(self, topic: int) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def by_id(self, topic: int) -> bytes:
        """Return a sort key: by id, as `Uuid.compareTo` does, by two signed longs."""
        topic_id = self._ids[topic]
        return bytes(byte ^ 0x80 if at % 8 == 0 else byte for at, byte in enumerate(topic_id))

    def put_order(self, topics: Iterable[int], capacity: int | None = None) -> Sequence[int]:
        """Give topics in the order of a map into which they are put one by one."""
        return self.order([topic << _BITS | _PUT for topic in dict.fromkeys(topics)], capacity)

    def order(self, steps: Sequence[int], capacity: int | None) -> Sequence[int]:
        """Return the topics of a map in its order; many members have the same.

        Args:
            steps: of `Target`.
            capacity: that the map is made with; None: the default.
        """
        key = capacity, tuple(steps)
        if key not in self._orders:
            self._orders[key] = self._find_order(steps, capacity)
        return self._orders[key]

    def _find_order(self, steps: Sequence[int], capacity: int | None) -> Sequence[int]:
        kinds = {step & _KIND for step in steps}
        if len(kinds) == 1:
            return map_order(
                [step >> _BITS for step in steps],
                self.hashes.__getitem__,
                capacity,
                prepend=kinds == {_ADD},
                order=self.by_id,
            )
        position: dict[int, int] = {}  # in its bucket's chain: behind all others, or before
        put: list[int] = []
        peak = 0
        for step in steps:
            topic, what = step >> _BITS, step & _KIND
            if what == _REMOVE:
                del position[topic]
                continue
            if what == _ADD:
                peak = max(peak, len(position))
            if topic not in position:
                put.append(self._spreads[topic])
                position[topic] = -len(put) if what == _ADD else len(put)
            if what == _PUT:
                peak = max(peak, len(position))
        size = uncrowded_size(put, peak, capacity, len(put) - len(position))
        if size is not None:
            return sorted(
                position, key=lambda topic: (self._spreads[topic] & (size - 1), position[topic])
            )
        table = JavaHashMap[int](capacity)
        for step in steps:
            topic, what = step >> _BITS, step & _KIND
            if what == _REMOVE:
                table.remove(topic)
            else:
                table.put(topic, self.hashes[topic], self.by_id(topic), prepend=what == _ADD)
        return list(table)

    def static_first(self) -> list[str]:
        """Sort member ids: static ones first, by instance id (`RangeAssignor.sortMemberIds`)."""
        return sorted(
            self.member_ids, key=lambda name: static_first(self._members[name].instance_id, name)
        )

    def assignment(self, targets: Mapping[str, Target]) -> Assignment:
        """Give new target assignments as lists; who has none gets nothing."""
        names = self.names
        return {
            member_id: [
                (names[topic], partition)
                for topic, partitions in targets.get(member_id, ())
                for partition in partitions
            ]
            for member_id in self.member_ids
        }


def _uuid_hash(topic_id: bytes) -> int:
    """Return ``Uuid.hashCode`` of Kafka."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return both >> 32 ^ both & 0xFFFFFFFF
