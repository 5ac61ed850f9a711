"""What a consumer registers in ZooKeeper: which topics it reads, with how many streams.

Source: `TopicCount` and `ZookeeperConsumerConnector.registerConsumerInZK` of Kafka 0.8.2.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.protocol.zookeeper.topic_filter import INTERNAL_TOPICS, parse_filter


@dataclass(frozen=True, slots=True)
class Registration:
    """A subscription.

    Attributes:
        subscription: streams by topic, or by the one expression of a filter.
        pattern: which of these.
    """

    subscription: Mapping[str, int]
    pattern: SubscriptionPattern = SubscriptionPattern.STATIC

    @property
    def is_static(self) -> bool:
        """Whether it names topics."""
        return self.pattern is SubscriptionPattern.STATIC

    def streams(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the number of streams by topic; of a filter for those of the topics it allows."""
        if self.is_static:
            return self.subscription
        ((text, count),) = self.subscription.items()
        pattern = parse_filter(text)
        is_white = self.pattern is SubscriptionPattern.WHITE_LIST
        return {
            topic: count
            for topic in topics
            if topic not in INTERNAL_TOPICS
            if (pattern.fullmatch(topic) is not None) is is_white
        }

    def text(self, timestamp_ms: int) -> str:
        """Write a consumer's node."""
        value = {
            "version": 1,
            "subscription": dict(self.subscription),
            "pattern": str(self.pattern),
            "timestamp": str(timestamp_ms),
        }
        return json.dumps(value)


@lru_cache(4096)
def read_registration(text: str) -> Registration:
    """Read a consumer's node, as `Registration.text` has written it."""
    value = json.loads(text)
    return Registration(value["subscription"], SubscriptionPattern(value["pattern"]))
