"""How far a group was behind, where the ends of the logs were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kgroup.history.engine import Engine
from kgroup.history.log_ends import LogEnd, all_ends
from kgroup.history.past_group import PastGroups
from kgroup.history.question import cluster_of_group, span_of
from kgroup.model.instant import rfc3339
from kgroup.operation.report import Report

__all__ = ["Lag", "lags"]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group was behind in a partition when the end of its log was recorded.

    Attributes:
        time_ms: when the end was recorded; of a partition without such an end the time asked for.
        committed_offset: that counted then; None: nothing was committed.
        commit_timestamp_ms: when it was committed.
        log_end_offset: None: no end is known.
        lag: None where one of the two is not known.
    """

    cluster: str
    group_id: str
    topic: str
    partition: int
    time_ms: int
    committed_offset: int | None
    log_end_offset: int | None
    lag: int | None
    commit_timestamp_ms: int | None
    log_start_offset: int | None


def lags(
    engine: Engine,
    group_id: str,
    *,
    at_ms: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    given: Sequence[LogEnd] = (),
    cluster: str | None = None,
) -> Report[Lag]:
    """Tell how far a group was behind.

    Args:
        engine: to ask.
        group_id: the group.
        at_ms: at that time: with the ends that were recorded last by then. None: now.
        since_ms: instead of that, each time that ends were recorded from then on,
        until_ms: and before then.
        topic: only of this topic.
        given: ends that are known beside those in the warehouse.
        cluster: that has the group.

    Returns:
        Rows by time, topic and partition: of each partition that the group had committed, and that
        an end was recorded of. Without a time from which on, those that have no end too.

    Raises:
        NotFoundError: the group is not there.
        UsageError: it is in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    last_ms = span_of(engine, cluster).last_ms
    found = dict.fromkeys((*all_ends(engine, cluster), *given))
    ends = [end for end in found if topic in (None, end.topic)]
    notes = []
    if since_ms is not None or until_ms is not None:
        chosen = [
            end
            for end in ends
            if (since_ms is None or end.time_ms >= since_ms)
            and (until_ms is None or end.time_ms < until_ms)
        ]
        rows = _at_ends(engine, cluster, group_id, chosen)
    else:
        newest = max((last_ms or 0, *(end.time_ms for end in ends)))
        when = newest if at_ms is None else at_ms
        chosen = _last(end for end in ends if end.time_ms <= when)
        rows = _at_ends(engine, cluster, group_id, chosen)
        rows += _without_end(engine, cluster, group_id, when, topic, rows)
    latest_ms = max((row.time_ms for row in rows if row.log_end_offset is not None), default=None)
    if latest_ms is None:
        notes.append(
            "No end of a log is known for what was asked: snapshots tell them ('kgroup snapshot', "
            "then --snapshot FILE)."
        )
    elif last_ms is not None and latest_ms > last_ms:
        notes.append(
            f"Commits of cluster {cluster} are known up to {rfc3339(last_ms)}, and log ends up to "
            f"{rfc3339(latest_ms)}: a lag is at most what is shown where the end is the later one."
        )
    rows.sort(key=lambda row: (row.time_ms, row.topic, row.partition))
    return Report(tuple(rows), notes=tuple(notes))


def _last(ends: Iterable[LogEnd]) -> list[LogEnd]:
    """Keep the last end of each partition."""
    by_partition: dict[tuple[str, int], LogEnd] = {}
    for end in sorted(ends, key=lambda end: (end.time_ms, end.log_end_offset or 0)):
        if end.log_end_offset is not None:
            by_partition[end.topic, end.partition] = end
    return list(by_partition.values())


def _at_ends(engine: Engine, cluster: str, group_id: str, ends: Sequence[LogEnd]) -> list[Lag]:
    """Join ends with what counted when they were recorded."""
    rows = []
    in_order = sorted(ends, key=lambda end: end.time_ms)
    for time_ms, recorded in groupby(in_order, key=lambda end: end.time_ms):
        groups = PastGroups(engine, cluster, time_ms).read([group_id]).image.groups
        offsets = groups[group_id].offsets if group_id in groups else ()
        commits = {(offset.topic, offset.partition): offset for offset in offsets}
        for end in recorded:
            commit = commits.get((end.topic, end.partition))
            if commit is None:
                continue
            lag = None
            if end.log_end_offset is not None:
                lag = end.log_end_offset - commit.committed_offset
            rows.append(
                Lag(
                    cluster=cluster,
                    group_id=group_id,
                    topic=end.topic,
                    partition=end.partition,
                    time_ms=time_ms,
                    committed_offset=commit.committed_offset,
                    log_end_offset=end.log_end_offset,
                    lag=lag,
                    commit_timestamp_ms=commit.commit_timestamp_ms,
                    log_start_offset=end.log_start_offset,
                )
            )
    return rows


def _without_end(
    engine: Engine,
    cluster: str,
    group_id: str,
    at_ms: int,
    topic: str | None,
    rows: Sequence[Lag],
) -> list[Lag]:
    """Give what was committed and has no row yet: its lag is not known."""
    known = {(row.topic, row.partition) for row in rows}
    groups = PastGroups(engine, cluster, at_ms).read([group_id]).image.groups
    return [
        Lag(
            cluster=cluster,
            group_id=group_id,
            topic=offset.topic,
            partition=offset.partition,
            time_ms=at_ms,
            committed_offset=offset.committed_offset,
            log_end_offset=None,
            lag=None,
            commit_timestamp_ms=offset.commit_timestamp_ms,
            log_start_offset=None,
        )
        for offset in (groups[group_id].offsets if group_id in groups else ())
        if topic in (None, offset.topic) and (offset.topic, offset.partition) not in known
    ]
