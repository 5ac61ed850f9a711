"""Results of history commands as sheets, and ownership over time as a drawing with letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from itertools import groupby
from string import ascii_letters, digits
from textwrap import fill
from typing import TYPE_CHECKING, Any

from kgroup.errors import shown_id
from kgroup.model.instant import shown_time
from kgroup.render.cell import (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    TOPIC,
    Column,
    Kind,
    columns_of,
    harmless,
    visible,
)
from kgroup.render.json_document import json_rows
from kgroup.render.prometheus import metric
from kgroup.render.sheet import Part, Sheet, Title, apart, section

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.history.build.build import ClusterReport
    from kgroup.history.query.commit_summary import CommitSummary
    from kgroup.history.query.inventory import ClusterInventory
    from kgroup.history.rebalance.query import Storm
    from kgroup.history.rebalance.rebalance import Rebalance
    from kgroup.history.sql.question import Interval
    from kgroup.history.sql.user_query import Answer
    from kgroup.operation.report import Report


_PARTITION = Column("partition", Kind.NUMBER)
_MEMBER = (
    Column("member_id", Kind.NAME, is_reference=True),
    Column("instance_id", Kind.NAME, rank=5),
    Column("client_id", Kind.NAME, rank=2),
    Column("client_host", Kind.TEXT, rank=4),
    Column("generation_id", Kind.NUMBER, rank=3),
)
_OFFSETS_PARTITION = Column("offsets_partition", Kind.NUMBER, rank=8)
_ENDED_BY = Column("ended_by", Kind.TEXT, rank=3)
_THING = (
    Column("topic_id", Kind.TEXT, rank=8),
    Column("subtopology", Kind.TEXT, rank=7),
    Column("role", Kind.TEXT, rank=7),
)

OWNER_COLUMNS = columns_of(
    "kgroup.history.query.owner.Owner",
    CLUSTER,
    GROUP,
    replace(TOPIC, rank=9),
    replace(_PARTITION, rank=9),
    Column("status", Kind.TEXT),
    *_MEMBER,
    Column("since_ms", Kind.TIME),
    Column("until_ms", Kind.TIME, rank=1),
    _ENDED_BY,
    Column("reason", Kind.TEXT, may_go_below=True),
    replace(GROUP_TYPE, rank=6),
    *_THING,
)
INTERVAL_COLUMNS = columns_of(
    "kgroup.history.sql.question.Interval",
    CLUSTER,
    GROUP,
    replace(GROUP_TYPE, rank=6),
    TOPIC,
    _PARTITION,
    *_MEMBER,
    Column("from_ms", Kind.TIME),
    Column("to_ms", Kind.TIME, rank=1),
    _ENDED_BY,
    *_THING,
    _OFFSETS_PARTITION,
    Column("from_log_offset", Kind.NUMBER, rank=8),
    Column("to_log_offset", Kind.NUMBER, rank=8),
)
COMMIT_COLUMNS = columns_of(
    "kgroup.history.query.commit_summary.CommitSummary",
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("commit_count", Kind.NUMBER),
    Column("commits_per_minute", Kind.NUMBER, rank=2),
    Column("first_ms", Kind.TIME, rank=6),
    Column("last_ms", Kind.TIME),
    Column("first_offset", Kind.NUMBER, rank=5),
    Column("last_offset", Kind.NUMBER, rank=3),
    Column("longest_pause_ms", Kind.AGE),
    Column("longest_pause_since_ms", Kind.TIME, rank=7),
    Column(
        "pause_count",
        Kind.NUMBER,
        "number of pauses longer than --longer-than",
        lambda item: len(item.pauses),
    ),
    Column("jump_count", Kind.NUMBER, "number of backward jumps", lambda item: len(item.jumps)),
    _OFFSETS_PARTITION,
)
LAG_COLUMNS = columns_of(
    "kgroup.history.query.lag.Lag",
    CLUSTER,
    GROUP,
    Column("time_ms", Kind.TIME),
    TOPIC,
    _PARTITION,
    Column("committed_offset", Kind.NUMBER),
    Column("log_end_offset", Kind.NUMBER),
    Column("lag", Kind.NUMBER, is_alarm=True),
    Column("commit_timestamp_ms", Kind.TIME, rank=2),
    Column("log_start_offset", Kind.NUMBER, rank=3),
)
PAUSE_COLUMNS = columns_of(
    "kgroup.history.query.commit_summary.Pause",
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("since_ms", Kind.TIME),
    Column("until_ms", Kind.TIME),
    Column("pause_ms", Kind.AGE),
    Column("member_id", Kind.NAME, is_reference=True),
    Column("next_member_id", Kind.NAME, is_reference=True),
)
JUMP_COLUMNS = columns_of(
    "kgroup.history.query.commit_summary.Jump",
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("time_ms", Kind.TIME),
    Column("from_offset", Kind.NUMBER),
    Column("to_offset", Kind.NUMBER),
    Column("from_ms", Kind.TIME),
    Column("was_deleted", Kind.FLAG),
    Column("member_id", Kind.NAME, is_reference=True),
    Column("client_id", Kind.NAME, rank=2),
    Column("client_host", Kind.TEXT, rank=3),
    Column("before_member_id", Kind.NAME, is_reference=True, rank=4),
    _OFFSETS_PARTITION,
    Column("log_offset", Kind.NUMBER),
)
_RECORDS = (
    Column("record_count", Kind.NUMBER),
    Column("first_ms", Kind.TIME),
    Column("last_ms", Kind.TIME),
)
_DAMAGE = Column("damage_count", Kind.NUMBER)
CLUSTER_INVENTORY_COLUMNS = columns_of(
    "kgroup.history.query.inventory.ClusterInventory",
    CLUSTER,
    Column(
        "partition_count",
        Kind.NUMBER,
        "number of partitions of __consumer_offsets",
        lambda item: len(item.partitions),
    ),
    *_RECORDS,
    _DAMAGE,
    Column("file_count", Kind.NUMBER),
    Column("file_bytes", Kind.NUMBER),
    Column("build", Kind.NUMBER),
)
PARTITION_INVENTORY_COLUMNS = columns_of(
    "kgroup.history.query.inventory.PartitionInventory",
    CLUSTER,
    _OFFSETS_PARTITION,
    *_RECORDS,
    _DAMAGE,
    Column("first_offset", Kind.NUMBER),
    Column("last_offset", Kind.NUMBER),
    Column("missing_count", Kind.NUMBER),
)
GROUP_INVENTORY_COLUMNS = columns_of(
    "kgroup.history.query.inventory.GroupInventory", CLUSTER, GROUP, *_RECORDS
)
TABLE_COLUMNS = columns_of(
    "kgroup.history.query.inventory.TableColumn",
    Column("table", Kind.TEXT),
    Column("column", Kind.TEXT),
    Column("type", Kind.TEXT),
    Column("meaning", Kind.TEXT),
    Column("row", Kind.TEXT, rank=9),
)
STALE_COLUMNS = columns_of(
    "kgroup.history.query.stale.StaleOffset",
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("state", Kind.TEXT),
    TOPIC,
    _PARTITION,
    Column("committed_offset", Kind.NUMBER),
    Column("last_commit_ms", Kind.TIME),
    Column("silent_ms", Kind.AGE),
    Column("group_last_commit_ms", Kind.TIME),
    Column("member_id", Kind.NAME, is_reference=True),
    Column("expires_ms", Kind.TIME),
    Column("expires_by", Kind.TEXT),
)
_TIMES = ("time_ms", "from_ms", "to_ms")
"""Columns of the tables that are times, in addition to those that end in timestamp_ms; other
columns with milliseconds are durations.
"""


def pause_sheet(rows: Sequence[CommitSummary]) -> Sheet:
    """Return a sheet with one row per pause."""
    groups = (((row.cluster, row.group_id), row.pauses) for row in rows)
    return Sheet.of_parts(PAUSE_COLUMNS, groups)


def jump_sheet(rows: Sequence[CommitSummary]) -> Sheet:
    """Return a sheet with one row per backward jump."""
    groups = (((row.cluster, row.group_id), row.jumps) for row in rows)
    return Sheet.of_parts(JUMP_COLUMNS, groups)


def partition_inventory_sheet(rows: Sequence[ClusterInventory]) -> Sheet:
    """Return a sheet with one row per partition of `__consumer_offsets`."""
    clusters = (((row.cluster,), row.partitions) for row in rows)
    return Sheet.of_parts(PARTITION_INVENTORY_COLUMNS, clusters)


def commit_page(rows: Sequence[CommitSummary]) -> Iterator[Part]:
    """Yield the commits of a group, its pauses and its backward jumps."""
    yield Sheet.of(COMMIT_COLUMNS, rows).without_blank()
    for title, sheet in (("Pauses", pause_sheet(rows)), ("Backward jumps", jump_sheet(rows))):
        if sheet.rows:
            yield from section(title, sheet.without_blank())


def answer_sheet(answer: Answer) -> Sheet:
    """Return a sheet with the rows of a query's result."""
    columns = tuple(
        Column(name, _kind(name, type_), "column of the query")
        for name, type_ in answer.columns.items()
    )
    rows = [[_text(row[name]) for name in answer.columns] for row in answer.data]
    return Sheet(columns, rows)


