"""The sample's ZooKeeper: the same small shop some years ago, on Kafka 0.8.2.2."""

from __future__ import annotations

from tests.broker.old_consumers import Black, Streams, White
from tests.record.old_cluster import SHORT_LOG, OldCluster, old_cluster
from tests.record.recording import Recording

TOPICS = {
    "orders": "1:2,2:1,1:2,2:1,1:2",
    "payments": "2:1,1:2,2:1",
    "returns": "1,3",
    "clicks": "1",
}
"""Brokers of each partition; 3 is stopped in the end, and nobody else has returns-1."""

GROUPS = (
    "click-stats",
    "crm-export",
    "fraud-scan",
    "loyalty-points",
    "mail-archive",
    "price-feed",
    "returns-desk",
    "stock-sync",
)


def record_zookeeper_sample(recording: Recording) -> None:
    """Eight groups of each kind of subscription, strategy and storage; not all are well."""
    recording.note(topics=TOPICS)
    with old_cluster(recording) as old:
        for topic, replicas in TOPICS.items():
            old.create_topic(topic, replicas, **(SHORT_LOG if topic == "clicks" else {}))
        old.await_coordinator()
        for topic in TOPICS:
            old.produce(topic, 600 if topic == "clicks" else 10, rising=True)
        groups(recording, old)
        old.produce("orders", 3)
        old.stop_broker_3()
        recording.did("broker 3 stopped: returns-1 has no leader")
        old.take_answers(GROUPS)
        old.consumers.crash("doomed")
        recording.did("one consumer of returns-desk crashed: its session had not expired")
        old.keep_snapshot()
        assert len(old.consumers.zookeeper.get_children("/consumers/returns-desk/ids")) == 2


def groups(recording: Recording, old: OldCluster) -> None:
    consumers = old.consumers

    def join(group: str, number: int, subscription: Streams | White | Black, **config: str) -> str:
        """Start a consumer with the kind of id that it would have on a machine of the shop."""
        name = f"{group}-{number}"
        machine = f"{name}.shop.internal-{1763800000000 + number}-{number:x}7c0ffee"
        consumers.join(name, group, subscription, **{"consumer_id": machine} | config)
        return name

    for number in (1, 2):
        join("stock-sync", number, Streams({"orders": 2}))
    consumers.settle()
    consumers.read(60, "stock-sync-1", "stock-sync-2")
    consumers.commit("stock-sync-1", "stock-sync-2")
    recording.did("stock-sync: 2 consumers with 2 streams of orders each, range, committed")
    for number in (1, 2):
        join(
            "price-feed",
            number,
            Streams({"orders": 2, "payments": 2}),
            partition_assignment_strategy="roundrobin",
        )
    consumers.settle()
    consumers.read(93, "price-feed-1", "price-feed-2")
    consumers.commit("price-feed-1")
    recording.did("price-feed: roundrobin, 2 consumers, one of which committed")
    join("mail-archive", 1, White("orders,payments", 2))
    join("fraud-scan", 1, Black("clicks|returns", 1))
    consumers.settle()
    consumers.read(186, "mail-archive-1", "fraud-scan-1")
    consumers.commit("mail-archive-1", "fraud-scan-1")
    recording.did("mail-archive, fraud-scan: a white and a black list, committed")
    exporter = join("crm-export", 1, Streams({"payments": 1}))
    consumers.settle()
    consumers.read(33, exporter)
    consumers.commit(exporter)
    consumers.leave(exporter)
    recording.did("crm-export: committed and stopped")
    dual = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}
    join("loyalty-points", 1, Streams({"payments": 1}), **dual)
    consumers.settle()
    consumers.read(33, "loyalty-points-1")
    consumers.commit("loyalty-points-1")
    old.commit_to_kafka("loyalty-points", {("payments", 2): 4})
    recording.did("loyalty-points: dual commit, then payments-2 committed at 4 to Kafka alone")
    old.commit_to_zookeeper("click-stats", {("clicks", 0): 3})
    old.await_shortened("clicks")
    join("click-stats", 1, Streams({"clicks": 1}))
    recording.did("click-stats: committed before the start of clicks-0")
    join("returns-desk", 1, Streams({"returns": 1}))
    consumers.settle()
    consumers.read(21, "returns-desk-1")
    consumers.commit("returns-desk-1")
    join(
        "returns-desk",
        2,
        Streams({"returns": 1}),
        host="doomed",
        zookeeper_session_timeout_ms="60000",
    )
    consumers.settle()
    recording.did("returns-desk: 2 consumers with a stream of returns each")
