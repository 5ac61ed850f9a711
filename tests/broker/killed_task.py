"""Tasks of a build that are killed once, in the middle of writing a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgroup.history.build.task import Job, JobRunner
from kgroup.history.warehouse.table_file import _File
from kgroup.spark.session import run_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_J = TypeVar("_J", bound=Job)
_R = TypeVar("_R")


def run_and_kill(session: SparkSession, marker: Path, *, executor: bool) -> JobRunner:
    """Do tasks on Spark, and kill what does the first one.

    Args:
        session: to run on.
        marker: a file that is made when that happens; it happens only once.
        executor: whether the executor's JVM is killed too, or its Python worker alone.
    """

    def run(function: Callable[[_J], _R], jobs: Sequence[_J], /) -> Iterator[_R]:
        return run_on(session, partial(_do_or_die, function, str(marker), executor), jobs)

    return run


def _do_or_die(function: Callable[[Any], _R], marker: str, executor: bool, job: Any) -> _R:
    write = _File.write

    def write_and_die(self: _File, rows: Any) -> None:
        write(self, rows)
        try:
            Path(marker).open("x").close()
        except FileExistsError:
            return
        if executor:
            daemon = os.getppid()  # Python's, that workers are forked from
            os.kill(_parent(daemon), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        _File.write = write_and_die  # type: ignore[method-assign]
        return function(job)
    finally:
        _File.write = write  # type: ignore[method-assign]


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    name = Path("/proc", status.split("PPid:")[1].split()[0], "comm").read_text().strip()
    assert name == "java", name  # and never anything else
    return int(status.split("PPid:")[1].split()[0])
