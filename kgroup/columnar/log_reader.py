"""Read segments of `__consumer_offsets` into Arrow batches, and report problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from kgroup.columnar.batch_key import KeyedRecord, Limits
from kgroup.columnar.batch_scan import scan_batches, scan_transactions
from kgroup.columnar.last_record import LastRecords, last_records
from kgroup.columnar.scan import BatchKind, Marker
from kgroup.columnar.segment_check import check_segment, is_allocated_ahead, newest_segment
from kgroup.columnar.small_segment import Stretch, stretches
from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Log, Segment
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.byte_window import ByteRange
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.batch.transaction import TransactionIndex, once

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.columnar.locator import Locators

T = TypeVar("T")


class AsOf(NamedTuple):
    """Where the log is assumed to end: after an offset, or after a time.

    Attributes:
        offset: last offset to use.
        time_ms: last time to use, in epoch milliseconds.
    """

    offset: int | None = None
    time_ms: int | None = None

    def has_marker(self, marker: Marker) -> bool:
        """Return whether a transaction's marker is before that end."""
        if self.offset is not None and marker.last_offset > self.offset:
            return False
        return self.time_ms is None or marker.time_ms is None or marker.time_ms <= self.time_ms


class Logs(Protocol):
    """A source of logs; each log must exist until the next is requested.

    Attributes:
        log_count: number of logs: partitions, or files that belong to none.
        file_count: number of their files.
        is_sought: whether unwanted records were skipped without reading them, so that a name that
            is not found may still exist.
    """

    log_count: int
    file_count: int
    is_sought: bool

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield logs, and problems of logs that cannot be read."""
        ...


class FileLogs:
    """Logs of files; implements `Logs`."""

    is_sought = False

    def __init__(self, logs: Sequence[Log], problems: Iterable[Problem] = ()) -> None:
        """Store the logs, and the problems found before."""
        self._items: tuple[Log | Problem, ...] = (*problems, *logs)
        self.log_count = len(logs)
        self.file_count = sum(len(log.segments) for log in logs)

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield the problems, then the logs in order."""
        yield from self._items


class TimedLogs:
    """Logs of which the times of the first and last records are noted; implements `Logs`.

    Attributes:
        first_ms: time of the earliest of the logs' first records; None if unknown.
        last_ms: latest time in the last batches of the logs; None if unknown.
    """

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self.log_count = logs.log_count
        self.file_count = logs.file_count
        self.is_sought = logs.is_sought
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def __iter__(self) -> Iterator[Log | Problem]:
        """Yield the logs, and note their times before."""
        for log in self._logs:
            if isinstance(log, Log):
                with suppress(OSError):  # reported when the records are read
                    self._note(log)
            yield log

    def _note(self, log: Log) -> None:
        records = (record for batch in _batches(log.segments) for record in read_records(batch))
        first = next((record for record in records if isinstance(record, Record)), None)
        if first is not None and first.timestamp_ms is not None:
            self.first_ms = min(first.timestamp_ms, self.first_ms or first.timestamp_ms)
        lasts = (_last_ms(segment.path) for segment in reversed(log.segments))
        last_ms = next((last for last in lasts if last is not None), None)
        if last_ms is not None:
            self.last_ms = max(last_ms, self.last_ms or last_ms)


_END = 1 << 16
"""Bytes at the end of a file in which the last batches are searched first."""


def _last_ms(path: Path) -> int | None:
    """Return the latest time in the last batches of a file; None if it has none with a time."""
    end = max(0, path.stat().st_size - _END)
    with path.open("rb", buffering=0) as file:
        for start in dict.fromkeys((end, 0)):  # a batch may be larger than the end
            file.seek(start)
            items = read_file_batches(file, part=ByteRange(start))
            batches = [item for item in items if isinstance(item, RecordBatch)]
            if batches:
                times = (batch.max_timestamp_ms for batch in batches)
                return max((time for time in times if time is not None), default=None)
    return None


