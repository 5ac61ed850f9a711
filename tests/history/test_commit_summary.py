"""How groups committed: compared with plain Python on recorded logs, and cases by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kgroup.history.query.commit_summary import CommitSummary, commit_summaries
from kgroup.history.sql.engine import DuckEngine
from kgroup.model.record import DecodedRecord
from tests.examples import examples, some_of
from tests.history.owner_story import interval
from tests.history.past_log import LOGS, T, commit
from tests.history.random_history import RandomHistory
from tests.history.recorded import Ask, engine_of_log, log_of, time_of
from tests.history.warehouse_files import write_rows


def settled_commits(records: list[DecodedRecord]) -> dict[Any, list[DecodedRecord]]:
    """Commits that count, by group, topic and partition, in the log's order."""
    found = defaultdict(list)
    for number, record in enumerate(records):
        if not record.type.endswith("OffsetCommit") or not record.value or not record.key:
            continue
        if record.transaction is not None:
            ends = (
                later.type
                for later in records[number + 1 :]
                if later.type.startswith("Control") and later.producer_id == record.producer_id
            )
            if next(ends, None) != "ControlCommit":
                continue
        key = record.key["data"]
        found[key["group"], key["topic"], key["partition"]].append(record)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("directory", some_of(LOGS[:3], 2), ids=lambda path: path.name)
def test_recorded_commits(directory: Path, recorded_engine: Ask) -> None:
    check_all(recorded_engine(directory), directory, 200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 16)))
def test_random_commits(seed: int, tmp_path: Path) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        check_all(engine, tmp_path / "log", 5000)


def check_all(engine: DuckEngine, directory: Path, pause_ms: int) -> None:
    for records in log_of(directory).values():
        by_partition = settled_commits(records)
        for group_id in some_of(sorted({group_id for group_id, _, _ in by_partition}), 3):
            report = commit_summaries(engine, group_id, pause_ms=pause_ms)
            assert [(row.topic, row.partition) for row in report.data] == sorted(
                (topic, partition) for name, topic, partition in by_partition if name == group_id
            )
            for row in report.data:
                check(row, by_partition[group_id, row.topic, row.partition], pause_ms)


def check(row: CommitSummary, commits: list[DecodedRecord], pause_ms: int) -> None:
    def committed(record: DecodedRecord) -> int:
        assert record.value is not None
        offset: int = record.value["data"]["offset"]
        return offset

    times = [time for time in map(time_of, commits) if time is not None]
    assert (row.commit_count, row.first_offset) == (len(commits), committed(commits[0]))
    assert row.last_offset == committed(commits[-1])
    assert (row.first_ms, row.last_ms) == (min(times), max(times))
    pauses = [
        (time_of(before), time_of(after))
        for before, after in pairwise(commits)
        if (time_of(after) or 0) - (time_of(before) or 0) > pause_ms
    ]
    assert [(pause.since_ms, pause.until_ms) for pause in row.pauses] == pauses
    lengths = [(time_of(b) or 0) - (time_of(a) or 0) for a, b in pairwise(commits)]
    assert row.longest_pause_ms == max(lengths, default=None)
    jumps = [
        (committed(before), committed(after), after.offset)
        for before, after in pairwise(commits)
        if committed(after) < committed(before)
    ]
    assert [(jump.from_offset, jump.to_offset, jump.log_offset) for jump in row.jumps] == jumps


