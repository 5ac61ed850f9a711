"""Lags: each case is commits and ends of logs, and what follows from them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.errors import NotFoundError
from kgroup.history.engine import DuckEngine
from kgroup.history.lag import lags
from kgroup.history.log_ends import LogEnd
from tests.history.test_past_group import T, commit, end
from tests.history.warehouse_files import write_rows

ROWS = {
    "offset_commits": [
        commit(10, 100),
        commit(20, 150),
        commit(30, 120),  # reset
        commit(15, 7, partition=1),
        commit(16, 1, topic="unended"),
        commit(25, 9, partition=1, transaction="aborted", producer_id=1),
    ],
    "log_ends": [
        end(12, 110),
        end(12, 40, partition=1),
        end(22, 160),
        end(22, 47, partition=1),
        end(35, 170),
        end(35, 5, partition=2),  # never committed
        end(40, None, partition=1),
    ],
    "transactions": [
        {
            "offsets_partition": 7,
            "log_offset": 26,
            "time_ms": T + 26,
            "producer_id": 1,
            "outcome": "aborted",
        }
    ],
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckEngine]:
    with DuckEngine(write_rows(tmp_path, ROWS)) as engine:
        yield engine


def test_each_time_that_ends_were_recorded(engine: DuckEngine) -> None:
    rows = lags(engine, "g", since_ms=T).data
    assert [(row.time_ms - T, row.topic, row.partition, row.lag) for row in rows] == [
        (12, "orders", 0, 110 - 100),
        (22, "orders", 0, 160 - 150),
        (22, "orders", 1, 47 - 7),
        (35, "orders", 0, 170 - 120),
        (40, "orders", 1, None),
    ]
    rows = lags(engine, "g", since_ms=T + 13, until_ms=T + 35, topic="orders").data
    assert [row.time_ms - T for row in rows] == [22, 22]
    assert lags(engine, "g", since_ms=T, topic="unended").data == ()


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (11, [(11, "orders", 0, None)]),
        (14, [(12, "orders", 0, 10)]),
        (24, [(22, "orders", 0, 10), (22, "orders", 1, 40), (24, "unended", 0, None)]),
        (90, [(22, "orders", 1, 40), (35, "orders", 0, 50), (90, "unended", 0, None)]),
        (None, [(22, "orders", 1, 40), (35, "orders", 0, 50), (40, "unended", 0, None)]),
    ],
)
def test_one_time(
    engine: DuckEngine, at: int | None, expected: list[tuple[int, str, int, int | None]]
) -> None:
    report = lags(engine, "g", at_ms=None if at is None else T + at)
    found = [(row.time_ms - T, row.topic, row.partition, row.lag) for row in report.data]
    assert found == expected


def test_ends_may_be_given(engine: DuckEngine) -> None:
    given = [LogEnd("unended", 0, 0, 21, T + 28), LogEnd("orders", 0, 0, 110, T + 12)]
    report = lags(engine, "g", since_ms=T, given=given)
    assert [row.lag for row in report.data if row.topic == "unended"] == [20]
    assert [row.time_ms - T for row in report.data].count(12) == 1  # the warehouse has it too
    late = lags(engine, "g", given=[LogEnd("unended", 0, 0, 30, T + 1000)])
    assert "at most what is shown" in late.notes[0]


def test_no_end_is_known(tmp_path: Path) -> None:
    rows = {"offset_commits": ROWS["offset_commits"]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = lags(engine, "g")
        with pytest.raises(NotFoundError):
            lags(engine, "h")
    assert {row.lag for row in report.data} == {None}
    assert [row.committed_offset for row in report.data if row.partition == 0] == [120, 1]
    assert "snapshots tell them" in report.notes[0]
