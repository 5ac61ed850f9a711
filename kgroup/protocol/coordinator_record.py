"""Records of `__consumer_offsets`: key and value bytes to objects. The reference decoder.

Wire layout (`CoordinatorRecordSerde`, big endian):
    key     type int16, then the key message of that type
    value   version int16, then the value message in that version; no value at all: a tombstone

Records of a transaction's end have another layout (`ControlRecordType`, `EndTransactionMarker`):
    key     version int16, type int16: 0 abort, 1 commit
    value   version int16, coordinator epoch int32

No bytes make these functions raise: what does not fit comes back as base64 under "raw", with what
is wrong under "error". Like Kafka they read a message that ends before its bytes do; what follows
it is kept as base64 under "trailing".
"""

from collections.abc import Mapping
from functools import cache
from struct import Struct
from typing import Any

from kgroup.protocol import connect_protocol, consumer_protocol, message_schema, messages
from kgroup.protocol.primitives import DecodeError, base64_text

__all__ = [
    "KEY_TYPES",
    "decode_control",
    "decode_key",
    "decode_record",
    "decode_value",
    "encode_key",
    "encode_value",
]

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

_NUMBERS = {name: number for number, name in KEY_TYPES.items()}

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
same type and version numbers as the final ones, newest first here. The first that takes all bytes
counts (an older one only without tagged fields, which it never had), and that decides every record
that those releases write:

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

_VERSION = Struct(">h")
_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES = {0: "ControlAbort", 1: "ControlCommit"}
_read_version = _VERSION.unpack_from
_read_marker = messages.versioned_reader("coordinator/EndTxnMarker")
_Decoded = dict[str, Any]


def decode_record(
    key: bytes | None, value: bytes | None
) -> tuple[str, _Decoded | None, _Decoded | None]:
    """Decode a record that is no control record: its type, key and value (`DecodedRecord`)."""
    name, decoded = decode_key(key)
    return name, decoded, decode_value(name, value)


def decode_key(key: bytes | None) -> tuple[str, _Decoded | None]:
    """Decode a key: the record's type, and ``{"type": number, "data": {...}}``.

    The type is "Unknown" with ``{"type", "raw"}`` for a number that no schema knows, with
    ``{"type", "data": None, "raw", "error"}`` for bytes that do not fit, with None for no key.
    """
    if key is None:
        return "Unknown", None
    if type(key) is not bytes:
        key = bytes(key)
    size = len(key)
    if size < 2:
        return "Unknown", _damaged("type", None, key, f"type: 2 bytes expected, {size} left")
    (number,) = _read_version(key)
    name = KEY_TYPES.get(number)
    if name is None:
        return "Unknown", {"type": number, "raw": base64_text(key)}
    try:
        data, end = _key_reader(name)(key, 2, size)
    except DecodeError as error:
        return "Unknown", _damaged("type", number, key, str(error))
    if end != size:
        return name, {"type": number, "data": data, "trailing": base64_text(key[end:])}
    return name, {"type": number, "data": data}


def decode_value(name: str, value: bytes | None) -> _Decoded | None:
    """Decode the value of a record of type `name`: ``{"version": int, "data": {...}}``.

    ``{"version", "data": None, "raw"}`` for a version that no schema knows, and "error" beside
    them for bytes that do not fit; None for a tombstone.
    """
    if value is None:
        return None
    if type(value) is not bytes:
        value = bytes(value)
    size = len(value)
    if size < 2:
        return _damaged("version", None, value, f"version: 2 bytes expected, {size} left")
    (version,) = _read_version(value)
    readers = _value_readers(name).get(version)
    if readers is None:
        return {"version": version, "data": None, "raw": base64_text(value)}
    decoded: _Decoded | None = None
    for reader in readers:
        try:
            data, end = reader(value, 2, size)
        except DecodeError as error:
            decoded = decoded or _damaged("version", version, value, str(error))
            continue
        if end == size:
            decoded = {"version": version, "data": data}
            break
        trailing = base64_text(value[end:])
        decoded = decoded or {"version": version, "data": data, "trailing": trailing}
    assert decoded is not None
    if name == "GroupMetadata" and decoded["data"] is not None:
        _decode_members(decoded["data"])
    return decoded


