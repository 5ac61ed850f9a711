"""From where to where the partitions of users' topics hold records."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kgroup.model.problem import Problem

__all__ = ["LogRange", "LogReading", "OffsetMark"]


class OffsetMark(StrEnum):
    """What is wrong with a partition, or with what was committed for it."""

    TOPIC_GONE = "topic-gone"
    PARTITION_GONE = "partition-gone"
    NO_LEADER = "no-leader"
    NOT_AUTHORIZED = "not-authorized"
    NO_ANSWER = "no-answer"
    PAST_END = "past-end"
    BEFORE_START = "before-start"
    NO_OWNER = "no-owner"
    OWNER_GONE = "owner-gone"

    @property
    def sentence(self) -> str:
        """What the mark means, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    OffsetMark.TOPIC_GONE: "The topic does not exist any more.",
    OffsetMark.PARTITION_GONE: "The topic exists, and has no partition of that number.",
    OffsetMark.NO_LEADER: "The partition has no leader: its replicas are offline.",
    OffsetMark.NOT_AUTHORIZED: "The topic may not be described (DESCRIBE on the topic).",
    OffsetMark.NO_ANSWER: "The partition's leader gave no answer.",
    OffsetMark.PAST_END: "The commit lies past the end of the partition.",
    OffsetMark.BEFORE_START: "The commit lies before the first record that the partition has.",
    OffsetMark.NO_OWNER: "The group has members, and none of them owns the partition.",
    OffsetMark.OWNER_GONE: "What owns the partition is no member of the group.",
}


@dataclass(frozen=True, slots=True)
class LogRange:
    """The records that a partition holds.

    Attributes:
        start: offset of the first; None where it is not known.
        end: offset that the next one gets, or, for readers of committed records only, that of the
            first record of an open transaction; None where it is not known.
        mark: why they are not known; one of those that are about partitions.
    """

    start: int | None = None
    end: int | None = None
    mark: OffsetMark | None = None


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a source said about partitions, by topic and number: those that it knows."""

    ranges: Mapping[tuple[str, int], LogRange]
    problems: tuple[Problem, ...] = ()
