"""A task of a build: write the records of its splits to Parquet files of the tables.

A task needs only the files that it reads and the warehouse's folder. Its input and its result are
small.

Topic names come from the records: commits have name and id since version 4 of the value, and so
have the records of the types …PartitionMetadata, which Kafka before 4.1 wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.columnar.chunk_size import processor_count
from kgroup.columnar.input_size import can_compile
from kgroup.errors import KgroupError
from kgroup.history.build.divergence import CopyCheck, Divergence
from kgroup.history.build.fact import facts_of
from kgroup.history.input.split import FileRange, Split, read_split
from kgroup.history.ownership.ownership import NEEDED
from kgroup.history.warehouse.coverage import Coverage, Offsets
from kgroup.history.warehouse.state import LogTrace
from kgroup.history.warehouse.store import location_of
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, offset_limits
from kgroup.model.group_log import NAMING_RECORDS, recorded_names
from kgroup.model.record import TransactionStatus
from kgroup.protocol.batch.batch import Damage


def topic_names_in(facts: Mapping[str, pa.Table]) -> dict[str, str]:
    """Return the topic names in rows of tables, by topic id."""
    names: dict[str, str] = {}
    commits = facts.get("offset_commits")
    if commits is not None and commits["topic_id"].null_count < len(commits):
        pairs = commits.select(["topic_id", "topic"]).drop_null()
        pairs = pa.table(
            [pairs["topic_id"].cast(pa.string()), pairs["topic"].cast(pa.string())],
            names=["id", "name"],
        )
        names |= {
            row["id"]: row["name"]
            for row in pairs.group_by(["id", "name"], use_threads=False).aggregate([]).to_pylist()
        }
    epochs = facts.get("consumer_group_epochs")
    if epochs is not None:
        is_metadata = pc.ends_with(epochs["type"], NAMING_RECORDS)
        for text in epochs["value_json"].filter(is_metadata).to_pylist():
            names |= recorded_names(orjson.loads(text)["data"])
    return names


def widen(limits: dict[int, tuple[int, int]], number: int, first: int, last: int) -> None:
    """Widen the limits of a partition, such that they include two offsets."""
    lowest, highest = limits.get(number, (first, last))
    limits[number] = min(first, lowest), max(last, highest)


COMPILED_BYTES = 8 << 20
"""Total size of splits from which on compiled code decodes them, in bytes."""

MOST_WORKERS = 4
"""Maximum number of threads that run tasks: they share Python's lock."""

ENOUGH_ROWS = 1 << 12
"""Number of rows to sort into tables at once: small segments have few."""

_MARKERS = ("ControlCommit", "ControlAbort")

MOST_DAMAGE = 1000
"""Maximum number of damaged places to list for a split."""


