"""The threads of a ZooKeeper consumer that find leaders and fetch from them.

Source: `ConsumerFetcherManager`, `ConsumerFetcherThread`, `AbstractFetcherManager` and
`AbstractFetcherThread` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kgroup.assignor.fetcher import fetcher_id
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import TopicPartition
from kgroup.simulation.process import Process
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.simulation.zookeeper.stream import Chunk, PartitionTopicInfo
from kgroup.simulation.zookeeper.thread import Condition, Routine, Thread, sleep

__all__ = ["FetcherManager"]

_IDLE_MS = 200
"""How long a fetcher without partitions waits for some."""
_RESETS = {"smallest": "earliest", "largest": "latest"}


class FetcherManager:
    """One thread that looks for leaders, and a fetcher for each broker and fetcher id.

    Args:
        name: of the consumer, in the timeline.
        process: whose threads they are.
        cluster: from which they fetch.
        config: of the consumer.
    """

    def __init__(
        self, name: str, process: Process, cluster: ZookeeperCluster, config: ZookeeperConfig
    ) -> None:
        self._name = name
        self._process = process
        self._cluster = cluster
        self._config = config
        self._infos: dict[TopicPartition, PartitionTopicInfo] = {}
        self._no_leader: dict[TopicPartition, None] = {}
        self._failed: set[TopicPartition] = set()
        self._finder: Thread | None = None
        self._has_no_leader = Condition()
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}

    def start(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Begin to look for the leaders of partitions, and to fetch (`startConnections`)."""
        self._infos = {info.at: info for info in infos}
        self._no_leader = dict.fromkeys(self._infos)
        self._finder = Thread(self._process, self._find_leaders())

    def stop(self) -> None:
        """End all threads (`stopConnections`)."""
        if self._finder is not None:
            self._finder.stop()
            self._finder = None
        for fetcher in self._fetchers.values():
            fetcher.thread.stop()
        self._fetchers.clear()
        for info in self._infos.values():
            if info.is_begun:
                self._cluster.logs.end(info.at, info.position)
        self._infos, self._no_leader = {}, {}
        self._failed.clear()

    @property
    def is_settled(self) -> bool:
        """Whether everything is fetched from its leader."""
        leaders = {
            at: self._cluster.leaders[at] for at, info in self._infos.items() if info.is_begun
        }
        fetched = {at: broker for at, (broker, _) in self.fetches.items()}
        return len(leaders) == len(self._infos) and fetched == leaders

    @property
    def fetches(self) -> dict[TopicPartition, tuple[int, int]]:
        """Broker and fetcher id by partition, of those that are fetched."""
        return {at: key for key, fetcher in self._fetchers.items() for at in fetcher.offsets}

    # --- the leader finder thread ---------------------------------------------------------------

    def _find_leaders(self) -> Routine[None]:
        while True:
            while not self._no_leader:
                yield self._has_no_leader.wait
            topics = dict.fromkeys(topic for topic, _ in self._no_leader)
            leaders = yield self._cluster.metadata(topics)
            found = {at: leaders[at] for at in self._no_leader if at in leaders}
            for at in found:
                del self._no_leader[at]
            yield from self._fetch_from(found)
            for key in [key for key, each in self._fetchers.items() if not each.offsets]:
                self._fetchers.pop(key).thread.stop()
            yield sleep(self._process, self._config.refresh_leader_backoff_ms)

    def _fetch_from(self, leaders: dict[TopicPartition, int]) -> Routine[None]:
        """Give partitions to the fetchers of their leaders (`addFetcherForPartitions`)."""
        by_broker = defaultdict(list)
        reset = []
        for at, broker in leaders.items():
            info = self._infos[at]
            offset = info.fetched_offset
            if offset is None:
                offset = yield from self.reset(info, broker)
                if offset is None:
                    self._no_leader.update(dict.fromkeys(leaders))
                    return
                reset.append(at)
            if not info.is_begun and self._cluster.logs.has(at, offset):
                self.begin(info, offset)
            key = broker, fetcher_id(*at, self._config.fetchers)
            if key not in self._fetchers:
                self._fetchers[key] = _Fetcher(self, broker)
            self._fetchers[key].offsets.setdefault(at, offset)
            if at in self._failed:
                by_broker[broker].append(at)
        self._note_reset(reset)
        for broker, found in by_broker.items():
            self._failed.difference_update(found)
            self._cluster.note(
                self._name, "leader found", f"broker {broker}", partitions=tuple(found)
            )

    def _note_reset(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            reset = self._config.reset
            self._cluster.note(self._name, "offset reset", reset, None, tuple(partitions))

    def failed(self, errors: dict[TopicPartition, str]) -> None:
        """Look again for the leaders of partitions (`addPartitionsWithError`)."""
        by_error = defaultdict(list)
        for at, error in errors.items():
            by_error[error].append(at)
            self._no_leader[at] = None
            self._failed.add(at)
        for error, found in by_error.items():
            self._cluster.note(self._name, "Fetch", None, error, tuple(found))
        self._has_no_leader.signal()

    # --- what fetchers need ---------------------------------------------------------------------

    def begin(self, info: PartitionTopicInfo, offset: int) -> None:
        """Note where a partition is read from."""
        reset = _RESETS[self._config.reset]
        self._cluster.logs.begin(info.at, offset, reset, info.position)
        info.begin(offset)

    def reset(self, info: PartitionTopicInfo, broker: int) -> Routine[int | None]:
        """Go to an end of the log (`handleOffsetOutOfRange`); None where nobody tells which."""
        offset: int | None = yield self._cluster.list_offset(broker, info.at, self._config.reset)
        if offset is not None:
            self.begin(info, offset)
        return offset

    def fetch(self, fetcher: _Fetcher) -> Routine[None]:
        """Fetch again and again, from one broker (`AbstractFetcherThread.doWork`)."""
        while True:
            if not fetcher.offsets:
                yield sleep(self._process, _IDLE_MS)
                continue
            asked = dict(fetcher.offsets)
            answer = yield self._cluster.fetch(
                fetcher.broker, asked, self._config.fetch_wait_max_ms
            )
            errors, reset = {}, []
            for at, offset in asked.items():
                found = ErrorCode.NETWORK_EXCEPTION if answer is None else answer[at]
                if found is ErrorCode.OFFSET_OUT_OF_RANGE:
                    new = yield from self.reset(self._infos[at], fetcher.broker)
                    if new is None:
                        errors[at] = found.name
                    else:
                        fetcher.offsets[at] = new
                        reset.append(at)
                elif isinstance(found, ErrorCode):
                    errors[at] = found.name
                elif found > offset:
                    info = self._infos[at]
                    yield info.stream.put(Chunk(info, offset, found))
                    fetcher.offsets[at] = info.fetched_offset = found
            self._note_reset(reset)
            if errors:
                for at in errors:
                    del fetcher.offsets[at]
                self.failed(errors)

    def thread(self, routine: Routine[None]) -> Thread:
        """Start a thread."""
        return Thread(self._process, routine)


class _Fetcher:
    """A thread that fetches from one broker; offsets by partition are where it has come to."""

    def __init__(self, manager: FetcherManager, broker: int) -> None:
        self.broker = broker
        self.offsets: dict[TopicPartition, int] = {}
        self.thread = manager.thread(manager.fetch(self))
