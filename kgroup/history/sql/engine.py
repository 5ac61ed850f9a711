"""Run SQL over the tables of a warehouse in this process: DuckDB on Parquet files.

Questions are SQL texts over the tables that are the same for every engine. They use only what both
DuckDB and Spark SQL support, mark parameters by ``?``, and have a total order of rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from kgroup.columnar.chunk_size import processor_count
from kgroup.errors import InputError, KgroupError, UsageError, install_advice
from kgroup.history.sql.allowed import check_query, missing_table, refused_statement
from kgroup.history.sql.worker import answers_of_workers, temporary_folder
from kgroup.history.warehouse.store import Location, RemotePath, dataset
from kgroup.history.warehouse.table import ADDED, TABLES, WarehouseTable
from kgroup.history.warehouse.table_file import check_columns, damaged_file, row_groups
from kgroup.interrupt import kept_signals

if TYPE_CHECKING:
    import duckdb

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")
Parameter = str | int | float | bool | None
"""Value for a ``?``."""

MOST_MEMORY = 4 << 30
"""Memory limit of a query, in bytes; beyond it, temporary files are used."""

MOST_SPILLED = 32 << 30
"""Limit of temporary files, in bytes."""

FEW_JOBS = 3
"""Number of jobs up to which no processes are started: a process takes half a second of CPU."""

MOST_WORKERS = 4
"""Maximum number of processes that answer one question, because each needs some 200 MiB."""


_REMOTE = "_remote"
"""End of the names of what the views read from object stores."""


class Engine(Protocol):
    """Answers SQL queries; nulls come first in ascending order.

    Attributes:
        has_infinities: whether the largest and the smallest times are infinite.
    """

    has_infinities: bool

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        """Run a query.

        Args:
            sql: a SELECT on the tables of `TABLES`, which have all their columns, even without
                rows.
            parameters: one for each ``?``.
            is_trusted: whether the text is kgroup's own; otherwise it is checked first.

        Raises:
            UsageError: `sql` is not a query on the tables.
            KgroupError: the query failed.
        """
        ...

    def each(
        self, function: Callable[[Engine, _Job], _Answer], jobs: Iterable[_Job]
    ) -> Iterator[_Answer]:
        """Yield what a function returns for an engine on the same tables and each job, in order.

        Args:
            function: picklable, as are jobs and results: they may run on other machines.
            jobs: the jobs.

        Raises:
            KgroupError: a job failed.
        """
        ...


class DuckEngine:
    """An engine that needs no JVM. It can only read the given files.

    Args:
        files: Parquet files of each table, by its name; tables without files are empty.
        count: number of engines that share the machine's memory and processors.

    Raises:
        KgroupError: DuckDB is not installed.
    """

    has_infinities = True

    def __init__(self, files: Mapping[str, Sequence[Location]], *, count: int = 1) -> None:
        # In a fixed order, so that undefined orders of rows are the same every time.
        self._files = {name: in_order(files.get(name, ())) for name in TABLES}
        self._paths = [
            str(path) for paths in self._files.values() for path in paths if isinstance(path, Path)
        ]
        with kept_signals() as kept:  # an exception raised inside DuckDB may abort the process
            self._connection = _connect(count)
            with self._errors():
                for table in TABLES.values():
                    if own := self._files[table.name]:
                        # DuckDB casts the other files to this schema
                        check_columns(own[0], table.full_schema)
                        self._add_view(table, own)
                    else:
                        self._connection.register(table.name, table.full_schema.empty_table())
                self._connection.execute(f"SET allowed_paths = {quoted_list(self._paths)}")
                self._connection.execute("SET enable_external_access = false")
                self._connection.execute("SET lock_configuration = true")
        if kept:
            raise kept[0]

    def __enter__(self) -> DuckEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        """Run a query; see `Engine.query`."""
        import duckdb

        check_texts(sql, *parameters)
        with self._errors():
            with kept_signals(self._connection.interrupt) as kept:
                try:
                    if not is_trusted:
                        self._check(sql)
                    relation = self._connection.sql(sql, params=list(parameters))
                    answer = _as_text(relation).to_arrow_table()
                except duckdb.InterruptException:
                    if not kept:
                        raise
            if kept:
                raise kept[0]
        assert isinstance(answer, pa.Table)
        return answer

    def each(
        self, function: Callable[[Engine, _Job], _Answer], jobs: Iterable[_Job]
    ) -> Iterator[_Answer]:
        """Run few jobs one after another, and many in processes; see `Engine.each`."""
        left = iter(jobs)
        first = list(islice(left, FEW_JOBS + 1))
        count = min(processor_count(), MOST_WORKERS)
        if len(first) <= FEW_JOBS or count < 2:
            yield from (function(self, job) for job in chain(first, left))
            return
        open_engine = partial(DuckEngine, self._files, count=count)
        yield from answers_of_workers(open_engine, function, chain(first, left), count)

    def _add_view(self, table: WarehouseTable, files: Sequence[Location]) -> None:
        """Add a view of files; pyarrow reads remote ones, DuckDB would need an extension."""
        sources = []
        if paths := [str(path) for path in files if isinstance(path, Path)]:
            sources.append(parquet_rows(table, paths))
        if remote := [path for path in files if isinstance(path, RemotePath)]:
            self._connection.register(f"{table.name}{_REMOTE}", dataset(remote, table.full_schema))
            sources.append(f"{table.name}{_REMOTE}")
        columns = ", ".join(table.full_schema.names)
        selects = (f"SELECT {columns} FROM {source}" for source in sources)
        self._connection.execute(f"CREATE VIEW {table.name} AS {' UNION ALL '.join(selects)}")

    def _check(self, sql: str) -> None:
        """Parse a text without running it, and check that it only reads the tables.

        Raises:
            UsageError: it does more.
        """
        import duckdb

        kinds = [statement.type for statement in self._connection.extract_statements(sql)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise refused_statement(", ".join(kind.name for kind in kinds) or "no statement")
        serialize = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true)"
        ((tree,),) = self._connection.execute(serialize, [sql]).fetchall()
        check_query(tree)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of DuckDB and its dependencies into those of `Engine.query`."""
        import duckdb

        try:
            yield
        except (KgroupError, MemoryError):
            raise
        except Exception as error:  # bindings raise Python's own errors, and pyarrow's
            reason = _reason(error)
            if not isinstance(error, duckdb.Error):
                reason = f"DuckDB cannot answer this query: {type(error).__name__}: {reason}"
            for path in self._paths:
                if (unreadable := unreadable_file(path)) is not None:
                    raise unreadable from error
                if path in reason:
                    raise _damaged(path, reason) from error
            if missing := re.match(r"Table with name (.*?) does not exist", reason):
                raise missing_table(missing[1]) from error
            if isinstance(error, duckdb.ProgrammingError | duckdb.DataError):
                raise UsageError(reason) from error
            if not isinstance(error, duckdb.OutOfMemoryException | duckdb.NotSupportedError):
                self._read_all()
            raise KgroupError(reason) from error

    def _read_all(self) -> None:
        """Read the files of all tables with another library, after an error that names no file.

        Raises:
            InputError: a file cannot be read.
        """
        for name, paths in self._files.items():
            for path in paths:
                for _ in row_groups(path, TABLES[name].full_schema):
                    pass


