"""The topics of a cluster at one instant, as a coordinator knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from kgroup.model.cluster import TopicPartition, partitions_of
from kgroup.simulation.consumer.message import NumbersByTopic


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic.

    Attributes:
        topic_id: topic id (base64url).
        partitions: number of partitions.
        racks: racks of the replicas of each partition; None if brokers have no racks.
    """

    name: str
    topic_id: str
    partitions: int
    racks: tuple[frozenset[str], ...] | None = None


class TopicImage:
    """All topics of a cluster."""

    def __init__(self, topics: Iterable[KnownTopic] = ()) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._names = {topic.topic_id: topic.name for topic in self._topics.values()}

    def __iter__(self) -> Iterator[KnownTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> KnownTopic | None:
        """Return a topic; None if it does not exist."""
        return self._topics.get(name)

    def name_of(self, topic_id: str) -> str | None:
        """Return the name of a topic; None if it does not exist."""
        return self._names.get(topic_id)

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a signed 64-bit hash that changes when one of these topics changes.

        It is 0 if none of them exists. Kafka uses another hash function (`Utils.computeGroupHash`).
        """
        known = [self._topics[name] for name in sorted(names) if name in self._topics]
        if not known:
            return 0
        described = [
            (topic.name, topic.topic_id, topic.partitions, [sorted(r) for r in topic.racks or ()])
            for topic in known
        ]
        return int.from_bytes(
            blake2b(repr(described).encode(), digest_size=8).digest(), signed=True
        )

    def changed_since(self, before: TopicImage) -> frozenset[str]:
        """Return the names of topics that were created, changed or deleted."""
        names = self._topics.keys() | before._topics.keys()
        return frozenset(n for n in names if self._topics.get(n) != before._topics.get(n))

    def has_new_since(self, before: TopicImage) -> bool:
        """Return whether a topic was created."""
        return not self._names.keys() <= before._names.keys()


def named(topics: TopicImage, partitions: NumbersByTopic) -> NumbersByTopic:
    """Return partitions of existing topics by topic name."""
    return {topics._names[topic_id]: numbers for topic_id, numbers in partitions.items()}


def in_order(partitions: NumbersByTopic) -> tuple[TopicPartition, ...]:
    """Return partitions by topic name, sorted."""
    return _in_order(frozenset(partitions.items()))


@lru_cache(maxsize=64)  # the coordinator and a member name the same assignment
def _in_order(partitions: frozenset[tuple[str, frozenset[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(partitions_of((name, sorted(numbers)) for name, numbers in sorted(partitions)))
