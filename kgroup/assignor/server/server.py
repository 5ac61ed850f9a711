"""The input of the coordinator's assignors for consumer and share groups, in Java's order.

The assignors iterate over the current target assignment, which was read from records: a HashMap by
topic id of HashSets of partitions. Before they change a member's target they copy it, which changes
the sizes of the tables.

Source: `TargetAssignmentBuilder`, `GroupSpecImpl`, `TopicIds`, `AssignorHelpers` of
group-coordinator 4.3.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from kgroup.assignor.base import Assignment, static_first
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import (
    CROWD,
    TABLE,
    TREE_TABLE,
    JavaHashMap,
    hash_order,
    map_order,
    spread,
    table_size,
    uncrowded_size,
)
from kgroup.model.cluster import TopicPartition

_PUT, _ADD, _REMOVE = range(3)
_KIND = 3
_FEW = 7  # this number of keys neither doubles the table nor crowds a bucket
_BITS = 2  # low bits of a step, below the topic number
MANY = 1_000
"""From so many numbers on, NumPy computes the order of a set sooner."""


def capacity_for(size: int) -> int:
    """Return the capacity of a HashSet copied from a collection (`new HashSet<>(collection)`)."""
    return max(int(size / 0.75) + 1, TABLE)


class IntSet:
    """A HashSet of non-negative integers, such as partitions.

    Args:
        numbers: initial numbers, in the order of insertion.
        capacity: initial capacity; None for the default.
    """

    __slots__ = ("_capacity", "_many", "_numbers", "_peak", "_removed", "_removed_before", "_steps")

    def __init__(self, numbers: Iterable[int] = (), capacity: int | None = None) -> None:
        self._capacity = capacity
        self._numbers = dict.fromkeys(numbers)
        self._peak = len(self._numbers)
        self._steps: list[int] | None = None  # after a removal: all steps, removals as ~number
        self._removed = self._removed_before = 0  # removals: all, and those before the last number
        self._many: Sequence[int] | None = None  # the order of many numbers, once it was asked for

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        if len(self._numbers) < 2:
            return iter(list(self._numbers))
        if len(self._numbers) > MANY:
            if self._many is None:
                self._many = self._order_of_many()
            return iter(self._many)
        size: int | None = TABLE
        if self._capacity is not None or self._steps is not None or self._peak > _FEW:
            put = [step for step in self._steps or self._numbers if step >= 0]
            removed = self._removed_before
            size = uncrowded_size([n ^ n >> 16 for n in put], self._peak, self._capacity, removed)
        if size is None:
            return iter(_replayed_few(tuple(self._steps or self._numbers), self._capacity))
        if max(self._numbers) < min(size, 1 << 16):
            return iter(sorted(self._numbers))
        return iter(sorted(self._numbers, key=lambda n: (n ^ n >> 16) & (size - 1)))

    def _order_of_many(self) -> list[int]:
        import numpy as np

        numbers = np.fromiter(self._numbers, np.int64)
        steps = numbers if self._steps is None else np.array(self._steps, np.int64)
        put = steps[steps >= 0]
        size = uncrowded_size(put ^ put >> 16, self._peak, self._capacity, self._removed_before)
        if size is None:
            return _replayed([*(self._steps or self._numbers)], self._capacity)
        buckets = (numbers ^ numbers >> 16) & (size - 1)
        in_order: list[int] = numbers[np.argsort(buckets, kind="stable")].tolist()
        return in_order

    def add(self, numbers: Iterable[int]) -> None:
        """Insert numbers."""
        self._many = None
        if self._steps is not None:
            self._removed_before = self._removed
            self._steps += [number for number in numbers if number not in self._numbers]
        self._numbers.update(dict.fromkeys(numbers))
        self._peak = max(self._peak, len(self._numbers))

    def remove(self, number: int) -> None:
        """Remove a number that is present."""
        self._many = None
        if self._steps is None:
            self._steps = list(self._numbers)
        self._steps.append(~number)
        self._removed += 1
        del self._numbers[number]


@lru_cache(maxsize=1 << 12)  # many sets are equal, such as those of every 64th partition
def _replayed_few(steps: tuple[int, ...], capacity: int | None) -> list[int]:
    return _replayed(steps, capacity)


def _replayed(steps: Sequence[int], capacity: int | None) -> list[int]:
    """Return the order of one set; a step is an inserted number, or ~number for a removed one."""
    size = table_size(capacity)
    if size < TREE_TABLE or len(steps) > size * 3 // 4:
        return _order_after(steps, steps, capacity)
    import numpy as np

    # The table never doubles: no bucket depends on another one.
    changes = np.array(steps, np.int64)
    numbers = np.where(changes < 0, ~changes, changes)
    buckets = (numbers ^ numbers >> 16) & (size - 1)
    by_bucket: list[int] = changes[np.argsort(buckets, kind="stable")].tolist()
    counts = np.bincount(buckets, minlength=size)
    is_special = counts > CROWD
    is_special[buckets[changes < 0]] = True
    ends = np.cumsum(counts)
    order: list[int] = []
    done = 0
    for begin, end in np.column_stack((ends - counts, ends))[is_special].tolist():
        order += by_bucket[done:begin]
        order += _bucket_order(by_bucket[begin:end])
        done = end
    return order + by_bucket[done:]


def _bucket_order(steps: Sequence[int]) -> list[int]:
    """Return the order of one bucket, which depends on the ranks of the hashes only."""
    hashes = sorted({step ^ step >> 16 for step in steps if step >= 0})
    ranks = {spread(code): rank for rank, code in enumerate(hashes)}  # `spread` is its own inverse
    numbers = list(ranks)
    ranked = tuple([ranks[step] if step >= 0 else ~ranks[~step] for step in steps])
    return [numbers[rank] for rank in _rank_order(ranked)]


@lru_cache(maxsize=1 << 12)
def _rank_order(steps: tuple[int, ...]) -> list[int]:
    capacity = max(capacity_for(len(steps)), TREE_TABLE)
    codes = [spread(max(step, 0) * table_size(capacity)) for step in steps]
    return _order_after(steps, codes, capacity)


def _order_after(
    steps: Iterable[int], hash_codes: Iterable[int], capacity: int | None
) -> list[int]:
    table = JavaHashMap[int](capacity)
    for step, code in zip(steps, hash_codes, strict=True):
        if step < 0:
            table.remove(~step)
        else:
            table.put(step, code)
    return list(table)


Partitions = IntSet | range
"""Partitions of a topic; the coordinator's range assignor creates ranges.

