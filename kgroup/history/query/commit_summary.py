"""Summaries of a group's commits by partition: rate, pauses and backward jumps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import (
    COMMITTED,
    Interval,
    Row,
    check_topic,
    cluster_of_group,
    outside_notes,
    read_intervals,
    rows_of,
    where,
)
from kgroup.operation.report import Report

_MINUTE_MS = 60_000
_LOG = "topic, partition, offsets_partition"
_IS_EVENT = "(committed_offset < before_offset OR pause_ms > ?)"
_Log = tuple[str, int, int]
"""Topic, partition and partition of `__consumer_offsets`: commits with these in common are ordered.
A partition has commits in more than one only if `__consumer_offsets` was recreated with another
number of partitions.
"""


@dataclass(frozen=True, slots=True)
class Pause:
    """A period without commits that is longer than the threshold.

    Attributes:
        topic: topic name.
        partition: partition number.
        since_ms: time of the commit before the pause.
        until_ms: time of the commit after the pause.
        pause_ms: length of the pause.
        member_id: owner of the partition at the commit before the pause; None if unknown.
        next_member_id: owner of the partition at the commit after the pause; None if unknown.
    """

    topic: str
    partition: int
    since_ms: int
    until_ms: int
    pause_ms: int
    member_id: str | None
    next_member_id: str | None


@dataclass(frozen=True, slots=True)
class Jump:
    """A commit lower than the one before: offsets were reset, or records are reprocessed.

    If no owner of the partition is known, the commit came from elsewhere, for example from an
    administrator who reset the offsets.

    Attributes:
        topic: topic name.
        partition: partition number.
        time_ms: time of the commit; None if not stored.
        from_offset: offset committed before.
        to_offset: offset committed by this commit.
        from_ms: time of the previous commit; None if not stored.
        was_deleted: whether the offset was deleted between the two commits.
        member_id: owner of the partition when it was committed; None if unknown.
        client_id: client.id that the owner sent; None if the owner is unknown.
        client_host: address of the owner as seen by the broker; None if the owner is unknown.
        before_member_id: owner of the partition at the previous commit; None if unknown.
        offsets_partition: partition of `__consumer_offsets` with the commit's record.
        log_offset: offset of the commit's record in that partition.
    """

    topic: str
    partition: int
    time_ms: int | None
    from_offset: int
    to_offset: int
    from_ms: int | None
    was_deleted: bool
    member_id: str | None
    client_id: str | None
    client_host: str | None
    before_member_id: str | None
    offsets_partition: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """The commits of one partition, without those of aborted and open transactions.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        topic: topic name.
        partition: partition number.
        offsets_partition: partition of `__consumer_offsets` with the commits; if there are two,
            each has its own row.
        commit_count: number of commits; without those of aborted or open transactions.
        first_ms: time of the first commit; None if no commit has a time.
        last_ms: time of the last commit; None if no commit has a time.
        first_offset: offset of the first commit.
        last_offset: offset of the last commit.
        commits_per_minute: commits per minute between the first and the last commit; None if less
            than a minute lies between them, as a short burst shows no rate.
        longest_pause_ms: longest time between two consecutive commits; None if no two
            consecutive commits have times in order.
        longest_pause_since_ms: start of the longest pause; None if there is no such pause.
        pauses: pauses longer than `--longer-than` (5 minutes); csv, tsv and `--columns` have
            `pause_count` instead.
        jumps: commits lower than the one before (offsets reset or records reprocessed); csv,
            tsv and `--columns` have `jump_count` instead.
    """

    cluster: str
    group_id: str
    topic: str
    partition: int
    offsets_partition: int
    commit_count: int
    first_ms: int | None
    last_ms: int | None
    first_offset: int
    last_offset: int
    commits_per_minute: float | None
    longest_pause_ms: int | None
    longest_pause_since_ms: int | None
    pauses: tuple[Pause, ...]
    jumps: tuple[Jump, ...]


def commit_summaries(
    engine: Engine,
    group_id: str,
    *,
    pause_ms: int,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    cluster: str | None = None,
) -> Report[CommitSummary]:
    """Summarize the commits of a group.

    Args:
        engine: query engine.
        group_id: the group.
        pause_ms: list pauses longer than this.
        since_ms: only commits at or after this time.
        until_ms: only commits before this time. Commits without a time are always included.
        topic: only this topic.
        cluster: cluster of the group.

    Returns:
        One summary for each partition, by topic and partition. If its commits are in two partitions
        of `__consumer_offsets`, one for each of these.

    Raises:
        NotFoundError: the group does not exist, or no record names the topic.
        UsageError: the group exists in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    condition, parameters = where(
        ("cluster = ?", cluster),
        ("group_id = ?", group_id),
        ("topic = ?", topic),
        ("(time_ms IS NULL OR time_ms >= ?)", since_ms),
        ("(time_ms IS NULL OR time_ms < ?)", until_ms),
    )
    counts = _counts(engine, condition, parameters)
    if not counts and topic is not None:
        check_topic(engine, topic, cluster)
    events = _events(engine, condition, parameters, pause_ms)
    in_group = where(("cluster = ?", cluster), ("group_id = ?", group_id), ("topic = ?", topic))
    owners = _owners(read_intervals(engine, *in_group)) if events else {}
    removals = _removals(engine, *in_group) if events else {}
    data = tuple(
        _summary(cluster, group_id, row, events.get(_log_of(row), ()), pause_ms, owners, removals)
        for row in counts
    )
    notes = _notes(engine, condition, parameters, group_id, data)
    outside = outside_notes(engine, [cluster], since_ms, until_ms)
    return Report(data, notes=(*notes, *outside))


