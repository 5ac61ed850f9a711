"""What Connect's workers tell their group, version by version."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.record.connect_protocol import decode_assignment, decode_metadata

# error 0, leader "m", leader URL "u", config offset 5, then "c" with itself (-1) and task 0
ASSIGNMENT = "0000 0001 6d 0001 75 0000000000000005 00000001 0001 63 00000002 ffffffff 00000000"
ASSIGNED = {
    "error": 0,
    "leader": "m",
    "leaderUrl": "u",
    "configOffset": 5,
    "assignment": [{"connector": "c", "tasks": [-1, 0]}],
}
REVOKED = "00000001 0001 64 00000001 00000001 000493e0"  # "d" task 1, 300 s


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000 0001 75 0000000000000005", {"version": 0, "url": "u", "configOffset": 5}),
        (
            "0001 0001 75 ffffffffffffffff ffffffff",
            {"version": 1, "url": "u", "configOffset": -1, "allocation": None},
        ),
        (
            f"0002 0001 75 0000000000000005 {(2 + 35 + 19):08x} 0002 {ASSIGNMENT} {REVOKED}",
            {
                "version": 2,
                "url": "u",
                "configOffset": 5,
                "allocation": {
                    "version": 2,
                    **ASSIGNED,
                    "revoked": [{"connector": "d", "tasks": [1]}],
                    "delay": 300_000,
                },
            },
        ),
        (
            "0001 0001 75 0000000000000005 00000001 00",
            {
                "version": 1,
                "url": "u",
                "configOffset": 5,
                "allocation": {
                    "raw": "AA==",
                    "error": "version: 2 bytes expected, 1 left (at byte 0)",
                },
            },
        ),
        (
            "0001 0001 75 0000000000000005 00000000",
            {"version": 1, "url": "u", "configOffset": 5, "allocation": {"raw": ""}},
        ),
        ("", {"raw": ""}),
        (
            "0001 0001 75 0000000000000005",
            {
                "raw": "AAEAAXUAAAAAAAAABQ==",
                "error": "allocation: 4 bytes expected, 0 left (at byte 13)",
            },
        ),
    ],
)
def test_metadata(text: str, expected: dict[str, Any]) -> None:
    assert decode_metadata(bytes.fromhex(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"0000 {ASSIGNMENT}", {"version": 0, **ASSIGNED}),
        (
            f"0001 {ASSIGNMENT} {REVOKED}",
            {
                "version": 1,
                **ASSIGNED,
                "revoked": [{"connector": "d", "tasks": [1]}],
                "delay": 300_000,
            },
        ),
        (  # version 3 is read as 2; both lists null
            "0003 0001 0000 0000 0000000000000000 ffffffff ffffffff 00000000 aa",
            {
                "version": 3,
                "error": 1,
                "leader": "",
                "leaderUrl": "",
                "configOffset": 0,
                "assignment": None,
                "revoked": None,
                "delay": 0,
                "trailing": "qg==",
            },
        ),
    ],
)
def test_assignment(text: str, expected: dict[str, Any]) -> None:
    assert decode_assignment(bytes.fromhex(text)) == expected


def test_cut_at_every_byte() -> None:
    raw = bytes.fromhex(f"0002 {ASSIGNMENT} {REVOKED}")
    for size in range(1, len(raw)):
        decoded = decode_assignment(raw[:size])
        assert decoded["raw"] == b64encode(raw[:size]).decode()
        assert " left" in decoded["error"]


@given(st.binary(max_size=80), st.integers(0, 3))
def test_no_bytes_raise(raw: bytes, version: int) -> None:
    for data in (raw, version.to_bytes(2, "big") + raw):
        json.dumps(decode_metadata(data))
        json.dumps(decode_assignment(data))
