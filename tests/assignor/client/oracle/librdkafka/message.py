"""What members of librdkafka write, and what its leader writes for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from kgroup.assignor.base import Subscriber
from kgroup.assignor.group_spec import CLIENTS
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.spec import read_spec
from kgroup.protocol.record.consumer_protocol import decode_assignment, encode_subscription


def sent_in(spec: Mapping[str, Any]) -> list[Subscriber]:
    """Return what members send as kgroup has it, each as its own library does."""
    group = read_spec(spec)
    sent = []
    for member in group.members_as_sent:
        library, version = member.client or group.computed_as
        sent += CLIENTS[library].as_sent([member], group.strategy, version)
    return sent


def subscription(member: Subscriber) -> bytes:
    """Write a subscription."""
    user_data = None
    if member.remembered is not None:
        user_data = {
            "previousAssignment": _by_topic(member.remembered),
            "generation": member.remembered_generation,
        }
    return encode_subscription(
        {
            "version": member.version,
            "topics": list(member.topics),
            "userData": user_data or "",
            "ownedPartitions": _by_topic(member.owned),
            "generationId": -1 if member.generation is None else member.generation,
            "rackId": member.rack,
        }
    )


def assigned_in(assignment: bytes) -> list[list[Any]]:
    """Read the partitions in an assignment; none at all has none."""
    topics = decode_assignment(assignment)["assignedPartitions"] if assignment else []
    return [[topic["topic"], number] for topic in topics for number in topic["partitions"]]


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partitions": [number for _, number in own]}
        for topic, own in groupby(partitions, key=itemgetter(0))
    ]
