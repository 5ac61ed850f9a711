"""`docs/output.md` says what the code does: every field, kind and exit status."""

from __future__ import annotations

import pytest

from kgroup.errors import ExitStatus
from kgroup.render.document import SCHEMA_VERSION
from tests.render.field_table import field_names, rows_under, tables


@pytest.mark.parametrize("name", tables("fields"))
def test_fields_are_those_of_the_dataclass(name: str) -> None:
    rows = tables("fields")[name]
    assert [row[0] for row in rows] == [f"`{field}`" for field in field_names(name)]
    assert all(len(row) == 2 and row[1] for row in rows)


def test_exit_statuses() -> None:
    written = {int(status) for status in rows_under("| status | meaning |") if status.isdigit()}
    assert {status.value for status in ExitStatus} <= written
    assert written - set(ExitStatus) == {129, 130, 141, 143}


def test_schema_version() -> None:
    assert rows_under("| field | meaning |")["schema_version"].startswith(f"{SCHEMA_VERSION};")
