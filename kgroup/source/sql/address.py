"""Database and table: SQLAlchemy URLs, whose secrets are never displayed, and table names.

They come from a flag, the environment, or a profile:

    [profiles.prod.sql]
    url-file = "prod-offsets.url"          # relative to the configuration file; or url, or url-env
    table = "app.t_offset"

    [profiles.prod.sql.columns]            # only optional columns, and those with other names
    offset = "next_offset"
    generation = "generation"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup.errors import AbsentTableError, UsageError, install_advice
from kgroup.redaction import keep_named_secrets, keep_secret, keep_userinfo
from kgroup.source.config.client_setting import Secret
from kgroup.source.config.user_file import read_user_file, user_path
from kgroup.source.sql.layout import ROLES, TableLayout, parse_table_name

if TYPE_CHECKING:
    from sqlalchemy import URL


INSTALL = install_advice("sql")

_DRIVERS = {
    "sqlite": ("sqlite", "pysqlite"),
    "postgresql": ("postgresql", "psycopg"),
    "postgres": ("postgresql", "psycopg"),
    "mysql": ("mysql", "pymysql"),
    "mariadb": ("mysql", "pymysql"),
}
"""SQLAlchemy dialect and driver, by the scheme of a URL."""

_OPEN = re.compile(
    "application_name|charset|client_encoding|connect_timeout|gssencmode|host|hostaddr|keepalives|"
    "load_balance_hosts|mode|port|ssl_ca|sslmode|sslrootcert|target_session_attrs|"
    "tcp_user_timeout|unix_socket",
    re.IGNORECASE,
)
"""Parameters in a URL's query that may be displayed; the meaning of others is unknown."""

_EXAMPLES = "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…, sqlite:///FILE or a file's path"


