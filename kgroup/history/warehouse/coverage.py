"""Known offsets of a log: sorted intervals, as two arrays.

Compaction leaves gaps, and another replica may still have the records in them. Therefore an offset
is known only if its record was read, not if it lies between two such offsets. A heavily compacted
log has one interval, of 16 bytes, for every few records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
import numpy.typing as npt

from kgroup.errors import InputError

Offsets = npt.NDArray[np.int64]
"""Offsets of a log, shape (n,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """A set of offsets.

    Attributes:
        firsts: first offset of each interval, ascending.
        lasts: last offset of each interval, inclusive, because the largest offset has no successor.
            At least one offset is missing between two intervals.
    """

    firsts: Offsets = field(default_factory=lambda: np.empty(0, np.int64))
    lasts: Offsets = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, offsets: Offsets) -> Coverage:
        """Return the set of these offsets, which may be in any order and repeated."""
        if (offsets[1:] < offsets[:-1]).any():
            offsets = np.sort(offsets)
        return _joined(offsets, offsets)

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> Coverage:
        """Return the set with these ranges: first and last offset, ascending and apart."""
        firsts, lasts = np.array([*ranges], np.int64).reshape(-1, 2).T
        return cls(firsts, lasts)

    @classmethod
    def union(cls, parts: Iterable[Coverage]) -> Coverage:
        """Return the union of sets."""
        parts = [part for part in parts if part]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        firsts = np.concatenate([part.firsts for part in parts])
        lasts = np.concatenate([part.lasts for part in parts])
        order = np.argsort(firsts, kind="stable")
        return _joined(firsts[order], np.maximum.accumulate(lasts[order]))

    @classmethod
    def read(cls, data: bytes) -> Coverage:
        """Read the bytes that `written` returned.

        Raises:
            InputError: the bytes are not a coverage.
        """
        file = BytesIO(data)
        try:
            pairs = np.lib.format.read_array(file, allow_pickle=False)
            is_whole = file.tell() == len(data)
        except Exception:  # numpy evaluates the header as Python, so parser errors are possible too
            is_whole = False
        if not is_whole:
            raise InputError(
                f"expected intervals of offsets, found {len(data):,} bytes that are not a "
                "complete .npy file"
            )
        if pairs.dtype != np.int64 or pairs.ndim != 2 or len(pairs) != 2:
            raise InputError(
                f"expected intervals of offsets, two rows of int64, found {pairs.dtype} of shape "
                f"{pairs.shape}"
            )
        return cls(pairs[0], pairs[1])

    def written(self) -> bytes:
        """Return the bytes of a .npy file with two rows: the first and the last offsets."""
        file = BytesIO()
        np.save(file, np.stack((self.firsts, self.lasts)))
        return file.getvalue()

    def __bool__(self) -> bool:
        return len(self.firsts) > 0

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Coverage)
            and np.array_equal(self.firsts, other.firsts)
            and np.array_equal(self.lasts, other.lasts)
        )

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First and last offset of each interval."""
        return tuple(zip(self.firsts.tolist(), self.lasts.tolist(), strict=True))

    @property
    def count(self) -> int:
        """Number of offsets in the set."""
        return int((self.lasts - self.firsts).sum()) + len(self.firsts)

    def has(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Return whether each offset is in the set."""
        if not self:
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.firsts, offsets, side="right") - 1
        return (at >= 0) & (offsets <= self.lasts[at])

    def within(self, first: int, last: int | None = None) -> Coverage:
        """Return the part from `first` to `last`, inclusive; None for no upper limit."""
        if last is None:
            last = np.iinfo(np.int64).max
        if last < first:
            return Coverage()
        begin = np.searchsorted(self.lasts, first)
        end = np.searchsorted(self.firsts, last, side="right")
        firsts, lasts = self.firsts[begin:end], self.lasts[begin:end]
        return Coverage(np.maximum(firsts, first), np.minimum(lasts, last))

    def is_dense(self, first: int, last: int) -> bool:
        """Return whether every offset from `first` to `last`, inclusive, is in the set."""
        return first > last or self.end_from(first) > last

    def end_from(self, first: int) -> int:
        """Return the lowest offset that is at least `first` and not in the set."""
        inside = self.within(first)
        return int(inside.lasts[0]) + 1 if inside and inside.firsts[0] == first else first

    def overlaps(self, other: Coverage) -> bool:
        """Return whether any offset is in both sets."""
        small, large = sorted((self, other), key=lambda coverage: len(coverage.firsts))
        # Only the last interval of `large` that begins before an interval's end can overlap it.
        at = np.searchsorted(large.firsts, small.lasts, side="right") - 1
        return bool(((at >= 0) & (large.lasts[at] >= small.firsts)).any()) if large else False


def _joined(firsts: Offsets, lasts: Offsets) -> Coverage:
    """Join ascending intervals that overlap or are adjacent."""
    if not len(firsts):
        return Coverage()
    # not lasts + 1, which would overflow for the largest offset
    breaks = np.flatnonzero(firsts[1:] - lasts[:-1] > 1)
    begins, ends = np.append(0, breaks + 1), np.append(breaks, len(lasts) - 1)
    return Coverage(firsts[begins], lasts[ends])
