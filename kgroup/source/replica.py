"""Where several folders hold the same partition, replicas of several brokers, read one of them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from kgroup.model.segment import Segment
from kgroup.source.log_end import log_end

__all__ = ["choose_logs", "without_replicas"]


def choose_logs(segments: Iterable[Segment], notes: list[str]) -> list[list[Segment]]:
    """Return the segments to read, one list for each partition, and note which are not.

    Of replicas the one whose log ends last is read.
    """
    loaded = []
    for segment in segments:
        if segment.is_loaded:
            loaded.append(segment)
        else:
            notes.append(f"{segment.path} left out. {segment.reason}")
    logs: dict[object, list[list[Segment]]] = {}
    for (partition, folder), log in groupby(
        loaded, key=lambda segment: (segment.partition, segment.path.parent)
    ):
        logs.setdefault(folder if partition is None else partition, []).append(list(log))
    chosen = []
    for replicas in logs.values():
        longest = _longest(replicas)
        chosen.append(longest)
        notes += [_note(other, longest) for other in replicas if other is not longest]
    return chosen


def without_replicas(segments: Sequence[Segment], notes: list[str]) -> list[Segment]:
    """Leave out those segments whose records others hold too, and note it.

    Of replicas the one whose log ends last is kept. Folders of the same partition that hold other
    parts of the log are no replicas.
    """
    logs: dict[int, dict[object, list[Segment]]] = {}
    for segment in segments:
        if segment.is_loaded and segment.partition is not None and segment.base_offset is not None:
            log = logs.setdefault(segment.partition, {})
            log.setdefault(segment.path.parent, []).append(segment)
    left_out: set[Path] = set()
    for folders in logs.values():
        longest = _longest(list(folders.values()))
        for other in folders.values():
            if other is not longest and _end(other) > (longest[0].base_offset or 0):
                notes.append(_note(other, longest))
                left_out.update(segment.path for segment in other)
    return [segment for segment in segments if segment.path not in left_out]


def _longest(replicas: Sequence[list[Segment]]) -> list[Segment]:
    return max(replicas, key=_end) if len(replicas) > 1 else replicas[0]


def _note(other: Sequence[Segment], longest: Sequence[Segment]) -> str:
    return (
        f"{other[0].path.parent} left out: it ends at offset {_end(other)}, and "
        f"{longest[0].path.parent}, which holds the same partition, at {_end(longest)}."
    )


def _end(log: Sequence[Segment]) -> int:
    try:
        return log_end(log[-1].path, log[-1].base_offset or 0)
    except OSError:
        return -1
