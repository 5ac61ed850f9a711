"""What a leader of librdkafka makes of the members and topics before it assigns.

Texts are compared as UTF-8 bytes, which is how Python compares texts too.

Source: `rd_kafka_cgrp_handle_JoinGroup`, `rd_kafka_group_MemberMetadata_consumer_read`
(rdkafka_cgrp.c), `rd_kafka_member_subscriptions_map`, `rd_kafka_group_member_cmp`,
`rd_kafka_use_rack_aware_assignment` (rdkafka_assignor.c) of librdkafka 2.16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgroup.assignor.base import AssignorError, Subscriber, Topic, uses_racks
from kgroup.assignor.java.scala_hash import champ_order
from kgroup.model.offsets_partition import string_hash

_MOST_TOPICS = 10_000
_SMALL_SET = 4


@dataclass(frozen=True, slots=True)
class EligibleTopic:
    """A topic with the members that subscribe to it.

    Attributes:
        name: its name.
        partitions: how many; 0 of one that does not exist.
        racks: of each partition's replicas, as far as they are known.
        members: in the order of the JoinGroup response.
    """

    name: str
    partitions: int
    racks: tuple[frozenset[str], ...]
    members: tuple[Subscriber, ...]


def crash(signal: str, reason: str) -> AssignorError:
    """Make the error of a leader whose process ends, by the signal that ends it."""
    return AssignorError(signal, f"the leader's process ends: {reason}")


def read(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Give the members whose subscriptions are read; the others get nothing."""
    return [member for member in members if 0 < len(member.topics) <= _MOST_TOPICS]


def eligible_topics(
    members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> list[EligibleTopic]:
    """Give the topics in the order of the broker's answer to the leader's question for them."""
    asked = list(dict.fromkeys(name for member in members for name in member.topics))
    eligible = []
    for name in _as_broker_answers(asked):
        topic = topics.get(name, Topic(0))
        racks = tuple(map(topic.racks_of, range(topic.partitions)))
        subscribers = tuple(member for member in members if name in member.topics)
        eligible.append(EligibleTopic(name, topic.partitions, racks, subscribers))
    return eligible


def _as_broker_answers(names: Sequence[str]) -> list[str]:
    """Order topics as a broker does, which puts those that it is asked for in a Scala set.

    Source: `KafkaApis.handleTopicMetadataRequest` of Kafka 2.6 and later, on Scala 2.13.
    """
    if len(names) <= _SMALL_SET:
        return list(names)
    return champ_order(names, [*map(string_hash, names)])


def in_order(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort members: two static ones by instance id, any other two by member id.

    Where a group has members of both kinds that is no order, and what comes of it depends on how
    the C library sorts: glibc merges two sorted halves.
    """
    if len(members) < 2:
        return list(members)
    half = len(members) // 2
    first, second = in_order(members[:half]), in_order(members[half:])
    merged = []
    while first and second:
        merged.append((second if _is_behind(first[0], second[0]) else first).pop(0))
    return merged + first + second


def _is_behind(one: Subscriber, other: Subscriber) -> bool:
    if one.instance_id is not None and other.instance_id is not None:
        return one.instance_id > other.instance_id
    return one.member_id > other.member_id


def need_racks(topics: Sequence[EligibleTopic]) -> bool:
    """Tell whether racks matter in topics."""
    racks = frozenset(member.rack for topic in topics for member in topic.members if member.rack)
    return uses_racks(racks, [racks for topic in topics for racks in topic.racks])
