"""All recorded states of share groups, decoded by kgroup and by Kafka's own log dump.

Kafka 4.0 wrote them in a shape of its own, which only its own tool reads.
"""

import json
from pathlib import Path

import pytest

from kgroup.protocol.record_batch import Record, RecordBatch, read_batches, read_records
from kgroup.protocol.share_state_record import decode_record
from tests.broker.dump_log import dump

pytestmark = pytest.mark.broker

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
