"""`kgroup history` and its commands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.command_group import CommandGroup
from kgroup.cli.option.common import (
    ID,
    PATH,
    SAMPLE_OPTION,
    examples,
    log_dirs,
    output_options,
    parsed,
    parsed_time,
    section_options,
)
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.file import OutputFile, output_file_option
from kgroup.cli.option.parameter import (
    parse_duration,
    parse_instant,
    parse_seconds,
    parse_some_time,
    parse_time,
)
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.option.warehouse import (
    HistoryChoice,
    SparkChoice,
    StoredChoice,
    TimeRange,
    WarehouseChoice,
    any_group_argument,
    at_option,
    explain_write_errors,
    group_argument,
    history_options,
    is_below,
    length_option,
    spark_options,
    stored_options,
    time_options,
    to_option,
    topic_option,
    warehouse_options,
    whole_stored_options,
)
from kgroup.cli.output.context import (
    Output,
    is_terminal,
    json_errors,
    show,
    warn,
    warn_notes,
    write,
)
from kgroup.cli.output.described import SECTION_COLUMNS, check_sections, show_groups
from kgroup.cli.output.progress import ProgressLine
from kgroup.errors import ExitStatus, UsageError
from kgroup.model.instant import shown_time
from kgroup.source.config.client_setting import MOST_LONG, whole_number

if TYPE_CHECKING:
    from kgroup.history.build.build import ClusterReport
    from kgroup.history.build.retention import TableRemoval
    from kgroup.history.query.commit_summary import CommitSummary
    from kgroup.history.query.lag import Lag
    from kgroup.history.sql.engine import Engine
    from kgroup.history.sql.question import Interval
    from kgroup.history.warehouse.store import Location
    from kgroup.operation.report import Report
    from kgroup.spark.stream import BatchProgress


command = CommandGroup(
    "kgroup history",
    """Show what happened, and why: timeline, rebalances, owner, commits, lag, as-of.

    The records of __consumer_offsets show what groups did, until compaction removes them. Most
    commands read them from a cluster, a log directory or the sample data. To keep the distant past,
    and to ask about many groups, store the records in a warehouse, a folder of tables that 'build'
    and 'stream' fill; 'show', 'stale' and 'sql' need one.
    """,
)


@command.command(
    "build",
    epilog=examples(
        "kgroup history build --sample --to warehouse",
        "kgroup history build --from /var/lib/kafka/data --to warehouse",
        "kgroup history build --from /backup/broker-1 /backup/broker-2 --to warehouse",
        "kgroup history build -b kafka-1:9092 --to warehouse --cluster prod",
        "kgroup history build --from s3://logs/kafka --to warehouse --master spark://spark-1:7077",
        "kgroup history build -b kafka-1:9092 --to warehouse --metrics build.prom",
    ),
)
@click.option(
    "--from",
    "locations",
    metavar="PATH",
    multiple=True,
    help="Read a log directory, a folder of segments, a segment of __consumer_offsets, or a URI "
    "such as s3://bucket/folder; or a snapshot, for the log end offsets that 'history lag' needs. "
    "More paths can follow, also of other brokers.",
)
@click.argument("more", metavar="[PATH...]", nargs=-1)
@SAMPLE_OPTION
@to_option
@click.option(
    "--cluster",
    metavar="NAME",
    type=ID,
    help="Name of the cluster in the warehouse.  [default: the cluster id, from meta.properties "
    "or the brokers]",
)
@output_file_option(
    "--metrics",
    kind=FileKind.METRICS,
    text="Also write metrics of the run to this file, for node-exporter's textfile collector.",
    required=False,
)
@spark_options("local[*] from 4 GiB on with more than 4 processors; otherwise threads")
@connection_options
@output_options("history.BUILD_COLUMNS")
def build_command(
    locations: Sequence[str],
    more: Sequence[str],
    sample: bool,
    root: Location,
    cluster: str | None,
    target: OutputFile | None,
    spark: SparkChoice,
    connection: Connection,
    output: Output,
) -> ExitStatus:
    """Build a warehouse from the records of __consumer_offsets, or update it.

    Only new records are read, and records that several brokers have are stored once, so run it as
    often as you like, before compaction removes records. The records of a run become visible
    together, when it ends. From a cluster, a run also records where the logs of all topics end, for
    'history lag'. Nothing is written to the cluster.

    Without --cluster, each cluster in the input is stored under its own id.
    """
    if more and not locations:
        raise click.UsageError(f"{more[0]}: put paths after --from")
    locations = (*locations, *more)
    if "" in locations:
        raise click.UsageError("--from: expected a path, found an empty string")
    if cluster == "":
        raise click.UsageError("--cluster: expected a name, found an empty string")
    given = {"--from": locations, "--sample": sample, connection.chosen_by: connection.chosen_by}
    chosen = [option for option, is_given in given.items() if option and is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are two sources; choose one of them")
    if not (chosen or connection.is_default):
        raise click.UsageError(
            "no input given: use --from PATH... (files and folders), --bootstrap-server HOST:PORT "
            "or --profile NAME (a cluster), or --sample"
        )
    locations = locations or tuple(map(str, log_dirs((), sample=sample)))
    if target is not None and is_below(target.path, root):
        raise click.UsageError(
            f"--metrics: expected a file outside of the warehouse, found {target.path}"
        )

    from kgroup.history.build.build import Build, build_from_cluster, build_from_files
    from kgroup.history.warehouse.warehouse import write_warehouse
    from kgroup.render.history import build_metrics, build_sheet
    from kgroup.spark.runner import runner

    progress = ProgressLine(writes_rows=False)

    def note(text: str) -> None:
        progress.clear()
        warn(f"note: {text}")

    with json_errors(output):
        if locations:
            build_from = build_from_files(locations, cluster)
        else:
            build_from = build_from_cluster(
                connection.client_config(), cluster, connection.timeout_s, with_log_ends=True
            )
        with (
            explain_write_errors(root),
            write_warehouse(root) as writer,
            runner(spark.master, spark.settings, note, progress.on_compile) as run,
        ):
            report = build_from(Build(writer, run, progress.show_share))
        progress.finish()
    status = show(report, output, sheet=build_sheet)
    if target is not None:
        with target.open() as file:
            file.writelines(
                text.encode() for text in build_metrics(report, time.time_ns() // 1_000_000)
            )
    return status


@command.command(
    "stream",
    epilog=examples(
        "kgroup history stream -b kafka-1:9092 --to warehouse",
        "kgroup history stream -b kafka-1:9092 --to warehouse --every 10 --cluster prod",
    ),
)
@to_option
@click.option(
    "--cluster",
    metavar="NAME",
    type=ID,
    help="Name of the cluster in the warehouse.  [default: its id]",
)
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    default="60",
    show_default=True,
    callback=parsed(parse_seconds),
    help="Start a batch every SECONDS.",
)
@spark_options("local[*]")
@connection_options
def stream_command(
    root: Location, cluster: str | None, every_s: float, spark: SparkChoice, connection: Connection
) -> ExitStatus:
    """Keep a warehouse up to date from a cluster, until interrupted.

    Writes new records of __consumer_offsets into the tables in batches, each record once. Spark's
    executors read the records. Lines on standard error show each batch and its rate. The first
    batch starts with what the warehouse does not have yet. When interrupted, it completes the
    running batch first. About once a minute, a batch also records where the logs of all topics end,
    for 'history lag'.

    Nothing is written to the cluster. Other builds may use the warehouse between two batches.
    """
    if cluster == "":
        raise click.UsageError("--cluster: expected a name, found an empty string")
    from kgroup.history.input.live_source import ask_live
    from kgroup.spark.session import check_installed, spark_session

    check_installed()
    config = connection.client_config()
    # Connect before starting Spark, which is slow.
    name = ask_live(config, cluster, connection.timeout_s).cluster
    with (
        explain_write_errors(root, "The tables have the records of all earlier batches."),
        spark_session(spark.master, spark.settings, only_tasks=True) as session,
    ):
        from kgroup.spark.stream import stream_history  # PySpark is installed

        warn(f"note: Spark has started; new records are written every {every_s:g} s")
        stream_history(
            session,
            config,
            name,
            root,
            every_s=every_s,
            on_report=_show,
            on_progress=_show_progress,
        )
    return ExitStatus.DONE


def _show_progress(progress: BatchProgress) -> None:
    rate = progress.records / max(progress.seconds, 0.001)
    warn(
        f"batch {progress.number}: {progress.records:,} records in {progress.seconds:.1f} s, "
        f"{rate:,.0f} per second"
    )


def _show(report: Report[ClusterReport]) -> None:
    from kgroup.render.history import build_line

    for cluster in report.data:
        warn(build_line(cluster))
    for problem in report.errors:
        warn(f"error: {problem.reason}")


@command.command(
    "show",
    epilog=examples(
        "kgroup history show --warehouse warehouse",
        "kgroup history show --warehouse warehouse --groups",
        "kgroup history show --warehouse warehouse --cluster prod --partitions",
        "kgroup history show --warehouse warehouse --tables -o json",
        "kgroup history show --warehouse warehouse --views",
    ),
)
@click.option(
    "--partitions",
    is_flag=True,
    help="Show a row for each partition of __consumer_offsets instead.",
)
@click.option("--groups", "of_groups", is_flag=True, help="Show a row for each group instead.")
@click.option(
    "--tables",
    is_flag=True,
    help="Show the data dictionary instead: a row for each column of the tables.",
)
@click.option(
    "--views",
    is_flag=True,
    help="Write SQL for DuckDB instead: views of the tables, with timestamps and comments.",
)
@warehouse_options
@output_options(
    "history.CLUSTER_INVENTORY_COLUMNS",
    {
        "--partitions": "history.PARTITION_INVENTORY_COLUMNS",
        "--groups": "history.GROUP_INVENTORY_COLUMNS",
        "--tables": "history.TABLE_COLUMNS",
    },
)
def show_command(
    partitions: bool,
    of_groups: bool,
    tables: bool,
    views: bool,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Show what a warehouse has: clusters, records, time range and damage.

    json always has the partitions of each cluster, too.
    """
    given = {
        "--partitions": partitions,
        "--groups": of_groups,
        "--tables": tables,
        "--views": views,
    }
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} have different rows; choose one of them")
    if views and (output.form != "table" or output.columns):
        raise click.UsageError("--views writes SQL; leave out -o and --columns")
    from kgroup.history.query.inventory import groups_of, inventory_of, table_columns
    from kgroup.render.history import partition_inventory_sheet

    if tables or views:
        from kgroup.history.sql.view import view_statements

        with json_errors(output), warehouse.open_both() as (opened, _):
            if tables:
                return show(table_columns(), output)
            write(view_statements(opened.build, opened.files(warehouse.cluster)))
        return ExitStatus.DONE
    if of_groups:
        with json_errors(output), warehouse.open() as engine:
            inventory = groups_of(engine, warehouse.cluster)
        return show(inventory, output)
    with json_errors(output), warehouse.open_both() as (opened, engine):
        report = inventory_of(opened, engine, warehouse.cluster)
    return show(report, output, sheet=partition_inventory_sheet if partitions else None)


