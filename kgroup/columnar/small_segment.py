"""Combine small segments of a log into files that are decoded at once.

A log of thousands of small segments (`segment.ms`, a small `segment.bytes`) then costs little more
than a single file of the same size: the remaining cost of each segment is to find, open and copy
it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kgroup.columnar.batch_scan import scan_batches
from kgroup.columnar.input_size import pays
from kgroup.model.segment import Segment
from kgroup.protocol.batch.batch import LOG_OVERHEAD, Damage
from kgroup.protocol.batch.batch_v2 import MIN_LENGTH

_SMALL = 1 << 20
"""Maximum bytes of a small segment."""
_MOST = 4 << 20
"""Maximum bytes of a combined file; its segments are read one by one if any of it is damaged."""
_MANY = 16
"""Number of small segments from which they are combined even if they have few bytes."""
_HEAD = Struct(">8xi4xb4xH")
"""Header of a batch of message format v2, see `batch_v2`: length, magic, attributes."""
_CODEC = 7


class Stretch(NamedTuple):
    """A part of a log in one file.

    Attributes:
        path: the file: a segment, or a copy of several.
        segments: segments in the file, in order.
        starts: position of each segment in the file.
    """

    path: Path
    segments: tuple[Segment, ...]
    starts: tuple[int, ...] = (0,)

    def place(self, damage: Damage) -> tuple[Segment, int]:
        """Return the damaged segment, and the position of the damage in it.

        Missing records are damage of size 0 at the end of their batch.
        """
        last = damage.position + damage.size - 1
        number = bisect_right(self.starts, min(damage.position, last)) - 1
        return self.segments[number], damage.position - self.starts[number]


def stretches(
    segments: Sequence[Segment],
    stack: ExitStack,
    *,
    compiled: bool | None = None,
    on_compile: Callable[[], None] | None = None,
) -> Iterator[Stretch]:
    """Yield the segments of a log in order, with small undamaged ones combined.

    Segments with compressed batches are not combined: the limit on their unpacked size is per
    segment.

    Args:
        segments: segments of one log.
        stack: closed by the caller when the stretches have been read.
        compiled: whether to use compiled code; False also means that no segments are combined. By
            default if there is much to read.
        on_compile: called before code is compiled.
    """
    small = [segment.size for segment in segments if segment.size <= _SMALL]
    is_worth_it = compiled is not False and len(small) > 1
    if compiled is None:
        compiled = is_worth_it and pays(sum(small))
        is_worth_it = compiled or len(small) >= _MANY
    folder = _folder(stack) if is_worth_it else None
    if folder is None:
        yield from map(_alone, segments)
        return
    held: list[tuple[Segment, bytes]] = []
    size = 0
    for segment in segments:
        data = _plain_batches(segment)
        if data is None or size + len(data) > _MOST:
            yield from _together(held, folder, compiled, on_compile)
            held, size = [], 0
        if data is None:
            yield _alone(segment)
        else:
            held.append((segment, data))
            size += len(data)
    yield from _together(held, folder, compiled, on_compile)


def _alone(segment: Segment) -> Stretch:
    return Stretch(segment.path, (segment,))


def _folder(stack: ExitStack) -> Path | None:
    """Create a folder for copies; return None if that fails."""
    try:
        return Path(stack.enter_context(TemporaryDirectory(prefix="kgroup-")))
    except OSError:
        return None


def _together(
    held: Sequence[tuple[Segment, bytes]],
    folder: Path,
    compiled: bool,
    on_compile: Callable[[], None] | None,
) -> Iterator[Stretch]:
    """Copy segments into one file, if it consists of valid batches only."""
    segments = tuple(segment for segment, _ in held)
    data = b"".join(part for _, part in held)
    if len(held) > 1 and data:
        path = folder / segments[0].path.name
        with suppress(OSError):  # disk full
            path.write_bytes(data)
            scans = scan_batches(path, compiled=compiled, workers=1, on_compile=on_compile)
            if sum(scan.bytes.total() for scan in scans) == len(data):
                starts = accumulate((len(part) for _, part in held[:-1]), initial=0)
                yield Stretch(path, segments, tuple(starts))
                return
    yield from map(_alone, segments)


def _plain_batches(segment: Segment) -> bytes | None:
    """Return a small segment's data if it consists of uncompressed batches; else None."""
    if segment.size > _SMALL:
        return None
    try:
        with segment.path.open("rb", buffering=0) as file:
            data = file.read(_SMALL + 1)
    except OSError:  # reported when it is read alone
        return None
    position = 0
    while position + _HEAD.size <= len(data):
        length, magic, attributes = _HEAD.unpack_from(data, position)
        if length < MIN_LENGTH or magic != 2 or attributes & _CODEC:
            return None
        position += LOG_OVERHEAD + length
    return data if position == len(data) <= _SMALL else None
