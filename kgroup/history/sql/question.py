"""Shared by all questions: rows of a query, the cluster to use, the times that have records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import orjson

from kgroup.errors import NotFoundError, UnknownGroupError, UsageError, near_names
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.model.cluster import TopicPartition
from kgroup.model.instant import shown_time
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.snapshot import Snapshot

Row = dict[str, Any]

MEMBER_TABLES = ("group_generations", "consumer_group_epochs")
"""Record tables with rows about the members of groups."""
GROUP_TABLES = (*MEMBER_TABLES, "offset_commits", "tombstones")
"""Record tables with rows about groups."""
RECORD_TABLES = (*GROUP_TABLES, "transactions")
"""Record tables with all readable records."""
EVERY_RECORD_TABLE = (*RECORD_TABLES, "other_records")
"""Record tables: every record is a row of one of them."""
COMMITTED = "(transaction IS NULL OR transaction = 'committed')"
"""SQL condition for valid commits: not transactional, or committed."""


@dataclass(frozen=True, slots=True)
class RecordedTime:
    """The time for which there are records.

    Attributes:
        first_ms: time of the earliest record; None if no record has a time.
        last_ms: time of the latest record.
    """

    first_ms: int | None
    last_ms: int | None


def rows_of(engine: Engine, sql: str, parameters: Sequence[Parameter] = ()) -> list[Row]:
    """Run a query; return a mapping for each row."""
    rows: list[Row] = engine.query(sql, parameters, is_trusted=True).to_pylist()
    return rows


def where(*conditions: tuple[str, Parameter]) -> tuple[str, list[Parameter]]:
    """Return one condition that joins several by AND, and its parameters.

    Args:
        conditions: each with one ``?`` and its value; left out if the value is None.
    """
    chosen = [(text, value) for text, value in conditions if value is not None]
    return " AND ".join(text for text, _ in chosen) or "TRUE", [value for _, value in chosen]


def marks(values: Collection[Parameter]) -> str:
    """Return a question mark for each parameter, for ``IN (...)``."""
    return ", ".join("?" for _ in values)


def cluster_names(engine: Engine) -> list[str]:
    """Return the clusters with commits, sorted."""
    found = rows_of(engine, "SELECT DISTINCT cluster FROM offset_commits ORDER BY cluster")
    return [row["cluster"] for row in found]


def cluster_of_group(engine: Engine, group_id: str, cluster: str | None) -> str:
    """Return the cluster of a group.

    Args:
        engine: query engine.
        group_id: the group.
        cluster: the cluster chosen by the user, or None.

    Raises:
        NotFoundError: the group is in no cluster, or not in the chosen one.
        UsageError: the group is in several clusters, and none was chosen.
    """
    sql = " UNION ".join(
        f"SELECT cluster FROM {table} WHERE group_id = ?" for table in GROUP_TABLES
    )
    answer = rows_of(engine, sql, [group_id] * len(GROUP_TABLES))
    found: list[str] = sorted(row["cluster"] for row in answer)
    if not found:
        raise no_group(engine, group_id, cluster)
    if cluster is not None:
        if cluster not in found:
            raise NotFoundError(
                f"group {group_id!r} is not in cluster {cluster}, but in {', '.join(found)}",
                group_id=group_id,
            )
        return cluster
    if len(found) > 1:
        raise UsageError(
            f"group {group_id!r} is in several clusters: {', '.join(found)}; choose one with "
            "--cluster"
        )
    return found[0]


def no_group(engine: Engine, group_id: str, cluster: str | None) -> UnknownGroupError:
    """Return the error for an unknown group, with similar ids."""
    meant = near_names(group_id, group_ids(engine)) or "."
    return UnknownGroupError(
        f"group {group_id!r} is not in {place_of(cluster)}{meant}", group_id=group_id
    )


def place_of(cluster: str | None) -> str:
    """Return where something was searched: in the records of a cluster, or in all records."""
    return "the records" if cluster is None else f"the records of cluster {cluster}"


def group_ids(engine: Engine) -> list[str]:
    """Return the ids of all groups, sorted."""
    sql = " UNION ".join(f"SELECT group_id FROM {table}" for table in GROUP_TABLES)
    found = rows_of(engine, f"{sql} ORDER BY group_id")
    return [row["group_id"] for row in found if row["group_id"] is not None]


def recorded_time(
    engine: Engine, cluster: str, offsets_partition: int | None = None
) -> RecordedTime:
    """Return the time for which there are records of a cluster or of one offsets partition."""
    condition, parameters = where(
        ("cluster = ?", cluster), ("offsets_partition = ?", offsets_partition)
    )
    sql = " UNION ALL ".join(
        f"SELECT MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM {table} WHERE {condition}"
        for table in RECORD_TABLES
    )
    found = rows_of(engine, sql, parameters * len(RECORD_TABLES))
    firsts = [row["first_ms"] for row in found if row["first_ms"] is not None]
    lasts = [row["last_ms"] for row in found if row["last_ms"] is not None]
    return RecordedTime(min(firsts, default=None), max(lasts, default=None))


def first_times(
    engine: Engine, cluster: str, groups: Collection[str], tables: Sequence[str] = GROUP_TABLES
) -> dict[str, int]:
    """Return the time of each group's first record in these tables.

    Groups without a record that has a time are left out.
    """
    condition = f"cluster = ? AND group_id IN ({marks(groups)}) AND time_ms IS NOT NULL"
    found = times_by(engine, "group_id", tables, condition, [cluster, *groups])
    return {row["group_id"]: row["first_ms"] for row in found}


def times_by(
    engine: Engine,
    columns: str,
    tables: Sequence[str],
    condition: str,
    parameters: Sequence[Parameter],
) -> list[Row]:
    """Return the number of rows of record tables and their first and last times, by some columns.

    Args:
        engine: query engine.
        columns: columns to group by.
        tables: record tables that have these columns.
        condition: condition on the rows of each table.
        parameters: parameters of the condition.
    """
    records = " UNION ALL ".join(
        f"SELECT {columns}, time_ms FROM {table} WHERE {condition}" for table in tables
    )
    sql = (
        f"SELECT {columns}, COUNT(*) AS record_count, MIN(time_ms) AS first_ms, "
        f"MAX(time_ms) AS last_ms FROM ({records}) AS records GROUP BY {columns} ORDER BY {columns}"
    )
    return rows_of(engine, sql, [*parameters] * len(tables))


def topic_names(engine: Engine, cluster: str) -> dict[str, str]:
    """Return the names of the topics that members owned by topic id, where both are known."""
    sql = (
        "SELECT DISTINCT topic_id, topic FROM assignments WHERE cluster = ? "
        "AND topic_id IS NOT NULL AND topic IS NOT NULL ORDER BY topic_id, topic"
    )
    return {row["topic_id"]: row["topic"] for row in rows_of(engine, sql, [cluster])}


def known_up_to(cluster: str, last_ms: int, offsets_partition: int | None = None) -> str:
    """Return a note that the records end before the requested time.

    Args:
        cluster: cluster of the records.
        last_ms: time of the last record.
        offsets_partition: only this partition of `__consumer_offsets`.
    """
    of_partition = ""
    if offsets_partition is not None:
        of_partition = f"partition {offsets_partition} of __consumer_offsets in "
    return (
        f"Records of {of_partition}cluster {cluster} are known up to {shown_time(last_ms)}; later "
        "records, if any, are unknown."
    )


def outside_notes(engine: Engine, clusters: Iterable[str], *times_ms: int | None) -> list[str]:
    """Return notes on requested times before the first or after the last record of a cluster.

    Args:
        engine: query engine.
        clusters: clusters of the answer.
        times_ms: the requested times; None for those that were not given.
    """
    notes = []
    for cluster in clusters if (times := [ms for ms in times_ms if ms is not None]) else ():
        known = recorded_time(engine, cluster)
        if known.first_ms is not None and min(times) < known.first_ms:
            since = shown_time(known.first_ms)
            notes.append(
                f"Records of cluster {cluster} are known since {since}; earlier records are "
                "unknown."
            )
        if known.last_ms is not None and max(times) > known.last_ms:
            notes.append(known_up_to(cluster, known.last_ms))
    return notes


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval in which a member owned a partition; see the table for its columns.

    Attributes:
        cluster, group_id, group_type, instance_id, client_id, client_host, topic_id: as in
            `kgroup.history.query.owner.Owner`.
        topic: topic name; None if only the topic id is known, and for tasks.
        partition: partition number, or task number.
        member_id: member id.
        generation_id: generation, or member epoch, in which the member got the partition.
        from_ms: start of the interval; None if the record that assigned the partition has no
            time.
        to_ms: end of the interval; None if it has not ended, or if unknown.
        ended_by: `moved`, `released`, `gone` or `deleted`; moved: the same record assigned the
            partition to another member; released: no other member got it; it has no owner, or
            only the members that owned it at the same time; gone: the member left the group;
            deleted: the group was deleted; None if the member still owns the partition, or if
            its current assignment cannot be read.
        subtopology: subtopology of a streams group's task; else None.
        role: role of a task: active, standby or warmup; else None.
        offsets_partition: partition of `__consumer_offsets` with the records.
        from_log_offset: offset of the record that began the interval.
        to_log_offset: offset of the record that ended the interval; None if the member still
            owns the partition.
    """

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
        """Whether the start, and the end if it has one, are known as times."""
        has_end = self.to_log_offset is None or self.to_ms is not None
        return self.from_ms is not None and has_end