@dataclass(frozen=True, slots=True)
class SqlAddress:
    """Address of a database.

    Attributes:
        url: URL, including the driver.
        backend: ``sqlite``, ``postgresql`` or ``mysql`` (also for MariaDB).
        shown: the address for people, without secrets.
        path: file of an SQLite database; None for others.
        read_only: whether an SQLite URL requests read-only access.
        has_secrets: whether the URL must not be displayed.
    """

    url: URL = field(repr=False)
    backend: str
    shown: str
    path: Path | None = None
    read_only: bool = False
    has_secrets: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether it is an SQLite file that does not exist."""
        return self.path is not None and not self.path.exists()


def sql_url(text: str | None, environment: Mapping[str, str]) -> Secret | None:
    """Return the URL in a flag or the environment: ``URL``, ``PATH`` or ``@FILE``.

    Args:
        text: value of the flag; None for the value of `KGROUP_SQL_URL`, if set.
        environment: environment variables of the process.

    Raises:
        InputError: the file cannot be read.
        UsageError: the file does not contain exactly one line.
    """
    written = text if text is not None else environment.get("KGROUP_SQL_URL") or None
    if written is None:
        return None
    where = "--sql" if text is not None else "$KGROUP_SQL_URL"
    if written.startswith("@"):
        return read_url_file(user_path(written[1:], where), where)
    return Secret(written)


def read_url_file(path: Path, where: str) -> Secret:
    """Return the URL in a file that contains nothing else; errors as for `sql_url`."""
    data = read_user_file(path, f"{where}: {path}")
    try:
        lines = data.decode().split()
    except UnicodeDecodeError:
        raise UsageError(
            f"{where}: {path}: expected a URL, found bytes that are no UTF-8"
        ) from None
    if len(lines) != 1:
        raise UsageError(f"{where}: {path}: expected one line with a URL, found {len(lines)} words")
    return Secret(lines[0])


def parse_address(text: str) -> SqlAddress:
    """Parse a URL or the path of an SQLite file. Errors never display a text that is neither.

    Raises:
        UsageError: the text is neither, the database is not supported, or SQLAlchemy is missing.
    """
    text = "".join(text)  # joining returns the text of a Secret
    keep_userinfo(text)
    keep_named_secrets(text)
    try:
        text.encode()
    except UnicodeEncodeError:  # its message contains the whole URL
        raise UsageError("the database's URL: expected UTF-8, found other bytes") from None
    name = re.match(r"([A-Za-z0-9_]+)(?:\+([A-Za-z0-9_]+))?:", text)
    if "://" not in text:
        if (
            re.search(r"(?i)(pass(word|wd)?|pwd)\s*=", text)
            or (name and name[1] in _DRIVERS)
            or ("@" in text and not text.startswith(("/", ".", "~")))
        ):
            # Opening USER:PASSWORD@HOST as a file would create one named after the password.
            raise UsageError(
                f"the database's URL: expected {_EXAMPLES}; found none of them (a file with @ in "
                "its name is written ./FILE)"
            )
        return _sqlite_address(text, {})
    known = ", ".join(_DRIVERS)
    if name is None or name[1] not in _DRIVERS:
        raise UsageError(f"the database's URL: expected it to begin with one of {known}")
    backend, driver = _DRIVERS[name[1]]
    if name[2] not in (None, driver):
        raise UsageError(
            f"the database's URL: expected {name[1]}:// or {name[1]}+{driver}://, "
            f"found {name[1]}+{name[2]}://: kgroup uses no other driver"
        )
    url = _parsed(text)
    if backend == "sqlite":
        if url.host or url.username or url.port:
            raise UsageError(
                "the database's URL: expected sqlite:///FILE, or sqlite:////FILE for a path from "
                "the root on; found a host"
            )
        return _sqlite_address(url.database or "", {key: str(url.query[key]) for key in url.query})
    if "@" in (url.host or ""):
        raise UsageError(
            "the database's URL: expected one @, between the password and the host; "
            "write one in the password as %40"
        )
    if not url.database:
        raise UsageError(f"the database's URL: expected {_EXAMPLES}; found no name of a database")
    return SqlAddress(
        url=url.set(drivername=f"{backend}+{driver}"),
        backend=backend,
        shown=_shown(url),
        has_secrets=_keep_secrets(url),
    )


def _parsed(text: str) -> URL:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise UsageError(f"SQL databases need SQLAlchemy, which is missing; {INSTALL}") from None
    try:
        return make_url(text)
    except (ArgumentError, ValueError):  # their messages contain parts of the URL
        raise UsageError(
            f"the database's URL: expected {_EXAMPLES}; found something else. Write characters of "
            "the password that a URL has another use for as %40 (@), %3A (:), %2F (/), %25 (%)"
        ) from None


def _sqlite_address(database: str, query: Mapping[str, str]) -> SqlAddress:
    if database in ("", ":memory:") or database.startswith("file:"):
        raise UsageError(
            "the database's URL: expected a file of SQLite, sqlite:///FILE or its path; found "
            + (repr(database) if database else "none")
        )
    mode = query.get("mode", "rw")
    if set(query) - {"mode"} or mode not in ("ro", "rw"):
        raise UsageError(
            "the database's URL: expected nothing behind the file of SQLite, ?mode=ro or ?mode=rw"
        )
    path = user_path(database, "the database's URL")
    url = _parsed("sqlite+pysqlite://").set(database=str(path))
    return SqlAddress(url, "sqlite", f"sqlite:///{path}", path, read_only=mode == "ro")


def _shown(url: URL) -> str:
    shown = url.set(query={}).render_as_string(hide_password=True)
    query = [
        f"{key}={value if _OPEN.fullmatch(key) else '***'}" for key, value in url.query.items()
    ]
    return f"{shown}?{'&'.join(query)}" if query else shown


def _keep_secrets(url: URL) -> bool:
    """Register the secrets of a URL for redaction; return whether there are any."""
    secrets: list[str] = []
    if url.password:
        secrets.append(str(url.password))
    for key, value in url.query.items():
        if not _OPEN.fullmatch(key):
            secrets += [value] if isinstance(value, str) else value
    for secret in secrets:
        keep_secret(secret)
    return any(secrets)


def check_file(address: SqlAddress) -> None:
    """Raise an InputError if an SQLite file does not exist, because opening it would create it."""
    if address.is_missing:
        raise AbsentTableError(
            f"{address.shown}: expected a database, found no such file",
            "correct the path, or have a change make it, with its table (--create-table)",
            path=str(address.path),
        )


_URLS = ("url", "url-file", "url-env")
_KEYS = (*_URLS, "table", "columns")
_COLUMNS = tuple(role.replace("_", "-") for role in ROLES)


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """Where offsets are stored.

    Attributes:
        url: URL of the database, or path of an SQLite file; None if not set.
        layout: names of table and columns.
    """

    url: Secret | None = field(default=None, repr=False)
    layout: TableLayout = field(default_factory=TableLayout)


def sql_settings(
    flag: str | None, environment: Mapping[str, str], profile: SqlSettings | None = None
) -> SqlSettings:
    """Return the settings: URL by precedence flag, environment, profile; names from the profile.

    Args:
        flag: value of `--sql`: a URL, the path of an SQLite file, or ``@FILE``.
        environment: environment variables of the process; `KGROUP_SQL_URL` has the same forms.
        profile: result of `parse_sql_profile`.

    Raises:
        InputError: a file with a URL cannot be read.
        UsageError: the file contains something else.
    """
    settings = profile or SqlSettings()
    return SqlSettings(sql_url(flag, environment) or settings.url, settings.layout)


def parse_sql_profile(
    table: Mapping[str, Any], origin: str, folder: Path, environment: Mapping[str, str]
) -> SqlSettings:
    """Parse the table `sql` of a profile.

    Args:
        table: contents of the table.
        origin: start of messages: ``profile 'prod' of FILE``.
        folder: folder of the configuration file, to which `url-file` is relative.
        environment: environment variables of the process, for `url-env`.

    Raises:
        InputError: the file with the URL cannot be read.
        UsageError: a key is unknown, or a value is invalid; the message contains no secrets.
    """
    origin = f"{origin}: sql"
    _known(table, _KEYS, origin)
    columns = table.get("columns", {})
    if not isinstance(columns, dict):
        raise UsageError(f"{origin}.columns: expected a table")
    _known(columns, _COLUMNS, f"{origin}.columns")
    names = {
        key.replace("-", "_"): _text(value, f"{origin}.columns.{key}")
        for key, value in columns.items()
    }
    schema, name = None, TableLayout().table
    if "table" in table:
        where = f"{origin}.table"
        schema, name = parse_table_name(_text(table["table"], where), where)
    try:
        layout = TableLayout(name, schema, **names)
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    return SqlSettings(_url(table, origin, folder, environment), layout)


def _url(
    table: Mapping[str, Any], origin: str, folder: Path, environment: Mapping[str, str]
) -> Secret | None:
    given = [key for key in _URLS if key in table]
    if len(given) > 1:
        raise UsageError(
            f"{origin}: expected one of {', '.join(_URLS)}; found {' and '.join(given)}"
        )
    if not given:
        return None
    where = f"{origin}.{given[0]}"
    text = _text(table[given[0]], where)
    if given[0] == "url":
        return Secret(text)
    if given[0] == "url-file":
        return read_url_file(folder / user_path(text, where), where)
    url = environment.get(text)
    if not url:
        raise UsageError(f"{where}: expected a URL in the variable {text}, found it unset or empty")
    return Secret(url)


def _known(table: Mapping[str, Any], keys: tuple[str, ...], origin: str) -> None:
    for key in table:
        if key not in keys:
            raise UsageError(f"{origin}: expected {', '.join(keys)}; found {key!r}")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: expected a text, found {'none' if value == '' else 'no text'}")
    return value
