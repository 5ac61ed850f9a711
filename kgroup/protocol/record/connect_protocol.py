"""Metadata that a Kafka Connect worker sends to its group, and the assignment that it receives.

Wire layout (`ConnectProtocol`, `IncrementalCooperativeConnectProtocol`; strings have an int16
length, bytes and arrays an int32 one):

    Metadata     version int16, REST url string, config offset int64,
                 v1+: allocation bytes? = the worker's current Assignment
    Assignment   version int16, error int16, leader string, leader url string, config offset int64,
                 [connector string, tasks [int32]], v1+: revoked (the same), delay int32

Task -1 is the connector itself. Version 2 ("sessioned") has the layout of version 1 ("compatible");
a newer version is decoded like version 2.
"""

from __future__ import annotations

from typing import Any

from kgroup.protocol.message import codec

_read_metadata = codec.versioned_reader("member_metadata/ConnectMetadata", raw_bytes=True)
_read_assignment = codec.versioned_reader("member_metadata/ConnectAssignment")


def decode_metadata(raw: bytes) -> dict[str, Any]:
    """Decode a worker's metadata; see `codec.read_or_raw`."""
    data = codec.read_or_raw(_read_metadata, raw)
    allocation = data.get("allocation")
    if allocation is not None:
        data["allocation"] = decode_assignment(allocation)
    return data


def decode_assignment(raw: bytes) -> dict[str, Any]:
    """Decode a worker's assignment; see `codec.read_or_raw`."""
    return codec.read_or_raw(_read_assignment, raw)
