"""Sarama for Go: subscriptions and assignors, by version.

Sticky: members keep the partitions they owned, and the rest goes to the least loaded members. Which
partitions a member gets or loses is mostly random, because the library iterates over maps (see
`go_library`): only their number is certain.

Source: `consumerGroup.joinGroupRequest`, `consumerGroup.balance`, `subscriptionMetadata`,
`ownedPartitions`, `balanceStrategy.Plan`, `NewBalanceStrategyRange`, `roundRobinBalancer.Plan`,
`stickyBalanceStrategy.Plan` and `partitionMovements` of Sarama 1.61.1 (github.com/IBM/sarama; up to
1.38 github.com/Shopify/sarama), the same since 1.28.0, `range` since 1.34.1;
`cooperativeStickyBalanceStrategy`, since 1.60.1; `BalanceStrategyRange` and
`balanceStrategyHashValue` of 1.30.0.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.client.go_library import (
    MapOrder,
    ascending,
    is_same_in_any_order,
    takers_by_topic,
)
from kgroup.assignor.client.load import Loads
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import MemberSpec, UserData
from kgroup.assignor.sticky.claim import NO_GENERATION, or_no_generation
from kgroup.model.cluster import TopicPartition


def partition_counts(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> dict[str, int]:
    """Return the number of partitions of each subscribed topic.

    Source: `consumerGroup.balance` of Sarama 1.61.1.

    Raises:
        AssignorError: a topic does not exist: then the leader assigns nothing.
    """
    counts = {}
    for name in sorted({topic for member in members for topic in member.topics}):
        if name not in topics or not topics[name].partitions:
            raise AssignorError(
                "KError",
                "kafka server: Request was for a topic or partition that does not exist on this "
                "broker",
            )
        counts[name] = topics[name].partitions
    return counts


def by_topic(
    members: Sequence[Subscriber], plan: Mapping[str, Sequence[TopicPartition]]
) -> Assignment:
    """Return each member's part of a plan, by topic.

    A message has topics in the random order of a map; here they are sorted. The partitions of a
    topic keep their planned order.
    """
    return {
        member.member_id: sorted(plan.get(member.member_id, ()), key=lambda partition: partition[0])
        for member in members
    }


def assign_range(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`. The first members get one more."""

    def runs(topic: str, takers: list[str], count: int) -> list[tuple[str, range]]:
        ids = sorted(set(takers))
        size, extra = divmod(count, len(ids))
        starts = [at * size + min(at, extra) for at in range(len(ids) + 1)]
        return [(member, range(starts[at], starts[at + 1])) for at, member in enumerate(ids)]

    return _in_runs(members, topics, runs)


