"""Kafka's nodes in ZooKeeper, and the values in their data.

There are three steps, each of them a value: a `ZookeeperTree` (paths and bytes, from a
server or a snapshot), a `ZookeeperView` of it (`kgroup.protocol.zookeeper.tree`), and
groups (`Image`). Paths are relative to the chroot. Session ids are text such as
``0x1008f3a2b410000``, as ZooKeeper prints them.

Of every node, `path` and `stat` are its own, and `version` is that of its data: None before
Kafka 0.8. `topic` is a topic name, `partition` a partition number, `broker` a broker id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.described_enum import DescribedEnum
from kgroup.model.problem import Problem


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper knows about a node (its `Stat`); None where a dump does not tell.

    Attributes:
        ctime_ms: when the node was created.
        mtime_ms: when its data were written last.
        version: how often its data were written after that.
        cversion: how often a child came or went.
        ephemeral_owner: id of the session with which the node goes; as in `0x1008f3a2b410000`; None
            of one that stays.
        children: number of its children.
    """

    ctime_ms: int | None = None
    mtime_ms: int | None = None
    version: int | None = None
    cversion: int | None = None
    ephemeral_owner: str | None = None
    children: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it is; `data` is None where it has none."""

    path: str
    data: bytes | None = None
    stat: Stat = Stat()


@dataclass(frozen=True, slots=True)
class ZookeeperTree:
    """The nodes that were read, by path, parents before their children.

    Attributes:
        nodes: by path.
        problems: nodes that could not be read, by `Problem.path`.
    """

    nodes: Mapping[str, Node]
    problems: tuple[Problem, ...] = ()


class SubscriptionPattern(DescribedEnum):
    """What the keys of a ZooKeeper consumer's subscription are; the words of its node."""

    STATIC = ("static", "Names of topics.")
    WHITE_LIST = (
        "white_list",
        "A regular expression (Java's): topics are read whose names match it.",
    )
    BLACK_LIST = (
        "black_list",
        "A regular expression (Java's): topics are read whose names do not match it.",
    )


@dataclass(frozen=True, slots=True)
class RegistrationNode:
    """A consumer that is there: ``/consumers/<group>/ids/<consumer>``.

    Attributes:
        consumer_id: its name, such as ``<group>_<host>-<milliseconds>-<8 hex digits>``.
        host: of that name; None where the name has another form.
        pattern: what the keys of `subscription` are.
        subscription: streams by topic, or by the one regular expression.
        timestamp_ms: when the consumer wrote it, by its own clock; None before Kafka 0.8.0.
    """

    path: str
    group_id: str
    consumer_id: str
    host: str | None
    version: int | None
    pattern: SubscriptionPattern
    subscription: Mapping[str, int]
    timestamp_ms: int | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class OwnerNode:
    """Who reads a partition: ``/consumers/<group>/owners/<topic>/<partition>``.

    Attributes:
        broker: Kafka 0.7 numbers partitions broker by broker: that broker; else None.
        thread_id: the text of the node, such as ``<consumer>-0``.
        thread: number of its stream, from 0; None where the text names the consumer alone, as
            clients in other languages do.
        stat: of the node; created when the consumer took the partition.
    """

    path: str
    group_id: str
    topic: str
    broker: int | None
    partition: int
    thread_id: str
    consumer_id: str
    thread: int | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class OffsetNode:
    """What is committed: ``/consumers/<group>/offsets/<topic>/<partition>``.

    Attributes:
        broker: as in `OwnerNode`.
        offset: of the next record to read; in Kafka 0.7 a byte position.
        stat: of the node; written at the last commit.
    """

    path: str
    group_id: str
    topic: str
    broker: int | None
    partition: int
    offset: int
    stat: Stat

    @property
    def is_commit(self) -> bool:
        """Whether it is the offset of a record: not in Kafka 0.7, and not if it is negative."""
        return self.broker is None and self.offset >= 0


