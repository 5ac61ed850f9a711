"""What members of classic groups say and are given, by `random`, in one of eight parts damaged."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from random import Random
from typing import Any

from kgroup.protocol.message import codec
from tests.protocol.message.random_message import any_message

PROTOCOLS = [None, "range", "sticky", "cooperative-sticky", "stream", "stream"]

_PLAIN = ("", "t", "orders", "billing.audit-" * 5, 'quo"te\n')
_ODD = ("ë", "\x00", "\ufffd\U0001f600", "a" * 40 + "\x80")


def subscription(random: Random, kind: str, protocol: str | None) -> bytes:
    """What a member of a group of this protocol type and protocol says."""
    if kind == "connect":
        allocation = random.choice([None, b"", assignment(random, kind, protocol)])
        return _part(random, "member_metadata/ConnectMetadata", 2, {"allocation": allocation})
    user_data = {"userData": _subscription_data(random, protocol)}
    return _part(random, "consumer_protocol/ConsumerProtocolSubscription", 3, user_data)


def assignment(random: Random, kind: str, protocol: str | None) -> bytes:
    """What it is given."""
    if kind == "connect":
        return _part(random, "member_metadata/ConnectAssignment", 2)
    user_data = random.choice([None, random.randbytes(3)])
    if protocol == "stream":
        user_data = _damaged(random, assignment_info(random, random.randint(0, 12)))
    name = "consumer_protocol/ConsumerProtocolAssignment"
    return _part(random, name, 3, {"userData": user_data})


def _subscription_data(random: Random, protocol: str | None) -> bytes | None:
    if protocol == "stream":
        return _damaged(random, subscription_info(random, random.randint(0, 12)))
    version = random.randint(0, 1)
    name = "member_metadata/StickyUserData"  # librdkafka's for cooperative-sticky too
    sticky = codec.write(name, version, any_message(random, name, version))
    return random.choice([None, b"", _damaged(random, sticky), random.randbytes(4)])


def _part(random: Random, name: str, newest: int, given: Mapping[str, Any] | None = None) -> bytes:
    version = random.randint(0, newest)
    data = {**any_message(random, name, version), **(given or {})}
    # clients of a newer version add to the newest one
    written = newest + 1 if random.randrange(8) == 0 else version
    return _damaged(random, struct.pack(">h", written) + codec.write(name, version, data))


def _damaged(random: Random, data: bytes) -> bytes:
    """Change the data in one of eight: cut off, with something behind, or another byte."""
    at = random.randrange(max(len(data), 1))
    change = random.randrange(24)
    if change == 0:
        return data[:at]
    if change == 1:
        return data + random.randbytes(random.randint(1, 9))
    if change == 2:
        return data[:at] + random.randbytes(1) + data[at + 1 :]
    return data


def subscription_info(random: Random, version: int, *, plain: bool = False) -> bytes:
    """What an instance of Kafka Streams says; `plain` has nothing out of the ordinary.

    Versions 0 and 12 do not exist, and look like the next.
    """
    known = min(max(version, 1), 11)
    name = "member_metadata/SubscriptionInfoData"
    data = any_message(random, name, known)
    data["version"] = version
    data["userEndPoint"] = _text(random, plain).encode()
    for tag in data.get("clientTags", ()):
        tag["key"], tag["value"] = (_text(random, plain).encode() for _ in range(2))
    if not plain and random.randrange(8) == 0:
        data["userEndPoint"] = random.randbytes(4)
    return codec.write(name, known, data)


def assignment_info(random: Random, version: int, *, plain: bool = False) -> bytes:
    """What it is given, laid out as Kafka's `AssignmentInfo` does; likewise."""
    topics = sorted({_text(random, plain) for _ in range(random.randint(1, 4))})
    numbers = random.sample(range(len(topics)), len(topics))

    def count() -> int:
        return random.choice([0, 1, 1, 2, 3])

    def int32() -> bytes:
        return struct.pack(">i", random.choice([0, 1, 17, -1, random.randint(-(2**31), 2**31 - 1)]))

    def array(elements: list[bytes]) -> bytes:
        size = len(elements) if plain or elements or random.randrange(8) else -1
        return struct.pack(">i", size) + b"".join(elements)

    def text(value: str) -> bytes:
        """Modified UTF-8, or what is no such thing where it has characters of four bytes."""
        raw = value.encode().replace(b"\0", b"\xc0\x80")
        return struct.pack(">H", len(raw)) + raw

    def task() -> bytes:
        if version < 10:
            return int32() + int32()
        name = "" if plain or random.randrange(8) else _text(random, plain)
        raw = name.encode("utf-16-be")
        return int32() + int32() + struct.pack(">i", len(raw) // 2) + raw

    def partitions(*, numbered: bool) -> bytes:
        if not numbered:
            return array([text(random.choice(topics)) + int32() for _ in range(count())])
        there = numbers if plain or random.randrange(8) else [*numbers, len(topics), -1]
        return array([struct.pack(">i", random.choice(there)) + int32() for _ in range(count())])

    def hosts() -> bytes:
        return array(
            [
                text(_text(random, plain)) + int32() + partitions(numbered=version >= 5)
                for _ in range(count())
            ]
        )

    out = struct.pack(">i", version)
    if version >= 3:
        out += int32()
    out += array([task() for _ in range(count())])
    out += array([task() + partitions(numbered=False) for _ in range(count())])
    if version >= 5:
        pairs = [*zip(numbers, topics, strict=True)]
        if not plain and random.randrange(8) == 0:  # a number twice, so that another is missing
            pairs[0] = (pairs[-1][0], pairs[0][1])
        out += array([struct.pack(">i", number) + text(topic) for number, topic in pairs])
    if version >= 2:
        out += hosts()
    if version >= 6:
        out += hosts()
    if version >= 4:
        out += int32()
    if version >= 7:
        out += random.randbytes(8)
    return out


def _text(random: Random, plain: bool) -> str:
    return random.choice(_PLAIN if plain or random.randrange(6) else _ODD)
