"""Connections to a database with timeouts, transactions, and translation of database errors."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kgroup.atomic_file import INPUTS
from kgroup.errors import BrokerError, InputError, KgroupError, ProblemKind, UsageError
from kgroup.source.sql.address import INSTALL, SqlAddress

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import DBAPIError


_LONGEST_ROW = 16 << 20
"""Maximum bytes of a row, or a statement with its values, in SQLite, which loads whole rows."""


def open_engine(address: SqlAddress, timeout_s: float, *, create: bool = False) -> Engine:
    """Return an engine that has not connected yet, and does not pool connections.

    Args:
        address: address of the database.
        timeout_s: maximum wait, in seconds, for a connection, a statement or a lock.
        create: whether to create a missing SQLite file.

    Raises:
        UsageError: the driver is missing.
    """
    engine = _engine(address, timeout_s, create=create)
    _name_strange_errors(engine, address)
    return engine


def _name_strange_errors(engine: Engine, address: SqlAddress) -> None:
    """Translate errors that a driver raises, and that are not of its own error classes.

    SQLAlchemy translates those of its own classes, which `sql_errors` then interprets.
    """
    from sqlalchemy import ExceptionContext, event

    @event.listens_for(engine, "handle_error")
    def name(context: ExceptionContext) -> None:
        error = context.original_exception
        ours = KgroupError, UnicodeEncodeError  # the latter: names that are not valid Unicode
        is_own = context.sqlalchemy_exception is not None or isinstance(error, ours)
        if isinstance(error, Exception) and not is_own:
            text = f"{type(error).__name__}: {error}"
            raise BrokerError(
                ProblemKind.FAILED,
                f"{address.shown}: expected values that the driver can read and write; it failed "
                f"with {text}",
            ) from None


def _engine(address: SqlAddress, timeout_s: float, *, create: bool) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    try:
        if address.backend == "sqlite":
            return _sqlite_engine(address, timeout_s, create=create)
        arguments = _postgresql if address.backend == "postgresql" else _mysql
        engine = create_engine(
            address.url, poolclass=NullPool, connect_args=arguments(timeout_s), hide_parameters=True
        )
    except ImportError as error:
        missing = error.name or "its driver"
        raise UsageError(f"{address.shown} needs {missing}, which is missing; {INSTALL}") from None
    limits = _limits(address.backend, timeout_s)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: object, unnamed: list[Any], named: dict[str, Any]) -> Any:
        try:
            return dialect.connect(*unnamed, **named)
        except (TypeError, ValueError, OSError, RuntimeError) as error:  # not a driver error
            raise UsageError(
                f"{address.shown}: expected parameters that the driver knows, and files that are "
                f"there; found: {error}"
            ) from None

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        for statement in limits:
            cursor.execute(statement)
        cursor.close()
        connection.commit()  # PostgreSQL rolls back SET with its transaction

    return engine


@contextmanager
def transaction(engine: Engine, *, write: bool = False) -> Iterator[Connection]:
    """Run a transaction that ends with the context; an exception rolls it back.

    On SQLite, a transaction that will write locks the file before it reads; otherwise the data
    could change between reading and writing.
    """
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            yield connection
        return
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            yield connection
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            from sqlalchemy.exc import DBAPIError

            with suppress(DBAPIError):  # some errors have rolled it back already
                connection.exec_driver_sql("ROLLBACK")
            raise


def _sqlite_engine(address: SqlAddress, timeout_s: float, *, create: bool) -> Engine:
    """Return an engine with explicit transactions; Python's driver starts them implicitly."""
    import sqlite3

    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    path = address.path
    assert path is not None
    INPUTS.append(path)
    mode = "ro" if address.read_only else "rwc" if create else "rw"
    file = f"file:{quote(str(path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        if create:  # SQLite would create it readable by others
            with suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(file, uri=True, timeout=timeout_s, isolation_level=None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
        return connection

    return create_engine(
        "sqlite+pysqlite://",
        creator=connect,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )


def _postgresql(timeout_s: float) -> dict[str, Any]:
    return {
        "connect_timeout": max(2, math.ceil(timeout_s)),  # libpq treats 1 as 2
        "tcp_user_timeout": math.ceil(timeout_s * 1000),
        "client_encoding": "utf8",
        "application_name": "kgroup",
    }


def _mysql(timeout_s: float) -> dict[str, Any]:
    whole = math.ceil(timeout_s)
    return {
        "connect_timeout": whole,
        "read_timeout": whole + 1,  # the server's own limit applies first
        "write_timeout": whole + 1,
        "charset": "utf8mb4",
    }


def _limits(backend: str, timeout_s: float) -> tuple[str, ...]:
    if backend == "postgresql":
        limit = math.ceil(timeout_s * 1000)
        # The lock timeout is shorter because its error is more specific.
        return (f"SET statement_timeout = {limit + 500}", f"SET lock_timeout = {limit}")
    return (
        f"SET SESSION innodb_lock_wait_timeout = {math.ceil(timeout_s)}",
        # Without it, a server may truncate values that do not fit, with only a warning.
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
    )


_UNREACHABLE = (ProblemKind.UNREACHABLE, "expected a database server that takes connections")
_GONE = (ProblemKind.DISCONNECTED, "the server ended the connection; nothing half is left, repeat")
_LOGIN = (ProblemKind.REFUSED, "expected a user and a password that the server accepts")
_NO_DATABASE = (ProblemKind.UNREADABLE, "expected a database of this name; create it or correct it")
_PERMISSION = (ProblemKind.DENIED, "expected permission for it: ask for GRANT on the table")
_SILENT = (ProblemKind.SILENT, "expected an answer within --timeout; repeat, or allow longer")
_BUSY = (ProblemKind.BUSY, "another process has it locked for longer than --timeout; repeat later")
_READ_ONLY = (ProblemKind.DENIED, "expected a database that may be written, found a read-only one")
_FULL = (ProblemKind.FAILED, "the database has no room left")
_CROWDED = (ProblemKind.REFUSED, "the server has no connection left for us; repeat later")
_KEY = (ProblemKind.CHANGED, "others write the same rows; repeat when they are done")
_CUT = (ProblemKind.UNREADABLE, "expected values that fit the columns; nothing was written")
_NO_TABLE = (ProblemKind.UNREADABLE, "expected the table with its columns")

_OTHER = (ProblemKind.FAILED, "expected the statement to succeed")

_Meaning = tuple[ProblemKind, str]

_SQLITE: Mapping[str, _Meaning] = {
    "SQLITE_BUSY": _BUSY,
    "SQLITE_LOCKED": _BUSY,
    "SQLITE_NOTADB": (
        ProblemKind.UNREADABLE,
        "expected a database of SQLite, found something else",
    ),
    "SQLITE_CORRUPT": (ProblemKind.UNREADABLE, "expected a sound database; restore a backup of it"),
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_CANTOPEN": (ProblemKind.UNREADABLE, "expected a file that may be opened"),
    "SQLITE_PERM": _PERMISSION,
    "SQLITE_AUTH": _PERMISSION,
    "SQLITE_FULL": _FULL,
    "SQLITE_TOOBIG": (ProblemKind.UNREADABLE, "expected rows of at most 16 MiB"),
    "SQLITE_CONSTRAINT": _CUT,
    "SQLITE_CONSTRAINT_UNIQUE": _KEY,
    "SQLITE_CONSTRAINT_PRIMARYKEY": _KEY,
}
"""Meanings by extended result code, or by the primary one that its name starts with."""

_POSTGRESQL: Mapping[str, _Meaning] = {
    "28": _LOGIN,
    "3D": _NO_DATABASE,
    "42501": _PERMISSION,
    "57014": _SILENT,
    "55P03": _BUSY,
    "25006": _READ_ONLY,
    "40": _KEY,
    "23505": _KEY,
    "53300": _CROWDED,
    "53": _FULL,
    "57P": _GONE,
    "08": _GONE,
    "22": _CUT,
    "54000": _CUT,
    "42P01": _NO_TABLE,
    "42703": _NO_TABLE,
}
"""Meanings by SQLSTATE, or its first characters; the longest match counts."""

_POSTGRESQL_TEXT = {
    "password": _LOGIN,
    "authentication": _LOGIN,
    "pg_hba.conf": _LOGIN,
    "role ": _LOGIN,
    "database ": _NO_DATABASE,
    "timeout": _SILENT,
    "too many clients": _CROWDED,
    "terminat": _GONE,
    "server closed": _GONE,
    "connection is closed": _GONE,
    "connection is lost": _GONE,
    "ssl": _LOGIN,
    "": _UNREACHABLE,
}
"""Meanings by text, for connections that could not be opened, which have no SQLSTATE."""

_MYSQL: Mapping[int, _Meaning] = {
    1045: _LOGIN, 1698: _LOGIN, 2059: _LOGIN, 1044: _PERMISSION, 1049: _NO_DATABASE,
    1142: _PERMISSION, 1143: _PERMISSION, 1227: _PERMISSION, 1370: _PERMISSION,
    2002: _UNREACHABLE, 2003: _UNREACHABLE, 2005: _UNREACHABLE, 2006: _GONE, 2013: _GONE,
    1053: _GONE, 1927: _GONE, 1205: _BUSY, 1213: _KEY, 1020: _KEY, 1062: _KEY, 3024: _SILENT,
    1969: _SILENT, 1290: _READ_ONLY, 1836: _READ_ONLY, 1792: _READ_ONLY, 1040: _CROWDED,
    1203: _CROWDED, 1226: _CROWDED, 1114: _FULL, 1021: _FULL, 1406: _CUT, 1366: _CUT, 1264: _CUT,
    1146: _NO_TABLE, 1054: _NO_TABLE,
}  # fmt: skip


@contextmanager
def sql_errors(address: SqlAddress, table: str) -> Iterator[None]:
    """Translate errors of SQLAlchemy and of drivers into kgroup's.

    Raises:
        BrokerError: the server fails, or the database is locked.
        InputError: a database, table or column does not exist or is unsuitable.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    where = f"{address.shown}, table {table}"
    try:
        yield
    except DBAPIError as error:
        raise _meant(error, address, where) from None
    except SQLAlchemyError as error:
        raise InputError(f"{where}: {str(error).splitlines()[0]}") from None


def is_conflict(error: DBAPIError) -> bool:
    """Return whether a transaction failed only because of a concurrent one, and may be retried."""
    return _meaning(error.orig) is _KEY


def _meant(error: DBAPIError, address: SqlAddress, where: str) -> KgroupError:
    kind, expected = _meaning(error.orig)
    if "timed out" in str(error.orig):
        kind, expected = _SILENT
    text = "; ".join(filter(None, map(str.strip, _text(error.orig).splitlines())))
    message = f"{where}: {expected}; found: {text}"
    if kind is ProblemKind.UNREADABLE:
        return InputError(message, path=None if address.path is None else str(address.path))
    return BrokerError(kind, message)


def _meaning(error: Any) -> _Meaning:
    code = getattr(error, "sqlite_errorname", None)
    if code is not None:
        primary = "_".join(code.split("_")[:2])
        return _SQLITE.get(code) or _SQLITE.get(primary) or _OTHER
    if type(error).__module__.startswith("psycopg"):
        state = getattr(error, "sqlstate", None)
        if state is None:
            text = str(error).lower()
            return next(value for part, value in _POSTGRESQL_TEXT.items() if part in text)
        known = [code for code in _POSTGRESQL if state.startswith(code)]
        return _POSTGRESQL[max(known, key=len)] if known else _OTHER
    number = error.args[0] if getattr(error, "args", None) else None
    return _MYSQL.get(number, _OTHER) if isinstance(number, int) else _OTHER


def _text(error: Any) -> str:
    """Return a driver's message; PyMySQL has a number and a sentence."""
    if isinstance(getattr(error, "args", None), tuple) and len(error.args) == 2:
        return re.sub(r"\[Errno -?\d+\] ", "", f"{error.args[1]} ({error.args[0]})")
    return str(error) or type(error).__name__
