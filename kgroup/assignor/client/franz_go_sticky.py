"""Sticky and cooperative-sticky of franz-go.

Members keep their partitions, free partitions are assigned to the least loaded members, and members
with too few partitions take some from members with too many. With several topics, or several claims
of a partition, the result may depend on the iteration order of a Go map, which is random.

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

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, TopicMetadata
from kgroup.assignor.sticky.claim import NO_GENERATION, or_no_generation
from kgroup.model.cluster import TopicPartition


def in_turn(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Return members sorted: static ones by instance id, then the others by member id."""
    return sorted(
        members,
        key=lambda member: (
            member.instance_id is None,
            member.member_id if member.instance_id is None else member.instance_id,
        ),
    )


def subscribed(members: Iterable[Subscriber], topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Return the subscribed topics that exist, in the order in which members first list them."""
    subscriptions = dict.fromkeys(member.topics for member in members)
    names = dict.fromkeys(name for own in subscriptions for name in own)
    return [name for name in names if name in topics and topics[name].partitions]


def as_listed(given: Mapping[str, Iterable[TopicPartition]]) -> Assignment:
    """Return the assignment in the order of the message: by topic, then by partition."""
    return {member_id: sorted(partitions) for member_id, partitions in given.items()}


_Racks = Mapping[str, Sequence[str | None]]


def known_racks(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> _Racks:
    """Return the racks of partition leaders by topic, for the topics that the leader subscribes to.

    If the leader is unknown, the first member is taken for it.
    """
    leader = next((member for member in members if member.leads), members[0])
    return _known_to(leader.topics, topics)


def is_same_for_any_leader(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether the leader is known, or all members know the same racks."""
    if any(member.leads for member in members) or not any(member.rack for member in members):
        return True
    first, *others = {member.topics for member in members}
    return all(_known_to(own, topics).keys() == _known_to(first, topics).keys() for own in others)


def _known_to(own: Sequence[str], topics: Mapping[str, TopicMetadata]) -> _Racks:
    racks = {name: topics[name].leader_racks for name in own if name in topics}
    return {name: leader_racks for name, leader_racks in racks.items() if leader_racks is not None}


Key = TypeVar("Key", str, int)


class KeyOrder(Protocol):
    """Returns the keys of a map, given in insertion order, in some iteration order.

    Go chooses a random iteration order for each loop over a map.
    """

    def __call__(self, keys: Iterable[Key], /) -> list[Key]:
        """Return each key once."""


class Balancer:
    """State of a group during balancing: which member owns which partitions.

    Members and partitions are numbers, as in franz-go, whose choices depend on the order of both.

    Args:
        members: members of the group.
        topics: topics of the cluster.
        key_order: iteration order of topic names.
        cooperative: members claim the partitions they own now, not those in their user data.
        by_rack: whether the assignment is rack-aware.

    Attributes:
        members: sorted by `in_turn`.
        partitions: partitions of all subscribed topics that exist, by topic.
        topic_of: index of the topic, by partition.
        racks: rack of the leader, by partition; None if unknown or ignored.
        wanted: sorted indices of the subscribed topics, by member.
        subscribers: members, by topic.
        given: partitions, by member; later choices depend on their order.
        unwanted: claimed partitions of topics that the member no longer subscribes to, by member.
        owner: member that owns the partition, by partition; None if it is free.
        original: member that owned the partition before, by partition; None if none did.
        stale: for a partition with two claims, the member with the older claim, or with the same
            generation the later member.
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
        """Yield the free partitions while they are assigned."""
        return (partition for partition, owner in enumerate(self.owner) if owner is None)

    @property
    def assignment(self) -> Assignment:
        """Return the partitions of each member."""
        return as_listed(
            {
                member.member_id: [self.partitions[partition] for partition in given]
                for member, given in zip(self.members, self.given, strict=True)
            }
        )

    def in_racks(self, members: Iterable[int]) -> dict[str | None, list[int]]:
        """Return those of the given members that have a rack, by rack."""
        by_rack: dict[str | None, list[int]] = {}
        for member in members:
            if rack := self.members[member].rack:
                by_rack.setdefault(rack, []).append(member)
        return by_rack

    def give(self, partition: int, member: int) -> None:
        """Assign a free partition to a member."""
        self.given[member].append(partition)
        self.owner[partition] = member

    def _believe(self, claims: Sequence[tuple[Sequence[TopicPartition], int]]) -> None:
        """Assign the claimed partitions to members that still subscribe to their topics.

        Of several claims, the one with the highest generation counts. The next one is kept: it may
        have the same generation, and then the earlier member owns the partition.
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
    """Return the partitions that a member claims, and their generation."""
    if cooperative and member.generation is not None and member.generation >= 0:
        return member.owned, member.generation
    return member.remembered or (), max(member.remembered_generation or 0, 0)


def panic(message: str) -> AssignorError:
    """Return the error of a leader whose whole program panics."""
    return AssignorError("panic", f"runtime error: {message}")


def swap_remove(items: list[int], item: int) -> None:
    """Replace an item, or the first one if it is absent, with the last item; drop the last."""
    if not items:
        raise panic("index out of range [-1]")
    at = items.index(item) if item in items else 0
    items[at] = items[-1]
    items.pop()


Path = list[tuple[int, int, int]]
"""Moves in order: from member, to member, partition."""


class StealGraph:
    """Graph of members and partitions in which a member may take a partition from another."""

    def __init__(self, balancer: Balancer) -> None:
        self._plan = balancer
        self._had: list[dict[int, list[int]]] = [{} for _ in balancer.subscribers]
        for partition, owner in enumerate(balancer.owner):
            if owner is not None:
                self._had[balancer.topic_of[partition]].setdefault(owner, []).append(partition)

    def find(self, taker: int) -> Path | None:
        """Return the path to the most loaded member, if it has two more than the taker.

        Members are visited by load, then distance, then order. The first member found takes the
        partition, and of a topic the first partition.
        """
        given = self._plan.given
        heap = [(-len(given[taker]), 0, taker)]
        ways: dict[int, tuple[int, int] | None] = {taker: None}
        seen: set[int] = set()  # topics whose owners are all found
        while heap:
            less, distance, member = heapq.heappop(heap)
            if -less > len(given[taker]) + 1:
                return _path(ways, member)
            for topic in self._plan.wanted[member]:
                if topic in seen:
                    continue
                seen.add(topic)
                for other, partitions in self._had[topic].items():
                    if partitions and other not in ways:
                        ways[other] = member, partitions[0]
                        heapq.heappush(heap, (-len(given[other]), distance + 1, other))
        return None

    def move(self, partition: int, taker: int) -> None:
        """Record a move."""
        had = self._had[self._plan.topic_of[partition]]
        owner = self._plan.owner[partition]
        assert owner is not None
        swap_remove(had[owner], partition)
        self._plan.owner[partition] = taker
        had.setdefault(taker, []).append(partition)


def _path(ways: dict[int, tuple[int, int] | None], giver: int) -> Path:
    path: Path = []
    while (way := ways[giver]) is not None:
        taker, partition = way
        path.append((giver, taker, partition))
        giver = taker
    return path


class _Node:
    """A member that the search has reached.

    Attributes:
        way: member and partition that it can give; None for the start of the search.
        takes_back: whether the receiver owned that partition before.
        key: order of visits; of two members that both return a partition, either may come first.
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
    """The graph of 1.18, which prefers partitions that the taker owned before."""

    def __init__(self, balancer: Balancer) -> None:
        self._plan = balancer
        self._of_topic: list[list[int]] = [[] for _ in balancer.subscribers]
        self._before: dict[tuple[int, int | None], list[int]] = {}
        for partition, topic in enumerate(balancer.topic_of):
            self._of_topic[topic].append(partition)
            self._before.setdefault((topic, balancer.original[partition]), []).append(partition)

    def find(self, taker: int) -> Path | None:
        """Return a path to a member that has at least two partitions more than the taker."""
        balancer = self._plan
        level = len(balancer.given[taker])
        nodes = {taker: _Node(taker, level)}
        seen: set[int] = set()  # topics of which only what a member had before makes a difference
        heap = _GoHeap([nodes[taker]])
        while heap.items:
            node = heap.pop()
            if node.level > level + 1:
                return _path({member: step.way for member, step in nodes.items()}, node.member)
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
        """Record a move."""
        self._plan.owner[partition] = taker


class _GoHeap:
    """Go's heap: its order of equal items differs from that of Python's heapq.

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
        """Restore the heap order after an item's key has decreased."""
        self._up(self.items.index(item))

    def _swap(self, index: int, other: int) -> None:
        self.items[index], self.items[other] = self.items[other], self.items[index]

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
    """Heap of members with the least loaded one on top.

    The order of members with equal loads depends on the history of the heap.
    """

    def __init__(self, balancer: Balancer, members: Iterable[int]) -> None:
        self._plan = balancer
        self._heap = list(members)
        for at in reversed(range(len(self._heap) // 2)):
            self._sink(at)

    @property
    def least(self) -> int:
        """Return the number of partitions of the member on top."""
        return len(self._plan.given[self._heap[0]])

    def give(self, partition: int) -> None:
        """Assign a partition to the member on top."""
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
    """Members by number of partitions, in the order in which they reached that number."""

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
        """Remove a member, if present: one that cannot get more partitions is gone already."""
        members = self._members.get(level)
        if members is None:
            raise panic("invalid memory address or nil pointer dereference")
        if member in members:
            swap_remove(members, member)
        self._drop_if_empty(level)

    def leave_first(self, level: int, count: int) -> list[int]:
        """Remove and return the `count` members that have been there longest."""
        members = self._members[level]
        first = members[:count]
        del members[:count]
        self._drop_if_empty(level)
        return first

    def _drop_if_empty(self, level: int) -> None:
        if not self._members[level]:
            del self._members[level]


def balance(balancer: Balancer) -> None:
    """Move the last partitions of the most loaded members to the least loaded ones."""
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
    """Move partitions to the least loaded members while a path to a member with two more exists.

    A partition may pass through other members, each of which passes another one on.
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
    """The number of partitions of a class that a member has, and had before.

    Attributes:
        cost_of_more: cost of one more partition.
        cost_of_less: cost of one partition less.
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
        """Return the number of partitions that can be added or removed before the cost changes."""
        if direction > 0:
            return self.before - self.count if self.count < self.before else float("inf")
        return self.count - self.before if self.count > self.before else self.count


class _Circle(NamedTuple):
    """A cycle: cells that get one more (1) or one less (-1), and whether it uses levels."""

    steps: Sequence[tuple[_Cell, int]]
    shifts_load: bool


_Way = tuple[int, "_Cell | None"]
"""Predecessor of a node, and the cell that changes; None for an edge to or from a level."""


def repair(balancer: Balancer) -> None:
    """Exchange partitions so that as many as possible stay with their members.

    Used for groups whose members do not all subscribe to the same topics. The number of partitions
    of each member is fixed, the choice is not. Topics with the same subscribers form a *class*; a
    *cell* counts the partitions of a class that a member has. Having more of a class than before
    costs one. The search looks for a cycle of negative cost in a graph of classes, members and
    levels: a chain of members that each pass on one partition and together save cost. A level is a
    number of partitions: through it, one member reaches that number while another one leaves it.

    Source: `repairAssignment` and what it calls (internal/sticky/repair.go) of franz-go 1.22.3,
    without racks, which count only with the option `BalanceRacks`.
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
        """Apply a cycle as often as its cost stays the same; only once if loads change."""
        count = 1
        if not circle.shifts_load:
            count = int(min(cell.room(direction) for cell, direction in circle.steps))
        for cell, direction in circle.steps:
            cell.change(direction * count)
            self._loads[cell.member] += direction * count

    def circles(self) -> list[_Circle]:
        """Return cycles of negative cost that share no node; an empty list if there are none.

        Uses the Bellman-Ford algorithm from all nodes at once. The order of cells and members
        decides which cycles are found first.
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
            if circles := [self._circle(node, ways) for node in _on_circles(ways)]:
                return circles
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
        """Assign partitions to members by the counts in the table, their former ones first."""
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
    """Yield one node of each cycle; each node has at most one predecessor."""
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
    """Remove from each member the partitions that another member still owns.

    Args:
        assignment: assignment of all members.
        members: in order; if a partition is new to several members, the last one counts.
        older_claims_count: a member also owns what another member claims with a later generation.
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
    return _left(
        assignment, {partition: added[partition] for partition in revoked if partition in added}
    )


def _left(assignment: Assignment, taken: Mapping[TopicPartition, str]) -> Assignment:
    return {
        member_id: [partition for partition in partitions if taken.get(partition) != member_id]
        for member_id, partitions in assignment.items()
    }


_IN_TURN = 8
"""Up to this size, Go iterates over a map in insertion order, starting at a random key."""

_SHUFFLED = 16
"""Number of random orders that are tried for larger maps."""


@dataclass(frozen=True, slots=True)
class Sticky:
    """A `ClassicAssignor` that can also return the other possible results."""

    give_all: Callable[[Balancer, KeyOrder], None]
    cooperative: bool = False
    older_claims_count: bool = False
    by_rack: bool = False

    def __call__(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> Assignment:
        """Assign as the leader does if it iterates over maps in insertion order.

        This is the most likely order: three times of four with two topics, half the time with
        three.
        """
        return self.in_order(members, topics, list)

    def in_order(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        key_order: KeyOrder,
    ) -> Assignment:
        """Assign as the leader does if it iterates over maps in the given order."""
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
        """Return whether all tried orders give the same result."""
        try:
            return len(list(islice(self._distinct(members, topics), 2))) == 1
        except AssignorError:
            return False

    def outcomes(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> list[Assignment]:
        """Return the different possible assignments, the most likely first.

        Go iterates over a map of up to eight keys in insertion order, from a random start; over
        larger maps in any order, of which some are tried. The insertion order may differ if the
        leader fetches metadata of topics that it does not read.

        Raises:
            AssignorError: the assignor fails with one of the orders.
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
    """Yield orders of this many keys; all of them for up to three keys."""
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
    """Return a partition to its older claimant, if the owner has two more or does not subscribe."""
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
"""Pairs of the number of partitions at insertion, and the member."""


def _heap(balancer: Balancer, members: Iterable[int]) -> _Heap:
    heap = [(len(balancer.given[member]), member) for member in members]
    heapq.heapify(heap)
    return heap


def _first(balancer: Balancer, heap: _Heap) -> tuple[int, int]:
    """Return the member with the fewest partitions now; of equal ones, the first in order."""
    while heap[0][0] < (count := len(balancer.given[heap[0][1]])):
        heapq.heapreplace(heap, (count, heap[0][1]))
    return heap[0]


def _deal_in_racks(balancer: Balancer) -> None:
    """Assign partitions to members in their racks, up to each member's share."""
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
    """Return partitions to older claimants, with the bugs of 1.18.

    The loop stops at the first partition that its claimant does not subscribe to; it assumes that
    the owner subscribes; and it does not record the new owner where that matters later.
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
    """Assign partitions of topics with the same subscribers."""
    heap: LeastLoaded | None = None
    for partition in partitions:
        if heap is None:
            heap = LeastLoaded(balancer, balancer.subscribers[balancer.topic_of[partition]])
        heap.give(partition)


def _sort(balancer: Balancer) -> None:
    """Sort each member's partitions by number, so that the last ones belong to all topics."""
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
