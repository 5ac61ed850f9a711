"""Whole segments to Arrow columns: the way of all decoding, small inputs and large ones.

A small input is read by the reference decoder, which needs no compiler. A large one is cut into
chunks at batch boundaries that `columnar_kernel` decodes in parallel, without a Python object for
each record. The cut takes the batches' lengths for true; where the kernel then finds a batch that
is not in order, `record_batch.read_file_batches` goes on from there until a batch can be trusted
again, and the chunks that were cut behind it are thrown away. So damage is read in one way only.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

import pyarrow as pa

from kgroup.protocol.column_schema import ColumnBuilder
from kgroup.protocol.record_batch import Damage, RecordBatch, read_file_batches
from kgroup.protocol.transaction import TransactionIndex

__all__ = ["COMPILED_FROM", "decode_chunks", "map_chunks", "scan_transactions"]

COMPILED_FROM = 8 << 20
"""Bytes of input from which compiled code is faster, its loading included."""

_REFERENCE_ROWS = 1 << 14
_SEARCH_SIZE = 1 << 18
_MOST_WORKERS = 4

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
    compiled: bool | None = None,
    announce: Callable[[], None] | None = None,
) -> Iterator[_T | Damage]:
    """Like `decode_chunks`, with a function applied to each batch where it was decoded.

    The function runs in several threads at once.
    """
    index = _once(transactions or (lambda: scan_transactions([path], compiled=compiled)))
    if compiled is None:
        compiled = path.stat().st_size >= COMPILED_FROM
    if not compiled:
        for part in _decode_by_reference(path, partition, index):
            yield part if isinstance(part, Damage) else function(part)
        return

    from kgroup.protocol.column_chunk import Chunk, Cutter, decode_chunk
    from kgroup.protocol.compiled import kernels

    kernels(announce)

    def decode(chunk: Chunk) -> tuple[list[_T | Damage], int | None]:
        parts, stop = decode_chunk(chunk, partition, index)
        cutter.recycle(chunk)
        return [part if isinstance(part, Damage) else function(part) for part in parts], stop

    workers = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    pending: deque[Future[tuple[list[_T | Damage], int | None]]] = deque()
    with path.open("rb", buffering=0) as file, ThreadPoolExecutor(workers) as pool:
        cutter = Cutter(file)
        try:
            while True:
                while len(pending) <= workers and (chunk := cutter.next()) is not None:
                    pending.append(pool.submit(decode, chunk))
                stop = cutter.position
                if pending:
                    parts, stopped = pending.popleft().result()
                    yield from parts
                    if stopped is None:
                        continue
                    stop = stopped
                    _cancel(pending)
                resumed = yield from _read_over(file, stop, partition, index, function)
                if resumed is None:
                    return
                cutter.seek(resumed)
        finally:
            _cancel(pending)


def scan_transactions(paths: Sequence[Path], *, compiled: bool | None = None) -> TransactionIndex:
    """Collect the markers of one partition from its segments; damage in them is passed over."""
    index = TransactionIndex()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            for item in read_file_batches(file):
                if isinstance(item, RecordBatch):
                    index.add(item)
    return index


def _decode_by_reference(
    path: Path, partition: int | None, transactions: Callable[[], TransactionIndex]
) -> Iterator[pa.RecordBatch | Damage]:
    builder = ColumnBuilder(partition)
    with path.open("rb", buffering=0) as file:
        for item in read_file_batches(file):
            damages = [item] if isinstance(item, Damage) else builder.add_batch(item, transactions)
            if builder and (damages or len(builder) >= _REFERENCE_ROWS):
                yield builder.finish()
            yield from damages
    if builder:
        yield builder.finish()


def _read_over(
    file: BinaryIO,
    position: int,
    partition: int | None,
    transactions: Callable[[], TransactionIndex],
    function: Callable[[pa.RecordBatch], _T],
) -> Generator[_T | Damage, None, int | None]:
    """Read what the kernel cannot; give where it can go on, None at the end of the file."""
    file.seek(position)
    is_over = False
    for item in read_file_batches(file, base_position=position, chunk_size=_SEARCH_SIZE):
        if isinstance(item, Damage):
            yield item
        elif is_over:
            return item.position
        else:
            builder = ColumnBuilder(partition)
            damages = builder.add_batch(item, transactions)
            if builder:
                yield function(builder.finish())
            yield from damages
        is_over = True
    return None


def _once(make: Callable[[], _T]) -> Callable[[], _T]:
    """Give a function that calls `make` when it is first called, from whichever thread."""
    lock = Lock()
    made: list[_T] = []

    def get() -> _T:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def _cancel(pending: deque[Future[_T]]) -> None:
    for future in pending:
        future.cancel()
    pending.clear()
