"""Every table and page, of reports in which any columns say nothing and any others the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import product
from pkgutil import walk_packages
from random import Random
from typing import Any, get_args

import pytest

from kgroup import render
from kgroup.render.group.watch import watch_text  # shows the same as description_text
from kgroup.render.markup import MARKUPS
from kgroup.render.sheet import Sheet
from tests.examples import examples, some_of
from tests.render.every_form import (
    ONLY_TABLES,
    PAGES,
    SHEETS,
    check_json,
    check_page,
    check_records,
    check_sheet,
    sheet_of,
)
from tests.render.random_report import RandomReport, blank_values, fields_of

SEEDS = range(examples(6))
ELSEWHERE = frozenset(
    {"cell", "sheet", "table", "text_column", "record.record", "record.record_table"}
)
"""Modules that write all sheets, and records, which are columns."""


def name_of(function: Callable[..., object]) -> str:
    return f"{function.__module__.removeprefix('kgroup.render.')}.{function.__name__}"


@pytest.mark.parametrize("function", SHEETS, ids=name_of)
def test_every_sheet(function: Callable[..., Sheet]) -> None:
    for seed in SEEDS:
        draw = Random(f"{name_of(function)} {seed}")
        rows: Sequence[object] = RandomReport(draw).rows(
            SHEETS[function], count=draw.choice([1, 2, 4])
        )
        sheet = sheet_of(function, rows)
        whole = Sheet(sheet.columns, list(sheet.rows))
        names = [column.name for column in sheet.columns]
        some = whole.select(draw.sample(names, draw.randint(1, len(names))))
        for each in (whole, whole.without_blank(), some):
            check_sheet(each, draw.choice([*MARKUPS]), headers=draw.random() < 0.8)
        check_json(rows)


@pytest.mark.parametrize("function", PAGES, ids=name_of)
def test_every_page(function: Callable[..., object]) -> None:
    kind, page = PAGES[function]
    for seed in SEEDS:
        draw = Random(f"{name_of(function)} {seed}")
        rows: Sequence[object] = RandomReport(draw).rows(kind)
        others = () if function in ONLY_TABLES else draw.sample([*MARKUPS], 2)
        check_page(page, rows, ("table", *others))


def parts_of(kind: Any) -> Iterator[Any]:
    """Yield the types of which a report of this type may hold several, itself included."""
    yield kind
    for hint in fields_of(kind).values():
        for each in (hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))):
            if hasattr(each, "__dataclass_fields__") or hasattr(each, "_fields"):
                yield from parts_of(each)


@pytest.mark.parametrize(
    "function", [each for each in PAGES if each is not watch_text], ids=name_of
)
def test_every_page_with_any_field_blank_and_any_other_common(
    function: Callable[..., object],
) -> None:
    kind, page = PAGES[function]
    for part in dict.fromkeys(parts_of(kind)):
        hints = fields_of(part)
        blanks = [name for name, hint in hints.items() if blank_values(name, hint)]
        for blank, common in some_of([*product(blanks, hints)], 8):
            draw = Random(f"{name_of(function)} {part} {blank} {common}")
            report = RandomReport(draw, {part: ([blank], [common])})
            "".join(page(report.rows(kind, count=1), "table", headers=True, terminal=False))


def test_records() -> None:
    for seed in range(5 * len(SEEDS)):
        draw = Random(seed)
        check_records(RandomReport(draw).records(), draw.choice([*MARKUPS]))


def test_every_sheet_and_page_is_tried() -> None:
    written: set[str] = set()
    for found in walk_packages(render.__path__, "kgroup.render."):
        module = import_module(found.name)
        if found.name.removeprefix("kgroup.render.") not in ELSEWHERE:
            names = [
                n
                for n in getattr(module, "__all__", ())
                if n.endswith(("_sheet", "_text", "_page"))
            ]
            written.update(name_of(getattr(module, name)) for name in names)
    assert written == {*map(name_of, SHEETS), *map(name_of, PAGES)}
