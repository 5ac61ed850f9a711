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
    """Where one partition lives.

    Attributes:
        leader: broker id; None where the partition has no leader.
        replicas: broker ids, the preferred leader first.
        isr: broker ids of the in-sync replicas.
    """

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        topic_id: Kafka's base64url text; None before Kafka 2.8, and of topics that do not exist.
        partitions: by number.
        error: Kafka's name of the error that was given in the topic's place:
            "UNKNOWN_TOPIC_OR_PARTITION" where it does not exist.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, Partition]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What a cluster's metadata says.

    Attributes:
        cluster_id: Kafka's base64url text; None before Kafka 0.10.1.
        controller: broker id; None where it is not told.
        brokers: those that are alive, by id.
        topics: those that were asked for, by name; one that does not exist carries an error, or is
            left out.
    """

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class Placement:
    """The coordinator of a group or a transactional id, and the partition that makes it that.

    Attributes:
        partition_count: number of partitions of `__consumer_offsets`; None where the topic may not
            be described.
        coordinator: the broker that says it is the coordinator; None where there is none.
        error: Kafka's name of the error that was given instead.
        leader: broker that leads the group's partition; None where none does.
        replicas: ids of the brokers that hold it.
        isr: ids of the brokers that are in sync.
    """

    partition_count: int | None
    coordinator: Broker | None
    error: str | None
    leader: Broker | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
