"""Round robin: all partitions of all topics are dealt to the members in turn.

Source: `RoundRobinAssignor` of kafka-clients 4.3.1; 1.1.1 assigns the same where nobody is static.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Assignment, Subscriber, Topic, by_member_info, in_hash_order
from kgroup.assignor.java_hash import utf16

__all__ = ["assign"]


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does.

    Args:
        members: in the order of the JoinGroup response.
        topics: of the cluster.
    """
    members = in_hash_order(members)
    assignment: Assignment = {member.member_id: [] for member in members}
    circle = by_member_info(members)
    given = [assignment[member.member_id] for member in circle]
    subscribed = [frozenset(member.topics) for member in circle]
    turn = 0
    for topic in sorted(set[str]().union(*subscribed), key=utf16):
        # the members that take from this topic, in turn from the next one on
        takers = [at for at, names in enumerate(subscribed) if topic in names]
        count = topics[topic].partitions if topic in topics else 0
        if not count:
            continue
        first = next((index for index, at in enumerate(takers) if at >= turn), 0)
        for partition in range(count):
            given[takers[(first + partition) % len(takers)]].append((topic, partition))
        turn = (takers[(first + count - 1) % len(takers)] + 1) % len(circle)
    return assignment
