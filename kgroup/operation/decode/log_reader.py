"""Read segments of `__consumer_offsets`: from files to Arrow batches, with what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from kgroup.columnar.batch_key import Limits
from kgroup.columnar.batch_scan import scan_batches, scan_transactions
from kgroup.columnar.last_record import last_records
from kgroup.columnar.locator import Places
from kgroup.columnar.scan import BatchKind, Marker
from kgroup.columnar.segment import map_chunks
from kgroup.columnar.segment_check import why_unusable
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Log, Segment
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches
from kgroup.protocol.batch.transaction import TransactionIndex, once

__all__ = ["BatchCount", "Cut", "FileLogs", "LogReader", "Logs"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the log is taken to end: behind a record, or behind an instant.

    Attributes:
        offset: last offset that counts.
        time_ms: last epoch millisecond that counts.
    """

    offset: int | None = None
    time_ms: int | None = None

    def has_marker(self, marker: Marker) -> bool:
        """Tell whether a transaction's marker lies before the cut."""
        if self.offset is not None and marker.last_offset > self.offset:
            return False
        return self.time_ms is None or marker.time_ms is None or marker.time_ms <= self.time_ms


@dataclass(frozen=True, slots=True)
class BatchCount:
    """How many batches of one kind there are.

    Attributes:
        compression: codec.
        magic: message format.
        batches: number of them.
        bytes: that they take in the log.
    """

    compression: str
    magic: int
    batches: int
    bytes: int


class Logs(Protocol):
    """Where logs come from, one after another; each is needed until the next is asked for.

    Attributes:
        log_count: logs there are: partitions, or files that are part of none.
        file_count: their files.
        is_sought: whether what was not wanted was passed over unseen, so that a name that is not
            met may exist all the same.
    """

    log_count: int
    file_count: int
    is_sought: bool

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield logs, and what keeps one from being read."""
        ...


class FileLogs:
    """Logs of files; implements `Logs`."""

    is_sought = False

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        from_offset: int = 0,
        problems: Iterable[Problem] = (),
    ) -> None:
        """Put together what is of one folder, and named after offsets.

        Args:
            segments: sorted, see `find_segments`; those that are not loaded are passed over.
            from_offset: segments that end before it are passed over.
            problems: what could not be found out about the files.
        """
        self._logs = _logs(segments, from_offset)
        self._problems = tuple(problems)
        self.log_count = len(self._logs)
        self.file_count = sum(len(log) for log in self._logs)

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield the logs in order, behind what could not be found."""
        yield from self._problems
        for log in self._logs:
            yield Log(tuple(log))


