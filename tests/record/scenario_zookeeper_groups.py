"""Groups of the high-level consumer of 0.8.2.2, which live in ZooKeeper: what its tree looks like.

Kept are the tree (`tree.json`) and what Kafka itself says of it: its own ConsumerOffsetChecker, and
the fetcher threads of the consumers. Nothing of a broker's log directory is kept.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from kazoo.client import KazooClient

from tests.broker.maven import run_java
from tests.broker.old_consumers import Black, OldConsumers, Streams, White, old_consumers
from tests.broker.servers import Broker, cluster
from tests.record.raw import await_coordinator, commit
from tests.record.recording import Recording
from tests.record.wire import Wire
from tests.record.zookeeper_tree import read_tree

__all__ = ["record_zookeeper_groups"]

VERSION = "0.8.2.2"

TOPICS = {
    "orders": "1:2,2:1,1:2,2:1,1:2,2:1",
    "payments": "1,2,1",
    "shipments": "2:1,1:2,2:1,1:2",
    "returns": "3,1",
    "clicks": "1",
}
"""Brokers of each partition; 3 is stopped in the end, and nobody else has returns-0."""

CONFIG = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "log.retention.check.interval.ms": "1000",
}
SHORT_LOG = {"segment_bytes": "4096", "retention_bytes": "8192"}

LIVING = ("audit", "billing", "clickstream", "migrating", "pricing", "typo", "warehouse", "web")
GROUPS = (*LIVING, "nightly-report")

DOOMED = "doomed"
"""The host whose only consumer crashes just before the tree is read."""
DOOMED_SESSION_MS = 20_000

_RESET = re.compile(
    r"Current offset (\d+) for partition \[(.+),(\d+)\] out of range; reset offset to (\d+)"
)
_CHECKED = re.compile(r"(\S+) +(\S+) +(\d+) +(\S+) +(\d+) +(\S+) +(\S+)")


def record_zookeeper_groups(recording: Recording) -> None:
    """Let groups of each kind of subscription, strategy and storage work, stop and crash."""
    recording.note(broker=VERSION, mode="ZooKeeper", config=CONFIG, topics=TOPICS)
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster(VERSION, 3, recording.work, config=CONFIG))
        assert brokers[0].zookeeper is not None
        connect = brokers[0].zookeeper.connect
        consumers = stack.enter_context(old_consumers(connect, recording.work))
        make_topics(recording, brokers, consumers)
        static_groups(recording, consumers)
        pattern_groups(recording, consumers)
        stored_in_kafka(recording, brokers, consumers)
        out_of_range(recording, brokers, consumers)
        consumers.join("web-1", "web", Streams({"orders": 1}))
        consumers.settle()
        consumers.commit("web-1")
        consumers.join(
            "web-2",
            "web",
            Streams({"orders": 2}),
            host=DOOMED,
            zookeeper_session_timeout_ms=str(DOOMED_SESSION_MS),
        )
        recording.did("web: web-1 with 1 stream of orders, committed; then web-2 with 2")
        consumers.settle()
        produce(brokers, consumers, "orders", 5)
        recording.did("5 more records in each partition of orders, which nobody committed")
        brokers[2].stop()
        recording.did("broker 3 stopped: returns-0 has no leader")
        await_lost_broker(consumers.zookeeper)
        time.sleep(2)
        consumers.settle()
        take_answers(recording, brokers, consumers, connect)
        consumers.crash(DOOMED)
        recording.did("web-2 crashed: its session of 20 s had not expired when the tree was read")
        keep_tree(recording, consumers.zookeeper)
        recording.note(web_checked=offset_checker(connect, "web"))
        assert len(consumers.zookeeper.get_children("/consumers/web/ids")) == 2


def make_topics(recording: Recording, brokers: tuple[Broker, ...], consumers: OldConsumers) -> None:
    for topic, replicas in TOPICS.items():
        consumers.create_topic(topic, replicas, **(SHORT_LOG if topic == "clicks" else {}))
    with Wire(VERSION, brokers[0].bootstrap) as wire:
        await_coordinator(wire)
    for topic in TOPICS:
        produce(brokers, consumers, topic, 600 if topic == "clicks" else 10)
    recording.did(
        "topics, 10 + partition records in each partition; 600 in clicks, which keeps 8 KB"
    )


def produce(brokers: tuple[Broker, ...], consumers: OldConsumers, topic: str, count: int) -> None:
    for partition in range(TOPICS[topic].count(",") + 1):
        consumers.host().call(
            "produce",
            topic=topic,
            partition=partition,
            count=count + partition if count == 10 else count,
            config={"bootstrap.servers": brokers[0].bootstrap, "batch.size": "1024"},
        )


def static_groups(recording: Recording, consumers: OldConsumers) -> None:
    both = Streams({"orders": 2, "payments": 1})
    for name in ("billing-1", "billing-2"):
        consumers.join(name, "billing", both)
    consumers.settle()
    consumers.read(75 + 33, "billing-1", "billing-2")
    consumers.commit("billing-1", "billing-2")
    recording.did("billing: 2 consumers, range, 2 streams of orders and 1 of payments, committed")
    even = Streams({"orders": 2, "payments": 2})
    for name in ("pricing-1", "pricing-2"):
        consumers.join(
            name,
            "pricing",
            even,
            partition_assignment_strategy="roundrobin",
            num_consumer_fetchers="2",
        )
    consumers.settle()
    consumers.read(75 + 33, "pricing-1", "pricing-2")
    consumers.commit("pricing-1")
    recording.did(
        "pricing: 2 consumers, roundrobin, 2 streams of each topic, 2 fetchers a broker; "
        "only pricing-1 committed"
    )
    consumers.join("typo-1", "typo", Streams({"orderz": 1, "payments": 1}))
    consumers.settle()
    consumers.read(33, "typo-1")
    consumers.commit("typo-1")
    recording.did("typo: subscribes to a topic that does not exist, too; committed")
    consumers.join("nightly-1", "nightly-report", Streams({"payments": 1, "shipments": 1}))
    consumers.settle()
    consumers.read(33 + 46, "nightly-1")
    consumers.commit("nightly-1")
    consumers.leave("nightly-1")
    recording.did("nightly-report: one consumer, committed and stopped")


def pattern_groups(recording: Recording, consumers: OldConsumers) -> None:
    consumers.join("warehouse-1", "warehouse", White("ship.*,returns", 2))
    consumers.join("warehouse-2", "warehouse", White("ship.*,returns", 1))
    consumers.settle()
    consumers.read(46 + 21, "warehouse-1", "warehouse-2")
    consumers.commit("warehouse-1", "warehouse-2")
    recording.did(
        "warehouse: 2 consumers, white list ship.*|returns with 2 and 1 streams, committed"
    )
    consumers.join("audit-1", "audit", Black("clicks|orders", 3), offsets_storage="kafka")
    consumers.settle()
    consumers.read(33 + 46 + 21, "audit-1")
    consumers.commit("audit-1")
    recording.did("audit: black list clicks|orders, 3 streams; commits to Kafka and to ZooKeeper")


def stored_in_kafka(
    recording: Recording, brokers: tuple[Broker, ...], consumers: OldConsumers
) -> None:
    for name in ("migrating-1", "migrating-2"):
        consumers.join(
            name,
            "migrating",
            Streams({"shipments": 1}),
            offsets_storage="kafka",
            dual_commit_enabled="true",
        )
    consumers.settle()
    consumers.read(46, "migrating-1", "migrating-2")
    consumers.commit("migrating-1", "migrating-2")
    with Wire(VERSION, brokers[0].bootstrap) as wire:
        coordinator = wire.call("FindCoordinator", 0, key="migrating")
    with Wire(VERSION, f"{coordinator['host']}:{coordinator['port']}") as wire:
        commit(wire, "migrating", {("shipments", 3): 4}, commit_timestamp=-1)
    recording.did(
        "migrating: 2 consumers, dual commit; then shipments-3 committed at 4 to Kafka alone"
    )


def out_of_range(
    recording: Recording, brokers: tuple[Broker, ...], consumers: OldConsumers
) -> None:
    with Wire(VERSION, brokers[0].bootstrap) as wire:
        commit(wire, "clickstream", {("clicks", 0): 3, ("payments", 0): 1000}, version=0)
        await_shortened(wire)
    consumers.join("clickstream-1", "clickstream", Streams({"clicks": 1, "payments": 1}))
    consumers.settle()
    recording.did(
        "clickstream: commits to ZooKeeper before the start of clicks-0 and past the end of "
        "payments-0; then one consumer, auto.offset.reset=smallest, which commits nothing"
    )


def await_shortened(wire: Wire) -> None:
    """Wait until the broker has deleted old segments of clicks, and deletes no more."""
    deadline = time.monotonic() + 60
    while log_range(wire, "clicks", 0)[0] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    time.sleep(3)


def log_range(wire: Wire, topic: str, partition: int) -> tuple[int, int]:
    """Offsets of the first record and of the next one, says the leader."""
    found = []
    for timestamp in (-2, -1):
        asked = [
            {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": 1},
        ]
        topics = [{"name": topic, "partitions": asked}]
        (answer,) = wire.call("ListOffsets", replica_id=-1, topics=topics)["topics"]
        found.append(answer["partitions"][0]["old_style_offsets"][0])
    return found[0], found[1]


def await_lost_broker(zookeeper: KazooClient) -> None:
    """Wait until ZooKeeper misses broker 3.

    The state of returns-0 then names leader -1, or still 3 where that was the controller itself.
    """
    deadline = time.monotonic() + 60
    while "3" in zookeeper.get_children("/brokers/ids"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def take_answers(
    recording: Recording,
    brokers: tuple[Broker, ...],
    consumers: OldConsumers,
    connect: str,
) -> None:
    """What Kafka itself says: its tool, its consumers' threads, its brokers' logs."""
    recording.note(
        consumers={each.name: each.consumer_id for each in consumers.alive.values()},
        checked={group: offset_checker(connect, group) for group in GROUPS},
        fetches={
            each.consumer_id: list(map(asdict, consumers.fetches(each.name)))
            for each in consumers.alive.values()
        },
        log_ranges=log_ranges(brokers),
        resets=resets(recording),
    )


def offset_checker(connect: str, group: str) -> list[dict[str, Any]]:
    """The rows that `kafka.tools.ConsumerOffsetChecker` prints; unknown is None."""
    arguments = ["--zookeeper", connect, "--group", group]
    printed = run_java(VERSION, "kafka.tools.ConsumerOffsetChecker", arguments).stdout.decode()
    rows: list[dict[str, Any]] = []
    for line in printed.splitlines():
        if line.startswith("Group "):
            continue
        found = _CHECKED.fullmatch(line.strip())
        if found is None:
            rows.append({"line": line})
            continue
        _, topic, partition, offset, end, lag, owner = found.groups()
        rows.append(
            {
                "topic": topic,
                "partition": int(partition),
                "offset": None if offset == "unknown" else int(offset),
                "log_size": int(end),
                "lag": None if lag == "unknown" else int(lag),
                "owner": None if owner == "none" else owner,
            }
        )
    return rows


def log_ranges(brokers: tuple[Broker, ...]) -> dict[str, Mapping[str, int]]:
    """Where each partition begins and ends, by `topic-partition`; without those of no leader."""
    ranges = {}
    with (
        Wire(VERSION, brokers[0].bootstrap) as first,
        Wire(VERSION, brokers[1].bootstrap) as second,
    ):
        for topic in first.call("Metadata", topics=[])["topics"]:
            for partition in topic["partitions"]:
                if topic["name"] in TOPICS and partition["leader_id"] in (1, 2):
                    wire = first if partition["leader_id"] == 1 else second
                    number = partition["partition_index"]
                    start, end = log_range(wire, topic["name"], number)
                    ranges[f"{topic['name']}-{number}"] = {"start": start, "end": end}
    return dict(sorted(ranges.items()))


def resets(recording: Recording) -> list[dict[str, Any]]:
    """Where `auto.offset.reset` sent consumers, says their log."""
    found = []
    for line in (recording.work / "consumers.log").read_text("utf-8").splitlines():
        told = _RESET.search(line)
        if told:
            offset, topic, partition, to = told.groups()
            found.append(
                {"topic": topic, "partition": int(partition), "offset": int(offset), "to": int(to)}
            )
    return found


def keep_tree(recording: Recording, zookeeper: KazooClient) -> None:
    nodes = read_tree(zookeeper)
    lines = ",\n".join(json.dumps(node, ensure_ascii=False) for node in nodes)
    (recording.kept / "tree.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
