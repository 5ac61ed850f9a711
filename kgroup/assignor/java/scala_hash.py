"""Iteration order of Scala's hash maps and sets.

Kafka 0.8 is written in Scala. The order of Scala's collections affects the round-robin assignor for
equal hashes, and the messages about an invalid group:

- An immutable `Map` or `Set` of up to four keys keeps the order of insertion. A larger one is a
  trie, ordered by the lowest five bits of the mixed hash, then by the next five, and so on.
- In a `mutable.HashMap`, the highest bits of the mixed hash select the bucket. Iteration goes from
  the last bucket to the first. A new key goes to the front of its bucket, also when the table
  doubles, which happens when it is more than three quarters full.

Source: `scala.collection.immutable.HashMap`, `HashSet`, `scala.collection.mutable.HashTable` and
`scala.util.hashing.MurmurHash3` of Scala 2.11.5, which Kafka 0.8.2.2 uses.
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
"""Bits of a mutable table's initial size; hashes are rotated by this number at all sizes."""


def case_class_hash(text: str, number: int) -> int:
    """Return `hashCode` of a case class with a String and an Int: MurmurHash3 of both."""
    value = 0xCAFEBABE
    for part in (string_hash(text), number):
        mixed = _rotate_left((part & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
        value = (_rotate_left(value ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    value ^= 2  # number of fields
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def immutable_order(keys: Sequence[_K], hashes: Sequence[int], *, of_set: bool = False) -> list[_K]:
    """Return distinct keys in the order of an immutable map.

    Args:
        keys: keys in the order of insertion.
        hashes: Scala hash codes of the keys.
        of_set: use the order of a set, which has the last of keys with equal hashes first.
    """
    if len(keys) <= _SMALL:
        return list(keys)
    mixed = [_mix_for_trie(code) for code in hashes]
    walk = [tuple(code >> level & 31 for level in _LEVELS) for code in mixed]
    put = range(len(keys) - 1, -1, -1) if of_set else range(len(keys))
    return [keys[at] for at in sorted(put, key=walk.__getitem__)]


def champ_order(keys: Sequence[_K], hashes: Sequence[int]) -> list[_K]:
    """Return distinct keys in the order of an `immutable.HashMap` of Scala 2.13, of any size.

    A node of its trie has keys and child nodes, each ordered by five bits of the mixed hash; keys
    come first.

    Args:
        keys: keys in the order of insertion.
        hashes: Scala hash codes of the keys.
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
    return walk([(_mix_for_trie(code), key) for key, code in pairs], 0)


def mutable_order(texts: Iterable[str]) -> list[str]:
    """Return distinct strings in the order of a `mutable.HashMap`.

    Args:
        texts: strings in the order of insertion; a repetition has no effect.
    """
    size = 16
    buckets: dict[int, list[str]] = {}
    for count, text in enumerate(dict.fromkeys(texts), 1):
        buckets.setdefault(mutable_bucket(text, size), []).insert(0, text)
        if count > size * 3 // 4:
            size *= 2
            walk, buckets = _walk(buckets), {}
            for key in walk:
                buckets.setdefault(mutable_bucket(key, size), []).insert(0, key)
    return _walk(buckets)


def _walk(buckets: dict[int, list[str]]) -> list[str]:
    return [text for _, chain in sorted(buckets.items(), reverse=True) for text in chain]


def mutable_bucket(text: str, size: int) -> int:
    """Return the bucket of a string in a `mutable.HashMap` with this number of buckets."""
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
