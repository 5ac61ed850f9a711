"""The brokers and topics of a live cluster, and what is coordinated where."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, repeat, starmap
from operator import itemgetter
from typing import TypeAlias

from kgroup.model.group import Broker

TopicPartition: TypeAlias = tuple[str, int]
"""Name of a topic, and number of a partition; kafka-python's `TopicPartition` is one."""

TOPIC_NAME = "letters, digits, '.', '_' and '-', at most 249"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(text: str) -> bool:
    """Return whether a topic can have a name (`Topic.validate`); offsets exist for any text."""
    return _TOPIC_NAME.fullmatch(text) is not None and text not in (".", "..")


def numbers_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic (name or id), in their order."""
    numbers: dict[str, list[int]] = {}
    for topic, run in groupby(partitions, itemgetter(0)):
        numbers.setdefault(topic, []).extend(map(itemgetter(1), run))
    return numbers


def partitions_of(numbers: Iterable[tuple[str, Collection[int]]]) -> Iterator[tuple[str, int]]:
    """Return the partitions of topics with these numbers, in order.

    Equal partitions are the same object if possible: sets and dicts find it twice as fast.
    """
    return chain.from_iterable(starmap(_of_topic, numbers))


def _of_topic(topic: str, numbers: Collection[int]) -> Iterable[tuple[str, int]]:
    most = max(numbers, default=0)
    if not 0 <= min(numbers, default=0) <= most < _MOST:
        return zip(repeat(topic), numbers)
    return map(_first_partitions(topic, most.bit_length()).__getitem__, numbers)


_MOST = 1 << 20


@lru_cache(maxsize=1 << 10)
def _first_partitions(topic: str, bits: int) -> Sequence[tuple[str, int]]:
    return [*zip(repeat(topic), range(1 << bits))]


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
