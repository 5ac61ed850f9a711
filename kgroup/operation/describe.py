"""Describe groups: state, members, owned partitions, committed offsets, lag and time lag.

Lag computed from a committed offset and the log end offset is an upper bound: offsets between them
may belong to transaction markers, or to records that compaction removed. Only reading the log shows
whether a record is waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange, NextReading, OffsetMark, Position
from kgroup.model.offset import CommitStore, CommittedOffset, ShareOffset
from kgroup.model.pattern import Pattern
from kgroup.operation.report import Report, Sort
from kgroup.operation.select_groups import select_groups
from kgroup.operation.zookeeper.commit import with_kafka_commits
from kgroup.source.base import DEFAULT_LOG_BUDGET, Capability, GroupSource, Question


@dataclass(frozen=True, slots=True)
class OffsetDescription:
    """A partition that is committed by a group, owned by a member, or without the expected owner.

    Attributes:
        topic: topic name; None if only the topic id is known (owned, but not committed).
        partition: partition number.
        committed_offset: offset of the next record to read; None if nothing is committed.
        leader_epoch, metadata, expire_timestamp_ms: as in `CommittedOffset`.
        commit_timestamp_ms: when the coordinator received the commit; zookeeper: when the node was
            written, None for a commit in Kafka.
        log_end_offset: log end offset; with read-committed, last stable offset (offset of the first
            record in an open transaction).
        lag: `log_end_offset` minus `committed_offset`; as Kafka's tools compute it; negative if the
            committed offset is after the log end offset.
        member_id: member id of the owner; None if no member owns the partition.
        topic_id: topic id; from the assignment, or else from the commit.
        owned_since_epoch: epoch in which the partition, or the task that reads it, was assigned to
            the owner; None before Kafka 4.3.
        log_start_offset: log start offset; from a live cluster only.
        mark: problem of the partition or of its committed offset; None if none is known.
        next_timestamp_ms: timestamp of the next record to read (`--time-lag`); create or append
            time, depending on the topic; None if there is nothing left to read.
        time_lag_ms: age of the next record to read (`--time-lag`); 0 if there is nothing left to
            read; None if unknown, or if not requested.
        owner_thread: zookeeper: number of the owner's thread that reads the partition.
        owned_since_ms: zookeeper: when the owner claimed the partition.
        committed_in: zookeeper: store of the committed offset; None if nothing is committed, and
            for other groups.
        waiting: maximum number of records left to read; offsets from `committed_offset` (or
            `log_start_offset`, if larger) to `log_end_offset`; 0 if reading the records
            (`--time-lag`) has found none.
    """

    topic: str | None
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp_ms: int | None
    expire_timestamp_ms: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    topic_id: str | None
    owned_since_epoch: int | None
    log_start_offset: int | None
    mark: OffsetMark | None
    next_timestamp_ms: int | None = None
    time_lag_ms: int | None = None
    owner_thread: int | None = None
    owned_since_ms: int | None = None
    committed_in: CommitStore | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class ShareOffsetDescription:
    """A partition that a share group reads.

    The fields after `state` are kept in `__share_group_state`; None if it could not be read.

    Attributes:
        topic, partition, state, start_offset, delivery_complete_count, leader_epoch, state_epoch,
            topic_id: as in `ShareOffset`.
        log_end_offset: as in `OffsetDescription`.
        lag: number of records that the group has not finished; `log_end_offset` minus
            `start_offset` minus `delivery_complete_count`, as Kafka computes it (KIP-1226); None
            before Kafka 4.2.
        next_timestamp_ms: timestamp of the first record that is not finished (`--time-lag`); None
            before Kafka 4.2.
        time_lag_ms: age of the first record that is not finished (`--time-lag`); None before Kafka
            4.2.
    """

    topic: str | None
    partition: int | None
    state: str | None
    start_offset: int | None
    delivery_complete_count: int | None
    log_end_offset: int | None
    lag: int | None
    leader_epoch: int | None
    state_epoch: int | None
    topic_id: str
    next_timestamp_ms: int | None = None
    time_lag_ms: int | None = None


PartitionRow = OffsetDescription | ShareOffsetDescription
Row = TypeVar("Row", OffsetDescription, ShareOffsetDescription)
AnyRow = TypeVar("AnyRow", bound=PartitionRow)


def records_waiting(row: PartitionRow) -> int:
    """Return the largest possible number of waiting records of a partition; 0 if unknown."""
    return (row.waiting if isinstance(row, OffsetDescription) else row.lag) or 0


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with the lag of its offsets and the owners of partitions.

    Attributes:
        group: group as read from the source, with sorted topics of subscriptions.
        offsets: partitions that are committed or owned; from a cluster or ZooKeeper, also
            partitions of subscribed topics without an owner; sorted by topic and partition.
        total_lag: sum of all known positive lags; of `offsets` and `share_offsets`; a commit after
            the log end offset does not reduce it; None if no lag is known.
        share_offsets: share: partitions of the group; sorted by topic and partition; else None.
        max_time_lag_ms: largest lag in time (`--time-lag`); of `offsets` and `share_offsets`; None
            if none is known.
    """

    group: Group
    offsets: tuple[OffsetDescription, ...]
    total_lag: int | None
    share_offsets: tuple[ShareOffsetDescription, ...] | None
    max_time_lag_ms: int | None = None

    @property
    def rows(self) -> tuple[PartitionRow, ...]:
        """Partitions that the group reads, of whatever type it is."""
        return (*self.offsets, *(self.share_offsets or ()))

    @property
    def waiting(self) -> int:
        """The largest possible number of waiting records, in partitions where it is known."""
        return sum(map(records_waiting, self.rows))


