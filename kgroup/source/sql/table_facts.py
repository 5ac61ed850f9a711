"""What a table that somebody else may have made is like, as the database describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgroup.errors import InputError
from kgroup.source.sql.layout import KEY_ROLES, TableLayout
from kgroup.source.sql.table import ColumnFacts, TableFacts, absent

if TYPE_CHECKING:
    from sqlalchemy import Connection, Inspector

_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "MEDIUMINT": 23, "INTEGER": 31, "INT": 31, "BIGINT": 63}
"""Bits of a type's largest number."""

_TRANSACTIONAL = ("innodb", "rocksdb", "ndbcluster", "tokudb")


def read_facts(connection: Connection, layout: TableLayout, shown: str) -> TableFacts:
    """Look at the table.

    Args:
        connection: of any kind of database.
        layout: the names.
        shown: where the database is, for people.

    Raises:
        InputError: there is no such table, or it lacks a column.
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
        found = ", ".join(str(column["name"]) for column in described)
        raise InputError(
            f"{shown}, table {layout.shown}: expected a column {' and '.join(missing)}; it has "
            f"{found}. Name its columns in the profile, or add what is missing"
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
        # SQLite has 64 bits, whatever the type is called.
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
    """Give what MySQL's texts hold by column, None elsewhere: SQLAlchemy does not tell defaults."""
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
    """Give names and columns of unique keys that hold for whole columns of all rows."""
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
            if options.get("mysql_length"):  # only the beginnings of texts
                keys.pop()
    return keys


def _sqlite_collations(
    connection: Connection, layout: TableLayout, keys: Sequence[str]
) -> Mapping[str, str]:
    """Give by column what SQLite's key compares by, where it is not bytes."""
    if connection.dialect.name != "sqlite" or not keys:
        return {}
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema = "" if layout.schema is None else f"{quote(layout.schema)}."
    found: dict[str, str] = {}
    for _, index, unique, *_ in connection.exec_driver_sql(
        f"PRAGMA {schema}index_list({quote(layout.table)})"
    ):
        rows = connection.exec_driver_sql(f"PRAGMA {schema}index_xinfo({quote(index)})").all()
        names = [name for _, _, name, _, _, is_key in rows if is_key and name is not None]
        if unique and {_name(name) for name in names} == {
            _name(layout.columns[role]) for role in KEY_ROLES
        }:
            found |= {_name(n): c for _, _, n, _, c, is_key in rows if is_key and c != "BINARY"}
    return found


def _sqlite_rowid(inspector: Inspector, layout: TableLayout, dialect: str) -> str | None:
    """Give the column that SQLite numbers by itself: an INTEGER that alone is the primary key."""
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
