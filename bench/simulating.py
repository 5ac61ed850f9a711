"""Scenarios of many events: groups of ten and of a thousand members that lose one and get it back.

An event is something that the virtual clock lets happen: a call of poll(), a request or an answer
that arrives, a timeout. There is no tool of Kafka's to compare with.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.measure import KGROUP, measure, median, print_heads, print_row
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import CoordinatorStage, ZookeeperStage

_SCENARIO = """
{head}
duration = "{minutes}m"
[topics]
orders = {partitions}
[members]
topics = "orders"
{settings}
[[member]]
name = "m"
count = {members}
start = "0s"
[[step]]
at = "1m"
do = "crash"
member = "m1"
[[step]]
at = "3m"
do = "start"
member = "m1"
"""


def bench(runs: int) -> None:
    """Measure whole processes, and count the events in another one."""
    print_heads("group", "events", "kgroup, s", "events a second", "peak memory, MB")
    for members, minutes in ((10, 480), (1_000, 5)):
        for protocol in ("classic", "consumer", "zookeeper"):
            if protocol == "zookeeper" and members > 10:
                continue  # where everybody reads everything about everybody
            is_zookeeper = protocol == "zookeeper"
            text = _SCENARIO.format(
                head='protocol = "zookeeper"' if is_zookeeper else "",
                settings="" if is_zookeeper else f'group.protocol = "{protocol}"',
                minutes=60 if is_zookeeper else minutes,
                partitions=2 * members,
                members=members,
            )
            with TemporaryDirectory() as folder:
                file = Path(folder) / "scenario.toml"
                file.write_text(text)
                command = [*KGROUP, "simulate", str(file), "-o", "json"]
                taken = median([measure(command) for _ in range(runs)])
            events = _count(text)
            print_row(
                f"{members:,} members, {protocol}" + " protocol" * (not is_zookeeper),
                f"{events:,}",
                f"{taken.wall:.1f}",
                f"{events / taken.wall:,.0f}",
                f"{taken.memory:.0f}",
            )


def _count(text: str) -> int:
    scenario = read_scenario(text, "bench")
    make = ZookeeperStage if scenario.connectors else CoordinatorStage
    clock = make(scenario, Random(0)).clock
    events = 0
    while (due_ms := clock.next_ms) is not None and due_ms <= scenario.duration_ms:
        clock.step()
        events += 1
    return events
