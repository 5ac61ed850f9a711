"""Find segment files, and say which of them a broker that starts there would read.

A broker's log directory holds a folder for each partition, ``<topic>-<partition>``, and in it::

    00000000000000000042.log          a segment, named after its base offset
    00000000000000000042.log.deleted  to be removed
    00000000000000000042.log.cleaned  written by a compaction that is not finished
    00000000000000000042.log.swap     finished, to be put in the place of what it covers

Kafka's `LogLoader` removes the deleted and the cleaned, and with a cleaned one the swaps from its
base offset on, which a split has left unfinished; renames the other swaps, and removes the segments
between the first swap's base and the end of the last, which the swaps replace.

Folders named ``<topic>-<partition>.<id>-delete``, ``-future`` and ``-stray`` are beside the log: a
broker serves none of them.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kgroup.errors import InputError
from kgroup.model.segment import Segment, SegmentStatus
from kgroup.source.log_end import log_end

__all__ = ["OFFSETS_TOPIC", "find_segments", "partition_of"]

OFFSETS_TOPIC = "__consumer_offsets"

_OFFSETS_FOLDER = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)")
_FOLDER_BESIDE = re.compile(_OFFSETS_FOLDER.pattern + r"\.\w+-(delete|future|stray)")
_BESIDE = {
    "delete": "Its folder is marked for deletion.",
    "future": "Its folder is a copy for another disk that is not finished.",
    "stray": "Its folder was set aside: the broker was no replica of the partition any more.",
}
_SEGMENT_NAME = re.compile(r"(?:(\d{20})|.*)\.log(?:\.(deleted|cleaned|swap))?")
_BASE_OFFSET = re.compile(r"\d{20}(?=\.|$)")
_NO_SEGMENT = re.compile(
    r".*\.(?:index|timeindex|txnindex|snapshot)(?:\.\w+)?"
    r"|leader-epoch-checkpoint|partition\.metadata|meta\.properties|[\w-]+-checkpoint"
)


def find_segments(
    paths: Iterable[Path], *, include: Collection[SegmentStatus] = ()
) -> list[Segment]:
    """Find segments below these paths, those that are not to be read too (`Segment.is_loaded`).

    A path is a segment file, whatever its name; a folder of segments; or a folder of
    ``__consumer_offsets-N`` folders, such as a broker's log directory. Files other than segments
    are passed over. What is found twice is returned once.

    Args:
        paths: files and folders.
        include: also read those that a broker would remove.

    Returns:
        Segments sorted by partition, folder and base offset.

    Raises:
        InputError: a path does not exist, a folder or all of the files hold no segment.
    """
    folders: dict[Path, dict[Path, Segment]] = {}
    paths = list(paths)
    for path in paths:
        for file, reason in _segment_files(path):
            resolved = file.resolve()
            folders.setdefault(resolved.parent, {}).setdefault(resolved, _segment(file, reason))
    if not folders:
        raise InputError(_nothing_in(" ".join(map(str, paths))))
    segments = [
        segment
        for folder in folders.values()
        for segment in _as_broker(list(folder.values()), frozenset(include))
    ]
    return sorted(segments, key=_order)


def partition_of(folder: Path) -> int | None:
    """Return the partition of `__consumer_offsets` that a folder is named after."""
    match = _OFFSETS_FOLDER.fullmatch(folder.name)
    return int(match[1]) if match else None


def _segment_files(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield each segment file, and why it is not to be read if its folder says so."""
    if path.is_file():
        if not _NO_SEGMENT.fullmatch(path.name):
            yield path, None
        return
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    children = list(path.iterdir())
    folders: dict[Path, str | None] = {
        child: None for child in children if partition_of(child) is not None
    }
    for child in children:
        if beside := _FOLDER_BESIDE.fullmatch(child.name):
            folders[child] = _BESIDE[beside[2]]
    is_empty = True
    for folder, reason in (folders or {path: None}).items():
        for child in folder.iterdir():
            if _SEGMENT_NAME.fullmatch(child.name) and child.is_file():
                is_empty = False
                yield child, reason
    if is_empty:
        raise InputError(_nothing_in(str(path)))


def _nothing_in(where: str) -> str:
    return f"{where}: expected segments (*.log) or folders named {OFFSETS_TOPIC}-N, found none"


def _segment(path: Path, reason: str | None) -> Segment:
    name = _SEGMENT_NAME.fullmatch(path.name)
    base_offset = _BASE_OFFSET.match(path.name)
    return Segment(
        path,
        partition_of(path.absolute().parent),
        int(base_offset[0]) if base_offset else None,
        SegmentStatus(name[2]) if name and name[2] else SegmentStatus.LIVE,
        path.stat().st_size,
        reason is None,
        reason,
    )


def _as_broker(segments: Iterable[Segment], include: frozenset[SegmentStatus]) -> Iterator[Segment]:
    """Decide, for the segments of one folder, which of them a broker would read."""
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
    swap_to = max((log_end(swap.path, _base(swap)) for swap in swaps), default=0)
    for status, found in by_status.items():
        for segment in found:
            reason = None
            if status in (SegmentStatus.DELETED, SegmentStatus.CLEANED):
                reason = status.sentence
            elif status is SegmentStatus.SWAP and segment not in swaps:
                reason = "Belongs to a split that was not finished; a broker removes it."
            elif status is SegmentStatus.LIVE and swap_from <= _base(segment) < swap_to:
                reason = (
                    "A finished compaction lies beside it, in .swap files; a broker takes that."
                )
            if reason is None or status in include:
                yield segment
            else:
                yield replace(segment, is_loaded=False, reason=reason)


def _base(segment: Segment) -> int:
    return segment.base_offset or 0


def _order(segment: Segment) -> tuple[float, str, int, str]:
    partition = float("inf") if segment.partition is None else segment.partition
    return (partition, str(segment.path.parent), _base(segment), segment.path.name)