@command.command(
    "owner",
    epilog=examples(
        "kgroup history owner orders 2 -b kafka-1:9092 --group billing --at 03:12",
        "kgroup history owner --warehouse warehouse orders 2 --at 2026-11-29T19:51:23Z",
        "kgroup history owner --warehouse warehouse orders 2 --group order-service "
        "--between 2026-11-29 now",
        "kgroup history owner --warehouse warehouse orders 0 --at 2h --cluster prod -o json",
    ),
)
@click.argument("topic", type=ID)
@click.argument("partition", type=click.IntRange(0, 2**31 - 1))
@at_option(
    "Show the owner at this time: 03:12, RFC 3339, epoch milliseconds, or an age (2h).  [default: "
    "now]"
)
@click.option(
    "--between",
    metavar="FROM TO",
    nargs=2,
    callback=parsed_time(),
    help="Show the owners between these times, and the times without an owner.",
)
@click.option(
    "--group",
    "group_id",
    metavar="GROUP",
    type=ID,
    shell_complete=suggest_groups,
    help="Select this group.",
)
@history_options
@output_options("history.OWNER_COLUMNS")
def owner_command(
    topic: str,
    partition: int,
    at_ms: int | None,
    between: tuple[int, int] | None,
    group_id: str | None,
    records: HistoryChoice,
    output: Output,
) -> ExitStatus:
    """Show who owned a partition at a time, or over time.

    Prints a row for each group and owner: member, client, host, the generation in which it got the
    partition, and from when to when it owned it. If nobody owned it, or nothing is known, a row
    says why.
    """
    if at_ms is not None and between is not None:
        raise click.UsageError("--at takes one time, --between two; choose one of them")
    if at_ms is None:
        at_ms = parse_instant("now")
    since_ms, until_ms = between or (at_ms, at_ms)
    if since_ms > until_ms:
        raise click.UsageError("--between expects the earlier time first")
    from kgroup.history.query.owner import owners

    asked = (topic, partition, since_ms, until_ms)
    with json_errors(output):
        report = records.ask(
            lambda engine: owners(engine, *asked, group_id=group_id, cluster=records.cluster),
            group_id,
            needs_all=True,
            with_others=True,
        )
    return show(report, output)


