"""Compiled encoding of columns for Parquet's pages: numbers as runs, or as differences.

Where a library packs numbers into as few bits as they need, here they take whole bytes, so that
little has to be done for each.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.kernel.intrinsics import (
    compiled,
    copy,
    count_ones,
    get,
    halve_native32,
    inlined,
    lessen_native32,
    load_native32,
    load_uint8,
    load_word,
    narrow_native16,
    narrow_native32,
    narrow_uint8,
    narrow_words,
    pick_native16,
    pick_native32,
    pick_uint8,
    pick_words,
    put,
    put_native16,
    put_native32,
    put_uint8,
    store_native32,
    store_uint8,
)
from kgroup.kernel.memory import PADDING

__all__ = ["join_texts", "pack_differences", "pack_runs", "pick"]

_MOST_GROUPS = 63
"""In a run of unlike numbers: its head is one byte then."""

_BLOCK = 128
_MINIBLOCK = 32


@compiled
def pick(numbers: int, width: int, bitmap: int, first: int, count: int, out: int) -> int:
    """Write those of `count` numbers whose bit is set, the first one's being `first`; count them.

    They take `width` bytes each: 1, 2, 4 or 8. There is room for all, and `PADDING`.
    """
    begin = out
    shift = first & 7
    whole = count - count % 64
    for done in range(first, first + whole, 64):
        at = bitmap + (done >> 3)
        bits = load_word(at)
        if shift != 0:
            bits = (bits >> shift) & ((1 << (64 - shift)) - 1) | load_uint8(at + 8) << (64 - shift)
        if bits == -1:
            copy(out, numbers, 64 * width)
            out += 64 * width
            numbers += 64 * width
        elif bits == 0:
            numbers += 64 * width
        else:
            for _ in range(8):
                if width == 1:
                    pick_uint8(out, numbers, bits)
                elif width == 2:
                    pick_native16(out, numbers, bits)
                elif width == 4:
                    pick_native32(out, numbers, bits)
                else:
                    pick_words(out, numbers, bits)
                numbers += 8 * width
                out += width * count_ones(bits & 0xFF)
                bits >>= 8
    for bit in range(first + whole, first + count):
        if load_uint8(bitmap + (bit >> 3)) >> (bit & 7) & 1 != 0:
            copy(out, numbers, width)
            out += width
        numbers += width
    return (out - begin) // width


@compiled
def join_texts(ends: int, text: int, count: int, out: int) -> int:
    """Write texts, each behind its size (int32), `ends` being where they end; give the end."""
    start = load_native32(ends)
    for index in range(1, count + 1):
        end = load_native32(ends + 4 * index)
        store_native32(out, end - start)
        copy(out + 4, text + start, end - start)
        out += 4 + end - start
        start = end
    return out


@compiled
def pack_runs(numbers: int, width: int, low: int, count: int, out: int, out_width: int) -> int:
    """Write what numbers are more than `low`, in 1, 2 or 4 bytes each; give the end.

    like numbers       how many << 1 (varint), one of them
    groups of eight    how many groups << 1 | 1 (varint), the numbers

    The numbers take 1, 2, 4 or 8 bytes, and 4 where they become 2 or 4. Zeros fill up the last
    group. There is room for all, a byte for each eight of them, and two `PADDING`.
    """
    # a loop for each pair of widths, which are constants in it
    if out_width == 2:
        return _pack_runs(numbers, 4, low, count, out, 2, 0x0001000100010001)
    if out_width == 4:
        return _pack_runs(numbers, 4, low, count, out, 4, 0x100000001)
    if width == 1:
        return _pack_runs(numbers, 1, low, count, out, 1, 0x0101010101010101)
    if width == 2:
        return _pack_runs(numbers, 2, low, count, out, 1, 0x0101010101010101)
    if width == 4:
        return _pack_runs(numbers, 4, low, count, out, 1, 0x0101010101010101)
    return _pack_runs(numbers, 8, low, count, out, 1, 0x0101010101010101)


@inlined
def _pack_runs(
    numbers: int, width: int, low: int, count: int, out: int, out_width: int, ones: int
) -> int:
    mask = (1 << 8 * out_width) - 1
    alike = 0
    value = 0
    head = 0
    groups = 0
    for done in range(0, count, 8):
        if count - done < 8:
            # the last ones are copied behind all that is still to be written, and filled up; in
            # a loop of fixed length, as one of any length slows down all groups
            last = out + PADDING
            for index in range(8):
                if index >= count - done:
                    _put_number(last, width, index, low)
            copy(last, numbers, (count - done) * width)
            numbers = last
        first = _narrowed(numbers, width, low, out_width) & mask
        unlike = 0
        # a group is `out_width` words
        for index in range(out_width):
            word = _narrowed(numbers + 8 // out_width * width * index, width, low, out_width)
            unlike |= word ^ first * ones
        if alike > 0 and (unlike != 0 or first != value):
            out = _put_run(out, alike, value, out_width)
            alike = 0
        if unlike == 0:
            value = first
            alike += min(8, count - done)
            head = 0
        else:
            if head == 0 or groups == _MOST_GROUPS:
                head = out
                groups = 0
                out += 1
            for index in range(out_width):
                at = numbers + 8 // out_width * width * index
                put(out, index, _narrowed(at, width, low, out_width))
            out += 8 * out_width
            groups += 1
            store_uint8(head, groups << 1 | 1)
        numbers += 8 * width
    return out if alike == 0 else _put_run(out, alike, value, out_width)


@inlined
def _put_number(numbers: int, width: int, index: int, number: int) -> None:
    if width == 1:
        put_uint8(numbers, index, number)
    elif width == 2:
        put_native16(numbers, index, number)
    elif width == 4:
        put_native32(numbers, index, number)
    else:
        put(numbers, index, number)


@inlined
def _narrowed(numbers: int, width: int, low: int, out_width: int) -> int:
    """A word of numbers, each less `low`, that take so many bytes."""
    if out_width == 4:
        return lessen_native32(numbers, low)
    if out_width == 2:
        return halve_native32(numbers, low)
    if width == 1:
        return narrow_uint8(numbers, low)
    if width == 2:
        return narrow_native16(numbers, low)
    if width == 4:
        return narrow_native32(numbers, low)
    return narrow_words(numbers, low)


@compiled
def pack_differences(numbers: int, count: int, out: int) -> int:
    """Write what each of `count` words but the first is more than the one before; give the end.

    block      the smallest difference (zig-zag varint), how many bits one of each miniblock takes
               (4 bytes), the miniblocks that are not empty
    miniblock  what 32 differences are more than the smallest; at the end zeros fill up

    There is room for nine bytes for each number, and those of a block more.
    """
    for block in range(1, count, _BLOCK):
        end = min(block + _BLOCK, count)
        smallest = _difference(numbers, block)
        for index in range(block + 1, end):
            smallest = min(smallest, _difference(numbers, index))
        out = _put_varint(out, (smallest << 1) ^ (smallest >> 63))
        sizes = out
        store_native32(sizes, 0)
        out += _BLOCK // _MINIBLOCK
        for begin in range(block, end, _MINIBLOCK):
            known = min(_MINIBLOCK, end - begin)
            first = numbers + 8 * begin
            used = 0
            for index in range(known):
                used |= _difference(first, index) - smallest
            size = _size_of(used)
            store_uint8(sizes, 8 * size)
            sizes += 1
            _put_differences(first, known, smallest, size, out)
            out += size * _MINIBLOCK
    return out


@inlined
def _put_differences(numbers: int, count: int, smallest: int, size: int, out: int) -> None:
    """Write a miniblock of so many bytes for each number."""
    # a loop for each size: such as the compiler makes use of wide registers for
    if size == 1:
        for index in range(count):
            put_uint8(out, index, _difference(numbers, index) - smallest)
    elif size == 2:
        for index in range(count):
            put_native16(out, index, _difference(numbers, index) - smallest)
    elif size == 4:
        for index in range(count):
            put_native32(out, index, _difference(numbers, index) - smallest)
    elif size == 8:
        for index in range(count):
            put(out, index, _difference(numbers, index) - smallest)
    for index in range(size * count, size * _MINIBLOCK):
        put_uint8(out, index, 0)


@inlined
def _put_run(out: int, count: int, value: int, width: int) -> int:
    out = _put_varint(out, count << 1)
    store_native32(out, value)
    return out + width


@inlined
def _put_varint(out: int, number: int) -> int:
    """Write an unsigned number, seven bits a byte; give the end."""
    while number < 0 or number >= 0x80:
        store_uint8(out, number | 0x80)
        number = (number >> 7) & ((1 << 57) - 1)
        out += 1
    store_uint8(out, number)
    return out + 1


@inlined
def _difference(numbers: int, index: int) -> int:
    return get(numbers, index) - get(numbers, index - 1)


@inlined
def _size_of(number: int) -> int:
    """The bytes that an unsigned number takes: 0, 1, 2, 4 or 8."""
    if number >> 32 != 0:
        return 8
    if number >> 16 != 0:
        return 4
    if number >> 8 != 0:
        return 2
    return 1 if number != 0 else 0
