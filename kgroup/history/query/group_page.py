"""Data of a group's page: ownership, rebalances, commits and lag over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgroup.history.query.lag import lags
from kgroup.history.query.owner import timeline
from kgroup.history.rebalance.query import rebalances
from kgroup.history.rebalance.rebalance import Participant, Rebalance
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import (
    COMMITTED,
    Interval,
    LogEnd,
    cluster_of_group,
    first_times,
    outside_notes,
    recorded_time,
    rows_of,
)
from kgroup.model.instant import rfc3339
from kgroup.operation.report import Report

MOST_PARTITIONS = 150
MOST_STRETCHES = 4000
MOST_REBALANCES = 1000
MOST_LIVES = 100
_BUCKETS = 300
"""Approximate number of bars of the commit rate."""
_LENGTHS_S = (1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800)


@dataclass(frozen=True, slots=True)
class MembershipPeriod:
    """The time a member was in the group, from its rebalances; `to_ms` is None if still in it."""

    who: Participant
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class CommitRate:
    """Number of commits in one bar."""

    time_ms: int
    commits: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Sum of the lags that were known at a time."""

    time_ms: int
    lag: int
    partitions: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The data of a page.

    Attributes:
        since_ms: start of the period shown; None if no time is known.
        until_ms: end of the period shown.
        known_ms: time of the cluster's last record; open intervals had not ended by then.
        stretches: ownership intervals, without those that have no times.
        rate_ms: width of the bars of the commit rate.
        left_out: what is not shown, as sentences.
    """

    cluster: str
    group_id: str
    since_ms: int | None
    until_ms: int | None
    known_ms: int | None
    stretches: tuple[Interval, ...]
    rebalances: tuple[Rebalance, ...]
    lives: tuple[MembershipPeriod, ...]
    rate_ms: int
    rates: tuple[CommitRate, ...]
    lags: tuple[GroupLag, ...]
    left_out: tuple[str, ...]


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: "1 member", "2 members".

    Args:
        count: the count.
        one: singular of the noun.
        several: plural; by default the singular with an s.
    """
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def name_of_owned(interval: Interval) -> str:
    """Return the name of a partition, or of a task: its subtopology, number and role."""
    if interval.subtopology is not None:
        role = "" if interval.role in (None, "active") else f" {interval.role}"
        return f"{interval.subtopology}_{interval.partition}{role}"
    return f"{interval.topic or interval.topic_id}-{interval.partition}"


