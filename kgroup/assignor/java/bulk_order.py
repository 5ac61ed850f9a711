"""Iteration order of many Java hash maps at once, computed with arrays.

A group with a million partitions has a million small sets; this module creates none of them. All
keys are in one array, sorted by map and bucket. The rules are those of `java_hash`. A map with a
bucket that may have become a tree is rebuilt there, key by key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kgroup.assignor.java.java_hash import CROWD, TABLE, JavaHashMap

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def bulk_order(
    maps: Ints,
    hashes: Ints,
    capacity: Ints | int = TABLE,
    *,
    removals: Ints | None = None,
    late: Flags | None = None,
    prepend: bool = False,
    called_again: Flags | bool = False,
    order: Callable[[int], bytes] | None = None,
) -> Ints:
    """Return the indices of all keys, map by map, in the final iteration order of the maps.

    The steps for each map: put the early keys, remove some of them, then put the late keys.

    Args:
        maps: map number of each key, ascending; the keys of a map are in the order of insertion.
        hashes: Java hash codes of the keys.
        capacity: initial capacity of each map.
        removals: sequence number of each key's removal; negative for keys that stay, such as all
            late keys. None to remove no key.
        late: whether each key is put after the removals; late keys follow the others of their
            map. None for no late keys.
        prepend: late keys are put by `computeIfAbsent`.
        called_again: whether a present key was put by `computeIfAbsent` after all late keys, by
            map.
        order: returns what `compareTo` compares, by a key's index; None for a class without it.
    """
    count = len(maps)
    if not count:
        return maps
    removals = np.full(count, -1) if removals is None else removals
    removed = removals >= 0
    late = np.zeros(count, np.bool_) if late is None else late
    put = np.bincount(maps, minlength=np.size(capacity))
    gone = np.bincount(maps[removed], minlength=len(put))
    early = put - np.bincount(maps[late], minlength=len(put))
    capacities = np.full(len(put), capacity, np.int64)
    again = np.full(len(put), called_again, np.bool_)
    # `computeIfAbsent` doubles a full table only at the next call, if there is one
    peaks = np.maximum(early, put - gone - (prepend & ~again))
    begin = np.left_shift(1, np.frexp(np.maximum(capacities - 1, 0))[1].astype(np.int64))
    sizes = begin.copy()
    while (is_full := peaks > sizes * 3 // 4).any():
        sizes[is_full] *= 2
    unsigned = hashes & 0xFFFFFFFF
    spreads = unsigned ^ unsigned >> 16
    buckets = np.cumsum(sizes)[maps] - sizes[maps] + (spreads & (sizes[maps] - 1))
    at = np.arange(count)
    chained = np.where(late, -1 - at, at) if prepend else at
    ordered: Ints = np.sort(buckets * (2 * count) + chained + count) % (2 * count) - count
    ordered = np.where(ordered < 0, -1 - ordered, ordered)
    ordered = ordered[~removed[ordered]]
    starts, live_ends = np.cumsum(put) - put, np.cumsum(put - gone)
    for number in _crowded(maps, spreads, begin, sizes, gone):
        start, end = int(starts[number]), int(starts[number] + put[number])
        went = np.argsort(removals[start:end])[put[number] - gone[number] :]
        replayed = _replayed(
            int(capacities[number]),
            tuple(hashes[start:end].tolist()),
            () if order is None else tuple(map(order, range(start, end))),
            tuple(went.tolist()),
            int(early[number]),
            prepend,
            bool(again[number]),
        )
        ordered[live_ends[number] - len(replayed) : live_ends[number]] = start + np.array(replayed)
    return ordered


@lru_cache(maxsize=1 << 12)  # many sets are equal, such as those of every 64th partition
def _replayed(
    capacity: int,
    hashes: tuple[int, ...],
    texts: tuple[bytes, ...],
    removed: tuple[int, ...],
    early: int,
    prepend: bool,
    called_again: bool,
) -> list[int]:
    """Return the order of one map; keys are removed after the `early` ones were put."""
    steps = [(key, False) for key in range(early)]
    steps += [(~key, False) for key in removed]
    steps += [(key, prepend) for key in range(early, len(hashes))]
    steps += [(len(hashes) - 1, prepend)] if called_again else []
    table = JavaHashMap[int](capacity)
    for key, is_first in steps:
        if key < 0:
            table.remove(~key)
        else:
            table.put(key, hashes[key], texts[key] if texts else b"", prepend=is_first)
    return list(table)


def _crowded(maps: Ints, spreads: Ints, begin: Ints, sizes: Ints, gone: Ints) -> list[int]:
    """Return the maps in which a bucket may have been crowded, at any size of the table."""
    crowded = set[int]()
    some = (np.bincount(maps) >= CROWD)[maps]
    if not some.any():
        return []
    maps, spreads = maps[some], spreads[some]
    rank = ranks_within(maps)
    size = int(begin.min())
    while len(maps) and size <= sizes.max():
        has_size = (begin <= size) & (size <= sizes)
        keys = has_size[maps] & (rank <= size * 3 // 4 + gone[maps])
        buckets = np.sort(maps[keys] * size + (spreads[keys] & (size - 1)))
        behind = buckets[CROWD - 1 :]
        crowded.update((behind[behind == buckets[: len(behind)]] // size).tolist())
        size *= 2
    return sorted(crowded)


def ranks_within(groups: Ints) -> Ints:
    """Return the position of each element in its group, from 0; group numbers are ascending."""
    counts = np.bincount(groups)
    return np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)


def first_seen(keys: Ints) -> tuple[Ints, Ints]:
    """Number distinct keys in the order of their first occurrence.

    Returns:
        the number of each key, and the index of the first occurrence of each number.
    """
    order = stable_order(keys)
    is_new = np.diff(keys[order], prepend=-1) != 0
    firsts = order[is_new]
    by_first = stable_order(firsts)
    numbers = np.empty_like(firsts)
    numbers[by_first] = np.arange(len(firsts))
    of_key = np.empty_like(keys)
    of_key[order] = numbers[np.cumsum(is_new) - 1]
    return of_key, firsts[by_first]


def stable_order(keys: Ints) -> Ints:
    """Return the indices that sort non-negative keys; equal keys keep their order."""
    count = len(keys)
    if not count or int(keys.max()) >= (1 << 63) // count - 1:
        return np.argsort(keys, kind="stable")
    return np.sort(keys * count + np.arange(count)) % count  # many times faster
