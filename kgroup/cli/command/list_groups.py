"""`kgroup list`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import examples, output_options, parsed, sort_option
from kgroup.cli.option.group_filter import group_filter_options
from kgroup.cli.option.parameter import parse_seconds, parse_some_time
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.output.context import Output, columns_named, json_errors, show
from kgroup.cli.output.round_lines import check_watch, is_screen
from kgroup.errors import ExitStatus
from kgroup.model.group import GroupType

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgroup.operation.group_filter import GroupFilter
    from kgroup.operation.list_groups import ListedGroup
    from kgroup.operation.report import Report, Sort

MEMBER_COLUMNS = frozenset({"assignor", "member_count", "topics"})
"""Columns for which a cluster must be asked about each group."""
LAG_COLUMNS = frozenset(
    {
        *("total_lag", "unknown_count", "worst", "worst_topic", "worst_partition", "worst_lag"),
        *("last_commit_age", "last_commit_timestamp", "max_time_lag"),
    }
)
"""Columns, without ``_ms``, for which committed offsets and log end offsets must be read."""
_COMMIT_COLUMNS = frozenset({"last_commit_age", "last_commit_timestamp"})
_SORTS = ("name", "lag", "time-lag", "state", "members", "last-commit")
_LAG_SORTS = ("lag", "time-lag", "last-commit")


@click.command(
    "list",
    cls=Command,
    epilog=examples(
        "kgroup list --sample",
        "kgroup list --sample --sort=-lag",
        "kgroup list --sample --type classic --state Stable",
        "kgroup list --sample --min-lag 5",
        "kgroup list --sample --idle-for 10s",
        "kgroup list --sample --type zookeeper --no-lag",
        "kgroup list --sample --topic orders -o tsv --no-headers --columns group_id",
        "kgroup list --sample --no-lag --columns group_id,coordinator,offsets_partition",
        "kgroup list -b kafka-1:9092,kafka-2:9092 --state Empty --state Dead",
        "kgroup list -b kafka-1:9092 --min-lag 1000 --watch 5",
        "kgroup list --log-dir /var/lib/kafka/data --regex 'billing-.*' -o json",
    ),
)
@source_options(required=True)
@group_filter_options
@click.option(
    "--min-lag",
    metavar="N",
    type=click.IntRange(min=0),
    help="Select groups with a lag of at least N records.",
)
@click.option(
    "--idle-for",
    "idle_for_ms",
    metavar="DURATION",
    callback=parsed(parse_some_time),
    help="Select groups without members that have not committed for this long: 30d, 12h.",
)
@sort_option(
    _SORTS,
    "Sort groups by KEY, by name by default; time-lag reads a few kilobytes of each partition with "
    "lag.",
)
@click.option(
    "--no-lag",
    is_flag=True,
    help="Leave out lag and last commits: a cluster is only asked for its list of groups.",
)
@click.option(
    "--members",
    is_flag=True,
    help="With --no-lag: also request assignors, members and topics from a cluster; implied by "
    "--topic, and by their columns in --columns. Other sources always have them.",
)
@click.option(
    "--log-budget",
    "log_budget_mib",
    metavar="MIB",
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Read at most this many MiB back from the end of each __consumer_offsets partition of a "
    "cluster, for the times of last commits.  [default: 1; with --idle-for or --sort last-commit "
    "32]",
)
@click.option(
    "--watch",
    "watch_s",
    metavar="SECONDS",
    callback=parsed(parse_seconds),
    help="Refresh every SECONDS, until Ctrl-C. On a terminal the table is redrawn; in a pipe each "
    "refresh writes a JSON line for each group.",
)
@output_options("group.LIST_COLUMNS")
def command(
    source: Source,
    chosen: GroupFilter,
    min_lag: int | None,
    idle_for_ms: int | None,
    sort: Sort | None,
    no_lag: bool,
    members: bool,
    log_budget_mib: int | None,
    watch_s: float | None,
    output: Output,
) -> ExitStatus:
    """List groups with their state, members, lag and last commit.

    With several filters, lists the groups that match all of them. Lag counts the records of
    committed partitions; the worst partition is the one with the largest lag. Unknown values
    are -, and null in JSON.
    """
    from kgroup.operation.list_groups import (
        LAST_COMMIT_BUDGET,
        list_groups,
        list_with_lag,
        sorted_groups,
    )
    from kgroup.render.group import list_page, list_sheet
    from kgroup.render.sheet import choose
    from kgroup.source.base import DEFAULT_LOG_BUDGET

    if watch_s is not None:
        check_watch(source.file and source.file.format.name, output)
    choose(columns_named("group.LIST_COLUMNS"), output.columns)
    columns = {name.removesuffix("_ms") for name in output.columns}
    key = "name" if sort is None else sort.key
    needing_lag = {
        "--min-lag": min_lag is not None,
        "--idle-for": idle_for_ms is not None,
        "--log-budget": log_budget_mib is not None,
        f"--sort {key}": key in _LAG_SORTS,
        **{f"--columns {name}": True for name in sorted(columns & LAG_COLUMNS)},
    }
    if no_lag and any(needing_lag.values()):
        option = next(option for option, is_given in needing_lag.items() if is_given)
        raise click.UsageError(f"{option} needs the lag of groups; leave out --no-lag")
    with_lag = not no_lag and (not columns or any(needing_lag.values()))
    with_time_lag = key == "time-lag" or "max_time_lag" in columns
    if set(chosen.types) == {GroupType.ZOOKEEPER}:
        source = source.of_zookeeper
    read: Callable[..., Report[ListedGroup]]
    if with_lag:
        budget = 0
        if log_budget_mib is not None:
            budget = log_budget_mib << 20
        elif key == "last-commit" or idle_for_ms is not None:
            budget = DEFAULT_LOG_BUDGET
        elif not columns or columns & _COMMIT_COLUMNS:
            budget = LAST_COMMIT_BUDGET
        read = partial(list_with_lag, log_budget=budget, time_lags=with_time_lag, min_lag=min_lag)
    else:
        tells_all = members or source.connection is None
        read = partial(
            list_groups,
            members=tells_all
            or source.zookeeper is not None  # its states depend on the members
            or key == "members"
            or not MEMBER_COLUMNS.isdisjoint(columns),
            with_topics=tells_all or "topics" in columns,
        )
    page = partial(list_page, lag=with_lag, time_lag=with_time_lag)
    in_rounds = watch_s is not None
    of_silence = with_lag or in_rounds
    with json_errors(output), source.open(of_silence=of_silence, in_rounds=in_rounds) as groups:

        def read_sorted() -> Report[ListedGroup]:
            needs = {}
            if idle_for_ms is not None:
                needs = {"idle_since_ms": source.instant_ms(groups) - idle_for_ms}
            report = read(groups, chosen, **needs)
            return report if sort is None else sorted_groups(report, sort)

        if watch_s is not None:
            from kgroup.cli.output.listed import show_lists

            show_lists(
                read_sorted,
                lambda failed: groups.renew(after_failure=failed),
                watch_s,
                page=lambda rows: page(rows, now_ms=source.instant_ms(groups)),
                headers=output.headers,
                lines=output.form == "jsonl" or not is_screen(),
            )
        report, now_ms = read_sorted(), source.instant_ms(groups)
    return show(
        report,
        output,
        partial(page, now_ms=now_ms),
        sheet=partial(list_sheet, now_ms=now_ms, whole=bool(output.columns)),
    )
