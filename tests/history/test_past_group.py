"""Groups as they were: compared with a replay of all records up to each instant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.errors import NotFoundError
from kgroup.history.query.past_group import PastGroups, describe_past
from kgroup.history.sql.engine import DuckEngine
from kgroup.operation.describe import describe
from kgroup.source.log.source import LogDir
from tests.examples import examples, some_of
from tests.history.past_log import LOGS, T, commit, end, expected_groups
from tests.history.random_history import RandomHistory
from tests.history.recorded import Ask, engine_of_log, log_of, time_of
from tests.history.warehouse_files import write_rows


@pytest.mark.slow
@pytest.mark.parametrize("directory", some_of(LOGS, 2), ids=lambda path: path.name)
def test_recorded_groups_at_any_time(directory: Path, recorded_engine: Ask) -> None:
    check_groups(recorded_engine(directory), directory)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 6)))
def test_random_groups_at_any_time(seed: int, tmp_path: Path) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        check_groups(engine, tmp_path / "log")


def check_groups(engine: DuckEngine, directory: Path) -> None:
    log = log_of(directory)
    times = sorted({time_of(record) or 0 for records in log.values() for record in records} - {0})
    step = max(1, len(times) // examples(1, 8))
    for at_ms in [times[0] - 1, *times[step // 2 :: step], times[-1]]:
        reading = PastGroups(engine, "c", at_ms).read()
        assert not reading.problems
        names = dict(reading.image.topic_names)
        assert reading.image.groups == expected_groups(log, at_ms, names)


@pytest.mark.slow
@pytest.mark.parametrize("directory", some_of(LOGS, 2), ids=lambda path: path.name)
def test_at_its_end_a_group_is_as_in_the_log_directory(
    directory: Path, recorded_engine: Ask
) -> None:
    log = log_of(directory)
    # Kafka 0.9 writes GroupMetadata without times: nothing tells when what comes last was written.
    timed = {
        partition
        for partition, records in log.items()
        if records and time_of(records[-1]) is not None
    }
    groups = {
        group_id: group
        for group_id, group in LogDir([directory]).read().image.groups.items()
        if group.offsets_partition in timed
    }
    end_ms = max(time_of(record) or 0 for records in log.values() for record in records)
    for group_id, group in list(groups.items())[: examples(2, 5)]:
        source = PastGroups(recorded_engine(directory), "c", end_ms)
        found = source.read([group_id]).image.groups
        assert list(found) == [group_id]
        assert found[group_id].offsets == group.offsets
        assert found[group_id].state == group.state
        members = [member.member_id for member in found[group_id].members]
        assert members == [member.member_id for member in group.members]
        (described,) = describe(source, [group_id]).data
        assert described.group.generation_id == group.generation_id


@pytest.mark.slow
def test_lag_is_what_was_recorded_since_the_commit(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [commit(1, 10), commit(5, 50), commit(2, 7, partition=1)],
        "log_ends": [end(3, 30), end(3, 9, partition=1), end(8, 80)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        lags = {}
        for at in (2, 4, 6, 8, 9, 120_003, 120_009):
            (group,) = describe_past(engine, "g", T + at).data
            lags[at] = [(offset.partition, offset.lag) for offset in group.offsets]
    assert lags == {
        2: [(0, None), (1, None)],
        4: [(0, 20), (1, 2)],
        6: [(0, None), (1, 2)],  # the end is older than the commit
        8: [(0, 30), (1, 2)],
        9: [(0, 30), (1, 2)],
        120_003: [(0, 30), (1, 2)],
        120_009: [(0, None), (1, None)],  # not near
    }


def test_an_end_of_the_moment_of_the_commit_counts(tmp_path: Path) -> None:
    rows = {"offset_commits": [commit(5, 50)], "log_ends": [end(5, 60)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (group,) = describe_past(engine, "g", T + 9).data
    assert [offset.lag for offset in group.offsets] == [10]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "offsets", "pending"),
    [(4, [1], []), (6, [1], [5]), (7, [1], [5]), (8, [5], []), (9, [5], [9]), (20, [5], [])],
)
def test_transactions_were_open_until_their_markers(
    transactions: DuckEngine, at: int, offsets: list[int], pending: list[int]
) -> None:
    (group,) = describe_past(transactions, "g", T + at).data
    assert [offset.committed_offset for offset in group.offsets] == offsets
    assert [offset.committed_offset for offset in group.group.pending_offsets] == pending


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    producer = {"producer_id": 3, "producer_epoch": 0}
    rows = {
        "offset_commits": [
            commit(1, 1),
            commit(5, 5, transaction="committed", **producer),
            commit(9, 9, transaction="aborted", **producer),
        ],
        "transactions": [
            {
                "offsets_partition": 7,
                "log_offset": at,
                "time_ms": T + at,
                "outcome": how,
                **producer,
            }
            for at, how in ((8, "committed"), (10, "aborted"))
        ],
    }
    with DuckEngine(write_rows(tmp_path_factory.mktemp("rows"), rows)) as engine:
        yield engine


@pytest.mark.slow
def test_what_is_not_known(tmp_path: Path) -> None:
    tombstone = {
        "offsets_partition": 7,
        "log_offset": 5,
        "time_ms": T + 5,
        "group_id": "g",
        "type": "OffsetCommit",
        "topic": "orders",
        "partition": 0,
    }
    rows = {"offset_commits": [commit(1, 1)], "tombstones": [tombstone]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        with pytest.raises(NotFoundError, match="first record is from 2023-11-14T"):
            describe_past(engine, "g", T)
        assert len(describe_past(engine, "g", T + 4).data) == 1
        gone = describe_past(engine, "g", T + 6)
    assert (gone.data, [error.kind for error in gone.errors]) == ((), ["not-found"])
    assert "did not exist at 2023-11-14T22:13:20.006Z" in gone.errors[0].reason
    assert "later records, if any, are unknown" in gone.notes[0]


@pytest.mark.slow
def test_a_group_of_two_logs_is_as_it_was_changed_last(tmp_path: Path) -> None:
    """The topic was made again with another number of partitions: the old log is there still."""
    rows = {"offset_commits": [commit(5, 50, offsets_partition=3), commit(1, 10), commit(2, 20)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (group,) = describe_past(engine, "g", T + 9).data
        (before,) = describe_past(engine, "g", T + 3).data
    assert [offset.committed_offset for offset in group.offsets] == [50]
    assert [offset.committed_offset for offset in before.offsets] == [20]


def test_a_transaction_is_open_in_each_log_until_its_marker_there(tmp_path: Path) -> None:
    producer = {"producer_id": 3, "producer_epoch": 0}
    marker = {"outcome": "committed", **producer}
    rows = {
        "offset_commits": [
            commit(5, 5, transaction="committed", **producer),
            commit(5, 5, offsets_partition=8, group_id="h", transaction="committed", **producer),
        ],
        "transactions": [
            {"offsets_partition": 8, "log_offset": 9, "time_ms": T + 9, **marker},
            {"offsets_partition": 7, "log_offset": 10, "time_ms": T + 20, **marker},
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        groups = PastGroups(engine, "test", T + 12).read().image.groups
    found = {
        name: (len(group.offsets), len(group.pending_offsets)) for name, group in groups.items()
    }
    assert found == {"g": (0, 1), "h": (1, 0)}


def test_each_producer_has_a_transaction_of_its_own(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [
            commit(at, at, transaction="open", producer_id=at, producer_epoch=0) for at in (5, 6)
        ]
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (group,) = describe_past(engine, "g", T + 9).data
    assert [offset.committed_offset for offset in group.group.pending_offsets] == [5, 6]
