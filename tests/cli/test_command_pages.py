"""The pages of commands say what their help says."""

from __future__ import annotations

import re

import pytest

from kgroup.cli.command_group import Block
from kgroup.cli.option.source import FILE_FORMATS
from tests.cli.command_line import Cli
from tests.cli.command_pages import (
    CHECK,
    FOLDER,
    MARK,
    OF_THE_PAGE,
    OPTIONS,
    WITH_MEANINGS,
    check_page,
    options_page,
    pages,
)
from tests.cli.commands import EVERY_COMMAND
from tests.render.field_table import with_meanings

SHARED = {
    "Source options": [
        *("--log-dir", "--sample", "--zookeeper"),
        *(each.option for each in FILE_FORMATS.values()),
    ],
    "Connection options": ["-b", "--command-config", "-X", "-C", "--timeout"],
    "Store options": ["--file", "--sql", "--sql-table", "--sql-column", "--create-table"],
    "Warehouse options": ["--warehouse", "--cluster", "--engine"],
    "Spark options": ["--master", "--spark-conf"],
    "Output options": ["-o", "--columns", "--no-headers"],
}
"""Blocks in their order, with their options in theirs."""


def test_pages_are_what_the_commands_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert written == pages(), "run: python -m tests.cli.command_pages"


def test_tables_on_other_pages_are_what_the_classes_say() -> None:
    for path in WITH_MEANINGS:
        page = path.read_text("utf-8")
        assert page == with_meanings(page), "run: python -m tests.cli.command_pages"


def test_findings_are_explained_as_the_rules_say() -> None:
    page = CHECK.read_text("utf-8")
    assert page == check_page(page), "run: python -m tests.cli.command_pages"


def test_common_options_are_explained_once() -> None:
    page = OPTIONS.read_text("utf-8")
    assert page == options_page(page), "run: python -m tests.cli.command_pages"
    assert MARK.findall(page) == [block for block in Block if block not in OF_THE_PAGE]


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_help_shows_own_options_before_blocks_of_shared_ones(cli: Cli, name: str) -> None:
    text = cli(*name.split(), "--help").out
    sections = re.split(r"^((?:\w+ )?[Oo]ptions):\n", text, flags=re.MULTILINE)[1:]
    titles = sections[::2]
    assert titles == ["Options", *(title for title in SHARED if title in titles)]
    for title, section in zip(titles, sections[1::2], strict=True):
        options = re.findall(r"^  (--?[\w-]+)", section, re.MULTILINE)
        if title == "Options":
            assert options[-1] == "-h"
        else:
            assert options == [option for option in SHARED[title] if option in options]
