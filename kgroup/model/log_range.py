"""Log start offsets and log end offsets of users' topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.described_enum import DescribedEnum
from kgroup.model.cluster import TopicPartition
from kgroup.model.problem import Problem

Position = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class NextRecord:
    """The first record at or behind a position.

    Attributes:
        offset: its own; None where the partition has none yet.
        timestamp_ms: its time, of creation or of appending as the topic has it; None where there
            is no record, and in message format v0, which has no times.
    """

    offset: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NextReading:
    """Next records by position, as far as they could be determined."""

    records: Mapping[Position, NextRecord]
    problems: tuple[Problem, ...] = ()


class OffsetMark(DescribedEnum):
    """What is wrong with a partition, or with what was committed for it."""

    TOPIC_GONE = ("topic-gone", "The topic does not exist any more.")
    PARTITION_GONE = ("partition-gone", "The topic exists, and has no partition of that number.")
    NO_LEADER = ("no-leader", "The partition has no leader: its replicas are offline.")
    NOT_AUTHORIZED = ("not-authorized", "The topic may not be described (DESCRIBE on the topic).")
    NO_ANSWER = ("no-answer", "The partition's leader gave no answer.")
    PAST_END = ("past-end", "The commit lies past the end of the partition.")
    BEFORE_START = (
        "before-start",
        "The commit lies before the first record that the partition has.",
    )
    NO_OFFSET = (
        "no-offset",
        "The group committed a negative number, which stands for no offset: nothing is committed.",
    )
    NO_OWNER = ("no-owner", "The group has members, and none of them owns the partition.")
    OWNER_GONE = ("owner-gone", "What owns the partition is no member of the group.")
    NO_RECORD_SINCE = (
        "no-record-since",
        "The partition has no record of the time that was asked for, or later: its end is taken.",
    )


GONE = (OffsetMark.TOPIC_GONE, OffsetMark.PARTITION_GONE)
"""Marks of partitions that do not exist."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The records that a partition holds.

    Attributes:
        start: offset of the first; None where it is not known.
        end: offset that the next one gets, or, for readers of committed records only, that of the
            first record of an open transaction (the last stable offset); None where it is not
            known.
        mark: why they are not known; one of those that are about partitions.
        log_end: where `end` is the last stable offset, the offset that the next record gets; None
            where `end` is that.
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