def with_sorted_partitions(
    report: Report[GroupDescription], sort: Sort
) -> Report[GroupDescription]:
    """Return a report with the partitions of each group in an order."""
    data = []
    for group in report.data:
        shared = group.share_offsets
        shared = None if shared is None else tuple(sorted_partitions(shared, sort))
        offsets = tuple(sorted_partitions(group.offsets, sort))
        data.append(replace(group, offsets=offsets, share_offsets=shared))
    return replace(report, data=tuple(data))


PARTITION_SORTS: Mapping[str, Callable[[Any], Any]] = {
    "lag": attrgetter("lag"),
    "time-lag": attrgetter("time_lag_ms"),
    "last-commit": lambda row: getattr(row, "commit_timestamp_ms", None),
    "owner": lambda row: getattr(row, "member_id", None),
    "partition": lambda row: _order(row),
}
"""Values by which partitions are sorted, by their names on the command line."""


def sorted_partitions(rows: Iterable[AnyRow], sort: Sort | None) -> list[AnyRow]:
    """Return partitions in an order; by default worst first.

    Worst are those with the largest lag, then those with a mark, then those of unknown lag.
    """
    by_partition = sorted(rows, key=_order)
    if sort is None:
        return sorted(by_partition, key=_badness)
    return sort.sorted(by_partition, PARTITION_SORTS[sort.key])


def _badness(row: PartitionRow) -> tuple[int, bool, bool]:
    mark = row.mark if isinstance(row, OffsetDescription) else None
    return (-max(row.lag or 0, 0), mark is None, row.lag is not None)


_MOST_OFFSETS = 1000
"""Most waiting offsets for which the log is read: a few transactions' markers; costs a fetch."""


def with_time_lags(
    report: Report[GroupDescription],
    source: GroupSource,
    *,
    committed: bool = False,
    now_ms: int | None = None,
) -> Report[GroupDescription]:
    """Add time lags to descriptions: the age of the next record to read.

    The time lag is 0 if nothing is left to read. It is unknown if nothing is committed, the commit
    is outside the log, reading the topic is not authorized, or the record has no time.

    Args:
        report: report of `describe`.
        source: source of record timestamps.
        committed: same value as for `describe`.
        now_ms: current time in epoch milliseconds; None for the local clock.

    Raises:
        BrokerError: no broker answers.
    """
    positions = {
        position
        for group in report.data
        for row in group.rows
        if not _is_at_end(row) and (position := _position(row)) is not None
    }
    reading = source.next_records(positions, committed=committed)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return replace(
        report,
        data=tuple(_timed(group, reading, now) for group in report.data),
        errors=report.errors + reading.problems,
    )


def with_records_seen(
    report: Report[GroupDescription],
    source: GroupSource,
    is_asked: Callable[[GroupDescription, OffsetDescription], bool],
) -> Report[GroupDescription]:
    """Set `waiting` to 0 if the log has no records between committed and log end offset.

    Partitions with more than 1,000 waiting offsets are not checked. If records cannot be read,
    `waiting` remains the upper bound.

    Args:
        report: report of `describe`, with log end offsets for isolation level read_uncommitted.
        source: source of records.
        is_asked: whether a partition is to be checked.

    Raises:
        BrokerError: no broker answers.
    """
    positions = {
        position
        for group in report.data
        for row in group.offsets
        if row.waiting and row.waiting <= _MOST_OFFSETS and is_asked(group, row)
        if (position := _waiting_position(row)) is not None
    }
    if not positions:
        return report
    reading = source.next_records(positions)
    empty = {at for at, record in reading.records.items() if record.offset is None}

    def seen(row: OffsetDescription) -> OffsetDescription:
        return replace(row, waiting=0) if row.waiting and _waiting_position(row) in empty else row

    data = tuple(
        replace(description, offsets=tuple(map(seen, description.offsets)))
        for description in report.data
    )
    return replace(report, data=data) if empty else report


