"""Log start offsets and log end offsets of users' topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.described_enum import DescribedEnum
from kgroup.model.cluster import TopicPartition
from kgroup.model.problem import Problem

Position = tuple[str, int, int]
EpochPosition = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The first record at or after an offset.

    Attributes:
        offset: offset of the record; None if there is no such record yet.
        timestamp_ms: create or append time of the record, depending on the topic; None if there is
            no record, and in message format v0, which has no timestamps.
    """

    offset: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NextReading:
    """Next records by position, as far as they could be determined."""

    records: Mapping[Position, NextRecord]
    problems: tuple[Problem, ...] = ()


class OffsetMark(DescribedEnum):
    """A problem of a partition or of its committed offset."""

    TOPIC_GONE = ("topic-gone", "The topic no longer exists.")
    PARTITION_GONE = ("partition-gone", "The topic exists, but has no partition with this number.")
    NO_LEADER = ("no-leader", "The partition has no leader: its replicas are offline.")
    NOT_AUTHORIZED = (
        "not-authorized",
        "The user may not describe the topic (DESCRIBE on the topic).",
    )
    NO_ANSWER = ("no-answer", "The leader of the partition did not answer.")
    PAST_END = ("past-end", "The committed offset is after the log end offset.")
    BEFORE_START = ("before-start", "The committed offset is before the log start offset.")
    NO_OFFSET = (
        "no-offset",
        "The group committed a negative number, which means no offset: nothing is committed.",
    )
    NO_OWNER = ("no-owner", "The group has members, but none of them owns the partition.")
    OWNER_GONE = ("owner-gone", "The owner of the partition is not a member of the group.")
    NO_RECORD_SINCE = (
        "no-record-since",
        "The partition has no record at or after the requested time; its log end offset is used.",
    )


GONE = (OffsetMark.TOPIC_GONE, OffsetMark.PARTITION_GONE)
"""Marks of partitions that do not exist."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The range of offsets of a partition.

    Attributes:
        start: log start offset; None if unknown.
        end: log end offset or, for consumers with read_committed, last stable offset (offset of the
            first record of an open transaction); None if unknown.
        mark: why the range is unknown; one of the marks that concern partitions.
        log_end: log end offset if `end` is the last stable offset; None if `end` is the log end
            offset.
    """

    start: int | None = None
    end: int | None = None
    mark: OffsetMark | None = None
    log_end: int | None = None

    def lag(self, committed: int) -> int | None:
        """Return the lag of a committed offset: `end` minus it, as Kafka's tools compute it.

        It is negative only if the committed offset is past the log end offset
        (`OffsetMark.PAST_END`): 0 if it lies between the last stable offset and that end. None if
        the end is unknown.
        """
        if self.end is None:
            return None
        log_end = self.end if self.log_end is None else self.log_end
        return log_end - committed if committed > log_end else max(self.end - committed, 0)

    def waiting(self, committed: int) -> int | None:
        """Return the number of offsets that a consumer at a committed offset still has to read.

        This is an upper limit of the number of records: transaction markers and compaction leave
        offsets without a record. Unlike `lag` it excludes offsets before the log start offset.
        """
        lag = self.lag(committed if self.start is None else max(committed, self.start))
        return None if lag is None else max(lag, 0)

    def mark_of(self, offset: int | None) -> OffsetMark | None:
        """Return what is wrong with the partition, or else with one of its offsets."""
        if self.mark is not None or offset is None:
            return self.mark
        end = self.end if self.log_end is None else self.log_end
        if end is not None and offset > end:
            return OffsetMark.PAST_END
        if self.start is not None and offset < self.start:
            return OffsetMark.BEFORE_START
        return None


@dataclass(frozen=True, slots=True)
class LogReading:
    """Log ranges of partitions, by topic and number, as far as the source knows them."""

    ranges: Mapping[TopicPartition, LogRange]
    problems: tuple[Problem, ...] = ()
