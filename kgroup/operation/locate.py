"""Find coordinators: of groups by `__consumer_offsets`, of transactions by `__transaction_state`.

The partition is computed from the name; its leader is the coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.errors import ProblemKind, UsageError
from kgroup.model.cluster import Placement
from kgroup.model.group import Broker
from kgroup.model.offsets_partition import OFFSETS_TOPIC, TRANSACTION_TOPIC, offsets_partition
from kgroup.model.problem import Problem
from kgroup.operation.report import Report
from kgroup.protocol.message.primitives import no_string
from kgroup.source.base import CoordinatorAnswer, GroupSource

DEFAULT_PARTITION_COUNT = 50
"""Default of `offsets.topic.num.partitions` and `transaction.state.log.num.partitions`."""

_NOWHERE = Placement(None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class GroupLocation:
    """Partition of `__consumer_offsets` and coordinator of a group.

    Attributes:
        group_id: group id; the group need not exist.
        offsets_partition: partition of `__consumer_offsets` that stores the group, computed from
            the group id: Java's `String.hashCode` of the id, made positive, modulo the number of
            partitions.
        partition_count: number of partitions of `__consumer_offsets`, used in this computation.
        found_in: partition in which the source has records of the group; None if it has none, or
            without a source.
        agrees: whether the group was found in `offsets_partition` or, with a live cluster, whether
            the coordinator is the leader of the partition; None if nothing was found.
        coordinator: group coordinator; None without a live cluster.
        leader: leader of the partition; None without a live cluster.
        replicas: broker ids of the replicas; None without a live cluster.
        isr: broker ids of the in-sync replicas; None without a live cluster.
        answer_ms: milliseconds until the coordinator answered a request about the group; without
            the time of connecting. None if it does not answer, or without a live cluster.
        answer_error: why the coordinator does not answer, or the error in its answer; None if it
            answers without error, or was not asked.
    """

    group_id: str
    offsets_partition: int
    partition_count: int
    found_in: int | None
    agrees: bool | None
    coordinator: Broker | None = None
    leader: Broker | None = None
    replicas: tuple[int, ...] | None = None
    isr: tuple[int, ...] | None = None
    answer_ms: float | None = None
    answer_error: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionLocation:
    """Partition of `__transaction_state` and coordinator; more attributes as in `GroupLocation`.

    Attributes:
        transactional_id: `transactional.id` of the producer; it need not be in use.
        transaction_partition: partition of `__transaction_state` that stores the transactional id;
            computed from the id like the partition of a group.
        partition_count: number of partitions of `__transaction_state`, used in this computation.
        agrees: whether the coordinator is the leader of the partition; None if either is unknown.
        coordinator: transaction coordinator; None without a live cluster.
        leader, replicas, isr: as in `GroupLocation`.
    """

    transactional_id: str
    transaction_partition: int
    partition_count: int
    agrees: bool | None
    coordinator: Broker | None
    leader: Broker | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None


def locate(
    group_ids: Collection[str],
    source: GroupSource | None = None,
    *,
    partition_count: int | None = None,
) -> Report[GroupLocation]:
    """Return the locations of groups, which need not exist, in the given order.

    Args:
        group_ids: group ids.
        source: a cluster, or another source, which reports the partition of the group's records;
            None to compute only.
        partition_count: number of partitions of `__consumer_offsets`; if given, no cluster is
            contacted. None: the source's number, or else Kafka's default.

    Raises:
        UsageError: a string cannot be a group id.
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    _check(group_ids)
    if partition_count is None and source and source.can(GroupSource.placements):
        return _locate_live(group_ids, source)
    reading = source.read(group_ids) if source else None
    notes = list(reading.notes) if reading else []
    known = reading.image.offsets_partition_count if reading else None
    count = partition_count or known or DEFAULT_PARTITION_COUNT
    rows = []
    for group_id in dict.fromkeys(group_ids):
        group = reading.image.groups.get(group_id) if reading else None
        computed = offsets_partition(group_id, count)
        reported = group.offsets_partition if group else None
        rows.append(
            GroupLocation(
                group_id=group_id,
                offsets_partition=computed,
                partition_count=count,
                found_in=reported,
                agrees=None if reported is None else reported == computed,
                coordinator=group.coordinator if group else None,
            )
        )
    if partition_count is None and known is None:
        notes.append(_default_count(OFFSETS_TOPIC))
    if elsewhere := sum(row.agrees is False for row in rows):
        notes.append(
            f"{elsewhere} of {len(rows)} groups are in another partition than computed: the "
            f"topic has, or had, a number of partitions other than {count}."
        )
    return Report(tuple(rows), errors=reading.problems if reading else (), notes=tuple(notes))


