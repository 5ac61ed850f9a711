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
_WIDTH = 120
_COMMANDS = (
    "kgroup list --sample",
    "kgroup describe --sample order-service",
    "kgroup assign --sample order-service --remove-member order-service-3",
)


def picture() -> str:
    """Return the picture of a terminal on which the commands were typed."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    for command in _COMMANDS:
        console.print(Text(f"$ {command}", style="bold"))
        written = on_a_terminal(shlex.split(command)[1:], width=_WIDTH, coloured=True)
        console.print(Text.from_ansi(written.replace("\r", "").rstrip()), "\n", sep="")
    # without the fonts that rich would have fetched from elsewhere
    pattern = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
    return pattern.sub("", console.export_svg(title="kgroup", unique_id="kgroup"))


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
