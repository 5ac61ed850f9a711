"""Sizes of the parts of a log, and of the memory, used to convert batches to columns."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kgroup.protocol.batch.batch import MAX_BATCH_SIZE


@dataclass(slots=True)
class ChunkSizes:
    """Sizes in bytes, and numbers of rows.

    The values were found by measurement. Results do not depend on them; tests use small ones to get
    many boundaries in a short log.

    Attributes:
        chunk: maximum size of a chunk.
        first_chunk: size of the first chunk, so that threads share the work on smaller logs too,
            and the first rows come soon.
        smallest_chunk: size of a chunk after damage, and of one with very many records.
        chunk_records: approximate maximum number of records of a chunk, because columns and texts
            are many times as large as the chunk.
        piece: bytes to read at once; they stay in the processor's cache while they are processed.
        searched: bytes to search for a batch; the next size is used if there is none.
        sound: minimum and maximum number of valid bytes after damage before compiled code resumes.
            Starting it costs as much as reading some kilobytes without it, so the number grows if
            damage follows soon.
        gap: size from which a range without wanted records is skipped rather than read.
        rows: maximum number of rows of a buffer.
        columns: maximum size of a chunk's columns; compressed chunks may grow a thousandfold.
        texts: initial room for key_json and value_json.
        keys: number of keys to collect before they are added to the table.
        most_keys: approximate maximum number of keys of one chunk; see `columns`.
        key_table: initial number of slots of the table of keys.
        plain_rows: rows of a batch that is decoded without compiled code.
        plain_bytes: size of their keys and values, whose JSON may be a dozen times as large.
        workers: maximum number of threads that decode chunks.
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
"""The sizes in use; tests set small ones."""


def processor_count() -> int:
    """Return the number of processors that this process may use; on macOS, all of them."""
    own = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if own is None else len(own(0))
