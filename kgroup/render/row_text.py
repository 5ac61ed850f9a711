"""Rows of Arrow columns as JSON text, written by compiled code after templates.

A template says what the text of a row of one kind is made of: texts, and columns. See
`kernel.row`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.kernel.entry import quote, write_rows
from kgroup.kernel.memory import PADDING
from kgroup.kernel.row_state import RowState, TemplateColumn

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
    columns: dict[Cells, str | TemplateColumn] = {}
    state = RowState(kinds, {kind: _merged(each, columns) for kind, each in templates.items()})
    needed = BLOCK_SIZE
    while not state.is_done:
        block = _block(free, needed)
        size, needed = write_rows(state, block)
        needed = max(needed, BLOCK_SIZE)
        if size:
            yield block.data[:size]
        if len(block) == BLOCK_SIZE + PADDING:
            free.append(block)


def _block(free: Memory, size: int) -> _Array:
    if size == BLOCK_SIZE and free:
        return free.pop()
    return np.empty(size + PADDING, np.uint8)


def _merged(
    template: Template, columns: dict[Cells, str | TemplateColumn]
) -> list[bytes | TemplateColumn]:
    """Make texts that stand side by side one; columns that are all the same are texts, too."""
    pieces: list[bytes | TemplateColumn] = []
    for piece in template:
        if isinstance(piece, Cells) and piece not in columns:
            text = _constant(piece)
            columns[piece] = _column(piece) if text is None else text
        column = piece if isinstance(piece, str) else columns[piece]
        if isinstance(column, TemplateColumn):
            pieces.append(column)
        elif pieces and isinstance(pieces[-1], bytes):
            pieces[-1] += column.encode()
        else:
            pieces.append(column.encode())
    return pieces


def _column(cells: Cells) -> TemplateColumn:
    numbers = column = cells.column
    ends = text = None
    if pa.types.is_dictionary(column.type):
        numbers = column.indices
        ends, text = quote(*_texts(column.dictionary, padding=PADDING))
    elif pa.types.is_string(column.type):
        ends, text = _texts(column)
    bitmap, data = numbers.buffers()[:2]
    has_numbers = pa.types.is_integer(numbers.type)
    return TemplateColumn(
        cells.null.encode(),
        _part(data, numbers.type.to_pandas_dtype(), numbers) if has_numbers else None,
        ends,
        text,
        np.frombuffer(bitmap, np.uint8) if numbers.null_count else None,
        numbers.offset,
    )


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


def _texts(strings: pa.StringArray, padding: int = 0) -> tuple[_Array, _Array]:
    """Return where the first of strings begins and each ends, and all of them, padded."""
    _, offsets, text = strings.buffers()
    ends = _part(offsets, np.int32, strings, more=1)
    if not padding:
        return ends, np.frombuffer(text, np.uint8)
    padded = np.zeros(int(ends[-1]) + padding, np.uint8)
    padded[:-padding] = np.frombuffer(text or b"", np.uint8)[: int(ends[-1])]
    return ends, padded


def _part(buffer: pa.Buffer, kind: type[np.generic], column: pa.Array, more: int = 0) -> _Array:
    """Return what of a buffer a column has, which may be a part of a longer one."""
    return np.frombuffer(buffer, kind)[column.offset : column.offset + len(column) + more]
