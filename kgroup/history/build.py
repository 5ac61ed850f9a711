"""Bring a warehouse up to date: what is new in a log becomes rows of its tables.

    sources ──plan: what is new──► rounds of tasks ──► files ──settle, derive, merge──► commit

Replicas of one partition are read one after the other, in rounds: what one of them has need not be
read of the next. What is read twice all the same, since a log is not in order, is thrown away and
read once more, with what the others have left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from uuid import uuid4

from kgroup.history.change import Change
from kgroup.history.coverage import Coverage
from kgroup.history.damage import problem_of, replace_damage
from kgroup.history.derivation import derive_assignments
from kgroup.history.fact_file import FactWriter
from kgroup.history.merge import merge_tasks, run_merge
from kgroup.history.segment_source import SegmentSource
from kgroup.history.settle import settle
from kgroup.history.split import Split
from kgroup.history.table import TABLES
from kgroup.history.task import Run, SplitRead, Task, TaskResult, Work, run_here, run_task
from kgroup.history.warehouse import WarehouseWriter
from kgroup.model.problem import Problem

__all__ = ["Build", "ClusterReport", "TableCount"]

TASK_BYTES = 64 << 20
"""Bytes from which on a task gets no further split: small files share one."""


@dataclass(frozen=True, slots=True)
class TableCount:
    """What a build did to a table, for one cluster.

    Attributes:
        table: its name.
        new_rows: how many rows it has more than before.
        rows: how many it has now.
        files: in how many files.
        size: of these, in bytes.
    """

    table: str
    new_rows: int
    rows: int
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """What a build did for a cluster.

    Attributes:
        cluster: its name.
        segments_read: segments that had something new.
        segments_skipped: those that had not.
        bytes_read: of the former.
        tables: all of them.
        damage: what could not be read.
    """

    cluster: str
    segments_read: int
    segments_skipped: int
    bytes_read: int
    tables: tuple[TableCount, ...]
    damage: tuple[Problem, ...]


@dataclass(slots=True)
class _Reading:
    """A segment that is being read.

    Attributes:
        source: the segment.
        missing: how many of its splits are not read yet.
        reads: the results of the others.
    """

    source: SegmentSource
    missing: int
    reads: list[SplitRead] = field(default_factory=list)


class Build:
    """What is to be committed next.

    Feed it what there is to read, or results of tasks that were done elsewhere; then commit. It can
    be used again after that.
    """

    def __init__(
        self,
        writer: WarehouseWriter,
        run: Run = run_here,
        tell: Callable[[int, int], None] = lambda done, size: None,
    ) -> None:
        """Begin.

        Args:
            writer: of the warehouse.
            run: does tasks.
            tell: called with the bytes that are done with, and how many there are.
        """
        self._writer = writer
        self._run = run
        self._tell = tell
        self._changes: dict[str, Change] = {}
        self._reading: dict[Split, _Reading] = {}

    def add_topic_names(self, cluster: str, names: Mapping[str, str]) -> None:
        """Take names of users' topics by id."""
        self._change(cluster).topic_names |= names

    def known(self, cluster: str, partition: int) -> Coverage:
        """Tell the offsets of a partition that need not be read."""
        return self._change(cluster).coverage(partition)

    def read(self, sources: Sequence[SegmentSource]) -> None:
        """Read what is new in segments.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
        waiting = _replicas(sources)
        size = sum(source.size for source in sources)
        done = 0
        again: list[Split] = []
        while waiting or again:
            works = [self._work(split, None, None) for split in again]
            again = []
            for partition in list(waiting):
                replica = waiting[partition].pop()
                if not waiting[partition]:
                    del waiting[partition]
                works += self._plan(replica)
            planned = sum(work.split.size or 0 for work in works)
            done = (
                size
                - planned
                - sum(
                    source.size
                    for rest in waiting.values()
                    for replica in rest
                    for source in replica
                )
            )
            for result in self._run(run_task, self._tasks(works)):
                again += self.accept(result)
                done += sum(read.work.split.size or 0 for read in result.reads)
                self._tell(done, size)

    def accept(self, result: TaskResult) -> list[Split]:
        """Take what a task has done; give its splits if they have to be read once more."""
        splits = [read.work.split for read in result.reads]
        change = self._change(result.cluster)
        if not change.accept(result):
            for file in result.files:
                (self._writer.root / file.path).unlink(missing_ok=True)
            return splits
        for read in result.reads:
            reading = self._reading.pop(read.work.split, None)
            if reading is not None:
                reading.missing -= 1
                reading.reads.append(read)
                if not reading.missing:
                    change.finish(reading.source, reading.reads)
        return []

    def commit(self) -> tuple[ClusterReport, ...]:
        """Settle, derive, and let all of it count; tell what was done, by cluster.

        Raises:
            OSError: a file cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
        changes = [self._changes[cluster] for cluster in sorted(self._changes)]
        for change in changes:
            with self._facts(change) as writer:
                files = list(change.files.values())
                old = settle(self._writer.root, files, change.new, writer)
                old |= replace_damage(
                    self._writer.root, files, change.damage, change.reread, writer
                )
                change.replace_files(old, writer.finish())
        derive_assignments(self._writer, changes, self._run)
        merges = [
            task
            for change in changes
            for task in merge_tasks(
                str(self._writer.root), change.cluster, self._number, change.files.values()
            )
        ]
        for task, merged in self._run(run_merge, merges):
            self._change(task.cluster).replace_files([file.path for file in task.files], merged)
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
        self._changes = {}
        return tuple(map(_report, changes))

    @property
    def _number(self) -> int:
        return self._writer.build + 1

    def _facts(self, change: Change) -> FactWriter:
        return FactWriter(self._writer.root, change.cluster, f"{self._number}-{uuid4().hex}")

    def _change(self, cluster: str) -> Change:
        if cluster not in self._changes:
            self._changes[cluster] = Change(self._writer, cluster)
        return self._changes[cluster]

    def _plan(self, replica: Sequence[SegmentSource]) -> Iterator[Work]:
        """Find what is new in the segments of one replica of a partition."""
        for source, following in pairwise([*replica, None]):
            assert source is not None
            end = following.base_offset if following else None
            change = self._change(source.cluster)
            try:
                start = change.start(source, end)
                splits = [] if start is None else source.splits(start)
            except OSError as error:
                change.add_unreadable(source, error)
                continue
            if not splits:
                change.segments_skipped += 1
                continue
            change.segments_read += 1
            change.bytes_read += sum(split.size or 0 for split in splits)
            reading = _Reading(source, len(splits))
            for split in splits:
                self._reading[split] = reading
                yield self._work(split, source.base_offset, end)

    def _work(self, split: Split, first: int | None, end: int | None) -> Work:
        """Add what is known of the offsets that a split is expected to have."""
        known = self.known(split.cluster, split.offsets_partition)
        return Work(split, known.within(first or 0, None if end is None else end - 1))

    def _tasks(self, works: Iterable[Work]) -> list[Task]:
        """Let small splits of a cluster share a task."""
        tasks: list[Task] = []
        for cluster, some in groupby(
            sorted(works, key=lambda work: work.split.cluster), key=lambda work: work.split.cluster
        ):
            share: list[Work] = []
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

    def _task(self, cluster: str, works: Sequence[Work]) -> Task:
        return Task(str(self._writer.root), cluster, self._number, tuple(works))