class LogReader:
    """One pass over segments; its statistics are complete when all rows have been read.

    Attributes:
        damage_kinds: number of damaged places, by kind.
        log_count: number of logs to read: partitions, or files that belong to none.
        file_count: number of their files.
        is_sought: see `Logs`.
        rejected_count: number of files without any records of `__consumer_offsets`.
        files_read: number of files begun so far.
        rows_read: number of rows decoded so far.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        as_of: AsOf | None = None,
        last_only: bool = False,
        for_replay: bool = False,
        strict: bool = False,
        with_batches: bool = False,
        compiled: bool | None = None,
        name: Callable[[Path], str] = str,
        on_compile: Callable[[], None] | None = None,
        on_progress: Callable[[LogReader], None] = lambda log: None,
        on_search: Callable[[int], None] = lambda size: None,
        on_problem: Callable[[Problem], None] = lambda problem: None,
    ) -> None:
        """Prepare to read logs.

        Args:
            logs: logs to read.
            as_of: end of the log for transactions: those with a later marker are open.
            last_only: whether to read only the last record of each key, up to `as_of`.
            for_replay: whether groups are built from the records: then tombstones that cancel
                commits of an open transaction are included, and records without a key are a
                problem.
            strict: whether to stop at the first problem.
            with_batches: whether to count batches.
            compiled: whether to use compiled code; by default if there is much to read.
            name: returns the name of a file for problems.
            on_compile: called before code is compiled, see `columnar.segment.decode_chunks`.
            on_progress: called after each batch of rows.
            on_search: called repeatedly during the search for last records, with the number of
                bytes of the log read so far.
            on_problem: called with each problem when it is found.
        """
        self._logs = logs
        self._as_of = as_of or AsOf()
        self._last_only = last_only
        self._for_replay = for_replay
        self._strict = strict
        self._compiled = compiled
        self._name = name
        self._on_compile = on_compile
        self._on_progress = on_progress
        self._on_search = on_search
        self._on_problem = on_problem
        self._newest = cache(newest_segment)
        self._unwritten: dict[str, int] = {}
        self._problems = ProblemLog()
        self._batches: Counter[BatchKind] | None = Counter() if with_batches else None
        self._batch_bytes: Counter[BatchKind] = Counter()
        self.damage_kinds: Counter[str] = Counter()
        self.log_count = logs.log_count
        self.file_count = logs.file_count
        self.is_sought = logs.is_sought
        self.rejected_count = 0
        self.files_read = 0
        self.rows_read = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on files that end in zeros, which are a problem only in a truncated copy."""
        if not self._unwritten:
            return ()
        (path, size), *others = sorted(self._unwritten.items())
        more = f", and {len(others)} more files" if others else ""
        return (
            f"{path} ends in {size:,} zero bytes{more}: space that the broker allocated ahead "
            "(log.preallocate), or records that a copy has lost",
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read; above a limit, problems are only counted."""
        return self._problems.problems()

    def map(
        self,
        function: Callable[[pa.RecordBatch], T],
        of_small: Callable[[Sequence[KeyedRecord]], T] | None = None,
    ) -> Iterator[T]:
        """Yield the result of a function for each batch of rows of `DECODED`.

        The batches come in log order of each partition, and are read on demand. The function may
        run in several threads concurrently, some batches ahead. `of_small` replaces it for the last
        records of a log so small that the records themselves were kept.
        """
        try:
            for log in self._logs:
                if isinstance(log, Problem):
                    self._add(log)
                    continue
                with ExitStack() as stack:
                    yield from self._map_log(log, stack, function, of_small)
        except _StoppedError:
            return

    def _map_log(
        self,
        log: Log,
        stack: ExitStack,
        function: Callable[[pa.RecordBatch], T],
        of_small: Callable[[Sequence[KeyedRecord]], T] | None,
    ) -> Iterator[T]:
        parts = self._stretches(log, stack)
        transactions = once(partial(self._markers, parts, log.aborted))
        if not self._last_only:
            for part in parts:
                yield from self._map_part(part, transactions, function)
            return
        for part, last in self._last_records(parts, transactions):
            if of_small is not None and isinstance(last.found, tuple):
                yield of_small(last.found)
            else:
                yield from self._map_part(part, transactions, function, last.locators)

    def batch_counts(self) -> list[tuple[BatchKind, int, int]]:
        """Return kind, number and bytes of the batches read so far, the most frequent first.

        Kinds with the same number are sorted by name and format.
        """
        counts = sorted((self._batches or {}).items(), key=lambda item: (-item[1], item[0]))
        return [(kind, count, self._batch_bytes[kind]) for kind, count in counts]

    def _stretches(self, log: Log, stack: ExitStack) -> list[Stretch]:
        """Combine small segments, and leave out those that cannot be decoded at all."""
        rejected = {
            segment.path
            for segment in log.segments
            if segment.partition is None and not self._passes(segment)
        }
        sound = [segment for segment in log.segments if segment.path not in rejected]
        parts = list(stretches(sound, stack, compiled=self._compiled, on_compile=self._on_compile))
        if self._batches is not None:
            self._count([*rejected, *(part.path for part in parts)], self._batches)
        # segments in a combined file were checked
        return [part for part in parts if len(part.segments) > 1 or self._passes(part.segments[0])]

    def _count(self, paths: Iterable[Path], batches: Counter[BatchKind]) -> None:
        for path in paths:
            with suppress(OSError):  # reported when the records are read
                for scan in scan_batches(path, on_compile=self._on_compile):
                    batches += scan.batches
                    self._batch_bytes += scan.bytes

    def _passes(self, segment: Segment) -> bool:
        reason = check_segment(segment)
        if reason is not None:
            self.rejected_count += 1
            self._report(segment, *reason)
        return reason is None

    def _markers(
        self, parts: Sequence[Stretch], aborted: Iterable[tuple[int, int]] | None
    ) -> TransactionIndex:
        return scan_transactions(
            [part.path for part in parts],
            TransactionIndex(aborted),
            counts=self._as_of.has_marker,
            on_compile=self._on_compile,
        )

    def _last_records(
        self, parts: Sequence[Stretch], transactions: Callable[[], TransactionIndex]
    ) -> Iterator[tuple[Stretch, LastRecords]]:
        """Yield the last records in each part of a log; report what cannot be read."""
        as_of = self._as_of
        limits = Limits(
            transactions, as_of.offset, as_of.time_ms, as_of == AsOf(), self._for_replay
        )
        try:
            files = last_records(
                [part.path for part in parts],
                limits,
                compiled=self._compiled,
                on_compile=self._on_compile,
                on_progress=self._on_search,
            )
        except OSError as error:
            self._report(parts[0].segments[0], ProblemKind.UNREADABLE, _unreadable(error))
            return
        for part, last in zip(parts, files, strict=True):
            for damage in last.damages:
                self._report_damage(part, damage)
            if self._for_replay and last.keyless:
                self._report_keyless(part, last.keyless, limits)
        yield from zip(parts, files, strict=True)

    def _report_keyless(self, part: Stretch, count: int, limits: Limits) -> None:
        for segment in part.segments:
            if len(part.segments) > 1:
                (last,) = last_records([segment.path], limits, compiled=False)
                count = last.keyless
            if count:
                records = f"{count} record{'s' if count > 1 else ''}"
                reason = f"{records} without a key left out."
                self._report(segment, ProblemKind.UNKNOWN_RECORD, reason)

    def _map_part(
        self,
        part: Stretch,
        transactions: Callable[[], TransactionIndex],
        function: Callable[[pa.RecordBatch], T],
        locators: Locators | None = None,
    ) -> Iterator[T]:
        from kgroup.columnar.segment import decode_chunks

        self.files_read += len(part.segments)
        try:
            for item in decode_chunks(
                part.path,
                lambda batch: (batch.num_rows, function(batch)),
                partition=part.segments[0].partition,
                transactions=transactions,
                locators=locators,
                compiled=self._compiled,
                on_compile=self._on_compile,
            ):
                if isinstance(item, Damage):
                    self._report_damage(part, item)
                    continue
                rows, result = item
                self.rows_read += rows
                self._on_progress(self)
                yield result
        except OSError as error:
            self._report(part.segments[0], ProblemKind.UNREADABLE, _unreadable(error))

    def _report_damage(self, part: Stretch, damage: Damage) -> None:
        segment, position = part.place(damage)
        if is_allocated_ahead(damage, segment.path, self._newest):
            self._unwritten[self._name(segment.path)] = damage.size
            return
        self.damage_kinds[damage.kind] += 1
        self._report(segment, damage.kind, damage.reason, position)

    def _report(
        self, segment: Segment, kind: ProblemKind, reason: str, position: int | None = None
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
        self._on_problem(problem)
        if self._strict:
            raise _StoppedError


def _unreadable(error: OSError) -> str:
    return f"The file cannot be read: {error.strerror or error}."


def _offset_at(segment: Segment, position: int) -> int | None:
    """Return the offset after the last batch that ends before a position."""
    batches = (batch for batch in _batches([segment]) if batch.position + batch.size <= position)
    last = max((batch.last_offset for batch in batches), default=None)
    return segment.base_offset if last is None else last + 1


class _StoppedError(Exception):
    """Stops a strict run at the first problem."""


def _batches(segments: Iterable[Segment]) -> Iterator[RecordBatch]:
    """Yield batches without their records; damage is skipped."""
    for segment in segments:
        with suppress(OSError), segment.path.open("rb", buffering=0) as file:
            yield from (item for item in read_file_batches(file) if isinstance(item, RecordBatch))


def logs_of(segments: Iterable[Segment], from_offset: int = 0) -> list[Log]:
    """Group segments into logs: those of one folder that are named after their base offset.

    Args:
        segments: sorted segments, see `find_segments`; those that are not loaded are skipped.
        from_offset: segments that end before this offset are skipped.
    """
    logs: dict[tuple[int | None, Path], list[Segment]] = {}
    for segment in segments:
        if segment.is_loaded:
            folder = segment.path if segment.base_offset is None else segment.path.parent
            logs.setdefault((segment.partition, folder), []).append(segment)
    return [Log(tuple(log[_first(log, from_offset) :])) for log in logs.values()]


def _first(log: Sequence[Segment], from_offset: int) -> int:
    """Return the index of the last segment that begins at or before an offset; 0 if none does."""
    begins = [segment.base_offset or 0 for segment in log]
    return max((index for index, base in enumerate(begins) if base <= from_offset), default=0)
