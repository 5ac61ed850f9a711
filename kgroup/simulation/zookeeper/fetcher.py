"""The fetcher threads of a ZooKeeper consumer, and the streams that they fill.

Source: `PartitionTopicInfo`, `FetchedDataChunk`, `ConsumerIterator`, `ConsumerFetcherManager`,
`ConsumerFetcherThread`, `AbstractFetcherManager` and `AbstractFetcherThread` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgroup.assignor.zookeeper import fetcher_id
from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Process, Timer
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.simulation.zookeeper.thread import ConditionVariable, Lock, Routine, Thread, Wait, sleep


@dataclass(slots=True, eq=False)
class PartitionTopicInfo:
    """A partition in the consumer's topic registry.

    Attributes:
        at: the partition.
        stream: the stream that reads it.
        fetched_offset: next offset to fetch; None if the start is unknown.
        consumed_offset: next offset to consume, while its stream reads no chunk of it; None if
            unknown.
        begun_at: offset of the last start; None if not started.
    """

    at: TopicPartition
    stream: Stream
    fetched_offset: int | None
    consumed_offset: int | None
    begun_at: int | None = None

    def begin(self, offset: int) -> None:
        """Continue from another offset."""
        self.fetched_offset = self.consumed_offset = self.begun_at = offset
        self.stream.pass_over(self)

    @property
    def is_begun(self) -> bool:
        """Whether the start offset is known."""
        return self.begun_at is not None

    @property
    def offset(self) -> int | None:
        """The offset to commit: after the last record that the application received."""
        return self.stream.offset_in(self)

    def position(self, _: int) -> int:
        """Return the position, which is at least the start offset."""
        return max(self.offset or 0, self.begun_at or 0)


@dataclass(frozen=True, slots=True)
class FetchedChunk:
    """Records of one partition from one fetch; `end` is the offset after the last one."""

    info: PartitionTopicInfo
    begin: int
    end: int


class Stream:
    """A queue of chunks, and the application's thread that reads them.

    Args:
        process: the application.
        capacity: capacity of the queue, in chunks; fetchers wait while it is full.
        processing_ms: time to process a chunk.
        poison: slow records: offset and extra processing time in ms, by partition.
        on_poison: called with a slow record's partition and its processing time in ms.
        on_standing: called when `is_late` changes.

    Attributes:
        is_late: processing takes longer than usual.
    """

    def __init__(
        self,
        process: Process,
        capacity: int,
        processing_ms: int,
        poison: Mapping[TopicPartition, tuple[int, int]],
        on_poison: Callable[[TopicPartition, int], None],
        on_standing: Callable[[], None],
    ) -> None:
        self.is_late = False
        self._on_standing = on_standing
        self._process = process
        self._capacity = capacity
        self._processing_ms = processing_ms
        self._poison = poison
        self._on_poison = on_poison
        self._queue: deque[FetchedChunk] = deque()
        self._blocked: deque[tuple[FetchedChunk, Callable[[Any], None]]] = deque()
        self._chunk: FetchedChunk | None = None
        self._begun_ms = 0
        self._busy: Timer | None = None
        """Timer until the application takes the next chunk."""

    def put(self, chunk: FetchedChunk) -> Wait:
        """Enqueue a chunk; wait while the queue is full."""

        def begin(on_done: Callable[[Any], None]) -> None:
            if len(self._queue) < self._capacity:
                self._queue.append(chunk)
                self._take()
                on_done(None)
            else:
                self._blocked.append((chunk, on_done))

        return begin

    def clear(self) -> None:
        """Drop all chunks, including the rest of the current one."""
        if self._chunk is not None:
            info = self._chunk.info
            info.consumed_offset = self.offset_in(info)
            if info.at not in self._poison and self._busy is not None:
                self._end_busy()
        self._chunk = None
        self._queue.clear()
        self._blocked.clear()

    def be_busy(self, duration_ms: int) -> None:
        """Make the application busy before it takes the next chunk."""
        if self._chunk is not None:
            self._chunk.info.consumed_offset = self._chunk.end
            self._chunk = None
        self._end_busy()
        self._be_late()
        self._busy = self._process.after(duration_ms, self._done)

    def _be_late(self) -> None:
        self.is_late = True
        self._on_standing()

    def _end_busy(self) -> None:
        if self._busy is not None:
            self._busy.cancel()
            self._busy = None
        if self.is_late:
            self.is_late = False
            self._on_standing()

    def _take(self) -> None:
        if self._busy is not None or not self._queue:
            return
        chunk = self._queue.popleft()
        if self._blocked:
            waiting, on_done = self._blocked.popleft()
            self._queue.append(waiting)
            on_done(None)
        chunk = self._begin(chunk)
        busy_ms = self._processing_ms
        offset, slow_ms = self._poison.get(chunk.info.at, (-1, 0))
        if chunk.begin <= offset < chunk.end:
            busy_ms += slow_ms
            self._on_poison(chunk.info.at, slow_ms)
            self._be_late()
        self._busy = self._process.after(busy_ms, self._done)

    def _begin(self, chunk: FetchedChunk) -> FetchedChunk:
        """Start to read a chunk at the consumed offset; at least its last record is read.

        Kafka: `ConsumerIterator.makeNext`.
        """
        begin = max(chunk.begin, chunk.info.consumed_offset or 0)
        self._chunk = replace(chunk, begin=min(begin, chunk.end - 1))
        self._begun_ms = self._process.clock.now_ms
        return self._chunk

    def pass_over(self, info: PartitionTopicInfo) -> None:
        """Skip records of the current chunk below the partition's consumed offset."""
        if self._chunk is not None and self._chunk.info is info:
            self._begin(self._chunk)

    def _done(self) -> None:
        if self._chunk is not None:
            self._chunk.info.consumed_offset = self._chunk.end
        self._chunk = None
        self._end_busy()
        self._take()

    def offset_in(self, info: PartitionTopicInfo) -> int | None:
        """Return the position in a partition; a chunk is read at a steady rate."""
        chunk = self._chunk
        if chunk is None or chunk.info is not info:
            return info.consumed_offset
        offset, _ = self._poison.get(info.at, (-1, 0))
        if chunk.begin <= offset < chunk.end:
            return offset + 1
        since_ms = self._process.clock.now_ms - self._begun_ms
        given = 1 + since_ms * (chunk.end - chunk.begin) // max(self._processing_ms, 1)
        return min(chunk.begin + given, chunk.end)


