"""Lag of a group at times when log end offsets were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import (
    COMMITTED,
    NEAR_MS,
    RECORD_TABLES,
    LogEnd,
    Row,
    check_topic,
    cluster_of_group,
    commits_known_ms,
    ends_at,
    outside_notes,
    recorded_ends,
    recorded_time,
    rows_of,
    times_of_ends,
    where,
)
from kgroup.model.cluster import TopicPartition
from kgroup.model.instant import shown_time
from kgroup.model.log_range import LogRange
from kgroup.model.record import known
from kgroup.operation.report import Report

_BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a group in a partition when its log end offset was recorded.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        topic: topic name.
        partition: partition number.
        time_ms: when the log end offset was recorded; if none is known, the requested time.
        committed_offset: committed offset at that time.
        log_end_offset: log end offset; None if unknown.
        lag: `log_end_offset` minus `committed_offset`; None if the log end offset is unknown.
        commit_timestamp_ms: when the offset was committed; None if unknown.
        log_start_offset: log start offset; None if unknown.
    """

    cluster: str
    group_id: str
    topic: str
    partition: int
    time_ms: int
    committed_offset: int
    log_end_offset: int | None
    lag: int | None
    commit_timestamp_ms: int | None
    log_start_offset: int | None

    @property
    def waiting(self) -> int | None:
        """Maximum number of records waiting; see `LogRange.waiting`."""
        log = LogRange(self.log_start_offset, self.log_end_offset)
        return log.waiting(self.committed_offset)


def lags(
    engine: Engine,
    group_id: str,
    *,
    at_ms: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    given: Sequence[LogEnd] = (),
    cluster: str | None = None,
) -> Report[Lag]:
    """Return the lag of a group.

    Args:
        engine: query engine.
        group_id: the group.
        at_ms: the time; the last log ends recorded by then are used. None for the newest known
            time.
        since_ms: instead of one time, every time at or after this at which log ends were recorded.
        until_ms: likewise, only times before this.
        topic: only this topic.
        given: further log ends, besides those in the warehouse.
        cluster: cluster of the group.

    Returns:
        Rows by time, topic and partition, for each partition with a committed offset and a recorded
        log end. With a single time, also for partitions without a log end.

    Raises:
        NotFoundError: the group does not exist, or no record or log end names the topic.
        UsageError: the group exists in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    last_ms = recorded_time(engine, cluster).last_ms
    known_ms = max(last_ms or 0, commits_known_ms(engine, cluster, group_id) or 0)
    when = []
    if since_ms is not None or until_ms is not None:
        recorded = times_of_ends(engine, cluster, group_id, since_ms, until_ms)
        chosen = _ends_of(engine, cluster, group_id, recorded, since_ms, until_ms, given)
    else:
        newest = max((known_ms, *times_of_ends(engine, cluster, group_id, known_ms, None)))
        when = [max((newest, *(end.time_ms for end in given))) if at_ms is None else at_ms]
        known = [*ends_at(engine, cluster, when[0], group_id), *given]
        chosen = _last(end for end in known if end.time_ms <= when[0])
    chosen = [end for end in chosen if topic in (None, end.topic)]
    times = sorted({*when, *(end.time_ms for end in chosen)})
    counted = _counted(engine, cluster, group_id, topic, times)
    rows = [
        _lag(cluster, group_id, end, counted[end.time_ms][end.topic, end.partition])
        for end in chosen
        if (end.topic, end.partition) in counted[end.time_ms]
    ]
    with_end = {(row.topic, row.partition) for row in rows}
    rows += [
        _lag(cluster, group_id, LogEnd(*at, None, None, time_ms), commit)
        for time_ms in when
        for at, commit in counted[time_ms].items()
        if at not in with_end
    ]
    if not rows and topic is not None:
        check_topic(engine, topic, cluster, given=(end.topic for end in given))
    rows.sort(key=lambda row: (row.time_ms, row.topic, row.partition))
    outside = outside_notes(engine, [cluster], at_ms, since_ms, until_ms)
    if when and not rows:
        nothing = f"Group {group_id!r} has no known committed offsets that match."
        return Report((), notes=(nothing, *outside))
    return Report(tuple(rows), notes=(*_unknown(rows, known_ms, at_ms), *outside))


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Sum of the lags of a group at a time.

    Attributes:
        time_ms: when the log end offsets were recorded.
        lag: sum of the lags that are known.
        partitions: number of partitions in it.
        unknown: number of other partitions with a committed offset.
    """

    time_ms: int
    lag: int
    partitions: int
    unknown: int