@pytest.mark.slow
def test_pauses_and_jumps_name_the_owners(tmp_path: Path) -> None:
    topic = {"partition": 3}
    rows = {
        "offset_commits": [
            commit(100, 10, **topic),
            commit(200, 30, **topic),
            commit(60_000, 5, **topic),
            commit(60_100, 7, **topic),
            commit(60_200, 2, **topic),
        ],
        "assignments": [
            interval("a", 0, None, "gone", from_log_offset=50, to_log_offset=300),
            interval("b", 0, None, from_log_offset=300, to_log_offset=60_150, ended_by="gone"),
        ],
        "tombstones": [
            {
                "offsets_partition": 7,
                "log_offset": 60_150,
                "group_id": "g",
                "type": "OffsetCommit",
                "topic": "orders",
                "partition": 3,
            }
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (summary,) = commit_summaries(engine, "g", pause_ms=10_000).data
        (part,) = commit_summaries(engine, "g", pause_ms=10_000, since_ms=T + 60_000).data
        (early,) = commit_summaries(engine, "g", pause_ms=10_000, until_ms=T + 60_000).data
    (pause,) = summary.pauses
    assert (pause.member_id, pause.next_member_id, pause.pause_ms) == ("a", "b", 59_800)
    assert (summary.longest_pause_ms, summary.longest_pause_since_ms) == (59_800, T + 200)
    assert summary.commits_per_minute == pytest.approx(4 * 60_000 / 60_100, abs=0.001)
    assert (early.commit_count, early.commits_per_minute) == (2, None), "0.2 s show no rate"
    found = [
        (jump.from_offset, jump.to_offset, jump.member_id, jump.before_member_id, jump.was_deleted)
        for jump in summary.jumps
    ]
    assert found == [(30, 5, "b", "a", False), (7, 2, None, "b", True)]
    assert (summary.jumps[0].client_id, summary.jumps[0].client_host) == (
        "client of b",
        "/10.0.0.1",
    )
    assert (part.commit_count, len(part.jumps), len(early.pauses)) == (3, 1, 0)


def test_what_did_not_count_is_left_out(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [
            commit(1, 10),
            commit(2, 3, transaction="aborted", producer_id=1),
            commit(3, 4, transaction="open", producer_id=1),
            commit(4, 12, transaction="committed", producer_id=1),
            commit(5, -1),  # no offset, so nothing went back
        ]
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = commit_summaries(engine, "g", pause_ms=1000)
        nothing = commit_summaries(engine, "g", pause_ms=1000, topic="orders", since_ms=T + 10**6)
    (summary,) = report.data
    assert (summary.commit_count, summary.jumps, summary.last_offset) == (2, (), 12)
    assert report.notes == (
        "Commits of aborted transactions omitted: 1.",
        "Commits of open transactions omitted: 1.",
    )
    assert (nothing.data, len(nothing.notes)) == ((), 2)  # none, and the records end before


def test_owners_are_those_of_the_same_log(tmp_path: Path) -> None:
    """Offsets of one partition of `__consumer_offsets` say nothing of another's.

    A group is in two where that topic was made again with another number of partitions.
    """
    rows = {
        "offset_commits": [commit(100, 10, partition=3), commit(200, 5, partition=3)],
        "assignments": [interval("other", 0, None, from_log_offset=50, offsets_partition=8)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (summary,) = commit_summaries(engine, "g", pause_ms=10_000).data
    assert [jump.member_id for jump in summary.jumps] == [None]


def test_what_lies_in_two_logs_is_not_compared(tmp_path: Path) -> None:
    """Neither the first and the last commit, nor what was deleted between two, go across logs."""
    topic = {"partition": 3}
    deleted = {
        "group_id": "g",
        "type": "OffsetCommit",
        "topic": "orders",
        "partition": 3,
        "offsets_partition": 8,
        "log_offset": 150,
    }
    rows = {
        "offset_commits": [
            commit(100, 50, **topic),
            commit(200, 40, **topic),
            commit(120, 7, **topic, offsets_partition=8),
            commit(130, 9, **topic, offsets_partition=8),
        ],
        "tombstones": [deleted],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        one, other = commit_summaries(engine, "g", pause_ms=50).data
    assert (one.offsets_partition, one.first_offset, one.last_offset) == (7, 50, 40)
    assert (other.offsets_partition, other.first_offset, other.last_offset) == (8, 7, 9)
    assert [(jump.offsets_partition, jump.was_deleted) for jump in one.jumps] == [(7, False)]
    assert (other.jumps, [pause.pause_ms for pause in one.pauses], other.pauses) == ((), [100], ())


@pytest.mark.slow
def test_a_clock_that_went_back_is_no_pause(tmp_path: Path) -> None:
    def told(*times: int) -> tuple[int | None, int | None]:
        rows = [
            commit(100 + place, place) | {"time_ms": T + time} for place, time in enumerate(times)
        ]
        with DuckEngine(write_rows(tmp_path / str(times), {"offset_commits": rows})) as engine:
            (summary,) = commit_summaries(engine, "g", pause_ms=1000).data
        return summary.longest_pause_ms, summary.longest_pause_since_ms

    assert told(5, 3) == (None, None)
    assert told(5, 5) == (0, T + 5)
    assert told(9, 3, 4) == (1, T + 3)
    assert told(1, 6, 11) == (5, T + 1)  # the first of those that are as long


def test_owner_of_a_commit_is_the_only_one(tmp_path: Path) -> None:
    """Whoever had the partition alone when the record was written; of several nobody is named."""

    def owned(member: str, begin: int, end: int | None) -> dict[str, Any]:
        by = None if end is None else "released"
        return interval(member, 0, None, by, from_log_offset=begin, to_log_offset=end)

    offsets = (5, 10, 15, 20, 25, 30, 35, 40, 45)
    rows = {
        "offset_commits": [commit(at, 1000 - at, partition=3) for at in offsets],
        "assignments": [
            owned("a", 10, 20),
            owned("never", 20, 20),
            owned("b", 20, 40),
            owned("c", 30, 35),
            owned("d", 45, None),
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        (summary,) = commit_summaries(engine, "g", pause_ms=1000).data
    expected = [None, "a", "a", "b", "b", None, "b", None, "d"]
    assert [jump.before_member_id for jump in summary.jumps] == expected[:-1]
    assert [jump.member_id for jump in summary.jumps] == expected[1:]