_RESETS = {"smallest": "earliest", "largest": "latest"}


class FetcherManager:
    """The leader finder thread, and one fetcher for each broker and fetcher id.

    Args:
        name: name of the consumer in the timeline.
        process: the application.
        cluster: the simulated cluster.
        zookeeper: the consumer's ZooKeeper client.
        config: configuration of the consumer.
    """

    def __init__(
        self,
        name: str,
        process: Process,
        cluster: ZookeeperCluster,
        zookeeper: Client,
        config: ZookeeperConfig,
    ) -> None:
        self._name = name
        self._process = process
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._config = config
        self._infos: dict[TopicPartition, PartitionTopicInfo] = {}
        self._no_leader: dict[TopicPartition, None] = {}
        self._lock = Lock()
        """Protects `_no_leader`; held while leaders are looked up."""
        self._has_no_leader = ConditionVariable(self._lock)
        self._failed: set[TopicPartition] = set()
        self._finder: Thread | None = None
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}

    def start(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Start to look up leaders and fetch partitions (`startConnections`)."""
        self._infos = {info.at: info for info in infos}
        self._no_leader = dict.fromkeys(self._infos)
        self._lock = Lock()  # a stopped thread may still hold the old one
        self._has_no_leader = ConditionVariable(self._lock)
        self._finder = Thread(self._process, self._find_leaders())

    def stop(self) -> None:
        """Stop all threads (`stopConnections`)."""
        if self._finder is not None:
            self._finder.stop()
            self._finder = None
        for fetcher in self._fetchers.values():
            fetcher.thread.stop()
        self._fetchers.clear()
        logs = self._cluster.logs
        for info in self._infos.values():
            if info.is_begun:
                logs.end(logs.row(info.at), info.position)
        self._infos, self._no_leader = {}, {}
        self._failed.clear()

    @property
    def is_settled(self) -> bool:
        """Whether all partitions are fetched from their leaders."""
        leaders = {
            at: self._cluster.leaders[at] for at, info in self._infos.items() if info.is_begun
        }
        fetched = {at: broker for at, (broker, _) in self.fetches.items()}
        return len(leaders) == len(self._infos) and fetched == leaders

    @property
    def fetches(self) -> dict[TopicPartition, tuple[int, int]]:
        """Broker and fetcher id by partition, for partitions that are fetched."""
        return {at: key for key, fetcher in self._fetchers.items() for at in fetcher.offsets}

    # --- the leader finder thread ---------------------------------------------------------------

    def _find_leaders(self) -> Routine[None]:
        while True:
            yield self._lock.acquire
            while not self._no_leader:
                yield self._has_no_leader.wait
            yield from self._zookeeper.brokers()
            topics = dict.fromkeys(topic for topic, _ in self._no_leader)
            leaders = yield self._cluster.metadata(topics)
            known = {at: leaders[at] for at in self._no_leader if at in leaders}
            for at in known:
                del self._no_leader[at]
            self._lock.release()
            yield from self._fetch_from(known)
            yield from self._stop_idle()
            yield sleep(self._process, self._config.refresh_leader_backoff_ms)

    def _fetch_from(self, leaders: dict[TopicPartition, int]) -> Routine[None]:
        """Add partitions to the fetchers of their leaders (`addFetcherForPartitions`)."""
        by_fetcher = defaultdict(list)
        for at, broker in leaders.items():
            by_fetcher[broker, fetcher_id(*at, self._config.fetchers)].append(at)
        by_broker: dict[int, list[TopicPartition]] = defaultdict(list)
        for key, partitions in by_fetcher.items():
            if key not in self._fetchers:
                self._fetchers[key] = _Fetcher(self, key[0])
            if not (yield from self._fetchers[key].add([self._infos[at] for at in partitions])):
                yield self._lock.acquire
                self._no_leader.update(dict.fromkeys(leaders))
                self._lock.release()
                return
            by_broker[key[0]] += [at for at in partitions if at in self._failed]
        for broker, failed in by_broker.items():
            if failed:
                self._failed.difference_update(failed)
                text = f"broker {broker}"
                self._cluster.note(self._name, "leader found", text, partitions=tuple(failed))

    def _stop_idle(self) -> Routine[None]:
        """Stop fetchers without partitions (`shutdownIdleFetcherThreads`)."""
        for key, fetcher in list(self._fetchers.items()):
            yield fetcher.lock.acquire
            is_idle = not fetcher.offsets
            fetcher.lock.release()
            if is_idle:
                self._fetchers.pop(key).thread.stop()

    # --- methods for fetchers ---------------------------------------------------------------------

    def failed(self, errors: dict[TopicPartition, ErrorCode]) -> Routine[None]:
        """Look up the leaders of partitions again (`addPartitionsWithError`)."""
        by_error = defaultdict(list)
        for at, error in errors.items():
            by_error[error.name].append(at)
            self._failed.add(at)
        for name, partitions in by_error.items():
            self._cluster.note(self._name, "Fetch", None, name, tuple(partitions))
        yield self._lock.acquire
        self._no_leader.update(dict.fromkeys(errors))
        self._has_no_leader.signal()
        self._lock.release()

    def begin(self, info: PartitionTopicInfo, offset: int) -> None:
        """Record the start of reading a partition."""
        reset, logs = _RESETS[self._config.reset], self._cluster.logs
        logs.begin(logs.row(info.at), offset, reset, info.position)
        info.begin(offset)

    def reset(self, info: PartitionTopicInfo, broker: int) -> Routine[int | None]:
        """Seek to the reset offset (`handleOffsetOutOfRange`); return None if it is unknown."""
        offset: int | None = yield self._cluster.list_offset(broker, info.at, self._config.reset)
        if offset is not None:
            self.begin(info, offset)
        return offset

    def note_reset(self, partitions: list[TopicPartition]) -> None:
        """Record that positions of partitions were reset."""
        if partitions:
            reset = self._config.reset
            self._cluster.note(self._name, "offset reset", reset, None, tuple(partitions))

    def fetch(self, broker: int, offsets: dict[TopicPartition, int]) -> Wait:
        """Request records."""
        return self._cluster.fetch(broker, offsets, self._config.fetch_wait_max_ms)

    def has(self, at: TopicPartition, offset: int) -> bool:
        """Return whether an offset is in range for a fetch."""
        logs = self._cluster.logs
        return logs.has(logs.row(at), offset)

    def info(self, at: TopicPartition) -> PartitionTopicInfo:
        """Return the registry entry of a partition."""
        return self._infos[at]

    def thread(self, routine: Routine[None]) -> Thread:
        """Start a thread."""
        return Thread(self._process, routine)


class _Fetcher:
    """A thread that fetches from one broker (`AbstractFetcherThread`).

    Attributes:
        offsets: next offset to fetch, by partition.
        lock: protects `offsets` (`partitionMapLock`); held while fetched chunks are enqueued.
    """

    def __init__(self, manager: FetcherManager, broker: int) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.lock = Lock()
        self._has_partitions = ConditionVariable(self.lock)
        self._manager = manager
        self._broker = broker
        self.thread = manager.thread(self._run())

    def add(self, infos: Iterable[PartitionTopicInfo]) -> Routine[bool]:
        """Add partitions (`addPartitions`); return whether all start offsets are known."""
        reset = []
        offset: int | None = 0
        yield self.lock.acquire
        for info in infos:
            if info.at in self.offsets:
                continue
            if (offset := info.fetched_offset) is None:
                if (offset := (yield from self._manager.reset(info, self._broker))) is None:
                    break
                reset.append(info.at)
            if not info.is_begun and self._manager.has(info.at, offset):
                self._manager.begin(info, offset)
            self.offsets[info.at] = offset
        self._manager.note_reset(reset)
        self._has_partitions.signal()
        self.lock.release()
        return offset is not None

    def _run(self) -> Routine[None]:
        """Fetch in a loop (`doWork`)."""
        while True:
            yield self.lock.acquire
            while not self.offsets:
                yield self._has_partitions.wait
            asked = dict(self.offsets)
            self.lock.release()
            answer = yield self._manager.fetch(self._broker, asked)
            yield self.lock.acquire
            if answer is None:
                errors = dict.fromkeys(self.offsets, ErrorCode.NETWORK_EXCEPTION)
            else:
                errors = yield from self._take(asked, answer)
            for at in errors:
                del self.offsets[at]
            self.lock.release()
            if errors:
                yield from self._manager.failed(errors)

    def _take(
        self, asked: dict[TopicPartition, int], answer: dict[TopicPartition, ErrorCode | int]
    ) -> Routine[dict[TopicPartition, ErrorCode]]:
        """Enqueue fetched chunks (`processFetchRequest`); return errors by partition."""
        errors: dict[TopicPartition, ErrorCode] = {}
        reset = []
        for at, offset in asked.items():
            code, info = answer[at], self._manager.info(at)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                new = yield from self._manager.reset(info, self._broker)
                if new is None:
                    errors[at] = code
                else:
                    self.offsets[at] = new
                    reset.append(at)
            elif isinstance(code, ErrorCode):
                errors[at] = code
            elif code > offset:
                yield info.stream.put(FetchedChunk(info, offset, code))
                self.offsets[at] = info.fetched_offset = code
        self._manager.note_reset(reset)
        return errors