@dataclass(frozen=True, slots=True)
class GroupNodes:
    """All nodes of one group, each list sorted by path, partitions by number.

    Attributes:
        group_id: its name.
        stat: of ``/consumers/<group>``.
        has_ids: whether there is a node ``ids``: a group that only commits has none.
        registrations: its consumers.
        owners: of partitions.
        offsets: that are committed.
        unreadable: ids of consumers that are registered, and whose node says nothing that could be
            read, or may not be read; sorted.
    """

    group_id: str
    stat: Stat
    has_ids: bool
    registrations: tuple[RegistrationNode, ...]
    owners: tuple[OwnerNode, ...]
    offsets: tuple[OffsetNode, ...]
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker, such as ``SSL://kafka-1:9093``.

    Attributes:
        listener: its name.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        host: name or address; empty where the broker listens everywhere.
        port: number.
    """

    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker that is there: ``/brokers/ids/<id>``.

    Attributes:
        host: for clients without TLS and SASL; None where it has no such listener.
        port: likewise.
        endpoints: all listeners.
        rack: `broker.rack`.
        jmx_port: None where JMX is off.
        timestamp_ms: when the broker wrote it, by its own clock.
    """

    path: str
    id: int
    version: int | None
    host: str | None
    port: int | None
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    jmx_port: int | None
    timestamp_ms: int | None
    stat: Stat

    @property
    def coordinates_groups(self) -> bool:
        """Whether the broker is registered like brokers of 0.9 and later (versions 2 to 5)."""
        return self.version is not None and self.version >= 2


@dataclass(frozen=True, slots=True)
class TopicNode:
    """A topic: ``/brokers/topics/<topic>``.

    Attributes:
        topic_id: Kafka's base64url text (2.8 and later).
        partitions: ids of the replicas' brokers by partition, the preferred leader first.
    """

    path: str
    topic: str
    version: int | None
    topic_id: str | None
    partitions: Mapping[int, tuple[int, ...]]
    stat: Stat


@dataclass(frozen=True, slots=True)
class LegacyTopicNode:
    """The partitions of a topic on one broker of Kafka 0.7: ``/brokers/topics/<topic>/<broker>``.

    Attributes:
        partition_count: they are numbered from 0.
    """

    path: str
    topic: str
    broker: int
    partition_count: int


@dataclass(frozen=True, slots=True)
class PartitionStateNode:
    """Who leads a partition: ``/brokers/topics/<topic>/partitions/<partition>/state``.

    Attributes:
        leader: broker id; None where it has no leader.
        leader_epoch: how often a leader was chosen.
        isr: ids of the brokers whose replicas are in sync.
        controller_epoch: of the controller that chose.
    """

    path: str
    topic: str
    partition: int
    version: int | None
    leader: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]
    controller_epoch: int | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """The controller: ``/controller``.

    Attributes:
        version: of the data; None before Kafka 0.8.0, whose node is the bare id.
        timestamp_ms: when it became the controller, by its own clock.
    """

    path: str
    broker: int
    version: int | None
    timestamp_ms: int | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """What is set for one topic: ``/config/topics/<topic>``."""

    path: str
    topic: str
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ZookeeperView:
    """What a tree says.

    Attributes:
        groups: by group id, sorted.
        brokers: by id.
        topics: by name.
        legacy_topics: of Kafka 0.7, sorted by topic and broker.
        partition_states: by topic and partition.
        controller: None where there is none.
        controller_epoch: how often one was chosen.
        cluster_id: Kafka's base64url text (0.10.1 and later).
        configs: of topics, by name.
        deleting: topics that are to be deleted, sorted.
        reassigning: replicas that partitions shall have, by topic and partition.
        electing: partitions whose preferred replica shall lead, by topic and partition.
        problems: nodes that could not be read, that hold something else than they should, or that
            nobody of Kafka writes; each has its `Problem.path`.
    """

    groups: Mapping[str, GroupNodes]
    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    topics: Mapping[str, TopicNode] = field(default_factory=dict)
    legacy_topics: tuple[LegacyTopicNode, ...] = ()
    partition_states: Mapping[tuple[str, int], PartitionStateNode] = field(default_factory=dict)
    controller: ControllerNode | None = None
    controller_epoch: int | None = None
    cluster_id: str | None = None
    configs: Mapping[str, ConfigNode] = field(default_factory=dict)
    deleting: tuple[str, ...] = ()
    reassigning: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    electing: tuple[tuple[str, int], ...] = ()
    problems: tuple[Problem, ...] = ()
