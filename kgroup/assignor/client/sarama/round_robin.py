"""Round robin: the partitions of all topics are dealt to the members in turn.

Source: `roundRobinBalancer.Plan` of Sarama 1.61.1; the same since 1.28.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic
from kgroup.assignor.client.sarama.metadata import by_topic, partition_counts


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`.

    Partitions are sorted as texts, `orders-10` before `orders-2`.
    """
    counts = partition_counts(members, topics)
    if not counts:
        raise AssignorError("errorString", "members and topics are not provided")
    partitions = [(topic, number) for topic, count in counts.items() for number in range(count)]
    circle = sorted(members, key=lambda member: member.member_id)
    subscribed = [frozenset(member.topics) for member in circle]
    plan: Assignment = {member.member_id: [] for member in members}
    turn = 0
    for topic, number in sorted(partitions, key=lambda partition: f"{partition[0]}-{partition[1]}"):
        while topic not in subscribed[turn % len(circle)]:
            turn += 1
        plan[circle[turn % len(circle)].member_id].append((topic, number))
        turn += 1
    return by_topic(members, plan)
