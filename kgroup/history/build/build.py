"""Bring a warehouse up to date: what is new in a log becomes rows of its tables.

    sources ──plan: what is new──► rounds of tasks ──► files ──resolve, derive, merge──► commit

Replicas of one partition are read one after the other, in rounds: what one of them has need not be
read of the next. What is read twice all the same, since a log is not in order, is thrown away and
read once more, with what the others have left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby, pairwise

import pyarrow as pa

from kgroup.history.build.change import Change, fingerprint
from kgroup.history.build.damage import damage_row, problem_of, replace_damage
from kgroup.history.build.derivation import derive_assignments
from kgroup.history.build.merge import merge_tasks, run_merge
from kgroup.history.build.resolve_transactions import resolve_transactions
from kgroup.history.build.task import Run, SplitRead, Task, TaskResult, Work, run_here, run_task
from kgroup.history.input.live_source import LiveSource
from kgroup.history.input.segment_source import SegmentSource
from kgroup.history.input.split import Split
from kgroup.history.sql.log_ends import LogEnd
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.fact_file import FactWriter
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import read_rows
from kgroup.history.warehouse.warehouse import WarehouseWriter
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.operation.report import Report

TASK_BYTES = 16 << 20
"""Bytes from which on a task gets no further split: small files share one."""


@dataclass(frozen=True, slots=True)
class TableCount:
    """What a build did to a table, for one cluster.

    Attributes:
        table: its name.
        new_row_count: how many were added; of assignments, which may be derived anew, how many
            there are more than before.
        row_count: how many it has now.
        file_count: in how many files.
        file_bytes: their size.
    """

    table: str
    new_row_count: int
    row_count: int
    file_count: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """What a build did for a cluster.

    Attributes:
        cluster: its name.
        segments_read: segments that had something new, and were read to their end.
        segments_skipped: those that had nothing new.
        bytes_read: of segments; 0 for a live topic.
        damage_count: how many places the build could not read, whether they are new or not.
        tables: all of them.
    """

    cluster: str
    segments_read: int
    segments_skipped: int
    bytes_read: int
    damage_count: int
    tables: tuple[TableCount, ...]


@dataclass(slots=True)
class _Reading:
    """A segment, or a live partition, that is being read.

    Attributes:
        finish: called with all results.
        missing: how many of its splits are not read yet.
        reads: the results of the others.
    """

    finish: Callable[[Sequence[SplitRead]], None]
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
        on_progress: Callable[[int, int, str], None] = lambda done, size, unit: None,
    ) -> None:
        """Begin.

        Args:
            writer: of the warehouse.
            run: does tasks.
            on_progress: called with how much is done, how much there is, and in what that is
                counted: bytes or offsets.
        """
        self._writer = writer
        self._run = run
        self._on_progress = on_progress
        self._changes: dict[str, Change] = {}
        self._reading: dict[_Key, _Reading] = {}

    def add_topic_names(self, cluster: str, names: Mapping[str, str]) -> None:
        """Take names of users' topics by id."""
        self._change(cluster).topic_names |= names

    def read(self, sources: Sequence[SegmentSource]) -> None:
        """Read what is new in segments.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
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

    def add_log_ends(self, cluster: str, ends: Iterable[LogEnd]) -> None:
        """Take ends of users' topics; those that are known are passed over.

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

    def read_live(self, source: LiveSource) -> None:
        """Read what is new in the live topic.

        Raises:
            OSError: a file of a table cannot be written.
            InputError: a file of the warehouse, or of the configuration, cannot be read.
        """
        change = self._change(source.cluster)
        change.topic_names |= source.topic_names
        change.damage += map(damage_row, source.problems)
        change.reread.append((OFFSETS_TOPIC, 0, 0))  # what was missing is told anew
        starts = {
            number: change.live_start(number, *limits) for number, limits in source.ranges.items()
        }
        splits: dict[int, list[Split]] = {}
        for split in source.splits(starts):
            splits.setdefault(split.offsets_partition, []).append(split)
        change.segments_skipped += len(source.ranges) - len(splits)
        works: list[Work] = []
        for number, parts in splits.items():
            reading = _Reading(partial(change.finish_live, number), len(parts))
            self._reading |= {_key(split): reading for split in parts}
            works += [self._work(split, split.location.end) for split in parts]
        size = sum(map(_size, works))
        while works:
            works = list(map(self._work_again, self._do(works, 0, size, "offsets")))

    def accept(self, result: TaskResult) -> list[Split]:
        """Take what a task has done; give its splits if they have to be read once more."""
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
        """Resolve, derive, and let all of it count.

        Returns:
            A row for each cluster, sorted; the damage as errors; as notes what may be wrong with a
            cluster as a whole.

        Raises:
            OSError: a file cannot be written.
            InputError: a file of the warehouse cannot be read.
        """
        changes = [self._changes[cluster] for cluster in sorted(self._changes)]
        for change in changes:
            with FactWriter(self._writer.root, change.cluster, self._number) as writer:
                files = list(change.files.values())
                old = resolve_transactions(self._writer.root, files, change.new, writer)
                repaired, change.new_damage = replace_damage(
                    self._writer.root, files, change.damage, change.reread, writer
                )
                if change.log_ends:
                    rows = [asdict(end) for end in change.log_ends.values()]
                    schema = TABLES["log_ends"].schema
                    writer.add({"log_ends": pa.Table.from_pylist(rows, schema)})
                change.replace_files(old | repaired, writer.finish())
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
        return Report(
            tuple(map(_report, changes)),
            tuple(problem_of(row) for change in changes for row in change.damage),
            tuple(note for change in changes if (note := change.mixture()) is not None),
        )

    @property
    def _number(self) -> int:
        return self._writer.build + 1

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
                splits = source.splits(change.start(source, end))
                before = fingerprint(source, source.size) if splits else ""
            except OSError as error:
                change.add_unreadable(source, error)
                continue
            if not splits:
                change.pass_over(source)
                continue
            reading = _Reading(partial(change.finish, source, before), len(splits))
            self._reading |= {_key(split): reading for split in splits}
            for split in splits:
                yield self._work(split, end)

    def _work(self, split: Split, end: int | None) -> Work:
        """Add what is known of the offsets that a split should have, which end before the next."""
        known = self._known(split)
        return Work(split, known.within(split.base_offset or 0, None if end is None else end - 1))

    def _work_again(self, split: Split) -> Work:
        """Add all that is known: the split has other offsets than its name says."""
        return Work(split, self._known(split))

    def _known(self, split: Split) -> Coverage:
        return self._change(split.cluster).coverage(split.offsets_partition)

    def _do(self, works: Sequence[Work], left: int, size: int, unit: str) -> list[Split]:
        """Read; give what is to be read once more.

        Args:
            works: to be done.
            left: how much there will be left then.
            size: how much there is.
            unit: in which that is counted.
        """
        again: list[Split] = []
        left += sum(map(_size, works))
        for result in self._run(run_task, self._tasks(works)):
            again += self.accept(result)
            left -= sum(_size(read.work) for read in result.reads)
            self._on_progress(size - left, size, unit)
        return again

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


_Key = tuple[str, int, str, int, int]


def _key(split: Split) -> _Key:
    place = split.location
    return split.cluster, split.offsets_partition, split.name, place.start, place.end


def _size(work: Work) -> int:
    """Bytes of a file, or offsets of a live partition."""
    return work.split.location.end - work.split.location.start


def _replicas(sources: Iterable[SegmentSource]) -> dict[tuple[str, int], list[list[SegmentSource]]]:
    """Give the replicas of each partition, those first that are to be read last: the smallest."""
    found: dict[tuple[str, int], list[list[SegmentSource]]] = {}
    for (cluster, number, _), replica in groupby(
        sorted(sources, key=lambda source: source.order), key=lambda source: source.order[:3]
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
        len(change.damage),
        tuple(_count(name, change) for name in TABLES),
    )


def _count(table: str, change: Change) -> TableCount:
    files = [file for file in change.files.values() if file.table == table]
    rows = sum(file.rows for file in files)
    before = sum(file.rows for file in change.before.files if file.table == table)
    new = change.new_damage if table == "damage" else max(rows - before, 0)
    return TableCount(table, new, rows, len(files), sum(file.size for file in files))
