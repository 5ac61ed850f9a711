"""Decode whole segments to Arrow columns: the entry point for small and large inputs.

A small input is read by the reference decoder, which needs no compiler. A large one is cut into
chunks that compiled code reads and decodes in parallel (`chunk_reader`, `kernel.column`), without a
Python object for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgroup.columnar.batch_scan import scan_transactions
from kgroup.columnar.input_size import is_large
from kgroup.columnar.schema import ColumnBuilder
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.protocol.batch.record_batch import read_file_batches
from kgroup.protocol.batch.transaction import TransactionIndex, once

if TYPE_CHECKING:
    from kgroup.columnar.locator import Locators
    from kgroup.columnar.log_chunk import Chunk


def decode_chunks(
    path: Path,
    function: Callable[[pa.RecordBatch], Any] = lambda batch: batch,
    *,
    part: ByteRange = WHOLE,
    partition: int | None = None,
    transactions: Callable[[], TransactionIndex] | None = None,
    locators: Locators | None = None,
    compiled: bool | None = None,
    workers: int | None = None,
    on_compile: Callable[[], None] | None = None,
) -> Iterator[Any | Damage]:
    """Yield the records of a segment as batches of `DECODED`, and the damage between them.

    Args:
        path: a regular file.
        function: applied to each batch in the thread that decoded it, in several threads
            concurrently; its result is yielded instead of the batch.
        part: range to decode.
        partition: partition of `__consumer_offsets`, for the column.
        transactions: returns the markers of the whole partition; called at the first transactional
            batch. By default only markers in this part of the file are used.
        locators: locators of the wanted records, sorted; by default all. The bytes between them
            need not be read, so damage there may not be reported.
        compiled: whether to use compiled code; by default if the part is large.
        workers: number of threads for compiled code; 1 for the caller's only. By default one for
            each processor, up to four.
        on_compile: called before code is compiled, which takes a while and happens once.

    Raises:
        OSError: the file cannot be read.
    """
    if compiled is None:
        compiled = is_large([path], part)
    if transactions is None:
        transactions = partial(
            scan_transactions, [path], part=part, compiled=compiled, workers=workers
        )
    markers = once(transactions)

    def in_batches(items: Iterator[RecordBatch | Damage]) -> Iterator[Any | Damage]:
        for item in _rows(items, partition, markers, locators):
            yield item if isinstance(item, Damage) else function(item)

    def in_chunk(chunk: Chunk) -> tuple[list[Any | Damage], int | None]:
        from kgroup.columnar.column_chunk import decode_chunk

        items, stop = decode_chunk(chunk, partition, markers, locators)
        return [item if isinstance(item, Damage) else function(item) for item in items], stop

    if compiled:
        from kgroup.columnar.chunk_reader import read_chunks

        chunks = read_chunks(
            path,
            in_chunk,
            in_batches,
            part=part,
            locators=locators,
            workers=workers,
            on_compile=on_compile,
        )
        yield from (item for item in chunks if locators is None or not isinstance(item, Damage))
        return
    with path.open("rb", buffering=0) as file:
        file.seek(part.start)
        for item in in_batches(read_file_batches(file, part=part)):
            if locators is None or not isinstance(item, Damage):
                yield item


def _rows(
    items: Iterable[RecordBatch | Damage],
    partition: int | None,
    markers: Callable[[], TransactionIndex],
    locators: Locators | None,
) -> Iterator[pa.RecordBatch | Damage]:
    """Decode batches with the reference decoder; damage comes after the rows before it."""
    builder = ColumnBuilder(partition)
    for item in items:
        if isinstance(item, RecordBatch):
            yield from builder.add_batch(item, markers, locators)
            continue
        if builder:
            yield builder.finish()
        yield item
    if builder:
        yield builder.finish()
