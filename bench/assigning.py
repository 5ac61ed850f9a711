"""Dry runs beside the assignors themselves: kgroup, and Java with Kafka's jars, on the same specs.

Whole processes read one spec and write the assignment as JSON. Inside a process only the assigning
is timed; Java is warm then, after it has assigned the same group some times.
"""

from __future__ import annotations

import json
import random
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench.measure import KAFKA, KGROUP, measure, median, print_heads, print_row
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.strategy import assign
from kgroup.operation.assign.spec import read_spec
from tests.broker import maven
from tests.broker.assignor_oracle import main_class

LARGEST = 1_000_000
"""Partitions of the largest groups."""
WARM_RUNS = 4
PATIENCE_S = 180
"""How long Java may take for one group."""

STRATEGIES = (
    ("classic", "range"),
    ("classic", "roundrobin"),
    ("classic", "sticky"),
    ("classic", "cooperative-sticky"),
    ("consumer", "uniform"),
    ("consumer", "range"),
    ("share", "simple"),
)
CLIENTS = (
    ("java", "cooperative-sticky"),
    ("librdkafka", "cooperative-sticky"),
    ("franz-go", "cooperative-sticky"),
    ("sarama", "sticky"),
    ("kafka-python", "sticky"),
)
SUBSCRIBED: Mapping[str, Callable[[random.Random, list[str]], list[str]]] = {
    "those of one of 20 teams": lambda draw, names: names[draw.randrange(20) :: 20],
    "1 to 1,000 random ones": lambda draw, names: draw.sample(names, draw.randint(1, len(names))),
}
OPTIONS = (
    ["--settle"],
    ["--settle", "--add-member", "10"],
    ["--compare"],
    ["--compare", "--add-member", "10"],
)


def bench(runs: int, *, thorough: bool) -> None:
    """Measure groups with every strategy, then dry runs of several rebalances.

    All groups have a million partitions; if `thorough`, there are smaller ones, too.
    """
    print_heads(
        "group", "strategy", "Java, s", "kgroup, s", "ratio", "warm Java, s", "kgroup inside, s"
    )
    with TemporaryDirectory() as folder:
        for name, spec in _cases():
            if thorough or _size(spec) == LARGEST:
                _bench(name, spec, Path(folder) / "spec.jsonl", runs)
        print()
        _bench_options(Path(folder) / "spec.jsonl", runs)
        print()
        _bench_clients(Path(folder) / "spec.jsonl", runs)


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for protocol, strategy in STRATEGIES:
        for partitions in (4, 200, 2000):
            spec = _group(2000, 500, partitions, protocol, strategy)
            if partitions == 4:
                spec = _group(200, 50, 40, protocol, strategy)
            who = f"{len(spec['members']):,} members, all subscribe to all"
            name = f"{_size(spec):,} partitions, {who}"
            yield name, spec
            yield f"{name}; one has left", _left(spec)
    for partitions in (10_000, 100_000):
        for strategy in ("sticky", "cooperative-sticky"):
            members, topics = (200, 100) if partitions == 10_000 else (2000, 500)
            each = partitions // topics
            spec = _group(members, topics, each, "classic", strategy, differ=True)
            yield f"{partitions:,} partitions, {members:,} members, subscriptions differ", spec


def _size(spec: Mapping[str, Any]) -> int:
    return sum(topic["partitions"] for topic in spec["topics"].values())


def _group(
    members: int, topics: int, each: int, protocol: str, strategy: str, *, differ: bool = False
) -> dict[str, Any]:
    draw = random.Random(20261122)
    names = [f"topic-{number}" for number in range(topics)]
    spec: dict[str, Any] = {
        "protocol": protocol,
        "strategy": strategy,
        "topics": {name: {"partitions": each} for name in names},
        "members": [
            {
                "member_id": f"consumer-{number}-{draw.getrandbits(64):016x}",
                "topics": sorted(draw.sample(names, draw.randint(1, topics))) if differ else names,
            }
            for number in range(members)
        ],
    }
    if protocol != "classic":
        spec["topic_ids"] = {
            name: urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=") for name in names
        }
    return spec


