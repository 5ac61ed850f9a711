"""Java's hashes, and the order in which its HashMap and HashSet give their keys.

Assignors of Kafka's Java client walk hash maps, so this order is part of their answers. A table of
`2^n` buckets holds a key in the bucket of its spread hash; walking it goes bucket by bucket, and in
a bucket in the order of its chain:

- `put` appends to the chain, `computeIfAbsent` prepends;
- the table doubles when it holds more than three quarters of its size (`computeIfAbsent` looks for
  that before it inserts, `put` after), which splits each chain in two and keeps the order in both;
- a chain that a ninth key joins (by `computeIfAbsent` an eighth) becomes a red-black tree by hash,
  and by `compareTo` where hashes are equal, if the table has 64 buckets; else the table doubles. A
  tree's nodes are still chained: a new one comes behind its parent, and the root is moved to the
  front after every insertion and removal. A tree that is small when a key is removed becomes a
  plain chain again, in that order.

Source: `java.util.HashMap` of OpenJDK 17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from kgroup.model.offsets_partition import java_int, string_hash

_K = TypeVar("_K")

TABLE = 16
"""Buckets of a map that is made without a capacity."""

_TREE_FROM = 9
_TREE_TABLE = 64
_UNTREE_TO = 6
CROWD = 8
"""Keys in a bucket from which on trees, and tables that grow early, have to be thought of."""


def topic_partition_hash(topic_hash: int, partition: int) -> int:
    """Return ``TopicPartition.hashCode`` of Kafka, given the hash of the topic's name."""
    return java_int(31 * (31 + partition) + topic_hash)


def utf16(text: str) -> bytes:
    """Return a key that sorts texts as ``String.compareTo`` does: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(
    texts: Iterable[str], capacity: int | None = None, *, prepend: bool = False
) -> list[str]:
    """Give texts, each once, in the order of a hash map into which they are put one by one.

    Args:
        texts: in the order in which they are put.
        capacity: that the map is made with; None: the default.
        prepend: put by `computeIfAbsent`.
    """
    return map_order(list(texts), _cached_hash, capacity, prepend=prepend, order=utf16)


def map_order(
    calls: Sequence[_K],
    hash_code: Callable[[_K], int],
    capacity: int | None = None,
    *,
    prepend: bool = False,
    order: Callable[[_K], bytes] | None = None,
) -> list[_K]:
    """Give keys, each once, in the order of a hash map into which they are put one by one.

    Args:
        calls: the keys in the order in which they are put.
        hash_code: Java's, of a key.
        capacity: that the map is made with; None: the default.
        prepend: put by `computeIfAbsent`.
        order: what `compareTo` compares; None for a class that has none.
    """
    keys = list(dict.fromkeys(calls))
    if not keys:
        return keys
    unsigned = [each & 0xFFFFFFFF for each in map(hash_code, keys)]
    spreads = [each ^ each >> 16 for each in unsigned]
    # `computeIfAbsent` lets a full table grow at the next call, if there is one
    counted = len(keys) - (prepend and calls[-1] == keys[-1] and calls.count(keys[-1]) == 1)
    size = uncrowded_size(spreads, counted, capacity)
    if size is not None:
        buckets = [each & (size - 1) for each in spreads]
        indices = range(len(keys) - 1, -1, -1) if prepend else range(len(keys))
        return [keys[at] for at in sorted(indices, key=buckets.__getitem__)]
    table = JavaHashMap[_K](capacity)
    for key in calls:
        table.put(key, hash_code(key), order(key) if order else b"", prepend=prepend)
    return list(table)


def uncrowded_size(
    spreads: Sequence[int], count: int, capacity: int | None, removed: int = 0
) -> int | None:
    """Return how many buckets a map has in the end, None if one of them was crowded on the way.

    As long as none is, a map's order is that of the buckets, and in each that of the insertions.

    Args:
        spreads: spread hashes of the keys, in the order in which they are put.
        count: the most keys that made the table grow.
        capacity: that the map is made with; None: the default.
        removed: how many of the keys were removed again on the way.
    """
    size = _table_size(capacity)
    while True:
        room = size * 3 // 4
        buckets = [each & (size - 1) for each in spreads[: room + 1 + removed]]
        if len(buckets) >= CROWD and max(Counter(buckets).values()) >= CROWD:
            return None
        if count <= room:
            return size
        size *= 2


def spread(hash_code: int) -> int:
    """Return what a map makes of Java's hash of a key, so that high bits count too."""
    unsigned = hash_code & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16


