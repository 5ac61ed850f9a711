"""Bring a warehouse up to date: turn new records of files or a live cluster into rows.

sources ──plan: what is new──► rounds of tasks ──► files ──resolve, derive, merge──► commit

Replicas of one partition are read one after the other, in rounds, so that each record is read from
one of them only. If a record was read twice nevertheless, because a log may be out of order, the
result is discarded and the split is read again without the records of other replicas.

Rows whose transaction was open when they were read are in separate files. The next marker of their
producer in their partition decides (`protocol.batch.transaction`).

Files of one table and day of about the same size are merged when there are many: a row is rewritten
about once per size class, and each class is eight times the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path, PurePath
from time import perf_counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import InputError
from kgroup.history.build.cluster_update import (
    ClusterUpdate,
    damage_row,
    fingerprint,
    live_start,
    problem_of,
    replace_damage,
)
from kgroup.history.build.derivation import derive_assignments
from kgroup.history.build.task import (
    BuildTask,
    Job,
    JobRunner,
    SplitRead,
    SplitWork,
    TaskResult,
    run_here,
    run_task,
)
from kgroup.history.input.live_source import LiveSource, ask_live
from kgroup.history.input.segment_source import SegmentSource, Sources, find_sources
from kgroup.history.input.split import Split
from kgroup.history.sql.question import EVERY_RECORD_TABLE, LogEnd, ends_of
from kgroup.history.warehouse.coverage import Coverage, Offsets
from kgroup.history.warehouse.state import LogTrace, PartitionState
from kgroup.history.warehouse.store import Location, file_at, location_of, written_as
from kgroup.history.warehouse.table import TABLES, TRANSACTIONAL
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_rows, row_groups
from kgroup.history.warehouse.warehouse import Warehouse, WarehouseWriter
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.operation.report import Report
from kgroup.source.config.client_config import ClientConfig
from kgroup.source.snapshot.file import is_snapshot, read_snapshot

MANY = 12
"""Minimum number of files to merge at once."""

LARGE = 2 << 20
"""Size from which a file is not merged, in bytes."""

_SMALL = 1 << 15
"""Upper limit of the smallest size class, in bytes."""


@dataclass(frozen=True, slots=True)
class MergeTask(Job):
    """Files of a cluster to merge: of one table and day, either all open or none."""

    files: tuple[WrittenFile, ...]

    @property
    def size(self) -> int:
        """Number of bytes to read."""
        return sum(file.size for file in self.files)


def merge_tasks(
    warehouse: str, cluster: str, build: int, files: Iterable[WrittenFile]
) -> Iterator[MergeTask]:
    """Yield tasks for the files of a cluster that should be merged.

    Open rows without a day have a file for each partition, which is replaced as a whole.
    """
    alike: dict[tuple[PurePath, bool, int], list[WrittenFile]] = {}
    for file in files:
        if file.size < LARGE and not (file.is_open and TABLES[file.table].are_open_dayless):
            order = (max(file.size, _SMALL).bit_length() - 1) // 3
            alike.setdefault((PurePath(file.path).parent, file.is_open, order), []).append(file)
    for found in alike.values():
        if len(found) >= MANY:
            yield MergeTask(warehouse, cluster, build, tuple(found))


def run_merge(task: MergeTask) -> tuple[MergeTask, tuple[WrittenFile, ...]]:
    """Merge files; return the task and the merged files.

    Raises:
        OSError: a file cannot be written.
        InputError: a file of the warehouse cannot be read.
    """
    with task.facts() as writer:
        for file in task.files:
            path = file_at(location_of(task.warehouse), file.path)
            for rows in row_groups(path, TABLES[file.table].schema):
                writer.add({file.table: rows}, is_open=file.is_open)
        return task, writer.finish()


_KEY = ("offsets_partition", "producer_id", "log_offset")


def resolve_transactions(
    warehouse: Location, files: Iterable[WrittenFile], new: Collection[str], writer: FactWriter
) -> set[str]:
    """Rewrite the rows of transactions that have ended.

    Args:
        warehouse: its folder.
        files: files of one cluster.
        new: paths of the files written since the last call.
        writer: writer for the rows.

    Returns:
        Paths of the rewritten files, which are no longer valid.
    """
    files = list(files)
    # Rows that were open before were already compared with the older markers.
    replaced: set[str] = set()
    markers = [file for file in files if file.table == "transactions"]
    new_markers = [file for file in markers if file.path in new]
    for is_new, candidates in ((True, markers), (False, new_markers)):
        is_open = [
            file
            for file in files
            if file.is_open and file.table in TRANSACTIONAL and (file.path in new) == is_new
        ]
        ends = _markers(warehouse, is_open, candidates)
        if len(ends):
            replaced |= {
                file.path for file in is_open if _resolve_file(warehouse, file, ends, writer)
            }
    return replaced


def _markers(
    warehouse: Location, is_open: Iterable[WrittenFile], candidates: Iterable[WrittenFile]
) -> pa.Table:
    """Return the markers that may follow rows of open files."""
    firsts: dict[int, int] = {}
    for file in is_open:
        first, _ = file.offsets
        for partition in file.partitions:
            firsts[partition] = min(first, firsts.get(partition, first))
    columns = [*_KEY, "outcome"]
    found = [
        read_rows(warehouse, file, columns)
        for file in candidates
        if any(file.offsets[1] > firsts.get(number, file.offsets[1]) for number in file.partitions)
    ]
    if not found:
        return TABLES["transactions"].schema.empty_table().select(columns)
    markers = pa.concat_tables(found)
    return markers.filter(pc.is_valid(markers["producer_id"]))


def _resolve_file(
    warehouse: Location, file: WrittenFile, markers: pa.Table, writer: FactWriter
) -> bool:
    rows = read_rows(warehouse, file)
    outcome = _outcomes(rows, markers)
    is_resolved = pc.is_valid(outcome)
    if not pc.any(is_resolved).as_py():
        return False
    at = rows.schema.get_field_index("transaction")
    resolved = rows.set_column(at, "transaction", outcome).filter(is_resolved)
    writer.add({file.table: resolved})
    rest = rows.filter(pc.invert(is_resolved))
    if len(rest):
        writer.add({file.table: rest}, is_open=True)
    return True


def _outcomes(rows: pa.Table, markers: pa.Table) -> pa.Array:
    """Return the outcome of each row's transaction; null if no marker follows."""
    return markers["outcome"].combine_chunks().take(next_markers(rows, markers))


