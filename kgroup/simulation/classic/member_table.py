"""In which order brokers walk over the members of a group: that of their hash tables.

The order decides who leads after the leader has gone, in which order a leader learns of the others,
and which protocol wins a tie; tables grow and never shrink, so it is a matter of history too.

Sources: `GroupMetadata.members`, a `scala.collection.mutable.HashMap`, of Scala 2.11 and 2.12 up to
Kafka 2.5 and of Scala 2.13 up to 3.9; `ClassicGroup.members`, a `java.util.HashMap`, from 4.0 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from kgroup.assignor.java.java_hash import JavaHashMap, spread, utf16
from kgroup.assignor.java.scala_hash import champ_order, immutable_order, mutable_bucket
from kgroup.model.offsets_partition import java_int, string_hash
from kgroup.simulation.rules import JAVA, SCALA_2_13, STATIC_MEMBERS, Version


class MemberTable(Protocol):
    """Names in the order of a broker's hash table."""

    def put(self, name: str) -> None:
        """Put a name; nothing happens if it is there."""

    def remove(self, name: str) -> None:
        """Remove a name that is there."""

    def __iter__(self) -> Iterator[str]: ...


class _JavaTable:
    def __init__(self) -> None:
        self._map: JavaHashMap[str] = JavaHashMap()

    def put(self, name: str) -> None:
        self._map.put(name, string_hash(name), utf16(name))

    def remove(self, name: str) -> None:
        self._map.remove(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._map)


class _ScalaTable:
    """Buckets of chains; what differs between versions of Scala is said by those below."""

    def __init__(self) -> None:
        self._size = 16
        self._buckets: dict[int, list[str]] = {}
        self._count = 0

    def remove(self, name: str) -> None:
        index = self._bucket(name)
        self._buckets[index].remove(name)
        if not self._buckets[index]:
            del self._buckets[index]
        self._count -= 1

    def _bucket(self, name: str) -> int:
        raise NotImplementedError


class _Scala211Table(_ScalaTable):
    """A table that is walked from its end; what is put comes first in its bucket."""

    def put(self, name: str) -> None:
        if name in self._buckets.get(self._bucket(name), ()):
            return
        self._buckets.setdefault(self._bucket(name), []).insert(0, name)
        self._count += 1
        if self._count > self._size * 3 // 4:
            names = list(self)
            self._size *= 2
            self._buckets = {}
            for each in names:
                self._buckets.setdefault(self._bucket(each), []).insert(0, each)

    def __iter__(self) -> Iterator[str]:
        for _, chain in sorted(self._buckets.items(), reverse=True):
            yield from chain

    def _bucket(self, name: str) -> int:
        return mutable_bucket(name, self._size)


class _Scala213Table(_ScalaTable):
    """A table that is walked from its begin; each bucket is sorted by hash."""

    def put(self, name: str) -> None:
        if name in self._buckets.get(self._bucket(name), ()):
            return
        self._count += 1
        if self._count >= self._size * 3 // 4:
            names = list(self)
            self._size *= 2
            self._buckets = {}
            for each in names:
                self._add(each)
        self._add(name)

    def _add(self, name: str) -> None:
        chain = self._buckets.setdefault(self._bucket(name), [])
        chain.append(name)
        chain.sort(key=lambda each: java_int(spread(string_hash(each))))  # equal ones as they came

    def __iter__(self) -> Iterator[str]:
        for _, chain in sorted(self._buckets.items()):
            yield from chain

    def _bucket(self, name: str) -> int:
        return spread(string_hash(name)) & (self._size - 1)


def member_table(version: Version) -> MemberTable:
    """Make the table that brokers of a version keep members in."""
    if version >= JAVA:
        return _JavaTable()
    return _Scala213Table() if version >= SCALA_2_13 else _Scala211Table()


def leader_order(names: Sequence[str], version: Version) -> list[str]:
    """Order members as a leader is told of them.

    Before 2.3 they were put into one more table, and from there into an immutable map.

    Args:
        names: in the order of the members' table.
        version: of the broker.
    """
    if version >= STATIC_MEMBERS:
        return list(names)
    again = _Scala211Table()
    for name in names:
        again.put(name)
    in_order = list(again)
    return immutable_order(in_order, [string_hash(name) for name in in_order])


def winner(votes: Iterable[str], version: Version) -> str:
    """Return what has most votes, of several the first in the order of a broker's table.

    Source: `selectProtocol` of `GroupMetadata` and `ClassicGroup`.
    """
    counts = Counter(votes)
    table = member_table(version)
    for name in counts:
        table.put(name)
    names = list(table)
    if version < JAVA:
        order: Callable[[Sequence[str], Sequence[int]], list[str]] = (
            champ_order if version >= SCALA_2_13 else immutable_order
        )
        names = order(names, [string_hash(name) for name in names])
    return max(names, key=counts.__getitem__)
