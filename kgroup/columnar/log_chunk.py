"""Chunks of a log, which compiled code processes in threads.

A chunk is only a range of the file; the code that walks over it reads it, in pieces small enough to
stay in the processor's cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.locator import Locators, between
from kgroup.errors import ProblemKind
from kgroup.kernel import entry, memory
from kgroup.kernel.memory import PADDING
from kgroup.kernel.walk_state import WalkState
from kgroup.protocol.batch.batch import CODECS, MOST_RECORDS, Effort, RecordBatch
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange
from kgroup.protocol.batch.compression import CompressionError, UndecidedError, decompress
from kgroup.protocol.batch.record_batch import read_batches

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of a log that begins with a batch and, if it is undamaged, ends with one.

    Attributes:
        file: the log, shared by threads, which read it at positions.
        position: position of the first byte.
        end: position after the last byte.
    """

    file: BinaryIO
    position: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.end - self.position


class Cutter:
    """Cuts a part of a file into chunks.

    At the end of a chunk, either a batch with a correct checksum begins and another follows, or the
    rest of the part is damaged. Whether the batches of the chunk lead there is checked when they
    are walked over, because a batch may contain others.

    Attributes:
        position: start of the next chunk.
    """

    def __init__(self, file: BinaryIO, part: ByteRange = WHOLE) -> None:
        self._file = file
        self._end = part.end
        self._largest = SIZES.chunk
        self.seek(part.start)
        self._size = min(SIZES.first_chunk, SIZES.chunk)

    def seek(self, position: int) -> None:
        """Continue at a position, with small chunks at first, because more damage is likely."""
        self._size = min(SIZES.smallest_chunk, SIZES.chunk)
        self.position = position

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end."""
        end = os.fstat(self._file.fileno()).st_size
        if self._end is not None:
            end = min(end, self._end)
        start = self.position
        if start >= end:
            return None
        self.position = self._batch_behind(start + self._size, end)
        self._size = min(2 * self._size, self._largest)
        return Chunk(self._file, start, self.position)

    def _batch_behind(self, position: int, end: int) -> int:
        """Return the position of a batch at or after `position`; `end` if none is near."""
        for size in SIZES.searched:
            data = np.empty(min(size, max(end - position, 0)) + PADDING, np.uint8)
            used = _read(self._file, data[:-PADDING], position)
            at = entry.find_batch(data, used)
            if at is not None:
                self._note_records(data[at:], used - at)
                return position + at
            if used < size:
                break
        return end

    def _note_records(self, data: _Array, end: int) -> None:
        """Adjust the chunk size to the number of records in the first batches."""
        size, records = entry.find_end(data, end)
        largest = SIZES.chunk_records * size // max(records, 1)
        self._largest = min(max(largest, SIZES.smallest_chunk), SIZES.chunk)


def _read(file: BinaryIO, target: _Array, position: int) -> int:
    """Fill memory from a file at a position; return the number of bytes read."""
    used = 0
    while used < len(target) and (
        got := os.preadv(file.fileno(), [target[used:].data], position + used)
    ):
        used += got
    return used


class UnpackError(Exception):
    """The compressed batches of a run, from `start` to `end`, cannot be unpacked as one stream."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


_T = TypeVar("_T")


def follow(chunk: Chunk) -> int | None:
    """Follow the lengths of a chunk's batches; return where they fail, None if they do not."""
    walk = ChunkWalk(chunk, entry.follow)
    for _ in walk.steps():
        pass
    return walk.stop


def unpacked_or_not(
    chunk: Chunk, walk: Callable[[Chunk, bool], tuple[list[_T], int | None]]
) -> tuple[list[_T], int | None]:
    """Walk over a chunk with compressed batches unpacked in runs, except runs that cannot be.

    If a run cannot, the part before it, the run and the rest become separate chunks. Only the part
    before is walked over again, so that many such runs do not take quadratic time.

    Args:
        chunk: chunk to walk over.
        walk: returns the results of a chunk, and where it stopped, None at the end; called with
            whether to unpack, and again for parts of the chunk.
    """
    results: list[_T] = []
    while True:
        try:
            more, stop = walk(chunk, True)
        except UnpackError as error:
            before = replace(chunk, end=error.start)
            run = Chunk(chunk.file, error.start, error.end)
            chunk = replace(chunk, position=error.end)
        else:
            return [*results, *more], stop
        if before.size:
            more, stop = unpacked_or_not(before, walk)
            results += more
            if stop is not None:
                return results, stop
        more, stop = walk(run, False)
        results += more
        if stop is not None or not chunk.size:
            return results, stop


