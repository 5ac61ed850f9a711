"""A topic whose older segments are in remote storage (tiered storage, KIP-405), on a real broker.

The remote storage is a folder: `LocalTieredStorage`, which Kafka has among its tests.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.broker.group_tools import consumer_groups
from tests.broker.maven import run_java
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.raw import await_coordinator, commit, create_topics
from tests.record.wire import Wire
from tests.waiting import until

VERSION = "4.3.1"
STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
COUNT = 40
RECORD = b"x" * 100_000
SEGMENT = {"segment.bytes": str(1 << 20)}
"""The smallest that Kafka 4 takes: ten records."""


def config(work: Path) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": STORAGE,
        "rsm.config.dir": str(work / "remote"),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    }


@dataclass(frozen=True)
class Tiered:
    """A broker with the topics "tiered" and "local", of the same records, and a group of both.

    Attributes:
        server: the broker.
        begin_ms: time of the first record; each later one is a second younger.
    """

    server: Broker
    begin_ms: int

    def start(self, topic: str, which: str) -> int:
        """Ask Kafka's own tool where a partition begins: `earliest` or `earliest-local`."""
        options = ["--topic-partitions", f"{topic}:0", "--time", which]
        line = ["--bootstrap-server", self.server.bootstrap, *options]
        answer = run_java(VERSION, "org.apache.kafka.tools.GetOffsetShell", line).stdout.decode()
        return int(answer.rpartition(":")[2])


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    work = tmp_path_factory.mktemp("tiered")
    with broker(VERSION, work, config=config(work), artifacts="tiered") as server:
        begin_ms = time.time_ns() // 1_000_000 - 3_600_000
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"local": 1}, **SEGMENT)
            remote = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
            create_topics(wire, {"tiered": 1}, **SEGMENT, **remote)
            await_coordinator(wire)
            producer = KafkaProducer(bootstrap_servers=server.bootstrap)
            for topic in ("local", "tiered"):
                for number in range(COUNT):
                    at_ms = begin_ms + 1000 * number
                    producer.send(topic, RECORD, partition=0, timestamp_ms=at_ms).get(60)
            producer.close()
            commit(wire, "reader", {("local", 0): 0, ("tiered", 0): 0})
        yield Tiered(server, begin_ms)


def test_what_is_partly_in_remote_storage(tiered: Tiered, cli: Cli) -> None:
    """Its size is unknown: brokers tell the bytes on their disks. All else is as elsewhere."""
    until(lambda: tiered.start("tiered", "earliest-local") > 0, every_s=1)
    assert tiered.start("tiered", "earliest") == 0
    assert tiered.start("local", "earliest-local") == 0
    where = ("-b", tiered.server.bootstrap)
    result = cli("offsets", "reset", "reader", *where, "--to-latest", "--times", "-o", "json")
    assert result.status == 0, result.err
    rows = {row["topic"]: row for row in json.loads(result.out)["data"]}
    assert rows["tiered"]["bytes"] is None
    assert COUNT * len(RECORD) < rows["local"]["bytes"] < COUNT * (len(RECORD) + 100)
    assert {row["skipped"] for row in rows.values()} == {COUNT}

    lags = consumer_groups(VERSION, tiered.server.bootstrap, "--describe", "--group", "reader")
    result = cli("describe", "reader", *where, "--time-lag", "-o", "json")
    assert result.status == 0, result.err
    (group,) = json.loads(result.out)["data"]
    found = {each["topic"]: each for each in group["offsets"]}
    assert {row["topic"]: int(row["lag"]) for row in lags} == {
        topic: each["lag"] for topic, each in found.items()
    }
    for each in found.values():
        assert each["log_start_offset"] == 0
        assert each["next_timestamp_ms"] == tiered.begin_ms
