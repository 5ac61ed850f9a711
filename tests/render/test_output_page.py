"""`docs/output.md` says what the code does, and classes say what they have."""

from __future__ import annotations

from typing import get_type_hints

from kgroup.errors import ExitStatus
from kgroup.meaning import meanings
from kgroup.model.snapshot import Snapshot
from kgroup.render.json_document import SCHEMA_VERSION
from tests.cli.json_schemas import ROWS
from tests.render.field_table import OUTPUT_PAGE, full_name, parts_of, rows_under

PAGE = OUTPUT_PAGE.read_text("utf-8")


def test_classes_say_what_fields_mean_that_they_have() -> None:
    rows = [row for rows in ROWS.values() for row in rows]
    for part in parts_of([*rows, Snapshot]):
        assert meanings(full_name(part)).keys() - {"group"} <= get_type_hints(part).keys(), part


def test_exit_statuses() -> None:
    written = {
        int(status) for status in rows_under("| status | meaning |", PAGE) if status.isdigit()
    }
    assert {status.value for status in ExitStatus} <= written
    assert written - set(ExitStatus) == {129, 130, 141, 143}


def test_schema_version() -> None:
    meaning = rows_under("| field | meaning |", PAGE)["schema_version"]
    assert meaning.startswith(f"{SCHEMA_VERSION};")
