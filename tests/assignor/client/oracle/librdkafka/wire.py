"""The few messages of a broker that a consumer of librdkafka wants, in old versions of theirs.

Source: `clients/src/main/resources/common/message` of Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")

API_VERSIONS = 18
VERSIONS = {
    "Produce": (0, 3),
    "Fetch": (1, 4),
    "ListOffsets": (2, 1),
    "Metadata": (3, 4),
    "OffsetCommit": (8, 2),
    "OffsetFetch": (9, 1),
    "FindCoordinator": (10, 0),
    "JoinGroup": (11, 5),
    "Heartbeat": (12, 3),
    "LeaveGroup": (13, 1),
    "SyncGroup": (14, 3),
}
"""Key and newest version of what the broker says it has; none is a flexible one."""


class Reader:
    """Reads a request, field by field."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str | None:
        size = self.number(2)
        return None if size < 0 else self._take(size).decode()

    def bytes_(self) -> bytes:
        return self._take(max(0, self.number(4)))

    def array(self, read: Callable[[], _T]) -> list[_T]:
        return [read() for _ in range(self.number(4))]

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def text(value: str | None) -> bytes:
    """Write a text, or none."""
    if value is None:
        return b"\xff\xff"
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def bytes_(data: bytes) -> bytes:
    """Write bytes."""
    return struct.pack(">i", len(data)) + data


def array(items: Iterable[Any], write: Callable[[Any], bytes]) -> bytes:
    """Write an array."""
    written = [write(item) for item in items]
    return struct.pack(">i", len(written)) + b"".join(written)


def versions_answer(version: int) -> bytes:
    """Write the answer to ApiVersions: up to version 2 in the old form, then in the compact one."""
    keys = [*VERSIONS.values(), (API_VERSIONS, 3)]
    if version < 3:
        return struct.pack(">h", 0) + array(
            keys, lambda key: struct.pack(">hhh", key[0], 0, key[1])
        )
    entries = b"".join(struct.pack(">hhhb", key, 0, newest, 0) for key, newest in keys)
    return struct.pack(">hb", 0, len(keys) + 1) + entries + struct.pack(">ib", 0, 0)
