"""Rebalances of groups and rebalance storms, from the tables of a warehouse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa

from kgroup.history.rebalance.cause import REPEATEDLY, Commits, CommitSpans, Recreation, elapsed_ms
from kgroup.history.rebalance.group_timeline import rebalances_of
from kgroup.history.rebalance.rebalance import Rebalance, Takeover
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.part import answers_in_parts
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
from kgroup.model.instant import shown_time
from kgroup.operation.check.look import exact_length
from kgroup.operation.check.shared_group import Reader, applications
from kgroup.operation.report import Report, first_names

_MOST_RECORDS = 10_000
"""Records about members that are read at a time, with the commits in between: with 50,000, DuckDB
takes a tenth less time, and the process twice the memory."""
_MOST_GROUPS = 5_000
"""Groups that are read at a time."""
_BATCH_ROWS = 4_096
"""Rows that are Python objects at a time, of each query."""
_MOST_LAG = (1 << 31) - 1
"""Largest offset of Spark's LAG: more records than a group has."""
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
_T = TypeVar("_T")
_Found = TypeVar("_Found", bound="Rebalance | Storm")


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
    keys = _keys(engine, group_id, cluster, since_ms, until_ms)
    report = _answer(engine, Rebalance, _of_part, keys, group_id, cluster, since_ms, until_ms)
    if report.data:
        return report
    if group_id is None:
        note = "No rebalance is recorded"
        note += "." if since_ms is None and until_ms is None else " in this time."
        return replace(report, notes=(*report.notes, note))
    if since_ms is None and until_ms is None:
        return report
    others = rebalances(engine, group_id, cluster=cluster).data
    times = [each.time_ms for each in others if each.time_ms is not None]
    if not times:
        return report
    none = _without_rebalance(group_id)
    others_notes = [note for note in report.notes if note != none]
    last = shown_time(max(times))
    note = f"Group {group_id!r} did not rebalance in this time, but last at {last}."
    return replace(report, notes=(note, *others_notes))


_Note = tuple[tuple[bool, str, str], str]
"""Order of a note and its text: notes about takeovers come last, otherwise by cluster and group."""


def _place(rebalance: Rebalance) -> _Key:
    return rebalance.cluster, rebalance.group_id, rebalance.offsets_partition


@dataclass(frozen=True, slots=True)
class _Part:
    """Groups whose rebalances are derived at a time, and the period.

    Attributes:
        keys: the groups, of one cluster, sorted.
        topic_names: topic names of the cluster, by topic id.
    """

    keys: Sequence[_Key]
    topic_names: Mapping[str, str]
    since_ms: int | None
    until_ms: int | None


_Notes = tuple[list[_Note], Counter[str]]
"""Notes, and the number of generations without a record, of each group with rebalances."""


def _of_part(engine: Engine, part: _Part) -> tuple[list[Rebalance], _Notes]:
    """Return the rebalances of some groups, group by group, and notes."""
    found: list[Rebalance] = []
    notes: list[_Note] = []
    missing = Counter[str]()
    since_ms, until_ms = part.since_ms, part.until_ms
    for key, of_group, note in _of_groups(engine, part.keys, part.topic_names):
        chosen = [
            rebalance
            for rebalance in of_group
            if rebalance.time_ms is None
            or (
                (since_ms is None or rebalance.time_ms >= since_ms)
                and (until_ms is None or rebalance.time_ms < until_ms)
            )
        ]
        if note and chosen and chosen[-1] is of_group[-1]:
            notes.append(((False, *key[:2]), note))
        notes += (((True, *key[:2]), text) for text in _takeover_notes(chosen))
        found += chosen
        if chosen:
            missing[key[1]] += missing_generations(chosen)
    return found, (notes, missing)


def missing_generations(every: Sequence[Rebalance]) -> int:
    """Return how many generations of a group have no record, between rebalances in log order."""
    numbers = [rebalance.generation_id for rebalance in every]
    return sum(max(0, after - before - 1) for before, after in pairwise(numbers))


def missing_notes(missing: Mapping[str, int]) -> Iterator[str]:
    """Yield a note if groups have generations without a record, given their numbers by group."""
    groups = sorted(group_id for group_id, count in missing.items() if count)
    if groups:
        count = sum(missing.values())
        yield (
            f"No record of {count} generation{'' if count == 1 else 's'} of "
            f"{first_names(groups, repr)}, so the cause is unknown: compaction removed the record, "
            "no assignment followed, or the record was larger than brokers accept."
        )