def assign_range_1_28(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as versions before 1.34.1 do: members in hash order, bounds rounded half up.

    A topic that a member lists twice counts for two members. The order of two members with the
    same hash is random; here the lower id comes first.
    """

    def runs(topic: str, takers: list[str], count: int) -> list[tuple[str, range]]:
        ids = sorted(takers, key=lambda member: (_fnv_1a(topic + member), member))
        step = count / len(ids)
        limits = [math.floor(at * step + 0.5) for at in range(len(ids) + 1)]
        return [(member, range(limits[at], limits[at + 1])) for at, member in enumerate(ids)]

    return _in_runs(members, topics, runs)


def _in_runs(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    runs: Callable[[str, list[str], int], list[tuple[str, range]]],
) -> Assignment:
    plan: Assignment = {member.member_id: [] for member in members}
    takers = takers_by_topic(members)
    for topic, count in partition_counts(members, topics).items():
        ids = [member.member_id for member in takers[topic]]
        for member_id, run in runs(topic, ids, count):
            plan[member_id] += [(topic, number) for number in run]
    return by_topic(members, plan)


def _fnv_1a(text: str) -> int:
    """Return the FNV-1a hash of a text, by code points."""
    value = 2166136261
    for character in text:
        value = (value ^ ord(character)) * 16777619 & 0xFFFFFFFF
    return value


def assign_round_robin(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`.

    Partitions are sorted as strings: `orders-10` before `orders-2`.
    """
    counts = partition_counts(members, topics)
    if not counts:
        raise AssignorError("errorString", "members and topics are not provided")
    partitions = [(topic, number) for topic, count in counts.items() for number in range(count)]
    circle = sorted(members, key=lambda member: member.member_id)
    subscribed = [frozenset(member.topics) for member in circle]
    plan: Assignment = {member.member_id: [] for member in members}
    turn = 0
    for topic, number in sorted(partitions, key=lambda partition: f"{partition[0]}-{partition[1]}"):
        while topic not in subscribed[turn % len(circle)]:
            turn += 1
        plan[circle[turn % len(circle)].member_id].append((topic, number))
        turn += 1
    return by_topic(members, plan)


_Pair = tuple[str, str]


class _Movements:
    """The moves so far; avoids that two partitions of a topic change places.

    Each goes from the first owner of a partition to the present one.

    Args:
        order: iteration order of maps.
    """

    def __init__(self, order: MapOrder) -> None:
        self._order = order
        self._of: dict[TopicPartition, _Pair] = {}
        self._between: dict[tuple[str, _Pair], set[TopicPartition]] = {}

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record that a partition moves."""
        if partition in self._of:
            pair = self._of.pop(partition)
            self._between[partition[0], pair].discard(partition)
            source = pair[0]
            if source == target:
                return
        self._of[partition] = source, target
        self._between.setdefault((partition[0], (source, target)), set()).add(partition)

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move: one that moved the opposite way, if there is any."""
        if partition in self._of:
            source = self._of[partition][0]
        back = self._between.get((partition[0], (target, source)))
        return self._order(back)[-1] if back else partition


@dataclass(frozen=True, slots=True)
class _Claim:
    """A member's claim: partitions, and the generation in which it owned them."""

    partitions: Iterable[TopicPartition]
    generation: int | None


def assign_sticky(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], order: MapOrder = ascending
) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`.

    Source: `deserializeTopicPartitionAssignment` reads absent user data, not empty ones.

    Raises:
        AssignorError: user data are those of kafka-python 3, or of length 0, as its and aiokafka's
            are without partitions.
    """
    if any(member.is_empty or member.remembered_in_python is not None for member in members):
        text = "kafka: insufficient data to decode packet, more bytes expected"
        raise AssignorError("errorString", text)
    claims = {
        member.member_id: _Claim(member.remembered or (), member.remembered_generation)
        for member in members
    }
    return by_topic(members, _Plan(members, topics, claims, order).made())


def assign_cooperative_sticky(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], order: MapOrder = ascending
) -> Assignment:
    """Assign as the leader does; partitions that change hands are only revoked in this rebalance.

    A subscription before version 2 has no generation; then that of the user data counts.
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
            member_id: [
                partition
                for partition in own
                if partition in owned[member_id] or partition not in revoked
            ]
            for member_id, own in plan.items()
        },
    )


class _Plan:
    """An assignment during its computation.

    Args:
        members: in any order.
        topics: topics of the cluster.
        claims: claim of each member.
        order: iteration order of maps.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
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
        self._owner: dict[TopicPartition, str] = {}
        self._earlier: dict[TopicPartition, str] = {}
        self._movements = _Movements(order)
        self._believe(claims)

    def made(self) -> Mapping[str, Sequence[TopicPartition]]:
        """Return the whole assignment; members that are left out get nothing."""
        is_fresh = not self._assigned
        for member_id in self._subscribed:
            self._assigned.setdefault(member_id, [])
        free = self._keep()
        in_turn = self._in_turn(is_fresh=is_fresh)
        self._loads = Loads(self._assigned, self._takers)
        some_had_none = not all(self._assigned.values())
        for partition in free:
            self._give(partition)
        fixed = {member_id for member_id in self._subscribed if not self._takes_part(member_id)}
        apart = {member_id: self._assigned.pop(member_id) for member_id in fixed}
        self._loads = Loads(self._assigned, self._takers)
        score = self._score()
        moved = self._even_out(
            [partition for partition in in_turn if len(self._takers[partition[0]]) > 1]
        )
        if some_had_none or not moved or self._score() < score:
            self._assigned.update(apart)
        # else the library goes back to what was before, but in a copy that it drops: the moves
        # stay, and members that were set apart get nothing
        return self._assigned

    def _believe(self, claims: Mapping[str, _Claim]) -> None:
        """Assign partitions to the members that claim them with the latest generation.

        Of two claims with the same generation the first counts; the last, if user data has no
        generation.
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
        """Remove partitions of unsubscribed topics from members; return all free partitions."""
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
        """Return all partitions in the order in which they may move."""
        every = [(topic, at) for topic, count in self._counts.items() for at in range(count)]
        if is_fresh or not self._subscribe_alike():
            return sorted(
                every, key=lambda partition: (len(self._takers[partition[0]]), *partition)
            )
        # from the member with the most, again and again: what it did not have before that first
        rank = {member_id: at for at, member_id in enumerate(sorted(self._assigned, reverse=True))}
        left = {rank[member_id]: list(own) for member_id, own in self._assigned.items()}
        heap = [(-len(own), at) for at, own in left.items() if own]
        heapq.heapify(heap)
        in_turn = []
        while heap:
            _, at = heap[0]
            own = left[at]
            first = next((i for i, partition in enumerate(own) if partition in self._earlier), 0)
            in_turn.append(own.pop(first))
            if own:
                heapq.heapreplace(heap, (-len(own), at))
            else:
                heapq.heappop(heap)
        return in_turn + self._order(set(every).difference(in_turn))

    def _subscribe_alike(self) -> bool:
        """Return whether all members seem to have the same subscription.

        A member without topics is noticed only after one with topics, which is random.

        Source: `areSubscriptionsIdentical`.
        """
        if sum(self._counts.values()) > 1:
            takers = {tuple(sorted(taker)) for taker in self._takers.values()}
            if len(takers) > 1 or any(len(set(taker)) < len(taker) for taker in takers):
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

    def _set(self, member_id: str, own: list[TopicPartition]) -> None:
        is_new = member_id not in self._assigned
        self._assigned[member_id] = own
        if is_new:
            self._loads = Loads(self._assigned, self._takers)
        else:
            self._loads.set(member_id, len(own))

    def _give(self, partition: TopicPartition) -> None:
        taker = self._loads.least(partition[0])
        if taker is not None:
            self._set(taker, [*self._assigned[taker], partition])
            self._owner[partition] = taker

    def _takes_part(self, member_id: str) -> bool:
        """Return whether a member may lose or get a partition."""
        own = self._assigned[member_id]
        return len(own) < self._most[member_id] or any(
            len(self._takers[topic]) > 1 for topic, _ in own
        )

    def _even_out(self, movable: Sequence[TopicPartition]) -> bool:
        """Move partitions until none can move; return whether any did.

        The library tests before every partition whether the group is balanced. That matters only if
        the partition would move.
        """
        moved = False
        while True:
            moved_now = False
            for partition in movable:
                taker = self._taker(partition)
                if taker is None:
                    continue
                if not self._shows_imbalance(partition, taker) and self._is_balanced():
                    break
                self._move(partition, taker)
                moved = moved_now = True
            if not moved_now:
                return moved

    def _taker(self, partition: TopicPartition) -> str | None:
        """Return the member that gets a partition: its owner has at least two more."""
        size = self._size(self._owner.get(partition, ""))
        earlier = self._earlier.get(partition)
        if earlier is not None and size > self._size(earlier) + 1:
            return earlier
        fewest = self._loads.least(partition[0])
        return fewest if fewest is not None and size > self._size(fewest) + 1 else None

    def _shows_imbalance(self, partition: TopicPartition, taker: str) -> bool:
        """Return whether `_is_balanced` is False because of this partition."""
        topic = partition[0]
        return (
            taker in self._assigned
            and topic in self._named[taker]
            and self._size(taker) != self._most[taker]
            and any(name == topic for name, _ in self._assigned[self._owner[partition]])
        )

    def _move(self, partition: TopicPartition, taker: str) -> None:
        moved = self._movements.instead_of(partition, self._owner.get(partition, ""), taker)
        owner = self._owner.get(moved, "")
        self._movements.add(moved, owner, taker)
        self._set(
            owner, [partition for partition in self._assigned.get(owner, ()) if partition != moved]
        )
        self._set(taker, [*self._assigned.get(taker, ()), moved])
        self._owner[moved] = taker

    def _is_balanced(self) -> bool:
        """Return whether the group is balanced. Source: `isBalanced`."""
        if self._loads.are_even:
            return True
        largest: dict[str, int] = {}
        for member_id in self._loads.in_order():
            own = self._assigned[member_id]
            largest |= dict.fromkeys((topic for topic, _ in own), len(own))
        return not any(
            len(own) != self._most.get(member_id, 0)
            and any(
                largest.get(topic, 0) > len(own) for topic in self._subscribed.get(member_id, ())
            )
            for member_id, own in self._assigned.items()
        )

    def _score(self) -> int:
        """Return the sum of load differences over all pairs of members.

        Source: `getBalanceScore`.
        """
        sizes = sorted(map(len, self._assigned.values()))
        return sum((2 * at - len(sizes) + 1) * size for at, size in enumerate(sizes))


_OWNED_FROM = 1
_GENERATION_FROM = 2


def as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    """Return the members' subscriptions as the leader reads them.

    Topics are in the order of the application. A sticky member returns the user data of its last
    assignment; a cooperative one its owned partitions and the generation. No member sends its rack.
    Versions of the message above 0 are sent since there is a cooperative strategy.
    """
    goes_on = "cooperative-sticky" in SARAMA.strategies[version]
    return [_as_sent(member, strategy, goes_on=goes_on) for member in members]


def _as_sent(member: MemberSpec, strategy: str, *, goes_on: bool) -> Subscriber:
    owned: tuple[TopicPartition, ...] = ()
    generation = remembered_generation = None
    remembered = None
    if strategy == "sticky" and member.owned is not None:
        remembered, remembered_generation = member.owned, member.generation
    elif strategy == "cooperative-sticky":
        remembered_generation = member.generation
        if member.version >= _OWNED_FROM:
            owned = tuple(sorted(member.owned or ()))
        if member.version >= _GENERATION_FROM:
            generation = member.subscription_generation
            if generation is None:
                generation = member.generation
    if member.user_data is not None:
        remembered = member.user_data.owned
        remembered_generation = member.user_data.generation
    return Subscriber(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.instance_id,
        owned=owned,
        generation=generation,
        remembered=remembered,
        remembered_generation=remembered_generation,
        goes_on=goes_on and member.version >= _OWNED_FROM,
    )


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    by_chance = next((shuffler for shuffler in _BY_CHANCE if shuffler is assignor), None)
    return by_chance is None or is_same_in_any_order(
        lambda order: by_chance(members, topics, order)
    )


_BY_CHANCE = (assign_sticky, assign_cooperative_sticky)
_EAGER = {"range": assign_range, "roundrobin": assign_round_robin, "sticky": assign_sticky}


def told_nothing(library: str, strategy: str | None, *, by_sarama: bool) -> UserData | None:
    """Return the empty user data that a member sends whose leader told it nothing to remember.

    Args:
        library: of the member.
        strategy: of the group.
        by_sarama: whether a leader of Sarama has assigned: others write no user data.

    Returns:
        None if the member sends what members of its library usually do.
    """
    forgets = (library, strategy) == (SARAMA.name, "sticky") and not by_sarama
    return UserData() if forgets else None


SARAMA = ClientLibrary(
    name="sarama",
    strategies={
        "1.61.1": {**_EAGER, "cooperative-sticky": assign_cooperative_sticky},
        "1.47.0": _EAGER,
        "1.30.0": {**_EAGER, "range": assign_range_1_28},
    },
    as_sent=as_sent,
    client_id="sarama",
    is_determined=_is_determined,
    since={"1.61.1": "1.60.1", "1.47.0": "1.34.1", "1.30.0": "1.28.0"},
)
