"""Kafka Streams on the classic protocol: protocol type "consumer", protocol "stream"."""

from __future__ import annotations

from tests.broker.maven import version_tuple
from tests.broker.servers import broker
from tests.record.classic import CLASSIC_CONFIG
from tests.record.clients import finish, java, make_topics, start_streams
from tests.record.recording import Recording

TOPICS = {"orders": 4, "order-totals": 2}


def record_streams(recording: Recording, version: str) -> None:
    """Two processes of one application with standby replicas; the second joins later."""
    mode = "ZooKeeper" if version_tuple(version) < (3,) else "KRaft"
    recording.note(broker=version, mode=mode, config=CLASSIC_CONFIG)
    with (
        broker(version, recording.work, config=CLASSIC_CONFIG) as server,
        java(recording, server, "Producers") as clients,
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
    ):
        make_topics(recording, server, clients, TOPICS)
        for number in (1, 2):
            start_streams(
                recording,
                apps,
                "order-totals-classic",
                f"totals-{number}",
                num_standby_replicas="1",
                num_stream_threads="2",
                acceptable_recovery_lag="0",
                probing_rebalance_interval_ms="60000",
            )
        recording.did(
            "order-totals-classic: two Kafka Streams processes of two threads each; topology "
            "orders -> group by value (repartition) -> count (state store, changelog) -> "
            "order-totals"
        )
        finish(recording, server)
