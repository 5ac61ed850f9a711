"""The picture of a session in README.md shows what the commands write."""

from __future__ import annotations

from tests.cli.session_picture import PICTURE, picture


def test_the_picture_shows_what_is_written() -> None:
    assert picture() == PICTURE.read_text("utf-8"), "run: python -m tests.cli.session_picture"
