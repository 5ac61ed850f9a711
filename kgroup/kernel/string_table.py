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
        words: what compiled code knows it by (int64; see `memory`).
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
        self.words = np.zeros(memory.TABLE_SIZE, np.int64)
        self.words[memory.TABLE_SLOTS] = self._numbers.ctypes.data
        self.words[memory.TABLE_MASK] = slots - 1
        self.words[memory.TABLE_ENDS] = self.ends.ctypes.data
        self.words[memory.TABLE_ENDS_CAPACITY] = len(self.ends)
        self.words[memory.TABLE_TEXT] = self.text.ctypes.data
        self.words[memory.TABLE_TEXT_CAPACITY] = capacity

    @property
    def count(self) -> int:
        """How many strings there are."""
        return int(self.words[memory.TABLE_COUNT])
