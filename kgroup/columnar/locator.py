"""Locators: single numbers that identify the position of a record in a file, in log order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from kgroup.kernel.memory import LOCATOR_SHIFT
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_records

if TYPE_CHECKING:
    import numpy as np

Locators: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""Position of each record's batch and, in the low bits, its index in the batch; sorted."""


def between(locators: Locators, start: int, end: int) -> Locators:
    """Return the locators of batches that begin at or after `start` and before `end`."""
    first, last = locators.searchsorted([start << LOCATOR_SHIFT, end << LOCATOR_SHIFT]).tolist()
    return locators[first:last]


def wanted_records(batch: RecordBatch, locators: Locators | None) -> Iterator[Record | Damage]:
    """Yield the records of a batch that are among the locators, or all; and the damage."""
    numbers = None
    if locators is not None:
        wanted = between(locators, batch.position, batch.position + 1)
        numbers = frozenset((wanted & ((1 << LOCATOR_SHIFT) - 1)).tolist())
    number = 0
    for record in read_records(batch):
        if isinstance(record, Damage) or numbers is None or number in numbers:
            yield record
        number += isinstance(record, Record)
