"""Segment files of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgroup.described_enum import DescribedEnum


class SegmentStatus(DescribedEnum):
    """What the end of a segment's file name says to a broker that starts there (`LogLoader`)."""

    LIVE = ("live", "A part of the log.")
    DELETED = ("deleted", "Marked for deletion; a broker removes it when it starts.")
    CLEANED = ("cleaned", "Half of a compaction's work; a broker removes it when it starts.")
    SWAP = (
        "swap",
        "A compaction's finished work; a broker puts it in the place of the segments it covers.",
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file.

    Attributes:
        partition: of its topic, `__consumer_offsets` if nothing else is said, from the folder's
            name; None where that does not tell.
        base_offset: offset that its name gives; None where the name is no number.
        size: in bytes, when it was found.
        is_loaded: whether a broker that starts with this folder reads it.
        reason: why not, as a sentence; None where it is loaded.
        broker: id of the broker that the records were just fetched from; then the file is a copy
            of our own, whose name and byte positions say nothing to anybody.
    """

    path: Path
    partition: int | None
    base_offset: int | None
    status: SegmentStatus
    size: int
    is_loaded: bool = True
    reason: str | None = None
    broker: int | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """A log, or a stretch of one, that is read at one go.

    Attributes:
        segments: its files, in order.
        aborted: producer id and first offset of each transaction that was aborted, as a broker
            tells it with records all of which are decided: the others are committed. None: the
            markers in the files tell.
    """

    segments: tuple[Segment, ...]
    aborted: frozenset[tuple[int, int]] | None = None


def left_out_notes(segments: Iterable[tuple[str, Segment]]) -> list[str]:
    """Return notes on segments that are not loaded: for each reason the first one and the count.

    Folders of a broker that was killed may contain thousands of them.

    Args:
        segments: segments with their names for people, including those that are loaded.
    """
    names: dict[str, list[str]] = {}
    for name, segment in segments:
        if segment.reason is not None:
            names.setdefault(segment.reason, []).append(name)
    return [
        f"{first} left out{f', and {len(more):,} more likewise' if more else ''}. {reason}"
        for reason, (first, *more) in names.items()
    ]
