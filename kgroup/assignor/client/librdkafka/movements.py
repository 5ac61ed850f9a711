"""The moves so far, so that of one topic no two partitions change places.

librdkafka reads memory here that it has given back. Where the outcome hangs on what stands there,
the process ends: that are no addresses any more, at least with glibc since 2.32.

Source: `PartitionMovements_*` (rdkafka_sticky_assignor.c) of librdkafka 2.16, 2.6.0 and 2.1.1.
"""

from __future__ import annotations

from kgroup.assignor.base import AssignorError, TopicPartition
from kgroup.assignor.client.librdkafka.group import crash

_Pair = tuple[str, str]


class Movements:
    """From which member to which each partition was moved."""

    def __init__(self) -> None:
        self._pair: dict[TopicPartition, _Pair] = {}
        """The last pair of each partition, also of one that was moved back."""
        self._moved: dict[str, dict[_Pair, _Moved]] = {}

    def instead(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Give the partition that is to be moved: one that came the other way, if there is any."""
        pairs = self._moved.get(partition[0], {})
        if partition in self._pair and self._pair[partition][1] != owner:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        back = _find(pairs, (to, owner))
        return partition if back is None else back.partitions[0]

    def add(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Note a move; several of one partition are one, from its first owner.

        Returns the partition that is moved: where one is moved back of several that were moved
        between two members, it is the next one of these.
        """
        pairs = self._moved.setdefault(partition[0], {})
        if partition not in self._pair:
            self._note(pairs, partition, (owner, to))
            return partition
        pair = self._pair[partition]
        moved = _find(pairs, pair)
        if moved is None:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        if partition in moved.partitions:
            moved.partitions.remove(partition)
        if not moved.partitions:
            del pairs[pair]
        if pair[1] != owner:
            raise crash("SIGABRT", f"{partition} was moved back and is to be moved again")
        if pair[0] != to:
            moved.is_dangling |= moved.first == partition
            self._note(pairs, partition, (pair[0], to))
            return partition
        if not moved.partitions:
            raise _undefined()
        return moved.partitions[0]

    def _note(self, pairs: dict[_Pair, _Moved], partition: TopicPartition, pair: _Pair) -> None:
        self._pair[partition] = pair
        found = _find(pairs, pair)
        if found is None:
            pairs[pair] = _Moved(partition)
        else:
            found.partitions.append(partition)


class _Moved:
    """Partitions that were moved between two members.

    Attributes:
        first: the first of them, to whose pair of members the key of the map points.
        partitions: all of them.
        is_dangling: whether that pair is given back.
    """

    def __init__(self, partition: TopicPartition) -> None:
        self.first = partition
        self.partitions = [partition]
        self.is_dangling = False


def _find(pairs: dict[_Pair, _Moved], pair: _Pair) -> _Moved | None:
    found = pairs.get(pair)
    if found is not None and found.is_dangling:
        raise _undefined()
    return found


def _undefined() -> AssignorError:
    return crash("SIGSEGV", "it reads memory that it has given back")
