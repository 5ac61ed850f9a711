"""Groups of a live broker of 0.8.2.2, which keeps commits and tells nothing else of them.

It closes the connection on requests that it does not know, ApiVersions and ListGroups among them.
`ConsumerOffsetChecker` is what its users had for a tool.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from kgroup.model.offsets_partition import offsets_partition
from kgroup.source.log.source import LogDir
from tests.broker.maven import run_java
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli, Result
from tests.record.clients import java, make_topics
from tests.record.raw import commit
from tests.record.recording import Recording
from tests.record.wire import Wire

VERSION = "0.8.2.2"
TOPICS = {"orders": 3, "payments": 2}
OLD = (
    "kgroup: note: Brokers of Kafka 0.8 do not report members, which are in ZooKeeper: members, "
    "states and commits to ZooKeeper are unknown.\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with 10 + n records in partition n of each topic, and three groups.

    "reading": a high-level consumer that read all of "orders" and committed to Kafka; "python": a
    consumer of kafka-python; "raw": requests of version 1, one past the end of a partition.
    """
    work: Path = tmp_path_factory.mktemp("live-0.8")
    recording = Recording("live", work)
    with (
        broker(VERSION, work) as server,
        java(recording, server, "OldConsumers", "Producers") as clients,
        Wire(VERSION, server.bootstrap) as wire,
    ):
        make_topics(recording, server, clients, TOPICS)
        assert server.zookeeper is not None
        config = {
            "zookeeper.connect": server.zookeeper.connect,
            "group.id": "reading",
            "consumer.id": "reading-1",
            "offsets.storage": "kafka",
            "dual.commit.enabled": "false",
            "auto.commit.enable": "false",
            "auto.offset.reset": "smallest",
        }
        clients.call("old-join", name="reading-1", streams="orders:1", config=config)
        clients.call("old-read", names="reading-1", count=33)
        clients.call("old-commit", name="reading-1")
        consumer = KafkaConsumer(
            group_id="python", enable_auto_commit=False, **server.client_options
        )
        payments = [TopicPartition("payments", number) for number in range(2)]
        consumer.assign(payments)
        consumer.commit(dict.fromkeys(payments, OffsetAndMetadata(4, "four", -1)))
        consumer.close()
        places = {("orders", 0): 7, ("orders", 1): 11, ("orders", 2): 100}
        commit(wire, "raw", places, metadata="by hand")
        yield server


@pytest.fixture
def ask(server: Broker, cli: Cli) -> Any:
    def run(*args: str) -> Result:
        return cli(*args, "-b", server.bootstrap)

    return run


def checked(server: Broker, group: str, topic: str) -> dict[int, tuple[int, int, int]]:
    """Offset, end of the log and lag of each partition, says the broker's own tool.

    It gives up where one has no commit.
    """
    assert server.zookeeper is not None
    where = ["--zookeeper", server.zookeeper.connect, "--group", group, "--topic", topic]
    printed = run_java(VERSION, "kafka.tools.ConsumerOffsetChecker", where).stdout.decode()
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows}


@pytest.mark.parametrize(
    ("group", "topic", "metadata"),
    [("reading", "orders", ""), ("python", "payments", "four"), ("raw", "orders", "by hand")],
)
def test_same_offsets_and_lags_as_the_tool(
    server: Broker, ask: Any, group: str, topic: str, metadata: str
) -> None:
    theirs = checked(server, group, topic)
    result = ask("describe", group, "-o", "json")
    assert (result.status, result.err) == (0, OLD)
    (found,) = json.loads(result.out)["data"]
    assert {
        row["partition"]: (row["committed_offset"], row["log_end_offset"], row["lag"])
        for row in found["offsets"]
    } == theirs
    assert len(theirs) == TOPICS[topic]
    assert {row["topic"] for row in found["offsets"]} == {topic}
    assert {row["metadata"] for row in found["offsets"]} == {metadata}
    assert {row["log_start_offset"] for row in found["offsets"]} == {0}
    assert found["total_lag"] == sum(max(lag, 0) for _, _, lag in theirs.values())
    marks = [row["mark"] for row in found["offsets"]]
    assert marks == [None] * (len(theirs) - 1) + ["past-end" if group == "raw" else None]


def test_what_is_not_known(server: Broker, ask: Any) -> None:
    now_ms = 1000 * time.time()
    logged = LogDir([server.log_dir]).read().image.groups
    (found,) = json.loads(ask("describe", "reading", "-o", "json").out)["data"]
    for name in ("state", "generation_id", "leader_id", "protocol_type", "assignor"):
        assert found[name] is None
    assert found["members"] == []
    assert found["coordinator"]["port"] == server.port
    assert found["offsets_partition"] == offsets_partition("reading", 4)
    times = {row["partition"]: row["commit_timestamp_ms"] for row in found["offsets"]}
    assert times == {
        offset.partition: offset.commit_timestamp_ms for offset in logged["reading"].offsets
    }
    assert all(now_ms - 600_000 < time_ms <= now_ms for time_ms in times.values())


@pytest.mark.parametrize("args", [["list"], ["describe", "--all"], ["describe", "--regex", "r.*"]])
def test_groups_must_be_named(ask: Any, args: list[str]) -> None:
    result = ask(*args)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "kgroup: error: broker 1 is of Kafka 0.8, which cannot list groups: name them\n"
    )


def test_group_that_never_committed(ask: Any) -> None:
    result = ask("describe", "nobody", "raw", "-o", "tsv")
    assert result.status == 4
    assert result.err.startswith(OLD)
    assert "group 'nobody': not-found" in result.err
    assert ask("describe", "nobody").status == 3


def test_coordinator(server: Broker, ask: Any) -> None:
    result = ask("coordinator", "raw", "nobody", "-o", "json")
    assert (result.status, result.err) == (0, "")
    for row in json.loads(result.out)["data"]:
        assert (row["agrees"], row["partition_count"]) == (True, 4)
        assert row["offsets_partition"] == offsets_partition(row["group_id"], 4)
        assert row["coordinator"]["port"] == server.port


def test_a_snapshot_says_the_same(cli: Cli, ask: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    names = ["reading", "python", "no such group"]
    taken = ask("snapshot", *names, "-f", str(file))
    for command in ("describe", "coordinator"):
        direct = ask(command, *names, "-o", "json")
        through = cli(command, *names, "-o", "json", "--snapshot", file)
        assert through == direct
    assert taken.status == ask("describe", *names).status == 4
