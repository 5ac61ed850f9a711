"""`docs/snapshot.md` says what is in the file: every field of every part, each once."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from kgroup.model.problem import Problem
from kgroup.model.snapshot import SNAPSHOT_VERSION, Snapshot
from kgroup.operation.describe import GroupDescription
from kgroup.source.base import Capability
from tests.render.field_table import MEANINGS, field_meanings, load, parts_of, rows_under

PAGE = (Path(__file__).parents[2] / "docs" / "snapshot.md").read_text("utf-8")


def test_every_part_has_its_table_here_or_where_all_outputs_have_theirs() -> None:
    here = {mark[1] for mark in MEANINGS.finditer(PAGE)}
    parts = parts_of([Snapshot])
    named = {f"{part.__module__}.{part.__qualname__}" for part in parts}
    there = {*parts_of([GroupDescription]), Problem}
    assert here <= named
    assert {part for part in parts if not issubclass(part, StrEnum)} <= {*map(load, here)} | there


def test_fields_are_here_or_on_the_page_of_describe() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command" / "describe.md").read_text("utf-8")
    there = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    partly = {mark[1]: set(mark[2].split(",")) for mark in MEANINGS.finditer(PAGE) if mark[2]}
    assert partly
    for name, here in partly.items():
        assert here >= field_meanings(load(name)).keys() - there, name


def test_capabilities() -> None:
    assert set(rows_under("| capability | what is known |", PAGE)) - {"---"} == set(Capability)


def test_version() -> None:
    assert rows_under("| field | meaning |", PAGE)["schema_version"].startswith(
        f"{SNAPSHOT_VERSION};"
    )


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).is_file()
