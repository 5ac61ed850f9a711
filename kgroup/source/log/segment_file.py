"""Discovery of segment files, and of those that a broker would load at startup.

A broker's log directory has a folder per partition, ``<topic>-<partition>``, which contains::

    00000000000000000042.log          a segment, named after its base offset
    00000000000000000042.log.deleted  to be removed
    00000000000000000042.log.cleaned  written by a compaction that did not finish
    00000000000000000042.log.swap     finished, to replace the segments that it covers

Kafka's `LogLoader` removes deleted and cleaned files. With a cleaned file, it also removes the swap
files from its base offset on, which an unfinished split has left. It renames the other swap files,
and removes the segments between the base of the first and the end of the last one, which they
replace. Folders named ``<topic>-<partition>.<id>-delete``, ``-future`` and ``-stray`` are not part
of the log: a broker serves none of them.

The end of a partition's log is read from the header of its last batch.

Wire layout of the fields read (at the same place in every message format, big endian):

    offset 0   int64   v2: first offset of the batch; v0/v1: offset of the (last) message
    offset 8   int32   number of bytes that follow
    offset 16  int8    magic
    offset 23  int32   v2 only: last offset of the batch, relative to the first

The offset index of a segment (`OffsetIndex`: pairs of int32, relative offset and position,
ascending, zeros after the end of an active one) gives the start position, so that finding the end
of a long segment requires reading a few kilobytes. Checksums are not verified.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from kgroup.errors import InputError, ProblemKind
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.model.segment import Segment, SegmentStatus, left_out_notes

_HEAD = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_INDEX_ENTRY = Struct(">ii")
_LOG_OVERHEAD = 12
_LEAST_LENGTH = 14
"""Bytes after the length field of the shortest possible message (v0)."""
_HEAD_SIZE = 27
_NO_OFFSET = -1


def log_end(segment: Path, base_offset: int) -> int:
    """Return the offset after the last complete batch of a segment, or the base of an empty one.

    Raises:
        OSError: the file cannot be read.
    """
    with segment.open("rb") as file:
        start = _indexed_position(segment.with_suffix(".index"))
        end = _last_offset(file, start, base_offset)
        if end == _NO_OFFSET and start:  # the index does not match the segment
            end = _last_offset(file, 0, base_offset)
    return base_offset if end == _NO_OFFSET else end + 1


def _last_offset(file: BinaryIO, position: int, base_offset: int) -> int:
    size = file.seek(0, 2)
    last = _NO_OFFSET
    while True:
        file.seek(position)
        head = file.read(_HEAD_SIZE)
        if len(head) < _LOG_OVERHEAD + _LEAST_LENGTH:
            return last
        offset, length, _, magic = _HEAD.unpack_from(head)
        position += _LOG_OVERHEAD + length
        if length < _LEAST_LENGTH or position > size or not 0 <= magic <= 2:
            return last
        if magic == 2:
            if len(head) < _HEAD_SIZE:
                return last
            offset += _LAST_OFFSET_DELTA.unpack_from(head, 23)[0]
        if offset < max(base_offset, last):
            return last
        last = offset


def _indexed_position(index: Path) -> int:
    """Return the position in the last entry of an offset index; 0 if there is none."""
    try:
        with index.open("rb") as file:
            low, high = 0, file.seek(0, 2) // _INDEX_ENTRY.size  # entries [0, low) are written
            position = 0
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * _INDEX_ENTRY.size)
                entry: tuple[int, int] = _INDEX_ENTRY.unpack(file.read(_INDEX_ENTRY.size))
                if entry[1] > 0:
                    low, position = middle + 1, entry[1]
                else:
                    high = middle
            return position
    except OSError:
        return 0


_PARTITION_FOLDER = re.compile(r"(.+)-([0-9]+)(?:\.\w+-(delete|future|stray))?")
_MOST_PARTITION = (1 << 31) - 1
_BESIDE = {
    "delete": "Its folder is marked for deletion.",
    "future": "Its folder is a copy for another disk that is not finished.",
    "stray": "Its folder was set aside: the broker was no longer a replica of the partition.",
}
_SEGMENT_NAME = re.compile(r"(?:([0-9]{20})|.*)\.log(?:\.(deleted|cleaned|swap))?")
_BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.|$)")
_File = tuple[Path, str | None]
"""A segment file, and why it is not loaded, if its folder determines that."""

_NO_SEGMENT = re.compile(
    r".*\.(?:index|timeindex|txnindex|snapshot)(?:\.\w+)?"
    r"|leader-epoch-checkpoint|partition\.metadata|meta\.properties|[\w-]+-checkpoint"
)


def find_segments(
    paths: Iterable[Path],
    *,
    include: Collection[SegmentStatus] = (),
    on_problem: Callable[[Problem], None] | None = None,
) -> list[Segment]:
    """Find segments below these paths, including those that are not loaded (`Segment.is_loaded`).

    A path is a segment file with any name; a folder of segments; or a folder of
    ``__consumer_offsets-N`` folders, such as a broker's log directory. Other files are skipped.
    Duplicates are returned once.

    Segments with a status in `include` are loaded even if a broker would remove them. `on_problem`
    is called for files and folders that cannot be read while others can; by default their errors
    are raised too. Segments are sorted by partition, folder and base offset.

    Raises:
        InputError: a path does not exist or is a device or a pipe; a folder or all files together
            contain no segment.
        OSError: a folder cannot be read, and no segment was found elsewhere.
    """
    paths = list(paths)
    unreadable = _Unreadable(OFFSETS_TOPIC, on_problem)
    files: list[_File] = []
    for path in paths:
        with unreadable.noted(path):
            files += _segment_files(path, unreadable)
    if not files:
        unreadable.reraise()
        raise InputError(_nothing_in(" ".join(map(str, paths))))
    return _segments(files, OFFSETS_TOPIC, unreadable, include)


def find_topic_segments(
    directories: Iterable[Path], topic: str, on_problem: Callable[[Problem], None] | None = None
) -> list[Segment]:
    """Find a topic's segments in brokers' log directories; empty if the topic is not there.

    `on_problem` is called for files and folders that cannot be read; by default their errors are
    raised.
    """
    unreadable = _Unreadable(topic, on_problem)
    files: list[_File] = []
    for directory in directories:
        with unreadable.noted(directory):
            for folder, reason in _topic_folders(directory, topic).items():
                files += _log_files(folder, reason, unreadable)
    return _segments(files, topic, unreadable)


def partition_of(folder: Path, topic: str = OFFSETS_TOPIC) -> int | None:
    """Return the partition of a topic that a folder is named after; None if none."""
    name = _PARTITION_FOLDER.fullmatch(folder.name)
    if name is None or name[1] != topic or name[3] is not None or int(name[2]) > _MOST_PARTITION:
        return None
    return int(name[2])


class _Unreadable:
    """Handles folders and files that cannot be read: reports them, or raises their errors."""

    def __init__(self, topic: str, on_problem: Callable[[Problem], None] | None) -> None:
        self._topic = topic
        self._on_problem = on_problem
        self._first: OSError | None = None

    @contextmanager
    def noted(self, path: Path) -> Iterator[None]:
        """Report an OSError that is raised inside the context."""
        try:
            yield
        except OSError as error:
            if self._on_problem is None:
                raise
            self._first = self._first or error
            where = Path(error.filename) if isinstance(error.filename, str) else path
            partition = None
            if self._topic == OFFSETS_TOPIC:
                at = (partition_of(where), partition_of(where.absolute().parent))
                partition = next((number for number in at if number is not None), None)
            reason = f"It cannot be read: {error.strerror or error}."
            self._on_problem(
                Problem(
                    ProblemKind.UNREADABLE, reason, path=str(where), offsets_partition=partition
                )
            )

    def reraise(self) -> None:
        """Raise the first reported error, if there is one."""
        if self._first is not None:
            raise self._first


def _segment_files(path: Path, unreadable: _Unreadable) -> Iterator[_File]:
    """Yield each segment file, and why it is not loaded, if its folder determines that."""
    if path.is_file():
        if may_be_segment_name(path.name):
            yield path, None
        return
    if not path.exists():
        raise InputError(f"{path}: No such file or directory", path=str(path))
    if not path.is_dir():
        raise InputError(
            f"{path}: neither a file nor a folder; use - to read what is piped in", path=str(path)
        )
    is_empty = True
    folders = _topic_folders(path, OFFSETS_TOPIC) or {path: None}
    for folder, reason in folders.items():
        for file in _log_files(folder, reason, unreadable):
            is_empty = False
            yield file
    if is_empty:
        unreadable.reraise()
        raise InputError(_nothing_in(str(path)), path=str(path))


def topic_folders(children: Iterable[Path], topic: str = OFFSETS_TOPIC) -> dict[Path, str | None]:
    """Return the folders of a topic's partitions, with the reason for each that is not loaded."""
    folders = {}
    for child in children:
        name = _PARTITION_FOLDER.fullmatch(child.name)
        if name and name[1] == topic:
            folders[child] = _BESIDE[name[3]] if name[3] else None
    return folders


