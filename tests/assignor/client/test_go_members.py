"""What members made of Sarama and kafka-go are taken to send, against the bytes that they wrote."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import pytest

from kgroup.assignor.group_spec import CLIENTS
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.cluster import TopicPartition
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.assignor.client.members import TOPICS, recorded

ROWS = [row for library in ("sarama", "kafka-go") for row in recorded(library)]


def partitions(topics: Sequence[Any] | None) -> tuple[TopicPartition, ...]:
    return tuple(
        (topic["topic"], number) for topic in topics or () for number in topic["partitions"]
    )


def subscription_of(row: dict[str, Any]) -> dict[str, Any]:
    raw = b64decode(row["subscription"])
    if row["library"] == "kafka-go":
        raw = struct.pack(">h", 0) + raw[2:]  # it says version 1 and writes version 0
    return decode_subscription(raw, row["strategy"])


def owned_by(row: dict[str, Any]) -> tuple[TopicPartition, ...] | None:
    """Return what a member was assigned in the round before."""
    same = ("library", "version", "strategy", "member_id")
    for other in ROWS:
        if other["round"] == row["round"] - 1 and all(other[name] == row[name] for name in same):
            data = decode_assignment(b64decode(other["assignment"]))
            return partitions(data["assignedPartitions"])
    return None


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: "{library}-{version}-{strategy}-{round}".format(**row)
)
def test_members_send(row: dict[str, Any]) -> None:
    owned = owned_by(row)
    generation = None if owned is None else 1
    member = MemberSpec(
        row["member_id"], tuple(TOPICS), rack=row["rack"], owned=owned, generation=generation
    )
    (subscriber,) = CLIENTS[row["library"]].as_sent([member], row["strategy"], row["version"])
    sent = subscription_of(row)
    assert list(subscriber.topics) == sent["topics"]
    assert subscriber.goes_on == ("ownedPartitions" in sent)
    assert subscriber.owned == partitions(sent.get("ownedPartitions"))
    assert (-1 if subscriber.generation is None else subscriber.generation) == sent.get(
        "generationId", -1
    )
    user_data = sent["userData"]
    if row["strategy"] == "rack-affinity":
        assert b64decode(user_data).decode() == (subscriber.rack or "")
    elif row["strategy"] == "cooperative-sticky":
        assert subscriber.remembered is None
        assert (subscriber.remembered_generation or -1) == user_data["generation"]
    elif owned is None or row["strategy"] != "sticky":
        assert user_data is None
        assert subscriber.remembered is None
    else:
        assert set(subscriber.remembered or ()) == set(partitions(user_data["previousAssignment"]))
        assert subscriber.remembered_generation == user_data["generation"]
