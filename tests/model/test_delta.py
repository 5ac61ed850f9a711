"""What cannot be replayed is reported, and never in the way of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.errors import ProblemKind
from kgroup.model.delta import Delta
from kgroup.model.group_log import EFFECTS
from kgroup.model.problem import Problem, ProblemLog
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
from tests.model.records import NOW_MS, classic, commit, commit_tombstone, record, replay
from tests.operation.sources import FakeSource
from tests.protocol.message.random_message import message


def unreadable(key: Any, value: Any = None, kind: str = "Unknown") -> DecodedRecord:
    return DecodedRecord(3, 11, NOW_MS, "create", 0, None, None, None, kind, key, value)


def test_unknown_records_are_counted_by_key_type() -> None:
    delta = replay(
        commit("g", 0, 5),
        unreadable({"type": 99, "raw": "AA=="}),
        unreadable({"type": 99, "raw": "AA=="}),
        unreadable({"type": 77, "raw": "AA=="}),
        unreadable(None),
    )
    assert list(delta.groups()) == ["g"]
    reasons = [problem.reason for problem in delta.problems()]
    assert reasons == [
        "2 records of the unknown key type 99 left out, the first at offset 11.",
        "1 record of the unknown key type 77 left out, the first at offset 11.",
        "1 record without a key left out, the first at offset 11.",
    ]
    assert {problem.kind for problem in delta.problems()} == {"unknown-record"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            unreadable({"type": 1, "data": None, "raw": "", "error": "topic: cut off"}),
            "topic: cut off",
        ),
        (
            unreadable(
                {"type": 1, "data": {"group": "g", "topic": "orders", "partition": 0}},
                {"version": 9, "data": None, "raw": ""},
                "OffsetCommit",
            ),
            "version 9",
        ),
        (
            unreadable(
                {"type": 2, "data": {"group": "g"}},
                {"version": 3, "data": None, "raw": "", "error": "members: too short"},
                "GroupMetadata",
            ),
            "members: too short",
        ),
    ],
)
def test_bad_record_is_reported_and_the_older_value_stays(bad: DecodedRecord, reason: str) -> None:
    delta = replay(commit("g", 0, 5), bad)
    assert [o.committed_offset for o in delta.groups()["g"].offsets] == [5]
    (problem,) = delta.problems()
    assert (problem.kind, problem.offset, problem.offsets_partition) == ("bad-record", 11, 0)
    assert reason in problem.reason


def test_groups_are_sorted_and_can_be_asked_for_again() -> None:
    delta = replay(commit("b", 0, 5), commit("a", 0, 5))
    assert list(delta.groups()) == ["a", "b"]
    delta.replay(record("OffsetCommit", {"group": "a", "topic": "orders", "partition": 0}, None))
    assert list(delta.groups()) == ["b"]


def test_drained_groups_tell_when_a_value_changed_them_last() -> None:
    def generation(group: str, timestamp_ms: int | None) -> DecodedRecord:
        return replace(classic(group), timestamp_ms=timestamp_ms)

    delta = replay(
        commit("a", 0, 5, commitTimestamp=70),
        generation("a", 90),
        generation("a", 80),  # clocks of brokers go back at times
        generation("a", None),
        generation("b", None),
        commit("c", 0, 5, commitTimestamp=60),
        commit_tombstone("c", 1),
    )
    named = [(group.group_id, changed_ms) for group, changed_ms in delta.drain({})]
    assert named == [("a", 90), ("b", 0), ("c", 60)]
    assert delta.groups() == {}


def test_problems_beyond_the_limit_are_counted() -> None:
    log = ProblemLog(limit=2)
    for number in range(5):
        log.add(Problem(ProblemKind.GARBAGE, str(number)))
    kept = log.problems()
    assert [problem.reason for problem in kept[:2]] == ["0", "1"]
    assert (kept[2].kind, len(kept)) == ("more", 3)
    assert kept[2].reason.startswith("3 ")


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
    for decoded in log:
        delta.replay(decoded)
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