@command.command(
    "timeline",
    epilog=examples(
        "kgroup history timeline --sample order-service",
        "kgroup history timeline -b kafka-1:9092 billing --since 3h",
        "kgroup history timeline --warehouse warehouse fraud-check --topic orders "
        "--since 2026-11-29 -o csv",
    ),
)
@group_argument
@topic_option
@time_options("Leave out what ended by this time.", "Leave out what started at this time or later.")
@history_options
@output_options("history.INTERVAL_COLUMNS")
def timeline_command(
    group_id: str, topic: str | None, span: TimeRange, records: HistoryChoice, output: Output
) -> ExitStatus:
    """Show who owned what in a group, over time.

    Prints a row for each time range in which a member owned a partition, or ran a task. A terminal
    shows a drawing instead, unless columns are selected.
    """
    from kgroup.history.query.owner import timeline
    from kgroup.render.history import picture_text

    is_drawn = is_terminal() and output.form == "table"
    with json_errors(output):
        report = records.ask(
            lambda engine: timeline(
                engine, group_id, **span, topic=topic, cluster=records.cluster, with_last=is_drawn
            ),
            group_id,
            span["since_ms"],
        )

    def picture(rows: tuple[Interval, ...]) -> Iterator[str]:
        columns = get_terminal_size().columns
        return picture_text(rows, columns, **span, last_ms=report.last_ms)

    return show(report, output, picture if is_drawn else None)


