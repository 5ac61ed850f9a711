"""Decoded records, as the decoders give them, written short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord

Data = Mapping[str, Any]

TOPIC_ID = "vSfqgMKeR9eannCdjVzeYQ"
NOW_MS = 1_700_000_000_000

_offsets = count()


def record(
    kind: str,
    key: Data | None,
    value: Data | None,
    *,
    offset: int | None = None,
    producer_id: int | None = None,
) -> DecodedRecord:
    """Make a record, of a transaction if it has a producer; offsets count up by themselves."""
    return DecodedRecord(
        partition=0,
        offset=next(_offsets) if offset is None else offset,
        timestamp_ms=NOW_MS,
        timestamp_type="create",
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=None if producer_id is None else 0,
        transaction=None if producer_id is None else "open",
        type=kind,
        key=None if key is None else {"type": 0, "data": key},
        value=None if value is None else {"version": 0, "data": value},
    )


def commit(
    group: str,
    partition: int,
    committed: int,
    *,
    topic: str = "orders",
    producer_id: int | None = None,
    offset: int | None = None,
    **more: Any,
) -> DecodedRecord:
    value = {"offset": committed, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW_MS}
    return record(
        "OffsetCommit",
        {"group": group, "topic": topic, "partition": partition},
        {**value, **more},
        offset=offset,
        producer_id=producer_id,
    )


def commit_tombstone(
    group: str, partition: int, *, topic: str = "orders", offset: int | None = None
) -> DecodedRecord:
    key = {"group": group, "topic": topic, "partition": partition}
    return record("OffsetCommit", key, None, offset=offset)


def marker(producer_id: int, *, committed: bool, offset: int | None = None) -> DecodedRecord:
    kind = "ControlCommit" if committed else "ControlAbort"
    value = {"coordinatorEpoch": 0}
    plain = record(kind, {"version": 0, "type": int(committed)}, value, offset=offset)
    return replace(plain, producer_id=producer_id, producer_epoch=0)


def classic(group: str, members: Iterable[Data] = (), **more: Any) -> DecodedRecord:
    """Make a GroupMetadata record of a consumer group of the classic protocol."""
    members = list(members)
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range" if members else None,
        "leader": members[0]["memberId"] if members else None,
        "currentStateTimestamp": NOW_MS,
        "members": members,
    }
    return record("GroupMetadata", {"group": group}, {**value, **more})


def classic_member(
    member_id: str, *, partitions: Iterable[int] = (), topic: str = "orders", **more: Any
) -> Data:
    return {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": {
            "version": 3,
            "topics": [topic],
            "userData": None,
            "ownedPartitions": [],
            "generationId": -1,
            "rackId": None,
        },
        "assignment": {
            "version": 3,
            "assignedPartitions": [{"topic": topic, "partitions": list(partitions)}],
            "userData": None,
        },
        **more,
    }


def consumer_member(
    group: str,
    member_id: str,
    *,
    epoch: int,
    partitions: Iterable[int] = (),
    state: int = 0,
    revoked: Iterable[int] = (),
    **more: Any,
) -> list[DecodedRecord]:
    """Make the records of a KIP-848 member: itself, its target and its current assignment."""
    key = {"groupId": group, "memberId": member_id}
    metadata = {
        "instanceId": None,
        "rackId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 300_000,
        "serverAssignor": None,
        **more,
    }

    def topics(numbers: Iterable[int]) -> list[Data]:
        numbers = list(numbers)
        return [{"topicId": TOPIC_ID, "partitions": numbers}] if numbers else []

    return [
        record("ConsumerGroupMemberMetadata", key, metadata),
        record("ConsumerGroupTargetAssignmentMember", key, {"topicPartitions": topics(partitions)}),
        record(
            "ConsumerGroupCurrentMemberAssignment",
            key,
            {
                "memberEpoch": epoch,
                "previousMemberEpoch": epoch - 1,
                "state": state,
                "assignedPartitions": topics(partitions),
                "partitionsPendingRevocation": topics(revoked),
            },
        ),
    ]


def epochs(group: str, *, group_epoch: int, assignment_epoch: int | None) -> list[DecodedRecord]:
    key = {"groupId": group}
    records = [record("ConsumerGroupMetadata", key, {"epoch": group_epoch})]
    if assignment_epoch is not None:
        value = {"assignmentEpoch": assignment_epoch}
        records.append(record("ConsumerGroupTargetAssignmentMetadata", key, value))
    return records


def replay(*records: DecodedRecord | Iterable[DecodedRecord]) -> Delta:
    delta = Delta(0)
    for each in records:
        for one in [each] if isinstance(each, DecodedRecord) else each:
            delta.replay(one)
    return delta


def groups(*records: DecodedRecord | Iterable[DecodedRecord]) -> dict[str, Group]:
    """Replay records that must not make any problem."""
    delta = replay(*records)
    assert delta.problems() == ()
    return delta.groups()
