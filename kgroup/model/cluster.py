"""The brokers and topics of a live cluster, and what is coordinated where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgroup.model.group import Broker

TopicPartition: TypeAlias = tuple[str, int]
"""Name of a topic, and number of a partition; kafka-python's `TopicPartition` is one."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Leader and replicas of a partition.

    Attributes:
        leader: broker id of the leader; None if the partition has no leader.
        replicas: broker ids of the replicas, the preferred leader first.
        isr: broker ids of the in-sync replicas.
    """

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """Metadata of a topic.

    Attributes:
        topic_id: topic id, base64url as Kafka prints it; None before Kafka 2.8, and for topics that
            do not exist.
        partitions: partitions by number.
        error: Kafka's name of the error that the broker returned for the topic:
            "UNKNOWN_TOPIC_OR_PARTITION" if it does not exist.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, Partition]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Metadata of a cluster.

    Attributes:
        cluster_id: cluster id, base64url as Kafka prints it; None before Kafka 0.10.1.
        controller: broker id of the controller; None if unknown.
        brokers: live brokers by id.
        topics: requested topics by name; one that does not exist has an error or is left out.
    """

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class Placement:
    """Coordinator of a group or transactional id, and the partition that determines it.

    Attributes:
        partition_count: number of partitions of `__consumer_offsets`; None if the user may not
            describe the topic.
        coordinator: coordinator that the cluster reports; None if there is none.
        error: Kafka's name of the error that the broker returned instead of a coordinator.
        leader: broker that leads the group's partition; None if the partition has no leader.
        replicas: broker ids of the replicas.
        isr: broker ids of the in-sync replicas.
    """

    partition_count: int | None
    coordinator: Broker | None
    error: str | None
    leader: Broker | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
