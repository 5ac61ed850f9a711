"""`docs/snapshot.md` says what is in the file: every field of every part, each once."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from kgroup.model.snapshot import SNAPSHOT_VERSION, Snapshot
from kgroup.source.base import Capability
from tests.render.field_table import field_meanings, field_names, parts_of, rows_under, tables

PAGE = (Path(__file__).parents[2] / "docs" / "snapshot.md").read_text("utf-8")


@pytest.mark.parametrize("name", tables("fields", PAGE))
def test_fields_are_those_of_the_dataclass(name: str) -> None:
    rows = tables("fields", PAGE)[name]
    assert [row[0] for row in rows] == [f"`{field}`" for field in field_names(name)]
    assert all(len(row) == 2 and row[1] for row in rows)


def test_every_part_has_its_table_here_or_is_explained_where_it_is_declared() -> None:
    parts = {f"{part.__module__}.{part.__qualname__}": part for part in parts_of([Snapshot])}
    here = set(tables("fields", PAGE))
    assert here <= parts.keys()
    assert "kgroup.model.group.Group" in here
    for name in parts.keys() - here:
        if dataclasses.is_dataclass(parts[name]):
            assert field_meanings(parts[name]).keys() == get_type_hints(parts[name]).keys()


def test_capabilities() -> None:
    assert set(rows_under("| capability | what is known |", PAGE)) - {"---"} == set(Capability)


def test_version() -> None:
    assert rows_under("| field | meaning |", PAGE)["schema_version"].startswith(
        f"{SNAPSHOT_VERSION};"
    )


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).is_file()
