"""Sources of groups that are written down in a test, or recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from kgroup.model.cluster import ClusterView, Placement
from kgroup.model.group import Group, Image
from kgroup.model.log_range import LogRange, LogReading
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.protocol.zookeeper.tree import decode_tree
from kgroup.source.base import EVERYTHING, Capability, GroupSource, KafkaOffsets, Question, Reading
from kgroup.source.zookeeper.view import ZOOKEEPER_CAPABILITIES, cluster_view, reading_of


class FakeSource(GroupSource):
    """Groups that are written down, and the ranges of their partitions."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(
        self,
        *groups: Group,
        ends: Mapping[tuple[str, int], int] | None = None,
        ranges: Mapping[tuple[str, int], LogRange] | None = None,
        range_problems: Iterable[Problem] = (),
        problems: Iterable[Problem] = (),
        notes: Iterable[str] = (),
        partition_count: int | None = None,
        capabilities: Iterable[Capability] = Capability,
    ) -> None:
        self.capabilities = frozenset(capabilities)
        self._groups = {group.group_id: group for group in groups}
        self.ranges = {at: LogRange(end=end) for at, end in (ends or {}).items()}
        self.ranges |= ranges or {}
        self._range_problems = tuple(range_problems)
        self._problems = tuple(problems)
        self._notes = tuple(notes)
        self._partition_count = partition_count

    def replace(self, group: Group) -> None:
        """Let a group be another one from now on."""
        self._groups[group.group_id] = group

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        chosen = {
            group_id: self._groups[group_id]
            for group_id in sorted(self._groups)
            if question.names(group_id, group_ids)
        }
        image = Image(chosen, offsets_partition_count=self._partition_count)
        return Reading(image, self._problems, self._notes)

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        known = {at: self.ranges[at] for at in partitions if at in self.ranges}
        return LogReading(known, self._range_problems)


class TreeSource(GroupSource):
    """Nodes of ZooKeeper, and what brokers would say."""

    capabilities = ZOOKEEPER_CAPABILITIES

    def __init__(
        self, tree: ZookeeperTree, ranges: Mapping[tuple[str, int], LogRange] | None = None
    ) -> None:
        self.next_tree: Callable[[], ZookeeperTree] = lambda: tree
        self._ranges = ranges or {}

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        return reading_of(self.next_tree(), group_ids, question)

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        return LogReading({at: self._ranges[at] for at in partitions if at in self._ranges})

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        return {}

    def view(self, topics: Collection[str]) -> ClusterView:
        return cluster_view(decode_tree(self.next_tree()), topics)


class KafkaSource(TreeSource):
    """The same beside a Kafka that has commits."""

    def __init__(
        self,
        tree: ZookeeperTree,
        ranges: Mapping[tuple[str, int], LogRange],
        kafka: Mapping[tuple[str, str, int], int],
        members: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(tree, ranges)
        self._kafka = kafka
        self._members = members or {}

    def kafka_offsets(self, group_ids: Collection[str]) -> KafkaOffsets:
        offsets = {at: n for at, n in self._kafka.items() if at[0] in group_ids}
        return KafkaOffsets(offsets, members=self._members)

    def subtree(self, path: str, depth: int | None = None) -> ZookeeperTree:
        return self.next_tree()
