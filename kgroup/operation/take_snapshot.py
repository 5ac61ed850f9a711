"""Read everything that a source knows, to save it in a snapshot file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kgroup import __version__
from kgroup.assignor.kafka_streams import STREAM
from kgroup.errors import BrokerError
from kgroup.model.cluster import ClusterView, TopicPartition
from kgroup.model.group import Group, GroupType, Image
from kgroup.model.log_range import LogRange
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.snapshot import (
    SNAPSHOT_VERSION,
    Choice,
    Origin,
    PlacedGroup,
    Snapshot,
    SnapshotCommit,
    SnapshotNode,
    SnapshotPartition,
    SnapshotRange,
    SnapshotTopic,
)
from kgroup.operation.report import Report, outcome
from kgroup.operation.select_groups import select_groups
from kgroup.operation.zookeeper.commit import kafka_offsets
from kgroup.source.base import DEFAULT_LOG_BUDGET, Capability, GroupSource, Question

T = TypeVar("T")
_UNKNOWN = LogRange()


def take_snapshot(
    source: GroupSource,
    origin: Origin,
    group_ids: Collection[str] = (),
    *,
    regex: Pattern | None = None,
    log_budget: int = DEFAULT_LOG_BUDGET,
    taken_ms: int,
) -> Report[Snapshot]:
    """Read the groups with these ids, those whose whole id matches, or all groups.

    Args:
        source: source of groups.
        origin: description of the source.
        group_ids: group ids.
        regex: pattern that matches the whole group id.
        log_budget: see `Question`; with 0, a snapshot of a cluster lacks the capabilities that
            require its log.
        taken_ms: current time, in epoch milliseconds.

    Returns:
        One snapshot; it contains the problems of reading it. The report's errors are these problems
        and the named groups that do not exist; its exit status depends on whether there is any
        group.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    question = Question(
        regex=regex, log_budget=log_budget, preferences=True, generations=True, nodes=True
    )
    reading, missing = select_groups(source, group_ids, question)
    image, tree = reading.image, reading.zookeeper
    # Problems of node data are not kept: they are found again when the snapshot is read.
    problems = list(reading.problems if tree is None else tree.problems)
    kafka = kafka_offsets(
        source,
        [group.group_id for group in image.groups.values() if group.type is GroupType.ZOOKEEPER],
    )
    commits = tuple(SnapshotCommit(*at, end) for at, end in sorted((kafka.offsets or {}).items()))
    partitions = {at for group in image.groups.values() for at in group.partitions}
    partitions.update((commit.topic, commit.partition) for commit in commits)

    capabilities, view, placements = source.capabilities, None, None
    if source.can(GroupSource.view) and Capability.COORDINATOR in source.capabilities:
        if not log_budget:
            capabilities -= {Capability.GENERATION, Capability.COMMIT_TIMESTAMPS}
        changelogs = _changelogs_of(source, image, problems)
        view, placements = _cluster_of(source, image, group_ids, changelogs, problems)
        partitions.update(
            (name, number)
            for name in changelogs
            for number in (view.topics[name].partitions if view and name in view.topics else ())
        )
    log_ranges, log_problems = _ranges_of(source, partitions)
    snapshot = Snapshot(
        command="snapshot",
        schema_version=SNAPSHOT_VERSION,
        kgroup_version=__version__,
        taken_ms=taken_ms,
        origin=origin,
        choice=Choice(tuple(sorted(set(group_ids))) or None, regex.pattern if regex else None),
        capabilities=tuple(sorted(capabilities)),
        cluster_id=image.cluster_id,
        controller=view.controller if view else None,
        brokers=tuple(view.brokers[id_] for id_ in sorted(view.brokers)) if view else None,
        broker_ids=image.broker_ids,
        offsets_partition_count=image.offsets_partition_count,
        topic_names=dict(sorted(image.topic_names.items())),
        groups=tuple(image.groups.values()) if tree is None else (),
        topics=_topics(view) if view else None,
        log_ranges=log_ranges,
        placements=placements,
        problems=tuple(problems),
        log_problems=log_problems,
        notes=reading.notes,
        zookeeper=None if tree is None else tuple(map(SnapshotNode.of, tree.nodes.values())),
        kafka_commits=None if tree is None or kafka.offsets is None else commits,
        kafka_problems=kafka.problems,
    )
    learnt = snapshot.problems if tree is None else reading.problems
    errors = missing + learnt + snapshot.log_problems + snapshot.kafka_problems
    return Report((snapshot,), errors, snapshot.notes, outcome(snapshot.group_ids, errors))


