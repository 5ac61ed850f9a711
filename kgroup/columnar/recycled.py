"""Memory that is used again when nobody uses it any more.

The system clears memory before it gives it to a process, page by page: that takes as long as to
fill it with columns.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import Any
from weakref import ref

import numpy as np

__all__ = ["keep_freed_memory", "recycled"]

_Array = np.ndarray[Any, Any]

_STEP = 1 << 19
"""Sizes are multiples of this, so that there are few."""

_MOST_FREE = 128 << 20
"""Bytes that are kept for use, about."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of glibc's `mallopt`."""

_THP_DISABLE = 41
"""Number of Linux's `prctl`."""

_free: defaultdict[int, list[_Array]] = defaultdict(list)
_lent: dict[int, tuple[ref[_Array], _Array]] = {}


def recycled(size: int) -> _Array:
    """Give an array of so many bytes; they come back when no array or buffer views them."""
    room = -(-size // _STEP) * _STEP
    free = _free[room]
    try:
        memory = free.pop()
    except IndexError:
        memory = np.empty(room, np.uint8)
    # views of an array that views no other array keep it alive, not what it views
    array = np.frombuffer(memory.data, np.uint8)
    lent = ref(array, _take_back)
    _lent[id(lent)] = lent, memory
    return array[:size]


def _take_back(lent: ref[_Array]) -> None:
    _, memory = _lent.pop(id(lent))
    if sum(size * len(free) for size, free in list(_free.items())) < _MOST_FREE:
        _free[len(memory)].append(memory)


def keep_freed_memory() -> None:
    """Have the C library keep what libraries free, too, and the system give small pages.

    A virtual machine hands free huge pages back; to get them again takes several times as long as
    to get small ones. Processes that this one starts inherit it. This does nothing where the
    library is not glibc, or the system not Linux.
    """
    library = ctypes.CDLL(None)
    try:
        mallopt, prctl = library.mallopt, library.prctl
    except AttributeError:
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
    mallopt(_TRIM_THRESHOLD, _MOST_FREE)
    prctl(_THP_DISABLE, 1, 0, 0, 0)
