"""The table of offsets: as kgroup makes it, and as it is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgroup.errors import AbsentTableError, InputError, UsageError
from kgroup.source.sql.layout import KEY_ROLES, TableLayout

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Table

_LONGEST_NAME = {"postgresql": 63, "mysql": 64}
"""Bytes, or characters, of a name; PostgreSQL would cut a longer one without an error."""

MYSQL_GROUP_CHARACTERS = 512
"""Of a group id in a table that is made there: a key has at most 3072 bytes, four a character."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a column can hold.

    Attributes:
        name: in the database.
        nullable: whether it takes NULL.
        characters: the most that a text may have; None: any.
        octets: likewise the bytes of its UTF-8.
        charset: of MySQL; None elsewhere.
        collation: by which texts are compared, where it is not by their bytes.
        most: the largest whole number; None: the column takes no whole numbers.
        is_text: whether it takes texts as they are.
        kind: its type, for people.
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
    """What the table is like.

    Attributes:
        columns: by role.
        has_key: whether (group_id, topic, partition) is unique.
        engine: of MySQL: who stores it, where that one has no transactions.
        unfilled: other columns that a new row would need a value for.
        is_plain: whether an INSERT of a row's changed columns meets the unique key and nothing else
            that could be in its way: no other unique key, no column that needs a value.
    """

    columns: Mapping[str, ColumnFacts]
    has_key: bool
    engine: str | None = None
    unfilled: tuple[str, ...] = ()
    is_plain: bool = False

    @property
    def texts(self) -> frozenset[str]:
        """Roles of the columns that hold texts."""
        return frozenset(role for role, column in self.columns.items() if column.is_text)


def sql_table(layout: TableLayout) -> Table:
    """Give the table to SQLAlchemy, with the columns under their roles: ``table.c.group_id``.

    Names are always quoted: `partition` and `offset` are words of SQL.
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
    """Raise a UsageError where a name is longer than the database's names are."""
    longest = _LONGEST_NAME.get(backend)
    names = [layout.table, *layout.columns.values()] + ([layout.schema] if layout.schema else [])
    for name in names:
        size = len(name.encode()) if backend == "postgresql" else len(name)
        if longest is not None and size > longest:
            raise UsageError(f"expected a name of at most {longest} characters, found {name!r}")


def create_statement(layout: TableLayout, dialect: Dialect, collation: str | None) -> str:
    """Give the statement that makes the table.

    Args:
        layout: its names.
        dialect: of the database.
        collation: of MySQL: one that compares bytes, best one that takes blanks at the end too.
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
    """Give the statement that adds the unique key."""
    quote = dialect.identifier_preparer.quote_identifier
    name, on = quote(f"{layout.table[:50]}_key"), _full_name(layout, dialect)
    if dialect.name == "sqlite" and layout.schema is not None:  # there the index has the schema
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
    """Choose the collation of a table that is made on MySQL, None elsewhere.

    utf8mb4_bin pads texts with blanks before it compares them; of the others, which do not,
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
    """Make the error of a table that is not there."""
    return AbsentTableError(
        f"{shown}: expected the table {layout.shown}, found none",
        "have a change make it (--create-table), or name another (--sql-table)",
    )
