"""Every table and page, of reports in which any columns say nothing and any others the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from pkgutil import walk_packages
from random import Random
from typing import Any, get_args

import pytest

from kgroup import render
from kgroup.render import offsets
from kgroup.render.cell import Column
from kgroup.render.form import FORMS, page_text
from kgroup.render.group_page import watch_page  # shows the same as description_page
from kgroup.render.record import RECORD_COLUMNS
from tests.examples import examples, some_of
from tests.render.every_form import EVERY, PAGES, SHEETS, name_of, public_names, sheet_of, try_sheet
from tests.render.random_report import RandomReport, blank_values, fields_of

SEEDS = range(examples(2, 10))
ELSEWHERE = frozenset({"cell", "form", "table", "record_table", "top"})
"""Modules that write all pages, records, which are columns, or a screen."""


@pytest.mark.parametrize("name", EVERY)
def test_every_form(name: str) -> None:
    for seed in SEEDS:
        EVERY[name](Random(f"{name} {seed}"))


def parts_of(kind: Any) -> Iterator[Any]:
    """Yield the types of which a report of this type may hold several, itself included."""
    yield kind
    for hint in fields_of(kind).values():
        for each in (hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))):
            if hasattr(each, "__dataclass_fields__") or hasattr(each, "_fields"):
                yield from parts_of(each)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [each for each in PAGES if each is not watch_page], ids=name_of
)
def test_every_page_with_any_field_blank_and_any_other_common(
    function: Callable[..., object],
) -> None:
    kind, page = PAGES[function]
    for part in dict.fromkeys(parts_of(kind)):
        hints = fields_of(part)
        blanks = [name for name, hint in hints.items() if blank_values(name, hint)]
        for blank, common in some_of([*product(blanks, hints)], 32):
            draw = Random(f"{name_of(function)} {part} {blank} {common}")
            report = RandomReport(draw, {part: ([blank], [common])})
            "".join(page_text(page(report.rows(kind, count=1))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "columns",
    [
        offsets.STORED_COLUMNS,
        offsets.PLAN_COLUMNS,
        offsets.DIFFERENCE_COLUMNS,
        offsets.REMOVAL_COLUMNS,
    ],
    ids=name_of,
)
def test_sheets_of_offsets_with_any_fields_blank(columns: tuple[Column, ...]) -> None:
    hints = fields_of(SHEETS[columns])
    blanks = [name for name, hint in hints.items() if None in blank_values(name, hint)]
    counts = {0, 1, 2, 3, len(blanks) - 1, len(blanks)}  # all would be thousands
    subsets = [subset for count in sorted(counts) for subset in combinations(blanks, count)]
    for subset in some_of(subsets, 32):
        try_sheet(columns, Random(f"{name_of(columns)} {subset}"), subset)


def test_the_page_of_the_output_names_every_form() -> None:
    page = Path("docs/output.md").read_text("utf-8")
    section = page.partition("## Forms\n")[2].partition("\n## ")[0]
    assert [form for form in FORMS if f"`{form}`" not in section] == []


def test_every_sheet_and_page_is_tried() -> None:
    written: set[str] = set()
    columns: set[tuple[Column, ...]] = set()
    for package in walk_packages(render.__path__, "kgroup.render."):
        module = import_module(package.name)
        if package.name.removeprefix("kgroup.render.") not in ELSEWHERE:
            names = [
                name for name in public_names(module) if name.endswith(("_sheet", "_text", "_page"))
            ]
            written.update(name_of(getattr(module, name)) for name in names)
            columns.update(
                getattr(module, name) for name in public_names(module) if name.endswith("_COLUMNS")
            )
    written.remove("record.record_text")
    columns.remove(RECORD_COLUMNS)
    sheets = {table for table in SHEETS if not isinstance(table, tuple)}
    assert written == {*map(name_of, sheets), *map(name_of, PAGES)}
    draw = Random(0)
    assert columns <= {
        sheet_of(table, RandomReport(draw).rows(kind, count=1)).columns
        for table, kind in SHEETS.items()
    }
