"""Who subscribes to what, as libraries for Go see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Subscriber


def takers_by_topic(members: Sequence[Subscriber]) -> Mapping[str, Sequence[Subscriber]]:
    """Give the members that name each topic; who names it twice is there twice."""
    takers: dict[str, list[Subscriber]] = defaultdict(list)
    for member in members:
        for topic in member.topics:
            takers[topic].append(member)
    return takers