_COLUMNS = ", ".join(field.name for field in fields(Interval))


def overlaps(
    from_ms: int | None, to_ms: int | None, since_ms: int | None, until_ms: int | None
) -> bool:
    """Return whether an interval overlaps a period of time.

    Args:
        from_ms: start of the interval; None if unknown, which matches any time.
        to_ms: end of the interval; likewise.
        since_ms: start of the period.
        until_ms: end of the period; may equal `since_ms`, for a single instant.
    """
    if until_ms is not None and from_ms is not None:
        is_instant = since_ms == until_ms
        if from_ms > until_ms or (from_ms == until_ms and not is_instant):
            return False
    return since_ms is None or to_ms is None or to_ms > since_ms


def read_intervals(
    engine: Engine, condition: str, parameters: Sequence[Parameter]
) -> list[Interval]:
    """Return the intervals that match an SQL condition.

    They are ordered by group, topic, partition and time.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM assignments WHERE {condition} ORDER BY cluster, group_id, "
        "topic NULLS LAST, topic_id, subtopology, partition, role, from_log_offset, member_id, "
        "to_log_offset"
    )
    return [Interval(**row) for row in rows_of(engine, sql, parameters)]


_MOST_NAMED = 10
_TABLES = ("assignments", "log_ends", "offset_commits", "tombstones")
_TABLES_WITH_IDS = ("assignments", "offset_commits")
_NAMING = (
    "(type IN ('ConsumerGroupRegularExpression', 'StreamsGroupTopology') "
    "OR type LIKE '%PartitionMetadata')"
)
"""Condition for records with topic names that may be in no assignment, commit or subscription."""


def check_topic(
    engine: Engine,
    topic: str,
    cluster: str | None,
    *,
    given: Iterable[str] = (),
    by_id: bool = False,
) -> None:
    """Check that a topic exists, after nothing was found for it.

    This searches all topic names, so it is for questions with an empty result.

    Args:
        engine: query engine.
        topic: name of the topic.
        cluster: only this cluster; None for all.
        given: topics that are known from elsewhere.
        by_id: whether `topic` may also be a topic id.

    Raises:
        NotFoundError: no record names the topic; the text has similar names, or existing ones.
    """
    names = {*_names(engine, cluster), *given}
    if topic in names or (by_id and topic in _ids(engine, cluster)):
        return
    meant = near_names(topic, sorted(names))
    if not meant and names:
        first = ", ".join(sorted(names)[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        meant = f"; choose one of {first}{more}"
    raise NotFoundError(
        f"topic {topic!r} is not in {place_of(cluster)}{meant or '; there are no topics'}",
        topic=topic,
    )


def _names(engine: Engine, cluster: str | None) -> Iterator[str]:
    """Yield the topic names in records; names may be repeated."""
    condition, parameters = where(("cluster = ?", cluster))
    sql = " UNION ".join(
        f"SELECT topic FROM {table} WHERE {condition} AND topic IS NOT NULL" for table in _TABLES
    )
    yield from (row["topic"] for row in rows_of(engine, sql, parameters * len(_TABLES)))
    sql = f"SELECT DISTINCT subscribed_topics FROM members WHERE {condition}"
    for row in rows_of(engine, sql, parameters):
        yield from row["subscribed_topics"] or ()
    sql = f"SELECT value_json FROM consumer_group_epochs WHERE {condition} AND {_NAMING}"
    for row in rows_of(engine, sql, parameters):
        yield from _named_in(orjson.loads(row["value_json"])["data"])


def _named_in(value: dict[str, Any]) -> Iterator[str]:
    """Yield the topic names in a record's value, in any list of topics."""
    for key, found in value.items():
        is_of_topics = key.lower().endswith("topics")
        for each in found if isinstance(found, list) else ():
            if isinstance(each, dict):
                name = each.get("topicName") or each.get("name") if is_of_topics else None
                yield from _named_in(each) if name is None else (name,)
            elif is_of_topics and isinstance(each, str):  # copartition groups contain numbers
                yield each


