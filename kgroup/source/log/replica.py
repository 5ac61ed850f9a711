"""Where several folders hold the same partition, replicas of several brokers, read one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kgroup.model.segment import Segment, left_out_notes
from kgroup.source.log.end import log_end

_NO_END = -1
"""Of a log whose last segment cannot be read."""


def choose_logs(segments: Iterable[Segment], notes: list[str]) -> list[list[Segment]]:
    """Return the segments to read, one list for each partition, and note which are not.

    Of replicas the one whose log ends last is read.
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
        longest, others = _longest(list(folders.values()))
        for other in others:
            if other.end > (longest.segments[0].base_offset or 0):
                notes.append(_note(other, longest))
                left_out.update(segment.path for segment in other.segments)
    return [segment for segment in segments if segment.path not in left_out]


class _Replica(NamedTuple):
    segments: list[Segment]
    end: int
    """Of its log. Without an index, finding it takes reading all heads of a segment."""


def _longest(logs: Sequence[list[Segment]]) -> tuple[_Replica, list[_Replica]]:
    """Give the replica whose log ends last, and the others."""
    if len(logs) == 1:  # nobody asks for its end
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
    return "an offset that is not known" if end == _NO_END else f"offset {end}"


def _end(log: Sequence[Segment]) -> int:
    try:
        return log_end(log[-1].path, log[-1].base_offset or 0)
    except OSError:
        return _NO_END
