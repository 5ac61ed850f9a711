"""Storms: rebalances that follow each other faster than they should, and who started them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kgroup.history.rebalance.query import rebalances
from kgroup.history.rebalance.rebalance import Rebalance
from kgroup.history.sql.engine import Engine
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class Starter:
    """A client that caused rebalances of a storm.

    Attributes:
        instance_id: of a static member.
        client_id: as it calls itself.
        client_host: where it runs.
        cause_count: how many causes were its own.
        member_count: under how many member ids.
    """

    instance_id: str | None
    client_id: str | None
    client_host: str | None
    cause_count: int
    member_count: int


@dataclass(frozen=True, slots=True)
class Storm:
    """Rebalances of a group of which so many came in so short a time, again and again.

    Attributes:
        from_ms: time of the first one.
        to_ms: time of the last one.
        rebalance_count: how many.
        started_by: clients with the most causes first.
        without_member_count: rebalances that no member is known to have caused.
    """

    cluster: str
    group_id: str
    group_type: str
    from_ms: int
    to_ms: int
    rebalance_count: int
    started_by: tuple[Starter, ...]
    without_member_count: int


def find_storms(
    engine: Engine,
    group_id: str | None = None,
    *,
    count: int,
    within_ms: int,
    since_ms: int | None = None,
    until_ms: int | None = None,
    cluster: str | None = None,
) -> Report[Storm]:
    """Find the storms of a group, or of all.

    Args:
        engine: to ask.
        group_id: the group; None: every group.
        count: see `storms_of`, and so is
        within_ms: the time.
        since_ms: only rebalances from then on,
        until_ms: and before then.
        cluster: that has the group.

    Raises:
        NotFoundError: the group is not there.
        UsageError: it is in several clusters.
    """
    found = rebalances(engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=cluster)
    return Report(tuple(storms_of(found.data, count, within_ms)), found.errors, found.notes)


def storms_of(rebalances: Iterable[Rebalance], count: int, within_ms: int) -> list[Storm]:
    """Find storms.

    Args:
        rebalances: by group and place in the log; those without a time are passed over.
        count: so many of one group, 2 or more,
        within_ms: in that time or less, are a storm. Storms that overlap are one.

    Returns:
        Storms by cluster, group and time.
    """
    timed = [each for each in rebalances if each.time_ms is not None]
    found: list[Storm] = []
    for _, of_group in groupby(timed, lambda each: (each.cluster, each.group_id)):
        every = sorted(of_group, key=lambda each: each.time_ms or 0)
        times = [each.time_ms or 0 for each in every]
        start = end = 0  # of the storm that is being looked at
        for first in range(len(every) - count + 1):
            if times[first + count - 1] - times[first] > within_ms:
                continue
            if end > first:
                end = first + count
                continue
            if end > start:
                found.append(_storm(every[start:end]))
            start, end = first, first + count
        if end > start:
            found.append(_storm(every[start:end]))
    return found


def _storm(every: Sequence[Rebalance]) -> Storm:
    members: dict[tuple[str | None, str | None, str | None], list[str]] = {}
    for each in every:
        for cause in each.causes:
            if cause.member_id is not None:
                key = (cause.instance_id, cause.client_id, cause.client_host)
                members.setdefault(key, []).append(cause.member_id)
    starters = [Starter(*key, len(names), len(set(names))) for key, names in members.items()]
    return Storm(
        every[0].cluster,
        every[0].group_id,
        every[0].group_type,
        every[0].time_ms or 0,
        every[-1].time_ms or 0,
        len(every),
        tuple(
            sorted(
                starters,
                key=lambda who: (
                    *(-who.cause_count, who.client_id or ""),
                    *(who.instance_id or "", who.client_host or ""),
                ),
            )
        ),
        sum(all(cause.member_id is None for cause in each.causes) for each in every),
    )
