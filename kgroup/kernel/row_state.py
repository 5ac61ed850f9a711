"""State for writing rows as text: the words for compiled code, and the memory they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgroup.kernel import memory
from kgroup.kernel.address import address
from kgroup.kernel.memory import PADDING

_SIGNED = (np.int8, np.int16, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class TemplateColumn:
    """A column in a template, of integers or of texts. The arrays are Arrow's.

    Attributes:
        null: text for null; up to 8 bytes.
        numbers: signed, one per row: the integers, or for texts their codes, from 0 and less than
            the number of texts; None if each row has a text of its own.
        ends: for texts, the start of the first, and the end of each, in order.
        text: for texts, all of them; with numbers, followed by `PADDING`.
        bitmap: bits of the rows that are not null; None if no row is null.
        first: index of the first row's bit.
    """

    null: bytes
    numbers: NDArray[np.signedinteger[Any]] | None = None
    ends: NDArray[np.int32] | None = None
    text: NDArray[np.uint8] | None = None
    bitmap: NDArray[np.uint8] | None = None
    first: int = 0

    def words(self, rows: int) -> dict[str, int]:
        """Return the column's fields of a `memory.Piece`, for a number of rows.

        Raises:
            ValueError: the column has fewer rows, or another type.
        """
        if len(self.null) > 8 or (self.text is None and self.numbers is None):
            raise ValueError("column: expected up to 8 bytes for null, and numbers or texts.")
        words = {
            "kind": memory.NUMBER if self.text is None else memory.TEXT,
            "null": int.from_bytes(self.null, "little"),
            "null_size": len(self.null),
            "first": self.first,
        }
        if self.bitmap is not None:
            size = (self.first + rows + 7) // 8
            words["bitmap"] = address("bitmap", self.bitmap, np.uint8, size)
        if self.numbers is not None:
            kind = next((kind for kind in _SIGNED if kind == self.numbers.dtype), np.int64)
            words["data"] = address("numbers", self.numbers, kind, rows)
            words["size"] = self.numbers.itemsize
        if self.ends is not None and self.text is not None:
            count, padding = (rows, 0) if self.numbers is None else (0, PADDING)
            words["ends"] = address("ends", self.ends, np.int32, count + 1)
            size = int(self.ends[-1]) + padding
            words["text"] = address("text", self.text, np.uint8, size)
        return words


class RowState:
    """Rows to write, each with the template of its kind.

    Args:
        kinds: kind of each row.
        templates: template of each kind; rows without one are not written.

    Attributes:
        words: fields for compiled code (`memory.RowLines`).
        at: address of the fields.
    """

    def __init__(
        self, kinds: NDArray[np.uint8], templates: Mapping[int, Sequence[bytes | TemplateColumn]]
    ) -> None:
        self._rows = len(kinds)
        self._kept: list[object] = [kinds, templates]
        starts = np.full(256, self._template([]), np.int64)
        for kind, template in templates.items():
            starts[kind] = self._template(template)
        self._kept.append(starts)
        record = np.zeros(1, memory.layout(memory.RowLines))
        self.at = int(record.ctypes.data)
        self.words = record[0]
        self.words["rows"] = self._rows
        self.words["kinds"] = address("kinds", kinds, np.uint8)
        self.words["templates"] = starts.ctypes.data

    @property
    def is_done(self) -> bool:
        """Whether all rows are written."""
        return bool(self.words["row"] == self._rows)

    def _template(self, template: Sequence[bytes | TemplateColumn]) -> int:
        """Return the address of a template."""
        pieces = np.zeros(len(template) + 1, memory.layout(memory.Piece))
        pieces["kind"][-1] = memory.END_OF_ROW
        for words, piece in zip(pieces, template, strict=False):
            if isinstance(piece, TemplateColumn):
                for name, word in piece.words(self._rows).items():
                    words[name] = word
            else:
                padded = np.frombuffer(piece + bytes(PADDING), np.uint8)
                self._kept.append(padded)
                words["kind"] = memory.LITERAL
                words["data"] = padded.ctypes.data
                words["size"] = len(piece)
        self._kept.append(pieces)
        return int(pieces.ctypes.data)
