"""Offsets that are no longer committed, and those about to expire.

Coordinators remove offsets by KIP-211 (Kafka 2.1 and later; `offsetExpirationCondition` of the
group classes, `isSubscribedToTopic`, `OffsetMetadataManager.cleanupExpiredOffsets`). Offsets of
topics that the group subscribes to are kept, and those with a pending transactional commit. The
others expire

- at the time stored with the offset, if there is one (older clients may set it), or else
- after a broker's ``offsets.retention.minutes`` since a classic group with a protocol became
  empty, or
- after that time since the commit: for groups that only commit, for topics that a stable classic
  consumer group no longer subscribes to, and for consumer and streams groups.

A classic group that is not empty keeps all offsets if the coordinator cannot read its
subscriptions (Connect, for example).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kgroup.history.query.past_group import PastGroups
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.part import answers_in_parts
from kgroup.history.sql.question import (
    GROUP_TABLES,
    cluster_names,
    outside_notes,
    recorded_time,
    rows_of,
    topic_names,
)
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.instant import shown_time
from kgroup.model.offset import CommittedOffset
from kgroup.operation.check.look import exact_length
from kgroup.operation.report import Report

_CONSUMER = "consumer"
_MOST_GROUPS = 2_000
"""Groups that are replayed at a time."""


@dataclass(frozen=True, slots=True)
class StaleOffset:
    """An offset that was not committed for a long time, or that expires soon.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        group_type: group type: `classic`, `consumer`, `share` or `streams`.
        state: group state at the requested time; None if unknown.
        topic: topic name.
        partition: partition number.
        committed_offset: offset of the next record to read.
        last_commit_ms: when the offset was committed.
        silent_ms: time since that commit.
        group_last_commit_ms: time of the latest commit of the group.
        member_id: owner of the partition, which does not commit; None if no owner is known.
        expires_ms: earliest time at which the coordinator may remove the offset; None if it is
            kept, or if unknown.
        expires_by: what decides about the expiration; `stored`: a time stored with the offset;
            `empty`: the group has been empty for the retention time; `commit`: retention time
            since the commit; `subscribed`: kept, because the group subscribes to the topic;
            `members`: kept, because the group has members; `pending`: kept, because an open
            transaction commits it; `unknown`.
    """

    cluster: str
    group_id: str
    group_type: GroupType
    state: GroupState | None
    topic: str
    partition: int
    committed_offset: int
    last_commit_ms: int
    silent_ms: int
    group_last_commit_ms: int
    member_id: str | None
    expires_ms: int | None
    expires_by: str


def stale_offsets(
    engine: Engine,
    *,
    silent_ms: int,
    expiring_ms: int,
    retention_ms: int,
    at_ms: int | None = None,
    cluster: str | None = None,
) -> Report[StaleOffset]:
    """Find offsets that are no longer committed, and those about to expire.

    Args:
        engine: query engine.
        silent_ms: include offsets not committed for this long.
        expiring_ms: include offsets that expire within this time.
        retention_ms: ``offsets.retention.minutes`` of the brokers, in milliseconds.
        at_ms: as of this time; None for the time of each cluster's last known record.
        cluster: only groups of this cluster.

    Returns:
        Offsets by cluster, group, topic and partition.
    """
    parts: list[_Part] = []
    notes = []
    for name in cluster_names(engine) if cluster is None else [cluster]:
        last_ms = recorded_time(engine, name).last_ms
        when = last_ms if at_ms is None else at_ms
        if when is None or last_ms is None:
            notes.append(f"No record of cluster {name} has a time.")
            continue
        if at_ms is None:
            notes.append(f"Cluster {name} as of its last known record, from {shown_time(when)}.")
        notes += outside_notes(engine, [name], at_ms)
        limits = _Limits(when, silent_ms, expiring_ms, retention_ms)
        names = _topic_names(engine, name)
        candidates = _candidates(engine, name, limits)
        parts += (
            _Part(name, candidates[start : start + _MOST_GROUPS], names, limits)
            for start in range(0, len(candidates), _MOST_GROUPS)
        )
    rows, _ = answers_in_parts(engine, StaleOffset, _of_part, parts)
    if not rows:
        notes.append(
            "No offset is known to have been without a commit for "
            f"{exact_length(silent_ms)}, or to expire within {exact_length(expiring_ms)}."
        )
    return Report(rows, notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Limits:
    """The time, and what is asked about it; see `stale_offsets`."""

    at_ms: int
    silent_ms: int
    expiring_ms: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Groups that are replayed at a time.

    Attributes:
        topic_names: topic names of the cluster, by topic id.
    """

    cluster: str
    groups: Sequence[str]
    topic_names: Mapping[str, str]
    limits: _Limits


def _of_part(engine: Engine, part: _Part) -> tuple[list[StaleOffset], None]:
    limits = part.limits
    groups = PastGroups(engine, part.cluster, limits.at_ms, part.topic_names).read(part.groups)
    rows = [
        row
        for group in groups.image.groups.values()
        for row in _rows(part.cluster, group, limits.at_ms, limits.retention_ms)
        if row.silent_ms >= limits.silent_ms
        or (row.expires_ms is not None and row.expires_ms <= limits.at_ms + limits.expiring_ms)
    ]
    return rows, None


def _topic_names(engine: Engine, cluster: str) -> dict[str, str]:
    """Return the topic names of a cluster by topic id, also of topics that nobody owned."""
    sql = (
        "SELECT DISTINCT topic_id, topic FROM offset_commits WHERE cluster = ? "
        "AND topic_id IS NOT NULL ORDER BY topic_id, topic"
    )
    committed = {row["topic_id"]: row["topic"] for row in rows_of(engine, sql, [cluster])}
    return {**committed, **topic_names(engine, cluster)}


