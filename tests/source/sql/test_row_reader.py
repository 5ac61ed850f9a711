"""Values of rows that are no offsets, whatever a driver makes of a column, and its own errors."""

from __future__ import annotations

import datetime
import sqlite3
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import event

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import ProblemLog
from kgroup.source.sql.store import MOST_CHARACTERS, SqlOffsetStore, read_rows

ROLES = ("group_id", "topic", "partition", "offset", "metadata", "leader_epoch", "updated_at")
SOUND = ("g", "t", 0, 7, "", 1, 1_700_000_000_000)
STRANGE = (
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    datetime.timedelta(1),
    Decimal("NaN"),
    Decimal("Infinity"),
    Decimal("1E+1000000"),
    Decimal("0.5"),
    uuid.UUID(int=1),
    [1],
    {"a": 1},
    b"x",
    memoryview(b"x"),
    float("nan"),
)
"""What psycopg and PyMySQL make of timestamps, intervals, numeric, uuid, arrays, json, bytea."""


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("role", ROLES)
def test_a_strange_value_is_a_problem_of_its_row(role: str, value: object) -> None:
    at = ROLES.index(role)
    row = (*SOUND[:at], value, *SOUND[at + 1 :])
    for wanted in (None, {"g"}):
        problems = ProblemLog()
        rows = read_rows([row, SOUND], ROLES, wanted, "table t", problems)
        assert [*rows.offsets] == ["g"]
        kinds = [problem.kind for problem in problems.problems()]
        is_other = wanted is not None and role == "group_id"
        assert kinds == ([] if is_other else [ProblemKind.UNUSABLE])


def test_whole_decimals_are_numbers() -> None:
    """As NUMERIC columns give them."""
    row = ("g", "t", Decimal(0), Decimal(7), "", Decimal(1), Decimal(1_700_000_000_000))
    problems = ProblemLog()
    rows = read_rows([row], ROLES, None, "table t", problems)
    assert (problems.problems(), rows.offsets["g"]["t", 0]) == (
        (),
        CommittedOffset(*SOUND[1:3], 7, 1, "", SOUND[6]),
    )
    assert type(rows.offsets["g"]["t", 0].leader_epoch) is int


@pytest.mark.parametrize("role", ["group_id", "topic", "metadata"])
def test_a_text_that_is_too_long_is_not_repeated(role: str) -> None:
    at = ROLES.index(role)
    row = (*SOUND[:at], "x" * (MOST_CHARACTERS + 1), *SOUND[at + 1 :])
    problems = ProblemLog()
    read_rows([row], ROLES, None, "table t", problems)
    (problem,) = problems.problems()
    assert f"expected at most 1,048,576 characters as {role}" in problem.reason
    assert len(problem.reason) < 1_000


def test_an_error_that_is_not_of_the_drivers_class_is_named(tmp_path: Path) -> None:
    file = tmp_path / "offsets.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE t_offset (group_id TEXT, topic TEXT, partition INTEGER, offset INTEGER)"
        )
        connection.execute("INSERT INTO t_offset VALUES ('g', 'spoiled', 0, 1)")
    connection.close()
    store = SqlOffsetStore(str(file))

    def decode(data: bytes) -> str:
        if data == b"spoiled":
            raise OverflowError("date value out of range")
        return data.decode()

    @event.listens_for(store._engine, "connect")
    def spoil(connection: sqlite3.Connection, record: object) -> None:
        connection.text_factory = decode

    with pytest.raises(BrokerError, match="OverflowError: date value out of range") as raised:
        store.read_offsets(["g"])
    assert raised.value.kind is ProblemKind.FAILED
