"""State of a walk over a chunk of a log: words for compiled code, and the memory they refer to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kgroup.kernel import memory
from kgroup.kernel.address import address
from kgroup.kernel.memory import PADDING, Batches, Others, Rows
from kgroup.kernel.string_table import StringTable
from kgroup.protocol.batch.batch import MAX_BATCH_SIZE

_MOVED = ("piece", "position", "end", "whole_end", "read_end")
_BOUNDS = (
    ("rows", "row_capacity"),
    ("batches", "row_capacity"),
    ("others", "other_capacity"),
    ("key_json_used", "key_json_capacity"),
    ("value_json_used", "value_json_capacity"),
)
"""Fields for used sizes and their capacities."""


class WalkState:
    """State of one walk. Addresses and capacities are set only here, and kept valid.

    Args:
        file: file descriptor.
        start: position of the first byte.
        end: position after the last byte.
        read_size: bytes to read at once.
        is_unpacked: whether to unpack compressed batches.

    Attributes:
        words: fields for compiled code (`memory.Walk`).
        piece: bytes read, from the start of a batch on, and `PADDING` (uint8).
    """

    def __init__(
        self, file: int, start: int, end: int, read_size: int, is_unpacked: bool = False
    ) -> None:
        record = np.zeros(1, memory.layout(memory.Walk))
        self._at = int(record.ctypes.data)
        self.words = record[0]
        self.words["largest_batch"] = MAX_BATCH_SIZE
        self.words["file"] = file
        self.words["file_base"] = start
        self.words["chunk_end"] = end
        self.words["read_size"] = read_size
        self.words["is_unpacked"] = is_unpacked
        self._purpose = "follow"
        self._kept: dict[str, object] = {}
        self.piece = np.empty(0, np.uint8)
        self._piece_at = 0
        self.enlarge(read_size)

    def enlarge(self, size: int) -> None:
        """Allocate memory for a piece of this size; bytes read already are kept."""
        larger = np.empty(size + PADDING, np.uint8)
        used = int(self.words["read_end"]) - self._piece_at
        larger[:used] = self.piece[:used]
        shift = larger.ctypes.data - self._piece_at
        for name in _MOVED:
            self.words[name] += shift
        self.words["file_base"] -= shift
        self.piece = larger
        self._piece_at += shift

    def unpack(self, records: NDArray[np.uint8]) -> None:
        """Set the records of the compressed batches up to END, followed by `PADDING`."""
        self.words["unpacked"] = at = address("records", records, np.uint8, PADDING)
        self.words["unpacked_end"] = at + len(records) - PADDING
        self._kept["records"] = records

    def want(self, locators: NDArray[np.int64]) -> None:
        """Set the locators of the wanted records from the next batch on, sorted."""
        self.words["keep"] = at = address("locators", locators, np.int64)
        self.words["keep_end"] = at + locators.nbytes
        self._kept["wanted"] = locators

    def count_in(self, counts: NDArray[np.int64]) -> None:
        """Set the array for `scan`: a pair of words for each of `memory.KINDS` kinds of batches."""
        self.words["counts"] = address("counts", counts, np.int64, 2 * memory.KINDS)
        self._is_for("scan", counts)

    def list_in(
        self, hashes: NDArray[np.int64], locators: NDArray[np.int64], batches: Batches
    ) -> None:
        """Set the columns for `list_keys`; as many records and batches fit as there are hashes."""
        self.words["row_capacity"] = rows = len(hashes)
        self.words["hashes"] = address("hashes", hashes, np.int64)
        self.words["locators"] = address("locators", locators, np.int64, rows)
        self.words["batch_columns"] = _addresses(batches, Batches(), rows)
        self._is_for("list_keys", hashes, locators, batches)

    def decode_in(
        self,
        rows: Rows,
        batches: Batches,
        others: Others,
        texts: Sequence[NDArray[np.uint8]],
        tables: Sequence[StringTable],
        machine: NDArray[np.void],
    ) -> None:
        """Set the memory for `decode`.

        Args:
            rows: columns; as many rows, and as many batches, fit as there are flags.
            batches: columns.
            others: columns; as many rows fit as there are flags.
            texts: memory for key_json and value_json, each followed by `PADDING`.
            tables: tables of groups, topics, metadata and topic ids.
            machine: runs the programs of records (`schema_program.machine`).
        """
        (key_json, value_json), (groups, topics, metadata, topic_ids) = texts, tables
        self.words["row_capacity"] = size = len(rows.flags)
        self.words["other_capacity"] = len(others.flags)
        self.words["row_columns"] = _addresses(rows, Rows(), size)
        self.words["batch_columns"] = _addresses(batches, Batches(), size)
        self.words["other_columns"] = _addresses(others, Others(), len(others.flags))
        for name, text in (("key_json", key_json), ("value_json", value_json)):
            self.words[name] = address(name, text, np.uint8, PADDING)
            self.words[f"{name}_capacity"] = len(text) - PADDING
        self.words["tables"] = [table.at for table in (groups, topics, metadata, topic_ids)]
        if machine.dtype != memory.layout(memory.Machine):
            raise ValueError(f"machine: expected a machine, found {machine.dtype}.")
        self.words["machine"] = machine.ctypes.data
        self._is_for("decode", rows, batches, others, *texts, *tables, machine)

    def check(self, purpose: str) -> int:
        """Return the address of the words, for a function.

        Raises:
            ValueError: the state is for another function, or refers to memory outside its arrays.
                This is a bug in the caller, too.
        """
        if purpose not in (self._purpose, "follow"):
            raise ValueError(f"state: expected one for {purpose}, found one for {self._purpose}.")
        words = self.words
        end = self._piece_at + len(self.piece) - PADDING
        stand = [words["piece"], words["position"], words["whole_end"], words["read_end"], end]
        if stand[0] != self._piece_at or stand != sorted(stand) or words["end"] > stand[2]:
            raise ValueError("state: expected positions in the piece and in order, found others.")
        if max(words["read_size"], words["needed_size"]) > end - self._piece_at:
            raise ValueError("state: expected room for what is to be read, found less.")
        if any(words[used] > words[capacity] for used, capacity in _BOUNDS):
            raise ValueError("state: expected no more in use than there is, found more.")
        return self._at

    def _is_for(self, purpose: str, *kept: object) -> None:
        self._purpose = purpose
        self._kept["columns"] = kept


def _addresses(
    columns: Rows | Batches | Others, kinds: Rows | Batches | Others, size: int
) -> tuple[int, ...]:
    fields = zip(columns._fields, columns, kinds, strict=True)
    return tuple(address(name, column, np.dtype(kind).type, size) for name, column, kind in fields)
