"""A consumer of kafka-python; see `member` for what it is given and what it writes.

A script on its own: older versions run where there is no kgroup.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from threading import Thread
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer

ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}


class _Teller(ConsumerRebalanceListener):  # type: ignore[misc]
    """Says what a consumer owns whenever it is told that this changes: before it gives up, too."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: object) -> None:
        self._tell()

    def on_partitions_assigned(self, assigned: object) -> None:
        self._tell()

    def _tell(self) -> None:
        owned = sorted(self._consumer.assignment())
        now = [[each.topic, each.partition] for each in owned]
        print(json.dumps({"assignment": now}), flush=True)


def run(member: dict[str, Any]) -> None:
    assignors = [
        getattr(import_module("kafka.coordinator.assignors." + module), name)
        for module, name in map(ASSIGNORS.__getitem__, member["strategy"].split(","))
    ]
    settings = {
        "client_id": member["client_id"],
        "group_instance_id": member["instance_id"],
        "client_rack": member["rack"],
    }
    consumer = KafkaConsumer(
        bootstrap_servers=member["bootstrap"],
        group_id=member["group"],
        partition_assignment_strategy=assignors,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=member["heartbeat_ms"],
        metadata_max_age_ms=member["refresh_ms"],
        **{key: value for key, value in settings.items() if value is not None},
    )
    topics = member["topics"]
    by = {"pattern": topics[0]} if topics[0].startswith("^") else {"topics": topics}
    consumer.subscribe(**by, listener=_Teller(consumer))

    def await_end() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGINT)

    # Who starts this in the background may have had SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Thread(target=await_end, daemon=True).start()
    try:
        while True:
            # Seldom over while the group rebalances, which version 3.0.12 may lose then. Without a
            # timeout, a member does not rejoin that owns partitions of a deleted topic.
            consumer.poll(timeout_ms=20_000)
    except KeyboardInterrupt:
        consumer.close()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
