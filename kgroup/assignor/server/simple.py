"""Simple, the assignor of share groups: several members may share a partition.

Source: `SimpleAssignor` of group-coordinator 4.3.1 and its two builders. One assigns all partitions
at once, if all members have the same subscription; the other assigns topic by topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.java.bulk_order import (
    Flags,
    Ints,
    bulk_order,
    first_seen,
    ranks_within,
    stable_order,
)
from kgroup.assignor.java.java_hash import TABLE
from kgroup.assignor.server.server import ServerGroup


@dataclass(frozen=True, slots=True)
class _Rows:
    """Assigned partitions: member number, topic number and partition, one row each."""

    members: Ints
    topics: Ints
    partitions: Ints

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, chosen: Ints | Flags | slice) -> _Rows:
        return _Rows(self.members[chosen], self.topics[chosen], self.partitions[chosen])

    @classmethod
    def joined(cls, *parts: _Rows) -> _Rows:
        """Return the concatenated rows."""
        return cls(
            np.concatenate([part.members for part in parts]),
            np.concatenate([part.topics for part in parts]),
            np.concatenate([part.partitions for part in parts]),
        )


class _TargetRows:
    """The current target assignments, and their changes.

    Each target is a HashMap by topic of HashSets of partitions.

    Args:
        group: the group.

    Attributes:
        rows: rows of all members in the order of the group, and of each member in map order.
    """

    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._hashes = np.array(group.hashes, np.int64)
        records = group.records()
        every = list(chain.from_iterable(records))
        numbers = {name: topic for topic, name in enumerate(group.names)}
        read = _Rows(
            np.repeat(np.arange(len(records)), list(map(len, records))),
            np.fromiter(map(numbers.__getitem__, map(itemgetter(0), every)), np.int64, len(every)),
            np.fromiter(map(itemgetter(1), every), np.int64, len(every)),
        )
        entries, first = first_seen(self._entries(read))
        ranks = _ranks(self._entry_order(read[first]))[entries]
        order = stable_order(ranks)
        capacities = _capacities(np.bincount(ranks))
        order = order[_distinct(ranks[order], read.partitions[order])]
        order = order[bulk_order(ranks[order], read.partitions[order], capacities)]
        self.rows = read[order]
        self._ranks = ranks[order]

    def changed(self, changed: Flags, revoked: Ints, unsubscribed: Flags, given: _Rows) -> _Rows:
        """Return all rows after a change.

        The targets of changed members are copied (`AssignorHelpers.deepCopyAssignment`). Then
        topics and partitions are removed from the copies, and partitions added.

        Args:
            changed: whether each member is changed.
            revoked: sequence number of each row's removal; negative for rows that stay.
            unsubscribed: whether each row is removed with its topic.
            given: partitions for changed members, in order of addition; none that they keep.
        """
        rows = self.rows
        copied = np.flatnonzero(changed[rows.members])
        is_first = ranks_within(self._ranks[copied]) == 0
        first = copied[is_first]
        old = rows[first]  # one row per entry
        given = given[stable_order(given.members)]
        numbers, seen = first_seen(self._entries(_Rows.joined(old, given)))
        new = given[seen[len(old) :] - len(old)]
        entry_of_given = numbers[len(old) :]
        # whether the last `computeIfAbsent` of a member found its topic
        called_again = np.zeros(len(changed), np.bool_)
        last = np.flatnonzero(np.diff(given.members, append=-1))
        called_again[given.members[last]] = seen[entry_of_given[last]] != last + len(old)
        ranks = _ranks(
            self._entry_order(
                _Rows.joined(old, new),
                np.bincount(old.members, minlength=len(changed)),
                np.concatenate([np.where(unsubscribed[first], first, -1), np.full(len(new), -1)]),
                np.arange(len(old) + len(new)) >= len(old),
                called_again,
            ),
            len(old) + len(new),
        )
        kept = ~unsubscribed[copied]
        rank_of_old = ranks[np.cumsum(is_first) - 1][kept]
        copied = copied[kept]
        capacities = _capacities(np.bincount(rank_of_old, minlength=len(old) + len(new)))
        distinct = _distinct(entry_of_given, given.partitions)
        given, rank_of_given = given[distinct], ranks[entry_of_given[distinct]]
        both = _Rows.joined(rows[copied], given)
        maps = np.concatenate([rank_of_old, rank_of_given])
        order = stable_order(maps)
        order = order[
            bulk_order(
                maps[order],
                both.partitions[order],
                capacities,
                removals=np.concatenate([revoked[copied], np.full(len(given), -1)])[order],
                late=order >= len(copied),
            )
        ]
        made = _Rows.joined(rows[~changed[rows.members]], both[order])
        return made[stable_order(made.members)]

    def assignment(self, rows: _Rows) -> Assignment:
        """Return rows as lists; members without rows get no partitions."""
        names = self._group.names
        every = list(
            zip(map(names.__getitem__, rows.topics.tolist()), rows.partitions.tolist(), strict=True)
        )
        bounds = np.searchsorted(rows.members, np.arange(len(self._group.member_ids) + 1)).tolist()
        return {
            member_id: every[bounds[at] : bounds[at + 1]]
            for at, member_id in enumerate(self._group.member_ids)
        }

    def _entries(self, rows: _Rows) -> Ints:
        """Return the number of each row's entry in the members' maps."""
        return rows.members * len(self._hashes) + rows.topics

    def _entry_order(
        self,
        entries: _Rows,
        capacities: Ints | int = TABLE,
        removals: Ints | None = None,
        late: Flags | None = None,
        called_again: Flags | bool = False,
    ) -> Ints:
        """Return entries ordered by member and by the member's map; see `bulk_order`."""
        by_member = stable_order(entries.members)
        topics = entries.topics[by_member]
        return by_member[
            bulk_order(
                entries.members[by_member],
                self._hashes[topics],
                capacities,
                removals=None if removals is None else removals[by_member],
                late=None if late is None else late[by_member],
                prepend=True,
                called_again=called_again,
                order=lambda at: self._group.by_id(int(topics[at])),
            )
        ]


