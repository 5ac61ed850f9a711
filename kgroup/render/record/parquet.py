"""Decoded records as a Parquet file, which appears under its name when it is whole.

    file      "PAR1", row groups, footer, size of the footer (int32), "PAR1"

Each batch becomes a row group in the thread that decoded it, so that the threads share the work;
small batches are put together before.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.columnar.schema import DECODED
from kgroup.render.atomic_file import whole_file
from kgroup.render.record.record import RECORD_COLUMNS, Rows
from kgroup.render.sheet import choose

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.render.record.parquet_column import ColumnChunk
    from kgroup.render.record.thrift import Value

__all__ = ["write_parquet"]

_ROWS = 1 << 16
_BYTES = 4 << 20
"""A batch with so many rows, or of this size, becomes a row group of its own."""

_BUFFER = 1 << 20
"""Bytes that are written at once: pages are many, and small."""

_MAGIC = b"PAR1"


def write_parquet(path: Path, rows: Rows, names: Sequence[str]) -> int:
    """Write batches of `DECODED`.

    Args:
        path: of the file, replaced if it exists; kept as it was if this fails. A link is followed.
        rows: to write.
        names: columns, in order; empty: all.

    Returns:
        Number of rows.

    Raises:
        UsageError: a name that no column has; a path of something else than a file (a device, say).
        InputError: there can be no file of that name.
        OSError: the file cannot be written to its end.
    """
    import pyarrow as pa

    from kgroup.render.record.thrift import i64, sequence, struct

    known = [column.name for column in RECORD_COLUMNS]
    names = [known[index] for index in choose(RECORD_COLUMNS, names or known)]
    schema = pa.schema([DECODED.field(name) for name in names])
    groups: list[Value] = []
    count = 0
    # Not "wb": cutting off even an empty file makes ext4 start writing to the disk at the end.
    with whole_file(path) as unfinished, unfinished.open("r+b", buffering=_BUFFER) as file:
        file.write(_MAGIC)
        for group in _row_groups(rows, schema):
            columns = []
            for chunk in group:
                columns.append(chunk.metadata(file.tell()))
                file.writelines(chunk.parts)
            size = sum(chunk.unpacked_size for chunk in group)
            groups.append(struct({1: sequence(columns), 2: i64(size), 3: i64(group[0].rows)}))
            count += group[0].rows
        footer = _footer(schema, groups, count)
        file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)
    return count


def _row_groups(rows: Rows, schema: pa.Schema) -> Iterator[list[ColumnChunk]]:
    import pyarrow as pa

    from kgroup.render.record.parquet_column import encode

    def encoded(batch: pa.RecordBatch) -> list[ColumnChunk]:
        return [encode(name, batch[name]) for name in schema.names]

    def encoded_if_large(batch: pa.RecordBatch) -> pa.RecordBatch | list[ColumnChunk]:
        batch = batch.select(schema.names)
        return encoded(batch) if len(batch) >= _ROWS or batch.nbytes >= _BYTES else batch

    small: list[pa.RecordBatch] = []
    count = size = 0  # added up: where a log is damaged all over, there are thousands of small ones
    for part in rows(encoded_if_large):
        if isinstance(part, pa.RecordBatch):
            small.append(part)
            count += len(part)
            size += part.nbytes
            if count < _ROWS and size < _BYTES:
                continue
        if count:
            yield encoded(_together(small))
        small = []
        count = size = 0
        if isinstance(part, list):
            yield part
    if count:
        yield encoded(_together(small))


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Put batches together, with dictionaries that have what occurs in them."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]

    table = pa.Table.from_batches(batches)
    columns = [
        column.cast(pa.string()).combine_chunks().dictionary_encode()
        if pa.types.is_dictionary(column.type)
        else column.combine_chunks()
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=table.schema.names)


def _footer(schema: pa.Schema, groups: Sequence[Value], rows: int) -> bytes:
    from kgroup.render.record.parquet_column import schema_element
    from kgroup.render.record.thrift import binary, i32, i64, sequence, struct

    root = struct({4: binary("schema"), 5: i32(len(schema))})
    arrow_schema = base64.b64encode(schema.serialize().to_pybytes())
    fields = {
        1: i32(2),
        2: sequence([root, *map(schema_element, schema)]),
        3: i64(rows),
        4: sequence(groups),
        5: sequence([struct({1: binary("ARROW:schema"), 2: binary(arrow_schema)})]),
        6: binary("kgroup"),
        7: sequence([struct({1: struct({})})] * len(schema)),  # limits compare as numbers do
    }
    return struct(fields).data
