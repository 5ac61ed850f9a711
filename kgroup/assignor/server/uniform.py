"""Uniform, the default assignor of consumer groups: balanced first, then with the fewest moves.

If members have different subscriptions, they keep their partitions where possible. Free partitions
go to the subscribers with the fewest partitions. Then, topic by topic, partitions move from the
subscribers with the most to those with the fewest, in at most 16 rounds over all topics.

Source: `UniformAssignor` of group-coordinator 4.3.1 with `UniformHomogeneousAssignmentBuilder`
(all members have the same subscription) and `UniformHeterogeneousAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import filterfalse, repeat

from kgroup.assignor.base import AssignorError
from kgroup.assignor.server.server import ServerGroup, Target, capacity_for

_MOST_ROUNDS = 16
_NOBODY = -1


def _assign_mixed(group: ServerGroup) -> dict[str, Target]:
    """Return the new target assignments for different subscriptions.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    builder = _Builder(group)
    if not builder.owners:
        return {}
    builder.keep()
    builder.assign_free()
    builder.balance()
    return dict(zip(group.member_ids, builder.targets, strict=True))


class _Builder:
    """Builds an assignment; members are numbered in hash order.

    Attributes:
        owners: owner of each partition, by topic.
        targets: target of each member.
    """

    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._subscribers: dict[int, list[int]] = {}
        for at, member_id in enumerate(group.member_ids):
            for topic in group.subscriptions[member_id]:
                self._subscribers.setdefault(topic, []).append(at)
        self.owners = {topic: [_NOBODY] * group.partitions(topic) for topic in self._subscribers}
        self.targets: list[Target] = []
        self._is_copy = [False] * len(group.member_ids)
        self._loads = [0] * len(group.member_ids)

    def keep(self) -> None:
        """Keep the partitions of each member's target to whose topics it subscribes."""
        for at, member_id in enumerate(self._group.member_ids):
            target = self._group.targets[member_id]
            self.targets.append(target)
            subscribed = set(self._group.subscriptions[member_id])
            for topic, partitions in target:
                if topic not in subscribed:
                    self._writable(at).remove(topic)
                    continue
                self._loads[at] += len(partitions)
                owners = self.owners[topic]
                for partition in partitions:
                    if partition >= len(owners):
                        raise AssignorError(
                            "ArrayIndexOutOfBoundsException",
                            f"Index {partition} out of bounds for length {len(owners)}",
                        )
                    owners[partition] = at

    def assign_free(self) -> None:
        """Assign free partitions to the subscribers with the fewest partitions."""
        free = {
            topic: [partition for partition, at in enumerate(owners) if at == _NOBODY]
            for topic, owners in self.owners.items()
        }
        for topic in self._sorted(topic for topic in free if free[topic]):
            balancer = _Balancer(self._subscribers[topic], self._loads)
            for partition in free[topic]:
                self._assign(topic, partition, balancer.next_least())

    def balance(self) -> None:
        """Balance topic by topic until a whole round has moved nothing."""
        shared = self._sorted(
            topic for topic, members in self._subscribers.items() if len(members) > 1
        )
        last: int | None = None  # the last topic with a move
        for _ in range(_MOST_ROUNDS):
            for index, topic in enumerate(shared):
                if index == last:
                    return
                if self._balance(topic) or last is None:
                    last = index

    def _sorted(self, topics: Iterable[int]) -> list[int]:
        """Sort topics by partitions per subscriber (descending), subscribers, and topic id."""

        def key(topic: int) -> tuple[float, int, bytes]:
            count = len(self._subscribers[topic])
            return -self._group.partitions(topic) / count, count, self._group.by_id(topic)

        return sorted(topics, key=key)

    def _balance(self, topic: int) -> bool:
        """Move partitions from most to least loaded subscribers; return whether any moved."""
        balancer = _Balancer(self._subscribers[topic], self._loads)
        if balancer.imbalance <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, at in enumerate(self.owners[topic]):
            owned.setdefault(at, []).append(partition)
        has_moved = False
        while not balancer.is_balanced:
            most: int | None
            while (most := balancer.next_most()) is not None and not owned.get(most):
                balancer.exclude_most()
            if most is None:
                break
            partition = owned[most].pop()
            least = balancer.next_least()
            if balancer.is_balanced:
                break
            self._assign(topic, partition, least)
            has_moved = True
        return has_moved

    def _assign(self, topic: int, partition: int, to: int) -> None:
        owner = self.owners[topic][partition]
        if owner != _NOBODY:
            target = self._writable(owner)
            target.discard(topic, partition)
            if not target.get(topic):
                target.remove(topic)
            self._loads[owner] -= 1
        count = len(self._subscribers[topic])
        share = -(-self._group.partitions(topic) // count)
        self._writable(to).add([(topic, partition)], int(share / 0.75 + 1))
        self.owners[topic][partition] = to
        self._loads[to] += 1

    def _writable(self, at: int) -> Target:
        if not self._is_copy[at]:
            self._is_copy[at] = True
            self.targets[at] = self.targets[at].copy()
        return self.targets[at]


class _Balancer:
    """Selects the least loaded members for additions, and the most loaded ones for removals.

    Members are sorted by load. Each end has a range of members with the same load. When every
    member of a range has got (or given) a partition, the range grows by the members with the new
    load.

    Source: `UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer`.

    Attributes:
        imbalance: initial difference between the highest and the lowest load.
    """

    def __init__(self, members: Sequence[int], loads: Sequence[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda at: (loads[at], at))
        lowest, highest = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance = highest - lowest
        self._least_end = 0
        self._least_load = lowest - 1
        self._next_least = 0
        self._most_start = self._most_end = len(members)
        self._most_load = highest + 1
        self._next_most = len(members) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether the loads at the two ends differ by at most one."""
        return self._most_load - self._least_load <= 1

    def next_least(self) -> int:
        """Return the member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while (
                self._least_end < len(self._members)
                and self._loads[self._members[self._least_end]] == self._least_load
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most(self) -> int | None:
        """Return the member that gives the next partition; None if there is none."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # the whole range was excluded: continue with the next load
                self._most_load = self._loads[self._members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while (
                self._most_start > 0
                and self._loads[self._members[self._most_start - 1]] == self._most_load
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most(self) -> None:
        """Exclude the last member of `next_most` from the range."""
        at, last = self._next_most + 1, self._most_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._most_end -= 1


def assign_targets(group: ServerGroup) -> Mapping[str, Target]:
    """Return the new target assignments; members without one get no partitions.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    return _assign_evenly(group) if group.is_homogeneous else _assign_mixed(group)


def _assign_evenly(group: ServerGroup) -> dict[str, Target]:
    """Return the new target assignments for equal subscriptions.

    Source: `UniformHomogeneousAssignmentBuilder`.
    """
    first = group.member_ids[0]
    subscribed = group.put_order(group.subscriptions[first], capacity_for(group.sizes[first]))
    if not subscribed:
        return {}
    wanted = frozenset(subscribed)
    free: list[tuple[int, int]] = []
    for topic in subscribed:
        taken = group.owned.get(topic, ())
        numbers = filterfalse(taken.__contains__, range(group.partitions(topic)))
        free += zip(repeat(topic), numbers)
    total = sum(group.partitions(topic) for topic in subscribed)
    least, extras = divmod(total, len(group.member_ids))
    targets: dict[str, Target] = {}
    room: list[tuple[str, int]] = []
    for index, member_id in enumerate(group.member_ids):
        quota = least + (extras > 0)
        has_extra = extras > 0
        target = group.targets[member_id]
        changed: Target | None = None
        for topic, partitions in target:
            if topic not in wanted:
                changed = changed or target.copy()
                changed.remove(topic)
            elif len(partitions) <= quota:
                quota -= len(partitions)
            else:
                revoked = list(partitions)[quota:]
                quota = 0
                changed = changed or target.copy()
                for partition in revoked:
                    changed.discard(topic, partition)
                    free.append((topic, partition))
                if not changed.get(topic):
                    changed.remove(topic)
        if quota > 0 and has_extra and len(group.member_ids) - index > extras:
            quota -= 1  # left to a later member, unless all of them must take an extra one
            has_extra = False
        if quota > 0:
            room.append((member_id, quota))
        extras -= has_extra
        targets[member_id] = changed or target
        if changed is None and quota > 0:
            targets[member_id] = target.copy()
    given = 0
    for member_id, quota in room:
        targets[member_id].add(free[given : given + quota])
        given += quota
    if given < len(free):
        raise AssignorError("PartitionAssignorException", "Partitions were left unassigned")
    return targets
