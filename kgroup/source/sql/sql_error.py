"""What went wrong in a database, as kgroup's errors: without tracebacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kgroup.errors import BrokerError, InputError, KgroupError, ProblemKind
from kgroup.source.sql.address import SqlAddress

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

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
"""By the extended result code, or the primary one that its name begins with."""

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
"""By SQLSTATE, or what it begins with: the longest counts."""

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
"""Of connections that were not made: these carry no SQLSTATE."""

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
    """Let errors of SQLAlchemy and of drivers leave as kgroup's.

    Raises:
        BrokerError: of the server, or who has it locked.
        InputError: of what is asked for, and is not there or is no such thing.
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
    """Tell whether a transaction failed only because of another one, and may be tried again."""
    return _meaning(error.orig) is _KEY


def _meant(error: DBAPIError, address: SqlAddress, where: str) -> KgroupError:
    kind, expected = _meaning(error.orig)
    if "timed out" in str(error.orig):
        kind, expected = _SILENT
    found = "; ".join(filter(None, map(str.strip, _text(error.orig).splitlines())))
    message = f"{where}: {expected}; found: {found}"
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
    """Give what a driver says; PyMySQL gives a number and a sentence."""
    if isinstance(getattr(error, "args", None), tuple) and len(error.args) == 2:
        return re.sub(r"\[Errno -?\d+\] ", "", f"{error.args[1]} ({error.args[0]})")
    return str(error) or type(error).__name__
