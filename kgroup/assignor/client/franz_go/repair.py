"""What franz-go exchanges at the end, so that as many partitions as possible stay where they were.

How many each member has is settled, but not which. Topics with the same subscribers are one
*class*, and only how many partitions of a class a member has is looked at, in a *cell*. To have
more of it than before costs one. What is looked for is a circle of members that hand on one
partition each and save something by it: a cycle of negative cost in a graph whose nodes are
classes, members and levels. By way of a level, which is a number of partitions, one member comes
to have as many, and another one that had as many gets one less.

Source: `repairAssignment` and what it calls (internal/sticky/repair.go) of franz-go 1.22.3, without
racks: these count only with the option `BalanceRacks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kgroup.assignor.client.franz_go.plan import Plan


class _Cell:
    """How many partitions of a class a member has, and how many it had before.

    Attributes:
        cost_of_more: what one more costs.
        cost_of_less: what one less costs.
    """

    __slots__ = ("before", "cost_of_less", "cost_of_more", "count", "member", "topics")

    def __init__(self, topics: int, member: int) -> None:
        self.topics = topics
        self.member = member
        self.count = self.before = self.cost_of_more = self.cost_of_less = 0

    def change(self, by: int) -> None:
        self.count += by
        self.cost_of_more = int(self.count >= self.before)
        self.cost_of_less = -int(self.count > self.before)

    def room(self, direction: int) -> float:
        """Give how many may come or go until the next one has another cost."""
        if direction > 0:
            return self.before - self.count if self.count < self.before else float("inf")
        return self.count - self.before if self.count > self.before else self.count


class _Circle(NamedTuple):
    """Cells that get one more (1) or one less (-1), and whether levels are part of it."""

    steps: Sequence[tuple[_Cell, int]]
    shifts_load: bool


_Way = tuple[int, "_Cell | None"]
"""From which node another is reached, and by a change of which cell; None: to or from a level."""


def repair(plan: Plan) -> None:
    """Exchange partitions of a group whose members do not all subscribe to the same topics."""
    table = _Table(plan)
    is_changed = any(
        plan.original[partition] not in (None, member)
        for member, given in enumerate(plan.given)
        for partition in given
    )
    while circles := table.circles():
        is_changed = True
        for circle in circles:
            table.turn(circle)
    if is_changed:
        table.realize()


class _Table:
    """The cells of a group."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        numbers: dict[tuple[int, ...], int] = {}
        self._class_of = [
            numbers.setdefault(tuple(those), len(numbers)) for those in plan.subscribers
        ]
        self._classes = len(numbers)
        self._cells = {
            (topics, member): _Cell(topics, member)
            for member, wanted in enumerate(plan.wanted)
            for topics in sorted({self._class_of[topic] for topic in wanted})
        }
        for partition, original in enumerate(plan.original):
            if original is not None:
                self._cell(partition, original).before += 1
        for member, given in enumerate(plan.given):
            for partition in given:
                self._cell(partition, member).count += 1
        for cell in self._cells.values():
            cell.change(0)
        self._loads = [len(given) for given in plan.given]

    def _cell(self, partition: int, member: int) -> _Cell:
        return self._cells[self._class_of[self._plan.topic_of[partition]], member]

    def turn(self, circle: _Circle) -> None:
        """Hand on as many partitions as cost the same; only one where loads change by it."""
        count = 1
        if not circle.shifts_load:
            count = int(min(cell.room(direction) for cell, direction in circle.steps))
        for cell, direction in circle.steps:
            cell.change(direction * count)
            self._loads[cell.member] += direction * count

    def circles(self) -> list[_Circle]:
        """Find circles that save something and share no node; none: there are no more.

        By the algorithm of Bellman and Ford, from all nodes at once. Which circles are found first
        depends on the order of cells and members.
        """
        levels: dict[int, int] = {}
        first_level = self._classes + len(self._loads)
        for load in self._loads:
            if load:
                levels.setdefault(load, first_level + len(levels))
        distance = [0] * (first_level + len(levels))
        ways: list[_Way | None] = [None] * len(distance)
        cells = [(cell, cell.topics, self._classes + cell.member) for cell in self._cells.values()]
        for _ in distance:
            is_moved = False
            for cell, topics, member in cells:
                if distance[topics] + cell.cost_of_more < distance[member]:
                    distance[member] = distance[topics] + cell.cost_of_more
                    ways[member] = topics, cell
                    is_moved = True
                if cell.count and distance[member] + cell.cost_of_less < distance[topics]:
                    distance[topics] = distance[member] + cell.cost_of_less
                    ways[topics] = member, cell
                    is_moved = True
            for member, load in enumerate(self._loads, self._classes):
                above, level = levels.get(load + 1), levels.get(load)
                if above is not None and distance[member] < distance[above]:
                    distance[above] = distance[member]
                    ways[above] = member, None
                    is_moved = True
                if level is not None and distance[level] < distance[member]:
                    distance[member] = distance[level]
                    ways[member] = level, None
                    is_moved = True
            if not is_moved:
                break
            if found := [self._circle(node, ways) for node in _on_circles(ways)]:
                return found
        return []

    def _circle(self, start: int, ways: Sequence[_Way | None]) -> _Circle:
        steps: list[tuple[_Cell, int]] = []
        shifts_load = False
        node = start
        while (way := ways[node]) is not None:
            source, cell = way
            if cell is not None:
                steps.append((cell, 1 if node >= self._classes else -1))
            elif node >= self._classes + len(self._loads):
                shifts_load = True
            node = source
            if node == start:
                break
        return _Circle(steps, shifts_load)

    def realize(self) -> None:
        """Give members as many of each class as the table says: first what they had before."""
        plan = self._plan
        need = {cell: cell.count for cell in self._cells.values()}
        left: list[list[int]] = [[] for _ in range(self._classes)]
        everything = [partition for given in plan.given for partition in given]
        for given in plan.given:
            given.clear()
        for partition in everything:
            original = plan.original[partition]
            cell = None if original is None else self._cell(partition, original)
            if cell is not None and need[cell]:
                need[cell] -= 1
                plan.given[cell.member].append(partition)
            else:
                left[self._class_of[plan.topic_of[partition]]].append(partition)
        for cell, count in need.items():
            plan.given[cell.member] += left[cell.topics][:count]
            del left[cell.topics][:count]


def _on_circles(ways: Sequence[_Way | None]) -> Iterator[int]:
    """Give a node of each circle; each node is reached from one other at most."""
    seen: dict[int, int] = {}
    for start in range(len(ways)):
        node: int | None = start
        while node is not None and node not in seen:
            seen[node] = start
            way = ways[node]
            node = None if way is None else way[0]
        if node is not None and seen[node] == start:
            yield node
