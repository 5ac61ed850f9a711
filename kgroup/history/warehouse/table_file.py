"""Rows of a table's file, read again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.errors import InputError
from kgroup.history.warehouse.fact_file import WrittenFile
from kgroup.history.warehouse.table import TABLES

__all__ = ["by_partition", "damaged_file", "read_parquet", "read_rows", "row_groups"]


def read_rows(
    warehouse: Path,
    file: WrittenFile,
    columns: Sequence[str] | None = None,
    *,
    partitions: Collection[int] | None = None,
) -> pa.Table:
    """Read a file with the types of its table.

    Args:
        warehouse: its folder.
        file: in it.
        columns: that are wanted; by default all.
        partitions: of `__consumer_offsets`, whose rows are wanted; by default all.

    Raises:
        InputError: it cannot be read.
    """
    wanted = columns
    if columns is not None and partitions is not None:
        wanted = [*dict.fromkeys(["offsets_partition", *columns])]
    schema = TABLES[file.table].schema
    if partitions is not None and file.offsets.keys() <= set(partitions):
        partitions = None
    parts = list(_groups(warehouse / file.path, schema, wanted, partitions))
    if not parts:
        parts = [pa.schema([schema.field(name) for name in wanted or schema.names]).empty_table()]
    rows = pa.concat_tables(parts)
    if partitions is not None:
        rows = rows.filter(pc.is_in(rows["offsets_partition"], pa.array(partitions, pa.int32())))
    return rows if columns is None else rows.select(columns)


def row_groups(
    warehouse: Path, file: WrittenFile, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Read a file likewise, part by part.

    Raises:
        InputError: it cannot be read.
    """
    yield from _groups(warehouse / file.path, TABLES[file.table].schema, columns)


def by_partition(rows: pa.Table) -> dict[int, pa.Table]:
    """Part rows by their partition of `__consumer_offsets`, in their order."""
    numbers = rows["offsets_partition"].to_numpy()
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(order), numbers[order]
    there, begins = np.unique(numbers, return_index=True)
    ends = np.append(begins, len(numbers))[1:]
    return {
        int(number): rows.slice(begin, end - begin)
        for number, begin, end in zip(there, begins, ends, strict=True)
    }


def read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    """Read any file that a build wrote.

    Raises:
        InputError: it cannot be read.
    """
    return pa.concat_tables([schema.empty_table(), *_groups(path, schema, None)])


def damaged_file(path: str, reason: str) -> InputError:
    """Say that a file of a table is not what a build wrote, and what to do."""
    return InputError(
        f"{path}: expected what a build wrote there; {reason}. Restore the file, or build the "
        "tables anew in another folder.",
        path=path,
    )


def _groups(
    path: Path,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    partitions: Collection[int] | None = None,
) -> Iterator[pa.Table]:
    """Read row groups, only those that may have rows of these partitions."""
    try:
        # not read_table: that takes the folders' names for columns
        with pq.ParquetFile(path) as parquet:
            for number in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(number)
                if partitions is not None and not _may_have(group, schema, partitions):
                    continue
                rows = parquet.read_row_group(number, columns, use_threads=False)
                yield rows.cast(pa.schema([schema.field(name) for name in rows.column_names]))
    except (OSError, pa.ArrowException) as error:
        raise damaged_file(str(path), str(error)) from None


def _may_have(group: pq.RowGroupMetaData, schema: pa.Schema, partitions: Collection[int]) -> bool:
    limits = group.column(schema.get_field_index("offsets_partition")).statistics
    if limits is None or not limits.has_min_max:
        return True
    return any(limits.min <= number <= limits.max for number in partitions)