@command.command(
    "commits",
    epilog=examples(
        "kgroup history commits billing -b kafka-1:9092 --since 3h",
        "kgroup history commits --warehouse warehouse order-service",
        "kgroup history commits --warehouse warehouse order-service --longer-than 10s "
        "--pauses -o csv",
        "kgroup history commits --warehouse warehouse billing --since 2d --topic orders",
    ),
)
@group_argument
@topic_option
@time_options("Select commits from this time on.", "Select commits before this time.")
@length_option("--longer-than", "pause_ms", "5m", "List pauses that are longer than this.")
@click.option("--pauses", is_flag=True, help="Write pauses in csv, tsv and with --columns.")
@click.option("--jumps", is_flag=True, help="Write backward jumps in csv, tsv and with --columns.")
@history_options
@output_options(
    "history.COMMIT_COLUMNS",
    {"--pauses": "history.PAUSE_COLUMNS", "--jumps": "history.JUMP_COLUMNS"},
)
def commits_command(
    group_id: str,
    topic: str | None,
    span: TimeRange,
    pause_ms: int,
    pauses: bool,
    jumps: bool,
    records: HistoryChoice,
    output: Output,
) -> ExitStatus:
    """Show how often a group committed, its pauses, and its backward jumps.

    A backward jump is a commit of a lower offset than the one before: offsets were reset, or
    records are read again. Owners are those of the partition at the time of the commits; without a
    known owner, somebody else committed, such as an administrator. Commits of aborted and open
    transactions are left out.
    """
    if pauses and jumps:
        raise click.UsageError("--pauses and --jumps have different columns; choose one of them")
    from kgroup.history.query.commit_summary import commit_summaries
    from kgroup.render.history import commit_page, jump_sheet, pause_sheet

    with json_errors(output):
        report = records.ask(
            lambda engine: commit_summaries(
                engine, group_id, pause_ms=pause_ms, **span, topic=topic, cluster=records.cluster
            ),
            group_id,
            span["since_ms"],
        )
    if not jumps:
        report = replace(report, notes=(*report.notes, *_shorter_pauses(report.data, pause_ms)))
    sheet = pause_sheet if pauses else jump_sheet if jumps else None
    page = None if pauses or jumps else commit_page
    return show(report, output, page, sheet=sheet)


