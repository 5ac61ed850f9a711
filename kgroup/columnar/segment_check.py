"""Distinguish files without records of `__consumer_offsets` from damaged segments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from kgroup.errors import ProblemKind
from kgroup.model.segment import Segment
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.record.coordinator_record import KEY_TYPES, decode_key

SAMPLE = 200
"""Number of records to check."""

SHOWN = 16
"""Number of bytes to show of a file that is not a segment."""

LARGEST_TYPE = 1000
"""Highest number accepted as a record type of a future version."""


def check_segment(segment: Segment) -> tuple[ProblemKind, str] | None:
    """Return why a file cannot be decoded at all; None if it can.

    A file in a folder named ``__consumer_offsets-N`` is always taken for a segment, and errors in
    it for damage. Any other file must have at least one record batch, and among its first records
    at least one with a key of `__consumer_offsets`.

    Returns:
        Kind and reason, as in `Problem`.
    """
    try:
        with segment.path.open("rb") as file:
            if segment.partition is not None or not file.read(1):
                return None
            file.seek(0)
            head = file.read(SHOWN)
            file.seek(0)
            return _check(read_file_batches(file), head)
    except OSError as error:
        return ProblemKind.UNREADABLE, f"The file cannot be read: {error.strerror or error}."


def _check(batches: Iterator[RecordBatch | Damage], head: bytes) -> tuple[ProblemKind, str] | None:
    first = next((batch for batch in batches if isinstance(batch, RecordBatch)), None)
    if first is None:
        return (
            ProblemKind.NOT_A_SEGMENT,
            "Expected a segment of __consumer_offsets (a .log file of its folder), found no record "
            f"batch in it; it begins with {head!r}.",
        )
    keys = list(islice(_keys(chain([first], batches)), SAMPLE))
    if keys and not any(map(_may_be_ours, keys)):
        return (
            ProblemKind.OTHER_TOPIC,
            "Expected records of __consumer_offsets, found a segment of another topic: none of its "
            f"first {len(keys)} keys has a type that __consumer_offsets knows.",
        )
    return None


def _keys(batches: Iterable[RecordBatch | Damage]) -> Iterator[bytes | None]:
    for batch in batches:
        if isinstance(batch, RecordBatch) and not batch.is_control:
            yield from (r.key for r in read_records(batch) if isinstance(r, Record))


def _may_be_ours(key: bytes | None) -> bool:
    name, tree = decode_key(key)
    if name != "Unknown":
        return True
    number = tree.get("type") if tree is not None else None
    return number is not None and number not in KEY_TYPES and 0 <= number <= LARGEST_TYPE


def newest_segment(folder: Path) -> str | None:
    """Return the name of the newest segment in a folder; None if there is none."""
    names = (path.name for path in folder.glob("*.log"))
    return max(filter(_NAME.fullmatch, names), default=None)


def is_allocated_ahead(
    damage: Damage, path: Path, newest: Callable[[Path], str | None] = newest_segment
) -> bool:
    """Return whether damage is unused space that a broker preallocated: nothing is lost.

    With `log.preallocate` the newest segment has its full size from the start, and zeros at its
    end; a broker truncates it when it rolls the next one.

    Args:
        damage: damage in a segment.
        path: the segment.
        newest: returns the newest segment of a folder; use a cached function for many segments.
    """
    if not damage.is_unwritten:
        return False
    last = newest(path.absolute().parent)
    return last is None or last <= path.name


_NAME = re.compile(r"[0-9]{20}\.log")
