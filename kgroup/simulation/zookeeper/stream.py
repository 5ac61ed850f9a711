"""Streams of a ZooKeeper consumer, and how far it has come in its partitions.

Source: `PartitionTopicInfo`, `FetchedDataChunk` and `ConsumerIterator` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgroup.simulation.clock import Timer
from kgroup.simulation.message import TopicPartition
from kgroup.simulation.process import Process
from kgroup.simulation.zookeeper.thread import Wait


@dataclass(slots=True, eq=False)
class PartitionTopicInfo:
    """A partition in the consumer's topic registry.

    Attributes:
        at: which.
        stream: that reads it.
        fetched_offset: behind what was fetched; None: it is not known where to begin.
        consumed_offset: behind what the program was given, when its stream is at none of its
            chunks; likewise.
        begun_at: offset where it has begun, the last time; None: not yet.
    """

    at: TopicPartition
    stream: Stream
    fetched_offset: int | None
    consumed_offset: int | None
    begun_at: int | None = None

    def begin(self, offset: int) -> None:
        """Go on from another offset."""
        self.fetched_offset = self.consumed_offset = self.begun_at = offset
        self.stream.pass_over(self)

    @property
    def is_begun(self) -> bool:
        """Whether it was found where to begin."""
        return self.begun_at is not None

    @property
    def offset(self) -> int | None:
        """Behind the last record that the program was given: what is committed."""
        return self.stream.offset_in(self)

    def position(self, _: TopicPartition) -> int:
        """Return the same, of one that has begun; of what was fetched before nothing counts."""
        return max(self.offset or 0, self.begun_at or 0)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition that were fetched together: offsets, the last one behind them."""

    info: PartitionTopicInfo
    begin: int
    end: int


class Stream:
    """A queue of chunks, and the program's thread that takes records from it.

    Args:
        process: the program.
        capacity: chunks that the queue holds; a fetcher waits until there is room.
        processing_ms: that the program takes for a chunk.
        poison: records by partition that take longer, and how long, in milliseconds.
        on_poison: is told with which partition's the program is busy, and how long.
        on_standing: is told when `is_late` changes.

    Attributes:
        is_late: whether the program is busy for longer than it takes for a chunk.
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
        self._queue: deque[Chunk] = deque()
        self._blocked: deque[tuple[Chunk, Callable[[Any], None]]] = deque()
        self._chunk: Chunk | None = None
        self._begun_ms = 0
        self._busy: Timer | None = None
        """Until when the program does not ask for the next record."""

    def put(self, chunk: Chunk) -> Wait:
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
        """Drop all chunks, and what is left of the one that is being read."""
        if self._chunk is not None:
            info = self._chunk.info
            info.consumed_offset = self.offset_in(info)
            if info.at not in self._poison and self._busy is not None:
                self._end_busy()
        self._chunk = None
        self._queue.clear()
        self._blocked.clear()

    def be_busy(self, duration_ms: int) -> None:
        """Let the program do something else before it takes the next chunk."""
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

    def _begin(self, chunk: Chunk) -> Chunk:
        """Read what lies behind the consumed offset, and the last record anyhow.

        Kafka: `ConsumerIterator.makeNext`.
        """
        begin = max(chunk.begin, chunk.info.consumed_offset or 0)
        self._chunk = replace(chunk, begin=min(begin, chunk.end - 1))
        self._begun_ms = self._process.clock.now_ms
        return self._chunk

    def pass_over(self, info: PartitionTopicInfo) -> None:
        """Have the program get nothing more from before a partition's consumed offset."""
        if self._chunk is not None and self._chunk.info is info:
            self._begin(self._chunk)

    def _done(self) -> None:
        if self._chunk is not None:
            self._chunk.info.consumed_offset = self._chunk.end
        self._chunk = None
        self._end_busy()
        self._take()

    def offset_in(self, info: PartitionTopicInfo) -> int | None:
        """Return how far it has come in a partition; a chunk is read at a steady pace."""
        chunk = self._chunk
        if chunk is None or chunk.info is not info:
            return info.consumed_offset
        offset, _ = self._poison.get(info.at, (-1, 0))
        if chunk.begin <= offset < chunk.end:
            return offset + 1
        since_ms = self._process.clock.now_ms - self._begun_ms
        given = 1 + since_ms * (chunk.end - chunk.begin) // max(self._processing_ms, 1)
        return min(chunk.begin + given, chunk.end)
