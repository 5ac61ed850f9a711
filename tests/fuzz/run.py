"""Tries inputs in worker processes, so that whatever an input does, it is seen and named.

A worker makes its inputs itself, from seed and number, and reports each when it is done. One that
dies, or that says nothing for too long, was at the input behind its last report.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal

from kgroup.pandas_import import leave_out_pandas
from tests.columnar.equality import DifferentError
from tests.fuzz.check import check
from tests.fuzz.mutation import Input, make_input, sound_log

Check = Callable[[bytes, Path, Random], None]
Outcome = Literal["passed", "crashed", "hung", "grew", "different"]

_START_SECONDS = 180
"""For a worker to begin: on a machine that never ran this, code is compiled."""

_ADDRESS_SPACE = 8 << 30
"""Bytes that a worker may ask for at all, so that one input cannot take the machine down."""


@dataclass(frozen=True)
class Lane:
    """A kind of inputs, and what they go through; functions of modules.

    Attributes:
        make: gives the input of a seed and a number.
        check: what an input goes through; raises what does not pass.
        begin: what a worker does first, so that no input takes longer for it.
        mark: what inputs begin with, so that a file tells whose it is.
        inputs: how many there are in what is made of one number.
    """

    make: Callable[[int, int], Input]
    check: Check
    begin: Callable[[Path], None]
    mark: bytes = b""
    inputs: int = 1


def _read_sound_log(folder: Path) -> None:
    """Read a log that has nothing wrong with it: on a machine that never did, code is compiled."""
    check(sound_log(), folder, Random(0))


LOGS = Lane(make_input, check, _read_sound_log)
"""Damaged logs."""


@dataclass(frozen=True)
class Plan:
    """What is to be tried.

    Attributes:
        seed: of all inputs.
        numbers: of the inputs.
        findings: folder for the inputs that do not pass.
        seconds: to stop after, though there are more numbers.
        jobs: workers.
        lane: what is tried.
        limit_seconds: time that one input may take.
        limit_bytes: by how much a worker's memory may grow over what it needs to begin.
    """

    seed: int
    numbers: range
    findings: Path
    seconds: float | None = None
    jobs: int = 1
    lane: Lane = LOGS
    limit_seconds: float = 10
    limit_bytes: int = 600 << 20


@dataclass(frozen=True)
class Finding:
    """An input that did not pass; `detail` says where, `path` is a file with the input."""

    number: int
    kind: str
    outcome: Outcome
    detail: str
    path: Path


@dataclass
class Tally:
    """What came of a run.

    Attributes:
        kinds: inputs by kind of damage.
        size: bytes of all inputs.
        seconds: that the inputs took.
        findings: the inputs that did not pass.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    size: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(finding.outcome == outcome for finding in self.findings)


def run(plan: Plan) -> Tally:
    """Try the inputs of a plan."""
    # The server has no threads: what it forks starts at once and inherits nobody's locks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([plan.lane.check.__module__])
    tally = Tally()
    begun = None
    with TemporaryDirectory(prefix="kgroup-fuzz-") as folder:
        workers = [_Worker(plan, job, Path(folder), context, tally) for job in range(plan.jobs)]
        try:
            while running := [worker for worker in workers if worker.is_running]:
                ready = wait([worker.connection for worker in running], 0.2)
                for worker in running:
                    worker.listen(has_news=worker.connection in ready)
                if begun is None and all(worker.is_warm for worker in running):
                    begun = time.monotonic()
                tally.seconds = time.monotonic() - begun if begun is not None else 0.0
                if plan.seconds is not None and tally.seconds >= plan.seconds:
                    break
        finally:
            for worker in workers:
                worker.stop()
    return tally


class _Worker:
    """A process that tries every n-th input; another one takes its place when it is lost."""

    def __init__(
        self, plan: Plan, job: int, folder: Path, context: ForkServerContext, tally: Tally
    ) -> None:
        self._plan = plan
        self._numbers = plan.numbers[job :: plan.jobs]
        self._folder = folder / str(job)
        self._folder.mkdir()
        self._context = context
        self._tally = tally
        self._begin()

    def _begin(self) -> None:
        self.connection, theirs = self._context.Pipe(duplex=False)
        arguments = (theirs, self._plan, self._numbers, self._folder)
        self._process = self._context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.is_running = True
        self.is_warm = False
        self._heard = time.monotonic()

    def stop(self) -> None:
        """End the process."""
        if self.is_running:
            self.is_running = False
            self._process.kill()
            self._process.join()
            self.connection.close()

    def listen(self, *, has_news: bool) -> None:
        """Take a report, or find that there will be none."""
        if not has_news:
            limit = self._plan.limit_seconds if self.is_warm else _START_SECONDS
            if time.monotonic() - self._heard > limit:
                assert self._process.pid is not None
                os.kill(self._process.pid, signal.SIGABRT)  # it writes down where it is
                self._process.join(_START_SECONDS)
                self._replace("hung")
            return
        self._heard = time.monotonic()
        try:
            report = self.connection.recv()
        except EOFError:
            self._process.join()
            self._replace("crashed" if self._process.exitcode else None)
            return
        if report is None:
            self.is_warm = True
        else:
            self._count(*report)

    def _replace(self, outcome: Outcome | None) -> None:
        """Go on with a new process, if there is more to try, behind an input that was fatal."""
        was_warm = self.is_warm
        self.stop()
        if outcome is not None:
            detail = (self._folder / "trace").read_text("utf-8", "replace")
            if not was_warm:
                raise RuntimeError(f"a worker {outcome} before its first input: {detail}")
            made = self._plan.lane.make(self._plan.seed, self._numbers[0])
            self._count(made.kind, len(made.data), outcome, detail)
        if self._numbers:
            self._begin()

    def _count(self, kind: str, size: int, outcome: Outcome, detail: str) -> None:
        """Count the input that is next."""
        number = self._numbers[0]
        self._numbers = self._numbers[1:]
        self._tally.kinds[kind] += self._plan.lane.inputs
        self._tally.size += size
        if outcome == "passed":
            return
        self._plan.findings.mkdir(parents=True, exist_ok=True)
        path = self._plan.findings / f"{outcome}-{self._plan.seed}-{number}-{kind}.log"
        path.write_bytes(self._plan.lane.make(self._plan.seed, number).data)
        self._tally.findings.append(Finding(number, kind, outcome, detail, path))


def _work(connection: Connection, plan: Plan, numbers: range, folder: Path) -> None:
    """Try inputs and report each; the whole life of a worker."""
    with (folder / "trace").open("w") as trace:
        faulthandler.enable(trace)
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
        leave_out_pandas()  # as the command does, and to begin sooner
        plan.lane.begin(folder)
        connection.send(None)
        most = _memory() + plan.limit_bytes
        for number in numbers:
            made = plan.lane.make(plan.seed, number)
            outcome, detail = try_input(plan.lane.check, made.data, folder, made.random)
            if outcome == "passed" and _memory() > most:
                outcome, detail = "grew", f"to {_memory() >> 20} MiB"
            connection.send((made.kind, len(made.data), outcome, detail))
            if outcome == "grew":
                return  # what it has now is no measure for the next one


def try_input(check: Check, data: bytes, folder: Path, random: Random) -> tuple[Outcome, str]:
    """Try one input in this process; say what happened, and where."""
    try:
        check(data, folder, random)
    except DifferentError:
        return "different", traceback.format_exc()
    except MemoryError:
        return "grew", traceback.format_exc()
    except BaseException:
        return "crashed", traceback.format_exc()
    return "passed", ""


def _memory() -> int:
    """The most bytes that this process ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
