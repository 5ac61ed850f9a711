"""Which table, in which database: from a flag, the environment and a profile.

[profiles.prod.sql]
url-file = "prod-offsets.url"          # beside the configuration file; or url, or url-env
table = "app.t_offset"

[profiles.prod.sql.columns]            # only those with other names, or that need not be there
offset = "next_offset"
generation = "generation"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import Secret
from kgroup.source.config.user_file import user_path
from kgroup.source.sql.address import read_url_file, sql_url
from kgroup.source.sql.layout import ROLES, TableLayout, parse_table_name

_URLS = ("url", "url-file", "url-env")
_KEYS = (*_URLS, "table", "columns")
_COLUMNS = tuple(role.replace("_", "-") for role in ROLES)


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """Where offsets are kept.

    Attributes:
        url: of the database, or the path of an SQLite file; None: nobody says.
        layout: names of table and columns.
    """

    url: Secret | None = field(default=None, repr=False)
    layout: TableLayout = field(default_factory=TableLayout)


def sql_settings(
    flag: str | None, environment: Mapping[str, str], profile: SqlSettings | None = None
) -> SqlSettings:
    """Choose the URL: flag > environment > profile; names are the profile's.

    Args:
        flag: what `--sql` says: a URL, the path of an SQLite file, or ``@FILE``.
        environment: of the process; `KGROUP_SQL_URL` says the same.
        profile: of `parse_sql_profile`.

    Raises:
        InputError: a file with a URL cannot be read.
        UsageError: it holds something else.
    """
    settings = profile or SqlSettings()
    return SqlSettings(sql_url(flag, environment) or settings.url, settings.layout)


def parse_sql_profile(
    table: Mapping[str, Any], origin: str, folder: Path, environment: Mapping[str, str]
) -> SqlSettings:
    """Read the table `sql` of a profile.

    Args:
        table: what it holds.
        origin: whose it is, to begin a message with: ``profile 'prod' of FILE``.
        folder: of the configuration file; `url-file` lies there.
        environment: of the process, for `url-env`.

    Raises:
        InputError: the file with the URL cannot be read.
        UsageError: a key that is not known, or a value that is none; secrets are not shown.
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
