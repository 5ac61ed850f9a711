"""Size of the record that holds a classic group in `__consumer_offsets`.

The coordinator writes one record with all members when a rebalance completes. A broker refuses a
batch that is larger than `max.message.bytes` of the topic, and answers each SyncGroup with
UNKNOWN_SERVER_ERROR; then the next rebalance starts (Kafka: `UnifiedLog.append`,
`appendGroupMetadataErrorToResponseError`; before 4.0 `GroupMetadataManager.storeGroup`).

A size is that of a batch of format 2 with this record only, without compression, in version 3 of
the value, which brokers write since Kafka 2.3. Older versions are smaller by at most 6 bytes per
member and 8 bytes per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.protocol.batch.batch_v2 import batch_size
from kgroup.protocol.record.coordinator_record import encode_key, encode_value

DEFAULT_LIMIT = 1_048_588
"""Default of `message.max.bytes`, which `max.message.bytes` of a topic overrides."""
_VERSION = 3


@dataclass(frozen=True, slots=True)
class GroupRecordSize:
    """Size of a classic group's record, and its largest parts, in bytes.

    Attributes:
        total: size of the batch that is compared with `max.message.bytes`.
        metadata: metadata (subscriptions) of all members.
        assignments: assignments of all members.
    """

    total: int
    metadata: int
    assignments: int


def group_record_size(group: Group) -> GroupRecordSize | None:
    """Return the size of the record of a stable group; None if it is unknown.

    If the leader is unknown, the longest member id is assumed.
    """
    if group.type is not GroupType.CLASSIC or group.state is not GroupState.STABLE:
        return None
    members = []
    for member in group.members:
        if member.metadata_bytes is None or member.assignment_bytes is None:
            return None
        members.append(
            member_in_record(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                bytes(member.metadata_bytes),
                bytes(member.assignment_bytes),
            )
        )
    if not members:
        return None
    ids = [member.member_id for member in group.members]
    return record_size(
        group.group_id,
        {
            "protocolType": group.protocol_type or "",
            "generation": 0,
            "protocol": group.assignor,
            "leader": group.leader_id or max(ids, key=_utf8_size),
            "currentStateTimestamp": 0,
            "members": members,
        },
    )


def member_in_record(
    member_id: str,
    instance_id: str | None,
    client_id: str | None,
    client_host: str | None,
    subscription: bytes,
    assignment: bytes,
) -> Mapping[str, object]:
    """Return a member of the record's value; timeouts, whose size is fixed, are 0."""
    return {
        "memberId": member_id,
        "groupInstanceId": instance_id,
        "clientId": client_id or "",
        "clientHost": client_host or "",
        "rebalanceTimeout": 0,
        "sessionTimeout": 0,
        "subscription": subscription,
        "assignment": assignment,
    }


def record_size(group_id: str, value: Mapping[str, Any]) -> GroupRecordSize:
    """Return the size of the record with this value (GroupMetadata); members have bytes."""
    key = encode_key("GroupMetadata", {"group": group_id})
    members = value["members"]
    return GroupRecordSize(
        batch_size(len(key), len(encode_value("GroupMetadata", _VERSION, value))),
        sum(len(member["subscription"]) for member in members),
        sum(len(member["assignment"]) for member in members),
    )


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
