"""Sticky and cooperative-sticky of franz-go.

Partitions stay where they are, the others are dealt, and members that have too few take from those
that have too many. With several topics the answer may depend on the order in which Go walks over a
map of them, which it draws anew each time; likewise where several partitions are claimed twice.

Source: `stickyBalancer.Balance`, `joinMemberLess`, `BalancePlan.IntoSyncAssignment`,
`BalancePlan.AdjustCooperative` (group_balancer.go), `newBalancer`, `parseMemberMetadata`,
`topicPotentials`, `dropUnwantedPartitions`, `Balance`, `assignUnassignedAndInitGraph`,
`assignUnassignedComplex`, `tryRestickyStales`, `membersByPartitions`, `partitionLevel`, `balance`,
`balanceComplex`, `reassignPartition` (internal/sticky/sticky.go) and `graph.findSteal`
(internal/sticky/graph.go) of franz-go 1.22.3, 1.18.0 and 1.14.0; `assignRackAware`, `initRacks` and
`groupConsumer.buildPartitionRacks` of 1.21.2: leaders know the racks of their own topics.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    Subscriber,
    TopicMetadata,
    TopicPartition,
)
from kgroup.assignor.sticky.claim import NO_GENERATION, or_no_generation


def in_turn(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort members: static ones first, by instance id, then the others by member id."""
    return sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.member_id if member.instance_id is None else member.instance_id,
        ),
    )


