"""The pages of commands say what their help says."""

from __future__ import annotations

from kgroup.cli.command_group import Block
from tests.cli.command_pages import FOLDER, MARK, OF_THE_PAGE, OPTIONS, options_page, pages


def test_pages_are_what_the_commands_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert written == pages(), "run: python -m tests.cli.command_pages"


def test_common_options_are_explained_once() -> None:
    page = OPTIONS.read_text("utf-8")
    assert page == options_page(page), "run: python -m tests.cli.command_pages"
    assert MARK.findall(page) == [block for block in Block if block not in OF_THE_PAGE]
