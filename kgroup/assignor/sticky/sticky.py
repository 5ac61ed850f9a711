"""Sticky and cooperative-sticky: balanced first, then with the fewest moves.

Every member reports the partitions that it owned, and their generation. If all members have the
same subscription, each keeps its partitions up to its share, and one pass assigns the rest to
members below their shares. Otherwise partitions move until no move improves the balance
(`general`).

Source: `AbstractStickyAssignor` (`ConstrainedAssignmentBuilder`), `StickyAssignor` and
`CooperativeStickyAssignor` of kafka-clients 4.3.1, for an assignor that has not assigned before: a
real leader remembers the highest generation seen so far as a lower bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, dropwhile, repeat

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    Subscriber,
    TopicMetadata,
    in_hash_order,
    with_metadata,
)
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.sticky.claim import (
    Claim,
    Claims,
    Racks,
    Release,
    generation_read,
    or_no_generation,
)
from kgroup.model.cluster import TopicPartition


def _assign_equally(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    claims: Claims,
    *,
    release: Release,
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Return the assignment, and the new owners of partitions that change their owner.

    Args:
        members: members in hash order.
        topics: existing subscribed topics, in the order of `partitionsPerTopic`.
        claims: claims of the members.
        release: release of the leader.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    builder = _Builder(members, topics, claims, is_sorted=release >= Release.SORTED)
    return builder.build(), builder.transfers


class _Builder:
    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        claims: Claims,
        *,
        is_sorted: bool,
    ) -> None:
        self._is_sorted = is_sorted
        self._topics = topics
        self._claims = claims
        self._racks = Racks(members, topics)
        total = sum(topic.partitions for topic in topics.values())
        self._min_quota, self._over_wanted = divmod(total, len(members))
        self._max_quota = self._min_quota + (self._over_wanted > 0)
        self._over = 0  # members with more than `_min_quota`
        self._below: list[str] = []  # members with less than `_min_quota`
        self._at_min: list[str] = []  # members that may get one more than `_min_quota`
        self._revoked: dict[TopicPartition, str] = {}
        self._assignment: Assignment = {member_id: [] for member_id in claims.owned}
        self.transfers: dict[TopicPartition, str] = {}

    def build(self) -> Assignment:
        kept = self._keep_owned()
        self._below.sort(key=utf16)
        self._at_min.sort(key=utf16)
        free = self._racks.by_members(self._free(kept))
        if self._racks.matter:
            free = self._assign_by_rack(free)
        self._assign_in_turn(free)
        if self._below:  # not since 3.7.1
            if self._over != self._over_wanted:
                raise AssignorError(
                    "IllegalStateException",
                    "We haven't reached the expected number of members with more than the minQuota "
                    "partitions, but no more partitions to be assigned",
                )
            raise AssignorError(
                "IllegalStateException",
                f"Consumer: [{self._below[0]}] doesn't reach minQuota partitions, and no more "
                "partitions to be assigned",
            )
        return self._assignment

    def _keep_owned(self) -> list[TopicPartition]:
        rank = {topic: at for at, topic in enumerate(sorted(self._topics, key=utf16))}
        kept: list[TopicPartition] = []
        for member_id, claimed in self._claims.owned.items():
            owned = claimed
            if self._racks.matter:
                wrong = {
                    partition for partition in claimed if self._racks.mismatch(member_id, partition)
                }
                if self._is_sorted:
                    self._revoked.update(dict.fromkeys(wrong, member_id))
                owned = [partition for partition in claimed if partition not in wrong]
            if self._is_sorted:
                owned = sorted(
                    owned, key=lambda partition: partition[1] * len(rank) + rank[partition[0]]
                )
            else:
                owned = list(owned)
            if self._claims.disputed:
                for partition in self._claims.disputed.intersection(owned):
                    owned.remove(partition)
            if len(owned) < self._min_quota:
                quota = len(owned)
                self._below.append(member_id)
            elif len(owned) >= self._max_quota and self._over < self._over_wanted:
                quota = self._max_quota
                self._over += 1
                if self._over == self._over_wanted:
                    self._at_min.clear()
            else:
                quota = self._min_quota
                if self._over < self._over_wanted:
                    self._at_min.append(member_id)
            self._assignment[member_id] += owned[:quota]
            kept += owned[:quota]
            self._revoked.update(dict.fromkeys(owned[quota:], member_id))
        return kept

    def _free(self, kept: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that no member keeps, by topic and partition.

        Kafka merges two sorted lists: after a kept partition that no longer exists, all partitions
        count as free.
        """
        is_free = {
            name: bytearray(b"\1") * metadata.partitions for name, metadata in self._topics.items()
        }
        lost: list[str] = []
        for topic, number in kept:
            if number < len(is_free[topic]):
                is_free[topic][number] = False
            else:
                lost.append(topic)
        first_lost = min(map(utf16, lost), default=None)
        free: list[TopicPartition] = []
        for topic in sorted(self._topics, key=utf16):
            numbers: Iterable[int] = range(self._topics[topic].partitions)
            if first_lost is None or utf16(topic) <= first_lost:
                numbers = compress(numbers, is_free[topic])
            free += zip(repeat(topic), numbers)
        return free

    def _assign_by_rack(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions in turn to members in their racks; return those without a match."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            racks = self._racks.of(partition)
            at = self._next_in(racks, self._below, turn)
            if at is not None:
                member_id = self._below[at]
                count = len(self._assignment[member_id]) + 1
                if count >= self._min_quota:
                    del self._below[at]
                    if count < self._max_quota and (
                        self._over < self._over_wanted or not self._is_sorted
                    ):
                        self._at_min.append(member_id)
                else:
                    at += 1
                turn = at % len(self._below) if self._below else 0
            else:
                at = self._next_in(racks, self._at_min, 0)
                if at is None:
                    left.append(partition)
                    continue
                member_id = self._at_min[at]
                if len(self._assignment[member_id]) + 1 == self._max_quota:
                    del self._at_min[at]
                    self._over += self._is_sorted
                    if self._is_sorted and self._over == self._over_wanted:
                        self._at_min.clear()
            self._give([partition], member_id)
        return left

    def _next_in(self, racks: frozenset[str], members: Sequence[str], first: int) -> int | None:
        """Return the index of the next member in one of the racks, cyclically from `first` on."""
        if not racks:
            return None
        for step in range(len(members)):
            at = (first + step) % len(members)
            if self._racks.rack(members[at]) in racks:
                return at
        return None

    def _assign_in_turn(self, free: Sequence[TopicPartition]) -> None:
        """Assign partitions in turn to members below their share, then one more where allowed.

        Whole rounds are assigned at once as long as all members stay below their share.
        """
        start = 0
        while self._below and start < len(free):
            lists = [self._assignment[member_id] for member_id in self._below]
            missing = self._min_quota - max(map(len, lists))
            rounds = min(missing, (len(free) - start) // len(lists)) or 1
            end = start + rounds * len(lists)
            for at, member_id in enumerate(self._below):
                self._give(free[start + at : end : len(lists)], member_id)
            start = end
            self._at_min += [
                member_id for member_id in self._below if self._count(member_id) == self._min_quota
            ]
            self._below = [
                member_id for member_id in self._below if self._count(member_id) != self._min_quota
            ]
        for partition, member_id in zip(free[start:], self._at_min, strict=False):
            self._give([partition], member_id)
            self._over += self._count(member_id) == self._max_quota
        if len(free) - start > len(self._at_min):
            raise AssignorError(
                "IllegalStateException", "No more unfilled consumers to be assigned."
            )

    def _count(self, member_id: str) -> int:
        return len(self._assignment[member_id])

    def _give(self, partitions: Sequence[TopicPartition], member_id: str) -> None:
        """Assign free partitions to a member, and record those that change their owner."""
        self._assignment[member_id] += partitions
        if self._revoked or self._claims.disputed:
            for partition in partitions:
                owner = self._revoked.get(partition)
                if (
                    owner is not None and (owner != member_id or not self._is_sorted)
                ) or partition in self._claims.disputed:
                    self.transfers[partition] = member_id


def assign(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    release: Release = Release.SORTED,
) -> Assignment:
    """Return the assignment for the members' user data; see `ClassicAssignor`."""
    assignment, _ = _assign(members, topics, _remembered, release)
    return assignment


def assign_cooperative(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    release: Release = Release.SORTED,
) -> Assignment:
    """Return the assignment of a cooperative group's leader; see `ClassicAssignor`.

    A partition that changes its owner is in no list: its old owner revokes it, and the following
    rebalance assigns it to the new owner.
    """
    claim = _owned if release >= Release.EVERY_GENERATION else _owned_as_remembered
    assignment, transfers = _assign(members, topics, claim, release)
    if transfers is None:
        transfers = _transfers(members, assignment)
    given_up: dict[str, set[TopicPartition]] = defaultdict(set)
    for partition, member_id in transfers.items():
        given_up[member_id].add(partition)
    for member_id, partitions in given_up.items():
        assignment[member_id] = _without_once(assignment[member_id], partitions)
    return assignment


def _without_once(
    assigned: Sequence[TopicPartition], given_up: set[TopicPartition]
) -> list[TopicPartition]:
    """Return a list without one occurrence of each partition; invalid lists may repeat some."""
    kept = []
    for partition in assigned:
        if partition in given_up:
            given_up.remove(partition)
        else:
            kept.append(partition)
    return kept


def _remembered(member: Subscriber) -> Claim:
    return Claim(member.remembered or (), or_no_generation(member.remembered_generation))


def _owned(member: Subscriber) -> Claim:
    named = generation_read(member) if member.generation is None else member.generation
    return Claim(member.owned, or_no_generation(named))


def _owned_as_remembered(member: Subscriber) -> Claim:
    return Claim(member.owned, or_no_generation(generation_read(member)))


def _assign(
    members: Sequence[Subscriber],
    topics: Mapping[str, TopicMetadata],
    claim: Callable[[Subscriber], Claim],
    release: Release,
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Return the assignment, and the partitions that change their owner (None if unknown)."""
    members = in_hash_order(members)
    if release < Release.BY_RACK:
        members = [replace(member, rack=None) for member in members]
    known = {name: topics[name] for name in with_metadata(members, topics)}
    if release < Release.GENERAL:
        from kgroup.assignor.sticky import before_3  # imported here: it needs numpy

        is_cooperative = claim is not _remembered
        return before_3.assign(members, known, release=release, is_cooperative=is_cooperative)
    claims = Claims(members, [claim(member) for member in members], known, release=release)
    if _subscribe_equally(members):
        return _assign_equally(members, known, claims, release=release)
    from kgroup.assignor.sticky import general  # imported here: it needs numpy

    return general.assign(members, known, claims), None


def _subscribe_equally(members: Sequence[Subscriber]) -> bool:
    """Return whether all subscriptions equal the first non-empty one; skip earlier empty ones.

    Source: `AbstractStickyAssignor.allSubscriptionsEqual`.
    """
    rest = dropwhile(lambda member: not member.topics, members)
    subscriptions = list(dict.fromkeys(member.topics for member in rest))
    first = frozenset(subscriptions[0] if subscriptions else ())
    return all(len(own) == len(first) and first.issuperset(own) for own in subscriptions[1:])


def _transfers(members: Sequence[Subscriber], assignment: Assignment) -> dict[TopicPartition, str]:
    """Return partitions that are assigned to one member and revoked from another.

    Source: `CooperativeStickyAssignor.computePartitionsTransferringOwnership`.
    """
    owned = {member.member_id: member.owned for member in members}
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, assigned in assignment.items():
        before = set(owned[member_id])
        added.update((partition, member_id) for partition in assigned if partition not in before)
        revoked |= before.difference(assigned)
    return {partition: to for partition, to in added.items() if partition in revoked}
