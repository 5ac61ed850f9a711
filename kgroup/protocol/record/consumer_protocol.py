"""Subscription that a consumer sends to its group, and the assignment that it receives.

Wire layout (`ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`):

    Subscription   version int16, topics [string], user data bytes?,
                   v1+: owned partitions [topic string, partitions [int32]],
                   v2+: generation int32, v3+: rack string?
    Assignment     version int16, [topic string, partitions [int32]], user data bytes?

As in Kafka's `ConsumerProtocol`, a version above 3 is decoded as 3, trailing bytes are not an error
(they are kept under "trailing"), and a negative version is an error.

User data of a classic Kafka Streams instance (protocol "stream"; big endian; text is an int16
length and modified UTF-8, as Java's `writeUTF`; arrays have an int32 count):

    SubscriptionInfo   version int32, then `SubscriptionInfoData.json` of that version
    AssignmentInfo     version int32, v3+: commonly supported version int32,
                       active tasks [task], standby tasks [task, [topic text, partition int32]],
                       v2-4: hosts [host text, port int32, [topic text, partition int32]],
                       v5+: topics [index int32, topic text],
                            hosts [host text, port int32, [index int32, partition int32]],
                       v6+: hosts of standbys (the same), v4+: error int32,
                       v7+: next rebalance int64 (epoch milliseconds)
    task               subtopology int32, partition int32,
                       v10+: named topology (int32 length, then int16 characters)

For a version above 11, only the two versions at the start are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from struct import Struct
from typing import Any

from kgroup.protocol.message import codec, schema
from kgroup.protocol.message.primitives import JAVA_UTF8, DecodeError, base64_bytes, base64_text

_NEWEST_STREAMS = 11
_SUBSCRIPTION_INFO = "member_metadata/SubscriptionInfoData"


def read_subscription_info(raw: bytes) -> dict[str, Any]:
    """Decode the user data of a subscription; raises `DecodeError`.

    Return Kafka's fields; the endpoint and the client tags, bytes of UTF-8, are strings.
    """
    version = _Input(raw).int32("version")
    if version < 1:
        raise DecodeError(0, f"version: {version}, but 1 is the lowest")
    if version > _NEWEST_STREAMS:
        return _newer_streams(raw, "latestSupportedVersion")
    data = codec.read_whole(_SUBSCRIPTION_INFO, version, raw, raw_bytes=True)
    if "userEndPoint" in data:
        data["userEndPoint"] = data["userEndPoint"].decode("utf-8", JAVA_UTF8)
    for tag in data.get("clientTags", ()):
        tag["key"] = tag["key"].decode("utf-8", JAVA_UTF8)
        tag["value"] = tag["value"].decode("utf-8", JAVA_UTF8)
    return data


def read_assignment_info(raw: bytes) -> dict[str, Any]:
    """Decode the user data of an assignment; raises `DecodeError`.

    Keys, if the version has them: version, commonlySupportedVersion, activeTasks and standbyTasks
    (`{topicGroupId, partition}`, from version 10 with namedTopology; standby tasks also with
    topicPartitions), partitionsByHost and standbyPartitionsByHost (`{host, port,
    topicPartitions}`), errorCode, nextRebalanceMs. topicPartitions are `[{topic, partition}]`.
    """
    data = _Input(raw)
    version = data.int32("version")
    if version < 1:
        raise DecodeError(0, f"version: {version}, but 1 is the lowest")
    if version > _NEWEST_STREAMS:
        return _newer_streams(raw, "commonlySupportedVersion")
    info: dict[str, Any] = {"version": version}
    if version >= 3:
        info["commonlySupportedVersion"] = data.int32("commonlySupportedVersion")
    info["activeTasks"] = data.array("activeTasks", lambda: data.task(version))
    info["standbyTasks"] = data.array(
        "standbyTasks", lambda: {**data.task(version), "topicPartitions": data.partitions(None)}
    )
    if version >= 2:
        topics = data.topics() if version >= 5 else None
        info["partitionsByHost"] = data.array("partitionsByHost", lambda: data.host(topics))
        if version >= 6:
            info["standbyPartitionsByHost"] = data.array(
                "standbyPartitionsByHost", lambda: data.host(topics)
            )
    if version >= 4:
        info["errorCode"] = data.int32("errorCode")
    if version >= 7:
        info["nextRebalanceMs"] = data.int64("nextRebalanceMs")
    return data.finish(info)


def _newer_streams(raw: bytes, label: str) -> dict[str, Any]:
    data = _Input(raw)
    return data.finish({"version": data.int32("version"), label: data.int32(label)})


class _Input:
    """Bytes that are read from start to end."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.position = 0

    def take(self, size: int, field: str) -> bytes:
        left = len(self.raw) - self.position
        if size > left:
            raise DecodeError(self.position, f"{field}: {size} bytes expected, {left} left")
        start, self.position = self.position, self.position + size
        return self.raw[start : self.position]

    def int32(self, field: str) -> int:
        return int.from_bytes(self.take(4, field), "big", signed=True)

    def int64(self, field: str) -> int:
        return int.from_bytes(self.take(8, field), "big", signed=True)

    def array(self, field: str, element: Callable[[], Any]) -> list[Any]:
        count = self.int32(field)
        if count > len(self.raw) - self.position:
            raise DecodeError(self.position - 4, f"{field}: {count} elements in too few bytes")
        return [element() for _ in range(count)]  # Java's loops treat a negative count as 0

    def text(self, field: str) -> str:
        """Read modified UTF-8: U+0000 as two bytes, characters above U+FFFF as surrogate pairs."""
        size = int.from_bytes(self.take(2, field), "big")
        start = self.position
        raw = self.take(size, field).replace(b"\xc0\x80", b"\0")
        try:
            if max(raw, default=0) >= 0xF0:  # four-byte sequences are UTF-8 but not modified UTF-8
                raise ValueError
            pairs = raw.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
        except ValueError:
            raise DecodeError(start, f"{field}: no modified UTF-8") from None
        return pairs.decode("utf-16-be", "replace")

    def task(self, version: int) -> dict[str, Any]:
        task: dict[str, Any] = {
            "topicGroupId": self.int32("topicGroupId"),
            "partition": self.int32("partition"),
        }
        if version >= 10:
            size = 2 * max(self.int32("namedTopology"), 0)
            name = self.take(size, "namedTopology").decode("utf-16-be", "replace")
            task["namedTopology"] = name or None
        return task

    def topics(self) -> dict[int, str]:
        return dict(self.array("topics", lambda: (self.int32("topics"), self.text("topics"))))

    def host(self, topics: Mapping[int, str] | None) -> dict[str, Any]:
        return {
            "host": self.text("host"),
            "port": self.int32("port"),
            "topicPartitions": self.partitions(topics),
        }

    def partitions(self, topics: Mapping[int, str] | None) -> list[dict[str, Any]]:
        """Read topics and partitions; the topic is a name, or an index into `topics` if given."""

        def element() -> dict[str, Any]:
            name = self.text("topic") if topics is None else topics.get(self.int32("topic"))
            return {"topic": name, "partition": self.int32("partition")}

        return self.array("topicPartitions", element)

    def finish(self, info: dict[str, Any]) -> dict[str, Any]:
        if self.position != len(self.raw):
            info["trailing"] = base64_text(self.raw[self.position :])
        return info


