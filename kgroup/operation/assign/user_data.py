"""What sticky assignors read in the user data that a member sends."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kgroup.assignor.spec import UserData
from kgroup.protocol.record.consumer_protocol import decode_subscription


def read_user_data(raw: bytes | None, strategy: str) -> UserData:
    """Read a member's user data as the sticky assignors do.

    Source: `StickyAssignor.memberData` and `CooperativeStickyAssignor.memberData` of 4.3.1.

    Args:
        raw: None where the member sent none.
        strategy: name of the assignor.
    """
    if raw is None or (not raw and strategy == "sticky"):
        return UserData()
    failure = _failure_in_1_1(raw) if strategy == "sticky" else None
    message = struct.pack(">hii", 0, 0, len(raw)) + raw  # a subscription of version 0
    data = decode_subscription(message, strategy)["userData"]
    if not isinstance(data, Mapping) or "error" in data:
        return UserData((), -1, failure)
    owned = data.get("previousAssignment")
    return UserData(
        None
        if owned is None
        else tuple((topic["topic"], number) for topic in owned for number in topic["partitions"]),
        data.get("generation"),
        failure,
    )


class _UnreadableError(Exception):
    """The message is that of Kafka's SchemaException."""


def _failure_in_1_1(raw: bytes) -> str | None:
    """Say how kafka-clients 1.1.1 fails to read user data, where a later one takes it for empty.

    Layout: int32 count of topics; of each: int16 length and UTF-8 name, int32 count of partitions,
    int32 each. What follows is not read.

    Source: `StickyAssignor.deserializeTopicPartitionAssignment`, `Schema.read`, `ArrayOf.read`.
    """
    at = 0

    def number(size: int) -> int:
        nonlocal at
        if len(raw) - at < size:
            raise _UnreadableError("java.nio.BufferUnderflowException")
        at += size
        return int.from_bytes(raw[at - size : at], "big", signed=True)

    def sized(what: str, title: str, count: int) -> int:
        if count < 0:
            raise _UnreadableError(f"{title} {count} cannot be negative")
        if count > len(raw) - at:
            found = f"only {len(raw) - at} bytes available"
            raise _UnreadableError(f"Error reading {what} {count}, {found}")
        return count

    def field(name: str, read: Callable[[], None]) -> None:
        try:
            read()
        except _UnreadableError as error:
            raise _UnreadableError(f"Error reading field '{name}': {error}") from None

    def array(read: Callable[[], object]) -> None:
        for _ in range(sized("array of size", "Array size", number(4))):
            read()

    def text() -> None:
        nonlocal at
        length = sized("string of length", "String length", number(2))
        at += length

    def topic() -> None:
        field("topic", text)
        field("partitions", lambda: array(lambda: number(4)))

    try:
        field("previous_assignment", lambda: array(topic))
    except _UnreadableError as error:
        return str(error)
    return None
