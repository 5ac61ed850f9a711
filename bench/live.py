"""Ask a broker of its groups with `kafka-consumer-groups` and with kgroup, in turns."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from bench.measure import ENVIRONMENT, KGROUP, kafka_tool, measure, median, print_heads, print_row

GROUPS = 5_000
PARTITIONS = 16

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def group_id(number: int) -> str:
    return f"team-{number % 50:02}.service-{number:04}"


@dataclass(frozen=True)
class _Job:
    """Arguments with which each tool does the same; None where it has no command for it."""

    name: str
    aim: float
    kafka: Sequence[str]
    kgroup: Sequence[str]
    kcl: Sequence[str] | None
    kaf: Sequence[str] | None


_ONE = group_id(GROUPS // 2)
_EVERY = ["--describe", "--all-groups"]
_JOBS = (
    _Job(
        f"list --no-lag, {GROUPS:,} groups",
        0.4,
        ["--list"],
        ["list", "--no-lag"],
        ["group", "list"],
        ["groups"],
    ),
    _Job(
        f"list, {GROUPS:,} groups, with lag and last commit",
        0.12,
        _EVERY,
        ["list"],
        ["group", "describe", "--section", "summary"],
        None,
    ),
    _Job(
        "describe, 1 group",
        0.3,
        ["--describe", "--group", _ONE],
        ["describe", _ONE],
        ["group", "describe", _ONE],
        ["group", "describe", _ONE],
    ),
    _Job(
        f"describe, {GROUPS:,} groups",
        0.15,
        _EVERY,
        ["describe", "--all"],
        ["group", "describe"],
        None,
    ),
)


def bench(runs: int) -> None:
    with TemporaryDirectory() as work, cluster(work, GROUPS, PARTITIONS) as bootstrap:
        print(
            f"A broker on loopback with {GROUPS:,} groups, each with {PARTITIONS} committed "
            "partitions and no members. kcl and kaf are measured if they are on the PATH.\n"
        )
        print_heads(
            *("job", "Kafka's tool, s", "kcl, s", "kaf, s", "kgroup, s", "kgroup / Kafka", "aim"),
            "peak, MB (Kafka's)",
        )
        asked = ["--bootstrap-server", bootstrap]
        _check(asked)
        for job in _JOBS:
            commands = [
                kafka_tool(TOOL, *asked, *job.kafka),
                _found("kcl", job.kcl, ["--no-config-file", "-B", bootstrap]),
                _found("kaf", job.kaf, ["-b", bootstrap]),
                [*KGROUP, *job.kgroup, *asked],
            ]
            measure(commands[-1] or ())  # compiles what is not compiled yet
            rounds = [
                [None if command is None else measure(command) for command in commands]
                for _ in range(runs)
            ]
            each = [
                None if own[0] is None else median([run for run in own if run])
                for own in zip(*rounds, strict=True)
            ]
            kafka, our = each[0], each[-1]
            assert kafka is not None
            assert our is not None
            print_row(
                job.name,
                *("-" if one is None else f"{one.wall:.2f}" for one in each),
                f"{our.wall / kafka.wall:.2f}",
                f"{job.aim}",
                f"{our.memory:.0f} ({kafka.memory:.0f})",
            )
        _bench_top(asked, runs)


def _bench_top(asked: list[str], runs: int) -> None:
    """Measure a refresh of `kgroup top`: what some more of them add, one right after another."""
    more = 4
    top = [*KGROUP, "top", "-o", "jsonl", "--interval", "0.1", *asked, "--refreshes"]
    added = [
        (measure([*top, f"{1 + more}"]).wall - measure([*top, "1"]).wall) / more
        for _ in range(runs)
    ]
    print(f"\nA refresh of `kgroup top` takes {statistics.median(added):.2f} s.")


def _found(
    tool: str, arguments: Sequence[str] | None, connection: Sequence[str]
) -> Sequence[str] | None:
    """Return the command of another tool; None if it is not installed, or has no such command."""
    path = shutil.which(tool)
    return None if path is None or arguments is None else [path, *arguments, *connection]


@contextmanager
def cluster(work: str, groups: int, partitions: int) -> Iterator[str]:
    """Run `bench.cluster`, and give its address."""
    command = [sys.executable, "-m", "bench.cluster", work, str(groups), str(partitions)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        address = it.stdout.readline().strip()
        if not address:
            raise SystemExit("the broker with the groups did not start")
        try:
            yield address
        finally:
            it.stdin.close()


def _check(asked: list[str]) -> None:
    """Compare what both list, and count what kgroup describes, before time is measured."""
    listed = _lines(kafka_tool(TOOL, *asked, "--list"))
    ours = _lines([*KGROUP, "list", "-o", "tsv", "--no-headers", "--columns", "group_id", *asked])
    offsets = _lines([*KGROUP, "describe", "--all", "-o", "tsv", "--no-headers", *asked])
    if sorted(listed) != ours or len(ours) != GROUPS or len(offsets) != GROUPS * PARTITIONS:
        raise SystemExit(
            f"expected {GROUPS} groups and {GROUPS * PARTITIONS} offsets, Kafka lists "
            f"{len(listed)}, kgroup {len(ours)} and describes {len(offsets)} offsets"
        )


def _lines(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return done.stdout.splitlines()
