"""Uncommitted state of a cluster during a build, and the rows of the table `damage`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, repeat
from struct import unpack_from
from typing import TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import ProblemKind
from kgroup.history.build.divergence import merged
from kgroup.history.build.task import LostRange, SplitRead, TaskResult, widen
from kgroup.history.input.segment_source import SegmentSource
from kgroup.history.input.split import FileRange
from kgroup.history.remote import first_line
from kgroup.history.sql.question import LogEnd
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.state import ClusterState, LogTrace, PartitionState, SeenSegment
from kgroup.history.warehouse.store import Location, file_at
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, WrittenFile, lacks_columns, read_rows
from kgroup.history.warehouse.warehouse import WarehouseWriter
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE


class DamageRow(TypedDict):
    """A row of the table `damage`."""

    offsets_partition: int | None
    path: str
    position: int | None
    size: int | None
    kind: str
    reason: str
    first_offset: int | None
    last_offset: int | None
    time_ms: int


def damage_rows(read: SplitRead) -> list[DamageRow]:
    """Return the rows for the unreadable parts of a split."""
    split = read.work.split
    name, number = split.name, split.offsets_partition
    # positions in a live partition's temporary copy mean nothing
    is_file = isinstance(split.location, FileRange)
    lost = chain(read.lost, repeat(LostRange()))
    rows = [
        _row(
            name,
            number,
            damage.kind,
            damage.reason,
            damage.position if is_file else None,
            damage.size,
            lost=next(lost),
        )
        for damage in read.damage
    ]
    if read.more_damage:
        reason = f"{read.more_damage} further places in these bytes cannot be read."
        begin = read.damage[-1].position + read.damage[-1].size
        size = split.location.end - begin
        rows.append(
            _row(
                name,
                number,
                ProblemKind.MORE,
                reason,
                begin if is_file else None,
                size if is_file else None,
                lost=next(lost),
            )
        )
    for found in read.divergences:
        # a live partition is not read again from there
        stays = found.is_lasting or not is_file
        rows.append(
            _row(
                name,
                number,
                ProblemKind.DIVERGING,
                found.reason,
                size=0 if stays else None,
                lost=LostRange(found.first, found.last),
            )
        )
    if read.error is not None:
        rows.append(_unreadable_row(name, number, read.error, next(lost)))
    return rows


def _unreadable_row(name: str, partition: int, error: str, lost: LostRange) -> DamageRow:
    """Return the row for a segment that cannot be read, or not completely."""
    reason = f"It cannot be read: {error}."
    return _row(name, partition, ProblemKind.UNREADABLE, reason, lost=lost)


def damage_row(problem: Problem) -> DamageRow:
    """Return the row for a folder, a live partition or several that cannot be read now."""
    partition = problem.offsets_partition
    name = OFFSETS_TOPIC if partition is None else f"{OFFSETS_TOPIC}-{partition}"
    return _row(problem.path or name, partition, problem.kind, problem.reason)


def shorter_row(partition: int, before: int, end: int) -> DamageRow:
    """Return the row for a live partition whose log ends before the offset read earlier."""
    reason = (
        f"Expected the log to go on at offset {before}, up to which it was read before; found "
        f"that it ends at {end}. The log lost records, or the topic was recreated: new records at "
        "known offsets are not read. Build another warehouse, or give the cluster another name "
        "with --cluster."
    )
    return _row(f"{OFFSETS_TOPIC}-{partition}", partition, ProblemKind.SHORTER, reason)


def problem_of(row: DamageRow) -> Problem:
    """Return a row as a problem for a report."""
    return Problem(
        ProblemKind(row["kind"]),
        row["reason"],
        path=row["path"],
        position=row["position"],
        offsets_partition=row["offsets_partition"],
    )


def replace_damage(
    warehouse: Location,
    files: Iterable[WrittenFile],
    rows: Iterable[DamageRow],
    reread: Iterable[tuple[str, int, int]],
    writer: FactWriter,
    is_read: Callable[[int, int, int], bool] = lambda partition, first, last: False,
) -> tuple[set[str], int]:
    """Add rows, and remove rows of bytes that were reread, or whose records were read elsewhere.

    Damage that is found again keeps the time when it was first found. Damage in records fetched
    from a live partition is not reread.

    Args:
        warehouse: its folder.
        files: files of one cluster.
        rows: rows of the damage found.
        reread: name of each file or live partition that was read, with the start and end of the
            bytes. Rows without a size, which concern the whole, are removed in any case.
        writer: writer for the rows.
        is_read: whether all records of a partition between two offsets were read.

    Returns:
        Paths of the replaced files, which are no longer valid, and the number of rows added.
    """

    def is_healed(row: DamageRow) -> bool:
        number, last = row["offsets_partition"], row["last_offset"]
        return row["kind"] != ProblemKind.DIVERGING and (
            number is not None
            and last is not None
            and is_read(number, row["first_offset"] or 0, last)
        )

    by_identity = {_identity(row): row for row in rows if not is_healed(row)}
    parts: dict[str, list[tuple[int, int]]] = {}
    for name, start, end in reread:
        parts.setdefault(name, []).append((start, end))
    later: list[DamageRow] = []

    def stays(row: DamageRow) -> bool:
        if is_healed(row):
            return False
        again = by_identity.pop(_identity(row), None)
        if again is not None:
            now = again | {"time_ms": row["time_ms"]}
            if row["kind"] == ProblemKind.DIVERGING:  # in records that followed
                now["first_offset"] = min(again["first_offset"] or 0, row["first_offset"] or 0)
                now["last_offset"] = max(again["last_offset"] or 0, row["last_offset"] or 0)
            if now != row:  # other records around it are known by now
                later.append(now)
            return now == row
        position, places = row["position"], parts.get(row["path"], [])
        if row["size"] is None:
            return not places
        return position is None or not any(start <= position < end for start, end in places)

    names = pa.array({*parts, *(row["path"] for row in by_identity.values())}, pa.string())
    replaced: set[str] = set()
    for file in files:
        if file.table != "damage":
            continue
        old = read_rows(warehouse, file)
        is_kept = np.ones(len(old), np.bool_)
        is_asked = pc.or_(pc.is_in(old["path"], names), pc.is_valid(old["last_offset"]))
        asked = np.flatnonzero(is_asked.to_numpy())
        is_kept[asked] = [stays(cast("DamageRow", row)) for row in old.take(asked).to_pylist()]
        if not is_kept.all() or lacks_columns(file_at(warehouse, file.path), file.table):
            replaced.add(file.path)
            writer.add({"damage": old.filter(pa.array(is_kept))})
    if by_identity or later:
        schema = TABLES["damage"].schema
        new = [*by_identity.values(), *later]
        writer.add({"damage": pa.Table.from_pylist(new, schema)})
    return replaced, len(by_identity)


def _identity(row: DamageRow) -> frozenset[tuple[str, object]]:
    """Return the identity of a row: its values that do not depend on other builds and copies."""
    later = {"first_offset", "last_offset", "time_ms"}
    if row["kind"] == ProblemKind.DIVERGING:
        later.add("reason")
    return frozenset(item for item in row.items() if item[0] not in later)


def _row(
    name: str,
    partition: int | None,
    kind: str,
    reason: str,
    position: int | None = None,
    size: int | None = None,
    lost: LostRange | None = None,
) -> DamageRow:
    return {
        "offsets_partition": partition,
        "path": name,
        "position": position,
        "size": size,
        "kind": kind,
        "reason": reason,
        "first_offset": None if lost is None else lost.first,
        "last_offset": None if lost is None else lost.last,
        "time_ms": time.time_ns() // 1_000_000,
    }


MOST_SEEN = 1000
"""Maximum number of segments to remember of a partition, each with the size it had when read."""

_SAMPLE = 1 << 12
"""Bytes of the start and of the end that are in a fingerprint."""

_PIECE = 1 << 20
"""Damaged bytes to read at once."""


class ClusterUpdate:
    """State of a cluster, with the changes of a build so far.

    Attributes:
        cluster: name of the cluster in the warehouse.
        before: state before the build.
        files: files of its tables, by path.
        new: paths of the files that tasks wrote.
        limits: see `TaskResult`; of all tasks.
        topic_names: topic names by topic id.
        damage: rows of the table `damage` for what this build could not read.
        new_damage: number of these rows that are new.
        reread: see `replace_damage`.
        log_ends: new rows of the table `log_ends`, by topic, partition and time.
        segments_read: number of segments with new records that were read to their end.
        segments_skipped: number of segments without new records.
        bytes_read: bytes read from segments.
        partitions: current state of the partitions, except their coverage.
        coverages: coverage of the partitions where it has grown.
    """

    def __init__(self, writer: WarehouseWriter, cluster: str) -> None:
        self.cluster = cluster
        writer.check(cluster)
        self.before = writer.state(cluster)
        self.files = {file.path: file for file in self.before.files}
        self.new: set[str] = set()
        self.limits: dict[int, tuple[int, int]] = {}
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
        self._continued: dict[str, Sequence[tuple[int, int]]] = {}
        self._read: dict[int, Coverage] = {}

    def partition(self, number: int) -> PartitionState:
        """Return the state of a partition."""
        return self.partitions.get(number, PartitionState.none())

    def coverage(self, number: int) -> Coverage:
        """Return the known offsets of a partition."""
        if number in self.coverages:
            return self.coverages[number]
        if number not in self._read:
            self._read[number] = self._writer.coverage(self.cluster, number)
        return self._read[number]

    def start(self, source: SegmentSource, end: int | None) -> int:
        """Return the position from which to read a segment: its size if it has nothing new.

        Args:
            source: the segment.
            end: base offset of the next segment of this replica.

        Raises:
            OSError: the segment cannot be read.
        """
        number, base = source.offsets_partition, source.base_offset
        fingerprints: dict[tuple[int, object], str] = {}
        alike = [
            seen
            for seen in self.partition(number).seen
            if seen.base_offset == base and seen.size <= source.size
        ]
        for seen in sorted(alike, key=lambda seen: seen.size, reverse=True):
            key = seen.size, seen.damaged
            if key not in fingerprints:
                fingerprints[key] = fingerprint(source, *key)
            if seen.fingerprint == fingerprints[key]:
                self._continued[source.path] = seen.damaged
                return seen.size
        if base is None or end is None or base >= end or self._diverges(source):
            return 0
        return source.size if self.coverage(number).is_dense(base, end - 1) else 0

    def _diverges(self, source: SegmentSource) -> bool:
        """Return whether the first batch of a segment has another leader epoch than expected."""
        header = source.read(0, HEADER_SIZE)
        if len(header) < HEADER_SIZE or header[16] != 2:
            return False
        offset, _, number = unpack_from(">qii", header)
        return any(
            (epoch.number > number and epoch.first <= offset)
            or (epoch.number < number and epoch.last >= offset)
            for epoch in self.partition(source.offsets_partition).trace.epochs
        )

    def accept(self, result: TaskResult) -> bool:
        """Add the result of a task; return False if some of its records are known by now."""
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
        for number, (first, last) in result.limits.items():
            widen(self.limits, number, first, last)
        self.topic_names |= result.topic_names
        for read in result.reads:
            split = read.work.split
            state = self.partition(split.offsets_partition)
            sound = Coverage.union([Coverage.of_ranges(state.sound), read.sound]).ranges
            trace = merged(state.trace, read.trace)
            if (sound, trace) != (state.sound, state.trace):
                state = replace(state, sound=sound, trace=trace)
                self.partitions[split.offsets_partition] = state
            self.reread.append((split.name, split.location.start, split.location.end))
            self.damage += damage_rows(read)
        return True

    def pass_over(self, source: SegmentSource) -> None:
        """Record that a segment has nothing new; damage for the whole file is removed."""
        self.segments_skipped += 1
        self.reread.append((source.name, 0, 0))

    def finish(self, source: SegmentSource, before: str, reads: Sequence[SplitRead]) -> None:
        """Record how much of a segment was read.

        Args:
            source: the segment.
            before: its fingerprint before it was read. If the fingerprint differs now, compaction
                has replaced the file at an unknown time, and the next build reads it again.
            reads: the results.
        """
        self.bytes_read += sum(read.work.split.size or 0 for read in reads if not read.error)
        if any(read.error for read in reads):
            return
        self.segments_read += 1
        if any(not found.is_lasting for read in reads for found in read.divergences):
            return  # until the broker truncates it
        end = _sound_end(source.size, reads)
        begin = min(read.work.split.location.start for read in reads)
        earlier = (place for place in self._continued.get(source.path, ()) if place[0] < begin)
        damaged = (*earlier, *(place for place in _damaged(reads) if place[0] < end))
        try:
            if fingerprint(source, source.size) != before:
                return
            is_whole = end == source.size and not damaged
            text = before if is_whole else fingerprint(source, end, damaged)
            seen = SeenSegment(source.base_offset, end, text, damaged)
        except OSError:
            return  # the file is gone; the rows that were read are valid
        state = self.partition(source.offsets_partition)
        # compare fingerprints first: up to a thousand, for each of thousands of segments
        others = [
            segment for segment in state.seen if segment.fingerprint != text or segment != seen
        ]
        self.partitions[source.offsets_partition] = replace(
            state, seen=_remembered([*others, seen])
        )

    def live_start(self, number: int, first: int, end: int) -> int:
        """Return the offset from which to read a live partition; add damage if it is shorter now.

        Args:
            number: the partition.
            first: its log start offset.
            end: its log end offset.
        """
        before = self.partition(number).live_end or 0
        if end < before:
            row = shorter_row(number, before, end)
            self.damage.append(row)
            self.reread.append((row["path"], 0, 0))  # replaces its earlier row
            # leader epochs may begin anew
            state = self.partition(number)
            self.partitions[number] = replace(state, sound=(), trace=LogTrace())
        return live_start(before, self.coverage(number), first, end)

    def has_all(self, number: int, first: int, end: int, log_end: int) -> bool:
        """Return whether all records of a live partition between two offsets are known.

        Args:
            number: the partition.
            first: its log start offset.
            end: its log end offset at the time in question.
            log_end: its log end offset now.
        """
        before = self.before.partitions.get(number, PartitionState.none()).live_end or 0
        read_end = self.partition(number).live_end or 0
        known_end = max(read_end, self.coverage(number).end_from(max(first, read_end)))
        return before <= end <= known_end <= log_end

    def finish_live(self, number: int, reads: Sequence[SplitRead]) -> None:
        """Record how far a live partition was read."""
        for read in sorted(reads, key=lambda read: read.work.split.location.start):
            if read.error is not None:
                break
            state = self.partition(number)
            end = max(read.work.split.location.end, state.live_end or 0)
            self.partitions[number] = replace(state, live_end=end)
        else:
            self.segments_read += 1

    def replace_files(self, old: Iterable[str], new: Iterable[WrittenFile]) -> None:
        """Replace files by others."""
        for path in old:
            del self.files[path]
        self.files |= {file.path: file for file in new}

    def add_unreadable(self, source: SegmentSource, end: int | None, error: OSError) -> None:
        """Record that a segment cannot be read; `end`: see `start`."""
        lost = LostRange(source.base_offset, None if end is None else end - 1)
        self.damage.append(
            _unreadable_row(source.name, source.offsets_partition, first_line(error), lost)
        )

    def is_read(self, number: int, first: int, last: int) -> bool:
        """Return whether all records of a partition between two offsets were read, inclusive.

        Another copy has them, even if compaction removed some of its records.
        """
        sound = Coverage.of_ranges(self.partition(number).sound)
        known = self.coverage(number).within(first, last)
        return Coverage.union([sound.within(first, last), known]).is_dense(first, last)

    def mixture(self) -> str | None:
        """Return a warning if topic ids show logs of several topics in one cluster."""
        ids = sorted(key for key, name in self.topic_names.items() if name == OFFSETS_TOPIC)
        if len(ids) < 2:
            return None
        return (
            f"{self.cluster}: expected one topic id of {OFFSETS_TOPIC}, found "
            f"{' and '.join(ids)}. These are different topics, from several clusters or from a "
            "cluster where the topic was recreated: of records at the same offset, the tables "
            "have only the first one read. Build another warehouse, or name one of the clusters "
            "with --cluster."
        )

    def state(self) -> ClusterState:
        """Return the current state."""
        return replace(
            self.before,
            files=tuple(self.files.values()),
            partitions=self.partitions,
            topic_names=self.topic_names,
        )


def live_start(live_end: int, coverage: Coverage, first: int, end: int) -> int:
    """Return the offset from which to read a live partition: `end` if there is nothing new.

    Args:
        live_end: offset up to which it was read before; 0 if it was not.
        coverage: known offsets.
        first: log start offset.
        end: log end offset.
    """
    return min(coverage.end_from(max(first, live_end)), end)


def fingerprint(source: SegmentSource, size: int, damaged: Sequence[tuple[int, int]] = ()) -> str:
    """Return a fingerprint of the first `size` bytes of a segment.

    It covers both ends, and damaged bytes, which a repair changes. Else only compaction changes
    what is between the ends; it removes bytes, so the size changes too.

    Raises:
        OSError: the segment cannot be read.
    """
    head = source.read(0, min(_SAMPLE, size))
    tail = head if size <= _SAMPLE else source.read(size - _SAMPLE, _SAMPLE)
    digest = blake2b(head + tail, digest_size=16)
    for position, length in damaged:
        for begin in range(position, position + length, _PIECE):
            digest.update(source.read(begin, min(_PIECE, position + length - begin)))
    return digest.hexdigest()


def _remembered(seen: list[SeenSegment]) -> tuple[SeenSegment, ...]:
    """Return the segments to remember, in the order in which they were read.

    Segments with the most remembered sizes are dropped first: one that grows with each build must
    not displace those that do not change.
    """
    while len(seen) > MOST_SEEN:
        [(most, _)] = Counter(segment.base_offset for segment in seen).most_common(1)
        seen.remove(next(segment for segment in seen if segment.base_offset == most))
    return tuple(seen)


def _sound_end(size: int, reads: Iterable[SplitRead]) -> int:
    """Return where damage at the end of a segment begins; that part may still be written."""
    end = size
    damage = [damaged for read in reads for damaged in read.damage]
    for damaged in sorted(damage, key=lambda damaged: damaged.position, reverse=True):
        if damaged.position + damaged.size < end:
            break
        end = damaged.position
    return end


def _damaged(reads: Iterable[SplitRead]) -> list[tuple[int, int]]:
    """Return position and size of the damage in a segment."""
    rows = (row for read in reads for row in damage_rows(read))
    return sorted(
        (row["position"], row["size"])
        for row in rows
        if row["position"] is not None and row["size"] is not None
    )
