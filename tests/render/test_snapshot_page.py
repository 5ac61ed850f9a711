"""`docs/snapshot.md` says what is in the file: every field of every part, each once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgroup.model.snapshot import SNAPSHOT_VERSION, Snapshot
from kgroup.source.base import Capability
from tests.render.field_table import field_names, parts_of, rows_under, tables

PAGE = (Path(__file__).parents[2] / "docs" / "snapshot.md").read_text("utf-8")


@pytest.mark.parametrize("name", tables("fields", PAGE))
def test_fields_are_those_of_the_dataclass(name: str) -> None:
    rows = tables("fields", PAGE)[name]
    assert [row[0] for row in rows] == [f"`{field}`" for field in field_names(name)]
    assert all(len(row) == 2 and row[1] for row in rows)


def test_every_part_has_its_table_here_or_among_the_outputs() -> None:
    needed = {f"{part.__module__}.{part.__qualname__}" for part in parts_of(Snapshot)}
    here, there = set(tables("fields", PAGE)), set(tables("fields"))
    assert needed == here | (needed & there)
    assert not here & there
    assert {"kgroup.model.group.Group", "kgroup.model.group.Member"} <= needed


def test_capabilities() -> None:
    assert set(rows_under("| capability | what is known |", PAGE)) - {"---"} == set(Capability)


def test_version() -> None:
    assert rows_under("| field | meaning |", PAGE)["schema_version"].startswith(
        f"{SNAPSHOT_VERSION};"
    )


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).is_file()
