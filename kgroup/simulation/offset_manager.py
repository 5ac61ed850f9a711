"""Committed offsets in a coordinator's memory.

The group decides who may commit, and when the retention of an offset begins.

Source: `GroupMetadata` and `GroupMetadataManager` of Kafka 1.1.1, 2.8.2 and 3.9.2,
`OffsetMetadataManager` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kgroup.assignor.java.java_hash import utf16
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Clock
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    Accepted,
    CommittedPartition,
    FetchAnswer,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    PositionAnswer,
)
from kgroup.simulation.partition_logs import Positions
from kgroup.simulation.position_commit import (
    PositionCommit,
    PositionCommits,
    commit_key,
    commit_record,
)
from kgroup.simulation.rules import RETENTION_WHEN_EMPTY, BrokerSettings


class OffsetOwner(Protocol):
    """The part of a group on which its offsets depend."""

    group_id: str

    def retained_since_ms(self, topic: str, commit_ms: int | None) -> int | None:
        """Return when the retention of a commit began, in ms; None if it has not begun."""

    def reads(self, topic: str) -> bool:
        """Return whether the group reads a topic, so that its offsets may not be deleted."""


class RecordWriter(Protocol):
    """Writes records of commits."""

    @property
    def clock(self) -> Clock:
        """The clock of the simulation."""
        ...

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        """Write a record; without a value, a tombstone for the key."""

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        """Write records that are made of the commits when they are read; return their offset."""
        ...


class OffsetManager:
    """Committed offsets of a coordinator's groups.

    Args:
        settings: settings of the broker.
        writer: writes the records.
    """

    def __init__(self, settings: BrokerSettings, writer: RecordWriter) -> None:
        self._settings = settings
        self._writer = writer
        self._clock = writer.clock
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._commits: dict[str, PositionCommits] = {}
        """Commits of positions of each group that are not among its offsets yet."""

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets."""
        return self._known(group_id)

    def _known(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets, with those of all commits."""
        if (commits := self._commits.pop(group_id, None)) is not None:
            offsets = self._offsets.setdefault(group_id, {})
            for _, offset in commits:
                offsets[offset.topic, offset.partition] = offset
        return self._offsets.get(group_id, {})

    def group_ids(self) -> Iterable[str]:
        """Return ids of groups with committed offsets."""
        return {**self._offsets, **self._commits}

    def commit(self, request: OffsetCommit) -> Mapping[TopicPartition, ErrorCode]:
        """Commit offsets; the caller has checked the client."""
        if isinstance(request.offsets, Positions):
            self._commit_positions(request.group_id, request.offsets)
            return Accepted(request.offsets)
        self._known(request.group_id)
        return {
            partition: self._commit(request.group_id, partition, committed)
            for partition, committed in request.offsets.items()
        }

    def _commit_positions(self, group_id: str, positions: Positions) -> None:
        if (commits := self._commits.get(group_id)) is None:
            commits = self._commits[group_id] = PositionCommits(group_id, positions.logs)
        log_offset = self._writer.append_positions(commits, len(positions))
        now_ms, expire_ms = self._clock.now_ms, self._expire_ms(None)
        commits.add(PositionCommit(positions, now_ms, expire_ms, log_offset))

    def _expire_ms(self, retention_ms: int | None) -> int | None:
        """Return when a commit with this retention expires; None: by the brokers' retention."""
        if retention_ms is None and self._settings.version < RETENTION_WHEN_EMPTY:
            retention_ms = self._settings.offsets_retention_ms
        return None if retention_ms is None else self._clock.now_ms + retention_ms

    def is_too_large(self, committed: CommittedPartition) -> bool:
        """Return whether the metadata of a commit exceeds the broker's limit."""
        if not committed.metadata:
            return False
        return len(utf16(committed.metadata)) // 2 > self._settings.offset_metadata_max_size

    def _commit(
        self, group_id: str, partition: TopicPartition, committed: CommittedPartition
    ) -> ErrorCode:
        if self.is_too_large(committed):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        offset = CommittedOffset(
            *partition,
            committed.offset,
            committed.leader_epoch,
            committed.metadata or "",
            self._clock.now_ms,
            self._expire_ms(committed.retention_ms),
        )
        self._writer.append("OffsetCommit", *commit_record(group_id, offset))
        self._offsets.setdefault(group_id, {})[partition] = offset
        return ErrorCode.NONE

    def replay(self, key: Data, value: Data | None) -> None:
        """Load a commit from its record, or remove it by its tombstone."""
        self._known(key["group"])
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

    def load(self, commits: Mapping[str, PositionCommits]) -> None:
        """Load commits of positions of each group, after the records of older commits."""
        self._commits.update(commits)

    def fetch(self, request: OffsetFetch) -> FetchAnswer:
        """Return the answer to an OffsetFetch."""
        if request.partitions is None:
            return FetchAnswer(ErrorCode.NONE, dict(self.of(request.group_id)))
        partitions, known = request.partitions, self._offsets.get(request.group_id, {})
        if (commits := self._commits.get(request.group_id)) is None:
            return FetchAnswer(ErrorCode.NONE, {at: known[at] for at in partitions if at in known})
        positions, offsets = commits.of(partitions), dict[TopicPartition, CommittedOffset]()
        if known and None in positions:
            both = zip(partitions, positions, strict=True)
            offsets = {at: known[at] for at, place in both if place is None and at in known}
        return PositionAnswer(ErrorCode.NONE, offsets, positions)

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
                self._writer.append("OffsetCommit", commit_key(group_id, partition), None)

    def _remove(self, group_id: str, partition: TopicPartition) -> bool:
        """Remove an offset; return whether it existed."""
        offsets = self._known(group_id)
        was_there = offsets.pop(partition, None) is not None
        if not offsets:
            self._offsets.pop(group_id, None)
        return was_there

    def expire(self, group: OffsetOwner) -> None:
        """Remove the expired offsets of a group."""
        topics = {topic for topic, _ in self._offsets.get(group.group_id, ())}
        if (commits := self._commits.get(group.group_id)) is not None:
            topics |= commits.topics
        if all(group.retained_since_ms(topic, 0) is None for topic in topics):
            return  # also if there are a hundred thousand
        expired = [
            partition
            for partition, offset in self.of(group.group_id).items()
            if self._is_expired(group, offset)
        ]
        self.delete(group.group_id, expired)

    def _is_expired(self, group: OffsetOwner, offset: CommittedOffset) -> bool:
        now_ms, expire_ms = self._clock.now_ms, offset.expire_timestamp_ms
        since_ms = group.retained_since_ms(offset.topic, offset.commit_timestamp_ms)
        if since_ms is None:
            return False
        if expire_ms is None:
            return now_ms - since_ms >= self._settings.offsets_retention_ms
        return now_ms >= expire_ms + (self._settings.version < RETENTION_WHEN_EMPTY)
