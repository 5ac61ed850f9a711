"""How partitions are dealt and then moved until no member has two more than another needs to.

Source: `membersByPartitions`, `partitionLevel`, `balance`, `balanceComplex`, `reassignPartition`
(internal/sticky/sticky.go) of franz-go 1.18.0 and 1.22.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kgroup.assignor.client.franz_go.plan import Plan, panic, swap_remove
from kgroup.assignor.client.franz_go.steal import Path


class LeastLoaded:
    """Members in a heap, the one with the fewest partitions on top.

    Which of several that have as few is on top depends on how the heap came about.
    """

    def __init__(self, plan: Plan, members: Iterable[int]) -> None:
        self._plan = plan
        self._heap = list(members)
        for at in reversed(range(len(self._heap) // 2)):
            self._sink(at)

    @property
    def least(self) -> int:
        """How many partitions the member on top has."""
        return len(self._plan.given[self._heap[0]])

    def give(self, partition: int) -> None:
        """Give a partition to the member on top."""
        self._plan.give(partition, self._heap[0])
        self._sink(0)

    def _sink(self, at: int) -> None:
        heap, given = self._heap, self._plan.given
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and len(given[heap[child + 1]]) < len(given[heap[child]]):
                child += 1
            if len(given[heap[at]]) <= len(given[heap[child]]):
                return
            heap[at], heap[child] = heap[child], heap[at]
            at = child


class _Levels:
    """Members by how many partitions they have, in the order in which they came to have as many."""

    def __init__(self, plan: Plan) -> None:
        self._members: dict[int, list[int]] = {}
        for member, given in enumerate(plan.given):
            self.add(len(given), [member])

    def __len__(self) -> int:
        return len(self._members)

    @property
    def lowest(self) -> int:
        return min(self._members)

    @property
    def highest(self) -> int:
        return max(self._members)

    def __getitem__(self, level: int) -> list[int]:
        return self._members[level]

    def add(self, level: int, members: Iterable[int]) -> None:
        self._members.setdefault(level, []).extend(members)

    def leave(self, level: int, member: int) -> None:
        """Take one out, if it is there: it is not any more once it was found to get nothing."""
        members = self._members.get(level)
        if members is None:
            raise panic("invalid memory address or nil pointer dereference")
        if member in members:
            swap_remove(members, member)
        self._drop_if_empty(level)

    def leave_first(self, level: int, count: int) -> list[int]:
        """Take out so many that have been there longest."""
        members = self._members[level]
        first = members[:count]
        del members[:count]
        self._drop_if_empty(level)
        return first

    def _drop_if_empty(self, level: int) -> None:
        if not self._members[level]:
            del self._members[level]


def balance(plan: Plan) -> None:
    """Take from those who have most, and give to those who have least: their last partitions."""
    levels = _Levels(plan)
    while (highest := levels.highest) > (lowest := levels.lowest) + 1:
        count = min(len(levels[lowest]), len(levels[highest]))
        takers = levels.leave_first(lowest, count)
        givers = levels.leave_first(highest, count)
        for taker, giver in zip(takers, givers, strict=True):
            plan.given[taker].append(plan.given[giver].pop())
        levels.add(lowest + 1, takers)
        levels.add(highest - 1, givers)


class _Graph(Protocol):
    def find(self, taker: int) -> Path | None: ...

    def move(self, partition: int, taker: int) -> None: ...


def balance_by_stealing(plan: Plan, graph: _Graph) -> None:
    """Let those who have least get one more, each as long as there is a way to one with two more.

    A partition may come by way of other members that each pass on another one.
    """
    levels = _Levels(plan)
    while len(levels) > 1:
        lowest = levels.lowest
        if levels.highest <= lowest + 1:
            return
        low, high = levels[lowest], levels[levels.highest]
        while low and high:
            member = low[0]
            path = graph.find(member)
            if path is None:
                levels.leave(lowest, member)  # it will not get more
                continue
            for giver, taker, partition in path:
                _move(plan, levels, giver, taker, partition)
                graph.move(partition, taker)


def _move(plan: Plan, levels: _Levels, giver: int, taker: int, partition: int) -> None:
    before = len(plan.given[giver]), len(plan.given[taker])
    swap_remove(plan.given[giver], partition)
    plan.given[taker].append(partition)
    for member, level in zip((giver, taker), before, strict=True):
        levels.leave(level, member)
        levels.add(len(plan.given[member]), [member])