def _waiting_position(row: OffsetDescription) -> Position | None:
    """Return the offset of the next record to read: the commit, or the log start offset."""
    if row.topic is None or row.committed_offset is None:
        return None
    return (row.topic, row.partition, max(row.committed_offset, row.log_start_offset or 0))


def _is_at_end(row: PartitionRow) -> bool:
    """Return whether the position is at the log end offset."""
    if isinstance(row, ShareOffsetDescription):
        return row.lag == 0
    return row.waiting == 0 and row.mark is not OffsetMark.PAST_END


def _position(row: PartitionRow) -> Position | None:
    """Return the position of the next record to read; None if unknown or outside the log."""
    if isinstance(row, ShareOffsetDescription):
        offset, start = row.start_offset, None
    else:
        offset, start = row.committed_offset, row.log_start_offset
    if row.topic is None or row.partition is None or offset is None or row.log_end_offset is None:
        return None
    if offset > row.log_end_offset or (start is not None and offset < start):
        return None
    return (row.topic, row.partition, offset)


def _timed(description: GroupDescription, reading: NextReading, now_ms: int) -> GroupDescription:
    shared = description.share_offsets
    description = replace(
        description,
        offsets=tuple(_timed_row(row, reading, now_ms) for row in description.offsets),
        share_offsets=shared and tuple(_timed_row(row, reading, now_ms) for row in shared),
    )
    lags = [row.time_lag_ms for row in description.rows if row.time_lag_ms is not None]
    return replace(description, max_time_lag_ms=max(lags, default=None))


def _timed_row(row: Row, reading: NextReading, now_ms: int) -> Row:
    if _is_at_end(row):
        return replace(row, time_lag_ms=0)
    position = _position(row)
    record = None if position is None else reading.records.get(position)
    if record is None:
        return row
    if record.offset is None:
        row = replace(row, time_lag_ms=0)
        return replace(row, waiting=0) if isinstance(row, OffsetDescription) else row
    time_ms = record.timestamp_ms
    # The record's clock may be ahead of the local one; a time lag is never negative.
    lag_ms = None if time_ms is None else max(now_ms - time_ms, 0)
    return replace(row, next_timestamp_ms=time_ms, time_lag_ms=lag_ms)


_ASSIGNED = (GroupState.STABLE, GroupState.RECONCILING)
"""Group states in which a partition without an owner is not, or not yet, assigned."""
_Ranges = Mapping[TopicPartition, LogRange]
_Stores = Mapping[tuple[str, str, int], CommitStore]
_UNKNOWN = LogRange()


class _Owner(NamedTuple):
    """Owner of a partition, with its assignment, and whether the owner is not a member."""

    member_id: str | None
    by: AssignedPartition
    is_stray: bool = False


_NOBODY = _Owner(None, AssignedPartition(None, None, -1))


