"""Sticky assignment for members with different subscriptions.

Members keep the partitions that they owned. Free partitions go, one by one, to the member with the
fewest. Then partitions move to members that have at least two fewer, until no move improves the
balance.

Source: `AbstractStickyAssignor.GeneralAssignmentBuilder` of kafka-clients 4.3.1. Before every
partition Kafka checks all members and partitions for balance. This implementation checks only where
the result matters: a partition that can move to a member with fewer partitions proves by itself
that the assignment is not balanced. That does not hold if members claim partitions that do not
exist or to which they do not subscribe; then Kafka's result is not sound either, and its steps are
executed literally (`LiteralBuilder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, TopicMetadata
from kgroup.assignor.java.java_hash import JavaHashMap, topic_partition_hash, utf16
from kgroup.assignor.sticky.claim import Claims, Racks
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import java_int, string_hash

_NO_LIST = (
    'Cannot invoke "java.util.List.size()" because the return value of '
    '"java.util.Map.get(Object)" is null'
)
_Members = np.ndarray[Any, np.dtype[np.intp]]


def assign(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], claims: Claims
) -> Assignment:
    """Return the leader's assignment; the arguments are those of `sticky._assign_equally`."""
    subscribed = {member.member_id: frozenset(member.topics) for member in members}
    is_sound = (
        all(
            number < topics[topic].partitions
            for owned in claims.owned.values()
            for topic, number in owned
        )
        and all(topic in subscribed[owner] for (topic, _), (owner, _) in claims.earlier.items())
        and all(len(subscribed[member.member_id]) == len(member.topics) for member in members)
    )
    builder = Builder if is_sound else LiteralBuilder
    return builder(members, topics, claims.owned, claims.earlier).build()


