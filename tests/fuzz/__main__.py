"""Damage inputs of all kinds at random, see what they come to, and print the figures.

Every input follows from a seed and a number. One that does not pass is kept in a file, and named.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from random import Random, randrange
from tempfile import TemporaryDirectory, gettempdir

from tests.fuzz.check import check
from tests.fuzz.lane import LANES, lane_of
from tests.fuzz.run import LOGS, Finding, Plan, Tally, run, try_input

_ENDLESS = 1 << 62
_WIDTH = 1000


def main() -> int:
    options = _parser().parse_args()
    if options.files:
        return _check_files(options.files)
    seed = randrange(1 << 32) if options.seed is None else options.seed
    seconds = 60.0 if options.seconds is None and options.inputs is None else options.seconds
    share = None if seconds is None else seconds / len(options.lane)
    failed = 0
    for name in options.lane:
        print(f"{name}, seed {seed}", flush=True)
        lane = LANES[name]
        count = _ENDLESS if options.inputs is None else -(-options.inputs // lane.inputs)
        numbers = range(options.first, options.first + count)
        plan = Plan(
            seed, numbers, options.findings, share, options.jobs, lane, limit_seconds=options.limit
        )
        tally = run(plan)
        print(_report(tally), flush=True)
        failed += len(tally.findings)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help="stop after so many, of all lanes (60)")
    parser.add_argument("--inputs", type=int, help="stop after so many of each lane")
    parser.add_argument("--lane", nargs="+", choices=LANES, default=[*LANES], help="what to try")
    parser.add_argument("--seed", type=int, help="of the inputs (a random one)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--limit", type=float, default=10, help="seconds for an input (10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that work at once")
    parser.add_argument(
        "--findings", type=Path, default=Path(gettempdir()) / "kgroup-fuzz", help="folder for them"
    )
    parser.add_argument("files", type=Path, nargs="*", help="check these files instead")
    return parser


def _check_files(files: list[Path]) -> int:
    """Check files in this process, logs through every command."""
    failed = 0
    for file in files:
        with TemporaryDirectory() as folder:
            data = file.read_bytes()
            lane = lane_of(data)
            every = partial(check, every_command=True) if lane is LOGS else lane.check
            outcome, detail = try_input(every, data, Path(folder), Random(0))
        print(f"{file}: {outcome}\n{detail}".rstrip())
        failed += outcome != "passed"
    return 1 if failed else 0


def _report(tally: Tally) -> str:
    lines = []
    shown = set()
    for finding in tally.findings:
        lines.append(f"{finding.outcome}: input {finding.number} ({finding.kind}): {finding.path}")
        if (place := _place(finding)) not in shown:
            shown.add(place)
            lines += [line[:_WIDTH] for line in finding.detail.splitlines()]
    lines += [f"{count:>9,} {kind}" for kind, count in tally.kinds.most_common()]
    total = tally.kinds.total()
    rate = total / tally.seconds if tally.seconds else 0
    lines.append(
        f"{total:,} inputs tried ({tally.size >> 20:,} MiB) in {tally.seconds:.0f} s, {rate:.0f} a"
        " second: "
        + ", ".join(
            f"{tally.count(outcome)} {outcome}"
            for outcome in ("crashed", "hung", "grew", "different")
        )
    )
    return "\n".join(lines)


def _place(finding: Finding) -> tuple[str, ...]:
    """What is alike in findings that have one cause: where in the code they came up."""
    where = (line for line in finding.detail.splitlines() if line.lstrip().startswith("File "))
    return (finding.outcome, *where)


if __name__ == "__main__":
    sys.exit(main())
