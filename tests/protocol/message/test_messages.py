"""The schema reader: hand-written bytes, every schema at random, and every way to be cut short."""

from __future__ import annotations

import json
import re
import struct
import tracemalloc
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.protocol.message import codec, schema
from kgroup.protocol.message.primitives import DecodeError
from tests.examples import examples, some_of
from tests.protocol.message.random_message import SCHEMAS, VERSIONS, message

OFFSET = "coordinator/OffsetCommitValue"
MEMBER = "coordinator/ConsumerGroupMemberMetadataValue"
STREAMS_MEMBER = "coordinator/StreamsGroupMemberMetadataValue"
CURRENT = "coordinator/ConsumerGroupCurrentMemberAssignmentValue"
KEY = "coordinator/OffsetCommitKey"
STREAMS_TASKS = "coordinator/StreamsGroupTargetAssignmentMemberValue"


def varint(value: int) -> bytes:
    """Unsigned, of four bytes: leading zeros are accepted."""
    return bytes(
        [value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80]
    ) + bytes([value >> 21])


def test_schemas_are_kafkas() -> None:
    """44 of Kafka 4.3.1's coordinator and EndTxnMarker, and the other folders, with licences."""
    by_folder: dict[str, int] = {}
    for name in SCHEMAS:
        by_folder[name.split("/")[0]] = by_folder.get(name.split("/")[0], 0) + 1
        text = files("kgroup").joinpath("schema", f"{name}.json").read_text()
        assert text.startswith(("// Licensed to the Apache Software Foundation", "// Written for"))
        assert f'"name": "{name.split("/")[1]}"' in text
    assert by_folder == {
        "coordinator": 45,
        "coordinator_3_7": 4,
        "coordinator_4_0": 4,
        "consumer_protocol": 2,
        "member_metadata": 5,
        "share_state": 4,
        "share_state_4_0": 2,
    }


def test_fields_by_version() -> None:
    """OffsetCommitValue.json: leaderEpoch 3+, expireTimestamp 1, topicId tagged in 4+."""
    assert schema.versions(OFFSET) == range(5)
    names = {v: [field.name for field in schema.fields(OFFSET, v)] for v in range(5)}
    assert names[0] == names[2] == ["offset", "metadata", "commitTimestamp"]
    assert names[1] == ["offset", "metadata", "commitTimestamp", "expireTimestamp"]
    assert names[3] == ["offset", "leaderEpoch", "metadata", "commitTimestamp"]
    assert names[4] == [*names[3], "topicId"]
    assert [schema.flexible(OFFSET, v) for v in range(5)] == [False] * 4 + [True]
    topic_id = schema.fields(OFFSET, 4)[-1]
    assert (topic_id.type, topic_id.tag, topic_id.default) == ("uuid", 0, "A" * 22)
    metadata = schema.fields(OFFSET, 4)[2]
    assert (metadata.type, metadata.array, metadata.nullable) == ("string", False, False)
    assert metadata.compact
    assert not schema.fields(OFFSET, 3)[2].compact


def test_fields_of_structs() -> None:
    """Nested fields, arrays, and defaults: "null" is null, but JSON's null is the empty value."""
    classic = schema.fields(MEMBER, 0)[-1]
    assert (classic.name, classic.type, classic.tag) == ("classicMemberMetadata", "struct", 0)
    assert classic.nullable
    assert classic.default == {"sessionTimeoutMs": 0, "supportedProtocols": []}
    assert classic.fields is not None
    protocols = classic.fields[1]
    assert (protocols.type, protocols.array, protocols.tag) == ("struct", True, None)
    assert protocols.fields is not None
    assert [field.type for field in protocols.fields] == ["string", "bytes"]
    endpoint = schema.fields(STREAMS_MEMBER, 0)[7]
    assert (endpoint.name, endpoint.default, endpoint.nullable) == ("userEndpoint", None, True)


