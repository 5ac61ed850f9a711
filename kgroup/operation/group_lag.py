"""The lag of every group at one instant: one row per group, as cheap as possible.

`describe` makes a row of each partition, with its owner; for thousands of groups that takes longer
than reading them. Here, only sums and the worst partition are kept. The numbers are those of
`describe`: both take them from `LogRange.lag`, `share_lag` and `total_lag`.

What it costs on a cluster: a list of groups from each broker, the members of groups that are not
empty, all committed offsets, and the log end offsets of the committed partitions, each once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import GONE, LogRange
from kgroup.model.offset import CommitStore
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe_group, share_lag, total_lag, with_time_lags
from kgroup.operation.group_filter import EVERY_GROUP, GroupFilter
from kgroup.operation.report import Report
from kgroup.operation.zookeeper.commit import with_kafka_commits
from kgroup.source.base import GroupSource

_UNKNOWN = LogRange()


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group, and how far it is behind.

    Attributes:
        group_id, type, state: as in `kgroup.model.group.Group`.
        member_count: number of members; None where it is not known.
        total_lag: sum of the lags that are known and above 0; None where none is known.
        unknown_count: number of partitions whose lag is not known, although the group has committed
            them and they exist; `total_lag` is without them.
        worst_topic: topic of the partition with the largest lag; None where no lag is known.
        worst_partition: number of that partition.
        worst_lag: lag of that partition.
        last_commit_timestamp_ms: time of the latest commit; None where nothing is committed or the
            time is not known: brokers keep it only in `__consumer_offsets`.
        max_time_lag_ms: age of the oldest record that the group still has to read; 0 where nothing
            is left to read; None where it was not requested or is not known.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    member_count: int | None
    total_lag: int | None
    unknown_count: int
    worst_topic: str | None
    worst_partition: int | None
    worst_lag: int | None
    last_commit_timestamp_ms: int | None
    max_time_lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LagReading:
    """The lag of groups at one instant, and what it was computed from.

    Attributes:
        time_ms: when it was read, in epoch milliseconds of the local clock.
        rows: sorted by group id.
        groups: the groups of `rows`, by id.
        ranges: log ranges of committed partitions, where known.
        stores: see `CommittedGroups`.
        problems: what could not be read.
        notes: assumptions and choices, for people.
    """

    time_ms: int
    rows: tuple[GroupLag, ...]
    groups: Mapping[str, Group]
    ranges: Mapping[tuple[str, int], LogRange]
    stores: Mapping[tuple[str, str, int], CommitStore]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def report(self) -> Report[GroupLag]:
        """The rows with errors and notes, as operations return them."""
        return Report(self.rows, self.problems, self.notes)


def read_group_lags(
    source: GroupSource, chosen: GroupFilter = EVERY_GROUP, *, log_budget: int = 0
) -> LagReading:
    """Read the groups that pass a filter, and compute their lag.

    Args:
        source: source of groups.
        chosen: the filter.
        log_budget: see `Question`; 0: last commits of a live cluster are not read.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = source.read(question=chosen.question(log_budget=log_budget, last_commits=True))
    committing = with_kafka_commits(source, filter(chosen.passes, reading.image.groups.values()))
    groups = {group.group_id: group for group in committing.groups}
    logs = source.log_ranges({at for group in groups.values() for at in _partitions(group)})
    return LagReading(
        time_ms=time.time_ns() // 1_000_000,
        rows=tuple(group_lag(group, logs.ranges) for group in groups.values()),
        groups=groups,
        ranges=logs.ranges,
        stores=committing.stores,
        problems=(*reading.problems, *committing.problems, *logs.problems),
        notes=(*reading.notes, *committing.notes),
    )


