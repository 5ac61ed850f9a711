"""Round robin: all partitions of all topics are dealt to the members in turn.

Source: `rd_kafka_roundrobin_assignor_assign_cb` of librdkafka 2.16; the same since 1.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from kgroup.assignor.base import Assignment, Subscriber, Topic
from kgroup.assignor.client.librdkafka.group import eligible_topics, in_order, read


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`."""
    assignment: Assignment = {member.member_id: [] for member in members}
    readable = read(members)
    circle = in_order(readable)
    turn = -1
    for topic in sorted(eligible_topics(readable, topics), key=attrgetter("name")):
        for partition in range(topic.partitions):
            turn = (turn + 1) % len(circle)
            while topic.name not in circle[turn].topics:
                turn = (turn + 1) % len(circle)
            assignment[circle[turn].member_id].append((topic.name, partition))
    return assignment
