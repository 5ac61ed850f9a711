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

from collections.abc import Iterator
from dataclasses import dataclass

from kgroup.history.query.past_group import PastGroups
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import cluster_names, outside_notes, recorded_time
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.instant import shown_time
from kgroup.model.offset import CommittedOffset
from kgroup.operation.report import Report

_CONSUMER = "consumer"


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
    rows: list[StaleOffset] = []
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
        for group in PastGroups(engine, name, when).read().image.groups.values():
            rows += (
                row
                for row in _rows(name, group, when, retention_ms)
                if row.silent_ms >= silent_ms
                or (row.expires_ms is not None and row.expires_ms <= when + expiring_ms)
            )
    if not rows:
        notes.append(
            f"No offset is known to have been without a commit for {silent_ms / 1000:g} s, or to "
            f"expire within {expiring_ms / 1000:g} s."
        )
    return Report(tuple(rows), notes=tuple(notes))


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
