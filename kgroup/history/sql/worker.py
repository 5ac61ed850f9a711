"""Processes that answer parts of a question, each with an engine of its own on the same files.

Answers about all groups are mostly derived in Python, so threads would not help. A worker reads
jobs from its standard input and writes answers to its standard output, as pickles. It ends with
its input: when the command has ended, in whatever way.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import gettempdir
from typing import Any, TypeVar

from kgroup.errors import KgroupError
from kgroup.pandas_import import leave_out_pandas

_Engine = TypeVar("_Engine")
_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")

START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kgroup.history.sql.worker import main; main()"
)
"""Code of a worker process."""


def temporary_folder(pid: int) -> Path:
    """Return the folder for temporary files of a process's engine."""
    return Path(gettempdir(), f"kgroup-{pid}")


def answers_of_workers(
    open_engine: Callable[[], _Engine],
    function: Callable[[_Engine, _Job], _Answer],
    jobs: Iterable[_Job],
    count: int,
) -> Iterator[_Answer]:
    """Yield what a function returns for each job, in order; see `Engine.each`.

    Args:
        open_engine: returns the engine of a worker.
        function: picklable, as are `open_engine`, jobs and answers.
        jobs: read only a few ahead of the answers.
        count: number of workers.

    Raises:
        KgroupError: a worker ended.
    """
    workers: list[_Worker] = []
    idle = SimpleQueue[_Worker]()
    pool = ThreadPoolExecutor(count)
    pending = deque[Future[_Answer]]()

    def ask(job: _Job) -> _Answer:
        worker = idle.get()
        try:
            answer: _Answer = worker.ask(job)
        finally:
            idle.put(worker)
        return answer

    try:
        for _ in range(count):
            workers.append(_Worker(open_engine, function))
            idle.put(workers[-1])
        for job in jobs:
            pending.append(pool.submit(ask, job))
            if len(pending) > 2 * count:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for worker in workers:
            worker.end()
        pool.shutdown(wait=False, cancel_futures=True)


class _Worker:
    """One process, from the point of view of the command."""

    def __init__(
        self, open_engine: Callable[[], _Engine], function: Callable[[_Engine, _Job], object]
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", START],  # no modules of the working directory
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal is for the command alone
        )
        self._unsent: list[object] = [sys.path, (open_engine, function)]

    def ask(self, job: object) -> Any:
        """Return the answer for a job.

        Raises:
            KgroupError: the process has ended; or what the function raised.
        """
        assert self._process.stdout is not None
        try:
            for value in (*self._unsent, job):
                self._send(value)
            self._unsent.clear()
            answer, error = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            status = self._process.wait()
            raise KgroupError(
                f"a process that answers a part of the question ended with status {status}"
                f"{': perhaps there was too little memory' if status < 0 else ''}"
            ) from None
        if error is not None:
            raise error
        return answer

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()

    def end(self) -> None:
        """End the process, whatever it does, and remove temporary files of its engine."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(temporary_folder(self._process.pid), ignore_errors=True)


def main() -> None:
    """Answer jobs until the input ends."""
    leave_out_pandas()
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else writes among the answers
    read = sys.stdin.buffer
    try:
        open_engine, function = pickle.load(read)
        engine: Any = None
        while True:
            job = pickle.load(read)
            answer: Any = None
            failure: Exception | None = None
            try:
                engine = engine or open_engine()
                answer = function(engine, job)
            except Exception as error:
                failure = error
            pickle.dump((answer, failure), own, pickle.HIGHEST_PROTOCOL)
            own.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the command has ended
