"""The record tables and `members` in plain Python, record by record: an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgroup.model.record import DecodedRecord, known

Row = dict[str, Any]

_GROUP_TYPES = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}


def facts_of_record(record: DecodedRecord) -> Iterator[tuple[str, Row]]:
    """Yield the rows that a record makes, each after the name of its table."""
    key = (record.key or {}).get("data")
    value = (record.value or {}).get("data")
    time_ms = record.timestamp_ms
    if time_ms is None and value is not None and "Commit" in record.type:
        time_ms = value.get("commitTimestamp")
    row: Row = {
        "offsets_partition": record.partition,
        "log_offset": record.offset,
        "time_ms": time_ms,
        "log_leader_epoch": record.leader_epoch,
    }
    producer = {
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "transaction": record.transaction,
    }
    if record.type in ("ControlCommit", "ControlAbort") and record.value is not None:
        yield (
            "transactions",
            row
            | {
                "producer_id": record.producer_id,
                "producer_epoch": record.producer_epoch,
                "outcome": "committed" if record.type == "ControlCommit" else "aborted",
                "coordinator_epoch": value and value["coordinatorEpoch"],
            },
        )
        return
    is_known = not record.type.startswith(("Control", "Unknown")) and key is not None
    row["group_id"] = None
    if key is not None and not record.type.startswith("Control"):
        row["group_id"] = key.get("group", key.get("groupId"))
    if is_known and key and record.value is None:
        is_commit = record.type.endswith("OffsetCommit")
        is_whole = record.key is not None and record.key.keys() == {"type", "data"}
        yield (
            "tombstones",
            row
            | producer
            | {
                "type": record.type,
                "member_id": key.get("memberId"),
                "topic": key["topic"] if is_commit else None,
                "partition": key["partition"] if is_commit else None,
                "key_json": None if is_commit and is_whole else record.key,
            },
        )
    elif not is_known or not key or value is None:
        yield (
            "other_records",
            row
            | producer
            | {"type": record.type, "key_json": record.key, "value_json": record.value},
        )
    elif record.type.endswith("OffsetCommit"):
        yield "offset_commits", row | producer | _commit(key, value)
    elif record.type == "GroupMetadata":
        yield from _generation(row, dict(record.value or {}), value)
    else:
        yield from _epoch(row, record, key, value)


def _commit(key: Row, value: Row) -> Row:
    return {
        "topic": key["topic"],
        "partition": key["partition"],
        "committed_offset": value["offset"],
        "leader_epoch": known(value.get("leaderEpoch")),
        "metadata": value["metadata"],
        "commit_timestamp_ms": value["commitTimestamp"],
        "expire_timestamp_ms": known(value.get("expireTimestamp")),
        "topic_id": value.get("topicId"),
    }


def _generation(row: Row, whole: Row, value: Row) -> Iterator[tuple[str, Row]]:
    yield (
        "group_generations",
        row
        | {
            "generation_id": value["generation"],
            "protocol_type": value["protocolType"],
            "protocol": value["protocol"],
            "leader_id": value["leader"],
            "state_timestamp_ms": known(value.get("currentStateTimestamp")),
            "member_count": len(value["members"]),
            "value_version": whole["version"],
            "value_json": whole,
        },
    )
    for member in value["members"]:
        given = member["assignment"].get("assignedPartitions")
        if value["protocolType"] == "consumer" and member["assignment"].get("raw") == "":
            given = []
        yield (
            "members",
            row
            | {
                "group_type": "classic",
                "generation_id": value["generation"],
                "member_id": member["memberId"],
                "instance_id": member.get("groupInstanceId"),
                "client_id": member["clientId"],
                "client_host": member["clientHost"],
                "rack_id": member["subscription"].get("rackId"),
                "session_timeout_ms": member["sessionTimeout"],
                "rebalance_timeout_ms": member.get("rebalanceTimeout"),
                "subscribed_topics": member["subscription"].get("topics"),
                "subscribed_regex": None,
                "server_assignor": None,
                "assignment": _assigned(given, "topic", "topic"),
            },
        )


def _epoch(row: Row, record: DecodedRecord, key: Row, value: Row) -> Iterator[tuple[str, Row]]:
    kind = next(kind for name, kind in _GROUP_TYPES.items() if record.type.startswith(name))
    about = row | {"group_type": kind, "member_id": key.get("memberId")}
    epochs = ("epoch", "assignmentEpoch", "memberEpoch")
    tasks, revoked = _tasks(value, ""), _tasks(value, "PendingRevocation")
    given = value.get("assignedPartitions", value.get("topicPartitions"))
    yield (
        "consumer_group_epochs",
        about
        | {
            "type": record.type,
            "epoch": next((value[name] for name in epochs if name in value), None),
            "previous_epoch": value.get("previousMemberEpoch"),
            "state": value.get("state"),
            "assignment": tasks if given is None else _assigned(given, "topic_id", "topicId"),
            "pending_revocation": revoked
            if "partitionsPendingRevocation" not in value
            else _assigned(value["partitionsPendingRevocation"], "topic_id", "topicId"),
            "value_json": record.value,
        },
    )
    if record.type.endswith("MemberMetadata"):
        classic = value.get("classicMemberMetadata") or {}
        yield (
            "members",
            about
            | {
                "generation_id": None,
                "instance_id": value.get("instanceId"),
                "client_id": value["clientId"],
                "client_host": value["clientHost"],
                "rack_id": value["rackId"],
                "session_timeout_ms": classic.get("sessionTimeoutMs"),
                "rebalance_timeout_ms": known(value.get("rebalanceTimeoutMs")),
                "subscribed_topics": value.get("subscribedTopicNames"),
                "subscribed_regex": value.get("subscribedTopicRegex"),
                "server_assignor": value.get("serverAssignor"),
                "assignment": None,
            },
        )


def _tasks(value: Row, ending: str) -> list[Row] | None:
    if f"activeTasks{ending}" not in value:
        return None
    return [
        task | {"role": role}
        for role in ("active", "standby", "warmup")
        for task in _assigned(value[f"{role}Tasks{ending}"], "subtopology", "subtopologyId") or ()
    ]


def _assigned(given: list[Row] | None, place: str, name: str) -> list[Row] | None:
    if given is None:
        return None
    nothing = {"topic": None, "topic_id": None, "subtopology": None, "role": None}
    return [nothing | {place: each[name], "partitions": each["partitions"]} for each in given]