_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work that runs independently; it can be pickled.

    Attributes:
        warehouse: path or URI of the warehouse, valid on all machines that run tasks; it may
            contain secrets.
        cluster: name of the cluster in the warehouse.
        build: number of the build.
    """

    warehouse: str
    cluster: str
    build: int

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        raise NotImplementedError

    def facts(self) -> FactWriter:
        """Return a writer for the rows of the job."""
        return FactWriter(location_of(self.warehouse), self.cluster, self.build)


_J = TypeVar("_J", bound=Job)
_R = TypeVar("_R")


class JobRunner(Protocol):
    """Calls a function with each of some jobs, locally or elsewhere."""

    def __call__(self, function: Callable[[_J], _R], jobs: Sequence[_J], /) -> Iterator[_R]:
        """Yield the results in any order; results can be pickled."""
        ...


def run_here(function: Callable[[_J], _R], jobs: Sequence[_J], /) -> Iterator[_R]:
    """Run jobs in threads of this process: most of the time is spent in compiled code."""
    workers = min(processor_count(), MOST_WORKERS, len(jobs))
    if workers < 2:
        yield from map(function, jobs)
        return
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(function, job) for job in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


@dataclass(frozen=True, slots=True)
class SplitWork:
    """A split to read.

    Attributes:
        split: the split.
        known: offsets already in the warehouse that the split may contain.
        first: lowest offset that the split can contain; None if unknown.
        last: highest offset that the split can contain; None if unknown.
        trace: what its records are compared with.
    """

    split: Split
    known: Coverage
    first: int | None = None
    last: int | None = None
    trace: LogTrace = field(default_factory=LogTrace)


@dataclass(frozen=True, slots=True)
class BuildTask(Job):
    """Splits of one cluster that are read one after the other, into shared files.

    Attributes:
        works: the splits.
        group_id: write only what is needed to know this group; None: all records.
    """

    works: tuple[SplitWork, ...]
    group_id: str | None = None

    @property
    def size(self) -> int:
        """Number of bytes to read, as far as known."""
        return sum(work.split.size or 0 for work in self.works)


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets that the records in damaged bytes can have had.

    Attributes:
        first: the offset after the last record before the bytes; None if unknown.
        last: the offset before the first record after the bytes; None if unknown.
    """

    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class SplitRead:
    """Result of reading a split.

    Attributes:
        work: the split, and the offsets that were known before.
        coverage: offsets of the records written: new ones, each once.
        damage: damaged places, at most `MOST_DAMAGE`.
        more_damage: number of further damaged places.
        error: why the split was not read to its end; None if it was.
        lost: a range for each damaged place, one for the further ones and one for what was not read
            because of the error, as far as there are any.
        sound: offsets between which everything was read, whether or not a record had them.
        trace: what other copies are compared with.
        divergences: contradictions to what was read before.
    """

    work: SplitWork
    coverage: Coverage
    damage: tuple[Damage, ...]
    more_damage: int = 0
    error: str | None = None
    lost: tuple[LostRange, ...] = ()
    sound: Coverage = field(default_factory=Coverage)
    trace: LogTrace = field(default_factory=LogTrace)
    divergences: tuple[Divergence, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Result of a task.

    Attributes:
        cluster: name of the cluster in the warehouse.
        files: files written.
        reads: results of its splits, in order.
        topic_names: topic names found in the records, by topic id.
        limits: lowest and highest offset of the records that ownership depends on, outside of open
            transactions, by partition.
    """

    cluster: str
    files: tuple[WrittenFile, ...]
    reads: tuple[SplitRead, ...]
    topic_names: Mapping[str, str]
    limits: Mapping[int, tuple[int, int]]


def run_task(task: BuildTask) -> TaskResult:
    """Read splits into files.

    Rows of records with an open transaction are in separate files. Rows written before an error are
    kept.

    Raises:
        OSError: a file cannot be written.
    """
    with task.facts() as writer:
        rows = _Rows(writer, task.group_id)
        compiled = True if task.size >= COMPILED_BYTES and can_compile() else None
        reads = tuple(rows.read(work, compiled) for work in task.works)
        rows.flush()
        return TaskResult(task.cluster, writer.finish(), reads, rows.topic_names, rows.limits)


def _is_about(batch: pa.RecordBatch, group_id: str) -> pa.Array:
    """Return which records are about a group, end a transaction, or are the first or last ones.

    The last ones tell up to when there are records, even if they are about other groups.
    """
    time = batch["timestamp_ms"]
    extremes = pc.min_max(time)
    is_about = pc.equal(batch["group"], group_id)
    for other in (
        pc.is_in(batch["type"], pa.array(_MARKERS)),
        pc.equal(time, extremes["min"]),
        pc.equal(time, extremes["max"]),
    ):
        is_about = pc.or_(pc.fill_null(is_about, False), pc.fill_null(other, False))
    return is_about


class _Rows:
    """Writes the records of splits, each once.

    Attributes:
        topic_names: topic names found in the records, by topic id.
        limits: see `TaskResult`.
    """

    def __init__(self, writer: FactWriter, group_id: str | None = None) -> None:
        self.topic_names: dict[str, str] = {}
        self.limits: dict[int, tuple[int, int]] = {}
        self._writer = writer
        self._group_id = group_id
        self._taken: dict[int, Coverage] = {}
        self._waiting: dict[bool, list[pa.RecordBatch]] = {False: [], True: []}
        self._waiting_rows = 0

    def read(self, work: SplitWork, compiled: bool | None) -> SplitRead:
        """Write the records of a split; `compiled` None chooses the decoder by the split's size."""
        partition = work.split.offsets_partition
        taken = self._taken.get(partition, Coverage())
        unseen = _Unseen(Coverage.union([work.known, taken]))
        damage: list[Damage] = []
        count = 0
        order = _Order(work)
        check = CopyCheck(work.trace, work.split.name)
        error: str | None = None
        parts = read_split(work.split, compiled=compiled)
        while True:
            try:
                part = next(parts, None)
            except (OSError, KgroupError) as problem:
                error = str(getattr(problem, "strerror", None) or problem)
                break
            if part is None:
                break
            if isinstance(part, Damage):
                count += 1
                if count <= MOST_DAMAGE:
                    damage.append(part)
                order.add_damage()
            else:
                offsets = part["offset"].to_numpy()
                order.add(offsets)
                is_own = check.add(offsets, part)
                if is_own is not None:
                    offsets, part = offsets[is_own], part.filter(pa.array(is_own))
                is_new = unseen.take(offsets)
                self._write(part if is_new.all() else part.filter(pa.array(is_new)))
        coverage = unseen.taken()
        self._taken[partition] = Coverage.union([taken, coverage])
        more = count - len(damage)
        lost, sound = order.finish(is_complete=error is None)
        if check.end is not None:
            sound = sound.within(0, check.end - 1)
        return SplitRead(
            work,
            coverage,
            tuple(damage),
            more,
            error,
            lost,
            sound,
            check.trace(),
            check.divergences(),
        )

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._group_id is not None and len(batch):
            batch = batch.filter(_is_about(batch, self._group_id))
        is_open = pc.fill_null(pc.equal(batch["transaction"], TransactionStatus.OPEN), False)
        if pc.any(is_open).as_py():
            self._add(batch.filter(is_open), is_open=True)
            batch = batch.filter(pc.invert(is_open))
        self._add(batch, is_open=False)

    def _add(self, batch: pa.RecordBatch, *, is_open: bool) -> None:
        if len(batch):
            self._waiting[is_open].append(batch)
            self._waiting_rows += len(batch)
            if self._waiting_rows >= ENOUGH_ROWS:
                self.flush()

    def flush(self) -> None:
        """Write the rows collected so far."""
        for is_open, batches in self._waiting.items():
            if batches:
                facts = facts_of(batches[0] if len(batches) == 1 else pa.concat_batches(batches))
                self.topic_names |= topic_names_in(facts)
                if not is_open:
                    for name in NEEDED.keys() & facts.keys():
                        for limits in offset_limits(facts[name], "log_offset"):
                            widen(self.limits, *limits)
                self._writer.add(facts, is_open=is_open)
                batches.clear()
        self._waiting_rows = 0


class _Order:
    """Finds the values of `SplitRead.lost` and `SplitRead.sound`."""

    def __init__(self, work: SplitWork) -> None:
        self._last = work.last
        self._is_file = isinstance(work.split.location, FileRange)
        self._begin = self._next = work.first
        self._lost: list[LostRange] = []
        self._closed = 0
        self._sound: list[tuple[int, int]] = []
        self._is_ordered = True

    def add(self, offsets: Offsets) -> None:
        """Add the offsets of the records that follow."""
        if not len(offsets):
            return
        first, last = int(offsets[0]), int(offsets[-1])
        self._is_ordered &= (
            (self._next is None or self._next <= first)
            and (self._last is None or last <= self._last)
            and bool((np.diff(offsets) > 0).all())
        )
        self._close(first - 1)
        self._begin = first if self._begin is None else self._begin
        self._next = last + 1

    def add_damage(self) -> None:
        """Add damage that follows the records so far."""
        if len(self._lost) <= MOST_DAMAGE:
            self._add_sound(self._next)
            self._lost.append(self._rest)
            self._begin = None

    def finish(self, *, is_complete: bool) -> tuple[tuple[LostRange, ...], Coverage]:
        """Return both values; nothing is known where records are out of order."""
        if len(self._lost) > MOST_DAMAGE:  # the last range is that of all further places
            self._closed = MOST_DAMAGE
        else:
            end = self._next
            # the following segment may be missing, so that a later one seems to follow
            if is_complete and self._last is not None and not self._is_file:
                end = self._last + 1
            self._add_sound(end)
        if not is_complete:
            self._lost.append(self._rest)
        self._close(self._last)
        if not self._is_ordered:
            return (LostRange(),) * len(self._lost), Coverage()
        return tuple(self._lost), Coverage.of_ranges(self._sound)

    @property
    def _rest(self) -> LostRange:
        return LostRange(None if self._next is None or self._next > _LARGEST else self._next)

    def _close(self, last: int | None) -> None:
        for at in range(self._closed, len(self._lost)):
            self._lost[at] = replace(self._lost[at], last=last)
        self._closed = len(self._lost)

    def _add_sound(self, end: int | None) -> None:
        if self._begin is not None and end is not None and end > self._begin:
            self._sound.append((self._begin, end - 1))


class _Unseen:
    """Selects offsets that are not known, each once."""

    def __init__(self, known: Coverage) -> None:
        self._known = known
        self._parts: list[Coverage] = []
        self._last = -1

    def take(self, offsets: Offsets) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Add the offsets of a batch; return a mask of those that are new."""
        is_new = ~self._known.has(offsets)
        if len(offsets) and (offsets[0] <= self._last or (np.diff(offsets) <= 0).any()):
            # out of order; brokers never write this
            is_first = np.zeros(len(offsets), np.bool_)
            is_first[np.unique(offsets, return_index=True)[1]] = True
            is_new &= is_first & ~self.taken().has(offsets)
        self._parts.append(Coverage.of(offsets[is_new]))
        self._last = max(self._last, int(offsets.max(initial=-1)))
        return is_new

    def taken(self) -> Coverage:
        """Return the offsets selected so far."""
        self._parts = [Coverage.union(self._parts)]
        return self._parts[0]
