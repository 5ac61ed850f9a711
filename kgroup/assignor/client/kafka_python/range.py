"""Range: of each topic, every member gets a run of neighbouring partitions.

Source: `kafka/coordinator/assignors/range.py` of kafka-python 3.0.12 and 2.2.21, which differ in
the turn of members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import Assignment, Subscriber, Topic
from kgroup.assignor.client.kafka_python.turn import Turn, by_id, static_first


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`."""
    return _assign(members, topics, static_first)


def assign_before_2_3(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Likewise, without regard to who is static."""
    return _assign(members, topics, by_id)


def _assign(members: Sequence[Subscriber], topics: Mapping[str, Topic], turn: Turn) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    subscribed = {topic for member in members for topic in member.topics}
    for name in sorted(subscribed.intersection(topics)):
        # who names a topic twice counts twice, and keeps the second run only
        takers = turn([member for member in members for topic in member.topics if topic == name])
        quota, extras = divmod(topics[name].partitions, len(takers))
        runs, start = {}, 0
        for at, member in enumerate(takers):
            end = start + quota + (at < extras)
            runs[member.member_id] = range(start, end)
            start = end
        for member_id, run in runs.items():
            assignment[member_id] += [(name, partition) for partition in run]
    return assignment
