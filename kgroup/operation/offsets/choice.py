"""Which partitions a transfer or a deletion is about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.source.offset_change import At

Topics = Mapping[str, Collection[int] | None]
"""Which partitions, by topic: those of these numbers, None for all; no topic at all: every one."""
EVERY: Topics = {}


def is_chosen(at: At, topics: Topics) -> bool:
    """Tell whether a partition is one of these."""
    topic, partition = at
    numbers = topics.get(topic, ())
    return not topics or numbers is None or partition in numbers


def not_committed(
    chosen: Mapping[str, Collection[At]],
    topics: Topics,
    group_ids: Collection[str],
    problems: Collection[Problem] = (),
) -> Iterator[Problem]:
    """Tell what no group has of what is chosen, and named groups that have nothing of the rest.

    Topics that may not be described are left out: `problems` of the reading tell of them.
    """
    denied = {each.topic for each in problems if each.kind is ProblemKind.NOT_AUTHORIZED}
    topics = {topic: numbers for topic, numbers in topics.items() if topic not in denied}
    if not topics or not chosen:
        return
    known = {at for ats in chosen.values() for at in ats}
    known_topics = {topic for topic, _ in known}
    for topic, numbers in topics.items():
        if numbers is None and topic not in known_topics:
            text = f"{topic}: No offsets are committed for this topic."
            yield Problem(ProblemKind.NOT_FOUND, text, topic=topic)
        for number in sorted(numbers or ()):
            if (topic, number) not in known:
                text = f"{topic}-{number}: There is no offset of this partition."
                yield Problem(ProblemKind.NOT_FOUND, text, topic=topic, partition=number)
    for group_id, ats in chosen.items():
        if known and not ats and group_id in group_ids:
            reason = "There are no offsets of these partitions."
            yield Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id)
