"""A kafka-python listener that stores positions in a table, and detects lost partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kafka import ConsumerRebalanceListener

from kgroup.errors import named_group
from kgroup.model.cluster import TopicPartition
from kgroup.source.sql.fencing import FencedError, generation_of

if TYPE_CHECKING:
    from sqlalchemy import Connection


class _Store(Protocol):
    """The required methods of an `OffsetStore`."""

    @property
    def fences(self) -> bool: ...

    def claim(
        self, group: str, partitions: Collection[TopicPartition], generation: int
    ) -> dict[TopicPartition, int]: ...

    def save(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Any],
        connection: Connection | None = None,
        generation: int | None = None,
    ) -> None: ...


class OffsetListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Seeks to stored offsets when partitions are assigned; stores offsets when they are revoked.

    kafka-python calls it from the thread that also sends heartbeats, while the consumer's `poll` or
    `close` waits: the database must answer well within the session timeout.
    """

    def __init__(
        self,
        store: _Store,
        consumer: Any,
        group: str,
        pending: Callable[[], Mapping[Any, Any]] | None,
        committed: Callable[[Collection[Any]], Mapping[Any, Any]] | None,
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._group = group
        self._pending = pending
        self._committed = committed
        self._generations: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Claim the partitions, and seek to the stored offset, or that of `committed` if higher.

        A partition without a stored offset starts according to the consumer's own settings.

        Raises:
            FencedError: a newer generation has already claimed them.
        """
        if not assigned:
            return
        generation = generation_of(self._consumer)
        stored = self._store.claim(self._group, assigned, generation)
        self._generations.update({tuple(partition): generation for partition in assigned})
        if self._committed is not None:
            stored |= self._save_later(assigned, stored)
        for partition in assigned:
            if tuple(partition) in stored:
                self._consumer.seek(partition, stored[tuple(partition)])

    def _save_later(
        self, assigned: Collection[Any], stored: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Store committed offsets that are higher than the stored ones, and return them."""
        assert self._committed is not None
        view = self._committed(assigned).items()
        offsets = {tuple(partition): getattr(value, "offset", value) for partition, value in view}
        later = {
            key: offsets[key]
            for key in map(tuple, assigned)
            if offsets.get(key) is not None and offsets[key] > stored.get(key, -1)
        }
        self.save(later)
        return later

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Store the `pending` offsets of these partitions, which the consumer still owns.

        Raises:
            FencedError: the consumer no longer owns them.
        """
        try:
            if self._pending is not None:
                given = {tuple(partition): value for partition, value in self._pending().items()}
                gone = {tuple(partition) for partition in revoked}
                self.save({key: value for key, value in given.items() if key in gone})
        finally:
            self._forget(revoked)

    def on_partitions_lost(self, lost: Collection[Any]) -> None:
        """Store nothing: other consumers may own these partitions."""
        self._forget(lost)

    def save(self, offsets: Mapping[Any, Any], connection: Connection | None = None) -> None:
        """Store offsets with the generations that claimed the partitions; see `OffsetStore.save`.

        Raises:
            FencedError: the consumer does not own a partition; nothing was stored.
        """
        if not offsets:
            return
        plain = {tuple(partition): value for partition, value in offsets.items()}
        foreign = [key for key in plain if key not in self._generations]
        if foreign:
            topic, partition = foreign[0]
            raise FencedError(
                f"{named_group(self._group)}, topic {topic}, partition {partition}: expected a "
                "partition that this consumer owns, found one that it has given up",
                group_id=self._group,
                topic=topic,
            )
        generation = None
        if self._store.fences:
            # A cooperative rebalance does not report partitions that stay: they were claimed
            # earlier, and are still owned in the newest of these generations.
            generation = max(self._generations[key] for key in plain)
        self._store.save(self._group, plain, connection, generation)

    def _forget(self, partitions: Collection[Any]) -> None:
        for partition in partitions:
            self._generations.pop(tuple(partition), None)
