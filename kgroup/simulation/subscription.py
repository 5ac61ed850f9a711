"""Subscriptions and assignments of consumers in classic groups, as bytes.

Source: `ConsumerProtocol` and the assignors of kafka-clients 4.3.1.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kgroup.assignor.base import AssignorError, Subscriber
from kgroup.assignor.client.java import as_sent, as_sent_1_1
from kgroup.assignor.group_spec import CLIENTS
from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.member_spec import NEWEST_VERSION, MemberSpec, Software
from kgroup.model.cluster import TopicPartition, numbers_by_topic, partitions_of
from kgroup.protocol.record import consumer_protocol
from kgroup.simulation.message import NO_GENERATION, JoinedMember

_OLDEST = 0
"""Message version before 2.4."""
_PYTHON = b"\0\1"
"""Version that begins the user data of kafka-python 3.0 and later."""


def encode_subscription(
    member: MemberSpec, strategy: str, library: Software | None = None
) -> bytes:
    """Encode a member's subscription, with the user data of the assignor.

    Args:
        member: member that joins.
        strategy: name of the assignor.
        library: the member's client library; None for Java's, in the member's message version.
    """
    user_data: dict[str, Any] | bytes | None = None
    if library is not None:
        (sent,) = CLIENTS[library.name].as_sent([member], strategy, library.version)
        version = sent.version if sent.goes_on else _OLDEST
    elif member.version == _OLDEST:
        member = replace(member, topics=tuple(hash_order(member.topics)))
        (sent,) = as_sent_1_1([member], strategy)
        version, user_data = _OLDEST, b""
    else:
        (sent,) = as_sent([member], strategy)
        version = member.version
    if sent.remembered_in_python is not None:
        owned, generation = sent.remembered_in_python
        remembered = {"previousAssignment": _by_topic(owned), "generation": generation}
        user_data = _PYTHON + consumer_protocol.encode_user_data(remembered)
    elif sent.remembered is not None or sent.remembered_generation is not None:
        user_data = {}
        if sent.remembered is not None:
            user_data["previousAssignment"] = _by_topic(sent.remembered)
        if member.version != _OLDEST or sent.remembered_generation is not None:
            user_data["generation"] = _or_no_generation(sent.remembered_generation)
    return consumer_protocol.encode_subscription(
        {
            "version": version,
            "topics": list(sent.topics),
            "userData": user_data,
            "ownedPartitions": _by_topic(sent.owned),
            "generationId": _or_no_generation(sent.generation),
            "rackId": sent.rack,
        }
    )


def decode_subscription(member: JoinedMember, strategy: str) -> Subscriber:
    """Decode a member's subscription as the leader does.

    Raises:
        AssignorError: the bytes are not a subscription.
    """
    data = consumer_protocol.decode_subscription(member.metadata)
    if "topics" not in data:
        raise AssignorError("SchemaException", data.get("error", "no bytes"))
    generation, version = data.get("generationId", NO_GENERATION), data["version"]
    raw = b64decode(data["userData"] or "")
    is_python = strategy == "sticky" and raw.startswith(_PYTHON)
    user_data = consumer_protocol.decode_user_data(raw.removeprefix(_PYTHON * is_python), strategy)
    remembered: tuple[TopicPartition, ...] | None = None
    if "previousAssignment" in user_data:
        remembered = _partitions(user_data["previousAssignment"])
    sent = Subscriber(
        member_id=member.member_id,
        topics=tuple(data["topics"]),
        instance_id=member.instance_id,
        rack=data.get("rackId"),
        owned=_partitions(data.get("ownedPartitions", ())),
        generation=None if generation == NO_GENERATION else generation,
        goes_on=version > _OLDEST,
        version=version,
    )
    remembered_generation = user_data.get("generation")
    if is_python:
        in_python = remembered or (), _or_no_generation(remembered_generation)
        return replace(sent, remembered_in_python=in_python)
    return replace(sent, remembered=remembered, remembered_generation=remembered_generation)


def encode_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """Encode a member's assignment in a message version.

    Before version 3, topics are in HashMap order.
    """
    topics = _by_topic(partitions)
    if version < NEWEST_VERSION:
        rank = {
            name: at for at, name in enumerate(hash_order([topic["topic"] for topic in topics]))
        }
        topics.sort(key=lambda assigned: rank[assigned["topic"]])
    return consumer_protocol.encode_assignment(
        {
            "version": version,
            "assignedPartitions": topics,
            "userData": b"" if version == _OLDEST else None,
        }
    )


@lru_cache(maxsize=64)  # members often get what one of them had in an earlier generation
def decode_assignment(raw: bytes) -> tuple[TopicPartition, ...] | None:
    """Return the partitions of an assignment; None if the bytes are not an assignment."""
    data = consumer_protocol.decode_assignment(raw)
    return _partitions(data["assignedPartitions"]) if "assignedPartitions" in data else None


@lru_cache(maxsize=64)
def sorted_assignment(raw: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment, sorted."""
    return tuple(sorted(set(decode_assignment(raw) or ())))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    numbers = numbers_by_topic(partitions)
    return [{"topic": topic, "partitions": some} for topic, some in numbers.items()]


def _partitions(topics: Iterable[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(partitions_of((topic["topic"], topic["partitions"]) for topic in topics))


def _or_no_generation(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation
