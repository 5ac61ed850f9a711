"""Java's hash codes, and the iteration order of HashMap and HashSet.

Assignors of Kafka's Java client iterate over hash maps, so this order affects their results. A
table has `2^n` buckets, and a key is in the bucket of its spread hash. Iteration goes bucket by
bucket, and within a bucket in the order of its chain:

- `put` appends to the chain, and `computeIfAbsent` prepends.
- The table doubles when it is more than three quarters full (`computeIfAbsent` checks this before
  it inserts, `put` after). Doubling splits each chain in two and keeps the order in both.
- When a chain gets a ninth key (with `computeIfAbsent` an eighth), it becomes a red-black tree if
  the table has at least 64 buckets; otherwise the table doubles. The tree is sorted by hash, and by
  `compareTo` for equal hashes. The nodes of a tree are still chained: a new node follows its
  parent, and the root moves to the front after every insertion and removal. If a tree is small when
  a key is removed, it becomes a plain chain again, in the same order.

Source: `java.util.HashMap` of OpenJDK 17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from kgroup.model.offsets_partition import java_int, string_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_K = TypeVar("_K")

TABLE = 16
"""Number of buckets of a map with the default capacity."""

_TREE_FROM = 9
TREE_TABLE = 64
_UNTREE_TO = 6
CROWD = 8
"""Number of keys in a bucket from which on it may become a tree or double the table."""


def topic_partition_hash(topic_hash: int, partition: int) -> int:
    """Return ``TopicPartition.hashCode`` of Kafka for a topic with this hash code."""
    return java_int(31 * (31 + partition) + topic_hash)


def utf16(text: str) -> bytes:
    """Return a sort key in the order of ``String.compareTo``: UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(
    texts: Iterable[str], capacity: int | None = None, *, prepend: bool = False
) -> list[str]:
    """Return distinct strings in the order of a hash map.

    Args:
        texts: strings in the order of insertion.
        capacity: initial capacity of the map; None for the default.
        prepend: insert by `computeIfAbsent`.
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
    """Return distinct keys in the order of a hash map.

    Args:
        calls: keys in the order of insertion, with repetitions.
        hash_code: returns the Java hash code of a key.
        capacity: initial capacity of the map; None for the default.
        prepend: insert by `computeIfAbsent`.
        order: returns what `compareTo` compares; None for a class without it.
    """
    keys = list(dict.fromkeys(calls))
    if not keys:
        return keys
    unsigned = [code & 0xFFFFFFFF for code in map(hash_code, keys)]
    spreads = [code ^ code >> 16 for code in unsigned]
    # `computeIfAbsent` doubles a full table only at the next call, if there is one
    counted = len(keys) - (prepend and calls[-1] == keys[-1] and calls.count(keys[-1]) == 1)
    size = uncrowded_size(spreads, counted, capacity)
    if size is not None:
        buckets = [spread & (size - 1) for spread in spreads]
        indices = range(len(keys) - 1, -1, -1) if prepend else range(len(keys))
        return [keys[at] for at in sorted(indices, key=buckets.__getitem__)]
    table = JavaHashMap[_K](capacity)
    for key in calls:
        table.put(key, hash_code(key), order(key) if order else b"", prepend=prepend)
    return list(table)


def uncrowded_size(
    spreads: Sequence[int] | npt.NDArray[np.int64],
    count: int,
    capacity: int | None,
    removed: int = 0,
) -> int | None:
    """Return the final number of buckets of a map; None if a bucket was ever crowded.

    Without crowded buckets, keys are ordered by bucket, and within a bucket by insertion.

    Args:
        spreads: spread hashes of the keys, in the order of insertion.
        count: the largest number of keys that was compared with the table's threshold.
        capacity: initial capacity of the map; None for the default.
        removed: number of keys that were removed again.
    """
    size = table_size(capacity)
    while True:
        room = size * 3 // 4
        first = spreads[: room + 1 + removed]
        if len(first) >= CROWD and _largest_bucket(first, size) >= CROWD:
            return None
        if count <= room:
            return size
        size *= 2


def _largest_bucket(spreads: Sequence[int] | npt.NDArray[np.int64], size: int) -> int:
    """Return the number of keys in the largest bucket of a map with this size."""
    if isinstance(spreads, Sequence):
        return max(Counter([spread & (size - 1) for spread in spreads]).values())
    import numpy as np

    return int(np.bincount(spreads & (size - 1)).max())


def spread(hash_code: int) -> int:
    """Return the spread hash of a Java hash code, in which high bits affect the bucket."""
    unsigned = hash_code & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16


def table_size(capacity: int | None) -> int:
    """Return the initial number of buckets for a capacity."""
    return TABLE if capacity is None else 1 << max(capacity - 1, 0).bit_length()


@lru_cache(maxsize=1 << 16)
def _cached_hash(text: str) -> int:
    return string_hash(text)


@dataclass(slots=True, eq=False)
class _Node(Generic[_K]):
    """A key in a chain; `order` is what `compareTo` compares, and the rest is set in trees only."""

    key: _K
    hash: int
    order: bytes
    parent: _Node[_K] | None = field(init=False)
    below: list[_Node[_K] | None] = field(init=False)
    is_red: bool = field(init=False)

    def side_below(self, other: _Node[_K]) -> int:
        """Return the side, 0 or 1, on which this node is inserted below another node."""
        if self.hash != other.hash:
            return java_int(self.hash) > java_int(other.hash)
        return self.order > other.order


@dataclass(slots=True)
class _Bucket(Generic[_K]):
    """The chain of a bucket, in its order, and the root of its tree if it has one."""

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
        """Insert a node into the tree and rebalance it; return the node's first parent."""
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
        """Rebalance the tree above a new red node."""
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
        """Remove a node from a tree of several nodes; the chain no longer has the node."""
        other = node.below[1]
        if node.below[0] is not None and other is not None:
            while other.below[0] is not None:
                other = other.below[0]
            # the successor takes its place, and the successor's node is removed
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
        """Replace a node by another node, or by nothing, below its parent."""
        parent = old.parent
        if node is not None:
            node.parent = parent
        if parent is None:
            self.root = node
        else:
            parent.below[parent.below.index(old)] = node

    def _lift(self, node: _Node[_K]) -> None:
        """Rebalance the tree where paths through a node lack a black node."""
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
            assert beside is not None  # paths through it have one more black node
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
        """Rotate a node down to one side; its child on the other side moves up."""
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
    """The keys of a HashMap or HashSet, in Java's iteration order.

    Args:
        capacity: initial capacity; None for the default.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._size = table_size(capacity)
        self._buckets: dict[int, _Bucket[_K]] = {}
        self._nodes: dict[_K, _Node[_K]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[_K]:
        for _, bucket in sorted(self._buckets.items()):
            for node in bucket.chain:
                yield node.key

    def put(self, key: _K, hash_code: int, order: bytes = b"", *, prepend: bool = False) -> None:
        """Insert a key; no effect if it is present.

        Args:
            key: hashable key.
            hash_code: Java hash code of the key.
            order: what `compareTo` compares; empty for a class without it.
            prepend: insert by `computeIfAbsent`, which checks the table's size before inserting.
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
                if self._size < TREE_TABLE:
                    self._double()
                else:
                    bucket.treeify()
        if not prepend and len(self._nodes) > self._size * 3 // 4:
            self._double()

    def remove(self, key: _K) -> None:
        """Remove a key that is present."""
        node = self._nodes.pop(key)
        index = node.hash & (self._size - 1)
        bucket = self._buckets[index]
        bucket.remove(node)
        if node.key != key:  # the node has taken its successor's key
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
