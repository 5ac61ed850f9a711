"""Whole segments to Arrow columns: the way of all decoding, small inputs and large ones.

A small input is read by the reference decoder, which needs no compiler. A large one is cut into
chunks at batch boundaries that compiled code decodes in parallel (`columnar_kernel`), without a
Python object for each record. The cut takes the batches' lengths for true; where the code then
finds a batch that is not in order, `record_batch.read_file_batches` goes on from there until a
batch can be trusted again, and the chunks that were cut behind it are thrown away. So damage is
read in one way only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import pyarrow as pa

from kgroup.protocol.batch_scan import scan_transactions
from kgroup.protocol.column_schema import ColumnBuilder
from kgroup.protocol.input_size import is_large
from kgroup.protocol.kernel_memory import PLACE_SHIFT
from kgroup.protocol.record_batch import Damage, Inflation, RecordBatch, read_file_batches
from kgroup.protocol.record_place import numbers_in
from kgroup.protocol.recycled import keep_freed_memory
from kgroup.protocol.transaction import TransactionIndex, once

if TYPE_CHECKING:
    from kgroup.protocol.log_chunk import Chunk, Cutter
    from kgroup.protocol.record_place import Places

__all__ = [
    "decode_chunks",
    "map_chunks",
    "read_chunks",
]

_SEARCH_SIZE = 1 << 18
_SOUND_SIZE = 1 << 16
"""Bytes in order behind damage from which on there may be no more: a new start has its cost."""

_MOST_WORKERS = 4
_GAP = 1 << 20
"""Bytes of which nothing is wanted that are passed over rather than read."""

_T = TypeVar("_T")


def decode_chunks(
    path: Path,
    *,
    partition: int | None = None,
    transactions: Callable[[], TransactionIndex] | None = None,
    compiled: bool | None = None,
    announce: Callable[[], None] | None = None,
) -> Iterator[pa.RecordBatch | Damage]:
    """Yield the records of a segment as batches of `DECODED`, and the damage between them.

    Args:
        path: a regular file.
        partition: of `__consumer_offsets`, for the column.
        transactions: gives the markers of the whole partition; called when the first transactional
            batch is met. By default those of this file count.
        compiled: whether to use compiled code; by default where the file is large.
        announce: called before code is compiled, which takes a while and happens once.

    Raises:
        OSError: the file cannot be read.
    """
    return map_chunks(
        path,
        lambda batch: batch,
        partition=partition,
        transactions=transactions,
        compiled=compiled,
        announce=announce,
    )


def map_chunks(
    path: Path,
    function: Callable[[pa.RecordBatch], _T],
    *,
    partition: int | None = None,
    transactions: Callable[[], TransactionIndex] | None = None,
    places: Places | None = None,
    compiled: bool | None = None,
    announce: Callable[[], None] | None = None,
) -> Iterator[_T | Damage]:
    """Like `decode_chunks`, with a function applied to each batch where it was decoded.

    The function runs in several threads at once. With `places`, in order, only the records that
    stand there are decoded, and what lies between them need not be read, so that damage there is
    passed over in silence.
    """
    markers = once(transactions or (lambda: scan_transactions([path])))

    def in_batch(batch: RecordBatch) -> Iterator[_T | Damage]:
        builder = ColumnBuilder(partition)
        for part in builder.add_batch(batch, markers, numbers_in(places, batch)):
            yield part if isinstance(part, Damage) else function(part)
        if builder:
            yield function(builder.finish())

    def in_chunk(chunk: Chunk) -> tuple[list[_T | Damage], int | None]:
        from kgroup.protocol.column_chunk import decode_chunk

        parts, stop = decode_chunk(chunk, partition, markers, places)
        return [part if isinstance(part, Damage) else function(part) for part in parts], stop

    if compiled is None:
        compiled = is_large([path])
    if compiled:
        found = read_chunks(path, in_chunk, in_batch, places=places, announce=announce)
        yield from (part for part in found if places is None or not isinstance(part, Damage))
        return
    for part in _decode_by_reference(path, partition, markers, places):
        if not isinstance(part, Damage):
            yield function(part)
        elif places is None:
            yield part


def read_chunks(
    path: Path,
    in_chunk: Callable[[Chunk], tuple[list[_T], int | None]],
    in_batch: Callable[[RecordBatch], Iterator[_T]],
    *,
    places: Places | None = None,
    announce: Callable[[], None] | None = None,
) -> Iterator[_T | Damage]:
    """Yield what is found in the chunks of a file, and the damage between its batches.

    Args:
        path: of the file.
        in_chunk: gives what is found in a chunk, and where it meets a batch that cannot be trusted,
            None where it comes to the end; called in several threads at once.
        in_batch: gives what is found in a batch that no chunk could be cut for.
        places: of the records that are wanted; by default all.
        announce: called before code is compiled.
    """
    from kgroup.protocol.compiled import kernels
    from kgroup.protocol.log_chunk import Cutter

    kernels(announce)
    keep_freed_memory()

    def run(chunk: Chunk) -> tuple[list[_T], int | None]:
        try:
            return in_chunk(chunk)
        finally:
            cutter.recycle(chunk)

    workers = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    pending: deque[Future[tuple[list[_T], int | None]]] = deque()
    with path.open("rb", buffering=0) as file, ThreadPoolExecutor(workers) as pool:
        cutter = Cutter(file)
        try:
            while True:
                while (
                    len(pending) <= workers
                    and _go_to_wanted(cutter, places)
                    and (chunk := cutter.next()) is not None
                ):
                    pending.append(pool.submit(run, chunk))
                if pending:
                    found, stop = pending.popleft().result()
                    yield from found
                    if stop is None:
                        continue
                    _cancel(pending)
                elif _go_to_wanted(cutter, places):
                    stop = cutter.position
                else:
                    return
                resumed = yield from _read_over(file, stop, in_batch, cutter.inflation)
                if resumed is None:
                    return
                cutter.seek(resumed)
        finally:
            _cancel(pending)


def _decode_by_reference(
    path: Path,
    partition: int | None,
    markers: Callable[[], TransactionIndex],
    places: Places | None,
) -> Iterator[pa.RecordBatch | Damage]:
    builder = ColumnBuilder(partition)
    with path.open("rb", buffering=0) as file:
        for item in read_file_batches(file):
            if isinstance(item, RecordBatch):
                yield from builder.add_batch(item, markers, numbers_in(places, item))
                continue
            if builder:
                yield builder.finish()
            yield item
    if builder:
        yield builder.finish()


def _read_over(
    file: BinaryIO,
    position: int,
    in_batch: Callable[[RecordBatch], Iterator[_T]],
    inflation: Inflation,
) -> Generator[_T | Damage, None, int | None]:
    """Read what compiled code cannot; give where it can go on, None at the end of the file."""
    file.seek(position)
    sound = 0
    batches = read_file_batches(
        file, base_position=position, chunk_size=_SEARCH_SIZE, inflation=inflation
    )
    for item in batches:
        if isinstance(item, Damage):
            yield item
            sound = 0
        elif sound > _SOUND_SIZE:
            return item.position
        else:
            sound += item.size
            for part in in_batch(item):
                if isinstance(part, Damage):
                    sound = 0
                yield part
    return None


def _go_to_wanted(cutter: Cutter, places: Places | None) -> bool:
    """Pass over a part of the file in which nothing is wanted; False if nothing is any more."""
    if places is None:
        return True
    at = int(places.searchsorted(cutter.position << PLACE_SHIFT))
    if at == len(places):
        return False
    wanted = int(places[at]) >> PLACE_SHIFT
    if wanted > cutter.position + _GAP:
        cutter.seek(wanted)
    return True


def _cancel(pending: deque[Future[_T]]) -> None:
    for future in pending:
        future.cancel()
    pending.clear()