A set of one number that never had more is also a range, because there may be a million of them.
"""


def int_set(numbers: Collection[int], capacity: int | None) -> Partitions:
    """Return a HashSet of numbers; a range stays a range."""
    if isinstance(numbers, range):
        return numbers
    if len(numbers) == 1 and (capacity is None or capacity == TABLE):
        (number,) = numbers
        return range(number, number + 1)
    return IntSet(numbers, capacity)


def copied_set(numbers: Collection[int]) -> Partitions:
    """Return a copy as a HashSet (`new HashSet<>(collection)`)."""
    return int_set(numbers, capacity_for(len(numbers)) if len(numbers) > _FEW else None)


def writable(numbers: Partitions) -> IntSet:
    """Return a HashSet that can be changed, for a result of `int_set`."""
    return numbers if isinstance(numbers, IntSet) else IntSet(numbers)


class Target:
    """The target assignment of a member: a HashMap of IntSets by topic number.

    Args:
        group: the member's group.
        capacity: initial capacity; None for the default.
    """

    __slots__ = ("_capacity", "_group", "_partitions", "_steps")

    def __init__(self, group: ServerGroup, capacity: int | None = None) -> None:
        self._group = group
        self._capacity = capacity
        self._partitions: dict[int, Partitions] = {}
        self._steps: list[int] = []  # operations on topics, which determine the order

    @classmethod
    def from_record(cls, group: ServerGroup, partitions: Iterable[tuple[int, int]]) -> Target:
        """Return the target of a record, as the coordinator reads it."""
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
        """Return the partitions of a topic; None if there is no entry."""
        return self._partitions.get(topic)

    def put(self, partitions: Mapping[int, Partitions]) -> None:
        """Insert topics that are not present."""
        self._steps += [topic << _BITS | _PUT for topic in partitions]
        self._partitions.update(partitions)

    def add(self, partitions: Sequence[tuple[int, int]], capacity: int | None = None) -> None:
        """Add partitions, one by one; `capacity` is the capacity of new sets."""
        self._steps += [topic << _BITS | _ADD for topic, _ in partitions]
        by_topic: dict[int, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        for topic, numbers in by_topic.items():
            topic_partitions = self._partitions.get(topic)
            if topic_partitions is None:
                self._partitions[topic] = int_set(numbers, capacity)
            else:
                self._partitions[topic] = changed = writable(topic_partitions)
                changed.add(numbers)

    def discard(self, topic: int, partition: int) -> None:
        """Remove a partition if it is present; keep its topic."""
        partitions = self._partitions.get(topic)
        if partitions and partition in partitions:
            self._partitions[topic] = changed = writable(partitions)
            changed.remove(partition)

    def remove(self, topic: int) -> None:
        """Remove a topic if it is present."""
        if self._partitions.pop(topic, None) is not None:
            self._steps.append(topic << _BITS | _REMOVE)

    def copy(self) -> Target:
        """Return a copy, as `AssignorHelpers.deepCopyAssignment` does."""
        copied = Target(self._group, len(self._partitions))
        copied.put({topic: copied_set(partitions) for topic, partitions in self})
        return copied


PREFERENCE = ("uniform", "range")
"""Assignors in the order of the coordinator's table, which breaks ties of votes."""