_Read = Callable[[bytes], dict[str, Any]]  # raises DecodeError

_SUBSCRIPTION = "consumer_protocol/ConsumerProtocolSubscription"
_ASSIGNMENT = "consumer_protocol/ConsumerProtocolAssignment"
_read_subscription = codec.versioned_reader(_SUBSCRIPTION, raw_bytes=True)
_read_assignment = codec.versioned_reader(_ASSIGNMENT, raw_bytes=True)
_STICKY = "member_metadata/StickyUserData"
_COOPERATIVE = "member_metadata/CooperativeStickyUserData"


def decode_subscription(raw: bytes, protocol: str | None = None) -> dict[str, Any]:
    """Decode a member's subscription; never raises.

    Return Kafka's fields and "version". "userData" is decoded if `protocol`, the assignor's name,
    determines its format, and base64 otherwise. Return `{"raw": ""}` for no bytes at all, `{"raw",
    "error"}` for invalid bytes. Equal bytes may share the lists inside: do not modify them.
    """
    decode = _decode_small if len(raw) <= _SMALL else _decode
    return {**decode(_read_subscription, raw, protocol)}


def decode_assignment(raw: bytes, protocol: str | None = None) -> dict[str, Any]:
    """Decode a member's assignment; otherwise like `decode_subscription`."""
    decode = _decode_small if len(raw) <= _SMALL else _decode
    return {**decode(_read_assignment, raw, protocol)}


