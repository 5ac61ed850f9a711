"""Compiled writing of rows as text, each with the template of its kind.

A template is a sequence of pieces, laid out in `memory`: fixed texts and columns. The columns are
Arrow's: numbers or codes, a bitmap of the rows that are not null, and for texts the end of each.

Importing this module imports numba. Positions are addresses. `PADDING` bytes must be readable after
every text of a template or a dictionary, and writable after the memory for the rows.
"""

from __future__ import annotations

from collections.abc import Callable

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
    record_at,
    store_native32,
    store_word,
)
from kgroup.kernel.json_text import write_integer, write_string
from kgroup.kernel.memory import Piece, RowLines

_lines_at: Callable[[int], RowLines] = record_at(RowLines)
_piece_at: Callable[[int], Piece] = record_at(Piece)
_PIECE_SIZE = memory.layout(Piece).itemsize

_LONG = 256
"""Bytes from which on a call of the library's copy is no slower."""


@inlined
def _copy_text(out: int, text: int, size: int) -> int:
    """Copy a text that is readable beyond its end; return the end of the copy."""
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
    """Return the signed integer of `width` bytes in a row."""
    if width == 8:
        return load_word(at + 8 * row)
    if width == 4:
        return load_native32(at + 4 * row)
    if width == 2:
        return load_native16(at + 2 * row)
    value = load_uint8(at + row)
    return value - ((value & 0x80) << 1)


@compiled
def write_rows(address: int) -> int:
    """Write rows from `row` on; return the bytes needed by the first that did not fit, or 0.

    `address` is that of a `RowLines`; its `row` and `out` are advanced past what was written.
    """
    state = _lines_at(address)
    kinds = state.kinds
    templates = state.templates
    rows = state.rows
    room = state.room
    row = state.row
    begin = state.out
    needed = 0
    while row < rows:
        piece_address = get(templates, load_uint8(kinds + row))
        out = begin
        while True:
            piece = _piece_at(piece_address)
            kind = piece.kind
            data = piece.data
            size = piece.size
            if kind == memory.LITERAL:
                if out + size > room:
                    needed = out + size - begin
                    break
                out = _copy_text(out, data, size)
                piece_address += _PIECE_SIZE
                continue
            if kind == memory.END_OF_ROW:
                break
            bitmap = piece.bitmap
            bit = piece.first + row
            if bitmap != 0 and load_uint8(bitmap + (bit >> 3)) >> (bit & 7) & 1 == 0:
                store_word(out, piece.null)
                out += piece.null_size
            elif kind == memory.NUMBER:
                out = write_integer(_number(data, size, row), out)
            else:
                # codes of a dictionary or, if codes have no bytes, one text per row
                code = _number(data, size, row) if size != 0 else row
                ends = piece.ends
                start = load_native32(ends + 4 * code)
                length = load_native32(ends + 4 * code + 4) - start
                if out + length > room:
                    needed = out + length - begin
                    break
                text = piece.text + start
                if size != 0:
                    out = _copy_text(out, text, length)
                else:
                    copy(out, text, length)
                    out += length
            if out > room:
                needed = out - begin
                break
            piece_address += _PIECE_SIZE
        if needed > 0:
            break
        begin = out
        row += 1
    state.row = row
    state.out = begin
    return needed


@compiled
def quote(ends: int, text: int, count: int, out_ends: int, out: int, room: int) -> int:
    """Write texts as consecutive JSON strings, and their ends; return the end of the last.

    It is negative if they do not fit.
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