def _shorter_pauses(summaries: Sequence[CommitSummary], pause_ms: int) -> Iterator[str]:
    """Yield a note with the longest pause, if it is too short to be listed."""
    from kgroup.render.cell import Kind, cell

    if any(summary.pauses for summary in summaries):
        return
    longest = max(summaries, key=lambda summary: summary.longest_pause_ms or 0, default=None)
    if longest is not None and longest.longest_pause_ms is not None:
        limit, length = (cell(ms, Kind.DURATION) for ms in (pause_ms, longest.longest_pause_ms))
        place = f"{longest.topic}-{longest.partition}"
        yield f"No pause is longer than {limit} (--longer-than); the longest is {length} ({place})."


@command.command(
    "stale",
    epilog=examples(
        "kgroup history stale --warehouse warehouse --for 10s",
        "kgroup history stale --warehouse warehouse --for 3d --retention 14d -o csv",
    ),
)
@length_option("--for", "silent_ms", "1d", "Find offsets without a commit for this long.")
@length_option("--expiring", "expiring_ms", "1d", "Also find offsets that expire within this time.")
@length_option(
    "--retention",
    "retention_ms",
    "7d",
    "Offset retention of the brokers (offsets.retention.minutes).",
)
@at_option(
    "Find them as of this time: 03:12, RFC 3339, epoch milliseconds, or an age (2h).  [default: "
    "the last record of each cluster]"
)
@warehouse_options
@output_options("history.STALE_COLUMNS")
def stale_command(
    silent_ms: int,
    expiring_ms: int,
    retention_ms: int,
    at_ms: int | None,
    warehouse: WarehouseChoice,
    output: Output,
) -> ExitStatus:
    """Find committed offsets that are no longer updated, or about to expire.

    Prints a row for each partition: the time since the last commit, the owner, if there is one,
    when the coordinator may remove the offset, and what decides that (Kafka 2.1 and later): a time
    stored with the offset, how long the group has been empty, or the time of the commit. Offsets of
    topics that the group subscribes to are kept.
    """
    from kgroup.history.query.stale import stale_offsets

    with json_errors(output), warehouse.open() as engine:
        report = stale_offsets(
            engine,
            silent_ms=silent_ms,
            expiring_ms=expiring_ms,
            retention_ms=retention_ms,
            at_ms=at_ms,
            cluster=warehouse.cluster,
        )
    return show(report, output)


@command.command(
    "lag",
    epilog=examples(
        "kgroup history lag billing -b kafka-1:9092",
        "kgroup history lag --warehouse warehouse order-service --snapshot snapshot.json",
        "kgroup history lag --warehouse warehouse order-service --at 2026-11-29T19:51:33Z",
        "kgroup history lag --warehouse warehouse billing --since 7d -o csv",
    ),
)
@group_argument
@topic_option
@at_option(
    "Show the lag at this time, with the last log end offsets recorded before it.  [default: the "
    "newest]"
)
@time_options(
    "Instead, show the lag at every recorded time from this one on.",
    "Instead, show the lag at every recorded time before this one.",
)
@click.option(
    "--snapshot",
    "snapshots",
    metavar="FILE",
    multiple=True,
    type=PATH,
    help="Also use the log end offsets in this file of 'kgroup snapshot'. Repeatable.",
)
@history_options
@output_options("history.LAG_COLUMNS")
def lag_command(
    group_id: str,
    topic: str | None,
    at_ms: int | None,
    span: TimeRange,
    snapshots: Sequence[Path],
    records: HistoryChoice,
    output: Output,
) -> ExitStatus:
    """Show the lag of a group at times when log end offsets were recorded.

    __consumer_offsets has no log end offsets. 'build' and 'stream' record them from a cluster (-b),
    and snapshots have them. A row compares a log end offset with the offset that was committed when
    it was recorded. Without a log end offset, the lag is unknown.
    """
    if at_ms is not None and span != {"since_ms": None, "until_ms": None}:
        raise click.UsageError("--at takes one time; choose either --at, or --since and --until")
    from kgroup.history.query.lag import lags
    from kgroup.history.sql.question import ends_of
    from kgroup.source.snapshot.file import read_snapshot

    with json_errors(output):
        ends = [end for path in snapshots for end in ends_of(read_snapshot(path))]

        def question(engine: Engine) -> Report[Lag]:
            return lags(
                engine,
                group_id,
                at_ms=at_ms,
                **span,
                topic=topic,
                given=[*ends, *records.log_ends(engine, group_id)],
                cluster=records.cluster,
            )

        report = records.ask(question, group_id, needs_all=True, with_log_ends=True)
    return show(report, output)


