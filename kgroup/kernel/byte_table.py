"""A hash table of distinct byte strings in plain memory, for compiled code.

A table is known by the address of the words that describe it (`memory`).

Importing this module imports numba.
"""

from __future__ import annotations

from kgroup.kernel import memory
from kgroup.kernel.intrinsics import (
    compiled,
    copy,
    equal,
    get,
    inlined,
    load_native32,
    load_word,
    mix,
    put,
    store_native32,
    tail,
)
from kgroup.kernel.json_text import is_utf8


@inlined
def hash_bytes(at: int, size: int, seed: int) -> int:
    """A hash of bytes; equal only for equal ones but by chance."""
    length = size
    state = seed
    while size > 16:
        state = mix(load_word(at) ^ 0x1D8E4E27C47D124F, load_word(at + 8) ^ state)
        at += 16
        size -= 16
    if size > 8:
        first = load_word(at)
        second = tail(at + 8, size - 8)
    else:
        first = tail(at, size)
        second = 0
    state = mix(first ^ 0x1D8E4E27C47D124F, second ^ state)
    # Not beside the last bytes, which would be able to undo it.
    return mix(state ^ 0x72B2C5B3D0B6A1F5, length ^ 0x589965CC75374CC3)


@compiled
def intern(table: int, at: int, size: int) -> int:
    """The number of a string in a table; -1 if there is no room for a new one."""
    code = hash_bytes(at, size, 0)
    tag = (code >> 33) & 0x7FFFFFFF
    mask = get(table, memory.TABLE_MASK)
    slots = get(table, memory.TABLE_SLOTS)
    ends = get(table, memory.TABLE_ENDS)
    text = get(table, memory.TABLE_TEXT)
    index = code & mask
    while True:
        slot = get(slots, index)
        if slot == 0:
            break
        if slot >> 32 == tag:
            number = (slot & 0xFFFFFFFF) - 1
            start = load_native32(ends + 4 * number)
            if load_native32(ends + 4 * number + 4) - start == size and equal(
                text + start, at, size
            ):
                return number
        index = (index + 1) & mask
    number = get(table, memory.TABLE_COUNT)
    used = get(table, memory.TABLE_USED)
    if (
        2 * number > mask
        or number + 2 > get(table, memory.TABLE_ENDS_CAPACITY)
        or used + size > get(table, memory.TABLE_TEXT_CAPACITY)
    ):
        return -1
    copy(text + used, at, size)
    if not is_utf8(at, size):
        put(table, memory.TABLE_IS_ODD, 1)
    used += size
    store_native32(ends + 4 * number + 4, used)
    put(slots, index, tag << 32 | (number + 1))
    put(table, memory.TABLE_COUNT, number + 1)
    put(table, memory.TABLE_USED, used)
    return number


@compiled
def intern_all(old: int, new: int) -> int:
    """Put all strings of one table into another, larger one; they keep their numbers."""
    for number in range(get(old, memory.TABLE_COUNT)):
        start = load_native32(get(old, memory.TABLE_ENDS) + 4 * number)
        end = load_native32(get(old, memory.TABLE_ENDS) + 4 * number + 4)
        intern(new, get(old, memory.TABLE_TEXT) + start, end - start)
    return get(new, memory.TABLE_COUNT)
