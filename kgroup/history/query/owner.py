"""Ownership of partitions: who owned one, at a time or over time; what a group owned over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import orjson

from kgroup.errors import NotFoundError, UsageError
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import (
    MEMBER_TABLES,
    Interval,
    check_topic,
    cluster_of_group,
    first_times,
    group_ids,
    known_up_to,
    no_group,
    outside_notes,
    overlaps,
    read_intervals,
    recorded_time,
    rows_of,
    where,
)
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class OwnershipTimeline(Report[Interval]):
    """Ownership intervals.

    Attributes:
        last_ms: time of the cluster's last record; None if unknown or not requested.
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
) -> OwnershipTimeline:
    """Return the ownership intervals of a group's members.

    Args:
        engine: query engine.
        group_id: the group.
        since_ms: leave out intervals that ended by this time.
        until_ms: leave out intervals that began at or after this time.
        topic: only partitions of this topic; a name or an id.
        cluster: cluster of the group.
        with_last: whether to return the time of the last record.

    Returns:
        The intervals by topic, partition and time; those without times are always included.

    Raises:
        NotFoundError: the group does not exist, or no record names the topic.
        UsageError: the group exists in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    condition, parameters = where(
        ("cluster = ?", cluster), ("group_id = ?", group_id), ("? IN (topic, topic_id)", topic)
    )
    intervals = tuple(
        interval
        for interval in read_intervals(engine, condition, parameters)
        if overlaps(interval.from_ms, interval.to_ms, since_ms, until_ms)
    )
    if not intervals and topic is not None:
        check_topic(engine, topic, cluster, by_id=True)
    notes = [] if intervals else [_why_none(engine, cluster, group_id)]
    notes += outside_notes(engine, [cluster], since_ms, until_ms)
    untimed = sum(not interval.is_timed for interval in intervals)
    if untimed:
        notes.append(f"The log has no times for {untimed} of the intervals, only offsets.")
    last_ms = recorded_time(engine, cluster).last_ms if with_last and intervals else None
    return OwnershipTimeline(intervals, notes=tuple(notes), last_ms=last_ms)


def _why_none(engine: Engine, cluster: str, group_id: str) -> str:
    """Return a note on why there is no interval."""
    if read_intervals(engine, "cluster = ? AND group_id = ?", [cluster, group_id]):
        return f"Group {group_id!r} owned other partitions, or at other times."
    return (
        f"No member of group {group_id!r} is known to have owned a partition: the group only "
        "committed offsets, or uses another protocol."
    )


Status = Literal["owned", "nobody", "unknown"]
_Condition = tuple[str, Parameter]


_BEFORE = "nothing is known of the group's members before its first record"
_UNTIMED = "the log has no times for the ownership, only offsets"
_UNREADABLE = "the next assignment of its last owner cannot be read"
_WHY_NOBODY = {
    "gone": "its owner had left, and no other member had it yet",
    "released": "its owner had released it, and no other member had it yet",
    "deleted": "the group had been deleted",
}
_NOT_YET = "no member had owned it yet"


@dataclass(frozen=True, slots=True)
class Owner:
    """Ownership of one partition in one group during an interval.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        topic: topic name; as requested, possibly a topic id, if the name is unknown.
        partition: partition number; as requested.
        status: `owned`, `nobody` or `unknown`; `nobody`: no member owned the partition.
        member_id: member id of the owner; None if there was no owner or the owner is unknown,
            as are the fields up to `generation_id`.
        instance_id: group.instance.id of a static member; else None.
        client_id: client.id that the client sent.
        client_host: client address as seen by the broker.
        generation_id: generation, or member epoch, in which the member got the partition.
        since_ms: start of the interval; None if unknown.
        until_ms: end of the interval; None if it has not ended, or if unknown.
        ended_by: `moved`, `released`, `gone` or `deleted`; as in the table `assignments`; None
            without a known owner.
        reason: why no member owned the partition, or why the owner is unknown; None if owned.
        group_type: group type: `classic`, `consumer`, `share` or `streams`.
        topic_id: topic id; None if not stored, and for tasks.
        subtopology: subtopology of the streams group's task that reads the partition; else
            None.
        role: role of that task: active, standby or warmup; else None.
    """

    cluster: str
    group_id: str
    topic: str | None
    partition: int
    status: Status
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    generation_id: int | None
    since_ms: int | None
    until_ms: int | None
    ended_by: str | None
    reason: str | None
    group_type: str
    topic_id: str | None
    subtopology: str | None
    role: str | None


_OF_OWNER = ("member_id", "instance_id", "client_id", "client_host", "generation_id", "ended_by")
_OF_BOTH = ("cluster", "group_id", "partition", "group_type", "topic_id", "subtopology", "role")


def owners(
    engine: Engine,
    topic: str,
    partition: int,
    since_ms: int,
    until_ms: int,
    *,
    group_id: str | None = None,
    cluster: str | None = None,
) -> Report[Owner]:
    """Return the owners of a partition, and the times without an owner or without records.

    Args:
        engine: query engine.
        topic: name or id of the topic.
        partition: the partition.
        since_ms: start of the time.
        until_ms: end of the time; may equal `since_ms`.
        group_id: only this group; by default every group that ever owned the partition.
        cluster: cluster of the topic.

    Returns:
        For each group, the intervals that overlap the time, in order. The intervals overlap each
        other if several members owned the partition (share groups).

    Raises:
        NotFoundError: no group is known to have owned the partition; the text has similar names if
            the topic or the group does not exist.
        UsageError: groups of several clusters owned the partition.
    """
    chosen = (("cluster = ?", cluster), ("group_id = ?", group_id), ("partition = ?", partition))
    owned = read_intervals(engine, *where(("? IN (topic, topic_id)", topic), *chosen))
    owned += _of_tasks(engine, topic, chosen)
    if not owned:
        if group_id is not None and group_id not in group_ids(engine):
            raise no_group(engine, group_id, cluster)
        check_topic(engine, topic, cluster, by_id=True)
        raise NotFoundError(
            _why_unowned(engine, topic, partition, group_id, cluster),
            group_id=group_id,
            topic=topic,
        )
    clusters = sorted({interval.cluster for interval in owned})
    if len(clusters) > 1:
        raise UsageError(
            f"groups of several clusters owned partition {partition} of topic {topic}: "
            f"{', '.join(clusters)}; choose one with --cluster"
        )
    cluster = clusters[0]
    ordered = sorted(owned, key=lambda interval: interval.group_id)  # a stable sort
    by_group = {name: [*own] for name, own in groupby(ordered, lambda interval: interval.group_id)}
    firsts = first_times(engine, cluster, by_group, MEMBER_TABLES)
    rows = tuple(
        row
        for name, intervals in by_group.items()
        for row in _timeline(intervals, topic, firsts.get(name))
        if overlaps(row.since_ms, row.until_ms, since_ms, until_ms)
    )
    notes = []
    for number in sorted({interval.offsets_partition for interval in owned}):
        last_ms = recorded_time(engine, cluster, number).last_ms
        if last_ms is not None and until_ms > last_ms:
            notes.append(known_up_to(cluster, last_ms, number))
    return Report(rows, notes=tuple(notes))


def _of_tasks(engine: Engine, topic: str, chosen: Sequence[_Condition]) -> list[Interval]:
    """Return, for streams groups, the intervals of active tasks that read the topic."""
    topologies = rows_of(
        engine,
        "SELECT DISTINCT cluster, group_id, value_json FROM consumer_group_epochs WHERE type = ?",
        ["StreamsGroupTopology"],
    )
    readers = {
        (row["cluster"], row["group_id"], subtopology["subtopologyId"])
        for row in topologies
        for subtopology in orjson.loads(row["value_json"])["data"]["subtopologies"]
        if topic in subtopology["sourceTopics"]
        or any(topic == source["name"] for source in subtopology["repartitionSourceTopics"])
    }
    if not readers:
        return []
    tasks = (("group_type = ?", "streams"), ("role = ?", "active"))
    return [
        interval
        for interval in read_intervals(engine, *where(*tasks, *chosen))
        if (interval.cluster, interval.group_id, interval.subtopology) in readers
    ]


def _timeline(intervals: Sequence[Interval], topic: str, first_ms: int | None) -> Iterator[Owner]:
    """Yield owners and gaps of a partition in a group, from the group's first record on."""
    timed = sorted(
        (interval for interval in intervals if interval.is_timed),
        key=lambda interval: (interval.from_ms, interval.from_log_offset),
    )
    untimed = [interval for interval in intervals if not interval.is_timed]
    for interval in untimed:
        yield _owned(interval, topic, "unknown", _UNTIMED)
    cursor_ms = first_ms
    before: Interval | None = None
    if first_ms is not None:
        yield _gap(intervals[0], topic, "unknown", _BEFORE, None, first_ms)
    for interval in timed:
        assert interval.from_ms is not None
        if cursor_ms is not None and interval.from_ms > cursor_ms:
            yield _nobody(before, intervals[0], topic, cursor_ms, interval.from_ms, bool(untimed))
        yield _owned(interval, topic, "owned", None)
        if before is None or _end(interval) >= _end(before):
            before = interval
        cursor_ms = max(cursor_ms or interval.from_ms, _end(before))
    if before is not None and before.to_ms is not None:
        yield _nobody(before, intervals[0], topic, before.to_ms, None, bool(untimed))