def decode_control(
    key: bytes | None, value: bytes | None
) -> tuple[str, _Decoded | None, _Decoded | None]:
    """Decode a control record: "ControlCommit", "ControlAbort" or "Unknown", key and value."""
    name, decoded = _decode_control_key(key)
    if value is None:
        return name, decoded, None
    value = bytes(value)
    if name == "Unknown":
        return name, decoded, decode_value(name, value)
    try:
        marker = _read_marker(value)
    except DecodeError as error:
        version = _read_version(value)[0] if len(value) >= 2 else None
        return name, decoded, _damaged("version", version, value, str(error))
    trailing = {"trailing": marker.pop("trailing")} if "trailing" in marker else {}
    return name, decoded, {"version": marker.pop("version"), "data": marker, **trailing}


def encode_key(name: str, data: Mapping[str, Any]) -> bytes:
    """The bytes of a key of type `name`, from what `decode_key` has under "data"."""
    return _VERSION.pack(_NUMBERS[name]) + messages.write(*_key_schema(name), data)


def encode_value(name: str, version: int, data: Mapping[str, Any]) -> bytes:
    """The bytes of a value of type `name`, from what `decode_value` has under "data".

    Raises ValueError where a field is missing, or where a group is neither one of consumers (with
    the assignors' user data) nor has its members' subscription and assignment as bytes or base64.
    """
    if name == "GroupMetadata":
        encode = _encode_consumer if data["protocolType"] == "consumer" else _encode_member
        data = {**data, "members": [encode(member) for member in data["members"]]}
    folder = _FOLDERS.get(name, ("coordinator",))[0]
    return _VERSION.pack(version) + messages.write(f"{folder}/{name}Value", version, data)


def _damaged(label: str, number: int | None, raw: bytes, error: str) -> _Decoded:
    return {label: number, "data": None, "raw": base64_text(raw), "error": error}


def _key_schema(name: str) -> tuple[str, int]:
    schema = f"{_FOLDERS.get(name, ('coordinator',))[0]}/{name}Key"
    return schema, message_schema.versions(schema).lowest


@cache
def _key_reader(name: str) -> messages.Reader:
    return messages.reader(*_key_schema(name))


@cache
def _value_readers(name: str) -> Mapping[int, tuple[messages.Reader, ...]]:
    """The readers of each version of a type's value, newest shape first."""
    if name not in _NUMBERS:
        return {}
    schemas = [f"{folder}/{name}Value" for folder in _FOLDERS.get(name, ("coordinator",))]
    known = message_schema.versions(schemas[0])
    raw = name == "GroupMetadata"  # its members' bytes are decoded further
    return {
        version: (
            messages.reader(schemas[0], version, raw_bytes=raw),
            *(messages.reader(schema, version, unknown_tags=False) for schema in schemas[1:]),
        )
        for version in range(known.lowest, known.highest + 1)
    }


def _decode_members(group: _Decoded) -> None:
    """Decode in place what the members of a classic group say and were given."""
    kind, protocol = group["protocolType"], group["protocol"]
    for member in group["members"]:
        subscription, assignment = member["subscription"], member["assignment"]
        if kind == "consumer":
            member["subscription"] = consumer_protocol.decode_subscription(subscription, protocol)
            member["assignment"] = consumer_protocol.decode_assignment(assignment, protocol)
        elif kind == "connect":
            member["subscription"] = connect_protocol.decode_metadata(subscription)
            member["assignment"] = connect_protocol.decode_assignment(assignment)
        else:
            member["subscription"] = {"raw": base64_text(subscription)}
            member["assignment"] = {"raw": base64_text(assignment)}


def _encode_consumer(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """A consumer with its subscription and assignment as bytes again."""
    encoded = dict(member)
    if isinstance(member["subscription"], Mapping):
        encoded["subscription"] = consumer_protocol.encode_subscription(member["subscription"])
    if isinstance(member["assignment"], Mapping):
        encoded["assignment"] = consumer_protocol.encode_assignment(member["assignment"])
    return encoded


def _encode_member(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """Any other member, whose subscription and assignment must have been left raw."""
    encoded = dict(member)
    for field in ("subscription", "assignment"):
        if isinstance(member[field], Mapping):
            if "raw" not in member[field]:
                raise ValueError(f"{field}: only a consumer's can be encoded")
            encoded[field] = member[field]["raw"]
    return encoded


def _decode_control_key(key: bytes | None) -> tuple[str, _Decoded | None]:
    if key is None:
        return "Unknown", None
    key = bytes(key)
    if len(key) < 4:
        return "Unknown", _damaged("type", None, key, f"type: 4 bytes expected, {len(key)} left")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        return "Unknown", _damaged("type", None, key, f"version: {version} is negative")
    decoded: _Decoded = {"type": None, "data": {"version": version, "type": number}}
    if len(key) > 4:
        decoded["trailing"] = base64_text(key[4:])
    return _CONTROL_TYPES.get(number, "Unknown"), decoded
