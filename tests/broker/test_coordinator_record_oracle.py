"""The reference decoder against Kafka 4.3.1: the same bytes, read by both, field by field."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from kgroup.protocol.record.coordinator_record import KEY_TYPES, decode_record
from tests.broker import maven

KAFKA = "4.3.1"
MAIN = "org.apache.kafka.tools.RandomCoordinatorRecords"
EARLY_ACCESS = {
    "ShareGroupMetadata",
    "ShareGroupStatePartitionMetadata",
    "ConsumerGroupCurrentMemberAssignment",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupPartitionMetadata",
    "ConsumerGroupTargetAssignmentMember",
}


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """750 records of each of 30 types and versions, and two damaged copies of each."""
    return _run_java(KAFKA, MAIN, ["20260607", "750", "2"])


def test_what_kafka_wrote(lines: list[bytes]) -> None:
    counts: Counter[Any] = Counter()
    for line in map(orjson.loads, lines):
        if line["damaged"]:
            continue
        key, value = bytes.fromhex(line["key"]), _bytes(line["value"])
        name, our_key, our_value = decode_record(key, value)
        assert our_key is not None
        expected = orjson.loads(line["keyText"])
        assert name == KEY_TYPES[int(expected["type"])]
        assert our_key == {"type": int(expected["type"]), "data": expected["data"]}
        assert list(our_key["data"]) == list(expected["data"])
        if value is None:
            assert our_value is None
        else:
            assert our_value is not None
            assert our_value.keys() == {"version", "data"}
            _compare_value(line, our_value)
            _compare_order(our_value["data"], _tool_json(line["valueText"])["data"])
        counts[name, "tombstone" if our_value is None else our_value["version"]] += 1
    print(f"{counts.total()} records of {len(counts)} types and versions, 0 differences")
    assert counts.total() == 22_500
    assert len(counts) == 30 + 22
    assert min(counts.values()) >= 46


def test_damaged_bytes(lines: list[bytes]) -> None:
    """What Kafka reads we read the same; what it refuses we show raw, with a reason."""
    counts: Counter[Any] = Counter()
    for line in map(orjson.loads, lines):
        if not line["damaged"]:
            continue
        key, value = bytes.fromhex(line["key"]), _bytes(line["value"])
        name, our_key, our_value = decode_record(key, value)
        assert our_key is not None
        counts[_compare_key(line["keyText"], key, name, our_key)] += 1
        if name == "Unknown" or value is None:
            continue
        assert our_value is not None
        if line["valueText"] is not None and _tool_json(line["valueText"])["data"] == _plain(
            our_value["data"]
        ):
            counts["value: the same"] += 1
        elif line["valueText"] is not None and name == "GroupMetadata":
            _compare_value(line, our_value)
            counts["value: the same"] += 1
        elif name in EARLY_ACCESS and our_value["data"] is not None:
            # Only bytes that an early-access shape takes whole, and today's does not.
            assert "trailing" not in our_value
            counts["value: early access"] += 1
        else:
            assert line["valueText"] is None
            assert our_value["data"] is None
            assert our_value["raw"] == b64encode(value).decode()
            version = int.from_bytes(value[:2], "big", signed=True) if len(value) > 1 else None
            assert our_value["version"] == version
            counts["value: refused by both"] += 1
    print(f"{counts.total()} comparisons: {dict(counts)}")
    assert counts["value: the same"] > 12_000
    assert counts["value: refused by both"] > 16_000
    assert counts["key: the same"] > 30_000
    assert counts["key: refused by both"] > 5_000
    assert counts["value: early access"] < 50


def test_members(lines: list[bytes]) -> None:
    """Subscriptions and assignments as Kafka's clients read them; its tool where it can."""
    counts: Counter[Any] = Counter()
    for line in map(orjson.loads, lines):
        if not line.get("members"):
            continue
        name, _, value = decode_record(bytes.fromhex(line["key"]), _bytes(line["value"]))
        assert name == "GroupMetadata"
        assert value is not None
        group = value["data"]
        tool = _tool_json(line["valueText"])["data"]["members"]
        for ours, theirs, printed in zip(group["members"], line["members"], tool, strict=True):
            for field, decode in (
                ("subscription", decode_subscription),
                ("assignment", decode_assignment),
            ):
                raw = bytes.fromhex(theirs[f"{field}Bytes"])
                assert ours[field] == decode(raw, group["protocol"])
                plain = decode(raw)
                text = b64encode(raw).decode()
                version = int.from_bytes(raw[:2], "big", signed=True)
                if theirs[field] is None:
                    assert plain["raw"] == text
                    assert "error" in plain or raw == b""
                    # The tool alone reads negative versions, as version 0.
                    assert printed[field] == text or version < 0
                    counts["refused"] += 1
                else:
                    assert plain.pop("version") == version
                    plain.pop("trailing", None)
                    assert plain == theirs[field]
                    # The tool refuses partitions of versions above 3; clients read them as 3.
                    assert printed[field] == theirs[field] or version > 3
                    counts["read"] += 1
    print(f"{counts.total()} subscriptions and assignments: {dict(counts)}, 0 differences")
    assert counts["read"] > 12_000
    assert counts["refused"] > 3_000


