"""A hash table of distinct byte strings in plain memory, for compiled code.

A table is identified by the address of the record that describes it (`memory.Table`).

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable

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
    record_at,
    store_native32,
    tail,
)
from kgroup.kernel.json_text import is_utf8
from kgroup.kernel.memory import Table

_table_at: Callable[[int], Table] = record_at(Table)


@inlined
def hash_bytes(at: int, size: int, seed: int) -> int:
    """Return a hash of bytes."""
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
    # Mixed in separately: next to the last bytes, these could cancel it.
    return mix(state ^ 0x72B2C5B3D0B6A1F5, length ^ 0x589965CC75374CC3)


@compiled
def intern(table_address: int, at: int, size: int) -> int:
    """Return the number of a string in a table; -1 if there is no room for a new one."""
    table = _table_at(table_address)
    code = hash_bytes(at, size, 0)
    tag = (code >> 33) & 0x7FFFFFFF
    mask = table.mask
    slots = table.slots
    ends = table.ends
    text = table.text
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
    number = table.count
    used = table.used
    if 2 * number > mask or number + 2 > table.ends_capacity or used + size > table.text_capacity:
        return -1
    copy(text + used, at, size)
    if not is_utf8(at, size):
        table.is_odd = 1
    used += size
    store_native32(ends + 4 * number + 4, used)
    put(slots, index, tag << 32 | (number + 1))
    table.count = number + 1
    table.used = used
    return number


@compiled
def intern_all(old_address: int, new_address: int) -> int:
    """Copy all strings of one table into another, larger one; they keep their numbers."""
    old = _table_at(old_address)
    for number in range(old.count):
        start = load_native32(old.ends + 4 * number)
        end = load_native32(old.ends + 4 * number + 4)
        intern(new_address, old.text + start, end - start)
    return _table_at(new_address).count
