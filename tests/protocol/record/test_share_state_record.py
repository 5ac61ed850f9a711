"""Records of `__share_group_state` from bytes spelled out by hand, in today's and 4.0's shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.protocol.message import schema
from kgroup.protocol.record.share_state_record import (
    KEY_TYPES,
    decode_record,
    encode_key,
    encode_value,
)
from tests.examples import examples
from tests.protocol.message.random_message import message

ID = "000102030405060708090a0b0c0d0e0f"
PLACE = f"0001 67 {ID} 00000007"  # group (int16 length, "g"), topic id, partition
PLACE_DATA = {"groupId": "g", "topicId": "AAECAwQFBgcICQoLDA0ODw", "partition": 7}
BATCH = "000000000000002a 000000000000002b 02 0001 00"  # first, last, state, deliveries, no tags
BATCH_DATA = {"firstOffset": 42, "lastOffset": 43, "deliveryState": 2, "deliveryCount": 1}

# Type, type number in hex, value in hex, and what it says, by the layout of Kafka's definitions.
VALUES: list[tuple[str, str, str, dict[str, Any]]] = [
    (
        "ShareSnapshot",
        "0000",
        # version, epochs (snapshot, state, leader), start offset, created, written, batches, tags
        "0000 00000003 00000002 00000001 ffffffffffffffff 000000000000000a 000000000000000b 01 00",
        {
            "snapshotEpoch": 3,
            "stateEpoch": 2,
            "leaderEpoch": 1,
            "startOffset": -1,
            "createTimestamp": 10,
            "writeTimestamp": 11,
            "stateBatches": [],
        },
    ),
    (
        "ShareUpdate",
        "0001",
        # version, epochs (snapshot, leader), start offset, one batch, one tag: 0, 4 bytes
        f"0000 00000003 00000001 000000000000002a 02 {BATCH} 01 00 04 00000002",
        {
            "snapshotEpoch": 3,
            "leaderEpoch": 1,
            "startOffset": 42,
            "deliveryCompleteCount": 2,
            "stateBatches": [BATCH_DATA],
        },
    ),
    (  # 4.0: an epoch of two bytes, no timestamps
        "ShareSnapshot",
        "0000",
        f"0000 0003 00000002 00000001 000000000000002a 03 {BATCH} {BATCH} 00",
        {
            "snapshotEpoch": 3,
            "stateEpoch": 2,
            "leaderEpoch": 1,
            "startOffset": 42,
            "stateBatches": [BATCH_DATA, BATCH_DATA],
        },
    ),
    (
        "ShareUpdate",
        "0001",
        f"0000 0003 00000001 000000000000002a 02 {BATCH} 00",
        {"snapshotEpoch": 3, "leaderEpoch": 1, "startOffset": 42, "stateBatches": [BATCH_DATA]},
    ),
    (
        "ShareUpdate",
        "0001",
        "0000 0003 00000001 000000000000002a 01 00",
        {"snapshotEpoch": 3, "leaderEpoch": 1, "startOffset": 42, "stateBatches": []},
    ),
]


@pytest.mark.parametrize(("name", "number", "value", "expected"), VALUES)
def test_records(name: str, number: str, value: str, expected: dict[str, Any]) -> None:
    key = bytes.fromhex(number + PLACE)
    assert decode_record(key, bytes.fromhex(value)) == (
        name,
        {"type": int(number, 16), "data": PLACE_DATA},
        {"version": 0, "data": expected},
    )
    assert decode_record(key, None)[2] is None


@pytest.mark.parametrize(("name", "number", "value", "expected"), VALUES)
def test_cut_at_every_byte(name: str, number: str, value: str, expected: dict[str, Any]) -> None:
    key, raw = bytes.fromhex(number + PLACE), bytes.fromhex(value)
    for size in range(len(raw)):
        decoded = decode_record(key, raw[:size])[2]
        assert decoded is not None
        assert decoded["data"] is None
        assert decoded["error"]


def test_types_and_versions_to_come() -> None:
    assert decode_record(b"\0\x02", b"\0\0") == (
        "Unknown",
        {"type": 2, "raw": "AAI="},
        {"version": 0, "data": None, "raw": "AAA="},
    )
    assert decode_record(bytes.fromhex("0000" + PLACE), b"\0\1a")[2] == {
        "version": 1,
        "data": None,
        "raw": "AAFh",
    }


@pytest.mark.parametrize("name", KEY_TYPES.values())
@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip(name: str, data: st.DataObject) -> None:
    key = data.draw(message(f"share_state/{name}Key", 0))
    version = schema.versions(f"share_state/{name}Value")[-1]
    value = data.draw(message(f"share_state/{name}Value", version))
    kind, made_key, made_value = decode_record(
        encode_key(name, key), encode_value(name, version, value)
    )
    assert kind == name
    assert made_key is not None
    assert made_key["data"] == key
    assert made_value == {"version": version, "data": value}


@settings(max_examples=examples(50))
@given(st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=80))
def test_no_bytes_raise(key: bytes | None, value: bytes | None) -> None:
    json.dumps(decode_record(key, value))
    for number in KEY_TYPES:
        json.dumps(decode_record(bytes.fromhex(f"{number:04x}{PLACE}"), b"\0\0" + (value or b"")))
