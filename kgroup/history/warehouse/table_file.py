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
    schema = TABLES[file.table].schema
    names = schema.names if columns is None else columns
    if partitions is not None and file.offsets.keys() <= set(partitions):
        partitions = None
    wanted = names if partitions is None else dict.fromkeys(["offsets_partition", *names])
    wanted_schema = pa.schema([schema.field(name) for name in wanted])
    rows = read_parquet(warehouse / file.path, wanted_schema, partitions)
    if partitions is not None:
        rows = rows.filter(pc.is_in(rows["offsets_partition"], pa.array(partitions, pa.int32())))
    return rows.select(names)


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


def read_parquet(
    path: Path, schema: pa.Schema, partitions: Collection[int] | None = None
) -> pa.Table:
    """Read `row_groups`, all at once."""
    return pa.concat_tables([schema.empty_table(), *row_groups(path, schema, partitions)])


def damaged_file(path: str, reason: str) -> InputError:
    """Say that a file of a table is not what a build wrote, and what to do."""
    return InputError(
        f"{path}: expected what a build wrote there; {reason}. Restore the file, or build the "
        "tables anew in another folder.",
        path=path,
    )


def check_columns(path: str, schema: pa.Schema) -> None:
    """Make sure that a file has the columns of its table: engines cast others, or read nulls.

    Raises:
        InputError: it has not, or is no Parquet file.
    """
    try:
        found = pq.read_schema(path)
    except FileNotFoundError:
        raise  # a build may have replaced it meanwhile; the caller knows what to do
    except (OSError, pa.ArrowException) as error:
        raise damaged_file(path, str(error)) from None
    for field in schema:
        index = found.get_field_index(field.name)
        kind = found.field(index).type if index >= 0 else "no such column"
        if kind != field.type:
            reason = f"expected column {field.name} of type {field.type}, found {kind}"
            raise damaged_file(path, reason)


def row_groups(
    path: Path, schema: pa.Schema, partitions: Collection[int] | None = None
) -> Iterator[pa.Table]:
    """Read the columns of a schema from any file that a build wrote, part by part.

    Only parts that may have rows of these partitions, if some are named.

    Raises:
        InputError: it cannot be read.
    """
    try:
        # not read_table: that takes the folders' names for columns
        with pq.ParquetFile(path) as parquet:
            for number in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(number)
                if partitions is None or _may_have(group, partitions):
                    rows = parquet.read_row_group(number, schema.names, use_threads=False)
                    yield rows.select(schema.names).cast(schema)
    except (OSError, KeyError, pa.ArrowException) as error:  # KeyError: no such column
        raise damaged_file(str(path), str(error)) from None


def _may_have(group: pq.RowGroupMetaData, partitions: Collection[int]) -> bool:
    limits = group.column(0).statistics  # offsets_partition comes first in each table that has it
    if limits is None or not limits.has_min_max:
        return True
    return any(limits.min <= number <= limits.max for number in partitions)
