"""What is still to be done of a group's planned changes, and the problems of what is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem

At = tuple[str, int]
"""A partition of a topic."""


def place_of(offset: CommittedOffset | OffsetChange) -> At:
    """Return the partition that something is about."""
    return offset.topic, offset.partition


def remaining(
    changes: Iterable[OffsetChange], now: Mapping[At, CommittedOffset]
) -> list[OffsetChange]:
    """Leave out what was done already, perhaps by an attempt whose answer was lost."""
    return [change for change in changes if not change.is_done(now.get(place_of(change)))]


def conflict(changes: Iterable[OffsetChange], now: Mapping[At, CommittedOffset]) -> str | None:
    """Say how what is committed now differs from what was when changes were planned."""
    texts = [change.conflict(now.get(place_of(change))) for change in changes]
    found = [text for text in texts if text is not None]
    if not found:
        return None
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"The group has changed since that was planned: {found[0]}{more}."


def unwritten(
    kind: ProblemKind,
    reason: str,
    group_id: str,
    rest: Collection[OffsetChange],
    changes: Sequence[OffsetChange],
) -> tuple[Problem, ...]:
    """Tell that the rest of a group's changes was not done: of the group, if that is all of them.

    Else of each partition, for a problem of the group says that nothing of it was done.
    """
    if len(rest) == len(changes):
        return (Problem(kind, reason, group_id=group_id),)
    return by_partition(kind, reason, group_id, map(place_of, rest))


def by_partition(
    kind: ProblemKind, reason: str, group_id: str, partitions: Iterable[At]
) -> tuple[Problem, ...]:
    """Tell the same of each partition."""
    return tuple(
        Problem(kind, reason, group_id=group_id, topic=topic, partition=partition)
        for topic, partition in partitions
    )
