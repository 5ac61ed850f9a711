"""Answers about the past as sheets, and ownership over time as a picture of letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from string import ascii_letters, digits
from textwrap import fill
from typing import TYPE_CHECKING, Any

from kgroup.errors import shown_id
from kgroup.model.instant import rfc3339
from kgroup.render.cell import CLUSTER, GROUP, GROUP_TYPE, TOPIC, Column, Kind, harmless, visible
from kgroup.render.document import json_rows
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


_PARTITION = Column("partition", Kind.NUMBER, "partition of that topic, or number of a task")
_MEMBER = (
    Column("member_id", Kind.NAME, "id of the member", is_reference=True),
    Column("instance_id", Kind.NAME, "group.instance.id of a static member"),
    Column("client_id", Kind.NAME, "as the client calls itself"),
    Column("client_host", Kind.TEXT, "address that the broker saw"),
    Column("generation_id", Kind.NUMBER, "generation, or epoch of the member, in which it got it"),
)
_OFFSETS_PARTITION = Column("offsets_partition", Kind.NUMBER, "partition of __consumer_offsets")
_ENDED_BY = Column("ended_by", Kind.TEXT, "moved, released, gone or deleted")
_THING = (
    Column("topic_id", Kind.TEXT, "id of the topic"),
    Column("subtopology", Kind.TEXT, "of a task of a streams group"),
    Column("role", Kind.TEXT, "of a task: active, standby or warmup"),
)

OWNER_COLUMNS = (
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("status", Kind.TEXT, "owned, nobody or unknown"),
    *_MEMBER,
    Column("since_ms", Kind.TIME, "when it began"),
    Column("until_ms", Kind.TIME, "when it ended; unknown: not yet"),
    _ENDED_BY,
    Column("reason", Kind.TEXT, "why nobody had it, or why that is not known"),
    GROUP_TYPE,
    *_THING,
)
owner_sheet = partial(Sheet.of, OWNER_COLUMNS)  # one row a stretch of time of a group
INTERVAL_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    TOPIC,
    _PARTITION,
    *_MEMBER,
    Column("from_ms", Kind.TIME, "when it began"),
    Column("to_ms", Kind.TIME, "when it ended; unknown: not yet"),
    _ENDED_BY,
    *_THING,
    _OFFSETS_PARTITION,
    Column("from_log_offset", Kind.NUMBER, "offset of the record that began it"),
    Column("to_log_offset", Kind.NUMBER, "offset of the record that ended it"),
)
interval_sheet = partial(Sheet.of, INTERVAL_COLUMNS)  # one row a stretch of time
COMMIT_COLUMNS = (
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("commit_count", Kind.NUMBER, "commits, without those of transactions not committed"),
    Column("commits_per_minute", Kind.NUMBER, "between the first and the last one"),
    Column("first_ms", Kind.TIME, "time of the first one"),
    Column("last_ms", Kind.TIME, "time of the last one"),
    Column("first_offset", Kind.NUMBER, "that the first one committed"),
    Column("last_offset", Kind.NUMBER, "that the last one committed"),
    Column("longest_pause_ms", Kind.AGE, "longest time between two that follow each other"),
    Column("longest_pause_since_ms", Kind.TIME, "when that began"),
    Column(
        "pause_count",
        Kind.NUMBER,
        "pauses longer than --longer-than",
        lambda item: len(item.pauses),
    ),
    Column("jump_count", Kind.NUMBER, "backward jumps", lambda item: len(item.jumps)),
    _OFFSETS_PARTITION,
)
commit_sheet = partial(Sheet.of, COMMIT_COLUMNS)  # one row a partition
LAG_COLUMNS = (
    CLUSTER,
    GROUP,
    Column("time_ms", Kind.TIME, "when the end of the log was recorded"),
    TOPIC,
    _PARTITION,
    Column("committed_offset", Kind.NUMBER, "offset that counted then"),
    Column("log_end_offset", Kind.NUMBER, "offset that the next record would have got"),
    Column("lag", Kind.NUMBER, "log_end_offset minus committed_offset"),
    Column("commit_timestamp_ms", Kind.TIME, "when the offset was committed"),
    Column("log_start_offset", Kind.NUMBER, "offset of the first record that was still there"),
)
lag_sheet = partial(Sheet.of, LAG_COLUMNS)  # one row a partition and a time
PAUSE_COLUMNS = (
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("since_ms", Kind.TIME, "time of the commit before it"),
    Column("until_ms", Kind.TIME, "time of the commit behind it"),
    Column("pause_ms", Kind.AGE, "how long it took"),
    Column("member_id", Kind.NAME, "owner of the partition before it", is_reference=True),
    Column("next_member_id", Kind.NAME, "owner of it behind it", is_reference=True),
)
JUMP_COLUMNS = (
    CLUSTER,
    GROUP,
    TOPIC,
    _PARTITION,
    Column("time_ms", Kind.TIME, "time of the commit"),
    Column("from_offset", Kind.NUMBER, "that was committed before"),
    Column("to_offset", Kind.NUMBER, "that it committed"),
    Column("from_ms", Kind.TIME, "time of the commit before"),
    Column("was_deleted", Kind.FLAG, "whether the offset was deleted between the two"),
    Column("member_id", Kind.NAME, "owner of the partition then", is_reference=True),
    Column("client_id", Kind.NAME, "as that client calls itself"),
    Column("client_host", Kind.TEXT, "its address"),
    Column("before_member_id", Kind.NAME, "owner at the commit before", is_reference=True),
    _OFFSETS_PARTITION,
    Column("log_offset", Kind.NUMBER, "offset of the commit's record"),
)
_RECORDS = (
    Column("record_count", Kind.NUMBER, "records that were read"),
    Column("first_ms", Kind.TIME, "time of the earliest"),
    Column("last_ms", Kind.TIME, "time of the latest"),
)
_DAMAGE = Column("damage_count", Kind.NUMBER, "stretches of bytes that could not be read")
CLUSTER_INVENTORY_COLUMNS = (
    CLUSTER,
    Column(
        "partition_count",
        Kind.NUMBER,
        "partitions of __consumer_offsets",
        lambda item: len(item.partitions),
    ),
    *_RECORDS,
    _DAMAGE,
    Column("file_count", Kind.NUMBER, "files of the tables"),
    Column("file_bytes", Kind.NUMBER, "their size"),
    Column("build", Kind.NUMBER, "number of the warehouse's last build"),
)
cluster_inventory_sheet = partial(Sheet.of, CLUSTER_INVENTORY_COLUMNS)  # one row a cluster
PARTITION_INVENTORY_COLUMNS = (
    CLUSTER,
    _OFFSETS_PARTITION,
    *_RECORDS,
    _DAMAGE,
    Column("first_offset", Kind.NUMBER, "lowest offset that was read"),
    Column("last_offset", Kind.NUMBER, "highest offset that was read"),
    Column("missing_count", Kind.NUMBER, "offsets between them that were not"),
)
GROUP_INVENTORY_COLUMNS = (CLUSTER, GROUP, *_RECORDS)
group_inventory_sheet = partial(Sheet.of, GROUP_INVENTORY_COLUMNS)  # one row a group
STALE_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("state", Kind.TEXT, "state of the group then"),
    TOPIC,
    _PARTITION,
    Column("committed_offset", Kind.NUMBER, "offset of the next record to read"),
    Column("last_commit_ms", Kind.TIME, "when it was committed"),
    Column("silent_ms", Kind.AGE, "how long ago that was"),
    Column("group_last_commit_ms", Kind.TIME, "when the group committed anything last"),
    Column("member_id", Kind.NAME, "owner of the partition, if any", is_reference=True),
    Column("expires_ms", Kind.TIME, "when the coordinator may remove it; unknown: it is kept"),
    Column(
        "expires_by",
        Kind.TEXT,
        "stored, empty, commit; kept: subscribed, members, pending; or unknown",
    ),
)
stale_sheet = partial(Sheet.of, STALE_COLUMNS)  # one row an offset
_TIMES = ("time_ms", "from_ms", "to_ms")
"""Columns of the tables that are times; so are those that end in timestamp_ms. Other columns of
milliseconds are lengths of time."""


def pause_sheet(rows: Sequence[CommitSummary]) -> Sheet:
    """One row a pause."""
    groups = (((row.cluster, row.group_id), row.pauses) for row in rows)
    return Sheet.of_parts(PAUSE_COLUMNS, groups)


def jump_sheet(rows: Sequence[CommitSummary]) -> Sheet:
    """One row a backward jump."""
    groups = (((row.cluster, row.group_id), row.jumps) for row in rows)
    return Sheet.of_parts(JUMP_COLUMNS, groups)


def partition_inventory_sheet(rows: Sequence[ClusterInventory]) -> Sheet:
    """One row a partition of `__consumer_offsets`."""
    clusters = (((row.cluster,), row.partitions) for row in rows)
    return Sheet.of_parts(PARTITION_INVENTORY_COLUMNS, clusters)


def commit_page(rows: Sequence[CommitSummary]) -> Iterator[Part]:
    """Yield what a group committed, where it paused and where it went back."""
    yield commit_sheet(rows).without_blank()
    for title, sheet in (("Pauses", pause_sheet(rows)), ("Backward jumps", jump_sheet(rows))):
        if sheet.rows:
            yield from section(title, sheet.without_blank())


def answer_sheet(answer: Answer) -> Sheet:
    """One row a row of the query's answer."""
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
    """Write lists and objects as JSON: cells have to be hashable; and long decimals in full."""
    if isinstance(value, dict | list):
        return b"".join(json_rows([value])).decode().rstrip()
    return format(value, "f") if isinstance(value, Decimal) else value


