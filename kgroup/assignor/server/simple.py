"""Simple, the assignor of share groups: partitions are shared by as many members as it takes.

Source: `SimpleAssignor` of group-coordinator 4.3.1 and its two builders. One deals out all
partitions at once, where all members subscribe to the same topics; the other topic by topic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.java.bulk_order import Ints, bulk_order, first_seen, ranks_within, stable_order
from kgroup.assignor.server.server import ServerGroup
from kgroup.assignor.server.target_rows import Rows, TargetRows


def assign(group: ServerGroup) -> Assignment:
    """Assign as the coordinator does; all partitions count as ready to be shared.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    first = group.member_ids[0]
    topics = group.subscriptions[first]
    subscribers: dict[int, list[int]] = {}
    for at, member_id in enumerate(() if group.is_homogeneous else group.member_ids):
        for topic in group.subscriptions[member_id]:
            subscribers.setdefault(topic, []).append(at)
    if not (group.sizes[first] if group.is_homogeneous else subscribers):
        return group.assignment({})
    targets = TargetRows(group)
    rows = targets.rows
    changed = np.zeros(len(group.member_ids), np.bool_)
    revoked = np.full(len(rows), -1)
    unsubscribed = np.zeros(len(rows), np.bool_)
    if group.is_homogeneous:
        unsubscribed = ~np.isin(rows.topics, topics)
        changed[rows.members[unsubscribed]] = True
        deal = _Deal(group, topics, range(len(changed)), rows, np.flatnonzero(~unsubscribed))
        changed |= deal.is_full
        deals = [deal]
    else:
        by_topic = stable_order(rows.topics)
        bounds = np.searchsorted(rows.topics[by_topic], np.arange(len(group.names) + 1))
        deals = [
            _Deal(group, [topic], members, rows, by_topic[bounds[topic] : bounds[topic + 1]])
            for topic, members in (
                (each, subscribers[each]) for each in group.put_order(subscribers)
            )
        ]
    given = Rows.joined(*[deal.make() for deal in deals])
    for deal in deals:
        revoked[deal.chosen] = deal.revoked
    changed[rows.members[revoked >= 0]] = True
    changed[given.members] = True
    return targets.assignment(targets.changed(changed, revoked, unsubscribed, given))


