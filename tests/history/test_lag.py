"""Lags: each case is commits and ends of logs, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.errors import NotFoundError
from kgroup.history.query.lag import group_lags, lags
from kgroup.history.query.past_group import PastGroups
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.sql.question import LogEnd, times_of_ends
from tests.examples import examples, some_of
from tests.history.past_log import LOGS, T, commit, end
from tests.history.random_history import RandomHistory
from tests.history.recorded import Ask, engine_of_log, log_of, time_of
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


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    with DuckEngine(write_rows(tmp_path_factory.mktemp("rows"), ROWS)) as engine:
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


@pytest.mark.slow
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


def test_what_was_never_committed_wants_no_snapshot(engine: DuckEngine) -> None:
    for asked in ({"topic": "unended", "at_ms": T + 9}, {"at_ms": T + 9}):
        report = lags(engine, "g", **asked)
        assert report.data == ()
        assert report.notes[0] == "Group 'g' has no known committed offsets that match."


def test_ends_may_be_given(engine: DuckEngine) -> None:
    ends = [LogEnd("unended", 0, 0, 21, T + 28), LogEnd("orders", 0, 0, 110, T + 12)]
    report = lags(engine, "g", since_ms=T, given=ends)
    assert [row.lag for row in report.data if row.topic == "unended"] == [20]
    assert [row.time_ms - T for row in report.data].count(12) == 1  # the warehouse has it too
    late = lags(engine, "g", given=[LogEnd("unended", 0, 0, 30, T + 1000)])
    assert "is an upper limit" in late.notes[0]


def test_no_end_is_known(tmp_path: Path) -> None:
    rows = {"offset_commits": ROWS["offset_commits"]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = lags(engine, "g")
        with pytest.raises(NotFoundError):
            lags(engine, "h")
    assert {row.lag for row in report.data} == {None}
    assert [row.committed_offset for row in report.data if row.partition == 0] == [120, 1]
    assert "they come from builds" in report.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("directory", some_of(LOGS, 3), ids=lambda path: path.name)
def test_what_counted_at_recorded_times(directory: Path, recorded_engine: Ask) -> None:
    check_all(recorded_engine(directory), directory)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 6)))
def test_what_counted_at_random_times(seed: int, tmp_path: Path) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        check_all(engine, tmp_path / "log")


def check_all(engine: DuckEngine, directory: Path) -> None:
    """All times at once give what a replay up to each of them gives."""
    records = [record for of_log in log_of(directory).values() for record in of_log]
    known = sorted({time_of(record) or 0 for record in records} - {0})
    times = {known[0] - 1, *known[:: max(1, len(known) // examples(2, 5))], known[-1]}
    past = {time_ms: PastGroups(engine, "c", time_ms).read().image.groups for time_ms in times}
    names = sorted({name for groups in past.values() for name in groups})
    for group_id in names[:: max(1, len(names) // examples(4, 64))]:
        expected = {
            (time_ms, offset.topic, offset.partition): (
                offset.committed_offset,
                offset.commit_timestamp_ms,
            )
            for time_ms, groups in past.items()
            for offset in (groups[group_id].offsets if group_id in groups else ())
        }
        places = {(topic, partition) for _, topic, partition in expected}
        ends = [LogEnd(*place, 0, 1 << 40, time_ms) for place in places for time_ms in times]
        rows = lags(engine, group_id, since_ms=0, given=ends).data
        assert expected == {
            (row.time_ms, row.topic, row.partition): (row.committed_offset, row.commit_timestamp_ms)
            for row in rows
        }


def test_a_negative_number_is_no_offset(tmp_path: Path) -> None:
    rows = {"offset_commits": [commit(1, 10), commit(5, -1)], "log_ends": [end(3, 21), end(9, 21)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        found = lags(engine, "g", since_ms=T).data
    assert [(row.time_ms - T, row.lag) for row in found] == [(3, 11)]


def test_of_two_logs_the_one_committed_to_last_counts(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [
            commit(5, 50, offsets_partition=3),
            commit(1, 10),
            commit(2, 20, partition=1),
        ],
        "log_ends": [end(3, 100), end(3, 100, partition=1), end(9, 100), end(9, 100, partition=1)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        found = lags(engine, "g", since_ms=T).data
    assert [(row.time_ms - T, row.partition, row.lag) for row in found] == [
        (3, 0, 90),
        (3, 1, 80),
        (9, 0, 50),
    ]


def test_what_has_no_time_is_of_the_next_time_in_its_log(tmp_path: Path) -> None:
    """Of whatever group: brokers before 0.10 gave tombstones no time."""
    tombstone = {
        "offsets_partition": 7,
        "log_offset": 15,
        "group_id": "g",
        "type": "OffsetCommit",
        "topic": "orders",
        "partition": 0,
    }
    rows = {
        "offset_commits": [commit(10, 5), commit(20, 1, group_id="other"), commit(30, 7)],
        "tombstones": [tombstone],
        "log_ends": [end(19, 100), end(20, 100), end(29, 100), end(30, 100)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        found = lags(engine, "g", since_ms=T).data
    assert [(row.time_ms - T, row.lag) for row in found] == [(19, 95), (30, 93)]


@pytest.mark.slow
def test_a_commit_of_a_transaction_counts_from_its_marker_on(tmp_path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    settled = {"transaction": "committed", **producer}
    marker = {"outcome": "committed", **producer}
    rows = {
        "offset_commits": [commit(1, 10), commit(5, 50, **settled), commit(20, 60, **settled)],
        "transactions": [
            {"offsets_partition": 7, "log_offset": 8, "time_ms": T + 8, **marker},
            {"offsets_partition": 6, "log_offset": 9, "time_ms": T + 2, **marker},
            {"offsets_partition": 7, "log_offset": 28, "time_ms": T + 28, **marker},
        ],
        "log_ends": [end(at, 100) for at in (6, 7, 8, 27, 28)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        found = lags(engine, "g", since_ms=T).data
        past = [PastGroups(engine, "test", row.time_ms).read(["g"]).image for row in found]
    assert [row.lag for row in found] == [90, 90, 50, 50, 40]
    assert [row.committed_offset for row in found] == [
        image.groups["g"].offsets[0].committed_offset for image in past
    ]


def test_where_a_clock_went_back_the_log_has_the_order(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [commit(90, 10), commit(95, 20, time_ms=T + 50)],
        "log_ends": [end(60, 100), end(99, 100)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        assert [row.lag for row in lags(engine, "g", since_ms=T).data] == [80, 80]


def test_a_build_knows_all_commits_up_to_its_log_ends(tmp_path: Path) -> None:
    """It is no upper limit if the group's partition was read up to then, whenever it committed."""
    own = {"topic": "__consumer_offsets", "log_start_offset": 0, "log_end_offset": 9}
    of_build = end(5000, 0) | own | {"partition": 7}
    for more, is_limit in (([], True), ([of_build | {"partition": 8}], True), ([of_build], False)):
        rows = {"offset_commits": [commit(1, 10)], "log_ends": [end(5000, 21), *more]}
        with DuckEngine(write_rows(tmp_path / f"{len(more)}{is_limit}", rows)) as engine:
            report = lags(engine, "g")
        assert [(row.topic, row.time_ms - T, row.lag) for row in report.data] == [
            ("orders", 5000, 11)
        ]
        assert any("upper limit" in note for note in report.notes) == is_limit


def test_log_ends_that_are_not_near_the_time_are_said_to_be_so(tmp_path: Path) -> None:
    rows = {"offset_commits": [commit(1, 10)], "log_ends": [end(5000, 21)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        near = lags(engine, "g", at_ms=T + 125_000)
        far = lags(engine, "g", at_ms=T + 125_001)
    assert near.data == far.data
    assert not [note for note in near.notes if "recorded at" in note]
    assert "were recorded at 2023-11-14T22:13:25.000Z: the lags are those of then" in far.notes[0]


def test_lag_of_a_whole_group(engine: DuckEngine) -> None:
    """At each time, with the number of partitions whose log end was not recorded then."""
    times = times_of_ends(engine, "test", "g", None, None)
    assert [time_ms - T for time_ms in times] == [12, 22, 35, 40]
    found = group_lags(engine, "g", times_ms=times, since_ms=None, until_ms=None, cluster="test")
    assert [(lag.time_ms - T, lag.lag, lag.partitions, lag.unknown) for lag in found] == [
        (12, 10, 1, 0),
        (22, 10 + 40, 2, 1),
        (35, 50, 1, 2),
    ]
