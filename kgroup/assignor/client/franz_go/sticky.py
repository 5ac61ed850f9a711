"""Sticky and cooperative-sticky.

Partitions stay where they are, the others are dealt, and members that have too few take from those
that have too many. Where there are several topics the answer may depend on the order in which Go
walks over a map of them, which it draws anew each time; likewise where several partitions are
claimed twice.

Source: `stickyBalancer.Balance` (group_balancer.go), `Balance`, `assignUnassignedAndInitGraph`,
`assignUnassignedComplex` and `tryRestickyStales` (internal/sticky/sticky.go) of franz-go 1.22.3,
1.18.0 and 1.14.0; `assignRackAware` of 1.21.2.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic
from kgroup.assignor.client.franz_go.cooperative import without_moves
from kgroup.assignor.client.franz_go.level import LeastLoaded, balance, balance_by_stealing
from kgroup.assignor.client.franz_go.plan import Key, KeyOrder, Plan, panic, swap_remove
from kgroup.assignor.client.franz_go.repair import repair
from kgroup.assignor.client.franz_go.steal import StealGraph, StealGraph_1_18

_IN_TURN = 8
"""Keys of a map in Go that are walked in the order in which they came, from any on."""

_SHUFFLED = 16
"""Orders that are tried besides."""


@dataclass(frozen=True, slots=True)
class Sticky:
    """An assignor: a `ClassicAssignor` that can tell what else may come out."""

    give_all: Callable[[Plan, KeyOrder], None]
    cooperative: bool = False
    older_claims_count: bool = False
    by_rack: bool = False

    def __call__(self, members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
        """Assign as the leader does if it walks over maps in the order in which they were filled.

        That is the likeliest one: with two topics three times of four, with three every other time.
        """
        return self.in_order(members, topics, list)

    def in_order(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic], key_order: KeyOrder
    ) -> Assignment:
        """Assign as the leader does if it walks over maps in an order."""
        plan = Plan(members, topics, key_order, cooperative=self.cooperative, by_rack=self.by_rack)
        if plan.partitions:
            self.give_all(plan, key_order)
        if not self.cooperative:
            return plan.assignment
        return without_moves(
            plan.assignment, plan.members, older_claims_count=self.older_claims_count
        )

    def is_determined(self, members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> bool:
        """Tell whether the leader answers the same every time, as far as it was tried."""
        try:
            return len(list(islice(self._distinct(members, topics), 2))) == 1
        except AssignorError:
            return False

    def outcomes(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic]
    ) -> list[Assignment]:
        """Give the different assignments that come out, the likeliest first.

        Over a map of up to eight keys Go walks in the order in which it was filled, but begins
        anywhere and goes round; over more keys in any order, of which some are tried. A map may be
        filled in another order where the leader asks brokers for topics that it does not read.

        Raises:
            AssignorError: with some order the assignor fails.
        """
        return list(self._distinct(members, topics))

    def _distinct(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic]
    ) -> Iterator[Assignment]:
        plan = Plan(members, topics, list, cooperative=self.cooperative)
        found: list[Assignment] = []
        for key_order in _key_orders(max(len(plan.subscribers), len(plan.stale))):
            assignment = self.in_order(members, topics, key_order)
            if assignment not in found:
                found.append(assignment)
                yield assignment


def _key_orders(keys: int) -> Iterator[KeyOrder]:
    """Give orders of so many keys at most: all there are of up to three."""
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


def _give_all(plan: Plan, key_order: KeyOrder) -> None:
    for partition in key_order(plan.stale):
        _give_back(plan, partition, plan.stale[partition])
    if plan.is_uniform:
        _deal(plan, plan.free)
        _sort(plan)
        balance(plan)
        return
    for _, partitions in groupby(list(plan.free), key=plan.topic_of.__getitem__):
        _deal(plan, partitions)
    balance_by_stealing(plan, StealGraph(plan))
    repair(plan)


def _give_back(plan: Plan, partition: int, claimant: int) -> None:
    """Give a partition to the one whose claim is older, if the other has two more or no use."""
    if claimant not in plan.subscribers[plan.topic_of[partition]]:
        return
    owner = plan.owner[partition]
    if owner is not None:
        if len(plan.given[claimant]) + 1 >= len(plan.given[owner]):
            return
        swap_remove(plan.given[owner], partition)
    plan.give(partition, claimant)
    plan.original[partition] = claimant


def _give_all_1_18(plan: Plan, key_order: KeyOrder) -> None:
    _give_back_1_18(plan, key_order(plan.stale))
    _sort(plan)
    if plan.is_uniform:
        _deal_in_racks(plan)
        _deal(plan, plan.free)
        balance(plan)
        return
    for topic, partitions in groupby(list(plan.free), key=plan.topic_of.__getitem__):
        takers = plan.subscribers[topic]
        every = _heap(plan, takers)
        in_rack = {rack: _heap(plan, those) for rack, those in plan.in_racks(takers).items()}
        for partition in partitions:
            near = in_rack.get(plan.racks[partition], every)
            _, taker = min(_first(plan, near), _first(plan, every), key=itemgetter(0))
            plan.give(partition, taker)
    balance_by_stealing(plan, StealGraph_1_18(plan))


_Heap = list[tuple[int, int]]
"""Members, each behind the number of partitions that it had."""


def _heap(plan: Plan, members: Iterable[int]) -> _Heap:
    heap = [(len(plan.given[member]), member) for member in members]
    heapq.heapify(heap)
    return heap


def _first(plan: Plan, heap: _Heap) -> tuple[int, int]:
    """Give who has the fewest now, and of those the first in turn."""
    while heap[0][0] < (count := len(plan.given[heap[0][1]])):
        heapq.heapreplace(heap, (count, heap[0][1]))
    return heap[0]


def _deal_in_racks(plan: Plan) -> None:
    """Deal partitions to members in their racks, as long as these have no more than their share."""
    every = range(len(plan.members))
    heaps = {rack: LeastLoaded(plan, those) for rack, those in plan.in_racks(every).items()}
    share = -(-len(plan.partitions) // len(plan.members))
    for partition in plan.free:
        heap = heaps.get(plan.racks[partition])
        if heap is not None and heap.least < share:
            heap.give(partition)


def _give_all_1_14(plan: Plan, key_order: KeyOrder) -> None:
    for given, unwanted in zip(plan.given, plan.unwanted, strict=True):
        given[:] = sorted(given + unwanted)
        for partition in unwanted:
            swap_remove(given, partition)
    _give_back_1_18(plan, key_order(plan.stale))
    heaps = [LeastLoaded(plan, subscribers) for subscribers in plan.subscribers]
    for partition in plan.free:
        heaps[plan.topic_of[partition]].give(partition)
    if plan.is_uniform:
        balance(plan)
    else:
        balance_by_stealing(plan, StealGraph_1_18(plan))


def _give_back_1_18(plan: Plan, stale: Iterable[int]) -> None:
    """Give partitions back, with the mistakes of 1.18.

    It ends at the first that the claimant does not want, it does not expect that the other one does
    not want it either, and who owns it is not noted down where that matters later.
    """
    for partition in stale:
        claimant = plan.stale[partition]
        if claimant not in plan.subscribers[plan.topic_of[partition]]:
            return
        owner = plan.owner[partition]
        if owner is None:
            raise panic(f"index out of range [65534] with length {len(plan.members)}")
        if len(plan.given[claimant]) + 1 < len(plan.given[owner]):
            swap_remove(plan.given[owner], partition)
            plan.given[claimant].append(partition)


def _deal(plan: Plan, partitions: Iterable[int]) -> None:
    """Deal partitions of topics with the same subscribers."""
    heap: LeastLoaded | None = None
    for partition in partitions:
        if heap is None:
            heap = LeastLoaded(plan, plan.subscribers[plan.topic_of[partition]])
        heap.give(partition)


def _sort(plan: Plan) -> None:
    """Sort what each member has by partition, so that the last are those of all topics."""
    for given in plan.given:
        given.sort(key=lambda partition: plan.partitions[partition][::-1])


STICKY = Sticky(_give_all)
COOPERATIVE = Sticky(_give_all, cooperative=True)
STICKY_1_18 = Sticky(_give_all_1_18)
COOPERATIVE_1_18 = Sticky(_give_all_1_18, cooperative=True, older_claims_count=True)
STICKY_1_21 = Sticky(_give_all_1_18, by_rack=True)
COOPERATIVE_1_21 = Sticky(_give_all_1_18, cooperative=True, older_claims_count=True, by_rack=True)
STICKY_1_14 = Sticky(_give_all_1_14)
COOPERATIVE_1_14 = Sticky(_give_all_1_14, cooperative=True, older_claims_count=True)
