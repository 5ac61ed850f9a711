"""Planned changes of a group that remain to be made, and problems of those that were not made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kgroup.errors import ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem


def place_of(offset: CommittedOffset | OffsetChange) -> TopicPartition:
    """Return topic and partition of an offset or a change."""
    return offset.topic, offset.partition


def remaining(
    changes: Iterable[OffsetChange], now: Mapping[TopicPartition, CommittedOffset]
) -> list[OffsetChange]:
    """Return the changes that were not made yet, not even by an attempt whose response was lost."""
    return [change for change in changes if not change.is_done(now.get(place_of(change)))]


def conflict(
    changes: Iterable[OffsetChange], now: Mapping[TopicPartition, CommittedOffset]
) -> str | None:
    """Return how the committed offsets differ from those when the changes were planned."""
    texts = [change.conflict(now.get(place_of(change))) for change in changes]
    conflicts = [text for text in texts if text is not None]
    if not conflicts:
        return None
    more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
    return f"The group has changed since that was planned: {conflicts[0]}{more}."


def unwritten(
    kind: ProblemKind,
    reason: str,
    group_id: str,
    rest: Collection[OffsetChange],
    changes: Sequence[OffsetChange],
) -> tuple[Problem, ...]:
    """Return problems for the changes in `rest`: one for the group if these are all its changes.

    Otherwise one per partition, because a problem of the group means that nothing was changed.
    """
    if len(rest) == len(changes):
        return (Problem(kind, reason, group_id=group_id),)
    return by_partition(kind, reason, group_id, map(place_of, rest))


def by_partition(
    kind: ProblemKind, reason: str, group_id: str, partitions: Iterable[TopicPartition]
) -> tuple[Problem, ...]:
    """Return the same problem for each partition."""
    return tuple(
        Problem(kind, reason, group_id=group_id, topic=topic, partition=partition)
        for topic, partition in partitions
    )
