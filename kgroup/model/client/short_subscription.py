"""Subscriptions that say version 1 and end where version 0 does.

kafka-go and KafkaJS 1 write such; other clients read them, Kafka's own and its brokers do not.

Wire layout: version int16, topics [string], user data bytes?.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from struct import Struct, error
from typing import Any

_HEAD = Struct(">hi")
_INT16 = Struct(">h")
_INT32 = Struct(">i")


def readable(subscription: Any) -> Mapping[str, Any] | None:
    """Give a decoded subscription, or what can be read of one that ends early; None for others.

    A short one is given without "ownedPartitions"; its "userData" is base64 text.
    """
    if not isinstance(subscription, Mapping):
        return None
    if "topics" in subscription:
        return subscription
    if not isinstance(subscription.get("raw"), str):
        return None
    raw = b64decode(subscription["raw"])
    try:
        version, count, at = *_HEAD.unpack_from(raw), _HEAD.size
        topics = []
        for _ in range(count):
            size = _INT16.unpack_from(raw, at)[0]
            topics.append(raw[at + 2 : at + 2 + size].decode())
            at += 2 + size
        size = _INT32.unpack_from(raw, at)[0]
    except (error, UnicodeDecodeError):
        return None
    is_whole = len(raw) == at + 4 + max(size, 0)
    if version < 1 or count < 0 or not is_whole or not all(topics):
        return None
    user_data = None if size < 0 else b64encode(raw[at + 4 :]).decode()
    return {"version": version, "topics": topics, "userData": user_data}
