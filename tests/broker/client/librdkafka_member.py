"""A consumer of librdkafka; see `member` for what it is given and what it writes.

A script on its own: older versions run on older Pythons that have no kgroup.
"""

from __future__ import annotations

import json
import sys
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer


def run(member: dict[str, Any]) -> None:
    settings = {
        "bootstrap.servers": member["bootstrap"],
        "group.id": member["group"],
        "client.id": member["client_id"],
        "group.instance.id": member["instance_id"],
        "client.rack": member["rack"],
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": member["refresh_ms"],
        "log_level": 0,
    }
    protocol, _, assignor = (member["strategy"] or "").partition(":")
    if protocol == "consumer":
        settings |= {"group.protocol": protocol, "group.remote.assignor": assignor or None}
    else:
        settings["partition.assignment.strategy"] = member["strategy"]
        settings["heartbeat.interval.ms"] = member["heartbeat_ms"]
    consumer = Consumer({key: value for key, value in settings.items() if value is not None})
    consumer.subscribe(member["topics"])
    is_told_to_stop = Event()

    def await_end() -> None:
        sys.stdin.read()
        is_told_to_stop.set()

    Thread(target=await_end, daemon=True).start()
    last = None
    while not is_told_to_stop.is_set():
        consumer.poll(0.05)
        now = [[partition.topic, partition.partition] for partition in consumer.assignment()]
        if now != last:
            print(json.dumps({"assignment": now}), flush=True)
            last = now
    consumer.close()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