def eventful_groups(
    engine: Engine, *, pause_ms: int, since_ms: int, until_ms: int, cluster: str
) -> list[str]:
    """Return the groups for which `commit_summaries` would list a pause or a jump, in one query.

    The arguments are those of `commit_summaries`.
    """
    condition = "cluster = ? AND (time_ms IS NULL OR time_ms >= ? AND time_ms < ?)"
    sql = (
        f"SELECT DISTINCT group_id FROM ({_followed(condition)}) AS followed "
        f"WHERE {_IS_EVENT} ORDER BY group_id"
    )
    rows = rows_of(engine, sql, [cluster, since_ms, until_ms, pause_ms])
    return [row["group_id"] for row in rows]


def _followed(condition: str) -> str:
    """Return SQL for the valid commits, each with the previous commit in its log.

    Times that go backward are not a pause, and a negative offset is not a commit.
    """
    return (
        f"SELECT group_id, {_LOG}, log_offset, time_ms, committed_offset, before_offset, "
        "before_log_offset, "
        "before_ms, CASE WHEN time_ms >= before_ms THEN time_ms - before_ms END AS pause_ms FROM "
        f"(SELECT group_id, {_LOG}, log_offset, time_ms, committed_offset, "
        "LAG(committed_offset) OVER in_log AS before_offset, "
        "LAG(log_offset) OVER in_log AS before_log_offset, "
        "LAG(time_ms) OVER in_log AS before_ms "
        f"FROM offset_commits WHERE {condition} AND {COMMITTED} AND committed_offset >= 0 "
        f"WINDOW in_log AS (PARTITION BY group_id, {_LOG} ORDER BY log_offset)) AS followed"
    )


def _counts(engine: Engine, condition: str, parameters: Sequence[Parameter]) -> list[Row]:
    sql = (
        f"SELECT {_LOG}, COUNT(*) AS commit_count, MIN(time_ms) AS first_ms, "
        "MAX(time_ms) AS last_ms, MIN_BY(committed_offset, log_offset) AS first_offset, "
        "MAX_BY(committed_offset, log_offset) AS last_offset, "
        "MAX(pause_ms) AS longest_pause_ms, MAX(CASE WHEN pause_rank = 1 AND pause_ms IS NOT NULL "
        "THEN before_ms END) AS longest_pause_since_ms "
        f"FROM (SELECT {_LOG}, log_offset, time_ms, committed_offset, before_ms, pause_ms, "
        f"ROW_NUMBER() OVER (PARTITION BY {_LOG} ORDER BY pause_ms DESC NULLS LAST, log_offset) "
        f"AS pause_rank FROM ({_followed(condition)}) AS followed) AS ranked "
        f"GROUP BY {_LOG} ORDER BY {_LOG}"
    )
    return rows_of(engine, sql, parameters)


def _events(
    engine: Engine, condition: str, parameters: Sequence[Parameter], pause_ms: int
) -> Mapping[_Log, Sequence[Row]]:
    """Return the commits after a pause and the backward jumps, in order."""
    sql = (
        f"SELECT * FROM ({_followed(condition)}) AS followed "
        f"WHERE {_IS_EVENT} ORDER BY {_LOG}, log_offset"
    )
    rows = rows_of(engine, sql, [*parameters, pause_ms])
    return {log: [*of_log] for log, of_log in groupby(rows, _log_of)}


def _removals(
    engine: Engine, condition: str, parameters: Sequence[Parameter]
) -> Mapping[_Log, Sequence[int]]:
    """Return the log offsets at which offsets of the group were deleted."""
    sql = (
        f"SELECT {_LOG}, log_offset FROM tombstones WHERE {condition} AND topic IS NOT NULL "
        f"ORDER BY {_LOG}, log_offset"
    )
    rows = groupby(rows_of(engine, sql, parameters), _log_of)
    return {log: [row["log_offset"] for row in of_log] for log, of_log in rows}