def is_segment_name(name: str) -> bool:
    """Return whether a file with this name in a partition's folder is a segment."""
    return _SEGMENT_NAME.fullmatch(name) is not None


def may_be_segment_name(name: str) -> bool:
    """Return whether a file with this name can be a segment when the user names it."""
    return _NO_SEGMENT.fullmatch(name) is None


def _topic_folders(directory: Path, topic: str) -> dict[Path, str | None]:
    folders = topic_folders(directory.iterdir(), topic)
    return {folder: reason for folder, reason in folders.items() if folder.is_dir()}


def _log_files(folder: Path, reason: str | None, unreadable: _Unreadable) -> list[_File]:
    files: list[_File] = []
    with unreadable.noted(folder), os.scandir(folder) as entries:
        for entry in entries:
            if is_segment_name(entry.name):
                file = folder / entry.name
                if entry.is_file(follow_symlinks=False) or file.is_file():
                    files.append((file, reason))
    return files


def _nothing_in(where: str) -> str:
    return f"{where}: expected segments (*.log) or folders named {OFFSETS_TOPIC}-N, found none"


def _segments(
    files: Iterable[_File],
    topic: str,
    unreadable: _Unreadable,
    include: Collection[SegmentStatus] = (),
) -> list[Segment]:
    """Return segments, one per file, and decide for each folder which of them are loaded."""
    folders: dict[str, dict[str, Segment]] = {}
    real = cache(os.path.realpath)  # Path.resolve raises for symlink loops
    for file, reason in files:
        with unreadable.noted(file):
            folder, name = real(file.parent), file.name
            if file.is_symlink():
                folder, name = os.path.split(os.path.realpath(file))
            segment = segment_at(file, file.stat().st_size, reason, topic)
            folders.setdefault(folder, {}).setdefault(name, segment)
    segments: list[Segment] = []
    for folder, by_name in folders.items():
        with unreadable.noted(Path(folder)):
            segments += as_broker(by_name.values(), frozenset(include))
    return sorted(segments, key=_order)


