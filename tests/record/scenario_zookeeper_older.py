"""Groups of the high-level consumers before 0.8.2, whose nodes have older forms."""

from __future__ import annotations

import time

from tests.broker.old_consumers import Black, Streams, White
from tests.record.old_cluster import OldCluster, old_cluster
from tests.record.recording import Recording
from tests.record.scenario_zookeeper_groups import DOOMED, half_crashed, small_groups

TOPICS = {
    "orders": "1:2,2:1,1:2,2:1,1:2,2:1",
    "payments": "1,2,1",
    "shipments": "2:1,1:2,2:1,1:2",
    "returns": "3,1",
}
"""Brokers of each partition; 3 is stopped in the end, and nobody else has returns-0."""

GROUPS = ("audit", "billing", "nightly-report", "typo", "warehouse", "web")

AUTO_COMMIT_MS = 500


def record_older_zookeeper_groups(recording: Recording, version: str) -> None:
    """Let groups of each kind of subscription work, stop and crash."""
    recording.note(topics=TOPICS)
    with old_cluster(recording, version) as old:
        for topic, replicas in TOPICS.items():
            old.create_topic(topic, replicas)
        for topic in TOPICS:
            old.produce(topic, 10, rising=True)
        recording.did("topics, 10 + partition records in each partition")
        static_groups(recording, old)
        pattern_groups(recording, old)
        half_crashed(recording, old)
        old.produce("orders", 5)
        recording.did("5 more records in each partition of orders, which billing alone committed")
        old.stop_broker_3()
        recording.did("broker 3 stopped: returns-0 has no leader")
        time.sleep(3 * AUTO_COMMIT_MS / 1000)
        old.take_answers(GROUPS)
        old.consumers.crash(DOOMED)
        recording.did("web-2 crashed: its session had not expired when the tree was read")
        old.keep_tree()
        old.keep_snapshot()
        assert len(old.consumers.zookeeper.get_children("/consumers/web/ids")) == 2


def static_groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
    for name in ("billing-1", "billing-2"):
        consumers.join(
            name,
            "billing",
            Streams({"orders": 2, "payments": 1}),
            auto_commit_enable="true",
            auto_commit_interval_ms=str(AUTO_COMMIT_MS),
        )
    consumers.settle()
    consumers.read(75 + 33, "billing-1", "billing-2")
    recording.did("billing: 2 consumers, 2 streams of orders and 1 of payments, auto commit")
    small_groups(recording, old)


def pattern_groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
    regex = r"ship\w+,returns"
    consumers.join("warehouse-1", "warehouse", White(regex, 2))
    consumers.join("warehouse-2", "warehouse", White(regex, 1))
    consumers.settle()
    consumers.read(46 + 21, "warehouse-1", "warehouse-2")
    consumers.commit("warehouse-1", "warehouse-2")
    recording.did(f"warehouse: 2 consumers, white list {regex} with 2 and 1 streams, committed")
    consumers.join("audit-1", "audit", Black("returns|orders", 3))
    consumers.settle()
    consumers.read(33 + 46, "audit-1")
    consumers.commit("audit-1")
    recording.did("audit: black list returns|orders, 3 streams, committed")