def _kind(name: str, type_: pa.DataType) -> Kind:
    import pyarrow as pa

    if pa.types.is_integer(type_) and (name in _TIMES or name.endswith("timestamp_ms")):
        return Kind.TIME
    if pa.types.is_integer(type_) and name.endswith("_ms"):
        return Kind.DURATION
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return Kind.NUMBER
    return Kind.TEXT


def _text(value: Any) -> object:
    """Return lists and objects as JSON, as cells must be hashable; and long decimals in full."""
    if isinstance(value, dict | list):
        return b"".join(json_rows([value])).decode().rstrip()
    return format(value, "f") if isinstance(value, Decimal) else value


BUILD_COLUMNS = columns_of(
    "kgroup.history.build.build.TableCount",
    CLUSTER,
    Column("table", Kind.TEXT),
    Column("new_row_count", Kind.NUMBER),
    Column("row_count", Kind.NUMBER),
    Column("file_count", Kind.NUMBER),
    Column("file_bytes", Kind.NUMBER),
)


REMOVAL_COLUMNS = columns_of(
    "kgroup.history.build.retention.TableRemoval",
    CLUSTER,
    Column("table", Kind.TEXT),
    Column("removed_row_count", Kind.NUMBER),
    Column("row_count", Kind.NUMBER),
)

