"""Committed offsets in a coordinator's memory.

The group decides who may commit, and when the retention of an offset begins.

Source: `GroupMetadata` and `GroupMetadataManager` of Kafka 1.1.1, 2.8.2 and 3.9.2,
`OffsetMetadataManager` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kgroup.assignor.java.java_hash import utf16
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Clock
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    CommittedPartition,
    FetchAnswer,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
)
from kgroup.simulation.rules import RETENTION_WHEN_EMPTY, BrokerSettings


class OffsetOwner(Protocol):
    """The part of a group on which its offsets depend."""

    group_id: str

    def retained_since_ms(self, offset: CommittedOffset) -> int | None:
        """Return when the retention of an offset began, in ms; None if it has not begun."""

    def reads(self, topic: str) -> bool:
        """Return whether the group reads a topic, so that its offsets may not be deleted."""


class OffsetManager:
    """Committed offsets of a coordinator's groups.

    Args:
        settings: settings of the broker.
        clock: the clock of the simulation.
        append: writes a record: type, key, and value or None.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        append: Callable[[str, Data, Data | None], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._append = append
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets."""
        return self._offsets.get(group_id, {})

    def group_ids(self) -> Iterable[str]:
        """Return ids of groups with committed offsets."""
        return self._offsets

    def commit(self, request: OffsetCommit) -> dict[TopicPartition, ErrorCode]:
        """Commit offsets; the caller has checked the client."""
        return {
            partition: self._commit(request.group_id, partition, committed)
            for partition, committed in request.offsets.items()
        }

    def is_too_large(self, committed: CommittedPartition) -> bool:
        """Return whether the metadata of a commit exceeds the broker's limit."""
        if not committed.metadata:
            return False
        return len(utf16(committed.metadata)) // 2 > self._settings.offset_metadata_max_size

    def _commit(
        self, group_id: str, partition: TopicPartition, committed: CommittedPartition
    ) -> ErrorCode:
        settings, now_ms = self._settings, self._clock.now_ms
        metadata = committed.metadata or ""
        if self.is_too_large(committed):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        retention_ms = committed.retention_ms
        if retention_ms is None and settings.version < RETENTION_WHEN_EMPTY:
            retention_ms = settings.offsets_retention_ms
        offset = CommittedOffset(
            *partition,
            committed.offset,
            committed.leader_epoch,
            metadata,
            now_ms,
            None if retention_ms is None else now_ms + retention_ms,
        )
        value = {
            "offset": offset.committed_offset,
            "leaderEpoch": -1 if offset.leader_epoch is None else offset.leader_epoch,
            "metadata": metadata,
            "commitTimestamp": now_ms,
            "expireTimestamp": -1 if retention_ms is None else offset.expire_timestamp_ms,
        }
        self._append("OffsetCommit", _key(group_id, partition), value)
        self._offsets.setdefault(group_id, {})[partition] = offset
        return ErrorCode.NONE

    def replay(self, key: Data, value: Data | None) -> None:
        """Load a commit from its record, or remove it by its tombstone."""
        partition = (key["topic"], key["partition"])
        if value is None:
            self._remove(key["group"], partition)
            return
        epoch, expire_ms = value["leaderEpoch"], value["expireTimestamp"]
        self._offsets.setdefault(key["group"], {})[partition] = CommittedOffset(
            *partition,
            value["offset"],
            None if epoch == -1 else epoch,
            value["metadata"],
            value["commitTimestamp"],
            None if expire_ms == -1 else expire_ms,
        )

    def fetch(self, request: OffsetFetch) -> FetchAnswer:
        """Return the answer to an OffsetFetch."""
        offsets = self.of(request.group_id)
        wanted = offsets if request.partitions is None else request.partitions
        return FetchAnswer(
            ErrorCode.NONE,
            {partition: offsets[partition] for partition in wanted if partition in offsets},
        )

    def delete_unread(self, group: OffsetOwner, request: OffsetDelete) -> OffsetDeleteAnswer:
        """Remove committed offsets of topics to which no member subscribes."""
        errors = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if group.reads(partition[0])
            else ErrorCode.NONE
            for partition in request.partitions
        }
        self.delete(group.group_id, [partition for partition, code in errors.items() if not code])
        return OffsetDeleteAnswer(ErrorCode.NONE, errors)

    def delete_all(self, group_id: str) -> None:
        """Remove all offsets of a group."""
        self.delete(group_id, list(self.of(group_id)))

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove the offsets of these partitions that exist."""
        for partition in partitions:
            if self._remove(group_id, partition):
                self._append("OffsetCommit", _key(group_id, partition), None)

    def _remove(self, group_id: str, partition: TopicPartition) -> bool:
        """Remove an offset; return whether it existed."""
        offsets = self._offsets.get(group_id, {})
        was_there = offsets.pop(partition, None) is not None
        if not offsets:
            self._offsets.pop(group_id, None)
        return was_there

    def expire(self, group: OffsetOwner) -> None:
        """Remove the expired offsets of a group."""
        expired = [
            partition
            for partition, offset in self.of(group.group_id).items()
            if self._is_expired(group, offset)
        ]
        self.delete(group.group_id, expired)

    def _is_expired(self, group: OffsetOwner, offset: CommittedOffset) -> bool:
        now_ms, expire_ms = self._clock.now_ms, offset.expire_timestamp_ms
        since_ms = group.retained_since_ms(offset)
        if since_ms is None:
            return False
        if expire_ms is None:
            return now_ms - since_ms >= self._settings.offsets_retention_ms
        return now_ms >= expire_ms + (self._settings.version < RETENTION_WHEN_EMPTY)


def _key(group_id: str, partition: TopicPartition) -> Data:
    return {"group": group_id, "topic": partition[0], "partition": partition[1]}
