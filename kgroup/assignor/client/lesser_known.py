"""Round robin of kafka-node, kafka-ts and ruby-kafka, which the leader of a group may use.

No dry run is computed as one of them. They show whether such a leader would assign otherwise.

Source: `assignRoundRobin` of kafka-node 5.0.0; `consumer-group.ts` of kafka-ts 1.5.0;
`RoundRobinAssignmentStrategy` of ruby-kafka 1.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kgroup.assignor.base import (
    Assignment,
    AssignorError,
    ClassicAssignor,
    Subscriber,
    TopicMetadata,
)
from kgroup.assignor.client.kafkajs import as_keys, topics_of_leader
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.client_library import KAFKA_NODE, KAFKA_TS, RUBY_KAFKA


def _of_kafka_node(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign to the members by id, without topics that do not exist.

    Topics are in the order of the Metadata response, which brokers give in that of the request.
    """
    names = dict.fromkeys(topic for member in members for topic in member.topics)
    turns = sorted(members, key=lambda member: utf16(member.member_id))
    ascending = {name: TopicMetadata(topics[name].partitions) for name in names if name in topics}
    return _dealt(members, turns, [*ascending], ascending)


def _of_kafka_ts(members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]) -> Assignment:
    """Assign all partitions that the leader knows to all members, by instance id or else by id.

    As with KafkaJS, these are the partitions of its own topics, and subscriptions are not read; but
    it only looks at topics when it starts, and `localeCompare` sorts the ids.
    """
    turns = sorted(members, key=lambda member: _by_locale(member.instance_id or member.member_id))
    names = as_keys(topics_of_leader(members, topics))
    takers = [replace(member, topics=tuple(names)) for member in turns]
    return _dealt(members, takers, names, topics)


_COLLATION = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
"""Printable characters of ASCII, in the order of ICU's root collation."""


def _by_locale(text: str) -> tuple[list[int], list[bool]]:
    """Return a key that sorts like JavaScript's `localeCompare`, up to 0x7f: "a" before "A"."""
    return [_COLLATION.find(letter.lower()) for letter in text], [*map(str.isupper, text)]


def _of_ruby_kafka(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    """Assign to the members as the coordinator lists them; the topics are sorted.

    Partitions are in the order of the Metadata response, unless Ruby's sort changes it, so only
    their number is certain.
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
        for number in _partitions(topics, name):
            while name not in turns[at % len(turns)].topics:
                at += 1
            assignment[turns[at % len(turns)].member_id].append((name, number))
            at += 1
    return assignment


def _partitions(topics: Mapping[str, TopicMetadata], name: str) -> Sequence[int]:
    if name not in topics:
        raise AssignorError("Error", f"unknown topic {name}")
    return topics[name].as_listed


LESSER_KNOWN: Mapping[str, ClassicAssignor] = {
    KAFKA_NODE: _of_kafka_node,
    KAFKA_TS: _of_kafka_ts,
    RUBY_KAFKA: _of_ruby_kafka,
}
"""Round robin by library."""


def is_passed_over(names: Sequence[str], leaders: Iterable[MemberSpec]) -> bool:
    """Return whether the only name is that of ruby-kafka, and no leader has its client id.

    It is no longer developed, so without that sign the leader is taken to use another library.
    """
    return names == [RUBY_KAFKA] and all(each.may_be != frozenset(names) for each in leaders)
