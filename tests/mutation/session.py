"""Sessions of pytest in a process of their own, which ends with the first test that fails."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing import Pipe
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from hypothesis import Phase, settings

from tests.mutation.mutant import mutants

_WALL_SECONDS = 150


@dataclass
class _Chosen:
    """A plugin: runs the wanted tests only, the quickest first, each with a limit of CPU time."""

    wanted: dict[str, float]  # test: CPU seconds that it took once
    failed: str | None = None

    def pytest_configure(self) -> None:
        # A failure need not become a small one.
        kept = tuple(phase for phase in Phase if phase not in (Phase.shrink, Phase.explain))
        settings.register_profile("mutants", settings(), phases=kept)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.wanted),
            key=lambda item: self.wanted[item.nodeid],
        )

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        limit_cpu(5 + 10 * self.wanted[item.nodeid])

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        self.failed = self.failed or node.nodeid


@dataclass
class _Measured:
    """A plugin: tells coverage.py which test is running, and how much CPU time each takes."""

    switch: Callable[[str], object]
    seconds: dict[str, float] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.switch(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self.switch("")


def limit_cpu(seconds: float) -> None:
    """Let the kernel end this process after so much CPU time, whatever it is doing."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def in_fork(work: Callable[[], str], wall_seconds: float | None = _WALL_SECONDS) -> str | None:
    """Do some work in a fork, silently; give its answer, or None when it was ended before."""
    reader, writer = Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        os.setsid()
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
                writer.send(work())
        finally:
            os._exit(0)
    writer.close()
    try:
        return str(reader.recv()) if reader.poll(wall_seconds) else None
    except EOFError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def mutate(path: Path, number: int) -> None:
    """Let the module of a file be imported with one of its mutants."""
    tree, found = mutants(path)
    found[number].apply()
    code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    class Loader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType:
            return code

    class Finder(MetaPathFinder):
        def find_spec(
            self, name: str, paths: Sequence[str] | None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            spec = PathFinder.find_spec(name, paths)
            if spec and spec.origin and Path(spec.origin) == path.absolute():
                spec.loader = Loader(name, spec.origin)
                return spec
            return None

    sys.meta_path.insert(0, Finder())


def run(files: dict[str, dict[str, float]]) -> str:
    """Run tests, given by their files, up to the first that fails; give its name, or ""."""
    for name, wanted in files.items():
        limit_cpu(60)
        chosen = _Chosen(wanted)
        status = pytest.main(["-x", name], plugins=[chosen])
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return chosen.failed or f"{name} ({status})"
    return ""


def measure(folder: Path, tests: Sequence[str], sources: Sequence[str]) -> str:
    """Run all tests; write which lines each runs, and how long it takes, into a folder."""
    from coverage import Coverage

    coverage = Coverage(data_file=folder / "lines", source=sources)
    coverage.start()
    measured = _Measured(coverage.switch_context)
    status = pytest.main(["-m", "not slow", *tests], plugins=[measured])
    coverage.stop()
    coverage.save()
    (folder / "seconds.json").write_text(json.dumps(measured.seconds))
    return "" if status == pytest.ExitCode.OK else f"pytest ended with {status!r}"
