"""How a group committed: how often, where it paused, where it went back; by partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.history.engine import Engine, Parameter
from kgroup.history.interval import Interval, read_intervals
from kgroup.history.question import SETTLED, Row, cluster_of_group, rows_of, where
from kgroup.operation.report import Report

__all__ = ["CommitStory", "Jump", "Pause", "commit_story"]

_MINUTE_MS = 60_000
_At = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without a commit that was longer than was asked for.

    Attributes:
        since_ms: time of the commit before it.
        until_ms: time of the one behind it.
        pause_ms: how long it took.
        member_id: who owned the partition when the first of them was written; None: nobody is
            known.
        next_member_id: who did when the second was.
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
    """A commit below the one before it: offsets were reset, or records are read again.

    Attributes:
        time_ms: of the commit.
        from_offset: that was committed before it.
        to_offset: that it committed.
        from_ms: time of the commit before it.
        was_deleted: whether the offset was deleted between the two.
        member_id: who owned the partition when it was written; None: nobody is known to have, as
            when an administrator resets the offsets of a group without members.
        client_id: of that member.
        client_host: likewise.
        before_member_id: who owned it when the commit before was written.
        log_offset: of the commit's record.
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
    log_offset: int


@dataclass(frozen=True, slots=True)
class CommitStory:
    """The commits of one partition; those of aborted and of open transactions left out.

    Attributes:
        commit_count: how many.
        first_ms: time of the first one; None where no commit has a time.
        last_ms: time of the last one.
        first_offset: that the first one committed.
        last_offset: that the last one committed.
        commits_per_minute: between the first and the last one; None where there is no time between.
        longest_pause_ms: between two that follow each other; None where there are not two.
        longest_pause_since_ms: when it began.
        pauses: those that are longer than was asked for, in order.
        jumps: backward ones, in order.
    """

    cluster: str
    group_id: str
    topic: str
    partition: int
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


def commit_story(
    engine: Engine,
    group_id: str,
    *,
    pause_ms: int,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    cluster: str | None = None,
) -> Report[CommitStory]:
    """Tell how a group committed.

    Args:
        engine: to ask.
        group_id: the group.
        pause_ms: longer pauses are told one by one.
        since_ms: only commits from then on,
        until_ms: and before then. One without a time is never left out.
        topic: only of this topic.
        cluster: that has the group.

    Returns:
        A story for each partition, by topic and partition.

    Raises:
        NotFoundError: the group is not there.
        UsageError: it is in several clusters.
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
    owners = _Owners(read_intervals(engine, "cluster = ? AND group_id = ?", [cluster, group_id]))
    jumps = _jumps(engine, condition, parameters, _removals(engine, cluster, group_id), owners)
    pauses = _pauses(engine, condition, parameters, pause_ms, owners)
    data = tuple(_story(cluster, group_id, row, pauses, jumps) for row in counts)
    return Report(data, notes=tuple(_notes(engine, condition, parameters, group_id, data)))


def _settled(condition: str) -> str:
    """Take the commits that count, each with the one before it in its partition."""
    return (
        "SELECT topic, partition, offsets_partition, log_offset, time_ms, committed_offset, "
        "LAG(committed_offset) OVER (PARTITION BY topic, partition "
        "ORDER BY offsets_partition, log_offset) AS before_offset, "
        "LAG(log_offset) OVER (PARTITION BY topic, partition "
        "ORDER BY offsets_partition, log_offset) AS before_log_offset, "
        "LAG(time_ms) OVER (PARTITION BY topic, partition "
        "ORDER BY offsets_partition, log_offset) AS before_ms "
        f"FROM offset_commits WHERE {condition} AND {SETTLED}"
    )


def _counts(engine: Engine, condition: str, parameters: Sequence[Parameter]) -> list[Row]:
    sql = (
        "SELECT topic, partition, COUNT(*) AS commit_count, MIN(time_ms) AS first_ms, "
        "MAX(time_ms) AS last_ms, MIN_BY(committed_offset, log_offset) AS first_offset, "
        "MAX_BY(committed_offset, log_offset) AS last_offset, "
        "MAX(time_ms - before_ms) AS longest_pause_ms, "
        "MAX(CASE WHEN place = 1 THEN before_ms END) AS longest_pause_since_ms "
        "FROM (SELECT topic, partition, log_offset, time_ms, committed_offset, before_ms, "
        "ROW_NUMBER() OVER (PARTITION BY topic, partition ORDER BY time_ms - before_ms DESC "
        "NULLS LAST, offsets_partition, log_offset) AS place "
        f"FROM ({_settled(condition)}) AS settled) AS ranked GROUP BY topic, partition "
        "ORDER BY topic, partition"
    )
    return rows_of(engine, sql, parameters)


def _removals(engine: Engine, cluster: str, group_id: str) -> Mapping[_At, Sequence[int]]:
    """Find where in the log offsets of the group were deleted."""
    found: dict[_At, list[int]] = {}
    for row in rows_of(
        engine,
        "SELECT topic, partition, log_offset FROM tombstones WHERE cluster = ? AND group_id = ? "
        "AND topic IS NOT NULL ORDER BY log_offset",
        [cluster, group_id],
    ):
        found.setdefault((row["topic"], row["partition"]), []).append(row["log_offset"])
    return found


@dataclass(slots=True)
class _Owners:
    """Who owned what, by offsets of the log: both come from the same one."""

    intervals: Iterable[Interval]
    _by_partition: dict[_At, list[Interval]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for interval in self.intervals:
            if interval.topic is not None:
                at = (interval.topic, interval.partition)
                self._by_partition.setdefault(at, []).append(interval)

    def at(self, row: Row, log_offset: int) -> Interval | None:
        """Give who owned the row's partition when a record was written, if it is one member."""
        found = [
            interval
            for interval in self._by_partition.get((row["topic"], row["partition"]), ())
            if interval.offsets_partition == row["offsets_partition"]
            and interval.from_log_offset <= log_offset
            and (interval.to_log_offset is None or interval.to_log_offset > log_offset)
        ]
        return found[0] if len(found) == 1 else None


