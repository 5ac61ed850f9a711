"""Sticky and cooperative-sticky of kafka-python.

Members keep the partitions they owned. Each free partition is assigned to the least loaded member.
Then partitions move to members with at least two fewer, until the balance no longer improves.
Java's sticky assignor of 2.3 did the same in other orders: here all orders are by topic, partition
and member id as Python sorts them, and two subscriptions are equal only if they list topics in the
same order.

Source: `StickyAssignmentExecutor`, `PartitionMovements` (kafka/coordinator/assignors/sticky/
sticky_assignor.py) and `cooperative_sticky.py` of kafka-python 3.0.12 and 2.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import islice

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, TopicMetadata
from kgroup.assignor.client.load import Loads
from kgroup.assignor.sticky.claim import NO_GENERATION, Claim, or_no_generation
from kgroup.model.cluster import TopicPartition

_Choose = Callable[[Collection[TopicPartition]], TopicPartition]
"""Chooses one partition where the library takes an arbitrary one."""


class _Balance:
    """State of a group during balancing.

    Args:
        members: in the order of the JoinGroup response.
        topics: topics of the cluster. The leader is assumed to know those that members subscribe
            to; see docs/assign.md.
        claims: claim of each member, by member id.
        choose: see `_Choose`.
        undoes_moves: if a partition cannot move because another one must move back first, its owner
            loses the other one too (3.0.12).
    """

    def __init__(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        claims: Mapping[str, Claim],
        choose: _Choose,
        *,
        undoes_moves: bool,
    ) -> None:
        self._choose = choose
        self._undoes_moves = undoes_moves
        self._movements = _Movements(choose)
        self._subscribed = {member.member_id: member.topics for member in members}
        existing = {
            names: tuple(name for name in names if name in topics and topics[name].partitions)
            for names in {member.topics for member in members}
        }
        self._existing = {member.member_id: existing[member.topics] for member in members}
        self._most = {
            member_id: sum(topics[name].partitions for name in names)
            for member_id, names in self._existing.items()
        }
        self._takers: dict[str, list[str]] = {}
        for member in members:
            for name in member.topics:
                if name in topics and topics[name].partitions:
                    self._takers.setdefault(name, []).append(member.member_id)
        self._every = {(name, p) for name in self._takers for p in range(topics[name].partitions)}
        self._assigned: dict[str, list[TopicPartition]] = {
            member.member_id: [] for member in members
        }
        self._earlier: dict[TopicPartition, str] = {}
        for partition, owners in _by_generation(claims).items():
            latest, *earlier = sorted(owners, reverse=True)
            self._assigned[owners[latest]].append(partition)
            if earlier:
                self._earlier[partition] = owners[earlier[0]]
        self._in_play = set(self._assigned)
        self._owner: dict[TopicPartition, str] = {}
        self._has_unsubscribed = False

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, in arbitrary order."""
        every = self._in_order()
        kept = self._keep()
        free = [partition for partition in every if partition not in kept]
        begins = not any(self._assigned.values())
        self._give(free)
        fixed = {
            member_id: self._assigned.pop(member_id)
            for member_id in self._in_play
            if not self._takes_part(member_id)
        }
        self._in_play.difference_update(fixed)
        self._loads = Loads(
            {member_id: self._assigned[member_id] for member_id in self._in_play}, self._takers
        )
        before = {member_id: list(own) for member_id, own in self._assigned.items()}
        if not self._has_unsubscribed:
            self._reassign(list(filter(self._is_shared, free)))
        if (
            self._reassign(list(filter(self._is_shared, every)))
            and not begins
            and _score(self._assigned) >= _score(before)
        ):
            self._assigned = before
        return self._assigned | fixed

    def _in_order(self) -> list[TopicPartition]:
        """Return all partitions in the order in which they move: fewest candidates first.

        If all members have the same subscription, partitions of the fullest member come first.
        """
        every = sorted(
            self._every, key=lambda partition: (len(self._takers[partition[0]]), partition)
        )
        claimed = any(self._assigned.values())
        if not (
            claimed and _are_alike(self._takers.values()) and _are_alike(self._existing.values())
        ):
            return every
        members = []
        for member_id in sorted(self._assigned, reverse=True):
            own = [partition for partition in self._assigned[member_id] if partition in self._every]
            contested = [partition for partition in own if partition in self._earlier]
            rest = [partition for partition in own if partition not in self._earlier]
            members.append((contested, rest))
        heap = [(-len(contested) - len(rest), at) for at, (contested, rest) in enumerate(members)]
        heapify(heap)
        first: dict[TopicPartition, None] = {}
        while heap[0][0]:
            size, at = heap[0]
            contested, rest = members[at]
            if contested:
                partition = self._choose(contested)
                contested.remove(partition)
            else:
                partition = rest.pop()
            first[partition] = None
            heapreplace(heap, (size + 1, at))
        return list(first | dict.fromkeys(every))

    def _keep(self) -> set[TopicPartition]:
        """Drop claims on missing or unsubscribed topics; return the partitions that are kept."""
        for member_id, own in self._assigned.items():
            existing = [partition for partition in own if partition in self._every]
            kept = [
                partition for partition in existing if partition[0] in self._subscribed[member_id]
            ]
            self._has_unsubscribed |= len(kept) < len(existing)
            self._assigned[member_id] = kept
            self._owner.update(dict.fromkeys(kept, member_id))
        return set(self._owner)

    def _give(self, free: Sequence[TopicPartition]) -> None:
        """Assign each free partition to its least loaded candidate."""
        by_takers: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        heaps: dict[str, list[tuple[int, str]]] = {}
        for name, takers in self._takers.items():
            sizes = [(len(self._assigned[member_id]), member_id) for member_id in takers]
            heaps[name] = by_takers.setdefault(tuple(takers), sizes)
        for heap in by_takers.values():
            heapify(heap)
        for partition in free:
            heap = heaps[partition[0]]
            size, member_id = heap[0]
            while size != (known := len(self._assigned[member_id])):  # it got some by another heap
                heapreplace(heap, (known, member_id))
                size, member_id = heap[0]
            self._assigned[member_id].append(partition)
            self._owner[partition] = member_id

    def _takes_part(self, member_id: str) -> bool:
        """Return whether a member could get or lose a partition."""
        own = self._assigned[member_id]
        return len(own) < self._most[member_id] or any(map(self._is_shared, own))

    def _is_shared(self, partition: TopicPartition) -> bool:
        return len(self._takers[partition[0]]) > 1

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions to less loaded members until none is left; return whether any moved."""
        has_moved = False
        all_play = self._all_play(partitions)
        while self._reassign_once(partitions, all_play=all_play):
            has_moved = True
        return has_moved

    def _all_play(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether all members that could give or get these partitions take part."""
        names = {name for name, _ in partitions}
        return (
            self._in_play.issuperset(self._earlier.values())
            and self._in_play.issuperset(self._owner[partition] for partition in partitions)
            and all(self._in_play.issuperset(self._takers[name]) for name in names)
        )

    def _reassign_once(self, partitions: Sequence[TopicPartition], *, all_play: bool) -> bool:
        """Try to move each partition once; return whether any moved.

        The library tests before every partition whether the group is balanced. If all members take
        part, that matters only if the partition would move, and then mostly shows that it is not.
        """
        has_moved = False
        is_balanced: bool | None = None  # the same until something moves
        for partition in partitions:
            if not all_play:
                is_balanced = self._is_balanced() if is_balanced is None else is_balanced
                if is_balanced:
                    break
            to = self._better(partition, all_play=all_play)
            if to is None:
                continue
            if all_play and not self._shows_imbalance(partition, to) and self._is_balanced():
                break
            if to not in self._in_play:
                raise AssignorError("KeyError", repr((to, ())))
            self._move_one(partition, to)
            has_moved, is_balanced = True, None
        return has_moved

    def _better(self, partition: TopicPartition, *, all_play: bool) -> str | None:
        """Return the member to which a partition moves; None if it stays."""
        most = self._size(self._owner[partition]) - 1
        earlier = self._earlier.get(partition)
        if earlier is not None and self._size(earlier) < most:
            return earlier
        least = self._loads.least(partition[0])
        if all_play:
            return least if least is not None and self._size(least) < most else None
        takers = self._takers[partition[0]]
        return least if any(self._size(taker) < most for taker in takers) else None

    def _size(self, member_id: str) -> int:
        # to look at a member that takes no part is to give it an empty list, which counts then
        return len(self._assigned.setdefault(member_id, []))

    def _shows_imbalance(self, partition: TopicPartition, to: str) -> bool:
        """Return whether `_is_balanced` is False because of a partition that would move."""
        return to in self._takers[partition[0]] and self._size(to) != self._most[to]

    def _is_balanced(self) -> bool:
        if self._loads.are_even:
            return True
        sizes = {member_id: len(self._assigned[member_id]) for member_id in self._in_play}
        wanting = {
            member_id: size for member_id, size in sizes.items() if size != self._most[member_id]
        }
        least = {
            name: min((wanting[taker] for taker in takers if taker in wanting), default=None)
            for name, takers in self._takers.items()
        }
        return not any(
            (fewest := least[name]) is not None and fewest < sizes[self._owner[name, number]]
            for name, number in self._every
        )

    def _move_one(self, partition: TopicPartition, to: str) -> None:
        """Move a partition to a member, or move one of its topic back that came from there."""
        owner = self._owner[partition]
        moved = self._movements.instead(partition, owner, to)
        if self._undoes_moves and self._owner[moved] != owner:
            self._move(partition, self._owner[moved])
        self._move(moved, to)

    def _move(self, partition: TopicPartition, to: str) -> None:
        owner = self._owner[partition]
        self._movements.add(partition, owner, to)
        self._assigned[owner].remove(partition)
        self._assigned[to].append(partition)
        self._owner[partition] = to
        for member_id in (owner, to):
            self._loads.set(member_id, len(self._assigned[member_id]))


