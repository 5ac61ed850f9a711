"""Records of `__consumer_offsets`: the reference decoder from key and value bytes to objects.

Records have the layout described in `record_family`. Transaction markers have another layout
(`ControlRecordType`, `EndTransactionMarker`, big endian):

    key     version int16, type int16: 0 abort, 1 commit
    value   version int16, coordinator epoch int32

These functions never raise for any bytes; see `record_family`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any

from kgroup.protocol.message import codec
from kgroup.protocol.message.primitives import DecodeError, base64_bytes, base64_text
from kgroup.protocol.record import connect_protocol, consumer_protocol
from kgroup.protocol.record.record_family import Decoded, RecordFamily, damaged

KEY_TYPES: Mapping[int, str] = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",  # 4.0 only
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""Record types by the number at the start of their keys (18 was never released)."""

_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "ShareGroupPartitionMetadata": ("coordinator_4_0",),
    "ShareGroupMetadata": ("coordinator", "coordinator_4_0"),
    "ShareGroupStatePartitionMetadata": ("coordinator", "coordinator_4_0"),
    "ConsumerGroupCurrentMemberAssignment": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupMemberMetadata": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupPartitionMetadata": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupTargetAssignmentMember": ("coordinator", "coordinator_3_7"),
}
"""Schema folders of types whose values early-access releases wrote with another layout.

Kafka 3.6 and 3.7 (KIP-848) and 4.0 (KIP-932, and 3.9 for its part of it) used the same type and
version numbers for these layouts as for the final ones. The first layout that consumes all bytes is
taken, which is correct for every record that those releases write:

* ShareGroupMetadata: 5 bytes (epoch, no tags); the final layout has 8 more bytes.
* ShareGroupStatePartitionMetadata: two arrays; the final layout has three. Decoded with the final
  layout, the byte 0 of "no tags" is at the place of an array and means a null array: in the first
  topic of the second array, or after it.
* ConsumerGroupTargetAssignmentMember: starts with an error code that is always 0; in the final
  layout this is a null array.
* ConsumerGroupPartitionMetadata: starts with an epoch that is always 0; in the final layout this is
  a null array too.
* ConsumerGroupMemberMetadata: has an array before the tags, always empty (byte 1); in the final
  layout this means "one tag", whose number and size run past the end. (Conversely, a value in the
  final layout that was truncated by two bytes can be mistaken for this layout.)
* ConsumerGroupCurrentMemberAssignment: has a target epoch before the arrays. The final layout takes
  its first byte as the state and its second as an array's count, which is null unless the epoch is
  above 65535; then the value fits only if the rest happens to be an array of epoch >> 16 topics.
"""

_FAMILY = RecordFamily(
    KEY_TYPES,
    {name: _FOLDERS.get(name, ("coordinator",)) for name in KEY_TYPES.values()},
    raw_bytes=("GroupMetadata",),  # members' bytes are decoded in a second step
)
MOST_MEMBER_BYTES = 8 << 20
"""Maximum size of all members' subscriptions and assignments in a group that is decoded.

As objects, crafted bytes may take 40 times as much memory.
"""

_CONTROL_KEY = Struct(">hh")
CONTROL_TYPES = {
    0: "ControlAbort",
    1: "ControlCommit",
    2: "ControlLeaderChange",
    3: "ControlSnapshotHeader",
    4: "ControlSnapshotFooter",
    5: "ControlKRaftVersion",
    6: "ControlKRaftVoters",
}
"""Types of control records by number (`ControlRecordType`); KRaft's never occur in logs of
groups.
"""
_MARKERS = ("ControlAbort", "ControlCommit")
RECORD_TYPES = (*KEY_TYPES.values(), *CONTROL_TYPES.values(), "Unknown")
"""Names of all types of decoded records."""
_read_version = Struct(">h").unpack_from
_read_marker = codec.versioned_reader("coordinator/EndTxnMarker")

decode_key = _FAMILY.decode_key
encode_key = _FAMILY.encode_key


def decode_record(
    key: bytes | None, value: bytes | None
) -> tuple[str, Decoded | None, Decoded | None]:
    """Decode a record that is not a control record to its type, key and value (`DecodedRecord`)."""
    name, decoded = decode_key(key)
    return name, decoded, decode_value(name, value)


def decode_value(name: str, value: bytes | None) -> Decoded | None:
    """Decode the value of a record of type `name`, including the members of a classic group."""
    decoded = _FAMILY.decode_value(name, value)
    if name == "GroupMetadata" and decoded is not None and decoded["data"] is not None:
        decode_members(decoded["data"])
    return decoded


