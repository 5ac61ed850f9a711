"""Statements on many rows, as they are sent."""

from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy import Connection, Select, make_url

from kgroup.source.sql.layout import TableLayout
from kgroup.source.sql.store import select_rows
from kgroup.source.sql.table import sql_table


class Sent:
    """A connection that keeps statements."""

    def __init__(self) -> None:
        self.statements: list[Select[Any]] = []

    def execute(self, statement: Select[Any]) -> Sent:
        self.statements.append(statement)
        return self

    def all(self) -> list[object]:
        return []


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
@pytest.mark.parametrize("lock", [False, True])
def test_rows_that_will_be_written_are_locked_in_one_order(database: str, lock: bool) -> None:
    """So that nobody writes between comparing and writing, and two writers never wait in a ring."""
    dialect = make_url(f"{database}://").get_dialect()()
    sent = Sent()
    names = [f"group-{number:04}" for number in range(1000)]
    table = sql_table(TableLayout())
    assert list(select_rows(cast("Connection", sent), table, names, lock=lock)) == []
    assert len(sent.statements) == 2
    for statement in sent.statements:
        text = str(statement.compile(dialect=dialect))
        assert text.endswith("FOR UPDATE") is lock
        ordered = text.partition("ORDER BY ")[2].replace("`", '"')
        columns = [f't_offset"."{name}"' for name in ("group_id", "topic", "partition")]
        assert all(name in ordered for name in columns) is lock
