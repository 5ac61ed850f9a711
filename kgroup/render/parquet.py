"""Decoded records as a Parquet file, which appears under its name when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.errors import InputError, UsageError
from kgroup.protocol.column_schema import DECODED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_parquet"]


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

    missing = [name for name in names if name not in DECODED.names]
    if missing:
        raise UsageError(f"no column {', '.join(missing)}; there are: {', '.join(DECODED.names)}")
    path = path.resolve()
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise UsageError(f"{path} is no regular file; Parquet needs one")
    schema = pa.schema([DECODED.field(name) for name in names or DECODED.names])
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    rows = 0
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.touch()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    try:
        with parquet.ParquetWriter(unfinished, schema, use_dictionary=texts) as writer:
            for batch in batches:
                writer.write_batch(batch.select(schema.names))
                rows += batch.num_rows
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return rows