def _jumps(
    engine: Engine,
    condition: str,
    parameters: Sequence[Parameter],
    removals: Mapping[_At, Sequence[int]],
    owners: _Owners,
) -> Mapping[_At, list[Jump]]:
    sql = (
        "SELECT topic, partition, offsets_partition, log_offset, time_ms, committed_offset, "
        f"before_offset, before_log_offset, before_ms FROM ({_settled(condition)}) AS settled "
        "WHERE committed_offset < before_offset "
        "ORDER BY topic, partition, offsets_partition, log_offset"
    )
    found: dict[_At, list[Jump]] = {}
    for row in rows_of(engine, sql, parameters):
        at = (row["topic"], row["partition"])
        gone = removals.get(at, ())
        next_gone = bisect_right(gone, row["before_log_offset"])
        owner = owners.at(row, row["log_offset"])
        before = owners.at(row, row["before_log_offset"])
        found.setdefault(at, []).append(
            Jump(
                topic=row["topic"],
                partition=row["partition"],
                time_ms=row["time_ms"],
                from_offset=row["before_offset"],
                to_offset=row["committed_offset"],
                from_ms=row["before_ms"],
                was_deleted=next_gone < len(gone) and gone[next_gone] < row["log_offset"],
                member_id=owner.member_id if owner else None,
                client_id=owner.client_id if owner else None,
                client_host=owner.client_host if owner else None,
                before_member_id=before.member_id if before else None,
                log_offset=row["log_offset"],
            )
        )
    return found


def _pauses(
    engine: Engine,
    condition: str,
    parameters: Sequence[Parameter],
    pause_ms: int,
    owners: _Owners,
) -> Mapping[_At, list[Pause]]:
    sql = (
        "SELECT topic, partition, offsets_partition, log_offset, time_ms, before_log_offset, "
        f"before_ms FROM ({_settled(condition)}) AS settled WHERE time_ms - before_ms > ? "
        "ORDER BY topic, partition, offsets_partition, log_offset"
    )
    found: dict[_At, list[Pause]] = {}
    for row in rows_of(engine, sql, [*parameters, pause_ms]):
        before = owners.at(row, row["before_log_offset"])
        owner = owners.at(row, row["log_offset"])
        found.setdefault((row["topic"], row["partition"]), []).append(
            Pause(
                topic=row["topic"],
                partition=row["partition"],
                since_ms=row["before_ms"],
                until_ms=row["time_ms"],
                pause_ms=row["time_ms"] - row["before_ms"],
                member_id=before.member_id if before else None,
                next_member_id=owner.member_id if owner else None,
            )
        )
    return found


def _story(
    cluster: str,
    group_id: str,
    row: Row,
    pauses: Mapping[_At, Sequence[Pause]],
    jumps: Mapping[_At, Sequence[Jump]],
) -> CommitStory:
    at = (row["topic"], row["partition"])
    rate = None
    if row["first_ms"] is not None and row["last_ms"] > row["first_ms"]:
        length_ms = row["last_ms"] - row["first_ms"]
        rate = round((row["commit_count"] - 1) * _MINUTE_MS / length_ms, 3)
    return CommitStory(
        cluster=cluster,
        group_id=group_id,
        commits_per_minute=rate,
        pauses=tuple(pauses.get(at, ())),
        jumps=tuple(jumps.get(at, ())),
        **row,
    )


def _notes(
    engine: Engine,
    condition: str,
    parameters: Sequence[Parameter],
    group_id: str,
    data: Sequence[CommitStory],
) -> Iterable[str]:
    sql = (
        "SELECT transaction, COUNT(*) AS left_out FROM offset_commits "
        f"WHERE {condition} AND transaction IN ('aborted', 'open') "
        "GROUP BY transaction ORDER BY transaction"
    )
    for row in rows_of(engine, sql, parameters):
        yield f"Commits of {row['transaction']} transactions left out: {row['left_out']}."
    if not data:
        yield f"Group {group_id!r} committed nothing that was asked for."
