"""Parquet files of a warehouse's tables: written, and read again.

<table>/cluster=<name>/date=<day>/<build>-<unique>-<number>.parquet

The folders are Hive's: the name is URL-quoted, the day that of UTC, and of rows without a time
``__HIVE_DEFAULT_PARTITION__``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.errors import InputError
from kgroup.history.warehouse.table import TABLES

OWN = "_kgroup"
"""The folder in a warehouse with what is no table."""

_DAY_MS = 86_400_000
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"
_GROUP_ROWS = 1 << 17
"""Rows of a row group; so many are kept in memory for each file that is open."""
_MOST_ROWS = 1 << 20
"""Rows that are kept in memory for all files."""
_MOST_DAYS = 1000
"""Days that a writer knows apart: damaged times shall not make a folder each."""
_LAST_DAY = 2_932_896
"""9999-12-31."""
_OFFSETS = ("log_offset", "from_log_offset")
_DELTAS = ("log_offset", "time_ms", "commit_timestamp_ms", "committed_offset", "from_log_offset")
"""Columns whose values are close to those before: their differences are stored."""
_UNLIKE = ("value_json",)
"""Columns whose values are all different: a dictionary of them is in vain."""
_LIMITED = (
    "offsets_partition",
    "log_offset",
    "time_ms",
    "group_id",
    "topic",
    "partition",
    "from_ms",
    "to_ms",
)
"""Columns that questions are about: their smallest and largest values are stored, so that parts of
a file can be left out."""
_CODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a table.

    Attributes:
        table: its name.
        cluster: whose rows it has.
        path: of the file, below the warehouse's folder.
        rows: how many.
        size: in bytes.
        is_open: whether its rows may change: commits of transactions without a marker, say.
        offsets: the smallest and the largest offset of its rows' records, by partition of
            `__consumer_offsets`; empty where the table has no such column. For an assignment that
            of the record that gave it.
    """

    table: str
    cluster: str
    path: str
    rows: int
    size: int
    is_open: bool
    offsets: Mapping[int, tuple[int, int]]


def cluster_folder(cluster: str) -> str:
    """Name the folder that each table has for a cluster."""
    return f"cluster={quote(cluster, safe='')}"


def set_umask(warehouse: Path) -> int:
    """Let new files be for those who may read the folder `OWN`, at first for its maker alone.

    So whoever lets others read a warehouse, by `chmod -R`, does so once.

    Returns:
        The umask that was set before.
    """
    return os.umask(0o777 & ~(warehouse / OWN).stat().st_mode)


_FileKey = tuple[str, bool, int | None]
"""Table, whether its rows are open, and day since 1970."""


class FactWriter:
    """Writes rows of a cluster, each where it belongs.

    Nothing counts before `finish`; leaving the context without it removes the files.
    """

    def __init__(self, warehouse: Path, cluster: str, build: int) -> None:
        with suppress(FileNotFoundError):
            set_umask(warehouse)  # executors have one of their own
        self._warehouse = warehouse
        self._cluster = cluster
        self._stem = unique_stem(build)
        self._kept: dict[_FileKey, list[pa.Table]] = {}
        self._rows: dict[_FileKey, int] = {}
        self._files: dict[_FileKey, _File] = {}
        self._days: set[int | None] = set()
        self._is_finished = False

    def __enter__(self) -> FactWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_finished:
            for file in self._files.values():
                file.abandon()

    def add(self, facts: Mapping[str, pa.Table], *, is_open: bool = False) -> None:
        """Take rows by table.

        Raises:
            OSError: a file cannot be written.
        """
        for name, rows in facts.items():
            for day, part in _by_day(rows, TABLES[name].day):
                if day not in self._days and len(self._days) < _MOST_DAYS:
                    self._days.add(day)
                key = (name, is_open, day if day in self._days else None)
                self._kept.setdefault(key, []).append(part)
                self._rows[key] = self._rows.get(key, 0) + len(part)
                if self._rows[key] >= _GROUP_ROWS:
                    self._flush(key)
        while sum(self._rows.values()) > _MOST_ROWS:
            self._flush(max(self._rows, key=self._rows.__getitem__))

    def finish(self) -> tuple[WrittenFile, ...]:
        """Write what is left, and close the files; give them.

        Raises:
            OSError: a file cannot be written.
        """
        written: list[WrittenFile] = []
        for key in list(self._kept):
            self._flush(key)
            written.append(self._files[key].close())  # at once: there may be very many
        written += [file.close() for file in self._files.values() if file.is_writing]
        self._is_finished = True
        return tuple(written)

    def _flush(self, key: _FileKey) -> None:
        del self._rows[key]
        rows = pa.concat_tables(self._kept.pop(key))
        if key not in self._files:
            table, is_open, day = key
            date = _NO_DAY if day is None else np.datetime64(day, "D")
            folder = f"{table}/{cluster_folder(self._cluster)}/date={date}"
            path = f"{folder}/{self._stem}-{len(self._files)}.parquet"
            empty = WrittenFile(table, self._cluster, path, 0, 0, is_open, {})
            self._files[key] = _File(self._warehouse, empty, rows.schema)
        self._files[key].write(rows)


