"""Offsets of simulated partitions, and how far consumers have read them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.clock import Clock
from kgroup.simulation.message import CommittedPartition


class PartitionLogs:
    """Partitions that receive records at a steady rate; only offsets are stored.

    Args:
        clock: the clock of the simulation.
        rate: records per second and partition.

    Attributes:
        ends: initial log end offsets of partitions that had records at the start.
        is_held: new records are not replicated, so they cannot be read yet.
        readers: current readers: functions that return their position in a partition, with the
            offset at which each began in each of its partitions.
    """

    def __init__(self, clock: Clock, rate: float) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.readers: dict[Callable[[TopicPartition], int], dict[TopicPartition, int]] = {}
        self.is_held = False
        self._clock = clock
        self._rate = rate
        self._holds: list[tuple[int, int]] = []
        self._created_ms: dict[TopicPartition, int] = {}
        self._times_ms: set[int] = set()
        """All times at which partitions were created."""
        self._starts: dict[TopicPartition, int] = {}
        self._read_to: dict[TopicPartition, int] = {}
        """Offset up to which the last reader of each partition read; absent: 0."""
        self._jumps: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Where readers did not begin at that offset: that offset, and where they began."""

    def create(self, partition: TopicPartition) -> None:
        """Add a new partition."""
        self._created_ms[partition] = self._clock.now_ms
        self._times_ms.add(self._clock.now_ms)

    def hold(self, *, is_held: bool) -> None:
        """Stop or resume the advance of high watermarks."""
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
        """Return the log start offset."""
        return self._starts.get(partition, 0)

    def delete_records(self, partition: TopicPartition) -> int:
        """Delete all records, as retention does; return the new log start offset."""
        self._starts[partition] = self.end_offset(partition)
        return self._starts[partition]

    def end_offset(self, partition: TopicPartition, at_ms: int | None = None) -> int:
        """Return the high watermark, now or at a time."""
        now_ms = self._clock.now_ms if at_ms is None else at_ms
        if self._holds:  # rarely; this is called for each poll of each partition
            now_ms = self._replicated_ms(now_ms)
        end, since_ms = self.ends.get(partition, 0), now_ms - self._created_ms[partition]
        return end + int(since_ms * self._rate / 1000) if since_ms > 0 else end

    def _replicated_ms(self, at_ms: int) -> int:
        """Return until when records are replicated at a time."""
        return next((begin for begin, end in self._holds if begin <= at_ms < end), at_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], at_ms: int | None = None
    ) -> list[int]:
        """Return the high watermark of each of many partitions, now or at a time."""
        now_ms = self._replicated_ms(self._clock.now_ms if at_ms is None else at_ms)
        grown = {
            created_ms: max(int((now_ms - created_ms) * self._rate / 1000), 0)
            for created_ms in self._times_ms
        }
        ends, created = self.ends, self._created_ms
        if len(grown) == 1:
            (more,) = grown.values()
            return [end + more for end in map(ends.get, partitions, repeat(0))]
        return [ends.get(partition, 0) + grown[created[partition]] for partition in partitions]

    def position(self, partition: TopicPartition, begin: int, since_ms: int, read_ms: int) -> int:
        """Return the position of a reader that keeps up with a partition.

        Args:
            partition: the partition.
            begin: its start offset.
            since_ms: its start time.
            read_ms: time of its last poll().
        """
        return begin if read_ms <= since_ms else max(begin, self.end_offset(partition, read_ms))

    def has(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether an offset is in range for a fetch."""
        return self.start_offset(partition) <= offset <= self.end_offset(partition)

    def written_ms(self, partition: TopicPartition, offset: int) -> int | None:
        """Return when a future offset will be written, in ms; None if it never will."""
        if not self._rate:
            return None
        behind = offset - self.ends.get(partition, 0) + 1
        return self._created_ms[partition] + -int(-behind * 1000 // self._rate)

    def was_read(self, partition: TopicPartition, offset: int) -> None:
        """Record that everything before an offset was read before the simulation."""
        self._read_to[partition] = offset

    def begin(
        self,
        partition: TopicPartition,
        offset: int | None,
        reset: str,
        position: Callable[[TopicPartition], int],
    ) -> int:
        """Start a reader of one partition, as `begin_all` does; return where it starts."""
        committed = {} if offset is None else {partition: offset}
        return self.begin_all((partition,), committed, reset, position)[partition]

    def begin_all(
        self,
        partitions: Sequence[TopicPartition],
        offsets: Mapping[TopicPartition, int],
        reset: str,
        position: Callable[[TopicPartition], int],
    ) -> Mapping[TopicPartition, int]:
        """Start a reader at committed offsets or reset positions; a current reader is moved.

        Args:
            partitions: the partitions to read.
            offsets: committed offsets.
            reset: "latest" or "earliest": where to start without a committed offset, or if it is
                out of range.
            position: returns the reader's position in a partition.

        Returns:
            The offset at which the reader starts in each partition.
        """
        if position in self.readers:
            for partition in self.readers[position].keys() & partitions:
                self.end(partition, position)
        ends = self.end_offsets(partitions)
        starts = [*map(self._starts.get, partitions, repeat(0))] if self._starts else repeat(0)
        resets = ends if reset == "latest" else starts
        committed = map(offsets.get, partitions)
        begin_offsets = [
            reset_to if offset is None or not start <= offset <= end else offset
            for offset, start, end, reset_to in zip(committed, starts, ends, resets, strict=False)
        ]
        begins = dict(zip(partitions, begin_offsets, strict=True))
        self.readers.setdefault(position, {}).update(begins)
        return begins

    def end(self, partition: TopicPartition, position: Callable[[TopicPartition], int]) -> None:
        """Stop a reader of one partition."""
        self.end_all((partition,), position, (position(partition),))

    def end_all(
        self,
        partitions: Sequence[TopicPartition],
        position: Callable[[TopicPartition], int],
        offsets: Iterable[int],
    ) -> None:
        """Stop a reader at its positions.

        Args:
            partitions: partitions that it reads.
            position: returns its position in a partition.
            offsets: its position in each of them.
        """
        reading = self.readers.get(position, {})
        begins = [*map(reading.pop, partitions)]
        if not reading:
            self.readers.pop(position, None)
        read_to = [*map(self._read_to.get, partitions, repeat(0))]
        if begins != read_to:
            for partition, before, begin in zip(partitions, read_to, begins, strict=True):
                if before != begin:
                    self._jumps.setdefault(partition, []).append((before, begin))
        self._read_to.update(zip(partitions, offsets, strict=True))

    def is_read_to(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether a reader of the partition has reached an offset, or it has no reader."""
        readers = [position for position, begins in self.readers.items() if partition in begins]
        return not readers or any(position(partition) >= offset for position in readers)

    def again_and_skipped(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the number of records of each partition read again so far, and skipped.

        Partitions without such records may be absent. Two readers of the same record read it
        twice. Records after the last one read were not skipped.
        """
        uneven, read = {*self._jumps}, set[TopicPartition]()
        for begins in self.readers.values():
            uneven |= read & begins.keys()
            read |= begins.keys()
            read_to = map(self._read_to.get, begins, repeat(0))
            uneven.update(
                partition
                for (partition, begin), end in zip(begins.items(), read_to, strict=True)
                if begin != end
            )
        return {partition: self._counts(partition) for partition in uneven}

    def _counts(self, partition: TopicPartition) -> tuple[int, int]:
        spans, begin = [], 0
        for end, next_begin in self._jumps.get(partition, ()):
            spans.append((begin, end))
            begin = next_begin
        spans.append((begin, self._read_to.get(partition, 0)))
        spans += (
            (begins[partition], position(partition))
            for position, begins in self.readers.items()
            if partition in begins
        )
        once = skipped = read_to = 0
        for begin, end in sorted(spans):
            skipped += max(begin - read_to, 0)
            once += max(end - max(begin, read_to), 0)
            read_to = max(read_to, end)
        return sum(end - begin for begin, end in spans) - once, skipped


@dataclass(frozen=True, slots=True, eq=False)
class Positions(Mapping[TopicPartition, CommittedPartition]):
    """Positions of a consumer after a poll(), each computed when it is read.

    Attributes:
        begins: start offset and start time of each partition that it reads; never changed.
        read_ms: time of the poll().
        logs: the partitions.
        began_ms: the latest start time.
    """

    begins: Mapping[TopicPartition, tuple[int, int]]
    read_ms: int
    logs: PartitionLogs
    began_ms: int

    def offset(self, partition: TopicPartition) -> int:
        """Return the position in a partition."""
        return self.logs.position(partition, *self.begins[partition], self.read_ms)

    def offsets(self, partitions: Sequence[TopicPartition]) -> list[int]:
        """Return the position in each of many partitions."""
        read_ms = self.read_ms
        ends = self.logs.end_offsets(partitions, read_ms)
        if read_ms > self.began_ms:  # all have been read, and no reader begins after the end
            return ends
        begins = map(self.begins.__getitem__, partitions)
        return [
            end if read_ms > since_ms and end > begin else begin
            for end, (begin, since_ms) in zip(ends, begins, strict=True)
        ]

    def __getitem__(self, partition: TopicPartition) -> CommittedPartition:
        return CommittedPartition(self.offset(partition))

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.begins)

    def __len__(self) -> int:
        return len(self.begins)
