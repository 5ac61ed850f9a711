"""Change the code in random places, one at a time, and see which changes no test notices.

A mutant is tried with the tests that run its line, then with others that run its module, then with
others of its part, up to a limit of CPU time. Lines that no test runs, as those of tables that are
read when a module is imported, are tried with the quickest tests of the part. A mutant is killed by
a test that fails or does not end, and survives otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import gettempdir

from tests.mutation.mutant import mutants
from tests.mutation.session import in_fork, measure, mutate, run

_PARTS = {
    "assignor": "kgroup/assignor",
    "protocol": "kgroup/protocol",
    "model/delta": "kgroup/model/delta.py",
    "simulation": "kgroup/simulation",
}
_TESTS = [
    f"tests/{room}"
    for room in ("assignor", "protocol", "model", "simulation", "source", "operation", "columnar")
]
_ROOMS = ["kgroup/assignor", "kgroup/protocol", "kgroup/model", "kgroup/simulation"]
_HEAVY = ["click", "cramjam", "kafka", "msgspec", "numba", "numpy", "orjson", "pyarrow", "re2"]


@dataclass(frozen=True)
class _Place:
    part: str
    path: Path
    number: int
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.number} {self.says}"


@dataclass(frozen=True)
class _Tests:
    """Which tests run a line, and how many seconds each takes."""

    by_line: dict[Path, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, place: _Place, limit_seconds: float) -> dict[str, dict[str, float]]:
        """Return the tests for a mutant by file: first those that run its line, the quick ones."""
        lines = self.by_line.get(place.path, {})
        line = self.seconds.keys() & lines.get(place.line, ())
        module = {test for tests in lines.values() for test in tests} & self.seconds.keys() - line
        room = f"tests/{place.path.parts[1]}/"
        part = {test for test in self.seconds if test.startswith(room)} - module - line
        chosen: dict[str, dict[str, float]] = {}
        for tests in (line, module, part) if line else (module | part,):
            files: dict[str, dict[str, float]] = {}
            for test in sorted(tests, key=self.seconds.__getitem__):
                limit_seconds -= self.seconds[test]
                if limit_seconds > 0:
                    files.setdefault(test.split("::")[0], {})[test] = self.seconds[test]
            for file, wanted in sorted(files.items(), key=lambda of: sum(of[1].values())):
                chosen.setdefault(file, {}).update(wanted)
        return chosen


def main() -> int:
    options = _parser().parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in _HEAVY:
        import_module(name)  # once, for all forks
    if not (options.folder / "seconds.json").exists():
        print("running the tests once, to see which lines each of them runs", flush=True)
        trouble = in_fork(lambda: measure(options.folder, _TESTS, _ROOMS), wall_seconds=None)
        if trouble != "":
            print(f"The tests fail without any mutant: {trouble}", file=sys.stderr)
            return 1
    tests = _tests(options.folder)
    random = Random(options.seed)
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    killers: set[str] = set()
    for part in options.part:
        places = [*_places(part)]
        chosen = random.sample(places, min(options.mutants, len(places)))
        for place in sorted(chosen, key=lambda place: (place.path, place.number)):
            if options.only and str(place) not in options.only:
                continue
            files = tests.of(place, options.limit)
            killer = in_fork(partial(_try, place, files))
            tried[part] += 1
            killed[part] += killer != ""
            killers |= {killer} if killer else set()
            print(
                f"{place}: {'SURVIVES' if killer == '' else killer or 'does not end'}", flush=True
            )
        print(
            f"{part}: {killed[part]} of {tried[part]} killed, of {len(places)} mutants", flush=True
        )
    return _control(killers, tests)


def _try(place: _Place, files: dict[str, dict[str, float]]) -> str:
    mutate(place.path, place.number)
    return run(files)


def _control(killers: set[str], tests: _Tests) -> int:
    """Run the tests that killed mutants once more, without any: all must pass."""
    files: dict[str, dict[str, float]] = {}
    for test in killers & tests.seconds.keys():
        files.setdefault(test.split("::")[0], {})[test] = tests.seconds[test]
    failed = in_fork(partial(run, files), wall_seconds=None)
    print(f"{len(killers)} tests killed them; without mutants {failed or 'all pass'}")
    return int(failed != "")


def _places(part: str) -> Iterator[_Place]:
    root = Path(_PARTS[part])
    for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
        for number, mutant in enumerate(mutants(path)[1]):
            yield _Place(part, path, number, mutant.line, mutant.says)


def _tests(folder: Path) -> _Tests:
    from coverage import CoverageData

    data = CoverageData(str(folder / "lines"))
    data.read()
    by_line = {
        Path(name).relative_to(Path.cwd()): data.contexts_by_lineno(name)
        for name in data.measured_files()
    }
    return _Tests(by_line, json.loads((folder / "seconds.json").read_text()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--mutants", type=int, default=80, help="of each part (80)")
    parser.add_argument("--part", nargs="+", choices=_PARTS, default=[*_PARTS], help="of the code")
    parser.add_argument("--only", nargs="+", help="those of the sample that are so called")
    parser.add_argument(
        "--limit", type=float, default=20, help="CPU seconds of tests a mutant (20)"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(gettempdir()) / "kgroup-mutants",
        help="which lines tests run, kept between runs; remove it when tests were added",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