def _ranks(order: Ints, count: int | None = None) -> Ints:
    """Return the rank of each key in an order; -1 for keys that are not in it."""
    ranks = np.full(len(order) if count is None else count, -1, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _distinct(maps: Ints, numbers: Ints) -> Ints:
    """Return the indices of the first occurrence of each number in its map."""
    keys = maps << 31 | numbers
    return np.arange(len(keys)) if np.diff(np.sort(keys)).all() else first_seen(keys)[1]


def _capacities(counts: Ints) -> Ints:
    """Return the capacities of HashSets copied from these numbers of keys.

    See `server.capacity_for`.
    """
    return np.maximum((counts / 0.75).astype(np.int64) + 1, TABLE)


def assign(group: ServerGroup) -> Assignment:
    """Return the coordinator's assignment; all partitions are assumed to be initialized.

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
    targets = _TargetRows(group)
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
                (topic_id, subscribers[topic_id]) for topic_id in group.put_order(subscribers)
            )
        ]
    given = _Rows.joined(*[deal.make() for deal in deals])
    for deal in deals:
        revoked[deal.chosen] = deal.revoked
    changed[rows.members[revoked >= 0]] = True
    changed[given.members] = True
    return targets.assignment(targets.changed(changed, revoked, unsubscribed, given))


class _Deal:
    """Assigns the partitions of some topics to some members.

    Kafka's two builders differ only in what they copy: the one that assigns all topics at once
    copies the target of every member that has its share or more.

    Args:
        group: the group.
        topics: topics to assign.
        members: numbers of the members that subscribe to them, ascending.
        rows: current assignment.
        chosen: indices of the rows of these topics.

    Attributes:
        chosen: indices of the rows of these topics.
        revoked: sequence number of the removal of each of these rows; negative for rows that stay.
        is_full: whether each member has its share or more.
    """

    def __init__(
        self,
        group: ServerGroup,
        topics: Sequence[int],
        members: Sequence[int],
        rows: _Rows,
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
        # Slots number the partitions: existing ones, then missing ones that members still have.
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
        # hash of `TopicIdPartition`; the builder for one topic hashes the partition
        self._hashes = self._partitions
        if group.is_homogeneous:
            self._hashes = 31 * np.array(group.hashes, np.int64)[self._topics] + self._partitions

    def make(self) -> _Rows:
        """Run the steps of Kafka's builders in their order; return the rows to add."""
        self._relieve_members()
        self._relieve_slots()
        return self._fill_up()

    def _relieve_members(self) -> None:
        """Revoke partitions of members above their shares."""
        beyond = self._owned() - self._shares
        rows = np.flatnonzero(beyond[self._held.members] > 0)
        rows = rows[bulk_order(self._held.members[rows], self._hashes[self._slots[rows]])]
        members = self._held.members[rows]
        self._revoke(rows[ranks_within(members) < beyond[members]])

    def _relieve_slots(self) -> None:
        """Revoke partitions that too many members share."""
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
        """Revoke rows, one after another."""
        self.revoked[rows] = np.arange(len(rows)) + self.revoked.max(initial=-1) + 1

    def _fill_up(self) -> _Rows:
        """Assign the partitions in one pass, in turn to the members below their shares."""
        missing = (self._shares - self._owned())[self._members]
        unfilled, missing = self._members[missing > 0], missing[missing > 0]
        wanted = self._sharing - self._sharers()
        if not len(unfilled) or not (wanted > 0).any():
            return self._held[:0]
        slots = self._slot_order(np.concatenate([self._slots, np.arange(self._count)]))
        slots = slots[wanted[slots] > 0]
        if self._sharing == 1:  # every member of a round takes a partition
            rounds = ranks_within(np.repeat(np.arange(len(unfilled)), missing))
            members = np.repeat(unfilled, missing)[stable_order(rounds)]
            slots, members = slots[: len(members)], members[: len(slots)]
        else:
            slots, members = self._shared(slots, wanted[slots], unfilled, missing)
        return _Rows(members, self._topics[slots], self._partitions[slots])

    def _shared(
        self, slots: Ints, wanted: Ints, unfilled: Ints, missing: Ints
    ) -> tuple[Ints, Ints]:
        """Assign slots to as many members as each wants; return slots and members.

        Kafka does not record here to whom it has assigned a partition, and stops for good when a
        whole round has assigned nothing.
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
        """Return the number of these partitions that each member has."""
        return np.bincount(self._held.members[self.revoked < 0], minlength=len(self._shares))

    def _sharers(self) -> Ints:
        """Return the number of members that have each partition."""
        return np.bincount(self._slots[self.revoked < 0], minlength=len(self._topics))

    def _slot_order(self, calls: Ints) -> Ints:
        """Return partitions in the order of a map into which `computeIfAbsent` inserts them."""
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
