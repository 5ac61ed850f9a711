"""Compiled walking over a log: the lengths and checksums of batches.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.protocol.batch_v2 import HEADER_SIZE
from kgroup.protocol.kernel_memory import COMPRESSED
from kgroup.protocol.machine import (
    compiled,
    copy,
    crc32,
    crc32c,
    get,
    load_int16,
    load_int32,
    load_native32,
    load_uint8,
    put,
    store_native32,
)

__all__ = [
    "OVERLONG",
    "claimed_size",
    "find_end",
    "gather",
    "has_right_crc",
    "list_compressed",
    "spread_ends",
    "varint",
]

OVERLONG = 1 << 40
"""What `varint` gives for a number that takes more bytes than it reads."""


@compiled
def varint(at: int) -> tuple[int, int]:
    """A zig-zag number of up to four bytes, and where it ends; `OVERLONG` for a longer one."""
    value = load_uint8(at)
    at += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), at
    value &= 0x7F
    for shift in range(7, 28, 7):
        byte = load_uint8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return OVERLONG, at


@compiled
def claimed_size(at: int, end: int, largest: int) -> int:
    """Size of the batch that claims to begin at `at`; 0 if it is cut off, -1 if there is none."""
    if end - at < 17:
        return 0
    size = load_int32(at + 8) + 12
    magic = load_uint8(at + 16)
    smallest = 61 if magic == 2 else 34 if magic == 1 else 26
    if magic > 2 or size < smallest or size > largest:
        return -1
    return size if size <= end - at else 0


@compiled
def has_right_crc(at: int, size: int) -> bool:
    """Whether the checksum of a batch of this size is right."""
    if load_uint8(at + 16) == 2:
        return crc32c(at + 21, size - 21) == load_int32(at + 17) & 0xFFFFFFFF
    return crc32(at + 16, size - 16) == load_int32(at + 12) & 0xFFFFFFFF


@compiled
def find_end(at: int, end: int, largest: int, counts: int) -> int:
    """Where the last batch ends that claims to be whole; checksums are not looked at.

    To the three words at `counts` are added how many batches there are, how many of them have
    compressed records, and how many records they claim to have.
    """
    batches = 0
    packed = 0
    records = 0
    while True:
        size = claimed_size(at, end, largest)
        if size <= 0:
            put(counts, 0, get(counts, 0) + batches)
            put(counts, 1, get(counts, 1) + packed)
            put(counts, 2, get(counts, 2) + records)
            return at
        batches += 1
        packed += _has_compressed_records(at)
        records += load_int32(at + 57) if load_uint8(at + 16) == 2 else 1
        at += size


@compiled
def _has_compressed_records(at: int) -> bool:
    return (
        load_uint8(at + 16) == 2
        and load_int16(at + 21) & COMPRESSED != 0
        and load_int32(at + 57) > 0
    )


@compiled
def list_compressed(at: int, end: int, largest: int, starts: int, ends: int, codecs: int) -> int:
    """List the batches with compressed records, in a chunk that `find_end` has cut; count them."""
    found = 0
    while at < end:
        size = claimed_size(at, end, largest)
        if _has_compressed_records(at):
            put(starts, found, at)
            put(ends, found, at + size)
            put(codecs, found, load_int16(at + 21) & COMPRESSED)
            found += 1
        at += size
    return found


@compiled
def gather(starts: int, ends: int, count: int, out: int) -> int:
    """Copy the compressed records of `count` batches one after another; give the end."""
    for index in range(count):
        start = get(starts, index) + HEADER_SIZE
        size = get(ends, index) - start
        copy(out, start, size)
        out += size
    return out


@compiled
def spread_ends(rows: int, ends: int, count: int, out: int, total: int) -> int:
    """Make Arrow's offsets (int32) of `total` strings of which all but `count` are empty.

    `rows` has the numbers of the others in order, and `ends` where their bytes end.
    """
    row = 0
    end = 0
    for index in range(count):
        next_row = load_native32(rows + 4 * index)
        while row <= next_row:
            store_native32(out + 4 * row, end)
            row += 1
        end = load_native32(ends + 4 * index)
    while row <= total:
        store_native32(out + 4 * row, end)
        row += 1
    return end
