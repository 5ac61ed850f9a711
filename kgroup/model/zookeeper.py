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
    """ZooKeeper's metadata of a node (its `Stat`); None if a dump does not contain it.

    Attributes:
        ctime_ms: when the node was created.
        mtime_ms: when the node's data was last written.
        version: number of writes to the node's data since it was created.
        cversion: number of changes to the node's children.
        ephemeral_owner: id of the session that owns an ephemeral node, such as `0x1008f3a2b410000`;
            None for a persistent node.
        children: number of child nodes.
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
        nodes: nodes by path.
        problems: nodes that could not be read, identified by `Problem.path`.
    """

    nodes: Mapping[str, Node]
    problems: tuple[Problem, ...] = ()


class SubscriptionPattern(DescribedEnum):
    """Type of the keys in a ZooKeeper consumer's subscription; the words of its node."""

    STATIC = ("static", "Topic names.")
    WHITE_LIST = (
        "white_list",
        "A Java regular expression; the consumer reads the topics whose names match it.",
    )
    BLACK_LIST = (
        "black_list",
        "A Java regular expression; the consumer reads the topics whose names do not match it.",
    )


@dataclass(frozen=True, slots=True)
class RegistrationNode:
    """A registered consumer: ``/consumers/<group>/ids/<consumer>``.

    Attributes:
        consumer_id: consumer id, such as ``<group>_<host>-<milliseconds>-<8 hex digits>``.
        host: host name in the consumer id; None if the id has another form.
        pattern: what the keys of `subscription` are.
        subscription: number of streams by topic, or by the only regular expression.
        timestamp_ms: when the consumer registered, by its own clock; None before Kafka 0.8.0.
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
    """The owner of a partition: ``/consumers/<group>/owners/<topic>/<partition>``.

    Attributes:
        broker: id of the broker that has the partition in Kafka 0.7, which numbers partitions per
            broker; else None.
        thread_id: consumer thread id as stored in the node, such as ``<consumer>-0``.
        thread: number of the consumer's thread, from 0; None if the node contains only the consumer
            id, as clients in other languages write it.
        stat: metadata of the node; the consumer created it when it claimed the partition.
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
    """A committed offset: ``/consumers/<group>/offsets/<topic>/<partition>``.

    Attributes:
        broker: as in `OwnerNode`.
        offset: offset of the next record to read; a byte position in Kafka 0.7.
        stat: metadata of the node; the last commit wrote its data.
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
        group_id: group id.
        stat: metadata of ``/consumers/<group>``.
        has_ids: whether the node ``ids`` exists; a group that only commits offsets has none.
        registrations: registered consumers.
        owners: owners of partitions.
        offsets: committed offsets.
        unreadable: ids of registered consumers whose node is invalid or may not be read; sorted.
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
    """A listener of a broker, such as ``SSL://kafka-1:9093``.

    Attributes:
        listener: name of the listener.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        host: host name or address; empty if the broker listens on all interfaces.
        port: port of the listener.
    """

    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A registered broker: ``/brokers/ids/<id>``.

    Attributes:
        host: host of the listener without TLS and SASL; None if there is none.
        port: port of the listener without TLS and SASL; None if there is none.
        endpoints: all listeners.
        rack: `broker.rack`.
        jmx_port: JMX port; None if JMX is off.
        timestamp_ms: when the broker registered, by its own clock.
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
        topic_id: topic id, base64url as Kafka prints it (Kafka 2.8 and later).
        partitions: broker ids of the replicas, by partition; the preferred leader first.
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
        partition_count: number of partitions, which are numbered from 0.
    """

    path: str
    topic: str
    broker: int
    partition_count: int


@dataclass(frozen=True, slots=True)
class PartitionStateNode:
    """The leader of a partition: ``/brokers/topics/<topic>/partitions/<partition>/state``.

    Attributes:
        leader: broker id of the leader; None if the partition has no leader.
        leader_epoch: leader epoch; incremented whenever a leader is elected.
        isr: broker ids of the in-sync replicas.
        controller_epoch: epoch of the controller that elected the leader.
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
        version: version of the data; None before Kafka 0.8.0, whose node contains only the broker
            id.
        timestamp_ms: when the broker became the controller, by its own clock.
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
    """The decoded contents of a tree.

    Attributes:
        groups: groups by id, sorted.
        brokers: registered brokers by id.
        topics: topics by name.
        legacy_topics: topics of Kafka 0.7, sorted by topic and broker.
        partition_states: leaders of partitions, by topic and partition.
        controller: the controller; None if there is none.
        controller_epoch: controller epoch; incremented whenever a controller is elected.
        cluster_id: cluster id, base64url as Kafka prints it (Kafka 0.10.1 and later).
        configs: configurations of topics, by name.
        deleting: topics marked for deletion, sorted.
        reassigning: new replicas of partitions that are being reassigned, by topic and partition.
        electing: partitions with a requested preferred leader election, by topic and partition.
        problems: nodes that could not be read, have unexpected contents, or are not written by
            Kafka; each has its `Problem.path`.
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
