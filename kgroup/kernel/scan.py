"""Compiled scan of the headers of batches.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.kernel import memory
from kgroup.kernel.intrinsics import compiled, get, load_int16, load_int64, load_uint8, put
from kgroup.kernel.log import claimed_size, has_right_crc, next_piece
from kgroup.kernel.memory import BAD, COMPRESSED, CONTROL, READ

__all__ = ["scan"]


@compiled
def scan(state: int) -> int:
    """Count the batches of a chunk but for control batches; give why it stopped.

    At the address in the first column of rows are two words, batches and bytes, for each number
    ``8 * magic + codec``.
    """
    counts = get(state, memory.ROW_COLUMNS)
    while True:
        at = get(state, memory.POSITION)
        end = get(state, memory.END)
        if at >= end:
            reason = next_piece(state)
            if reason != READ:
                return reason
            continue
        size = claimed_size(at, end, get(state, memory.LARGEST_BATCH))
        if size <= 0 or not has_right_crc(at, size):
            return BAD
        base = load_int64(at)
        if base < 0 or base > 1 << 62:
            return BAD
        magic = load_uint8(at + 16)
        attributes = load_uint8(at + 17) if magic < 2 else load_int16(at + 21)
        if magic == 2 and attributes & CONTROL != 0:
            return BAD
        kind = 8 * magic + (attributes & COMPRESSED)
        put(counts, 2 * kind, get(counts, 2 * kind) + 1)
        put(counts, 2 * kind + 1, get(counts, 2 * kind + 1) + size)
        put(state, memory.POSITION, at + size)
