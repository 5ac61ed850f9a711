"""Filters of groups by state, type, name and topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.pattern import Pattern
from kgroup.source.base import Question


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
