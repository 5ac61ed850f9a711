"""Commits of ZooKeeper consumers: to ZooKeeper, to Kafka, or to both.

A consumer of 0.8.2 commits to Kafka with `offsets.storage=kafka`, and to both with
`dual.commit.enabled`; it then starts at the larger offset. No node holds these settings. Therefore
kgroup shows the only commit, or the larger of two, and where it was found.

Source: kafka.consumer.ZookeeperConsumerConnector (fetchOffsets) of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kgroup.errors import shown_id
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupType
from kgroup.model.offset import CommitStore, CommittedOffset
from kgroup.model.problem import Problem
from kgroup.source.base import GroupSource, KafkaOffsets

PartitionKey = TypeVar("PartitionKey", bound=Hashable)

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class CommittedGroups:
    """Groups with their commits to ZooKeeper and Kafka.

    Attributes:
        groups: the groups; those of ZooKeeper consumers include their commits to Kafka.
        stores: store of each commit of ZooKeeper consumers, by group, topic and partition.
    """

    groups: tuple[Group, ...]
    stores: Mapping[tuple[str, str, int], CommitStore]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def kafka_offsets(source: GroupSource, group_ids: Collection[str]) -> KafkaOffsets:
    """Return the commits to Kafka of groups of ZooKeeper consumers; unknown without brokers."""
    if not group_ids:
        return KafkaOffsets({})
    return source.kafka_offsets(group_ids)


def larger(
    zookeeper: Mapping[PartitionKey, int], kafka: Mapping[PartitionKey, int]
) -> dict[PartitionKey, tuple[int, CommitStore]]:
    """Return the committed offset of each partition, the larger of two, and the store it is in."""
    larger = {at: (offset, CommitStore.ZOOKEEPER) for at, offset in zookeeper.items()}
    for at, offset in kafka.items():
        stored = zookeeper.get(at)
        if stored is None or offset > stored:
            larger[at] = offset, CommitStore.KAFKA
        elif offset == stored:
            larger[at] = offset, CommitStore.BOTH
    return larger


def with_kafka_commits(source: GroupSource, groups: Iterable[Group]) -> CommittedGroups:
    """Add the commits to Kafka of groups of ZooKeeper consumers; other groups are unchanged."""
    groups = tuple(groups)
    of_zookeeper = [group for group in groups if group.type is GroupType.ZOOKEEPER]
    in_kafka_offsets = kafka_offsets(source, [group.group_id for group in of_zookeeper])
    kafka: dict[str, dict[TopicPartition, int]] = {}
    for (group_id, topic, partition), offset in (in_kafka_offsets.offsets or {}).items():
        kafka.setdefault(group_id, {})[topic, partition] = offset
    joined, stores = [], {}
    notes = list(_notes_on_silence(of_zookeeper) if in_kafka_offsets.offsets is None else ())
    for group in groups:
        if group.type is not GroupType.ZOOKEEPER:
            joined.append(group)
            continue
        known = {(offset.topic, offset.partition): offset for offset in group.offsets}
        in_zookeeper = {at: commit.committed_offset for at, commit in known.items()}
        in_kafka = kafka.get(group.group_id, {})
        commits = larger(in_zookeeper, in_kafka)
        stores.update({(group.group_id, *at): store for at, (_, store) in commits.items()})
        notes += differing_note(group.group_id, in_zookeeper, in_kafka)
        offsets = tuple(
            CommittedOffset(*at, offset) if store is CommitStore.KAFKA else known[at]
            for at, (offset, store) in sorted(commits.items())
        )
        joined.append(replace(group, offsets=offsets))
    return CommittedGroups(tuple(joined), stores, in_kafka_offsets.problems, tuple(notes))


def differing_note(
    group_id: str, zookeeper: Mapping[PartitionKey, int], kafka: Mapping[PartitionKey, int]
) -> tuple[str, ...]:
    """Return a note if commits in ZooKeeper and Kafka differ, saying which are shown."""
    count = sum(zookeeper.get(at, offset) != offset for at, offset in kafka.items())
    text = (
        f"{shown_id(group_id)}: ZooKeeper and Kafka have different commits for {count} partition"
        f"{'' if count == 1 else 's'}; the larger one, at which consumers with "
        "dual.commit.enabled start, is shown."
    )
    return (text,) if count else ()


def _notes_on_silence(groups: Iterable[Group]) -> Iterator[str]:
    """Yield a note on groups without commits in ZooKeeper, if those in Kafka are unknown."""
    silent = [group.group_id for group in groups if group.members and not group.offsets]
    if silent:
        names = ", ".join(map(repr, silent[:_MOST_NAMES])) + (", …" if silent[_MOST_NAMES:] else "")
        yield (
            f"Nothing is committed to ZooKeeper by {names}; consumers with "
            "offsets.storage=kafka commit to Kafka, whose commits are unknown here."
        )
