"""All recorded data, decoded by kgroup and by Kafka's own log dump: record by record.

Each log is read by the tool of the version that wrote it and by the newest one.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.record.coordinator_record import decode_control, decode_record
from tests.broker.dump_log import (
    JSON_VERSIONS,
    Dump,
    DumpedRecord,
    dump,
    printed_form,
    sorted_members,
)

PROJECT = Path(__file__).parent.parent.parent
DATA = PROJECT / "tests" / "data"
NEWEST = "4.3.1"
TOOLS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2", NEWEST)


def _root(scenario: str) -> Path:
    manifest = json.loads((DATA / scenario / "manifest.json").read_text())
    return PROJECT / manifest["root"] if "root" in manifest else DATA / scenario


def _scenarios() -> list[tuple[str, str]]:
    """Every scenario with each tool that reads it: the writer's own, and the newest."""
    pairs = []
    for manifest in sorted(DATA.glob("*/manifest.json")):
        told = json.loads(manifest.read_text())
        if "answers" not in told:  # the damaged copies, and trees of ZooKeeper
            continue
        version = told["broker"]
        own = [version] if version in TOOLS and version != NEWEST else []
        if manifest.parent.name == "streams-2.8.2":
            own = []  # its tool prints Streams' assignments as hexadecimal bytes
        pairs += [(manifest.parent.name, tool) for tool in [*own, NEWEST]]
    return pairs


@pytest.mark.parametrize(("scenario", "tool"), _scenarios())
def test_equals_kafka_dump_log(scenario: str, tool: str) -> None:
    files = sorted(_root(scenario).rglob("__consumer_offsets-*/*.log"))
    assert files
    dumps = dump(tool, files)
    count = 0
    for file in files:
        ours = list(_read(file))
        records = dumps[file].records
        _compare_batches(tool, ours, dumps[file])
        if dumps[file].failure is None:
            assert len(records) == len(ours)
        else:
            # The tool died: on a member's bytes, which kgroup must have shown raw.
            assert tool not in JSON_VERSIONS, dumps[file].failure
            assert _has_odd_member(ours[len(records) - 1][1], ours[len(records) - 1][0])
            records = records[:-1]
        for (batch, record), theirs in zip(ours, records, strict=False):
            _compare(tool, batch, record, theirs)
            count += 1
    print(f"{scenario}: {count} records equal to the dump of Kafka {tool}")
    assert count > 0


def _read(file: Path) -> Iterator[tuple[RecordBatch, Record]]:
    for batch in read_batches(file.read_bytes()):
        assert isinstance(batch, RecordBatch), batch
        for record in read_records(batch):
            assert isinstance(record, Record), record
            yield batch, record


def _compare_batches(tool: str, ours: Sequence[tuple[RecordBatch, Record]], theirs: Dump) -> None:
    """What the newest tool says of each batch, where kgroup found records in it."""
    if tool != NEWEST:
        return
    by_position = {int(fields["position"]): fields for fields in theirs.batches}
    for batch in {id(batch): batch for batch, _ in ours}.values():
        fields = by_position[batch.position]
        assert fields["isvalid"] == "true"
        assert int(fields["size"]) == batch.size
        assert int(fields["magic"]) == batch.magic
        assert fields["compresscodec"] == batch.compression
        if batch.magic == 2:
            assert int(fields["baseOffset"]) == batch.base_offset
            assert int(fields["lastOffset"]) == batch.last_offset
            assert int(fields["count"]) == batch.record_count
            assert _null(fields["producerId"]) == batch.producer_id
            assert _null(fields["producerEpoch"]) == batch.producer_epoch
            assert _null(fields["baseSequence"]) == batch.base_sequence
            assert _null(fields["partitionLeaderEpoch"]) == batch.leader_epoch
            assert fields["isTransactional"] == str(batch.is_transactional).lower()
            assert fields["isControl"] == str(batch.is_control).lower()
            horizon = fields["deleteHorizonMs"].removeprefix("OptionalLong").strip("[]")
            assert horizon == (
                ".empty" if batch.delete_horizon_ms is None else str(batch.delete_horizon_ms)
            )
        else:
            assert int(fields["offset"]) == batch.last_offset


