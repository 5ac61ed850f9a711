"""Answers to questions about the past as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from kgroup.render.cell import Column, Kind
from kgroup.render.column import CLUSTER, GROUP, GROUP_TYPE, TOPIC
from kgroup.render.document import json_rows
from kgroup.render.sheet import Sheet, sheet_text, title_text

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.history.query.commit_summary import CommitSummary
    from kgroup.history.query.inventory import ClusterInventory
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
    return _parts(PAUSE_COLUMNS, (((row.cluster, row.group_id), row.pauses) for row in rows))


def jump_sheet(rows: Sequence[CommitSummary]) -> Sheet:
    """One row a backward jump."""
    return _parts(JUMP_COLUMNS, (((row.cluster, row.group_id), row.jumps) for row in rows))


def partition_inventory_sheet(rows: Sequence[ClusterInventory]) -> Sheet:
    """One row a partition of `__consumer_offsets`."""
    return _parts(PARTITION_INVENTORY_COLUMNS, (((row.cluster,), row.partitions) for row in rows))


def _parts(
    columns: tuple[Column, ...], wholes: Iterable[tuple[tuple[object, ...], Sequence[object]]]
) -> Sheet:
    """Make a row of each part of each whole; the first cells are those of the whole."""
    rows = [
        [*first, *(column.of(part) for column in columns[len(first) :])]
        for first, parts in wholes
        for part in parts
    ]
    return Sheet(columns, rows)


def commit_text(
    rows: Sequence[CommitSummary], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write the stories of a group as a page: what it committed, where it paused and went back."""
    for title, sheet in (
        (None, commit_sheet(rows)),
        ("Pauses", pause_sheet(rows)),
        ("Backward jumps", jump_sheet(rows)),
    ):
        if title is not None:
            if not sheet.rows:
                continue
            yield "\n"
            yield from title_text(title, form, level=3, terminal=terminal)
        yield from sheet_text(sheet.without_blank(), form, headers=headers, terminal=terminal)


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
