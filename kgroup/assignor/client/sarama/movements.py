"""What has moved so far: two partitions of a topic shall not change places.

Source: `partitionMovements` of Sarama 1.61.1.
"""

from __future__ import annotations

from kgroup.assignor.base import TopicPartition
from kgroup.assignor.client.map_order import MapOrder

_Pair = tuple[str, str]


class Movements:
    """The movements, each from the member that had a partition first to the one that has it now.

    Args:
        order: of maps.
    """

    def __init__(self, order: MapOrder) -> None:
        self._order = order
        self._of: dict[TopicPartition, _Pair] = {}
        self._between: dict[tuple[str, _Pair], set[TopicPartition]] = {}

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note that a partition moves."""
        if partition in self._of:
            pair = self._of.pop(partition)
            self._between[partition[0], pair].discard(partition)
            source = pair[0]
            if source == target:
                return
        self._of[partition] = source, target
        self._between.setdefault((partition[0], (source, target)), set()).add(partition)

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Give the partition to move: one that moved the other way goes back, if there is one."""
        if partition in self._of:
            source = self._of[partition][0]
        back = self._between.get((partition[0], (target, source)))
        return self._order(back)[-1] if back else partition
