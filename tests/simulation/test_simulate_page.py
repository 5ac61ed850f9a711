"""`docs/simulate.md` says what the code does."""

from __future__ import annotations

import re

from kgroup.simulation.scenario.file import read_scenario
from tests.simulation.simulate_page import PAGE, TABLES, written


def test_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    assert written(text) == text, "run: python -m tests.simulation.simulate_page"


def test_every_mark_is_known() -> None:
    assert set(re.findall(r"<!-- generated: (.*) -->", PAGE.read_text("utf-8"))) == set(TABLES)


def test_scenarios_in_it_can_be_read() -> None:
    found = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert found
    for text in found:
        read_scenario(text, "docs/simulate.md")