def describe(
    source: GroupSource,
    group_ids: Collection[str] = (),
    *,
    regex: Pattern | None = None,
    committed: bool = False,
    log_budget: int = DEFAULT_LOG_BUDGET,
    times: GroupSource | None = None,
    suggestions: dict[str, str] | None = None,
) -> Report[GroupDescription]:
    """Describe the groups with these ids, those whose whole id matches, or all groups.

    Args:
        source: source of groups.
        group_ids: group ids.
        regex: pattern that matches the whole group id.
        committed: use the last stable offset as the end of a partition, as consumers with isolation
            level read_committed do.
        log_budget: see `Question`.
        times: source of record timestamps; None to skip time lags.
        suggestions: see `select_groups`.

    Returns:
        Groups sorted by id. Named groups that do not exist, and a pattern that matches no group,
        are errors; problems of other groups are dropped.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    question = Question(regex=regex, log_budget=log_budget)
    reading, missing = select_groups(source, group_ids, question, suggestions=suggestions)
    committing = with_kafka_commits(source, reading.image.groups.values())
    chosen = committing.groups
    forgotten = _forgotten(source, chosen)
    logs = source.log_ranges(
        {at for group in chosen for at in group.partitions}, committed=committed
    )
    notes = reading.notes + committing.notes
    if committed and Capability.LAST_STABLE_OFFSETS not in source.capabilities:
        notes += ("This source does not know open transactions; lags include their records.",)
    if Capability.SHARE_START_OFFSETS not in source.capabilities and any(
        group.type is GroupType.SHARE for group in chosen
    ):
        notes += (
            "Start offsets of share groups are unknown: they are stored in the topic "
            "__share_group_state, which this source does not have.",
        )
    report = Report(
        data=tuple(
            describe_group(group, logs.ranges, committing.stores, forgotten.get(group.group_id, ()))
            for group in chosen
        ),
        errors=missing + reading.problems + committing.problems + logs.problems,
        notes=notes,
    )
    return report if times is None else with_time_lags(report, times, committed=committed)


def _forgotten(
    source: GroupSource, groups: Iterable[Group]
) -> Mapping[str, Iterable[TopicPartition]]:
    """Return partitions of subscribed topics with neither owner nor commit, by group id."""
    if not source.can(GroupSource.view):
        return {}
    subscribed = {
        group.group_id: {topic for member in group.members for topic in member.subscribed_topics}
        for group in groups
        if group.type in (GroupType.CLASSIC, GroupType.CONSUMER) and _tells_owners(group)
    }
    names = {name for topics in subscribed.values() for name in topics}
    topic_views = source.view(names).topics if names else {}
    return {
        group.group_id: {
            (name, partition)
            for name in subscribed[group.group_id]
            if name in topic_views
            for partition in topic_views[name].partitions
        }
        - group.partitions
        for group in groups
        if group.group_id in subscribed
    }


def describe_group(
    group: Group, ranges: _Ranges, stores: _Stores, forgotten: Iterable[TopicPartition] = ()
) -> GroupDescription:
    """Describe a group that was read.

    Args:
        group: the group.
        ranges: log ranges by topic and partition, where known.
        stores: see `CommittedGroups`.
        forgotten: partitions of subscribed topics with neither owner nor commit.
    """
    nobodys = (_offset(at, None, _UNKNOWN, _NOBODY, None, OffsetMark.NO_OWNER) for at in forgotten)
    offsets = tuple(sorted((*_offsets(group, ranges, stores), *nobodys), key=_order))
    share_offsets = tuple(_share_offset(offset, ranges) for offset in group.share_offsets or ())
    lags = [row.lag for row in offsets if row.lag is not None]
    lags += [row.lag for row in share_offsets if row.lag is not None]
    return GroupDescription(
        group=replace(group, members=tuple(map(_with_sorted_topics, group.members))),
        offsets=offsets,
        total_lag=total_lag(lags),
        share_offsets=None if group.share_offsets is None else share_offsets,
    )


def total_lag(lags: Collection[int]) -> int | None:
    """Add the lags of a group's partitions; a commit past the end does not make up for others."""
    return sum(lag for lag in lags if lag > 0) if lags else None


def _with_sorted_topics(member: Member) -> Member:
    """Return the member with sorted topics; only some leaders depend on their order."""
    subscription = member.subscription
    if subscription is None or subscription.topics is None:
        return member
    return replace(
        member, subscription=replace(subscription, topics=tuple(sorted(subscription.topics)))
    )


def _offsets(group: Group, ranges: _Ranges, stores: _Stores) -> Iterator[OffsetDescription]:
    owners = _owners(group)
    by_name = {(owned.topic, owned.partition): owned for owned in owners}
    orphan_mark = OffsetMark.NO_OWNER if _tells_owners(group) else None
    task_owners = _task_owners(group)
    commits: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(group.empty_commits)
    commits.update(((offset.topic, offset.partition), offset) for offset in group.offsets)
    for at, offset in commits.items():
        owned = by_name.pop(at, None)
        owner, topic_id = task_owners.get(at, _NOBODY), offset.topic_id if offset else None
        if owned is not None:
            owner, topic_id = owners[owned], owned.topic_id or topic_id
        mark = orphan_mark if owner is _NOBODY else None
        mark = mark if offset else OffsetMark.NO_OFFSET
        log, store = ranges.get(at, _UNKNOWN), stores.get((group.group_id, *at))
        yield _offset(at, offset, log, owner, topic_id, mark, store)
    for owned, owner in owners.items():
        if owned.topic is None:
            yield _offset((None, owned.partition), None, _UNKNOWN, owner, owned.topic_id)
        elif (at := (owned.topic, owned.partition)) in by_name:
            yield _offset(at, None, ranges.get(at, _UNKNOWN), owner, owned.topic_id)
    for unowned in group.unowned:
        assert unowned.topic is not None
        at = (unowned.topic, unowned.partition)
        if at not in commits:
            log = ranges.get(at, _UNKNOWN)
            yield _offset(at, None, log, _NOBODY, None, OffsetMark.NO_OWNER)


