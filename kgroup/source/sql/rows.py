"""Statements on many rows: a few for thousands of them, on each kind of database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.source.sql.layout import KEY_ROLES
from kgroup.source.sql.row_reader import MOST_CHARACTERS

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Delete, FromClause, Insert, Table, Update

_NAMES = 500
"""Group ids in a statement; SQLite before 3.32 takes 999 parameters."""

_ROWS = 10_000
"""Rows in a statement."""

_T = TypeVar("_T")


def batches(items: Iterable[_T], size: int = _NAMES) -> Iterator[list[_T]]:
    """Cut into lists of at most `size`."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def select_rows(
    connection: Connection,
    table: Table,
    group_ids: Iterable[str] | None,
    *,
    texts: Collection[str] = (),
    lock: bool = False,
) -> Iterator[Any]:
    """Give the rows of groups, or of all; columns as in the table.

    The database may take other ids for the same, and so give too many.

    Args:
        connection: in a transaction.
        table: of `sql_table`.
        group_ids: sorted, so that two writers lock in one order.
        texts: roles of columns that hold texts: of these comes one character more than
            `MOST_CHARACTERS` at most, however large they are.
        lock: whether nobody else may change these rows until the transaction ends.
    """
    from sqlalchemy import func, select

    statement = select(
        *(
            func.substr(column, 1, MOST_CHARACTERS + 1).label(role) if role in texts else column
            for role, column in table.c.items()
        )
    )
    if lock:  # SQLite knows no such clause; there the whole file is locked
        statement = statement.order_by(*(table.c[role] for role in KEY_ROLES)).with_for_update()
    if group_ids is None:
        yield from connection.execute(statement).all()
        return
    for batch in batches(group_ids):
        yield from connection.execute(statement.where(table.c.group_id.in_(batch))).all()


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert plainly: a row that somebody else has inserted meanwhile is an IntegrityError."""
    from sqlalchemy import insert, select

    for batch in batches(rows, _ROWS):
        if connection.dialect.name == "postgresql":
            source = _unnested(table, batch)
            names = list(source.c.keys())
            connection.execute(insert(table).from_select(names, select(*source.c)))
        else:
            _execute_many(connection, insert(table).values(_open_values(table, batch[0])), batch)


def update_rows(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, is_plain: bool
) -> None:
    """Update rows that are there and locked, found by their key; all have the same columns.

    MySQL's driver sends many rows at a time of an INSERT only, and a statement for each of any
    other; where the table `is_plain`, ON DUPLICATE KEY UPDATE does the same in an eighth of the
    time. (Behind VALUES the driver leaves a doubled % as it is, so no name may have one.)
    """
    from sqlalchemy import update
    from sqlalchemy.dialects.mysql import insert

    is_plain &= connection.dialect.name != "sqlite" and not any("%" in c.name for c in table.c)
    for batch in batches(rows, _ROWS):
        names = [name for name in batch[0] if name not in KEY_ROLES]
        if connection.dialect.name == "postgresql":
            source = _unnested(table, batch)
            statement = update(table).values({name: source.c[name] for name in names})
            connection.execute(statement.where(*_same_key(table, source)))
        elif is_plain:
            inserting = insert(table).values(_open_values(table, batch[0]))
            changed = {name: inserting.inserted[name] for name in names}
            _execute_many(connection, inserting.on_duplicate_key_update(changed), batch)
        else:
            statement = update(table).values(_open_values(table, names))
            _execute_many(connection, statement.where(*_key(connection, table)), batch)


def delete_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Delete rows, found by their key."""
    from sqlalchemy import delete, tuple_

    if connection.dialect.name not in ("postgresql", "sqlite"):
        columns = tuple_(*(table.c[role] for role in KEY_ROLES))
        for batch in batches(rows):
            keys = [tuple(row[role] for role in KEY_ROLES) for row in batch]
            connection.execute(delete(table).where(columns.in_(keys)))
        return
    for batch in batches(rows, _ROWS):
        if connection.dialect.name == "postgresql":
            source = _unnested(table, [{role: row[role] for role in KEY_ROLES} for row in batch])
            connection.execute(delete(table).where(*_same_key(table, source)))
        else:
            _execute_many(connection, delete(table).where(*_key(connection, table)), batch)


def _open_values(table: Table, names: Iterable[str]) -> dict[ColumnElement[Any], Any]:
    """Give columns their parameters, which have names of their own, as SQLAlchemy wants it."""
    from sqlalchemy import bindparam

    return {table.c[name]: bindparam(f"given_{name}") for name in names}


def _execute_many(
    connection: Connection, statement: Insert | Update | Delete, batch: Iterable[Mapping[str, Any]]
) -> None:
    """Run a statement for each row; SQLAlchemy, given dictionaries, takes longer than SQLite."""
    compiled = statement.compile(dialect=connection.dialect)
    given: list[Any]
    if compiled.positiontup:
        value = itemgetter(*(name.removeprefix("given_") for name in compiled.positiontup))
        given = [value(row) for row in batch]
    else:
        given = [{f"given_{name}": value for name, value in row.items()} for row in batch]
    connection.exec_driver_sql(str(compiled), given)


def _key(connection: Connection, table: Table) -> list[ColumnElement[bool]]:
    """Compare the key exactly: a column of SQLite may have another collation than the key."""
    from sqlalchemy import bindparam, collate

    exact = connection.dialect.name == "sqlite"
    conditions: list[ColumnElement[bool]] = []
    for role in KEY_ROLES:
        column: Any = table.c[role]
        text = exact and role != "partition"
        conditions.append(
            (collate(column, "BINARY") if text else column) == bindparam(f"given_{role}")
        )
    return conditions


def _same_key(table: Table, source: FromClause) -> list[ColumnElement[bool]]:
    return [table.c[role] == source.c[role] for role in KEY_ROLES]


def _unnested(table: Table, batch: Sequence[Mapping[str, Any]]) -> FromClause:
    """Give rows to PostgreSQL as an array for each column: one statement, few parameters."""
    from sqlalchemy import bindparam, column, func
    from sqlalchemy.dialects.postgresql import ARRAY

    names = list(batch[0])
    arrays = [
        bindparam(f"all_{name}", [row[name] for row in batch], ARRAY(table.c[name].type))
        for name in names
    ]
    columns = [column(name, table.c[name].type) for name in names]
    return func.unnest(*arrays).table_valued(*columns).render_derived(name="given")
