"""The worked examples of docs/plan.md, with what they write: `python -m tests.cli.plan_page`."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"
WIDTH = 100
"""Of the terminal on which they are shown."""
EXAMPLE = re.compile(r"```console\n\$ kgroup (.+)\n(?:.*\n)*?```\n")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """Return what a terminal shows without colours and blanks at the ends of lines."""
    lines = _STYLE.sub("", text).replace("\r", "").rstrip().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def written(page: str, run: Callable[[Sequence[str]], str]) -> str:
    """Write what each example of a page shows below it."""

    def example(found: re.Match[str]) -> str:
        shown = plain(run(shlex.split(found[1])))
        return f"```console\n$ kgroup {found[1]}\n{shown}```\n"

    return EXAMPLE.sub(example, page)


def on_a_terminal(args: Sequence[str], *, width: int = WIDTH, coloured: bool = False) -> str:
    """Give what kgroup writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm-256color"}
    if not coloured:
        environment["NO_COLOR"] = "1"
    with tempfile.TemporaryDirectory() as folder, os.fdopen(ours, "rb", buffering=0) as terminal:
        program = subprocess.Popen(
            [sys.executable, "-m", "kgroup", *args],
            cwd=folder,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        os.close(theirs)
        parts = []
        try:
            while part := terminal.read(65536):
                parts.append(part)
        except OSError:  # Linux says so that nobody writes to it any more
            pass
        status = program.wait()
    if not parts:
        raise RuntimeError(f"kgroup {shlex.join(args)} wrote nothing, and ended with {status}")
    return b"".join(parts).decode()


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8"), on_a_terminal), "utf-8")