def group_lags(
    engine: Engine,
    group_id: str,
    *,
    times_ms: Sequence[int],
    since_ms: int | None,
    until_ms: int | None,
    given: Sequence[LogEnd] = (),
    cluster: str,
) -> tuple[GroupLag, ...]:
    """Return the lag of a whole group at times when log ends were recorded.

    Args:
        engine: query engine.
        group_id: the group.
        times_ms: times of log ends in the warehouse.
        since_ms: start of the period.
        until_ms: end of the period.
        given: see `lags`.
        cluster: cluster of the group.
    """
    ends = _ends_of(engine, cluster, group_id, times_ms, since_ms, until_ms, given)
    by_time: dict[int, dict[TopicPartition, LogEnd]] = {}
    for end in ends:
        by_time.setdefault(end.time_ms, {})[end.topic, end.partition] = end
    counted = _counted(engine, cluster, group_id, None, sorted(by_time))
    found = []
    for time_ms, of_time in sorted(by_time.items()):
        commits = counted[time_ms]
        lags_of_time = (
            LogRange(end.log_start_offset, end.log_end_offset).lag(commits[at]["committed_offset"])
            for at, end in of_time.items()
            if at in commits
        )
        known = [lag for lag in lags_of_time if lag is not None]
        if known:
            found.append(GroupLag(time_ms, sum(known), len(known), len(commits) - len(known)))
    return tuple(found)


def _ends_of(
    engine: Engine,
    cluster: str,
    group_id: str,
    times_ms: Sequence[int],
    since_ms: int | None,
    until_ms: int | None,
    given: Sequence[LogEnd],
) -> list[LogEnd]:
    """Return the log ends recorded at some times, and those given of a period."""
    of_period = [
        end
        for end in given
        if (since_ms is None or end.time_ms >= since_ms)
        and (until_ms is None or end.time_ms < until_ms)
    ]
    recorded = recorded_ends(engine, cluster, group_id, times_ms)
    return list(dict.fromkeys((*recorded, *of_period)))


def _unknown(rows: Iterable[Lag], known_ms: int, at_ms: int | None) -> Iterator[str]:
    """Yield notes on what is unknown: no log ends, or none near the time of the commits."""
    with_end = [row for row in rows if row.log_end_offset is not None]
    latest = max(with_end, key=lambda row: row.time_ms, default=None)
    if latest is None:
        yield (
            "No log end offset is known for these partitions and times: they come from builds of "
            "a cluster (-b), and from snapshots ('kgroup snapshot', also of a log directory, then "
            "--snapshot FILE here, or 'kgroup history build --from FILE')."
        )
    elif at_ms is not None and latest.time_ms < at_ms - NEAR_MS:
        yield (
            f"The last log end offsets before {shown_time(at_ms)} were recorded at "
            f"{shown_time(latest.time_ms)}: the lags are those of then."
        )
    elif latest.time_ms > known_ms:
        yield (
            f"Commits of cluster {latest.cluster} are known up to {shown_time(known_ms)}, and log "
            f"end offsets up to {shown_time(latest.time_ms)}: a lag at a log end offset later than "
            "the last known commit is an upper limit."
        )


def _last(ends: Iterable[LogEnd]) -> list[LogEnd]:
    """Return the last log end of each partition."""
    by_partition: dict[TopicPartition, LogEnd] = {}
    for end in sorted(ends, key=lambda end: (end.time_ms, end.log_end_offset or 0)):
        if end.log_end_offset is not None:
            by_partition[end.topic, end.partition] = end
    return list(by_partition.values())


def _lag(cluster: str, group_id: str, end: LogEnd, commit: Row) -> Lag:
    log = LogRange(end.log_start_offset, end.log_end_offset)
    return Lag(
        cluster=cluster,
        group_id=group_id,
        topic=end.topic,
        partition=end.partition,
        time_ms=end.time_ms,
        committed_offset=commit["committed_offset"],
        log_end_offset=end.log_end_offset,
        lag=log.lag(commit["committed_offset"]),
        commit_timestamp_ms=known(commit["commit_timestamp_ms"]),
        log_start_offset=end.log_start_offset,
    )