def _compare(tool: str, batch: RecordBatch, record: Record, theirs: DumpedRecord) -> None:
    assert record.offset == theirs.offset
    for name, timestamp_type in (("CreateTime", "create"), ("LogAppendTime", "log_append")):
        if name in theirs.fields:
            assert _null(theirs.fields[name]) == record.timestamp_ms
            assert batch.timestamp_type == timestamp_type
    for name, part in (("keySize", record.key), ("valueSize", record.value)):
        if name in theirs.fields:
            assert _null(theirs.fields[name]) == (None if part is None else len(part))
    if batch.is_control:
        kind, _, value = decode_control(record.key, record.value)
        assert value is not None
        assert f"Control{theirs.fields['endTxnMarker'].capitalize()}" == kind
        assert int(theirs.fields["coordinatorEpoch"]) == value["data"]["coordinatorEpoch"]
        return
    if tool == "0.8.2.2":
        assert theirs.key == (record.key or b"").hex()
        assert theirs.payload == ("null" if record.value is None else record.value.hex())
        return
    kind, key, value = decode_record(record.key, record.value)
    ours = {"type": kind, "key": key, "value": value}
    if tool in JSON_VERSIONS:
        _compare_json(tool, ours, theirs)
        return
    our_key, our_payload = printed_form(tool, ours)
    if kind == "GroupMetadata" and value is not None:
        assert theirs.payload is not None
        payload = sorted_members(theirs.payload, ours)
        if tool in ("1.1.1", "2.8.2"):
            assert json.loads(payload) == json.loads(our_payload or "")
            payload = our_payload or ""
        theirs = DumpedRecord(theirs.offset, theirs.fields, theirs.key, payload)
    assert (theirs.key, theirs.payload) == (our_key, our_payload)


def _compare_json(tool: str, ours: Mapping[str, Any], theirs: DumpedRecord) -> None:
    key = ours["key"]
    assert theirs.key is not None
    if tool == "3.9.2" and key["type"] > 2:
        return  # its formatter gets these wrong; 4.3.1 judges them
    if key["type"] == 9:
        assert theirs.key.startswith("Unknown record type 9")
        return
    if theirs.key.startswith("Error at offset"):
        assert ours["type"].startswith("ShareGroup"), "only 4.0's share records are beyond it"
        return
    printed = json.loads(theirs.key)
    assert (int(printed["type"]), printed["data"]) == (key["type"], key["data"])
    assert theirs.payload is not None
    if ours["value"] is None:
        assert theirs.payload == "<DELETE>"
        return
    printed = json.loads(theirs.payload)
    assert int(printed["version"]) == ours["value"]["version"]
    data = ours["value"]["data"]
    if ours["type"] != "GroupMetadata":
        assert data == printed["data"]
        return
    assert {**data, "members": None} == {**printed["data"], "members": None}
    for mine, member in zip(data["members"], printed["data"]["members"], strict=True):
        assert mine.keys() == member.keys()
        for field, text in member.items():
            if field in ("subscription", "assignment"):
                _compare_member_bytes(mine[field], text)
            else:
                assert mine[field] == text


def _compare_member_bytes(ours: Mapping[str, Any], theirs: Any) -> None:
    """What a member said: an object where the tool could read it, else base64."""
    if isinstance(theirs, str):
        assert ours.get("raw", theirs) == theirs
        return
    if "raw" in ours:
        # The tool alone reads bytes of a negative version; clients do not.
        assert int.from_bytes(b64decode(ours["raw"])[:2], "big", signed=True) < 0
        return
    for field, text in theirs.items():
        if field == "userData" and text is not None and isinstance(ours[field], Mapping):
            if "version" not in ours[field]:  # else Streams', for test_member_metadata_oracle
                assert ours[field] == _user_data(b64decode(text))
        else:
            assert ours[field] == text


def _user_data(raw: bytes) -> dict[str, Any]:
    """A sticky assignor's user data by its layout: [topic, [partition]], generation.

    The cooperative-sticky assignor sends the generation alone.
    """
    if len(raw) == 4:
        return {"generation": int.from_bytes(raw, "big", signed=True)}
    at = 4
    topics = []
    for _ in range(int.from_bytes(raw[:4], "big")):
        size = int.from_bytes(raw[at : at + 2], "big")
        topic = raw[at + 2 : at + 2 + size].decode()
        at += 2 + size
        count = int.from_bytes(raw[at : at + 4], "big")
        ends = range(at + 8, at + 8 + 4 * count, 4)
        partitions = [int.from_bytes(raw[end - 4 : end], "big") for end in ends]
        at += 4 + 4 * count
        topics.append({"topic": topic, "partitions": partitions})
    data: dict[str, Any] = {"previousAssignment": topics}
    if at < len(raw):
        data["generation"] = int.from_bytes(raw[at : at + 4], "big", signed=True)
    return data


def _has_odd_member(record: Record, batch: RecordBatch) -> bool:
    kind, _, value = decode_record(record.key, record.value)
    return (
        not batch.is_control
        and kind == "GroupMetadata"
        and value is not None
        and any("raw" in member["assignment"] for member in value["data"]["members"])
    )


def _null(text: str) -> int | None:
    return None if int(text) == -1 else int(text)