def _table_size(capacity: int | None) -> int:
    """Return how many buckets a map begins with that is made with a capacity."""
    return TABLE if capacity is None else 1 << max(capacity - 1, 0).bit_length()


@lru_cache(maxsize=1 << 16)
def _cached_hash(text: str) -> int:
    return string_hash(text)


@dataclass(slots=True, eq=False)
class _Node(Generic[_K]):
    """A key in a chain; `order` is what `compareTo` compares. The rest is set in a tree only."""

    key: _K
    hash: int
    order: bytes
    parent: _Node[_K] | None = field(init=False)
    below: list[_Node[_K] | None] = field(init=False)
    is_red: bool = field(init=False)

    def side_below(self, other: _Node[_K]) -> int:
        """Return the side, 0 or 1, on which this node goes into the tree below another one."""
        if self.hash != other.hash:
            return java_int(self.hash) > java_int(other.hash)
        return self.order > other.order


@dataclass(slots=True)
class _Bucket(Generic[_K]):
    """The chain of one bucket, in its order, and the root of its tree if it is one."""

    chain: list[_Node[_K]]
    root: _Node[_K] | None = None

    def treeify(self) -> None:
        self.root = None
        for node in self.chain:
            self._insert(node)
        self._move_root_to_front()

    def add_to_tree(self, node: _Node[_K]) -> None:
        self.chain.insert(self.chain.index(self._insert(node)) + 1, node)
        self._move_root_to_front()

    def remove(self, node: _Node[_K]) -> None:
        self.chain.remove(node)
        if self.root is None:
            return
        left, right = self.root.below
        if right is None or left is None or left.below[0] is None:
            self.root = None
        else:
            self._take_out(node)
            self._move_root_to_front()

    def _move_root_to_front(self) -> None:
        assert self.root is not None
        if self.chain[0] is not self.root:
            self.chain.remove(self.root)
            self.chain.insert(0, self.root)

    def _insert(self, node: _Node[_K]) -> _Node[_K]:
        """Put a node into the tree and balance it; give the parent that it was put below."""
        parent, side, at = None, 0, self.root
        while at is not None:
            parent, side = at, node.side_below(at)
            at = at.below[side]
        node.parent = parent
        node.below = [None, None]
        node.is_red = True
        if parent is not None:
            parent.below[side] = node
        self._balance(node)
        return parent or node

    def _balance(self, node: _Node[_K]) -> None:
        """Restore the tree's colours above a new red node, as in any red-black tree."""
        while (parent := node.parent) is not None:
            grandparent = parent.parent
            if not parent.is_red or grandparent is None:
                return
            side = grandparent.below.index(parent)
            uncle = grandparent.below[1 - side]
            if uncle is not None and uncle.is_red:
                uncle.is_red = parent.is_red = False
                grandparent.is_red = True
                node = grandparent
                continue
            if node is parent.below[1 - side]:
                self._rotate(parent, side)
                parent = node
            parent.is_red = False
            grandparent.is_red = True
            self._rotate(grandparent, 1 - side)
            return
        node.is_red = False
        self.root = node

    def _take_out(self, node: _Node[_K]) -> None:
        """Take a node out of the tree, which has others; it is out of the chain already."""
        other = node.below[1]
        if node.below[0] is not None and other is not None:
            while other.below[0] is not None:
                other = other.below[0]
            # the next one in order comes into its place, and what was there goes
            node.key, node.hash, node.order = other.key, other.hash, other.order
            self.chain[self.chain.index(other)] = node
            node = other
        below = node.below[0] or node.below[1]
        if below is not None:
            self._hang(below, node)
        if not node.is_red:
            self._lift(below or node)
        if below is None:
            self._hang(None, node)

    def _hang(self, node: _Node[_K] | None, old: _Node[_K]) -> None:
        """Put a node, or nothing, below the parent of another one, in its place."""
        parent = old.parent
        if node is not None:
            node.parent = parent
        if parent is None:
            self.root = node
        else:
            parent.below[parent.below.index(old)] = node

    def _lift(self, node: _Node[_K]) -> None:
        """Restore the colours where paths through a node lack a black one."""
        while node is not self.root and not node.is_red:
            parent = node.parent
            assert parent is not None
            side = parent.below.index(node)
            beside = parent.below[1 - side]
            if beside is not None and beside.is_red:
                beside.is_red = False
                parent.is_red = True
                self._rotate(parent, side)
                beside = parent.below[1 - side]
            assert beside is not None  # the paths through it have a black node more
            near, far = beside.below[side], beside.below[1 - side]
            if near is not None and near.is_red and (far is None or not far.is_red):
                near.is_red = False
                beside.is_red = True
                self._rotate(beside, 1 - side)
                beside, far = near, beside
            if far is None or not far.is_red:
                beside.is_red = True
                node = parent
                continue
            beside.is_red = parent.is_red
            far.is_red = parent.is_red = False
            self._rotate(parent, side)
            return
        node.is_red = False

    def _rotate(self, node: _Node[_K], side: int) -> None:
        """Let a node go down on one side, and its child on the other side come up."""
        child = node.below[1 - side]
        assert child is not None
        inner = node.below[1 - side] = child.below[side]
        if inner is not None:
            inner.parent = node
        self._hang(child, node)
        if child is self.root:
            child.is_red = False
        child.below[side] = node
        node.parent = child


