"""List groups, filtered by state, type, name and topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kgroup.model.group import Broker, Group, GroupState, GroupType
from kgroup.model.pattern import Pattern
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource, Question


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A listed group.

    Attributes:
        group_id, type, state, protocol_type, coordinator, offsets_partition: as in
            `kgroup.model.group.Group`.
        assignor: assignor of the group; None if there is none, if the broker's configuration
            decides, or if it was not requested.
        member_count: number of members; None if it was not requested.
        topics: topics that the group subscribes to, was assigned or has committed; topic names,
            sorted; None if they were not requested.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    protocol_type: str | None
    assignor: str | None
    coordinator: Broker | None
    offsets_partition: int | None
    member_count: int | None
    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """What a group must be to be listed; it passes if it meets every criterion given.

    Attributes:
        states: states of which a group has one; a group of unknown state does not pass.
        types: types of which a group has one.
        regex: pattern that matches the whole group id.
        topics: topics of which a group uses at least one (`ListedGroup.topics`).
    """

    states: Collection[GroupState] = ()
    types: Collection[GroupType] = ()
    regex: Pattern | None = None
    topics: Collection[str] = ()

    def question(self, **needs: Any) -> Question:
        """Return the question for a source: what is needed of the groups that may pass."""
        return Question(
            regex=self.regex, states=frozenset(self.states), types=frozenset(self.types), **needs
        )

    def passes(self, group: Group) -> bool:
        """Return whether a group meets every criterion."""
        return (
            (not self.states or group.state in self.states)
            and (not self.types or group.type in self.types)
            and (self.regex is None or self.regex.fullmatch(group.group_id) is not None)
            and (not self.topics or not group.topics.isdisjoint(self.topics))
        )


EVERY_GROUP = GroupFilter()


def list_groups(
    source: GroupSource,
    chosen: GroupFilter = EVERY_GROUP,
    *,
    members: bool = True,
    with_topics: bool = True,
) -> Report[ListedGroup]:
    """Return the groups that pass a filter, sorted by group id.

    Args:
        source: source of groups.
        chosen: the filter.
        members: read assignors and members.
        with_topics: read topics too; implied by a filter by topics.

    Raises:
        InputError: the source has nothing to read.
    """
    with_topics = bool(chosen.topics) or (members and with_topics)
    members = members or with_topics
    question = chosen.question(members=members, offsets=with_topics, log_budget=0)
    reading = source.read(question=question)
    return Report(
        data=tuple(
            ListedGroup(
                group_id=group.group_id,
                type=group.type,
                state=group.state,
                protocol_type=group.protocol_type,
                assignor=group.assignor,
                coordinator=group.coordinator,
                offsets_partition=group.offsets_partition,
                member_count=len(group.members) if members else None,
                topics=tuple(sorted(group.topics)) if with_topics else None,
            )
            for group in reading.image.groups.values()
            if chosen.passes(group)
        ),
        errors=reading.problems,
        notes=reading.notes,
    )
