"""Show a list of groups again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

from kgroup.cli.output.round_lines import PageScreen, RoundLines
from kgroup.errors import ExitStatus, KgroupError

if TYPE_CHECKING:
    from kgroup.operation.list_groups import ListedGroup
    from kgroup.operation.report import Report
    from kgroup.render.sheet import Part, Sheet


def show_lists(
    read: Callable[[], Report[ListedGroup]],
    again: Callable[[bool], None],
    interval_s: float,
    *,
    page: Callable[[Sequence[ListedGroup]], Iterable[Sheet]],
    headers: bool,
    lines: bool,
) -> NoReturn:
    """Show a list of groups again and again, until interrupted.

    Args:
        read: reads the list.
        again: prepares the source for the next reading; the argument says whether the last one
            failed.
        interval_s: seconds from the start of a reading to the start of the next one.
        page: renders the table on a terminal.
        headers: whether the table has a header row.
        lines: write JSON lines instead.

    Raises:
        KgroupError: the first reading fails; failures of later ones are only reported.
        BrokenPipeError: the reader of the JSON lines has terminated.
    """
    from kgroup.operation.report import Report
    from kgroup.operation.watch import failure

    groups: Sequence[ListedGroup] = ()
    with ExitStack() as stack:
        view: RoundLines | PageScreen | None = None
        while True:
            begun = time.monotonic()
            failed = False
            try:
                report = read()
                failed = report.exit_status is ExitStatus.FAILED
                groups = groups if failed else report.data
            except (KgroupError, OSError) as error:
                if view is None:
                    raise
                failed = True
                report = Report((), errors=(failure(error),))
            if view is None:
                advice = "show less with --min-lag, --state, --type, --regex or --topic"
                view = RoundLines() if lines else stack.enter_context(PageScreen(headers, advice))
            if isinstance(view, RoundLines):
                view.write(report.data, report)
            else:
                view.draw(_watch_page(report, page(groups), interval_s))
            view.wait(begun + interval_s - time.monotonic())
            again(failed)


def _watch_page(
    report: Report[ListedGroup], sheets: Iterable[Sheet], interval_s: float
) -> Iterator[Part]:
    """Yield the page: its time, the problems, and the groups as they were last read."""
    from kgroup.model.instant import shown_time
    from kgroup.render.cell import harmless
    from kgroup.render.group_page import problem_lines
    from kgroup.render.sheet import Title

    yield Title(f"{shown_time(time.time_ns() // 1_000_000)}, every {interval_s:g} s")
    yield from problem_lines(report.errors)
    yield from (f"note: {harmless(note)}\n" for note in report.notes)
    yield from sheets