@pytest.mark.parametrize(
    ("name", "field", "default"),
    [
        ("coordinator/ConsumerGroupMetadataValue", "metadataHash", 0),
        ("coordinator/ConsumerGroupTargetAssignmentMetadataValue", "assignmentTimestamp", 0),
        ("coordinator/StreamsGroupMetadataValue", "validatedTopologyEpoch", -1),
        ("share_state/ShareSnapshotValue", "deliveryCompleteCount", -1),
    ],
)
def test_defaults_of_numbers(name: str, field: str, default: int) -> None:
    """As "default" of these files of Kafka says."""
    (found,) = [each for each in schema.fields(name, 0) if each.name == field]
    assert found.default == default


def test_types_of_one_length() -> None:
    """Kafka's protocol guide has them in network byte order; a uuid is of two int64."""
    sizes = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "uuid": "qq"}
    assert {kind: struct.calcsize(f">{code}") for kind, code in sizes.items()} == schema.FIXED


def test_unknown_version() -> None:
    with pytest.raises(ValueError, match=f"{OFFSET} has no version 5"):
        schema.fields(OFFSET, 5)


def test_fixed_layout() -> None:
    data = b"\xee" + bytes.fromhex(
        "0005 6772 6f75 70"  # group "group"
        "0000"  # topic ""
        "00000007"  # partition
        "99"  # not part of it
    )
    expected = {"group": "group", "topic": "", "partition": 7}
    assert codec.read(KEY, 0, data, 1) == (expected, 14)
    assert codec.write(KEY, 0, expected) == data[1:14]


def test_flexible_layout() -> None:
    data = bytes.fromhex(
        "0000000000000005"  # offset
        "ffffffff"  # leader epoch -1
        "03 6869"  # metadata "hi": length + 1
        "000000000000000a"  # commit timestamp
        "01"  # one tagged field
        "00 10 000102030405060708090a0b0c0d0e0f"  # tag 0, 16 bytes: topic id
    )
    expected = {
        "offset": 5,
        "leaderEpoch": -1,
        "metadata": "hi",
        "commitTimestamp": 10,
        "topicId": "AAECAwQFBgcICQoLDA0ODw",
    }
    assert codec.read(OFFSET, 4, data) == (expected, len(data))
    assert codec.write(OFFSET, 4, expected) == data


@pytest.mark.parametrize(
    ("section", "tagged"),
    [
        ("00", {}),
        ("01 00 10 00000000000000000000000000000000", {}),  # at its default: left out
        ("80808000", {}),  # 0 in four bytes
        ("01 07 00", {"_tagged": [{"tag": 7, "data": ""}]}),
        ("01 07 02 beef", {"_tagged": [{"tag": 7, "data": "vu8="}]}),
        (  # any order, one of them known
            "03 07 01 aa 00 10 ffffffffffffffffffffffffffffffff 8101 01 bb",
            {
                "topicId": "_____________________w",
                "_tagged": [{"tag": 7, "data": "qg=="}, {"tag": 129, "data": "uw=="}],
            },
        ),
        (  # twice: of a known one the last counts, unknown ones are all kept
            "04 00 10 ffffffffffffffffffffffffffffffff 07 01 aa 07 01 bb"
            "00 10 00000000000000000000000000000001",
            {
                "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
                "_tagged": [{"tag": 7, "data": "qg=="}, {"tag": 7, "data": "uw=="}],
            },
        ),
        ("01 00 63 00000000000000000000000000000001", {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}),
        ("ffffffff0f", {}),  # a count of -1, to Kafka's loop none
    ],
)
def test_tagged_fields(section: str, tagged: dict[str, Any]) -> None:
    head = bytes.fromhex("0000000000000005 ffffffff 01 000000000000000a")
    expected = {"offset": 5, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 10, **tagged}
    data = head + bytes.fromhex(section)
    assert codec.read(OFFSET, 4, data) == (expected, len(data))


