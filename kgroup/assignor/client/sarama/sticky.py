"""Sticky: members keep what they owned; what is left goes to those with the fewest partitions.

Which partitions a member gets, or gives up, is left to chance mostly: only how many is certain. The
library walks maps for it, see `map_order`.

Source: `stickyBalanceStrategy.Plan` of Sarama 1.61.1, the same since 1.28.0;
`cooperativeStickyBalanceStrategy`, since 1.60.1.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import Assignment, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.map_order import MapOrder, ascending
from kgroup.assignor.client.sarama.metadata import by_topic, partition_counts
from kgroup.assignor.client.sarama.movements import Movements
from kgroup.assignor.client.takers import takers_by_topic
from kgroup.assignor.sticky.claim import NO_GENERATION, or_no_generation


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one member says: partitions, and the generation in which it owned them."""

    partitions: Iterable[TopicPartition]
    generation: int | None


def assign(
    members: Sequence[Subscriber], topics: Mapping[str, Topic], order: MapOrder = ascending
) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`."""
    claims = {
        member.member_id: _Claim(member.remembered or (), member.remembered_generation)
        for member in members
    }
    return by_topic(members, _Plan(members, topics, claims, order).made())


def assign_cooperative(
    members: Sequence[Subscriber], topics: Mapping[str, Topic], order: MapOrder = ascending
) -> Assignment:
    """Assign likewise; what changes hands is only given up for now.

    A subscription before version 2 has no generation: then it is the one of the user data.
    """
    claims = {}
    for member in members:
        generation = member.generation
        if generation is None:
            generation = member.remembered_generation
        claims[member.member_id] = _Claim(member.owned, or_no_generation(generation))
    plan = _Plan(members, topics, claims, order).made()
    owned = {member.member_id: set(member.owned) for member in members}
    revoked = {
        partition
        for member_id, own in owned.items()
        for partition in own.difference(plan.get(member_id, ()))
    }
    return by_topic(
        members,
        {
            member_id: [each for each in own if each in owned[member_id] or each not in revoked]
            for member_id, own in plan.items()
        },
    )


class _Plan:
    """An assignment in the making.

    Args:
        members: in any order.
        topics: of the cluster.
        claims: of each member.
        order: of maps.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, Topic],
        claims: Mapping[str, _Claim],
        order: MapOrder,
    ) -> None:
        self._order = order
        self._counts = partition_counts(members, topics)
        self._subscribed = {member.member_id: member.topics for member in members}
        self._named = {member_id: frozenset(own) for member_id, own in self._subscribed.items()}
        takers = takers_by_topic(members)
        self._takers = {
            topic: [member.member_id for member in takers[topic]] for topic in self._counts
        }
        self._most = {
            member_id: sum(self._counts[topic] for topic in own)
            for member_id, own in self._subscribed.items()
        }
        self._assigned: dict[str, list[TopicPartition]] = {}
        self._by_size: list[tuple[int, str]] = []
        self._owner: dict[TopicPartition, str] = {}
        self._earlier: dict[TopicPartition, str] = {}
        self._movements = Movements(order)
        self._believe(claims)

    def made(self) -> Mapping[str, Sequence[TopicPartition]]:
        """Assign everything; a member that is left out gets nothing."""
        is_fresh = not self._assigned
        for member_id in self._subscribed:
            self._assigned.setdefault(member_id, [])
        free = self._keep()
        in_turn = self._in_turn(is_fresh=is_fresh)
        self._rank()
        some_had_none = not self._by_size[0][0]
        for partition in free:
            self._give(partition)
        fixed = {member_id for member_id in self._subscribed if not self._takes_part(member_id)}
        apart = {member_id: self._assigned.pop(member_id) for member_id in fixed}
        self._rank()
        score = self._score()
        moved = self._even_out([each for each in in_turn if len(self._takers[each[0]]) > 1])
        if some_had_none or not moved or self._score() < score:
            self._assigned.update(apart)
        # else the library goes back to what was before, but in a copy that it drops: the moves
        # stay, and members that were set apart get nothing
        return self._assigned

    def _believe(self, claims: Mapping[str, _Claim]) -> None:
        """Give partitions to who claims them for the latest generation.

        Of two that claim one for the same generation the first counts, and the last where user
        data names no generation.
        """
        claimants: dict[TopicPartition, dict[int, str]] = {}
        for member_id in self._order(claims):
            generation = claims[member_id].generation
            for partition in claims[member_id].partitions:
                by_generation = claimants.setdefault(partition, {})
                if generation is None:
                    by_generation[NO_GENERATION] = member_id
                else:
                    by_generation.setdefault(generation, member_id)
        for partition in self._order(claimants):
            by_generation = claimants[partition]
            latest, *earlier = sorted(by_generation, reverse=True)
            self._assigned.setdefault(by_generation[latest], []).append(partition)
            if earlier:
                self._earlier[partition] = by_generation[earlier[0]]

    def _keep(self) -> list[TopicPartition]:
        """Take from members what they do not subscribe to; give all that nobody has then."""
        free: list[TopicPartition] = []
        unclaimed = {(topic, at) for topic, count in self._counts.items() for at in range(count)}
        exist = frozenset(unclaimed)
        for member_id in self._order(self._assigned):
            kept: list[TopicPartition] = []
            for partition in self._assigned[member_id]:
                if partition in exist:
                    unclaimed.discard(partition)
                    self._owner[partition] = member_id
                    is_taken = partition[0] in self._subscribed[member_id]
                    (kept if is_taken else free).append(partition)
            self._assigned[member_id] = kept
        return free + self._order(unclaimed)

    def _in_turn(self, *, is_fresh: bool) -> list[TopicPartition]:
        """Give all partitions in the order in which they may move."""
        every = [(topic, at) for topic, count in self._counts.items() for at in range(count)]
        if is_fresh or not self._subscribe_alike():
            return sorted(every, key=lambda each: (len(self._takers[each[0]]), *each))
        # from the member with the most, again and again: what it did not have before that first
        rank = {member_id: at for at, member_id in enumerate(sorted(self._assigned, reverse=True))}
        left = {rank[member_id]: list(own) for member_id, own in self._assigned.items()}
        heap = [(-len(own), at) for at, own in left.items() if own]
        heapq.heapify(heap)
        in_turn = []
        while heap:
            _, at = heap[0]
            own = left[at]
            first = next((i for i, each in enumerate(own) if each in self._earlier), 0)
            in_turn.append(own.pop(first))
            if own:
                heapq.heapreplace(heap, (-len(own), at))
            else:
                heapq.heappop(heap)
        return in_turn + self._order(set(every).difference(in_turn))

    def _subscribe_alike(self) -> bool:
        """Tell whether all members seem to subscribe to the same.

        Who subscribes to nothing is seen only behind one that does: a matter of chance.

        Source: `areSubscriptionsIdentical`.
        """
        if sum(self._counts.values()) > 1:
            takers = {tuple(sorted(each)) for each in self._takers.values()}
            if len(takers) > 1 or any(len(set(each)) < len(each) for each in takers):
                return False
        first: Counter[str] = Counter()
        for member_id in self._order(self._subscribed):
            own = Counter(self._subscribed[member_id])
            if not first:
                first = own
            elif self._most[member_id] != sum(map(self._counts.__getitem__, first)) or any(
                own[topic] != count for topic, count in first.items()
            ):
                return False
        return True

    def _size(self, member_id: str) -> int:
        return len(self._assigned.get(member_id, ()))

    def _rank(self) -> None:
        self._by_size = sorted((len(own), member_id) for member_id, own in self._assigned.items())

    def _set(self, member_id: str, own: list[TopicPartition]) -> None:
        if member_id in self._assigned:
            del self._by_size[bisect_left(self._by_size, (self._size(member_id), member_id))]
        self._assigned[member_id] = own
        insort(self._by_size, (len(own), member_id))

    def _fewest(self, topic: str) -> str | None:
        """Give the member with the fewest partitions that may take one of a topic."""
        return next((member for _, member in self._by_size if topic in self._named[member]), None)

    def _give(self, partition: TopicPartition) -> None:
        taker = self._fewest(partition[0])
        if taker is not None:
            self._set(taker, [*self._assigned[taker], partition])
            self._owner[partition] = taker

    def _takes_part(self, member_id: str) -> bool:
        """Tell whether a member may give or get anything."""
        own = self._assigned[member_id]
        return len(own) < self._most[member_id] or any(
            len(self._takers[topic]) > 1 for topic, _ in own
        )

    def _even_out(self, movable: Sequence[TopicPartition]) -> bool:
        """Move partitions until no one is to move; tell whether any was.

        The library asks before every partition whether all is balanced. That counts only where
        the partition would move.
        """
        moved = False
        while True:
            moved_now = False
            for partition in movable:
                taker = self._taker(partition)
                if taker is None:
                    continue
                if self._is_balanced():
                    break
                self._move(partition, taker)
                moved = moved_now = True
            if not moved_now:
                return moved

    def _taker(self, partition: TopicPartition) -> str | None:
        """Give the member that is to get a partition: its owner has two more than that one."""
        size = self._size(self._owner.get(partition, ""))
        earlier = self._earlier.get(partition)
        if earlier is not None and size > self._size(earlier) + 1:
            return earlier
        fewest = self._fewest(partition[0])
        return fewest if fewest is not None and size > self._size(fewest) + 1 else None

    def _move(self, partition: TopicPartition, taker: str) -> None:
        moved = self._movements.instead_of(partition, self._owner.get(partition, ""), taker)
        owner = self._owner.get(moved, "")
        self._movements.add(moved, owner, taker)
        self._set(owner, [each for each in self._assigned.get(owner, ()) if each != moved])
        self._set(taker, [*self._assigned.get(taker, ()), moved])
        self._owner[moved] = taker

    def _is_balanced(self) -> bool:
        """Source: `isBalanced`."""
        if self._by_size[0][0] >= self._by_size[-1][0] - 1:
            return True
        largest: dict[str, int] = {}
        for size, member_id in self._by_size:
            largest |= dict.fromkeys((topic for topic, _ in self._assigned[member_id]), size)
        return not any(
            size != self._most.get(member_id, 0)
            and any(largest.get(topic, 0) > size for topic in self._subscribed.get(member_id, ()))
            for size, member_id in self._by_size
        )

    def _score(self) -> int:
        """Sum the differences of the sizes of all pairs of members.

        Source: `getBalanceScore`.
        """
        count = len(self._by_size)
        return sum((2 * at - count + 1) * size for at, (size, _) in enumerate(self._by_size))
