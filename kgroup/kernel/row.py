"""Compiled writing of rows as text, each after the template of its kind.

A template is a row of pieces, which `memory` lays out: text that is always the same, and
columns. The columns are Arrow's: their numbers or codes, a bitmap of the rows that are not null,
and of texts where each ends.

Importing this module imports numba. Positions are addresses. `PADDING` bytes behind every text of
a template or a dictionary can be read, and as many behind the room for the rows be written.
"""

from __future__ import annotations

from kgroup.kernel import memory
from kgroup.kernel.intrinsics import (
    BLOCK,
    compiled,
    copy,
    copy_block,
    get,
    inlined,
    load_native16,
    load_native32,
    load_uint8,
    load_word,
    put,
    store_native32,
    store_word,
)
from kgroup.kernel.json_text import write_integer, write_string

_LONG = 256
"""Bytes from which on a call of the library's copy is no loss."""


@inlined
def _copy_text(out: int, text: int, size: int) -> int:
    """Copy a text that can be read beyond its end; give the end of the copy."""
    end = out + size
    if size > _LONG:
        copy(out, text, size)
        return end
    while True:
        copy_block(out, text)
        out += BLOCK
        text += BLOCK
        if out >= end:
            return end


@inlined
def _number(at: int, width: int, row: int) -> int:
    """The signed integer of so many bytes in a row."""
    if width == 8:
        return load_word(at + 8 * row)
    if width == 4:
        return load_native32(at + 4 * row)
    if width == 2:
        return load_native16(at + 2 * row)
    value = load_uint8(at + row)
    return value - ((value & 0x80) << 1)


@compiled
def write_rows(state: int) -> int:
    """Write rows from ROW on; give how many bytes the first one that did not fit needs, or 0.

    `state` is the address of the words that `memory` names. ROW and OUT are moved behind
    what was written.
    """
    kinds = get(state, memory.LINE_KINDS)
    templates = get(state, memory.LINE_TEMPLATES)
    rows = get(state, memory.LINE_ROWS)
    room = get(state, memory.LINE_ROOM)
    row = get(state, memory.LINE_ROW)
    begin = get(state, memory.LINE_OUT)
    needed = 0
    while row < rows:
        piece = get(templates, load_uint8(kinds + row))
        out = begin
        while True:
            kind = get(piece, memory.PIECE_KIND)
            data = get(piece, memory.PIECE_DATA)
            size = get(piece, memory.PIECE_SIZE)
            if kind == memory.LITERAL:
                if out + size > room:
                    needed = out + size - begin
                    break
                out = _copy_text(out, data, size)
                piece += 8 * memory.PIECE_WORDS
                continue
            if kind == memory.END_OF_ROW:
                break
            bitmap = get(piece, memory.PIECE_BITMAP)
            bit = get(piece, memory.PIECE_FIRST) + row
            if bitmap != 0 and load_uint8(bitmap + (bit >> 3)) >> (bit & 7) & 1 == 0:
                store_word(out, get(piece, memory.PIECE_NULL))
                out += get(piece, memory.PIECE_NULL_SIZE)
            elif kind == memory.NUMBER:
                out = write_integer(_number(data, size, row), out)
            else:
                # codes of a dictionary, or, where they have no bytes, a text for each row
                code = _number(data, size, row) if size != 0 else row
                ends = get(piece, memory.PIECE_ENDS)
                start = load_native32(ends + 4 * code)
                length = load_native32(ends + 4 * code + 4) - start
                if out + length > room:
                    needed = out + length - begin
                    break
                text = get(piece, memory.PIECE_TEXT) + start
                if size != 0:
                    out = _copy_text(out, text, length)
                else:
                    copy(out, text, length)
                    out += length
            if out > room:
                needed = out - begin
                break
            piece += 8 * memory.PIECE_WORDS
        if needed > 0:
            break
        begin = out
        row += 1
    put(state, memory.LINE_ROW, row)
    put(state, memory.LINE_OUT, begin)
    return needed


@compiled
def quote(ends: int, text: int, count: int, out_ends: int, out: int, room: int) -> int:
    """Write texts as JSON strings one after another, and where they end; give the end of all.

    It is negative where they do not fit.
    """
    start = out
    store_native32(out_ends, 0)
    for index in range(count):
        begin = load_native32(ends + 4 * index)
        size = load_native32(ends + 4 * index + 4) - begin
        out = write_string(text + begin, size, out, room)
        if out < 0:
            return out
        store_native32(out_ends + 4 * index + 4, out - start)
    return out