def segment_at(
    path: Path, size: int, reason: str | None = None, topic: str = OFFSETS_TOPIC
) -> Segment:
    """Return the segment of a file, from its name; `reason` says why it is not loaded."""
    name = _SEGMENT_NAME.fullmatch(path.name)
    base_offset = _BASE_OFFSET.match(path.name)
    return Segment(
        path,
        partition_of(path.absolute().parent, topic),
        int(base_offset[0]) if base_offset else None,
        SegmentStatus(name[2]) if name and name[2] else SegmentStatus.LIVE,
        size,
        reason is None,
        reason,
    )


def as_broker(
    segments: Iterable[Segment],
    include: frozenset[SegmentStatus] = frozenset(),
    end_of: Callable[[Segment], int] = lambda segment: log_end(segment.path, _base(segment)),
) -> Iterator[Segment]:
    """Yield the segments of one folder, marked by whether a broker would load them.

    Segments with a status in `include` are loaded even if a broker would remove them; `end_of`
    returns the offset after a segment.
    """
    by_status: dict[SegmentStatus, list[Segment]] = {status: [] for status in SegmentStatus}
    for segment in segments:
        if segment.is_loaded:
            by_status[segment.status].append(segment)
        else:
            yield segment
    cleaned_from = min(map(_base, by_status[SegmentStatus.CLEANED]), default=None)
    swaps = [
        segment
        for segment in by_status[SegmentStatus.SWAP]
        if cleaned_from is None or _base(segment) < cleaned_from
    ]
    swap_from = min(map(_base, swaps), default=0)
    swap_to = max(map(end_of, swaps), default=0)
    for status, of_status in by_status.items():
        for segment in of_status:
            reason = None
            if status in (SegmentStatus.DELETED, SegmentStatus.CLEANED):
                reason = status.sentence
            elif status is SegmentStatus.SWAP and segment not in swaps:
                reason = "Belongs to an unfinished split; a broker removes it."
            elif status is SegmentStatus.LIVE and swap_from <= _base(segment) < swap_to:
                reason = "A completed compaction replaces it, in .swap files; a broker uses these."
            if reason is None or status in include:
                yield segment
            else:
                yield replace(segment, is_loaded=False, reason=reason)