class _Deal:
    """Shares the partitions of some topics among some members.

    Kafka's two builders differ in what they copy only: the one that deals with all topics at once
    copies the target of every member that has its share or more.

    Args:
        group: whose members they are.
        topics: to be dealt out.
        members: that subscribe to them, by number, ascending.
        rows: who has what.
        chosen: indices of the rows of these topics.

    Attributes:
        chosen: likewise.
        revoked: when each of these rows is taken from its member, in the order of these numbers;
            negative: not.
        is_full: which members have their share or more.
    """

    def __init__(
        self,
        group: ServerGroup,
        topics: Sequence[int],
        members: Sequence[int],
        rows: Rows,
        chosen: Ints,
    ) -> None:
        self.chosen = chosen
        self._held = held = rows[chosen]
        self.revoked = np.full(len(held), -1)
        self._members = np.array(members, np.int64)
        counts = np.array([group.partitions(topic) for topic in topics], np.int64)
        self._count = int(counts.sum())
        self._sharing = -(-len(members) // self._count) if self._count else 0
        exact = self._sharing * self._count / len(members)
        bounds = np.ceil(exact * np.arange(len(members) + 1)).astype(np.int64)
        self._shares = np.zeros(len(group.member_ids), np.int64)
        self._shares[self._members] = np.diff(bounds)
        self.is_full = self._owned() >= self._shares
        # Partitions are numbered: those that there are, then those that somebody has nonetheless.
        self._topics = np.repeat(np.array(topics, np.int64), counts)
        self._partitions = ranks_within(np.repeat(np.arange(len(counts)), counts))
        size = np.zeros(len(group.names), np.int64)
        size[topics] = counts
        start = np.zeros(len(group.names), np.int64)
        start[topics] = np.cumsum(counts) - counts
        self._slots = start[held.topics] + held.partitions
        is_missing = held.partitions >= size[held.topics]
        if is_missing.any():
            keys = held.topics[is_missing] << 31 | held.partitions[is_missing]
            missing, numbers = np.unique(keys, return_inverse=True)
            self._slots[is_missing] = self._count + numbers
            self._topics = np.concatenate([self._topics, missing >> 31])
            self._partitions = np.concatenate([self._partitions, missing & (1 << 31) - 1])
        # of `TopicIdPartition`; the builder for one topic has the partition alone
        self._hashes = self._partitions
        if group.is_homogeneous:
            self._hashes = 31 * np.array(group.hashes, np.int64)[self._topics] + self._partitions

    def make(self) -> Rows:
        """Take the steps of Kafka's builders in their order; give what members get."""
        self._relieve_members()
        self._relieve_slots()
        return self._fill_up()

    def _relieve_members(self) -> None:
        """Take from members what they have beyond their shares."""
        beyond = self._owned() - self._shares
        rows = np.flatnonzero(beyond[self._held.members] > 0)
        rows = rows[bulk_order(self._held.members[rows], self._hashes[self._slots[rows]])]
        members = self._held.members[rows]
        self._revoke(rows[ranks_within(members) < beyond[members]])

    def _relieve_slots(self) -> None:
        """Take partitions from members that share them with too many."""
        beyond = self._sharers() - self._sharing
        if not (beyond > 0).any():
            return
        slots = self._slot_order(self._slots)
        ranks = np.empty_like(beyond)
        ranks[slots] = np.arange(len(slots))
        rows = np.flatnonzero(beyond[self._slots] > 0)
        rows = rows[stable_order(ranks[self._slots[rows]])]
        maps = ranks[self._slots[rows]]
        order = bulk_order(maps, self._held.members[rows], removals=self.revoked[rows])
        rows = rows[order]
        self._revoke(rows[ranks_within(maps[order]) < beyond[self._slots[rows]]])

    def _revoke(self, rows: Ints) -> None:
        """Take away rows, one after the other."""
        self.revoked[rows] = np.arange(len(rows)) + self.revoked.max(initial=-1) + 1

    def _fill_up(self) -> Rows:
        """Go once over the partitions, and round and round the members that have too few."""
        missing = (self._shares - self._owned())[self._members]
        unfilled, missing = self._members[missing > 0], missing[missing > 0]
        wanted = self._sharing - self._sharers()
        if not len(unfilled) or not (wanted > 0).any():
            return self._held[:0]
        slots = self._slot_order(np.concatenate([self._slots, np.arange(self._count)]))
        slots = slots[wanted[slots] > 0]
        if self._sharing == 1:  # nobody is asked in vain
            rounds = ranks_within(np.repeat(np.arange(len(unfilled)), missing))
            members = np.repeat(unfilled, missing)[stable_order(rounds)]
            slots, members = slots[: len(members)], members[: len(slots)]
        else:
            slots, members = self._shared(slots, wanted[slots], unfilled, missing)
        return Rows(members, self._topics[slots], self._partitions[slots])

    def _shared(
        self, slots: Ints, wanted: Ints, unfilled: Ints, missing: Ints
    ) -> tuple[Ints, Ints]:
        """Give slots, each to so many members as it wants, and tell to whom.

        Kafka does not note whom it has given a partition here, and stops for good where a whole
        round has found nobody.
        """
        sharers: dict[int, set[int]] = {slot: set() for slot in slots.tolist()}
        rows = self.revoked < 0
        held = zip(self._slots[rows].tolist(), self._held.members[rows].tolist(), strict=True)
        for slot, at in held:
            if slot in sharers:
                sharers[slot].add(at)
        missing_of = dict(zip(unfilled.tolist(), missing.tolist(), strict=True))
        turn = iter(list(missing_of))
        has_given = False
        given: list[tuple[int, int]] = []
        for slot, count in zip(sharers, wanted.tolist(), strict=True):
            takers: set[int] = set()
            while count > 0:
                at = next(turn, None)
                if at is None:
                    if not has_given:
                        break
                    turn = iter(list(missing_of))
                    has_given = False
                    at = next(turn, None)
                    if at is None:
                        raise AssignorError("NoSuchElementException")
                if at in sharers[slot]:
                    continue
                given.append((slot, at))
                missing_of[at] -= at not in takers
                takers.add(at)
                count -= 1
                has_given = True
                if not missing_of[at]:
                    del missing_of[at]
            if not missing_of:
                break
        made = np.array(given, np.int64).reshape(-1, 2)
        return made[:, 0], made[:, 1]

    def _owned(self) -> Ints:
        """Tell how many of the partitions each member has."""
        return np.bincount(self._held.members[self.revoked < 0], minlength=len(self._shares))

    def _sharers(self) -> Ints:
        """Tell how many members have each partition."""
        return np.bincount(self._slots[self.revoked < 0], minlength=len(self._topics))

    def _slot_order(self, calls: Ints) -> Ints:
        """Order partitions as the map does into which they are put by `computeIfAbsent`."""
        _, first = first_seen(calls)
        order = bulk_order(
            np.zeros(len(first), np.int64),
            self._hashes[calls[first]],
            _capacity_for(self._count),
            late=np.ones(len(first), np.bool_),
            prepend=True,
            called_again=bool(first[-1] != len(calls) - 1),
        )
        return calls[first[order]]


def _capacity_for(size: int) -> int:
    """Source: `AssignorHelpers.newHashMap`."""
    return int((size + 1) / 0.75 + 1)
