"""Configuration and registration of a consumer of Kafka 0.8.

Source: `ConsumerConfig`, `ZKConfig`, `TopicCount` and
`ZookeeperConsumerConnector.registerConsumerInZK` of Kafka 0.8.2.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kgroup.model.cluster import TopicPartition
from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.protocol.zookeeper.topic_filter import INTERNAL_TOPICS, parse_filter


@dataclass(frozen=True, slots=True)
class Registration:
    """A subscription.

    Attributes:
        subscription: number of streams by topic, or by the one expression of a filter.
        pattern: kind of the subscription: topics, white list or black list.
    """

    subscription: Mapping[str, int]
    pattern: SubscriptionPattern = SubscriptionPattern.STATIC

    @property
    def is_static(self) -> bool:
        """Whether the subscription has topics instead of a filter."""
        return self.pattern is SubscriptionPattern.STATIC

    def streams(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the number of streams by topic; for a filter, of the topics that it allows."""
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
        """Return the data of a consumer's node."""
        value = {
            "version": 1,
            "subscription": dict(self.subscription),
            "pattern": str(self.pattern),
            "timestamp": str(timestamp_ms),
        }
        return json.dumps(value)


@lru_cache(4096)
def read_registration(text: str) -> Registration:
    """Read the data of a consumer's node, as written by `Registration.text`."""
    value = json.loads(text)
    return Registration(value["subscription"], SubscriptionPattern(value["pattern"]))


@dataclass(frozen=True, slots=True)
class ZookeeperConfig:
    """Configuration of a consumer, under Kafka's names, with the defaults of 0.8.2.2.

    Attributes:
        group_id: `group.id`.
        registration: subscription, with the number of streams.
        consumer_id: `consumer.id`; None for a generated one.
        session_timeout_ms: `zookeeper.session.timeout.ms`.
        fetchers: `num.consumer.fetchers`, per broker.
        queued_chunks: `queued.max.message.chunks`, per stream.
        reset: `auto.offset.reset`: "largest" or "smallest".
        storage: `offsets.storage`: "zookeeper" or "kafka".
        dual_commit: `dual.commit.enabled`; None: true if `storage` is "kafka".
    """

    group_id: str
    registration: Registration
    consumer_id: str | None = None
    session_timeout_ms: int = 6_000
    rebalance_backoff_ms: int = 2_000
    rebalance_max_retries: int = 4
    auto_commit: bool = True
    auto_commit_interval_ms: int = 60_000
    reset: str = "largest"
    strategy: str = "range"
    fetchers: int = 1
    queued_chunks: int = 2
    fetch_wait_max_ms: int = 100
    refresh_leader_backoff_ms: int = 200
    storage: str = "zookeeper"
    dual_commit: bool | None = None
    offsets_channel_backoff_ms: int = 1_000
    offsets_commit_max_retries: int = 5

    @property
    def is_dual(self) -> bool:
        """Whether offsets are committed to Kafka and ZooKeeper, and the larger one is read."""
        return self.storage == "kafka" if self.dual_commit is None else self.dual_commit


@dataclass(frozen=True, slots=True)
class Registered:
    """A registration that exists when the simulation starts.

    Attributes:
        consumer_id: registered id.
        threads: number of the stream that reads each owned partition.
        offsets: committed offsets of these partitions, where they exist.
    """

    consumer_id: str
    threads: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
