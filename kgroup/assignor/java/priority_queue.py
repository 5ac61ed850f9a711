"""The order of Java's PriorityQueue, whose iteration shows its heap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

_E = TypeVar("_E")


class PriorityQueue(Generic[_E]):
    """A binary heap with the layout of Java's.

    The priority is computed at each comparison: Kafka's assignors change it while elements are in
    the queue, and then the heap's layout decides what is polled.

    Source: `java.util.PriorityQueue` of OpenJDK 17.

    Args:
        elements: initial elements, in the order of the collection.
        priority: what is compared; the lowest is polled first.
    """

    def __init__(self, elements: Iterable[_E], priority: Callable[[_E], Any]) -> None:
        self._heap = list(elements)
        self._priority = priority
        for at in reversed(range(len(self._heap) // 2)):
            self._sift_down(at, self._heap[at])

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[_E]:
        return iter(self._heap)

    def offer(self, element: _E) -> None:
        """Insert an element."""
        self._heap.append(element)
        self._sift_up(len(self._heap) - 1, element)

    def poll(self) -> _E:
        """Remove and return the first element of a queue that is not empty."""
        first = self._heap[0]
        last = self._heap.pop()
        if self._heap:
            self._sift_down(0, last)
        return first

    def remove(self, element: _E) -> None:
        """Remove an element that is present."""
        at = self._heap.index(element)
        last = self._heap.pop()
        if at == len(self._heap):
            return
        self._sift_down(at, last)
        if self._heap[at] is last:
            self._sift_up(at, last)

    def _sift_up(self, at: int, element: _E) -> None:
        priority = self._priority(element)
        while at > 0:
            above = (at - 1) // 2
            if priority >= self._priority(self._heap[above]):
                break
            self._heap[at] = self._heap[above]
            at = above
        self._heap[at] = element

    def _sift_down(self, at: int, element: _E) -> None:
        priority = self._priority(element)
        size = len(self._heap)
        while at < size // 2:
            below = 2 * at + 1
            lowest = self._priority(self._heap[below])
            if below + 1 < size and lowest > (other := self._priority(self._heap[below + 1])):
                below, lowest = below + 1, other
            if priority <= lowest:
                break
            self._heap[at] = self._heap[below]
            at = below
        self._heap[at] = element
