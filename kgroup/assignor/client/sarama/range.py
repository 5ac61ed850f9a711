"""Range: each topic by itself, in runs of neighbouring partitions.

Source: `NewBalanceStrategyRange` and `balanceStrategy.Plan` of Sarama 1.61.1;
`BalanceStrategyRange` and `balanceStrategyHashValue` of 1.30.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kgroup.assignor.base import Assignment, Subscriber, Topic
from kgroup.assignor.client.sarama.metadata import by_topic, partition_counts
from kgroup.assignor.client.takers import takers_by_topic


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`: the first members get one more."""

    def runs(topic: str, takers: list[str], count: int) -> list[tuple[str, range]]:
        ids = sorted(set(takers))
        size, extra = divmod(count, len(ids))
        starts = [at * size + min(at, extra) for at in range(len(ids) + 1)]
        return [(member, range(starts[at], starts[at + 1])) for at, member in enumerate(ids)]

    return _in_runs(members, topics, runs)


def assign_1_28(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as before 1.35.0: members in the order of a hash, limits rounded half up.

    A topic that a member names twice counts for two members. Which of two members with one hash
    comes first is left to chance there; here it is the one with the lower id.
    """

    def runs(topic: str, takers: list[str], count: int) -> list[tuple[str, range]]:
        ids = sorted(takers, key=lambda member: (_fnv_1a(topic + member), member))
        step = count / len(ids)
        limits = [math.floor(at * step + 0.5) for at in range(len(ids) + 1)]
        return [(member, range(limits[at], limits[at + 1])) for at, member in enumerate(ids)]

    return _in_runs(members, topics, runs)


def _in_runs(
    members: Sequence[Subscriber],
    topics: Mapping[str, Topic],
    runs: Callable[[str, list[str], int], list[tuple[str, range]]],
) -> Assignment:
    plan: Assignment = {member.member_id: [] for member in members}
    takers = takers_by_topic(members)
    for topic, count in partition_counts(members, topics).items():
        ids = [member.member_id for member in takers[topic]]
        for member_id, run in runs(topic, ids, count):
            plan[member_id] += [(topic, number) for number in run]
    return by_topic(members, plan)


def _fnv_1a(text: str) -> int:
    """Hash a text by its code points."""
    value = 2166136261
    for character in text:
        value = (value ^ ord(character)) * 16777619 & 0xFFFFFFFF
    return value
