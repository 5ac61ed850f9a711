"""Snapshot files that are none, are damaged, or come from elsewhere."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import InputError, ProblemKind
from kgroup.model.cluster import Placement
from kgroup.model.group import Broker, Group, GroupState, GroupType, Member, Subscription
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.model.snapshot import (
    SNAPSHOT_VERSION,
    Choice,
    Origin,
    PlacedGroup,
    Snapshot,
    SnapshotCommit,
    SnapshotNode,
    SnapshotPartition,
    SnapshotRange,
    SnapshotTopic,
)
from kgroup.model.zookeeper import Node, Stat
from kgroup.source.snapshot.file import read_snapshot, snapshot_lines, write_gzip
from tests.examples import some_of
from tests.fresh_file import write_fresh

BROKER = Broker(1, "kafka-1", 9092, "rack-a")
SNAPSHOT = Snapshot(
    command="snapshot",
    schema_version=SNAPSHOT_VERSION,
    kgroup_version="0.1.0",
    taken_ms=1_700_000_000_004,
    origin=Origin("cluster"),
    choice=Choice(("g", "h"), "x.*"),
    capabilities=("coordinator", "log-end-offsets"),
    cluster_id="c",
    controller=1,
    brokers=(BROKER,),
    broker_ids=(),
    offsets_partition_count=1,
    topic_names={"id": "t"},
    groups=(
        Group(
            "g\u2028\x00é",
            GroupType.CLASSIC,
            GroupState.STABLE,
            coordinator=BROKER,
            members=(
                Member(
                    "m",
                    subscription=Subscription(("t",), user_data={"generation": 3, "x": [None]}),
                    client_tags={"zone": "z"},
                ),
            ),
        ),
    ),
    topics=(SnapshotTopic("t", "id", None, (SnapshotPartition(0, None, (1, 2), ()),)),),
    log_ranges=(SnapshotRange("t", 0, None, 2**63 - 1, 0, OffsetMark.NO_LEADER),),
    placements=(PlacedGroup("g", Placement(1, BROKER, None, None, (1,), (1,))),),
    problems=(Problem(ProblemKind.SILENT, "No.", broker=1),),
    log_problems=(),
    notes=("one", "two"),
    zookeeper=(
        SnapshotNode("/consumers"),
        SnapshotNode("/consumers/g", stat=Stat(1, 2, 3, 4, "0x1008f3a2b410000", 5)),
        SnapshotNode("/consumers/g/ids/c", data="{}"),
        SnapshotNode("/consumers/g/ids/d", base64="//4="),
    ),
    kafka_commits=(SnapshotCommit("g", "t", 0, 2**63 - 1),),
)


def saved(snapshot: Snapshot, file: Path) -> Path:
    file.write_bytes(b"".join(snapshot_lines(snapshot)))
    return file


def changed(file: Path, **fields: Any) -> Path:
    """A snapshot of which some fields are something else, or (Ellipsis) missing."""
    tree = json.loads(b"".join(snapshot_lines(SNAPSHOT))) | fields
    file.write_text(json.dumps({name: tree[name] for name in tree if tree[name] is not ...}))
    return file


def complaint(file: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_snapshot(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: ")
    assert "\n" not in text
    return text.removeprefix(f"{file}: ")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_snapshot(saved(SNAPSHOT, tmp_path / "a")) == SNAPSHOT


def test_nodes_are_text_or_base64() -> None:
    for data, kept in ((None, (None, None)), (b"{}", ("{}", None)), (b"\xff\xfe", (None, "//4="))):
        node = Node("/a", data, Stat(mtime_ms=7))
        saved_node = SnapshotNode.of(node)
        assert (saved_node.data, saved_node.base64) == kept
        assert saved_node.node() == node


def test_groups_are_those_of_the_nodes_too() -> None:
    assert SNAPSHOT.group_ids == ("g", "g\u2028\x00é")


def test_gzip_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with file.open("wb") as out:
        write_gzip(out, snapshot_lines(SNAPSHOT))
    assert gzip.decompress(file.read_bytes()) == b"".join(snapshot_lines(SNAPSHOT))
    assert read_snapshot(file) == SNAPSHOT


def test_is_plain_json_with_a_group_a_line() -> None:
    text = b"".join(snapshot_lines(SNAPSHOT)).decode()
    tree = json.loads(text)
    assert list(tree)[:2] == ["command", "schema_version"]
    assert tree["groups"][0]["members"][0]["subscription"]["user_data"]["generation"] == 3
    assert tree["log_ranges"][0]["mark"] == "no-leader"
    assert tree["log_ranges"][0]["log_end_offset"] == 2**63 - 1
    (line,) = (line for line in text.split("\n") if '"members"' in line)
    assert json.loads(line.rstrip(",")) == tree["groups"][0]


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    snapshot = replace(
        SNAPSHOT, problems=(Problem(ProblemKind.UNREADABLE, "No.", path="/data/\udcff"),)
    )
    assert read_snapshot(saved(snapshot, tmp_path / "a")) == snapshot


def test_fields_of_later_versions_are_passed_over(tmp_path: Path) -> None:
    file = changed(tmp_path / "a", spark={"brokers": [1, {}]})
    assert read_snapshot(file) == SNAPSHOT
    capabilities = [*SNAPSHOT.capabilities, "second-sight"]
    assert (
        read_snapshot(changed(file, capabilities=capabilities)).capabilities[-1] == "second-sight"
    )


def test_fields_of_the_model_that_have_a_default_may_be_missing(tmp_path: Path) -> None:
    """As in a file written before there was such a field."""
    file = changed(tmp_path / "a", groups=[{"group_id": "g", "type": "classic", "state": None}])
    assert read_snapshot(file).groups == (Group("g", GroupType.CLASSIC, None),)


GROUP: Mapping[str, Any] = {"group_id": "g", "type": "classic", "state": "Stable"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"groups": None}, "$.groups: expected array, found null"),
        ({"zookeeper": [{"path": "a"}]}, '$.zookeeper[0].path: expected /…, found "a"'),
        (
            {"zookeeper": [{"path": "/a", "base64": "?"}]},
            '$.zookeeper[0].base64: expected base64, found "?"',
        ),
        ({"groups": {}}, "$.groups: expected array, found object"),
        ({"groups": [GROUP, 1]}, "$.groups[1]: expected object, found int"),
        (
            {"groups": [{**GROUP, "type": "new"}]},
            "$.groups[0].type: expected a word that is known, found 'new'",
        ),
        (
            {"groups": [{**GROUP, "generation_id": "1"}]},
            "$.groups[0].generation_id: expected int | null, found str",
        ),
        ({"groups": [{"type": "classic"}]}, "$.groups[0]: expected a field group_id, found none"),
        (
            {"topics": [{"topic": "t", "topic_id": None, "error": None, "partitions": [1.5]}]},
            "$.topics[0].partitions[0]: expected object, found float",
        ),
        ({"origin": ...}, "$: expected a field origin, found none"),
        ({"notes": [1]}, "$.notes[0]: expected str, found int"),
        ({"taken_ms": True}, "$.taken_ms: expected int, found bool"),
        ({"taken_ms": "\udcff"}, "expected a field, a word or a number, found '\\udcff'"),
        ({"\udcff": 1}, "expected a field, a word or a number, found '\\udcff'"),
    ],
)
def test_what_does_not_fit(fields: dict[str, Any], text: str, tmp_path: Path) -> None:
    assert complaint(changed(tmp_path / "a", **fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"groups": [GROUP, {**GROUP, "generation_id": 1 << 31}]},
            "$.groups[1].generation_id: expected a number up to 2147483647, found 2147483648",
        ),
        (
            {"controller": -(1 << 31) - 1},
            "$.controller: expected a number from -2147483648 on, found -2147483649",
        ),
        (
            {"taken_ms": 1 << 63},
            "$.taken_ms: expected a number up to 9223372036854775807, found 9223372036854775808",
        ),
        (
            {"groups": [{**GROUP, "members": [{"member_id": "m" * 32_768}]}]},
            "$.groups[0].members[0].member_id: expected a text of at most 32767 characters, found "
            f'"{"m" * 59}…',
        ),
        (
            {"topic_names": {"i": "t" * 32_768}},
            "$.topic_names[...]: expected a text of at most 32767 characters, found "
            f'{{"i": "{"t" * 53}…',
        ),
        (
            {"groups": [{**GROUP, "members": [{"member_id": "€" * 10_923}]}]},
            "$.groups[0].members[0].member_id: expected a text of at most 32767 bytes of UTF-8, "
            f'found "{"€" * 59}…',
        ),
        (
            {"topic_names": {"é" * 16_384: "t"}},
            "$.topic_names[...]: expected a text of at most 32767 bytes of UTF-8, found "
            f'"{"é" * 59}…',
        ),
    ],
)
def test_what_no_message_of_kafka_can_hold(
    fields: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """Of its schemas: int32, int64, and strings, whose length is an int16."""
    assert complaint(changed(tmp_path / "a", **fields)) == text


@pytest.mark.parametrize("text", ["m" * 32_767, "é" * 16_383 + "m", "😀" * 8_191 + "mmm"])
def test_the_largest_that_messages_of_kafka_can_hold(tmp_path: Path, text: str) -> None:
    """UTF-8 has two bytes for é, three for € and four for 😀.

    Nodes of ZooKeeper, and what is said of problems, are no strings of Kafka's.
    """
    (group,) = SNAPSHOT.groups
    largest = replace(
        SNAPSHOT,
        groups=(
            replace(
                group,
                generation_id=(1 << 31) - 1,
                state_timestamp_ms=(1 << 63) - 1,
                members=(Member(text, rebalance_timeout_ms=(1 << 31) - 1),),
            ),
        ),
        notes=(text * 2,),
        zookeeper=(SnapshotNode("/a", data=text * 2),),
    )
    assert read_snapshot(saved(largest, tmp_path / "a")) == largest


def test_a_broken_regular_expression(tmp_path: Path) -> None:
    file = changed(tmp_path / "a", choice={"regex": "(", "group_ids": None})
    assert complaint(file).startswith("$.choice.regex: expected a regular expression; '('")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            SNAPSHOT_VERSION + 1,
            f"expected at most {SNAPSHOT_VERSION}, found {SNAPSHOT_VERSION + 1}: written by a "
            "newer version of kgroup, which can read it",
        ),
        (0, f"expected a number from 1 to {SNAPSHOT_VERSION}, found 0"),
        ("1", f'expected a number from 1 to {SNAPSHOT_VERSION}, found "1"'),
        (True, f"expected a number from 1 to {SNAPSHOT_VERSION}, found true"),
        (..., f"expected a number from 1 to {SNAPSHOT_VERSION}, found null"),
    ],
)
def test_schema_versions(version: Any, text: str, tmp_path: Path) -> None:
    """Of a newer one nothing else is looked at: it may be anything."""
    file = changed(tmp_path / "a", schema_version=version, groups="elsewhere")
    assert complaint(file) == f"$.schema_version: {text}"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "expected a snapshot (JSON, or gzip with JSON in it), found an empty file"),
        (
            b"\0\0\0\0\0\0\0\x07\0",
            "expected a snapshot (JSON, or gzip with JSON in it), found bytes "
            "00 00 00 00 00 00 00 07",
        ),
        (b"[]", "expected a snapshot (JSON, or gzip with JSON in it), found bytes 5b 5d"),
        (b"{", "expected more, found the end of the file; copy the file, or write it, again"),
        (b"{}", '$.command: expected "snapshot", found null; kgroup snapshot writes such files'),
        (
            b'{"command":"list","schema_version":1,"data":[],"errors":[]}',
            '$.command: expected "snapshot", found "list"; kgroup snapshot writes such files',
        ),
        (b'{"a" 1}', "expected JSON, found no ':' (byte 5)"),
        (b'{"a": 1 2}', "expected JSON, found no ',' or '}' (byte 8)"),
        (b"{]", "expected JSON, found object keys must be strings (byte 1)"),
        (
            b'{"command":"\\ud800","b":"\\uzzzz"}',
            "expected JSON, found unexpected end of escaped utf-16 surrogate pair (byte 18)",
        ),
        (b'{"a":' + b"[" * 100_000, "expected a snapshot, found JSON of too many levels"),
    ],
)
def test_what_is_no_snapshot(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    assert complaint(tmp_path / "a") == text


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = saved(SNAPSHOT, tmp_path / "a")
    file.write_bytes(file.read_bytes().replace(b"kafka-1", b"kafka\xff1", 1))
    assert "0xff" in complaint(file)


def test_truncated_anywhere(tmp_path: Path) -> None:
    whole = b"".join(snapshot_lines(SNAPSHOT))
    file = tmp_path / "a"
    # the last bytes are a brace and the end of the line
    for size in some_of(range(len(whole) - 2), 5):
        write_fresh(file, whole[:size])
        assert "expected" in complaint(file)


def test_truncated_and_damaged_gzip(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    with file.open("wb") as out:
        write_gzip(out, snapshot_lines(SNAPSHOT))
    whole = file.read_bytes()
    for size in some_of(range(2, len(whole)), 5):
        write_fresh(file, whole[:size])
        assert complaint(file).startswith("expected whole gzip data, found damage: ")
        assert complaint(file).endswith("; copy the file, or write it, again")
    for position in [*range(2, 12), *some_of(range(12, len(whole)), 5)]:
        write_fresh(file, whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        if 3 <= position < 10:  # a hint, time, level, system: they say nothing about the data
            assert read_snapshot(file) == SNAPSHOT
        else:
            assert complaint(file).startswith("expected whole gzip data, found damage: ")


def test_more_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.source.snapshot.file.LARGEST_SNAPSHOT", 100)
    file = tmp_path / "a.json"
    with file.open("wb") as out:
        write_gzip(out, iter([b"{" + b" " * 10_000]))
    assert "more than" in complaint(file)


@pytest.mark.parametrize("content", [b" " * (1 << 22), b"", b"[]"])
def test_gzip_of_something_else(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.json"
    with file.open("wb") as out:
        write_gzip(out, iter([content]))
    found = "an empty file" if not content else f"bytes {content[:8].hex(' ')}"
    assert complaint(file).endswith(
        f"expected a snapshot (JSON, or gzip with JSON in it), found {found}"
    )


def test_a_folder(tmp_path: Path) -> None:
    assert complaint(tmp_path) == "Is a directory"