BUILD_COLUMNS = (
    CLUSTER,
    Column("table", Kind.TEXT, "name of the table"),
    Column("new_row_count", Kind.NUMBER, "how many rows were added"),
    Column("row_count", Kind.NUMBER, "how many it has now"),
    Column("file_count", Kind.NUMBER, "in how many files"),
    Column("file_bytes", Kind.NUMBER, "their size"),
)


def build_sheet(reports: Sequence[ClusterReport]) -> Sheet:
    """A row for each table of each cluster; those without a row are left out."""
    tables = (filter(lambda table: table.row_count, report.tables) for report in reports)
    clusters = ((report.cluster,) for report in reports)
    return Sheet.of_parts(BUILD_COLUMNS, zip(clusters, tables, strict=True))


def build_line(report: ClusterReport) -> str:
    """Say in a line what is new in a cluster's tables."""
    tables = (
        f"{table.new_row_count:,} {table.table}" for table in report.tables if table.new_row_count
    )
    return f"{report.cluster}: {', '.join(tables) or 'nothing new'}"


REBALANCE_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("time_ms", Kind.TIME, "time of the record that tells of it"),
    Column("generation_before", Kind.NUMBER, "generation, or group epoch, before"),
    Column("generation_id", Kind.NUMBER, "the new one"),
    Column(
        "member_count_before",
        Kind.NUMBER,
        "how many members there were",
        lambda item: None if item.members_before is None else len(item.members_before),
    ),
    Column(
        "member_count", Kind.NUMBER, "how many members there are", lambda item: len(item.members)
    ),
    Column("moved_count", Kind.NUMBER, "partitions, or tasks, with other owners than before"),
    Column("sync_ms", Kind.DURATION, "from the end of the join phase to the record"),
    Column("reconcile_ms", Kind.DURATION, "from the epoch to its last member's arrival at it"),
    Column("commit_gap_ms", Kind.AGE, "time without a commit around it"),
    Column("cause", Kind.TEXT, "what happened"),
    Column("certainty", Kind.TEXT, "certain or inferred"),
    Column("evidence", Kind.TEXT, "what the log shows of it, and of all else that happened"),
    Column("protocol", Kind.TEXT, "strategy of a classic group"),
    Column("offsets_partition", Kind.NUMBER, "partition of __consumer_offsets with the record"),
    Column("log_offset", Kind.NUMBER, "offset of the record"),
)
rebalance_sheet = partial(Sheet.of, REBALANCE_COLUMNS)  # one row a rebalance

