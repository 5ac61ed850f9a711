"""Check groups of ZooKeeper consumers.

The nodes, read at one time, are compared with each other, with the result of the assignor, with the
partitions' logs, and with the group's commits to Kafka. A rebalance in progress, or a session that
has not expired yet, looks like a fault too; the advice says when to check again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgroup.assignor.base import AssignorError, TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.strategy import assign_threads, strategies
from kgroup.assignor.zookeeper import thread_name
from kgroup.errors import ProblemKind, UsageError, shown_id
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group
from kgroup.model.instant import shown_time
from kgroup.model.log_range import LogRange
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import (
    GroupNodes,
    OffsetNode,
    OwnerNode,
    RegistrationNode,
    ZookeeperView,
)
from kgroup.operation.assign.zookeeper import (
    PartitionOwner,
    departed_consumers,
    ownership,
    registered_consumer,
)
from kgroup.operation.check.commit import out_of_range
from kgroup.operation.check.look import ago, finding_of
from kgroup.operation.check.rule import AHEAD_OF_COMMIT, FAILED_REBALANCE, Finding, Rule
from kgroup.operation.report import Report
from kgroup.operation.zookeeper.commit import kafka_offsets
from kgroup.operation.zookeeper.nodes import read_groups
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.source.base import GroupSource, Question

_STRATEGIES = strategies("zookeeper")
_ALL = Question(log_budget=0)
_NO_KAFKA = (
    "this source does not have the offsets that groups of ZooKeeper consumers have committed to "
    "Kafka"
)
_WRITE_OFFSET = (
    "For a consumer that starts, write the right offset into the node, or choose auto.offset.reset."
)
_ADVICE = {
    Rule.NO_OWNER: FAILED_REBALANCE,
    Rule.BEFORE_START: f"{AHEAD_OF_COMMIT} {_WRITE_OFFSET}",
    Rule.PAST_END: _WRITE_OFFSET,
}
"""Advice for ZooKeeper consumers where the rule's advice is for members of a coordinator."""


def check_zookeeper(
    source: GroupSource, group_ids: Collection[str], *, now_ms: int, strategy: str | None
) -> Report[Finding]:
    """Check groups of ZooKeeper consumers.

    Args:
        source: ZooKeeper, or a snapshot of it.
        group_ids: group ids; empty for all groups.
        now_ms: when the source was read, in epoch milliseconds.
        strategy: the consumers' `partition.assignment.strategy`; None: the one that matches the
            current owners, or else Kafka's default.

    Returns:
        Findings, unsorted.

    Raises:
        UsageError: the strategy is unknown, or the source has no nodes of ZooKeeper.
        BrokerError: ZooKeeper does not answer.
    """
    if strategy is not None and strategy not in _STRATEGIES:
        raise UsageError(
            f"no strategy {strategy!r} for ZooKeeper consumers; there are {', '.join(_STRATEGIES)}"
        )
    reading = read_groups(source, group_ids, _ALL)
    logs = source.log_ranges(
        [
            (commit.topic, commit.partition)
            for group in reading.groups
            for commit in _commits(group)
            if commit.topic in reading.view.topics
            and commit.partition in reading.view.topics[commit.topic].partitions
        ]
    )
    groups, _ = groups_of(reading.view)
    findings: list[Finding] = []
    for nodes in reading.groups:
        audit = _Audit(reading.view, nodes, groups[nodes.group_id], reading.problems, strategy)
        findings += audit.findings(logs.ranges, now_ms)
    differing, problems, notes = _kafka_offsets(source, reading.groups)
    findings += differing
    paths = {finding.path for finding in findings}
    unread = (problem for problem in reading.problems if problem.path not in paths)
    errors = (*unread, *logs.problems, *problems)
    return Report(tuple(findings), errors, (*reading.notes, *notes))


