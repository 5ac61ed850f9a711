"""Records of `__consumer_offsets`: key and value bytes to objects. The reference decoder.

Records are laid out as `record_family` says. Those of a transaction's end have another layout
(`ControlRecordType`, `EndTransactionMarker`, big endian):
    key     version int16, type int16: 0 abort, 1 commit
    value   version int16, coordinator epoch int32

No bytes make these functions raise, see `record_family`.
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
"""The record types by the number that their keys begin with (18 was never released)."""

_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "ShareGroupPartitionMetadata": ("coordinator_4_0",),
    "ShareGroupMetadata": ("coordinator", "coordinator_4_0"),
    "ShareGroupStatePartitionMetadata": ("coordinator", "coordinator_4_0"),
    "ConsumerGroupCurrentMemberAssignment": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupMemberMetadata": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupPartitionMetadata": ("coordinator", "coordinator_3_7"),
    "ConsumerGroupTargetAssignmentMember": ("coordinator", "coordinator_3_7"),
}
"""Where the value's schemas of a type are that early-access releases wrote in another shape.

Kafka 3.6 and 3.7 (KIP-848) and 4.0 (KIP-932, and 3.9 as far as it has it) gave those shapes the
same type and version numbers as the final ones. That the first shape counts which takes all bytes
decides every record that those releases write:

* ShareGroupMetadata: 5 bytes (epoch, no tags); the final one adds 8 bytes.
* ShareGroupStatePartitionMetadata: has two arrays where the final one has three. Read as the final
  one, the byte 0 of "no tags" comes where an array must be, as a null array: in the first topic of
  the second array, or after it.
* ConsumerGroupTargetAssignmentMember: begins with an error code that is always 0, to the final one
  a null array.
* ConsumerGroupPartitionMetadata: begins with an epoch that is always 0, to the final one the same.
* ConsumerGroupMemberMetadata: has an array before the tags, always empty (byte 1): to the final
  one "one tag", whose number and size run past the end. (The other way round, a final one that
  was cut two bytes short can pass for this.)
* ConsumerGroupCurrentMemberAssignment: has a target epoch before the arrays; the final one takes
  its first byte as the state and its second as an array's count, null unless the epoch is above
  65535, when an array of epoch >> 16 topics had to come out of the rest by chance, to the byte.
"""

_FAMILY = RecordFamily(
    KEY_TYPES,
    {name: _FOLDERS.get(name, ("coordinator",)) for name in KEY_TYPES.values()},
    raw_bytes=("GroupMetadata",),  # its members' bytes are decoded further
)
MOST_MEMBER_BYTES = 8 << 20
"""As objects they may be 40 times as large, where they were made for that."""

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
"""Types of control records by number (`ControlRecordType`); KRaft's are in no log of groups."""
_MARKERS = ("ControlAbort", "ControlCommit")
RECORD_TYPES = (*KEY_TYPES.values(), *CONTROL_TYPES.values(), "Unknown")
"""Names of all types that decoded records have."""
_read_version = Struct(">h").unpack_from
_read_marker = codec.versioned_reader("coordinator/EndTxnMarker")

decode_key = _FAMILY.decode_key
encode_key = _FAMILY.encode_key


def decode_record(
    key: bytes | None, value: bytes | None
) -> tuple[str, Decoded | None, Decoded | None]:
    """Decode a record that is no control record: its type, key and value (`DecodedRecord`)."""
    name, decoded = decode_key(key)
    return name, decoded, decode_value(name, value)


def decode_value(name: str, value: bytes | None) -> Decoded | None:
    """Decode the value of a record of type `name`, the members of a classic group too."""
    decoded = _FAMILY.decode_value(name, value)
    if name == "GroupMetadata" and decoded is not None and decoded["data"] is not None:
        decode_members(decoded["data"])
    return decoded


def decode_control(
    key: bytes | None, value: bytes | None
) -> tuple[str, Decoded | None, Decoded | None]:
    """Decode a control record: one of `CONTROL_TYPES` or "Unknown", key and value.

    The values of KRaft's stay undecoded.
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
    """The bytes of a value of type `name`, from what `decode_value` has under "data".

    Raises ValueError where a field is missing, or where a group is neither one of consumers (with
    the assignors' user data) nor has its members' subscription and assignment as bytes or base64.
    """
    if name == "GroupMetadata":
        is_consumer = data["protocolType"] == "consumer"
        members = [_encode_member(each, is_consumer=is_consumer) for each in data["members"]]
        data = {**data, "members": members}
    return _FAMILY.encode_value(name, version, data)


def decode_members(group: Decoded) -> None:
    """Decode in place what the members of a classic group say and were given."""
    kind, protocol = group["protocolType"], group["protocol"]
    size = sum(len(each["subscription"]) + len(each["assignment"]) for each in group["members"])
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
    """Decode in place, in a record's value, what members say that speak the classic protocol."""
    if kind == "ConsumerGroupMemberMetadata" and value and value["data"]:
        classic = value["data"].get("classicMemberMetadata")
        for protocol in classic["supportedProtocols"] if classic else ():
            metadata = base64_bytes(protocol["metadata"])
            protocol["metadata"] = consumer_protocol.decode_subscription(metadata, protocol["name"])


def _encode_member(member: Mapping[str, Any], *, is_consumer: bool) -> Mapping[str, Any]:
    """A member with its subscription and assignment as bytes again; only a consumer's are known."""
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
    """Return whether a key whose record nobody knows is that of a control record.

    No other key of version 0 is so short: one of an offset commit has ten bytes at least.
    """
    return len(key) == _CONTROL_KEY.size and _CONTROL_KEY.unpack(key) in _CONTROL_KEYS


_CONTROL_KEYS = frozenset((0, number) for number in CONTROL_TYPES)
