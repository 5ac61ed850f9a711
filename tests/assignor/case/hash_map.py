"""Cases of Java's HashMap: what is done to a map, in whose order its keys are given in the end.

Texts of two letters hash to 31 * first + second, those of "Aa" and "BB" all to one number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from string import ascii_letters

from kgroup.assignor.java.java_hash import JavaHashMap, utf16
from kgroup.model.offsets_partition import string_hash

ORDERS = Path(__file__).parent / "answer" / "hash-map.json"
"""The keys of each map in Java's order, as they were recorded."""


Step = tuple[str, str]
"""One of "put", "compute" (`computeIfAbsent`) and "remove", and a key."""

_ONE_HASH = ["".join(pairs) for pairs in product(("Aa", "BB"), repeat=5)]
_ONE_BUCKET = [  # of any table of up to 64
    a + b for a, b in product(ascii_letters, repeat=2) if (31 * ord(a) + ord(b)) % 64 == 21
]
_NEXT_BUCKET = [
    a + b for a, b in product(ascii_letters, repeat=2) if (31 * ord(a) + ord(b)) % 64 == 22
]
_OF_BOTH_SIGNS = [  # their hashes; of one bucket of a table of up to 64
    text
    for text in (f"{kind}-{number}" for number in range(300) for kind in ("producer", "consumer"))
    if (string_hash(text) ^ (string_hash(text) & 0xFFFFFFFF) >> 16) % 64 == 21
]


@dataclass(frozen=True)
class MapCase:
    """A map, by the capacity that it is made with (None: the default) and what is done to it."""

    steps: Sequence[Step]
    capacity: int | None = None


def recorded_orders() -> dict[str, list[str]]:
    """Return the keys of each map, in Java's order."""
    return {name: keys.split() for name, keys in json.loads(ORDERS.read_text("utf-8")).items()}


def own_order(case: MapCase) -> list[str]:
    """Return the keys in the order of kgroup's map."""
    table = JavaHashMap[str](case.capacity)
    for kind, key in case.steps:
        if kind == "remove":
            table.remove(key)
        else:
            table.put(key, string_hash(key), utf16(key), prepend=kind == "compute")
    return list(table)


def _put(keys: Iterable[str]) -> list[Step]:
    return [("put", key) for key in keys]


def _compute(keys: Iterable[str]) -> list[Step]:
    return [("compute", key) for key in keys]


def _remove(keys: Iterable[str]) -> list[Step]:
    return [("remove", key) for key in keys]


def _at_random(seed: int, keys: Sequence[str], kinds: Sequence[str], most: int) -> list[Step]:
    """Put and remove; a map grows to about `most` keys.

    Of the generator only `random` is used, which gives the same with every version of Python.
    """
    draw = Random(seed).random
    present: list[str] = []
    steps: list[Step] = []
    for _ in range(120):
        key = keys[int(draw() * len(keys))]
        if key not in present:
            steps.append((kinds[int(draw() * len(kinds))], key))
            present.append(key)
        while present and draw() < len(present) / (2 * most):
            steps.append(("remove", present.pop(int(draw() * len(present)))))
    return steps