VACUUM_COLUMNS = columns_of(
    "kgroup.history.build.retention.UnneededFiles",
    Column("file_count", Kind.NUMBER),
    Column("file_bytes", Kind.NUMBER),
)


def build_sheet(reports: Sequence[ClusterReport]) -> Sheet:
    """Return a sheet with one row per table of each cluster; tables without rows are omitted."""
    tables = (filter(lambda table: table.row_count, report.tables) for report in reports)
    clusters = ((report.cluster,) for report in reports)
    return Sheet.of_parts(BUILD_COLUMNS, zip(clusters, tables, strict=True))


def build_metrics(report: Report[ClusterReport], time_ms: int) -> Iterator[str]:
    """Yield a build in Prometheus' text format.

    Args:
        report: report of the build.
        time_ms: time at which it ended.
    """
    yield from metric("build_timestamp_seconds", "Time of the run.", [({}, time_ms / 1000)])
    yield from metric(
        "build_errors",
        "Number of errors: things that could not be read.",
        [({}, len(report.errors))],
    )
    clusters = [({"cluster": each.cluster}, each) for each in report.data]
    for name, help_text, value in (
        ("records", "Number of records added by the run.", "new_record_count"),
        ("read_bytes", "Bytes read from segments by the run.", "bytes_read"),
        ("segments", "Number of segments, or partitions, with new data.", "segments_read"),
        ("damage", "Number of places that the run could not read.", "damage_count"),
    ):
        samples = [(labels, getattr(each, value)) for labels, each in clusters]
        yield from metric(f"build_{name}", help_text, samples)
    for name, help_text, value in (
        ("new_rows", "Number of rows added to a table by the run.", "new_row_count"),
        ("rows", "Number of rows of a table after the run.", "row_count"),
        ("files", "Number of files of a table.", "file_count"),
        ("file_bytes", "Total size of the files of a table.", "file_bytes"),
    ):
        tables = [
            ({**labels, "table": table.table}, getattr(table, value))
            for labels, each in clusters
            for table in each.tables
        ]
        yield from metric(f"build_table_{name}", help_text, tables)
    seconds = asdict(report.data[0].seconds) if report.data else {}
    stages = [({"stage": stage}, value) for stage, value in seconds.items()]
    yield from metric("build_stage_seconds", "Duration of a stage of the run.", stages)


