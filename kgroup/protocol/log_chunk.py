"""Chunks of a log: cut from the file, and walked by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from kgroup.protocol import kernel_memory as memory
from kgroup.protocol.batch import CODECS, MAX_BATCH_SIZE, Inflation
from kgroup.protocol.batch_v2 import HEADER_SIZE
from kgroup.protocol.byte_range import WHOLE, ByteRange
from kgroup.protocol.compiled import kernels
from kgroup.protocol.compression import CompressionError, decompress
from kgroup.protocol.kernel_memory import PADDING
from kgroup.protocol.record_batch import RecordBatch, read_batches
from kgroup.protocol.record_place import Places, between

__all__ = ["Chunk", "Cutter", "Runs", "Walk", "unpacked_or_not"]

_Array = np.ndarray[Any, Any]
Runs = Iterator[tuple[int, _Array | None]]
"""Where parts of a chunk end, each with the records of its compressed batches, if unpacked."""

_CHUNK_SIZE = 16 << 20
_FIRST_CHUNK = 4 << 20
"""Smaller: until it is read, the threads have nothing to do."""
_SMALLEST_CHUNK = 1 << 18
_CHUNK_RECORDS = 1 << 17
"""Records from which on a chunk ends: their columns and texts are many times as large."""
_PIECE = 1 << 19
_RUN_SIZE = 4 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a log that begin with a batch, and end with one if lengths do not lie.

    Attributes:
        data: the bytes; `PADDING` others follow `size`.
        size: how many bytes the batches take.
        position: of the first byte in the file.
        batches: how many there are.
        compressed: how many of them are compressed ones of message format v2.
        records: how many they claim to have.
        inflation: of the log.
    """

    data: _Array
    size: int
    position: int
    batches: int
    compressed: int
    records: int
    inflation: Inflation


class Cutter:
    """Reads a part of a file and cuts it into chunks.

    Attributes:
        position: where the next chunk begins. Where there is no next one, nothing that may be a
            whole batch begins there.
        inflation: of the log.
    """

    def __init__(self, file: BinaryIO, part: ByteRange = WHOLE) -> None:
        self._file = file
        self._end = part.end
        self.inflation = Inflation()
        self._free: list[_Array] = []
        self.seek(part.start)
        self._size = min(_FIRST_CHUNK, _CHUNK_SIZE)

    def recycle(self, chunk: Chunk) -> None:
        """Take back the memory of a chunk that is not needed any more."""
        self._free.append(chunk.data)

    def seek(self, position: int) -> None:
        """Go on at a position, at first in small steps: where damage is, more is likely."""
        self._file.seek(position)
        self._at = position
        self._size = min(_SMALLEST_CHUNK, _CHUNK_SIZE)
        self.position = position
        self._rest = np.empty(0, np.uint8)

    def next(self) -> Chunk | None:
        """Give the next chunk."""
        size = self._size
        self._size = min(2 * size, _CHUNK_SIZE)
        while True:
            size = max(size, len(self._rest))
            data = self._memory(size)
            used = len(self._rest)
            data[:used] = self._rest
            counts = np.zeros(3, np.int64)
            start, counted = data.ctypes.data, counts.ctypes.data
            find_end = kernels().find_end
            cut = 0
            # the lengths are followed piece by piece, while the bytes are in the processor's cache
            while (
                used < size
                and counts[2] < _CHUNK_RECORDS
                and (got := self._read(data[used : min(used + _PIECE, size)]))
            ):
                used += got
                cut = find_end(start + cut, start + used, MAX_BATCH_SIZE, counted) - start
            self._rest = data[cut:used].copy()
            if cut > 0:
                batches, packed, records = counts.tolist()
                chunk = Chunk(data, cut, self.position, batches, packed, records, self.inflation)
                self.position += cut
                return chunk
            claimed = int.from_bytes(data[8:12].tobytes(), "big") + 12
            if used < size or not size < claimed <= MAX_BATCH_SIZE:
                return None
            size = claimed

    def _memory(self, size: int) -> _Array:
        while self._free:
            data = self._free.pop()
            if len(data) == size + PADDING:
                return data
        return np.empty(size + PADDING, np.uint8)

    def _read(self, target: _Array) -> int:
        if self._end is not None:
            target = target[: max(self._end - self._at, 0)]
        got: int = self._file.readinto(target.data)  # type: ignore[attr-defined]
        self._at += got
        return got


class UnpackError(Exception):
    """The compressed batches of a run are not as one stream."""


_T = TypeVar("_T")


def unpacked_or_not(chunk: Chunk, walk: Callable[[Runs], _T]) -> _T:
    """Walk a chunk with its compressed batches unpacked, or, if they cannot be, without."""
    try:
        return walk(_runs(chunk))
    except UnpackError:
        return walk(iter([(chunk.data.ctypes.data + chunk.size, None)]))


