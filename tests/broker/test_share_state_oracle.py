"""States of share groups against Kafka's own log dump and share coordinator.

Kafka 4.0 wrote them in a shape of its own, which only its own tool reads.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kgroup.model.group import Group, GroupType
from kgroup.model.record import DecodedRecord
from kgroup.model.share_state import ShareStateLog, with_share_states
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.record.share_state_record import decode_record
from tests.broker.dump_log import dump
from tests.broker.maven import compile_java, run_java

PROJECT = Path(__file__).parent.parent.parent
SEGMENTS = sorted(
    path
    for root in (PROJECT / "tests" / "data", PROJECT / "kgroup" / "sample")
    for path in root.rglob("__share_group_state-*/*.log")
)


def _tool(segment: Path) -> str:
    manifest = segment.parent.parent / "manifest.json"
    own = json.loads(manifest.read_text())["broker"] if manifest.exists() else "4.3.1"
    return "4.0.0" if own == "4.0.0" else "4.3.1"


@pytest.mark.parametrize("tool", ["4.0.0", "4.3.1"])
def test_equals_kafka_dump_log(tool: str) -> None:
    segments = [segment for segment in SEGMENTS if _tool(segment) == tool]
    dumps = dump(tool, segments, "--share-group-state-decoder")
    kinds = set()
    for segment in segments:
        assert dumps[segment].failure is None
        ours = [
            record
            for batch in read_batches(segment.read_bytes())
            if isinstance(batch, RecordBatch)
            for record in read_records(batch)
            if isinstance(record, Record)
        ]
        for record, theirs in zip(ours, dumps[segment].records, strict=True):
            kind, key, value = decode_record(record.key, record.value)
            kinds.add(kind)
            assert key is not None
            assert theirs.key is not None
            printed = json.loads(theirs.key)
            assert (record.offset, key) == (
                theirs.offset,
                {"type": int(printed["type"]), "data": printed["data"]},
            )
            if value is None:
                assert theirs.payload == "<DELETE>"
                continue
            assert theirs.payload is not None
            printed = json.loads(theirs.payload)
            version = printed["type" if tool == "4.0.0" else "version"]
            assert value == {"version": int(version), "data": printed["data"]}
    assert kinds == {"ShareSnapshot", "ShareUpdate"}


def test_both_shapes_are_there() -> None:
    assert {_tool(segment) for segment in SEGMENTS} == {"4.0.0", "4.3.1"}


@pytest.mark.parametrize("seed", [20261121, 7])
def test_equals_kafkas_coordinator(seed: int) -> None:
    """What a coordinator under random requests recorded gives the states that it answers then."""
    sources = [PROJECT / "tests" / "broker" / "java" / "RandomShareStates.java"]
    classes = compile_java(sources, "4.3.1")
    done = run_java("4.3.1", "kgroup.RandomShareStates", [str(seed), "600"], classes=classes)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    records = [line for line in lines if "key" in line]
    answers = [line for line in lines if "key" not in line]
    log = ShareStateLog()
    kinds: Counter[tuple[str, bool]] = Counter()
    for offset, line in enumerate(records):
        value = None if line["value"] is None else bytes.fromhex(line["value"])
        kind, *parts = decode_record(bytes.fromhex(line["key"]), value)
        kinds[kind, value is None] += 1
        log.replay(DecodedRecord(0, offset, 0, "create", 0, None, None, None, kind, *parts))
    assert log.problems() == ()
    assert all(
        kinds[kind] > 20
        for kind in (("ShareSnapshot", False), ("ShareUpdate", False), ("ShareSnapshot", True))
    )
    found = {}
    for group_id, states in log.states.items():
        share = Group(group_id, GroupType.SHARE, None, share_offsets=())
        for offset_ in with_share_states(share, states, {}).share_offsets or ():
            found[group_id, offset_.topic_id, offset_.partition] = (
                offset_.start_offset,
                offset_.delivery_complete_count,
                offset_.leader_epoch,
                offset_.state_epoch,
            )
    assert found == {
        (line["groupId"], line["topicId"], line["partition"]): tuple(
            None if line[name] == -1 else line[name]
            for name in ("startOffset", "deliveryCompleteCount", "leaderEpoch", "stateEpoch")
        )
        for line in answers
        # No state is answered so; with one, the group has been in some epoch.
        if (line["startOffset"], line["leaderEpoch"], line["stateEpoch"]) != (-1, 0, 0)
    }
    assert len(found) > 5
