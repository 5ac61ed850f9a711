"""Names of the table of offsets and its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from kgroup.errors import UsageError

KEY_ROLES = ("group_id", "topic", "partition")
"""Columns of the unique key."""

ROLES = (*KEY_ROLES, "offset", "metadata", "leader_epoch", "updated_at", "generation")
"""All columns; those after `offset` are optional."""

_PART = r'(?:"((?:[^"]|"")+)"|([^".]+))'
_NAME = re.compile(rf"(?:{_PART}\.)?{_PART}")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Names as in the database: case-sensitive, without quotes.

    Attributes:
        table: table with one row for each group, topic and partition.
        schema: schema in PostgreSQL, database in MySQL; None for that of the connection.
        offset: offset of the next record to read, 64 bits; NULL in a row that `claim` inserted for
            a partition without a stored offset.
        metadata: text stored with the offset; None if the table has no such column, like all that
            follow.
        leader_epoch: NULL if unknown.
        updated_at: time of the commit in epoch milliseconds (64 bits), as in Kafka, and independent
            of time zones.
        generation: newest generation of the group that may store; see `OffsetStore.claim`.

    Raises:
        UsageError: two columns have the same name, or a name is invalid.
    """

    table: str = "t_offset"
    schema: str | None = None
    group_id: str = "group_id"
    topic: str = "topic"
    partition: str = "partition"
    offset: str = "offset"
    metadata: str | None = None
    leader_epoch: str | None = None
    updated_at: str | None = None
    generation: str | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            name = getattr(self, entry.name)
            if name is not None and (not name or "\0" in name):
                what = entry.name.replace("_", "-")
                raise UsageError(f"{what}: expected a name in the database, found {name!r}")
        roles: dict[str, str] = {}
        for role, name in self.columns.items():
            other = roles.setdefault(name.casefold(), role)
            if other != role:
                raise UsageError(
                    f"expected columns of different names, found {name!r} for both "
                    f"{other.replace('_', '-')} and {role.replace('_', '-')}"
                )

    @property
    def columns(self) -> dict[str, str]:
        """The names of the table's columns, by role."""
        names = ((role, getattr(self, role)) for role in ROLES)
        return {role: name for role, name in names if name is not None}

    @property
    def shown(self) -> str:
        """The table's name for people."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def renamed(layout: TableLayout, table: str | None, columns: Iterable[str]) -> TableLayout:
    """Return a layout with other names.

    Args:
        layout: layout with the current names.
        table: table name as in `parse_table_name`; None to keep it.
        columns: ``leader-epoch=epoch``: content of a column, and its name.

    Raises:
        UsageError: a name is invalid, or used for two columns.
    """
    names: dict[str, str | None] = {}
    if table is not None:
        names["schema"], names["table"] = parse_table_name(table, "--sql-table")
    for text in columns:
        what, equals, name = text.partition("=")
        role = what.replace("-", "_")
        if not equals or role not in ROLES:
            known = ", ".join(role.replace("_", "-") for role in ROLES)
            raise UsageError(
                f"--sql-column: expected WHAT=NAME with WHAT one of {known}; found {text!r}"
            )
        names[role] = name
    return replace(layout, **names)  # type: ignore[arg-type]


def parse_table_name(text: str, where: str) -> tuple[str | None, str]:
    """Return schema and table of ``table``, ``schema.table`` or ``"a.b"."c"``.

    Args:
        text: the name; a part in double quotes may contain dots, and doubled quotes.
        where: where it was set, to start a message with.

    Raises:
        UsageError: the text has another form.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{where}: expected TABLE or SCHEMA.TABLE, a part with a dot in double quotes; "
            f"found {text!r}"
        )
    quoted_schema, schema, quoted_table, table = match.groups()
    plain = quoted_schema.replace('""', '"') if quoted_schema else schema
    return plain, quoted_table.replace('""', '"') if quoted_table else table
