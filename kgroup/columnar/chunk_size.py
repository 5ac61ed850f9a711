"""How much of a log, and of memory, is taken at a time where batches become columns."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kgroup.protocol.batch.batch import MAX_BATCH_SIZE


@dataclass(slots=True)
class ChunkSizes:
    """Sizes in bytes, and numbers of rows.

    They were found by measuring. Small ones put many seams into a short log; no answer depends on
    them.

    Attributes:
        chunk: of a chunk at most.
        first_chunk: of the first, so that threads share the work on smaller logs too, and the
            first rows come soon.
        smallest_chunk: of a chunk behind damage, and of one with very many records.
        chunk_records: a chunk is to have about so many at most: columns and texts are many times
            as large as it.
        piece: what is read at once; it stays in the processor's cache while it is walked over.
        searched: in which a batch is looked for, in more where there is none in fewer.
        sound: in order behind damage from which on there may be no more, at least and at most. A
            new start of compiled code costs as much as to read some kilobytes without it: where
            soon there was damage again, more must be in order the next time.
        gap: of which nothing is wanted that are passed over rather than read.
        rows: of a chunk at most.
        columns: of the parts of one chunk; compressed ones may be a thousand times as large as it.
        texts: room for key_json and value_json, at first.
        keys: that are put together before they are noted.
        most_keys: of one chunk, about; see `columns`.
        key_table: places in the table of keys, at first.
        plain_rows: of a batch of rows that were decoded without compiled code.
        plain_bytes: of their keys and values, which as JSON may be a dozen times as large.
        workers: threads that decode chunks, at most.
    """

    chunk: int = 24 << 20
    first_chunk: int = 4 << 20
    smallest_chunk: int = 1 << 18
    chunk_records: int = 3 << 16
    piece: int = 1 << 19
    searched: tuple[int, ...] = (1 << 16, 1 << 21, 2 * MAX_BATCH_SIZE)
    sound: tuple[int, int] = (1 << 10, 1 << 16)
    gap: int = 1 << 20
    rows: int = 1 << 19
    columns: int = 128 << 20
    texts: tuple[int, int] = (4 << 20, 24 << 20)
    keys: int = 1 << 17
    most_keys: int = 1 << 22
    key_table: int = 1 << 16
    plain_rows: int = 1 << 14
    plain_bytes: int = 4 << 20
    workers: int = 4


SIZES = ChunkSizes()
"""By which everything here goes; tests set small ones."""


def processor_count() -> int:
    """Count the processors that this process may use; macOS does not tell, and there it is all."""
    own = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if own is None else len(own(0))
