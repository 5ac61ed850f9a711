"""Subscriptions and assignments of every version, and the user data of Kafka's assignors."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.protocol.message.primitives import DecodeError
from kgroup.protocol.record.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    read_assignment_info,
    read_subscription_info,
)
from tests.examples import examples

TOPICS = "00000002 0001 61 0001 62"  # ["a", "b"]
OWNED = "00000001 0001 61 00000002 00000000 00000003"  # a-0, a-3
NO_DATA = "ffffffff"
OWNED_SHOWN = [{"topic": "a", "partitions": [0, 3]}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"0000 {TOPICS} {NO_DATA}", {"version": 0, "topics": ["a", "b"], "userData": None}),
        (
            f"0001 {TOPICS} 00000000 {OWNED}",
            {"version": 1, "topics": ["a", "b"], "userData": "", "ownedPartitions": OWNED_SHOWN},
        ),
        (
            "0002 00000000 00000002 beef 00000000 00000007",
            {
                "version": 2,
                "topics": [],
                "userData": "vu8=",
                "ownedPartitions": [],
                "generationId": 7,
            },
        ),
        (
            f"0003 {TOPICS} {NO_DATA} 00000000 ffffffff 0001 72",
            {
                "version": 3,
                "topics": ["a", "b"],
                "userData": None,
                "ownedPartitions": [],
                "generationId": -1,
                "rackId": "r",
            },
        ),
        (
            f"0003 00000000 {NO_DATA} 00000000 ffffffff ffff",
            {
                "version": 3,
                "topics": [],
                "userData": None,
                "ownedPartitions": [],
                "generationId": -1,
                "rackId": None,
            },
        ),
        (  # a version of the future: read as 3, the rest kept
            f"0004 00000000 {NO_DATA} {OWNED} 00000001 ffff beef",
            {
                "version": 4,
                "topics": [],
                "userData": None,
                "ownedPartitions": OWNED_SHOWN,
                "generationId": 1,
                "rackId": None,
                "trailing": "vu8=",
            },
        ),
        (
            f"0000 00000000 {NO_DATA} aa",
            {"version": 0, "topics": [], "userData": None, "trailing": "qg=="},
        ),
    ],
)
def test_subscription(text: str, expected: dict[str, Any]) -> None:
    raw = bytes.fromhex(text)
    assert decode_subscription(raw) == expected
    assert list(decode_subscription(raw)) == list(expected)
    assert encode_subscription(expected) == raw


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"0000 {OWNED} {NO_DATA}",
            {"version": 0, "assignedPartitions": OWNED_SHOWN, "userData": None},
        ),
        (
            "0003 00000000 00000002 beef",
            {"version": 3, "assignedPartitions": [], "userData": "vu8="},
        ),
        (  # one topic twice: Kafka keeps both
            "0001 00000002 0001 61 00000000 0001 61 00000000 00000000",
            {
                "version": 1,
                "assignedPartitions": [
                    {"topic": "a", "partitions": []},
                    {"topic": "a", "partitions": []},
                ],
                "userData": "",
            },
        ),
        (
            f"7fff {OWNED} {NO_DATA}",
            {"version": 32767, "assignedPartitions": OWNED_SHOWN, "userData": None},
        ),
    ],
)
def test_assignment(text: str, expected: dict[str, Any]) -> None:
    raw = bytes.fromhex(text)
    assert decode_assignment(raw) == expected
    assert encode_assignment(expected) == raw


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("00", "version: 2 bytes expected, 1 left (at byte 0)"),
        (f"ffff {TOPICS} {NO_DATA}", "version: -1 is negative (at byte 0)"),
        ("0000 ffffffff", "topics: null (length -1) where a value must be (at byte 6)"),
        ("0000 7fffffff", "topics: length 2147483647, but only 0 bytes left (at byte 6)"),
        ("0000 00000001 ffff", "topics: null (length -1) where a value must be (at byte 8)"),
        # A version-1 number before version-0 bytes, as some clients wrote it.
        (f"0001 00000000 {NO_DATA}", "ownedPartitions: 4 bytes expected, 0 left (at byte 10)"),
        (b"not a subscription".hex(), "topics: length 1948279072, but only 12 bytes left"),
    ],
)
def test_bytes_that_are_none(text: str, error: str) -> None:
    raw = bytes.fromhex(text)
    decoded = decode_subscription(raw)
    assert decoded.keys() == {"raw", "error"}
    assert decoded["raw"] == b64encode(raw).decode()
    assert decoded["error"].startswith(error)
    assert encode_subscription(decoded) == raw


def test_no_bytes() -> None:
    assert decode_subscription(b"") == {"raw": ""}
    assert decode_assignment(b"", "range") == {"raw": ""}
    assert encode_assignment({"raw": ""}) == b""


@pytest.mark.parametrize(
    ("protocol", "data", "expected"),
    [
        # sticky: topics with partitions, version 1 with the generation behind
        ("sticky", OWNED, {"previousAssignment": OWNED_SHOWN}),
        ("sticky", f"{OWNED} 00000005", {"previousAssignment": OWNED_SHOWN, "generation": 5}),
        (
            "sticky",
            "00000000 ffffffff aa",
            {"previousAssignment": [], "generation": -1, "trailing": "qg=="},
        ),
        ("sticky", "00000000 aa", {"previousAssignment": [], "trailing": "qg=="}),
        ("cooperative-sticky", "00000005", {"generation": 5}),
        ("cooperative-sticky", "ffffffff aa", {"generation": -1, "trailing": "qg=="}),
        ("range", "00000005", "AAAABQ=="),
        (None, "00000005", "AAAABQ=="),
        ("sticky", "", ""),
    ],
)
def test_user_data(protocol: str | None, data: str, expected: Any) -> None:
    raw = bytes.fromhex(data)
    message = bytes.fromhex("0000 00000000") + len(raw).to_bytes(4, "big") + raw
    decoded = decode_subscription(message, protocol)
    assert decoded == {"version": 0, "topics": [], "userData": expected}
    assert encode_subscription(decoded) == message
    # An assignment carries user data only of Kafka Streams.
    text = b64encode(raw).decode()
    assert decode_assignment(message, protocol)["userData"] == text


@pytest.mark.parametrize(
    ("protocol", "data", "error"),
    [
        ("sticky", "0000", "previousAssignment: 4 bytes expected, 2 left (at byte 0)"),
        ("sticky", "00000001 0001", "previousAssignment.topic: length 1, but only 0 bytes left"),
        ("cooperative-sticky", "000000", "generation: 4 bytes expected, 3 left (at byte 0)"),
        ("stream", "000000", "version: 4 bytes expected, 3 left (at byte 0)"),
    ],
)
def test_user_data_that_is_none(protocol: str, data: str, error: str) -> None:
    """The subscription around it is still good."""
    raw = bytes.fromhex(data)
    message = bytes.fromhex("0000 00000000") + len(raw).to_bytes(4, "big") + raw
    decoded = decode_subscription(message, protocol)
    assert decoded["topics"] == []
    assert decoded["userData"]["raw"] == b64encode(raw).decode()
    assert decoded["userData"]["error"].startswith(error)
    assert encode_subscription(decoded) == message


def test_results_are_not_shared() -> None:
    """Small messages are kept; what a caller does to one result must not show in the next."""
    raw = bytes.fromhex(f"0000 {TOPICS} {NO_DATA}")
    decode_subscription(raw).clear()
    assert decode_subscription(raw)["topics"] == ["a", "b"]


def test_large_messages() -> None:
    """Above the size up to which results are kept."""
    partitions = list(range(1000))
    expected = {
        "version": 1,
        "topics": ["t" * 600],
        "userData": None,
        "ownedPartitions": [{"topic": "t", "partitions": partitions}],
    }
    raw = encode_subscription(expected)
    assert len(raw) == 2 + 4 + 2 + 600 + 4 + 4 + 3 + 4 + 4000
    assert decode_subscription(raw, "range") == expected
    assert decode_subscription(raw[:-1], "range")["error"]


def test_streams_user_data_cannot_be_written() -> None:
    subscription = {"version": 0, "topics": [], "userData": {"version": 11}}
    with pytest.raises(ValueError, match="generation is missing"):
        encode_subscription(subscription)


@settings(max_examples=examples(125))
@given(
    st.binary(max_size=80),
    st.sampled_from([None, "range", "sticky", "cooperative-sticky", "stream"]),
    st.integers(0, 4),
)
def test_no_bytes_raise(raw: bytes, protocol: str | None, version: int) -> None:
    headed = version.to_bytes(2, "big") + raw
    user_data = bytes.fromhex("0000 00000000") + len(raw).to_bytes(4, "big") + raw
    for data in (raw, headed, user_data):
        json.dumps(decode_subscription(data, protocol))
        json.dumps(decode_assignment(data, protocol))


def test_cut_at_every_byte() -> None:
    raw = bytes.fromhex(f"0003 {TOPICS} 00000002 beef {OWNED} 00000001 0001 72")
    for size in range(1, len(raw)):
        decoded = decode_subscription(raw[:size])
        assert decoded["raw"] == b64encode(raw[:size]).decode()
        assert " left" in decoded["error"]


# ---- user data of classic Kafka Streams groups, version by version


ID = "000102030405060708090a0b0c0d0e0f"
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
TASK = "00000000 00000003"
TASK_SHOWN = {"topicGroupId": 0, "partition": 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"00000001 {ID} 00000001 {TASK} 00000000",
            {"version": 1, "processId": ID_TEXT, "prevTasks": [TASK_SHOWN], "standbyTasks": []},
        ),
        (
            f"00000003 0000000b {ID} 00000000 00000000 00000003 683a31",
            {
                "version": 3,
                "latestSupportedVersion": 11,
                "processId": ID_TEXT,
                "prevTasks": [],
                "standbyTasks": [],
                "userEndPoint": "h:1",
            },
        ),
        (
            f"00000007 0000000b {ID} 00000000 00000001 00000000 00000001 00000003 fffffffffffffffe",
            {
                "version": 7,
                "latestSupportedVersion": 11,
                "processId": ID_TEXT,
                "userEndPoint": "",
                "taskOffsetSums": [
                    {"topicGroupId": 0, "partitionToOffsetSum": [{"partition": 3, "offsetSum": -2}]}
                ],
            },
        ),
        (
            f"0000000b 0000000b {ID} 00000000 00000001 {TASK} 0000000000000005 ffff"
            " 01 00000000 00000001 00000001 6b 00000001 76 aa",
            {
                "version": 11,
                "latestSupportedVersion": 11,
                "processId": ID_TEXT,
                "userEndPoint": "",
                "taskOffsetSums": [{**TASK_SHOWN, "offsetSum": 5, "namedTopology": None}],
                "uniqueField": 1,
                "errorCode": 0,
                "clientTags": [{"key": "k", "value": "v"}],
                "trailing": "qg==",
            },
        ),
        (  # of a version of the future only the two versions are sure
            "0000000c 0000000d beef",
            {"version": 12, "latestSupportedVersion": 13, "trailing": "vu8="},
        ),
    ],
)
def test_subscription_info(text: str, expected: dict[str, Any]) -> None:
    raw = bytes.fromhex(text)
    assert read_subscription_info(raw) == expected
    message = bytes.fromhex("0000 00000000") + len(raw).to_bytes(4, "big") + raw
    assert decode_subscription(message, "stream")["userData"] == expected


HOST = "0001 68 00000050"  # "h", 80
HOST_SHOWN = {"host": "h", "port": 80}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"00000001 00000001 {TASK} 00000001 {TASK} 00000001 0001 74 00000002",
            {
                "version": 1,
                "activeTasks": [TASK_SHOWN],
                "standbyTasks": [
                    {**TASK_SHOWN, "topicPartitions": [{"topic": "t", "partition": 2}]}
                ],
            },
        ),
        (
            f"00000004 0000000b 00000000 00000000 00000001 {HOST} 00000001 0001 74 00000002"
            " 00000001",
            {
                "version": 4,
                "commonlySupportedVersion": 11,
                "activeTasks": [],
                "standbyTasks": [],
                "partitionsByHost": [
                    {**HOST_SHOWN, "topicPartitions": [{"topic": "t", "partition": 2}]}
                ],
                "errorCode": 1,
            },
        ),
        (  # topics by number from version 5 on, hosts of standbys from 6, next rebalance from 7
            "00000005 0000000b 00000000 00000000 00000000 00000000 00000001",
            {
                "version": 5,
                "commonlySupportedVersion": 11,
                "activeTasks": [],
                "standbyTasks": [],
                "partitionsByHost": [],
                "errorCode": 1,
            },
        ),
        (
            f"00000006 0000000b 00000000 00000000 00000000 00000000 00000001 {HOST} 00000000"
            " 00000001",
            {
                "version": 6,
                "commonlySupportedVersion": 11,
                "activeTasks": [],
                "standbyTasks": [],
                "partitionsByHost": [],
                "standbyPartitionsByHost": [{**HOST_SHOWN, "topicPartitions": []}],
                "errorCode": 1,
            },
        ),
        (  # tasks have a named topology from version 10 on
            f"00000009 0000000b 00000001 {TASK} 00000000 00000000 00000000 00000000 00000001"
            " 0000000000000005",
            {
                "version": 9,
                "commonlySupportedVersion": 11,
                "activeTasks": [TASK_SHOWN],
                "standbyTasks": [],
                "partitionsByHost": [],
                "standbyPartitionsByHost": [],
                "errorCode": 1,
                "nextRebalanceMs": 5,
            },
        ),
        (  # topics by number: 7 is "t", 8 is nothing
            "0000000b 0000000b"
            f" 00000002 {TASK} 00000002 006e 00e9 {TASK} 00000000 00000000"
            f" 00000001 00000007 0001 74"
            f" 00000001 {HOST} 00000002 00000007 00000002 00000008 00000003"
            " 00000000 00000000 7fffffffffffffff aa",
            {
                "version": 11,
                "commonlySupportedVersion": 11,
                "activeTasks": [
                    {**TASK_SHOWN, "namedTopology": "né"},
                    {**TASK_SHOWN, "namedTopology": None},
                ],
                "standbyTasks": [],
                "partitionsByHost": [
                    {
                        **HOST_SHOWN,
                        "topicPartitions": [
                            {"topic": "t", "partition": 2},
                            {"topic": None, "partition": 3},
                        ],
                    }
                ],
                "standbyPartitionsByHost": [],
                "errorCode": 0,
                "nextRebalanceMs": 2**63 - 1,
                "trailing": "qg==",
            },
        ),
        ("0000000c 0000000c", {"version": 12, "commonlySupportedVersion": 12}),
    ],
)
def test_assignment_info(text: str, expected: dict[str, Any]) -> None:
    raw = bytes.fromhex(text)
    assert read_assignment_info(raw) == expected
    message = bytes.fromhex("0000 00000000") + len(raw).to_bytes(4, "big") + raw
    assert decode_assignment(message, "stream")["userData"] == expected
    if "trailing" not in expected:
        for size in range(len(raw)):
            with pytest.raises(DecodeError):
                read_assignment_info(raw[:size])


def test_modified_utf8() -> None:
    """Java's `writeUTF`: U+0000 is c080, U+1F600 two surrogates of three bytes each."""
    text = "00000002 00000000 00000000 00000001 0008 c080eda0bdedb880 00000050 00000000"
    assert read_assignment_info(bytes.fromhex(text))["partitionsByHost"] == [
        {"host": "\0\U0001f600", "port": 80, "topicPartitions": []}
    ]
    wrong = text.replace("eda0bdedb880", "f09f98802020")
    with pytest.raises(DecodeError, match="host: no modified UTF-8"):
        read_assignment_info(bytes.fromhex(wrong))


@pytest.mark.parametrize("read", [read_subscription_info, read_assignment_info])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "version: 4 bytes expected, 0 left"),
        ("00000000", "version: 0, but 1 is the lowest"),
        ("ffffffff", "version: -1, but 1 is the lowest"),
        ("0000000c 0000", "4 bytes expected, 2 left"),
    ],
)
def test_wrong_version(read: Any, text: str, error: str) -> None:
    with pytest.raises(DecodeError, match=error):
        read(bytes.fromhex(text))


def test_counts_beyond_the_bytes() -> None:
    with pytest.raises(DecodeError, match="activeTasks: 2147483647 elements in too few bytes"):
        read_assignment_info(bytes.fromhex("00000001 7fffffff 00000000"))


@given(st.binary(max_size=120), st.integers(1, 12))
def test_any_bytes(raw: bytes, version: int) -> None:
    for read in (read_subscription_info, read_assignment_info):
        try:
            json.dumps(read(version.to_bytes(4, "big") + raw))
            position = 0
        except DecodeError as error:
            position = error.position
        assert 0 <= position <= len(raw) + 4
