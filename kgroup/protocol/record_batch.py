"""Reading a log: from bytes to batches that can be trusted, to records, and the damage between.

Every batch, of every message format, begins with the same 17 bytes:

    base offset     int64
    size            int32     bytes from here on
    (by format)     int32
    magic           int8      message format: 0, 1 (`message_set`) or 2 (`batch_v2`)

A size is a claim until the checksum over as many bytes is right. Where it is not, the bytes are
damage, and reading goes on at the next position where a whole batch stands whose header is
plausible and whose checksum is right:

- A batch with a wrong checksum that is followed by another plausible header, or by the end, has
  a right size: what stands inside is passed over, even if it looks like a batch (a commit's
  metadata may hold one), unless batches inside lead exactly to that end: then the size lied.
- Otherwise every further position is tried. `_candidates` finds those worth a look; their
  checksums may take a fixed multiple of the bytes read so far, so that no input, however made,
  takes quadratic time; positions passed over for that are counted in the damage's reason.

Offsets may go backwards between batches: a broker that recovers a log does not look either
(`LogSegment.recover`), and several segments may come through one stream.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from kgroup.protocol import batch_v2, message_set
from kgroup.protocol.batch import (
    LOG_OVERHEAD,
    MAX_BATCH_SIZE,
    MAX_UNCOMPRESSED,
    Damage,
    DamageKind,
    Record,
    RecordBatch,
)

__all__ = [
    "MAX_BATCH_SIZE",
    "MAX_UNCOMPRESSED",
    "Damage",
    "DamageKind",
    "Record",
    "RecordBatch",
    "read_batches",
    "read_file_batches",
    "read_records",
]

_PREFIX = struct.Struct(">qiIB")
_PREFIX_SIZE = _PREFIX.size
_ZERO_PREFIX = bytes(_PREFIX_SIZE)
_MIN_LENGTHS = (*message_set.MIN_LENGTHS, batch_v2.MIN_LENGTH)
_HEADER_SIZES = (*message_set.HEADER_SIZES, batch_v2.HEADER_SIZE)
_MAX_HEADER_SIZE = max(_HEADER_SIZES)
_NOT_ZERO = re.compile(rb"[^\0]")
_MAX_OFFSET = (1 << 63) - 1
_PIECE = 1 << 20
_CRC_WORK_PER_BYTE = 8
_CHUNK_SIZE = 4 << 20


def read_batches(
    buffer: memoryview | bytes,
    *,
    base_position: int = 0,
    final: bool = True,
    max_batch_size: int = MAX_BATCH_SIZE,
) -> Iterator[RecordBatch | Damage]:
    """Yield the batches in a buffer and the damage between them, in order, every byte once.

    Args:
        buffer: whole batches, one after another.
        base_position: position of the buffer's first byte in its file, for reports.
        final: whether the buffer ends where its source ends. Otherwise, as in a fetch response,
            a batch that is cut off at the end is left out and no damage.
        max_batch_size: a batch that claims to be larger is damage.
    """
    window = _Window(memoryview(buffer).cast("B"), base_position, None, 0)
    return _Reader(window, final, max_batch_size).read()


def read_file_batches(
    file: BinaryIO,
    *,
    base_position: int = 0,
    chunk_size: int = _CHUNK_SIZE,
    max_batch_size: int = MAX_BATCH_SIZE,
) -> Iterator[RecordBatch | Damage]:
    """Like `read_batches`, from where the file stands to its end, with bounded memory.

    At most about twice `max_batch_size` is held, and of a sound file two chunks.

    Raises:
        OSError: the file cannot be read.
    """
    window = _Window(memoryview(b""), base_position, file, chunk_size)
    return _Reader(window, True, max_batch_size).read()


def read_records(
    batch: RecordBatch, *, max_uncompressed: int = MAX_UNCOMPRESSED
) -> Iterator[Record | Damage]:
    """Yield the records of a batch in order, and what of it could not be read.

    Args:
        batch: from `read_batches`.
        max_uncompressed: a batch that decompresses to more bytes is damage of kind "too-large".
    """
    if batch.magic == 2:
        return batch_v2.read_batch_records(batch, max_uncompressed)
    return message_set.read_messages(batch, max_uncompressed)


class _Window:
    """The part of a source that is in memory: all of a buffer, or what was read of a file.

    Positions are absolute. `data` is replaced, never changed, so views of it stay right.
    """

    __slots__ = ("_chunk_size", "_file", "_kept", "base", "data", "end")

    def __init__(self, data: memoryview, base: int, file: BinaryIO | None, chunk_size: int) -> None:
        self.data = data
        self.base = self._kept = base
        self.end = base + len(data)
        self._file = file
        self._chunk_size = chunk_size

    def has(self, position: int, size: int) -> bool:
        """Whether the source has `size` bytes at `position`; reads on for them if need be."""
        if position + size <= self.end:
            return True
        if self._file is not None:
            self._read_on(position + size - self.end)
        return position + size <= self.end

    def _read_on(self, missing: int) -> None:
        kept = self.data[self._kept - self.base :]
        # as much as is kept at least, so that each byte is copied a few times at most
        wanted = max(missing, self._chunk_size, len(kept))
        parts: list[bytes | memoryview] = [kept]
        got = 0
        while got < missing and self._file is not None:
            part = self._file.read(wanted - got)
            if part:
                parts.append(part)
                got += len(part)
            else:
                self._file = None
        self.data = memoryview(b"".join(parts))
        self.base = self._kept
        self.end = self.base + len(self.data)

    def release(self, position: int) -> None:
        """Promise that nothing before `position` will be asked for."""
        self._kept = position

    def view(self, position: int, size: int) -> memoryview:
        """`size` bytes at `position`, or fewer at the end of what is in memory."""
        return self.data[position - self.base : position - self.base + size]


@dataclass(frozen=True, slots=True)
class _Flaw:
    """Why no batch can be trusted at a position.

    `end` is where the batch claims to end, if it is all there; `is_cut` whether more bytes may
    make it whole.
    """

    kind: DamageKind
    reason: str
    end: int | None = None
    is_cut: bool = False


_IMPLAUSIBLE = _Flaw("garbage", "Expected a batch, found a header that none has.")


class _Reader:
    """Walks a source once; `read` is its only use."""

    def __init__(self, window: _Window, final: bool, max_batch_size: int) -> None:
        self._window = window
        self._start = window.base
        self._final = final
        self._max_batch_size = max_batch_size
        self._crc_work = 0
        self._unchecked = 0

    def read(self) -> Iterator[RecordBatch | Damage]:
        window = self._window
        position = self._start
        damage: Damage | None = None
        while window.has(position, 1):
            window.release(position)
            found = self._batch_at(position)
            if isinstance(found, RecordBatch):
                if damage is not None:
                    yield damage
                    damage = None
                yield found
                position += found.size
                continue
            if found.is_cut and not self._final:
                break
            more = self._skip(position, found)
            position += more.size
            if damage is not None:
                more = Damage(damage.position, damage.size + more.size, damage.kind, damage.reason)
            damage = more
        if damage is not None:
            yield damage

    def _batch_at(self, position: int, *, is_guess: bool = False) -> RecordBatch | _Flaw:
        """Read the batch at `position` if its checksum is right; a guess must be plausible too."""
        window = self._window
        if not window.has(position, _PREFIX_SIZE):
            left = window.end - position
            if not any(window.view(position, left)):
                return _Flaw("zeros", "", is_cut=True)
            return _Flaw(
                "torn-tail", f"Expected a batch header, found only {left} bytes.", is_cut=True
            )
        offset, length, _, magic = _PREFIX.unpack_from(window.data, position - window.base)
        size = LOG_OVERHEAD + length
        if magic >= len(_MIN_LENGTHS):
            if _MIN_LENGTHS[0] <= length <= self._max_batch_size:
                return _Flaw("bad-magic", f"Expected message format 0, 1 or 2, found {magic}.")
            return _Flaw("garbage", "Expected a batch header, found other bytes.")
        if length < _MIN_LENGTHS[magic]:
            if window.view(position, _PREFIX_SIZE) == _ZERO_PREFIX:
                return _Flaw("zeros", "")
            return _Flaw(
                "bad-length",
                f"Expected a length of at least {_MIN_LENGTHS[magic]} in a batch v{magic},"
                f" found {length}.",
            )
        if size > self._max_batch_size:
            return _Flaw(
                "bad-length",
                f"Expected a batch of at most {self._max_batch_size} bytes,"
                f" found a length of {length}.",
            )
        if is_guess and not self._is_plausible_header(position, magic):
            return _IMPLAUSIBLE
        if not window.has(position, size):
            return _Flaw(
                "torn-tail",
                f"Expected a batch of {size} bytes, found {window.end - position} to the end.",
                is_cut=True,
            )
        data = window.view(position, size)
        if is_guess and magic < 2 and not message_set.fits_exactly(data):
            return _IMPLAUSIBLE
        allowed = 4 * self._max_batch_size + _CRC_WORK_PER_BYTE * (position - self._start)
        if self._crc_work + size > allowed:
            self._unchecked += 1
            return _Flaw("garbage", "Expected a batch, found too many that may be one to check.")
        if not (message_set if magic < 2 else batch_v2).has_right_crc(data):
            self._crc_work += size
            return _Flaw(
                "bad-crc",
                f"Expected a batch of {size} bytes to have their checksum, found another.",
                end=position + size,
            )
        if magic < 2:
            batch = message_set.decode_message(data, position)
        else:
            batch = batch_v2.decode_batch(data, position)
        if offset < 0 or batch.last_offset > _MAX_OFFSET:
            return _Flaw("bad-offset", f"Expected an offset, found {offset}.", end=position + size)
        return batch

    def _is_plausible_header(self, position: int, magic: int) -> bool:
        size = _HEADER_SIZES[magic]
        if not self._window.has(position, size):
            return False
        header = self._window.view(position, size)
        if magic < 2:
            return message_set.is_plausible_header(header)
        return batch_v2.is_plausible_header(header)

    def _skip(self, position: int, flaw: _Flaw) -> Damage:
        """Find the damage from `position` to where reading can go on; at least one byte."""
        if flaw.kind == "zeros":
            return self._skip_zeros(position)
        unchecked = self._unchecked
        if flaw.end is not None and self._may_follow(flaw.end):
            end = self._batches_leading_to(position + 1, flaw.end)
        else:
            end = self._next_trusted(position + 1, None)
        kind, reason = flaw.kind, flaw.reason
        if end < self._window.end and (flaw.is_cut or (flaw.end is not None and end < flaw.end)):
            kind = "bad-length"
            reason = f"{reason} The next batch begins before it ends."
        if self._unchecked > unchecked:
            reason = (
                f"{reason} {self._unchecked - unchecked} positions that look like a batch were"
                " passed over: there were too many to check."
            )
        return Damage(position, end - position, kind, reason)

    def _skip_zeros(self, position: int) -> Damage:
        window = self._window
        end = position
        while window.has(end, 1):
            # the next batch's header may begin with zeros itself
            window.release(max(position, end - _PREFIX_SIZE))
            found = _NOT_ZERO.search(window.view(end, window.end - end))
            if found:
                end += found.start()
                break
            end = window.end
        else:
            return Damage(
                position,
                end - position,
                "zeros",
                f"Expected a batch, found {end - position} zero bytes to the end:"
                " space that was allocated and never written.",
            )
        next_batch = self._next_trusted(max(position + 1, end - _PREFIX_SIZE), None)
        if next_batch <= end:
            reason = f"Expected a batch, found {next_batch - position} zero bytes."
            return Damage(position, next_batch - position, "zeros", reason)
        reason = f"Expected a batch, found {end - position} zero bytes, then others."
        return Damage(position, next_batch - position, "garbage", reason)

    def _may_follow(self, position: int) -> bool:
        """Whether the source ends at `position` or goes on with what looks like a batch."""
        window = self._window
        if not window.has(position, 1):
            return True
        if not window.has(position, _PREFIX_SIZE):
            return False
        _, length, _, magic = _PREFIX.unpack_from(window.data, position - window.base)
        return (
            magic < len(_MIN_LENGTHS)
            and _MIN_LENGTHS[magic] <= length <= self._max_batch_size - LOG_OVERHEAD
            and self._is_plausible_header(position, magic)
        )

    def _batches_leading_to(self, start: int, end: int) -> int:
        """Where a chain of trusted batches begins that ends exactly at `end`, else `end`."""
        position = start
        while (first := self._next_trusted(position, end)) < end:
            last = position = first
            while position < end and isinstance(found := self._batch_at(position), RecordBatch):
                last = position
                position += found.size
            if position == end:
                return first
            # the members of this chain share its fate: go on behind them
            position = max(position if position < end else last, first) + 1
        return end

    def _next_trusted(self, start: int, stop: int | None) -> int:
        """Find the first position from `start` on, and before `stop`, where a trusted batch stands.

        Else `stop`, or the end of the source; where the source goes on later, the first position
        at which a batch may stand that is cut off.
        """
        window = self._window
        position = start
        while (stop is None or position < stop) and window.has(position, _PREFIX_SIZE):
            window.release(position)
            count = min(window.end - position - _PREFIX_SIZE + 1, _PIECE)
            if stop is not None:
                count = min(count, stop - position)
            for candidate in _candidates(window.view(position, count + _MAX_HEADER_SIZE), count):
                found = self._batch_at(position + candidate, is_guess=True)
                if isinstance(found, RecordBatch) or (found.is_cut and not self._final):
                    return position + candidate
            position += count
        if stop is not None:
            return stop
        return window.end if self._final else max(start, window.end - _MAX_HEADER_SIZE)


def _candidates(data: memoryview, count: int) -> list[int]:
    """Those of the first `count` positions where a batch's header may stand.

    All that can be said about single bytes of it, for a megabyte at a time; what is left is rare
    even in bytes made for it, and is looked at one by one.
    """
    import numpy as np  # only damage needs it

    padded = np.zeros(count + _MAX_HEADER_SIZE, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)

    def at(index: int) -> "np.typing.NDArray[np.uint8]":
        return padded[index : index + count]

    def int32_at(index: "np.typing.NDArray[np.intp]") -> "np.typing.NDArray[np.int64]":
        number = padded[index].astype(np.int64)
        for byte in (1, 2, 3):
            number = number << 8 | padded[index + byte]
        return number

    magic = at(16)
    may_be = (at(0) < 0x80) & (at(8) < 0x80)
    may_be &= (at(8) | at(9) | at(10) | at(11)) != 0  # zeros are common
    is_v2 = (magic == 2) & (at(21) == 0) & (at(22) < 0x80) & (at(23) < 0x80) & (at(57) < 0x80)
    found = np.flatnonzero(may_be & (is_v2 | ((magic < 2) & (at(17) < 0x10))))
    magic = magic[found]
    length = int32_at(found + 8)
    key_size = int32_at(found + np.where(magic == 1, 26, 18))
    is_fit = (magic == 2) | (key_size == 0xFFFF_FFFF) | (key_size < length)
    return [int(position) for position in found[is_fit]]
