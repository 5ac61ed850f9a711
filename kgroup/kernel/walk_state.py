"""What a walk over a chunk of a log works with: words, and the memory that they name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kgroup.kernel import memory
from kgroup.kernel.address import address
from kgroup.kernel.memory import PADDING, Batches, Others, Rows
from kgroup.kernel.string_table import StringTable
from kgroup.protocol.batch.batch import MAX_BATCH_SIZE

_MOVED = [memory.PIECE, memory.POSITION, memory.END, memory.WHOLE_END, memory.READ_END]
_BOUNDS = (
    (memory.ROWS, memory.ROW_CAPACITY),
    (memory.BATCHES, memory.ROW_CAPACITY),
    (memory.OTHERS, memory.OTHER_CAPACITY),
    (memory.TEXTS, memory.TEXT_CAPACITIES),
    (memory.TEXTS + 1, memory.TEXT_CAPACITIES + 1),
)
"""What is used, and how much there is of it."""


class WalkState:
    """The state of one walk. Addresses and capacities are written here alone, and kept valid.

    Args:
        file: its descriptor.
        start: position of the first byte.
        end: position behind the last byte.
        read_size: bytes that are read at once.
        is_unpacked: whether compressed batches are to be unpacked.

    Attributes:
        words: what compiled code knows it by (int64; see `memory`).
        piece: what was read, from the begin of a batch on, and `PADDING` (uint8).
    """

    def __init__(
        self, file: int, start: int, end: int, read_size: int, is_unpacked: bool = False
    ) -> None:
        self.words = np.zeros(memory.STATE_SIZE, np.int64)
        self.words[memory.LARGEST_BATCH] = MAX_BATCH_SIZE
        self.words[memory.FILE] = file
        self.words[memory.FILE_BASE] = start
        self.words[memory.CHUNK_END] = end
        self.words[memory.READ_SIZE] = read_size
        self.words[memory.IS_UNPACKED] = is_unpacked
        self._at = int(self.words.ctypes.data)
        self._purpose = "follow"
        self._kept: dict[str, object] = {}
        self.piece = np.empty(0, np.uint8)
        self._piece_at = 0
        self.enlarge(read_size)

    def enlarge(self, size: int) -> None:
        """Take memory for a piece of so many bytes; what was read of it stays."""
        larger = np.empty(size + PADDING, np.uint8)
        used = int(self.words[memory.READ_END]) - self._piece_at
        larger[:used] = self.piece[:used]
        shift = larger.ctypes.data - self._piece_at
        self.words[_MOVED] += shift
        self.words[memory.FILE_BASE] -= shift
        self.piece = larger
        self._piece_at += shift

    def unpack(self, records: NDArray[np.uint8]) -> None:
        """Give the records of the compressed batches up to END, and `PADDING` behind them."""
        self.words[memory.UNPACKED] = at = address("records", records, np.uint8, PADDING)
        self.words[memory.UNPACKED_END] = at + len(records) - PADDING
        self._kept["records"] = records

    def want(self, locators: NDArray[np.int64]) -> None:
        """Give the locators of the records that are wanted from the next batch on, in order."""
        self.words[memory.KEEP] = at = address("locators", locators, np.int64)
        self.words[memory.KEEP_END] = at + locators.nbytes
        self._kept["wanted"] = locators

    def count_in(self, counts: NDArray[np.int64]) -> None:
        """Give `scan` a pair of words for each kind of batches, which are `memory.KINDS`."""
        self._put(memory.ROW_COLUMNS, [address("counts", counts, np.int64, 2 * memory.KINDS)])
        self._is_for("scan", counts)

    def list_in(
        self, hashes: NDArray[np.int64], locators: NDArray[np.int64], batches: Batches
    ) -> None:
        """Give `list_keys` columns; there is room for as many records as hashes, and batches."""
        self.words[memory.ROW_CAPACITY] = rows = len(hashes)
        columns = [
            address("hashes", hashes, np.int64),
            address("locators", locators, np.int64, rows),
        ]
        self._put(memory.ROW_COLUMNS, columns)
        self._put(memory.BATCH_COLUMNS, _addresses(batches, Batches(), rows))
        self._is_for("list_keys", hashes, locators, batches)

    def decode_in(
        self,
        rows: Rows,
        batches: Batches,
        others: Others,
        texts: Sequence[NDArray[np.uint8]],
        tables: Sequence[StringTable],
        block: NDArray[np.int64],
    ) -> None:
        """Give `decode` memory.

        Args:
            rows: columns; there is room for as many rows as flags, and for as many batches.
            batches: columns.
            others: columns; there is room for as many as flags.
            texts: of key_json and value_json, and `PADDING` behind each.
            tables: of groups, topics, metadata and topic ids.
            block: of the machine (`schema_program.machine_block`).
        """
        (key_json, value_json), (groups, topics, metadata, topic_ids) = texts, tables
        self.words[memory.ROW_CAPACITY] = size = len(rows.flags)
        self.words[memory.OTHER_CAPACITY] = len(others.flags)
        self._put(memory.TEXT_CAPACITIES, [len(key_json) - PADDING, len(value_json) - PADDING])
        self._put(memory.ROW_COLUMNS, _addresses(rows, Rows(), size))
        self._put(memory.BATCH_COLUMNS, _addresses(batches, Batches(), size))
        self._put(memory.OTHER_COLUMNS, _addresses(others, Others(), len(others.flags)))
        texts_at = [address("texts", text, np.uint8, PADDING) for text in (key_json, value_json)]
        self._put(memory.TEXT_COLUMNS, texts_at)
        words = [table.words.ctypes.data for table in (groups, topics, metadata, topic_ids)]
        self._put(memory.TABLES, words)
        self._put(memory.MACHINE, [address("block", block, np.int64, memory.BLOCK_SIZE)])
        self._is_for("decode", rows, batches, others, *texts, *tables, block)

    def check(self, purpose: str) -> int:
        """Give the address of the words, for a function.

        Raises:
            ValueError: they are not for it, or lead out of the memory that there is: a caller's
                mistake, too.
        """
        if purpose not in (self._purpose, "follow"):
            raise ValueError(f"state: expected one for {purpose}, found one for {self._purpose}.")
        words = self.words.tolist()
        size = len(self.piece) - PADDING
        stand = [words[memory.PIECE], words[memory.POSITION], words[memory.WHOLE_END]]
        stand += [words[memory.READ_END], self._piece_at + size]
        if stand[0] != self._piece_at or stand != sorted(stand) or words[memory.END] > stand[2]:
            raise ValueError("state: expected positions in the piece and in order, found others.")
        if max(words[memory.READ_SIZE], words[memory.NEEDED_SIZE]) > size:
            raise ValueError("state: expected room for what is to be read, found less.")
        if any(words[used] > words[capacity] for used, capacity in _BOUNDS):
            raise ValueError("state: expected no more in use than there is, found more.")
        return self._at

    def _put(self, at: int, words: Sequence[int]) -> None:
        self.words[at : at + len(words)] = words

    def _is_for(self, purpose: str, *kept: object) -> None:
        self._purpose = purpose
        self._kept["columns"] = kept


def _addresses(
    columns: Rows | Batches | Others, kinds: Rows | Batches | Others, size: int
) -> list[int]:
    fields = zip(columns._fields, columns, kinds, strict=True)
    return [address(name, column, np.dtype(kind).type, size) for name, column, kind in fields]
