"""`kgroup top`."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import UTC_OPTION, examples, parsed
from kgroup.cli.option.group_filter import group_filter_options
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.source import Source, source_options
from kgroup.errors import ExitStatus, KgroupError, install_advice
from kgroup.model.group import GroupType
from kgroup.model.instant import show_local_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgroup.operation.group_filter import GroupFilter
    from kgroup.operation.top import FollowedGroup, Top


@click.command(
    "top",
    cls=Command,
    epilog=examples(
        "kgroup top --sample",
        "kgroup top -b kafka-1:9092",
        "kgroup top -C prod --interval 2 --regex 'billing-.*'",
        "kgroup top -b kafka-1:9092 --topic orders -o jsonl",
        "kgroup top --sample --interval 1 --refreshes 2 -o jsonl",
    ),
)
@source_options(required=True, formats=False)
@group_filter_options
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    default="5",
    show_default=True,
    callback=parsed(parse_seconds),
    help="Refresh every SECONDS.",
)
@click.option(
    "-n",
    "--refreshes",
    metavar="N",
    type=click.IntRange(min=1),
    help="End after N refreshes; with JSON lines only.",
)
@click.option(
    "-o",
    "--output",
    "form",
    metavar="FORMAT",
    type=click.Choice(["screen", "jsonl"]),
    help="screen or jsonl.  [default: screen on a terminal, else jsonl]",
)
@UTC_OPTION
def command(
    source: Source,
    chosen: GroupFilter,
    interval_s: float,
    refreshes: int | None,
    form: str | None,
    utc: bool,
) -> ExitStatus:
    """Watch all groups live, by lag, with growth and rebalances.

    Keys sort, filter and open a group; ? lists them. In a pipe each refresh writes a JSON line for
    each group. The screen needs the extra [top] (docs/install.md).
    """
    from kgroup.cli.output.round_lines import is_screen
    from kgroup.operation.top import Top

    show_local_time(is_local=not utc)
    if set(chosen.types) == {GroupType.ZOOKEEPER}:
        source = source.of_zookeeper
    shows_screen = form == "screen" or (form is None and is_screen())
    if shows_screen:
        _check_screen(is_screen())
        if refreshes is not None:
            raise click.UsageError(
                "--refreshes is for JSON lines: choose -o jsonl, or leave it out"
            )
    with ExitStack() as stack:
        found = stack.enter_context(source.open(of_silence=True, in_rounds=True))

        def renew(has_failed: bool) -> None:
            found.renew(after_failure=has_failed)

        top = Top(found, chosen)
        if not shows_screen:
            return _write_lines(top, renew, interval_s, refreshes)
        from kgroup.cli.output.top_screen import run_screen
        from kgroup.render.top import TopScreen

        if not run_screen(TopScreen(source.label, interval_s), top, renew):
            stack.pop_all()  # a reading goes on in its thread, which ends with the process
    return ExitStatus.DONE


def _check_screen(is_screen: bool) -> None:
    """Check that there is a terminal, and what draws on it.

    Raises:
        UsageError: there is no terminal.
        KgroupError: Textual is not installed.
    """
    if not (is_screen and sys.stdin.isatty()):
        raise click.UsageError(
            "the screen needs a terminal as standard input and output (TERM is not dumb); "
            "choose -o jsonl"
        )
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise KgroupError(
            f"the screen is drawn by Textual, which is not installed; {install_advice('top')}, "
            "or choose -o jsonl"
        )


def _write_lines(
    top: Top, renew: Callable[[bool], None], interval_s: float, refreshes: int | None
) -> ExitStatus:
    """Write a JSON line for each group and refresh, until interrupted, or N times.

    Returns:
        The exit status of the last refresh.

    Raises:
        KgroupError: the first refresh fails; failures of later ones are only reported.
        BrokenPipeError: the reader has terminated.
    """
    from kgroup.cli.output.round_lines import RoundLines
    from kgroup.operation.report import Report
    from kgroup.operation.watch import failure

    lines = RoundLines()
    for number in count(1):
        begun = time.monotonic()
        has_failed = False
        try:
            refresh = top.refresh()
        except (KgroupError, OSError) as error:
            if number == 1:
                raise
            has_failed = True
            report: Report[FollowedGroup] = Report((), errors=(failure(error),))
        else:
            rows = tuple(row.group for row in refresh.rows)
            report = Report(rows, refresh.problems, refresh.notes)
        lines.write(report.data, report)
        if number == refreshes:
            return report.exit_status
        lines.wait(begun + interval_s - time.monotonic())
        renew(has_failed)
    raise AssertionError
