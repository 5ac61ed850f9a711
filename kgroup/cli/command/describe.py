"""`kgroup describe`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import (
    check_choice,
    examples,
    log_budget_option,
    output_options,
    parsed,
    regex_option,
    section_options,
    sort_option,
)
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import Output, json_errors
from kgroup.cli.output.described import SECTION_COLUMNS, check_sections, show_groups
from kgroup.cli.output.round_lines import check_watch
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern
from kgroup.operation.report import Sort

if TYPE_CHECKING:
    from kgroup.operation.describe import GroupDescription

_RECENT_MS = 60_000
"""Age of a generation up to which a note names the command that shows why the group rebalanced."""


@click.command(
    "describe",
    cls=Command,
    epilog=examples(
        "kgroup describe --sample --all",
        "kgroup describe --sample --all --members",
        "kgroup describe --sample --all --offsets -o tsv --columns group_id,topic,partition,lag",
        "kgroup describe --sample stock-sync",
        "kgroup describe --sample pricing --explain",
        "kgroup describe -b kafka-1:9092 billing shipping",
        "kgroup describe -C prod --all --offsets -o csv --isolation read-committed",
        "kgroup describe -b kafka-1:9092 billing --offsets --time-lag",
        "kgroup describe -b kafka-1:9092 billing --watch 2",
        "kgroup describe --log-dir /var/lib/kafka/data billing shipping -o json",
    ),
)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Select every group.")
@regex_option
@source_options(required=True)
@section_options
@sort_option(
    ("lag", "time-lag", "last-commit", "owner", "partition"),
    "Sort partitions by KEY, in tables worst first by default.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read-uncommitted", "read-committed"]),
    default="read-uncommitted",
    show_default=True,
    help="Log end offset for the lag; read-committed uses the last stable offset, where consumers "
    "with this isolation level stop reading.",
)
@click.option(
    "--time-lag",
    is_flag=True,
    help="Also show the lag in time: the age of the next record to read. Reads a few kilobytes of "
    "each partition (needs READ on the topics); clusters only.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Also show, in tables, what states, generations, lag and marks mean, and why something "
    "is unknown.",
)
@log_budget_option
@click.option(
    "--watch",
    "watch_s",
    metavar="SECONDS",
    callback=parsed(parse_seconds),
    help="Refresh every SECONDS, until Ctrl-C. On a terminal the page is redrawn with changes "
    "marked; in a pipe each change is a JSON line.",
)
@output_options(SECTION_COLUMNS["--offsets"], SECTION_COLUMNS)
def command(
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    source: Source,
    sections: tuple[str, ...],
    sort: Sort | None,
    isolation: str,
    time_lag: bool,
    explain: bool,
    log_budget: int,
    watch_s: float | None,
    output: Output,
) -> ExitStatus:
    """Show who is behind in a group: members, hosts, partitions.

    Select groups by name, with --regex, or with --all. A table begins with the verdict: state,
    members, and where the lag is; the members and partitions follow, worst first. Tables have the
    selected sections, by default all of them. csv, tsv and --columns have one section, by default
    --offsets. json always has everything.
    """
    check_choice(groups, regex, every=every)
    check_sections(sections, output)
    if watch_s is not None and explain:
        raise click.UsageError("--explain and --watch cannot be used together; leave out one")
    if watch_s is not None:
        check_watch(source.file and source.file.format.name, output)
    from kgroup.operation.describe import describe
    from kgroup.source.base import GroupSource

    in_rounds = watch_s is not None
    source = source.that_has(groups)
    of_silence = every or regex is not None or in_rounds
    time_lag = time_lag or (sort is not None and sort.key == "time-lag")
    with json_errors(output), source.open(of_silence=of_silence, in_rounds=in_rounds) as opened:
        if time_lag and not opened.can(GroupSource.next_records):
            raise click.UsageError(
                "time lags are read from a cluster: use --bootstrap-server or --profile"
            )
        read = partial(
            describe,
            opened,
            groups,
            regex=regex,
            committed=isolation == "read-committed",
            log_budget=log_budget,
            times=opened if time_lag else None,
            suggestions={},
        )
        if watch_s is not None:
            from kgroup.cli.output.described import show_rounds
            from kgroup.cli.output.round_lines import is_screen
            from kgroup.operation.watch import watch

            show_rounds(
                watch(read),
                lambda failed: opened.renew(after_failure=failed),
                watch_s,
                sections=sections,
                sort=sort,
                headers=output.headers,
                lines=output.form == "jsonl" or not is_screen(),
            )
        report, now_ms = read(), source.instant_ms(opened)
        if source.has_records and output.form == "table" and not output.columns:
            report = replace(report, notes=(*report.notes, *_rebalanced_notes(report.data, now_ms)))
    return show_groups(report, output, sections, now_ms, sort, explain=explain)


def _rebalanced_notes(groups: Sequence[GroupDescription], now_ms: int) -> Iterator[str]:
    """Yield a note with the command that shows the cause, if the only group has just rebalanced."""
    from kgroup.operation.printed_command import Reach, kgroup_command, reaching
    from kgroup.render.cell import rough_age

    for group in (description.group for description in groups if len(groups) == 1):
        age_ms = now_ms - (group.state_timestamp_ms or 0)
        if group.members and (group.generation_id or 0) > 1 and age_ms <= _RECENT_MS:
            command = kgroup_command(
                "history rebalances", (group.group_id,), reaching(Reach.RECORDS)
            )
            yield f"The group rebalanced {rough_age(age_ms)} ago. To see why, run: {command}"
