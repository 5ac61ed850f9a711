"""The topics of a cluster at one instant, as a coordinator knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic.

    Attributes:
        topic_id: Kafka's base64url text.
        partitions: how many.
        racks: of each partition, those of its replicas; None where no broker names its rack.
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
        """Return a topic, if it exists."""
        return self._topics.get(name)

    def name_of(self, topic_id: str) -> str | None:
        """Return the name of a topic, if it exists."""
        return self._names.get(topic_id)

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a signed number of 64 bits that is another one when one of some topics changes.

        0 where none of them exists. Kafka's is another hash of the same (`Utils.computeGroupHash`).
        """
        known = [self._topics[name] for name in sorted(names) if name in self._topics]
        if not known:
            return 0
        said = [
            (topic.name, topic.topic_id, topic.partitions, [sorted(r) for r in topic.racks or ()])
            for topic in known
        ]
        return int.from_bytes(blake2b(repr(said).encode(), digest_size=8).digest(), signed=True)

    def changed_since(self, before: TopicImage) -> frozenset[str]:
        """Return the names of topics that were made, changed or deleted."""
        names = self._topics.keys() | before._topics.keys()
        return frozenset(n for n in names if self._topics.get(n) != before._topics.get(n))

    def has_new_since(self, before: TopicImage) -> bool:
        """Return whether a topic was made."""
        return not self._names.keys() <= before._names.keys()
