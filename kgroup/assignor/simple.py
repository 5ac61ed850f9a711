"""Simple, the assignor of share groups: partitions are shared by as many members as it takes.

Source: `SimpleAssignor` of group-coordinator 4.3.1 and its two builders. One deals out all
partitions at once, where all members subscribe to the same topics; the other topic by topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.java_hash import map_order
from kgroup.assignor.server import IntSet, Partitions, ServerGroup, Target, int_set, writable

__all__ = ["assign"]

_Slot = tuple[int, int]
"""A partition, by the number of its topic."""


def assign(group: ServerGroup) -> Assignment:
    """Assign as the coordinator does; all partitions count as ready to be shared.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    everybody = range(len(group.member_ids))
    targets = _Targets(group)
    if group.is_homogeneous:
        if not group.sizes[group.member_ids[0]]:
            return group.assignment({})
        subscribed = group.subscriptions[group.member_ids[0]]
        wanted = frozenset(subscribed)
        for at in everybody:
            for topic, _ in targets.old(at):
                if topic not in wanted:
                    targets.writable(at).remove(topic)
        _Deal(group, targets, subscribed, everybody).make()
    else:
        subscribers: dict[int, list[int]] = {}
        for at, member_id in enumerate(group.member_ids):
            for topic in group.subscriptions[member_id]:
                subscribers.setdefault(topic, []).append(at)
        if not subscribers:
            return group.assignment({})
        for topic in group.put_order(subscribers):
            _Deal(group, targets, [topic], subscribers[topic]).make()
    return group.assignment(dict(zip(group.member_ids, targets, strict=True)))


class _Targets:
    """The members' targets, by the members' numbers: the old ones, and copies of what changes."""

    def __init__(self, group: ServerGroup) -> None:
        self._old = [group.targets[member_id] for member_id in group.member_ids]
        self._new: dict[int, Target] = {}

    def __iter__(self) -> Iterator[Target]:
        return (self._new.get(at, old) for at, old in enumerate(self._old))

    def all_old(self) -> Iterable[Target]:
        """Give all targets as they were, by the members' numbers."""
        return self._old

    def old(self, at: int) -> Target:
        """Give a member's target as it was."""
        return self._old[at]

    def writable(self, at: int) -> Target:
        """Give a member's new target, made if it has none yet."""
        if at not in self._new:
            self._new[at] = self._old[at].copy()
        return self._new[at]


class _Deal:
    """Shares the partitions of some topics among some members.

    Kafka's two builders differ in what they copy only: `is_whole`, for the one that deals with all
    topics at once, copies the target of every member that has its share or more.
    """

    def __init__(
        self,
        group: ServerGroup,
        targets: _Targets,
        topics: Sequence[int],
        members: Sequence[int],
    ) -> None:
        self._group = group
        self._targets = targets
        self._is_whole = group.is_homogeneous
        self._members = members
        self._topics = frozenset(topics)
        self._slots: list[_Slot] = [
            (topic, partition) for topic in topics for partition in range(group.partitions(topic))
        ]
        count = len(self._slots)
        self._sharing = -(-len(members) // count) if count else 0
        exact = self._sharing * count / len(members)
        self._shares = {
            at: ceil(exact * (place + 1)) - ceil(exact * place) for place, at in enumerate(members)
        }
        self._taken_over: list[_Slot] = []
        self._by_slot: dict[_Slot, Partitions] = {}  # the members that have each
        self._by_member: dict[int, dict[_Slot, None]] = {}

    def make(self) -> None:
        """Take the steps of Kafka's builders in their order."""
        self._take_over()
        self._relieve_members()
        self._relieve_slots()
        self._fill_up()

    def _take_over(self) -> None:
        for at, old in enumerate(self._targets.all_old()):
            own = {
                (topic, partition): None
                for topic, partitions in old.of(self._topics)
                for partition in partitions
            }
            if not own:
                continue
            self._by_member[at] = own
            self._taken_over += own
            if self._by_slot.keys().isdisjoint(own):
                self._by_slot.update(dict.fromkeys(own, int_set([at])))
            else:
                for slot in own:
                    self._sharers(slot).add([at])
            if self._is_whole and len(own) >= self._shares[at]:
                self._targets.writable(at)

    def _relieve_members(self) -> None:
        """Take from members what they have beyond their shares."""
        for at, own in self._by_member.items():
            beyond = len(own) - self._shares.get(at, 0)
            for slot in map_order(list(own), self._hash)[:beyond] if beyond > 0 else ():
                self._targets.writable(at).discard(*slot)
                self._sharers(slot).remove(at)
                del own[slot]

    def _relieve_slots(self) -> None:
        """Take partitions from members that share them with too many."""
        if all(len(sharers) <= self._sharing for sharers in self._by_slot.values()):
            return
        for slot in self._in_order(self._taken_over):
            if len(self._by_slot[slot]) <= self._sharing:
                continue
            sharers = self._sharers(slot)
            for at in list(sharers):
                if self._targets.writable(at).discard(*slot):
                    sharers.remove(at)
                    del self._by_member[at][slot]
                if len(sharers) <= self._sharing:
                    break

    def _fill_up(self) -> None:
        """Go once over the partitions, and round and round the members that have too few.

        Kafka does not note whom it has given a partition here, and stops for good where a whole
        round has found nobody.
        """
        missing_of = {
            at: self._shares[at] - len(self._by_member.get(at, ())) for at in self._members
        }
        unfilled = {at: None for at in sorted(self._members) if missing_of[at] > 0}
        given: dict[int, list[_Slot]] = {at: [] for at in unfilled}
        turn = iter(list(unfilled))
        has_given = False
        for slot in self._in_order([*self._taken_over, *self._slots]) if unfilled else ():
            sharers = self._by_slot.get(slot, ())
            missing = self._sharing - len(sharers)
            while missing > 0:
                at = next(turn, None)
                if at is None:
                    if not has_given:
                        break
                    turn = iter(list(unfilled))
                    has_given = False
                    at = next(turn, None)
                    if at is None:
                        raise AssignorError("NoSuchElementException")
                if at in sharers:
                    continue
                own = given[at]
                if not own or own[-1] is not slot:
                    missing_of[at] -= 1
                own.append(slot)
                missing -= 1
                has_given = True
                if not missing_of[at]:
                    del unfilled[at]
            if not unfilled:
                break
        for at, slots in given.items():
            if slots:
                self._targets.writable(at).add(slots)

    def _sharers(self, slot: _Slot) -> IntSet:
        self._by_slot[slot] = sharers = writable(self._by_slot.get(slot, range(0)))
        return sharers

    def _in_order(self, calls: Sequence[_Slot]) -> list[_Slot]:
        return map_order(calls, self._hash, _capacity_for(len(self._slots)), prepend=True)

    def _hash(self, slot: _Slot) -> int:
        """Hash a `TopicIdPartition`; the builder for one topic has the partition alone."""
        return 31 * self._group.hash(slot[0]) + slot[1] if self._is_whole else slot[1]


def _capacity_for(size: int) -> int:
    """Source: `AssignorHelpers.newHashMap`."""
    return int((size + 1) / 0.75 + 1)