@command.command(
    "rebalances",
    epilog=examples(
        "kgroup history rebalances --sample order-service",
        "kgroup history rebalances -b kafka-1:9092 billing",
        "kgroup history rebalances --warehouse warehouse billing",
        "kgroup history rebalances --warehouse warehouse billing --since 2d -o json",
        "kgroup history rebalances --warehouse warehouse --columns time,group_id,cause,evidence",
    ),
)
@any_group_argument
@time_options("Select rebalances from this time on.", "Select rebalances before this time.")
@history_options
@output_options("history.REBALANCE_COLUMNS")
def rebalances_command(
    group_id: str | None, span: TimeRange, records: HistoryChoice, output: Output
) -> ExitStatus:
    """Show when and why a group, or every group, rebalanced.

    A rebalance is a new generation of a classic group, or a new epoch of a consumer, share or
    streams group. Each has the members before and after, the partitions that moved, how long it
    took as far as the log shows, and its cause with the evidence: 'certain' if the records prove
    it, 'inferred' if they make it likely.

    A table for each group shows what happened; --columns, csv and json have more.
    """
    from kgroup.history.rebalance.query import rebalances
    from kgroup.render.history import rebalance_page

    with json_errors(output):
        report = records.ask(
            lambda engine: rebalances(engine, group_id, **span, cluster=records.cluster),
            group_id,
            span["since_ms"],
        )
    page = rebalance_page if report.data else None
    return show(report, output, page)


def _parse_rate(text: str) -> tuple[int, int]:
    """Parse ``5/10m``: a number of rebalances, and a duration in milliseconds."""
    count, _, length = text.partition("/")
    number = whole_number(count, MOST_LONG) if count.isascii() else None
    if number is None or number < 2 or not length:
        raise ValueError(
            f"expected a number of 2 or more and a duration, as in 5/10m, found {text!r}"
        )
    return number, parse_duration(length)


@command.command(
    "storms",
    epilog=examples(
        "kgroup history storms billing -b kafka-1:9092",
        "kgroup history storms --warehouse warehouse",
        "kgroup history storms --warehouse warehouse billing --rate 10/1h --since 7d",
    ),
)
@any_group_argument
@click.option(
    "--rate",
    metavar="N/TIME",
    default="5/10m",
    show_default=True,
    callback=parsed(_parse_rate),
    help="Number of rebalances within a time that make a storm.",
)
@time_options("Select rebalances from this time on.", "Select rebalances before this time.")
@history_options
@output_options("history.STORM_COLUMNS")
def storms_command(
    group_id: str | None,
    rate: tuple[int, int],
    span: TimeRange,
    records: HistoryChoice,
    output: Output,
) -> ExitStatus:
    """Find times when groups rebalanced too often, and who caused it.

    Prints a row for each storm: start, end, number of rebalances, and the clients that joined, left
    or changed most often in it.
    """
    from kgroup.history.rebalance.query import find_storms

    count, within_ms = rate
    with json_errors(output):
        report = records.ask(
            lambda engine: find_storms(
                engine, group_id, count=count, within_ms=within_ms, **span, cluster=records.cluster
            ),
            group_id,
            span["since_ms"],
        )
    return show(report, output)


@command.command(
    "report",
    epilog=examples(
        "kgroup history report billing -b kafka-1:9092 --html billing.html",
        "kgroup history report --warehouse warehouse billing --html billing.html",
        "kgroup history report --warehouse warehouse billing --since 2d --html billing.html",
    ),
)
@group_argument
@output_file_option("--html", kind=FileKind.PAGE, text="Write the page to this file.")
@time_options("Show the history from this time on.", "Show the history before this time.")
@history_options
def report_command(
    group_id: str, target: OutputFile, span: TimeRange, records: HistoryChoice
) -> ExitStatus:
    """Write the history of a group as an HTML page that works offline.

    The page shows owners, rebalances with their causes, when members were in the group, how often
    the group committed, and its lag if log end offsets were recorded. An existing page of kgroup is
    replaced once the new one is complete; replacing any other file requires --force.
    """
    from kgroup.history.query.group_page import group_page
    from kgroup.render.history_page import group_html

    report = records.ask(
        lambda engine: group_page(
            engine,
            group_id,
            **span,
            given=records.log_ends(engine, group_id),
            cluster=records.cluster,
        ),
        group_id,
        span["since_ms"],
        with_log_ends=True,
    )
    (page,) = report.data
    with target.open() as output:
        output.writelines(text.encode() for text in group_html(page))
    warn_notes(report.notes)
    warn(f"note: page written to {target.path}")
    return report.exit_status


