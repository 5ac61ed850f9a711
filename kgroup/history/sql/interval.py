"""Rows of the table `assignments` as objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import rows_of


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time in which a member owned a partition; see the table for its columns."""

    cluster: str
    group_id: str
    group_type: str
    topic: str | None
    partition: int
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    generation_id: int | None
    from_ms: int | None
    to_ms: int | None
    ended_by: str | None
    topic_id: str | None
    subtopology: str | None
    role: str | None
    offsets_partition: int
    from_log_offset: int
    to_log_offset: int | None

    @property
    def is_timed(self) -> bool:
        """Whether its begin, and its end if it has one, are known as times."""
        has_end = self.to_log_offset is None or self.to_ms is not None
        return self.from_ms is not None and has_end


_COLUMNS = ", ".join(field.name for field in fields(Interval))


def overlaps(
    from_ms: int | None, to_ms: int | None, since_ms: int | None, until_ms: int | None
) -> bool:
    """Tell whether a stretch has to do with the time from one instant up to another.

    Args:
        from_ms: where the stretch begins,
        to_ms: and ends; an unknown time may be any.
        since_ms: the first instant,
        until_ms: and the second, which may be the same: then it is about that instant.
    """
    if until_ms is not None and from_ms is not None:
        is_instant = since_ms == until_ms
        if from_ms > until_ms or (from_ms == until_ms and not is_instant):
            return False
    return since_ms is None or to_ms is None or to_ms > since_ms


def read_intervals(
    engine: Engine, condition: str, parameters: Sequence[Parameter]
) -> list[Interval]:
    """Read the intervals that a condition of SQL takes.

    In the order of groups, topics, partitions and time.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM assignments WHERE {condition} ORDER BY cluster, group_id, "
        "topic NULLS LAST, topic_id, subtopology, partition, role, from_log_offset, member_id, "
        "to_log_offset"
    )
    return [Interval(**row) for row in rows_of(engine, sql, parameters)]
