"""List groups: state, members, lag, last commit; filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from kgroup.model.group import Broker, Group, GroupState, GroupType
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.group_filter import EVERY_GROUP, GroupFilter
from kgroup.operation.group_lag import (
    GroupLag,
    group_lag,
    known_member_count,
    read_group_lags,
    with_group_time_lags,
)
from kgroup.operation.report import Report, Sort, outcome
from kgroup.operation.zookeeper.commit import with_kafka_commits
from kgroup.source.base import GroupSource


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A listed group.

    Attributes:
        group_id, type, state, protocol_type, coordinator, offsets_partition: as in
            `kgroup.model.group.Group`.
        assignor: assignor of the group; None if there is none, if the broker's configuration
            decides, or if it was not requested.
        member_count: number of members; None if it is unknown or was not requested.
        topics: topics that the group subscribes to, was assigned or has committed; topic names,
            sorted; None if they were not requested.
        total_lag: sum of the known lags above 0; None if none is known. With `--no-lag` this and
            the fields below are None.
        unknown_count: number of committed partitions whose lag is unknown; `total_lag` does not
            include them.
        worst_topic, worst_partition, worst_lag, last_commit_timestamp_ms: as in
            `kgroup.operation.group_lag.GroupLag`.
        max_time_lag_ms: age of the oldest record that the group still has to read; 0 if nothing
            is left to read; None if it is unknown or was not requested (`--sort time-lag`, or its
            column).
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    protocol_type: str | None
    assignor: str | None
    coordinator: Broker | None
    offsets_partition: int | None
    member_count: int | None
    topics: tuple[str, ...] | None
    total_lag: int | None = None
    unknown_count: int | None = None
    worst_topic: str | None = None
    worst_partition: int | None = None
    worst_lag: int | None = None
    last_commit_timestamp_ms: int | None = None
    max_time_lag_ms: int | None = None


LAST_COMMIT_BUDGET = 1 << 20
"""Bytes to read of each partition of `__consumer_offsets` for last commits, by default."""
_MOST_NAMES = 5

SORTS: Mapping[str, Callable[[ListedGroup], Any]] = {
    "name": attrgetter("group_id"),
    "lag": attrgetter("total_lag"),
    "time-lag": attrgetter("max_time_lag_ms"),
    "state": attrgetter("state"),
    "members": attrgetter("member_count"),
    "last-commit": attrgetter("last_commit_timestamp_ms"),
}
"""Values by which groups are sorted, by their names on the command line."""


def list_groups(
    source: GroupSource,
    chosen: GroupFilter = EVERY_GROUP,
    *,
    members: bool = True,
    with_topics: bool = True,
) -> Report[ListedGroup]:
    """Return the groups that pass a filter, sorted by group id, without their lag.

    Args:
        source: source of groups.
        chosen: the filter.
        members: read assignors and members.
        with_topics: read topics too; implied by a filter by topics.

    Raises:
        InputError: the source has nothing to read.
    """
    with_topics = bool(chosen.topics) or (members and with_topics)
    members = members or with_topics
    question = chosen.question(members=members, offsets=with_topics, log_budget=0)
    reading = source.read(question=question)
    return Report(
        data=tuple(
            _listed(group, members=members, with_topics=with_topics)
            for group in reading.image.groups.values()
            if chosen.passes(group)
        ),
        errors=reading.problems,
        notes=reading.notes,
    )


def list_with_lag(
    source: GroupSource,
    chosen: GroupFilter = EVERY_GROUP,
    *,
    log_budget: int = 0,
    time_lags: bool = False,
    min_lag: int | None = None,
    idle_since_ms: int | None = None,
) -> Report[ListedGroup]:
    """Return the groups that pass a filter, sorted by group id, with their lag.

    Args:
        source: source of groups.
        chosen: the filter.
        log_budget: bytes to read of each partition of `__consumer_offsets` of a live cluster, for
            the times of last commits; 0 to leave them unknown.
        time_lags: read the next record of every partition with lag, for `max_time_lag_ms`.
        min_lag: only groups with at least this lag.
        idle_since_ms: only groups without members whose last commit is not after this time, in
            epoch milliseconds; nor the last state of a classic group, if it is known.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = read_group_lags(source, chosen, log_budget=log_budget)
    notes = list(reading.notes)
    if time_lags and not source.can(GroupSource.next_records):
        notes.append("Time lags are unknown: only a live cluster has the records to read.")
    elif time_lags:
        reading = with_group_time_lags(reading, source)
    rows = list(reading.rows)
    if min_lag is not None:
        unknown = [row for row in rows if _may_have(row, min_lag)]
        rows = [row for row in rows if row.total_lag is not None and row.total_lag >= min_lag]
        notes += _left_out(unknown, f"their lag is not known and may be {min_lag} or more")
    if idle_since_ms is not None:
        rows, left_out = _idle(rows, reading.groups, reading.problems, idle_since_ms)
        notes += left_out
    return Report(
        verdict=outcome(reading.rows, reading.problems),
        data=tuple(_with_lag(row, reading.groups[row.group_id]) for row in rows),
        errors=reading.problems,
        notes=tuple(notes),
    )


