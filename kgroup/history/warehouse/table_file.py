"""Write and read the Parquet files of a warehouse's tables.

<table>/<cluster>/<day>/<build>-<unique>-<number>.parquet

The files also have the columns `PLACE`, because some readers of Delta tables would take them from
the folders' names, and others from the log. In the cluster's name, all bytes except ASCII letters,
digits and hyphens are written as ``_`` and two hexadecimal digits. The day is in UTC; rows
without a time, and assignments that have not ended, are in ``none``. The folder of rows that may
change, such as commits of transactions without a marker, ends in ``-open``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.errors import InputError
from kgroup.history.remote import first_line
from kgroup.history.warehouse.store import Location, file_at, open_input, open_output
from kgroup.history.warehouse.table import ADDED, PLACE, TABLES

OWN = "_kgroup"
"""Folder in a warehouse for everything except the tables."""

_DAY_MS = 86_400_000
_NO_DAY = "none"
_OPEN = "-open"
"""End of the name of a folder with rows that may change."""
_GROUP_ROWS = 1 << 17
"""Rows of a row group; that many are buffered for each open file."""
_MOST_ROWS = 1 << 20
"""Maximum number of rows to buffer for all files."""
_MOST_DAYS = 1000
"""Maximum number of days of a writer: damaged times must not create a folder each."""
_LAST_DAY = 2_932_896
"""9999-12-31, in days since 1970."""
_OFFSETS = ("log_offset", "from_log_offset")
_DELTAS = ("log_offset", "time_ms", "commit_timestamp_ms", "committed_offset", "from_log_offset")
"""Columns with values close to the previous ones: stored as differences."""
_UNLIKE = ("value_json",)
"""Columns whose values are all different: not dictionary-encoded."""
_LIMITED = (
    "offsets_partition",
    "log_offset",
    "time_ms",
    "group_id",
    "topic",
    "partition",
    "from_ms",
    "to_ms",
    "from_log_offset",
    "cluster",
    "date",
)
"""Columns used in conditions: their minimum and maximum are stored, so that row groups and files
can be skipped.
"""
_FALSE_POSITIVES = 0.01
"""Share of row groups without a group that are read all the same, as its Bloom filter may fit."""
_CODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an integer column in a file.

    Attributes:
        lowest: lowest value; None if all are null.
        highest: highest value; None if all are null.
        null_count: number of nulls.
    """

    lowest: int | None
    highest: int | None
    null_count: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a table.

    Attributes:
        table: table name.
        cluster: name of the cluster in the warehouse.
        path: path of the file, relative to the warehouse's folder.
        rows: number of rows.
        size: file size in bytes.
        limits: limits of its integer columns in `_LIMITED`, by name.
    """

    table: str
    cluster: str
    path: str
    rows: int
    size: int
    limits: Mapping[str, Limits]

    @property
    def is_open(self) -> bool:
        """Whether its rows may change, such as commits of transactions without a marker."""
        return PurePath(self.path).parent.name.endswith(_OPEN)

    @property
    def date(self) -> str | None:
        """Day of its rows; None if it has rows without a time, or of several days."""
        date = PurePath(self.path).parent.name.removesuffix(_OPEN)
        return None if date == _NO_DAY else date

    @property
    def partitions(self) -> range:
        """Partitions of `__consumer_offsets` that it may have rows of; empty if unknown."""
        limits = self.limits.get("offsets_partition")
        if limits is None or limits.lowest is None or limits.highest is None:
            return range(0)
        return range(limits.lowest, limits.highest + 1)

    @property
    def offsets(self) -> tuple[int, int]:
        """Lowest and highest offset of its rows' records; of an assignment's, where it began."""
        limits = next(self.limits[name] for name in _OFFSETS if name in TABLES[self.table].columns)
        assert limits.lowest is not None
        assert limits.highest is not None
        return limits.lowest, limits.highest


def table_folder(table: str, cluster: str, date: str | None, *, is_open: bool) -> str:
    """Return the folder of a table's rows, relative to the warehouse's."""
    day = f"{date or _NO_DAY}{_OPEN if is_open else ''}"
    return f"{table}/{cluster_folder(cluster)}/{day}"


def cluster_folder(cluster: str) -> str:
    """Return the name of the folder that each table has for a cluster."""
    return re.sub(
        "[^A-Za-z0-9-]",
        lambda found: "".join(f"_{byte:02X}" for byte in found[0].encode()),
        cluster,
    )


def set_umask(warehouse: Path) -> int:
    """Set the umask so that new files have the permissions of the folder `OWN`.

    That folder is at first for its owner only. One `chmod -R` therefore gives others lasting access
    to a warehouse.

    Returns:
        The previous umask.
    """
    return os.umask(0o777 & ~(warehouse / OWN).stat().st_mode)


class _FileKey(NamedTuple):
    """Rows that share a file.

    Attributes:
        table: name of the table.
        is_open: whether the rows may change.
        day: day since 1970; None for rows without a day, or of several.
        offsets_partition: of rows that may change and have no day, so that a build rewrites only
            those of partitions with new records; None for other rows.
    """

    table: str
    is_open: bool
    day: int | None
    offsets_partition: int | None = None


class FactWriter:
    """Writes rows of a cluster to the files of their tables and days.

    The files are complete after `finish`; leaving the context without it removes them.
    """

    def __init__(self, warehouse: Location, cluster: str, build: int) -> None:
        with suppress(FileNotFoundError):
            if isinstance(warehouse, Path):
                set_umask(warehouse)  # executors are other processes, with their own umask
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
        """Add rows by table name.

        Raises:
            OSError: a file cannot be written.
        """
        for name, rows in facts.items():
            table = TABLES[name]
            if is_open and table.are_open_dayless:
                for number, part in by_partition(rows).items():
                    self._add(_FileKey(name, is_open, None, number), part)
                continue
            for day, part in _by_day(rows, table.day):
                if day not in self._days and len(self._days) < _MOST_DAYS:
                    self._days.add(day)
                self._add(_FileKey(name, is_open, day if day in self._days else None), part)
        while sum(self._rows.values()) > _MOST_ROWS:
            self._flush(max(self._rows, key=self._rows.__getitem__))

    def _add(self, key: _FileKey, rows: pa.Table) -> None:
        self._kept.setdefault(key, []).append(rows)
        self._rows[key] = self._rows.get(key, 0) + len(rows)
        if self._rows[key] >= _GROUP_ROWS:
            self._flush(key)

    def finish(self) -> tuple[WrittenFile, ...]:
        """Write the buffered rows, close the files and return them.

        Raises:
            OSError: a file cannot be written.
        """
        written: list[WrittenFile] = []
        for key in list(self._kept):
            self._flush(key)
            written.append(self._files[key].close())  # close at once: there may be very many files
        written += [file.close() for file in self._files.values() if file.is_writing]
        self._is_finished = True
        return tuple(written)

    def _flush(self, key: _FileKey) -> None:
        del self._rows[key]
        rows = pa.concat_tables(self._kept.pop(key))
        if key not in self._files:
            date = None if key.day is None else str(np.datetime64(key.day, "D"))
            folder = table_folder(key.table, self._cluster, date, is_open=key.is_open)
            path = f"{folder}/{self._stem}-{len(self._files)}.parquet"
            empty = WrittenFile(key.table, self._cluster, path, 0, 0, {})
            self._files[key] = _File(self._warehouse, empty, rows)
        self._files[key].write(rows)


class _File:
    def __init__(self, warehouse: Location, empty: WrittenFile, first: pa.Table) -> None:
        self._path = warehouse / empty.path
        self._empty = empty
        # Dictionary-encoded columns stay so, which saves looking up their texts.
        self._columns = pa.schema(
            field.with_type(_CODED)
            if pa.types.is_dictionary(first.schema.field(field.name).type)
            else field
            for field in TABLES[empty.table].schema
        )
        self._schema = pa.schema([*self._columns, *PLACE])
        self._place = [pa.scalar(empty.cluster), pa.scalar(empty.date).cast(pa.date32())]
        self.is_writing = True
        deltas = [name for name in _DELTAS if name in self._schema.names]
        filters = {}
        if "group_id" in self._schema.names:
            count = pc.count_distinct(first["group_id"].cast(pa.string())).as_py()
            filters["group_id"] = {"ndv": max(count, 1), "fpp": _FALSE_POSITIVES}
        self._file = open_output(self._path)
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in self._schema.names if name not in (*deltas, *_UNLIKE)],
            column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
            write_statistics=[name for name in _LIMITED if name in self._schema.names],
            store_schema=False,
            bloom_filter_options=filters,
        )

    def write(self, rows: pa.Table) -> None:
        coded = rows.cast(self._columns).unify_dictionaries()
        for field, value in zip(PLACE, self._place, strict=True):
            coded = coded.append_column(field, pa.repeat(value, len(rows)))
        self._writer.write_table(coded, row_group_size=len(rows))

    def close(self) -> WrittenFile:
        self._writer.close()
        self._file.close()
        self.is_writing = False
        metadata = self._writer.writer.metadata
        size = self._path.stat().st_size
        return replace(self._empty, rows=metadata.num_rows, size=size, limits=limits_of(metadata))

    def abandon(self) -> None:
        with suppress(OSError):  # on a full disk, for example
            self._writer.close()
            self._file.close()
        self._path.unlink(missing_ok=True)


def unique_stem(build: int) -> str:
    """Return a unique start for the names of a build's files.

    It is unique because a task may run twice, if an executor was thought to be lost. The build
    number identifies the files that a build left behind.
    """
    return f"{build}-{uuid4().hex}"


def limits_of(metadata: pq.FileMetaData) -> dict[str, Limits]:
    """Return the limits of a file's integer columns, as far as they are stored."""
    limits: dict[str, Limits] = {}
    for column in range(metadata.num_columns):
        parts = [
            metadata.row_group(number).column(column) for number in range(metadata.num_row_groups)
        ]
        name = parts[0].path_in_schema
        if name in _LIMITED and name != "date" and parts[0].physical_type.startswith("INT"):
            of_parts = [part.statistics for part in parts]
            if any(part is None for part in of_parts):  # `in` would compare, and crash
                continue
            known = [part for part in of_parts if part.has_min_max]
            limits[name] = Limits(
                min((part.min for part in known), default=None),
                max((part.max for part in known), default=None),
                sum(part.null_count for part in of_parts),
            )
    return limits


