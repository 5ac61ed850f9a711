"""Data of a group's page: ownership, rebalances, commits and lag over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from kgroup.history.query.lag import GroupLag, group_lags
from kgroup.history.query.owner import timeline
from kgroup.history.rebalance.query import rebalances
from kgroup.history.rebalance.rebalance import Participant, Rebalance
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import (
    COMMITTED,
    Interval,
    LogEnd,
    cluster_of_group,
    committed_partitions,
    first_times,
    outside_notes,
    recorded_time,
    rows_of,
    times_of_ends,
)
from kgroup.model.cluster import TopicPartition
from kgroup.model.instant import rfc3339
from kgroup.operation.report import Report

MOST_SINGLE = 60
"""Partitions or tasks up to which each has its own row; of more, those with equal owners share one.
"""
MOST_ROWS = 600
MOST_STRETCHES = 3000
MOST_LOADS = 20_000
MOST_REBALANCES = 1000
MOST_LIVES = 500
MOST_LAGS = 500
MOST_SUMMED = 200_000
"""Approximate number of lags of partitions that are summed up."""
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
class OwnedRow:
    """Partitions or tasks that had the same owners at the same times.

    Attributes:
        owned: topic and number of each; for a task, its subtopology and role instead of the topic.
        stretches: ownership intervals of each of them.
    """

    owned: tuple[TopicPartition, ...]
    stretches: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Number of partitions or tasks of a member, until it changed; `to_ms` is None at the end."""

    member_id: str
    from_ms: int
    to_ms: int | None
    count: int