def next_markers(rows: pa.Table, markers: pa.Table) -> pa.Array:
    """Return the number of the marker that ends each row's transaction; null if none follows.

    Both tables have the columns offsets_partition, producer_id and log_offset.
    """
    count = len(rows)
    partition, producer, offset = (
        np.concatenate([_ints(rows[name]), _ints(markers[name])]) for name in _KEY
    )
    order = np.lexsort((offset, producer, partition))
    # For each position in this order, the index of the next marker; the length if there is none.
    at = np.where(order >= count, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(at[::-1])[::-1]
    has_one = following < len(order)
    ends = order[np.where(has_one, following, 0)]
    has_one &= (partition[ends] == partition[order]) & (producer[ends] == producer[order])
    marker = np.full(len(order), -1, np.int64)
    marker[order] = np.where(has_one, ends - count, -1)
    marker = marker[:count]
    return pa.array(marker, mask=marker < 0)


def _ints(column: pa.ChunkedArray) -> Offsets:
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)


TASK_BYTES = 16 << 20
"""Size from which a task gets no further split, in bytes: small files share a task."""


@dataclass(frozen=True, slots=True)
class TableCount:
    """Changes that a build made to a table, for one cluster.

    Attributes:
        table: table name.
        new_row_count: number of rows added; for `assignments`, which may be derived again, the
            increase in rows.
        row_count: number of rows after the build.
        file_count: number of files of the table.
        file_bytes: total size of these files in bytes.
    """

    table: str
    new_row_count: int
    row_count: int
    file_count: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Wall-clock time of each stage of a run, in seconds.

    Attributes:
        read: reading records and writing them to files; null if other processes read them.
        derive: ending transactions and deriving assignments.
        merge: merging small files.
        commit: making the result visible; 0 if nothing changed.
    """

    read: float | None
    derive: float
    merge: float
    commit: float


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """Changes that a build made to a cluster.

    Attributes:
        cluster: name of the cluster in the warehouse.
        segments_read: number of segments, or partitions of the live topic, with new data; each
            was read to its end.
        segments_skipped: number of segments, or partitions of the live topic, without new data.
        bytes_read: bytes read from segments; 0 for the live topic.
        new_record_count: number of records added.
        damage_count: number of places that this run could not read; listed in `errors`.
        tables: changes to each table.
        seconds: time that each stage of the run took, for all its clusters together.
    """

    cluster: str
    segments_read: int
    segments_skipped: int
    bytes_read: int
    new_record_count: int
    damage_count: int
    tables: tuple[TableCount, ...]
    seconds: StageSeconds


@dataclass(slots=True)
class _Reading:
    """A segment or live partition that is being read.

    Attributes:
        finish: called with all results.
        missing: number of splits not read yet.
        reads: results of the other splits.
    """

    finish: Callable[[Sequence[SplitRead]], None]
    missing: int
    reads: list[SplitRead] = field(default_factory=list)


class Build:
    """One build of a warehouse, up to a commit.

    Call the `read` and `add` methods, or pass results of tasks that were run elsewhere to `accept`,
    then call `commit`. The object can be reused after that.
    """

    def __init__(
        self,
        writer: WarehouseWriter,
        run: JobRunner = run_here,
        on_progress: Callable[[int, int, str], None] = lambda done, size, unit: None,
        group_id: str | None = None,
    ) -> None:
        """Create an empty build.

        Args:
            writer: writer of the warehouse.
            run: runs tasks.
            on_progress: called with the amount done, the total, and their unit: bytes or offsets.
            group_id: add only the records of this group; None: of all groups.
        """
        self.group_id = group_id
        self._writer = writer
        self._run = run
        self._on_progress = on_progress
        self._changes: dict[str, ClusterUpdate] = {}
        self._reading: dict[_Key, _Reading] = {}
        self._read_s: float | None = None

    def add_topic_names(self, cluster: str, names: Mapping[str, str]) -> None:
        """Add names of users' topics, by topic id."""
        self._change(cluster).topic_names |= names

    def add_unreadable(self, cluster: str, problems: Iterable[Problem]) -> None:
        """Add damage for folders and files of partitions that cannot be read."""
        self._change(cluster).damage += map(damage_row, problems)

    def read(self, sources: Sequence[SegmentSource]) -> None:
        """Read new records of segments.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
        with self._timed():
            self._read(sources)

    def _read(self, sources: Sequence[SegmentSource]) -> None:
        waiting = _replicas(sources)
        size = sum(source.size for source in sources)
        again: list[Split] = []
        while waiting or again:
            works = list(map(self._work_again, again))
            for partition in list(waiting):
                replica = waiting[partition].pop()
                if not waiting[partition]:
                    del waiting[partition]
                works += self._plan(replica)
            left = sum(
                source.size for rest in waiting.values() for replica in rest for source in replica
            )
            again = self._do(works, left, size, "bytes")

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the time that the context takes to that of reading."""
        start = perf_counter()
        try:
            yield
        finally:
            self._read_s = (self._read_s or 0.0) + perf_counter() - start

    def add_log_ends(self, cluster: str, ends: Iterable[LogEnd]) -> None:
        """Add log ends of users' topics; known ones are skipped.

        Raises:
            InputError: a file of the warehouse cannot be read.
        """
        change = self._change(cluster)
        new = {(end.topic, end.partition, end.time_ms): end for end in ends}
        for file in change.files.values():
            if file.table == "log_ends":
                rows = read_rows(self._writer.root, file, ("topic", "partition", "time_ms"))
                for row in rows.to_pylist():
                    new.pop(tuple(row.values()), None)
        change.log_ends |= new

    def known_end(self, cluster: str, number: int, first: int) -> int:
        """Return the offset up to which a partition's records from `first` on are known."""
        return self._change(cluster).coverage(number).end_from(first)

    def committed_partitions(
        self, cluster: str, number: int, group_id: str
    ) -> frozenset[TopicPartition]:
        """Return the partitions with commits of a group, also those not yet committed here.

        Args:
            cluster: cluster of the group.
            number: the group's partition of `__consumer_offsets`.
            group_id: the group.

        Raises:
            InputError: a file of the warehouse cannot be read.
        """
        columns = ("group_id", "topic", "partition")
        found: set[TopicPartition] = set()
        for file in self._change(cluster).files.values():
            if file.table == "offset_commits":
                rows = read_rows(self._writer.root, file, columns, partitions=[number])
                own = rows.filter(pc.equal(rows["group_id"], group_id)).select(columns[1:])
                distinct = own.group_by(list(columns[1:])).aggregate([])
                found.update(zip(*distinct.to_pydict().values(), strict=True))
        return frozenset(found)

    def partitions_of(self, table: str, group_id: str | None) -> frozenset[int]:
        """Return the offsets partitions of the rows of a group, or of all, in a committed table.

        Raises:
            InputError: a file of the warehouse cannot be read.
        """
        root, columns = self._writer.root, ("group_id", "offsets_partition")
        found: set[int] = set()
        for name in self._writer.clusters:
            for file in self._writer.state(name).files:
                if file.table == table:
                    rows = read_rows(root, file, columns)
                    if group_id is not None:
                        rows = rows.filter(pc.equal(rows["group_id"], group_id))
                    found.update(pc.unique(rows["offsets_partition"]).to_pylist())
        return frozenset(found)

    def read_live(self, source: LiveSource) -> None:
        """Read new records of the live topic.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse, or of the configuration, cannot be read.
        """
        with self._timed():
            splits = source.splits(self._live_starts(source))
            self._expect_live(source, splits)
            self._do_live([self._work(split, split.location.end) for split in splits])
            self._add_live_ends(source, source)

    def accept_live(
        self, source: LiveSource, results: Sequence[TaskResult], earlier: LiveSource | None
    ) -> None:
        """Add results of `live_tasks`; splits with records that are known by now are read again.

        Args:
            source: the live topic as it is now.
            results: the results; there is one for each task.
            earlier: the live topic as it was before the ends of the tasks were known: its log ends
                are added, as all commits up to then are in the results.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse, or of the configuration, cannot be read.
        """
        self._live_starts(source)  # adds damage for logs that are shorter
        self._expect_live(source, [read.work.split for result in results for read in result.reads])
        again = [split for result in results for split in self.accept(result)]
        self._do_live(list(map(self._work_again, again)))
        if earlier is not None:
            self._add_live_ends(earlier, source)

    def _live_starts(self, source: LiveSource) -> dict[int, int]:
        change = self._change(source.cluster)
        change.topic_names |= source.topic_names
        change.damage += map(damage_row, source.problems)
        # partitions without a leader are reported again
        change.reread.append((OFFSETS_TOPIC, 0, 0))
        return {
            number: change.live_start(number, *limits)
            for number, limits in source.ranges.items()
            if number not in source.copies
        }

    def _expect_live(self, source: LiveSource, splits: Iterable[Split]) -> None:
        """Record the ends of partitions once all of these splits are read."""
        change = self._change(source.cluster)
        parts: dict[int, list[Split]] = {}
        for split in splits:
            parts.setdefault(split.offsets_partition, []).append(split)
        change.segments_skipped += len(source.ranges.keys() - parts.keys())
        for number, some in parts.items():
            reading = _Reading(partial(change.finish_live, number), len(some))
            self._reading |= {_key(split): reading for split in some}

    def _do_live(self, works: Sequence[SplitWork]) -> None:
        size = sum(map(_size, works))
        while works:
            works = list(map(self._work_again, self._do(works, 0, size, "offsets")))

    def _add_live_ends(self, source: LiveSource, now: LiveSource) -> None:
        """Add the log ends of a source, and those of the partitions that are known up to then."""
        if not source.log_ends:
            return
        change = self._change(source.cluster)
        time_ms = source.log_ends[0].time_ms
        known = [
            LogEnd(OFFSETS_TOPIC, number, *limits, time_ms)
            for number, limits in source.ranges.items()
            if number in now.ranges and change.has_all(number, *limits, now.ranges[number][1])
        ]
        change.log_ends |= {
            (end.topic, end.partition, time_ms): end for end in (*source.log_ends, *known)
        }

    def accept(self, result: TaskResult) -> list[Split]:
        """Add the result of a task; return its splits if they must be read again."""
        change = self._change(result.cluster)
        if not change.accept(result):
            for file in result.files:
                (self._writer.root / file.path).unlink(missing_ok=True)
            return [read.work.split for read in result.reads]
        for read in result.reads:
            reading = self._reading.pop(_key(read.work.split), None)
            if reading is not None:
                reading.missing -= 1
                reading.reads.append(read)
                if not reading.missing:
                    reading.finish(reading.reads)
        return []

    def commit(self) -> Report[ClusterReport]:
        """Resolve transactions, derive assignments, merge files, and commit the result.

        Returns:
            A row for each cluster, sorted; errors are damage, notes are warnings about whole
            clusters.

        Raises:
            OSError: a file cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
        times = [perf_counter()]
        changes = [self._changes[cluster] for cluster in sorted(self._changes)]
        for change in changes:
            with FactWriter(self._writer.root, change.cluster, self._number) as writer:
                files = list(change.files.values())
                old = resolve_transactions(self._writer.root, files, change.new, writer)
                repaired, change.new_damage = replace_damage(
                    self._writer.root, files, change.damage, change.reread, writer, change.is_read
                )
                if change.log_ends:
                    rows = [asdict(end) for end in change.log_ends.values()]
                    schema = TABLES["log_ends"].schema
                    writer.add({"log_ends": pa.Table.from_pylist(rows, schema)})
                change.replace_files(old | repaired, writer.finish())
        derive_assignments(self._writer, changes, self._run)
        times.append(perf_counter())
        merges = [
            task
            for change in changes
            for task in merge_tasks(
                written_as(self._writer.root), change.cluster, self._number, change.files.values()
            )
        ]
        for task, merged in self._run(run_merge, merges):
            self._change(task.cluster).replace_files([file.path for file in task.files], merged)
        times.append(perf_counter())
        changed = [change for change in changes if change.state() != change.before]
        if changed:
            self._writer.commit(
                {change.cluster: change.state() for change in changed},
                {
                    (change.cluster, number): coverage
                    for change in changed
                    for number, coverage in change.coverages.items()
                },
            )
        times.append(perf_counter())
        stages = (round(after - before, 3) for before, after in pairwise(times))
        seconds = StageSeconds(self._read_s and round(self._read_s, 3), *stages)
        self._changes, self._read_s = {}, None
        return Report(
            tuple(_report(change, seconds) for change in changes),
            tuple(problem_of(row) for change in changes for row in change.damage),
            (
                *self._writer.notes,
                *(note for change in changes if (note := change.mixture()) is not None),
            ),
        )

    @property
    def _number(self) -> int:
        return self._writer.build + 1

    def _change(self, cluster: str) -> ClusterUpdate:
        if cluster not in self._changes:
            self._changes[cluster] = ClusterUpdate(self._writer, cluster)
        return self._changes[cluster]

    def _plan(self, replica: Sequence[SegmentSource]) -> Iterator[SplitWork]:
        """Yield work for the new parts of the segments of one replica of a partition."""
        for folder in {str(PurePath(source.name).parent) for source in replica}:
            self._change(replica[0].cluster).reread.append((folder, 0, 0))  # it can be read
        for source, following in pairwise([*replica, None]):
            assert source is not None
            end = following.base_offset if following else None
            change = self._change(source.cluster)
            try:
                splits = source.splits(change.start(source, end))
                before = fingerprint(source, source.size) if splits else ""
            except OSError as error:
                change.add_unreadable(source, end, error)
                continue
            if not splits:
                change.pass_over(source)
                continue
            reading = _Reading(partial(change.finish, source, before), len(splits))
            self._reading |= {_key(split): reading for split in splits}
            for split in splits:
                work = self._work(split, end)
                place = split.location
                yield replace(
                    work,
                    first=work.first if place.start == 0 else None,
                    last=work.last if place.end == source.size else None,
                )

    def _work(self, split: Split, end: int | None) -> SplitWork:
        """Return work with the known offsets between the split's base offset and `end`."""
        first, last = split.base_offset, None if end is None else end - 1
        known = self._known(split).within(first or 0, last)
        return SplitWork(split, known, first, last, self._trace(split))

    def _work_again(self, split: Split) -> SplitWork:
        """Return work with all known offsets: the split's offsets do not match its name."""
        return SplitWork(split, self._known(split), trace=self._trace(split))

    def _trace(self, split: Split) -> LogTrace:
        return self._change(split.cluster).partition(split.offsets_partition).trace

    def _known(self, split: Split) -> Coverage:
        return self._change(split.cluster).coverage(split.offsets_partition)

    def _do(self, works: Sequence[SplitWork], left: int, size: int, unit: str) -> list[Split]:
        """Run tasks; return the splits that must be read again.

        Args:
            works: splits to read.
            left: amount that will be left after these.
            size: total amount.
            unit: unit of the amounts.
        """
        again: list[Split] = []
        left += sum(map(_size, works))
        for result in self._run(run_task, self._tasks(works)):
            again += self.accept(result)
            left -= sum(_size(read.work) for read in result.reads)
            self._on_progress(size - left, size, unit)
        return again

    def _tasks(self, works: Iterable[SplitWork]) -> list[BuildTask]:
        """Return tasks; small splits of a cluster share one."""
        tasks: list[BuildTask] = []
        for cluster, some in groupby(
            sorted(works, key=lambda work: work.split.cluster), key=lambda work: work.split.cluster
        ):
            share: list[SplitWork] = []
            size = 0
            for work in some:
                share.append(work)
                size += work.split.size or TASK_BYTES
                if size >= TASK_BYTES:
                    tasks.append(self._task(cluster, share))
                    share, size = [], 0
            if share:
                tasks.append(self._task(cluster, share))
        return tasks

    def _task(self, cluster: str, works: Sequence[SplitWork]) -> BuildTask:
        root = written_as(self._writer.root)
        return BuildTask(root, cluster, self._number, tuple(works), self.group_id)