def offset_limits(rows: pa.Table, column: str) -> Iterator[tuple[int, int, int]]:
    """Yield each offsets partition with the lowest and highest value of a column."""
    partitions = pc.min_max(rows["offsets_partition"]).as_py()
    if partitions["min"] == partitions["max"]:  # as most rows are
        offsets = pc.min_max(rows[column]).as_py()
        yield partitions["min"], offsets["min"], offsets["max"]
        return
    ranges = rows.group_by("offsets_partition", use_threads=False).aggregate(
        [(column, "min"), (column, "max")]
    )
    columns = ("offsets_partition", f"{column}_min", f"{column}_max")
    yield from zip(*(ranges[name].to_pylist() for name in columns), strict=True)


def _by_day(rows: pa.Table, column: str) -> Iterator[tuple[int | None, pa.Table]]:
    """Split rows by UTC day of their time, in days since 1970; None for times without a day."""
    times = rows[column].combine_chunks()
    known = times.fill_null(-1).to_numpy()
    days = np.where((known >= 0) & (known // _DAY_MS <= _LAST_DAY), known // _DAY_MS, -1)
    if (days[1:] < days[:-1]).any():
        order = np.argsort(days, kind="stable")
        rows, days = rows.take(order), days[order]
    begins = np.flatnonzero(np.diff(days, prepend=-2)).tolist()
    for begin, end in pairwise([*begins, len(days)]):
        day = int(days[begin])
        of_day = rows if len(begins) == 1 else _with_used_texts(rows.slice(begin, end - begin))
        yield None if day < 0 else day, of_day


def _with_used_texts(rows: pa.Table) -> pa.Table:
    """Return rows whose dictionaries have only the texts that occur: a file stores all of them."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(number).combine_chunks()
            is_used = np.zeros(len(column.dictionary), np.bool_)
            is_used[column.indices.drop_null().to_numpy()] = True
            # the type of codes must stay: rows of one type are kept together
            codes = pa.array(np.cumsum(is_used) - 1).cast(column.indices.type)
            texts = column.dictionary.filter(pa.array(is_used))
            used = pa.DictionaryArray.from_arrays(codes.take(column.indices), texts)
            rows = rows.set_column(number, field.name, used)
    return rows


def read_rows(
    warehouse: Location,
    file: WrittenFile,
    columns: Sequence[str] | None = None,
    *,
    partitions: Collection[int] | None = None,
    select: Callable[[pa.Table], pa.Table] | None = None,
) -> pa.Table:
    """Read a file with the types of its table.

    Args:
        warehouse: its folder.
        file: the file.
        columns: columns to read; by default all.
        partitions: partitions of `__consumer_offsets` whose rows to read; by default all.
        select: see `row_groups`.

    Raises:
        InputError: the file cannot be read.
    """
    schema = TABLES[file.table].schema
    names = schema.names if columns is None else columns
    if partitions is not None and set(file.partitions) <= set(partitions):
        partitions = None
    wanted = names if partitions is None else dict.fromkeys(["offsets_partition", *names])
    wanted_schema = pa.schema([schema.field(name) for name in wanted])
    rows = read_parquet(file_at(warehouse, file.path), wanted_schema, partitions, select)
    if partitions is not None:
        rows = rows.filter(pc.is_in(rows["offsets_partition"], pa.array(partitions, pa.int32())))
    return rows.select(names)


def by_partition(rows: pa.Table) -> dict[int, pa.Table]:
    """Split rows by partition of `__consumer_offsets`, keeping their order."""
    numbers = rows["offsets_partition"].to_numpy()
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(order), numbers[order]
    distinct, begins = np.unique(numbers, return_index=True)
    ends = np.append(begins, len(numbers))[1:]
    return {
        int(number): rows.slice(begin, end - begin)
        for number, begin, end in zip(distinct, begins, ends, strict=True)
    }


def read_parquet(
    path: Location,
    schema: pa.Schema,
    partitions: Collection[int] | None = None,
    select: Callable[[pa.Table], pa.Table] | None = None,
) -> pa.Table:
    """Read all `row_groups` into one table."""
    return pa.concat_tables([schema.empty_table(), *row_groups(path, schema, partitions, select)])


def damaged_file(path: str, reason: str) -> InputError:
    """Return the error for a damaged file of a table."""
    return InputError(
        f"{path}: not as the build wrote it; {reason}. Restore the file, or build a new warehouse "
        "in another folder.",
        path=path,
    )


def check_columns(path: Location, schema: pa.Schema) -> None:
    """Check that a file has its table's columns: engines would cast others or read nulls.

    Raises:
        InputError: a column is missing or has another type, or it is not a Parquet file.
    """
    try:
        with open_input(path) as source:
            written = pq.read_schema(source)
    except FileNotFoundError:
        raise  # a build may have replaced the file meanwhile; the caller handles this
    except (OSError, pa.ArrowException) as error:
        raise damaged_file(str(path), first_line(error)) from None
    for field in schema:
        index = written.get_field_index(field.name)
        if index < 0 and field.name in ADDED:
            continue
        kind = written.field(index).type if index >= 0 else "no such column"
        if kind != field.type:
            reason = f"expected column {field.name} of type {field.type}, found {kind}"
            raise damaged_file(str(path), reason)


def lacks_columns(path: Location, table: str) -> bool:
    """Return whether a file lacks some of its table's columns, as an older version wrote it.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with open_input(path) as source:
            return not {*TABLES[table].columns} <= {*pq.read_schema(source).names}
    except (OSError, pa.ArrowException) as error:
        raise damaged_file(str(path), first_line(error)) from None


def row_groups(
    path: Location,
    schema: pa.Schema,
    partitions: Collection[int] | None = None,
    select: Callable[[pa.Table], pa.Table] | None = None,
) -> Iterator[pa.Table]:
    """Yield the columns of a schema from a file that a build wrote, one row group at a time.

    With `partitions`, only row groups that may have rows of these partitions. With `select`, only
    the rows that it returns; it gets the column `group_id` dictionary-encoded.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        # not read_table, which takes the folders' names for columns
        coded = None if select is None else ["group_id"]
        with open_input(path) as source, pq.ParquetFile(source, read_dictionary=coded) as parquet:
            for number in range(parquet.num_row_groups):
                group = parquet.metadata.row_group(number)
                if partitions is None or _may_have(group, partitions):
                    rows = parquet.read_row_group(number, schema.names, use_threads=False)
                    rows = rows if select is None else select(rows)
                    for name in ADDED.intersection(schema.names).difference(rows.column_names):
                        rows = rows.append_column(name, pa.nulls(len(rows), pa.int64()))
                    yield rows.select(schema.names).cast(schema)
    except (OSError, KeyError, pa.ArrowException) as error:  # KeyError: no such column
        raise damaged_file(str(path), first_line(error)) from None


def _may_have(group: pq.RowGroupMetaData, partitions: Collection[int]) -> bool:
    # offsets_partition is the first column of each table that has it
    limits = group.column(0).statistics
    if limits is None or not limits.has_min_max:
        return True
    return any(limits.min <= number <= limits.max for number in partitions)
