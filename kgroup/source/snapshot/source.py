"""Groups from a snapshot: the answers of another source, saved to a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kgroup.errors import InputError, ProblemKind
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic, TopicPartition
from kgroup.model.group import Group, GroupType, Image
from kgroup.model.group_log import recognized_again
from kgroup.model.log_range import LogRange, LogReading, OffsetMark
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import parse_regex
from kgroup.model.problem import Problem
from kgroup.model.snapshot import Snapshot
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.protocol.zookeeper.tree import decode_tree, path_parts, tree_of
from kgroup.source.base import (
    EVERYTHING,
    Capability,
    GroupSource,
    KafkaOffsets,
    Question,
    Reading,
    known_changelogs,
)
from kgroup.source.snapshot.file import read_snapshot
from kgroup.source.zookeeper.view import cluster_view, placement, placements, reading_of


class SnapshotSource(GroupSource):
    """The groups in a snapshot.

    Attributes:
        snapshot: contents of the file.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        regex = snapshot.choice.regex
        self._regex = None if regex is None else parse_regex(regex)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Facts that the source of the snapshot could report."""
        return frozenset(
            capability for capability in Capability if capability in self.snapshot.capabilities
        )

    @property
    def data_time_ms(self) -> int:
        """Time when the snapshot was taken."""
        return self.snapshot.taken_ms

    @property
    def is_log(self) -> bool:
        """Whether the snapshot was taken of a log."""
        return self.snapshot.origin.kind in ("log-dir", "sample")

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Return the requested groups of the snapshot; see `GroupSource.read`.

        A group that was not requested when the snapshot was taken is a problem: it may exist.
        """
        snapshot = self.snapshot
        names = None if group_ids is None else frozenset(group_ids)
        image = Image(
            groups={
                group.group_id: recognized_again(self._answered(group, question))
                for group in sorted(snapshot.groups, key=lambda group: group.group_id)
                if question.names(group.group_id, names)
            },
            topic_names=snapshot.topic_names,
            cluster_id=snapshot.cluster_id,
            broker_ids=snapshot.broker_ids,
            offsets_partition_count=snapshot.offsets_partition_count,
        )
        untold = self._untold(group_ids)
        notes = (*snapshot.notes, *self._notes(names, question))
        return Reading(image, snapshot.problems + untold, notes)

    def _answered(self, group: Group, question: Question) -> Group:
        """Return a group as its source returns it: a cluster, without preferences by default."""
        is_log = Capability.RECORDS in self.capabilities
        if question.preferences or is_log or group.type is not GroupType.CONSUMER:
            return group
        return replace(group, members=tuple(replace(m, assignor=None) for m in group.members))

    def _untold(self, group_ids: Collection[str] | None) -> tuple[Problem, ...]:
        return tuple(
            Problem(
                ProblemKind.NOT_IN_SNAPSHOT,
                "Not selected when the snapshot was taken; it is unknown whether it exists.",
                group_id=group_id,
            )
            for group_id in dict.fromkeys(group_ids or ())
            if not self._was_asked_for(group_id)
        )

    def log_ranges(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> LogReading:
        """Return saved log ranges; see `GroupSource.log_ranges`."""
        wanted = frozenset(partitions)
        stable = committed and Capability.LAST_STABLE_OFFSETS in self.capabilities
        ranges = {
            (row.topic, row.partition): LogRange(
                row.log_start_offset,
                row.last_stable_offset if stable else row.log_end_offset,
                row.mark,
                row.log_end_offset if stable else None,
            )
            for row in self.snapshot.log_ranges
            if (row.topic, row.partition) in wanted
        }
        is_whole = all(at in ranges and _is_answered(ranges[at]) for at in wanted)
        return LogReading(
            ranges,
            tuple(
                problem
                for problem in self.snapshot.log_problems
                if (problem.topic, problem.partition) in wanted
                or (problem.topic is None and not is_whole)
            ),
        )

    def _was_asked_for(self, group_id: str) -> bool:
        return Question(regex=self._regex).names(group_id, self.snapshot.choice.group_ids)

    def _notes(self, group_ids: Collection[str] | None, question: Question) -> Iterator[str]:
        """Yield notes about what was requested but is not in the snapshot."""
        choice = self.snapshot.choice
        is_same = question.regex is not None and question.regex.pattern == choice.regex
        if (group_ids is None or question.regex is not None) and not is_same:
            parts = [repr(group_id) for group_id in choice.group_ids or ()]
            parts += [] if choice.regex is None else [f"--regex {choice.regex!r}"]
            if parts:
                yield (
                    "The snapshot contains only the groups selected when it was taken "
                    f"({', '.join(parts[:5])}{', …' if parts[5:] else ''}); others are unknown."
                )
        if (
            question.log_budget
            and Capability.COORDINATOR in self.capabilities
            and Capability.GENERATION not in self.capabilities
        ):
            yield (
                "The snapshot was taken without reading __consumer_offsets (--log-budget): "
                "generation, leader and timeouts of classic groups and times of commits are "
                "unknown."
            )


class ClusterSnapshotSource(SnapshotSource):
    """Snapshot of a cluster, including brokers and topics."""

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Return saved coordinators; see `GroupSource.placements`.

        For a group that was not requested, the partition is known, but not the coordinator's
        answer.
        """
        if transactional:
            raise InputError("a snapshot has the coordinators of groups, not of transactions")
        saved = {row.group_id: row.placement for row in self.snapshot.placements or ()}
        offsets = self.view([OFFSETS_TOPIC]).topics.get(OFFSETS_TOPIC)
        if not saved and (offsets is None or not offsets.partitions):
            return {}
        return {key: saved.get(key) or self._placement(key, offsets) for key in keys}

    def changelogs(self, applications: Collection[str]) -> dict[str, list[str]]:
        """Return saved changelog topics of applications; see `GroupSource.changelogs`."""
        names = (row.topic for row in self.snapshot.topics or ())
        return known_changelogs(
            applications, names, lambda: [group.group_id for group in self.snapshot.groups]
        )

    def view(self, topics: Collection[str]) -> ClusterView:
        """Return saved brokers and topics; see `GroupSource.view`."""
        snapshot = self.snapshot
        return ClusterView(
            snapshot.cluster_id,
            snapshot.controller,
            {broker.id: broker for broker in snapshot.brokers or ()},
            {
                row.topic: Topic(
                    row.topic,
                    row.topic_id,
                    {p.partition: Partition(p.leader, p.replicas, p.isr) for p in row.partitions},
                    row.error,
                )
                for row in snapshot.topics or ()
                if row.topic in topics
            },
        )

    def _placement(self, group_id: str, offsets: Topic | None) -> Placement:
        if offsets is None or not offsets.partitions:
            return Placement(None, None, None, None, None, None)
        brokers = {broker.id: broker for broker in self.snapshot.brokers or ()}
        return placement(offsets, brokers, group_id)


class ZookeeperSnapshotSource(SnapshotSource):
    """Snapshot of ZooKeeper, whose groups are decoded from its nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        nodes = (node.node() for node in snapshot.zookeeper or ())
        self._tree = tree_of(nodes, snapshot.problems)

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        """Return the requested groups of the snapshot; see `GroupSource.read`."""
        names = None if group_ids is None else frozenset(group_ids)
        reading = reading_of(_of_groups(self._tree, names, question), group_ids, question)
        return replace(
            reading,
            problems=reading.problems + self._untold(group_ids),
            notes=(*reading.notes, *self._notes(names, question)),
        )

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        """Return partitions of `__consumer_offsets`; see `GroupSource.placements`."""
        if transactional:
            raise InputError("a snapshot has the coordinators of groups, not of transactions")
        return placements(decode_tree(self._tree), keys)

    def view(self, topics: Collection[str]) -> ClusterView:
        """Return saved brokers and topics; see `GroupSource.view`."""
        return cluster_view(decode_tree(self._tree), topics)

    def kafka_offsets(self, group_ids: Collection[str]) -> KafkaOffsets:
        """Return saved commits; see `GroupSource.kafka_offsets`."""
        commits = self.snapshot.kafka_commits
        if commits is None:
            return KafkaOffsets(None, self.snapshot.kafka_problems)
        wanted = frozenset(group_ids)
        offsets = {
            (commit.group_id, commit.topic, commit.partition): commit.offset
            for commit in commits
            if commit.group_id in wanted
        }
        return KafkaOffsets(offsets, self.snapshot.kafka_problems)

    def subtree(self, path: str, depth: int | None = None) -> ZookeeperTree:
        """Return all saved nodes; see `GroupSource.subtree`."""
        return self._tree


def read_source(path: Path) -> SnapshotSource:
    """Return the source for a snapshot file.

    Raises:
        InputError: the file is not a snapshot, or is damaged.
    """
    return snapshot_source(read_snapshot(path))


def snapshot_source(snapshot: Snapshot) -> SnapshotSource:
    """Return the source for a snapshot, with the methods of the source that it was taken from."""
    if snapshot.zookeeper is not None:
        return ZookeeperSnapshotSource(snapshot)
    if snapshot.topics is None:  # not a cluster, or without topics
        return SnapshotSource(snapshot)
    return ClusterSnapshotSource(snapshot)


def _of_groups(
    tree: ZookeeperTree, names: Collection[str] | None, question: Question
) -> ZookeeperTree:
    """Return the tree without the nodes of groups that are not requested."""
    if names is None and question.regex is None:
        return tree

    def is_wanted(path: str) -> bool:
        top, *below = path_parts(path)[:2] or ("",)
        return top != "consumers" or not below or question.names(below[0], names)

    return ZookeeperTree(
        {path: node for path, node in tree.nodes.items() if is_wanted(path)}, tree.problems
    )


def _is_answered(log: LogRange) -> bool:
    return log.end is not None or log.mark not in (None, OffsetMark.NO_ANSWER)
