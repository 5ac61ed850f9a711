"""Examples in pages, and what plans know of libraries: `python -m tests.cli.console_examples`."""

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

from kgroup.assignor.client_facts import FACTS

_ROOT = Path(__file__).parents[2]
PLAN = _ROOT / "docs" / "plan.md"
PAGES = (
    *(_ROOT / "README.md", _ROOT / "docs" / "README.md", PLAN),
    *sorted((_ROOT / "docs" / "howto").glob("*.md")),
)
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


FACTS_TABLE = re.compile(r"(?<=<!-- generated: client facts -->\n)(?:\|.*\n)*")


def facts_table() -> str:
    """Return what plans know of client libraries, as a table in Markdown."""
    head = (
        *("library", "strategies", "`cooperative-sticky`", "static members", "consumer protocol"),
        *("looks for new partitions", "start without a commit", "time between polls"),
    )
    rows = [head, ("---",) * len(head), *map(_row, FACTS)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(name: str) -> tuple[str, ...]:
    facts = FACTS[name]
    mixes = "" if facts.mixes else ", not listed with others"
    refresh_ms = facts.refresh_ms
    return (
        name,
        f"`{facts.strategy_setting}`: {', '.join(facts.strategies)}",
        "no" if facts.cooperative_since is None else f"{facts.cooperative_since}{mixes}",
        "no" if facts.static_since is None else f"{facts.static_since}, `{facts.static_setting}`",
        "no"
        if facts.consumer_since is None
        else f"{facts.consumer_since}, `{facts.consumer_setting}`",
        ("never" if refresh_ms is None else f"every {refresh_ms // 60_000} min")
        + (f" (`{facts.refresh_setting}`)" if facts.refresh_setting else ""),
        f"{facts.reset} (`{facts.reset_setting}`)",
        f"{facts.poll_ms // 1000} s (`{facts.poll_setting}`)"
        + ("" if facts.leaves_if_late else ", for rebalances only"),
    )


if __name__ == "__main__":
    for path in PAGES:
        page = FACTS_TABLE.sub(lambda found: facts_table(), path.read_text("utf-8"))
        path.write_text(written(page, on_a_terminal), "utf-8")
