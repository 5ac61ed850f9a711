"""Statements on single rows that a consumer owns, or has owned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgroup.errors import InputError, named_group
from kgroup.source.sql.fencing import FencedError, Partition
from kgroup.source.sql.fit import check_table
from kgroup.source.sql.layout import KEY_ROLES, TableLayout
from kgroup.source.sql.table_facts import read_facts

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table


def check_owned(connection: Connection, layout: TableLayout) -> None:
    """Look whether a table is fit for applications: what it takes for one, updates would mix up.

    Raises:
        InputError: it is not.
    """
    shown = str(connection.engine.url.set(query={}))  # which hides the password
    facts = read_facts(connection, layout, shown)
    where = f"{shown}, table {layout.shown}"
    check_table(facts, layout, connection.dialect, where)
    offset = facts.columns["offset"]
    if layout.generation is not None and not offset.nullable:
        raise InputError(
            f"{where}: expected column {offset.name} to take NULL, for partitions that are claimed "
            "before anything is stored; found NOT NULL"
        )
    collations = {facts.columns[role].collation for role in ("group_id", "topic")}
    inexact = sorted(c for c in collations if c is not None and not c.endswith("_bin"))
    if inexact:
        raise InputError(
            f"{where}: expected columns of ids that compare bytes (as utf8mb4_bin does), found the "
            f"collation {inexact[0]}, which takes some groups for one"
        )


def update_row(
    connection: Connection, table: Table, row: Mapping[str, Any], generation: int | None
) -> bool:
    """Update a row, only if no younger generation has it; tell whether there is such a row."""
    values = {role: value for role, value in row.items() if role not in KEY_ROLES}
    condition = [table.c[role] == row[role] for role in KEY_ROLES]
    if generation is not None:
        condition.append(_allows(table, generation))
    return bool(connection.execute(table.update().where(*condition).values(values)).rowcount)


def guard_rows(
    connection: Connection,
    table: Table,
    group: str,
    partitions: Sequence[Partition],
    generation: int,
) -> tuple[Partition, int | None] | None:
    """Lock the rows by writing what they hold already; give one that may not be stored.

    So nothing is half-stored where one is fenced, even if the application then commits. A
    savepoint would do too, but Python's SQLite driver begins none inside a transaction.

    Returns:
        None, or a partition and the generation that has it, None where it has no row.
    """
    from sqlalchemy import and_, or_

    keys = or_(*(and_(table.c.topic == t, table.c.partition == p) for t, p in partitions))
    statement = (
        table.update()
        .where(table.c.group_id == group, keys, _allows(table, generation))
        .values({table.c.generation: table.c.generation})
    )
    if connection.execute(statement).rowcount == len(partitions):
        return None
    for partition in partitions:
        holder = holder_of(connection, table, group, partition)
        if holder is None or holder > generation:
            return partition, holder
    return None


def holder_of(connection: Connection, table: Table, group: str, partition: Partition) -> int | None:
    """Give the generation that has a partition, and lock its row; None: there is no row.

    Where a row came only just now, that keeps a younger generation out until what follows.
    """
    from sqlalchemy import func, select

    key = dict(zip(KEY_ROLES, (group, *partition), strict=True))
    statement = select(func.coalesce(table.c.generation, 0)).with_for_update()
    found = connection.execute(
        statement.where(*(table.c[role] == value for role, value in key.items()))
    ).scalar()
    return None if found is None else int(found)


def fenced(
    table: str, group: str, partition: Partition, generation: int, holder: int | None
) -> FencedError:
    """Make the error of a consumer that has lost a partition."""
    found = "no row of it: claim it first" if holder is None else f"generation {holder}"
    return FencedError(
        f"{named_group(group)}, topic {partition[0]}, partition {partition[1]}, table {table}: "
        "expected a "
        f"generation up to {generation}, found {found}. This consumer does not own the partition "
        "any more. (If Kafka has forgotten the group and counts from 1 again: stop its consumers "
        "and call forget_generations.)",
        group_id=group,
        topic=partition[0],
    )


def _allows(table: Table, generation: int) -> ColumnElement[bool]:
    from sqlalchemy import func

    allowed: ColumnElement[bool] = func.coalesce(table.c.generation, 0) <= generation
    return allowed