def _offset(
    at: tuple[str | None, int],
    commit: CommittedOffset | None,
    log: LogRange,
    owner: _Owner,
    topic_id: str | None,
    mark: OffsetMark | None = None,
    store: CommitStore | None = None,
) -> OffsetDescription:
    return OffsetDescription(
        topic=at[0],
        partition=at[1],
        committed_offset=commit.committed_offset if commit else None,
        leader_epoch=commit.leader_epoch if commit else None,
        metadata=commit.metadata if commit else None,
        commit_timestamp_ms=commit.commit_timestamp_ms if commit else None,
        expire_timestamp_ms=commit.expire_timestamp_ms if commit else None,
        log_end_offset=log.end,
        lag=log.lag(commit.committed_offset) if commit else None,
        member_id=owner.member_id,
        topic_id=topic_id,
        owned_since_epoch=owner.by.since_epoch,
        log_start_offset=log.start,
        mark=log.mark_of(commit.committed_offset if commit else None)
        or mark
        or (OffsetMark.OWNER_GONE if owner.is_stray else None),
        owner_thread=owner.by.thread,
        owned_since_ms=owner.by.since_ms,
        committed_in=store,
        waiting=log.waiting(commit.committed_offset) if commit else None,
    )


def _share_offset(offset: ShareOffset, ranges: _Ranges) -> ShareOffsetDescription:
    end = _end_of(offset, ranges)
    return ShareOffsetDescription(
        topic=offset.topic,
        partition=offset.partition,
        state=offset.state,
        start_offset=offset.start_offset,
        delivery_complete_count=offset.delivery_complete_count,
        log_end_offset=end,
        lag=share_lag(offset, ranges),
        leader_epoch=offset.leader_epoch,
        state_epoch=offset.state_epoch,
        topic_id=offset.topic_id,
    )


def share_lag(offset: ShareOffset, ranges: _Ranges) -> int | None:
    """Return the lag of a share group in a partition: the broker's number, or the computed one."""
    end, start, complete = (
        _end_of(offset, ranges),
        offset.start_offset,
        offset.delivery_complete_count,
    )
    if offset.lag is not None or end is None or start is None or complete is None:
        return offset.lag
    return max(end - start - complete, 0)


def _end_of(offset: ShareOffset, ranges: _Ranges) -> int | None:
    if offset.topic is None or offset.partition is None:
        return None
    return ranges.get((offset.topic, offset.partition), _UNKNOWN).end


def _owners(group: Group) -> dict[AssignedPartition, _Owner]:
    """Return the owner of each partition; none for share groups, whose members share partitions."""
    if group.type is GroupType.SHARE:
        return {}
    return {
        owned: _Owner(member.member_id, owned)
        for member in group.members
        for owned in member.assignment or ()
    } | {
        stray.partition: _Owner(stray.member_id, stray.partition, is_stray=True)
        for stray in group.stray_owners
    }


def _tells_owners(group: Group) -> bool:
    """Return whether a partition without a visible owner has no owner."""
    if group.type is GroupType.ZOOKEEPER:
        return bool(group.members)  # the owner nodes are complete
    if not group.members or group.state not in _ASSIGNED:
        return False
    if group.topology is not None:
        return not any(part.source_topic_regex for part in group.topology.subtopologies)
    return all(member.assignment is not None for member in group.members)


def _task_owners(group: Group) -> dict[tuple[str, int], _Owner]:
    """Return the streams member that reads each partition, as far as topic names are known.

    A task reads the partition with its number of each source topic of its subtopology. Whether each
    topic has such a partition is known only for committed partitions.
    """
    topics = {
        subtopology.subtopology_id: subtopology.source_topics
        + subtopology.repartition_source_topics
        for subtopology in (group.topology.subtopologies if group.topology else ())
    }
    return {
        (topic, task.partition): _Owner(
            member.member_id, AssignedPartition(None, topic, task.partition, task.since_epoch)
        )
        for member in group.members
        for tasks in (member.pending_revocation_tasks, member.tasks)
        for task in (tasks.active if tasks else ())
        for topic in topics.get(task.subtopology_id, ())
    }


def _order(row: PartitionRow) -> tuple[bool, str, int]:
    """Return the sort key of a row, as `AssignedPartition.sort_key`."""
    number = -1 if row.partition is None else row.partition
    return (row.topic is None, row.topic or row.topic_id or "", number)
