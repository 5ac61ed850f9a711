"""Find the segments of `__consumer_offsets` to read, and the cluster of each.

Next to a segment is its offset index (Kafka's `OffsetIndex`), with entries of eight bytes:

    relative offset  int32  last offset of the batches appended together, minus the base offset
    position         int32  byte position of the first of these batches

The index of an active segment is preallocated and zero after its last entry. An index may be
missing, belong to another state of the segment, or be garbage, so it is only a hint: a segment is
cut only where a batch with a correct checksum begins and where the lengths of the batches before
it lead. Without a usable index, the lengths of all batches are followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kgroup.columnar.input_size import can_compile
from kgroup.errors import InputError, ProblemKind, UsageError
from kgroup.history.input.split import FileRange, Split
from kgroup.history.remote import RemoteFiles, first_line, is_uri
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.segment import Segment, left_out_notes
from kgroup.protocol.batch.batch import LOG_OVERHEAD, MAX_BATCH_SIZE, Damage, RecordBatch
from kgroup.protocol.batch.byte_window import ByteRange
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.log.folder import META_PROPERTIES, read_pairs, read_topic_names
from kgroup.source.log.segment_file import find_segments, partition_of

LARGEST_INDEX = 64 << 20
"""Maximum bytes to read of an index; brokers allocate 10 MiB."""

_SMALLEST_BATCH = 26
_HEAD_SIZE = 17
WALK = 1 << 17
"""Bytes before a cut whose batches must lead to it: no record embeds that much of another log."""
_MOST_WALKED = 4 << 20
_MOST_TRIED = 16


def cut_by_index(
    file: BinaryIO, index: bytes, base_offset: int, start: int, end: int, parts: int
) -> list[int]:
    """Cut a segment into parts of about the same size; return their start positions.

    Args:
        file: the segment.
        index: contents of its offset index.
        base_offset: base offset of the segment.
        start: position before which everything was read already. If no batch begins there, because
            one was being written, the first part begins earlier.
        end: end position of the segment.
        parts: number of parts wanted; there may be fewer.

    Raises:
        OSError: the file cannot be read.
    """
    whole = index[: len(index) // 8 * 8]
    entries = np.frombuffer(whole, ">i4").reshape(-1, 2).astype(np.int64)
    entries = entries[(entries[:, 1] > 0) & (entries[:, 1] < end)]
    positions, first = np.unique(entries[:, 1], return_index=True)
    offsets = base_offset + entries[first, 0]

    def is_cut(position: int) -> bool:
        """Return whether a batch begins where an index entry says so."""
        before = positions[: np.searchsorted(positions, position - WALK, "right")]
        known = int(before[-1]) if len(before) else 0
        if position - known > _MOST_WALKED or not _leads_to(file, known, position):
            return False
        batch = _batch_at(file, position)
        if batch is None:
            return False
        offset = batch.last_offset if batch.base_offset is None else batch.base_offset
        return bool(offset <= offsets[np.searchsorted(positions, position)])

    return _cut(positions, is_cut, _start(file, start, positions, is_cut), end, parts)


def cut_by_lengths(path: Path, start: int, end: int, parts: int) -> list[int]:
    """Cut a segment like `cut_by_index`, but from the lengths of all batches (compiled code)."""
    from kgroup.columnar.chunk_reader import read_chunks
    from kgroup.columnar.log_chunk import Chunk, follow

    def in_chunk(chunk: Chunk) -> tuple[list[int], int | None]:
        return [chunk.position], follow(chunk)

    def in_batches(items: Iterator[RecordBatch | Damage]) -> Iterator[Damage]:
        return (item for item in items if isinstance(item, Damage))

    with path.open("rb") as file:

        def is_cut(position: int) -> bool:
            return _batch_at(file, position) is not None

        walked = ByteRange(start if is_cut(start) else 0, end)
        chunks = read_chunks(path, in_chunk, in_batches, part=walked, workers=1)
        positions = np.array([at for at in chunks if not isinstance(at, Damage)], np.int64)
        return _cut(positions, is_cut, _start(file, start, positions, is_cut), end, parts)


def _start(file: BinaryIO, start: int, positions: Any, is_cut: Callable[[int], bool]) -> int:
    """Return the position of a batch, at `start` or before it."""
    if start == 0 or _batch_at(file, start) is not None:
        return start
    before = reversed(positions[: np.searchsorted(positions, start)].tolist())
    return next(filter(is_cut, islice(before, _MOST_TRIED)), 0)


def _cut(
    positions: Any, is_cut: Callable[[int], bool], start: int, end: int, parts: int
) -> list[int]:
    begins = [start]
    targets = [start + (end - start) * number // parts for number in range(1, parts + 1)]
    for bounds in pairwise(targets):
        first, last = np.searchsorted(positions, bounds).tolist()
        begins += islice(
            filter(is_cut, positions[first : min(last, first + _MOST_TRIED)].tolist()), 1
        )
    return begins


def _leads_to(file: BinaryIO, start: int, end: int) -> bool:
    """Return whether the lengths of the batches from `start` on lead to `end`."""
    file.seek(start)
    data = file.read(end - start)
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big")
        if size < _SMALLEST_BATCH:
            return False
        at += size
    return start + at == end


def _batch_at(file: BinaryIO, position: int) -> RecordBatch | None:
    """Return the batch at a position; None if there is no valid one."""
    file.seek(position)
    head = file.read(_HEAD_SIZE)
    size = LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
    if len(head) < _HEAD_SIZE or head[16] > 2 or not _SMALLEST_BATCH <= size <= MAX_BATCH_SIZE:
        return None
    data = head + file.read(size - len(head))
    batch = next(read_batches(data, base_position=position), None)
    return batch if isinstance(batch, RecordBatch) and batch.position == position else None


SPLIT_SIZE = 128 << 20
"""Approximate size of a split, in bytes."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A segment file to read.

    Attributes:
        cluster: name of the cluster in the warehouse.
        offsets_partition: partition of `__consumer_offsets`.
        base_offset: base offset in the file name; None if the name has none.
        path: see `FileRange`.
        size: file size in bytes when the segment was found.
        name: name for messages.
        replica: folder of the file, which distinguishes copies of one partition.
        uri: see `FileRange`.
    """

    cluster: str
    offsets_partition: int
    base_offset: int | None
    path: str
    size: int
    name: str
    replica: str
    uri: str | None = None

    @property
    def order(self) -> tuple[str, int, str, int, str]:
        """Sort key: cluster, partition, replica, base offset."""
        base = -1 if self.base_offset is None else self.base_offset
        return self.cluster, self.offsets_partition, self.replica, base, self.path

    def read(self, position: int, size: int) -> bytes:
        """Read bytes; fewer if the file ends before.

        Raises:
            OSError: the file cannot be read.
        """
        path = Path(self.path)
        if self.uri is not None:
            return RemoteFiles(self.uri).read(path, position, size)
        with path.open("rb") as file:
            file.seek(position)
            return file.read(size)

    def splits(self, start: int = 0, split_size: int = SPLIT_SIZE) -> list[Split]:
        """Cut the segment into splits for different tasks.

        Args:
            start: position before which everything was read already. If no batch begins there,
                because one was being written, the first split begins earlier.
            split_size: approximate size of a split, in bytes; a segment that cannot be cut is one
                split.

        Raises:
            OSError: the segment cannot be read.
        """
        if start >= self.size:
            return []
        begins = self._cut(start, -(-(self.size - start) // split_size))
        return [
            Split(
                self.cluster,
                self.offsets_partition,
                FileRange(self.path, first, last, self.uri),
                self.name,
                self.base_offset,
            )
            for first, last in pairwise([*begins, self.size])
        ]

    def _cut(self, start: int, parts: int) -> list[int]:
        if start == 0 and parts == 1:
            return [start]
        path = Path(self.path)
        with path.open("rb") if self.uri is None else RemoteFiles(self.uri).open(path) as file:
            begins = cut_by_index(
                file, self._index(), self.base_offset or 0, start, self.size, parts
            )
        is_worse = len(begins) < parts or begins[0] < start
        if is_worse and self.uri is None and can_compile():
            other = cut_by_lengths(path, start, self.size, parts)
            begins = max(begins, other, key=lambda begins: (len(begins), begins[0]))
        return begins

    def _index(self) -> bytes:
        """Return the contents of the offset index; b"" if there is none."""
        index = replace(self, path=str(Path(self.path).with_suffix(".index")))
        try:
            return index.read(0, LARGEST_INDEX)
        except OSError:
            return b""


@dataclass(frozen=True, slots=True)
class Sources:
    """Segments found at some locations.

    Attributes:
        segments: segments by cluster, partition, replica and base offset.
        topic_names: known names of users' topics by topic id, by cluster.
        problems: what could not be read, and of what cluster or partition is unknown.
        notes: notes for the user on what was left out.
        unreadable: folders and files of partitions that could not be read, by cluster.
    """

    segments: tuple[SegmentSource, ...]
    topic_names: Mapping[str, Mapping[str, str]]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unreadable: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def find_sources(
    locations: Sequence[str], cluster: str | None = None, unnamed: str | None = None
) -> Sources:
    """Find segments.

    Args:
        locations: segment files, folders of them, or log directories; paths, or URIs of pyarrow's
            file systems.
        cluster: name of their cluster; by default the cluster id in each log directory's
            ``meta.properties``.
        unnamed: name of a cluster without an id; None: that is an error.

    Raises:
        InputError: a location does not exist, has no segment or does not identify its cluster; or
            no file system can be reached.
        UsageError: one name is given to the logs of several clusters.
        OSError: a location cannot be read, and there is no other.
    """
    problems = ProblemLog()
    left_out: list[tuple[str, Segment]] = []
    located: list[tuple[_Directory, Segment]] = []
    for files, segment in _find(locations, problems):
        path = segment.path.absolute() if files is None else segment.path
        directory = _Directory(files, path.parent.parent)
        name = directory.name(segment.path)
        if not segment.is_loaded:
            left_out.append((name, segment))
        elif segment.partition is None:
            problems.add(_of_no_partition(segment, name))
        else:
            located.append((directory, segment))
    names = _clusters(dict.fromkeys(directory for directory, _ in located), cluster, unnamed)
    topic_names: dict[str, dict[str, str]] = {}
    for directory, name in names.items():
        topic_names.setdefault(name, {}).update(directory.topic_names())
    segments = (_source(segment, directory, names[directory]) for directory, segment in located)
    others: list[Problem] = []
    unreadable: dict[str, tuple[Problem, ...]] = {}
    for problem in problems.problems():
        name_of, located_problem = _located(problem, names, cluster, unnamed)
        if name_of is None:
            others.append(problem)
        else:
            unreadable[name_of] = (*unreadable.get(name_of, ()), located_problem)
    return Sources(
        tuple(sorted(segments, key=lambda segment: segment.order)),
        topic_names,
        tuple(others),
        tuple(left_out_notes(left_out)),
        unreadable,
    )


def _located(
    problem: Problem, names: Mapping[_Directory, str], cluster: str | None, unnamed: str | None
) -> tuple[str | None, Problem]:
    """Return the cluster of a local partition that cannot be read, and the problem's whole path.

    The cluster is None if it, or the partition, is unknown.
    """
    if problem.kind != ProblemKind.UNREADABLE or problem.path is None:
        return None, problem
    path = Path(problem.path).absolute()
    folder = path if partition_of(path) is not None else path.parent
    if problem.offsets_partition is None or partition_of(folder) is None:
        return None, problem
    directory = _Directory(None, folder.parent)
    name = names.get(directory) or cluster or directory.cluster_id() or unnamed
    return name, replace(problem, path=directory.name(path))


@dataclass(frozen=True, slots=True)
class _Directory:
    """A log directory, in a remote file system or (`files` is None) the local one."""

    files: RemoteFiles | None
    path: Path

    def name(self, path: Path) -> str:
        """Return the name of a file or the directory for messages and tables, in UTF-8."""
        text = str(path) if self.files is None else self.files.name(path)
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")

    def cluster_id(self) -> str | None:
        path = self.path / META_PROPERTIES
        properties = (
            read_pairs(path, "=") if self.files is None else self.files.read_pairs(path, "=")
        )
        return properties.get("cluster.id") or None

    def topic_names(self) -> dict[str, str]:
        if self.files is None:
            return read_topic_names([self.path])
        return self.files.read_topic_names(self.path)


def _find(
    locations: Iterable[str], problems: ProblemLog
) -> Iterator[tuple[RemoteFiles | None, Segment]]:
    """Yield segments, each with its remote file system; None for local segments."""
    local: list[Path] = []
    seen: set[str] = set()
    error: InputError | None = None
    for location in dict.fromkeys(locations):
        files = RemoteFiles(location) if is_uri(location) else None
        if files is None:
            local.append(Path(location))
        elif files.is_local:
            local.append(files.path)
        else:
            try:
                for segment in files.find():
                    if (name := files.name(segment.path)) not in seen:
                        seen.add(name)
                        yield files, segment
            except OSError as problem:
                reason = first_line(problem)
                error = InputError(f"{files.shown}: cannot be read: {reason}", path=files.shown)
                problems.add(
                    Problem(
                        ProblemKind.UNREADABLE, f"It cannot be read: {reason}", path=files.shown
                    )
                )
    if local:
        for segment in find_segments(local, on_problem=problems.add):
            yield None, segment
    elif not seen and error is not None:
        raise error


def _clusters(
    directories: Iterable[_Directory], cluster: str | None, unnamed: str | None
) -> dict[_Directory, str]:
    """Return the cluster name of each log directory."""
    ids = {directory: directory.cluster_id() or unnamed for directory in directories}
    if cluster is None:
        names = {
            directory: cluster_id for directory, cluster_id in ids.items() if cluster_id is not None
        }
        for directory in ids.keys() - names.keys():
            name = directory.name(directory.path)
            raise InputError(
                f"{name}: expected a {META_PROPERTIES} with a cluster.id, found none; name the "
                "cluster with --cluster NAME",
                path=name,
            )
        return names
    if (
        len(
            several := sorted({cluster_id for cluster_id in ids.values() if cluster_id is not None})
        )
        > 1
    ):
        raise UsageError(
            f"--cluster gives one name to the logs of different clusters, {', '.join(several)}; "
            "read one cluster at a time, or omit --cluster"
        )
    return dict.fromkeys(ids, cluster)


def _source(segment: Segment, directory: _Directory, cluster: str) -> SegmentSource:
    assert segment.partition is not None
    files, path = directory.files, segment.path
    folder = Path(os.path.realpath(path.parent)) if files is None else path.parent
    return SegmentSource(
        cluster,
        segment.partition,
        segment.base_offset,
        str(path.absolute() if files is None else path),
        segment.size,
        directory.name(path.absolute() if files is None else path),
        directory.name(folder),
        None if files is None else files.uri,
    )


def _of_no_partition(segment: Segment, name: str) -> Problem:
    return Problem(
        ProblemKind.UNKNOWN_PARTITION,
        "Expected a segment in a folder named __consumer_offsets-N, which determines its "
        f"partition, found it in {segment.path.absolute().parent.name!r}.",
        path=name,
    )
