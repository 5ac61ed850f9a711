"""Round robin: all partitions of all topics are dealt to the members in turn.

Source: `kafka/coordinator/assignors/roundrobin.py` of kafka-python 3.0.12 and 2.2.21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.kafka_python.turn import by_id, static_first


def assign(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does, see `ClassicAssignor`.

    Raises:
        AssignorError: a partition's turn comes to a member that does not subscribe to its topic.
            The library means to skip it, but looks up the next one by a wrong key.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(static_first(members))
    for partition in _partitions(members, topics):
        member = next(turns)
        if partition[0] not in member.topics:
            following = next(turns)
            raise AssignorError("KeyError", repr((following.instance_id, following.member_id)))
        assignment[member.member_id].append(partition)
    return assignment


def assign_before_2_3(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    """Assign as the leader does: who is static does not matter, and turns are skipped."""
    assignment: Assignment = {member.member_id: [] for member in members}
    turns = cycle(by_id(members))
    for partition in _partitions(members, topics):
        taker = next(member for member in turns if partition[0] in member.topics)
        assignment[taker.member_id].append(partition)
    return assignment


def _partitions(
    members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> Iterator[TopicPartition]:
    subscribed = {topic for member in members for topic in member.topics}
    for name in sorted(subscribed.intersection(topics)):
        for partition in range(topics[name].partitions):
            yield name, partition