def _end(interval: Interval) -> int:
    return 1 << 63 if interval.to_ms is None else interval.to_ms


def _nobody(
    before: Interval | None,
    like: Interval,
    topic: str,
    since_ms: int,
    until_ms: int | None,
    is_untimed: bool,
) -> Owner:
    """Return a gap with the reason, after an interval or before the first one."""
    if is_untimed:
        return _gap(like, topic, "unknown", _UNTIMED, since_ms, until_ms)
    if before is None:
        return _gap(like, topic, "nobody", _NOT_YET, since_ms, until_ms)
    reason = _WHY_NOBODY.get(before.ended_by or "")
    if reason is None:
        return _gap(like, topic, "unknown", _UNREADABLE, since_ms, until_ms)
    return _gap(like, topic, "nobody", reason, since_ms, until_ms)


def _owned(interval: Interval, topic: str, status: Status, reason: str | None) -> Owner:
    return Owner(
        topic=interval.topic or topic,
        status=status,
        since_ms=interval.from_ms,
        until_ms=interval.to_ms,
        reason=reason,
        **{name: getattr(interval, name) for name in (*_OF_OWNER, *_OF_BOTH)},
    )


def _gap(
    like: Interval,
    topic: str,
    status: Status,
    reason: str,
    since_ms: int | None,
    until_ms: int | None,
) -> Owner:
    nobody: dict[str, Any] = dict.fromkeys(_OF_OWNER)
    owned = _owned(like, topic, status, reason)
    return replace(owned, since_ms=since_ms, until_ms=until_ms, **nobody)