class _Audit:
    """Check of one group."""

    def __init__(
        self,
        view: ZookeeperView,
        nodes: GroupNodes,
        group: Group,
        problems: Sequence[Problem],
        strategy: str | None,
    ) -> None:
        self._view = view
        self._nodes = nodes
        self._group = group
        self._root = f"/consumers/{nodes.group_id}"
        self._problems = [problem for problem in problems if problem.group_id == nodes.group_id]
        self._strategy = strategy
        self._consumers = {
            registration.consumer_id: registration for registration in nodes.registrations
        }
        self._registered = {*self._consumers, *nodes.unreadable}

    def findings(self, ranges: Mapping[TopicPartition, LogRange], now_ms: int) -> Iterator[Finding]:
        """Yield all findings that do not need the commits to Kafka."""
        yield from self._unreadable()
        yield from self._without_session()
        yield from self._two_sessions()
        yield from self._missing_topics()
        for partition in self._group.unowned:
            assert partition.topic is not None
            at = f"{partition.topic}-{partition.partition}"
            yield self._finding(
                Rule.NO_OWNER,
                self._owner_path(partition.topic, partition.partition),
                f"No consumer owns {at}.",
                topic=partition.topic,
                partition=partition.partition,
            )
        yield from self._wrong_owners()
        for node in _commits(self._nodes):
            yield from self._out_of_range(node, ranges.get((node.topic, node.partition)))
        yield from self._deserted(now_ms)
        yield from self._legacy()

    def _finding(self, code: Rule, path: str, reason: str, **more: Any) -> Finding:
        advice = _ADVICE.get(code, code.advice)
        return replace(
            finding_of(code, reason, self._nodes.group_id, path=path, **more), advice=advice
        )

    def _owner_path(self, topic: str, partition: int) -> str:
        return f"{self._root}/owners/{topic}/{partition}"

    def _unreadable(self) -> Iterator[Finding]:
        decoded = {registration.path for registration in self._nodes.registrations}
        kinds = {"ids": Rule.BAD_REGISTRATION, "owners": Rule.BAD_OWNER, "offsets": Rule.BAD_OFFSET}
        for problem in self._problems:
            path = problem.path
            if path is None or path in decoded:  # decoded; only its list cannot be evaluated here
                continue
            if problem.kind is ProblemKind.FOREIGN_NODE:
                yield self._finding(Rule.FOREIGN_NODE, path, problem.reason)
            elif problem.kind is ProblemKind.BAD_NODE:
                part = path.removeprefix(f"{self._root}/").partition("/")[0]
                if part in kinds:
                    yield self._finding(kinds[part], path, problem.reason)

    def _without_session(self) -> Iterator[Finding]:
        nodes: tuple[RegistrationNode | OwnerNode, ...]
        nodes = (*self._nodes.registrations, *self._nodes.owners)
        for node in nodes:
            # Without a creation time, the node is from a dump without stat.
            if node.stat.ephemeral_owner is None and node.stat.ctime_ms is not None:
                yield self._finding(
                    Rule.NO_SESSION,
                    node.path,
                    f"The node of {node.consumer_id} belongs to no session.",
                    member_id=node.consumer_id,
                    since_ms=node.stat.ctime_ms,
                )

    def _two_sessions(self) -> Iterator[Finding]:
        foreign: dict[tuple[str, str], list[OwnerNode]] = defaultdict(list)
        for owner in self._nodes.owners:
            consumer = self._consumers.get(owner.consumer_id)
            session = owner.stat.ephemeral_owner
            own = consumer and consumer.stat.ephemeral_owner
            if own is not None and session is not None and own != session:
                foreign[owner.consumer_id, session].append(owner)
        for (consumer_id, session), owners in sorted(foreign.items()):
            consumer = self._consumers[consumer_id]
            names = ", ".join(f"{node.topic}-{node.partition}" for node in owners[:10])
            more = f" and {len(owners) - 10} more" if len(owners) > 10 else ""
            yield self._finding(
                Rule.SAME_ID,
                consumer.path,
                f"{consumer_id} is registered in session {consumer.stat.ephemeral_owner}, but "
                f"owns {names}{more} in session {session}.",
                member_id=consumer_id,
                since_ms=consumer.stat.ctime_ms,
            )

    def _missing_topics(self) -> Iterator[Finding]:
        for member in self._group.members:
            subscription = member.subscription
            if subscription is None:
                continue
            path = f"{self._root}/ids/{member.member_id}"
            if subscription.regex is not None and subscription.topics == ():
                yield self._finding(
                    Rule.NO_TOPIC,
                    path,
                    f"The list {subscription.regex!r} of {member.member_id} matches no topic.",
                    member_id=member.member_id,
                )
            for topic in subscription.topics or ():
                if topic not in self._view.topics:
                    yield self._finding(
                        Rule.NO_TOPIC,
                        path,
                        f"{member.member_id} subscribes to {topic}, which does not exist.",
                        topic=topic,
                        member_id=member.member_id,
                    )

    def _wrong_owners(self) -> Iterator[Finding]:
        streams = {
            member.member_id: registered_consumer(member)
            for member in self._group.members
            if member.subscription is not None and member.subscription.topics is not None
        }
        is_told: set[TopicPartition] = set()
        for owner in self._nodes.owners:
            if owner.broker is not None:
                continue
            at = f"{owner.topic}-{owner.partition}"
            consumer = streams.get(owner.consumer_id)
            if owner.consumer_id not in self._registered:
                code = Rule.OWNER_GONE
                reason = (
                    f"{owner.thread_id} owns {at}, but is not a registered consumer of the group."
                )
            elif consumer is None:
                continue
            elif owner.topic not in consumer.topics:
                code = Rule.NO_SUCH_THREAD
                reason = f"{owner.thread_id} owns {at}, but does not subscribe to the topic."
            elif owner.thread is not None and owner.thread >= consumer.streams_of(owner.topic):
                code = Rule.NO_SUCH_THREAD
                count = consumer.streams_of(owner.topic)
                reason = f"{owner.thread_id} owns {at}, but its consumer has {_threads(count)}."
            else:
                continue
            is_told.add((owner.topic, owner.partition))
            yield self._owned(code, owner, reason)
        if self._group.members and len(streams) == len(self._group.members):
            by_place = {(node.topic, node.partition): node for node in self._nodes.owners}
            yield from self._given_otherwise(by_place, is_told)

    def _given_otherwise(
        self, owners: Mapping[TopicPartition, OwnerNode], is_told: Collection[TopicPartition]
    ) -> Iterator[Finding]:
        spec = GroupSpec(
            self._strategy or _STRATEGIES[0],
            tuple(map(registered_consumer, self._group.members)),
            {
                name: TopicMetadata(len(topic.partitions))
                for name, topic in self._view.topics.items()
            },
            "zookeeper",
            id=self._nodes.group_id,
            departed=departed_consumers(self._group),
        )
        outcomes: list[tuple[str, list[PartitionOwner]]] = []
        for name in (self._strategy,) if self._strategy else _STRATEGIES:
            try:
                rows = ownership(spec, assign_threads(replace(spec, strategy=name)))
            except AssignorError as error:
                if self._strategy:
                    text = f"{name} fails with {error.type}: {error.message.partition('.')[0]}."
                    yield self._finding(Rule.CANNOT_ASSIGN, f"{self._root}/ids", text)
                continue
            outcomes.append((name, [row for row in rows if _is_other(row, is_told)]))
        if not outcomes:
            return
        name, wrong = min(outcomes, key=lambda outcome: len(outcome[1]))
        for partition in wrong:
            owner = owners[partition.topic, partition.partition]
            given = "nobody" if partition.given is None else thread_name(partition.given)
            yield self._owned(
                Rule.OTHER_OWNER,
                owner,
                f"{owner.thread_id} owns {partition.topic}-{partition.partition}, but {name} "
                f"assigns it to {given}.",
            )

    def _owned(self, code: Rule, owner: OwnerNode, reason: str) -> Finding:
        return self._finding(
            code,
            owner.path,
            reason,
            topic=owner.topic,
            partition=owner.partition,
            member_id=owner.consumer_id,
            since_ms=owner.stat.ctime_ms,
        )

    def _out_of_range(self, node: OffsetNode, log: LogRange | None) -> Iterator[Finding]:
        if log is None or log.start is None or log.end is None:
            return
        if log.start <= node.offset <= log.end:
            return
        code = Rule.PAST_END if node.offset > log.end else Rule.BEFORE_START
        place = f"{node.topic}-{node.partition}"
        resets = ("smallest", "largest")
        yield self._finding(
            code,
            node.path,
            out_of_range(code, place, node.offset, log.start, log.end, resets),
            topic=node.topic,
            partition=node.partition,
            offset=node.offset,
            log_start_offset=log.start,
            log_end_offset=log.end,
            since_ms=node.stat.mtime_ms,
        )

    def _deserted(self, now_ms: int) -> Iterator[Finding]:
        if self._registered or not self._nodes.offsets:
            return
        times = [offset.stat.mtime_ms for offset in self._nodes.offsets if offset.stat.mtime_ms]
        since_ms = max(times, default=None)
        count = len(self._nodes.offsets)
        last = "" if since_ms is None else f"; its last commit was {_when(since_ms, now_ms)}"
        yield self._finding(
            Rule.NO_CONSUMERS,
            self._root,
            f"{shown_id(self._nodes.group_id)} has {count} committed "
            f"offset{'' if count == 1 else 's'} but no consumers{last}.",
            since_ms=since_ms,
        )

    def _legacy(self) -> Iterator[Finding]:
        brokers = self._view.brokers.values()
        if brokers and all(broker.coordinates_groups for broker in brokers):
            count = len(self._registered)
            consumers = "1 consumer" if count == 1 else f"{count} consumers"
            yield self._finding(
                Rule.LEGACY_GROUP,
                self._root,
                f"{shown_id(self._nodes.group_id)} uses ZooKeeper, with {consumers}, although "
                "all brokers have Kafka 0.9 or later.",
            )


