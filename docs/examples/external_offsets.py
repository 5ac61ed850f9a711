"""Results and offsets in one transaction: no record is lost, none counts twice.

    python external_offsets.py localhost:9092 orders counts.db

Two processes consume a topic as one group and count its values in a table of SQLite. Each batch's
counts are committed together with the offset behind it, so a process that dies leaves both or
neither, and who gets its partitions goes on exactly there. The column `generation` keeps out a
process that was paused until others had taken over. Stop it with Ctrl-C; start it again at will.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import signal
import sys
import time

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from sqlalchemy import Connection, create_engine, text

from kgroup.source.sql import FencedError, OffsetStore, TableLayout
from kgroup.source.sql.store import SqlOffsetStore

GROUP = "counter"
LAYOUT = TableLayout(generation="generation")
COUNT = text(
    "INSERT INTO word_count (word, seen) VALUES (:word, 1) "
    "ON CONFLICT (word) DO UPDATE SET seen = seen + 1"
)


def prepare(file: str) -> None:
    """Make the tables, where there are none: offsets and results lie in one database."""
    SqlOffsetStore(file, LAYOUT).create_table()
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE IF NOT EXISTS word_count (word TEXT PRIMARY KEY, seen INTEGER)")
        )
    engine.dispose()


def consume(servers: str, topic: str, file: str, pause_s: float) -> None:
    """Count until SIGTERM; a pause between processing and storing is there to be killed in."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent then says SIGTERM
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 30})
    store = OffsetStore(engine, LAYOUT)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=GROUP,
        enable_auto_commit=False,  # the table tells where to go on
        auto_offset_reset="earliest",  # for partitions that it has nothing of
        session_timeout_ms=6000,
        max_poll_records=50,
    )
    listener = store.listener(consumer, GROUP)
    consumer.subscribe([topic], listener=listener)
    try:
        while True:
            for partition, records in consumer.poll(timeout_ms=500).items():
                behind = records[-1].offset + 1
                try:
                    with engine.begin() as connection:
                        count(connection, [record.value.decode() for record in records])
                        time.sleep(pause_s)
                        listener.save({partition: behind}, connection)
                except FencedError as error:
                    logging.warning("left to its new owner: %s", error)
                    continue
                tell_kafka(consumer, partition, behind)
    finally:
        consumer.close()


def count(connection: Connection, words: list[str]) -> None:
    """Process some records."""
    for word in words:
        connection.execute(COUNT, {"word": word})


def tell_kafka(consumer: KafkaConsumer, partition: TopicPartition, offset: int) -> None:
    """Commit to Kafka too, afterwards, which nothing depends on.

    So lag is seen, and Kafka keeps the group, whose generation would else begin at 1 again when
    it was empty for some minutes: `OffsetStore.forget_generations` is for that.
    """
    consumer.commit_async({partition: OffsetAndMetadata(offset, "", -1)})


def main() -> None:
    """Run two consumers until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Count the values of a topic, each once.")
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("file")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds before offsets are stored"
    )
    given = parser.parse_args()
    prepare(given.file)
    context = multiprocessing.get_context("spawn")
    arguments = (given.servers, given.topic, given.file, given.pause)
    children = [context.Process(target=consume, args=arguments) for _ in range(2)]
    for child in children:
        child.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(*(child.pid for child in children), flush=True)
    try:
        for child in children:
            child.join()
    except KeyboardInterrupt:
        pass
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.join()


if __name__ == "__main__":
    main()