def _answer(
    engine: Engine,
    kind: type[_Found],
    question: Callable[[Engine, _Part], tuple[list[_Found], _Notes]],
    all_keys: Iterable[Sequence[_Key]],
    group_id: str | None,
    cluster: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> Report[_Found]:
    """Ask about some groups at a time; return all answers, by cluster and group.

    `question` returns answers of a class, notes, and missing generations of groups that rebalanced;
    for the others, see `rebalances`.
    """
    if group_id is not None:
        cluster = cluster_of_group(engine, group_id, cluster)
    names = cache(partial(topic_names, engine))
    parts = (_Part(keys, names(keys[0][0]), since_ms, until_ms) for keys in all_keys)
    found, others_of_parts = answers_in_parts(engine, kind, question, parts)
    notes: list[_Note] = []
    missing = Counter[str]()
    for about_them, of_them in others_of_parts:
        notes += about_them
        missing.update(of_them)
    if group_id is not None and not missing:
        notes.append(((False, "", ""), _without_rebalance(group_id)))
    clusters = cluster_names(engine) if cluster is None else [cluster]
    of_groups = (text for _, text in sorted(notes, key=itemgetter(0)))
    others = outside_notes(engine, clusters, since_ms, until_ms)
    notes_of_all = (*of_groups, *missing_notes(missing), *others)
    return Report(found, notes=notes_of_all)


def _without_rebalance(group_id: str) -> str:
    return (
        f"Group {group_id!r} did not rebalance, according to the records: it only committed "
        "offsets, or rebalanced at other times."
    )


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
    chosen: Container[_Key] | None = None,
) -> Iterator[Sequence[_Key]]:
    """Yield groups that may have rebalanced in this time, some of one cluster at a time.

    They are divided by partition: groups of one partition share files. Only the `chosen` groups,
    unless None.
    """
    condition, parameters = where(
        ("cluster = ?", cluster),
        ("group_id = ?", group_id),
        ("(time_ms IS NULL OR time_ms >= ?)", since_ms),
        ("(time_ms IS NULL OR time_ms < ?)", until_ms),
    )
    records = " UNION ALL ".join(
        f"SELECT cluster, group_id, offsets_partition FROM {table} WHERE {condition}"
        for table in MEMBER_TABLES
    )
    sql = (
        "SELECT cluster, group_id, offsets_partition, COUNT(*) AS record_count "
        f"FROM ({records}) AS records GROUP BY cluster, group_id, offsets_partition "
        "ORDER BY cluster, offsets_partition, group_id"
    )
    found = engine.query(sql, parameters * len(MEMBER_TABLES), is_trusted=True)
    rows = (row for batch in found.to_batches(_BATCH_ROWS) for row in batch.to_pylist())
    for _, of_cluster in groupby(rows, lambda row: str(row["cluster"])):
        some: list[_Key] = []
        count = 0
        for row in of_cluster:
            if chosen is not None and _key(row) not in chosen:
                continue
            if some and (count + row["record_count"] > _MOST_RECORDS or len(some) >= _MOST_GROUPS):
                yield sorted(some)
                some, count = [], 0
            some.append(_key(row))
            count += row["record_count"]
        if some:
            yield sorted(some)


class _Rows(Generic[_T]):
    """Rows of a query, divided by group as they are asked for.

    Args:
        engine: query engine.
        sql: the query, without its order; it selects first the columns of `_IDS`.
        parameters: its parameters.
        read: returns the rows of a group, given the names and values of their columns without
            those that identify the group.
        then: columns by which rows are sorted after those of `_IDS`.
    """

    def __init__(
        self,
        engine: Engine,
        sql: str,
        parameters: Sequence[Parameter],
        read: Callable[[Sequence[str], Sequence[list[Any]]], _T],
        *then: str,
    ) -> None:
        order = ", ".join((_IDS, *then))
        found = engine.query(f"{sql} ORDER BY {order}", parameters, is_trusted=True)
        self._names = found.schema.names[3:]
        self._read = read
        self._runs = _runs(found)
        self._next = next(self._runs, None)

    def of(self, key: _Key) -> _T:
        """Return the rows of a group; those of groups before it are left out."""
        columns: list[list[Any]] = [[] for _ in self._names]
        while self._next is not None and self._next[0] <= key:
            if self._next[0] == key:
                for column, values in zip(columns, self._next[1], strict=True):
                    column += values
            self._next = next(self._runs, None)
        return self._read(self._names, columns)


