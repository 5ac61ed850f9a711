"""Tasks that read ranges of the live topic elsewhere, while other builds change the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.history.build.build import Build, live_tasks
from kgroup.history.build.task import BuildTask, TaskResult, run_task
from kgroup.history.input.live_source import LiveSource
from kgroup.history.input.split import CopiedRange
from kgroup.history.sql.question import LogEnd
from kgroup.history.warehouse.warehouse import Warehouse, write_warehouse
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.source.config.client_config import client_config
from kgroup.source.log.folder import read_topic_names
from tests.history.build_file import files_on_disk, files_that_count
from tests.history.builds import SAMPLE, build
from tests.history.log_copy import read_log, write_log
from tests.history.table_oracle import expected_tables, read_tables

CONFIG = client_config(environment={}, bootstrap_server="127.0.0.1:9")
LOG = {number: batches for number, batches in read_log(SAMPLE).items() if len(batches) > 9}
ENDS = {number: batches[-1].last_offset + 1 for number, batches in LOG.items()}
NAMES = read_topic_names([SAMPLE])


@pytest.fixture(autouse=True)
def _small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = LiveSource.splits
    monkeypatch.setattr(
        LiveSource, "splits", lambda self, starts, ends: splits(self, starts, ends, 10)
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_log(tmp_path / "log", LOG)
    return tmp_path / "log"


def live(ends: Mapping[int, int], log_ends: Sequence[LogEnd] = ()) -> LiveSource:
    ranges = {number: (0, end) for number, end in ends.items()}
    return LiveSource("c", ranges, NAMES, (), CONFIG, log_ends=log_ends)


def plan(root: Path, ends: Mapping[int, int]) -> list[BuildTask]:
    return list(live_tasks(Warehouse(root), live(ENDS), ends))


def done(tasks: Sequence[BuildTask], log: Path) -> list[TaskResult]:
    """Do the tasks, with the log as what a broker would have sent."""
    results = []
    for task in tasks:
        (work,) = task.works
        place, number = work.split.location, work.split.offsets_partition
        path = next((log / f"__consumer_offsets-{number}").iterdir())
        copied = replace(work.split, location=CopiedRange(str(path), place.start, place.end))
        results.append(run_task(replace(task, works=(replace(work, split=copied),))))
    return results


def commit(root: Path, results: Sequence[TaskResult], earlier: LiveSource | None = None) -> None:
    with write_warehouse(root) as writer:
        made = Build(writer)
        made.accept_live(live(ENDS), results, earlier)
        made.commit()


def known_ends(root: Path) -> set[tuple[int, int]]:
    rows = read_tables(root, "c").get("log_ends", [])
    return {
        (row["partition"], row["log_end_offset"]) for row in rows if row["topic"] == OFFSETS_TOPIC
    }


def test_tasks_are_planned_without_the_lists_of_files(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    with write_warehouse(root):
        pass
    half = {number: end // 2 for number, end in ENDS.items()}
    commit(root, done(plan(root, half), log))
    expected = plan(root, ENDS)
    assert expected

    def refuse(*_: object) -> None:
        raise AssertionError("lists of files are read")

    monkeypatch.setattr("kgroup.history.warehouse.warehouse.written_files", refuse)
    assert [task.works for task in plan(root, ENDS)] == [task.works for task in expected]


def test_batch_by_batch(tmp_path: Path, log: Path) -> None:
    """Log ends that were asked for before a batch are known once that is committed."""
    root = tmp_path / "w"
    with write_warehouse(root):
        pass
    half = {number: end // 2 for number, end in ENDS.items()}
    first = plan(root, half)
    places = [work.split.location for task in first for work in task.works]
    assert max(place.end - place.start for place in places) == 10
    commit(root, done(first, log))
    assert plan(root, half) == []  # as where a batch is repeated
    earlier = live(half, [LogEnd("orders", 0, 0, 7, 1000)])
    rest = plan(root, ENDS)
    commit(root, done(rest, log), earlier)
    expected = expected_tables(LOG, NAMES)
    found = read_tables(root, "c")
    assert known_ends(root) == set(half.items())
    del found["log_ends"]
    assert found == expected
    (again,) = build(root, log).data
    assert all(table.new_row_count == 0 for table in again.tables)
    assert files_on_disk(root) == files_that_count(root)


def test_a_range_that_was_not_read(tmp_path: Path, log: Path) -> None:
    """It is read with the next batch, and until then its partition is not known up to its end."""
    root = tmp_path / "w"
    with write_warehouse(root):
        pass
    tasks = plan(root, ENDS)
    failed = next(
        number for number, task in enumerate(tasks) if task.works[0].split.offsets_partition == 2
    )
    results = done(tasks, log)
    (read,) = results[failed].reads
    for file in results[failed].files:
        (root / file.path).unlink()
    nothing = replace(
        read,
        coverage=replace(
            read.coverage, firsts=read.coverage.firsts[:0], lasts=read.coverage.lasts[:0]
        ),
    )
    results[failed] = replace(
        results[failed], files=(), reads=(replace(nothing, error="no leader"),)
    )
    commit(root, results, live(ENDS, [LogEnd("orders", 0, 0, 7, 1000)]))
    assert known_ends(root) == {(number, end) for number, end in ENDS.items() if number != 2}
    left = plan(root, ENDS)
    assert {task.works[0].split.offsets_partition for task in left} == {2}
    commit(root, done(left, log))
    found = read_tables(root, "c")
    del found["log_ends"]
    assert found == expected_tables(LOG, NAMES)


@pytest.mark.parametrize("is_all", [False, True])
def test_another_build_was_faster(is_all: bool, tmp_path: Path, log: Path) -> None:
    """Records are read again without those that it has written, and nothing is left behind."""
    root = tmp_path / "w"
    with write_warehouse(root):
        pass
    tasks = plan(root, {number: end // 2 for number, end in ENDS.items()})
    write_log(
        tmp_path / "other",
        {
            number: batches if is_all else batches[: len(batches) // 3]
            for number, batches in LOG.items()
        },
    )
    build(root, tmp_path / "other")
    commit(root, done(tasks, log))
    commit(root, done(plan(root, ENDS), log))
    assert read_tables(root, "c") == expected_tables(LOG, NAMES)
    assert files_on_disk(root) == files_that_count(root)
