"""Memory of a table of distinct byte strings, which `byte_table` fills."""

from __future__ import annotations

import numpy as np

from kgroup.kernel import memory


class StringTable:
    """Distinct byte strings, numbered in order of insertion.

    Args:
        slots: number of slots, a power of two; there is room for half as many strings.
        capacity: maximum total bytes of the strings.

    Attributes:
        words: fields for compiled code (`memory.Table`).
        at: address of the fields.
        ends: end of each string in the text (int32); the first element is 0.
        text: the strings, concatenated (uint8).
    """

    def __init__(self, slots: int, capacity: int) -> None:
        if slots < 1 or slots & (slots - 1):
            raise ValueError(f"slots: expected a power of two, found {slots}.")
        self.slots = slots
        self.capacity = capacity
        self._numbers = np.zeros(slots, np.int64)
        self.ends = np.zeros(slots // 2 + 2, np.int32)
        self.text = np.empty(capacity + memory.PADDING, np.uint8)
        record = np.zeros(1, memory.layout(memory.Table))
        self.at = int(record.ctypes.data)
        self.words = record[0]
        self.words["slots"] = self._numbers.ctypes.data
        self.words["mask"] = slots - 1
        self.words["ends"] = self.ends.ctypes.data
        self.words["ends_capacity"] = len(self.ends)
        self.words["text"] = self.text.ctypes.data
        self.words["text_capacity"] = capacity

    @property
    def count(self) -> int:
        """Number of strings."""
        return int(self.words["count"])