def group_page(
    engine: Engine,
    group_id: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    given: Sequence[LogEnd] = (),
    cluster: str | None = None,
) -> Report[GroupPage]:
    """Collect the data of a page.

    Args:
        engine: query engine.
        group_id: the group.
        since_ms: show only the time from here on.
        until_ms: show only the time before this.
        given: further log ends, besides those in the tables.
        cluster: cluster of the group.

    Returns:
        One page; notes say what it does not show.

    Raises:
        NotFoundError: the group does not exist.
        UsageError: the group exists in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    intervals = timeline(engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=cluster)
    timed = [interval for interval in intervals.data if interval.is_timed]
    changes = [
        rebalance
        for rebalance in rebalances(
            engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=cluster
        ).data
        if rebalance.time_ms is not None
    ]
    first_commit = first_times(engine, cluster, [group_id], ["offset_commits"]).get(group_id)
    known = [
        *(interval.from_ms for interval in timed),
        *(change.time_ms for change in changes),
        first_commit,
    ]
    known_ms = recorded_time(engine, cluster).last_ms
    since, until = _shown_time(known, known_ms, since_ms, until_ms)
    left_out = []
    if len(timed) < len(intervals.data):
        untimed = counted(len(intervals.data) - len(timed), "interval")
        left_out.append(f"{untimed} without times")
    shown, left = _bounded(timed)
    left_out += left
    if len(changes) > MOST_REBALANCES:
        left_out.append(f"{counted(len(changes) - MOST_REBALANCES, 'rebalance')}, the oldest")
        changes = changes[-MOST_REBALANCES:]
    lives = _lives(changes, since_ms)
    if len(lives) > MOST_LIVES:
        first = ("member that joined first", "members that joined first")
        left_out.append(counted(len(lives) - MOST_LIVES, *first))
        lives = lives[-MOST_LIVES:]
    length_ms = _length_ms(since, until)
    page = GroupPage(
        cluster,
        group_id,
        since,
        until,
        known_ms,
        tuple(shown),
        tuple(changes),
        tuple(lives),
        length_ms,
        _rates(engine, cluster, group_id, since, until, length_ms),
        _lags(engine, cluster, group_id, since_ms, until_ms, given),
        tuple(left_out),
    )
    outside = outside_notes(engine, [cluster], since_ms, until_ms)
    return Report((page,), notes=(*_notes(page), *outside))


def _notes(page: GroupPage) -> Iterator[str]:
    if not (page.rebalances or page.rates):
        yield (
            f"Group {page.group_id!r} neither rebalanced nor committed in this period, according "
            "to the records."
        )
    yield from (f"not shown: {each}" for each in page.left_out)


def _shown_time(
    known: Sequence[int | None], known_ms: int | None, since_ms: int | None, until_ms: int | None
) -> tuple[int | None, int | None]:
    since = since_ms
    if since is None:
        since = min((each for each in known if each is not None), default=None)
    until = known_ms if until_ms is None else until_ms
    if since is not None and until is not None and since > until:  # no record of that time
        since = until = until if since_ms is None else since
    return since, until


def _bounded(timed: Sequence[Interval]) -> tuple[list[Interval], list[str]]:
    """Return intervals up to the limits of partitions and intervals, and what was left out."""
    names = list(dict.fromkeys(map(name_of_owned, timed)))
    left_out = []
    if len(names) > MOST_PARTITIONS:
        rest = names[MOST_PARTITIONS:]
        left_out.append(f"{counted(len(rest), 'partition')}, starting with {rest[0]}")
    kept = set(names[:MOST_PARTITIONS])
    shown = [interval for interval in timed if name_of_owned(interval) in kept]
    if len(shown) > MOST_STRETCHES:
        newest = sorted(shown, key=lambda interval: interval.from_ms or 0)[-MOST_STRETCHES:]
        begin = rfc3339(newest[0].from_ms or 0)
        older = counted(len(shown) - MOST_STRETCHES, "interval")
        left_out.append(f"{older} that began before {begin}")
        chosen = set(newest)
        shown = [interval for interval in shown if interval in chosen]
    return shown, left_out


def _lives(changes: Sequence[Rebalance], since_ms: int | None) -> list[MembershipPeriod]:
    """Return the times of membership; members before the first rebalance begin at `since_ms`."""
    began: dict[str, tuple[Participant, int]] = {}
    periods: list[MembershipPeriod] = []
    for first in changes[:1]:
        begin_ms = first.time_ms if since_ms is None else since_ms
        assert begin_ms is not None
        began = {who.member_id: (who, begin_ms) for who in first.members_before or ()}
    for change in changes:
        assert change.time_ms is not None
        now = {who.member_id: who for who in change.members}
        for name in [name for name in began if name not in now]:
            periods.append(MembershipPeriod(*began.pop(name), change.time_ms))
        for name, who in now.items():
            began.setdefault(name, (who, change.time_ms))
    periods += [MembershipPeriod(who, from_ms, None) for who, from_ms in began.values()]
    return sorted(periods, key=lambda life: (life.from_ms, life.who.member_id))


def _length_ms(since_ms: int | None, until_ms: int | None) -> int:
    wanted_s = ((until_ms or 0) - (since_ms or 0)) / 1000 / _BUCKETS
    return 1000 * next((each for each in _LENGTHS_S if each >= wanted_s), _LENGTHS_S[-1])


def _rates(
    engine: Engine,
    cluster: str,
    group_id: str,
    since_ms: int | None,
    until_ms: int | None,
    length_ms: int,
) -> tuple[CommitRate, ...]:
    if since_ms is None or until_ms is None:
        return ()
    sql = (
        "SELECT while_ms, COUNT(*) AS commits FROM "
        f"(SELECT time_ms - MOD(time_ms, {length_ms}) AS while_ms FROM offset_commits "
        f"WHERE cluster = ? AND group_id = ? AND time_ms >= ? AND time_ms <= ? AND {COMMITTED}) "
        "AS timed "
        "GROUP BY while_ms ORDER BY while_ms"
    )
    rows = rows_of(engine, sql, [cluster, group_id, since_ms, until_ms])
    return tuple(CommitRate(row["while_ms"], row["commits"]) for row in rows)


def _lags(
    engine: Engine,
    cluster: str,
    group_id: str,
    since_ms: int | None,
    until_ms: int | None,
    given: Sequence[LogEnd],
) -> tuple[GroupLag, ...]:
    sums: dict[int, list[int]] = {}
    found = lags(
        engine, group_id, since_ms=since_ms or 0, until_ms=until_ms, given=given, cluster=cluster
    )
    for row in found.data:
        if row.lag is not None:
            sums.setdefault(row.time_ms, []).append(row.lag)
    return tuple(
        GroupLag(time_ms, sum(of_time), len(of_time)) for time_ms, of_time in sorted(sums.items())
    )
