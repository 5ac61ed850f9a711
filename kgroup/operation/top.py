"""Follow the lag and the rebalances of groups from one reading to the next.

A classic group's coordinator does not tell how often it has rebalanced: neither a list nor a
description of groups has the generation. So a rebalance counts once when the group is seen in one
(PreparingRebalance, CompletingRebalance), or when its members or what they own have changed since
the previous reading. Several rebalances between two readings count as one: the number is a minimum.
It is exact where both readings know the generation (files, ZooKeeper has none) or the group epoch
(groups of the newer protocols): there, the difference counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription, describe
from kgroup.operation.group_filter import EVERY_GROUP, GroupFilter
from kgroup.operation.group_lag import GroupLag, LagReading, read_group_lags, with_group_time_lags
from kgroup.source.base import GroupSource

GROWTH_WINDOW_MS = 60_000
"""Commits come every few seconds; over a shorter time, lag saws up and down between them."""
SAMPLES = 120
"""Most readings that are kept of a group."""
TIMED_PARTITIONS = 1000
"""Most partitions of which the next record is read in a refresh: a few kilobytes each."""
_LOG_BUDGET = 4 << 20
"""Bytes to read of the log for the group that is open: its generation, times of its commits."""
_EVENTS = 50
_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


@dataclass(frozen=True, slots=True)
class FollowedGroup(GroupLag):
    """A group in one refresh of `kgroup top`.

    Attributes:
        time_ms: when the group was read; older than the refresh where its broker does not answer.
        growth_per_s: change of `total_lag` per second; since the oldest reading of the last minute;
            None after one reading, or where a lag is not known.
        rebalance_count: rebalances since the start; at least so many unless
            `is_rebalance_count_exact`.
        is_rebalance_count_exact: whether none can have been missed; so where the source tells
            generations or group epochs.
    """

    time_ms: int = 0
    growth_per_s: float | None = None
    rebalance_count: int = 0
    is_rebalance_count_exact: bool = False


@dataclass(frozen=True, slots=True)
class SeenRebalance:
    """Rebalances of a group between two readings.

    Attributes:
        time_ms: when they were noticed, in epoch milliseconds.
        count: how many; at least so many unless `is_exact`.
        is_exact: whether generations or epochs were compared.
        is_over: whether the group was seen at rest since.
        joined: client ids (or else member ids) of members that are new.
        left: the same of members that have left.
        moved_count: number of partitions, or tasks, that another member owns.
    """

    time_ms: int
    count: int
    is_exact: bool
    is_over: bool
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    moved_count: int = 0


@dataclass(frozen=True, slots=True)
class TopRow:
    """A group with its past since the start.

    Attributes:
        group: the group.
        trend: total lags of the last readings, oldest first; None where unknown.
        rebalances: the last rebalances, oldest first.
    """

    group: FollowedGroup
    trend: tuple[int | None, ...]
    rebalances: tuple[SeenRebalance, ...]


@dataclass(slots=True)
class _Past:
    """What is kept of a group.

    Attributes:
        last: the group in the last reading.
        rested: the group when it was last seen outside of a rebalance.
        samples: times and total lags.
        count: rebalances so far.
        is_exact: whether all of them were counted by generations or epochs.
        least_unknown: smallest number of partitions with unknown lag; a sum over fewer partitions
            cannot be compared with others, and is no sample.
    """

    last: Group
    rested: Group
    row: TopRow | None = None
    samples: deque[tuple[int, int | None]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    rebalances: deque[SeenRebalance] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    count: int = 0
    is_exact: bool = True
    least_unknown: int = 1 << 30

    @property
    def has_lag(self) -> bool:
        """Whether the last row has a lag."""
        return self.row is not None and self.row.group.total_lag is not None

    def add(self, row: GroupLag, time_ms: int) -> None:
        """Add the total lag to the samples."""
        if row.unknown_count < self.least_unknown:
            self.least_unknown = row.unknown_count
            self.samples.clear()
        is_whole = row.unknown_count == self.least_unknown
        self.samples.append((time_ms, row.total_lag if is_whole else None))


@dataclass(frozen=True, slots=True)
class Refresh:
    """One refresh of all groups.

    Attributes:
        time_ms: when they were read, in epoch milliseconds.
        rows: sorted by group id.
        opened: description of the group that is open; None without, and if it is gone.
        problems: what could not be read.
        notes: assumptions and choices, for people.
    """

    time_ms: int
    rows: tuple[TopRow, ...]
    opened: GroupDescription | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class Top:
    """Groups followed over readings of a source.

    Args:
        source: source of groups.
        chosen: which groups.
    """

    def __init__(self, source: GroupSource, chosen: GroupFilter = EVERY_GROUP) -> None:
        self._source = source
        self._chosen = chosen
        self._pasts: dict[str, _Past] = {}

    def refresh(self, in_view: Collection[str] = (), opened_id: str | None = None) -> Refresh:
        """Read all groups, and compare them with the previous reading.

        Args:
            in_view: ids of groups whose time lag is read before that of others.
            opened_id: group to describe.

        Raises:
            InputError: the source has nothing to read.
            BrokerError: no broker answers.
        """
        reading = with_group_time_lags(
            read_group_lags(self._source, self._chosen),
            self._source,
            first=in_view,
            most_partitions=TIMED_PARTITIONS,
        )
        rows = self.follow(reading)
        problems, notes = reading.problems, reading.notes
        opened = None if opened_id is None else self.describe(opened_id)
        return Refresh(reading.time_ms, rows, opened, tuple(dict.fromkeys(problems)), notes)

    def describe(self, group_id: str) -> GroupDescription | None:
        """Describe a group with its time lags; None if it does not exist.

        Raises:
            BrokerError: no broker answers.
        """
        source = self._source
        times = source if source.can(GroupSource.next_records) else None
        report = describe(source, [group_id], log_budget=_LOG_BUDGET, times=times)
        return report.data[0] if report.data else None

    def follow(self, reading: LagReading) -> tuple[TopRow, ...]:
        """Take a reading; return a row for each group, sorted by group id.

        A group keeps its last row if a broker that did not answer is the reason why the group is
        missing, or why its lag is not known any more.
        """
        unanswered = _unanswered(reading.problems)
        pasts: dict[str, _Past] = {}
        for row in reading.rows:
            group_id, group = row.group_id, reading.groups[row.group_id]
            past = self._pasts.get(group_id)
            if past is None:
                past = _Past(group, group)
            elif row.total_lag is None and past.has_lag and _is_one_of(group_id, unanswered):
                pasts[group_id] = past
                continue
            else:
                _note_rebalance(past, group, reading.time_ms)
            past.add(row, reading.time_ms)
            past.row = _row(row, past, reading.time_ms)
            pasts[group_id] = past
        kept = [each for each in self._pasts if each not in pasts and _is_one_of(each, unanswered)]
        if kept:
            pasts |= {each: self._pasts[each] for each in kept}
            pasts = dict(sorted(pasts.items()))
        self._pasts = pasts
        return tuple(past.row for past in pasts.values() if past.row is not None)


def _is_one_of(group_id: str, unanswered: Collection[str | None]) -> bool:
    return None in unanswered or group_id in unanswered


def _unanswered(problems: Collection[Problem]) -> Collection[str | None]:
    """Return the groups that may be missing because of problems; None: any group."""
    return {problem.group_id for problem in problems if problem.topic is None}


def _row(row: GroupLag, past: _Past, time_ms: int) -> TopRow:
    values = {name: getattr(row, name) for name in GroupLag.__dataclass_fields__}
    followed = FollowedGroup(
        **values,
        time_ms=time_ms,
        growth_per_s=growth_per_s(past.samples),
        rebalance_count=past.count,
        is_rebalance_count_exact=past.is_exact and _number(past.last) is not None,
    )
    return TopRow(followed, tuple(lag for _, lag in past.samples), tuple(past.rebalances))


def growth_per_s(samples: Sequence[tuple[int, int | None]]) -> float | None:
    """Return the change per second from the oldest sample of the last minute to the last one.

    If the last minute has no other sample, the one before counts, however old it is.

    Args:
        samples: times in epoch milliseconds, and lags; in order.
    """
    last = reversed(samples)
    now_ms, lag = next(last)
    since: tuple[int, int] | None = None
    for time_ms, before in last:
        if since is not None and now_ms - time_ms > GROWTH_WINDOW_MS:
            break
        if before is not None and time_ms < now_ms:
            since = time_ms, before
    if lag is None or since is None:
        return None
    return (lag - since[1]) * 1000 / (now_ms - since[0])


# --- rebalances ---


def _number(group: Group) -> int | None:
    """Return the number that every rebalance of a group raises; None if the source has none."""
    return group.generation_id if group.type is GroupType.CLASSIC else group.group_epoch


def _note_rebalance(past: _Past, group: Group, time_ms: int) -> None:
    """Compare a group with its last reading, and add what has happened to its past."""
    before, past.last = past.last, group
    old, new = _number(before), _number(group)
    is_exact = old is not None and new is not None and new >= old and before.type is group.type
    is_over = group.state not in _REBALANCING
    joined, left, moved = _differences(past.rested, group) if is_over else ((), (), 0)
    if is_exact:
        assert old is not None
        assert new is not None
        count = new - old
    else:
        past.is_exact = False
        count = int(
            _has_begun(before, group) or (_has_rested(before) and bool(joined or left or moved))
        )
    if count:
        past.count += count
        past.rebalances.append(
            SeenRebalance(time_ms, count, is_exact, is_over, joined, left, moved)
        )
    elif is_over and past.rebalances and not past.rebalances[-1].is_over:
        last = past.rebalances.pop()
        past.rebalances.append(
            SeenRebalance(last.time_ms, last.count, last.is_exact, True, joined, left, moved)
        )
    if is_over:
        past.rested = group


def _has_rested(group: Group) -> bool:
    return group.state not in _REBALANCING


def _has_begun(before: Group, after: Group) -> bool:
    """Return whether a rebalance has begun between two readings, by the states."""
    if after.state not in _REBALANCING:
        return False
    return _has_rested(before) or (
        before.state is GroupState.COMPLETING_REBALANCE
        and after.state is GroupState.PREPARING_REBALANCE
    )


def _differences(before: Group, after: Group) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return which members have joined and left, and how many partitions have another owner."""
    if before.members == after.members:
        return (), (), 0
    old = {member.member_id: member for member in before.members}
    new = {member.member_id: member for member in after.members}
    owners, owners_before = _owners(after), _owners(before)
    return (
        tuple(sorted(_name(new[each]) for each in new.keys() - old.keys())),
        tuple(sorted(_name(old[each]) for each in old.keys() - new.keys())),
        sum(owners_before.get(part) != owner for part, owner in owners.items()),
    )


def _owners(group: Group) -> Mapping[object, str]:
    """Return the owner of each partition or active task."""
    return {
        (at.topic_id if at.topic is None else at.topic, at.partition): member.member_id
        for member in group.members
        for at in member.assignment or ()
    } | {
        task: member.member_id
        for member in group.members
        for task in (member.tasks.active if member.tasks else ())
    }


def _name(member: Member) -> str:
    return member.client_id or member.member_id
