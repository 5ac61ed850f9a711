"""Show described groups: by section and form, once or in the rounds of a watch."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import click

from kgroup.cli.output.context import Output, columns_named, is_terminal, show, warn, warn_of, write
from kgroup.errors import ExitStatus, near_names

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.describe import GroupDescription
    from kgroup.operation.report import Report
    from kgroup.operation.watch import Change, Round


SECTION_COLUMNS = {
    "--state": "group.STATE_COLUMNS",
    "--members": "group.MEMBER_COLUMNS",
    "--offsets": "group.OFFSET_COLUMNS",
}
"""The columns of each section; those of --offsets by default."""


def check_sections(sections: Sequence[str], output: Output) -> None:
    """Make sure that the form can show these sections, before anybody is asked."""
    if (output.columns or output.form in ("csv", "tsv")) and len(sections) > 1:
        raise click.UsageError(
            "csv, tsv and --columns take one section: choose --state, --members or --offsets"
        )
    _check_columns(output.columns, f"--{_one(sections)}")


def show_groups(
    report: Report[GroupDescription], output: Output, sections: Sequence[str], now_ms: int
) -> ExitStatus:
    """Write descriptions in the form that the user chose.

    Args:
        report: groups, errors and notes.
        output: form, columns and heads.
        sections: of a table; none: all. Forms with columns have one, which is offsets by default.
        now_ms: epoch milliseconds, for the age of what is old.

    Returns:
        What the report comes to.
    """
    from kgroup.render.group import description_object, members_sheet, offsets_sheet, state_sheet
    from kgroup.render.group_page import SECTIONS, description_text

    page = partial(description_text, sections=sections or SECTIONS, now_ms=now_ms)
    sheets: dict[str, Callable[..., Any]]
    sheets = {"state": state_sheet, "members": members_sheet, "offsets": offsets_sheet}
    return show(report, output, sheets[_one(sections)], page, description_object)


def _one(sections: Sequence[str]) -> str:
    return sections[0] if sections else "offsets"


def _check_columns(names: Sequence[str], section: str) -> None:
    """Make sure that a section has the columns that are chosen, before anybody is asked."""
    if not names:
        return
    columns = {option: columns_named(name) for option, name in SECTION_COLUMNS.items()}
    known = {
        option: {title for column in own for title in (column.name, column.title)}
        for option, own in columns.items()
    }
    missing = [name for name in names if name not in known[section]]
    if missing:
        own = [column.name for column in columns[section]]
        others = [option for option in known if known[option].issuperset(missing)]
        meant = f"; see {' and '.join(others)}" if others else near_names(missing[0], own)
        raise click.UsageError(
            f"no column {', '.join(missing)} in the section {section}; it has: "
            f"{', '.join(own)}{meant}"
        )


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""Take the alternate screen, hide the cursor, let long lines end at the edge."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN = "\x1b[?2026h\x1b[H"
"""Show nothing until `_END` (terminals that cannot do that pass over it); begin at the top."""
_END = "\x1b[J\x1b[?2026l"
_END_OF_LINE = "\x1b[0m\x1b[K"


class _View(Protocol):
    """Where rounds are shown."""

    def show(self, found: Round) -> None:
        """Show a round."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait for the next one."""
        ...


def is_screen() -> bool:
    """Return whether standard output is a terminal on which a page can be redrawn."""
    return is_terminal() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def show_rounds(
    rounds: Iterator[Round],
    again: Callable[[bool], None],
    interval_s: float,
    *,
    sections: Collection[str],
    headers: bool,
    lines: bool,
) -> NoReturn:
    """Show rounds of a watch, until interrupted.

    Args:
        rounds: each read when it is asked for.
        again: prepares the source for another round; told whether the last one failed.
        interval_s: seconds from the beginning of a round to that of the next.
        sections: of the page on a terminal.
        headers: whether its tables have heads.
        lines: write JSON lines instead.

    Raises:
        KgroupError: the first round fails; what later ones meet is told and passed over.
        BrokenPipeError: nobody reads the lines any more.
    """
    with ExitStack() as stack:
        view: _View | None = None
        while True:
            begun = time.monotonic()
            found = next(rounds)
            if view is None:
                view = (
                    _Lines()
                    if lines
                    else stack.enter_context(_Screen(interval_s, sections, headers))
                )
            view.show(found)
            view.wait(begun + interval_s - time.monotonic())
            again(found.has_failed)


class _Lines:
    """A JSON line for each change on standard output; errors, when they change, beside it."""

    def __init__(self) -> None:
        self._told: tuple[Problem, ...] = ()
        self._notes: set[str] = set()

    def show(self, found: Round) -> None:
        """See `_View`."""
        from kgroup.render.document import json_rows
        from kgroup.render.group import change_object

        write(json_rows(list(map(change_object, found.changes))))
        sys.stdout.flush()
        for note in found.report.notes:
            if note not in self._notes:
                self._notes.add(note)
                warn(f"note: {note}")
        errors = found.report.errors
        if errors != self._told:
            warn_of([problem for problem in errors if problem not in self._told])
            if not errors:
                warn("note: no errors any more")
            self._told = errors

    def wait(self, seconds: float) -> None:
        """Wait, and notice when the reader of a pipe has gone."""
        from select import poll

        seconds = max(0.0, seconds)
        if is_terminal():
            time.sleep(seconds)
            return
        reader = poll()
        reader.register(sys.stdout.fileno(), 0)  # for nothing but errors, which always come
        if reader.poll(1000 * seconds):
            raise BrokenPipeError


class _Screen:
    """The alternate screen of a terminal; at the end the last page stays on the ordinary one."""

    def __init__(self, interval_s: float, sections: Collection[str], headers: bool) -> None:
        from kgroup.render.group_page import EVENTS

        self._interval_s = interval_s
        self._sections = sections
        self._headers = headers
        self._events: deque[Change] = deque(maxlen=EVENTS)
        self._page = ""

    def __enter__(self) -> _Screen:
        write([_ENTER])
        return self

    def __exit__(self, *_: object) -> None:
        write([_LEAVE, self._page])
        sys.stdout.flush()

    def show(self, found: Round) -> None:
        """See `_View`."""
        from kgroup.render.group_page import is_event, watch_text

        self._events.extend(filter(is_event, found.changes))
        self._page = watch_text(
            found.groups,
            found.changes,
            tuple(self._events),
            found.report.errors,
            sections=self._sections,
            interval_s=self._interval_s,
            now_ms=found.time_ms,
            headers=self._headers,
        )
        write([_BEGIN, "\n".join(_cut(self._page.splitlines())), _END])
        sys.stdout.flush()

    def wait(self, seconds: float) -> None:
        """See `_View`."""
        time.sleep(max(0.0, seconds))


def _cut(lines: Sequence[str]) -> list[str]:
    """Leave out the lines for which the terminal has no room, and say how many."""
    room = max(1, os.get_terminal_size(sys.stdout.fileno()).lines)
    if len(lines) > room:
        left_out = len(lines) - room + 1
        lines = [*lines[: room - 1], f"… {left_out} more lines; --state, --members, --offsets"]
    return [f"{line}{_END_OF_LINE}" for line in lines]
