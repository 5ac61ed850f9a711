"""Describe groups: state, members, who owns what, what is committed and how far behind it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from kgroup.model.assignment import AssignedPartition
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange, OffsetMark
from kgroup.model.offset import CommitStore, CommittedOffset, ShareOffset
from kgroup.model.pattern import Pattern
from kgroup.operation.commit import with_kafka_commits
from kgroup.operation.description import GroupDescription, OffsetDescription, ShareOffsetDescription
from kgroup.operation.report import Report
from kgroup.operation.select_groups import select_groups
from kgroup.operation.time_lag import with_time_lags
from kgroup.source.base import (
    DEFAULT_LOG_BUDGET,
    Capability,
    ClusterSource,
    GroupSource,
    NextRecordSource,
    Question,
)

_ASSIGNED = (GroupState.STABLE, GroupState.RECONCILING)
"""States in which what nobody owns shall have no owner, or has none yet."""
_At = tuple[str, int]
_Ranges = Mapping[_At, LogRange]
_Stores = Mapping[tuple[str, str, int], CommitStore]
_UNKNOWN = LogRange()


class _Owner(NamedTuple):
    """Who has a partition, by which assignment, and whether it is no member."""

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
    times: NextRecordSource | None = None,
    meant: dict[str, str] | None = None,
) -> Report[GroupDescription]:
    """Describe the groups of these ids, those whose whole id matches, or all.

    Args:
        source: where groups come from.
        group_ids: names.
        regex: matches whole group ids.
        committed: let partitions end before the first record of an open transaction, as they do
            for consumers of isolation level read_committed.
        log_budget: see `Question`.
        times: tells when the records were made that are read next; None where the lag in time does
            not matter.
        meant: see `select_groups`.

    Returns:
        Groups sorted by id. A group that was named and does not exist is an error in the report,
        and so is a pattern where no group at all was found; problems of other groups are left out.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    question = Question(regex=regex, log_budget=log_budget)
    reading, missing = select_groups(source, group_ids, question, meant=meant)
    committing = with_kafka_commits(source, reading.image.groups.values())
    chosen = committing.groups
    forgotten = _forgotten(source, chosen)
    logs = source.log_ranges(
        {at for group in chosen for at in group.partitions}, committed=committed
    )
    notes = reading.notes + committing.notes
    if committed and Capability.LAST_STABLE_OFFSETS not in source.capabilities:
        notes += ("This source does not know of open transactions; lags count them in.",)
    if Capability.SHARE_START_OFFSETS not in source.capabilities and any(
        group.type is GroupType.SHARE for group in chosen
    ):
        notes += (
            "Start offsets of share groups are not known: they are kept in the topic "
            "__share_group_state, which this source does not have.",
        )
    report = Report(
        data=tuple(
            _describe(group, logs.ranges, forgotten.get(group.group_id, ()), committing.stores)
            for group in chosen
        ),
        errors=missing + reading.problems + committing.problems + logs.problems,
        notes=notes,
    )
    return report if times is None else with_time_lags(report, times, committed=committed)


def _forgotten(source: GroupSource, groups: Iterable[Group]) -> Mapping[str, Iterable[_At]]:
    """Find partitions of subscribed topics that nobody owns and nobody committed, by group id."""
    if not isinstance(source, ClusterSource):
        return {}
    subscribed = {
        group.group_id: {topic for member in group.members for topic in member.subscribed_topics}
        for group in groups
        if group.type in (GroupType.CLASSIC, GroupType.CONSUMER) and _tells_owners(group)
    }
    names = {name for topics in subscribed.values() for name in topics}
    found = source.view(names).topics if names else {}
    return {
        group.group_id: {
            (name, partition)
            for name in subscribed[group.group_id]
            if name in found
            for partition in found[name].partitions
        }
        - group.partitions
        for group in groups
        if group.group_id in subscribed
    }


def _describe(
    group: Group, ranges: _Ranges, forgotten: Iterable[_At], stores: _Stores
) -> GroupDescription:
    nobodys = (_offset(at, None, _UNKNOWN, _NOBODY, None, OffsetMark.NO_OWNER) for at in forgotten)
    offsets = tuple(sorted((*_offsets(group, ranges, stores), *nobodys), key=_order))
    share_offsets = tuple(_share_offset(offset, ranges) for offset in group.share_offsets or ())
    lags = [o.lag for o in offsets if o.lag is not None]
    lags += [o.lag for o in share_offsets if o.lag is not None]
    return GroupDescription(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        protocol_type=group.protocol_type,
        assignor=group.assignor,
        generation_id=group.generation_id,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        leader_id=group.leader_id,
        coordinator=group.coordinator,
        offsets_partition=group.offsets_partition,
        state_timestamp_ms=group.state_timestamp_ms,
        members=tuple(map(_with_sorted_topics, group.members)),
        offsets=offsets,
        pending_offsets=group.pending_offsets,
        total_lag=sum(max(lag, 0) for lag in lags) if lags else None,
        topology=group.topology,
        share_offsets=None if group.share_offsets is None else share_offsets,
        last_stable=group.last_stable,
    )


def _with_sorted_topics(member: Member) -> Member:
    """Sort the topics of a subscription; in which order they were sent some leaders alone mind."""
    asked = member.subscription
    if asked is None or asked.topics is None:
        return member
    return replace(member, subscription=replace(asked, topics=tuple(sorted(asked.topics))))


def _offsets(group: Group, ranges: _Ranges, stores: _Stores) -> Iterator[OffsetDescription]:
    owners = _owners(group)
    by_name = {(owned.topic, owned.partition): owned for owned in owners}
    orphan_mark = OffsetMark.NO_OWNER if _tells_owners(group) else None
    task_owners = _task_owners(group)
    commits: dict[_At, CommittedOffset | None] = dict.fromkeys(group.empty_commits)
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
    end = None
    if offset.topic is not None and offset.partition is not None:
        end = ranges.get((offset.topic, offset.partition), _UNKNOWN).end
    start, complete, lag = offset.start_offset, offset.delivery_complete_count, offset.lag
    if lag is None and end is not None and start is not None and complete is not None:
        lag = max(end - start - complete, 0)
    return ShareOffsetDescription(
        topic=offset.topic,
        partition=offset.partition,
        state=offset.state,
        start_offset=start,
        delivery_complete_count=complete,
        log_end_offset=end,
        lag=lag,
        leader_epoch=offset.leader_epoch,
        state_epoch=offset.state_epoch,
        topic_id=offset.topic_id,
    )


def _owners(group: Group) -> dict[AssignedPartition, _Owner]:
    """Return who owns each partition; of a share group nobody does, its members share them."""
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
    """Tell whether a partition is nobody's where no owner of it is seen."""
    if group.type is GroupType.ZOOKEEPER:
        return bool(group.members)  # the nodes of owners are all there is
    if not group.members or group.state not in _ASSIGNED:
        return False
    if group.topology is not None:
        return not any(part.source_topic_regex for part in group.topology.subtopologies)
    return all(member.assignment is not None for member in group.members)


def _task_owners(group: Group) -> dict[tuple[str, int], _Owner]:
    """Return which streams member reads each partition, as far as topics are named.

    A task reads the partition of its number of each source topic of its subtopology. Whether there
    is such a partition in each of them is known only of those that were committed.
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


def _order(offset: OffsetDescription) -> tuple[bool, str, int]:
    """Sort as `AssignedPartition.sort_key` does."""
    return (offset.topic is None, offset.topic or offset.topic_id or "", offset.partition)