def live_tasks(
    warehouse: Warehouse, source: LiveSource, ends: Mapping[int, int]
) -> Iterator[BuildTask]:
    """Yield tasks that read what a warehouse lacks of the live topic, for `Build.accept_live`.

    Args:
        warehouse: the warehouse; it may change before the results are added.
        source: the live topic.
        ends: offsets at which to stop, by partition; others are not read.

    Raises:
        InputError: a file of the warehouse is damaged.
    """
    partitions = warehouse.partitions(source.cluster)
    states = {number: partitions.get(number, PartitionState.none()) for number in source.ranges}
    known = {number: warehouse.coverage(source.cluster, number) for number in source.ranges}
    # a log may have lost records since `ends` were stored
    lasts = {number: min(ends.get(number, 0), end) for number, (_, end) in source.ranges.items()}
    starts = {
        number: live_start(states[number].live_end or 0, known[number], first, lasts[number])
        for number, (first, _) in source.ranges.items()
    }
    for split in source.splits(starts, lasts):
        place = split.location
        limits = place.start, place.end - 1
        number = split.offsets_partition
        work = SplitWork(split, known[number].within(*limits), *limits, states[number].trace)
        yield BuildTask(written_as(warehouse.root), source.cluster, warehouse.build + 1, (work,))


_Key = tuple[str, int, str, int, int]