class LogReader:
    """One run over segments; what it says beside the rows is complete when they are at their end.

    Attributes:
        damage_kinds: kind of damage -> how often.
        log_count: logs to read: partitions, or files that are part of none.
        file_count: their files.
        is_sought: see `Logs`.
        unusable_count: files among them that hold no records of `__consumer_offsets` at all.
        files_read: files begun so far.
        rows_read: rows decoded so far.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        cut: Cut | None = None,
        last_only: bool = False,
        strict: bool = False,
        with_batches: bool = False,
        name: Callable[[Path], str] = str,
        announce: Callable[[], None] | None = None,
        watch: Callable[[LogReader], None] = lambda log: None,
        tell: Callable[[Problem], None] = lambda problem: None,
    ) -> None:
        """Prepare.

        Args:
            logs: to read.
            cut: end of the log for transactions: what has its marker behind it is open.
            last_only: whether only the last record of each key is wanted, of those before the cut.
            strict: whether to stop at the first problem.
            with_batches: whether to count batches.
            name: what to call a file in problems.
            announce: called before code is compiled, see `columnar.segment.decode_chunks`.
            watch: called after each batch of rows.
            tell: called with each problem when it is met.
        """
        self._logs = logs
        self._cut = cut or Cut()
        self._last_only = last_only
        self._strict = strict
        self._name = name
        self._announce = announce
        self._watch = watch
        self._tell = tell
        self._problems = ProblemLog()
        self._batches: Counter[BatchKind] | None = Counter() if with_batches else None
        self._batch_bytes: Counter[BatchKind] = Counter()
        self.damage_kinds: Counter[str] = Counter()
        self.log_count = logs.log_count
        self.file_count = logs.file_count
        self.is_sought = logs.is_sought
        self.unusable_count = 0
        self.files_read = 0
        self.rows_read = 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read; beyond a limit only the number of the rest."""
        return self._problems.problems()

    def map(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what a function makes of each batch of rows of `DECODED`.

        The batches come in the order of each partition's log, and are read as they are asked for.
        The function may run in several threads at once, some batches ahead.
        """
        try:
            for log in self._logs:
                if isinstance(log, Problem):
                    self._add(log)
                    continue
                self._count(log)
                usable = [segment for segment in log.segments if self._is_usable(segment)]
                transactions = once(partial(self._markers, usable, log.aborted))
                places = self._last_places(usable, transactions) if self._last_only else {}
                for segment in usable:
                    wanted = places.get(segment.path)
                    yield from self._map_segment(segment, transactions, function, wanted)
        except _StoppedError:
            return

    def batch_counts(self) -> list[BatchCount]:
        """Give the batches that were counted, of what was read so far; the most first.

        As many of one kind as of another come by name and format.
        """
        counts = sorted((self._batches or {}).items(), key=lambda item: (-item[1], item[0]))
        return [BatchCount(*kind, n, self._batch_bytes[kind]) for kind, n in counts]

    def _count(self, log: Log) -> None:
        if self._batches is not None:
            for segment in log.segments:
                with suppress(OSError):  # which is said where its records are read
                    for scan in scan_batches(segment.path):
                        self._batches += scan.batches
                        self._batch_bytes += scan.bytes

    def _is_usable(self, segment: Segment) -> bool:
        reason = why_unusable(segment)
        if reason is not None:
            self.unusable_count += 1
            self._report(segment, *reason)
        return reason is None

    def _markers(
        self, log: Sequence[Segment], aborted: Iterable[tuple[int, int]] | None
    ) -> TransactionIndex:
        return scan_transactions(
            [segment.path for segment in log],
            TransactionIndex(aborted),
            counts=self._cut.has_marker,
            announce=self._announce,
        )

    def _last_places(
        self, log: Sequence[Segment], transactions: Callable[[], TransactionIndex]
    ) -> dict[Path, Places]:
        """Find the last records in each segment of a log; report what of it cannot be read."""
        limits = Limits(transactions, self._cut.offset, self._cut.time_ms, self._cut == Cut())
        try:
            found = last_records([s.path for s in log], limits, announce=self._announce)
        except OSError as error:
            self._report(log[0], "unreadable", _unreadable(error))
            return {}
        for segment, last in zip(log, found, strict=True):
            for damage in last.damages:
                self._report_damage(segment, damage)
        return {last.path: last.places for last in found}

    def _map_segment(
        self,
        segment: Segment,
        transactions: Callable[[], TransactionIndex],
        function: Callable[[pa.RecordBatch], T],
        places: Places | None,
    ) -> Iterator[T]:
        self.files_read += 1
        try:
            for part in map_chunks(
                segment.path,
                lambda batch: (batch.num_rows, function(batch)),
                partition=segment.partition,
                transactions=transactions,
                places=places,
                announce=self._announce,
            ):
                if isinstance(part, Damage):
                    self._report_damage(segment, part)
                    continue
                rows, result = part
                self.rows_read += rows
                self._watch(self)
                yield result
        except OSError as error:
            self._report(segment, "unreadable", _unreadable(error))

    def _report_damage(self, segment: Segment, damage: Damage) -> None:
        self.damage_kinds[damage.kind] += 1
        self._report(segment, damage.kind, damage.reason, damage.position)

    def _report(
        self, segment: Segment, kind: str, reason: str, position: int | None = None
    ) -> None:
        partition = segment.partition
        if segment.broker is None:
            path = self._name(segment.path)
            problem = Problem(
                kind, reason, path=path, position=position, offsets_partition=partition
            )
        else:
            offset = None if position is None else _offset_at(segment, position)
            problem = Problem(
                kind, reason, offsets_partition=partition, offset=offset, broker=segment.broker
            )
        self._add(problem)

    def _add(self, problem: Problem) -> None:
        self._problems.add(problem)
        self._tell(problem)
        if self._strict:
            raise _StoppedError


def _unreadable(error: OSError) -> str:
    return f"The file cannot be read: {error.strerror or error}."


def _offset_at(segment: Segment, position: int) -> int | None:
    """Find the offset that follows the last batch that ends before a position."""
    batches = (batch for batch in _batches([segment]) if batch.position + batch.size <= position)
    last = max((batch.last_offset for batch in batches), default=None)
    return segment.base_offset if last is None else last + 1


class _StoppedError(Exception):
    """The first problem of a strict run."""


def _batches(segments: Iterable[Segment]) -> Iterator[RecordBatch]:
    """Read batches without their records; what is damaged is passed over."""
    for segment in segments:
        with suppress(OSError), segment.path.open("rb", buffering=0) as file:
            yield from (item for item in read_file_batches(file) if isinstance(item, RecordBatch))


def _logs(segments: Iterable[Segment], from_offset: int) -> list[list[Segment]]:
    """Put together the segments of one log: of one folder, and named after their offsets."""
    logs: dict[tuple[int | None, Path], list[Segment]] = {}
    for segment in segments:
        if segment.is_loaded:
            place = segment.path if segment.base_offset is None else segment.path.parent
            logs.setdefault((segment.partition, place), []).append(segment)
    return [log[_first(log, from_offset) :] for log in logs.values()]


def _first(log: Sequence[Segment], from_offset: int) -> int:
    """Find the last segment that begins at or before an offset; the first where none does."""
    begins = [segment.base_offset or 0 for segment in log]
    return max((index for index, base in enumerate(begins) if base <= from_offset), default=0)
