"""The table of offsets: how kgroup creates it, what an existing one is like, what fits into it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kgroup.errors import AbsentTableError, InputError, UsageError
from kgroup.model.offset import OffsetChange
from kgroup.source.sql.layout import KEY_ROLES, TableLayout

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Inspector, Table


_LONGEST_NAME = {"postgresql": 63, "mysql": 64}
"""Maximum length of a name in bytes (PostgreSQL, which truncates silently) or characters
(MySQL).
"""

MYSQL_GROUP_CHARACTERS = 512
"""Maximum characters of a group id in a new table: a key has at most 3072 bytes, four per
character.
"""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a column can hold.

    Attributes:
        name: name in the database.
        nullable: whether it accepts NULL.
        characters: maximum characters of a text; None if unlimited.
        octets: maximum UTF-8 bytes of a text; None if unlimited.
        charset: character set in MySQL; None for others.
        collation: collation of texts, None if they are compared by bytes.
        most: largest whole number; None if the column accepts no whole numbers.
        is_text: whether it stores texts unchanged.
        kind: type, for people.
    """

    name: str
    nullable: bool
    characters: int | None = None
    octets: int | None = None
    charset: str | None = None
    collation: str | None = None
    most: int | None = None
    is_text: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Properties of the table.

    Attributes:
        columns: columns by role.
        has_key: whether (group_id, topic, partition) is unique.
        engine: MySQL storage engine if it has no transactions, otherwise None.
        unfilled: other columns that require a value in a new row.
        is_plain: whether an INSERT of a row's changed columns can conflict only with the unique
            key: no other unique key, no column that requires a value.
    """

    columns: Mapping[str, ColumnFacts]
    has_key: bool
    engine: str | None = None
    unfilled: tuple[str, ...] = ()
    is_plain: bool = False

    @property
    def texts(self) -> frozenset[str]:
        """The roles of the text columns."""
        return frozenset(role for role, column in self.columns.items() if column.is_text)


def sql_table(layout: TableLayout) -> Table:
    """Return the SQLAlchemy table, with columns by role: ``table.c.group_id``.

    Names are always quoted, because `partition` and `offset` are SQL keywords.
    """
    from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text
    from sqlalchemy.sql.elements import quoted_name

    types: dict[str, Any] = {
        "group_id": Text, "topic": Text, "partition": Integer, "offset": BigInteger,
        "metadata": Text, "leader_epoch": Integer, "updated_at": BigInteger,
        "generation": BigInteger,
    }  # fmt: skip
    schema = None if layout.schema is None else quoted_name(layout.schema, True)
    return Table(
        quoted_name(layout.table, True),
        MetaData(),
        *(
            Column(quoted_name(name, True), types[role], key=role)
            for role, name in layout.columns.items()
        ),
        schema=schema,
    )


def check_names(layout: TableLayout, backend: str) -> None:
    """Raise a UsageError if a name is longer than the database allows."""
    longest = _LONGEST_NAME.get(backend)
    names = [layout.table, *layout.columns.values()] + ([layout.schema] if layout.schema else [])
    for name in names:
        size = len(name.encode()) if backend == "postgresql" else len(name)
        if longest is not None and size > longest:
            raise UsageError(f"expected a name of at most {longest} characters, found {name!r}")


def create_statement(layout: TableLayout, dialect: Dialect, collation: str | None) -> str:
    """Return the statement that creates the table.

    Args:
        layout: names of table and columns.
        dialect: dialect of the database.
        collation: MySQL collation that compares bytes, if possible including trailing blanks.
    """
    quote = dialect.identifier_preparer.quote_identifier
    texts = {"group_id": "TEXT", "topic": "TEXT", "metadata": "TEXT"}
    if dialect.name == "postgresql":
        texts = {role: f'{kind} COLLATE "C"' for role, kind in texts.items()}
    elif dialect.name != "sqlite":
        exact = f"CHARACTER SET utf8mb4 COLLATE {collation}"
        texts = {
            "group_id": f"VARCHAR({MYSQL_GROUP_CHARACTERS}) {exact}",
            "topic": f"VARCHAR(249) {exact}",
            "metadata": f"TEXT {exact}",
        }
    kinds = {
        **texts, "partition": "INTEGER", "offset": "BIGINT", "leader_epoch": "INTEGER",
        "updated_at": "BIGINT", "generation": "BIGINT NOT NULL DEFAULT 0",
    }  # fmt: skip
    required = {*KEY_ROLES} if layout.generation else {*KEY_ROLES, "offset"}
    lines = [
        f"{quote(name)} {kinds[role]}{' NOT NULL' if role in required else ''}"
        for role, name in layout.columns.items()
    ]
    lines.append(f"PRIMARY KEY ({_key(layout, dialect)})")
    tail = " ENGINE=InnoDB" if dialect.name not in ("sqlite", "postgresql") else ""
    return f"CREATE TABLE {_full_name(layout, dialect)} (\n  " + ",\n  ".join(lines) + f"\n){tail}"


def key_statement(layout: TableLayout, dialect: Dialect) -> str:
    """Return the statement that adds the unique key."""
    quote = dialect.identifier_preparer.quote_identifier
    name, on = quote(f"{layout.table[:50]}_key"), _full_name(layout, dialect)
    if dialect.name == "sqlite" and layout.schema is not None:  # its index has the schema
        name, on = f"{quote(layout.schema)}.{name}", quote(layout.table)
    return f"CREATE UNIQUE INDEX {name} ON {on} ({_key(layout, dialect)})"


def _key(layout: TableLayout, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote_identifier
    return ", ".join(quote(layout.columns[role]) for role in KEY_ROLES)


def _full_name(layout: TableLayout, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote_identifier
    schema = "" if layout.schema is None else f"{quote(layout.schema)}."
    return schema + quote(layout.table)


def exact_collation(connection: Connection) -> str | None:
    """Return the collation for a new table on MySQL, None for others.

    utf8mb4_bin pads texts with blanks before it compares them. Of the collations without padding,
    MariaDB (10.2) and MySQL (8.0) have one each.
    """
    if connection.dialect.name in ("sqlite", "postgresql"):
        return None
    known = connection.exec_driver_sql(
        "SELECT collation_name FROM information_schema.collations "
        "WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')"
    ).scalars()
    return next(iter(sorted(known)), "utf8mb4_bin")


def absent(layout: TableLayout, shown: str) -> InputError:
    """Return the error of a missing table."""
    return AbsentTableError(
        f"{shown}: expected the table {layout.shown}, found none",
        "have a change make it (--create-table), or name another (--sql-table)",
    )


_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "MEDIUMINT": 23, "INTEGER": 31, "INT": 31, "BIGINT": 63}
"""Bits of the largest number, by type."""

_TRANSACTIONAL = ("innodb", "rocksdb", "ndbcluster", "tokudb")


def read_facts(connection: Connection, layout: TableLayout, shown: str) -> TableFacts:
    """Return the properties of the table.

    Args:
        connection: connection to any supported database.
        layout: names of table and columns.
        shown: the database, for people.

    Raises:
        InputError: the table does not exist, or lacks a column.
    """
    from sqlalchemy import inspect
    from sqlalchemy.exc import NoSuchTableError

    inspector = inspect(connection)
    try:
        described = inspector.get_columns(layout.table, schema=layout.schema)
    except NoSuchTableError:
        raise absent(layout, shown) from None
    if not described:
        raise absent(layout, shown)
    any_case = connection.dialect.name != "postgresql"
    by_name = {_name(str(column["name"]), any_case): column for column in described}
    missing = [name for name in layout.columns.values() if _name(name, any_case) not in by_name]
    if missing:
        names = ", ".join(str(column["name"]) for column in described)
        raise InputError(
            f"{shown}, table {layout.shown}: expected a column {' and '.join(missing)}; it has "
            f"{names}. Name its columns in the profile, or add what is missing"
        )
    texts, engine = _mysql_texts(connection, layout), None
    if texts is not None:
        engine = _mysql_engine(connection, layout)
    unique = _unique_keys(inspector, layout)
    key = frozenset(_name(layout.columns[role], any_case) for role in KEY_ROLES)
    found_key = [name for name, columns in unique if {_name(c, any_case) for c in columns} == key]
    collations = _sqlite_collations(connection, layout, found_key)
    columns = {}
    for role, name in layout.columns.items():
        column = by_name[_name(name, any_case)]
        own = None if texts is None else texts.get(str(column["name"]))
        columns[role] = _column(column, connection.dialect.name, own, collations.get(_name(name)))
    used = {_name(name, any_case) for name in layout.columns.values()}
    rest = [column for name, column in by_name.items() if name not in used]
    rowid = _sqlite_rowid(inspector, layout, connection.dialect.name)
    unfilled = tuple(str(c["name"]) for c in rest if _needs_value(c) and c["name"] != rowid)
    generation = by_name.get(_name(layout.generation or "", any_case))
    primary = inspector.get_pk_constraint(layout.table, schema=layout.schema)
    others = inspector.get_indexes(layout.table, schema=layout.schema)
    unique_count = bool(primary["constrained_columns"]) + sum(bool(i["unique"]) for i in others)
    is_plain = unique_count == 1 and not (generation and _needs_value(generation))
    return TableFacts(columns, bool(found_key), engine, unfilled, is_plain and not unfilled)


def _name(name: str, any_case: bool = True) -> str:
    return name.casefold() if any_case else name


def _column(
    column: Mapping[str, Any], dialect: str, mysql: Mapping[str, Any] | None, collation: str | None
) -> ColumnFacts:
    from sqlalchemy import CHAR, Numeric, String

    kind = column["type"]
    written = str(kind.compile()) if dialect == "sqlite" else type(kind).__name__
    word = type(kind).__name__.upper()
    most = None
    if word in _INTEGERS:
        # SQLite integers have 64 bits, whatever the type name.
        bits = 63 if dialect == "sqlite" else _INTEGERS[word]
        most = 2 ** (bits + bool(getattr(kind, "unsigned", False))) - 1
    elif isinstance(kind, Numeric) and dialect != "sqlite" and kind.asdecimal:
        most = 10 ** ((kind.precision or 1000) - (kind.scale or 0)) - 1
    is_text = isinstance(kind, String) and not isinstance(kind, CHAR) and word != "CITEXT"
    length = kind.length if isinstance(kind, String) and dialect != "sqlite" else None
    facts = dict(mysql or {})
    return ColumnFacts(
        name=str(column["name"]),
        nullable=bool(column["nullable"]),
        characters=facts.get("characters", length),
        octets=facts.get("octets"),
        charset=facts.get("charset"),
        collation=facts.get("collation", collation),
        most=None if most is None else min(most, 2**63 - 1),
        is_text=is_text,
        kind=written,
    )


def _mysql_texts(
    connection: Connection, layout: TableLayout
) -> Mapping[str, Mapping[str, Any]] | None:
    """Return limits of MySQL's text columns, None for others; SQLAlchemy omits default values."""
    if connection.dialect.name in ("sqlite", "postgresql"):
        return None
    rows = connection.exec_driver_sql(
        "SELECT column_name, character_maximum_length, character_octet_length, "
        "character_set_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s "
        "AND character_set_name IS NOT NULL",
        (layout.schema, layout.table),
    )
    return {
        str(name): {
            "characters": characters,
            "octets": octets,
            "charset": charset,
            "collation": None if "nopad_bin" in collation or "0900_bin" in collation else collation,
        }
        for name, characters, octets, charset, collation in rows
    }