def decode_control(
    key: bytes | None, value: bytes | None
) -> tuple[str, Decoded | None, Decoded | None]:
    """Decode a control record to one of `CONTROL_TYPES` or "Unknown", key and value.

    Values of KRaft's types are not decoded.
    """
    name, decoded = _decode_control_key(key)
    if value is None:
        return name, decoded, None
    value = bytes(value)
    if name not in _MARKERS:
        return name, decoded, decode_value("Unknown", value)
    try:
        marker = _read_marker(value)
    except DecodeError as error:
        version = _read_version(value)[0] if len(value) >= 2 else None
        return name, decoded, damaged("version", version, value, str(error))
    trailing = {"trailing": marker.pop("trailing")} if "trailing" in marker else {}
    return name, decoded, {"version": marker.pop("version"), "data": marker, **trailing}


def encode_value(name: str, version: int, data: Mapping[str, Any]) -> bytes:
    """Encode a value of type `name` from the "data" that `decode_value` returns.

    Raises ValueError if a field is missing, or if members of a group other than a consumer group
    have a decoded subscription or assignment instead of bytes or base64.
    """
    if name == "GroupMetadata":
        is_consumer = data["protocolType"] == "consumer"
        members = [_encode_member(member, is_consumer=is_consumer) for member in data["members"]]
        data = {**data, "members": members}
    return _FAMILY.encode_value(name, version, data)


def decode_members(group: Decoded) -> None:
    """Decode in place the subscriptions and assignments of the members of a classic group."""
    kind, protocol = group["protocolType"], group["protocol"]
    size = sum(
        len(member["subscription"]) + len(member["assignment"]) for member in group["members"]
    )
    for member in group["members"]:
        subscription, assignment = member["subscription"], member["assignment"]
        if size > MOST_MEMBER_BYTES and kind in ("consumer", "connect"):
            error = f"not decoded: the bytes of all members, {size}, are too many"
            member["subscription"] = {"raw": base64_text(subscription), "error": error}
            member["assignment"] = {"raw": base64_text(assignment), "error": error}
        elif kind == "consumer":
            member["subscription"] = consumer_protocol.decode_subscription(subscription, protocol)
            member["assignment"] = consumer_protocol.decode_assignment(assignment, protocol)
        elif kind == "connect":
            member["subscription"] = connect_protocol.decode_metadata(subscription)
            member["assignment"] = connect_protocol.decode_assignment(assignment)
        else:
            member["subscription"] = {"raw": base64_text(subscription)}
            member["assignment"] = {"raw": base64_text(assignment)}


def decode_subscriptions(kind: str, value: Mapping[str, Any] | None) -> None:
    """Decode in place the classic-protocol subscriptions in a record's value."""
    if kind == "ConsumerGroupMemberMetadata" and value and value["data"]:
        classic = value["data"].get("classicMemberMetadata")
        for protocol in classic["supportedProtocols"] if classic else ():
            metadata = base64_bytes(protocol["metadata"])
            protocol["metadata"] = consumer_protocol.decode_subscription(metadata, protocol["name"])


def _encode_member(member: Mapping[str, Any], *, is_consumer: bool) -> Mapping[str, Any]:
    """Return a member with encoded subscription and assignment; only consumers' can be encoded."""
    encoded = dict(member)
    for field, encode in (
        ("subscription", consumer_protocol.encode_subscription),
        ("assignment", consumer_protocol.encode_assignment),
    ):
        if isinstance(member[field], Mapping):
            if not is_consumer and "raw" not in member[field]:
                raise ValueError(f"{field}: only a consumer's can be encoded")
            encoded[field] = encode(member[field])
    return encoded


def _decode_control_key(key: bytes | None) -> tuple[str, Decoded | None]:
    if key is None:
        return "Unknown", None
    key = bytes(key)
    if len(key) < 4:
        return "Unknown", damaged("type", None, key, f"type: 4 bytes expected, {len(key)} left")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        return "Unknown", damaged("type", None, key, f"version: {version} is negative")
    decoded: Decoded = {"type": None, "data": {"version": version, "type": number}}
    if len(key) > 4:
        decoded["trailing"] = base64_text(key[4:])
    return CONTROL_TYPES.get(number, "Unknown"), decoded


def is_control_key(key: bytes) -> bool:
    """Return whether a key of unknown record kind is that of a control record.

    No other key of version 0 is so short: that of an offset commit has at least ten bytes.
    """
    return len(key) == _CONTROL_KEY.size and _CONTROL_KEY.unpack(key) in _CONTROL_KEYS


_CONTROL_KEYS = frozenset((0, number) for number in CONTROL_TYPES)
