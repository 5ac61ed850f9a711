"""What a consumer tells its group (subscription) and gets from its leader (assignment).

Wire layout (`ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`):
    Subscription   version int16, topics [string], user data bytes?,
                   v1+: owned partitions [topic string, partitions [int32]],
                   v2+: generation int32, v3+: rack string?
    Assignment     version int16, [topic string, partitions [int32]], user data bytes?

As Kafka's `ConsumerProtocol` does, a version above 3 is read as 3, bytes behind the end are not an
error (they are kept under "trailing"), and a negative version is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from struct import Struct
from typing import Any

from kgroup.protocol.message import codec, schema
from kgroup.protocol.message.primitives import DecodeError, base64_bytes, base64_text
from kgroup.protocol.record import streams_protocol

_Read = Callable[[bytes], dict[str, Any]]  # raises DecodeError

_SUBSCRIPTION = "consumer_protocol/ConsumerProtocolSubscription"
_ASSIGNMENT = "consumer_protocol/ConsumerProtocolAssignment"
_read_subscription = codec.versioned_reader(_SUBSCRIPTION, raw_bytes=True)
_read_assignment = codec.versioned_reader(_ASSIGNMENT, raw_bytes=True)
_STICKY = "member_metadata/StickyUserData"
_COOPERATIVE = "member_metadata/CooperativeStickyUserData"


def decode_subscription(raw: bytes, protocol: str | None = None) -> dict[str, Any]:
    """Decode a member's subscription; never raises.

    Gives Kafka's fields and "version". "userData" is decoded where `protocol`, the assignor's
    name, says what it is, else base64 text. `{"raw": ""}` for no bytes at all, `{"raw", "error"}`
    for bytes that are no subscription. Equal bytes may share the lists inside: do not change them.
    """
    decode = _decode_small if len(raw) <= _SMALL else _decode
    return {**decode(_read_subscription, raw, protocol)}


def decode_assignment(raw: bytes, protocol: str | None = None) -> dict[str, Any]:
    """Decode a member's assignment; otherwise like `decode_subscription`."""
    decode = _decode_small if len(raw) <= _SMALL else _decode
    return {**decode(_read_assignment, raw, protocol)}


def encode_subscription(data: Mapping[str, Any]) -> bytes:
    """The bytes of a subscription: the inverse of `decode_subscription`.

    Raises ValueError for fields that are missing and for the user data of Kafka Streams.
    """
    return _encode(_SUBSCRIPTION, data)


def encode_assignment(data: Mapping[str, Any]) -> bytes:
    """The bytes of an assignment: the inverse of `decode_assignment`."""
    return _encode(_ASSIGNMENT, data)


def _decode(read: _Read, raw: bytes, protocol: str | None) -> dict[str, Any]:
    data = codec.read_or_raw(read, raw)
    read_user_data = _USER_DATA.get((read, protocol))
    user_data = data.get("userData")
    if user_data and read_user_data is not None:
        data["userData"] = codec.read_or_raw(read_user_data, user_data)
    elif user_data is not None:
        data["userData"] = base64_text(user_data)
    return data


# A group's members write the same bytes again in every generation, so the last ones are kept: 2048
# of at most 512 bytes are some megabytes.
_SMALL = 512
_decode_small = lru_cache(maxsize=2048)(_decode)


def _read_sticky(raw: bytes) -> dict[str, Any]:
    """The generation came with version 1, which nothing announces: try 1, then 0, like Kafka."""
    try:
        return codec.read_whole(_STICKY, 1, raw)
    except DecodeError:
        return codec.read_whole(_STICKY, 0, raw)


_USER_DATA: Mapping[tuple[_Read, str | None], _Read] = {
    (_read_subscription, "sticky"): _read_sticky,
    (_read_subscription, "cooperative-sticky"): partial(codec.read_whole, _COOPERATIVE, 0),
    (_read_subscription, "stream"): streams_protocol.read_subscription_info,
    (_read_assignment, "stream"): streams_protocol.read_assignment_info,
}


def _encode(name: str, data: Mapping[str, Any]) -> bytes:
    if "raw" in data:
        return base64_bytes(data["raw"])
    body = {**data, "userData": _encode_user_data(data.get("userData"))}
    version = data["version"]
    known = min(version, schema.versions(name)[-1])
    return (
        Struct(">h").pack(version)
        + codec.write(name, known, body)
        + base64_bytes(data.get("trailing", ""))
    )


def _encode_user_data(data: Any) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return base64_bytes(data)
    if "raw" in data:
        return base64_bytes(data["raw"])
    if "previousAssignment" in data:
        raw = codec.write(_STICKY, 1 if "generation" in data else 0, data)
    else:
        raw = codec.write(_COOPERATIVE, 0, data)
    return raw + base64_bytes(data.get("trailing", ""))
