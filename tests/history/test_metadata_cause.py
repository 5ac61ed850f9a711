"""Rebalances that members' metadata or earlier assignments lead to."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgroup.history.rebalance.query import rebalances
from kgroup.history.rebalance.rebalance import Rebalance
from kgroup.history.sql.engine import DuckEngine
from tests.field_log import records_of
from tests.history.brute_force import facts_of_record
from tests.history.rebalance_case import ALONE, A, B, Row, T, ask_cases, classic, member
from tests.history.warehouse_files import write_rows

# --- recorded groups -----------------------------------------------------------------------------


def ask_field(name: str, folder: Path) -> Mapping[int, Rebalance]:
    """Return the rebalances of a log of `tests/data/field` by generation."""
    rows = defaultdict[str, list[Row]](list)
    for record in records_of(name):
        for table, row in facts_of_record(record):
            text = {key: row[key] for key in row if key.endswith("_json") and row[key] is not None}
            rows[table].append(row | {key: orjson.dumps(text[key]).decode() for key in text})
    with DuckEngine(write_rows(folder, rows)) as engine:
        return {rebalance.generation_id: rebalance for rebalance in rebalances(engine).data}


def kinds(rebalance: Rebalance) -> list[tuple[str, str]]:
    return [(cause.kind.value, cause.certainty.value) for cause in rebalance.causes]


def test_a_probing_rebalance_of_streams(tmp_path: Path) -> None:
    """Generation 2 has a next rebalance, which came 0.4 s after its time; 3 has one at once."""
    found = ask_field("streams-probing", tmp_path)
    assert [kinds(found[number]) for number in (1, 2)] == [[("joined", "certain")]] * 2
    assert kinds(found[3]) == [("scheduled", "certain")]
    # date -u -d @1795841058.5 +%FT%T.%3NZ
    assert "for 2026-11-28T04:44:18.500Z (nextRebalanceMs 1795841058500)" in found[3].evidence
    assert "A-StreamThread-1-consumer" in found[3].evidence
    assert kinds(found[4]) == [("follow_up", "inferred"), ("scheduled", "certain")]


def test_a_delay_and_new_connectors_of_connect(tmp_path: Path) -> None:
    """Connectors src1 to src4 were made; then worker-2 was away, came back, and was lost."""
    found = ask_field("connect-delay", tmp_path)
    changed, inferred = [("metadata_changed", "certain")], [("metadata_changed", "inferred")]
    assert [kinds(found[number]) for number in range(2, 10)] == [*[changed] * 4, inferred] + [
        changed
    ] * 3
    assert "worker-1, worker-2 changed from 11 to 13" in found[9].evidence
    assert [cause.client_id for cause in found[6].causes] == ["worker-1"]
    made = "connectors or their tasks were created, changed or deleted"
    assert [made in found[number].evidence for number in (5, 6, 7)] == [True, False, True]
    assert kinds(found[12]) == [("follow_up", "inferred")]
    assert "src1, src1-0, src4, src4-0" in found[12].evidence
    assert [len(found[number].members) for number in (12, 13, 14)] == [2, 1, 1]
    assert kinds(found[14]) == [("scheduled", "certain")]
    assert "60000 ms" in found[14].evidence
    assert "did not run: src1, src1-0, src4, src4-0" in found[14].evidence


# --- cases by hand -------------------------------------------------------------------------------


def stating(generation: tuple[Row, list[Row]], **stated: object) -> tuple[Row, list[Row]]:
    """Add user data to members: bytes, an object, or the subscription and the assignment."""
    row, members = generation
    decoded: list[Row] = []
    for each in members:
        user_data: Any = stated.get(each["member_id"])
        assigned = {"userData": None}
        if isinstance(user_data, tuple):
            user_data, assigned["userData"] = user_data
        if isinstance(user_data, bytes):
            user_data = b64encode(user_data).decode()
        subscription = {"topics": each["subscribed_topics"], "userData": user_data}
        decoded.append(
            {"memberId": each["member_id"], "subscription": subscription, "assignment": assigned}
        )
    value = {"protocolType": "consumer", "members": decoded}
    text = orjson.dumps({"version": 3, "data": value}).decode()
    return row | {"protocol_type": "consumer", "value_json": text}, members


def streams(rejoin_ms: int = 2**63 - 1, **fields: object) -> tuple[Row, Row]:
    stated = {"version": 11, "latestSupportedVersion": 11, "errorCode": 0, **fields}
    return stated, {"version": 11, "nextRebalanceMs": rejoin_ms}


def pair(number: int, at_s: float, a1: object, b1: object, **more: object) -> tuple[Row, list[Row]]:
    return stating(classic(number, at_s, A, B, **more), a1=a1, b1=b1)


STREAM = {"protocol": "stream"}
DUE = T + 60_000

CASES: Mapping[str, tuple[tuple[tuple[Row, list[Row]], ...], list[tuple[str, str, str | None]]]] = {
    # generations, then kind, certainty and member of the causes of the last one
    "other user data": (
        (pair(1, 1, b"x", b"y"), pair(2, 9, b"x", b"z")),
        [("metadata_changed", "inferred", "b1")],
    ),
    "user data of a member alone": (
        (stating(classic(1, 1, ALONE), a1=b"x"), stating(classic(2, 9, ALONE), a1=b"y")),
        [("metadata_changed", "inferred", "a1")],
    ),
    "user data where there was none": (
        (pair(1, 1, b"x", None), pair(2, 9, b"x", b"z")),
        [("metadata_changed", "inferred", "b1")],
    ),
    "all have other user data, as it may change whenever they rejoin": (
        (pair(1, 1, b"x", b"y"), pair(2, 9, b"v", b"w")),
        [],
    ),
    "user data has topics, so it may be the previous assignment": (
        (pair(1, 1, b"x", b"..orders.."), pair(2, 9, b"x", b"..orders...")),
        [],
    ),
    "a sticky assignor's user data": (
        (
            pair(1, 1, None, {"previousAssignment": [], "generation": 1}),
            pair(2, 9, None, {"previousAssignment": [], "generation": 2}),
        ),
        [],
    ),
    "a sticky assignor's user data that is not decoded": (
        (
            pair(1, 1, b"x", b"y", protocol="cooperative-sticky"),
            pair(2, 9, b"x", b"z", protocol="cooperative-sticky"),
        ),
        [],
    ),
    "user data of another strategy": (
        (pair(1, 1, b"x", b"y"), pair(2, 9, b"x", b"z", protocol="rack")),
        [("strategy_changed", "certain", None)],
    ),
    "somebody joins, and another one has other user data": (
        (
            pair(1, 1, b"x", b"y"),
            stating(classic(2, 9, A, B, member("c1")), a1=b"x", b1=b"z", c1=b""),
        ),
        [("joined", "certain", "c1")],
    ),
    "other user data after generations that are missing": (
        (pair(1, 1, b"x", b"y"), pair(4, 9, b"x", b"z")),
        [("metadata_changed", "inferred", "b1")],
    ),
    "an instance of Streams asks all to shut down": (
        (
            pair(1, 1, streams(), streams(uniqueField=1), **STREAM),
            pair(2, 9, streams(), streams(uniqueField=2, errorCode=2), **STREAM),
        ),
        [("metadata_changed", "inferred", "b1")],
    ),
    "tasks and the unique field follow": (
        (
            pair(1, 1, streams(), streams(uniqueField=1, taskOffsetSums=[]), **STREAM),
            pair(2, 9, streams(), streams(uniqueField=2, taskOffsetSums=[1]), **STREAM),
        ),
        [],
    ),
    "scheduled": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            pair(2, 61, streams(), streams(), **STREAM),
        ),
        [("scheduled", "certain", None)],
    ),
    "scheduled, and long delayed": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            pair(2, 91, streams(), streams(), **STREAM),
        ),
        [("scheduled", "inferred", None)],
    ),
    "scheduled by a clock that is ahead": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            pair(2, 58, streams(), streams(), **STREAM),
        ),
        [("scheduled", "inferred", None)],
    ),
    "scheduled for later": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            pair(2, 30, streams(), streams(), **STREAM),
        ),
        [],
    ),
    "scheduled by a member that is gone": (
        (
            pair(1, 1, streams(), streams(DUE), **STREAM),
            stating(classic(2, 61, ALONE, **STREAM), a1=streams()),
        ),
        [("gone", "inferred", "b1")],
    ),
    "scheduled, and somebody joins": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            stating(classic(2, 61, A, B, member("c1"), **STREAM), a1=streams(), b1=streams()),
        ),
        [("joined", "certain", "c1"), ("scheduled", "inferred", None)],
    ),
    "scheduled, and generations are missing": (
        (
            pair(1, 1, streams(DUE), streams(), **STREAM),
            pair(3, 61, streams(), streams(), **STREAM),
        ),
        [("scheduled", "inferred", None)],
    ),
}


@pytest.fixture(scope="module")
def of_case(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Rebalance]]:
    cases = {case: given for case, (given, _) in CASES.items()}
    return ask_cases(tmp_path_factory.mktemp("cases"), cases)


@pytest.mark.parametrize("case", CASES)
def test_cause(case: str, of_case: Mapping[str, Sequence[Rebalance]]) -> None:
    last = of_case[case][-1]
    told = [(each.kind.value, each.certainty.value, each.member_id) for each in last.causes]
    assert told == CASES[case][1], last.evidence


def test_evidence_names_fields_but_not_bytes(of_case: Mapping[str, Sequence[Rebalance]]) -> None:
    shut_down = of_case["an instance of Streams asks all to shut down"][-1]
    assert "errorCode from 0 to 2" in shut_down.evidence
    other = of_case["other user data"][-1]
    assert other.evidence.endswith("changed its metadata: user data")
