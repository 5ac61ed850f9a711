"""In which order records say something about a group, and what kind of group it is by then.

A rank is a record's place among all that bear on ownership, from 1; rank 0 stands for what was
known before them, and `end` for a record that has not come yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""Arrays here are of the shape (n,), of int64 or of truth values; those of one call or object have
an element each for the same things, in the same order, where nothing else is said."""

GROUP_TYPES = ("classic", "consumer", "share", "streams")
CLASSIC = 0
"""Group types are numbers here: indices in `GROUP_TYPES`, or -1 where it is not known."""

VALUE, GROUP_GONE, MEMBER_GONE, ASSIGNMENT_GONE, NOTHING = range(5)
"""What a record is: one with a value, or a tombstone of a group, a member or its assignment, or one
that says nothing: a tombstone of another type than the group's."""


class RecordOrder:
    """Records by rank: element 0 of each array is no record but what was known before.

    Args:
        group: number of the record's group.
        kind: group type that its own type belongs to.
        what: see `VALUE`.
        time_ms: its time, and
        has_time: whether it has any.
        kind_before: group types before the first record, (groups,), by number of the group.
    """

    def __init__(
        self, group: Ints, kind: Ints, what: Ints, time_ms: Ints, has_time: Flags, kind_before: Ints
    ) -> None:
        self.end = len(group)
        self._group, self._kind, self._time, self._has_time = group, kind, time_ms, has_time
        # From here on records stand group by group, each group's in order.
        order = np.argsort(group[1:], kind="stable") + 1
        index = np.arange(len(order))
        first = np.ones(len(order), dtype=bool)
        first[1:] = group[order[1:]] != group[order[:-1]]
        start = np.maximum.accumulate(np.where(first, index, 0))
        is_value = what[order] == VALUE
        before = np.empty(len(order), dtype=np.int64)  # the last index with a value before this
        before[:1] = -1
        before[1:] = np.maximum.accumulate(np.where(is_value, index, -1))[:-1]
        in_group = before >= start
        kinds = np.where(in_group, kind[order[before]], kind_before[group[order]])
        changes = is_value & (kind[order] != kinds)
        says_nothing = ~is_value & (kind[order] != kinds)
        # The tombstone of a classic group removes a group of any type, as in the coordinator.
        says_nothing &= (kind[order] != CLASSIC) | (what[order] != GROUP_GONE)
        self.what = what.copy()
        self.what[order[says_nothing]] = NOTHING
        judged = self.what[order]
        resets = changes | (is_value & (kind[order] == CLASSIC)) | (judged == GROUP_GONE)
        self._resets = self.key(group[order[resets]], order[resets])
        self._values = self.key(group[order[is_value]], order[is_value])
        # Where the run of records of one group and one time ends that each stands in.
        last = np.ones(len(order), dtype=bool)
        last[:-1] = (
            first[1:]
            | ~has_time[order[1:]]
            | ~has_time[order[:-1]]
            | (time_ms[order[1:]] != time_ms[order[:-1]])
        )
        ends = np.flatnonzero(last)
        run_end = order[ends[np.searchsorted(ends, index)]] if len(order) else order
        self._write_end = np.arange(self.end + 1)
        judged_later = changes | ~is_value
        self._write_end[order[judged_later]] = run_end[judged_later]

    def key(self, group: Ints, rank: Ints) -> Ints:
        """Numbers that order by group (or anything counted from 0) first, then by rank."""
        return group * (self.end + 1) + rank

    def next_reset(self, group: Ints, rank: Ints) -> Ints:
        """Rank of the next record behind `rank` that says all of the group anew; or `end`."""
        return self.next_in(self._resets, group, rank)

    def last_reset(self, group: Ints, rank: Ints) -> Ints:
        """Rank of the last such record up to `rank`, or 0."""
        at = np.searchsorted(self._resets, self.key(group, rank), side="right")
        padded = np.concatenate([[-1], self._resets])[at]
        return np.where(padded // (self.end + 1) == group, padded % (self.end + 1), 0)

    def next_in(self, keys: Ints, number: Ints, rank: Ints) -> Ints:
        """Rank of the next of sorted keys of the same number behind `rank`; or `end`."""
        at = np.searchsorted(keys, self.key(number, rank), side="right")
        padded = np.append(keys, -1)[at]
        return np.where(padded // (self.end + 1) == number, padded % (self.end + 1), self.end)

    def write_end(self, rank: Ints) -> Ints:
        """Last rank of the same group and time, for records judged by what comes with them."""
        return self._write_end[rank]

    def has_value(self, group: Ints, after: Ints, until: Ints) -> Flags:
        """Whether the group has a record with a value of a rank above `after`, up to `until`."""
        return self.next_in(self._values, group, after) <= until

    def same_time(self, rank: Ints, other: Ints) -> Flags:
        """Whether both records have the same time; false where one has none."""
        rank, other = np.minimum(rank, self.end - 1), np.minimum(other, self.end - 1)
        same: Flags = self._time[rank] == self._time[other]
        return same & self._has_time[rank] & self._has_time[other]


def between(sorted_keys: Ints, low: Ints, high: Ints) -> Ints:
    """How many of the keys lie between each pair, both included."""
    return np.searchsorted(sorted_keys, high, side="right") - np.searchsorted(sorted_keys, low)
