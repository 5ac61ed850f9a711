"""Chunks of a log, from the file to columns, each by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from kgroup.protocol import kernel_memory as memory
from kgroup.protocol.batch import CODECS, MAX_BATCH_SIZE, MAX_UNCOMPRESSED
from kgroup.protocol.batch_v2 import HEADER_SIZE
from kgroup.protocol.column_buffer import ColumnBuffer
from kgroup.protocol.compiled import kernels
from kgroup.protocol.compression import CompressionError, decompress
from kgroup.protocol.kernel_memory import CONTROL, PADDING
from kgroup.protocol.record_batch import Damage, RecordBatch, read_batches
from kgroup.protocol.schema_program import machine_block
from kgroup.protocol.transaction import TransactionIndex

__all__ = ["Chunk", "Cutter", "decode_chunk"]

_Array = np.ndarray[Any, Any]

_CHUNK_SIZE = 16 << 20
_SMALLEST_CHUNK = 1 << 18
_PIECE = 1 << 19
_RUN_SIZE = 4 << 20
_MOST_ROWS = 1 << 19


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
    """

    data: _Array
    size: int
    position: int
    batches: int
    compressed: int
    records: int


class Cutter:
    """Reads a file and cuts it into chunks.

    Attributes:
        position: where the next chunk begins. Where there is no next one, nothing that may be a
            whole batch begins there.
    """

    def __init__(self, file: BinaryIO, size: int = _CHUNK_SIZE) -> None:
        self._file = file
        self._largest = size
        self._size = size
        self.position = 0
        self._rest = np.empty(0, np.uint8)
        self._free: list[_Array] = []

    def recycle(self, chunk: Chunk) -> None:
        """Take back the memory of a chunk that is not needed any more."""
        self._free.append(chunk.data)

    def seek(self, position: int) -> None:
        """Go on at a position, at first in small steps: where damage is, more is likely."""
        self._file.seek(position)
        self._size = min(_SMALLEST_CHUNK, self._largest)
        self.position = position
        self._rest = np.empty(0, np.uint8)

    def next(self) -> Chunk | None:
        """Give the next chunk."""
        size = self._size
        self._size = min(2 * size, self._largest)
        while True:
            size = max(size, len(self._rest))
            data = self._memory(size)
            used = len(self._rest)
            data[:used] = self._rest
            counts = np.zeros(3, np.int64)
            cut = 0
            # the lengths are followed piece by piece, while the bytes are in the processor's cache
            while used < size and (got := self._read(data[used : min(used + _PIECE, size)])):
                used += got
                cut = self._find_end(data, cut, used, counts)
            cut = self._find_end(data, cut, used, counts)
            self._rest = data[cut:used].copy()
            if cut > 0:
                chunk = Chunk(data, cut, self.position, *counts.tolist())
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
        got: int = self._file.readinto(target.data)  # type: ignore[attr-defined]
        return got

    def _find_end(self, data: _Array, start: int, end: int, counts: _Array) -> int:
        at = data.ctypes.data
        found: int = kernels().find_end(at + start, at + end, MAX_BATCH_SIZE, counts.ctypes.data)
        return found - at


def decode_chunk(
    chunk: Chunk, partition: int | None, transactions: Callable[[], TransactionIndex]
) -> tuple[list[pa.RecordBatch | Damage], int | None]:
    """Decode a chunk; give its rows, damage inside batches, and where damage between them begins.

    The position is None where the chunk was decoded to its end.
    """
    try:
        return _Decoder(chunk, partition, transactions).decode(_runs(chunk))
    except _UnpackError:
        end = chunk.data.ctypes.data + chunk.size
        return _Decoder(chunk, partition, transactions).decode(iter([(end, None)]))


class _UnpackError(Exception):
    """The compressed batches of a run are not as one stream."""