class _File:
    def __init__(self, warehouse: Path, empty: WrittenFile, given: pa.Schema) -> None:
        self._path = warehouse / empty.path
        self._empty = empty
        self._rows = 0
        self._offsets: dict[int, tuple[int, int]] = {}
        # What comes with a dictionary is written with it, which saves looking its texts up.
        self._schema = pa.schema(
            field.with_type(_CODED)
            if pa.types.is_dictionary(given.field(field.name).type)
            else field
            for field in TABLES[empty.table].schema
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.is_writing = True
        deltas = [name for name in _DELTAS if name in self._schema.names]
        self._writer = pq.ParquetWriter(
            self._path,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in self._schema.names if name not in (*deltas, *_UNLIKE)],
            column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
            write_statistics=[name for name in _LIMITED if name in self._schema.names],
            store_schema=False,
        )

    def write(self, rows: pa.Table) -> None:
        for partition, first, last in _limits(rows):
            before = self._offsets.get(partition, (first, last))
            self._offsets[partition] = min(first, before[0]), max(last, before[1])
        self._rows += len(rows)
        coded = rows.cast(self._schema).unify_dictionaries()
        self._writer.write_table(coded, row_group_size=len(rows))

    def close(self) -> WrittenFile:
        self._writer.close()
        self.is_writing = False
        size = self._path.stat().st_size
        return replace(self._empty, rows=self._rows, size=size, offsets=self._offsets)

    def abandon(self) -> None:
        with suppress(OSError):  # on a full disk, say
            self._writer.close()
        self._path.unlink(missing_ok=True)


def unique_stem(build: int) -> str:
    """Begin the name of a file of a build.

    The same task may be done twice, by executors one of which is thought to be lost; and by the
    number it is found what a build has left.
    """
    return f"{build}-{uuid4().hex}"


def _limits(rows: pa.Table) -> Iterator[tuple[int, int, int]]:
    """Yield partitions, and the smallest and the largest offset in each."""
    column = next((name for name in _OFFSETS if name in rows.column_names), None)
    if column is None:
        return
    found = rows.group_by("offsets_partition", use_threads=False).aggregate(
        [(column, "min"), (column, "max")]
    )
    columns = ("offsets_partition", f"{column}_min", f"{column}_max")
    yield from zip(*(found[name].to_pylist() for name in columns), strict=True)


def _by_day(rows: pa.Table, column: str) -> Iterator[tuple[int | None, pa.Table]]:
    """Part rows by the UTC day of their time, in days since 1970; None for times without a day."""
    times = rows[column].combine_chunks()
    known = times.fill_null(-1).to_numpy()
    days = np.where((known >= 0) & (known // _DAY_MS <= _LAST_DAY), known // _DAY_MS, -1)
    there = np.unique(days).tolist()
    for day in there:
        of_day = rows if len(there) == 1 else rows.filter(pa.array(days == day))
        yield None if day < 0 else day, of_day


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
