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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.protocol.batch.batch_v2 import batch_size
from kgroup.protocol.record.coordinator_record import encode_key

DEFAULT_LIMIT = 1_048_588
"""Default of `message.max.bytes`, which `max.message.bytes` of a topic overrides."""
_GROUP_SIZE = 2 + 4 + 8 + 4
"""Bytes of version, generation, time stamp and number of members."""
_MEMBER_SIZE = 4 * 4
"""Bytes of a member's two timeouts, and of the lengths of metadata and assignment."""


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


class MemberInRecord(NamedTuple):
    """What a record has of a member, as far as it has no fixed size.

    Attributes:
        metadata: bytes of the metadata (subscription).
        assignment: bytes of the assignment.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    metadata: int
    assignment: int


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
            MemberInRecord(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata_bytes,
                member.assignment_bytes,
            )
        )
    if not members:
        return None
    return record_size(
        group.group_id,
        group.protocol_type,
        group.assignor,
        group.leader_id or max((member.member_id for member in members), key=_utf8_size),
        members,
    )


def record_size(
    group_id: str,
    protocol_type: str | None,
    protocol: str | None,
    leader_id: str | None,
    members: Sequence[MemberInRecord],
) -> GroupRecordSize:
    """Return the size of the record (GroupMetadata) of a group with these members."""
    texts = [protocol_type, protocol, leader_id]
    for member in members:
        texts += member[:4]
    metadata = sum(member.metadata for member in members)
    assignments = sum(member.assignment for member in members)
    value = _GROUP_SIZE + 2 * len(texts) + sum(map(_utf8_size, texts))
    value += _MEMBER_SIZE * len(members) + metadata + assignments
    key = encode_key("GroupMetadata", {"group": group_id})
    return GroupRecordSize(batch_size(len(key), value), metadata, assignments)


def _utf8_size(text: str | None) -> int:
    return len((text or "").encode("utf-8", "replace"))