def idle_groups(
    source: GroupSource,
    idle_since_ms: int,
    *,
    log_budget: int,
    regex: Pattern | None = None,
    group_ids: Collection[str] | None = None,
) -> Report[GroupLag]:
    """Return the groups that are idle as for `list_with_lag`, without lag.

    Args:
        source: source of groups.
        idle_since_ms: as in `list_with_lag`.
        log_budget: as in `list_with_lag`.
        regex: only groups whose whole id matches.
        group_ids: only these groups.

    Returns:
        Idle groups; notes name the groups about which too little is known.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    question = GroupFilter(regex=regex).question(log_budget=log_budget, last_commits=True)
    reading = source.read(group_ids, question)
    committing = with_kafka_commits(source, reading.image.groups.values())
    problems = (*reading.problems, *committing.problems)
    groups = {group.group_id: group for group in committing.groups}
    rows = [group_lag(group, {}) for group in committing.groups]
    idle, left_out = _idle(rows, groups, problems, idle_since_ms)
    notes = (*reading.notes, *committing.notes, *left_out)
    return Report(tuple(idle), problems, notes, outcome(rows, problems))


def _idle(
    rows: Iterable[GroupLag],
    groups: Mapping[str, Group],
    problems: Iterable[Problem],
    idle_since_ms: int,
) -> tuple[list[GroupLag], tuple[str, ...]]:
    """Return the idle groups, and a note on groups that may be idle."""
    hidden = {problem.group_id for problem in problems}
    rows = [row for row in rows if not row.member_count]
    since = {
        row.group_id: _last_activity_ms(row, groups[row.group_id])
        for row in rows
        if row.member_count is not None and row.group_id not in hidden
    }
    unknown = [row for row in rows if since.get(row.group_id) is None]
    idle = [
        row
        for row in rows
        if (last_ms := since.get(row.group_id)) is not None and last_ms <= idle_since_ms
    ]
    why = "their members, or the time of their last commit, are unknown"
    return idle, tuple(_left_out(unknown, why))


def sorted_groups(report: Report[ListedGroup], sort: Sort) -> Report[ListedGroup]:
    """Return a report with its groups in an order."""
    return replace(report, data=tuple(sort.sorted(report.data, SORTS[sort.key])))


def _listed(group: Group, *, members: bool, with_topics: bool) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        protocol_type=group.protocol_type,
        assignor=group.assignor,
        coordinator=group.coordinator,
        offsets_partition=group.offsets_partition,
        member_count=known_member_count(group) if members else None,
        topics=tuple(sorted(group.topics)) if with_topics else None,
    )


def _with_lag(row: GroupLag, group: Group) -> ListedGroup:
    return replace(
        _listed(group, members=True, with_topics=True),
        total_lag=row.total_lag,
        unknown_count=row.unknown_count,
        worst_topic=row.worst_topic,
        worst_partition=row.worst_partition,
        worst_lag=row.worst_lag,
        last_commit_timestamp_ms=row.last_commit_timestamp_ms,
        max_time_lag_ms=row.max_time_lag_ms,
    )


def _may_have(row: GroupLag, lag: int) -> bool:
    """Return whether the lag may reach a limit that the known part of it does not reach."""
    return (row.total_lag or 0) < lag and (row.unknown_count > 0)


def _last_activity_ms(row: GroupLag, group: Group) -> int | None:
    """Return the time of the last commit, or of the last change of state; None if unknown."""
    if group.offsets and row.last_commit_timestamp_ms is None:
        return None
    times = [row.last_commit_timestamp_ms, group.state_timestamp_ms]
    return max((time_ms for time_ms in times if time_ms is not None), default=None)


def _left_out(rows: list[GroupLag], reason: str) -> Iterable[str]:
    """Yield a note on groups that a filter left out because something is not known."""
    if rows:
        names = ", ".join(repr(row.group_id) for row in rows[:_MOST_NAMES])
        rest = ", …" if len(rows) > _MOST_NAMES else ""
        plural = "" if len(rows) == 1 else "s"
        yield f"{len(rows)} group{plural} left out ({names}{rest}): {reason}."
