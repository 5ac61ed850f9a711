"""A consumer of aiokafka; see `member` for what it is given and what it writes.

A script on its own: it runs without kgroup.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
}


async def run(member: dict[str, Any]) -> None:
    aiokafka: Any = import_module("aiokafka")
    assignors = [
        getattr(import_module("aiokafka.coordinator.assignors." + module), name)
        for module, name in map(ASSIGNORS.__getitem__, member["strategy"].split(","))
    ]
    settings = {"client_id": member["client_id"], "group_instance_id": member["instance_id"]}
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=member["bootstrap"],
        group_id=member["group"],
        partition_assignment_strategy=assignors,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=member["heartbeat_ms"],
        metadata_max_age_ms=member["refresh_ms"],
        **{key: value for key, value in settings.items() if value is not None},
    )
    if member["topics"][0].startswith("^"):
        consumer.subscribe(pattern=member["topics"][0])
    else:
        consumer.subscribe(member["topics"])
    await consumer.start()
    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    last = None
    while not end.done():
        await asyncio.sleep(0.05)
        now = sorted([at.topic, at.partition] for at in consumer.assignment())
        if now != last:
            print(json.dumps({"assignment": now}), flush=True)
            last = now
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