def encode_subscription(data: Mapping[str, Any]) -> bytes:
    """Return the encoded subscription: the inverse of `decode_subscription`.

    Raises ValueError for missing fields and for the user data of Kafka Streams.
    """
    return _encode(_SUBSCRIPTION, data)


def encode_assignment(data: Mapping[str, Any]) -> bytes:
    """Return the encoded assignment: the inverse of `decode_assignment`."""
    return _encode(_ASSIGNMENT, data)


def decode_user_data(raw: bytes, protocol: str) -> dict[str, Any]:
    """Decode a subscription's user data; never raises.

    Return Kafka's fields if `protocol`, the assignor's name, determines the format and the bytes
    have it; else `{"raw"}`, or `{"raw", "error"}` for invalid bytes; nothing for no bytes.
    """
    read = _USER_DATA.get((_read_subscription, protocol))
    if not raw:
        return {}
    return {"raw": base64_text(raw)} if read is None else codec.read_or_raw(read, raw)


def encode_user_data(data: Mapping[str, Any]) -> bytes:
    """Return the encoded user data of a subscription: the inverse of `decode_user_data`."""
    if "raw" in data:
        return base64_bytes(data["raw"])
    if "previousAssignment" in data:
        raw = codec.write(_STICKY, 1 if "generation" in data else 0, data)
    else:
        raw = codec.write(_COOPERATIVE, 0, data)
    return raw + base64_bytes(data.get("trailing", ""))


def _decode(read: _Read, raw: bytes, protocol: str | None) -> dict[str, Any]:
    data = codec.read_or_raw(read, raw)
    read_user_data = _USER_DATA.get((read, protocol))
    user_data = data.get("userData")
    if user_data and read_user_data is not None:
        data["userData"] = codec.read_or_raw(read_user_data, user_data)
    elif user_data is not None:
        data["userData"] = base64_text(user_data)
    return data


# The bytes of a group's members repeat in every generation, so recent results are cached: 2048
# entries of at most 512 bytes take a few megabytes.
_SMALL = 512
_decode_small = lru_cache(maxsize=2048)(_decode)


def _read_sticky(raw: bytes) -> dict[str, Any]:
    """Decode sticky user data; try version 1 (with generation), then 0, as Kafka does.

    The data contain no version number.
    """
    try:
        return codec.read_whole(_STICKY, 1, raw)
    except DecodeError:
        return codec.read_whole(_STICKY, 0, raw)


_USER_DATA: Mapping[tuple[_Read, str | None], _Read] = {
    (_read_subscription, "sticky"): _read_sticky,
    (_read_subscription, "cooperative-sticky"): partial(codec.read_whole, _COOPERATIVE, 0),
    (_read_subscription, "stream"): read_subscription_info,
    (_read_assignment, "stream"): read_assignment_info,
}


def _encode(name: str, data: Mapping[str, Any]) -> bytes:
    if "raw" in data:
        return base64_bytes(data["raw"])
    user_data = data.get("userData")
    if isinstance(user_data, str):
        user_data = base64_bytes(user_data)
    elif isinstance(user_data, Mapping):
        user_data = encode_user_data(user_data)
    body = {**data, "userData": user_data}
    version = data["version"]
    known = min(version, schema.versions(name)[-1])
    return (
        Struct(">h").pack(version)
        + codec.write(name, known, body)
        + base64_bytes(data.get("trailing", ""))
    )