def _locate_live(group_ids: Collection[str], source: GroupSource) -> Report[GroupLocation]:
    placements = source.placements(group_ids)
    answers: Mapping[str, CoordinatorAnswer] = {}
    if source.can(GroupSource.coordinator_answers):
        answers = source.coordinator_answers(
            {key: at.coordinator.id for key, at in placements.items() if at.coordinator is not None}
        )
    rows, problems = [], []
    for group_id in dict.fromkeys(group_ids):
        placement = placements.get(group_id, _NOWHERE)
        answer = answers.get(group_id, CoordinatorAnswer(None))
        count = placement.partition_count or DEFAULT_PARTITION_COUNT
        rows.append(
            GroupLocation(
                group_id=group_id,
                offsets_partition=offsets_partition(group_id, count),
                partition_count=count,
                found_in=None,
                **_found(placement),
                answer_ms=answer.time_ms,
                answer_error=None if answer.problem is None else answer.problem.reason,
            )
        )
        if answer.problem is not None:
            problems.append(answer.problem)
        if placement.error is not None:
            text = f"No coordinator: the cluster returned {placement.error}."
            problems.append(Problem(ProblemKind.NO_COORDINATOR, text, group_id=group_id))
    notes = _notes(group_ids, placements, OFFSETS_TOPIC)
    return Report(tuple(rows), errors=tuple(problems), notes=notes)


def locate_transactions(
    transactional_ids: Collection[str],
    source: GroupSource | None = None,
    *,
    partition_count: int | None = None,
) -> Report[TransactionLocation]:
    """Return the coordinators of transactional ids, which need not exist, in the given order.

    Args:
        transactional_ids: transactional ids, as configured in producers.
        source: a cluster; None to compute only.
        partition_count: number of partitions of `__transaction_state`; None: the cluster's number,
            or else Kafka's default.

    Raises:
        UsageError: a string cannot be a transactional id.
        BrokerError: no broker answers.
    """
    _check(transactional_ids)
    placements = source.placements(transactional_ids, transactional=True) if source else {}
    rows, problems = [], []
    for name in dict.fromkeys(transactional_ids):
        placement = placements.get(name, _NOWHERE)
        count = partition_count or placement.partition_count or DEFAULT_PARTITION_COUNT
        rows.append(
            TransactionLocation(
                transactional_id=name,
                transaction_partition=offsets_partition(name, count),
                partition_count=count,
                **_found(placement),
            )
        )
        if placement.error is not None:
            text = f"No coordinator of {name!r}: the cluster returned {placement.error}."
            problems.append(Problem(ProblemKind.NO_COORDINATOR, text))
    if source is not None:
        notes = _notes(transactional_ids, placements, TRANSACTION_TOPIC)
    else:
        notes = () if partition_count else (_default_count(TRANSACTION_TOPIC),)
    return Report(tuple(rows), errors=tuple(problems), notes=notes)


def _check(names: Iterable[str]) -> None:
    """Check that the protocol can encode the names; a partition can be computed for any text."""
    for name in names:
        if (reason := no_string(name)) is not None:
            raise UsageError(f"{name[:80]!r}: {reason}")


def _found(at: Placement) -> dict[str, Any]:
    """Return the fields of a location that the cluster reports."""
    agrees = at.coordinator.id == at.leader.id if at.coordinator and at.leader else None
    where = {"leader": at.leader, "replicas": at.replicas, "isr": at.isr}
    return {"agrees": agrees, "coordinator": at.coordinator, **where}


def _notes(
    keys: Collection[str], placements: Mapping[str, Placement], topic: str
) -> tuple[str, ...]:
    """Return notes on partition counts that the cluster does not report."""
    note = _default_count(topic)
    if not placements:
        absent = f"The cluster has no topic {topic} yet, and therefore no coordinators for it."
        return absent, note
    if all(placements[key].partition_count is not None for key in keys):
        return ()
    hidden = (
        ": the cluster does not report the topic (some have none, and a user needs "
        "DESCRIBE on it). The coordinators are those that the cluster reports."
    )
    return (note.rstrip(".") + hidden,)


def _default_count(topic: str) -> str:
    return (
        f"Computed for {DEFAULT_PARTITION_COUNT} partitions of {topic}, Kafka's "
        "default, because the actual number is unknown."
    )
