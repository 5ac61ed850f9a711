"""Decoded records as a Parquet file.

pyarrow writes it, in the caller's thread, while others decode what comes next.
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
"""Bytes of Arrow's columns up to which batches are put together."""


def write_parquet(file: BinaryIO, rows: RecordBatches, names: Sequence[str]) -> int:
    """Write batches of `DECODED`.

    Args:
        file: to write to, with a buffer: pages are many, and small.
        rows: to write.
        names: columns, in order; empty: all.

    Returns:
        Number of rows.

    Raises:
        UsageError: a name that no column has.
        OSError: the file cannot be written to its end.
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
    """Say how each column is written: so that it takes little time, and little room.

    Names come as dictionaries, and are written as such; offsets and times lie close together; the
    other numbers are few. Of all this only JSON is worth compressing.
    """
    import pyarrow as pa

    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    close = [field.name for field in schema if pa.types.is_int64(field.type)]
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return {
        "use_dictionary": [name for name in schema.names if name not in (*close, *texts)],
        "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED"),
        "compression": {name: "snappy" if name in texts else "none" for name in schema.names},
        "write_statistics": numbers,  # those of names would take a third more time
    }


def _row_groups(rows: RecordBatches, schema: pa.Schema) -> Iterator[pa.RecordBatch | pa.Table]:
    """Put small batches together."""
    group: list[pa.RecordBatch] = []
    size = 0  # added up: where a log is damaged all over, there are thousands of small ones
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
    """Put batches together, with dictionaries that have what occurs in them."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]

    table = pa.Table.from_batches(batches)
    plain = pa.schema(
        pa.field(field.name, getattr(field.type, "value_type", field.type))
        for field in table.schema
    )
    return table.cast(plain).combine_chunks().cast(table.schema)
