"""Whole segments to Arrow columns: the way of all decoding, small inputs and large ones.

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
        function: applied to each batch where it was decoded, in several threads at once; what it
            gives is yielded in the batch's place.
        part: what of it is wanted.
        partition: of `__consumer_offsets`, for the column.
        transactions: gives the markers of the whole partition; called when the first transactional
            batch is met. By default those of this part of the file count.
        locators: of the records that are wanted, in order; by default all. What lies between them
            need not be read, so that damage there is passed over in silence.
        compiled: whether to use compiled code; by default where the part is large.
        workers: threads that compiled code runs in; 1: the caller's alone. By default one for each
            processor, up to four.
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
    """Decode batches with the reference decoder; damage comes behind the rows before it."""
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
