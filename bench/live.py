"""Ask a broker of its groups with `kafka-consumer-groups` and with kgroup, in turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from bench.measure import ENVIRONMENT, KGROUP, kafka_tool, measure, median, print_heads, print_row

GROUPS = 5_000
PARTITIONS = 16

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def group_id(number: int) -> str:
    return f"team-{number % 50:02}.service-{number:04}"


def bench(runs: int) -> None:
    with TemporaryDirectory() as work, cluster(work, GROUPS, PARTITIONS) as bootstrap:
        print(
            f"A broker on loopback with {GROUPS:,} groups, each with {PARTITIONS} committed "
            "partitions and no members.\n"
        )
        print_heads(
            "job", "Kafka's tool, s", "kgroup, s", "kgroup / Kafka", "aim", "peak, MB (Kafka's)"
        )
        one = group_id(GROUPS // 2)
        asked = ["--bootstrap-server", bootstrap]
        _check(asked)
        for job, aim, theirs, ours in (
            (f"list --no-lag, {GROUPS:,} groups", 0.4, ["--list"], ["list", "--no-lag"]),
            (
                f"list, {GROUPS:,} groups, with lag and last commit",
                0.12,
                ["--describe", "--all-groups"],
                ["list"],
            ),
            ("describe, 1 group", 0.3, ["--describe", "--group", one], ["describe", one]),
            (
                f"describe, {GROUPS:,} groups",
                0.15,
                ["--describe", "--all-groups"],
                ["describe", "--all"],
            ),
        ):
            kafka = kafka_tool(TOOL, *asked, *theirs)
            kgroup = [*KGROUP, *ours, *asked]
            measure(kgroup)  # compiles what is not compiled yet
            pairs = [(measure(kafka), measure(kgroup)) for _ in range(runs)]
            their, our = (median(each) for each in zip(*pairs, strict=True))
            print_row(
                job,
                f"{their.wall:.2f}",
                f"{our.wall:.2f}",
                f"{our.wall / their.wall:.2f}",
                f"{aim}",
                f"{our.memory:.0f} ({their.memory:.0f})",
            )


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