class Builder:
    """Builds an assignment; members are numbered in the order of their ids, which breaks ties.

    Args:
        members: members in hash order.
        topics: existing subscribed topics, in the order of `partitionsPerTopic`.
        owned: accepted claims of the members, in the order of `currentAssignment`.
        earlier: see `Claims`.
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        owned: Mapping[str, Sequence[TopicPartition]],
        earlier: Mapping[TopicPartition, tuple[str, int]],
    ) -> None:
        self._topics = topics
        self._racks = Racks(members, topics)
        self._ids = sorted(owned, key=utf16)
        number = {member_id: at for at, member_id in enumerate(self._ids)}
        self._hash_order = [number[member_id] for member_id in owned]
        self._subscribed: list[list[str]] = [[] for _ in members]
        self._consumers: dict[str, list[int]] = {topic: [] for topic in topics}
        for member in members:
            for topic in member.topics:
                if topic in topics:
                    self._subscribed[number[member.member_id]].append(topic)
                    self._consumers[topic].append(number[member.member_id])
        self._candidates: dict[str, _Members] = {
            topic: np.array(sorted(consumers), np.intp)
            for topic, consumers in self._consumers.items()
        }
        self._assigned = [list(owned[member_id]) for member_id in self._ids]
        self._owner = {partition: at for at in self._hash_order for partition in self._assigned[at]}
        self._earlier = {
            partition: number[member_id] for partition, (member_id, _) in earlier.items()
        }
        self._is_fixed = [False] * len(members)
        self._movements = _Movements()
        self._counts = np.zeros(len(members), np.int64)  # lengths of `_assigned`
        self._fewest: dict[str, int] = {}  # minimum per topic, valid until a move

    def build(self) -> Assignment:
        """Return the assignment."""
        every = self._every()
        rank = {topic: at for at, topic in enumerate(dict.fromkeys(topic for topic, _ in every))}
        claimed = sum(map(len, self._assigned))
        kept = self._keep_owned()
        kept.sort(key=lambda partition: (rank[partition[0]], partition[1]))
        self._balance(every, list(_without(every, kept)), revokes=len(kept) < claimed)
        return {self._ids[at]: self._assigned[at] for at in self._hash_order}

    def _every(self) -> list[TopicPartition]:
        """Return all partitions, starting with topics that have the fewest subscribers."""
        in_order = sorted(self._topics, key=lambda name: (len(self._consumers[name]), utf16(name)))
        return [(name, p) for name in in_order for p in range(self._topics[name].partitions)]

    def _keep_owned(self) -> list[TopicPartition]:
        """Revoke invalid claims; return the partitions that members keep."""
        kept: list[TopicPartition] = []
        for at, claimed in enumerate(self._assigned):
            topics = frozenset(self._subscribed[at])
            self._assigned[at] = [
                partition
                for partition in claimed
                if partition[0] in topics and not self._racks.mismatch(self._ids[at], partition)
            ]
            kept += self._assigned[at]
            self._counts[at] = len(self._assigned[at])
        return kept

    def _balance(
        self, every: list[TopicPartition], free: list[TopicPartition], *, revokes: bool
    ) -> None:
        begins = not self._counts.any()
        for partition in self._assign_by_rack(free) if self._racks.matter else free:
            self._give(partition, self._candidates[partition[0]])
        shared = {topic for topic, consumers in self._consumers.items() if len(consumers) > 1}
        self._is_fixed = [not self._takes_part(at, shared) for at in range(len(self._ids))]
        before = [list(assigned) for assigned in self._assigned]
        if not revokes:
            self._reassign([partition for partition in free if partition[0] in shared])
        if (
            self._reassign([partition for partition in every if partition[0] in shared])
            and not begins
            and self._score(self._assigned) >= self._score(before)
        ):
            self._assigned = before

    def _assign_by_rack(self, free: Iterable[TopicPartition]) -> Sequence[TopicPartition]:
        """Assign partitions to members in matching racks; return the others."""
        left: list[TopicPartition] = []
        members_by_topic: dict[tuple[str, frozenset[str]], _Members] = {}
        for partition in free:
            key = partition[0], self._racks.of(partition)
            if key not in members_by_topic:
                matching = [
                    at
                    for at in self._candidates[partition[0]].tolist()
                    if not self._racks.mismatch(self._ids[at], partition)
                ]
                members_by_topic[key] = np.array(matching, np.intp)
            if len(members_by_topic[key]):
                self._give(partition, members_by_topic[key])
            else:
                left.append(partition)
        return left

    def _give(self, partition: TopicPartition, candidates: _Members) -> None:
        """Assign a partition to the candidate with the fewest partitions."""
        at = self._with_fewest(candidates)
        self._assigned[at].append(partition)
        self._owner[partition] = at
        self._counts[at] += 1

    def _with_fewest(self, candidates: _Members) -> int:
        return int(candidates[self._counts[candidates].argmin()])

    def _takes_part(self, at: int, shared: set[str]) -> bool:
        """Return whether a member could get or give partitions."""
        assigned = self._assigned[at]
        return len(assigned) < self._most(at) or any(topic in shared for topic, _ in assigned)

    def _most(self, at: int) -> int:
        """Return the largest number of partitions that a member could have."""
        return sum(self._topics[topic].partitions for topic in self._subscribed[at])

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions to members with fewer until none moves; return whether any was moved.

        Source: `GeneralAssignmentBuilder.performReassignments`.
        """
        has_moved = False
        while self._reassign_once(partitions):
            has_moved = True
        return has_moved

    def _reassign_once(self, partitions: Sequence[TopicPartition]) -> bool:
        has_moved = False
        for partition in partitions:
            count = len(self._assigned[self._owner[partition]])
            previous = self._earlier.get(partition)
            if previous is not None and (
                self._is_fixed[previous] or count > len(self._assigned[previous]) + 1
            ):
                if self._is_balanced():
                    break
                if self._is_fixed[previous]:
                    raise AssignorError("NullPointerException", _NO_LIST)
                self._move(partition, previous)
            elif count > self._fewest_of(partition[0]) + 1:
                self._move(partition, self._with_fewest(self._candidates[partition[0]]))
            else:
                continue
            has_moved = True
        return has_moved

    def _fewest_of(self, topic: str) -> int:
        if topic not in self._fewest:
            self._fewest[topic] = int(self._counts[self._candidates[topic]].min())
        return self._fewest[topic]

    def _is_balanced(self) -> bool:
        """Return whether no partition can move to a member with at least two fewer."""
        return all(
            len(self._assigned[self._owner[topic, number]]) <= self._fewest_of(topic) + 1
            for topic, consumers in self._consumers.items()
            if len(consumers) > 1
            for number in range(self._topics[topic].partitions)
        )

    def _move(self, partition: TopicPartition, to: int) -> None:
        """Move a partition to a member, or instead one of its topic that came from that member."""
        moved = self._movements.instead(partition, self._owner[partition], to)
        owner = self._owner[moved]
        if self._is_fixed[owner]:
            raise AssignorError("NullPointerException", _NO_LIST)
        self._movements.add(moved, owner, to)
        if moved in self._assigned[owner]:
            self._assigned[owner].remove(moved)
        self._assigned[to].append(moved)
        self._owner[moved] = to
        for at in (owner, to):
            self._counts[at] = len(self._assigned[at])
        self._fewest.clear()

    def _score(self, assigned: Sequence[Sequence[TopicPartition]]) -> int:
        """Return the sum of the differences of all pairs of members, as a Java int; 0 is balanced.

        Source: `GeneralAssignmentBuilder.getBalanceScore`.
        """
        sizes = sorted(
            len(own) for own, is_fixed in zip(assigned, self._is_fixed, strict=True) if not is_fixed
        )
        return java_int(sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes)))


