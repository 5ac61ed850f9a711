"""Where a consumer on ZooKeeper keeps its offsets: there, in Kafka, or in both.

Source: `ZookeeperConsumerConnector.commitOffsets` and `fetchOffsets` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kgroup.simulation.message import TopicPartition
from kgroup.simulation.process import Process
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.simulation.zookeeper.thread import Routine, sleep

__all__ = ["OffsetStore"]


class OffsetStore:
    """The offsets of a consumer's group, as the consumer writes and reads them.

    Args:
        name: of the consumer, in the timeline.
        process: whose threads commit.
        cluster: which keeps offsets, too.
        config: of the consumer.
        zookeeper: its client.
        positions: tells how far the consumer has come in its partitions.
        is_stopping: tells whether the program is about to end.
    """

    def __init__(
        self,
        name: str,
        process: Process,
        cluster: ZookeeperCluster,
        config: ZookeeperConfig,
        zookeeper: Client,
        positions: Callable[[], Mapping[TopicPartition, int]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._name = name
        self._process = process
        self._cluster = cluster
        self._config = config
        self._zookeeper = zookeeper
        self._positions = positions
        self._is_stopping = is_stopping
        self._checkpoints: dict[TopicPartition, int | None] = {}

    def know(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note what is committed: it is not written again (`checkpointedZkOffsets`)."""
        self._checkpoints.update(offsets)

    def commit(self, tries: int = 1) -> Routine[bool]:
        """Commit how far the consumer has come, where that has changed; tell if it could."""
        config = self._config
        while tries:
            tries -= 1
            offsets = self._positions()
            if not offsets:
                return False
            if config.storage == "kafka":
                if not (yield self._cluster.commit(offsets)):
                    error = "COORDINATOR_NOT_AVAILABLE"
                    self._cluster.note(self._name, "OffsetCommit", None, error)
                    if tries:
                        yield sleep(self._process, config.offsets_channel_backoff_ms)
                    continue
                if not config.is_dual:
                    return True
            for at, offset in offsets.items():
                if self._checkpoints.get(at) != offset:
                    yield from self._zookeeper.write(
                        self._cluster.path("offsets", *at), str(offset)
                    )
                    self._checkpoints[at] = offset
            return True
        return False

    def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> Routine[dict[TopicPartition, int | None] | None]:
        """Read what is committed; None where the program ends meanwhile."""
        config = self._config
        found: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        if not found:
            return found
        if config.storage == "kafka":
            while (answer := (yield self._cluster.committed(found))) is None:
                if self._is_stopping():
                    return None
                yield sleep(self._process, config.offsets_channel_backoff_ms)
            found.update(answer)
        if config.storage == "zookeeper" or config.is_dual:
            for at, offset in found.items():
                data = yield from self._zookeeper.read(self._cluster.path("offsets", *at))
                if data is not None:
                    found[at] = max(int(data), -1 if offset is None else offset)
        return found
