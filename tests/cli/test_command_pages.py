"""The pages of commands say what their help says."""

from __future__ import annotations

from tests.cli.command_pages import FOLDER, pages


def test_pages_are_what_the_commands_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert written == pages(), "run: python -m tests.cli.command_pages"
