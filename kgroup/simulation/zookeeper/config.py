"""How a consumer of Kafka 0.8 is configured.

Source: `ConsumerConfig` and `ZKConfig` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.simulation.message import TopicPartition
from kgroup.simulation.zookeeper.registration import Registration


@dataclass(frozen=True, slots=True)
class ZookeeperConfig:
    """How a consumer is configured, by Kafka's names; defaults are those of 0.8.2.2.

    Attributes:
        group_id: `group.id`.
        registration: which topics it reads, with how many streams.
        consumer_id: `consumer.id`; None: one that nobody else has.
        session_timeout_ms: `zookeeper.session.timeout.ms`.
        fetchers: `num.consumer.fetchers`, for each broker.
        queued_chunks: `queued.max.message.chunks`, of each stream.
        reset: `auto.offset.reset`: "largest" or "smallest".
        storage: `offsets.storage`: "zookeeper" or "kafka".
        dual_commit: `dual.commit.enabled`; None: where `storage` is "kafka".
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
        """Whether offsets in Kafka are committed to ZooKeeper too, and the larger one is read."""
        return self.storage == "kafka" if self.dual_commit is None else self.dual_commit


@dataclass(frozen=True, slots=True)
class Registered:
    """Where a consumer stands that is in its group already.

    Attributes:
        consumer_id: by which it is registered.
        threads: number of the stream that reads each of the partitions that it owns.
        offsets: of these, as far as they are committed.
    """

    consumer_id: str
    threads: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