@pytest.mark.parametrize(
    ("section", "position", "reason"),
    [
        ("", 21, "tagged fields: the bytes end inside a variable-length integer"),
        ("01", 22, "tagged fields: the bytes end inside a variable-length integer"),
        ("01 07", 23, "tagged fields: the bytes end inside a variable-length integer"),
        ("01 07 05 aabbcc", 24, "tagged fields: length 5, but only 3 bytes left"),
        ("01 07 ffffffff0f", 28, "tagged fields: null (length -1) where a value must be"),
        ("01 00 10 0011", 24, "tagged fields.topicId: 16 bytes expected, 2 left"),
        ("808080808000", 21, "tagged fields: a variable-length integer of more than 5 bytes"),
        ("ffffffff07", 26, "tagged fields: the bytes end inside a variable-length integer"),
    ],
)
def test_wrong_tagged_fields(section: str, position: int, reason: str) -> None:
    data = bytes.fromhex("0000000000000005 ffffffff 01 000000000000000a") + bytes.fromhex(section)
    with pytest.raises(DecodeError) as caught:
        codec.read(OFFSET, 4, data)
    assert (caught.value.position, caught.value.reason) == (position, reason)


def test_nullable_fields() -> None:
    data = bytes.fromhex(
        "00 00"  # instance id, rack id: null
        "02 63 01"  # client id "c", client host ""
        "03 02 61 01"  # two subscribed topics: "a" and ""
        "00"  # no regular expression
        "ffffffff"  # rebalance timeout
        "05 6e6f6e65"  # server assignor "none"
        "01 00 01 00"  # one tagged field, tag 0, 1 byte: null
    )
    expected = {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "",
        "subscribedTopicNames": ["a", ""],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": -1,
        "serverAssignor": "none",
        "classicMemberMetadata": None,
    }
    assert codec.read(MEMBER, 0, data) == (expected, len(data))
    assert codec.write(MEMBER, 0, expected) == data


def test_struct_in_a_tagged_field() -> None:
    head = bytes.fromhex("00 00 01 01 01 00 00000000 00")
    data = head + bytes.fromhex(
        "01 00 14"  # one tagged field, tag 0, 20 bytes
        "01"  # not null
        "00001388"  # session timeout
        "02"  # one protocol
        "06 72616e6765"  # "range"
        "04 000102"  # metadata
        "01 09 00"  # its tagged fields: an unknown one without bytes
        "00"  # no tagged fields
    )
    made, end = codec.read(MEMBER, 0, data)
    assert end == len(data)
    assert made["classicMemberMetadata"] == {
        "sessionTimeoutMs": 5000,
        "supportedProtocols": [
            {"name": "range", "metadata": "AAEC", "_tagged": [{"tag": 9, "data": ""}]}
        ],
    }
    assert codec.write(MEMBER, 0, made) == data


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("ff", None),
        ("80", None),  # any negative byte
        ("01 02 68 ffff 00", {"host": "h", "port": 65535}),
        ("00 01 0000 00", {"host": "", "port": 0}),
    ],
)
def test_nullable_struct(endpoint: str, expected: dict[str, Any] | None) -> None:
    head = bytes.fromhex("00 00 01 01 00000000 00000000 01")
    data = head + bytes.fromhex(endpoint) + bytes.fromhex("01 00")  # no client tags, no tags
    made, end = codec.read(STREAMS_MEMBER, 0, data)
    assert end == len(data)
    assert made["userEndpoint"] == expected
    assert made["clientTags"] == []
    written = "ff" if expected is None else "01" + endpoint[2:]  # as Kafka's generator does
    assert codec.write(STREAMS_MEMBER, 0, made) == head + bytes.fromhex(f"{written} 01 00")


@pytest.mark.parametrize(
    ("name", "version", "text", "position", "reason"),
    [
        (KEY, 0, "ffff", 2, "group: null (length -1) where a value must be"),
        (KEY, 0, "8000", 2, "group: null (length -32768) where a value must be"),
        (KEY, 0, "0003 6162", 2, "group: length 3, but only 2 bytes left"),
        (KEY, 0, "0000 0000 0000", 4, "partition: 4 bytes expected, 2 left"),
        (OFFSET, 3, "0000000000000005 0000", 8, "leaderEpoch: 4 bytes expected, 2 left"),
        (OFFSET, 3, "0000000000000005 00000000 00", 12, "metadata: 2 bytes expected, 1 left"),
        (
            OFFSET,
            4,
            "0000000000000005 00000000 818002" + "61" * 32768,
            15,
            "metadata: length 32768 is above the limit, 32767",
        ),
        (
            "coordinator/GroupMetadataValue",
            0,
            "0000 00000001 ffff ffff 7fffffff 0000",
            14,
            "members: length 2147483647, but only 2 bytes left",
        ),
        (
            "coordinator/GroupMetadataValue",
            0,
            "0000 00000001 ffff ffff 00000001 0000",
            16,
            "members.clientId: 2 bytes expected, 0 left",
        ),
        (
            CURRENT,
            0,
            "00000001 00000000 00 02 00000000000000000000000000000000 03 00000001 000000",
            27,
            "assignedPartitions.partitions: 8 bytes expected, 7 left",
        ),
    ],
)
def test_bytes_that_do_not_fit(
    name: str, version: int, text: str, position: int, reason: str
) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(DecodeError) as caught:
        codec.read(name, version, data)
    assert (caught.value.position, caught.value.reason) == (position, reason)


