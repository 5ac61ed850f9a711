"""Which partitions a transfer or a deletion is about."""

from collections.abc import Collection, Iterator, Mapping, Sized

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.source.offset_change import At

__all__ = ["EVERY", "Topics", "is_chosen", "not_committed"]

Topics = Mapping[str, Collection[int] | None]
"""Which partitions, by topic: those of these numbers, None for all; no topic at all: every one."""
EVERY: Topics = {}


def is_chosen(at: At, topics: Topics) -> bool:
    """Tell whether a partition is one of these."""
    topic, partition = at
    numbers = topics.get(topic, ())
    return not topics or numbers is None or partition in numbers


def not_committed(chosen: Mapping[str, Sized]) -> Iterator[Problem]:
    """Tell of groups that have none of the partitions that were named."""
    for group_id, ats in chosen.items():
        if not ats:
            reason = "There are no offsets of these partitions."
            yield Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id)
