"""Reading a log: from bytes to trusted batches, to records, and the damage between them.

Every batch, of every message format, starts with the same 17 bytes:

    base offset     int64
    size            int32     number of bytes that follow
    (by format)     int32
    magic           int8      message format: 0, 1 (`message_set`) or 2 (`batch_v2`)

A size is trusted only if the checksum over that many bytes is correct. Otherwise the bytes are
damage, and reading resumes at the next position with a complete batch whose header is plausible and
whose checksum is correct:

- If a batch with a wrong checksum is followed by another plausible header, or by the end, its size
  is taken to be right: its contents are skipped, even if they look like a batch (a commit's
  metadata may hold one). The exception: batches inside lead exactly to that end, so the size was
  wrong.
- Otherwise every further position is tried. `BatchSearch` finds the candidates. Computing their
  checksums is limited to a fixed multiple of the bytes read so far, so that no crafted input takes
  quadratic time; the damage's reason contains the number of positions skipped for that reason.

Offsets may decrease from one batch to the next: a broker that recovers a log does not check them
either (`LogSegment.recover`), and several segments may come through one stream.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO

from kgroup.errors import ProblemKind
from kgroup.protocol.batch import batch_v2, message_set
from kgroup.protocol.batch.batch import (
    LOG_OVERHEAD,
    MAX_BATCH_SIZE,
    MAX_UNCOMPRESSED,
    Damage,
    Effort,
    Record,
    RecordBatch,
)
from kgroup.protocol.batch.byte_window import WHOLE, ByteRange, ByteWindow

if TYPE_CHECKING:
    from numpy import uint8
    from numpy.typing import NDArray

PREFIX_SIZE = 17
"""Bytes that batches of every format start with: offset, length, four by format, magic."""

_PIECE = 1 << 18
_MAX_HEADER_SIZE = max(*message_set.HEADER_SIZES, batch_v2.HEADER_SIZE)


class BatchSearch:
    """Finds positions in damage where the next batch may start, one piece at a time.

    The fields of a header are consistent at few positions. Conditions on fields at fixed places are
    checked for many thousand positions at a time. The reader verifies the few remaining positions,
    also in crafted input, one by one by checksum.
    """

    def __init__(self, window: ByteWindow, max_batch_size: int) -> None:
        self._window = window
        self._max_length = max_batch_size - LOG_OVERHEAD
        self._start = self._end = -1
        self._found: list[int] = []

    def candidates(self, start: int, stop: int | None) -> Iterator[int]:
        """Yield the candidate positions from `start` to `stop` or the end.

        Meanwhile it releases the bytes before the piece that it is searching.
        """
        window = self._window
        position = start
        while (stop is None or position < stop) and window.has(position, PREFIX_SIZE):
            window.release(position)
            if not self._start <= position < self._end:
                self._look_through(position)
            positions, end = self._found, self._end
            for index in range(bisect_left(positions, position), len(positions)):
                if stop is not None and positions[index] >= stop:
                    return
                yield positions[index]
            position = end

    def _look_through(self, start: int) -> None:
        count = min(self._window.end - start - PREFIX_SIZE + 1, _PIECE)
        data = self._window.view(start, count + _MAX_HEADER_SIZE)
        self._start, self._end = start, start + count
        self._found = [start + index for index in plausible_headers(data, count, self._max_length)]


def plausible_headers(data: memoryview, count: int, max_length: int) -> list[int]:
    """Return those of the first `count` positions of `data` where a header may start."""
    import numpy as np  # only damage needs it

    # zero padding makes every field that extends past the end plausible
    padded = np.zeros(count + _MAX_HEADER_SIZE, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)

    def at(offset: int) -> NDArray[uint8]:
        return padded[offset : offset + count]

    # the int32 that starts at each byte
    int32 = np.ndarray((len(padded) - 3,), ">i4", padded, 0, (1,))

    magic = at(16)
    may_be = (at(0) < 0x80) & (at(8) <= max_length >> 24)
    may_be &= (at(8) | at(9) | at(10) | at(11)) != 0  # zeros are common
    is_v2 = (magic == 2) & (at(21) == 0) & (at(22) < 0x80) & (at(23) < 0x80) & (at(57) < 0x80)
    positions = np.flatnonzero(may_be & (is_v2 | ((magic < 2) & (at(17) < 0x10))))
    length = int32[positions + 8]
    min_length = np.array([*message_set.MIN_LENGTHS, batch_v2.MIN_LENGTH])[magic[positions]]
    positions = positions[(min_length <= length) & (length <= max_length)]

    # key and value fill a message exactly; keep it if their sizes are past the end
    is_legacy = magic[positions] < 2
    legacy = positions[is_legacy]
    end = legacy + LOG_OVERHEAD + int32[legacy + 8]
    key_at = legacy + np.array(message_set.HEADER_SIZES)[magic[legacy]] - 4
    key_size = int32[key_at].astype(np.int64)
    value_at = key_at + 4 + np.maximum(key_size, 0)
    is_value_seen = value_at + 4 <= len(data)
    value_size = int32[np.where(is_value_seen, value_at, 0)]
    is_filled = (value_size >= -1) & (value_at + 4 + np.maximum(value_size, 0) == end)
    fits = (key_size >= -1) & np.where(is_value_seen, is_filled, value_at + 4 <= end)
    is_legacy[is_legacy] = ~fits & (key_at + 4 <= len(data))
    result: list[int] = positions[~is_legacy].tolist()
    return result


_PREFIX = struct.Struct(">qiIB")
_ZERO_PREFIX = bytes(PREFIX_SIZE)
_MIN_LENGTHS = (*message_set.MIN_LENGTHS, batch_v2.MIN_LENGTH)
_HEADER_SIZES = (*message_set.HEADER_SIZES, batch_v2.HEADER_SIZE)
_MAX_OFFSET = (1 << 63) - 1
_CRC_WORK_PER_BYTE = 8
_CHUNK_SIZE = 4 << 20


def read_batches(
    buffer: memoryview | bytes,
    *,
    base_position: int = 0,
    final: bool = True,
    max_batch_size: int = MAX_BATCH_SIZE,
    effort: Effort | None = None,
) -> Iterator[RecordBatch | Damage]:
    """Yield the batches in a buffer and the damage between them, in order and without gaps.

    Args:
        buffer: whole batches, one after another.
        base_position: position of the buffer's first byte in its file, for reports.
        final: whether the buffer ends where its source ends. If not, as in a fetch response, a
            batch that is truncated at the end is left out and is not damage.
        max_batch_size: a batch that claims to be larger is damage.
        effort: work spent on the log that the buffer is part of; by default a new one.
    """
    window = ByteWindow(memoryview(buffer).cast("B"), base_position)
    return _Reader(window, final, max_batch_size, effort).read()


def read_file_batches(
    file: BinaryIO,
    *,
    part: ByteRange = WHOLE,
    chunk_size: int = _CHUNK_SIZE,
    max_batch_size: int = MAX_BATCH_SIZE,
    effort: Effort | None = None,
) -> Iterator[RecordBatch | Damage]:
    """Yield the batches of part of a file as `read_batches` does, with bounded memory.

    It holds at most about twice `max_batch_size` in memory, and two chunks of an undamaged file.

    Args:
        file: file positioned at the start of the part.
        part: range of the file to read.
        chunk_size: bytes to read at a time.
        max_batch_size: see `read_batches`.
        effort: see `read_batches`.

    Raises:
        OSError: the file cannot be read.
    """
    window = ByteWindow(memoryview(b""), part.start, file, chunk_size)
    reader = _Reader(window, True, max_batch_size, effort)
    return takewhile(lambda item: part.has(item.position), reader.read())


def read_records(
    batch: RecordBatch, *, max_uncompressed: int = MAX_UNCOMPRESSED
) -> Iterator[Record | Damage]:
    """Yield the records of a batch in order, and the damage in it.

    Args:
        batch: batch from `read_batches`.
        max_uncompressed: a batch that decompresses to more bytes is damage of kind "too-large".
    """
    if batch.magic == 2:
        return batch_v2.read_batch_records(batch, max_uncompressed)
    return message_set.read_messages(batch, max_uncompressed)


@dataclass(frozen=True, slots=True)
class _Flaw:
    """Why no batch can be trusted at a position.

    `end` is where the batch claims to end, if it is complete; `is_cut` whether more bytes may
    complete it.
    """

    kind: ProblemKind
    reason: str
    end: int | None = None
    is_cut: bool = False


class _Reader:
    """Reads a source once; only `read` is called from outside."""

    def __init__(
        self, window: ByteWindow, final: bool, max_batch_size: int, effort: Effort | None
    ) -> None:
        self._window = window
        self._start = window.base
        self._final = final
        self._max_batch_size = max_batch_size
        self._search = BatchSearch(window, max_batch_size)
        self._unchecked = 0
        self._effort = effort or Effort(window.base)

    def read(self) -> Iterator[RecordBatch | Damage]:
        window = self._window
        position = self._start
        damage: Damage | None = None
        while window.has(position, 1):
            window.release(position)
            flaw = self._batch_at(position)
            if isinstance(flaw, RecordBatch):
                if damage is not None:
                    yield damage
                    damage = None
                yield flaw
                position += flaw.size
                continue
            if flaw.is_cut and not self._final:
                break
            more = self._skip(position, flaw)
            position += more.size
            if damage is not None:
                more = replace(damage, size=damage.size + more.size, is_unwritten=False)
            damage = more
        if damage is not None:
            yield damage

    def _batch_at(self, position: int) -> RecordBatch | _Flaw:
        """Return the batch at `position` if its checksum is correct."""
        window = self._window
        if not window.has(position, PREFIX_SIZE):
            left = window.end - position
            if not any(window.view(position, left)):
                return _Flaw(ProblemKind.ZEROS, "", is_cut=True)
            return _Flaw(
                ProblemKind.TORN_TAIL,
                f"Expected a batch header, found only {left} bytes.",
                is_cut=True,
            )
        offset, length, _, magic = _PREFIX.unpack_from(window.data, position - window.base)
        size = LOG_OVERHEAD + length
        if magic >= len(_MIN_LENGTHS):
            if _MIN_LENGTHS[0] <= length and size <= self._max_batch_size:
                return _Flaw(
                    ProblemKind.BAD_MAGIC, f"Expected message format 0, 1 or 2, found {magic}."
                )
            return _Flaw(ProblemKind.GARBAGE, "Expected a batch header, found other bytes.")
        if length < _MIN_LENGTHS[magic]:
            if window.view(position, PREFIX_SIZE) == _ZERO_PREFIX:
                return _Flaw(ProblemKind.ZEROS, "")
            return _Flaw(
                ProblemKind.BAD_LENGTH,
                f"Expected a length of at least {_MIN_LENGTHS[magic]} in a batch v{magic},"
                f" found {length}.",
            )
        if size > self._max_batch_size:
            return _Flaw(
                ProblemKind.BAD_LENGTH,
                f"Expected a batch of at most {self._max_batch_size} bytes,"
                f" found a length of {length}.",
            )
        if not window.has(position, size):
            return _Flaw(
                ProblemKind.TORN_TAIL,
                f"Expected a batch of {size} bytes, found {window.end - position} to the end.",
                is_cut=True,
            )
        if not self._may_sum(position, size):
            return _Flaw(
                ProblemKind.GARBAGE, "Expected a batch, found too many that may be one to check."
            )
        if not self._has_right_crc(position, size, magic):
            return _Flaw(
                ProblemKind.BAD_CRC,
                f"Expected a batch of {size} bytes to have their checksum, found another.",
                end=position + size,
            )
        data = window.view(position, size)
        if magic < 2:
            batch = message_set.decode_message(data, position, self._effort)
        else:
            batch = batch_v2.decode_batch(data, position, self._effort)
        if offset < 0 or batch.last_offset > _MAX_OFFSET:
            return _Flaw(
                ProblemKind.BAD_OFFSET, f"Expected an offset, found {offset}.", end=position + size
            )
        return batch

    def _may_sum(self, position: int, size: int) -> bool:
        """Return whether the limit on work for wrong checksums allows another one."""
        behind = position - self._effort.start
        allowed = 4 * self._max_batch_size + _CRC_WORK_PER_BYTE * behind
        return self._effort.summed + size <= allowed

    def _has_right_crc(self, position: int, size: int, magic: int) -> bool:
        data = self._window.view(position, size)
        is_right: bool = (message_set if magic < 2 else batch_v2).has_right_crc(data)
        if not is_right:
            self._effort.summed += size
        return is_right

    def _skip(self, position: int, flaw: _Flaw) -> Damage:
        """Return the damage from `position` to where reading can resume, of at least one byte."""
        if flaw.kind is ProblemKind.ZEROS:
            return self._skip_zeros(position)
        unchecked = self._unchecked
        if flaw.end is not None and self._may_follow(flaw.end):
            end = self._batches_leading_to(position + 1, flaw.end)
        else:
            end = self._next_trusted(position + 1, None)
        kind, reason = flaw.kind, flaw.reason
        if end < self._window.end and (flaw.is_cut or (flaw.end is not None and end < flaw.end)):
            kind = ProblemKind.BAD_LENGTH
            reason = f"{reason} The next batch begins before it ends."
        if self._unchecked > unchecked:
            reason = (
                f"{reason} {self._unchecked - unchecked} positions that look like a batch were"
                " passed over: there were too many to check."
            )
        return Damage(position, end - position, kind, reason)

    def _skip_zeros(self, position: int) -> Damage:
        window = self._window
        # the next batch's header may itself start with zeros
        end = window.skip_zeros(position, PREFIX_SIZE)
        zeros = f"Expected a batch, found {end - position} zero bytes"
        if not window.has(end, 1):
            reason = f"{zeros} to the end: space that was allocated and never written."
            return Damage(position, end - position, ProblemKind.ZEROS, reason, is_unwritten=True)
        next_batch = self._next_trusted(max(position + 1, end - PREFIX_SIZE), None)
        if next_batch <= end:
            reason = f"Expected a batch, found {next_batch - position} zero bytes."
            return Damage(position, next_batch - position, ProblemKind.ZEROS, reason)
        kind, reason = ProblemKind.GARBAGE, f"{zeros}, then others."
        return Damage(position, next_batch - position, kind, reason)

    def _may_follow(self, position: int) -> bool:
        """Return whether the source ends at `position` or has a plausible batch header there."""
        return not self._window.has(position, 1) or self._plausible_size(position) is not None

    def _plausible_size(self, position: int) -> int | None:
        """Return the size of the batch at `position`, None if its fields are inconsistent."""
        window = self._window
        if not window.has(position, PREFIX_SIZE):
            return None
        _, length, _, magic = _PREFIX.unpack_from(window.data, position - window.base)
        size: int = LOG_OVERHEAD + length
        if (
            magic >= len(_MIN_LENGTHS)
            or length < _MIN_LENGTHS[magic]
            or size > self._max_batch_size
            or not window.has(position, _HEADER_SIZES[magic])
        ):
            return None
        header = window.view(position, _HEADER_SIZES[magic])
        if magic == 2:
            return size if batch_v2.is_plausible_header(header) else None
        value_at = message_set.value_position(header)
        if value_at is None or not window.has(position, value_at + 4):
            return None
        value_size = int.from_bytes(window.view(position + value_at, 4), "big", signed=True)
        is_filled = value_size >= -1 and value_at + 4 + max(value_size, 0) == size
        return size if is_filled else None

    def _batches_leading_to(self, start: int, end: int) -> int:
        """Return the start of a chain of trusted batches that ends exactly at `end`, or `end`."""
        position = start
        while (first := self._next_trusted(position, end)) < end:
            last = position = first
            while position < end and isinstance(batch := self._batch_at(position), RecordBatch):
                last = position
                position += batch.size
            if position == end:
                return first
            # no batch of this chain leads to the end either: continue after it
            position = (position if position < end else last) + 1
        return end

    def _next_trusted(self, start: int, stop: int | None) -> int:
        """Return the first position from `start`, and before `stop`, with a trusted batch.

        If there is none, return `stop` or the end of the source; if the source continues later, the
        first position where a truncated batch may start.
        """
        window = self._window
        for position in self._search.candidates(start, stop):
            size = self._plausible_size(position)
            if size is None:
                continue
            if not window.has(position, size):
                if not self._final:
                    return position
            elif not self._may_sum(position, size):
                self._unchecked += 1
            elif self._has_right_crc(position, size, window.view(position + 16, 1)[0]):
                return position
        if stop is not None:
            return stop
        return window.end if self._final else max(start, window.end - max(_HEADER_SIZES))
