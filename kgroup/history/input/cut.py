"""Where a segment can be cut, so that several tasks read it.

Beside a segment lies its offset index (Kafka's `OffsetIndex`), entries of eight bytes:

    relative offset  int32  last offset of the batches that were appended together, less the base
    position         int32  where the first of these batches begins

An active segment's index is allocated in full and zero behind its last entry. An index may be
missing, of another state of the segment, or garbage; so nothing of it is believed: a cut is taken
where a batch with the right checksum begins, to which the lengths of those before it lead. Without
a usable index the lengths of all batches are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kgroup.protocol.batch.batch import LOG_OVERHEAD, MAX_BATCH_SIZE, Damage, RecordBatch
from kgroup.protocol.batch.byte_window import ByteRange
from kgroup.protocol.batch.record_batch import read_batches

LARGEST_INDEX = 64 << 20
"""Bytes that are read of an index; brokers allocate 10 MiB."""

_SMALLEST_BATCH = 26
_HEAD_SIZE = 17
WALK = 1 << 17
"""Bytes in front of a cut whose batches must lead to it: no record holds so many of another log."""
_MOST_WALKED = 4 << 20
_MOST_TRIED = 16


def cut_by_index(
    file: BinaryIO, index: bytes, base_offset: int, start: int, end: int, parts: int
) -> list[int]:
    """Cut a segment into parts of about the same size; give where they begin.

    Args:
        file: the segment.
        index: what its offset index holds.
        base_offset: of the segment.
        start: what stands before was read already. Where no batch begins there, as when it was
            just being written, the first part begins before.
        end: of the segment.
        parts: how many are wanted; there may be fewer.

    Raises:
        OSError: the file cannot be read.
    """
    whole = index[: len(index) // 8 * 8]
    entries = np.frombuffer(whole, ">i4").reshape(-1, 2).astype(np.int64)
    entries = entries[(entries[:, 1] > 0) & (entries[:, 1] < end)]
    positions, first = np.unique(entries[:, 1], return_index=True)
    offsets = base_offset + entries[first, 0]

    def is_cut(position: int) -> bool:
        """Tell whether a batch begins where an entry says so."""
        before = positions[: np.searchsorted(positions, position - WALK, "right")]
        known = int(before[-1]) if len(before) else 0
        if position - known > _MOST_WALKED or not _leads_to(file, known, position):
            return False
        batch = _batch_at(file, position)
        if batch is None:
            return False
        offset = batch.last_offset if batch.base_offset is None else batch.base_offset
        return bool(offset <= offsets[np.searchsorted(positions, position)])

    return _cut(positions, is_cut, _start(file, start, positions, is_cut), end, parts)


def cut_by_lengths(path: Path, start: int, end: int, parts: int) -> list[int]:
    """Like `cut_by_index`, by following the lengths of all batches with compiled code."""
    from kgroup.columnar.chunk_reader import read_chunks
    from kgroup.columnar.log_chunk import Chunk, follow

    def in_chunk(chunk: Chunk) -> tuple[list[int], int | None]:
        return [chunk.position], follow(chunk)

    def in_batches(items: Iterator[RecordBatch | Damage]) -> Iterator[Damage]:
        return (item for item in items if isinstance(item, Damage))

    with path.open("rb") as file:

        def is_cut(position: int) -> bool:
            return _batch_at(file, position) is not None

        walked = ByteRange(start if is_cut(start) else 0, end)
        found = read_chunks(path, in_chunk, in_batches, part=walked, workers=1)
        positions = np.array([at for at in found if not isinstance(at, Damage)], np.int64)
        return _cut(positions, is_cut, _start(file, start, positions, is_cut), end, parts)


def _start(file: BinaryIO, start: int, positions: Any, is_cut: Callable[[int], bool]) -> int:
    """Find where a batch begins, at a position or before it."""
    if start == 0 or _batch_at(file, start) is not None:
        return start
    before = reversed(positions[: np.searchsorted(positions, start)].tolist())
    return next(filter(is_cut, islice(before, _MOST_TRIED)), 0)


def _cut(
    positions: Any, is_cut: Callable[[int], bool], start: int, end: int, parts: int
) -> list[int]:
    begins = [start]
    targets = [start + (end - start) * number // parts for number in range(1, parts + 1)]
    for bounds in pairwise(targets):
        first, last = np.searchsorted(positions, bounds).tolist()
        begins += islice(
            filter(is_cut, positions[first : min(last, first + _MOST_TRIED)].tolist()), 1
        )
    return begins


def _leads_to(file: BinaryIO, start: int, end: int) -> bool:
    """Tell whether the lengths of the batches from a position on lead to another one."""
    file.seek(start)
    data = file.read(end - start)
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big")
        if size < _SMALLEST_BATCH:
            return False
        at += size
    return start + at == end


def _batch_at(file: BinaryIO, position: int) -> RecordBatch | None:
    """Read the batch at a position, None if there is none that can be trusted."""
    file.seek(position)
    head = file.read(_HEAD_SIZE)
    size = LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
    if len(head) < _HEAD_SIZE or head[16] > 2 or not _SMALLEST_BATCH <= size <= MAX_BATCH_SIZE:
        return None
    data = head + file.read(size - len(head))
    batch = next(read_batches(data, base_position=position), None)
    return batch if isinstance(batch, RecordBatch) and batch.position == position else None