def _key(split: Split) -> _Key:
    place = split.location
    return split.cluster, split.offsets_partition, split.name, place.start, place.end


def _size(work: SplitWork) -> int:
    """Return the bytes of a file, or the offsets of a live partition."""
    return work.split.location.end - work.split.location.start


def _replicas(sources: Iterable[SegmentSource]) -> dict[tuple[str, int], list[list[SegmentSource]]]:
    """Return the replicas of each partition, smallest first; they are read from the end."""
    found: dict[tuple[str, int], list[list[SegmentSource]]] = {}
    for (cluster, number, _), replica in groupby(
        sorted(sources, key=lambda source: source.order), key=lambda source: source.order[:3]
    ):
        found.setdefault((cluster, number), []).append(list(replica))
    for replicas in found.values():
        replicas.sort(key=lambda replica: sum(source.size for source in replica))
    return found


def _report(change: ClusterUpdate, seconds: StageSeconds) -> ClusterReport:
    counts = tuple(_count(name, change) for name in TABLES)
    return ClusterReport(
        change.cluster,
        change.segments_read,
        change.segments_skipped,
        change.bytes_read,
        sum(count.new_row_count for count in counts if count.table in EVERY_RECORD_TABLE),
        len(change.damage),
        counts,
        seconds,
    )


