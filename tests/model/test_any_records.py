"""Any records in any order: groups come out that every command can show."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.model.delta import Delta
from kgroup.model.group_log import EFFECTS
from kgroup.model.record import DecodedRecord
from kgroup.operation.describe import describe
from kgroup.operation.list_groups import list_groups
from kgroup.protocol.message.schema import fields, versions
from kgroup.protocol.record.coordinator_record import (
    KEY_TYPES,
    decode_control,
    decode_record,
    encode_key,
    encode_value,
)
from kgroup.render.json_document import json_rows
from tests.examples import examples
from tests.operation.sources import FakeSource
from tests.protocol.message.random_message import message

TYPES = [name for name in KEY_TYPES.values() if name != "ShareGroupPartitionMetadata"]
NAMES = st.sampled_from(["a", "b"])


@st.composite
def contents(draw: st.DrawFn) -> tuple[str, Any, Any]:
    """Type, key and value of a record, of few groups and members, so that records meet."""
    name = draw(st.sampled_from(TYPES))
    schema = f"coordinator/{name}Key"
    key = draw(message(schema, versions(schema)[0]))
    for field in ("group", "groupId", "memberId", "topic"):
        if field in key:
            key[field] = draw(NAMES)
    value = None
    if draw(st.integers(0, 3)):
        known = versions(f"coordinator/{name}Value")
        version = draw(st.integers(known[0], known[-1]))
        data = draw(message(f"coordinator/{name}Value", version))
        if "protocolType" in data:
            data["protocolType"] = draw(st.sampled_from(["consumer", "connect", "", "other"]))
            raw = [member for member in data["members"] if data["protocolType"] == "consumer"]
            for member in raw:
                member |= {"subscription": {"raw": "AAEC"}, "assignment": {"raw": ""}}
        value = encode_value(name, version, data)
    return decode_record(encode_key(name, key), value)


markers = st.sampled_from([b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\2", b""]).map(
    lambda key: decode_control(key, None)
)
odd = st.tuples(st.none() | st.binary(max_size=12), st.none() | st.binary(max_size=12)).map(
    lambda pair: decode_record(*pair)
)
records = st.builds(
    lambda content, offset, time, producer_id: DecodedRecord(
        0,
        offset,
        time,
        None,
        None,
        producer_id,
        producer_id,
        None if producer_id is None else "open",
        *content,
    ),
    contents() | contents() | contents() | markers | odd,
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(0, 2),
)


@settings(max_examples=examples(15))
@given(st.lists(records, max_size=12))
def test_any_records(log: list[DecodedRecord]) -> None:
    delta = Delta(0)
    for record in log:
        delta.replay(record)
    source = FakeSource(*delta.groups().values(), problems=delta.problems())
    described, listed = describe(source), list_groups(source)
    assert [row.group.group_id for row in described.data] == [row.group_id for row in listed.data]
    for report in (described, listed):
        assert b"".join(json_rows(report.data)).count(b"\n") == len(report.data)
        list(json_rows(report.errors))


def test_effects_have_the_fields_of_the_keys_in_kafka_schemas() -> None:
    for name in TYPES:
        schema = f"coordinator/{name}Key"
        group_id, *names = (field.name for field in fields(schema, versions(schema)[0]))
        if not name.endswith("OffsetCommit"):
            assert group_id == ("group" if name == "GroupMetadata" else "groupId")
            assert names == [each for each in [EFFECTS[name].key_field] if each is not None]
