"""Where the tasks of a build run: in threads, or on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kgroup.errors import KgroupError
from kgroup.history.build.task import Job
from kgroup.spark import runner as module
from kgroup.spark.runner import runner

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class _Job(Job):
    bytes: int

    @property
    def size(self) -> int:
        return self.bytes


def job(size: int) -> _Job:
    return _Job("w", "c", 1, size)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Masters of the sessions that were started; each job then says that Spark has run it."""
    masters: list[str | None] = []

    @contextmanager
    def session(master: str | None, *_: object, **__: object) -> Iterator[str]:
        masters.append(master)
        yield "a session"

    monkeypatch.setattr(module, "spark_session", session)
    monkeypatch.setattr(
        module, "run_on", lambda session, function, jobs: iter(["Spark"] * len(jobs))
    )
    monkeypatch.setattr(module, "can_compile", lambda: False)
    return masters


@pytest.mark.parametrize(
    ("processors", "sizes", "where"),
    [
        (2, [64 * GIB], "threads"),
        (4, [64 * GIB], "threads"),
        (5, [2 * GIB, 2 * GIB], "Spark"),
        (5, [2 * GIB, 2 * GIB - 1], "threads"),
        (64, [], "threads"),
    ],
)
def test_by_size_and_processors(
    processors: int,
    sizes: list[int],
    where: str,
    started: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "processor_count", lambda: processors)
    with runner() as run:
        assert list(run(lambda job: "threads", list(map(job, sizes)))) == [where] * len(sizes)
    assert started == ([None] if where == "Spark" else [])


@pytest.mark.parametrize("options", [("local[2]", None), (None, {"spark.app.name": "x"})])
def test_a_master_or_a_setting_decides(
    options: tuple[str | None, dict[str, str] | None], started: list[str | None]
) -> None:
    with runner(*options) as run:
        assert list(run(lambda job: "threads", [job(1)])) == ["Spark"]
        assert list(run(lambda job: "threads", [job(1), job(2)])) == ["Spark"] * 2
    assert started == [options[0]]  # one session for all


def test_without_spark_threads_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise KgroupError("Spark is needed, and PySpark is not installed")

    monkeypatch.setattr(module, "processor_count", lambda: 8)
    monkeypatch.setattr(module, "can_compile", lambda: False)
    monkeypatch.setattr(module, "spark_session", fail)
    notes: list[str] = []
    with runner(note=notes.append) as run:
        for _ in range(2):
            assert list(run(lambda job: "threads", [job(8 * GIB)])) == ["threads"]
    assert len(notes) == 1
    assert "this process does the work" in notes[0]
    with runner("local[2]") as run, pytest.raises(KgroupError, match="not installed"):
        list(run(lambda job: "threads", [job(1)]))
