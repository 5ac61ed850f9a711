"""Offsets of simulated partitions, and how far consumers have read them.

The partitions of a cluster are numbered: the number is the row of a partition. A group may have a
hundred thousand partitions, and rows are found several times as fast as pairs of topic and number;
lists by row take a fraction of the time of dictionaries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, filterfalse, repeat

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.clock import Clock
from kgroup.simulation.message import CommittedPartition

_MOST_KNOWN = 256


class PartitionLogs:
    """Partitions that receive records at a steady rate; only offsets are stored.

    Args:
        clock: the clock of the simulation.
        rate: records per second and partition.

    Attributes:
        partitions: the partition of each row.
        ends: initial log end offsets, by row.
        is_held: new records are not replicated, so they cannot be read yet.
        readers: current readers: functions that return their position in a row, with the offset
            at which each began in each of its rows.
    """

    def __init__(self, clock: Clock, rate: float) -> None:
        self.partitions: list[TopicPartition] = []
        self.ends: list[int] = []
        self.readers: dict[Callable[[int], int], dict[int, int]] = {}
        self.is_held = False
        self._clock = clock
        self._rate = rate
        self._holds: list[tuple[int, int]] = []
        self._rows: dict[TopicPartition, int] = {}
        self._known: dict[int, tuple[tuple[TopicPartition, ...], Sequence[int]]] = {}
        """Rows of many partitions, by the id of the tuple, which is kept so that it is unique."""
        self._created_ms: list[int] = []
        self._times_ms: set[int] = set()
        """All times at which partitions were created."""
        self._starts: dict[int, int] = {}
        self._read_to: list[int] = []
        """Offset up to which the last reader of each row read."""
        self._jumps: dict[int, list[tuple[int, int]]] = {}
        """Where readers did not begin at that offset: that offset, and where they began."""

    def row(self, partition: TopicPartition) -> int:
        """Return the row of a partition."""
        return self._rows[partition]

    def rows(self, partitions: tuple[TopicPartition, ...]) -> Sequence[int]:
        """Return the row of each of many partitions.

        A consumer and its coordinator ask for the same partitions several times.
        """
        known = self._known.get(id(partitions))
        if known is None:
            if len(self._known) == _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            rows = tuple(map(self._rows.__getitem__, partitions))
            known = self._known[id(partitions)] = (partitions, rows)
        return known[1]

    def add(self, partitions: Collection[TopicPartition]) -> Sequence[int]:
        """Return the row of each partition; they need not exist yet."""
        new = [*filterfalse(self._rows.__contains__, partitions)]
        self._rows.update(zip(new, count(len(self.partitions))))
        self.partitions += new
        for by_row in (self.ends, self._created_ms, self._read_to):
            by_row += [0] * len(new)
        return [*map(self._rows.__getitem__, partitions)]

    def create(self, partitions: Collection[TopicPartition]) -> Sequence[int]:
        """Add new partitions; return their rows."""
        rows = self.add(partitions)
        for row in rows:
            self._created_ms[row] = self._clock.now_ms
        self._times_ms.add(self._clock.now_ms)
        return rows

    def hold(self, *, is_held: bool) -> None:
        """Stop or resume the advance of high watermarks."""
        if is_held is self.is_held:
            return
        self.is_held, now_ms = is_held, self._clock.now_ms
        if is_held:
            self._holds.append((now_ms, sys.maxsize))
        else:
            self._holds[-1] = (self._holds[-1][0], now_ms)

    def start_offset(self, row: int) -> int:
        """Return the log start offset."""
        return self._starts.get(row, 0)

    def delete_records(self, row: int) -> int:
        """Delete all records, as retention does; return the new log start offset."""
        self._starts[row] = self.end_offset(row)
        return self._starts[row]

    def end_offset(self, row: int, at_ms: int | None = None) -> int:
        """Return the high watermark, now or at a time."""
        now_ms = self._clock.now_ms if at_ms is None else at_ms
        if self._holds:  # rarely; this is called for each poll of each partition
            now_ms = self._replicated_ms(now_ms)
        end, since_ms = self.ends[row], now_ms - self._created_ms[row]
        return end + int(since_ms * self._rate / 1000) if since_ms > 0 else end

    def _replicated_ms(self, at_ms: int) -> int:
        """Return until when records are replicated at a time."""
        return next((begin for begin, end in self._holds if begin <= at_ms < end), at_ms)

    def end_offsets(self, rows: Iterable[int], at_ms: int | None = None) -> list[int]:
        """Return the high watermark of each of many partitions, now or at a time."""
        now_ms = self._replicated_ms(self._clock.now_ms if at_ms is None else at_ms)
        grown = {
            created_ms: max(int((now_ms - created_ms) * self._rate / 1000), 0)
            for created_ms in self._times_ms
        }
        ends, created = self.ends, self._created_ms
        if len(grown) == 1:
            (more,) = grown.values()
            return [ends[row] + more for row in rows]
        return [ends[row] + grown[created[row]] for row in rows]

    def position(self, row: int, begin: int, since_ms: int, read_ms: int) -> int:
        """Return the position of a reader that keeps up with a partition.

        Args:
            row: the partition.
            begin: its start offset.
            since_ms: its start time.
            read_ms: time of its last poll().
        """
        return begin if read_ms <= since_ms else max(begin, self.end_offset(row, read_ms))

    def has(self, row: int, offset: int) -> bool:
        """Return whether an offset is in range for a fetch."""
        return self.start_offset(row) <= offset <= self.end_offset(row)

    def written_ms(self, row: int, offset: int) -> int | None:
        """Return when a future offset will be written, in ms; None if it never will."""
        if not self._rate:
            return None
        behind = offset - self.ends[row] + 1
        return self._created_ms[row] + -int(-behind * 1000 // self._rate)

    def was_read(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that everything before these offsets was read before the simulation."""
        for row, offset in zip(self.add(offsets), offsets.values(), strict=True):
            self._read_to[row] = offset

    def begin(
        self, row: int, offset: int | None, reset: str, position: Callable[[int], int]
    ) -> int:
        """Start a reader of one partition, as `begin_all` does; return where it starts."""
        return self.begin_all((row,), (offset,), reset, position)[row]

    def begin_all(
        self,
        rows: Sequence[int],
        offsets: Iterable[int | None],
        reset: str,
        position: Callable[[int], int],
    ) -> Mapping[int, int]:
        """Start a reader at committed offsets or reset positions; a current reader is moved.

        Args:
            rows: the partitions to read.
            offsets: committed offset of each; None if it has none.
            reset: "latest" or "earliest": where to start without a committed offset, or if it is
                out of range.
            position: returns the reader's position in a row.

        Returns:
            The offset at which the reader starts, by row.
        """
        if position in self.readers:
            for row in self.readers[position].keys() & rows:
                self.end(row, position)
        ends = self.end_offsets(rows)
        starts = [*map(self._starts.get, rows, repeat(0))] if self._starts else repeat(0)
        resets = ends if reset == "latest" else starts
        begin_offsets = [
            reset_to if offset is None or not start <= offset <= end else offset
            for offset, start, end, reset_to in zip(offsets, starts, ends, resets, strict=False)
        ]
        begins = dict(zip(rows, begin_offsets, strict=True))
        self.readers.setdefault(position, {}).update(begins)
        return begins

    def end(self, row: int, position: Callable[[int], int]) -> None:
        """Stop a reader of one partition."""
        self.end_all((row,), position, (position(row),))

    def end_all(
        self, rows: Sequence[int], position: Callable[[int], int], offsets: Iterable[int]
    ) -> None:
        """Stop a reader at its positions.

        Args:
            rows: partitions that it reads.
            position: returns its position in a row.
            offsets: its position in each of them.
        """
        reading = self.readers.get(position, {})
        begins = [*map(reading.pop, rows)]
        if not reading:
            self.readers.pop(position, None)
        read_to = [*map(self._read_to.__getitem__, rows)]
        if begins != read_to:
            for row, before, begin in zip(rows, read_to, begins, strict=True):
                if before != begin:
                    self._jumps.setdefault(row, []).append((before, begin))
        for row, offset in zip(rows, offsets, strict=True):
            self._read_to[row] = offset

    def is_read_to(self, row: int, offset: int) -> bool:
        """Return whether a reader of the partition has reached an offset, or it has no reader."""
        readers = [position for position, begins in self.readers.items() if row in begins]
        return not readers or any(position(row) >= offset for position in readers)

    def again_and_skipped(self) -> Mapping[int, tuple[int, int]]:
        """Return the number of records of each row read again so far, and skipped.

        Partitions without such records may be absent. Two readers of the same record read it
        twice. Records after the last one read were not skipped.
        """
        uneven, read = {*self._jumps}, set[int]()
        for begins in self.readers.values():
            uneven |= read & begins.keys()
            read |= begins.keys()
            uneven.update(row for row, begin in begins.items() if begin != self._read_to[row])
        return {row: self._counts(row) for row in uneven}

    def _counts(self, row: int) -> tuple[int, int]:
        spans, begin = [], 0
        for end, next_begin in self._jumps.get(row, ()):
            spans.append((begin, end))
            begin = next_begin
        spans.append((begin, self._read_to[row]))
        spans += (
            (begins[row], position(row))
            for position, begins in self.readers.items()
            if row in begins
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
        begins: start offset and start time of each row that it reads; never changed.
        read_ms: time of the poll().
        logs: the partitions.
        began_ms: the latest start time.
    """

    begins: Mapping[int, tuple[int, int]]
    read_ms: int
    logs: PartitionLogs
    began_ms: int

    def offset(self, row: int) -> int:
        """Return the position in a row."""
        return self.logs.position(row, *self.begins[row], self.read_ms)

    def offsets(self, rows: Collection[int]) -> list[int]:
        """Return the position in each of many rows."""
        read_ms = self.read_ms
        ends = self.logs.end_offsets(rows, read_ms)
        if read_ms > self.began_ms:  # all have been read, and no reader begins after the end
            return ends
        begins = map(self.begins.__getitem__, rows)
        return [
            end if read_ms > since_ms and end > begin else begin
            for end, (begin, since_ms) in zip(ends, begins, strict=True)
        ]

    def __getitem__(self, partition: TopicPartition) -> CommittedPartition:
        return CommittedPartition(self.offset(self.logs.row(partition)))

    def __iter__(self) -> Iterator[TopicPartition]:
        return map(self.logs.partitions.__getitem__, self.begins)

    def __len__(self) -> int:
        return len(self.begins)