def _ranges_of(
    source: GroupSource, partitions: Collection[TopicPartition]
) -> tuple[tuple[SnapshotRange, ...], tuple[Problem, ...]]:
    """Return log start, log end and last stable offsets of partitions."""
    problems: list[Problem] = []

    def ranges(*, committed: bool) -> Mapping[TopicPartition, LogRange]:
        reading = _attempt(
            lambda: source.log_ranges(partitions, committed=committed),
            "the offset ranges of partitions",
            problems,
        )
        if reading is None:
            return {}
        problems.extend(reading.problems)
        return reading.ranges

    ends = ranges(committed=False)
    tells_stable = Capability.LAST_STABLE_OFFSETS in source.capabilities
    stable_ends = ranges(committed=True) if tells_stable else {}
    return _log_ranges(ends, stable_ends), tuple(dict.fromkeys(problems))


def _changelogs_of(source: GroupSource, image: Image, problems: list[Problem]) -> set[str]:
    """Return the changelogs of classic Streams applications, from which lags of tasks follow."""
    applications = [
        group.group_id
        for group in image.groups.values()
        if group.assignor == STREAM and group.type is GroupType.CLASSIC
    ]
    if not applications:
        return set()
    known = _attempt(lambda: source.changelogs(applications), "changelog topics", problems) or {}
    return {topic for topics in known.values() for topic in topics}


def _cluster_of(
    source: GroupSource,
    image: Image,
    group_ids: Collection[str],
    more: Collection[str],
    problems: list[Problem],
) -> tuple[ClusterView | None, tuple[PlacedGroup, ...] | None]:
    """Return brokers and topics, including `more`, and the coordinators of groups."""
    topics = {topic for group in image.groups.values() for topic in _topics_of(group)}
    view = _attempt(
        lambda: source.view({*topics, *more, OFFSETS_TOPIC}), "brokers and topics", problems
    )
    placements = _attempt(
        lambda: source.placements(sorted({*image.groups, *group_ids})),
        "the coordinators of groups",
        problems,
    )
    if placements is None:
        return view, None
    return view, tuple(
        PlacedGroup(group_id, placement) for group_id, placement in sorted(placements.items())
    )


def _topics_of(group: Group) -> set[str]:
    """Return the topics of a group, including those in targets and before a current rebalance."""
    topics = set(group.topics)
    for member in (*group.members, *(group.last_stable.members if group.last_stable else ())):
        partitions = (*(member.assignment or ()), *(member.target_assignment or ()))
        topics.update(partition.topic for partition in partitions if partition.topic)
        topics.update(member.subscribed_topics)
    return topics


def _attempt(ask: Callable[[], T], what: str, problems: list[Problem]) -> T | None:
    """Call `ask`; if no broker answers, add a problem and return None."""
    try:
        return ask()
    except BrokerError as error:
        text = f"{error}; {what} are missing."
        problems.append(Problem(error.kind, text[:1].upper() + text[1:], broker=error.broker_id))
        return None


def _topics(view: ClusterView) -> tuple[SnapshotTopic, ...]:
    return tuple(
        SnapshotTopic(
            name,
            topic.topic_id,
            topic.error,
            tuple(
                SnapshotPartition(number, partition.leader, partition.replicas, partition.isr)
                for number, partition in topic.partitions.items()
            ),
        )
        for name, topic in sorted(view.topics.items())
    )


def _log_ranges(
    ends: Mapping[TopicPartition, LogRange], stable_ends: Mapping[TopicPartition, LogRange]
) -> tuple[SnapshotRange, ...]:
    rows = []
    for at in sorted(ends.keys() | stable_ends.keys()):
        log, stable = ends.get(at, _UNKNOWN), stable_ends.get(at, _UNKNOWN)
        mark = log.mark or stable.mark
        rows.append(SnapshotRange(*at, log.start, log.end, stable.end, mark))
    return tuple(rows)
