"""Round robin: the partitions of all topics are assigned to the members in turn.

Source: `RoundRobinAssignor` of kafka-clients 4.3.1; 1.1.1 assigns the same without static members.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby

from kgroup.assignor.base import (
    Assignment,
    Subscriber,
    TopicMetadata,
    by_member_info,
    consumers_by_topic,
    in_hash_order,
)
from kgroup.assignor.java.java_hash import utf16


def assign(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign as the leader does; see `ClassicAssignor`."""
    members = in_hash_order(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    circle = by_member_info(members)
    partitions = [assignment[member.member_id] for member in circle]
    subscriptions = [member.topics for member in circle]
    subscribed = {topic for topics in dict.fromkeys(subscriptions) for topic in topics}
    names = sorted((name for name in subscribed if name in topics), key=utf16)
    takers = consumers_by_topic(subscriptions, [name for name in names if topics[name].partitions])
    turn = 0
    for _, alike in groupby(takers, key=lambda name: id(takers[name])):
        block = list(alike)  # topics with the same subscribers
        sharing = takers[block[0]]
        dealt = [(name, number) for name in block for number in range(topics[name].partitions)]
        first = bisect_left(sharing, turn)
        for offset in range(min(len(sharing), len(dealt))):
            partitions[sharing[(first + offset) % len(sharing)]] += dealt[offset :: len(sharing)]
        turn = (sharing[(first + len(dealt) - 1) % len(sharing)] + 1) % len(circle)
    return assignment