class _Movements:
    """The moves so far; avoids that two partitions of a topic change places."""

    def __init__(self, choose: _Choose) -> None:
        self._choose = choose
        self._moved: dict[tuple[str, str, str], set[TopicPartition]] = {}
        self._from: dict[TopicPartition, str] = {}

    def instead(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Return the partition to move: one that moved the opposite way, if there is any."""
        back = self._moved.get((partition[0], to, self._from.get(partition, owner)))
        return self._choose(back) if back else partition

    def add(self, partition: TopicPartition, owner: str, to: str) -> None:
        """Record a move; several moves of a partition become one, from its first owner."""
        origin = self._from.pop(partition, None)
        if origin is not None:
            self._moved[partition[0], origin, owner].remove(partition)
            if origin == to:
                return
        self._from[partition] = origin or owner
        self._moved.setdefault((partition[0], origin or owner, to), set()).add(partition)


def _by_generation(claims: Mapping[str, Claim]) -> dict[TopicPartition, dict[int, str]]:
    """Return the claimants of partitions by generation: the first; for generation 0, the last.

    The library tests whether there is a generation, and takes 0 for none.
    """
    owners: dict[TopicPartition, dict[int, str]] = {}
    for member_id, claim in claims.items():
        for partition in claim.partitions:
            of_partition = owners.setdefault(partition, {})
            if not claim.generation or claim.generation not in of_partition:
                of_partition[claim.generation] = member_id
    return owners


def _are_alike(lists: Iterable[Sequence[object]]) -> bool:
    iterator = iter(lists)
    first = next(iterator, None)
    return all(other is first or other == first for other in iterator)


def _score(assigned: Mapping[str, Sequence[TopicPartition]]) -> int:
    """Return the sum of load differences over all pairs of members; 0 is balanced."""
    sizes = sorted(map(len, assigned.values()))
    return sum(size * (2 * at - len(sizes) + 1) for at, size in enumerate(sizes))


_MOST_WAYS = 64
_LATER = 1  # a generation: of claims that are all of one, it does not matter which


@dataclass(frozen=True, slots=True)
class StickyAssignor:
    """Assigns as the leader of a sticky group does; see `ClassicAssignor`.

    Attributes:
        is_cooperative: owned partitions are in the subscription, not in the user data; partitions
            that change hands are revoked first.
        reads_version: user data begins with a version (since 3.0); user data of the other form is
            ignored.
        undoes_moves: see `_Balance`.
    """

    is_cooperative: bool
    reads_version: bool
    undoes_moves: bool

    def __call__(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> Assignment:
        """Assign; where the library takes an arbitrary partition, take the lowest."""
        return self._assign(members, topics, _Choices(()))

    def is_determined(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> bool:
        """Return whether the library gives the same result in every process.

        It takes an arbitrary element of a set in two places, and the order of a set depends on
        string hashes, which Python randomizes for each process.
        """
        ways = self._ways(members, topics)
        first = next(ways)
        try:
            return all(assignment == first for assignment in ways)
        except AssignorError:
            return False

    def is_same_without(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        known: Collection[str],
    ) -> bool:
        """Return whether the result is the same if only known topics are assigned first.

        In the following rebalance, no member claims the partitions that were not assigned then.
        """
        if all(name in known for member in members for name in member.topics if name in topics):
            return True
        claims = {member.member_id: self._claim(member) for member in members}
        lowest = _Choices(())
        try:
            first = self._assign(members, {name: topics[name] for name in known}, lowest)
            kept = {member_id: Claim(own, _LATER) for member_id, own in first.items()}
            shares = [
                self._balanced(members, topics, own_claims, lowest) for own_claims in (claims, kept)
            ]
        except AssignorError:
            return False
        return shares[0] == shares[1]

    def _balanced(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, TopicMetadata],
        claims: Mapping[str, Claim],
        choices: _Choices,
    ) -> Assignment:
        """Return the target of each member, before previous owners have released it."""
        partitions = _Balance(
            members, topics, claims, choices, undoes_moves=self.undoes_moves
        ).assign()
        return {member.member_id: sorted(partitions[member.member_id]) for member in members}

    def outcomes(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> list[Assignment] | None:
        """Return all possible results; None if there are more than 64.

        Raises:
            AssignorError: the library fails in one of the cases.
        """
        partitions: list[Assignment] = []
        for assignment in self._ways(members, topics):
            if assignment is None:
                return None
            if assignment not in partitions:
                partitions.append(assignment)
        return partitions

    def _ways(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
    ) -> Iterator[Assignment | None]:
        """Yield one possible result after the other; None at the end if there are more than 64."""
        scripts: list[tuple[int, ...]] = [()]
        for _ in range(_MOST_WAYS):
            choices = _Choices(scripts.pop())
            yield self._assign(members, topics, choices)
            scripts += choices.others()
            if not scripts:
                return
        yield None

    def _assign(
        self, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata], choices: _Choices
    ) -> Assignment:
        claims = {member.member_id: self._claim(member) for member in members}
        assignment = self._balanced(members, topics, claims, choices)
        if not self.is_cooperative:
            return assignment
        # of those that claim a partition the last one counts here, and above the first one
        owners = {
            partition: member_id
            for member_id in claims
            for partition in claims[member_id].partitions
        }
        return {
            member_id: [
                partition for partition in own if owners.get(partition, member_id) == member_id
            ]
            for member_id, own in assignment.items()
        }

    def _claim(self, member: Subscriber) -> Claim:
        if self.is_cooperative:
            return Claim(member.owned, or_no_generation(member.generation))
        if self.reads_version:
            return Claim(*(member.remembered_in_python or ((), NO_GENERATION)))
        if member.remembered_generation is None:
            return Claim((), NO_GENERATION)
        return Claim(member.remembered or (), member.remembered_generation)


class _Choices:
    """Chooses partitions by a list of ranks, and the lowest one after its end."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self._taken: list[int] = []
        self._sizes: list[int] = []

    def __call__(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        if len(partitions) == 1:
            return next(iter(partitions))
        at = len(self._taken)
        self._taken.append(self._script[at] if at < len(self._script) else 0)
        self._sizes.append(len(partitions))
        return sorted(partitions)[self._taken[-1]]

    def others(self) -> list[tuple[int, ...]]:
        """Return the lists of ranks that differ first after the end of this one."""
        return [
            (*self._taken[:at], rank)
            for at, size in islice(enumerate(self._sizes), len(self._script), None)
            for rank in range(1, size)
        ]
