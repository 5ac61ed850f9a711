"""What cannot be replayed is reported, and never in the way of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord
from tests.model.records import NOW_MS, classic, commit, commit_tombstone, record, replay


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