_SHOWN = (
    *("time_ms", "generation_id", "member_count_before", "member_count", "moved_count"),
    *("cause", "certainty", "evidence"),
)
"""What a person reads first; the rest comes with --columns, and in the other forms."""

STORM_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("from_ms", Kind.TIME, "time of the first rebalance"),
    Column("to_ms", Kind.TIME, "time of the last one"),
    Column("rebalance_count", Kind.NUMBER, "how many"),
    Column(
        "started_by",
        Kind.TEXT,
        "clients that caused them, with how often",
        lambda item: _starters(item),
    ),
    Column(
        "without_member_count", Kind.NUMBER, "rebalances that no member is known to have caused"
    ),
)
storm_sheet = partial(Sheet.of, STORM_COLUMNS)  # one row a storm


def _starters(storm: Storm) -> str:
    names = (
        f"{who.instance_id or who.client_id or '?'} ({who.cause_count})" for who in storm.started_by
    )
    return ", ".join(names)


def rebalance_page(rows: Sequence[Rebalance]) -> Iterator[Part]:
    """Return a table for each group, with the columns that tell what happened."""
    groups = groupby(rows, lambda row: (row.cluster, row.group_id))
    return apart(_group_rebalances(*names, list(own)) for names, own in groups)


def _group_rebalances(
    cluster: str, group_id: str, rebalances: Sequence[Rebalance]
) -> Iterator[Part]:
    types = ", then ".join(dict.fromkeys(rebalance.group_type for rebalance in rebalances))
    yield Title(harmless(f"{shown_id(group_id)} ({types}, cluster {cluster})"), level=3)
    yield rebalance_sheet(rebalances).select(_SHOWN).without_blank()


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
    """Draw a row for each partition, a column for each while, and a letter for each member.

    A letter stands for who had the partition longest in that while.

    Args:
        intervals: those without times are left out.
        width: columns of the terminal.
        since_ms: nothing before is drawn, since what ended by then is not among the intervals,
        until_ms: and nothing from then on.
        last_ms: up to when records are known: what goes on is drawn up to there.
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
    until += max(1, (until - since) // 20)  # what goes on is seen, too
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
    begin, end = rfc3339(since), rfc3339(until)
    if len(begin) + len(end) < cells:
        yield f"{'':{room}}  {begin}{end:>{cells - len(begin)}}\n\n"
    else:
        yield f"{'':{room}}  {begin}\n{'':{room}}  {end:>{cells}}\n\n"
    if len(rows) > MOST_ROWS:
        more = ("more partition or task is", "more partitions or tasks are")
        yield f"{counted(len(rows) - MOST_ROWS, *more)} not shown.\n"
    hosts = {interval.member_id: interval.client_host for interval in timed}
    for name, letter in letters.items():
        host = visible(hosts[name] or "-")
        yield _folded(f"{visible(name)}  {host}", width, f"{letter}  ")
    if len(names) > MOST_MEMBERS:
        yield f"{_OTHER}  {counted(len(names) - MOST_MEMBERS, 'more member')}\n"
    yield _folded(f"nobody; {_SEVERAL}  several at once", width, f"{_NOBODY}  ")


def _folded(text: str, width: int, head: str) -> str:
    """Write a text behind a head, on as many lines as it takes."""
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
