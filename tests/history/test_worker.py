"""Processes that answer parts of a question: the same answers, in order, and what ends them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kgroup.errors import KgroupError, NotFoundError
from kgroup.history.sql import worker
from kgroup.history.sql.engine import DuckEngine, Engine
from tests.history.warehouse_files import write_rows


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DuckEngine]:
    monkeypatch.setattr("kgroup.history.sql.engine.FEW_JOBS", 1)
    monkeypatch.setattr("kgroup.history.sql.engine.processor_count", lambda: 2)
    rows = [{"time_ms": 1, "group_id": "g", "partition": number} for number in (1, 2, 4)]
    with DuckEngine(write_rows(tmp_path, {"offset_commits": rows})) as engine:
        yield engine


def answer(engine: Engine, job: int) -> tuple[int, int]:
    if job == -1:
        raise NotFoundError("no such group", group_id="g")
    if job == -2:
        os.kill(os.getpid(), signal.SIGKILL)
    (row,) = engine.query(
        "SELECT SUM(partition) AS sum FROM offset_commits WHERE partition >= ?", [job]
    ).to_pylist()
    return int(row["sum"] or 0), os.getpid()


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_processes_answer_in_order_and_end(engine: DuckEngine) -> None:
    jobs = [1, 2, 3, 5] * 4
    found = list(engine.each(answer, jobs))
    assert [total for total, _ in found] == [7, 6, 4, 0] * 4
    workers = {pid for _, pid in found}
    assert 1 <= len(workers) <= 2
    assert os.getpid() not in workers
    assert not any(map(is_running, workers))
    assert list(engine.each(answer, [2])) == [(6, os.getpid())]


def test_jobs_are_read_as_they_are_needed(engine: DuckEngine) -> None:
    numbers = count()
    answers = engine.each(answer, (1 for _ in numbers))
    total, pid = next(answers)
    assert total == 7
    assert next(numbers) < 10
    answers.close()  # type: ignore[attr-defined]
    assert not is_running(pid)


def test_an_error_of_a_job_is_raised_unchanged(engine: DuckEngine) -> None:
    with pytest.raises(NotFoundError, match="no such group") as caught:
        list(engine.each(answer, [1, 1, -1, 1]))
    assert caught.value.group_id == "g"


def test_a_process_that_is_killed_is_an_error(engine: DuckEngine) -> None:
    with pytest.raises(KgroupError, match=r"ended with status -9: perhaps there was too little"):
        list(engine.each(answer, [1, -2, 1, 1]))


def test_modules_of_the_working_directory_are_not_imported(
    engine: DuckEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert [total for total, _ in engine.each(answer, [1, 2])] == [7, 6]


def test_a_process_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "START", "raise SystemExit(3)")
    files = partial(dict[str, str], many="x" * (1 << 20))  # more than a pipe takes
    with pytest.raises(KgroupError, match="ended with status 3"):
        list(worker.answers_of_workers(files, getattr, ["a", "b"], 2))
