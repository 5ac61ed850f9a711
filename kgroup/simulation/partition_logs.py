"""What is in partitions, and how far it was read."""

from __future__ import annotations

import sys
from collections.abc import Callable

from kgroup.simulation.clock import Clock
from kgroup.simulation.message import TopicPartition


class PartitionLogs:
    """Records that come at a steady rate; only their offsets are known.

    Args:
        clock: the time.
        rate: records a second that come to each partition.

    Attributes:
        ends: offsets that partitions had when it began, where they had any.
        is_held: whether records that come are not replicated, so that nobody can read them yet.
        readers: by partition, who reads it now: functions that say how far they have come, with
            the offsets where they began.
    """

    def __init__(self, clock: Clock, rate: float) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.readers: dict[TopicPartition, dict[Callable[[TopicPartition], int], int]] = {}
        self.is_held = False
        self._clock = clock
        self._rate = rate
        self._holds: list[tuple[int, int]] = []
        self._created_ms: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, list[tuple[int, int]]] = {}

    def create(self, partition: TopicPartition) -> None:
        """Note a partition that is new."""
        self._created_ms[partition] = self._clock.now_ms

    def hold(self, *, is_held: bool) -> None:
        """Note whether high watermarks stay where they are from now on."""
        if is_held is self.is_held:
            return
        self.is_held, now_ms = is_held, self._clock.now_ms
        if is_held:
            self._holds.append((now_ms, sys.maxsize))
        else:
            self._holds[-1] = (self._holds[-1][0], now_ms)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._created_ms

    def start_offset(self, partition: TopicPartition) -> int:
        """Return the offset of the first record that is still there."""
        return self._starts.get(partition, 0)

    def delete_records(self, partition: TopicPartition) -> int:
        """Delete all records, as retention does; return the offset that it starts from then."""
        self._starts[partition] = self.end_offset(partition)
        return self._starts[partition]

    def end_offset(self, partition: TopicPartition, at_ms: int | None = None) -> int:
        """Return the high watermark, now or at a time: the next record that can be read has it."""
        now_ms = self._clock.now_ms if at_ms is None else at_ms
        now_ms = next((begin for begin, end in self._holds if begin <= now_ms < end), now_ms)
        since_ms = max(now_ms - self._created_ms[partition], 0)
        return self.ends.get(partition, 0) + int(since_ms * self._rate / 1000)

    def has(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether somebody may read from an offset on."""
        return self.start_offset(partition) <= offset <= self.end_offset(partition)

    def written_ms(self, partition: TopicPartition, offset: int) -> int | None:
        """Return when a partition gets a record that it does not have yet; None: it never does."""
        if not self._rate:
            return None
        behind = offset - self.ends.get(partition, 0) + 1
        return self._created_ms[partition] + -int(-behind * 1000 // self._rate)

    def was_read(self, partition: TopicPartition, offset: int) -> None:
        """Note that everything before an offset was read before it all began."""
        self._read.setdefault(partition, []).append((0, offset))

    def begin(
        self,
        partition: TopicPartition,
        offset: int | None,
        reset: str,
        position: Callable[[TopicPartition], int],
    ) -> int:
        """Let somebody begin to read; who reads already goes on from elsewhere.

        Args:
            partition: which.
            offset: that was committed; None: none was.
            reset: "latest" or "earliest": where to begin without a commit, and where the record is
                not there.
            position: tells how far the reader has come.

        Returns:
            The offset.
        """
        if offset is None or not self.has(partition, offset):
            is_latest = reset == "latest"
            offset = self.end_offset(partition) if is_latest else self.start_offset(partition)
        readers = self.readers.setdefault(partition, {})
        if position in readers:
            self.end(partition, position)
        readers[position] = offset
        return offset

    def end(self, partition: TopicPartition, position: Callable[[TopicPartition], int]) -> None:
        """Let somebody read no more."""
        begin = self.readers[partition].pop(position)
        self._read.setdefault(partition, []).append((begin, position(partition)))

    def is_read_to(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether somebody who reads it has come to an offset, if anybody reads it."""
        readers = self.readers.get(partition)
        return not readers or any(position(partition) >= offset for position in readers)

    def again_and_skipped(self, partition: TopicPartition) -> tuple[int, int]:
        """Return how many records were read once more, and how many nobody has read until now.

        Two that read the same at one time read it twice. What lies behind all that was read was not
        skipped.
        """
        reading = self.readers.get(partition, {}).items()
        spans = [*self._read.get(partition, ()), *((at, of(partition)) for of, at in reading)]
        once = skipped = read_to = 0
        for begin, end in sorted(spans):
            skipped += max(begin - read_to, 0)
            once += max(end - max(begin, read_to), 0)
            read_to = max(read_to, end)
        return sum(end - begin for begin, end in spans) - once, skipped
