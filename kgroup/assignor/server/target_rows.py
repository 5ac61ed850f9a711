"""All target assignments of a group as rows, for groups of a million partitions.

What `server.Target` is for one member, key by key, this is for all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from kgroup.assignor.base import Assignment
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
class Rows:
    """Who has what: numbers of members and of topics, and partitions, one row each."""

    members: Ints
    topics: Ints
    partitions: Ints

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, chosen: Ints | Flags | slice) -> Rows:
        return Rows(self.members[chosen], self.topics[chosen], self.partitions[chosen])

    @classmethod
    def joined(cls, *parts: Rows) -> Rows:
        """Put rows together."""
        return cls(
            np.concatenate([part.members for part in parts]),
            np.concatenate([part.topics for part in parts]),
            np.concatenate([part.partitions for part in parts]),
        )


class TargetRows:
    """The target assignments that stand, and what becomes of them.

    Each is a HashMap by topic of HashSets of partitions.

    Args:
        group: whose they are.

    Attributes:
        rows: of all members, in the order of the group, each member's in that of its map.
    """

    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._hashes = np.array(group.hashes, np.int64)
        records = group.records()
        every = list(chain.from_iterable(records))
        numbers = {name: topic for topic, name in enumerate(group.names)}
        read = Rows(
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

    def changed(self, changed: Flags, revoked: Ints, unsubscribed: Flags, given: Rows) -> Rows:
        """Give all rows as they are after a change.

        The targets of members that change are copied (`AssignorHelpers.deepCopyAssignment`), then
        topics and partitions are taken out of the copies, then partitions put in.

        Args:
            changed: which members.
            revoked: when each row goes, in the order of these numbers; negative: not.
            unsubscribed: which rows go with their topics.
            given: what changed members get, in that order; nothing that they keep.
        """
        rows = self.rows
        copied = np.flatnonzero(changed[rows.members])
        is_first = ranks_within(self._ranks[copied]) == 0
        first = copied[is_first]
        old = rows[first]  # a row for each entry
        given = given[stable_order(given.members)]
        numbers, seen = first_seen(self._entries(Rows.joined(old, given)))
        new = given[seen[len(old) :] - len(old)]
        entry_of_given = numbers[len(old) :]
        # whether the last `computeIfAbsent` of a member found its topic
        called_again = np.zeros(len(changed), np.bool_)
        last = np.flatnonzero(np.diff(given.members, append=-1))
        called_again[given.members[last]] = seen[entry_of_given[last]] != last + len(old)
        ranks = _ranks(
            self._entry_order(
                Rows.joined(old, new),
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
        both = Rows.joined(rows[copied], given)
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
        made = Rows.joined(rows[~changed[rows.members]], both[order])
        return made[stable_order(made.members)]

    def assignment(self, rows: Rows) -> Assignment:
        """Give rows as lists; who has none gets nothing."""
        names = self._group.names
        every = list(
            zip(map(names.__getitem__, rows.topics.tolist()), rows.partitions.tolist(), strict=True)
        )
        bounds = np.searchsorted(rows.members, np.arange(len(self._group.member_ids) + 1)).tolist()
        return {
            member_id: every[bounds[at] : bounds[at + 1]]
            for at, member_id in enumerate(self._group.member_ids)
        }

    def _entries(self, rows: Rows) -> Ints:
        """Number the entries of all members' maps that rows are in."""
        return rows.members * len(self._hashes) + rows.topics

    def _entry_order(
        self,
        entries: Rows,
        capacities: Ints | int = TABLE,
        removals: Ints | None = None,
        late: Flags | None = None,
        called_again: Flags | bool = False,
    ) -> Ints:
        """Order entries by member, and in the order of its map; see `bulk_order`."""
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
    """Give each key its rank in an order; -1 to those that are not in it."""
    ranks = np.full(len(order) if count is None else count, -1, np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _distinct(maps: Ints, numbers: Ints) -> Ints:
    """Give the indices where numbers come for the first time in their map."""
    keys = maps << 31 | numbers
    return np.arange(len(keys)) if np.diff(np.sort(keys)).all() else first_seen(keys)[1]


def _capacities(counts: Ints) -> Ints:
    """Give the capacities of HashSets made of so many keys; see `server.capacity_for`."""
    return np.maximum((counts / 0.75).astype(np.int64) + 1, TABLE)
