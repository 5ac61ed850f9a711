"""The records that consumers read next, in the partitions of users' topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """Next records by position: those that could be found out."""

    records: Mapping[Position, NextRecord]
    problems: tuple[Problem, ...] = ()