def _why_unowned(
    engine: Engine, topic: str, partition: int, group_id: str | None, cluster: str | None
) -> str:
    condition, parameters = where(
        ("topic = ?", topic),
        ("partition = ?", partition),
        ("cluster = ?", cluster),
        ("group_id = ?", group_id),
    )
    sql = f"SELECT DISTINCT group_id FROM offset_commits WHERE {condition} ORDER BY group_id"
    committed = [row["group_id"] for row in rows_of(engine, sql, parameters)]
    of_cluster = "" if cluster is None else f" of cluster {cluster}"
    who = f"no group{of_cluster}" if group_id is None else f"group {group_id!r}{of_cluster}"
    known = "is known to have" if group_id is None else "is not known to have"
    text = f"{who} {known} owned partition {partition} of topic {topic}"
    if committed:
        text += (
            f"; {', '.join(map(repr, committed))} committed its offsets: consumers that read "
            "without an assignment are not in the log"
        )
    highest = _highest_partition(engine, topic, cluster)
    if highest is not None and partition > highest:
        text += f"; the highest partition in the records is {highest}"
    return text


def _highest_partition(engine: Engine, topic: str, cluster: str | None) -> int | None:
    """Return the highest partition of a topic that records name; None if there is none."""
    by_name = where(("topic = ?", topic), ("cluster = ?", cluster))
    by_id = where(("? IN (topic, topic_id)", topic), ("cluster = ?", cluster))
    tables = {"assignments": by_id, "offset_commits": by_id, "log_ends": by_name}
    sql = " UNION ALL ".join(
        f"SELECT MAX(partition) AS highest FROM {table} WHERE {condition}"
        for table, (condition, _) in tables.items()
    )
    rows = rows_of(
        engine, sql, [parameter for _, parameters in tables.values() for parameter in parameters]
    )
    return max((row["highest"] for row in rows if row["highest"] is not None), default=None)
