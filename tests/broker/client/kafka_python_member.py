"""A consumer of kafka-python; see `member` for what it is given and what it writes.

A script on its own: older versions run where there is no kgroup.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from threading import Event, Thread
from typing import Any

from kafka import KafkaConsumer

ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}


def run(member: dict[str, Any]) -> None:
    module, name = ASSIGNORS[member["strategy"]]
    assignor = getattr(import_module("kafka.coordinator.assignors." + module), name)
    settings = {
        "client_id": member["client_id"],
        "group_instance_id": member["instance_id"],
        "client_rack": member["rack"],
    }
    consumer = KafkaConsumer(
        bootstrap_servers=member["bootstrap"],
        group_id=member["group"],
        partition_assignment_strategy=[assignor],
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        metadata_max_age_ms=500,
        **{key: value for key, value in settings.items() if value is not None},
    )
    consumer.subscribe(member["topics"])
    is_told_to_stop = Event()

    def await_end() -> None:
        sys.stdin.read()
        is_told_to_stop.set()

    Thread(target=await_end, daemon=True).start()
    last = None
    while not is_told_to_stop.is_set():
        consumer.poll(timeout_ms=50)
        now = [[each.topic, each.partition] for each in sorted(consumer.assignment())]
        if now != last:
            print(json.dumps({"assignment": now}), flush=True)
            last = now
    consumer.close()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
