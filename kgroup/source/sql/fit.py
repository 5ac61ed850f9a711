"""Whether a table can hold what shall be written: asked before anything is."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kgroup.errors import InputError
from kgroup.model.offset import OffsetChange
from kgroup.source.sql.layout import KEY_ROLES, TableLayout
from kgroup.source.sql.table import ColumnFacts, TableFacts, key_statement

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect

_POSTGRESQL_KEY = 2600
"""Bytes of group id and topic; PostgreSQL indexes entries of up to 2704 bytes."""

_SHOWN = 60
"""Characters of an id that a message shows."""


def check_table(facts: TableFacts, layout: TableLayout, dialect: Dialect, where: str) -> None:
    """Raise an InputError where the table cannot be written safely."""
    if not facts.has_key:
        key = ", ".join(layout.columns[role] for role in KEY_ROLES)
        raise InputError(
            f"{where}: expected a unique key ({key}), found none: two writers could store two "
            f"offsets of one partition. Add it: {key_statement(layout, dialect)}"
        )
    if facts.engine is not None:
        raise InputError(
            f"{where}: expected a table with transactions, found one of {facts.engine}, which has "
            "none: what is killed would stay half-written. Change it: ALTER TABLE … ENGINE=InnoDB"
        )
    if facts.unfilled:
        raise InputError(
            f"{where}: expected no further column without a default, found "
            f"{', '.join(facts.unfilled)}: kgroup does not know what to write there"
        )
    for role, column in facts.columns.items():
        expected_text = role in ("group_id", "topic", "metadata")
        if expected_text and not column.is_text:
            raise InputError(
                f"{where}: expected column {column.name} to hold texts as they are (TEXT or "
                f"VARCHAR), found {column.kind}"
            )
        if not expected_text and column.most is None:
            raise InputError(
                f"{where}: expected column {column.name} to hold whole numbers (BIGINT), found "
                f"{column.kind}" + (", not epoch milliseconds" if role == "updated_at" else "")
            )


def check_values(
    facts: TableFacts, changes: Mapping[str, Sequence[OffsetChange]], backend: str, where: str
) -> None:
    """Raise an InputError for the first value that its column cannot hold as it is."""
    columns = facts.columns
    for group_id, group_changes in changes.items():
        _check_text(columns["group_id"], "group id", group_id, backend, where, group_id)
        topics = {change.topic for change in group_changes}
        for topic in topics:
            _check_text(columns["topic"], "topic", topic, backend, where, group_id)
            size = len(group_id.encode()) + len(topic.encode())
            if backend == "postgresql" and size > _POSTGRESQL_KEY:
                raise InputError(
                    f"{where}: expected group id and topic of at most {_POSTGRESQL_KEY} bytes "
                    f"together, which PostgreSQL can index; found {size}, of group "
                    f"{_short(group_id)}",
                    group_id=group_id,
                )
        for role, what, number in _numbers(group_changes):
            column = columns.get(role)
            if column is not None and column.most is not None and number > column.most:
                raise InputError(
                    f"{where}: expected a {what} of at most {column.most}, which column "
                    f"{column.name} ({column.kind}) can hold; found {number}, of group "
                    f"{_short(group_id)}. Make the column a BIGINT",
                    group_id=group_id,
                )
        if "metadata" in columns:
            texts = {c.after.metadata for c in group_changes if c.after and c.after.metadata}
            for text in texts:
                _check_text(columns["metadata"], "metadata", text, backend, where, group_id)


def _numbers(changes: Iterable[OffsetChange]) -> Iterator[tuple[str, str, int]]:
    """Give the largest number of each role."""
    written = [change.after for change in changes if change.after is not None]
    yield "partition", "partition", max((change.partition for change in changes), default=0)
    yield "offset", "offset", max((after.committed_offset for after in written), default=0)
    yield "leader_epoch", "leader epoch", max((a.leader_epoch or 0 for a in written), default=0)
    yield "updated_at", "time", max((a.commit_timestamp_ms or 0 for a in written), default=0)


def _check_text(
    column: ColumnFacts, what: str, text: str, backend: str, where: str, group_id: str
) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: expected a {what} of Unicode characters, found half of a surrogate pair in "
            f"{_short(text)}",
            group_id=group_id,
        ) from None
    if backend == "postgresql" and "\0" in text:
        raise InputError(
            f"{where}: expected a {what} without the character NUL, which PostgreSQL cannot hold; "
            f"found {_short(text)}",
            group_id=group_id,
        )
    if (column.characters is not None and len(text) > column.characters) or (
        column.octets is not None and size > column.octets
    ):
        raise InputError(
            f"{where}: expected a {what} of at most {column.characters} characters, which column "
            f"{column.name} can hold; found {len(text)}: {_short(text)}. Make the column larger",
            group_id=group_id,
        )
    if column.charset not in (None, "utf8mb4") and not _is_held(text, column.charset or ""):
        raise InputError(
            f"{where}: expected a {what} that column {column.name} with the character set "
            f"{column.charset} can hold; found {_short(text)}. Change it to utf8mb4",
            group_id=group_id,
        )


def _is_held(text: str, charset: str) -> bool:
    """Tell whether a character set of MySQL's surely has all characters of a text."""
    return text.isascii() or (
        charset in ("utf8", "utf8mb3") and all(ord(character) < 0x10000 for character in text)
    )


