"""Rebalances of groups and rebalance storms, from the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from kgroup.history.rebalance.cause import REPEATEDLY, Commits, CommitSpan, Recreation, elapsed_ms
from kgroup.history.rebalance.group_timeline import rebalances_of
from kgroup.history.rebalance.rebalance import Rebalance, Takeover
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import (
    MEMBER_TABLES,
    Row,
    cluster_names,
    cluster_of_group,
    marks,
    outside_notes,
    rows_of,
    topic_names,
    where,
)
from kgroup.model.group_log import EFFECTS
from kgroup.operation.check.shared_group import Reader, applications
from kgroup.operation.report import Report

AT_ONCE = 200
"""Number of groups whose rows are in memory at a time."""
_QUICKLY_MS = 600_000
"""Time in which an instance id is taken over so often that it is noted."""
_EPOCHS = tuple(name for name, effect in EFFECTS.items() if effect.attribute == "metadata")
_IDS = "cluster, group_id, offsets_partition, log_offset"
_HAS_METADATA = (
    "protocol_type <> 'consumer' OR protocol NOT IN ('sticky', 'cooperative-sticky') AND "
    """(value_json LIKE '%"userData":"%' OR value_json LIKE '%"userData":{%')"""
)
"""SQL condition for generations whose members state more than topics and previous assignments."""
_Key = tuple[str, str, int]


def rebalances(
    engine: Engine,
    group_id: str | None = None,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    cluster: str | None = None,
) -> Report[Rebalance]:
    """Return when groups rebalanced, and why.

    Args:
        engine: query engine.
        group_id: only this group.
        since_ms: only rebalances at or after this time.
        until_ms: only rebalances before this time. Those without a time are always included.
        cluster: only this cluster.

    Returns:
        The rebalances by cluster, group and position in the log.

    Raises:
        NotFoundError: the group does not exist.
        UsageError: the group exists in several clusters.
    """
    if group_id is not None:
        cluster = cluster_of_group(engine, group_id, cluster)
    sharing: dict[tuple[str, str, int], str] = {}
    chosen = tuple(
        rebalance
        for name, keys in _keys(engine, group_id, cluster, since_ms, until_ms)
        for rebalance in _of_cluster(engine, name, keys, sharing)
        if rebalance.time_ms is None
        or (
            (since_ms is None or rebalance.time_ms >= since_ms)
            and (until_ms is None or rebalance.time_ms < until_ms)
        )
    )
    clusters = cluster_names(engine) if cluster is None else [cluster]
    shared = [sharing.get(_place(rebalance)) for rebalance in chosen]
    notes = [note for note in shared if note is not None]
    notes += [*_takeover_notes(chosen), *outside_notes(engine, clusters, since_ms, until_ms)]
    if group_id is not None and not chosen:
        notes.insert(
            0,
            f"Group {group_id!r} did not rebalance, according to the records: it only committed "
            "offsets, or rebalanced at other times.",
        )
    return Report(chosen, notes=tuple(notes))


def _takeover_notes(chosen: Iterable[Rebalance]) -> Iterator[str]:
    """Yield a note for each instance id that was taken over repeatedly in one generation."""
    for rebalance in chosen:
        by_instance: dict[str, list[Takeover]] = {}
        for takeover in rebalance.takeovers:
            by_instance.setdefault(takeover.instance_id, []).append(takeover)
        for instance_id, every in by_instance.items():
            # static members may restart without a rebalance: once in a while is normal
            if any(
                (elapsed_ms(first.time_ms, last.time_ms) or 0) <= _QUICKLY_MS
                for first, last in zip(every, every[REPEATEDLY - 1 :], strict=False)
            ):
                yield (
                    f"Group {rebalance.group_id!r}: the instance id {instance_id} was taken over "
                    f"{len(every)} times in generation {rebalance.generation_id}: two processes "
                    "use it, or one restarts in a loop."
                )


def _keys(
    engine: Engine,
    group_id: str | None,
    cluster: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> Iterator[tuple[str, Sequence[_Key]]]:
    """Yield each cluster with its groups that may have rebalanced in this time."""
    condition, parameters = where(
        ("cluster = ?", cluster),
        ("group_id = ?", group_id),
        ("(time_ms IS NULL OR time_ms >= ?)", since_ms),
        ("(time_ms IS NULL OR time_ms < ?)", until_ms),
    )
    sql = " UNION ".join(
        f"SELECT cluster, group_id, offsets_partition FROM {table} WHERE {condition}"
        for table in MEMBER_TABLES
    )
    rows = rows_of(engine, f"{sql} ORDER BY cluster, offsets_partition, group_id", parameters * 2)
    for name, of_cluster in groupby(rows, lambda row: str(row["cluster"])):
        yield name, list(map(_key, of_cluster))


def _place(rebalance: Rebalance) -> tuple[str, str, int]:
    return rebalance.cluster, rebalance.group_id, rebalance.log_offset


def _of_cluster(
    engine: Engine, cluster: str, keys: Sequence[_Key], sharing: dict[tuple[str, str, int], str]
) -> list[Rebalance]:
    """Read groups in batches, by partition: groups of one partition share files."""
    names = topic_names(engine, cluster)
    all_rebalances: list[Rebalance] = []
    for start in range(0, len(keys), AT_ONCE):
        all_rebalances += _of_groups(engine, cluster, keys[start : start + AT_ONCE], names, sharing)
    return sorted(all_rebalances, key=lambda rebalance: rebalance.group_id)


def _of_groups(
    engine: Engine,
    cluster: str,
    keys: Sequence[_Key],
    names: Mapping[str, str],
    sharing: dict[tuple[str, str, int], str],
) -> Iterator[Rebalance]:
    """Yield rebalances; add notes about groups that applications share by last rebalance."""
    groups = sorted({group_id for _, group_id, _ in keys})
    partitions = sorted({partition for _, _, partition in keys})
    condition = (
        f"cluster = ? AND group_id IN ({marks(groups)}) "
        f"AND offsets_partition IN ({marks(partitions)})"
    )
    parameters: list[Parameter] = [cluster, *groups, *partitions]
    events: dict[_Key, list[Row]] = {}
    for sql in (
        f"SELECT {_IDS}, time_ms, log_leader_epoch, generation_id, protocol, state_timestamp_ms, "
        f"CASE WHEN {_HAS_METADATA} THEN value_json END AS value_json "
        f"FROM group_generations WHERE {condition} ORDER BY {_IDS}",
        f"SELECT {_IDS}, time_ms, log_leader_epoch, group_type, type, member_id, epoch, "
        "assignment, CASE WHEN type LIKE '%GroupMetadata' OR type LIKE '%PartitionMetadata' "
        f"THEN value_json END AS value_json FROM consumer_group_epochs WHERE {condition} "
        f"ORDER BY {_IDS}",
        f"SELECT {_IDS}, time_ms, type, member_id FROM tombstones WHERE {condition} "
        f"AND topic IS NULL ORDER BY {_IDS}",
    ):
        for row in rows_of(engine, sql, parameters):
            events.setdefault(_key(row), []).append(row)
    members: dict[_Key, dict[int, list[Row]]] = {}
    sql = (
        f"SELECT {_IDS}, member_id, instance_id, client_id, client_host, session_timeout_ms, "
        "rebalance_timeout_ms, subscribed_topics, subscribed_regex, assignment FROM members "
        f"WHERE {condition} ORDER BY {_IDS}, member_id"
    )
    for row in rows_of(engine, sql, parameters):
        members.setdefault(_key(row), {}).setdefault(row["log_offset"], []).append(row)
    spans = _spans(engine, condition, parameters)
    recreated = recreations(engine, condition, parameters)
    for key in keys:
        of_group = rebalances_of(
            sorted(events[key], key=lambda row: int(row["log_offset"])),
            members.get(key, {}),
            Commits(spans.get(key, ()), recreated.get(key, ())),
            names,
        )
        for rebalance in of_group:
            last = replace(rebalance, cluster=key[0], group_id=key[1], offsets_partition=key[2])
            yield last
        if of_group and (note := _sharing_note(key[1], _members_of(last, members.get(key, {})))):
            sharing[_place(last)] = note


def _sharing_note(group_id: str, members: Iterable[Row]) -> str | None:
    """Return a note if the members look like several applications."""
    parts = applications(
        Reader(
            row["client_id"],
            row["client_host"],
            None if row["subscribed_regex"] else frozenset(row["subscribed_topics"] or ()),
        )
        for row in members
    )
    if not parts:
        return None
    return (
        f"Members of group {group_id!r} subscribe to disjoint topics and run apart: "
        f"{'; '.join(parts)}. If these are two applications, give each its own group id."
    )


def _members_of(rebalance: Rebalance, rows: Mapping[int, Sequence[Row]]) -> Iterator[Row]:
    """Yield the last row of each member after a rebalance."""
    by_member = {
        row["member_id"]: row
        for log_offset, each in rows.items()
        if log_offset <= rebalance.log_offset
        for row in each
    }
    for member in rebalance.members:
        if member.member_id in by_member:
            yield by_member[member.member_id]


def _spans(
    engine: Engine, condition: str, parameters: Sequence[Parameter]
) -> dict[_Key, list[CommitSpan]]:
    """Return the commits between the records of rebalances."""
    columns = "cluster, group_id, offsets_partition"
    sql = (
        f"SELECT {columns}, mark, topic, partition, COUNT(*) AS commit_count, "
        "MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM "
        f"(SELECT {columns}, topic, partition, time_ms, MAX(own_mark) OVER "
        f"(PARTITION BY {columns} ORDER BY log_offset "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS mark FROM "
        f"(SELECT {_IDS}, topic, partition, time_ms, CAST(NULL AS BIGINT) AS own_mark "
        f"FROM offset_commits WHERE {condition} UNION ALL "
        f"SELECT {_IDS}, NULL, NULL, NULL, log_offset FROM group_generations "
        f"WHERE {condition} UNION ALL "
        f"SELECT {_IDS}, NULL, NULL, NULL, log_offset FROM consumer_group_epochs "
        f"WHERE {condition} AND type IN {_EPOCHS}) AS entries) AS placed "
        f"WHERE topic IS NOT NULL GROUP BY {columns}, mark, topic, partition "
        f"ORDER BY {columns}, mark, topic, partition"
    )
    spans: dict[_Key, list[CommitSpan]] = {}
    for row in rows_of(engine, sql, [*parameters] * 3):
        span = CommitSpan(
            -1 if row["mark"] is None else row["mark"],
            row["topic"],
            row["partition"],
            row["commit_count"],
            row["first_ms"],
            row["last_ms"],
        )
        spans.setdefault(_key(row), []).append(span)
    return spans


def recreations(
    engine: Engine, condition: str, parameters: Sequence[Parameter]
) -> dict[_Key, list[Recreation]]:
    """Return the topics whose commits had one topic id, then another.

    Args:
        engine: query engine.
        condition: condition on `offset_commits`.
        parameters: of the condition.

    Returns:
        By cluster, group and partition of `__consumer_offsets`.
    """
    columns = "cluster, group_id, offsets_partition, topic"
    sql = (
        f"SELECT {columns}, topic_id, MIN(log_offset) AS first_offset, MAX(log_offset) AS "
        "last_offset, MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM offset_commits "
        f"WHERE {condition} AND topic_id IS NOT NULL GROUP BY {columns}, topic_id "
        f"ORDER BY {columns}, first_offset"
    )
    found: dict[_Key, list[Recreation]] = {}
    for old, new in pairwise(rows_of(engine, sql, parameters)):
        if (_key(old), old["topic"]) == (_key(new), new["topic"]):
            recreation = Recreation(
                *(new["topic"], old["topic_id"], new["topic_id"]),
                *(old["last_offset"], new["first_offset"], old["last_ms"], new["first_ms"]),
            )
            found.setdefault(_key(new), []).append(recreation)
    return found


def _key(row: Row) -> _Key:
    return row["cluster"], row["group_id"], row["offsets_partition"]


@dataclass(frozen=True, slots=True)
class Starter:
    """A client that caused rebalances of a storm.

    Attributes:
        instance_id: group.instance.id of a static member; else None.
        client_id: client.id that the client sent.
        client_host: client address as seen by the broker.
        cause_count: number of causes that are about this client.
        member_count: number of member ids that the client had.
    """

    instance_id: str | None
    client_id: str | None
    client_host: str | None
    cause_count: int
    member_count: int


@dataclass(frozen=True, slots=True)
class Storm:
    """A period in which a group rebalanced too often.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        group_type: group type: `classic`, `consumer`, `share` or `streams`.
        from_ms: time of the first rebalance.
        to_ms: time of the last rebalance.
        rebalance_count: number of rebalances.
        started_by: clients that caused the rebalances; those with the most causes first.
        without_member_count: number of rebalances that no known member caused.
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
    """Find the rebalance storms of a group, or of all groups.

    Args:
        engine: query engine.
        group_id: the group; None for all groups.
        count: see `storms_of`.
        within_ms: see `storms_of`.
        since_ms: only rebalances at or after this time.
        until_ms: only rebalances before this time.
        cluster: cluster of the group.

    Raises:
        NotFoundError: the group does not exist.
        UsageError: the group exists in several clusters.
    """
    report = rebalances(engine, group_id, since_ms=since_ms, until_ms=until_ms, cluster=cluster)
    return Report(tuple(storms_of(report.data, count, within_ms)), report.errors, report.notes)


