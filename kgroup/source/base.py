"""What every source of groups can do, and says that it can do."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kgroup.model.group import GroupState, GroupType
from kgroup.model.image import Image
from kgroup.model.problem import Problem

__all__ = ["EVERYTHING", "Capability", "GroupSource", "Question", "Reading"]


class Capability(StrEnum):
    """What a source knows; without it, the fields concerned are None or empty."""

    GENERATION = "generation"
    """Of classic groups: generation, leader, members' timeouts, time of the last rebalance."""
    PENDING_OFFSETS = "pending-offsets"
    """Commits of open transactions."""
    COMMIT_TIMESTAMPS = "commit-timestamps"
    """When each offset was committed."""
    REBALANCE_IN_FLIGHT = "rebalance-in-flight"
    """The states that a classic group passes through without a record."""
    COORDINATOR = "coordinator"
    """Which broker runs each group."""
    TOPIC_IDS = "topic-ids"
    """Ids of topics in assignments that name them."""
    LOG_END_OFFSETS = "log-end-offsets"
    """Where the partitions of users' topics end; perhaps not of all."""
    SHARE_START_OFFSETS = "share-start-offsets"
    """How far share groups have come."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source said when it was asked once.

    Attributes:
        image: the groups.
        problems: what could not be read.
        notes: what was assumed or chosen, for people.
    """

    image: Image
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What the asker needs to know; a source for which it is no more work may say more.

    Attributes:
        regex: also the groups whose whole id matches; where no ids are given, these only.
        states: only groups in any of these; a group whose state is unknown may be left out.
        types: only groups of any of these.
        members: whether members matter, and what else is known only of a group that is described.
        offsets: whether offsets matter; without `members` they do not.
    """

    regex: re.Pattern[str] | None = None
    states: frozenset[GroupState] = frozenset()
    types: frozenset[GroupType] = frozenset()
    members: bool = True
    offsets: bool = True


EVERYTHING = Question()


class GroupSource(Protocol):
    """Where groups come from."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this source knows."""
        ...

    def read(self, group_ids: Collection[str] | None = None) -> Reading:
        """Read the groups of these ids, or all: those of them that exist.

        Raises:
            InputError: where there is nothing to read groups from.
        """
        ...

    def log_end_offsets(
        self, partitions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int]:
        """Tell where these partitions, by topic and number, end: those of them that it knows."""
        ...
