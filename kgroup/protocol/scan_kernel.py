"""Compiled scan of the headers of batches.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.protocol.kernel_memory import COMPRESSED, CONTROL
from kgroup.protocol.log_kernel import claimed_size, has_right_crc
from kgroup.protocol.machine import compiled, get, load_int16, load_int64, load_uint8, put

__all__ = ["scan"]


@compiled
def scan(at: int, end: int, largest: int, counts: int, controls: int, capacity: int) -> int:
    """Count the batches from `at` on; give where one begins that is not in order, or the end.

    At `counts` are two words, batches and bytes, for each number ``8 * magic + codec``. At
    `controls` is a word that says how many positions of control batches stand behind it; where
    there is no room for one more, the scan stops as at the end.
    """
    while at < end:
        size = claimed_size(at, end, largest)
        if size <= 0 or not has_right_crc(at, size):
            return at
        base = load_int64(at)
        if base < 0 or base > 1 << 62:
            return at
        magic = load_uint8(at + 16)
        attributes = load_uint8(at + 17) if magic < 2 else load_int16(at + 21)
        if magic == 2 and attributes & CONTROL != 0:
            found = get(controls, 0)
            if found == capacity:
                return at
            put(controls, 1 + found, at)
            put(controls, 0, found + 1)
        kind = 8 * magic + (attributes & COMPRESSED)
        put(counts, 2 * kind, get(counts, 2 * kind) + 1)
        put(counts, 2 * kind + 1, get(counts, 2 * kind + 1) + size)
        at += size
    return at