def _ids(engine: Engine, cluster: str | None) -> set[str]:
    condition, parameters = where(("cluster = ?", cluster))
    sql = " UNION ".join(
        f"SELECT topic_id FROM {table} WHERE {condition}" for table in _TABLES_WITH_IDS
    )
    return {row["topic_id"] for row in rows_of(engine, sql, parameters * len(_TABLES_WITH_IDS))}


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A row of the table `log_ends`."""

    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    time_ms: int


def committed_partitions(engine: Engine, group_id: str) -> frozenset[TopicPartition]:
    """Return the partitions with commits of a group."""
    sql = (
        "SELECT DISTINCT topic, partition FROM offset_commits WHERE group_id = ? "
        "ORDER BY topic, partition"
    )
    return frozenset((row["topic"], row["partition"]) for row in rows_of(engine, sql, [group_id]))


NEAR_MS = 120_000
"""Age up to which recorded log ends are near a time; a stream records them about each minute."""

_END = "topic, partition, log_start_offset, log_end_offset, time_ms"


def ends_at(
    engine: Engine, cluster: str, at_ms: int, group_id: str | None = None
) -> Sequence[LogEnd]:
    """Return the last log ends recorded up to a time, by topic and partition.

    Args:
        engine: query engine.
        cluster: the cluster.
        at_ms: the time.
        group_id: only the partitions with commits of this group.
    """
    source, parameters = _recorded(cluster, group_id)
    sql = (
        f"SELECT {_END} FROM (SELECT {_END}, ROW_NUMBER() OVER (PARTITION BY topic, partition "
        f"ORDER BY time_ms DESC, log_end_offset DESC) AS recency FROM {source} AND time_ms <= ? "
        "AND log_end_offset IS NOT NULL) AS ranked WHERE recency = 1 ORDER BY topic, partition"
    )
    return [LogEnd(**row) for row in rows_of(engine, sql, [*parameters, at_ms])]


def recorded_ends(
    engine: Engine, cluster: str, group_id: str, times_ms: Collection[int]
) -> list[LogEnd]:
    """Return the log ends of a group's partitions that were recorded at some times, by time."""
    source, parameters = _recorded(cluster, group_id)
    sql = (
        f"SELECT {_END} FROM {source} AND time_ms IN ({marks(times_ms) or 'NULL'}) "
        "ORDER BY time_ms, topic, partition, log_end_offset"
    )
    return [LogEnd(**row) for row in rows_of(engine, sql, [*parameters, *times_ms])]


