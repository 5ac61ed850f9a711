"""Decode `__consumer_offsets`: all records, selected records, a compacted view, or counts.

Arrow's functions are imported only when rows are filtered, because the import is slow.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from kgroup.columnar.log_reader import AsOf, FileLogs, LogReader, Logs, TimedLogs, logs_of
from kgroup.columnar.schema import ColumnBuilder, records
from kgroup.errors import ExitStatus, ProblemKind, UsageError, near_names
from kgroup.model.instant import shown_time
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.record import TransactionStatus
from kgroup.model.segment import Segment
from kgroup.operation.report import Report
from kgroup.protocol.record.coordinator_record import CONTROL_TYPES, is_control_key

NOT_COMMITTED = frozenset({TransactionStatus.ABORTED, TransactionStatus.OPEN})
"""Statuses of transactional records that are not committed (yet)."""
MOST_SEEN = 10_000
"""Approximate maximum number of names that are kept to suggest a similar name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter for batches of `DECODED`; an empty set, or None, keeps all rows.

    Attributes:
        groups: group ids.
        group_pattern: pattern that matches a whole group id; a row is kept if its group is in
            `groups` or matches.
        topics: names of user topics.
        topic_partitions: partition numbers of user topics.
        types: record types.
        from_offset: smallest offset.
        since_ms: earliest time (inclusive), see `row_time_ms`; rows without a time are dropped.
        until_ms: latest time (exclusive).
        without_statuses: transaction statuses of rows to drop; if not empty, transaction markers
            are dropped too.
    """

    groups: frozenset[str] = frozenset()
    group_pattern: Pattern | None = None
    topics: frozenset[str] = frozenset()
    topic_partitions: frozenset[int] = frozenset()
    types: frozenset[str] = frozenset()
    from_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    without_statuses: frozenset[str] = frozenset()

    def by_key(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows selected by their keys: group, topic, partition and type.

        Records with the same key are either all kept or all dropped. Therefore this filter may run
        before a view that looks for the last record of each key.
        """
        masks = []
        if self.groups or self.group_pattern is not None:
            masks.append(_text_mask(batch["group"], self._wants_group))
        if self.topics:
            masks.append(_text_mask(batch["topic"], self.topics.__contains__))
        if self.topic_partitions:
            import pyarrow.compute as pc

            wanted = pa.array(sorted(self.topic_partitions), pa.int64())
            masks.append(pc.is_in(batch["topic_partition"].cast(pa.int64()), wanted))
        if self.types:
            masks.append(_text_mask(batch["type"], self.types.__contains__))
        return _filter(batch, masks)

    def by_transaction_status(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows selected by offset and transaction status."""
        masks = []
        if self.from_offset is not None:
            import pyarrow.compute as pc

            masks.append(pc.greater_equal(batch["offset"], self.from_offset))
        if self.without_statuses:
            without = self.without_statuses.union(CONTROL_TYPES.values())
            for name in ("transaction", "type"):
                masks.append(_text_mask(batch[name], lambda text: text not in without, null=True))
        return _filter(batch, masks)

    def by_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows selected by time; apply it after a view, whose times count."""
        if self.since_ms is None and self.until_ms is None:
            return batch
        import pyarrow.compute as pc

        masks = []
        if self.since_ms is not None:
            masks.append(pc.greater_equal(row_time_ms(batch), self.since_ms))
        if self.until_ms is not None:
            masks.append(pc.less(row_time_ms(batch), self.until_ms))
        return _filter(batch, masks)

    def _wants_group(self, group_id: str) -> bool:
        return group_id in self.groups or (
            self.group_pattern is not None and self.group_pattern.fullmatch(group_id) is not None
        )


class Names:
    """The names in a selection, and which of them occur in the log.

    Attributes:
        wanted: selected names, in the given order.
        found: the names that occur in the log.
    """

    def __init__(self, column: str, wanted: Iterable[str]) -> None:
        self.wanted = tuple(dict.fromkeys(wanted))
        self._column = column
        self.found: set[str] = set()
        self._seen: set[str] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names that have not been found so far."""
        return tuple(name for name in self.wanted if name not in self.found)

    def meant(self, name: str) -> str:
        """Return the end of a sentence that suggests similar names from the log."""
        return near_names(name, sorted(self._seen)) or "."

    def look(self, batch: pa.RecordBatch) -> None:
        """Record the names in a batch of `DECODED`; thread-safe."""
        if missing := self.missing:
            import pyarrow.compute as pc

            # Compare bytes: Arrow rejects names from a command line that is not UTF-8.
            names = pa.array([name.encode(errors="surrogatepass") for name in missing])
            texts = batch[self._column].dictionary
            in_batch = texts.cast(pa.binary())
            matching = names.filter(pc.is_in(names, in_batch)).to_pylist()
            self.found.update(name.decode() for name in matching)
            if len(self._seen) < MOST_SEEN:
                self._seen.update(texts.to_pylist())


def row_time_ms(batch: pa.RecordBatch) -> pa.Array:
    """Return the time of each record: its timestamp, or in format v0 that of the commit."""
    import pyarrow.compute as pc

    commit_time_ms = batch["commit_timestamp_ms"]
    is_known = pc.not_equal(commit_time_ms, -1)
    return pc.coalesce(batch["timestamp_ms"], pc.if_else(is_known, commit_time_ms, None))


def _text_mask(column: pa.Array, wants: Callable[[str], bool], *, null: bool = False) -> pa.Array:
    """Evaluate `wants` once for each distinct text; `null` is the result for rows without text."""
    import pyarrow.compute as pc

    answers = pa.array([wants(text) for text in column.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(answers.take(column.indices), null)


def _filter(batch: pa.RecordBatch, masks: list[pa.Array]) -> pa.RecordBatch:
    if not masks:
        return batch
    import pyarrow.compute as pc

    return batch.filter(reduce(pc.and_kleene, masks))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestedTimes:
    """Times of a filter or a view, and the logs that may not reach them.

    Attributes:
        times_ms: the requested times.
        logs: the logs, which are read.
        has_start: whether the logs are read from their start.
        end_ms: time up to which the logs are complete; None for that of their last record.
    """

    times_ms: Sequence[int]
    logs: TimedLogs
    has_start: bool
    end_ms: int | None

    def notes(self) -> Iterator[str]:
        """Yield notes on times before the first and after the last record."""
        first_ms, last_ms = self.logs.first_ms, self.logs.last_ms
        if self.has_start and first_ms is not None and min(self.times_ms) < first_ms:
            yield f"The first record is from {shown_time(first_ms)}; earlier records are unknown."
        if last_ms is not None and max(self.times_ms) > (self.end_ms or last_ms):
            yield f"The last record is from {shown_time(last_ms)}; later records are unknown."
        if last_ms is None and self.end_ms is not None:
            yield f"No record is known from {shown_time(min(self.times_ms))} on."


class Decoding:
    """Decoded records of segments or logs.

    Attributes:
        log: reader of the log, with counts and problems.
    """

    def __init__(
        self,
        log: LogReader,
        selection: Selection,
        *,
        without_tombstones: bool,
        times: RequestedTimes | None,
    ) -> None:
        self.log = log
        self._times = times
        self._selection = selection
        self._without_tombstones = without_tombstones
        self._groups = Names("group", selection.groups)
        self._topics = Names("topic", selection.topics)
        self._has_rows = False

    def map(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield the result of a function for each batch of selected rows.

        Batches are read on demand, in log order for each partition. The function may run in several
        threads at once, some batches ahead.
        """
        by_time = self._selection.by_time
        return self.log.map(lambda batch: function(by_time(self._wanted(batch))))

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._groups.look(batch)
        self._topics.look(batch)
        batch = self._selection.by_transaction_status(self._selection.by_key(batch))
        if self._without_tombstones:
            import pyarrow.compute as pc

            is_none = pc.and_(pc.is_null(batch["value_version"]), pc.is_null(batch["value_json"]))
            batch = batch.filter(pc.invert(is_none))
        self._has_rows = self._has_rows or batch.num_rows > 0
        return batch

    @property
    def nothing_named_exists(self) -> bool:
        """Whether the selection names groups or topics, and none of them occurs in the log."""
        if self.log.is_sought:
            return False
        are_missing = not (self._groups.found or self._topics.found)
        if self._selection.group_pattern is not None:
            return are_missing and not self._has_rows
        return are_missing and bool(self._groups.wanted or self._topics.wanted)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Groups and topics that were not found, if only a part of the log was read."""
        return (*self._groups.missing, *self._topics.missing) if self.log.is_sought else ()

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status, valid after the log was read."""
        if self.log.file_count == self.log.rejected_count > 0:
            return ExitStatus.FAILED
        if not self.log.problems and self.nothing_named_exists:
            return ExitStatus.NOT_FOUND
        return ExitStatus.PARTLY if self.problems() else ExitStatus.DONE

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the log, and on requested times of which it has no records."""
        return (*self.log.notes, *(self._times.notes() if self._times else ()))

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the log, and the selected names that it does not contain."""
        if self.log.is_sought:
            return self.log.problems
        pattern = self._selection.group_pattern
        is_met = self._has_rows or bool(self._groups.wanted or self._topics.wanted)
        missing: list[tuple[str, str | None]] = []
        for group_id in self._groups.missing:
            text = f"There is no record about the group{self._groups.meant(group_id)}"
            missing.append((text, group_id))
        for topic in self._topics.missing:
            text = f"There is no offset commit for the topic {topic!r}{self._topics.meant(topic)}"
            missing.append((text, None))
        if pattern is not None and not is_met:
            missing.append((f"No record of a group matches {pattern.pattern!r}.", None))
        not_found = (Problem(ProblemKind.NOT_FOUND, text, group_id) for text, group_id in missing)
        return (*self.log.problems, *not_found)


def decode(
    source: Sequence[Segment] | Logs,
    selection: Selection,
    *,
    last_only: bool = False,
    as_of: AsOf | None = None,
    strict: bool = False,
    with_batches: bool = False,
    problems: Sequence[Problem] = (),
    name: Callable[[Path], str] = str,
    on_compile: Callable[[], None] | None = None,
    on_progress: Callable[[LogReader], None] = lambda log: None,
    on_problem: Callable[[Problem], None] = lambda problem: None,
) -> Decoding:
    """Decode segments or other logs.

    The selection by key, offset and transaction applies before the view, the selection by time
    after it: "the latest record of each key, if written before June".

    Args:
        source: sorted segments, see `find_segments`; or logs.
        selection: the rows to keep.
        last_only: keep only the last record of each key, including tombstones, as compaction does;
            see `last_record.last_records`.
        as_of: keep only the records that were current at this offset or time: the last one of each
            key up to it, without tombstones. A transaction whose marker is later counts as open,
            and its records as not yet current.
        strict: stop at the first problem.
        with_batches: count batches, see `LogReader.batch_counts`.
        problems: problems found while listing the segments.
        name: returns the name of a file for problems.
        on_compile: called before code is compiled, see `columnar.segment.decode_chunks`.
        on_progress: called after each batch of rows is read.
        on_problem: called with each problem of the log when it is found.

    Raises:
        UsageError: `as_of` is an offset, and the segments belong to several partitions.
    """
    if isinstance(source, Sequence):
        source = FileLogs(logs_of(source, selection.from_offset or 0), problems)
    limits = (selection.since_ms, selection.until_ms, as_of and as_of.time_ms)
    times = None
    if times_ms := [ms for ms in limits if ms is not None]:
        has_start = selection.from_offset is None and not source.is_sought
        end_ms = None if isinstance(source, FileLogs) else time.time_ns() // 1_000_000
        source = TimedLogs(source)
        times = RequestedTimes(times_ms, source, has_start, end_ms)
    log = LogReader(
        source,
        as_of=as_of,
        last_only=last_only or as_of is not None,
        strict=strict,
        with_batches=with_batches,
        name=name,
        on_compile=on_compile,
        on_progress=on_progress,
        on_problem=on_problem,
    )
    if as_of is not None and as_of.offset is not None and log.log_count > 1:
        raise UsageError(
            "an offset identifies a record only within a partition of __consumer_offsets, "
            f"found {log.log_count} (or single files); choose one of them, or a time"
        )
    return Decoding(log, selection, without_tombstones=as_of is not None, times=times)


def decode_message(key: bytes, value: bytes | None) -> Report[pa.RecordBatch]:
    """Decode a single record of unknown log position; return its row and its problems."""
    builder = ColumnBuilder()
    builder.add(key, value, is_control=is_control_key(key))
    row = builder.finish()
    (record,) = records(row)
    parts = (("key", record.key), ("value", record.value))
    problems = tuple(
        Problem(ProblemKind.BAD_RECORD, f"The {part} cannot be read: {tree['error']}.")
        for part, tree in parts
        if tree is not None and "error" in tree
    )
    return Report((row,), problems)


@dataclass(frozen=True, slots=True)
class Count:
    """Number and size of records, batches or damaged places of one kind.

    Attributes:
        by: what is counted: `type`, `transaction`, `group`, `batch` or `damage`; records by type
            and version of the value; transactional records by transaction status; records by group;
            batches by compression and message format; damaged places by kind.
        name: record type, transaction status, group id, compression or kind of damage.
        version: version of the value, or message format of the batches; None if there is none (a
            tombstone).
        count: number of records, batches or damaged places.
        bytes: bytes of the records' keys and values, or of the batches in the log; None for damage.
    """

    by: str
    name: str
    version: int | None
    count: int
    bytes: int | None


def count_records(decoding: Decoding) -> Report[Count]:
    """Count the selected records, and all batches and damaged places.

    Returns:
        Counts in the order of `Count.by`, largest first. Batches and damage are counted for the
        whole log, regardless of the selection.
    """
    totals: dict[tuple[str, str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    for batch in decoding.map(lambda batch: batch):
        for by, name, version in (
            ("type", "type", batch["value_version"]),
            ("transaction", "transaction", None),
            ("group", "group", None),
        ):
            for key, count, size in _count(batch[name], version, batch["size"]):
                total = totals[by, *key]
                total[0] += count
                total[1] += size
    order = ("type", "transaction", "group")
    counts = [Count(*key, *total) for key, total in totals.items()]
    counts.sort(key=lambda c: (order.index(c.by), -c.count, c.name, c.version is None, c.version))
    log = decoding.log
    counts += (Count("batch", *kind, count, size) for kind, count, size in log.batch_counts())
    counts += (Count("damage", kind, None, n, None) for kind, n in log.damage_kinds.most_common())
    return Report(tuple(counts), decoding.problems(), verdict=decoding.exit_status)


def _count(
    names: pa.Array, versions: pa.Array | None, sizes: pa.Array
) -> Iterator[tuple[tuple[str, int | None], int, int]]:
    """Yield name and version, number of rows and sum of sizes; skip rows without a name."""
    columns = {"name": names, "size": sizes}
    keys = ["name"]
    if versions is not None:
        columns["version"] = versions
        keys.append("version")
    grouped = pa.table(columns).group_by(keys).aggregate([("size", "sum"), ([], "count_all")])
    for row in grouped.to_pylist():
        if row["name"] is not None:
            yield (row["name"], row.get("version")), row["count_all"], row["size_sum"]
