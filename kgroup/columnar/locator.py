"""Places: single numbers that say where in a file a record stands, in the order of the log."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, TypeAlias

from kgroup.kernel.memory import PLACE_SHIFT
from kgroup.protocol.batch.batch import RecordBatch

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Places", "between", "numbers_in", "place"]

Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""The position of a record's batch and, in the low bits, its number in the batch; in order."""


def place(batch: RecordBatch, number: int) -> int:
    """Give the place of a record by its number in its batch."""
    return batch.position << PLACE_SHIFT | number


def between(places: Places, start: int, end: int) -> Places:
    """Give the places in batches that begin at one position or behind it, and before another."""
    first, last = places.searchsorted([start << PLACE_SHIFT, end << PLACE_SHIFT]).tolist()
    return places[first:last]


def numbers_in(places: Places | None, batch: RecordBatch) -> Container[int]:
    """Give the numbers of those records of a batch that are among the places; None: all are."""
    if places is None:
        return range(1 << PLACE_SHIFT)
    found = between(places, batch.position, batch.position + 1)
    return frozenset((found & ((1 << PLACE_SHIFT) - 1)).tolist())
