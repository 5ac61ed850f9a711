"""When a group committed, between the records of its rebalances."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class CommitSpan:
    """Commits of one partition between two records of the group's rebalances.

    Attributes:
        mark: log offset of the first of the two; -1: there is none.
        count: how many commits.
        first_ms: time of the first one.
        last_ms: time of the last one.
    """

    mark: int
    topic: str
    partition: int
    count: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class Signs:
    """What commits tell of those who made them.

    Attributes:
        last_ms: time of the last one; None: there is none.
        pace_ms: time from one to the next, on average, in the partition that was committed most
            often; None where there are too few to tell.
    """

    last_ms: int | None
    pace_ms: int | None


class Commits:
    """The commits of a group in one partition of `__consumer_offsets`.

    Args:
        spans: of all its partitions.
    """

    def __init__(self, spans: Iterable[CommitSpan]) -> None:
        self._all = sorted(spans, key=lambda each: each.mark)
        self._marks = [each.mark for each in self._all]
        lasts = [each.last_ms for each in self._all]
        self._last_by = list(accumulate(lasts, _later))
        firsts = [each.first_ms for each in reversed(self._all)]
        self._first_from = list(accumulate(firsts, _earlier))[::-1]

    def gap_ms(self, mark: int) -> int | None:
        """Tell how long nobody committed around a record.

        Args:
            mark: its log offset.
        """
        index = bisect_left(self._marks, mark)
        if index == 0 or index == len(self._all):
            return None
        before, behind = self._last_by[index - 1], self._first_from[index]
        return None if before is None or behind is None else max(0, behind - before)

    def between(
        self, start: int, end: int, partitions: Collection[tuple[str, int]], *, others: bool = False
    ) -> Signs:
        """Tell what was committed between two records.

        Args:
            start: log offset of the first,
            end: and of the second.
            partitions: of these, by topic and number;
            others: or of all but these.
        """
        here = slice(bisect_left(self._marks, start), bisect_left(self._marks, end))
        found = [
            each
            for each in self._all[here]
            if ((each.topic, each.partition) in partitions) is not others
            and each.first_ms is not None
            and each.last_ms is not None
        ]
        last_ms = max((each.last_ms for each in found if each.last_ms is not None), default=None)
        often = max(found, key=lambda each: each.count, default=None)
        pace_ms = None
        if often and often.count > 2 and often.first_ms is not None and often.last_ms is not None:
            pace_ms = (often.last_ms - often.first_ms) // (often.count - 1)
        return Signs(last_ms, pace_ms)


def _later(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _earlier(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
