"""Decoded records as a Parquet file.

pyarrow writes it in the caller's thread, while other threads decode the next records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from kgroup.atomic_file import PARQUET_MARK
from kgroup.columnar.schema import DECODED
from kgroup.render.record import RECORD_COLUMNS, RecordBatches
from kgroup.render.sheet import choose

if TYPE_CHECKING:
    import pyarrow as pa


_GROUP = 4 << 20
"""Maximum bytes of Arrow columns up to which batches are combined."""


def write_parquet(file: BinaryIO, rows: RecordBatches, names: Sequence[str]) -> int:
    """Write batches of `DECODED`.

    Args:
        file: buffered file to write to, because pages are many and small.
        rows: batches to write.
        names: columns, in order; empty for all columns.

    Returns:
        Number of rows.

    Raises:
        UsageError: no column has this name.
        OSError: the file cannot be written completely.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = [column.name for column in RECORD_COLUMNS]
    names = [known[index] for index in choose(RECORD_COLUMNS, names or known)]
    schema = pa.schema([DECODED.field(name) for name in names])
    count = 0
    with pq.ParquetWriter(file, schema, **_options(schema)) as writer:
        writer.add_key_value_metadata(dict([PARQUET_MARK]))
        for group in _row_groups(rows, schema):
            writer.write(group)
            count += len(group)
    return count


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Return how each column is written, so that it takes little time and little space.

    Names come as dictionaries, and are written as such; offsets and times are close together;
    there are few other numbers. Only JSON is worth compressing.
    """
    import pyarrow as pa

    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    close = [field.name for field in schema if pa.types.is_int64(field.type)]
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return {
        "use_dictionary": [name for name in schema.names if name not in (*close, *texts)],
        "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED"),
        "compression": {name: "snappy" if name in texts else "none" for name in schema.names},
        "write_statistics": numbers,  # statistics of names would take a third more time
    }


def _row_groups(rows: RecordBatches, schema: pa.Schema) -> Iterator[pa.RecordBatch | pa.Table]:
    """Combine small batches."""
    group: list[pa.RecordBatch] = []
    size = 0  # a log with much damage has thousands of small ones
    for batch in rows(lambda batch: batch.select(schema.names)):
        if group and size + batch.nbytes > _GROUP:
            yield _together(group)
            group = []
            size = 0
        if len(batch):
            group.append(batch)
            size += batch.nbytes
    if group:
        yield _together(group)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | pa.Table:
    """Combine batches, with dictionaries of the values that occur in them."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]

    table = pa.Table.from_batches(batches)
    plain = pa.schema(
        pa.field(field.name, getattr(field.type, "value_type", field.type))
        for field in table.schema
    )
    return table.cast(plain).combine_chunks().cast(table.schema)