def in_order(files: Iterable[Location]) -> list[Location]:
    """Return absolute locations, sorted."""
    return sorted(
        (Path(os.path.abspath(file)) if isinstance(file, Path) else file for file in files), key=str
    )


def check_texts(*texts: object) -> None:
    """Check that texts can be passed to an engine; names on a command line may be any bytes.

    Args:
        texts: query and parameters; values that are not texts are ignored.

    Raises:
        UsageError: a text is not UTF-8.
    """
    for text in texts:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UsageError(f"expected UTF-8, found {text!r}") from None


def unreadable_file(path: str) -> InputError | None:
    """Return the error if a file of a table cannot be opened; None if it can."""
    try:
        with open(path, "rb"):
            return None
    except FileNotFoundError:
        reason = (
            "no such file. Repeat the query if a build has changed the warehouse meanwhile; else "
            "restore the file, or build a new warehouse in another folder."
        )
    except OSError as error:
        reason = error.strerror or str(error)
    return InputError(f"{path}: {reason}", path=path)


def _damaged(path: str, reason: str) -> InputError:
    what = re.sub(f"(?:^Failed to read file)? ?['\"]?{re.escape(path)}['\"]?:? ?", "", reason)
    return damaged_file(path, what)


def _connect(count: int) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as error:
        raise KgroupError(
            "DuckDB, which answers queries on a warehouse, is not installed; "
            f"{install_advice('history')}"
        ) from error
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # do not resolve table names as variables of the caller
            "python_enable_replacements": "false",
            "memory_limit": f"{_memory() // count}B",
            "temp_directory": str(temporary_folder(os.getpid())),
            "max_temp_directory_size": f"{MOST_SPILLED}B",
            "threads": str(max(1, processor_count() // count)),
            "default_null_order": "nulls_first_on_asc_last_on_desc",  # as in Spark
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def _memory() -> int:
    """Return the memory limit in bytes: at most half of the machine's memory."""
    return min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def parquet_rows(table: WarehouseTable, paths: Sequence[str]) -> str:
    """Return SQL for the rows of a table in DuckDB; columns that old files lack are null."""
    files = quoted_list(paths)
    added = [field for field in table.schema if field.name in ADDED]
    if not added:
        return f"read_parquet({files}, hive_partitioning = false)"
    empty = ", ".join(f"NULL::{sql_type(field.type)} AS {field.name}" for field in added)
    return (
        f"(SELECT {empty} WHERE false UNION ALL BY NAME SELECT * FROM read_parquet({files}, "
        "hive_partitioning = false, union_by_name = true))"
    )


def sql_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a type."""
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (f"{field.name} {sql_type(field.type)}" for field in kind.fields)
        return f"STRUCT({', '.join(fields)})"
    return _NAMES[kind]


_NAMES = {
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
}


def _as_text(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Cast columns of types without an Arrow equivalent to text, so that values stay correct."""
    types = [str(kind) for kind in relation.types]
    if not any(map(_NOT_IN_ARROW.search, types)):
        return relation
    return relation.project(
        ", ".join(
            f"CAST(#{at} AS VARCHAR) AS {_identifier(name)}"
            if _NOT_IN_ARROW.search(kind)
            else f"#{at}"
            for at, (name, kind) in enumerate(zip(relation.columns, types, strict=True), 1)
        )
    )


_NOT_IN_ARROW = re.compile(r"\b(BIGNUM|BIT|(?<!WITH )TIME|UHUGEINT|VARIANT|VARINT)\b")


def _identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def quoted_list(texts: Sequence[str]) -> str:
    """Return texts as an SQL list."""
    return f"[{', '.join(quoted(text) for text in texts)}]"


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _reason(error: Exception) -> str:
    """Return the text of an error in one line, without its class and the position in the query."""
    text = str(error).split("\n\nLINE ")[0].strip()
    text = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text)
    return re.sub(r"[.!]?\s*\n\s*", "; ", text)
