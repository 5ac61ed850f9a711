"""Where partitions of users' topics ended, as snapshots recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import rows_of
from kgroup.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A row of the table `log_ends`."""

    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    time_ms: int


def ends_at(engine: Engine, cluster: str, at_ms: int) -> Sequence[LogEnd]:
    """Give the last ones that were recorded by then, by topic and partition."""
    sql = (
        "SELECT topic, partition, log_start_offset, log_end_offset, time_ms FROM "
        "(SELECT topic, partition, log_start_offset, log_end_offset, time_ms, ROW_NUMBER() OVER "
        "(PARTITION BY topic, partition ORDER BY time_ms DESC, log_end_offset DESC) AS recency "
        "FROM log_ends WHERE cluster = ? AND time_ms <= ?) AS ranked "
        "WHERE recency = 1 ORDER BY topic, partition"
    )
    return [LogEnd(**row) for row in rows_of(engine, sql, [cluster, at_ms])]


def all_ends(engine: Engine, cluster: str) -> list[LogEnd]:
    """Give all that were recorded, in order of time."""
    sql = (
        "SELECT topic, partition, log_start_offset, log_end_offset, time_ms FROM log_ends "
        "WHERE cluster = ? ORDER BY time_ms, topic, partition, log_end_offset"
    )
    return [LogEnd(**row) for row in rows_of(engine, sql, [cluster])]


def ends_of(snapshot: Snapshot) -> list[LogEnd]:
    """Give those that a snapshot knows."""
    taken_ms = snapshot.taken_ms
    return [
        LogEnd(each.topic, each.partition, each.log_start_offset, each.log_end_offset, taken_ms)
        for each in snapshot.log_ranges
        if each.log_end_offset is not None
    ]