def _log_of(row: Row) -> _Log:
    return row["topic"], row["partition"], row["offsets_partition"]


@dataclass(frozen=True, slots=True)
class _Turns:
    """Sole owners of a partition, by log offset.

    Attributes:
        offsets: log offsets at which the owner changes, in order.
        owners: owner from each of these offsets; None for no owner or several.
    """

    offsets: Sequence[int]
    owners: Sequence[Interval | None]

    @staticmethod
    def of(intervals: Sequence[Interval]) -> _Turns:
        """Return the owners from the intervals of one partition."""
        changes = [(interval.from_log_offset, False, at) for at, interval in enumerate(intervals)]
        ends = enumerate(interval.to_log_offset for interval in intervals)
        changes += [(end, True, at) for at, end in ends if end is not None]
        offsets: list[int] = []
        owners: list[Interval | None] = []
        here: set[int] = set()
        for offset, together in groupby(sorted(changes), key=lambda change: change[0]):
            for _, is_end, at in together:
                (here.discard if is_end else here.add)(at)
            offsets.append(offset)
            owners.append(intervals[next(iter(here))] if len(here) == 1 else None)
        return _Turns(offsets, owners)

    def at(self, log_offset: int) -> Interval | None:
        """Return the owner at the time a record was written."""
        turn = bisect_right(self.offsets, log_offset)
        return self.owners[turn - 1] if turn else None


def _owners(intervals: Iterable[Interval]) -> Mapping[_Log, _Turns]:
    by_log: dict[_Log, list[Interval]] = {}
    for interval in intervals:
        if interval.topic is not None:
            log = (interval.topic, interval.partition, interval.offsets_partition)
            by_log.setdefault(log, []).append(interval)
    return {log: _Turns.of(of_log) for log, of_log in by_log.items()}


def _summary(
    cluster: str,
    group_id: str,
    row: Row,
    events: Sequence[Row],
    pause_ms: int,
    owners: Mapping[_Log, _Turns],
    removals: Mapping[_Log, Sequence[int]],
) -> CommitSummary:
    turns = owners.get(_log_of(row), _Turns((), ()))
    removed = removals.get(_log_of(row), ())
    rate, length_ms = None, 0
    if row["first_ms"] is not None:
        length_ms = row["last_ms"] - row["first_ms"]
    if length_ms >= _MINUTE_MS:
        rate = round((row["commit_count"] - 1) * _MINUTE_MS / length_ms, 3)
    return CommitSummary(
        cluster=cluster,
        group_id=group_id,
        commits_per_minute=rate,
        pauses=tuple(
            _pause(event, turns)
            for event in events
            if event["pause_ms"] is not None and event["pause_ms"] > pause_ms
        ),
        jumps=tuple(
            _jump(event, turns, removed)
            for event in events
            if event["committed_offset"] < event["before_offset"]
        ),
        **row,
    )


def _pause(row: Row, turns: _Turns) -> Pause:
    before = turns.at(row["before_log_offset"])
    owner = turns.at(row["log_offset"])
    return Pause(
        topic=row["topic"],
        partition=row["partition"],
        since_ms=row["before_ms"],
        until_ms=row["time_ms"],
        pause_ms=row["pause_ms"],
        member_id=before.member_id if before else None,
        next_member_id=owner.member_id if owner else None,
    )


def _jump(row: Row, turns: _Turns, removed: Sequence[int]) -> Jump:
    before = turns.at(row["before_log_offset"])
    owner = turns.at(row["log_offset"])
    next_removed = bisect_right(removed, row["before_log_offset"])
    return Jump(
        topic=row["topic"],
        partition=row["partition"],
        time_ms=row["time_ms"],
        from_offset=row["before_offset"],
        to_offset=row["committed_offset"],
        from_ms=row["before_ms"],
        was_deleted=next_removed < len(removed) and removed[next_removed] < row["log_offset"],
        member_id=owner.member_id if owner else None,
        client_id=owner.client_id if owner else None,
        client_host=owner.client_host if owner else None,
        before_member_id=before.member_id if before else None,
        offsets_partition=row["offsets_partition"],
        log_offset=row["log_offset"],
    )


def _notes(
    engine: Engine,
    condition: str,
    parameters: Sequence[Parameter],
    group_id: str,
    data: Sequence[CommitSummary],
) -> Iterable[str]:
    sql = (
        "SELECT transaction, COUNT(*) AS left_out FROM offset_commits "
        f"WHERE {condition} AND transaction IN ('aborted', 'open') "
        "GROUP BY transaction ORDER BY transaction"
    )
    for row in rows_of(engine, sql, parameters):
        yield f"Commits of {row['transaction']} transactions omitted: {row['left_out']}."
    if not data:
        yield f"Group {group_id!r} has no commits that match."