@dataclass(frozen=True, slots=True)
class CommitRate:
    """Number of commits in one bar."""

    time_ms: int
    commits: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The data of a page.

    Attributes:
        since_ms: start of the period shown; None if no time is known.
        until_ms: end of the period shown.
        known_ms: time of the cluster's last record; open intervals had not ended by then.
        owned_count: number of partitions or tasks with an owner, including those left out.
        rows: ownership intervals, without those that have no times.
        loads: number of partitions or tasks of each member over time.
        rate_ms: width of the bars of the commit rate.
        left_out: what is not shown, as sentences.
    """

    cluster: str
    group_id: str
    since_ms: int | None
    until_ms: int | None
    known_ms: int | None
    owned_count: int
    rows: tuple[OwnedRow, ...]
    loads: tuple[Load, ...]
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
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def name_of_owned(interval: Interval) -> str:
    """Return the name of a partition, or of a task: its subtopology, number and role."""
    if interval.subtopology is not None:
        return f"{interval.subtopology}_{interval.partition}{_role(interval)}"
    return f"{interval.topic or interval.topic_id}-{interval.partition}"


def _role(interval: Interval) -> str:
    return "" if interval.role in (None, "active") else f" {interval.role}"


def _owned(interval: Interval) -> TopicPartition:
    if interval.subtopology is not None:
        return f"{interval.subtopology}{_role(interval)}", interval.partition
    return interval.topic or interval.topic_id or "", interval.partition


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
    rows = _rows(timed)
    owned_count = sum(len(row.owned) for row in rows)
    rows, left = _bounded(rows)
    left_out += left
    loads = _loads(timed)
    if len(loads) > MOST_LOADS:
        begin = rfc3339(loads[-MOST_LOADS].from_ms)
        left_out.append(f"how many partitions members had before {begin}")
        loads = loads[-MOST_LOADS:]
    if len(changes) > MOST_REBALANCES:
        left_out.append(f"{counted(len(changes) - MOST_REBALANCES, 'rebalance')}, the oldest")
        changes = changes[-MOST_REBALANCES:]
    lives = _lives(changes, since_ms)
    if len(lives) > MOST_LIVES:
        first = ("member that joined first", "members that joined first")
        left_out.append(counted(len(lives) - MOST_LIVES, *first))
        lives = lives[-MOST_LIVES:]
    length_ms = _length_ms(since, until)
    recorded = times_of_ends(engine, cluster, group_id, since_ms, until_ms)
    partitions = len(committed_partitions(engine, group_id))
    most = max(20, min(MOST_LAGS, MOST_SUMMED // max(partitions, 1)))
    times = recorded[:: -max(1, -(-len(recorded) // most))][::-1]
    if len(times) < len(recorded):
        left_out.append(f"lag at {len(recorded) - len(times):,} of {len(recorded):,} times")
    page = GroupPage(
        cluster,
        group_id,
        since,
        until,
        known_ms,
        owned_count,
        tuple(rows),
        tuple(loads),
        tuple(changes),
        tuple(lives),
        length_ms,
        _rates(engine, cluster, group_id, since, until, length_ms),
        group_lags(
            engine,
            group_id,
            times_ms=times,
            since_ms=since_ms,
            until_ms=until_ms,
            given=given,
            cluster=cluster,
        ),
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


def _rows(timed: Sequence[Interval]) -> list[OwnedRow]:
    """Return the ownership intervals by partition or task; of many, equal ones share a row."""
    by_owned: dict[TopicPartition, list[Interval]] = {}
    for interval in timed:
        by_owned.setdefault(_owned(interval), []).append(interval)
    if len(by_owned) <= MOST_SINGLE:
        return [OwnedRow((owned,), tuple(own)) for owned, own in by_owned.items()]
    alike: dict[object, list[TopicPartition]] = {}
    for owned, own in by_owned.items():
        same = tuple((each.member_id, each.from_ms, each.to_ms, each.ended_by) for each in own)
        alike.setdefault(same, []).append(owned)
    return [OwnedRow(tuple(sorted(owned)), tuple(by_owned[owned[0]])) for owned in alike.values()]


def _bounded(rows: Sequence[OwnedRow]) -> tuple[list[OwnedRow], list[str]]:
    """Return rows up to the limits of rows and intervals, and what was left out."""
    left_out = []
    most = sorted(rows, key=lambda row: len(row.owned), reverse=True)
    if rest := most[MOST_ROWS:]:
        count = counted(
            sum(len(row.owned) for row in rest), "partition or task", "partitions or tasks"
        )
        left_out.append(f"owners of {count} in {counted(len(rest), 'row')}")
    chosen = set(most[:MOST_ROWS])
    shown = [row for row in rows if row in chosen]
    newest = sorted((each.from_ms or 0 for row in shown for each in row.stretches), reverse=True)
    if len(newest) > MOST_STRETCHES:
        begin_ms = newest[MOST_STRETCHES - 1]
        older = counted(sum(from_ms < begin_ms for from_ms in newest), "interval")
        left_out.append(f"{older} that began before {rfc3339(begin_ms)}")
        kept = [
            replace(row, stretches=tuple(s for s in row.stretches if (s.from_ms or 0) >= begin_ms))
            for row in shown
        ]
        shown = [row for row in kept if row.stretches]
    return shown, left_out


def _loads(timed: Sequence[Interval]) -> list[Load]:
    """Return the number of partitions or tasks of each member over time, by start."""
    changes: dict[str, Counter[int]] = {}
    for interval in timed:
        of_member = changes.setdefault(interval.member_id, Counter())
        of_member[interval.from_ms or 0] += 1
        if interval.to_ms is not None:
            of_member[interval.to_ms] -= 1
    loads: list[Load] = []
    for member_id, of_member in changes.items():
        steps = sorted(of_member.items())
        counts = accumulate(change for _, change in steps)
        ends = [time_ms for time_ms, _ in steps[1:]]
        for (from_ms, change), to_ms, count in zip(steps, [*ends, None], counts, strict=True):
            if count and (change or not loads or loads[-1].member_id != member_id):
                loads.append(Load(member_id, from_ms, to_ms, count))
            elif count:  # what it lost and got at once changes nothing
                loads[-1] = replace(loads[-1], to_ms=to_ms)
    return sorted(loads, key=lambda load: (load.from_ms, load.member_id))


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