def _runs(found: pa.Table) -> Iterator[tuple[_Key, list[list[Any]]]]:
    """Yield consecutive rows of a group: its key, and the values of the other columns."""
    import pyarrow.compute as pc

    for batch in found.to_batches(_BATCH_ROWS):
        keys = batch.columns[:3]
        differs = [pc.not_equal(column[1:], column[:-1]) for column in keys]
        ends = pc.indices_nonzero(pc.or_(pc.or_(*differs[:2]), differs[2])).to_pylist()
        values = [column.to_pylist() for column in batch.columns[3:]]
        start = 0
        for last in (*ends, batch.num_rows - 1):
            cluster, group_id, offsets_partition = (column[start].as_py() for column in keys)
            rows = [column[start : last + 1] for column in values]
            yield (cluster, group_id, offsets_partition), rows
            start = last + 1


def _read_rows(names: Sequence[str], columns: Sequence[list[Any]]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _read_spans(_: Sequence[str], columns: Sequence[list[Any]]) -> CommitSpans:
    return CommitSpans(*columns)


def _of_groups(
    engine: Engine, keys: Sequence[_Key], names: Mapping[str, str]
) -> Iterator[tuple[_Key, list[Rebalance], str | None]]:
    """Yield groups of one cluster, in order.

    Each with its rebalances, and a note if several applications seem to share it at the end.
    """
    cluster = keys[0][0]
    groups = sorted({group_id for _, group_id, _ in keys})
    partitions = sorted({partition for _, _, partition in keys})
    condition = (
        f"cluster = ? AND group_id IN ({marks(groups)}) "
        f"AND offsets_partition IN ({marks(partitions)})"
    )
    parameters: list[Parameter] = [cluster, *groups, *partitions]
    events = [
        _Rows(engine, sql, parameters, _read_rows)
        for sql in (
            f"SELECT {_IDS}, time_ms, log_leader_epoch, generation_id, protocol, "
            f"state_timestamp_ms, CASE WHEN {_HAS_METADATA} THEN value_json END AS value_json "
            f"FROM group_generations WHERE {condition}",
            f"SELECT {_IDS}, time_ms, log_leader_epoch, group_type, type, member_id, epoch, "
            "assignment, CASE WHEN type LIKE '%GroupMetadata' OR type LIKE '%PartitionMetadata' "
            f"THEN value_json END AS value_json FROM consumer_group_epochs WHERE {condition}",
            f"SELECT {_IDS}, time_ms, type, member_id FROM tombstones WHERE {condition} "
            "AND topic IS NULL",
        )
    ]
    members = _Rows(
        engine,
        f"SELECT {_IDS}, member_id, instance_id, client_id, client_host, session_timeout_ms, "
        "rebalance_timeout_ms, subscribed_topics, subscribed_regex, assignment FROM members "
        f"WHERE {condition}",
        parameters,
        _read_rows,
        "member_id",
    )
    spans = _spans(engine, condition, parameters)
    recreated = recreations(engine, condition, parameters)
    for key in keys:
        by_offset: dict[int, list[Row]] = {}
        for row in members.of(key):
            by_offset.setdefault(row["log_offset"], []).append(row)
        of_group = rebalances_of(
            key,
            sorted(
                (row for rows in events for row in rows.of(key)),
                key=lambda row: int(row["log_offset"]),
            ),
            by_offset,
            Commits(spans.of(key), recreated.get(key, ())),
            names,
        )
        note = None
        if of_group:
            note = _sharing_note(key[1], _members_of(of_group[-1], by_offset))
        yield key, of_group, note


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


def _spans(engine: Engine, condition: str, parameters: Sequence[Parameter]) -> _Rows[CommitSpans]:
    """Return the commits between the records of rebalances; `log_offset` is the record before."""
    columns = "cluster, group_id, offsets_partition"
    sql = (
        f"SELECT {columns}, COALESCE(mark, -1) AS log_offset, topic, partition, "
        "COUNT(*) AS commit_count, MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM "
        f"(SELECT {columns}, topic, partition, time_ms, MAX(own_mark) OVER "
        f"(PARTITION BY {columns} ORDER BY log_offset "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS mark FROM "
        f"(SELECT {_IDS}, topic, partition, time_ms, CAST(NULL AS BIGINT) AS own_mark "
        f"FROM offset_commits WHERE {condition} UNION ALL "
        f"SELECT {_IDS}, NULL, NULL, NULL, log_offset FROM group_generations "
        f"WHERE {condition} UNION ALL "
        f"SELECT {_IDS}, NULL, NULL, NULL, log_offset FROM consumer_group_epochs "
        f"WHERE {condition} AND type IN {_EPOCHS}) AS entries) AS placed "
        f"WHERE topic IS NOT NULL GROUP BY {columns}, mark, topic, partition"
    )
    return _Rows(engine, sql, [*parameters] * 3, _read_spans, "topic", "partition")


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
    question = partial(_storms_of_part, count=count, within_ms=within_ms)
    chosen = None
    if group_id is None:
        chosen = _conspicuous(engine, count, within_ms, cluster, since_ms, until_ms)
    keys = _keys(engine, group_id, cluster, since_ms, until_ms, chosen)
    report = _answer(engine, Storm, question, keys, group_id, cluster, since_ms, until_ms)
    if report.data:
        return report
    within = exact_length(within_ms)
    note = f"No storm: no {count} rebalances of a group within {within} are recorded."
    return replace(report, notes=(note, *report.notes))


def _conspicuous(
    engine: Engine,
    count: int,
    within_ms: int,
    cluster: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> set[_Key]:
    """Return the groups that may have a storm in this time, or that notes may be about.

    Every rebalance has a record of a generation or a group epoch, so a storm needs as many of
    these records within the time. A takeover has a record of a generation that another record has
    too. Where a generation is missing, two records have no generations in a row, or there are
    rebalances outside of the time between those inside. Applications that share a group have
    different subscriptions.
    """
    columns = "cluster, group_id, offsets_partition"
    condition, parameters = where(("cluster = ?", cluster))
    records = (
        f"(SELECT {_IDS}, time_ms, CAST(generation_id AS BIGINT) AS generation "
        f"FROM group_generations WHERE {condition} UNION ALL "
        f"SELECT {_IDS}, time_ms, CAST(epoch AS BIGINT) AS generation "
        f"FROM consumer_group_epochs WHERE {condition} AND type IN {_EPOCHS}) AS records"
    )
    span, of_span = where(("time_ms >= ?", since_ms), ("time_ms < ?", until_ms))
    before = min(count - 1, _MOST_LAG)
    by_offset = f"OVER (PARTITION BY {columns} ORDER BY log_offset)"
    sql = (
        f"SELECT DISTINCT {columns} FROM (SELECT {columns}, time_ms, LAG(time_ms, {before}) OVER "
        f"(PARTITION BY {columns} ORDER BY time_ms) AS before_ms FROM {records} "
        f"WHERE time_ms IS NOT NULL AND {span}) AS timed WHERE before_ms IS NOT NULL AND "
        # times may be any 64-bit numbers
        f"CAST(time_ms AS DECIMAL(20, 0)) - CAST(before_ms AS DECIMAL(20, 0)) <= ? "
        f"UNION SELECT {columns} FROM (SELECT {columns}, generation, is_inside, "
        f"LAG(generation) {by_offset} AS before, LAG(is_inside) {by_offset} AS was_inside FROM "
        f"(SELECT *, time_ms IS NULL OR ({span}) AS is_inside FROM {records}) AS marked) "
        f"AS ordered GROUP BY {columns} "
        f"HAVING COUNT(*) - COUNT(DISTINCT generation) >= {REPEATEDLY} "
        "OR MAX(generation - before) > 1 "
        "OR COUNT(CASE WHEN is_inside AND NOT COALESCE(was_inside, FALSE) THEN 1 END) > 1 "
        f"UNION SELECT {columns} FROM members WHERE {condition} GROUP BY {columns} "
        "HAVING COUNT(DISTINCT subscribed_topics) > 1"
    )
    twice = [*parameters, *parameters]
    values = [*twice, *of_span, within_ms, *of_span, *twice, *parameters]
    return set(map(_key, rows_of(engine, sql, values)))


def _storms_of_part(
    engine: Engine, part: _Part, *, count: int, within_ms: int
) -> tuple[list[Storm], _Notes]:
    found, notes = _of_part(engine, part)
    return list(storms_of(found, count, within_ms)), notes


def storms_of(rebalances: Iterable[Rebalance], count: int, within_ms: int) -> Iterator[Storm]:
    """Find rebalance storms.

    Args:
        rebalances: rebalances, group by group; those without a time are ignored.
        count: minimum number of rebalances of one group, 2 or more.
        within_ms: time within which that many are a storm. Overlapping storms are merged.

    Yields:
        Storms by group, in the given order, and time.
    """
    timed = (rebalance for rebalance in rebalances if rebalance.time_ms is not None)
    for _, of_group in groupby(timed, _place):
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
                yield _storm(every[start:end])
            start, end = first, first + count
        if end > start:
            yield _storm(every[start:end])


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
