"""Decode `__consumer_offsets`: all records, the selected ones, a compacted view, or counts.

Arrow's functions are imported where there is something to filter: that takes a while.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from kgroup.columnar.log_reader import AsOf, FileLogs, LogReader, Logs, logs_of
from kgroup.columnar.schema import ColumnBuilder, records
from kgroup.errors import ExitStatus, ProblemKind, UsageError, near_names
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.model.record import TransactionStatus
from kgroup.model.segment import Segment
from kgroup.operation.report import Report
from kgroup.protocol.record.coordinator_record import CONTROL_TYPES, is_control_key

NOT_COMMITTED = frozenset({TransactionStatus.ABORTED, TransactionStatus.OPEN})
"""Statuses of transactional records that count for nothing, or not yet."""
MOST_SEEN = 10_000
"""About how many names of a log are kept, to tell one that may have been meant."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to keep of batches of `DECODED`; an empty set, or None, keeps everything.

    Attributes:
        groups: ids of groups, as they are.
        group_pattern: which the whole id of a group must match; a group is kept that is in
            `groups` or matches.
        topics: names of users' topics.
        topic_partitions: partitions of users' topics.
        types: record types.
        from_offset: smallest offset.
        since_ms: smallest time, see `row_time_ms`; a row without any is left out.
        until_ms: first time that is too late.
        without_statuses: those of transactional records that are left out; markers are too, if
            any is.
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
        """Keep rows by what their keys say: group, topic, partition and type.

        All records of one key are kept, or none, so this may come before a view that looks for
        the last record of each key.
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
        """Keep rows by their offset and by what became of their transaction."""
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
        """Keep rows by their time; after a view, since it is the times of the result that count."""
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
    """Which of the names that were asked for the log has at all.

    Attributes:
        wanted: names, in the order they were given.
        found: those that were seen.
    """

    def __init__(self, column: str, wanted: Iterable[str]) -> None:
        self.wanted = tuple(dict.fromkeys(wanted))
        self._column = column
        self.found: set[str] = set()
        self._seen: set[str] = set()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names not seen yet."""
        return tuple(name for name in self.wanted if name not in self.found)

    def meant(self, name: str) -> str:
        """Ask, as the end of a sentence, whether names that were seen are what a missing one is."""
        return near_names(name, sorted(self._seen)) or "."

    def look(self, batch: pa.RecordBatch) -> None:
        """Take note of the names in a batch of `DECODED`; from several threads, if need be."""
        if missing := self.missing:
            import pyarrow.compute as pc

            # As bytes: a command line that is no UTF-8 gives names that are no text to Arrow.
            names = pa.array([name.encode(errors="surrogatepass") for name in missing])
            texts = batch[self._column].dictionary
            there = texts.cast(pa.binary())
            found = names.filter(pc.is_in(names, there)).to_pylist()
            self.found.update(name.decode() for name in found)
            if len(self._seen) < MOST_SEEN:
                self._seen.update(texts.to_pylist())


def row_time_ms(batch: pa.RecordBatch) -> pa.Array:
    """Say when each record was written: its timestamp, else (format v0) that of the commit."""
    import pyarrow.compute as pc

    commit_time_ms = batch["commit_timestamp_ms"]
    is_known = pc.not_equal(commit_time_ms, -1)
    return pc.coalesce(batch["timestamp_ms"], pc.if_else(is_known, commit_time_ms, None))


