"""Everything that a source returned, as it is stored in a file.

The file is these dataclasses as JSON, field by field; ``docs/snapshot.md`` describes the
format. A new field needs a default, for files that were written before it. A change that
removes a field, changes the meaning of one, or a word of one of its enumerations, raises
`SNAPSHOT_VERSION`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.model.cluster import Placement
from kgroup.model.group import Broker, Group
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, Stat

SNAPSHOT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Origin:
    """What a snapshot was taken from.

    Attributes:
        kind: `cluster`, `log-dir`, `zookeeper` or `sample`.
        paths: the log directories; none of the others.
    """

    kind: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which groups were asked for; all of them where nothing is given.

    Attributes:
        group_ids: those that were named, whether they exist or not, sorted.
        regex: `--regex`.
    """

    group_ids: tuple[str, ...] | None = None
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPartition:
    """Where a partition of a topic lives.

    Attributes:
        partition: its number.
        leader: id of the broker that leads it; None where none does.
        replicas: ids of the brokers that hold it, the preferred leader first; their racks are in
            `brokers`.
        isr: ids of those that are in sync.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotTopic:
    """A topic of a cluster.

    Attributes:
        topic: its name.
        topic_id: its id; None before Kafka 2.8.
        error: Kafka's name of the error that was given in its place: `UNKNOWN_TOPIC_OR_PARTITION`
            where it does not exist.
        partitions: its partitions, sorted by number.
    """

    topic: str
    topic_id: str | None
    error: str | None
    partitions: tuple[SnapshotPartition, ...]


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Where a partition begins and ends, at `last_stable_offset` for readers of committed records.

    Attributes:
        topic: name of the topic.
        partition: partition of that topic.
        log_start_offset: offset of the first record.
        log_end_offset: offset that the next record gets.
        last_stable_offset: offset of the first record in an open transaction, or else the end.
        mark: why these are not known; a mark of `describe`.
    """

    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    last_stable_offset: int | None
    mark: OffsetMark | None


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """What a cluster answered when it was asked for a group's coordinator.

    Attributes:
        group_id: id of the group.
        placement: what the cluster answered.
    """

    group_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """A node of ZooKeeper.

    Attributes:
        path: path below the chroot, such as `/consumers/billing/ids`.
        data: its data as text; None where it has none, or where they are no UTF-8.
        base64: its data where they are no UTF-8; else None.
        stat: what ZooKeeper knows about it.
    """

    path: str
    data: str | None = None
    base64: str | None = None
    stat: Stat = field(default_factory=Stat)

    @classmethod
    def of(cls, node: Node) -> SnapshotNode:
        """Return a node as it was read."""
        if node.data is None:
            return cls(node.path, stat=node.stat)
        try:
            return cls(node.path, data=node.data.decode(), stat=node.stat)
        except UnicodeDecodeError:
            return cls(node.path, base64=b64encode(node.data).decode(), stat=node.stat)

    def node(self) -> Node:
        """Return the node as it was read.

        Raises:
            ValueError: `base64` is not valid.
        """
        if self.base64 is not None:
            return Node(self.path, b64decode(self.base64, validate=True), self.stat)
        return Node(self.path, None if self.data is None else self.data.encode(), self.stat)


@dataclass(frozen=True, slots=True)
class SnapshotCommit:
    """What a group of ZooKeeper consumers has committed to Kafka for a partition.

    Attributes:
        group_id: id of the group.
        topic: name of the topic.
        partition: its number.
        offset: offset of the next record to read.
    """

    group_id: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was learnt.

    Attributes:
        command: `snapshot`: what the file is.
        schema_version: 2; of this form.
        kgroup_version: version of kgroup that wrote it.
        taken_ms: when the source was asked first.
        origin: what it was taken from.
        choice: which groups were asked for.
        capabilities: what the source knows, sorted.
        cluster_id: id of the cluster.
        controller: id of the broker that is the controller, as clients are told.
        brokers: brokers that were alive, sorted by id: `id`, `host`, `port`, `rack`; None where the
            source is no cluster, or did not say.
        broker_ids: ids of the brokers whose log directories were read.
        offsets_partition_count: number of partitions of `__consumer_offsets`; None where the source
            cannot know it.
        topic_names: names of topics by their ids, as far as the source tells them apart from groups
            and topics.
        groups: groups, sorted by id; none of ZooKeeper, whose groups are in its nodes.
        topics: the topics that the groups have to do with, and `__consumer_offsets`, sorted by
            name; None where the source is no cluster, or did not say.
        log_ranges: where the partitions begin and end that the groups committed or own, sorted by
            topic and number.
        placements: coordinators of the groups that exist or were named, sorted by id; None where
            the source is no cluster, or did not say.
        problems: what could not be learnt, as in `errors` of [every
            command](output.md#the-json-document).
        log_problems: what could not be learnt of `log_ranges`, likewise.
        notes: what was assumed or chosen, for people.
        zookeeper: nodes of ZooKeeper, parents before their children; None of other
            sources.
        kafka_commits: what the groups in these nodes have committed to Kafka, sorted by group,
            topic and partition; None where no broker told, and of other sources.
        kafka_problems: what could not be learnt of these, as in `problems`.
    """

    command: str
    schema_version: int
    kgroup_version: str
    taken_ms: int
    origin: Origin
    choice: Choice
    capabilities: tuple[str, ...]
    cluster_id: str | None
    controller: int | None
    brokers: tuple[Broker, ...] | None
    broker_ids: tuple[int, ...]
    offsets_partition_count: int | None
    topic_names: Mapping[str, str]
    groups: tuple[Group, ...]
    topics: tuple[SnapshotTopic, ...] | None
    log_ranges: tuple[SnapshotRange, ...]
    placements: tuple[PlacedGroup, ...] | None
    problems: tuple[Problem, ...]
    log_problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    zookeeper: tuple[SnapshotNode, ...] | None = None
    kafka_commits: tuple[SnapshotCommit, ...] | None = None
    kafka_problems: tuple[Problem, ...] = ()

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Ids of the groups in the snapshot, sorted."""
        paths = (node.path.split("/", 3) for node in self.zookeeper or ())
        from_nodes = {parts[2] for parts in paths if parts[1] == "consumers" and len(parts) > 2}
        return tuple(sorted(from_nodes.union(group.group_id for group in self.groups)))