def times_of_ends(
    engine: Engine, cluster: str, group_id: str, since_ms: int | None, until_ms: int | None
) -> list[int]:
    """Return the times in a period at which log ends of a group's partitions were recorded."""
    source, parameters = _recorded(cluster, group_id)
    condition, of_time = where(("time_ms >= ?", since_ms), ("time_ms < ?", until_ms))
    sql = f"SELECT DISTINCT time_ms FROM {source} AND {condition} ORDER BY time_ms"
    return [row["time_ms"] for row in rows_of(engine, sql, [*parameters, *of_time])]


def _recorded(cluster: str, group_id: str | None) -> tuple[str, list[Parameter]]:
    """Return what follows FROM in a query of the log ends of a group, or of all topics."""
    if group_id is None:
        return "log_ends WHERE cluster = ?", [cluster]
    commits = (
        "SELECT DISTINCT topic, partition FROM offset_commits WHERE cluster = ? AND group_id = ?"
    )
    source = f"log_ends JOIN ({commits}) AS committed USING (topic, partition) WHERE cluster = ?"
    return source, [cluster, group_id, cluster]


def commits_known_ms(engine: Engine, cluster: str, group_id: str) -> int | None:
    """Return the last time up to which a build has read all commits of a group.

    A build of a live cluster records it as log ends of `__consumer_offsets`.
    """
    sql = (
        "SELECT MAX(time_ms) AS known_ms FROM log_ends WHERE cluster = ? AND topic = ? AND "
        "partition IN (SELECT DISTINCT offsets_partition FROM offset_commits WHERE cluster = ? "
        "AND group_id = ?)"
    )
    (row,) = rows_of(engine, sql, [cluster, OFFSETS_TOPIC, cluster, group_id])
    known_ms: int | None = row["known_ms"]
    return known_ms


def ends_of(snapshot: Snapshot) -> list[LogEnd]:
    """Return the log ends in a snapshot."""
    taken_ms = snapshot.taken_ms
    return [
        LogEnd(
            log_range.topic,
            log_range.partition,
            log_range.log_start_offset,
            log_range.log_end_offset,
            taken_ms,
        )
        for log_range in snapshot.log_ranges
        if log_range.log_end_offset is not None
    ]