def _counted(
    engine: Engine, cluster: str, group_id: str, topic: str | None, times: Sequence[int]
) -> Mapping[int, Mapping[TopicPartition, Row]]:
    """Return the effective commits of a group at each of these times, which must be sorted.

    The result is that of `PastGroups`, for all times at once: in each log the last commit or
    tombstone written by then. If there are several logs, the one with the latest commit is used.
    """
    entries = _last_entries(engine, cluster, group_id, topic, times) if times else ()
    by_time = {time_ms: [*rows] for time_ms, rows in groupby(entries, lambda row: row["until_ms"])}
    logs: dict[int, dict[TopicPartition, Row]] = {}
    changed: dict[int, int] = {}
    counted: dict[int, Mapping[TopicPartition, Row]] = {}
    for time_ms in times:
        for row in by_time.get(time_ms, ()):
            number, at = row["offsets_partition"], (row["topic"], row["partition"])
            log = logs.setdefault(number, {})
            if at not in log or log[at]["log_offset"] < row["log_offset"]:
                log[at] = row
            changed[number] = max(changed.get(number, 0), row["commit_timestamp_ms"] or 0)
        newest = max(logs, key=lambda number: (changed[number], number), default=None)
        counted[time_ms] = {
            at: row
            for at, row in (logs[newest] if newest is not None else {}).items()
            if row["committed_offset"] is not None and row["committed_offset"] >= 0
        }
    return counted


def _last_entries(
    engine: Engine, cluster: str, group_id: str, topic: str | None, times: Sequence[int]
) -> list[Row]:
    """Return the last commit or tombstone between each time and the previous one, by partition.

    A transactional commit takes effect at its marker. A record without a time takes effect at the
    next time in its log.
    """
    condition, of_group = where(
        ("cluster = ?", cluster), ("group_id = ?", group_id), ("topic = ?", topic)
    )
    commits = f"FROM offset_commits WHERE {condition} AND {COMMITTED}"
    removals = f"FROM tombstones WHERE {condition} AND topic IS NOT NULL"
    sql = " UNION ALL ".join(
        f"SELECT COUNT(*) AS untimed {rows} AND time_ms IS NULL" for rows in (commits, removals)
    )
    has_untimed = any(row["untimed"] for row in rows_of(engine, sql, of_group * 2))
    clocks = RECORD_TABLES if has_untimed else ()
    entries = " UNION ALL ".join(
        [
            "SELECT offsets_partition, log_offset, time_ms, topic, partition, committed_offset, "
            "commit_timestamp_ms, CASE WHEN transaction IS NOT NULL THEN producer_id END "
            f"AS waits_for, CAST(NULL AS BIGINT) AS marker_ms {commits}",
            "SELECT offsets_partition, log_offset, time_ms, topic, partition, NULL, NULL, NULL, "
            f"NULL {removals}",
            "SELECT offsets_partition, log_offset, time_ms, NULL, NULL, NULL, NULL, producer_id, "
            "time_ms FROM transactions WHERE cluster = ? "
            f"AND producer_id IN (SELECT producer_id {commits} AND transaction IS NOT NULL)",
            *(
                "SELECT offsets_partition, log_offset, time_ms, NULL, NULL, NULL, NULL, NULL, NULL "
                f"FROM {table} WHERE cluster = ?"
                for table in clocks
            ),
        ]
    )
    behind = "ORDER BY log_offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    columns = "offsets_partition, log_offset, topic, partition, committed_offset"
    timed = (
        f"SELECT {columns}, commit_timestamp_ms, waits_for, "
        f"COALESCE(time_ms, MIN(time_ms) OVER (PARTITION BY offsets_partition {behind})) AS "
        "written_ms, MIN(marker_ms) OVER (PARTITION BY offsets_partition, waits_for "
        f"{behind}) AS resolved_ms FROM ({entries}) AS entries"
    )
    counting = (
        f"SELECT {columns}, commit_timestamp_ms, CASE WHEN waits_for IS NULL THEN written_ms "
        "WHEN resolved_ms IS NOT NULL THEN GREATEST(written_ms, resolved_ms) END AS counts_ms "
        f"FROM ({timed}) AS timed WHERE topic IS NOT NULL"
    )
    spans = ", ".join(map(str, pairwise((_BEFORE_ALL, *times))))
    sql = (
        f"SELECT {columns}, commit_timestamp_ms, until_ms FROM (SELECT {columns}, "
        "commit_timestamp_ms, until_ms, ROW_NUMBER() OVER (PARTITION BY offsets_partition, topic, "
        f"partition, until_ms ORDER BY log_offset DESC) AS recency FROM ({counting}) AS counting "
        f"JOIN (VALUES {spans}) AS spans(from_ms, until_ms) "
        "ON counts_ms > from_ms AND counts_ms <= until_ms) AS placed "
        "WHERE recency = 1 ORDER BY until_ms, offsets_partition, topic, partition"
    )
    return rows_of(
        engine, sql, [*of_group, *of_group, cluster, *of_group, *(cluster for _ in clocks)]
    )
