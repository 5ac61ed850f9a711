"""The memory of a table of distinct byte strings, which `byte_table` fills."""

from __future__ import annotations

import numpy as np

from kgroup.kernel import memory


class StringTable:
    """Distinct byte strings, numbered in the order of their coming.

    Args:
        slots: a power of two; there is room for half as many strings.
        capacity: bytes of strings that there is room for.

    Attributes:
        words: what compiled code knows it by (`memory.Table`).
        at: their address.
        ends: where each string ends in the text (int32); the first is 0.
        text: the strings, one after another (uint8).
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
        """How many strings there are."""
        return int(self.words["count"])
