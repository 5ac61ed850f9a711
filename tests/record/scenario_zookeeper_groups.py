"""Groups of the high-level consumer of 0.8.2.2, which live in ZooKeeper, and its tree."""

from __future__ import annotations

from tests.broker.old_consumers import Black, Streams, White
from tests.record.old_cluster import SHORT_LOG, OldCluster, old_cluster
from tests.record.recording import Recording

TOPICS = {
    "orders": "1:2,2:1,1:2,2:1,1:2,2:1",
    "payments": "1,2,1",
    "shipments": "2:1,1:2,2:1,1:2",
    "returns": "3,1",
    "clicks": "1",
}
"""Brokers of each partition; 3 is stopped in the end, and nobody else has returns-0."""

GROUPS = (
    "audit",
    "billing",
    "clickstream",
    "migrating",
    "nightly-report",
    "pricing",
    "typo",
    "warehouse",
    "web",
)

DOOMED = "doomed"
"""The host whose only consumer crashes just before the tree is read."""
DOOMED_SESSION_MS = 60_000


def record_zookeeper_groups(recording: Recording) -> None:
    """Let groups of each kind of subscription, strategy and storage work, stop and crash."""
    recording.note(topics=TOPICS)
    with old_cluster(recording) as old:
        make_topics(recording, old)
        static_groups(recording, old)
        pattern_groups(recording, old)
        stored_in_kafka(recording, old)
        out_of_range(recording, old)
        half_crashed(recording, old)
        old.produce("orders", 5)
        recording.did("5 more records in each partition of orders, which nobody committed")
        old.stop_broker_3()
        recording.did("broker 3 stopped: returns-0 has no leader")
        old.take_answers(GROUPS)
        old.consumers.crash(DOOMED)
        recording.did("web-2 crashed: its session had not expired when the tree was read")
        old.keep_tree()
        old.keep_snapshot()
        assert len(old.consumers.zookeeper.get_children("/consumers/web/ids")) == 2


def make_topics(recording: Recording, old: OldCluster) -> None:
    for topic, replicas in TOPICS.items():
        old.create_topic(topic, replicas, **(SHORT_LOG if topic == "clicks" else {}))
    old.await_coordinator()
    for topic in TOPICS:
        old.produce(topic, 600 if topic == "clicks" else 10, rising=True)
    recording.did(
        "topics, 10 + partition records in each partition; 600 in clicks, which keeps 8 KB"
    )


def static_groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
    both = Streams({"orders": 2, "payments": 1})
    for name in ("billing-1", "billing-2"):
        consumers.join(name, "billing", both)
    consumers.settle()
    consumers.read(75 + 33, "billing-1", "billing-2")
    consumers.commit("billing-1", "billing-2")
    recording.did("billing: 2 consumers, range, 2 streams of orders and 1 of payments, committed")
    for name in ("pricing-1", "pricing-2"):
        consumers.join(
            name,
            "pricing",
            Streams({"orders": 2, "payments": 2}),
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
    small_groups(recording, old)


def small_groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
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


def pattern_groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
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


def stored_in_kafka(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
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
    old.commit_to_kafka("migrating", {("shipments", 3): 4})
    recording.did(
        "migrating: 2 consumers, dual commit; then shipments-3 committed at 4 to Kafka alone"
    )


def out_of_range(recording: Recording, old: OldCluster) -> None:
    old.commit_to_zookeeper("clickstream", {("clicks", 0): 3, ("payments", 0): 1000})
    old.await_shortened("clicks")
    old.consumers.join("clickstream-1", "clickstream", Streams({"clicks": 1, "payments": 1}))
    old.consumers.settle()
    recording.did(
        "clickstream: commits to ZooKeeper before the start of clicks-0 and past the end of "
        "payments-0; then one consumer, auto.offset.reset=smallest, which commits nothing"
    )


def half_crashed(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers
    consumers.join("web-1", "web", Streams({"orders": 1}))
    consumers.settle()
    consumers.read(75, "web-1")
    consumers.commit("web-1")
    consumers.join(
        "web-2",
        "web",
        Streams({"orders": 2}),
        host=DOOMED,
        zookeeper_session_timeout_ms=str(DOOMED_SESSION_MS),
    )
    consumers.settle()
    recording.did("web: web-1 with 1 stream of orders, committed; then web-2 with 2")
