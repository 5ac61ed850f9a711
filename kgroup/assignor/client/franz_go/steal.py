"""From whom a member with few partitions can get one, by way of others if need be.

Source: `graph.findSteal` (internal/sticky/graph.go) of franz-go 1.22.3, and of 1.18.0.
"""

from __future__ import annotations

import heapq

from kgroup.assignor.client.franz_go.plan import Plan, swap_remove

Path = list[tuple[int, int, int]]
"""Moves in the order in which they are made: from a member, to a member, the partition."""


class StealGraph:
    """Which member has which partitions of a topic."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._had: list[dict[int, list[int]]] = [{} for _ in plan.subscribers]
        for partition, owner in enumerate(plan.owner):
            if owner is not None:
                self._had[plan.topic_of[partition]].setdefault(owner, []).append(partition)

    def find(self, taker: int) -> Path | None:
        """Find the way to the member with the most, if it has two more than the taker at least.

        Members are visited by how much they have, then by their distance, then in turn. Whoever is
        found first to take from a member takes, and of a topic the partition that comes first.
        """
        given = self._plan.given
        heap = [(-len(given[taker]), 0, taker)]
        found: dict[int, tuple[int, int] | None] = {taker: None}
        seen: set[int] = set()  # topics whose owners are all found
        while heap:
            less, distance, member = heapq.heappop(heap)
            if -less > len(given[taker]) + 1:
                return _path(found, member)
            for topic in self._plan.wanted[member]:
                if topic in seen:
                    continue
                seen.add(topic)
                for other, partitions in self._had[topic].items():
                    if partitions and other not in found:
                        found[other] = member, partitions[0]
                        heapq.heappush(heap, (-len(given[other]), distance + 1, other))
        return None

    def move(self, partition: int, taker: int) -> None:
        """Take note of a move."""
        had = self._had[self._plan.topic_of[partition]]
        owner = self._plan.owner[partition]
        assert owner is not None
        swap_remove(had[owner], partition)
        self._plan.owner[partition] = taker
        had.setdefault(taker, []).append(partition)


def _path(found: dict[int, tuple[int, int] | None], giver: int) -> Path:
    path: Path = []
    while (way := found[giver]) is not None:
        taker, partition = way
        path.append((giver, taker, partition))
        giver = taker
    return path


class _Node:
    """A member that the search has reached.

    Attributes:
        way: to whom it can give which partition; None of the one from which the search begins.
        takes_back: whether that is one that the other had before.
        key: who is visited first; of two that give something back, either may be.
    """

    __slots__ = ("distance", "is_done", "key", "level", "member", "takes_back", "way")

    def __init__(self, member: int, level: int) -> None:
        self.member = member
        self.level = level
        self.distance = 0
        self.way: tuple[int, int] | None = None
        self.takes_back = self.is_done = False
        self.key: tuple[int, ...] = ()

    def reach(self, source: _Node, partition: int, *, takes_back: bool) -> None:
        self.distance = source.distance + 1
        self.way = source.member, partition
        self.takes_back = takes_back
        self.key = (0,) if takes_back else (1, -self.level, self.distance, self.member)


class StealGraph_1_18:  # noqa: N801 -- a version
    """The graph of 1.18, where it is preferred that a member takes back what it had before."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._of_topic: list[list[int]] = [[] for _ in plan.subscribers]
        self._before: dict[tuple[int, int | None], list[int]] = {}
        for partition, topic in enumerate(plan.topic_of):
            self._of_topic[topic].append(partition)
            self._before.setdefault((topic, plan.original[partition]), []).append(partition)

    def find(self, taker: int) -> Path | None:
        """Find a way to a member that has two more than the taker at least."""
        plan = self._plan
        level = len(plan.given[taker])
        nodes = {taker: _Node(taker, level)}
        seen: set[int] = set()  # topics of which only what a member had before makes a difference
        heap = _GoHeap([nodes[taker]])
        while heap.items:
            node = heap.pop()
            if node.level > level + 1:
                return _path({member: each.way for member, each in nodes.items()}, node.member)
            node.is_done = True
            for topic in plan.wanted[node.member]:
                partitions = self._of_topic[topic]
                if topic in seen:
                    partitions = self._before.get((topic, node.member), [])
                seen.add(topic)
                for partition in partitions:
                    owner = plan.owner[partition]
                    assert owner is not None  # whatever has subscribers was dealt
                    takes_back = plan.original[partition] == node.member
                    other = nodes.get(owner)
                    if other is None:
                        other = nodes[owner] = _Node(owner, len(plan.given[owner]))
                        other.reach(node, partition, takes_back=takes_back)
                        heap.push(other)
                    elif takes_back and not (other.is_done or other.takes_back):
                        other.reach(node, partition, takes_back=True)
                        heap.fix(other)
        return None

    def move(self, partition: int, taker: int) -> None:
        """Take note of a move."""
        self._plan.owner[partition] = taker


class _GoHeap:
    """Go's heap, since the order here is none that decides between any two.

    Source: container/heap of Go.
    """

    def __init__(self, items: list[_Node]) -> None:
        self.items = items

    def push(self, item: _Node) -> None:
        self.items.append(item)
        self._up(len(self.items) - 1)

    def pop(self) -> _Node:
        last = len(self.items) - 1
        self._swap(0, last)
        self._down(0, last)
        return self.items.pop()

    def fix(self, item: _Node) -> None:
        """Put one in its place, of which none is to be visited before it any more."""
        self._up(self.items.index(item))

    def _swap(self, one: int, other: int) -> None:
        self.items[one], self.items[other] = self.items[other], self.items[one]

    def _up(self, at: int) -> None:
        items = self.items
        while at and items[at].key < items[(at - 1) // 2].key:
            self._swap(at, (at - 1) // 2)
            at = (at - 1) // 2

    def _down(self, at: int, end: int) -> None:
        items = self.items
        while (child := 2 * at + 1) < end:
            if child + 1 < end and items[child + 1].key < items[child].key:
                child += 1
            if not items[child].key < items[at].key:
                break
            self._swap(at, child)
            at = child
