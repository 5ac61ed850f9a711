"""Where in bytes that are no batch the next one may begin.

A header's fields fit each other in few places. What can be said about fields at fixed places is
said about many thousand at a time; what is left is rare, also in bytes that were made for it, and
is looked at one by one by the reader, which has checksums to decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgroup.protocol.batch import batch_v2, message_set
from kgroup.protocol.batch.batch import LOG_OVERHEAD
from kgroup.protocol.batch.byte_window import ByteWindow

if TYPE_CHECKING:
    from numpy import uint8
    from numpy.typing import NDArray

PREFIX_SIZE = 17
"""Bytes that batches of every format begin with: offset, length, four by format, magic."""

_PIECE = 1 << 18
_MAX_HEADER_SIZE = max(*message_set.HEADER_SIZES, batch_v2.HEADER_SIZE)


class BatchSearch:
    """Finds candidates, a piece at a time; a piece is looked through once."""

    def __init__(self, window: ByteWindow, max_batch_size: int) -> None:
        self._window = window
        self._max_length = max_batch_size - LOG_OVERHEAD
        self._start = self._end = -1
        self._found: list[int] = []

    def candidates(self, start: int, stop: int | None) -> Iterator[int]:
        """Yield the positions from `start` on, before `stop` or the end, that are worth a look.

        While it runs it releases what lies before the piece that it has come to.
        """
        window = self._window
        position = start
        while (stop is None or position < stop) and window.has(position, PREFIX_SIZE):
            window.release(position)
            if not self._start <= position < self._end:
                self._look_through(position)
            found, end = self._found, self._end
            for index in range(bisect_left(found, position), len(found)):
                if stop is not None and found[index] >= stop:
                    return
                yield found[index]
            position = end

    def _look_through(self, start: int) -> None:
        count = min(self._window.end - start - PREFIX_SIZE + 1, _PIECE)
        data = self._window.view(start, count + _MAX_HEADER_SIZE)
        self._start, self._end = start, start + count
        self._found = [start + index for index in plausible_headers(data, count, self._max_length)]


def plausible_headers(data: memoryview, count: int, max_length: int) -> list[int]:
    """Those of the first `count` positions of `data` where a header may stand."""
    import numpy as np  # only damage needs it

    # zeros behind the end make every field plausible that reaches over it
    padded = np.zeros(count + _MAX_HEADER_SIZE, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)

    def at(offset: int) -> NDArray[uint8]:
        return padded[offset : offset + count]

    # the number that begins at each byte
    int32 = np.ndarray((len(padded) - 3,), ">i4", padded, 0, (1,))

    magic = at(16)
    may_be = (at(0) < 0x80) & (at(8) <= max_length >> 24)
    may_be &= (at(8) | at(9) | at(10) | at(11)) != 0  # zeros are common
    is_v2 = (magic == 2) & (at(21) == 0) & (at(22) < 0x80) & (at(23) < 0x80) & (at(57) < 0x80)
    found = np.flatnonzero(may_be & (is_v2 | ((magic < 2) & (at(17) < 0x10))))
    length = int32[found + 8]
    min_length = np.array([*message_set.MIN_LENGTHS, batch_v2.MIN_LENGTH])[magic[found]]
    found = found[(min_length <= length) & (length <= max_length)]

    # the key and the value of a message fill it; where their sizes cannot be seen it stays in
    is_legacy = magic[found] < 2
    legacy = found[is_legacy]
    end = legacy + LOG_OVERHEAD + int32[legacy + 8]
    key_at = legacy + np.array(message_set.HEADER_SIZES)[magic[legacy]] - 4
    key_size = int32[key_at].astype(np.int64)
    value_at = key_at + 4 + np.maximum(key_size, 0)
    is_value_seen = value_at + 4 <= len(data)
    value_size = int32[np.where(is_value_seen, value_at, 0)]
    is_filled = (value_size >= -1) & (value_at + 4 + np.maximum(value_size, 0) == end)
    fits = (key_size >= -1) & np.where(is_value_seen, is_filled, value_at + 4 <= end)
    is_legacy[is_legacy] = ~fits & (key_at + 4 <= len(data))
    result: list[int] = found[~is_legacy].tolist()
    return result
