"""Simple, the assignor of share groups: partitions are shared by as many members as it takes.

Source: `SimpleAssignor` of group-coordinator 4.3.1 and its two builders. One deals out all
partitions at once, where all members subscribe to the same topics; the other topic by topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from kgroup.assignor.base import AssignorError
from kgroup.assignor.java_hash import JavaHashMap
from kgroup.assignor.server import (
    IntSet,
    ServerAssignment,
    ServerGroup,
    ServerMember,
    ServerTopic,
    Target,
    uuid_hash,
    uuid_order,
)

__all__ = ["assign"]

_Slot = tuple[bytes, int]
"""A partition, by topic id."""


def assign(members: Sequence[ServerMember], topics: Mapping[str, ServerTopic]) -> ServerAssignment:
    """Assign as the coordinator does.

    Args:
        members: in the order in which they are put in a map.
        topics: of the cluster; all their partitions count as ready to be shared.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    group = ServerGroup(members, topics)
    everybody = range(len(group.member_ids))
    targets = _Targets(group)
    if group.is_homogeneous:
        if not group.sizes[group.member_ids[0]]:
            return group.assignment({})
        subscribed = group.subscriptions[group.member_ids[0]]
        for at in everybody:
            for topic_id, _ in targets.old(at):
                if topic_id not in subscribed:
                    targets.writable(at).remove(topic_id)
        _Deal(group, targets, subscribed, everybody).make()
    else:
        subscribers: dict[bytes, list[int]] = {}
        order = JavaHashMap[bytes]()
        for at, member_id in enumerate(group.member_ids):
            for topic_id in group.subscriptions[member_id]:
                order.put(topic_id, uuid_hash(topic_id), uuid_order(topic_id))
                subscribers.setdefault(topic_id, []).append(at)
        if not subscribers:
            return group.assignment({})
        for topic_id in order:
            _Deal(group, targets, [topic_id], subscribers[topic_id]).make()
    return group.assignment(dict(zip(group.member_ids, targets, strict=True)))


class _Targets:
    """The members' targets, by the members' numbers: the old ones, and copies of what changes."""

    def __init__(self, group: ServerGroup) -> None:
        self._old = [group.targets[member_id] for member_id in group.member_ids]
        self._new: dict[int, Target] = {}

    def __iter__(self) -> Iterator[Target]:
        return (self._new.get(at, old) for at, old in enumerate(self._old))

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
        topic_ids: Sequence[bytes],
        members: Sequence[int],
    ) -> None:
        self._targets = targets
        self._is_whole = group.is_homogeneous
        self._members = members
        self._slots: list[_Slot] = [
            (topic_id, partition)
            for topic_id in topic_ids
            for partition in range(group.partitions(topic_id))
        ]
        self._topic_ids = frozenset(topic_ids)
        count = len(self._slots)
        self._sharing = -(-len(members) // count) if count else 0
        self._shares = [0] * len(group.member_ids)
        exact = self._sharing * count / len(members)
        for place, at in enumerate(members):
            self._shares[at] = ceil(exact * (place + 1)) - ceil(exact * place)
        self._order = JavaHashMap[_Slot](_capacity_for(count))
        self._by_slot: dict[_Slot, IntSet] = {}
        self._by_member: dict[int, JavaHashMap[_Slot]] = {}

    def make(self) -> None:
        """Take the steps of Kafka's builders in their order."""
        self._take_over()
        self._relieve_members()
        self._relieve_slots()
        for slot in self._slots:
            self._sharers(slot)
        self._fill_up()

    def _take_over(self) -> None:
        for at, share in enumerate(self._shares):
            own = 0
            for topic_id, partitions in self._targets.old(at):
                if topic_id not in self._topic_ids:
                    continue
                for partition in partitions:
                    own += 1
                    self._sharers((topic_id, partition)).add(at)
                    self._put(at, (topic_id, partition))
            if self._is_whole and own and own >= share:
                self._targets.writable(at)

    def _relieve_members(self) -> None:
        """Take from members what they have beyond their shares."""
        for at, own in self._by_member.items():
            for slot in list(own)[: max(0, len(own) - self._shares[at])]:
                self._targets.writable(at).discard(*slot)
                self._by_slot[slot].remove(at)
                own.remove(slot)

    def _relieve_slots(self) -> None:
        """Take partitions from members that share them with too many."""
        for slot in self._order:
            sharers = self._by_slot[slot]
            if len(sharers) <= self._sharing:
                continue
            for at in list(sharers):
                if self._targets.writable(at).discard(*slot):
                    sharers.remove(at)
                    self._by_member[at].remove(slot)
                if len(sharers) <= self._sharing:
                    break

    def _fill_up(self) -> None:
        """Go once over the partitions, and round and round the members that have too few.

        Kafka does not note whom it has given a partition here, and stops for good where a whole
        round has found nobody.
        """
        unfilled = {at: None for at in sorted(self._members) if self._size(at) < self._shares[at]}
        turn = iter(list(unfilled))
        has_given = False
        for slot in self._order:
            missing = self._sharing - len(self._by_slot[slot])
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
                if at in self._by_slot[slot]:
                    continue
                self._targets.writable(at).add(*slot)
                self._put(at, slot)
                missing -= 1
                has_given = True
                if self._size(at) >= self._shares[at]:
                    del unfilled[at]
            if not unfilled:
                break

    def _size(self, at: int) -> int:
        return len(self._by_member.get(at, ()))

    def _sharers(self, slot: _Slot) -> IntSet:
        self._order.put(slot, self._hash(slot), prepend=True)
        return self._by_slot.setdefault(slot, IntSet())

    def _put(self, at: int, slot: _Slot) -> None:
        self._by_member.setdefault(at, JavaHashMap()).put(slot, self._hash(slot))

    def _hash(self, slot: _Slot) -> int:
        """Hash a `TopicIdPartition`; the builder for one topic has the partition alone."""
        return 31 * uuid_hash(slot[0]) + slot[1] if self._is_whole else slot[1]


def _capacity_for(size: int) -> int:
    """Source: `AssignorHelpers.newHashMap`."""
    return int((size + 1) / 0.75 + 1)