class LiteralBuilder(Builder):
    """Executes Kafka's steps literally, for members with invalid claims.

    Partitions that do not exist stay assigned for ever, and others may be assigned twice. A member
    may get back a partition that it owned earlier, even without a subscription to its topic.
    """

    _slack = 1  # tolerated difference between two members

    def _reassign_once(self, partitions: Sequence[TopicPartition]) -> bool:
        has_moved = False
        balanced: bool | None = None  # valid until a move
        for partition in partitions:
            balanced = self._is_balanced() if balanced is None else balanced
            if balanced:
                break
            count = self._size(self._owner[partition])
            previous = self._earlier.get(partition)
            if previous is not None and count > self._size(previous) + 1:
                self._move(partition, previous)
            elif any(count > self._size(at) + 1 for at in self._consumers[partition[0]]):
                candidates = self._candidates[partition[0]].tolist()
                taking_part = [at for at in candidates if not self._is_fixed[at]]
                self._move(partition, self._with_fewest(np.array(taking_part, np.intp)))
            else:
                continue
            has_moved, balanced = True, None
        return has_moved

    def _size(self, at: int) -> int:
        if self._is_fixed[at]:  # Kafka has removed its list
            raise AssignorError("NullPointerException", _NO_LIST)
        return len(self._assigned[at])

    def _is_balanced(self) -> bool:
        taking_part = [at for at in self._hash_order if not self._is_fixed[at]]
        if not taking_part:
            raise AssignorError("NoSuchElementException")
        sizes = [len(self._assigned[at]) for at in taking_part]
        if min(sizes) >= max(sizes) - 1:
            return True
        owner = {partition: at for at in taking_part for partition in self._assigned[at]}
        for at in sorted(taking_part, key=lambda at: (len(self._assigned[at]), at)):
            own = set(self._assigned[at])
            count = len(self._assigned[at])
            if count == self._most(at):
                continue
            for topic in self._subscribed[at]:
                for number in range(self._topics[topic].partitions):
                    if (topic, number) in own:
                        continue
                    other = owner.get((topic, number))
                    if other is None:
                        raise AssignorError("NullPointerException", _NO_LIST)
                    if count + self._slack < len(self._assigned[other]):
                        return False
        return True

    def _most(self, at: int) -> int:
        if len(self._subscribed[at]) == len(self._topics):
            return sum(topic.partitions for topic in self._topics.values())
        return super()._most(at)


class _Movements:
    """Moves so far, to avoid that two partitions of a topic swap their owners.

    Source: `AbstractStickyAssignor.PartitionMovements`.
    """

    def __init__(self) -> None:
        self._by_pair: dict[str, dict[tuple[int, int], JavaHashMap[TopicPartition]]] = {}
        self._pair: dict[TopicPartition, tuple[int, int]] = {}

    def instead(self, partition: TopicPartition, owner: int, to: int) -> TopicPartition:
        """Return the partition to move: one that moved in the other direction, if there is any."""
        pairs = self._by_pair.get(partition[0])
        if not pairs:
            return partition
        origin = self._pair[partition][0] if partition in self._pair else owner
        back = pairs.get((to, origin))
        return next(iter(back)) if back else partition

    def add(self, partition: TopicPartition, owner: int, to: int) -> None:
        """Record a move; several moves of a partition count as one from its first owner."""
        pairs = self._by_pair.setdefault(partition[0], {})
        origin = owner
        if partition in self._pair:
            pair = self._pair.pop(partition)
            pairs[pair].remove(partition)
            if not len(pairs[pair]):
                del pairs[pair]
            origin = pair[0]
            if origin == to:
                return
        self._pair[partition] = origin, to
        moved = pairs.setdefault((origin, to), JavaHashMap())
        moved.put(partition, topic_partition_hash(string_hash(partition[0]), partition[1]))


def _without(
    partitions: Iterable[TopicPartition], kept: Iterable[TopicPartition]
) -> Iterator[TopicPartition]:
    """Yield the partitions that are not kept.

    Kafka merges two sorted lists: all partitions after a kept one that does not exist are yielded.
    """
    ahead = iter(kept)
    taken = next(ahead, None)
    for partition in partitions:
        if partition == taken:
            taken = next(ahead, None)
        else:
            yield partition