def _mysql_engine(connection: Connection, layout: TableLayout) -> str | None:
    engine = connection.exec_driver_sql(
        "SELECT engine FROM information_schema.tables "
        "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s",
        (layout.schema, layout.table),
    ).scalar()
    return None if engine is None or engine.lower() in _TRANSACTIONAL else str(engine)


def _unique_keys(inspector: Inspector, layout: TableLayout) -> list[tuple[str, Sequence[str]]]:
    """Return names and columns of unique keys that apply to whole columns of all rows."""
    table, schema = layout.table, layout.schema
    primary = inspector.get_pk_constraint(table, schema=schema)
    keys: list[tuple[str, Sequence[str]]] = [("", primary["constrained_columns"])]
    for constraint in inspector.get_unique_constraints(table, schema=schema):
        keys.append((str(constraint["name"]), constraint["column_names"]))
    for index in inspector.get_indexes(table, schema=schema):
        options = index.get("dialect_options", {})
        partial = any(options.get(f"{name}_where") is not None for name in ("postgresql", "sqlite"))
        columns = [name for name in index["column_names"] if name is not None]
        if index["unique"] and not partial and len(columns) == len(index["column_names"]):
            keys.append((str(index["name"]), columns))
            if options.get("mysql_length"):  # an index of text prefixes
                keys.pop()
    return keys