def _candidates(engine: Engine, cluster: str, limits: _Limits) -> list[str]:
    """Return the groups that may have such offsets, those of one partition together.

    The last commit of an offset is old enough, or that of a transaction, which may not count, or
    without a time, which may be a later one; or a commit has a time to expire; or the last record
    of the group has a time, since which it may be empty.
    """
    at_ms, kept_ms = limits.at_ms, limits.retention_ms - limits.expiring_ms
    since_ms, expiring_ms = at_ms - kept_ms, at_ms + limits.expiring_ms
    in_time = "cluster = ? AND offsets_partition = ? AND (time_ms IS NULL OR time_ms <= ?)"
    sql = (
        f"SELECT group_id FROM offset_commits WHERE {in_time} GROUP BY group_id, topic, partition "
        "HAVING MAX_BY(commit_timestamp_ms, log_offset) <= ? OR COUNT(transaction) > 0 "
        "OR COUNT(time_ms) < COUNT(*) OR MIN(expire_timestamp_ms) <= ? "
        f"UNION SELECT group_id FROM group_generations WHERE {in_time} GROUP BY group_id "
        "HAVING MAX_BY(state_timestamp_ms, log_offset) <= ? OR COUNT(time_ms) < COUNT(*) "
        "ORDER BY group_id"
    )
    silent_ms = max(at_ms - limits.silent_ms, since_ms)
    at, silent, expiring, since = (
        max(-1 << 63, min(ms, (1 << 63) - 1)) for ms in (at_ms, silent_ms, expiring_ms, since_ms)
    )
    places = "SELECT DISTINCT offsets_partition AS place FROM offset_commits WHERE cluster = ?"
    found = set[str]()
    for row in rows_of(engine, f"{places} ORDER BY place", [cluster]):
        values: list[Parameter] = [cluster, row["place"], at]
        rows = rows_of(engine, sql, [*values, silent, expiring, *values, since])
        found.update(each["group_id"] for each in rows)
    tables = " UNION ALL ".join(
        f"SELECT group_id, offsets_partition FROM {table} WHERE cluster = ?"
        for table in GROUP_TABLES
    )
    holders = rows_of(
        engine,
        "SELECT group_id, MIN(offsets_partition) AS first, MAX(offsets_partition) AS last "
        f"FROM ({tables}) AS records GROUP BY group_id ORDER BY group_id",
        [cluster] * len(GROUP_TABLES),
    )
    chosen = [row for row in holders if row["group_id"] in found]
    # groups with records in several partitions come last: all files of these are read for them
    chosen.sort(key=lambda row: (row["first"] != row["last"], row["first"]))
    return [row["group_id"] for row in chosen]


def _rows(cluster: str, group: Group, at_ms: int, retention_ms: int) -> Iterator[StaleOffset]:
    owners = {
        (owned.topic, owned.partition): member.member_id
        for member in group.members
        for owned in member.assignment or ()
    }
    pending = {(offset.topic, offset.partition) for offset in group.pending_offsets}
    times = [offset.commit_timestamp_ms for offset in group.offsets]
    group_last_ms = max((time for time in times if time is not None), default=None)
    for offset in group.offsets:
        last_ms = offset.commit_timestamp_ms
        if last_ms is None or group_last_ms is None:
            continue  # the age of the commit is unknown
        at = (offset.topic, offset.partition)
        expires_by, base_ms = ("pending", None) if at in pending else _expiry(group, offset)
        expires_ms = None if base_ms is None else base_ms + retention_ms
        if base_ms is not None and offset.expire_timestamp_ms is not None:
            expires_by, expires_ms = "stored", offset.expire_timestamp_ms
        yield StaleOffset(
            cluster=cluster,
            group_id=group.group_id,
            group_type=group.type,
            state=group.state,
            topic=offset.topic,
            partition=offset.partition,
            committed_offset=offset.committed_offset,
            last_commit_ms=last_ms,
            silent_ms=at_ms - last_ms,
            group_last_commit_ms=group_last_ms,
            member_id=owners.get(at),
            expires_ms=expires_ms,
            expires_by=expires_by,
        )


def _expiry(group: Group, offset: CommittedOffset) -> tuple[str, int | None]:
    """Return what decides when an offset expires, and when its retention time begins."""
    by_commit = ("commit", offset.commit_timestamp_ms)
    if group.type is GroupType.CLASSIC and group.protocol_type is None:
        return by_commit
    if group.state is GroupState.EMPTY:
        if group.type is GroupType.CLASSIC:
            return "empty", group.state_timestamp_ms or offset.commit_timestamp_ms
        return by_commit
    if group.type is GroupType.STREAMS:
        return ("subscribed", None) if offset.topic in _streams_topics(group) else by_commit
    topics = _subscribed(group)
    if group.type is GroupType.CLASSIC:
        if group.protocol_type != _CONSUMER or topics is None:
            return "members", None
    elif topics is None:
        return "unknown", None
    if offset.topic in topics:
        return "subscribed", None
    if any(member.subscription and member.subscription.regex for member in group.members):
        return "unknown", None
    return by_commit


def _subscribed(group: Group) -> set[str] | None:
    """Return the topics that members subscribe to by name; None if a subscription is unknown."""
    topics: set[str] = set()
    for member in group.members:
        if member.subscription is None or member.subscription.topics is None:
            return None
        topics.update(member.subscription.topics)
    return topics


def _streams_topics(group: Group) -> set[str]:
    return {
        topic
        for part in (group.topology.subtopologies if group.topology else ())
        for topic in part.source_topics + part.repartition_source_topics
    }