def subscribed(members: Iterable[Subscriber], topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Give the topics that members subscribe to and that exist, in the order in which they come."""
    subscriptions = dict.fromkeys(member.topics for member in members)
    names = dict.fromkeys(name for own in subscriptions for name in own)
    return [name for name in names if name in topics and topics[name].partitions]


def as_listed(given: Mapping[str, Iterable[TopicPartition]]) -> Assignment:
    """Put what each member gets in the order of the message: by topic, then by partition."""
    return {member_id: sorted(partitions) for member_id, partitions in given.items()}


_Racks = Mapping[str, Sequence[str | None]]


def known_racks(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> _Racks:
    """Return the rack of each partition by topic, of the topics to which the leader subscribes.

    The first member stands for a leader that is not known.
    """
    leader = next((member for member in members if member.leads), members[0])
    return _known_to(leader.topics, topics)


def is_same_for_any_leader(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether it is known who leads, or does not matter, as all know the same racks."""
    if any(member.leads for member in members) or not any(member.rack for member in members):
        return True
    first, *others = {member.topics for member in members}
    return all(_known_to(own, topics).keys() == _known_to(first, topics).keys() for own in others)


def _known_to(own: Sequence[str], topics: Mapping[str, TopicMetadata]) -> _Racks:
    racks = {name: topics[name].leader_racks for name in own if name in topics}
    return {name: each for name, each in racks.items() if each is not None}


Key = TypeVar("Key", str, int)


class KeyOrder(Protocol):
    """Orders the keys of a map, which come in the order in which it was filled.

    Go draws an order anew whenever it walks over a map.
    """

    def __call__(self, keys: Iterable[Key], /) -> list[Key]:
        """Return the keys, each once."""


class Balancer:
    """A group while it is balanced: which member has which partitions.

    Members and partitions are numbers, as in franz-go, whose choices depend on the order of both.

    Args:
        members: of the group.
        topics: of the cluster.
        key_order: of names of topics.
        cooperative: whether members claim what they own now, not what they remember.
        by_rack: whether racks count.

    Attributes:
        members: in turn.
        partitions: of all topics that are subscribed and exist, topic by topic.
        topic_of: of each partition, the index of its topic.
        racks: of each partition, that of its leader; None where it is not known or does not count.
        wanted: of each member, the topics that it subscribes to, by their indices, sorted.
        subscribers: of each topic, in turn.
        given: of each member its partitions; later choices depend on their order.
        unwanted: of each member the partitions that it claims and does not subscribe to any more.
        owner: of each partition the member that has it; None where nobody has.
        original: of each partition the member that had it before; None where nobody had.
        stale: by partition that two members claim, the one with the older claim, or the later one
            in turn.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        key_order: KeyOrder,
        *,
        cooperative: bool,
        by_rack: bool = False,
    ) -> None:
        self.members = in_turn(members)
        racks = known_racks(members, topics) if by_rack else {}
        names = key_order(subscribed(self.members, topics))
        self.partitions: list[TopicPartition] = []
        self.topic_of: list[int] = []
        self.racks: list[str | None] = []
        for index, name in enumerate(names):
            count = topics[name].partitions
            self.partitions += [(name, partition) for partition in range(count)]
            self.topic_of += [index] * count
            self.racks += racks.get(name, [None] * count)
        indices = {name: index for index, name in enumerate(names)}
        self.wanted = [
            sorted({indices[name] for name in member.topics if name in indices})
            for member in self.members
        ]
        self.subscribers: list[list[int]] = [[] for _ in names]
        for number, wanted in enumerate(self.wanted):
            for topic in wanted:
                self.subscribers[topic].append(number)
        self.given: list[list[int]] = [[] for _ in self.members]
        self.unwanted: list[list[int]] = [[] for _ in self.members]
        self.owner: list[int | None] = [None] * len(self.partitions)
        self.stale: dict[int, int] = {}
        self._believe([_claim(member, cooperative=cooperative) for member in self.members])
        self.original = list(self.owner)

    @property
    def is_uniform(self) -> bool:
        """Whether all members subscribe to all topics."""
        return all(len(those) == len(self.members) for those in self.subscribers)

    @property
    def free(self) -> Iterator[int]:
        """The partitions that nobody has, while they are dealt."""
        return (partition for partition, owner in enumerate(self.owner) if owner is None)

    @property
    def assignment(self) -> Assignment:
        """What each member gets."""
        return as_listed(
            {
                member.member_id: [self.partitions[partition] for partition in given]
                for member, given in zip(self.members, self.given, strict=True)
            }
        )

    def in_racks(self, members: Iterable[int]) -> dict[str | None, list[int]]:
        """Return those of some members that have a rack, by rack."""
        found: dict[str | None, list[int]] = {}
        for member in members:
            if rack := self.members[member].rack:
                found.setdefault(rack, []).append(member)
        return found

    def give(self, partition: int, member: int) -> None:
        """Give a partition that nobody has."""
        self.given[member].append(partition)
        self.owner[partition] = member

    def _believe(self, claims: Sequence[tuple[Sequence[TopicPartition], int]]) -> None:
        """Let members have what they claim, as far as they still subscribe to it.

        Of several claims the one of the highest generation counts, and the next highest is kept:
        it may be of the same generation, and then the member that comes first in turn has it.
        """
        numbers = {partition: number for number, partition in enumerate(self.partitions)}
        newest: dict[int, tuple[int, int]] = {}
        older: dict[int, tuple[int, int]] = {}
        for member, (claimed, generation) in enumerate(claims):
            for name in claimed:
                partition = numbers.get(name)
                if partition is None:
                    continue
                claim = generation, member
                if partition not in newest:
                    newest[partition] = claim
                elif generation > newest[partition][0]:
                    older[partition], newest[partition] = newest[partition], claim
                elif partition not in older or generation > older[partition][0]:
                    older[partition] = claim
        self.stale = {partition: older[partition][1] for partition in sorted(older)}
        wanted = [frozenset(topics) for topics in self.wanted]
        for partition in sorted(newest):
            _, member = newest[partition]
            if self.topic_of[partition] in wanted[member]:
                self.give(partition, member)
            else:
                self.unwanted[member].append(partition)


def _claim(member: Subscriber, *, cooperative: bool) -> tuple[Sequence[TopicPartition], int]:
    """Return what a member says that it owned, and in which generation."""
    if cooperative and member.generation is not None and member.generation >= 0:
        return member.owned, member.generation
    return member.remembered or (), max(member.remembered_generation or 0, 0)


def panic(message: str) -> AssignorError:
    """Make the error with which the leader's whole program ends."""
    return AssignorError("panic", f"runtime error: {message}")


def swap_remove(items: list[int], item: int) -> None:
    """Replace an item, or the first one if it is absent, with the last item; drop the last."""
    if not items:
        raise panic("index out of range [-1]")
    at = items.index(item) if item in items else 0
    items[at] = items[-1]
    items.pop()


Path = list[tuple[int, int, int]]
"""Moves in the order in which they are made: from a member, to a member, the partition."""


class StealGraph:
    """Which member has which partitions of a topic."""

    def __init__(self, balancer: Balancer) -> None:
        self._plan = balancer
        self._had: list[dict[int, list[int]]] = [{} for _ in balancer.subscribers]
        for partition, owner in enumerate(balancer.owner):
            if owner is not None:
                self._had[balancer.topic_of[partition]].setdefault(owner, []).append(partition)

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

    def __init__(self, balancer: Balancer) -> None:
        self._plan = balancer
        self._of_topic: list[list[int]] = [[] for _ in balancer.subscribers]
        self._before: dict[tuple[int, int | None], list[int]] = {}
        for partition, topic in enumerate(balancer.topic_of):
            self._of_topic[topic].append(partition)
            self._before.setdefault((topic, balancer.original[partition]), []).append(partition)

    def find(self, taker: int) -> Path | None:
        """Find a way to a member that has two more than the taker at least."""
        balancer = self._plan
        level = len(balancer.given[taker])
        nodes = {taker: _Node(taker, level)}
        seen: set[int] = set()  # topics of which only what a member had before makes a difference
        heap = _GoHeap([nodes[taker]])
        while heap.items:
            node = heap.pop()
            if node.level > level + 1:
                return _path({member: each.way for member, each in nodes.items()}, node.member)
            node.is_done = True
            for topic in balancer.wanted[node.member]:
                partitions = self._of_topic[topic]
                if topic in seen:
                    partitions = self._before.get((topic, node.member), [])
                seen.add(topic)
                for partition in partitions:
                    owner = balancer.owner[partition]
                    assert owner is not None  # whatever has subscribers was dealt
                    takes_back = balancer.original[partition] == node.member
                    other = nodes.get(owner)
                    if other is None:
                        other = nodes[owner] = _Node(owner, len(balancer.given[owner]))
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


class LeastLoaded:
    """Members in a heap, the one with the fewest partitions on top.

    Which of several that have as few is on top depends on how the heap came about.
    """

    def __init__(self, balancer: Balancer, members: Iterable[int]) -> None:
        self._plan = balancer
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

    def __init__(self, balancer: Balancer) -> None:
        self._members: dict[int, list[int]] = {}
        for member, given in enumerate(balancer.given):
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


def balance(balancer: Balancer) -> None:
    """Take from those who have most, and give to those who have least: their last partitions."""
    levels = _Levels(balancer)
    while (highest := levels.highest) > (lowest := levels.lowest) + 1:
        count = min(len(levels[lowest]), len(levels[highest]))
        takers = levels.leave_first(lowest, count)
        givers = levels.leave_first(highest, count)
        for taker, giver in zip(takers, givers, strict=True):
            balancer.given[taker].append(balancer.given[giver].pop())
        levels.add(lowest + 1, takers)
        levels.add(highest - 1, givers)


class _Graph(Protocol):
    def find(self, taker: int) -> Path | None: ...

    def move(self, partition: int, taker: int) -> None: ...


def balance_by_stealing(balancer: Balancer, graph: _Graph) -> None:
    """Let those who have least get one more, each as long as there is a way to one with two more.

    A partition may come by way of other members that each pass on another one.
    """
    levels = _Levels(balancer)
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
                _move(balancer, levels, giver, taker, partition)
                graph.move(partition, taker)


def _move(balancer: Balancer, levels: _Levels, giver: int, taker: int, partition: int) -> None:
    before = len(balancer.given[giver]), len(balancer.given[taker])
    swap_remove(balancer.given[giver], partition)
    balancer.given[taker].append(partition)
    for member, level in zip((giver, taker), before, strict=True):
        levels.leave(level, member)
        levels.add(len(balancer.given[member]), [member])


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
        """Return how many may come or go until the next one has another cost."""
        if direction > 0:
            return self.before - self.count if self.count < self.before else float("inf")
        return self.count - self.before if self.count > self.before else self.count


class _Circle(NamedTuple):
    """Cells that get one more (1) or one less (-1), and whether levels are part of it."""

    steps: Sequence[tuple[_Cell, int]]
    shifts_load: bool


_Way = tuple[int, "_Cell | None"]
"""From which node another is reached, and by a change of which cell; None: to or from a level."""


def repair(balancer: Balancer) -> None:
    """Exchange partitions so that as many as possible stay where they were.

    For groups whose members do not all subscribe to the same topics. How many partitions each
    member has is settled, but not which. Topics with the same subscribers are one *class*; a *cell*
    counts the partitions of a class that a member has. To have more of it than before costs one.
    It searches for a cycle of negative cost in a graph whose nodes are classes, members and levels:
    members that each pass one partition on, at a saving. A level is a number of partitions: through
    it, one member reaches that number, and another that had as many loses one.

    Source: `repairAssignment` and what it calls (internal/sticky/repair.go) of franz-go 1.22.3,
    without racks: these count only with the option `BalanceRacks`.
    """
    table = _Table(balancer)
    is_changed = any(
        balancer.original[partition] not in (None, member)
        for member, given in enumerate(balancer.given)
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

    def __init__(self, balancer: Balancer) -> None:
        self._plan = balancer
        numbers: dict[tuple[int, ...], int] = {}
        self._class_of = [
            numbers.setdefault(tuple(those), len(numbers)) for those in balancer.subscribers
        ]
        self._classes = len(numbers)
        self._cells = {
            (topics, member): _Cell(topics, member)
            for member, wanted in enumerate(balancer.wanted)
            for topics in sorted({self._class_of[topic] for topic in wanted})
        }
        for partition, original in enumerate(balancer.original):
            if original is not None:
                self._cell(partition, original).before += 1
        for member, given in enumerate(balancer.given):
            for partition in given:
                self._cell(partition, member).count += 1
        for cell in self._cells.values():
            cell.change(0)
        self._loads = [len(given) for given in balancer.given]

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
        balancer = self._plan
        need = {cell: cell.count for cell in self._cells.values()}
        left: list[list[int]] = [[] for _ in range(self._classes)]
        everything = [partition for given in balancer.given for partition in given]
        for given in balancer.given:
            given.clear()
        for partition in everything:
            original = balancer.original[partition]
            cell = None if original is None else self._cell(partition, original)
            if cell is not None and need[cell]:
                need[cell] -= 1
                balancer.given[cell.member].append(partition)
            else:
                left[self._class_of[balancer.topic_of[partition]]].append(partition)
        for cell, count in need.items():
            balancer.given[cell.member] += left[cell.topics][:count]
            del left[cell.topics][:count]


def _on_circles(ways: Sequence[_Way | None]) -> Iterator[int]:
    """Yield a node of each circle; each node is reached from one other at most."""
    seen: dict[int, int] = {}
    for start in range(len(ways)):
        node: int | None = start
        while node is not None and node not in seen:
            seen[node] = start
            way = ways[node]
            node = None if way is None else way[0]
        if node is not None and seen[node] == start:
            yield node


def without_moves(
    assignment: Assignment, members: Sequence[Subscriber], *, older_claims_count: bool
) -> Assignment:
    """Take away what a member is newly given while another one owns it.

    Args:
        assignment: of all members.
        members: in turn; the last one counts to whom a partition is newly given.
        older_claims_count: whether a member owns what another one claims in a later generation.
    """
    latest: dict[TopicPartition, int] = {}
    for member in members:
        generation = or_no_generation(member.generation)
        for partition in member.owned:
            latest[partition] = max(generation, latest.get(partition, NO_GENERATION))
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        partitions = assignment[member.member_id]
        revoked.update(set(member.owned).difference(partitions))
        owned = {
            partition
            for partition in member.owned
            if older_claims_count or or_no_generation(member.generation) >= latest[partition]
        }
        added.update(
            (partition, member.member_id) for partition in partitions if partition not in owned
        )
    return _left(assignment, {each: added[each] for each in revoked if each in added})


def _left(assignment: Assignment, taken: Mapping[TopicPartition, str]) -> Assignment:
    return {
        member_id: [partition for partition in partitions if taken.get(partition) != member_id]
        for member_id, partitions in assignment.items()
    }


_IN_TURN = 8
"""Keys of a map in Go that are walked in the order in which they came, from any on."""

_SHUFFLED = 16
"""Orders that are tried besides."""


@dataclass(frozen=True, slots=True)
class Sticky:
    """An assignor: a `ClassicAssignor` that can tell what else may come out."""

    give_all: Callable[[Balancer, KeyOrder], None]
    cooperative: bool = False
    older_claims_count: bool = False
    by_rack: bool = False

    def __call__(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> Assignment:
        """Assign as the leader does if it walks over maps in the order in which they were filled.

        That is the likeliest one: with two topics three times of four, with three every other time.
        """
        return self.in_order(members, topics, list)

    def in_order(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        key_order: KeyOrder,
    ) -> Assignment:
        """Assign as the leader does if it walks over maps in an order."""
        balancer = Balancer(
            members, topics, key_order, cooperative=self.cooperative, by_rack=self.by_rack
        )
        if balancer.partitions:
            self.give_all(balancer, key_order)
        if not self.cooperative:
            return balancer.assignment
        return without_moves(
            balancer.assignment, balancer.members, older_claims_count=self.older_claims_count
        )

    def is_determined(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> bool:
        """Return whether the leader answers the same every time, as far as it was tried."""
        try:
            return len(list(islice(self._distinct(members, topics), 2))) == 1
        except AssignorError:
            return False

    def outcomes(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> list[Assignment]:
        """Return the different assignments that come out, the likeliest first.

        Over a map of up to eight keys Go walks in the order in which it was filled, but begins
        anywhere and goes round; over more keys in any order, of which some are tried. A map may be
        filled in another order where the leader asks brokers for topics that it does not read.

        Raises:
            AssignorError: with some order the assignor fails.
        """
        return list(self._distinct(members, topics))

    def _distinct(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> Iterator[Assignment]:
        balancer = Balancer(members, topics, list, cooperative=self.cooperative)
        partitions: list[Assignment] = []
        for key_order in _key_orders(max(len(balancer.subscribers), len(balancer.stale))):
            assignment = self.in_order(members, topics, key_order)
            if assignment not in partitions:
                partitions.append(assignment)
                yield assignment


def _key_orders(keys: int) -> Iterator[KeyOrder]:
    """Yield orders of so many keys at most: all there are of up to three."""
    for reverse in (False, True)[: 1 + (keys > 2)]:
        for start in range(min(max(keys, 1), _IN_TURN)):
            yield partial(_from, start, reverse=reverse)
    for seed in range(_SHUFFLED if keys > 3 else 0):
        yield partial(_shuffled, seed)


def _from(start: int, keys: Iterable[Key], *, reverse: bool = False) -> list[Key]:
    in_order = list(keys)[:: -1 if reverse else 1]
    start %= max(len(in_order), 1)
    return in_order[start:] + in_order[:start]


def _shuffled(seed: int, keys: Iterable[Key]) -> list[Key]:
    in_order = list(keys)
    random.Random(seed).shuffle(in_order)
    return in_order


def _give_all(balancer: Balancer, key_order: KeyOrder) -> None:
    for partition in key_order(balancer.stale):
        _give_back(balancer, partition, balancer.stale[partition])
    if balancer.is_uniform:
        _deal(balancer, balancer.free)
        _sort(balancer)
        balance(balancer)
        return
    for _, partitions in groupby(list(balancer.free), key=balancer.topic_of.__getitem__):
        _deal(balancer, partitions)
    balance_by_stealing(balancer, StealGraph(balancer))
    repair(balancer)


def _give_back(balancer: Balancer, partition: int, claimant: int) -> None:
    """Give a partition to the one whose claim is older, if the other has two more or no use."""
    if claimant not in balancer.subscribers[balancer.topic_of[partition]]:
        return
    owner = balancer.owner[partition]
    if owner is not None:
        if len(balancer.given[claimant]) + 1 >= len(balancer.given[owner]):
            return
        swap_remove(balancer.given[owner], partition)
    balancer.give(partition, claimant)
    balancer.original[partition] = claimant


def _give_all_1_18(balancer: Balancer, key_order: KeyOrder) -> None:
    _give_back_1_18(balancer, key_order(balancer.stale))
    _sort(balancer)
    if balancer.is_uniform:
        _deal_in_racks(balancer)
        _deal(balancer, balancer.free)
        balance(balancer)
        return
    for topic, partitions in groupby(list(balancer.free), key=balancer.topic_of.__getitem__):
        takers = balancer.subscribers[topic]
        every = _heap(balancer, takers)
        in_rack = {
            rack: _heap(balancer, those) for rack, those in balancer.in_racks(takers).items()
        }
        for partition in partitions:
            near = in_rack.get(balancer.racks[partition], every)
            _, taker = min(_first(balancer, near), _first(balancer, every), key=itemgetter(0))
            balancer.give(partition, taker)
    balance_by_stealing(balancer, StealGraph_1_18(balancer))


_Heap = list[tuple[int, int]]
"""Members, each behind the number of partitions that it had."""


def _heap(balancer: Balancer, members: Iterable[int]) -> _Heap:
    heap = [(len(balancer.given[member]), member) for member in members]
    heapq.heapify(heap)
    return heap


def _first(balancer: Balancer, heap: _Heap) -> tuple[int, int]:
    """Give who has the fewest now, and of those the first in turn."""
    while heap[0][0] < (count := len(balancer.given[heap[0][1]])):
        heapq.heapreplace(heap, (count, heap[0][1]))
    return heap[0]


def _deal_in_racks(balancer: Balancer) -> None:
    """Deal partitions to members in their racks, as long as these have no more than their share."""
    every = range(len(balancer.members))
    heaps = {rack: LeastLoaded(balancer, those) for rack, those in balancer.in_racks(every).items()}
    share = -(-len(balancer.partitions) // len(balancer.members))
    for partition in balancer.free:
        heap = heaps.get(balancer.racks[partition])
        if heap is not None and heap.least < share:
            heap.give(partition)


def _give_all_1_14(balancer: Balancer, key_order: KeyOrder) -> None:
    for given, unwanted in zip(balancer.given, balancer.unwanted, strict=True):
        given[:] = sorted(given + unwanted)
        for partition in unwanted:
            swap_remove(given, partition)
    _give_back_1_18(balancer, key_order(balancer.stale))
    heaps = [LeastLoaded(balancer, subscribers) for subscribers in balancer.subscribers]
    for partition in balancer.free:
        heaps[balancer.topic_of[partition]].give(partition)
    if balancer.is_uniform:
        balance(balancer)
    else:
        balance_by_stealing(balancer, StealGraph_1_18(balancer))


def _give_back_1_18(balancer: Balancer, stale: Iterable[int]) -> None:
    """Give partitions back, with the mistakes of 1.18.

    It ends at the first that the claimant does not want, it does not expect that the other one does
    not want it either, and who owns it is not noted down where that matters later.
    """
    for partition in stale:
        claimant = balancer.stale[partition]
        if claimant not in balancer.subscribers[balancer.topic_of[partition]]:
            return
        owner = balancer.owner[partition]
        if owner is None:
            raise panic(f"index out of range [65534] with length {len(balancer.members)}")
        if len(balancer.given[claimant]) + 1 < len(balancer.given[owner]):
            swap_remove(balancer.given[owner], partition)
            balancer.given[claimant].append(partition)


def _deal(balancer: Balancer, partitions: Iterable[int]) -> None:
    """Deal partitions of topics with the same subscribers."""
    heap: LeastLoaded | None = None
    for partition in partitions:
        if heap is None:
            heap = LeastLoaded(balancer, balancer.subscribers[balancer.topic_of[partition]])
        heap.give(partition)


def _sort(balancer: Balancer) -> None:
    """Sort what each member has by partition, so that the last are those of all topics."""
    for given in balancer.given:
        given.sort(key=lambda partition: balancer.partitions[partition][::-1])


STICKY = Sticky(_give_all)
COOPERATIVE = Sticky(_give_all, cooperative=True)
STICKY_1_18 = Sticky(_give_all_1_18)
COOPERATIVE_1_18 = Sticky(_give_all_1_18, cooperative=True, older_claims_count=True)
STICKY_1_21 = Sticky(_give_all_1_18, by_rack=True)
COOPERATIVE_1_21 = Sticky(_give_all_1_18, cooperative=True, older_claims_count=True, by_rack=True)
STICKY_1_14 = Sticky(_give_all_1_14)
COOPERATIVE_1_14 = Sticky(_give_all_1_14, cooperative=True, older_claims_count=True)