def build_line(report: ClusterReport) -> str:
    """Return a line with the changes of a cluster's tables."""
    tables = (
        f"{table.new_row_count:,} {table.table}" for table in report.tables if table.new_row_count
    )
    return f"{report.cluster}: {', '.join(tables) or 'nothing new'}"


REBALANCE_COLUMNS = columns_of(
    "kgroup.history.rebalance.rebalance.Rebalance",
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("time_ms", Kind.TIME),
    Column("generation_before", Kind.NUMBER),
    Column("generation_id", Kind.NUMBER),
    Column(
        "member_count_before",
        Kind.NUMBER,
        "number of members before the rebalance",
        lambda item: None if item.members_before is None else len(item.members_before),
        rank=3,
    ),
    Column(
        "member_count",
        Kind.NUMBER,
        "number of members after the rebalance",
        lambda item: len(item.members),
    ),
    Column("moved_count", Kind.NUMBER),
    Column("sync_ms", Kind.DURATION),
    Column("reconcile_ms", Kind.DURATION),
    Column("commit_gap_ms", Kind.AGE),
    Column("cause", Kind.TEXT),
    Column("certainty", Kind.TEXT, rank=2),
    Column("evidence", Kind.TEXT, may_go_below=True),
    Column("protocol", Kind.TEXT),
    Column("offsets_partition", Kind.NUMBER),
    Column("log_offset", Kind.NUMBER),
)

_SHOWN = (
    *("time_ms", "generation_id", "member_count_before", "member_count", "moved_count"),
    *("cause", "certainty", "evidence"),
)
"""Columns that tables show by default; the others need --columns or another format."""

STORM_COLUMNS = columns_of(
    "kgroup.history.rebalance.query.Storm",
    CLUSTER,
    GROUP,
    replace(GROUP_TYPE, rank=6),
    Column("from_ms", Kind.TIME),
    Column("to_ms", Kind.TIME, rank=1),
    Column("rebalance_count", Kind.NUMBER),
    Column(
        "started_by",
        Kind.TEXT,
        value=lambda item: _starters(item),
        form="with counts",
        may_go_below=True,
    ),
    Column("without_member_count", Kind.NUMBER, rank=5),
)


def _starters(storm: Storm) -> str:
    names = (
        f"{who.instance_id or who.client_id or '?'} ({who.cause_count})" for who in storm.started_by
    )
    return ", ".join(names)


def rebalance_page(rows: Sequence[Rebalance]) -> Iterator[Part]:
    """Yield a table for each group, with the columns that explain its rebalances."""
    groups = groupby(rows, lambda row: (row.cluster, row.group_id))
    return apart(_group_rebalances(*names, list(own)) for names, own in groups)


def _group_rebalances(
    cluster: str, group_id: str, rebalances: Sequence[Rebalance]
) -> Iterator[Part]:
    types = ", then ".join(dict.fromkeys(rebalance.group_type for rebalance in rebalances))
    yield Title(harmless(f"{shown_id(group_id)} ({types}, cluster {cluster})"), level=3)
    yield Sheet.of(REBALANCE_COLUMNS, rebalances).select(_SHOWN).without_blank()


