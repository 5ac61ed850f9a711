"""The offset storage of a consumer on ZooKeeper: ZooKeeper, Kafka, or both.

Source: `ZookeeperConsumerConnector.commitOffsets` and `fetchOffsets` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Process
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.simulation.zookeeper.thread import Lock, Routine, sleep


class ConsumerOffsetStore:
    """Writes and reads the committed offsets of a consumer.

    Args:
        name: name of the consumer in the timeline.
        process: the application.
        cluster: the simulated cluster.
        config: configuration of the consumer.
        zookeeper: the consumer's ZooKeeper client.
        positions: returns the current positions.
        is_stopping: returns whether the application is shutting down.
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
        self._manager: int | None = None
        """The connected offset manager; None if there is no connection."""
        self._lock = Lock()
        """Protects that connection: `offsetsChannelLock`."""

    def know(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Remember committed offsets, to skip writing them again (`checkpointedZkOffsets`)."""
        self._checkpoints.update(offsets)

    def connect(self) -> Routine[None]:
        """Look up the offset manager, with retries without limit.

        Kafka: `ensureOffsetManagerConnected`.
        """
        config = self._config
        if config.storage != "kafka" or self._manager is not None:
            return
        yield from self._zookeeper.brokers()
        while (manager := (yield self._cluster.offset_manager())) is None:
            yield sleep(self._process, config.offsets_channel_backoff_ms)
        self._manager = manager

    def _disconnect(self, request: str, error: ErrorCode) -> None:
        """Drop the connection after an error; the next use looks up the offset manager."""
        self._manager = None
        self._cluster.note(self._name, request, None, error.name)

    def commit(self, *, may_retry: bool = True) -> Routine[bool]:
        """Commit changed positions; return whether offsets were committed.

        A failed commit is retried only during shutdown, if `may_retry` is set.
        """
        tries = 1 + self._config.offsets_commit_max_retries if may_retry else 1
        while (count := (yield from self._commit_once())) is None:
            tries -= 1
            if not tries or not self._is_stopping():
                return False
            yield sleep(self._process, self._config.offsets_channel_backoff_ms)
        return count > 0

    def _commit_once(self) -> Routine[int | None]:
        """Return the number of offsets to commit; None if the commit failed."""
        config = self._config
        yield self._lock.acquire
        try:
            offsets = self._positions()
            if offsets and config.storage == "kafka":
                yield from self.connect()
                assert self._manager is not None
                error = yield self._cluster.commit(self._manager, offsets)
                if error is not None:
                    self._disconnect("OffsetCommit", error)
                    return None
            if config.storage == "zookeeper" or config.is_dual:
                yield from self._write(offsets)
            return len(offsets)
        finally:
            self._lock.release()

    def _write(self, offsets: Mapping[TopicPartition, int]) -> Routine[None]:
        for at, offset in offsets.items():
            if self._checkpoints.get(at) != offset:
                path = self._cluster.path("offsets", *at)
                yield from self._zookeeper.write(path, str(offset))
                self._checkpoints[at] = offset

    def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> Routine[dict[TopicPartition, int | None] | None]:
        """Return committed offsets; None if the application shuts down in the meantime."""
        offsets: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        if not offsets:
            return offsets
        if self._config.storage == "zookeeper":
            yield from self._read(offsets)
            return offsets
        while not self._is_stopping():
            if (yield from self._fetch_once(offsets)):
                return offsets
            yield sleep(self._process, self._config.offsets_channel_backoff_ms)
        return None

    def _fetch_once(self, offsets: dict[TopicPartition, int | None]) -> Routine[bool]:
        """Fetch offsets from Kafka, and with dual commit from ZooKeeper; False on an error."""
        yield self._lock.acquire
        try:
            yield from self.connect()
            assert self._manager is not None
            answer = yield self._cluster.committed(self._manager, offsets)
            if isinstance(answer, ErrorCode):
                self._disconnect("OffsetFetch", answer)
                return False
            offsets.update(answer)
            if self._config.is_dual:
                yield from self._read(offsets)
            return True
        finally:
            self._lock.release()

    def _read(self, offsets: dict[TopicPartition, int | None]) -> Routine[None]:
        """Read offsets from ZooKeeper, and keep the larger ones."""
        for at, offset in offsets.items():
            data = yield from self._zookeeper.read(self._cluster.path("offsets", *at))
            if data is not None:
                offsets[at] = int(data) if offset is None else max(int(data), offset)
