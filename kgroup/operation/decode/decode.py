"""Decode `__consumer_offsets`: the records, those that are wanted, or a view of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from kgroup.columnar.log_reader import AsOf, FileLogs, LogReader, Logs, logs_of
from kgroup.columnar.schema import ColumnBuilder, records
from kgroup.errors import ExitStatus, ProblemKind, UsageError
from kgroup.model.problem import Problem
from kgroup.model.segment import Segment
from kgroup.operation.decode.selection import Names, Selection
from kgroup.operation.report import Report
from kgroup.protocol.record.coordinator_record import is_control_key

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
