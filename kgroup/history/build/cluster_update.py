"""What a build has learnt of a cluster, before it counts; with the rows of the table `damage`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import ProblemKind
from kgroup.history.build.task import SplitRead, TaskResult
from kgroup.history.input.remote import first_line
from kgroup.history.input.segment_source import SegmentSource
from kgroup.history.input.split import FileRange
from kgroup.history.sql.question import LogEnd
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, read_rows
from kgroup.history.warehouse.warehouse import (
    ClusterState,
    PartitionState,
    SeenSegment,
    WarehouseWriter,
)
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem


class DamageRow(TypedDict):
    """A row of the table."""

    offsets_partition: int | None
    path: str
    position: int | None
    size: int | None
    kind: str
    reason: str
    time_ms: int


def damage_rows(read: SplitRead) -> list[DamageRow]:
    """Return the rows for what of a split could not be read."""
    split = read.work.split
    name, number = split.name, split.offsets_partition
    is_file = isinstance(split.location, FileRange)  # else positions are those in a temporary copy
    rows = [
        _row(
            name,
            number,
            damage.kind,
            damage.reason,
            damage.position if is_file else None,
            damage.size,
        )
        for damage in read.damage
    ]
    if read.more_damage:
        reason = f"{read.more_damage} further places in these bytes cannot be read."
        begin = read.damage[-1].position + read.damage[-1].size
        where = (begin, split.location.end - begin) if is_file else (None, None)
        rows.append(_row(name, number, ProblemKind.MORE, reason, *where))
    if read.error is not None:
        rows.append(unreadable_row(name, number, read.error))
    return rows


def unreadable_row(name: str, partition: int, error: str) -> DamageRow:
    """Return the row for a segment that cannot be read, or not to its end."""
    return _row(name, partition, ProblemKind.UNREADABLE, f"It cannot be read: {error}.")


def damage_row(problem: Problem) -> DamageRow:
    """Return the row for a live partition, or several, that cannot be read now."""
    partition = problem.offsets_partition
    name = OFFSETS_TOPIC if partition is None else f"{OFFSETS_TOPIC}-{partition}"
    return _row(name, partition, problem.kind, problem.reason)


def shorter_row(partition: int, before: int, end: int) -> DamageRow:
    """Return the row for a live partition that ends before what was read of it."""
    reason = (
        f"Expected it to go on at offset {before}, up to where it was read before; found that it "
        f"ends at {end}. It has lost records, or the topic was made again: records that come to "
        "offsets which are known already are not taken. Build another warehouse, or give the "
        "cluster another name with --cluster."
    )
    return _row(f"{OFFSETS_TOPIC}-{partition}", partition, ProblemKind.SHORTER, reason)


def problem_of(row: DamageRow) -> Problem:
    """Give a row as a value that travels beside others."""
    return Problem(
        ProblemKind(row["kind"]),
        row["reason"],
        path=row["path"],
        position=row["position"],
        offsets_partition=row["offsets_partition"],
    )


def replace_damage(
    warehouse: Path,
    files: Iterable[WrittenFile],
    rows: Iterable[DamageRow],
    reread: Iterable[tuple[str, int, int]],
    writer: FactWriter,
) -> tuple[set[str], int]:
    """Add rows, and leave out old ones of bytes that were read again and are sound by now.

    What is found again has its row already, with the time when it was found first. Damage in what
    was fetched from a live partition stays: that is not read again.

    Args:
        warehouse: its folder.
        files: of one cluster.
        rows: for what was found.
        reread: name of each file, or live partition, of which something was read, with begin and
            end of the bytes. Rows without a size, which are of the whole, go in any case.
        writer: takes the rows.

    Returns:
        Paths of the files that count no more, and how many rows were added.
    """
    found = {_identity(row): row for row in rows}
    parts: dict[str, list[tuple[int, int]]] = {}
    for name, start, end in reread:
        parts.setdefault(name, []).append((start, end))

    def stays(row: DamageRow) -> bool:
        if found.pop(_identity(row), None) is not None:
            return True
        position, again = row["position"], parts.get(row["path"], [])
        if row["size"] is None:
            return not again
        return position is None or not any(start <= position < end for start, end in again)

    names = pa.array({*parts, *(row["path"] for row in found.values())}, pa.string())
    replaced: set[str] = set()
    for file in files:
        if file.table != "damage":
            continue
        old = read_rows(warehouse, file)
        is_kept = np.ones(len(old), np.bool_)
        asked = np.flatnonzero(pc.is_in(old["path"], names).to_numpy())
        is_kept[asked] = [stays(cast("DamageRow", row)) for row in old.take(asked).to_pylist()]
        if not is_kept.all():
            replaced.add(file.path)
            writer.add({"damage": old.filter(pa.array(is_kept))})
    if found:
        schema = TABLES["damage"].schema
        writer.add({"damage": pa.Table.from_pylist(list(found.values()), schema)})
    return replaced, len(found)


def _identity(row: DamageRow) -> frozenset[tuple[str, object]]:
    """What tells rows apart: all but their times."""
    return frozenset(row.items() - {("time_ms", row["time_ms"])})


def _row(
    name: str,
    partition: int | None,
    kind: str,
    reason: str,
    position: int | None = None,
    size: int | None = None,
) -> DamageRow:
    return {
        "offsets_partition": partition,
        "path": name,
        "position": position,
        "size": size,
        "kind": kind,
        "reason": reason,
        "time_ms": time.time_ns() // 1_000_000,
    }


MOST_SEEN = 1000
"""Segment files that are remembered of a partition, each as long as it was when it was read."""

_SAMPLE = 1 << 12
"""Bytes of the beginning, and of the end, that a fingerprint is made of."""


class ClusterUpdate:
    """A cluster, with what a build has learnt so far.

    Attributes:
        cluster: its name.
        before: what was known.
        files: of its tables, by path.
        new: paths of those that tasks have written.
        topic_names: by topic id.
        damage: rows of that table, for what this build could not read.
        new_damage: how many of these are new.
        reread: see `replace_damage`.
        log_ends: rows of that table, new ones, by topic, partition and time.
        segments_read: how many segments had something new, and were read to their end.
        segments_skipped: how many had nothing new.
        bytes_read: of segments.
        partitions: what is known of them now, but for their coverage.
        coverages: of those of which more is known than before.
    """

    def __init__(self, writer: WarehouseWriter, cluster: str) -> None:
        self.cluster = cluster
        writer.check(cluster)
        self.before = writer.state(cluster)
        self.files = {file.path: file for file in self.before.files}
        self.new: set[str] = set()
        self.topic_names = dict(self.before.topic_names)
        self.damage: list[DamageRow] = []
        self.new_damage = 0
        self.reread: list[tuple[str, int, int]] = []
        self.log_ends: dict[tuple[str, int, int], LogEnd] = {}
        self.segments_read = 0
        self.segments_skipped = 0
        self.bytes_read = 0
        self.partitions = dict(self.before.partitions)
        self.coverages: dict[int, Coverage] = {}
        self._writer = writer
        self._read: dict[int, Coverage] = {}

    def partition(self, number: int) -> PartitionState:
        """Tell what is known of a partition."""
        return self.partitions.get(number, PartitionState.none())

    def coverage(self, number: int) -> Coverage:
        """Tell which offsets of a partition are known."""
        if number in self.coverages:
            return self.coverages[number]
        if number not in self._read:
            self._read[number] = self._writer.coverage(self.cluster, number)
        return self._read[number]

    def start(self, source: SegmentSource, end: int | None) -> int:
        """Tell from which byte on a segment is to be read: its size if there is nothing new in it.

        Args:
            source: the segment.
            end: offset with which the next segment of this replica begins.

        Raises:
            OSError: it cannot be read.
        """
        number, base = source.offsets_partition, source.base_offset
        fingerprints: dict[int, str] = {}
        alike = [
            seen
            for seen in self.partition(number).seen
            if seen.base_offset == base and seen.size <= source.size
        ]
        for seen in sorted(alike, key=lambda seen: seen.size, reverse=True):
            if seen.size not in fingerprints:
                fingerprints[seen.size] = fingerprint(source, seen.size)
            if seen.fingerprint == fingerprints[seen.size]:
                return seen.size
        if base is not None and end is not None and base < end:
            return source.size if self.coverage(number).is_dense(base, end - 1) else 0
        return 0

    def accept(self, result: TaskResult) -> bool:
        """Take what a task has written, unless some of it is known by now: then take nothing."""
        grown: dict[int, Coverage] = {}
        for read in result.reads:
            if read.coverage:
                number = read.work.split.offsets_partition
                before = grown.get(number) or self.coverage(number)
                if before.overlaps(read.coverage):
                    return False
                grown[number] = Coverage.union([before, read.coverage])
        self.coverages |= grown
        self.files |= {file.path: file for file in result.files}
        self.new |= {file.path for file in result.files}
        self.topic_names |= result.topic_names
        for read in result.reads:
            split = read.work.split
            self.reread.append((split.name, split.location.start, split.location.end))
            self.damage += damage_rows(read)
        return True

    def pass_over(self, source: SegmentSource) -> None:
        """Take note of a segment that has nothing new; if it was unreadable, it is not any more."""
        self.segments_skipped += 1
        self.reread.append((source.name, 0, 0))

    def finish(self, source: SegmentSource, before: str, reads: Sequence[SplitRead]) -> None:
        """Remember that a segment was read, as far as it was.

        Args:
            source: the segment.
            before: its fingerprint before it was read. Where it has another one now, compaction has
                put another file in its place, nobody knows when: that is read by the next build.
            reads: the results.
        """
        self.bytes_read += sum(read.work.split.size or 0 for read in reads if not read.error)
        if any(read.error for read in reads):
            return
        self.segments_read += 1
        end = _sound_end(source.size, reads)
        try:
            if fingerprint(source, source.size) != before:
                return
            text = before if end == source.size else fingerprint(source, end)
            seen = SeenSegment(source.base_offset, end, text)
        except OSError:
            return  # it is gone; what was read counts
        state = self.partition(source.offsets_partition)
        # fingerprints first: there may be a thousand, for each of thousands of segments
        others = [
            segment for segment in state.seen if segment.fingerprint != text or segment != seen
        ]
        self.partitions[source.offsets_partition] = replace(
            state, seen=_remembered([*others, seen])
        )

    def live_start(self, number: int, first: int, end: int) -> int:
        """Tell from which offset on a live partition is to be read.

        Args:
            number: of the partition.
            first: its first offset.
            end: offset that its next record gets.
        """
        before = self.partition(number).live_end or 0
        if end < before:
            row = shorter_row(number, before, end)
            self.damage.append(row)
            self.reread.append((row["path"], 0, 0))  # what was told of it before
        start = max(first, before)
        return min(self.coverage(number).end_from(start), end)

    def finish_live(self, number: int, reads: Sequence[SplitRead]) -> None:
        """Remember how far a live partition was read, with these results."""
        for read in sorted(reads, key=lambda read: read.work.split.location.start):
            if read.error is not None:
                break
            end = read.work.split.location.end
            self.partitions[number] = replace(self.partition(number), live_end=end)
        else:
            self.segments_read += 1

    def replace_files(self, old: Iterable[str], new: Iterable[WrittenFile]) -> None:
        """Put files in the place of others."""
        for path in old:
            del self.files[path]
        self.files |= {file.path: file for file in new}

    def add_unreadable(self, source: SegmentSource, error: OSError) -> None:
        """Take note of a segment that cannot be read."""
        row = unreadable_row(source.name, source.offsets_partition, first_line(error))
        self.damage.append(row)

    def mixture(self) -> str | None:
        """Tell of logs of different topics in one cluster, as far as ids of topics show it."""
        ids = sorted(key for key, name in self.topic_names.items() if name == OFFSETS_TOPIC)
        if len(ids) < 2:
            return None
        return (
            f"{self.cluster}: expected one id of {OFFSETS_TOPIC}, found {' and '.join(ids)}. These "
            "are different topics, of several clusters or of one where it was made again: of those "
            "records that have one offset only the first that was read is in the tables. Build "
            "another warehouse, or name one of the clusters with --cluster."
        )

    def state(self) -> ClusterState:
        """Return what is known now."""
        return ClusterState(tuple(self.files.values()), self.partitions, self.topic_names)


def fingerprint(source: SegmentSource, size: int) -> str:
    """Return a text that tells what a segment holds from its beginning on, in so many bytes.

    It is made of both ends. Compaction, which alone changes what stands between them, takes
    something away, and so the size changes too.

    Raises:
        OSError: it cannot be read.
    """
    head = source.read(0, min(_SAMPLE, size))
    tail = head if size <= _SAMPLE else source.read(size - _SAMPLE, _SAMPLE)
    return blake2b(head + tail, digest_size=16).hexdigest()


def _remembered(seen: list[SeenSegment]) -> tuple[SeenSegment, ...]:
    """Choose those that are remembered; the order is that in which they were read.

    The segment that was read at most lengths gives way first: one that grows with each build shall
    not push out those that stay as they are.
    """
    while len(seen) > MOST_SEEN:
        [(most, _)] = Counter(segment.base_offset for segment in seen).most_common(1)
        seen.remove(next(segment for segment in seen if segment.base_offset == most))
    return tuple(seen)


def _sound_end(size: int, reads: Iterable[SplitRead]) -> int:
    """Tell where damage begins that goes on to the end of a segment: more may come in its place."""
    end = size
    damage = [each for read in reads for each in read.damage]
    for each in sorted(damage, key=lambda each: each.position, reverse=True):
        if each.position + each.size < end:
            break
        end = each.position
    return end