def _text_mask(column: pa.Array, wants: Callable[[str], bool], *, null: bool = False) -> pa.Array:
    """Ask once for each text of a dictionary column; `null` is the answer for rows without one."""
    import pyarrow.compute as pc

    answers = pa.array([wants(text) for text in column.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(answers.take(column.indices), null)


def _filter(batch: pa.RecordBatch, masks: list[pa.Array]) -> pa.RecordBatch:
    if not masks:
        return batch
    import pyarrow.compute as pc

    return batch.filter(reduce(pc.and_kleene, masks))


T = TypeVar("T")


class Decoding:
    """Decoded records: what a run over segments gives.

    Attributes:
        log: what was read, and what went wrong.
    """

    def __init__(self, log: LogReader, selection: Selection, *, without_tombstones: bool) -> None:
        self.log = log
        self._selection = selection
        self._without_tombstones = without_tombstones
        self._groups = Names("group", selection.groups)
        self._topics = Names("topic", selection.topics)
        self._has_rows = False

    def map(self, function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield what a function makes of each batch of the rows that are wanted.

        The batches come in the order of each partition's log, and are read as they are asked for.
        The function may run in several threads at once, some batches ahead.
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
        """Whether groups or topics were asked for, by name or pattern, and the log has none."""
        if self.log.is_sought:
            return False
        are_missing = not (self._groups.found or self._topics.found)
        if self._selection.group_pattern is not None:
            return are_missing and not self._has_rows
        return are_missing and bool(self._groups.wanted or self._topics.wanted)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Groups and topics that were not met where only a part of the log was looked at."""
        return (*self._groups.missing, *self._topics.missing) if self.log.is_sought else ()

    @property
    def exit_status(self) -> ExitStatus:
        """What the run comes to, when it is over."""
        if self.log.file_count == self.log.rejected_count > 0:
            return ExitStatus.FAILED
        if not self.log.problems and self.nothing_named_exists:
            return ExitStatus.NOT_FOUND
        return ExitStatus.PARTLY if self.problems() else ExitStatus.DONE

    def problems(self) -> tuple[Problem, ...]:
        """Say what could not be read, and which names the log does not have."""
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
    """Decode segments, or logs from elsewhere.

    What keys, offsets and transactions say is looked at first, then comes the view, then what
    times say: "the latest records, of these those before June".

    Args:
        source: segments, sorted, see `find_segments`; or logs.
        selection: which rows are wanted.
        last_only: whether only the last record of each key is wanted, tombstones too: what
            compaction keeps, see `last_record.last_records`.
        as_of: the records that were current then are wanted: the last of each key of those up to
            it, tombstones left out. A transaction counts as open whose marker comes later, and its
            records were not current yet.
        strict: whether to stop at the first problem.
        with_batches: whether to count batches, see `LogReader.batch_counts`.
        problems: what could not be found out about the segments.
        name: what to call a file in problems.
        on_compile: called before code is compiled, see `columnar.segment.decode_chunks`.
        on_progress: called after each batch of rows that was read.
        on_problem: called with each problem of the log when it is met.

    Raises:
        UsageError: an offset in `as_of`, and segments of several partitions.
    """
    if isinstance(source, Sequence):
        source = FileLogs(logs_of(source, selection.from_offset or 0), problems)
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
            "an offset means something in one partition of __consumer_offsets only, found "
            f"{log.log_count} (or single files); choose one of them, or a time"
        )
    return Decoding(log, selection, without_tombstones=as_of is not None)


def decode_message(key: bytes, value: bytes | None) -> Report[pa.RecordBatch]:
    """Decode one record whose place in a log is not known; give its row, and what is wrong."""
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
    """How many records, batches or damaged places there are of a kind.

    Attributes:
        by: what is counted: `type`, `transaction`, `group`, `batch` or `damage`; records by type
            and version of the value; records in transactions, by their fate; records by group;
            batches by compression and message format; damage by kind.
        name: record type, fate, group id, compression or kind of damage.
        version: version of the value, or message format of the batches; None where there is none (a
            tombstone).
        count: number of records, batches or damaged places.
        bytes: bytes of the records' keys and values, or of the batches as they lie in the log; None
            for damage.
    """

    by: str
    name: str
    version: int | None
    count: int
    bytes: int | None


def count_records(decoding: Decoding) -> Report[Count]:
    """Count the records that are wanted, and, at their end, the batches and the damage.

    Returns:
        Counts in the order of `Count.by`, the most first; batches and damage are of the whole run,
        whatever rows were passed on.
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
    """Yield name, version, rows and sum of sizes, of the rows that have a name."""
    columns = {"name": names, "size": sizes}
    keys = ["name"]
    if versions is not None:
        columns["version"] = versions
        keys.append("version")
    grouped = pa.table(columns).group_by(keys).aggregate([("size", "sum"), ([], "count_all")])
    for row in grouped.to_pylist():
        if row["name"] is not None:
            yield (row["name"], row.get("version")), row["count_all"], row["size_sum"]
