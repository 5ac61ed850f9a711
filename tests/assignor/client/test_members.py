"""What members are taken to send, against the bytes that the libraries wrote."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import pytest

from kgroup.assignor.base import Subscriber
from kgroup.assignor.group_spec import CLIENTS
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.cluster import TopicPartition
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.assignor.client.answers import MODELS
from tests.assignor.client.members import TOPICS, recorded

OF_OTHER_TESTS = ("franz-go", "librdkafka")
"""One has tests of its own, the other is asked in a live group."""
LIBRARIES = dict.fromkeys(model.library for model in MODELS)
ROWS = [row for name in LIBRARIES if name not in OF_OTHER_TESTS for row in recorded(name)]


def partitions(topics: Sequence[Any] | None) -> tuple[TopicPartition, ...]:
    return tuple(
        (topic["topic"], number) for topic in topics or () for number in topic["partitions"]
    )


def subscription_of(row: dict[str, Any]) -> dict[str, Any]:
    raw = b64decode(row["subscription"])
    if row["library"] in ("kafkajs", "kafka-go", "@platformatic/kafka"):
        raw = struct.pack(">h", 0) + raw[2:]  # it says version 1 (KafkaJS before 2.0), writes 0
    return decode_subscription(raw, row["strategy"])


def owned_by(row: dict[str, Any]) -> tuple[TopicPartition, ...] | None:
    """Return what a member was assigned in the round before."""
    same = ("library", "version", "strategy", "member_id")
    for other in ROWS:
        if other["round"] == row["round"] - 1 and all(other[name] == row[name] for name in same):
            data = decode_assignment(b64decode(other["assignment"]))
            return partitions(data["assignedPartitions"])
    return None


def python_user_data(sent: dict[str, Any]) -> tuple[tuple[TopicPartition, ...], int] | None:
    """Return what a sticky member of kafka-python remembers."""
    data = sent["userData"]
    if not data:
        return None
    if "error" in data:  # Java cannot read it; after the version it is as Java's
        raw = b64decode(data["raw"])
        assert raw[:2] == struct.pack(">h", 1)
        inner = struct.pack(">hii", 0, 0, len(raw) - 2) + raw[2:]
        data = decode_subscription(inner, "sticky")["userData"]
    return partitions(data["previousAssignment"]), data["generation"]


def check_python(row: dict[str, Any], sent: dict[str, Any], subscriber: Subscriber) -> None:
    if row["strategy"] == "sticky":
        is_versioned = row["version"].startswith("3.")
        plain = (
            None
            if subscriber.remembered is None
            else (subscriber.remembered, subscriber.remembered_generation)
        )
        user_data = python_user_data(sent)
        assert (subscriber.remembered_in_python if is_versioned else plain) == user_data
        assert (user_data is None) == (owned_by(row) is None)


def check_go(row: dict[str, Any], sent: dict[str, Any], subscriber: Subscriber) -> None:
    assert subscriber.goes_on == ("ownedPartitions" in sent)
    generation = -1 if subscriber.generation is None else subscriber.generation
    assert generation == sent.get("generationId", -1)
    user_data = sent["userData"]
    if row["strategy"] == "rack-affinity":
        assert b64decode(user_data).decode() == (subscriber.rack or "")
    elif row["strategy"] == "cooperative-sticky":
        assert subscriber.remembered is None
        assert (subscriber.remembered_generation or -1) == user_data["generation"]
    elif owned_by(row) is None or row["strategy"] != "sticky":
        assert user_data is None
        assert subscriber.remembered is None
    else:
        assert set(subscriber.remembered or ()) == set(partitions(user_data["previousAssignment"]))
        assert subscriber.remembered_generation == user_data["generation"]


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: "{library}-{version}-{strategy}-{round}".format(**row)
)
def test_members_send(row: dict[str, Any]) -> None:
    owned = owned_by(row)
    generation = None if owned is None else 1
    member = MemberSpec(
        row["member_id"], tuple(TOPICS), rack=row.get("rack"), owned=owned, generation=generation
    )
    (subscriber,) = CLIENTS[row["library"]].as_sent([member], row["strategy"], row["version"])
    sent = subscription_of(row)
    assert list(subscriber.topics) == sent["topics"]
    assert subscriber.owned == partitions(sent.get("ownedPartitions"))
    check = check_go if row["library"] in ("sarama", "kafka-go") else check_python
    check(row, sent, subscriber)
