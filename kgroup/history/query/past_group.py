"""Groups as of a past time: replays the records up to it as a coordinator would."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import orjson
import pyarrow as pa

from kgroup.errors import NotFoundError, ProblemKind
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.history.sql.question import (
    GROUP_TABLES,
    NEAR_MS,
    RECORD_TABLES,
    Row,
    cluster_of_group,
    ends_at,
    first_times,
    marks,
    outside_notes,
    rows_of,
    topic_names,
)
from kgroup.history.warehouse.table_file import by_partition
from kgroup.model.cluster import TopicPartition
from kgroup.model.delta import Delta, Producer
from kgroup.model.group import Group, Image
from kgroup.model.instant import shown_time
from kgroup.model.log_range import LogRange, LogReading
from kgroup.model.problem import Problem
from kgroup.model.record import DecodedRecord
from kgroup.operation.describe import GroupDescription, describe
from kgroup.operation.report import Report
from kgroup.protocol.record.coordinator_record import decode_subscriptions
from kgroup.source.base import EVERYTHING, Capability, GroupSource, Question, Reading

_CAPABILITIES = frozenset(
    {
        Capability.GENERATION,
        Capability.PENDING_OFFSETS,
        Capability.COMMIT_TIMESTAMPS,
        Capability.LOG_START_OFFSETS,
        Capability.LOG_END_OFFSETS,
        Capability.RECORDS,
    }
)
_REGEX = "ConsumerGroupRegularExpression"
"""Record type whose whole key the tables do not have; describing a group does not need it."""

_COMMIT = (
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "log_offset",
)
"""Columns of a commit, in the order of the arguments of `Delta.commit`."""

_LATEST = "offsets_partition AS latest_partition, MAX(log_offset) AS latest_offset"
_IS_LATEST = "offsets_partition = latest_partition AND log_offset = latest_offset"
_NOTHING = pa.table({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDescription(GroupDescription):
    """Description of a group as of a past time.

    Attributes:
        cluster: name of the cluster in the warehouse.
        time_ms: requested time.
    """

    cluster: str
    time_ms: int


def describe_past(
    engine: Engine, group_id: str, at_ms: int, *, cluster: str | None = None
) -> Report[PastDescription]:
    """Describe a group as of a past time.

    Args:
        engine: query engine.
        group_id: the group.
        at_ms: the time, in epoch milliseconds; records of that time are included.
        cluster: cluster of the group.

    Returns:
        One description, or an error that the group did not exist at that time. Log ends are the
        last ones recorded, for partitions without a commit since.

    Raises:
        NotFoundError: the group does not exist, or has no record that early.
        UsageError: the group exists in several clusters.
    """
    cluster = cluster_of_group(engine, group_id, cluster)
    first_ms = first_times(engine, cluster, [group_id]).get(group_id)
    if first_ms is None or first_ms > at_ms:
        when = "has no time" if first_ms is None else f"is from {shown_time(first_ms)}"
        raise NotFoundError(
            f"group {group_id!r} at {shown_time(at_ms)}: unknown; its first record {when}",
            group_id=group_id,
        )
    report = describe(PastGroups(engine, cluster, at_ms), [group_id])
    errors = tuple(
        Problem(
            ProblemKind.NOT_FOUND,
            f"The group did not exist at {shown_time(at_ms)}.",
            group_id=group_id,
        )
        if problem.kind is ProblemKind.NOT_FOUND
        else problem
        for problem in report.errors
    )
    notes = (*report.notes, *outside_notes(engine, [cluster], at_ms))
    data = tuple(
        PastDescription(
            **{field.name: getattr(description, field.name) for field in fields(description)},
            cluster=cluster,
            time_ms=at_ms,
        )
        for description in report.data
    )
    return Report(data, errors, notes)


class PastGroups(GroupSource):
    """The groups of a cluster as of a past time.

    Replays the records up to that time in log order, and records without a time that precede one of
    them. A record with a wrong time therefore affects only itself.

    Args:
        engine: query engine.
        cluster: the cluster.
        at_ms: the time, in epoch milliseconds.
        names: topic names by topic id; None: those in the tables.
    """

    def __init__(
        self, engine: Engine, cluster: str, at_ms: int, names: Mapping[str, str] | None = None
    ) -> None:
        self._names = names
        self._engine = engine
        self._cluster = cluster
        self._at_ms = at_ms
        self._committed: dict[TopicPartition, int] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Facts that are known about the past; see `GroupSource.capabilities`."""
        return _CAPABILITIES

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Replay the records in the tables; see `GroupSource.read`."""
        groups: dict[str, Group] = {}
        changed: dict[str, int] = {}
        problems: list[Problem] = []
        names = self._names
        if names is None:
            names = topic_names(self._engine, self._cluster)
        for delta in self._replay(group_ids):
            for group, changed_ms in delta.drain({**delta.topic_names, **names}):
                if changed_ms >= changed.get(group.group_id, 0):
                    groups[group.group_id], changed[group.group_id] = group, changed_ms
            problems += delta.problems()
        wanted = {name: groups[name] for name in sorted(groups) if question.names(name, group_ids)}
        for group in wanted.values():
            for offset in group.offsets:
                at = (offset.topic, offset.partition)
                when = max(self._committed.get(at, 0), offset.commit_timestamp_ms or 0)
                self._committed[at] = when
        return Reading(Image(groups=wanted, topic_names=names), tuple(problems))

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return the log ends recorded near the time; see `GroupSource.log_ranges`.

        A log end older than the partition's last commit is left out: its lag would be wrong.
        """
        return LogReading(
            {
                (end.topic, end.partition): LogRange(end.log_start_offset, end.log_end_offset)
                for end in ends_at(self._engine, self._cluster, self._at_ms)
                if (end.topic, end.partition) in partitions
                and end.time_ms >= self._committed.get((end.topic, end.partition), 0)
                and end.time_ms >= self._at_ms - NEAR_MS
            }
        )

    def _cutoffs(self, group_ids: Collection[str] | None) -> dict[int, int]:
        """Return the last record up to the time, by partition that has records of the groups."""
        named = _named(group_ids)
        holders = " UNION ".join(
            f"SELECT offsets_partition FROM {table} WHERE cluster = ?{named}"
            for table in GROUP_TABLES
        )
        of_groups: list[Parameter] = [self._cluster, *(group_ids or ())]
        places = [
            row["offsets_partition"]
            for row in rows_of(self._engine, f"{holders} ORDER BY 1", of_groups * len(GROUP_TABLES))
        ]
        if not places:
            return {}
        ends = " UNION ALL ".join(
            f"SELECT offsets_partition, log_offset FROM {table} WHERE cluster = ? AND time_ms <= ? "
            f"AND offsets_partition IN ({marks(places)})"
            for table in RECORD_TABLES
        )
        sql = (
            f"SELECT offsets_partition, MAX(log_offset) AS cutoff FROM ({ends}) AS ends "
            "GROUP BY offsets_partition ORDER BY offsets_partition"
        )
        in_time: list[Parameter] = [self._cluster, self._at_ms, *places]
        rows = rows_of(self._engine, sql, in_time * len(RECORD_TABLES))
        return {row["offsets_partition"]: row["cutoff"] for row in rows}

    def _replay(self, group_ids: Collection[str] | None) -> Iterator[Delta]:
        """Replay the records that remain after compaction, by partition."""
        cutoffs = self._cutoffs(group_ids)
        if not cutoffs:
            return
        of_partition = (
            "(offsets_partition = ? AND (time_ms <= ? OR (time_ms IS NULL AND log_offset <= ?)))"
        )
        in_time = f"cluster = ? AND ({' OR '.join(of_partition for _ in cutoffs)})"
        parameters: list[Parameter] = [self._cluster]
        for partition, cutoff in cutoffs.items():
            parameters += (partition, self._at_ms, cutoff)
        condition = f"{in_time}{_named(group_ids)}"
        of_groups = [*parameters, *(group_ids or ())]
        of_group = ("group_id", "time_ms", "value_json")
        of_member = (*of_group, "type", "member_id")
        removed = ("group_id", "type", "member_id", "topic", "partition")
        latest = partial(self._latest, condition=condition, parameters=of_groups, groups=group_ids)
        tables = [
            by_partition(latest("group_generations", of_group, ["group_id"])),
            by_partition(
                latest("consumer_group_epochs", of_member, ["group_id", "type", "member_id"])
            ),
            by_partition(latest("tombstones", (*removed, "time_ms"), removed)),
            by_partition(self._commits(in_time, parameters, condition, of_groups, group_ids)),
        ]
        for partition in cutoffs:
            delta = Delta(partition)
            rows = (row for table in tables for row in table.get(partition, _NOTHING).to_pylist())
            for row in sorted(rows, key=lambda row: int(row["log_offset"])):
                if "committed_offset" in row:
                    producer = Producer(row["pending_for"], row["producer_epoch"])
                    pending = None if producer.id is None else producer
                    delta.commit(*[row[name] for name in _COMMIT], pending=pending)
                elif row.get("topic") is not None:
                    delta.remove_offset(row["group_id"], row["topic"], row["partition"])
                else:
                    delta.replay(_record(row))
            yield delta

    def _latest(
        self,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],
        condition: str,
        parameters: Sequence[Parameter],
        groups: Collection[str] | None,
    ) -> pa.Table:
        """Return the last row of each key, by partition and offset."""
        names = ", ".join(("offsets_partition", "log_offset", *columns))
        known_key = f" AND type <> '{_REGEX}'" if "type" in columns else ""
        sql = (
            f"WITH latest AS (SELECT {_LATEST} FROM {table} WHERE {condition}{known_key} "
            f"GROUP BY offsets_partition, {', '.join(key)}) "
            f"SELECT {names} FROM {table} JOIN latest ON {_IS_LATEST} "
            f"WHERE cluster = ?{_named(groups)} ORDER BY offsets_partition, log_offset"
        )
        values = [*parameters, self._cluster, *(groups or ())]
        return self._engine.query(sql, values, is_trusted=True)

    def _commits(
        self,
        in_time: str,
        parameters: Sequence[Parameter],
        condition: str,
        of_groups: Sequence[Parameter],
        groups: Collection[str] | None,
    ) -> pa.Table:
        """Return the effective commits, and the last commit of each open transaction.

        A producer has one transaction at a time: its commits after its last marker were open.
        """
        sql = (
            "WITH markers AS (SELECT offsets_partition AS marked_partition, "
            "producer_id AS marked_id, MAX(log_offset) AS marker FROM transactions "
            f"WHERE {in_time} GROUP BY offsets_partition, producer_id), "
            "commits AS (SELECT offsets_partition, group_id, topic, partition, log_offset, "
            "transaction, CASE WHEN transaction IS NOT NULL "
            "AND (marker IS NULL OR log_offset > marker) THEN producer_id END AS pending_for "
            "FROM offset_commits LEFT JOIN markers ON producer_id = marked_id "
            f"AND offsets_partition = marked_partition WHERE {condition}), "
            f"latest AS (SELECT {_LATEST}, pending_for FROM commits "
            "WHERE pending_for IS NOT NULL OR transaction IS NULL OR transaction <> 'aborted' "
            "GROUP BY offsets_partition, group_id, topic, partition, pending_for) "
            f"SELECT offsets_partition, {', '.join(_COMMIT)}, pending_for, producer_epoch "
            f"FROM offset_commits JOIN latest ON {_IS_LATEST} "
            f"WHERE cluster = ?{_named(groups)} ORDER BY offsets_partition, log_offset"
        )
        values = [*parameters, *of_groups, self._cluster, *(groups or ())]
        return self._engine.query(sql, values, is_trusted=True)


def _named(group_ids: Collection[str] | None) -> str:
    return "" if group_ids is None else f" AND group_id IN ({marks(group_ids)})"


def _record(row: Row) -> DecodedRecord:
    """Restore the record of a row, with the fields that `Delta` uses."""
    kind = row.get("type", "GroupMetadata")
    name = "group" if kind == "GroupMetadata" else "groupId"
    value: Mapping[str, object] | None = None
    if row.get("value_json") is not None:
        value = orjson.loads(row["value_json"])
        decode_subscriptions(kind, value)
    return DecodedRecord(
        partition=None,
        offset=row["log_offset"],
        timestamp_ms=row["time_ms"],
        timestamp_type=None,
        leader_epoch=None,
        producer_id=None,
        producer_epoch=None,
        transaction=None,
        type=kind,
        key={"data": {name: row["group_id"], "memberId": row.get("member_id")}},
        value=value,
    )