def test_huge_counts_allocate_nothing() -> None:
    """Counts of 2^31-1 elements, in both encodings, refused before anything is made."""
    bodies = [
        (CURRENT, "00000001 00000000 00 ffffffff07" + "00" * 40),
        (CURRENT, "00000001 00000000 00 02" + "00" * 16 + "ffffffff07" + "00" * 40),
        ("consumer_protocol/ConsumerProtocolAssignment", "7fffffff" + "00" * 40),
        ("consumer_protocol/ConsumerProtocolAssignment", "00000001 0000 7fffffff" + "00" * 40),
    ]
    for name, _ in bodies:
        codec.reader(name, 0)
    tracemalloc.start()
    try:
        for name, text in bodies:
            with pytest.raises(DecodeError, match="length 214748364"):
                codec.read(name, 0, bytes.fromhex(text))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "head", "element", "weight", "field"),
    [
        (STREAMS_TASKS, "", "010100", 5, "activeTasks"),
        (MEMBER, "00000101", "01", 1, "subscribedTopicNames"),
        (STREAMS_TASKS, "02" + "01", "00000000", 1, "activeTasks.partitions"),
    ],
)
def test_more_values_than_memory(
    name: str, head: str, element: str, weight: int, field: str
) -> None:
    """Elements of few bytes that take a lot more as objects: too many are refused, not made."""
    raw = bytes.fromhex(head) + varint(2**22 // weight + 2) + bytes.fromhex(element) * 2**23
    codec.reader(name, 0)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=f"^{field}: more values than"):
            codec.read(name, 0, raw)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_values_are_counted_over_all_arrays() -> None:
    """5 for a struct of two fields in an array, 1 for a number: 2^22 and no more."""
    for number, is_refused in ((2**22 - 10, False), (2**22 - 9, True)):
        task = b"\x01" + varint(number + 1) + bytes(4 * number) + b"\x00"
        raw = b"\x02" + task + b"\x02\x01\x01\x00" + b"\x01\x00"
        if is_refused:
            with pytest.raises(DecodeError, match=r"^standbyTasks: more values than"):
                codec.read(STREAMS_TASKS, 0, raw)
        else:
            assert codec.read(STREAMS_TASKS, 0, raw)[1] == len(raw)


def test_long_arrays() -> None:
    """Longer than those for which readers are made beforehand."""
    for count in (0, 15, 16, 17, 300):
        expected = {
            "assignedPartitions": [{"topic": "t", "partitions": list(range(count))}],
            "userData": None,
        }
        raw = bytes.fromhex("00000001 0001 74") + count.to_bytes(4, "big")
        raw += b"".join(i.to_bytes(4, "big") for i in range(count)) + b"\xff\xff\xff\xff"
        name = "consumer_protocol/ConsumerProtocolAssignment"
        assert codec.read(name, 0, raw) == (expected, len(raw))


def test_raw_bytes() -> None:
    reader = codec.reader("consumer_protocol/ConsumerProtocolAssignment", 0, raw_bytes=True)
    assert reader(bytes.fromhex("00000000 00000002 beef"), 0, 10) == (
        {"assignedPartitions": [], "userData": b"\xbe\xef"},
        10,
    )