class Walk:
    """One walk of compiled code over a chunk.

    Attributes:
        state: the words that the code works with (`kernel_memory`).
    """

    def __init__(self, chunk: Chunk, kernel: Callable[[int], int], places: Places | None) -> None:
        self._chunk = chunk
        self._kernel = kernel
        start = chunk.data.ctypes.data
        self.state = state = np.zeros(memory.STATE_SIZE, np.int64)
        state[memory.POSITION] = start
        state[memory.LARGEST_BATCH] = MAX_BATCH_SIZE
        state[memory.PLACE_BASE] = chunk.position - start
        self._places = places
        if places is not None:
            self._keep(places)

    def steps(self, runs: Runs) -> Iterator[int]:
        """Yield the reasons for which the code stops, but for the ends of the runs.

        Raises:
            UnpackError: a run was not unpacked as its batches would be one by one.
        """
        state = self.state
        for end, unpacked in runs:
            state[memory.END] = end
            state[memory.UNPACKED] = 0
            if unpacked is not None:
                state[memory.UNPACKED] = unpacked.ctypes.data
                state[memory.UNPACKED_END] = unpacked.ctypes.data + len(unpacked) - PADDING
            while (reason := self._kernel(state.ctypes.data)) != memory.DONE:
                if reason == memory.BAD and unpacked is not None:
                    raise UnpackError
                yield reason
            if unpacked is not None and state[memory.UNPACKED] != state[memory.UNPACKED_END]:
                raise UnpackError

    @property
    def position(self) -> int:
        """Where the next batch, or the open one, stands in the file."""
        return int(self.state[memory.POSITION] + self.state[memory.PLACE_BASE])

    @property
    def batch(self) -> memoryview:
        """The bytes of the chunk from the next batch, or the open one, on."""
        return self._chunk.data.data[self.position - self._chunk.position : self._chunk.size]

    def read_bad_batch(self) -> RecordBatch | None:
        """Give the batch that the code cannot read, if it can be trusted, and pass over it."""
        batches = read_batches(
            self.batch,
            base_position=self.position,
            final=False,
            inflation=self._chunk.inflation,
        )
        item = next(batches, None)
        if not isinstance(item, RecordBatch):
            return None
        self.state[memory.POSITION] += item.size
        if self._places is not None:
            self._keep(self._places)
        return item

    def _keep(self, places: Places) -> None:
        """Tell the code what is wanted from the next batch on."""
        wanted = between(places, self.position, self._chunk.position + self._chunk.size)
        self.state[memory.KEEP] = wanted.ctypes.data
        self.state[memory.KEEP_END] = wanted.ctypes.data + wanted.nbytes


def _runs(chunk: Chunk) -> Runs:
    """Cut a chunk behind runs of compressed batches; give each end and the run unpacked."""
    start = chunk.data.ctypes.data
    end = start + chunk.size
    if chunk.compressed:
        starts, ends, codecs = (np.empty(chunk.compressed, np.int64) for _ in range(3))
        kernels().list_compressed(
            start, end, MAX_BATCH_SIZE, starts.ctypes.data, ends.ctypes.data, codecs.ctypes.data
        )
        size_before = np.cumsum(ends - starts)
        is_next = (np.diff(codecs) != 0) | (np.diff(size_before // _RUN_SIZE) != 0)
        bounds = [0, *(np.flatnonzero(is_next) + 1).tolist(), chunk.compressed]
        for first, last in pairwise(bounds):
            size = int((ends[first:last] - starts[first:last]).sum())
            limit = chunk.inflation.limit(size)
            unpacked = _unpack(starts[first:last], ends[first:last], int(codecs[first]), limit)
            chunk.inflation.note(size, len(unpacked))
            yield int(ends[last - 1]), unpacked
    yield end, None


def _unpack(starts: _Array, ends: _Array, codec: int, limit: int) -> _Array:
    """Decompress batches of one codec; give the records of all, one after another, padded.

    They are to become `limit` bytes at most.

    What one batch after another makes with gzip, lz4 and zstd is a stream of that codec too, and
    reading it as one is an order of magnitude faster.
    """
    sizes = ends - starts - HEADER_SIZE
    packed = np.empty(int(sizes.sum()), np.uint8)
    kernels().gather(starts.ctypes.data, ends.ctypes.data, len(starts), packed.ctypes.data)
    if codec >= len(CODECS):
        raise UnpackError
    try:
        if CODECS[codec] == "snappy":
            return _unpack_each(packed.data, sizes, CODECS[codec], limit)
        return _unpack_stream(packed, CODECS[codec], limit)
    except (CompressionError, OSError, pa.ArrowException) as error:
        raise UnpackError from error


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
                raise UnpackError
            if used == len(out):
                out = np.concatenate([out, np.empty(len(out), np.uint8)])
    if used + PADDING > len(out):
        out = np.concatenate([out, np.empty(PADDING, np.uint8)])
    return out[: used + PADDING]