def storms_of(rebalances: Iterable[Rebalance], count: int, within_ms: int) -> list[Storm]:
    """Find rebalance storms.

    Args:
        rebalances: rebalances by group and position in the log; those without a time are ignored.
        count: minimum number of rebalances of one group, 2 or more.
        within_ms: time within which that many are a storm. Overlapping storms are merged.

    Returns:
        Storms by cluster, group and time.
    """
    timed = [rebalance for rebalance in rebalances if rebalance.time_ms is not None]
    storms: list[Storm] = []
    for _, of_group in groupby(timed, lambda rebalance: (rebalance.cluster, rebalance.group_id)):
        every = sorted(of_group, key=lambda rebalance: rebalance.time_ms or 0)
        times = [rebalance.time_ms or 0 for rebalance in every]
        start = end = 0  # bounds of the current storm
        for first in range(len(every) - count + 1):
            if times[first + count - 1] - times[first] > within_ms:
                continue
            if end > first:
                end = first + count
                continue
            if end > start:
                storms.append(_storm(every[start:end]))
            start, end = first, first + count
        if end > start:
            storms.append(_storm(every[start:end]))
    return storms


def _storm(every: Sequence[Rebalance]) -> Storm:
    members: dict[tuple[str | None, str | None, str | None], list[str]] = {}
    for rebalance in every:
        for cause in rebalance.causes:
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
        sum(all(cause.member_id is None for cause in rebalance.causes) for rebalance in every),
    )
