"""Connections to a database, whose waits all end, and transactions on them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kgroup.atomic_file import INPUTS
from kgroup.errors import BrokerError, KgroupError, ProblemKind, UsageError
from kgroup.source.sql.address import INSTALL, SqlAddress

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_LONGEST_ROW = 16 << 20
"""Bytes of a row, or of a statement with its values, of SQLite, which holds rows as a whole."""


def open_engine(address: SqlAddress, timeout_s: float, *, create: bool = False) -> Engine:
    """Make an engine; nothing is connected yet, and no connection is kept.

    Args:
        address: where the database is.
        timeout_s: the longest that a connection, a statement or a lock is waited for.
        create: whether SQLite's file is made where there is none.

    Raises:
        UsageError: the driver is missing.
    """
    engine = _engine(address, timeout_s, create=create)
    _name_strange_errors(engine, address)
    return engine


def _name_strange_errors(engine: Engine, address: SqlAddress) -> None:
    """Let errors leave as kgroup's that a driver raises, and that are none of its own class.

    Those of its class are SQLAlchemy's then, and `sql_errors` tells what they mean.
    """
    from sqlalchemy import ExceptionContext, event

    @event.listens_for(engine, "handle_error")
    def name(context: ExceptionContext) -> None:
        error = context.original_exception
        ours = KgroupError, UnicodeEncodeError  # the latter: names that are no UTF-8
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
        except (TypeError, ValueError, OSError, RuntimeError) as error:  # no error of the driver's
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
        connection.commit()  # PostgreSQL takes a SET back with its transaction

    return engine


@contextmanager
def transaction(engine: Engine, *, write: bool = False) -> Iterator[Connection]:
    """Run a transaction, which ends with the context; an exception takes it back.

    On SQLite, one that will write locks the file before it reads, or what it has read might have
    changed by then.
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

            with suppress(DBAPIError):  # some errors have taken it back already
                connection.exec_driver_sql("ROLLBACK")
            raise


def _sqlite_engine(address: SqlAddress, timeout_s: float, *, create: bool) -> Engine:
    """Python's driver begins transactions when it sees fit; here they are begun explicitly."""
    import sqlite3

    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    path = address.path
    assert path is not None
    INPUTS.append(path)
    mode = "ro" if address.read_only else "rwc" if create else "rw"
    file = f"file:{quote(str(path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        if create:  # SQLite would let others read it
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
        "connect_timeout": max(2, math.ceil(timeout_s)),  # libpq takes 1 for 2
        "tcp_user_timeout": math.ceil(timeout_s * 1000),
        "client_encoding": "utf8",
        "application_name": "kgroup",
    }


def _mysql(timeout_s: float) -> dict[str, Any]:
    whole = math.ceil(timeout_s)
    return {
        "connect_timeout": whole,
        "read_timeout": whole + 1,  # the server, which ends statements, is asked first
        "write_timeout": whole + 1,
        "charset": "utf8mb4",
    }


def _limits(backend: str, timeout_s: float) -> tuple[str, ...]:
    if backend == "postgresql":
        limit = math.ceil(timeout_s * 1000)
        # The lock's is shorter, for its error says more.
        return (f"SET statement_timeout = {limit + 500}", f"SET lock_timeout = {limit}")
    return (
        f"SET SESSION innodb_lock_wait_timeout = {math.ceil(timeout_s)}",
        # Without it a server may cut what does not fit, and only warn.
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
    )