def _commits(group: GroupNodes) -> list[OffsetNode]:
    return [offset for offset in group.offsets if offset.is_commit]


def _is_other(owner: PartitionOwner, is_told: Collection[TopicPartition]) -> bool:
    at = owner.topic, owner.partition
    return owner.owner is not None and not owner.is_as_given and at not in is_told


def _threads(count: int) -> str:
    return "1 thread, number 0" if count == 1 else f"{count} threads, 0 to {count - 1}"


def _when(then_ms: int, now_ms: int) -> str:
    """Return a time and its age; the time is included because a snapshot may be old."""
    time = shown_time(then_ms // 1000 * 1000).replace(".000", "")
    return f"{ago(then_ms, now_ms)}, at {time}"


def _kafka_offsets(
    source: GroupSource, groups: Sequence[GroupNodes]
) -> tuple[list[Finding], tuple[Problem, ...], tuple[str, ...]]:
    """Compare commits in ZooKeeper and Kafka; differences must persist in a second read."""
    committing = [group for group in groups if _commits(group)]
    if not committing:
        return [], (), ()
    offsets = kafka_offsets(source, [group.group_id for group in committing])
    kafka = offsets.offsets
    if kafka is None:
        return [], offsets.problems, (() if offsets.problems else (_NO_KAFKA,))
    differing = _differing(committing, kafka)
    if differing:
        again = read_groups(source, sorted({group_id for group_id, _ in differing}), _ALL)
        differing = [pair for pair in _differing(again.groups, kafka) if pair in differing]
    findings = []
    for group_id, node in differing:
        in_kafka = kafka[group_id, node.topic, node.partition]
        findings.append(
            finding_of(
                Rule.OFFSETS_DIFFER,
                f"{node.topic}-{node.partition}: the committed offset is {node.offset} in "
                f"ZooKeeper, {in_kafka} in Kafka.",
                group_id,
                path=node.path,
                topic=node.topic,
                partition=node.partition,
                offset=node.offset,
                kafka_offset=in_kafka,
                since_ms=node.stat.mtime_ms,
            )
        )
    return findings, offsets.problems, ()


def _differing(
    groups: Sequence[GroupNodes], kafka: Mapping[tuple[str, str, int], int]
) -> list[tuple[str, OffsetNode]]:
    return [
        (group.group_id, node)
        for group in groups
        for node in _commits(group)
        if kafka.get((group.group_id, node.topic, node.partition), node.offset) != node.offset
    ]
