"""Show described groups by section and format, once or repeatedly."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import click

from kgroup.cli.output.context import Output, columns_named, show
from kgroup.cli.output.round_lines import PageScreen, RoundLines
from kgroup.errors import ExitStatus, near_names
from kgroup.render.form import SEPARATED

if TYPE_CHECKING:
    from kgroup.operation.describe import GroupDescription
    from kgroup.operation.report import Report, Sort
    from kgroup.operation.watch import Change, Round


SECTION_COLUMNS = {
    "--state": "group.STATE_COLUMNS",
    "--members": "group.MEMBER_COLUMNS",
    "--offsets": "group.OFFSET_COLUMNS",
}
"""Columns of each section; the default is --offsets."""


def check_sections(sections: Sequence[str], output: Output) -> None:
    """Check that the format supports these sections, before any request is sent."""
    if (output.columns or output.form in SEPARATED) and len(sections) > 1:
        raise click.UsageError(
            "csv, tsv and --columns take one section: choose --state, --members or --offsets"
        )
    _check_columns(output.columns, f"--{_one(sections)}")


def show_groups(
    report: Report[GroupDescription],
    output: Output,
    sections: Sequence[str],
    now_ms: int,
    sort: Sort | None = None,
    *,
    explain: bool = False,
) -> ExitStatus:
    """Write descriptions in the selected format.

    Args:
        report: groups, errors and notes.
        output: format, columns and headers.
        sections: sections of a table; empty for all. Formats with columns have one section, by
            default offsets.
        now_ms: current time in epoch milliseconds, to show ages.
        sort: order of partitions; None: worst first in tables, by topic and partition elsewhere.
        explain: whether a table ends with the meanings of its terms.

    Returns:
        The exit status of the report.
    """
    from kgroup.operation.describe import with_sorted_partitions
    from kgroup.render.group import description_object, members_sheet, offsets_sheet, state_sheet
    from kgroup.render.group_page import description_page

    if sort is not None:
        report = with_sorted_partitions(report, sort)
    page = partial(description_page, sections=sections, now_ms=now_ms, sort=sort, explain=explain)
    sheets: dict[str, Callable[..., Any]]
    sheets = {"state": state_sheet, "members": members_sheet, "offsets": offsets_sheet}
    return show(report, output, page, sheet=sheets[_one(sections)], row=description_object)


def _one(sections: Sequence[str]) -> str:
    return sections[0] if sections else "offsets"


def _check_columns(names: Sequence[str], section: str) -> None:
    """Check that a section has the selected columns, before any request is sent."""
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
        suggestion = f"; see {' and '.join(others)}" if others else near_names(missing[0], own)
        raise click.UsageError(
            f"no column {', '.join(missing)} in the section {section}; it has: "
            f"{', '.join(own)}{suggestion}"
        )


class _View(Protocol):
    """Output of a watch."""

    def show(self, round_: Round) -> None:
        """Show a round."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait for the next round."""
        ...


def show_rounds(
    rounds: Iterator[Round],
    again: Callable[[bool], None],
    interval_s: float,
    *,
    sections: Collection[str],
    sort: Sort | None,
    headers: bool,
    lines: bool,
) -> NoReturn:
    """Show rounds of a watch until interrupted.

    Args:
        rounds: rounds, each read on request.
        again: prepares the source for the next round; the argument says whether the last one
            failed.
        interval_s: seconds from the start of a round to the start of the next one.
        sections: sections of the page on a terminal.
        sort: order of its partitions; None: worst first.
        headers: whether its tables have header rows.
        lines: write JSON lines instead.

    Raises:
        KgroupError: the first round fails; failures of later rounds are only reported.
        BrokenPipeError: the reader of the JSON lines has terminated.
    """
    with ExitStack() as stack:
        view: _View | None = None
        while True:
            begun = time.monotonic()
            round_ = next(rounds)
            if view is None:
                view = (
                    _Lines()
                    if lines
                    else stack.enter_context(_Screen(interval_s, sections, sort, headers))
                )
            view.show(round_)
            view.wait(begun + interval_s - time.monotonic())
            again(round_.has_failed)


class _Lines(RoundLines):
    """Writes changes as JSON lines."""

    def show(self, round_: Round) -> None:
        """See `_View`."""
        from kgroup.render.group import change_object

        self.write(list(map(change_object, round_.changes)), round_.report)


class _Screen(PageScreen):
    """Draws the groups with their latest changes."""

    def __init__(
        self, interval_s: float, sections: Collection[str], sort: Sort | None, headers: bool
    ) -> None:
        from kgroup.render.group_page import EVENTS

        super().__init__(headers, "show less with --state, --members or --offsets")
        self._interval_s = interval_s
        self._sections = sections
        self._sort = sort
        self._events: deque[Change] = deque(maxlen=EVENTS)

    def show(self, round_: Round) -> None:
        """See `_View`."""
        from kgroup.render.group_page import is_event, watch_page

        self._events.extend(filter(is_event, round_.changes))
        page = watch_page(
            round_.groups,
            round_.changes,
            tuple(self._events),
            round_.report.errors,
            sections=self._sections,
            interval_s=self._interval_s,
            now_ms=round_.time_ms,
            sort=self._sort,
        )
        self.draw(page)
