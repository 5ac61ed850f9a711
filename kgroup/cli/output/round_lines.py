"""JSON lines of a command that goes on: rows to standard output, what changes else to stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kgroup.cli.output.context import is_terminal, warn, warn_of, write

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.report import Report


def is_screen() -> bool:
    """Return whether standard output is a terminal that supports cursor control."""
    return is_terminal() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


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
