"""Decoded records as a Parquet file, which appears under its name when it is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.protocol.column_schema import DECODED
from kgroup.render.record import RECORD_COLUMNS
from kgroup.render.sheet import choose
from kgroup.render.whole_file import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_parquet"]

_ROWS = 1 << 17
"""Rows from which on a row group may end."""

_RISING = ("offset", "timestamp_ms", "commit_timestamp_ms")
"""Columns with little between one row and the next. Their statistics, and no others, let a reader
pass over row groups."""

_JSON = ("key_json", "value_json")
"""Columns that shrink when they are compressed; the others are small as they are encoded."""


def write_parquet(path: Path, batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> int:
    """Write batches of `DECODED`.

    Args:
        path: of the file, replaced if it exists; kept as it was if this fails. A link is followed.
        batches: rows.
        names: columns, in order; empty: all.

    Returns:
        Number of rows.

    Raises:
        UsageError: a name that no column has; a path of something else than a file (a device, say).
        InputError: there can be no file of that name.
        OSError: the file cannot be written to its end.
    """
    import pyarrow as pa
    from pyarrow import parquet

    known = [column.name for column in RECORD_COLUMNS]
    names = [known[index] for index in choose(RECORD_COLUMNS, names or known)]
    schema = pa.schema([DECODED.field(name) for name in names])
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    rising = [name for name in _RISING if name in schema.names]
    rows = 0
    with (
        whole_file(path) as unfinished,
        parquet.ParquetWriter(
            unfinished,
            schema,
            use_dictionary=texts,
            column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
            compression={name: "lz4" if name in _JSON else "none" for name in schema.names},
            write_statistics=rising,
        ) as writer,
    ):
        for group in _row_groups(batches):
            writer.write_table(group.select(schema.names))
            rows += group.num_rows
    return rows


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put small batches together."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _ROWS:
            yield pa.Table.from_batches(waiting).unify_dictionaries()
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).unify_dictionaries()