def test_early_access() -> None:
    """Records of 4.0, which wrote share groups in shapes of its own under today's numbers."""
    types = [name for name in KEY_TYPES.values() if name.startswith("ShareGroup")]
    lines = _run_java("4.0.0", "kgroup.EarlyAccessRecords", ["20250318", "300", *types])
    counts: Counter[str] = Counter()
    for line in map(orjson.loads, lines):
        name, key, value = decode_record(bytes.fromhex(line["key"]), _bytes(line["value"]))
        assert key == {"type": line["type"], "data": line["keyData"]}
        assert value == {"version": 0, "data": line["valueData"]}
        counts[name] += 1
    assert counts == dict.fromkeys(types, 300)
    assert len(types) == 7


def _run_java(version: str, main: str, args: list[str]) -> list[bytes]:
    folder = Path(__file__).parent / "java"
    sources = [folder / f"{main.rpartition('.')[2]}.java", folder / "RandomMessages.java"]
    classes = maven.compile_java(sources, version)
    done = maven.run_java(version, main, args, classes=classes, heap="256m")
    return done.stdout.splitlines()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _tool_json(text: str) -> dict[str, Any]:
    printed = orjson.loads(text)
    assert isinstance(printed, dict)
    return printed


def _compare_key(text: str, key: bytes, name: str, ours: dict[str, Any]) -> str:
    raw = b64encode(key).decode()
    if text.startswith("Unknown record type "):
        assert name == "Unknown" or ours["type"] == 9  # written by 4.0, unknown to 4.3
        number = int.from_bytes(key[:2], "big", signed=True)
        assert ours["type"] == number
        assert ours["type"] == 9 or ours == {"type": number, "raw": raw}
        return "key: unknown to both"
    if text.startswith("Error at offset "):
        assert name == "Unknown"
        assert ours["data"] is None
        assert ours["raw"] == raw
        assert ours["error"]
        return "key: refused by both"
    expected = _tool_json(text)
    assert name == KEY_TYPES[int(expected["type"])]
    assert (ours["type"], ours["data"]) == (int(expected["type"]), expected["data"])
    return "key: the same"


def _compare_value(line: dict[str, Any], ours: dict[str, Any]) -> None:
    expected = _tool_json(line["valueText"])
    assert ours["version"] == int(expected["version"])
    data = _plain(ours["data"])
    if data.get("protocolType") is None:
        assert data == expected["data"]
        return
    # A group: all but what its members say, which test_members compares.
    assert {**data, "members": None} == {**expected["data"], "members": None}
    for mine, theirs in zip(data["members"], expected["data"]["members"], strict=True):
        assert list(_without_bytes(mine)) == list(_without_bytes(theirs))
    if data["protocolType"] not in ("consumer", "connect"):
        for mine, theirs in zip(data["members"], expected["data"]["members"], strict=True):
            assert mine["subscription"] == {"raw": theirs["subscription"]}
            assert mine["assignment"] == {"raw": theirs["assignment"]}


def _compare_order(ours: Any, theirs: Any) -> None:
    """Fields come in the order in which Kafka prints them."""
    if isinstance(theirs, dict) and "version" not in ours:
        assert [name for name in ours if name != "_tagged"] == list(theirs)
        for name in theirs:
            _compare_order(ours[name], theirs[name])
    elif isinstance(theirs, list):
        for mine, other in zip(ours, theirs, strict=True):
            _compare_order(mine, other)


def _without_bytes(member: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((k, v) for k, v in member.items() if k not in ("subscription", "assignment"))


def _plain(value: Any) -> Any:
    """Without the unknown tagged fields, which Kafka's tool does not print."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if name != "_tagged"}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
