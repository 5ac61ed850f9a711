"""What a source said, all of it, as it is kept in a file.

The file is these dataclasses as JSON, field by field; ``docs/snapshot.md`` has its form. A field
that is added later needs a default, for files that were written before it. A change that takes a
field away, gives one another meaning, or one of its enumerations another word, raises
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
        kind: "cluster", "log-dir", "zookeeper" or "sample".
        paths: log directories; none of the others.
    """

    kind: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which groups were asked for; all of them where nothing is given.

    Attributes:
        group_ids: those that were named, whether they exist or not.
        regex: the pattern of whole ids.
    """

    group_ids: tuple[str, ...] | None = None
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPartition:
    """Where one partition of a topic lives; attributes as in `cluster.Partition`."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotTopic:
    """One topic of a cluster; attributes as in `cluster.Topic`, partitions sorted by number."""

    topic: str
    topic_id: str | None
    error: str | None
    partitions: tuple[SnapshotPartition, ...]


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Where a partition begins and ends, at `last_stable_offset` for readers of committed records.

    `mark` says why these are not known.
    """

    topic: str
    partition: int
    log_start_offset: int | None
    log_end_offset: int | None
    last_stable_offset: int | None
    mark: OffsetMark | None


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """What a cluster answered when it was asked for a group's coordinator."""

    group_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """One node of ZooKeeper.

    Attributes:
        path: below the chroot.
        data: as text; None where it has none, or where it is no UTF-8:
        base64: then it is here.
    """

    path: str
    data: str | None = None
    base64: str | None = None
    stat: Stat = field(default_factory=Stat)

    @classmethod
    def of(cls, node: Node) -> SnapshotNode:
        """Take a node as it was read."""
        if node.data is None:
            return cls(node.path, stat=node.stat)
        try:
            return cls(node.path, data=node.data.decode(), stat=node.stat)
        except UnicodeDecodeError:
            return cls(node.path, base64=b64encode(node.data).decode(), stat=node.stat)

    def node(self) -> Node:
        """Return the node as it was read.

        Raises:
            ValueError: `base64` is none.
        """
        if self.base64 is not None:
            return Node(self.path, b64decode(self.base64, validate=True), self.stat)
        return Node(self.path, None if self.data is None else self.data.encode(), self.stat)


@dataclass(frozen=True, slots=True)
class SnapshotCommit:
    """What a group of ZooKeeper consumers has committed to Kafka for one partition."""

    group_id: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was learnt.

    Attributes:
        command: "snapshot": what the file is.
        schema_version: `SNAPSHOT_VERSION` of who wrote it.
        kgroup_version: of who wrote it.
        taken_ms: when the source was asked first.
        capabilities: words of `kgroup.source.base.Capability`, sorted: what the source knows.
        brokers: sorted by id; None where the source is no cluster, or did not say.
        broker_ids: brokers whose log directories were read.
        offsets_partition_count: partitions of `__consumer_offsets`.
        topic_names: names of topics by their ids, sorted by id.
        groups: sorted by id; none of ZooKeeper, whose groups are in its nodes.
        topics: those that the groups have to do with and `__consumer_offsets`, sorted by name;
            likewise.
        log_ranges: of the partitions that the groups committed or own, sorted by topic and number.
        placements: of the groups that exist or were named, sorted by id; likewise.
        problems: what could not be read.
        log_problems: what could not be read of `log_ranges`.
        notes: what was assumed or chosen, for people.
        zookeeper: the nodes of ZooKeeper, parents before their children; None of other sources.
        kafka_commits: what the groups in these nodes have committed to Kafka, sorted by group,
            topic and partition; None where no broker told, and of other sources.
        kafka_problems: what could not be read of these.
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
        """Ids of the groups in it, sorted."""
        paths = (node.path.split("/", 3) for node in self.zookeeper or ())
        from_nodes = {parts[2] for parts in paths if parts[1] == "consumers" and len(parts) > 2}
        return tuple(sorted(from_nodes.union(group.group_id for group in self.groups)))
