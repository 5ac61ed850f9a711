"""Segment files of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgroup.described_enum import DescribedEnum


class SegmentStatus(DescribedEnum):
    """Meaning of a segment's file suffix to a broker that loads the log (`LogLoader`)."""

    LIVE = ("live", "Part of the log.")
    DELETED = ("deleted", "Marked for deletion; a broker removes it when it starts.")
    CLEANED = ("cleaned", "Output of an unfinished compaction; a broker removes it when it starts.")
    SWAP = (
        "swap",
        "Output of a finished compaction; a broker replaces the compacted segments with it when "
        "it starts.",
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file.

    Attributes:
        partition: partition of its topic (by default `__consumer_offsets`), from the folder name;
            None if the name does not contain it.
        base_offset: offset in the file name; None if the name is not a number.
        size: size in bytes when the file was found.
        is_loaded: whether a broker that starts with this folder loads the file.
        reason: why it does not, as a sentence; None if it does.
        broker: id of the broker that the records were just fetched from; the file is then kgroup's
            own copy, whose name and byte positions mean nothing to users.
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
    """A log, or a part of one, that is read in one pass.

    Attributes:
        segments: segment files, in order.
        aborted: producer id and first offset of each aborted transaction, as returned by a broker
            with records of completed transactions only; all others are committed. None: the markers
            in the files tell.
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