def _replicas(
    sources: Iterable[SegmentSource],
) -> dict[tuple[str, int], list[list[SegmentSource]]]:
    """Give the replicas of each partition, those first that are to be read last: the smallest."""

    def place(source: SegmentSource) -> tuple[str, int, str, int, str]:
        base = -1 if source.base_offset is None else source.base_offset
        return source.cluster, source.offsets_partition, source.replica, base, source.path

    found: dict[tuple[str, int], list[list[SegmentSource]]] = {}
    for (cluster, number, _), replica in groupby(
        sorted(sources, key=place), key=lambda source: place(source)[:3]
    ):
        found.setdefault((cluster, number), []).append(list(replica))
    for replicas in found.values():
        replicas.sort(key=lambda replica: sum(source.size for source in replica))
    return found


def _report(change: Change) -> ClusterReport:
    return ClusterReport(
        change.cluster,
        change.segments_read,
        change.segments_skipped,
        change.bytes_read,
        tuple(_count(name, change) for name in TABLES),
        tuple(map(problem_of, change.damage)),
    )


def _count(table: str, change: Change) -> TableCount:
    files = [file for file in change.files.values() if file.table == table]
    rows = sum(file.rows for file in files)
    before = sum(file.rows for file in change.before.files if file.table == table)
    return TableCount(table, rows - before, rows, len(files), sum(file.size for file in files))