def _left(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Let one member leave; the others remember what Java's assignor assigned to them."""
    owned = assign(read_spec(spec))
    members = [
        member
        | {"owned": [list(partition) for partition in owned[member["member_id"]]], "generation": 1}
        for member in spec["members"][1:]
    ]
    return {**spec, "members": members}


def _bench(name: str, spec: dict[str, Any], file: Path, runs: int) -> None:
    file.write_text(json.dumps(spec | {"id": "x"}) + "\n")
    ours = median([measure(_command(file)) for _ in range(runs)])
    read = read_spec(spec)
    inside = min(_timed(read) for _ in range(3))
    java = _java(spec["protocol"])
    try:
        warm = _warm(java, file)
    except subprocess.TimeoutExpired:
        row = (f"> {PATIENCE_S}", f"{ours.wall:.2f}", f"> {PATIENCE_S / ours.wall:.0f}", "-")
    else:
        theirs = median([measure(java, file) for _ in range(runs)])
        ratio = f"{theirs.wall / ours.wall:.1f}"
        row = (f"{theirs.wall:.2f}", f"{ours.wall:.2f}", ratio, f"{warm:.3f}")
    print_row(name, spec["strategy"], *row, f"{inside:.3f}")


def _bench_options(file: Path, runs: int) -> None:
    print_heads("10,000 partitions, 200 members, subscriptions differ", "kgroup, s")
    spec = _group(200, 100, 100, "classic", "cooperative-sticky", differ=True)
    file.write_text(json.dumps(_left(spec) | {"id": "x"}) + "\n")
    for options in OPTIONS:
        ours = median([measure([*_command(file), *options]) for _ in range(runs)])
        print_row(f"`{' '.join(options)}`, one has left", f"{ours.wall:.2f}")


def _bench_clients(file: Path, runs: int) -> None:
    """Measure 500 members with different subscriptions, 1,000 topics and 50,000 partitions."""
    print_heads("topics of a member", "library", "new group, s", "one has left, s")
    for subscribed, topics_of in SUBSCRIBED.items():
        for client, strategy in CLIENTS:
            draw = random.Random(20261129)
            spec = _group(500, 1000, 50, "classic", strategy)
            for member in spec["members"]:
                member["topics"] = sorted(topics_of(draw, list(spec["topics"])))
            figures = []
            for case in (spec, _left(spec)):
                file.write_text(json.dumps(case | {"id": "x", "client": client}) + "\n")
                command = [*_command(file), "--settle"]
                figures.append(f"{median([measure(command) for _ in range(runs)]).wall:.2f}")
            print_row(subscribed, client, *figures)


def _command(file: Path) -> list[str]:
    return [*KGROUP, "assign", "--dry-run", "--spec", str(file), "-o", "jsonl"]


def _java(protocol: str) -> list[str]:
    main = main_class(protocol, KAFKA)
    classes = maven.compile_oracle(main, KAFKA)
    classpath = f"{classes}:{maven.java_classpath(KAFKA)}"
    return ["java", "-Xmx6g", "-Dkgroup.log=OFF", "-cp", classpath, main, "time"]


def _warm(java: list[str], file: Path) -> float:
    """Give seconds that Java takes for a group that it has assigned some times before.

    Raises:
        subprocess.TimeoutExpired: it takes too long even once.
    """
    line = file.read_bytes()
    subprocess.run(java, input=line, capture_output=True, check=True, timeout=PATIENCE_S)
    many = line * (1 + WARM_RUNS)
    done = subprocess.run(java, input=many, capture_output=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["ms"]) / 1000


def _timed(spec: GroupSpec) -> float:
    begin = perf_counter()
    assign(spec)
    return perf_counter() - begin
