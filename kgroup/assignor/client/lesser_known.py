"""Round robin of kafka-node and ruby-kafka, which the leader of a group may use.

No dry run is computed as one of them. They show whether such a leader would assign otherwise.

Source: `assignRoundRobin` of kafka-node 5.0.0; `RoundRobinAssignmentStrategy` of ruby-kafka 1.5.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.java.java_hash import utf16
from kgroup.model.client_library import KAFKA_NODE, RUBY_KAFKA


def _of_kafka_node(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign to the members by id, without topics that do not exist.

    Topics are in the order of the Metadata response, which brokers give in that of the request.
    """
    names = dict.fromkeys(topic for member in members for topic in member.topics)
    turns = sorted(members, key=lambda member: utf16(member.member_id))
    return _dealt(members, turns, [name for name in names if name in topics], topics)


def _of_ruby_kafka(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign to the members as the coordinator lists them; the topics are sorted.

    Ruby's sort may change the order of a topic's partitions, so only their number is certain.
    """
    names = sorted({topic for member in members for topic in member.topics})
    return _dealt(members, members, names, topics)


def _dealt(
    members: Sequence[Subscriber],
    turns: Sequence[Subscriber],
    names: Sequence[str],
    topics: Mapping[str, TopicMetadata],
) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    at = 0
    for name in names:
        for number in range(_partitions(topics, name)):
            while name not in turns[at % len(turns)].topics:
                at += 1
            assignment[turns[at % len(turns)].member_id].append((name, number))
            at += 1
    return assignment


def _partitions(topics: Mapping[str, TopicMetadata], name: str) -> int:
    if name not in topics:
        raise AssignorError("Error", f"unknown topic {name}")
    return topics[name].partitions


LESSER_KNOWN: Mapping[str, ClassicAssignor] = {
    KAFKA_NODE: _of_kafka_node,
    RUBY_KAFKA: _of_ruby_kafka,
}
"""Round robin by library."""