def _parse_first_time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise ValueError(f"{error}. The time comes first, then the group: TIME GROUP") from None


@command.command(
    "as-of",
    epilog=examples(
        "kgroup history as-of 03:12 billing -b kafka-1:9092",
        "kgroup history as-of --warehouse warehouse 2026-11-29T19:51:23Z order-service",
        "kgroup history as-of --warehouse warehouse now order-service --members -o csv",
    ),
)
@click.argument("at_ms", metavar="TIME", callback=parsed_time(_parse_first_time))
@group_argument
@section_options
@history_options
@output_options(SECTION_COLUMNS["--offsets"], SECTION_COLUMNS)
def as_of_command(
    at_ms: int, group_id: str, sections: tuple[str, ...], records: HistoryChoice, output: Output
) -> ExitStatus:
    """Describe a group as it was at a time.

    TIME is a local time (03:12, 'yesterday 03:12'), RFC 3339, epoch milliseconds, now, or an age
    (2h). Shows what 'kgroup describe' would have shown: the records up to TIME are replayed as a
    coordinator would. What no record has is unknown, such as a rebalance in progress. Lag is known
    if the log end offset was recorded after the commit, at most two minutes before TIME.
    """
    check_sections(sections, output)
    from kgroup.history.query.past_group import describe_past

    with json_errors(output):
        report = records.ask(
            lambda engine: describe_past(engine, group_id, at_ms, cluster=records.cluster),
            group_id,
            needs_all=True,
        )
    if report.data:
        note = f"Group {group_id!r} as of {shown_time(at_ms)}"
        if at_ms > parse_instant("now"):
            note += ", which is in the future: it may have changed by then"
        report = replace(report, notes=(f"{note}.", *report.notes))
    return show_groups(report, output, sections, at_ms)


@command.command(
    "sql",
    epilog=examples(
        "kgroup history sql --warehouse warehouse 'SELECT group_id, COUNT(*) AS commits "
        "FROM offset_commits GROUP BY group_id'",
        "kgroup history sql --warehouse warehouse 'DESCRIBE assignments'",
    ),
)
@click.argument("query", metavar="SELECT")
@warehouse_options
@output_options(None)
def sql_command(query: str, warehouse: WarehouseChoice, output: Output) -> ExitStatus:
    """Run a SELECT on the tables of a warehouse.

    \b
    offset_commits         committed offsets
    group_generations      records of classic groups
    consumer_group_epochs  records of consumer, share and streams groups
    members                members in these records
    assignments            time ranges in which a member owned a partition
    tombstones             records without a value
    transactions           ends of transactions
    other_records          all other records
    log_ends               log end offsets recorded by builds of a cluster and snapshots
    damage                 byte ranges that could not be read

    Times are epoch milliseconds; epoch_ms(time_ms) is a timestamp (timestamp_millis with Spark).
    Each table also has the columns cluster and date. A query can read these tables, and nothing
    else. 'DESCRIBE TABLE' shows the columns of a table; 'kgroup history show
    --tables' says what each means.
    """
    from kgroup.history.sql.user_query import ask_sql
    from kgroup.render.history import answer_sheet

    with json_errors(output), warehouse.open() as engine:
        try:
            answer = ask_sql(engine, query)
        except UsageError as error:  # as click's, which refers to the help with the tables
            raise click.UsageError(str(error)) from None
    # Show all columns of the query, even those without values.
    output = replace(output, columns=output.columns or tuple(answer.columns))
    return show(answer, output, sheet=lambda rows: answer_sheet(answer))


_EXECUTE = "nothing was changed; --execute carries it out"


