"""In which order a coordinator since 4.0 walks over a map of which it keeps older versions too.

It decides ties between members when the coordinator assigns: it puts them into a `HashMap` so.

Source: `TimelineHashMap`, `SnapshottableHashTable` and `BaseHashTable` of kafka-server-common
4.3.1: slots by Fibonacci hashing, twice as many when three quarters of what is to come would be
more than there are; what came into a slot last is met first.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.model.offsets_partition import string_hash

_FACTOR = -7046029254386353131
_MOST_NAMES = 0.75


class TimelineTable:
    """Names in the order of a `TimelineHashMap`."""

    def __init__(self) -> None:
        self._size = 2
        self._slots: dict[int, list[str]] = {}
        self._count = 0

    def put(self, name: str) -> None:
        """Put a name; one that is there stays where it is, but may make the table grow."""
        if (self._count + 1) * _MOST_NAMES > self._size:
            self._grow()
        slot = self._slots.setdefault(self._slot(name), [])
        if name not in slot:
            slot.append(name)
            self._count += 1

    def remove(self, name: str) -> None:
        """Remove a name that is there."""
        index = self._slot(name)
        self._slots[index].remove(name)
        if not self._slots[index]:
            del self._slots[index]
        self._count -= 1

    def __iter__(self) -> Iterator[str]:
        for _, slot in sorted(self._slots.items()):
            yield from reversed(slot)

    def _grow(self) -> None:
        slots = [slot for _, slot in sorted(self._slots.items())]
        self._size *= 2
        self._slots = {}
        for slot in slots:
            for name in slot:
                self._slots.setdefault(self._slot(name), []).append(name)

    def _slot(self, name: str) -> int:
        bits = self._size.bit_length() - 1
        return (string_hash(name) * _FACTOR & (1 << 64) - 1) >> 64 - bits
