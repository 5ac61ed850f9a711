"""A broker with many groups, to ask: each has committed every partition of one topic.

    python -m bench.cluster FOLDER GROUPS PARTITIONS

A process of its own, so that the one that measures others stays small: Linux counts the memory of
a process from before the program that it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.protocol.consumer.group import OffsetCommitRequest

from bench.live import group_id
from bench.measure import KAFKA
from kgroup.errors import BrokerError
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import find_coordinators
from kgroup.source.deadline import Deadline
from tests.broker.process import running
from tests.broker.servers import Broker

TOPICS = 10
_BY_TOPIC_NAME = 9
_NO_COORDINATOR_YET = frozenset({14, 15, 16})
JVM = (
    "-server",
    "-XX:TieredStopAtLevel=4",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
"""What kafka-server-start.sh gives brokers, with 1 GB of heap; tests give them less."""


def main() -> None:
    """Run it in a folder, print its address, and end with standard input.

    Its defaults are Kafka's, apart from one replica.
    """
    config = {"offsets.topic.num.partitions": "50"}
    groups, partitions = map(int, sys.argv[2:])
    server = Broker(KAFKA, Path(sys.argv[1]), config=config)
    server.heap, server.jvm = "1g", JVM
    with running(server):
        _write_records(server, partitions)
        with BrokerClient(server.bootstrap, Deadline(60, of_silence=True)) as client:
            client.run(_commit_all, client, groups, partitions)
        print(server.bootstrap, flush=True)
        sys.stdin.read()


def _topic(number: int) -> str:
    return f"orders-{number % TOPICS}"


def _write_records(server: Broker, partitions: int) -> None:
    admin = KafkaAdminClient(**server.client_options)
    admin.create_topics([NewTopic(_topic(each), partitions, 1) for each in range(TOPICS)])
    admin.close()
    producer = KafkaProducer(**server.client_options)
    for each in range(TOPICS):
        for partition in range(partitions):
            for _ in range(10):
                producer.send(_topic(each), b"record", partition=partition)
    producer.close()


async def _commit_all(client: BrokerClient, groups: int, partitions: int) -> None:
    await client.connect()
    view = await client.metadata([])
    (node,) = view.brokers
    await _commit(client, node, 0, partitions)  # which makes __consumer_offsets
    rest = (_commit(client, node, number, partitions) for number in range(1, groups))
    for answer in await client.gather(rest):
        if isinstance(answer, BrokerError):
            raise answer


async def _commit(client: BrokerClient, node: int, number: int, partitions: int) -> None:
    """Commit as an administrator does, without being a member."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    version = await client.version(node, OffsetCommitRequest, _BY_TOPIC_NAME)
    while True:
        answer = await client.ask(
            node,
            OffsetCommitRequest,
            highest=_BY_TOPIC_NAME,
            group_id=group_id(number),
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                topic(
                    version=version,
                    name=_topic(number),
                    partitions=[
                        partition(
                            version=version,
                            partition_index=each,
                            committed_offset=(number + each) % 10,
                            committed_leader_epoch=0,
                            committed_metadata="",
                        )
                        for each in range(partitions)
                    ],
                )
            ],
        )
        codes = {each.error_code for topic_ in answer.topics for each in topic_.partitions}
        if codes == {0}:
            return
        if not codes <= _NO_COORDINATOR_YET:
            raise SystemExit(f"the broker refuses a commit: {codes}")
        await find_coordinators(client, [group_id(number)])
        await client.sleep(0.2)


if __name__ == "__main__":
    main()