class ChunkWalk:
    """One walk of compiled code over a chunk.

    The code reads the chunk piece by piece and without holding the GIL.

    Args:
        chunk: chunk to walk over.
        function: function of `entry` that continues the walk.
        is_unpacked: whether compressed batches are unpacked, in runs.
        locators: locators of the wanted records; by default all.

    Attributes:
        state: state of the compiled code.
        words: words of the state.
    """

    def __init__(
        self,
        chunk: Chunk,
        function: Callable[[WalkState], int],
        *,
        is_unpacked: bool = False,
        locators: Locators | None = None,
    ) -> None:
        self._chunk = chunk
        self._function = function
        self._locators = locators
        part = chunk.file.fileno(), chunk.position, chunk.end
        self.state = WalkState(*part, SIZES.piece, is_unpacked)
        self.words = self.state.words
        self._run = chunk.position, chunk.position
        self._want()

    def steps(self) -> Iterator[int]:
        """Yield the reasons why the code stops, except those that concern reading.

        Raises:
            UnpackError: a run was not unpacked as its batches would be one by one.
        """
        words = self.words
        while (reason := self._function(self.state)) != memory.DONE:
            if reason == memory.UNPACK:
                self._unpack_run()
            elif reason == memory.LARGE:
                self.state.enlarge(int(words["needed_size"]))
            elif reason == memory.BAD and words["unpacked"]:
                raise UnpackError(*self._run)
            else:
                yield reason

    @property
    def position(self) -> int:
        """Position in the file of the current batch, or else the next one."""
        return int(self.words["position"] + self.words["file_base"])

    @property
    def stop(self) -> int | None:
        """The position; None at the end of the chunk."""
        return None if self.position == self._chunk.end else self.position

    @property
    def batch(self) -> memoryview:
        """Bytes of the piece from the current batch, or else the next one, on."""
        words = self.words
        start, end = words["position"] - words["piece"], words["whole_end"] - words["piece"]
        return self.state.piece.data[start:end]

    @property
    def record_count(self) -> int:
        """Number of records in the header of the next batch."""
        batch = self.batch
        return int.from_bytes(batch[57:61], "big") if batch[16] == 2 else 1

    def read_bad_batch(
        self, read: Callable[[RecordBatch], object], most_records: int = MOST_RECORDS
    ) -> bool:
        """Read a batch that the code cannot read, with `read`, and skip it.

        Returns False if the batch is invalid, has more than `most_records`, or becomes too large
        for a chunk; the last is read again without what precedes it.
        """
        batches = read_batches(
            self.batch, base_position=self.position, final=False, effort=Effort(is_known=False)
        )
        item = next(batches, None)
        if not isinstance(item, RecordBatch) or (item.record_count or 0) > most_records:
            return False
        try:
            read(item)
        except UndecidedError:
            return False
        self.words["position"] += item.size
        self._want()
        return True

    def _unpack_run(self) -> None:
        """Unpack the next compressed batches of one codec, or go to the end of the piece."""
        words, piece = self.words, self.state.piece
        starts, ends = entry.list_compressed(self.state)
        if not len(starts):
            words["end"] = words["whole_end"]
            return
        base = int(words["piece"])
        words["end"] = base + ends[-1]
        at = base + int(words["file_base"])
        self._run = at + int(starts[0]), at + int(ends[-1])
        codec = int(piece[starts[0] + 22]) & memory.COMPRESSED
        limit = Effort(is_known=False).limit(int((ends - starts).sum()))
        try:
            self.state.unpack(_unpack(piece, starts, ends, codec, limit))
        except (CompressionError, OSError, pa.ArrowException) as error:
            raise UnpackError(*self._run) from error

    def _want(self) -> None:
        """Set the wanted records from the next batch on."""
        if self._locators is not None:
            self.state.want(between(self._locators, self.position, self._chunk.end))


def _unpack(piece: _Array, starts: _Array, ends: _Array, codec: int, limit: int) -> _Array:
    """Decompress batches of one codec; return all their records, concatenated and padded.

    The result has at most `limit` bytes.

    Concatenated gzip, lz4 and zstd data are a valid stream, and reading it as one is an order of
    magnitude faster. The number of records shows where those of a batch end; it does not show if
    one batch has more and the next one fewer by the same number.
    """
    packed = entry.gather(piece, starts, ends)
    if codec >= len(CODECS):
        raise CompressionError(
            ProblemKind.BAD_COMPRESSION, "Expected a codec, found the number of none."
        )
    if CODECS[codec] == "snappy":
        return _unpack_each(packed.data, ends - starts - HEADER_SIZE, CODECS[codec], limit)
    return _unpack_stream(packed, CODECS[codec], limit)


def _unpack_each(packed: memoryview, sizes: _Array, codec: str, limit: int) -> _Array:
    parts = []
    at = used = 0
    for size in sizes.tolist():
        part = decompress(codec, packed[at : at + size], limit=limit - used)
        parts.append(part)
        used += len(part)
        at += size
    return np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8)


def _unpack_stream(packed: _Array, codec: str, limit: int) -> _Array:
    out = np.empty(4 * len(packed) + PADDING, np.uint8)
    used = 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), codec) as stream:
        while got := stream.readinto(out.data[used:]):
            used += got
            if used > limit:
                raise CompressionError(ProblemKind.TOO_LARGE, "Expected fewer bytes of records.")
            if used == len(out):
                out = np.concatenate([out, np.empty(len(out), np.uint8)])
    if used + PADDING > len(out):
        out = np.concatenate([out, np.empty(PADDING, np.uint8)])
    return out[: used + PADDING]
