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
    """The source of a snapshot.

    Attributes:
        kind: `cluster`, `log-dir`, `zookeeper` or `sample`.
        paths: log directories; empty for other sources.
    """

    kind: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Selected groups of a snapshot; all groups if nothing is given.

    Attributes:
        group_ids: ids of the named groups, existing or not; sorted.
        regex: `--regex`.
    """

    group_ids: tuple[str, ...] | None = None
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPartition:
    """Leader and replicas of a partition.

    Attributes:
        partition: partition number.
        leader: broker id of the leader; None if the partition has no leader.
        replicas: broker ids of the replicas, the preferred leader first; `brokers` has their racks.
        isr: broker ids of the in-sync replicas.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotTopic:
    """A topic of a cluster.

    Attributes:
        topic: topic name.
        topic_id: topic id; None before Kafka 2.8.
        error: Kafka's name of the error that the broker returned for the topic:
            `UNKNOWN_TOPIC_OR_PARTITION` if it does not exist.
        partitions: partitions of the topic, in the order in which brokers list them.
    """

    topic: str
    topic_id: str | None
    error: str | None
    partitions: tuple[SnapshotPartition, ...]


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The range of offsets of a partition; read_committed consumers end at `last_stable_offset`.

    Attributes:
        topic: topic name.
        partition: partition number.
        log_start_offset: log start offset.
        log_end_offset: log end offset.
        last_stable_offset: last stable offset: that of the first record in an open transaction,
            else the log end offset.
        mark: why the range is unknown; a mark of `describe`.
    """

    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    last_stable_offset: int | None
    mark: OffsetMark | None


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """The coordinator of a group, as the cluster reported it.

    Attributes:
        group_id: group id.
        placement: answer of the cluster.
    """

    group_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """A ZooKeeper node.

    Attributes:
        path: path below the chroot, such as `/consumers/billing/ids`.
        data: data of the node as text; None if it has none, or if it is not UTF-8.
        base64: data of the node if it is not UTF-8; else None.
        stat: ZooKeeper's metadata of the node.
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
    """An offset that a group of ZooKeeper consumers has committed to Kafka.

    Attributes:
        group_id: group id.
        topic: topic name.
        partition: partition number.
        offset: offset of the next record to read.
    """

    group_id: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a snapshot.

    Attributes:
        command: `snapshot`, which identifies the file.
        schema_version: 2; version of this format.
        kgroup_version: version of kgroup that wrote it.
        taken_ms: when kgroup started to read the source; of the sample, the time of its last
            record.
        origin: source of the snapshot.
        choice: selected groups.
        capabilities: capabilities of the source, sorted.
        cluster_id: cluster id.
        controller: broker id of the controller that the cluster reported to clients.
        brokers: live brokers, sorted by id: `id`, `host`, `port`, `rack`; None if the source is not
            a cluster, or did not return them.
        broker_ids: ids of the brokers whose log directories were read.
        offsets_partition_count: number of partitions of `__consumer_offsets`; None if the source
            cannot know it.
        topic_names: topic names by topic id; those that the source has outside `groups` and
            `topics`.
        groups: groups, sorted by id; empty for ZooKeeper, whose groups are in its nodes.
        topics: topics that the groups use, and `__consumer_offsets`, sorted by name; None if the
            source is not a cluster, or did not return them.
        log_ranges: offset ranges of the partitions that the groups committed or own, and of the
            changelogs of Streams applications with the classic protocol; sorted by topic and
            partition.
        placements: coordinators of the groups that exist or were named, sorted by id; None if the
            source is not a cluster, or did not return them.
        problems: what could not be read, as in `errors` of [every
            command](output.md#the-json-document).
        log_problems: what could not be read of `log_ranges`, as in `problems`.
        notes: assumptions and choices, for people.
        zookeeper: nodes of ZooKeeper, parents before their children; None for other sources.
        kafka_commits: offsets that the groups in these nodes have committed to Kafka, sorted by
            group, topic and partition; None if no broker returned them, and for other sources.
        kafka_problems: what could not be read of `kafka_commits`, as in `problems`.
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