def preferred_assignor(votes: Mapping[str | None, int], last: str | None = None) -> str | None:
    """Return the assignor that most members prefer; None if no member prefers one.

    The first in the coordinator's table wins a tie, where a new entry comes first
    (`HashMap.compute`). Source: `ConsumerGroup.computePreferredServerAssignor`.

    Args:
        votes: number of members by what they prefer, without the one whose heartbeat lets the
            coordinator assign.
        last: what that one prefers.
    """
    counts = Counter(votes)
    names = PREFERENCE if last is None or counts[last] else (last, *PREFERENCE)
    counts[last] += 1
    return max((name for name in names if counts[name]), key=counts.__getitem__, default=None)


def is_homogeneous(
    members: int, regexes: Counter[str], named: Counter[str], matched: Counter[str]
) -> bool:
    """Return whether all members have the same subscription (`ConsumerGroup.subscriptionType`).

    Members with regular expressions do if all have the same expression and no topic names;
    different expressions differ even if they match the same topics.

    Args:
        members: number of members.
        regexes: number of members by regular expression.
        named: number of members by topic name.
        matched: number of expressions by matching topic.
    """
    if not regexes:
        return all(count == members for count in named.values())
    if members not in regexes.values():
        return False
    return not named and all(count == 1 for count in matched.values())


class ServerGroup:
    """A group as an assignor of the coordinator sees it; topics are numbered.

    Args:
        spec: a consumer or share group, with the ids of all its topics.

    Attributes:
        member_ids: member ids in hash order.
        subscriptions: existing topics of each member, in Java's order.
        sizes: number of topics in each member's subscription, existing or not.
        names: topic names by number.
        hashes: hash codes of the topic ids.
        is_homogeneous: all members have the same subscription.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._members = {member.member_id: member for member in spec.members}
        self.member_ids = hash_order(member.member_id for member in spec.members_as_sent)
        self.names = list(spec.topic_ids)
        self._ids = list(spec.topic_ids.values())
        self._numbers = {name: topic for topic, name in enumerate(self.names)}
        self.hashes = [_uuid_hash(topic_id) for topic_id in self._ids]
        self._spreads = [spread(code) for code in self.hashes]
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
        named: Counter[str] = Counter()
        regexes = Counter(member.regex for member in spec.members if member.regex is not None)
        subscribed = Counter((member.topics, member.matched) for member in spec.members)
        for (topics, by_regex), members in subscribed.items():
            by_name = set(topics).difference(by_regex) if by_regex else topics
            named.update(dict.fromkeys(by_name, members))
        expressions = {(member.regex, member.matched) for member in spec.members if member.regex}
        matched = Counter(topic for _, topics in expressions for topic in topics)
        self.is_homogeneous = is_homogeneous(len(self._members), regexes, named, matched)

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """Current target assignment of each member."""
        return {
            member_id: Target.from_record(
                self, [(self._numbers[name], p) for name, p in self._members[member_id].owned or ()]
            )
            for member_id in self.member_ids
        }

    @cached_property
    def owned(self) -> Mapping[int, set[int]]:
        """Partitions in any current target assignment, by topic."""
        owned: dict[int, set[int]] = defaultdict(set)
        for member in self._members.values():
            for name, partition in member.owned or ():
                owned[self._numbers[name]].add(partition)
        return owned

    def records(self) -> list[Sequence[TopicPartition]]:
        """Return the current target assignments by member, in the order of their records."""
        return [self._members[member_id].owned or () for member_id in self.member_ids]

    def partitions(self, topic: int) -> int:
        """Return the number of partitions of a topic."""
        return self._counts[topic]

    def by_id(self, topic: int) -> bytes:
        """Return a sort key of a topic in the order of `Uuid.compareTo`: two signed longs."""
        topic_id = self._ids[topic]
        return bytes(byte ^ 0x80 if at % 8 == 0 else byte for at, byte in enumerate(topic_id))

    def put_order(self, topics: Iterable[int], capacity: int | None = None) -> Sequence[int]:
        """Return topics in the order of a map into which they are inserted one by one."""
        return self.order([topic << _BITS | _PUT for topic in dict.fromkeys(topics)], capacity)

    def order(self, steps: Sequence[int], capacity: int | None) -> Sequence[int]:
        """Return the topics of a map in its order; cached, since many members have the same steps.

        Args:
            steps: steps of a `Target`.
            capacity: initial capacity of the map; None for the default.
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
        position: dict[int, int] = {}  # in its bucket's chain: last, or first
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
        """Return member ids, static ones first by instance id (`RangeAssignor.sortMemberIds`)."""
        return sorted(
            self.member_ids, key=lambda name: static_first(self._members[name].instance_id, name)
        )

    def assignment(self, targets: Mapping[str, Target]) -> Assignment:
        """Return new target assignments as lists; members without a target get no partitions."""
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