class JavaHashMap(Generic[_K]):
    """The keys of a HashMap or HashSet, which iterate in Java's order.

    Args:
        capacity: that it is made with; None: the default.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._size = _table_size(capacity)
        self._buckets: dict[int, _Bucket[_K]] = {}
        self._nodes: dict[_K, _Node[_K]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[_K]:
        for _, bucket in sorted(self._buckets.items()):
            for node in bucket.chain:
                yield node.key

    def put(self, key: _K, hash_code: int, order: bytes = b"", *, prepend: bool = False) -> None:
        """Put a key.

        Args:
            key: hashable; nothing happens if it is there.
            hash_code: Java's.
            order: what `compareTo` compares; empty for a class that has none.
            prepend: as `computeIfAbsent` does it, which also looks first whether the table is full.
        """
        if prepend and len(self._nodes) > self._size * 3 // 4:
            self._double()
        if key in self._nodes:
            return
        self._nodes[key] = node = _Node(key, spread(hash_code), order)
        index = node.hash & (self._size - 1)
        bucket = self._buckets.get(index)
        if bucket is None:
            self._buckets[index] = _Bucket([node])
        elif bucket.root is not None:
            bucket.add_to_tree(node)
        else:
            bucket.chain.insert(0 if prepend else len(bucket.chain), node)
            if len(bucket.chain) >= _TREE_FROM - prepend:
                if self._size < _TREE_TABLE:
                    self._double()
                else:
                    bucket.treeify()
        if not prepend and len(self._nodes) > self._size * 3 // 4:
            self._double()

    def remove(self, key: _K) -> None:
        """Remove a key that is there."""
        node = self._nodes.pop(key)
        index = node.hash & (self._size - 1)
        bucket = self._buckets[index]
        bucket.remove(node)
        if node.key != key:  # it has taken over the next one's
            self._nodes[node.key] = node
        if not bucket.chain:
            del self._buckets[index]

    def _double(self) -> None:
        buckets, self._buckets = self._buckets, {}
        for index, bucket in buckets.items():
            halves: tuple[list[_Node[_K]], list[_Node[_K]]] = ([], [])
            for node in bucket.chain:
                halves[bool(node.hash & self._size)].append(node)
            for half, at in zip(halves, (index, index + self._size), strict=True):
                if half:
                    self._buckets[at] = made = _Bucket(half)
                    if bucket.root is not None and len(half) > _UNTREE_TO:
                        if len(half) == len(bucket.chain):
                            made.root = bucket.root
                        else:
                            made.treeify()
        self._size *= 2
