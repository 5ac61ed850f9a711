"""A large group in ZooKeeper, described with `ConsumerOffsetChecker` of 0.8.2.2 and with kgroup."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kazoo.client import KazooClient

from bench.measure import ENVIRONMENT, KGROUP, measure, median, print_heads, print_row
from tests.broker.maven import java_command
from tests.broker.process import running
from tests.broker.servers import Broker, ZooKeeper

TOOL_VERSION = "0.8.2.2"
VERSION = "2.8.2"
"""Of the broker: one of 0.8 takes many minutes to learn of so many partitions."""
TOPICS, PARTITIONS, CONSUMERS, STREAMS = 10, 1000, 50, 2
GROUP = "billing"
AIM_S = 5
DEADLINE_S = 600
CONFIG = {"log.index.size.max.bytes": "4096", "log.segment.bytes": "1048576"}


def bench(runs: int) -> None:
    with TemporaryDirectory() as work, _group(Path(work)) as zookeeper:
        count = TOPICS * PARTITIONS
        print(
            f"A group of the ZooKeeper consumer with {count:,} partitions and {CONSUMERS} members; "
            f"ZooKeeper and a broker of {VERSION} on loopback; the tool is of {TOOL_VERSION}.\n"
        )
        print_heads("job", "Kafka's tool, s", "kgroup, s", "aim, s", "peak, MB (Kafka's)")
        kgroup = [*KGROUP, "describe", GROUP, "--zookeeper", zookeeper, "-o", "jsonl"]
        _await(kgroup, count)
        tool = [*java_command(TOOL_VERSION, archive=None), "kafka.tools.ConsumerOffsetChecker"]
        kafka = [*tool, "--zookeeper", zookeeper, "--group", GROUP]
        their = measure(kafka)
        our = median([measure(kgroup) for _ in range(runs)])
        print_row(
            f"describe, {count:,} partitions",
            f"{their.wall:.1f}",
            f"{our.wall:.2f}",
            f"{AIM_S}",
            f"{our.memory:.0f} ({their.memory:.0f})",
        )


@contextmanager
def _group(work: Path) -> Iterator[str]:
    """Run the servers, and write a group of consumers that have read all; give the address."""
    zookeeper = ZooKeeper(work)
    server = Broker(VERSION, work, zookeeper=zookeeper, config=CONFIG)
    server.heap = "1g"
    with running(zookeeper), running(server):
        for number in range(TOPICS):
            server.create_topic(f"topic-{number}", PARTITIONS)
        _register(zookeeper.connect)
        yield zookeeper.connect


def _register(connect: str) -> None:
    client = KazooClient(hosts=connect, timeout=60)
    client.start(timeout=60)
    topics = [f"topic-{number}" for number in range(TOPICS)]
    ids = [f"{GROUP}_host-1400000000000-{number:08x}" for number in range(CONSUMERS)]
    subscription = {
        "version": 1,
        "subscription": dict.fromkeys(topics, STREAMS),
        "pattern": "static",
        "timestamp": "1400000000000",
    }
    root = f"/consumers/{GROUP}"
    client.ensure_path(f"{root}/ids")
    waiting = [
        client.create_async(f"{root}/ids/{id_}", json.dumps(subscription).encode()) for id_ in ids
    ]
    each = PARTITIONS // (CONSUMERS * STREAMS)
    for topic in topics:
        for kind in ("owners", "offsets"):
            client.ensure_path(f"{root}/{kind}/{topic}")
        for partition in range(PARTITIONS):
            consumer, thread = divmod(partition // each, STREAMS)
            owner = f"{ids[consumer]}-{thread}".encode()
            waiting.append(client.create_async(f"{root}/owners/{topic}/{partition}", owner))
            waiting.append(client.create_async(f"{root}/offsets/{topic}/{partition}", b"0"))
    for one in waiting:
        one.get(timeout=120)
    client.stop()
    client.close()


def _await(command: list[str], count: int) -> None:
    """Wait until the broker has learnt of all partitions, and every row is as it should be."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
        rows = [row for line in done.stdout.splitlines() for row in json.loads(line)["offsets"]]
        known = sum(row["lag"] == 0 and row["member_id"] is not None for row in rows)
        if known == count:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"expected {count} partitions with owner and lag, found {known}")
        time.sleep(5)
