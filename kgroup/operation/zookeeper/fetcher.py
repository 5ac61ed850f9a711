"""Fetchers of a ZooKeeper consumer: threads, their partitions, brokers and offsets.

A consumer has one fetcher thread for each broker and fetcher id that it needs, independent of its
number of streams. The fetcher of a partition is that of its leader with the id ``abs(31 *
topic.hashCode + partition) % num.consumer.fetchers`` (32-bit arithmetic of Java, where abs of the
smallest number is 0; 0.8.1 clears the sign bit instead, and 0.8.0 has one fetcher for each broker).
Partitions without a live leader wait, and the consumer looks up their leader repeatedly. A fetcher
starts at the committed offset (`operation/zookeeper/commit`); if there is none, or it is out of
range, at the end of the log that `auto.offset.reset` names.

Source: kafka.consumer.ConsumerFetcherManager, kafka.consumer.ConsumerFetcherThread and
kafka.server.AbstractFetcherManager of Kafka 0.8.0, 0.8.1.1 and 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kgroup.assignor.zookeeper import FETCHER_VERSIONS, fetcher_id
from kgroup.described_enum import DescribedEnum
from kgroup.errors import ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Broker
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommitStore
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import GroupNodes, ZookeeperView
from kgroup.operation.report import Report
from kgroup.operation.zookeeper.commit import differing_note, kafka_offsets, larger
from kgroup.operation.zookeeper.nodes import read_groups
from kgroup.source.base import GroupSource, Question

_EVERYTHING = Question(nodes=True, log_budget=0)
_UNKNOWN = LogRange()
_NOTHING: Mapping[TopicPartition, int] = {}


class OffsetReset(StrEnum):
    """Start position without a usable committed offset (`auto.offset.reset`)."""

    LARGEST = "largest"
    """Log end offset."""
    SMALLEST = "smallest"
    """Log start offset."""


class FetchState(DescribedEnum):
    """Whether a partition can be fetched."""

    FETCHING = ("fetching", "A fetcher of the owner reads from the leader.")
    NO_LEADER = ("no-leader", "The owner waits: the partition has no leader.")
    LEADER_GONE = ("leader-gone", "The owner waits: the leader is not a registered broker.")
    NO_LISTENER = (
        "no-listener",
        "Not fetched: the leader has no listener without TLS and SASL, the only kind that old "
        "consumers support.",
    )
    CONSUMER_GONE = (
        "consumer-gone",
        "Not fetched: the owner is not a registered consumer of the group.",
    )


class ResetCause(DescribedEnum):
    """Why a fetcher cannot start at the committed offset."""

    NO_COMMIT = ("no-commit", "Nothing is committed for the partition.")
    BEFORE_START = ("before-start", "The committed offset is before the log start offset.")
    PAST_END = ("past-end", "The committed offset is after the log end offset.")


@dataclass(frozen=True, slots=True)
class Fetch:
    """A partition and its fetcher.

    Attributes:
        group_id: group id.
        consumer_id: id of the consumer that owns the partition.
        thread: number of the consumer's thread that reads the partition; None if the owner node has
            none.
        fetcher: Java thread that fetches the partition; None if no fetcher does.
        fetcher_id: number of the fetcher among those for the same broker; from 0.
        broker: leader from which the fetcher reads; None if no fetcher does.
        topic: topic name.
        partition: partition number.
        state: whether the partition can be fetched, and if not, why.
        committed_offset: committed offset, in ZooKeeper or Kafka, whichever is larger; None if
            nothing is committed.
        log_start_offset: log start offset; None if unknown.
        log_end_offset: log end offset; None if unknown.
        fetch_offset: offset at which a fetcher started now would begin; None if unknown.
        reset: why that is not the committed offset; None if it is, or if the log is unknown.
        committed_in: store of the committed offset; None if nothing is committed.
    """

    group_id: str
    consumer_id: str
    thread: int | None
    fetcher: str | None
    fetcher_id: int
    broker: Broker | None
    topic: str
    partition: int
    state: FetchState
    committed_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    fetch_offset: int | None
    reset: ResetCause | None
    committed_in: CommitStore | None


def list_fetches(
    source: GroupSource,
    group_id: str,
    *,
    count: int,
    reset: OffsetReset,
    kafka_version: str = FETCHER_VERSIONS[0],
) -> Report[Fetch]:
    """Return the fetches of a group, by consumer and fetcher; see `fetches_of`.

    Args:
        source: ZooKeeper, or a snapshot of it.
        group_id: group id.
        count: the consumers' `num.consumer.fetchers`.
        reset: the consumers' `auto.offset.reset`.
        kafka_version: the consumers' version, one of `FETCHER_VERSIONS`.

    Raises:
        InputError: the source has no nodes of ZooKeeper.
        BrokerError: ZooKeeper does not answer.
    """
    groups = read_groups(source, [group_id], _EVERYTHING)
    group = groups.view.groups.get(group_id)
    if group is None:
        return Report((), groups.problems, groups.notes)
    led = [
        (owner.topic, owner.partition)
        for owner in group.owners
        if _leader(groups.view, (owner.topic, owner.partition))[1] is not None
    ]
    offsets = kafka_offsets(source, [group_id])
    kafka = {at[1:]: offset for at, offset in (offsets.offsets or {}).items()}
    logs = source.log_ranges(led)
    fetches = fetches_of(
        groups.view,
        group,
        logs.ranges,
        kafka,
        count=count,
        reset=reset,
        kafka_version=kafka_version,
    )
    problems = groups.problems + offsets.problems + logs.problems + _left_out(group)
    differing = differing_note(group_id, _in_zookeeper(group), kafka)
    return Report(fetches, problems, (*groups.notes, *differing, *_notes(group)))


def fetches_of(
    view: ZookeeperView,
    group: GroupNodes,
    ranges: Mapping[TopicPartition, LogRange],
    kafka: Mapping[TopicPartition, int] = _NOTHING,
    *,
    count: int,
    reset: OffsetReset,
    kafka_version: str = FETCHER_VERSIONS[0],
) -> tuple[Fetch, ...]:
    """Return the fetches of a group, one for each owned partition.

    Args:
        view: brokers and partition leaders.
        group: owners, consumers and offsets.
        ranges: log start and end offsets, as far as known.
        kafka: the group's commits to Kafka.
        count: the consumers' `num.consumer.fetchers`.
        reset: the consumers' `auto.offset.reset`.
        kafka_version: the consumers' version, one of `FETCHER_VERSIONS`.

    Returns:
        Rows sorted by consumer, fetcher, topic and partition; waiting partitions are last.
    """
    commits = larger(_in_zookeeper(group), kafka)
    consumers = {registration.consumer_id for registration in group.registrations}
    rows = []
    for owner in group.owners:
        if owner.broker is not None:
            continue
        at = owner.topic, owner.partition
        state, broker = _leader(view, at)
        if owner.consumer_id not in consumers:
            state, broker = FetchState.CONSUMER_GONE, None
        number = fetcher_id(*at, count, kafka_version)
        log = ranges.get(at, _UNKNOWN)
        committed, store = commits.get(at, (None, None))
        cause = _cause(committed, log)
        rows.append(
            Fetch(
                group_id=group.group_id,
                consumer_id=owner.consumer_id,
                thread=owner.thread,
                fetcher=_thread_name(owner.consumer_id, number, broker),
                fetcher_id=number,
                broker=broker,
                topic=owner.topic,
                partition=owner.partition,
                state=state,
                committed_offset=committed,
                log_start_offset=log.start,
                log_end_offset=log.end,
                fetch_offset=committed if cause is None else _end(log, reset),
                reset=cause,
                committed_in=store,
            )
        )
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row.consumer_id,
                row.fetcher is None,
                row.broker.id if row.broker else -1,
                row.fetcher_id,
                row.topic,
                row.partition,
            ),
        )
    )


def _in_zookeeper(group: GroupNodes) -> dict[TopicPartition, int]:
    return {
        (offset.topic, offset.partition): offset.offset
        for offset in group.offsets
        if offset.is_commit
    }


def _thread_name(consumer_id: str, number: int, broker: Broker | None) -> str | None:
    return None if broker is None else f"ConsumerFetcherThread-{consumer_id}-{number}-{broker.id}"


def _leader(view: ZookeeperView, at: TopicPartition) -> tuple[FetchState, Broker | None]:
    state = view.partition_states.get(at)
    if state is None or state.leader is None:
        return FetchState.NO_LEADER, None
    node = view.brokers.get(state.leader)
    if node is None:
        return FetchState.LEADER_GONE, None
    if node.host is None or node.port is None:
        return FetchState.NO_LISTENER, None
    return FetchState.FETCHING, Broker(node.id, node.host, node.port, node.rack)


def _cause(committed: int | None, log: LogRange) -> ResetCause | None:
    if committed is None:
        return ResetCause.NO_COMMIT
    if log.start is not None and committed < log.start:
        return ResetCause.BEFORE_START
    if log.end is not None and committed > log.end:
        return ResetCause.PAST_END
    return None


def _end(log: LogRange, reset: OffsetReset) -> int | None:
    return log.start if reset is OffsetReset.SMALLEST else log.end


def _left_out(group: GroupNodes) -> tuple[Problem, ...]:
    reason = "A partition of Kafka 0.7, whose consumers fetch differently; it is left out."
    return tuple(
        Problem(ProblemKind.UNSUPPORTED, reason, group_id=group.group_id, path=owner.path)
        for owner in group.owners
        if owner.broker is not None
    )


def _notes(group: GroupNodes) -> tuple[str, ...]:
    """Return notes that name the consumers that fetch nothing."""
    owning = {owner.consumer_id for owner in group.owners}
    idle = [
        registration.consumer_id
        for registration in group.registrations
        if registration.consumer_id not in owning
    ]
    return tuple(f"{consumer_id} owns no partitions, and fetches nothing." for consumer_id in idle)
