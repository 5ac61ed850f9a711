"""The session that README.md shows, as a picture: `python -m tests.cli.session_picture`."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.plan_page import on_a_terminal

PICTURE = Path(__file__).parents[2] / "docs" / "session.svg"
_WIDTH = 116
MOST_LINES = 30
_COMMANDS = (
    "kgroup describe order-service --sample --offsets",
    "kgroup assign order-service --sample --remove-member order-service-2",
)


def picture() -> str:
    """Return the picture of a terminal on which the commands were typed."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    lines: list[Text] = []
    for command in _COMMANDS:
        written = on_a_terminal(shlex.split(command)[1:], width=_WIDTH, coloured=True)
        lines += [Text(f"$ {command}", style="bold")]
        lines += [*Text.from_ansi(written.replace("\r", "").rstrip()).split("\n"), Text()]
    assert len(lines) - 1 <= MOST_LINES
    console.print(*lines[:-1], sep="\n")
    # without the fonts that rich would have fetched from elsewhere
    pattern = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
    return pattern.sub("", console.export_svg(title="kgroup", unique_id="kgroup"))


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