MAPS: Mapping[str, MapCase] = {
    "nothing": MapCase([]),
    "twelve keys in sixteen buckets": MapCase(_put(ascii_letters[:12])),
    "the thirteenth key doubles the table": MapCase(_put(ascii_letters[:26:2])),
    "a key that is there already stays where it is": MapCase(_put(["Aa", "BB", "Aa"])),
    "high bits of a hash count": MapCase(_put(["order-service", "payment", "clicks", "returns"])),
    "texts beyond the basic plane": MapCase(_put(["\U0001f600", "\uff5e", "\U00010000", "é"])),
    "a capacity of 0": MapCase(_put("cab"), 0),
    "a capacity of 1": MapCase(_put("cab"), 1),
    "a capacity of 3 is one of 4": MapCase(_put("dcba"), 3),
    "a capacity of 17 is one of 32": MapCase(_put("zyxwvutsrqponm"), 17),
    "keys of one hash, in the order of insertion": MapCase(_put(_ONE_HASH[3::-1])),
    "computed keys come first in their bucket": MapCase(_compute(_ONE_HASH[:4])),
    "a computed key before one that was put": MapCase(
        [("put", "Aa"), ("compute", "BB"), ("put", "C#")]
    ),
    "thirteen computed keys do not double the table yet": MapCase(_compute(ascii_letters[:26:2])),
    "the call after thirteen does, also for a key that is there": MapCase(
        _compute([*ascii_letters[:26:2], "a"])
    ),
    "the call after thirteen does not, if one is gone": MapCase(
        [*_compute(ascii_letters[:26:2]), ("remove", "y"), ("compute", "a")]
    ),
    "a table does not shrink": MapCase(
        [*_put(ascii_letters[:26]), *_remove(ascii_letters[4:26]), *_put("Q")]
    ),
    "eight keys of one bucket": MapCase(_put(_ONE_BUCKET[:8])),
    "nine keys of one bucket double the table": MapCase(_put([*_ONE_BUCKET[:9], *"hijkHIJK"])),
    "eight computed keys of one bucket double it": MapCase(
        [*_compute(_ONE_BUCKET[:8]), *_put("hijkHIJK")]
    ),
    "seven computed keys of one bucket do not": MapCase(
        [*_compute(_ONE_BUCKET[:7]), *_put("hiHI")]
    ),
    "eight keys of one bucket of 64 are no tree": MapCase(_put(_ONE_BUCKET[7::-1]), 64),
    "nine are": MapCase(_put(_ONE_BUCKET[8::-1]), 64),
    "eight are, if the last was computed": MapCase(
        [*_put(_ONE_BUCKET[7:0:-1]), ("compute", _ONE_BUCKET[0])], 64
    ),
    "a tree of ascending hashes": MapCase(_put(sorted(_ONE_BUCKET, key=_ONE_BUCKET.index)), 64),
    "a tree of descending hashes": MapCase(_put(_ONE_BUCKET[::-1]), 64),
    "a tree of hashes of both signs": MapCase(_put(_OF_BOTH_SIGNS), 64),
    "a tree of keys of one hash": MapCase(_put(_ONE_HASH[:14])),
    "a tree of keys of one hash, backwards": MapCase(_put(_ONE_HASH[13::-1])),
    "a tree of keys of one hash, computed": MapCase(_compute(_ONE_HASH[:14:2] + _ONE_HASH[1:14:2])),
    "a key that is in a tree already": MapCase(_put([*_ONE_HASH[:12], _ONE_HASH[5]])),
    "the root of a tree is removed": MapCase(
        [*_put(_ONE_BUCKET[:20]), ("remove", _ONE_BUCKET[7])], 64
    ),
    "a tree with few left is a chain again": MapCase(
        [*_put(_ONE_BUCKET[:11]), *_remove(_ONE_BUCKET[2:9]), *_put(_ONE_BUCKET[2:4])], 64
    ),
    "a tree of which nothing is left": MapCase(
        [*_put(_ONE_HASH[:12]), *_remove(_ONE_HASH[:12]), *_put(_ONE_HASH[3:0:-1])]
    ),
    "a doubling table splits a tree into two": MapCase(
        _put([*_ONE_BUCKET[:30], *_NEXT_BUCKET[:21]]), 64
    ),
    "a doubling table splits a tree into chains": MapCase(
        _put([*_ONE_BUCKET[:10], *_NEXT_BUCKET[:10], *ascii_letters]), 64
    ),
    "a doubling table leaves a tree of one hash whole": MapCase(
        _put([*_ONE_HASH[:14], *ascii_letters]), 64
    ),
    **{
        f"puts and removals at random, {what} {seed}": MapCase(
            _at_random(seed, keys, kinds, most), capacity
        )
        for seed in range(6)
        for what, keys, kinds, most, capacity in (
            ("one bucket", _ONE_BUCKET, ["put"], 20, 64),
            ("one hash, computed", _ONE_HASH, ["compute"], 16, None),
            ("two buckets", _ONE_BUCKET + _NEXT_BUCKET, ["put", "compute"], 40, None),
        )
    },
}