def test_unknown_tags_refused() -> None:
    reader = codec.reader(OFFSET, 4, unknown_tags=False)
    head = bytes.fromhex("0000000000000005 ffffffff 01 000000000000000a")
    whole = head + bytes.fromhex(f"01 00 10 {'11' * 16}")
    assert reader(whole, 0, len(whole))[0]["topicId"] == "EREREREREREREREREREREQ"
    unknown = head + bytes.fromhex("01 07 00")
    with pytest.raises(
        DecodeError, match=re.escape("tagged fields: tag 7 is unknown (at byte 24)")
    ):
        reader(unknown, 0, len(unknown))


def test_versioned_reader() -> None:
    read = codec.versioned_reader("coordinator/EndTxnMarker")
    assert read(bytes.fromhex("0000 00000005")) == {"version": 0, "coordinatorEpoch": 5}
    newer = read(bytes.fromhex("7fff 00000005 beef"))
    assert newer == {"version": 32767, "coordinatorEpoch": 5, "trailing": "vu8="}
    assert list(newer) == ["version", "coordinatorEpoch", "trailing"]
    for text, reason in (
        ("", "version: 2 bytes expected, 0 left (at byte 0)"),
        ("00", "version: 2 bytes expected, 1 left (at byte 0)"),
        ("ffff 00000005", "version: -1 is negative (at byte 0)"),
        ("0000 0000", "coordinatorEpoch: 4 bytes expected, 2 left (at byte 2)"),
    ):
        with pytest.raises(DecodeError, match=re.escape(reason)):
            read(bytes.fromhex(text))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"metadata": None}, "metadata cannot be null"),
        ({"metadata": "x" * 32768}, "metadata is too long: 32768 bytes"),
        ({"topicId": "AAAA"}, "is no uuid"),
        ({"offset": None}, "offset cannot be null"),
    ],
)
def test_write_refuses(change: dict[str, Any], error: str) -> None:
    whole = {"offset": 1, "leaderEpoch": 1, "metadata": "", "commitTimestamp": 1}
    with pytest.raises(ValueError, match=error):
        codec.write(OFFSET, 4, {**whole, **change})
    del whole["metadata"]
    with pytest.raises(ValueError, match="metadata is missing"):
        codec.write(OFFSET, 4, whole)


def test_write_the_longest_text() -> None:
    """Its length is an int16."""
    data = {"group": "a" * 32767, "topic": "", "partition": 0}
    assert codec.write(KEY, 0, data) == b"\x7f\xff" + b"a" * 32767 + bytes(6)


def test_write_a_lone_surrogate() -> None:
    """Java's `getBytes(UTF_8)` writes a question mark."""
    data = {"group": "a\ud800b", "topic": "", "partition": 0}
    assert codec.write(KEY, 0, data)[:5] == b"\0\3a?b"


def refused_at(reader: Callable[[bytes, int, int], Any], raw: bytes) -> int:
    """Where the reader gives up; `pytest.raises` would take longer than the reader itself."""
    try:
        reader(raw, 0, len(raw))
    except DecodeError as error:
        return error.position
    pytest.fail(f"{raw!r} was taken for a whole message")


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@settings(max_examples=examples(2, 32), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip_and_truncation(name: str, version: int, data: st.DataObject) -> None:
    """Every message of every version comes back; cut short at any byte it is refused."""
    expected = data.draw(message(name, version))
    raw = codec.write(name, version, expected)
    padded = b"\xff" + raw + b"\xff"
    made, end = codec.read(name, version, padded, 1)
    assert made == expected
    assert end == len(raw) + 1
    assert json.loads(json.dumps(made)) == expected
    reader = codec.reader(name, version)
    for size in range(len(raw)):
        assert 0 <= refused_at(reader, raw[:size]) <= size


@pytest.mark.parametrize(("name", "version"), some_of(VERSIONS, 3))
@settings(max_examples=examples(5))
@given(raw=st.binary(max_size=60))
def test_any_bytes(name: str, version: int, raw: bytes) -> None:
    try:
        made, end = codec.read(name, version, raw)
    except DecodeError as error:
        end = error.position
    else:
        json.dumps(made)
    assert 0 <= end <= len(raw)
