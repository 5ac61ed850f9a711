"""User data of classic Kafka Streams groups, version by version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.message.primitives import DecodeError
from kgroup.protocol.record.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    read_assignment_info,
    read_subscription_info,
)

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
