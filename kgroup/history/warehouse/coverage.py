"""Which offsets of a log are known: sorted intervals, as two arrays.

Compaction leaves holes, and another replica may still have what was in them. So an offset counts as
known when its record was read, not when it lies between two that were: a log that was compacted
hard has an interval for every few records, 16 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
import numpy.typing as npt

from kgroup.errors import InputError

Offsets = npt.NDArray[np.int64]
"""Offsets of a log, (n,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """A set of offsets.

    Attributes:
        firsts: first offset of each interval, rising.
        lasts: its last one, inclusive: the largest offset there is has no successor. Between two
            intervals one offset at least is missing.
    """

    firsts: Offsets = field(default_factory=lambda: np.empty(0, np.int64))
    lasts: Offsets = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, offsets: Offsets) -> Coverage:
        """Make the set of these offsets, in any order; some may be there twice."""
        if (offsets[1:] < offsets[:-1]).any():
            offsets = np.sort(offsets)
        return _joined(offsets, offsets)

    @classmethod
    def union(cls, parts: Iterable[Coverage]) -> Coverage:
        """Put sets together."""
        parts = [part for part in parts if part]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        firsts = np.concatenate([part.firsts for part in parts])
        lasts = np.concatenate([part.lasts for part in parts])
        order = np.argsort(firsts, kind="stable")
        return _joined(firsts[order], np.maximum.accumulate(lasts[order]))

    @classmethod
    def read(cls, data: bytes) -> Coverage:
        """Read what `written` gave.

        Raises:
            InputError: the bytes are something else.
        """
        file = BytesIO(data)
        try:
            pairs = np.lib.format.read_array(file, allow_pickle=False)
            is_whole = file.tell() == len(data)
        except Exception:  # the header is read as Python: its parser's errors are among these
            is_whole = False
        if not is_whole:
            raise InputError(
                f"expected intervals of offsets, found {len(data):,} bytes that are no .npy file, "
                "or not all of one"
            )
        if pairs.dtype != np.int64 or pairs.ndim != 2 or len(pairs) != 2:
            raise InputError(
                "expected intervals of offsets, two rows of int64, found "
                f"{pairs.dtype} of the shape {pairs.shape}"
            )
        return cls(pairs[0], pairs[1])

    def written(self) -> bytes:
        """Return the bytes of a .npy file with two rows, of the first and of the last offsets."""
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
    def count(self) -> int:
        """How many offsets are in it."""
        return int((self.lasts - self.firsts).sum()) + len(self.firsts)

    def has(self, offsets: Offsets) -> npt.NDArray[np.bool_]:
        """Tell of each offset whether it is in it."""
        if not self:
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.firsts, offsets, side="right") - 1
        return (at >= 0) & (offsets <= self.lasts[at])

    def within(self, first: int, last: int | None = None) -> Coverage:
        """Give what lies from one offset to another, inclusive; None: to the end."""
        if last is None:
            last = np.iinfo(np.int64).max
        if last < first:
            return Coverage()
        begin = np.searchsorted(self.lasts, first)
        end = np.searchsorted(self.firsts, last, side="right")
        firsts, lasts = self.firsts[begin:end], self.lasts[begin:end]
        return Coverage(np.maximum(firsts, first), np.minimum(lasts, last))

    def is_dense(self, first: int, last: int) -> bool:
        """Return whether every offset from one to another, inclusive, is in it."""
        return first > last or self.end_from(first) > last

    def end_from(self, first: int) -> int:
        """Return the first offset from one on that is not in it."""
        inside = self.within(first)
        return int(inside.lasts[0]) + 1 if inside and inside.firsts[0] == first else first

    def overlaps(self, other: Coverage) -> bool:
        """Return whether an offset is in both."""
        small, large = sorted((self, other), key=lambda coverage: len(coverage.firsts))
        # An interval of `small` is touched by the last one of `large` that begins in or before it.
        at = np.searchsorted(large.firsts, small.lasts, side="right") - 1
        return bool(((at >= 0) & (large.lasts[at] >= small.firsts)).any()) if large else False


def _joined(firsts: Offsets, lasts: Offsets) -> Coverage:
    """Join rising intervals that overlap, or have nothing between them."""
    if not len(firsts):
        return Coverage()
    # not lasts + 1, which the largest offset has no room for
    breaks = np.flatnonzero(firsts[1:] - lasts[:-1] > 1)
    begins, ends = np.append(0, breaks + 1), np.append(breaks, len(lasts) - 1)
    return Coverage(firsts[begins], lasts[ends])
