"""Records of every type from bytes spelled out by hand; damage and random bytes never raise."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.protocol.message import codec, schema
from kgroup.protocol.record.coordinator_record import (
    KEY_TYPES,
    decode_control,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from tests.examples import examples
from tests.protocol.message.random_message import message

GROUP = "0001 67"  # a string: int16 length, "g"
ID = "000102030405060708090a0b0c0d0e0f"
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"

# Type, key and value in hex, and what they say, by the layout of Kafka's message definitions.
RECORDS: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "LegacyOffsetCommit",
        f"0000 {GROUP} 0001 74 00000007",  # type, group, topic, partition
        {"group": "g", "topic": "t", "partition": 7},
        "0000 0000000000000005 0002 6869 000000000000000a",  # version, offset, metadata, time
        {"offset": 5, "metadata": "hi", "commitTimestamp": 10},
    ),
    (
        "OffsetCommit",
        f"0001 {GROUP} 0003 e282ac ffffffff",
        {"group": "g", "topic": "€", "partition": -1},
        "0000 ffffffffffffffff 0000 000000000000000a",
        {"offset": -1, "metadata": "", "commitTimestamp": 10},
    ),
    (
        "OffsetCommit",
        f"0001 {GROUP} 0001 74 00000007",
        {"group": "g", "topic": "t", "partition": 7},
        "0001 0000000000000005 0000 000000000000000a 000000000000000b",  # … expires
        {"offset": 5, "metadata": "", "commitTimestamp": 10, "expireTimestamp": 11},
    ),
    (
        "OffsetCommit",
        f"0001 {GROUP} 0001 74 00000007",
        {"group": "g", "topic": "t", "partition": 7},
        "0002 0000000000000005 0000 000000000000000a",
        {"offset": 5, "metadata": "", "commitTimestamp": 10},
    ),
    (
        "OffsetCommit",
        f"0001 {GROUP} 0001 74 00000007",
        {"group": "g", "topic": "t", "partition": 7},
        "0003 0000000000000005 00000003 0000 000000000000000a",  # offset, leader epoch …
        {"offset": 5, "leaderEpoch": 3, "metadata": "", "commitTimestamp": 10},
    ),
    (
        "OffsetCommit",
        f"0001 {GROUP} 0001 74 00000007",
        {"group": "g", "topic": "t", "partition": 7},
        f"0004 0000000000000005 00000003 01 000000000000000a 01 00 10 {ID}",
        {"offset": 5, "leaderEpoch": 3, "metadata": "", "commitTimestamp": 10, "topicId": ID_TEXT},
    ),
    (
        "ConsumerGroupMetadata",
        f"0003 {GROUP}",
        {"groupId": "g"},
        "0000 00000007 00",  # version, epoch, no tagged fields
        {"epoch": 7},
    ),
    (
        "ConsumerGroupMetadata",
        f"0003 {GROUP}",
        {"groupId": "g"},
        "0000 00000007 01 00 08 00000000000000ff",  # tag 0, 8 bytes: hash
        {"epoch": 7, "metadataHash": 255},
    ),
    (
        "ConsumerGroupPartitionMetadata",
        f"0004 {GROUP}",
        {"groupId": "g"},
        # one topic: id, "t", 2 partitions, one with rack: partition 0, racks ["r"]; no tags
        f"0000 02 {ID} 02 74 00000002 02 00000000 02 02 72 00 00 00",
        {
            "topics": [
                {
                    "topicId": ID_TEXT,
                    "topicName": "t",
                    "numPartitions": 2,
                    "partitionMetadata": [{"partition": 0, "racks": ["r"]}],
                }
            ]
        },
    ),
    (
        "ConsumerGroupMemberMetadata",
        f"0005 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        # no instance, rack "r", client "c", host "h", topics ["t"], no regex, 5000 ms, "uniform",
        # tag 0, 1 byte: null
        "0000 00 02 72 02 63 02 68 02 02 74 00 00001388 08 756e69666f726d 01 00 01 00",
        {
            "instanceId": None,
            "rackId": "r",
            "clientId": "c",
            "clientHost": "h",
            "subscribedTopicNames": ["t"],
            "subscribedTopicRegex": None,
            "rebalanceTimeoutMs": 5000,
            "serverAssignor": "uniform",
            "classicMemberMetadata": None,
        },
    ),
    (
        "ConsumerGroupTargetAssignmentMetadata",
        f"0006 {GROUP}",
        {"groupId": "g"},
        "0000 00000007 01 00 08 0000018bcfe56800",
        {"assignmentEpoch": 7, "assignmentTimestamp": 1_700_000_000_000},
    ),
    (
        "ConsumerGroupTargetAssignmentMember",
        f"0007 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        f"0000 02 {ID} 03 00000000 00000001 00 00",
        {"topicPartitions": [{"topicId": ID_TEXT, "partitions": [0, 1]}]},
    ),
    (
        "ConsumerGroupCurrentMemberAssignment",
        f"0008 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        # epochs 7 and 6, state 1, one topic with partition 0 of epoch 5 (tag 0, 5 bytes), none
        f"0000 00000007 00000006 01 02 {ID} 02 00000000 01 00 05 02 00000005 01 00",
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 1,
            "assignedPartitions": [
                {"topicId": ID_TEXT, "partitions": [0], "assignmentEpochs": [5]}
            ],
            "partitionsPendingRevocation": [],
        },
    ),
    (
        "ShareGroupPartitionMetadata",
        f"0009 {GROUP}",
        {"groupId": "g"},
        f"0000 02 {ID} 02 74 00000001 01 00 00",
        {
            "topics": [
                {"topicId": ID_TEXT, "topicName": "t", "numPartitions": 1, "partitionMetadata": []}
            ]
        },
    ),
    (
        "ShareGroupMemberMetadata",
        f"000a {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        "0000 00 02 63 02 68 02 02 74 00",
        {"rackId": None, "clientId": "c", "clientHost": "h", "subscribedTopicNames": ["t"]},
    ),
    (
        "ShareGroupMetadata",
        f"000b {GROUP}",
        {"groupId": "g"},
        "0000 00000007 ffffffffffffffff 00",
        {"epoch": 7, "metadataHash": -1},
    ),
    (  # 4.0: without the hash
        "ShareGroupMetadata",
        f"000b {GROUP}",
        {"groupId": "g"},
        "0000 00000007 00",
        {"epoch": 7},
    ),
    (
        "ShareGroupTargetAssignmentMetadata",
        f"000c {GROUP}",
        {"groupId": "g"},
        "0000 00000007 00",
        {"assignmentEpoch": 7},
    ),
    (
        "ShareGroupTargetAssignmentMember",
        f"000d {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        "0000 01 00",
        {"topicPartitions": []},
    ),
    (
        "ShareGroupCurrentMemberAssignment",
        f"000e {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        f"0000 00000007 00000006 00 02 {ID} 01 00 00",
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 0,
            "assignedPartitions": [{"topicId": ID_TEXT, "partitions": []}],
        },
    ),
    (
        "ShareGroupStatePartitionMetadata",
        f"000f {GROUP}",
        {"groupId": "g"},
        # initializing none, initialized one topic with partition 2, deleting one topic
        f"0000 01 02 {ID} 02 74 02 00000002 00 02 {ID} 02 75 00 00",
        {
            "initializingTopics": [],
            "initializedTopics": [{"topicId": ID_TEXT, "topicName": "t", "partitions": [2]}],
            "deletingTopics": [{"topicId": ID_TEXT, "topicName": "u"}],
        },
    ),
    (  # 4.0: only initialized and deleting
        "ShareGroupStatePartitionMetadata",
        f"000f {GROUP}",
        {"groupId": "g"},
        f"0000 02 {ID} 02 74 02 00000002 00 02 {ID} 02 75 00 00",
        {
            "initializedTopics": [{"topicId": ID_TEXT, "topicName": "t", "partitions": [2]}],
            "deletingTopics": [{"topicId": ID_TEXT, "topicName": "u"}],
        },
    ),
    (
        "ConsumerGroupRegularExpression",
        f"0010 {GROUP} 0002 742a",
        {"groupId": "g", "regularExpression": "t*"},
        "0000 02 02 74 0000000000000003 000000000000000a 00",
        {"topics": ["t"], "version": 3, "timestamp": 10},
    ),
    (
        "StreamsGroupMetadata",
        f"0011 {GROUP}",
        {"groupId": "g"},
        # epoch, hash, tag 0: validated topology epoch, tag 1: one last config
        "0000 00000007 0000000000000001 02 00 04 00000002 01 06 02 02 6b 02 76 00",
        {
            "epoch": 7,
            "metadataHash": 1,
            "validatedTopologyEpoch": 2,
            "lastAssignmentConfigs": [{"key": "k", "value": "v"}],
        },
    ),
    (
        "StreamsGroupMemberMetadata",
        f"0013 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        # no instance, no rack, client, host, 5000 ms, topology epoch 2, process "p",
        # end point (1 = there) "h":80, one tag k=v
        "0000 00 00 02 63 02 68 00001388 00000002 02 70 01 02 68 0050 00 02 02 6b 02 76 00 00",
        {
            "instanceId": None,
            "rackId": None,
            "clientId": "c",
            "clientHost": "h",
            "rebalanceTimeoutMs": 5000,
            "topologyEpoch": 2,
            "processId": "p",
            "userEndpoint": {"host": "h", "port": 80},
            "clientTags": [{"key": "k", "value": "v"}],
        },
    ),
    (
        "StreamsGroupTargetAssignmentMetadata",
        f"0014 {GROUP}",
        {"groupId": "g"},
        "0000 00000007 00",
        {"assignmentEpoch": 7},
    ),
    (
        "StreamsGroupTargetAssignmentMember",
        f"0015 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        "0000 02 02 30 02 00000003 00 01 01 00",  # subtopology "0", task 3; no others
        {
            "activeTasks": [{"subtopologyId": "0", "partitions": [3]}],
            "standbyTasks": [],
            "warmupTasks": [],
        },
    ),
    (
        "StreamsGroupCurrentMemberAssignment",
        f"0016 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        "0000 00000007 00000006 00 02 02 30 02 00000003 01 00 01 00 01 01 01 01 01 00",
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 0,
            "activeTasks": [{"subtopologyId": "0", "partitions": [3], "assignmentEpochs": None}],
            "standbyTasks": [],
            "warmupTasks": [],
            "activeTasksPendingRevocation": [],
            "standbyTasksPendingRevocation": [],
            "warmupTasksPendingRevocation": [],
        },
    ),
    (
        "StreamsGroupTopology",
        f"0017 {GROUP}",
        {"groupId": "g"},
        # epoch 2, one subtopology "0": sources ["t"], regexes [], changelogs [c: 0 partitions,
        # factor 1, config k=v], sinks [], repartition sources [], copartition group [0], [], []
        "0000 00000002 02 02 30 02 02 74 01 02 02 63 00000000 0001 02 02 6b 02 76 00 00"
        " 01 01 02 02 0000 01 01 00 00 00",
        {
            "epoch": 2,
            "subtopologies": [
                {
                    "subtopologyId": "0",
                    "sourceTopics": ["t"],
                    "sourceTopicRegex": [],
                    "stateChangelogTopics": [
                        {
                            "name": "c",
                            "partitions": 0,
                            "replicationFactor": 1,
                            "topicConfigs": [{"key": "k", "value": "v"}],
                        }
                    ],
                    "repartitionSinkTopics": [],
                    "repartitionSourceTopics": [],
                    "copartitionGroups": [
                        {"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": []}
                    ],
                }
            ],
        },
    ),
    # Kafka 3.6 and 3.7 wrote these four in shapes of their own.
    (
        "ConsumerGroupPartitionMetadata",
        f"0004 {GROUP}",
        {"groupId": "g"},
        f"0000 00000000 02 {ID} 02 74 00000002 01 00 00",  # an epoch in front
        {
            "epoch": 0,
            "topics": [
                {"topicId": ID_TEXT, "topicName": "t", "numPartitions": 2, "partitionMetadata": []}
            ],
        },
    ),
    (
        "ConsumerGroupMemberMetadata",
        f"0005 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        "0000 00 00 02 63 02 68 02 02 74 00 00001388 00 01 00",  # (no) assignors behind
        {
            "instanceId": None,
            "rackId": None,
            "clientId": "c",
            "clientHost": "h",
            "subscribedTopicNames": ["t"],
            "subscribedTopicRegex": None,
            "rebalanceTimeoutMs": 5000,
            "serverAssignor": None,
            "assignors": [],
        },
    ),
    (
        "ConsumerGroupTargetAssignmentMember",
        f"0007 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        f"0000 00 02 {ID} 02 00000000 00 0000 01 00",  # error, …, metadata version and bytes
        {
            "error": 0,
            "topicPartitions": [{"topicId": ID_TEXT, "partitions": [0]}],
            "metadataVersion": 0,
            "metadataBytes": "",
        },
    ),
    (
        "ConsumerGroupCurrentMemberAssignment",
        f"0008 {GROUP} 0001 6d",
        {"groupId": "g", "memberId": "m"},
        # three epochs, one topic assigned, none pending, error, metadata version and bytes
        f"0000 00000007 00000006 00000008 02 {ID} 02 00000000 00 01 01 00 0000 01 00",
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "targetMemberEpoch": 8,
            "assignedPartitions": [{"topicId": ID_TEXT, "partitions": [0]}],
            "partitionsPendingRevocation": [],
            "partitionsPendingAssignment": [],
            "error": 0,
            "metadataVersion": 0,
            "metadataBytes": "",
        },
    ),
]

SUBSCRIPTION = "0001 00000001 0001 74 ffffffff 00000000"  # version 1, ["t"], no data, none owned
SUBSCRIBED = {"version": 1, "topics": ["t"], "userData": None, "ownedPartitions": []}
ASSIGNMENT = "0000 00000001 0001 74 00000002 00000000 00000003 00000000"  # t-0, t-3, empty data
ASSIGNED = {
    "version": 0,
    "assignedPartitions": [{"topic": "t", "partitions": [0, 3]}],
    "userData": "",
}

# GroupMetadata by version: bytes before the members, of a member up to its client id and between
# its host and its subscription, and the fields they stand for. Version 4 has other lengths.
GROUPS: list[tuple[int, str, str, str, dict[str, Any], dict[str, Any]]] = [
    (0, "", "", "00002710", {}, {}),
    (1, "", "", "0000ea60 00002710", {}, {"rebalanceTimeout": 60000}),
    (
        2,
        "000000000000000a",
        "",
        "0000ea60 00002710",
        {"currentStateTimestamp": 10},
        {"rebalanceTimeout": 60000},
    ),
    (
        3,
        "000000000000000a",
        "ffff",
        "0000ea60 00002710",
        {"currentStateTimestamp": 10},
        {"groupInstanceId": None, "rebalanceTimeout": 60000},
    ),
    (
        3,
        "ffffffffffffffff",
        "0001 69",
        "0000ea60 00002710",
        {"currentStateTimestamp": -1},
        {"groupInstanceId": "i", "rebalanceTimeout": 60000},
    ),
]


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


def _sized(text: str) -> str:
    """Bytes behind their int32 length."""
    return f"{len(_hex(text)):08x} {text}"


@pytest.mark.parametrize(("name", "key", "key_data", "value", "value_data"), RECORDS)
def test_record(
    name: str, key: str, key_data: dict[str, Any], value: str, value_data: dict[str, Any]
) -> None:
    number, version = _hex(key)[1], _hex(value)[1]
    assert decode_record(_hex(key), _hex(value)) == (
        name,
        {"type": number, "data": key_data},
        {"version": version, "data": value_data},
    )
    assert decode_record(_hex(key), None) == (name, {"type": number, "data": key_data}, None)
    assert encode_key(name, key_data) == _hex(key)


def test_every_type_is_spelled_out() -> None:
    assert {name for name, *_ in RECORDS} == set(KEY_TYPES.values()) - {"GroupMetadata"}


def test_type_numbers_are_kafkas() -> None:
    """The "apiKey" of each schema of 4.3.1; 4.0 had type 9 as the version of its key."""
    numbers = {}
    for file in files("kgroup").joinpath("schema", "coordinator").iterdir():
        match = re.search(r'"apiKey": (\d+)', file.read_text())
        if file.name.endswith("Key.json"):
            assert match is not None
            numbers[int(match[1])] = file.name.removesuffix("Key.json")
    assert {**numbers, 9: "ShareGroupPartitionMetadata"} == KEY_TYPES


@pytest.mark.parametrize(("version", "head", "middle", "timeouts", "group", "member"), GROUPS)
def test_group(
    version: int,
    head: str,
    middle: str,
    timeouts: str,
    group: dict[str, Any],
    member: dict[str, Any],
) -> None:
    value = _hex(
        f"{version:04x} 0008 636f6e73756d6572"  # version, protocol type "consumer"
        f" 00000005 0005 72616e6765 0001 6d {head}"  # generation, protocol, leader
        f" 00000001 0001 6d {middle} 0001 63 0002 2f68 {timeouts}"  # one member
        f" {_sized(SUBSCRIPTION)} {_sized(ASSIGNMENT)}"
    )
    name, key, decoded = decode_record(_hex("0002 0001 67"), value)
    assert (name, key) == ("GroupMetadata", {"type": 2, "data": {"group": "g"}})
    assert decoded == {
        "version": version,
        "data": {
            "protocolType": "consumer",
            "generation": 5,
            "protocol": "range",
            "leader": "m",
            **group,
            "members": [
                {
                    "memberId": "m",
                    "clientId": "c",
                    "clientHost": "/h",
                    "sessionTimeout": 10000,
                    **member,
                    "subscription": SUBSCRIBED,
                    "assignment": ASSIGNED,
                }
            ],
        },
    }
    assert encode_value("GroupMetadata", version, decoded["data"]) == value
    _check_every_cut("GroupMetadata", value)


@pytest.mark.parametrize("kind", ["consumer", "connect"])
@pytest.mark.parametrize("more", [0, 1])
def test_members_that_would_take_too_much_memory(kind: str, more: int) -> None:
    """Their bytes, above 8 MiB for all together, are left as they are."""
    raw, size = _hex(SUBSCRIPTION), 8 * 1024 * 1024 + more
    rest = raw.ljust(size - 2 * len(raw), b"\0")
    member: dict[str, Any] = {"memberId": "m", "clientId": "c", "clientHost": "h"}
    member |= {"rebalanceTimeout": 1, "sessionTimeout": 1, "subscription": raw, "assignment": b""}
    group: dict[str, Any] = {
        "protocolType": kind,
        "generation": 0,
        "protocol": None,
        "leader": None,
    }
    group["members"] = [member, member, {**member, "subscription": b"", "assignment": rest}]
    value = _hex("0001") + codec.write("coordinator/GroupMetadataValue", 1, group)
    decoded = decode_value("GroupMetadata", value)
    assert decoded is not None
    error = f"not decoded: the bytes of all members, {size}, are too many"
    members = decoded["data"]["members"]
    parts = [members[0]["subscription"], members[1]["subscription"], members[2]["assignment"]]
    left = [{"raw": b64encode(each).decode(), "error": error} for each in (raw, raw, rest)]
    assert [part == each for part, each in zip(parts, left, strict=True)] == [more > 0] * 3


def test_flexible_group() -> None:
    value = _hex(
        "0004 09 636f6e73756d6572 00000000 00 00 000000000000000a"  # generation 0, null, null
        " 02 02 6d 00 02 63 03 2f68 0000ea60 00002710"  # one member
        f" {len(_hex(SUBSCRIPTION)) + 1:02x} {SUBSCRIPTION} 01 00 00"
    )
    decoded = decode_value("GroupMetadata", value)
    assert decoded is not None
    assert decoded["data"] == {
        "protocolType": "consumer",
        "generation": 0,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": 10,
        "members": [
            {
                "memberId": "m",
                "groupInstanceId": None,
                "clientId": "c",
                "clientHost": "/h",
                "rebalanceTimeout": 60000,
                "sessionTimeout": 10000,
                "subscription": SUBSCRIBED,
                "assignment": {"raw": ""},
            }
        ],
    }
    assert encode_value("GroupMetadata", 4, decoded["data"]) == value
    _check_every_cut("GroupMetadata", value)


@pytest.mark.parametrize(
    ("kind", "subscription", "shown"),
    [
        # The worker's URL, config offset 5 and no allocation: version 1 of Connect's protocol.
        (
            b"connect",
            "0001 0001 75 0000000000000005 ffffffff",
            {"version": 1, "url": "u", "configOffset": 5, "allocation": None},
        ),
        (b"sr", "7b7d", {"raw": "e30="}),
        (b"", SUBSCRIPTION, {"raw": b64encode(_hex(SUBSCRIPTION)).decode()}),
        (
            b"consumer",
            "0001 0000",
            {"raw": "AAEAAA==", "error": "topics: 4 bytes expected, 2 left (at byte 2)"},
        ),
    ],
)
def test_other_protocol_types(kind: bytes, subscription: str, shown: dict[str, Any]) -> None:
    value = (
        _hex(f"0000 {len(kind):04x}")
        + kind
        + _hex(
            "00000005 0001 70 0001 6d"
            f" 00000001 0001 6d 0000 0000 00002710 {_sized(subscription)} 00000000"
        )
    )
    decoded = decode_value("GroupMetadata", value)
    assert decoded is not None
    member = decoded["data"]["members"][0]
    assert member["subscription"] == shown
    assert member["assignment"] == {"raw": ""}


def test_text_that_is_no_utf8() -> None:
    """Group ids and metadata are what a client sent: Java shows U+FFFD, and so do we."""
    name, key, value = decode_record(
        _hex("0001 0003 67ff0a 0001 74 00000000"),
        _hex("0000 0000000000000005 0003 eda080 000000000000000a"),
    )
    assert name == "OffsetCommit"
    assert key == {"type": 1, "data": {"group": "g\ufffd\n", "topic": "t", "partition": 0}}
    assert value is not None
    assert value["data"]["metadata"] == "\ufffd"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, None),
        ("", {"type": None, "data": None, "raw": "", "error": "type: 2 bytes expected, 0 left"}),
        (
            "01",
            {"type": None, "data": None, "raw": "AQ==", "error": "type: 2 bytes expected, 1 left"},
        ),
        ("0012 0001 67", {"type": 18, "raw": "ABIAAWc="}),  # never released
        ("7fff 0001 67", {"type": 32767, "raw": "f/8AAWc="}),
        ("ffff", {"type": -1, "raw": "//8="}),
        (
            "0002 0005 67",
            {
                "type": 2,
                "data": None,
                "raw": "AAIABWc=",
                "error": "group: length 5, but only 1 bytes left (at byte 4)",
            },
        ),
    ],
)
def test_keys_that_are_none(key: str | None, expected: dict[str, Any] | None) -> None:
    raw = None if key is None else _hex(key)
    assert decode_record(raw, b"\0\0x") == (
        "Unknown",
        expected,
        {"version": 0, "data": None, "raw": "AAB4"},
    )


def test_values_of_unknown_versions() -> None:
    for raw, version in ((b"\0\5abc", 5), (b"\xff\xff", -1)):
        text = b64encode(raw).decode()
        expected = {"version": version, "data": None, "raw": text}
        assert decode_value("OffsetCommit", raw) == expected
    assert decode_value("OffsetCommit", b"\1") == {
        "version": None,
        "data": None,
        "raw": "AQ==",
        "error": "version: 2 bytes expected, 1 left",
    }


def test_bytes_behind_the_end() -> None:
    """Kafka does not look at them; they are shown."""
    key = _hex("0002 0001 67 beef")
    assert decode_key(key) == (
        "GroupMetadata",
        {"type": 2, "data": {"group": "g"}, "trailing": "vu8="},
    )
    value = _hex("0000 0000000000000005 0000 000000000000000a beef")
    assert decode_value("OffsetCommit", value) == {
        "version": 0,
        "data": {"offset": 5, "metadata": "", "commitTimestamp": 10},
        "trailing": "vu8=",
    }
    # Neither shape of 4.0 nor of 4.1 takes these whole: the newer one counts.
    assert decode_value("ShareGroupMetadata", _hex("0000 00000007 0000000000000001 00 aa")) == {
        "version": 0,
        "data": {"epoch": 7, "metadataHash": 1},
        "trailing": "qg==",
    }
    # The older one refuses these, and that is not what is said.
    assert decode_value("ShareGroupMetadata", _hex("0000 00000007 0100000000000001 00 aa")) == {
        "version": 0,
        "data": {"epoch": 7, "metadataHash": 0x0100000000000001},
        "trailing": "qg==",
    }
    assert decode_value("ShareGroupMetadata", _hex("0000 00000007 00 aa")) == {
        "version": 0,
        "data": None,
        "raw": "AAAAAAAHAKo=",
        "error": "metadataHash: 8 bytes expected, 2 left (at byte 6)",
    }


def test_other_kinds_of_buffers() -> None:
    name, key, value, expected = RECORDS[0][0], _hex(RECORDS[0][1]), _hex(RECORDS[0][3]), None
    expected = decode_record(key, value)
    assert expected[0] == name
    for kind in (bytearray, memoryview):
        assert decode_record(kind(key), kind(value)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "key", "key_data", "value", "value_data"), RECORDS)
def test_cut_at_every_byte(
    name: str, key: str, key_data: dict[str, Any], value: str, value_data: dict[str, Any]
) -> None:
    raw = _hex(key)
    for size in range(len(raw)):
        kind, decoded = decode_key(raw[:size])
        assert kind == "Unknown"
        assert decoded is not None
        assert decoded["raw"] == b64encode(raw[:size]).decode()
        assert decoded["data"] is None
        assert decoded["error"]
    if value_data.get("serverAssignor") == "uniform":
        _check_cut_into_another_shape(_hex(value))
    else:
        _check_every_cut(name, _hex(value))


def _check_every_cut(name: str, value: bytes) -> None:
    for size in range(len(value)):
        cut = value[:size]
        decoded = decode_value(name, cut)
        assert decoded is not None
        assert decoded["data"] is None
        assert decoded["raw"] == b64encode(cut).decode()
        assert decoded["version"] == (value[1] if size >= 2 else None)
        assert decoded["error"]


def _check_cut_into_another_shape(value: bytes) -> None:
    """Without its last two bytes, `01 00` (the size of tag 0, null), it is one of Kafka 3.7."""
    name = "ConsumerGroupMemberMetadata"
    for size in range(2, len(value)):
        decoded = decode_value(name, value[:size])
        assert decoded is not None
        if size == len(value) - 2:
            assert decoded["data"]["assignors"] == []
        else:
            assert decoded["data"] is None
            assert decoded["error"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            "0000 0001",
            "0000 00000005",
            (
                "ControlCommit",
                {"type": None, "data": {"version": 0, "type": 1}},
                {"version": 0, "data": {"coordinatorEpoch": 5}},
            ),
        ),
        (
            "0000 0000",
            "0000 ffffffff",
            (
                "ControlAbort",
                {"type": None, "data": {"version": 0, "type": 0}},
                {"version": 0, "data": {"coordinatorEpoch": -1}},
            ),
        ),
        (  # newer versions are read as the newest known, as in Kafka
            "0001 0001 aa",
            "0001 00000005 bb",
            (
                "ControlCommit",
                {"type": None, "data": {"version": 1, "type": 1}, "trailing": "qg=="},
                {"version": 1, "data": {"coordinatorEpoch": 5}, "trailing": "uw=="},
            ),
        ),
        (  # of KRaft
            "0000 0002",
            "0000 aa",
            (
                "ControlLeaderChange",
                {"type": None, "data": {"version": 0, "type": 2}},
                {"version": 0, "data": None, "raw": "AACq"},
            ),
        ),
        (
            "0000 0007",
            "0000 aa",
            (
                "Unknown",
                {"type": None, "data": {"version": 0, "type": 7}},
                {"version": 0, "data": None, "raw": "AACq"},
            ),
        ),
        (
            "0000 0001",
            "0000 0000",
            (
                "ControlCommit",
                {"type": None, "data": {"version": 0, "type": 1}},
                {
                    "version": 0,
                    "data": None,
                    "raw": "AAAAAA==",
                    "error": "coordinatorEpoch: 4 bytes expected, 2 left (at byte 2)",
                },
            ),
        ),
        (
            "ffff 0001",
            None,
            (
                "Unknown",
                {"type": None, "data": None, "raw": "//8AAQ==", "error": "version: -1 is negative"},
                None,
            ),
        ),
        (
            "0000 00",
            None,
            (
                "Unknown",
                {
                    "type": None,
                    "data": None,
                    "raw": "AAAA",
                    "error": "type: 4 bytes expected, 3 left",
                },
                None,
            ),
        ),
    ],
)
def test_control(key: str, value: str | None, expected: tuple[Any, ...]) -> None:
    assert decode_control(_hex(key), None if value is None else _hex(value)) == expected


def test_control_without_key() -> None:
    assert decode_control(None, None) == ("Unknown", None, None)


@pytest.mark.parametrize("name", KEY_TYPES.values())
@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip(name: str, data: st.DataObject) -> None:
    """What `encode_*` writes in today's shapes `decode_record` gives back."""
    number = next(number for number, known in KEY_TYPES.items() if known == name)
    folder = "coordinator_4_0" if number == 9 else "coordinator"
    key_schema, value_schema = f"{folder}/{name}Key", f"{folder}/{name}Value"
    key = data.draw(message(key_schema, schema.versions(key_schema)[0]))
    version = data.draw(st.integers(0, schema.versions(value_schema)[-1]))
    value = data.draw(message(value_schema, version))
    raw = encode_key(name, key), encode_value(name, version, value)
    kind, made_key, made_value = decode_record(*raw)
    assert kind == name
    assert made_key == {"type": number, "data": key}
    assert made_value is not None
    if name != "GroupMetadata":
        assert made_value == {"version": version, "data": value}
        return
    # Members' bytes were decoded (or shown raw), so compare them written again.
    assert encode_value(name, version, made_value["data"]) == raw[1]
    for made, drawn in zip(made_value["data"]["members"], value["members"], strict=True):
        assert made["memberId"] == drawn["memberId"]


@settings(max_examples=examples(75))
@given(
    st.none() | st.binary(max_size=50),
    st.none() | st.binary(max_size=80),
    st.sampled_from(sorted(KEY_TYPES)),
    st.integers(0, 4),
)
def test_no_bytes_raise(key: bytes | None, value: bytes | None, number: int, version: int) -> None:
    """Any bytes, alone and behind a known type and version, give something that JSON can hold."""
    json.dumps(decode_record(key, value))
    json.dumps(decode_control(key, value))
    head = number.to_bytes(2, "big")
    name, made = decode_key(head + (key or b""))
    json.dumps(made)
    json.dumps(decode_value(name, value))
    made = decode_value(KEY_TYPES[number], version.to_bytes(2, "big") + (value or b""))
    json.dumps(made)
    group = b"\0\1\0\x08consumer" + (value or b"")
    json.dumps(decode_value("GroupMetadata", group))