def _base(segment: Segment) -> int:
    return segment.base_offset or 0


def _order(segment: Segment) -> tuple[float, str, int, str]:
    partition = float("inf") if segment.partition is None else segment.partition
    return (partition, str(segment.path.parent), _base(segment), segment.path.name)


_NO_END = -1
"""End of a log whose last segment cannot be read."""


def choose_logs(segments: Iterable[Segment], notes: list[str]) -> list[list[Segment]]:
    """Return the segments to read, one list per partition, and add notes about the others.

    Of replicas, the one with the highest log end offset is read.
    """
    segments = list(segments)
    notes += left_out_notes((str(segment.path), segment) for segment in segments)
    loaded = [segment for segment in segments if segment.is_loaded]
    logs: dict[object, list[list[Segment]]] = {}
    for (partition, folder), log in groupby(
        loaded, key=lambda segment: (segment.partition, segment.path.parent)
    ):
        logs.setdefault(folder if partition is None else partition, []).append(list(log))
    chosen = []
    for replicas in logs.values():
        longest, others = _longest(replicas)
        chosen.append(longest.segments)
        notes += [_note(other, longest) for other in others]
    return chosen


def without_replicas(segments: Sequence[Segment], notes: list[str]) -> list[Segment]:
    """Return the segments without those whose records are also in others, and add notes.

    Of replicas, the one with the highest log end offset is kept. Folders of the same partition with
    other parts of the log are not replicas.
    """
    logs: dict[int, dict[object, list[Segment]]] = {}
    for segment in segments:
        if segment.is_loaded and segment.partition is not None and segment.base_offset is not None:
            log = logs.setdefault(segment.partition, {})
            log.setdefault(segment.path.parent, []).append(segment)
    left_out: set[Path] = set()
    for folders in logs.values():
        longest, others = _longest(list(folders.values()))
        for other in others:
            if other.end > (longest.segments[0].base_offset or 0):
                notes.append(_note(other, longest))
                left_out.update(segment.path for segment in other.segments)
    return [segment for segment in segments if segment.path not in left_out]


class _Replica(NamedTuple):
    segments: list[Segment]
    end: int
    """Log end offset. Without an index, finding it requires reading all batch headers of a
    segment.
    """


def _longest(logs: Sequence[list[Segment]]) -> tuple[_Replica, list[_Replica]]:
    """Return the replica with the highest log end offset, and the others."""
    if len(logs) == 1:  # its end is not needed
        return _Replica(logs[0], _NO_END), []
    replicas = [_Replica(log, _end(log)) for log in logs]
    longest = max(replicas, key=attrgetter("end"))
    return longest, [replica for replica in replicas if replica is not longest]


def _note(other: _Replica, longest: _Replica) -> str:
    return (
        f"{other.segments[0].path.parent} left out: it ends at {_text(other.end)}, and "
        f"{longest.segments[0].path.parent}, which holds the same partition, at "
        f"{_text(longest.end)}."
    )


def _text(end: int) -> str:
    return "an unknown offset" if end == _NO_END else f"offset {end}"


def _end(log: Sequence[Segment]) -> int:
    try:
        return log_end(log[-1].path, log[-1].base_offset or 0)
    except OSError:
        return _NO_END