MOST_ROWS = 200
MOST_MEMBERS = 62
_LETTERS = ascii_letters[26:] + ascii_letters[:26] + digits
_NOBODY, _OTHER, _SEVERAL = ".", "*", "+"
_WIDEST_NAME = 32


def picture_text(
    intervals: Sequence[Interval],
    width: int,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    last_ms: int | None = None,
) -> Iterator[str]:
    """Draw a row for each partition, a column for each period, and a letter for each member.

    A letter stands for the member that owned the partition for most of the period.

    Args:
        intervals: ownership intervals; those without times are omitted.
        width: columns of the terminal.
        since_ms: start of the drawing, because intervals that ended earlier are missing.
        until_ms: end of the drawing.
        last_ms: time of the last known record; open intervals are drawn up to it.
    """
    from kgroup.history.query.group_page import counted, name_of_owned

    timed = [
        interval for interval in intervals if interval.is_timed and interval.from_ms is not None
    ]
    if not timed:
        yield "Nothing that has times.\n"
        return
    times = [
        time
        for interval in timed
        for time in (interval.from_ms, interval.to_ms)
        if time is not None
    ]
    since, until = min(times), max(*times, last_ms or 0) + 1
    until += max(1, (until - since) // 20)  # open intervals are visible, too
    since = max(since, since_ms or 0)
    until = max(since + 1, until if until_ms is None else min(until, until_ms))
    names = list(dict.fromkeys(interval.member_id for interval in timed))
    letters = dict(zip(names, _LETTERS, strict=False))
    rows: dict[str, list[Interval]] = {}
    for interval in timed:
        rows.setdefault(visible(name_of_owned(interval)), []).append(interval)
    room = min(max(map(len, rows)), _WIDEST_NAME)
    cells = max(10, width - room - 3)
    for name, of_row in list(rows.items())[:MOST_ROWS]:
        short = name if len(name) <= room else f"…{name[-room + 1 :]}"
        line = _line(of_row, letters, since, until, cells)
        yield f"{short:{room}} |{line}\n"
    begin, end = shown_time(since), shown_time(until)
    if len(begin) + len(end) < cells:
        yield f"{'':{room}}  {begin}{end:>{cells - len(begin)}}\n\n"
    else:
        yield f"{'':{room}}  {begin}\n{'':{room}}  {end:>{cells}}\n\n"
    if len(rows) > MOST_ROWS:
        more = ("more partition or task is", "more partitions or tasks are")
        yield f"{counted(len(rows) - MOST_ROWS, *more)} not shown.\n"
    of_member = {interval.member_id: interval for interval in timed}
    for name, letter in letters.items():
        client_id, host = of_member[name].client_id or "", of_member[name].client_host or "-"
        known = [name, *([] if name.startswith(client_id) else [client_id]), host]
        yield _folded("  ".join(map(visible, known)), width, f"{letter}  ")
    if len(names) > MOST_MEMBERS:
        yield f"{_OTHER}  {counted(len(names) - MOST_MEMBERS, 'more member')}\n"
    yield _folded(f"nobody; {_SEVERAL}  several at once", width, f"{_NOBODY}  ")


def _folded(text: str, width: int, head: str) -> str:
    """Return a text after a head, wrapped to as many lines as needed."""
    return (
        fill(
            text,
            max(20, width),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )
        + "\n"
    )


def _line(
    intervals: Sequence[Interval], letters: dict[str, str], since: int, until: int, cells: int
) -> str:
    line = []
    for cell in range(cells):
        begin = since + (until - since) * cell // cells
        end = max(begin + 1, since + (until - since) * (cell + 1) // cells)
        shares: list[tuple[int, str]] = []
        for interval in intervals:
            share = min(interval.to_ms or until, end) - max(interval.from_ms or 0, begin)
            if share > 0:
                shares.append((share, letters.get(interval.member_id, _OTHER)))
        shares.sort(reverse=True)
        if len(shares) > 1 and shares[0][0] + shares[1][0] > end - begin:
            line.append(_SEVERAL)
        else:
            line.append(shares[0][1] if shares else _NOBODY)
    return "".join(line)
