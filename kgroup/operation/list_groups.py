"""List groups, filtered by state, type, name and topic."""

from dataclasses import dataclass

from kgroup.model.group import Broker, GroupState, GroupType

__all__ = ["ListedGroup"]


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