def group_lag(group: Group, ranges: Mapping[tuple[str, int], LogRange]) -> GroupLag:
    """Compute the lag of a group from the log ranges of the partitions that it has committed."""
    known: list[int] = []
    unknown = 0
    worst: tuple[int, str | None, int | None] | None = None
    committed_ms: int | None = None
    for offset in group.offsets:
        topic, partition, time_ms = offset.topic, offset.partition, offset.commit_timestamp_ms
        log = ranges.get((topic, partition), _UNKNOWN)
        lag = log.lag(offset.committed_offset)
        if lag is None:
            unknown += log.mark not in GONE
        else:
            known.append(lag)
            if worst is None or lag > worst[0]:
                worst = (lag, topic, partition)
        if time_ms is not None and (committed_ms is None or time_ms > committed_ms):
            committed_ms = time_ms
    for shared in group.share_offsets or ():
        lag = share_lag(shared, ranges)
        if lag is None:
            unknown += 1
        else:
            known.append(lag)
            if worst is None or lag > worst[0]:
                worst = (lag, shared.topic, shared.partition)
    if group.type is GroupType.ZOOKEEPER and any(
        offset.commit_timestamp_ms is None for offset in group.offsets
    ):
        committed_ms = None  # the commits to Kafka may be later than the nodes
    worst_lag, worst_topic, worst_partition = worst or (None, None, None)
    return GroupLag(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        member_count=known_member_count(group),
        total_lag=total_lag(known),
        unknown_count=unknown,
        worst_topic=worst_topic,
        worst_partition=worst_partition,
        worst_lag=worst_lag,
        last_commit_timestamp_ms=committed_ms,
        max_time_lag_ms=0 if worst_lag == 0 else None,
    )


def known_member_count(group: Group) -> int | None:
    """Return the number of members; None if the source lacks them.

    Kafka 0.8 has no API for members; a coordinator that refuses to describe a group leaves only
    the state from a list, which is Empty if there are none.
    """
    is_known = group.members or group.state in (GroupState.EMPTY, GroupState.DEAD)
    return len(group.members) if is_known else None


def with_group_time_lags(
    reading: LagReading,
    source: GroupSource,
    *,
    first: Iterable[str] = (),
    most_partitions: int | None = None,
) -> LagReading:
    """Add the time lags of groups, worst first, until so many partitions have been read.

    A time lag takes a few kilobytes of each partition with lag. Groups beyond the limit have no
    time lag, not a smaller one: of each group all partitions are read, or none.

    Args:
        reading: the groups.
        source: source of record timestamps; if it has none, the reading is returned as it is.
        first: ids of groups to read before others, such as those on a screen.
        most_partitions: limit; None for none.

    Raises:
        BrokerError: no broker answers.
    """
    if not source.can(GroupSource.next_records):
        return reading
    wanted = set(first)
    order = sorted(
        (row for row in reading.rows if row.worst_lag),
        key=lambda row: (row.group_id not in wanted, -(row.total_lag or 0)),
    )
    room = most_partitions
    described = []
    for row in order:
        description = describe_group(reading.groups[row.group_id], reading.ranges, reading.stores)
        if room is not None:
            room -= sum(1 for offset in description.offsets if offset.waiting)
            room -= sum(1 for shared in description.share_offsets or () if shared.lag)
            if room < 0:
                break
        described.append(description)
    report = with_time_lags(Report(tuple(described)), source, now_ms=reading.time_ms)
    times = {each.group.group_id: each.max_time_lag_ms for each in report.data}
    rows = tuple(
        replace(row, max_time_lag_ms=times[row.group_id]) if row.group_id in times else row
        for row in reading.rows
    )
    return replace(reading, rows=rows, problems=(*reading.problems, *report.errors))


def _partitions(group: Group) -> Collection[tuple[str, int]]:
    """Return the partitions whose ends the lag needs: those with a commit."""
    if group.share_offsets is None:
        return [(offset.topic, offset.partition) for offset in group.offsets]
    return [
        (shared.topic, shared.partition)
        for shared in group.share_offsets
        if shared.topic is not None and shared.partition is not None
    ]
