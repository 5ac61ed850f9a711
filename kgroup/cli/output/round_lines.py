"""Output of a command that refreshes until it is interrupted: JSON lines, or a screen."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import click

from kgroup.cli.output.context import Output, is_terminal, warn, warn_of, write
from kgroup.render.form import page_text

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.report import Report
    from kgroup.render.sheet import Part

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""Enter the alternate screen, hide the cursor, and disable line wrapping."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN = "\x1b[?2026h\x1b[H"
"""Start a synchronized update until `_END`, if supported, and move the cursor to the top."""
_END = "\x1b[J\x1b[?2026l"
_END_OF_LINE = "\x1b[0m\x1b[K"


def is_screen() -> bool:
    """Return whether standard output is a terminal that supports cursor control."""
    return is_terminal() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def check_watch(file_format: str | None, output: Output) -> None:
    """Check that `--watch` has a source that changes (no file), and a form that can go on."""
    if file_format is not None:
        raise click.UsageError(
            f"--watch needs a source that changes; a {file_format} does not change"
        )
    if output.form not in ("table", "jsonl") or output.columns:
        raise click.UsageError(
            "--watch writes tables on a terminal, and JSON lines (-o jsonl) otherwise; leave out "
            "other formats and --columns"
        )


class RoundLines:
    """Writes JSON lines round by round; notes and errors to standard error, once each."""

    def __init__(self) -> None:
        self._told: tuple[Problem, ...] = ()
        self._notes: set[str] = set()

    def write(self, rows: Sequence[object], report: Report[Any]) -> None:
        """Write the rows of a round, and what is new of its notes and errors."""
        from kgroup.render.json_document import json_rows

        write(json_rows(rows))
        sys.stdout.flush()
        for note in report.notes:
            if note not in self._notes:
                self._notes.add(note)
                warn(f"note: {note}")
        errors = report.errors
        if errors != self._told:
            warn_of([problem for problem in errors if problem not in self._told])
            if not errors:
                warn("note: no more errors")
            self._told = errors

    def wait(self, seconds: float) -> None:
        """Wait; raise BrokenPipeError if the reader of a pipe terminates."""
        from select import poll

        seconds = max(0.0, seconds)
        if is_terminal():
            time.sleep(seconds)
            return
        reader = poll()
        reader.register(sys.stdout.fileno(), 0)  # no events: errors are always reported
        if reader.poll(1000 * seconds):
            raise BrokenPipeError


class PageScreen:
    """Uses the alternate screen of a terminal; the last page is shown again at the end.

    Args:
        headers: whether tables have header rows.
        advice: how to make the page fit on the screen.
    """

    def __init__(self, headers: bool, advice: str) -> None:
        self._headers = headers
        self._advice = advice
        self._page = ""

    def __enter__(self) -> Self:
        write([_ENTER])
        return self

    def __exit__(self, *_: object) -> None:
        write([_LEAVE, self._page])
        sys.stdout.flush()

    def draw(self, page: Iterable[Part]) -> None:
        """Replace the page on the screen."""
        self._page = "".join(page_text(page, headers=self._headers, terminal=True))
        write([_BEGIN, "\n".join(self._cut(self._page.splitlines())), _END])
        sys.stdout.flush()

    def wait(self, seconds: float) -> None:
        """Wait for the next round."""
        time.sleep(max(0.0, seconds))

    def _cut(self, lines: Sequence[str]) -> list[str]:
        """Return the lines that fit on the terminal, and the number of the others."""
        room = max(1, os.get_terminal_size(sys.stdout.fileno()).lines)
        if len(lines) > room:
            left_out = len(lines) - room + 1
            lines = [*lines[: room - 1], f"… {left_out} more lines; {self._advice}"]
        return [f"{line}{_END_OF_LINE}" for line in lines]