def check_collisions(
    connection: Connection,
    facts: TableFacts,
    wanted: Collection[tuple[str, str]],
    found: Collection[tuple[str, str]],
    where: str,
) -> None:
    """Raise an InputError where the database takes two ids for one.

    Args:
        connection: asked about pairs that look so.
        facts: of the table.
        wanted: groups and topics that shall be written.
        found: those that the table has, of groups that it takes for one of these.
        where: the table, for people.
    """
    names = {*wanted, *found}
    _check_distinct(
        connection, facts.columns["group_id"], {(group, "") for group, _ in names}, where
    )
    _check_distinct(
        connection, facts.columns["topic"], {(topic, group) for group, topic in names}, where
    )


def _check_distinct(
    connection: Connection, column: ColumnFacts, names: Collection[tuple[str, str]], where: str
) -> None:
    """Raise an InputError where two ids that share a place, the second text, are one."""
    if column.collation is None:
        return
    fold = _fold(column.collation)
    for (place, folded, a), (other, other_folded, b) in pairwise(
        sorted((place, fold(name), name) for name, place in names)
    ):
        if (place, folded) == (other, other_folded) and _equal(connection, column, a, b):
            raise InputError(
                f"{where}: expected column {column.name} to tell {_short(a)} from {_short(b)}; its "
                f"collation {column.collation} takes them for one. Give the column a collation "
                "that compares bytes (MySQL: utf8mb4_0900_bin, MariaDB: utf8mb4_nopad_bin, SQLite: "
                "BINARY)",
                group_id=place or a,
            )


def _fold(collation: str | None) -> Callable[[str], str]:
    """Give what makes texts equal that a collation may take for one."""
    if collation is None:
        return str
    if collation.endswith("_bin") or collation == "RTRIM":
        return lambda text: text.rstrip(" ")
    if collation == "NOCASE":
        return lambda text: "".join(c.lower() if c.isascii() else c for c in text)
    return _plain


def _plain(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in parts if not unicodedata.combining(c)).rstrip(" ")


def _equal(connection: Connection, column: ColumnFacts, a: str, b: str) -> bool:
    """Ask MySQL whether its collation takes both for one; SQLite's are known."""
    if column.charset is None:
        return True
    text = f"CONVERT(%s USING {column.charset}) COLLATE {column.collation}"
    return bool(connection.exec_driver_sql(f"SELECT {text} = {text}", (a, b)).scalar())


def _short(text: str) -> str:
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
