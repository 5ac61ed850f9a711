"""Rows of Arrow columns as JSON text, written by compiled code after templates.

A template says what the text of a row of one kind is made of: texts, and columns. See
`protocol.row_kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.kernel import memory
from kgroup.kernel.compiled import kernels
from kgroup.kernel.memory import PADDING

__all__ = ["BLOCK_SIZE", "Cells", "Memory", "Template", "row_blocks"]

_Array = np.ndarray[Any, Any]
Memory: TypeAlias = list[_Array]
"""Blocks that are not in use: the system clears new memory, which takes as long as to fill it."""

BLOCK_SIZE = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A column in a template.

    Attributes:
        column: integers, a dictionary of strings, or strings that are JSON texts.
        null: what stands for null; up to 8 bytes.
    """

    column: pa.Array
    null: str = "null"


Template: TypeAlias = Sequence[str | Cells]


def row_blocks(
    kinds: _Array, templates: Mapping[int, Template], free: Memory
) -> Iterator[memoryview]:
    """Yield the text of rows, block by block; a block holds until the next one is asked for.

    Args:
        kinds: of each row (uint8).
        templates: by kind.
        free: memory that may be used, and to which it is given back.
    """
    pieces = _Pieces()
    starts = np.zeros(256, np.int64)
    for kind, template in templates.items():
        starts[kind] = pieces.add(template)
    state = np.zeros(memory.LINE_STATE_SIZE, np.int64)
    state[memory.LINE_ROWS] = len(kinds)
    state[memory.LINE_KINDS] = kinds.ctypes.data
    state[memory.LINE_TEMPLATES] = starts.ctypes.data
    needed = BLOCK_SIZE
    while state[memory.LINE_ROW] < len(kinds):
        block = _block(free, needed)
        begin = block.ctypes.data
        state[memory.LINE_OUT] = begin
        state[memory.LINE_ROOM] = begin + len(block) - PADDING
        needed = max(kernels().write_rows(state.ctypes.data), BLOCK_SIZE)
        if state[memory.LINE_OUT] > begin:
            yield block.data[: int(state[memory.LINE_OUT]) - begin]
        if len(block) == BLOCK_SIZE + PADDING:
            free.append(block)


def _block(free: Memory, size: int) -> _Array:
    if size == BLOCK_SIZE and free:
        return free.pop()
    return np.empty(size + PADDING, np.uint8)


class _Pieces:
    """Templates as compiled code reads them, and all memory that it knows by its address."""

    def __init__(self) -> None:
        self._kept: list[object] = []
        self._columns: dict[Cells, str | dict[int, int]] = {}

    def add(self, template: Template) -> int:
        """Give the address of a template."""
        pieces: list[str | dict[int, int]] = [""]
        for piece in template:
            made = piece if isinstance(piece, str) else self._column(piece)
            if isinstance(made, str) and isinstance(pieces[-1], str):
                pieces[-1] += made
            else:
                pieces.append(made)
        words = np.zeros((len(pieces) + 1, memory.PIECE_WORDS), np.int64)
        words[-1, memory.PIECE_KIND] = memory.END_OF_ROW
        for row, made in zip(words, pieces, strict=False):
            numbers = self._literal(made) if isinstance(made, str) else made
            row[list(numbers)] = list(numbers.values())
        return self._address(words)

    def _literal(self, text: str) -> dict[int, int]:
        raw = text.encode()
        return {
            memory.PIECE_KIND: memory.LITERAL,
            memory.PIECE_DATA: self._address(_padded(raw, len(raw))),
            memory.PIECE_SIZE: len(raw),
        }

    def _column(self, cells: Cells) -> str | dict[int, int]:
        if cells not in self._columns:
            text = _constant(cells)
            self._columns[cells] = self._words(cells) if text is None else text
        return self._columns[cells]

    def _words(self, cells: Cells) -> dict[int, int]:
        column = cells.column
        null = cells.null.encode()
        piece = {
            memory.PIECE_NULL: int.from_bytes(null, "little"),
            memory.PIECE_NULL_SIZE: len(null),
            memory.PIECE_FIRST: column.offset,
        }
        numbers = column
        if pa.types.is_dictionary(column.type):
            numbers = column.indices
            piece |= self._texts(*_quoted(column.dictionary))
        elif pa.types.is_string(column.type):
            _, ends, text = column.buffers()
            piece |= self._texts(_part(ends, np.int32, column.offset), text)
        if numbers.null_count:
            piece[memory.PIECE_BITMAP] = self._address(numbers.buffers()[0])
        if pa.types.is_integer(numbers.type):
            size = numbers.type.bit_width // 8
            data = numbers.buffers()[1]
            piece |= {
                memory.PIECE_KIND: piece.get(memory.PIECE_KIND, memory.NUMBER),
                memory.PIECE_DATA: self._address(data) + numbers.offset * size,
                memory.PIECE_SIZE: size,
            }
        return piece

    def _texts(self, ends: _Array, text: _Array | pa.Buffer) -> dict[int, int]:
        return {
            memory.PIECE_KIND: memory.TEXT,
            memory.PIECE_ENDS: self._address(ends),
            memory.PIECE_TEXT: self._address(text),
        }

    def _address(self, buffer: _Array | pa.Buffer) -> int:
        self._kept.append(buffer)
        address: int = buffer.address if isinstance(buffer, pa.Buffer) else buffer.ctypes.data
        return address


def _constant(cells: Cells) -> str | None:
    column = cells.column
    if column.null_count == len(column):
        return cells.null
    if column.null_count == 0 and not pa.types.is_string(column.type):
        numbers = column.indices if pa.types.is_dictionary(column.type) else column
        extremes = pc.min_max(numbers)
        if extremes["min"].equals(extremes["max"]):
            return orjson.dumps(column[0].as_py()).decode()
    return None


def _quoted(strings: pa.StringArray) -> tuple[_Array, _Array]:
    """Write strings as JSON strings; give where each begins, and the end of the last, and all."""
    _, offsets, text = strings.buffers()
    ends = _part(offsets, np.int32, strings.offset)
    size = int(ends[len(strings)])
    raw = _padded(text or b"", size)
    room = 6 * size + 3 * len(strings) + PADDING
    quoted = np.empty(room + PADDING, np.uint8)
    quoted_ends = np.empty(len(strings) + 1, np.int32)
    end = kernels().quote(
        ends.ctypes.data,
        raw.ctypes.data,
        len(strings),
        quoted_ends.ctypes.data,
        quoted.ctypes.data,
        quoted.ctypes.data + room,
    )
    assert end >= 0
    return quoted_ends, quoted


def _part(buffer: pa.Buffer, kind: type[np.generic], first: int) -> _Array:
    return np.frombuffer(buffer, kind)[first:]


def _padded(raw: bytes | pa.Buffer, size: int) -> _Array:
    padded = np.zeros(size + PADDING, np.uint8)
    padded[:size] = np.frombuffer(raw, np.uint8)[:size]
    return padded
