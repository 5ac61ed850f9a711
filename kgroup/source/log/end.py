"""Where a partition's log ends, from the head of its last batch.

Wire layout of what is read (the same place in every message format, big endian):
    offset 0   int64   v2: first offset of the batch; v0/v1: offset of the (last) message
    offset 8   int32   length of what follows
    offset 16  int8    magic
    offset 23  int32   v2 only: last offset of the batch, relative to the first

The offset index beside a segment (`OffsetIndex`: pairs of int32, relative offset and position,
ascending, zeros behind the end of an active one) says where to begin, so that the end of a long
segment is found by reading a few kilobytes. No checksum is computed.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import BinaryIO

_HEAD = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_INDEX_ENTRY = Struct(">ii")
_LOG_OVERHEAD = 12
_LEAST_LENGTH = 14
"""Bytes that the shortest message of all, of v0, has behind its length."""
_HEAD_SIZE = 27
_NO_OFFSET = -1


def log_end(segment: Path, base_offset: int) -> int:
    """Return the offset that follows the last whole batch of a segment; the base of an empty one.

    Raises:
        OSError: the file cannot be read.
    """
    with segment.open("rb") as file:
        start = _indexed_position(segment.with_suffix(".index"))
        end = _last_offset(file, start, base_offset)
        if end == _NO_OFFSET and start:  # the index and the segment do not belong together
            end = _last_offset(file, 0, base_offset)
    return base_offset if end == _NO_OFFSET else end + 1


def _last_offset(file: BinaryIO, position: int, base_offset: int) -> int:
    size = file.seek(0, 2)
    last = _NO_OFFSET
    while True:
        file.seek(position)
        head = file.read(_HEAD_SIZE)
        if len(head) < _LOG_OVERHEAD + _LEAST_LENGTH:
            return last
        offset, length, _, magic = _HEAD.unpack_from(head)
        position += _LOG_OVERHEAD + length
        if length < _LEAST_LENGTH or position > size or not 0 <= magic <= 2:
            return last
        if magic == 2:
            if len(head) < _HEAD_SIZE:
                return last
            offset += _LAST_OFFSET_DELTA.unpack_from(head, 23)[0]
        if offset < max(base_offset, last):
            return last
        last = offset


def _indexed_position(index: Path) -> int:
    """Return the position in the last entry of an offset index; 0 where there is none."""
    try:
        with index.open("rb") as file:
            low, high = 0, file.seek(0, 2) // _INDEX_ENTRY.size  # entries [0, low) are written
            position = 0
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * _INDEX_ENTRY.size)
                entry: tuple[int, int] = _INDEX_ENTRY.unpack(file.read(_INDEX_ENTRY.size))
                if entry[1] > 0:
                    low, position = middle + 1, entry[1]
                else:
                    high = middle
            return position
    except OSError:
        return 0
