"""Who owned what in a group, over time."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.history.sql.engine import Engine
from kgroup.history.sql.interval import Interval, overlaps, read_intervals
from kgroup.history.sql.known_topic import check_topic
from kgroup.history.sql.question import cluster_of_group, span_of, where
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class Timeline(Report[Interval]):
    """Stretches of time.

    Attributes:
        last_ms: time of the cluster's last record; None where that is not known, or was not asked.
    """

    last_ms: int | None = None


def timeline(
    engine: Engine,
    group_id: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    cluster: str | None = None,
    with_last: bool = False,
) -> Timeline:
    """Give the stretches of time in which members of a group owned partitions.

    Args:
        engine: to ask.
        group_id: the group.
        since_ms: leave out what ended by then.
        until_ms: leave out what began then or later.
        topic: only its partitions; a name, or an id.
        cluster: that has the group.
        with_last: whether it matters up to when anything is known.

    Returns:
        The stretches by topic, partition and time; those whose times are not known are never left
        out.

    Raises:
        NotFoundError: the group is not there, or no record names the topic.
        UsageError: it is in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    condition, parameters = where(
        ("cluster = ?", cluster), ("group_id = ?", group_id), ("? IN (topic, topic_id)", topic)
    )
    found = tuple(
        interval
        for interval in read_intervals(engine, condition, parameters)
        if overlaps(interval.from_ms, interval.to_ms, since_ms, until_ms)
    )
    if not found and topic is not None:
        check_topic(engine, topic, cluster, by_id=True)
    notes = [] if found else [_why_none(engine, cluster, group_id)]
    untimed = sum(not interval.is_timed for interval in found)
    if untimed:
        notes.append(f"The log has no times for {untimed} of the stretches, only offsets.")
    last_ms = span_of(engine, cluster).last_ms if with_last and found else None
    return Timeline(found, notes=tuple(notes), last_ms=last_ms)


def _why_none(engine: Engine, cluster: str, group_id: str) -> str:
    """Say why there is nothing to show."""
    if read_intervals(engine, "cluster = ? AND group_id = ?", [cluster, group_id]):
        return f"Group {group_id!r} owned other partitions, or at other times."
    return (
        f"No member of group {group_id!r} is known to have owned a partition: it committed offsets "
        "only, or speaks another protocol."
    )