def _count(table: str, change: ClusterUpdate) -> TableCount:
    files = [file for file in change.files.values() if file.table == table]
    rows = sum(file.rows for file in files)
    before = sum(file.rows for file in change.before.files if file.table == table)
    new = change.new_damage if table == "damage" else max(rows - before, 0)
    return TableCount(table, new, rows, len(files), sum(file.size for file in files))


BuildFrom: TypeAlias = Callable[[Build], Report[ClusterReport]]
"""Brings a warehouse up to date, and commits.

Raises:
    OSError: a file cannot be written.
    InputError: a file of the warehouse, or of the configuration, cannot be read.
    BrokerError: no broker answers.
"""


def build_from_files(
    locations: Sequence[str],
    cluster: str | None,
    *,
    unnamed: str | None = None,
    is_summed: bool = True,
) -> BuildFrom:
    """Find segments and snapshots, before a warehouse is created; return the build function.

    Args:
        locations: see `find_sources`; or snapshot files.
        cluster: name of their cluster; None for the cluster id that they contain.
        unnamed: name of a cluster without an id; None: that is an error.
        is_summed: whether notes tell how many segments were read.

    Raises:
        InputError: there is nothing to read, or a location does not identify its cluster.
    """
    files = [Path(location) for location in locations if is_snapshot(Path(location))]
    snapshots = [read_snapshot(file) for file in files]
    names = [
        _name_of(file, cluster or snapshot.cluster_id or unnamed)
        for file, snapshot in zip(files, snapshots, strict=True)
    ]
    others = [location for location in locations if Path(location) not in files]
    sources = find_sources(others, cluster, unnamed) if others else Sources((), {}, (), ())
    found = [*sources.problems, *chain.from_iterable(sources.unreadable.values())]
    if found and not (sources.segments or files):
        problem = found[0]
        raise InputError(f"{problem.path}: {problem.reason}", path=problem.path)

    def build_from(build: Build) -> Report[ClusterReport]:
        for name, snapshot in zip(names, snapshots, strict=True):
            build.add_topic_names(name, snapshot.topic_names)
            build.add_log_ends(name, ends_of(snapshot))
        for name, topic_names in sources.topic_names.items():
            build.add_topic_names(name, topic_names)
        for name, problems in sources.unreadable.items():
            build.add_unreadable(name, problems)
        build.read(sources.segments)
        report = build.commit()
        summaries = _summaries(report, "segment") if others and is_summed else ()
        return replace(
            report,
            errors=(*sources.problems, *report.errors),
            notes=(*report.notes, *sources.notes, *summaries),
        )

    return build_from