def _sqlite_collations(
    connection: Connection, layout: TableLayout, keys: Sequence[str]
) -> Mapping[str, str]:
    """Return the collations of SQLite's key by column, except BINARY."""
    if connection.dialect.name != "sqlite" or not keys:
        return {}
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema = "" if layout.schema is None else f"{quote(layout.schema)}."
    collations: dict[str, str] = {}
    for _, index, unique, *_ in connection.exec_driver_sql(
        f"PRAGMA {schema}index_list({quote(layout.table)})"
    ):
        rows = connection.exec_driver_sql(f"PRAGMA {schema}index_xinfo({quote(index)})").all()
        names = [name for _, _, name, _, _, is_key in rows if is_key and name is not None]
        if unique and {_name(name) for name in names} == {
            _name(layout.columns[role]) for role in KEY_ROLES
        }:
            collations |= {
                _name(n): c for _, _, n, _, c, is_key in rows if is_key and c != "BINARY"
            }
    return collations


def _sqlite_rowid(inspector: Inspector, layout: TableLayout, dialect: str) -> str | None:
    """Return the column that SQLite fills automatically: the INTEGER primary key, if any."""
    columns = inspector.get_pk_constraint(layout.table, schema=layout.schema)["constrained_columns"]
    return columns[0] if dialect == "sqlite" and len(columns) == 1 else None


