"""SQL over the tables of a warehouse, in this process: DuckDB on Parquet files.

Questions are SQL texts that read the tables and are the same for every engine. They keep to what
DuckDB and Spark SQL both have, mark parameters by ``?``, and order their rows in full.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from kgroup.columnar.chunk_size import processor_count
from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.history.sql.allowed import check_query, missing_table, refused_statement
from kgroup.history.warehouse.table import TABLES, WarehouseTable
from kgroup.history.warehouse.table_file import check_columns, damaged_file, row_groups
from kgroup.interrupt import kept_signals

if TYPE_CHECKING:
    import duckdb

Parameter = str | int | float | bool | None
"""What stands for a ``?``."""

FOLDER_COLUMNS = (("cluster", pa.string()), ("date", pa.date32()))
"""Columns that the names of a table's folders give; `date` is null where the row has no time."""

MOST_MEMORY = 4 << 30
"""Bytes that a query may take; what is more is put into temporary files."""

MOST_SPILLED = 32 << 30
"""Bytes of these."""

FOLDERS = ".*/cluster=([^/]*)/date=([^/]*)/[^/]*$"
"""Pattern of a file's path; its groups are the quoted name of the cluster, and the day."""


class Engine(Protocol):
    """Something that answers SQL; nulls come first where rows are ordered upwards.

    Attributes:
        has_infinities: whether the largest and the smallest times are infinite.
    """

    has_infinities: bool

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        """Answer one query.

        Args:
            sql: a SELECT on the tables of `TABLES`, which have their columns and those of
                `FOLDER_COLUMNS`, also where they have no rows.
            parameters: one for each ``?``.
            is_trusted: whether the text is kgroup's own; else it is checked first.

        Raises:
            UsageError: `sql` is no query on the tables.
            KgroupError: it could not be answered.
        """
        ...


def table_schema(table: WarehouseTable) -> pa.Schema:
    """Return the columns of a table as queries see it."""
    return pa.schema([*table.schema, *FOLDER_COLUMNS])


