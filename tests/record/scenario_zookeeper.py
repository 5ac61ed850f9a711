"""Kafka 0.8.2: offsets in Kafka, membership in ZooKeeper; no group is in the log, only commits."""

from __future__ import annotations

import time

from tests.broker.servers import Broker, broker
from tests.record.clients import finish, java, make_topics
from tests.record.raw import await_expired, commit
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

VERSION = "0.8.2.2"

TOPICS = {"orders": 6, "payments": 3}

NO_TOPIC = "тема:\n🛒"
"""A commit's topic need not exist in 0.8."""

ODD_COMMITS = (
    ("", "committed by the group without a name"),
    ("группа-заказов", "¡заказ № 1!"),
    ("emoji-🛒-𝄞", "🛒"),
    ("two\nlines", "first\nsecond"),
    ('colon:and,comma"quote\\backslash', 'a:b,c"d\\e'),
    ("metadata-long", "Ω" * 2000),
)
"""Group and metadata."""

GROUPS = (
    "orders-dual-commit",
    "payments-kafka",
    "payments-zookeeper",
    "raw-version-0",
    "raw-version-1",
    "raw-many",
    "no-such-topic",
    "expired-offsets",
    *(group for group, _ in ODD_COMMITS),
)


def record_0_8_2_2(recording: Recording, codec: int, name: str) -> None:
    """Record commits of high-level consumers and raw ones; `codec` as in the broker's options."""
    config = {"offsets.topic.num.partitions": "4", "offsets.topic.compression.codec": str(codec)}
    recording.note(broker=VERSION, mode="ZooKeeper", codec=name, config=config)
    with (
        broker(VERSION, recording.work, config=config) as server,
        java(recording, server, "OldConsumers", "Producers") as clients,
    ):
        make_topics(recording, server, clients, TOPICS)
        high_level_consumers(recording, server, clients)
        raw_commits(recording, server)
        if name == "none":
            expired_commits(recording, server)
        finish(recording, server, partitions=TOPICS | {NO_TOPIC: 3, "none": 1}, more_groups=GROUPS)


def high_level_consumers(recording: Recording, server: Broker, clients: Session) -> None:
    """Consumers of `kafka.consumer.ConsumerConnector`, with each kind of offset storage."""
    assert server.zookeeper is not None
    for group, topic, members, records, storage, dual, strategy in [
        ("orders-dual-commit", "orders", 2, 75, "kafka", "true", "range"),
        ("payments-kafka", "payments", 1, 33, "kafka", "false", "roundrobin"),
        ("payments-zookeeper", "payments", 1, 33, "zookeeper", "false", "range"),
    ]:
        names = [f"{group}-{number}" for number in range(1, members + 1)]
        for name in names:
            config = {
                "zookeeper.connect": server.zookeeper.connect,
                "group.id": group,
                "client.id": name,
                "consumer.id": name,
                "offsets.storage": storage,
                "dual.commit.enabled": dual,
                "auto.commit.enable": "false",
                "auto.offset.reset": "smallest",
                "partition.assignment.strategy": strategy,
            }
            clients.call("old-join", name=name, streams=f"{topic}:2", config=config)
        clients.call("old-read", names=",".join(names), count=records)
        time.sleep(1)
        for name in names:
            clients.call("old-commit", name=name)
        recording.did(
            f"{group}: {members} high-level consumers, {strategy}, offsets.storage={storage}, "
            f"dual.commit.enabled={dual}, read {topic} to its end and committed"
        )


def raw_commits(recording: Recording, server: Broker) -> None:
    """Commits by request, version 0 (to ZooKeeper) and 1 (to Kafka)."""
    with Wire(VERSION, server.bootstrap) as wire:
        commit(wire, "raw-version-0", {("orders", 0): 3}, version=0, metadata="zookeeper")
        recording.did("raw-version-0: OffsetCommit v0, which this broker keeps in ZooKeeper")
        commit(wire, "raw-version-1", {("orders", 0): 3}, metadata="v1", commit_timestamp=-1)
        commit(wire, "no-such-topic", {("none", 0): 1, (NO_TOPIC, 2): 5}, commit_timestamp=-1)
        for group, metadata in ODD_COMMITS:
            commit(wire, group, {("orders", 0): 8}, metadata=metadata, commit_timestamp=-1)
        recording.did("commits of odd groups, topics and metadata: empty, unicode, long")
        for offset in (5, 6):
            many = {("orders", partition): offset for partition in range(6)}
            commit(wire, "raw-many", many, metadata="six at once", commit_timestamp=-1)
        recording.did("raw-many: six offsets in one request, twice")


def expired_commits(recording: Recording, server: Broker) -> None:
    """Tombstones: this version looks for expired offsets every ten minutes, whatever is set."""
    two_days_ago = int(time.time() * 1000) - 2 * 24 * 3600 * 1000
    offsets = {("orders", 0): 3, ("payments", 1): 4}
    with Wire(VERSION, server.bootstrap) as wire:
        commit(wire, "expired-offsets", offsets, commit_timestamp=two_days_ago)
        await_expired(wire, "expired-offsets", "orders", 0, seconds=660)
    recording.did("expired-offsets: committed with a timestamp two days old, now tombstones")