def _needs_value(column: Mapping[str, Any]) -> bool:
    filled = any(column.get(key) for key in ("computed", "identity"))
    return (
        not column["nullable"]
        and column.get("default") is None
        and column.get("autoincrement") is not True
        and not filled
    )


_POSTGRESQL_KEY = 2600
"""Maximum bytes of group id and topic; PostgreSQL indexes entries of up to 2704 bytes."""

_SHOWN = 60
"""Maximum characters of an id that a message shows."""


def check_table(facts: TableFacts, layout: TableLayout, dialect: Dialect, where: str) -> None:
    """Raise an InputError if the table cannot be written safely."""
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
    """Raise an InputError for the first value that its column cannot store unchanged."""
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
    """Yield the largest number of each role."""
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
    """Return whether a MySQL character set certainly has all characters of a text."""
    return text.isascii() or (
        charset in ("utf8", "utf8mb3") and all(ord(character) < 0x10000 for character in text)
    )


def check_collisions(
    connection: Connection,
    facts: TableFacts,
    wanted: Collection[tuple[str, str]],
    existing: Collection[tuple[str, str]],
    where: str,
) -> None:
    """Raise an InputError if the database considers two ids equal.

    Args:
        connection: connection for comparing candidates.
        facts: properties of the table.
        wanted: groups and topics to write.
        existing: groups and topics in the table, of groups that it considers equal to one of these.
        where: the table, for people.
    """
    names = {*wanted, *existing}
    _check_distinct(
        connection, facts.columns["group_id"], {(group, "") for group, _ in names}, where
    )
    _check_distinct(
        connection, facts.columns["topic"], {(topic, group) for group, topic in names}, where
    )


def _check_distinct(
    connection: Connection, column: ColumnFacts, names: Collection[tuple[str, str]], where: str
) -> None:
    """Raise an InputError if two ids with the same place (the second text) are considered equal."""
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
    """Return a function that maps texts that a collation may consider equal to the same value."""
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
    """Return whether the collation considers two texts equal; only MySQL must be queried."""
    if column.charset is None:
        return True
    text = f"CONVERT(%s USING {column.charset}) COLLATE {column.collation}"
    return bool(connection.exec_driver_sql(f"SELECT {text} = {text}", (a, b)).scalar())


def _short(text: str) -> str:
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
