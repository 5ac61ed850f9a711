"""The pages about simulations say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgroup.simulation.scenario.file import read_scenario
from tests.simulation.simulate_page import MARK, PAGE, PAGES, TABLES, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    assert written(text) == text, "run: python -m tests.simulation.simulate_page"


def test_each_table_is_on_one_page() -> None:
    marks = [mark for page in PAGES for mark in MARK.findall(page.read_text("utf-8"))]
    assert sorted(marks) == sorted(TABLES)


def test_scenarios_in_it_can_be_read() -> None:
    found = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert found
    for text in found:
        read_scenario(text, "docs/simulate.md")