def _name_of(file: Path, cluster: str | None) -> str:
    if cluster is None:
        raise InputError(
            f"{file}: expected the id of a cluster, found none; name the cluster with --cluster "
            "NAME",
            path=str(file),
        )
    return cluster


def build_from_cluster(
    config: ClientConfig,
    cluster: str | None,
    timeout_s: float,
    *,
    unnamed: str | None = None,
    with_log_ends: bool = False,
) -> BuildFrom:
    """Ask a cluster first, so that no new warehouse is created if it does not answer.

    Args:
        config: how to connect.
        cluster: name for the cluster; None for its cluster id.
        timeout_s: see `ask_live`.
        unnamed: see `ask_live`.
        with_log_ends: see `ask_live`.

    Raises:
        BrokerError: no broker answers, or the topic may not be described.
        InputError: the cluster has no id, or a file of the configuration cannot be read.
    """
    ask_live(config, cluster, timeout_s, unnamed=unnamed)

    def build_from(build: Build) -> Report[ClusterReport]:
        # Another build may have run meanwhile.
        source = ask_live(config, cluster, timeout_s, unnamed=unnamed, with_log_ends=with_log_ends)
        build.read_live(source)
        report = build.commit()
        notes = [*report.notes, *_summaries(report, "partition")]
        if not source.ranges and not source.problems:
            notes.append(f"{source.cluster} shows no topic {OFFSETS_TOPIC}: there is no history.")
        return replace(report, notes=tuple(notes))

    return build_from


def _summaries(report: Report[ClusterReport], what: str) -> Iterator[str]:
    for each in report.data:
        count = f"{each.segments_read:,} {what}{'' if each.segments_read == 1 else 's'}"
        yield f"{each.cluster}: {count} read, {each.segments_skipped:,} without new data."
