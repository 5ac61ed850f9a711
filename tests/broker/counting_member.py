"""A program that counts numbers into a database, and keeps its offsets in one of three ways.

    python -m tests.broker.counting_member SERVERS TOPIC GROUP URL NAME kafka|both|external

Each number that is processed is a row, so that one is counted twice where there are two. It ends in
order on SIGTERM.
"""

from __future__ import annotations

import signal
import sys

from kafka import KafkaConsumer, OffsetAndMetadata
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from sqlalchemy import Engine, create_engine, text

from kgroup.source.sql import FencedError, OffsetStore, TableLayout
from tests.waiting import until

LAYOUT = TableLayout(generation="generation")
_LONGER_THAN_A_REBALANCE_MS = 30_000
"""kafka-python 3.0.12 loses a rebalance during which poll() ends, where the leader began it because
its topics are not those that it assigned: it owns what it had, sends no heartbeats and commits
nothing. poll() ends with the first record, so that it does not wait so long."""
_COUNT = text("INSERT INTO counted (number, member) VALUES (:number, :member)")


def prepare(url: str) -> Engine:
    """Make the table of results, and give the database."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE counted (number INTEGER, member TEXT)"))
    return engine


def count(servers: str, topic: str, group: str, url: str, name: str, way: str) -> None:
    """Count until SIGTERM."""
    is_stopped = False

    def stop(*_: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    engine = create_engine(url, connect_args={"timeout": 30} if "sqlite" in url else {})
    admin = KafkaAdminClient(bootstrap_servers=servers)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        client_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
        heartbeat_interval_ms=500,
        max_poll_records=20,
    )
    listener = None
    if way != "kafka":
        committed = (lambda _: admin.list_group_offsets(group)[group]) if way == "both" else None
        listener = OffsetStore(engine, LAYOUT).listener(consumer, group, committed=committed)
    # Who joins before it knows the topic's partitions assigns none, and waits for minutes.
    until(lambda: consumer.partitions_for_topic(topic))
    consumer.subscribe([topic], listener=listener)
    known: set[object] = set()
    while not is_stopped:
        polled = consumer.poll(timeout_ms=_LONGER_THAN_A_REBALANCE_MS)
        if way == "both":  # also of partitions that get no records
            new = {
                each: polled[each][0].offset if each in polled else consumer.position(each)
                for each in consumer.assignment() - known
            }
            known = consumer.assignment()
            consumer.commit({each: OffsetAndMetadata(at, "", -1) for each, at in new.items()})
        for partition, records in polled.items():
            behind = records[-1].offset + 1
            try:
                with engine.begin() as connection:
                    for record in records:
                        values = {"number": int(record.value), "member": f"{name} {way}"}
                        connection.execute(_COUNT, values)
                    if listener is not None:
                        listener.save({partition: behind}, connection)
            except FencedError:
                continue  # left to its new owner
            if way != "external":
                consumer.commit({partition: OffsetAndMetadata(behind, "", -1)})
    consumer.close()
    admin.close()


if __name__ == "__main__":
    count(*sys.argv[1:])