class DuckEngine:
    """An engine that needs no JVM. It reads the given files, and can do nothing else.

    Args:
        files: Parquet files of each table, by its name, in folders as `table` has them; tables
            without files are empty.

    Raises:
        KgroupError: DuckDB is not installed.
    """

    has_infinities = True

    def __init__(self, files: Mapping[str, Sequence[Path]]) -> None:
        # In a fixed order, so that what a query leaves open is the same every time.
        own = {
            name: sorted(os.path.abspath(path) for path in files.get(name, ())) for name in TABLES
        }
        self._files = own
        self._paths = [path for paths in own.values() for path in paths]
        with kept_signals() as kept:  # what is raised inside DuckDB may end in an abort
            self._connection = _connect()
            with self._errors():
                for table in TABLES.values():
                    if own[table.name]:
                        check_columns(own[table.name][0], table.schema)  # others are cast to it
                        self._connection.execute(_view(table, own[table.name]))
                    else:
                        self._connection.register(table.name, table_schema(table).empty_table())
                self._connection.execute(f"SET allowed_paths = {_list(self._paths)}")
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
        """Answer one query; see `Engine.query`."""
        import duckdb

        check_texts(sql, *parameters)
        with self._errors():
            with kept_signals(self._connection.interrupt) as kept:
                try:
                    if not is_trusted:
                        self._check(sql)
                    found = self._connection.sql(sql, params=list(parameters))
                    answer = _as_text(found).to_arrow_table()
                except duckdb.InterruptException:
                    if not kept:
                        raise
            if kept:
                raise kept[0]
        assert isinstance(answer, pa.Table)
        return answer

    def _check(self, sql: str) -> None:
        """Parse a text, and do nothing else with it; make sure that it only reads the tables.

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
        """Turn errors of DuckDB, and of what it uses, into those of `Engine.query`."""
        import duckdb

        try:
            yield
        except (KgroupError, MemoryError):
            raise
        except Exception as error:  # bindings raise Python's own errors, and those of pyarrow
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
        """Read the files of all tables by another library, after an error that names no file.

        Raises:
            InputError: one cannot be read.
        """
        for name, paths in self._files.items():
            for path in paths:
                for _ in row_groups(Path(path), TABLES[name].schema):
                    pass


def check_texts(*texts: object) -> None:
    """Make sure that an engine can be asked with these texts: names on a command line may be any.

    Args:
        texts: query and parameters; those that are no texts are passed over.

    Raises:
        UsageError: one is not UTF-8.
    """
    for text in texts:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UsageError(f"expected UTF-8, found {text!r}") from None


def unreadable_file(path: str) -> InputError | None:
    """Say why a file of a table cannot be opened, and what to do; None: it can."""
    try:
        with open(path, "rb"):
            return None
    except FileNotFoundError:
        reason = (
            "no such file. Ask again, if a build has changed the warehouse meanwhile; else restore "
            "the file, or build the tables anew in another folder."
        )
    except OSError as error:
        reason = error.strerror or str(error)
    return InputError(f"{path}: {reason}", path=path)


def _damaged(path: str, reason: str) -> InputError:
    what = re.sub(f"(?:^Failed to read file)? ?['\"]?{re.escape(path)}['\"]?:? ?", "", reason)
    return damaged_file(path, what)


def _connect() -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as error:
        raise KgroupError(
            "questions to a warehouse are answered by DuckDB, which is not installed; "
            "pip install 'kgroup[history]'"
        ) from error
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # names of tables are no variables of callers
            "memory_limit": f"{_memory()}B",
            "temp_directory": str(Path(gettempdir(), f"kgroup-{os.getpid()}")),
            "max_temp_directory_size": f"{MOST_SPILLED}B",
            "threads": str(processor_count()),
            "default_null_order": "nulls_first_on_asc_last_on_desc",  # as Spark does
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def _memory() -> int:
    """Return how many bytes may be taken: no more than half of what the machine has."""
    return min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def _view(table: WarehouseTable, paths: Sequence[str]) -> str:
    """Write the view of a table; filters on `cluster` and `date` leave out whole files.

    The two are taken from the last two folders: DuckDB's own way takes `cluster=` and the like from
    any folder above them too.
    """
    return (
        f"CREATE VIEW {table.name} AS SELECT {', '.join(table.columns)}, "
        f"url_decode(regexp_extract(filename, '{FOLDERS}', 1)) AS cluster, "
        f"TRY_CAST(regexp_extract(filename, '{FOLDERS}', 2) AS DATE) AS date "
        f"FROM read_parquet({_list(paths)}, filename = true, hive_partitioning = false)"
    )


def _as_text(found: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Cast columns of types for which Arrow has no equal to text, so that values stay right."""
    types = [str(kind) for kind in found.types]
    if not any(map(_NOT_IN_ARROW.search, types)):
        return found
    return found.project(
        ", ".join(
            f"CAST(#{at} AS VARCHAR) AS {_identifier(name)}"
            if _NOT_IN_ARROW.search(kind)
            else f"#{at}"
            for at, (name, kind) in enumerate(zip(found.columns, types, strict=True), 1)
        )
    )


_NOT_IN_ARROW = re.compile(r"\b(BIGNUM|BIT|(?<!WITH )TIME|UHUGEINT|VARIANT|VARINT)\b")


def _identifier(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _list(texts: Sequence[str]) -> str:
    """Write texts as a list of SQL."""
    return f"[{', '.join(_quoted(text) for text in texts)}]"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _reason(error: Exception) -> str:
    """Say what an error says, in one line, without its class and the place in the query."""
    text = str(error).split("\n\nLINE ")[0].strip()
    text = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text)
    return re.sub(r"\s*\n\s*", "; ", text)
