"""Choose where the tasks of a build run: in threads of this process, or on Spark.

An embedded Spark takes 8 to 13 seconds of CPU and some 500 MiB more than threads, for any input
from 100 MiB to 4 GiB (`bench/history.py`). It wins time only where it has more processors than
there are threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from kgroup.columnar.chunk_size import processor_count
from kgroup.columnar.input_size import can_compile
from kgroup.errors import KgroupError
from kgroup.history.build.task import MOST_WORKERS, Job, JobRunner, run_here
from kgroup.spark.session import run_on, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 256 << 20
"""Bytes to read from which on code is compiled before the tasks start."""

SPARK_BYTES = 4 << 30
"""Bytes to read from which on Spark starts, if there are more than `MOST_WORKERS` processors."""

_J = TypeVar("_J", bound=Job)
_R = TypeVar("_R")


@contextmanager
def runner(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    note: Callable[[str], None] = lambda text: None,
    on_compile: Callable[[], None] | None = None,
) -> Iterator[JobRunner]:
    """Yield a function that runs tasks, while the context lasts.

    Args:
        master: master of a Spark cluster; if given, Spark runs all tasks.
        settings: settings of Spark; likewise.
        note: called with a sentence if Spark would help, but is not available.
        on_compile: called before code is compiled.
    """
    with ExitStack() as stack:
        session: SparkSession | None = None
        is_wanted = master is not None or bool(settings)
        can_help = True

        def run(function: Callable[[_J], _R], jobs: Sequence[_J], /) -> Iterator[_R]:
            nonlocal session, can_help
            size = sum(job.size for job in jobs)
            if size >= LARGE and can_compile():
                from kgroup.kernel.compiled import load

                load(on_compile)  # once here, instead of in each executor
            is_faster = size >= SPARK_BYTES and processor_count() > MOST_WORKERS
            if session is None and jobs and (is_wanted or (is_faster and can_help)):
                try:
                    session = stack.enter_context(spark_session(master, settings, only_tasks=True))
                except KgroupError as error:
                    if is_wanted:
                        raise
                    can_help = False
                    note(f"{error}. Without it, this process does the work.")
            return run_here(function, jobs) if session is None else run_on(session, function, jobs)

        yield run