class _Decoder:
    """Decodes one chunk; `decode` is its only use."""

    def __init__(
        self, chunk: Chunk, partition: int | None, transactions: Callable[[], TransactionIndex]
    ) -> None:
        self._chunk = chunk
        self._start = chunk.data.ctypes.data
        self._partition = partition
        self._transactions = transactions
        self._block = machine_block()
        self._state = np.zeros(memory.STATE_SIZE, np.int64)
        self._state[memory.MACHINE] = self._block.ctypes.data
        self._state[memory.POSITION] = self._start
        self._state[memory.LARGEST_BATCH] = MAX_BATCH_SIZE
        self._buffer = self._new_buffer()
        self._parts: list[pa.RecordBatch | Damage] = []

    def decode(
        self, runs: Iterator[tuple[int, _Array | None]]
    ) -> tuple[list[pa.RecordBatch | Damage], int | None]:
        stop = None
        for end, unpacked in runs:
            stop = self._decode_run(end, unpacked)
            if stop is not None:
                break
        self._flush()
        return self._parts, stop

    def _decode_run(self, end: int, unpacked: _Array | None) -> int | None:
        """Decode up to an address; the compressed batches before it are unpacked in order."""
        state = self._state
        state[memory.END] = end
        state[memory.UNPACKED] = 0
        if unpacked is not None:
            state[memory.UNPACKED] = unpacked.ctypes.data
            state[memory.UNPACKED_END] = unpacked.ctypes.data + len(unpacked) - PADDING
        while True:
            reason = kernels().decode(state.ctypes.data)
            if reason == memory.DONE:
                break
            if reason == memory.FULL:
                if self._buffer.is_empty:
                    self._buffer.enlarge()
                else:
                    self._flush()
            elif reason == memory.GROW:
                self._buffer.grow(int(state[memory.GROWING]))
            elif reason == memory.ODD:
                self._add_odd_record()
            elif unpacked is not None:
                raise _UnpackError
            else:
                position = int(state[memory.POSITION]) - self._start
                if not self._add_odd_batch(position):
                    return self._chunk.position + position
        if unpacked is not None and state[memory.UNPACKED] != state[memory.UNPACKED_END]:
            raise _UnpackError
        return None

    def _flush(self) -> None:
        if not self._buffer.is_empty:
            self._parts.append(self._buffer.finish(self._transactions))
            self._buffer = self._new_buffer()

    def _new_buffer(self) -> ColumnBuffer:
        rows = min(max(self._chunk.records, 1), _MOST_ROWS)
        return ColumnBuffer(self._partition, self._state, rows, self._chunk.batches)

    def _add_odd_record(self) -> None:
        state = self._state
        parts: list[bytes | None] = []
        for at in (memory.ODD_KEY, memory.ODD_VALUE):
            address, size = int(state[at]), int(state[at + 1])
            parts.append(ctypes.string_at(address, size) if address else None)
        batch = int(state[memory.POSITION]) - self._start
        data = self._chunk.data
        is_control = bool(data[batch + 16] == 2 and data[batch + 22] & CONTROL)
        self._buffer.add(*parts, is_control=is_control)

    def _add_odd_batch(self, position: int) -> bool:
        """Take the batch at a position with the reference reader, if it can be trusted."""
        chunk = self._chunk
        view = chunk.data.data[position : chunk.size]
        base = chunk.position + position
        item = next(read_batches(view, base_position=base, final=False), None)
        if not isinstance(item, RecordBatch):
            return False
        damages = self._buffer.add_batch(item)
        if damages:
            self._flush()
            self._parts += damages
        self._state[memory.POSITION] += item.size
        return True


def _runs(chunk: Chunk) -> Iterator[tuple[int, _Array | None]]:
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
            unpacked = _unpack(starts[first:last], ends[first:last], int(codecs[first]))
            yield int(ends[last - 1]), unpacked
    yield end, None


def _unpack(starts: _Array, ends: _Array, codec: int) -> _Array:
    """Decompress batches of one codec; give the records of all, one after another, padded.

    What one batch after another makes with gzip, lz4 and zstd is a stream of that codec too, and
    reading it as one is an order of magnitude faster.
    """
    sizes = ends - starts - HEADER_SIZE
    packed = np.empty(int(sizes.sum()), np.uint8)
    kernels().gather(starts.ctypes.data, ends.ctypes.data, len(starts), packed.ctypes.data)
    if codec >= len(CODECS):
        raise _UnpackError
    try:
        if CODECS[codec] == "snappy":
            return _unpack_each(packed.data, sizes, CODECS[codec])
        return _unpack_stream(packed, CODECS[codec])
    except (CompressionError, OSError) as error:
        raise _UnpackError from error


def _unpack_each(packed: memoryview, sizes: _Array, codec: str) -> _Array:
    parts = []
    at = used = 0
    for size in sizes.tolist():
        part = decompress(codec, packed[at : at + size], limit=MAX_UNCOMPRESSED - used)
        parts.append(part)
        used += len(part)
        at += size
    return np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8)


def _unpack_stream(packed: _Array, codec: str) -> _Array:
    out = np.empty(4 * len(packed) + PADDING, np.uint8)
    used = 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), codec) as stream:
        while got := stream.readinto(out.data[used:]):
            used += got
            if used > MAX_UNCOMPRESSED:
                raise _UnpackError
            if used == len(out):
                out = np.concatenate([out, np.empty(len(out), np.uint8)])
    if used + PADDING > len(out):
        out = np.concatenate([out, np.empty(PADDING, np.uint8)])
    return out[: used + PADDING]
