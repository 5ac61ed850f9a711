"""List groups, filtered by state, type, name and topic."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from kgroup.model.group import Broker, GroupState, GroupType
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource, Question

__all__ = ["ListedGroup", "list_groups"]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group in a list; attributes as in `kgroup.model.group.Group`.

    Attributes:
        member_count: None where the source was not asked for members.
        topics: names of the topics that the group subscribes to, was assigned, or has committed,
            sorted.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    protocol_type: str | None
    assignor: str | None
    coordinator: Broker | None
    offsets_partition: int | None
    member_count: int | None
    topics: tuple[str, ...]


def list_groups(
    source: GroupSource,
    *,
    states: Collection[GroupState] = (),
    types: Collection[GroupType] = (),
    regex: re.Pattern[str] | None = None,
    topics: Collection[str] = (),
    members: bool = True,
) -> Report[ListedGroup]:
    """List the groups that pass every filter given, sorted by id.

    Args:
        source: where groups come from.
        states: any of them; a group whose state is unknown passes no such filter.
        types: any of them.
        regex: matches the whole group id.
        topics: the group has to do with any of them (`ListedGroup.topics`).
        members: whether to ask for members, assignors and topics; always, to filter by topics.

    Raises:
        InputError: the source has nothing to read.
    """
    members = members or bool(topics)
    reading = source.read(
        question=Question(
            regex, frozenset(states), frozenset(types), members, members, log_budget=0
        )
    )
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
                topics=tuple(sorted(group.topics)),
            )
            for group in reading.image.groups.values()
            if (not states or group.state in states)
            and (not types or group.type in types)
            and (regex is None or regex.fullmatch(group.group_id))
            and (not topics or not group.topics.isdisjoint(topics))
        ),
        errors=reading.problems,
        notes=reading.notes,
    )