@command.command(
    "expire",
    epilog=examples(
        "kgroup history expire --warehouse warehouse --older-than 30d",
        "kgroup history expire --warehouse warehouse --older-than 30d --cluster prod --execute",
    ),
)
@click.option(
    "--older-than",
    "age_ms",
    metavar="TIME",
    required=True,
    callback=parsed(parse_some_time),
    help="Remove what is older, such as 30d.",
)
@stored_options
@output_options("history.REMOVAL_COLUMNS")
def expire_command(age_ms: int, stored: StoredChoice, output: Output) -> ExitStatus:
    """Remove the records of past days from a warehouse.

    A file has the rows of one day, and is removed when all of them are older; with a time of less
    than a day, today's rows may be removed, too. As in a compacted topic, the last record of each
    group, member and committed offset is kept, as are assignments that have not ended. Later builds
    do not read expired records again. Later queries print where the retained time begins.

    The files are deleted an hour later, by the next build, or by 'history vacuum'.
    """
    from kgroup.history.build.retention import expire, expired_rows

    before_ms = time.time_ns() // 1_000_000 - age_ms
    with json_errors(output):
        rows = stored.plan(
            lambda warehouse: expired_rows(warehouse, before_ms, stored.cluster),
            lambda writer: expire(writer, before_ms, stored.cluster),
        )
    return _show_removals(rows, stored, output, f"nothing is older than {shown_time(before_ms)}")


@command.command(
    "delete",
    epilog=examples(
        "kgroup history delete --warehouse warehouse --group old-billing",
        "kgroup history delete --warehouse warehouse --group old-billing --execute",
    ),
)
@click.option(
    "--group",
    "group_ids",
    metavar="GROUP",
    type=ID,
    required=True,
    multiple=True,
    shell_complete=suggest_groups,
    help="Id of the group. Repeatable.",
)
@stored_options
@output_options("history.REMOVAL_COLUMNS")
def delete_command(group_ids: Sequence[str], stored: StoredChoice, output: Output) -> ExitStatus:
    """Remove all rows of groups from all tables of a warehouse.

    Later builds store new records of the groups, but do not read the removed ones again.

    The files are deleted an hour later, by the next build, or by 'history vacuum'.
    """
    from kgroup.history.build.retention import delete_groups, rows_of_groups

    with json_errors(output):
        rows = stored.plan(
            lambda warehouse: rows_of_groups(warehouse, group_ids, stored.cluster),
            lambda writer: delete_groups(writer, group_ids, stored.cluster),
        )
    return _show_removals(rows, stored, output, "")


def _show_removals(
    rows: Sequence[TableRemoval], stored: StoredChoice, output: Output, otherwise: str
) -> ExitStatus:
    from kgroup.history.warehouse.store import as_typed
    from kgroup.operation.printed_command import kgroup_command
    from kgroup.operation.report import Report

    if not rows:
        notes = (otherwise,)
    elif not stored.execute:
        notes = (_EXECUTE,)
    else:
        vacuum = kgroup_command(
            "history vacuum",
            (),
            ("--warehouse", as_typed(stored.root), "--keep", "0s", "--execute"),
        )
        notes = (f"the files are kept for an hour; to delete them now, run: {vacuum}",)
    return show(Report(tuple(rows), notes=notes), output)


@command.command(
    "vacuum",
    epilog=examples(
        "kgroup history vacuum --warehouse warehouse",
        "kgroup history vacuum --warehouse warehouse --keep 0s --execute",
    ),
)
@length_option(
    "--keep",
    "kept_ms",
    "1h",
    "Keep files that were replaced within this time: questions may still be reading them.",
)
@whole_stored_options
@output_options("history.VACUUM_COLUMNS")
def vacuum_command(kept_ms: int, stored: StoredChoice, output: Output) -> ExitStatus:
    """Delete files of a warehouse that are not needed any more.

    These are files that a build, 'history expire' or 'history delete' replaced, and files that a
    killed build left. A build deletes them, too, after an hour.
    """
    from kgroup.history.build.retention import unneeded_files
    from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
    from kgroup.operation.report import Report

    with json_errors(output), read_warehouse(stored.root) as warehouse:
        found = unneeded_files(warehouse, kept_ms)
        if stored.execute:
            with explain_write_errors(stored.root), write_warehouse(stored.root) as writer:
                writer.vacuum(kept_ms)
    notes = () if stored.execute else (_EXECUTE,)
    return show(Report((found,), notes=notes), output)
