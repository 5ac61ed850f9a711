"""The order in which Scala's hash maps and sets give their keys.

Kafka 0.8 is written in Scala, and where the round-robin assignor meets equal hashes, or says what
is wrong with a group, the order of Scala's collections is part of its answer:

- an immutable `Map` or `Set` of up to four keys keeps the order of insertion; a larger one is a
  trie that is walked by the lowest five bits of the mixed hash, then by the next five, and so on;
- a `mutable.HashMap` is a table whose bucket is given by the highest bits of the mixed hash. It is
  walked from the last bucket to the first. A new key comes first in its bucket, also when the
  table doubles, which happens when it is more than three quarters full.

Source: `scala.collection.immutable.HashMap`, `HashSet`, `scala.collection.mutable.HashTable` and
`scala.util.hashing.MurmurHash3` of Scala 2.11.5, which Kafka 0.8.2.2 runs on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from kgroup.model.offsets_partition import string_hash

_K = TypeVar("_K", bound=Hashable)

_MASK = 0xFFFFFFFF
_SMALL = 4
_LEVELS = range(0, 32, 5)
_SEED = 4
"""Bits of the size that a mutable table begins with; its hashes are rotated by as many for good."""


def case_class_hash(text: str, number: int) -> int:
    """Return `hashCode` of a case class with a String and an Int: MurmurHash3 over both."""
    value = 0xCAFEBABE
    for part in (string_hash(text), number):
        mixed = _rotate_left((part & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
        value = (_rotate_left(value ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    value ^= 2  # fields
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def immutable_order(keys: Sequence[_K], hashes: Sequence[int], *, of_set: bool = False) -> list[_K]:
    """Order keys, each there once, as an immutable map does into which they are put one by one.

    Args:
        keys: in the order in which they are put.
        hashes: Scala's, of each key.
        of_set: whether they are put into a set; of keys with one hash it gives the last one first.
    """
    if len(keys) <= _SMALL:
        return list(keys)
    mixed = [_mix_for_trie(each) for each in hashes]
    walk = [tuple(each >> level & 31 for level in _LEVELS) for each in mixed]
    put = range(len(keys) - 1, -1, -1) if of_set else range(len(keys))
    return [keys[at] for at in sorted(put, key=walk.__getitem__)]


def champ_order(keys: Sequence[_K], hashes: Sequence[int]) -> list[_K]:
    """Order keys, each there once, as an `immutable.HashMap` of Scala 2.13 does, of any size.

    A node of its trie has keys and nodes below, each in the order of five bits of the mixed hash,
    and is walked keys first.

    Args:
        keys: in the order in which they are put.
        hashes: Scala's, of each key.
    """

    def walk(group: list[tuple[int, _K]], level: int) -> list[_K]:
        slots: dict[int, list[tuple[int, _K]]] = {}
        for mixed, key in group:
            slots.setdefault(mixed >> level & 31, []).append((mixed, key))
        if level >= 32:
            return [key for _, key in group]
        alone = [slot[0][1] for _, slot in sorted(slots.items()) if len(slot) == 1]
        for _, slot in sorted(slots.items()):
            if len(slot) > 1:
                alone += walk(slot, level + 5)
        return alone

    pairs = zip(keys, hashes, strict=True)
    return walk([(_mix_for_trie(each), key) for key, each in pairs], 0)


def mutable_order(texts: Iterable[str]) -> list[str]:
    """Order texts as a `mutable.HashMap` does into which they are put one by one.

    Args:
        texts: in the order in which they are put; one that is there already stays where it is.
    """
    size = 16
    buckets: dict[int, list[str]] = {}
    for count, text in enumerate(dict.fromkeys(texts), 1):
        buckets.setdefault(mutable_bucket(text, size), []).insert(0, text)
        if count > size * 3 // 4:
            size *= 2
            walk, buckets = _walk(buckets), {}
            for each in walk:
                buckets.setdefault(mutable_bucket(each, size), []).insert(0, each)
    return _walk(buckets)


def _walk(buckets: dict[int, list[str]]) -> list[str]:
    return [text for _, chain in sorted(buckets.items(), reverse=True) for text in chain]


def mutable_bucket(text: str, size: int) -> int:
    """Return the bucket of a text in a `mutable.HashMap` of so many."""
    value = string_hash(text) * 0x9E3775CD & _MASK
    value = int.from_bytes(value.to_bytes(4, "little"), "big") * 0x9E3775CD & _MASK
    rotated = _rotate_left(value, 32 - _SEED)
    return rotated >> 32 - (size - 1).bit_length()


def _mix_for_trie(hash_code: int) -> int:
    value = hash_code & _MASK
    value = value + ~(value << 9) & _MASK
    value ^= value >> 14
    value = value + (value << 4) & _MASK
    return value ^ value >> 10


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
