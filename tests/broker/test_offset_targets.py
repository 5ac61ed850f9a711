"""Groups of all kinds of clients as targets of plans: reset, deleted, brought back on brokers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import chain
from json import dumps
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.group import GroupType
from kgroup.model.offset import StoredOffset
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.plan import OffsetPlan, Result, carry_out
from kgroup.operation.offsets.reset import ResetTarget, ResetTo, plan_reset
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from kgroup.source.offset_file import OffsetFile
from tests.broker.group_tools import offsets_by_kafka
from tests.broker.live_groups import MODERN_CONFIG, start_streams
from tests.broker.servers import Broker, broker, cluster
from tests.cli import command_line
from tests.cli.command_line import Cli
from tests.contract.offset_store import essence
from tests.record.clients import java, join_java, make_topics, settle
from tests.record.raw import commit
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import until

VERSION = "4.3.1"
TOPICS = {"orders": 3, "payments": 2, "totals": 1}
NEW = {"group_protocol": "consumer"}
ENDS = {("orders", 0): 10, ("orders", 1): 11, ("orders", 2): 12}
"""`make_topics` writes 10 records to partition 0, 11 to 1, and so on."""
GROUPS = tuple(f"modern-{number}" for number in range(6))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Session]]:
    """One broker, and Java's clients beside it."""
    work = tmp_path_factory.mktemp("targets")
    recording = Recording("targets", work)
    with ExitStack() as stack:
        server = stack.enter_context(broker(VERSION, work, config=MODERN_CONFIG))
        clients = stack.enter_context(java(recording, server, "Consumers", "Producers"))
        make_topics(recording, server, clients, TOPICS)
        yield server, clients


def changed(store: LiveCluster, plan: OffsetPlan) -> None:
    """Carry out a plan of which everything can be."""
    report = carry_out(store, plan)
    assert report.errors == ()
    assert {row.result for row in report.data} <= {Result.DONE, Result.UNCHANGED}


def backup(plan: OffsetPlan, folder: Path) -> OffsetFile:
    """Save what was there, as `--execute` does."""
    path = folder / "backup.jsonl"
    path.write_text("".join(dumps(asdict(row)) + "\n" for row in plan.backup))
    return OffsetFile(path)


def offsets_of(store: LiveCluster, group_id: str) -> dict[tuple[str, int], int]:
    return essence(store.read_offsets([group_id]).offsets.get(group_id, ()))


def has_members(store: LiveCluster, group_ids: Collection[str]) -> bool:
    groups = store.read(group_ids, Question(offsets=False, log_budget=0)).image.groups
    return any(group.members for group in groups.values())


def test_a_streams_group(live: tuple[Broker, Session], tmp_path: Path) -> None:
    """Its input, and what it passes to itself, are left alone while it runs; then it is as others.

    Deleted and brought back it is a group that only commits; the program takes it over as it is.
    """
    server, _ = live
    recording = Recording("streams", tmp_path)
    with (
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
        LiveCluster(server.bootstrap, of_silence=True) as store,
    ):
        start_streams(apps, tmp_path)
        until(lambda: ENDS.items() <= offsets_of(store, "totals").items(), every_s=0.5)
        topics = {topic for topic, _ in offsets_of(store, "totals")}
        assert len(topics) == 2, "orders, and what is grouped anew by its values"
        plan = plan_deletion(store, ["totals"], topics=dict.fromkeys(topics))
        assert {row.result for row in plan.rows} == {Result.REFUSED}
        assert plan.is_empty
        assert plan_deletion(store, ["totals"]).is_empty
        reset = plan_reset(store, store, ["totals"], ResetTo(ResetTarget.EARLIEST))
        assert ({row.result for row in reset.rows}, reset.is_empty) == ({Result.REFUSED}, True)

        apps.call("streams-close", name="totals-1")
        until(lambda: not has_members(store, ["totals"]), every_s=0.5)
        before = offsets_of(store, "totals")
        changed(store, plan_reset(store, store, ["totals"], ResetTo(ResetTarget.OFFSET, 2)))
        with closing(KafkaConsumer(group_id="totals", **server.client_options)) as other:
            assert {other.committed(TopicPartition(*at)) for at in before} == {2}
        changed(store, plan_deletion(store, ["totals"], topics={"orders": None}))
        assert offsets_of(store, "totals").keys() == before.keys() - ENDS.keys()

        plan = plan_deletion(store, ["totals"])
        file = backup(plan, tmp_path)
        changed(store, plan)
        assert store.read(["totals"]).image.groups == {}
        changed(store, plan_transfer(file, store, store))
        assert offsets_of(store, "totals").keys() == before.keys() - ENDS.keys()
        start_streams(apps, tmp_path)
        until(lambda: ENDS.items() <= offsets_of(store, "totals").items(), every_s=0.5)
        group = store.read(["totals"], Question(log_budget=0)).image.groups["totals"]
        assert group.type is GroupType.STREAMS
        apps.call("streams-close", name="totals-1")


def test_a_consumer_of_kafka_python_goes_on_where_it_was_reset_to(
    live: tuple[Broker, Session],
) -> None:
    server, _ = live

    def first_offsets() -> dict[tuple[str, int], int]:
        """Join, and tell where reading begins."""
        consumer = KafkaConsumer(
            "orders",
            group_id="python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **server.client_options,
        )
        found: dict[tuple[str, int], int] = {}
        try:
            # Who joins before it knows the topic's partitions assigns none, and waits for minutes.
            until(lambda: len(consumer.partitions_for_topic("orders") or ()) == 3)
            until(lambda: consumer.poll(200) is not None and len(consumer.assignment()) == 3)
            for partition in range(3):
                found["orders", partition] = consumer.position(TopicPartition("orders", partition))
            consumer.commit()
        finally:
            consumer.close()
        return found

    first_offsets()
    with LiveCluster(server.bootstrap, of_silence=True) as store:
        until(lambda: not has_members(store, ["python"]))
        changed(store, plan_reset(store, store, ["python"], ResetTo(ResetTarget.LATEST)))
        assert offsets_of(store, "python") == ENDS
        assert first_offsets() == ENDS
        until(lambda: not has_members(store, ["python"]))
        changed(store, plan_deletion(store, ["python"]))
        assert offsets_of(store, "python") == {}


def test_a_consumer_of_librdkafka_goes_on_where_offsets_were_imported(
    live: tuple[Broker, Session], tmp_path: Path
) -> None:
    """By epochs of leaders too, which only some versions of OffsetCommit carry."""
    server, _ = live
    wanted = {0: 7, 1: 0, 2: 12}
    path = tmp_path / "plan.jsonl"
    rows = [
        StoredOffset("rdkafka", "orders", partition, offset, 0 if offset else None, "imported")
        for partition, offset in wanted.items()
    ]
    path.write_text("".join(dumps(asdict(row)) + "\n" for row in rows))
    with LiveCluster(server.bootstrap, of_silence=True) as store:
        changed(store, plan_transfer(OffsetFile(path), store, store))
        there = store.read_offsets(["rdkafka"]).offsets["rdkafka"]
        assert [(offset.leader_epoch, offset.metadata) for offset in there] == [
            (row.leader_epoch, row.metadata) for row in rows
        ]
    options = {"bootstrap.servers": server.bootstrap, "group.id": "rdkafka", "log_level": 0}
    with closing(Consumer(options | {"auto.offset.reset": "error"})) as consumer:
        consumer.subscribe(["orders"])
        read: dict[int | None, list[int | None]] = {0: [], 1: []}

        def is_read() -> bool:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None
                read[message.partition()].append(message.offset())
            return read == {0: list(range(7, 10)), 1: list(range(11))}

        until(is_read)


MIRRORED = {0: 5, 1: 4, 2: 9, 3: 1}
"""By partition, what "mirrored" has committed at the first cluster, whose logs have 10 records."""
MIRRORS = {0: range(3, 10), 1: [n for n in range(10) for _ in range(2)], 2: range(5), 3: range(2)}
"""By partition, the records of the second one, each as its number at the first: a mirror that
started later, one that wrote records twice, one that is behind, and one that has what was read."""


def test_a_copy_to_a_mirror(
    live: tuple[Broker, Session], orders_broker: Broker, cli: Cli, tmp_path: Path
) -> None:
    """By the times of records, which only the mirror's own broker can tell; and clamped."""
    first, second = live[0], orders_broker
    begin_ms = time.time_ns() // 1_000_000 - 3_600_000
    logs = ((first, dict.fromkeys(MIRRORS, range(10))), (second, MIRRORS))
    for server, records in logs:
        server.create_topic("mirrored", partitions=len(records))
        with closing(KafkaProducer(**server.client_options)) as producer:
            for partition, numbers in records.items():
                for number in numbers:
                    time_ms = begin_ms + 1000 * number
                    producer.send("mirrored", b"x", partition=partition, timestamp_ms=time_ms)
            producer.flush()
    with Wire(VERSION, first.bootstrap) as wire:
        commit(wire, "mirrored", {("mirrored", each): MIRRORED[each] for each in MIRRORED})
    with (
        closing(KafkaConsumer(**first.client_options)) as reader,
        closing(KafkaConsumer(**second.client_options)) as mirror,
    ):
        times = {}
        for partition, offset in MIRRORED.items():
            at = TopicPartition("mirrored", partition)
            reader.assign([at])
            reader.seek(at, offset)
            read = until(lambda: [*chain.from_iterable(reader.poll(200).values())])
            assert read[0].offset == offset
            times[at] = read[0].timestamp
        ends = mirror.end_offsets([*times])
        by_time = {
            at.partition: ends[at] if each is None else each.offset
            for at, each in mirror.offsets_for_times(times).items()
        }
    assert by_time == {0: 2, 1: 8, 2: 5, 3: 1}
    clamped = {at.partition: min(MIRRORED[at.partition], ends[at]) for at in ends}
    assert clamped == {0: 5, 1: 4, 2: 5, 3: 1}

    stores = [f"kafka:{server.bootstrap}" for server in (first, second)]

    def copy(group_id: str, *options: str) -> command_line.Result:
        backup = tmp_path / f"{group_id}.json"
        line = ("offsets", "copy", *stores, "--group", "mirrored", "--as", group_id, *options)
        return cli(*line, "--execute", "--backup", backup, "-o", "json")

    def written(group_id: str) -> dict[int, int]:
        return {partition: n for (_, partition), n in offsets_by_kafka(second, group_id).items()}

    refused = copy("refused")
    assert refused.status == ExitStatus.PARTLY
    assert "mirrored-2: Offset 9 is past the log end offset 5 of the partition there" in refused.err
    assert written("refused") == {0: 5, 1: 4, 3: 1}
    for option, wanted in (("--clamp", clamped), ("--by-time", by_time)):
        group_id = option.strip("-")
        done = copy(group_id, option)
        assert done.status == ExitStatus.DONE, done.err
        assert written(group_id) == wanted


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[Broker, ...], Session]]:
    """Three brokers, between which groups are divided."""
    work = tmp_path_factory.mktemp("three")
    recording = Recording("three", work)
    config = MODERN_CONFIG | {"offsets.topic.replication.factor": "3"}
    with ExitStack() as stack:
        servers = stack.enter_context(cluster(VERSION, 3, work, config=config))
        clients = stack.enter_context(java(recording, servers[0], "Consumers", "Producers"))
        make_topics(recording, servers[0], clients, TOPICS)
        yield servers, clients


def test_groups_of_the_consumer_protocol_on_several_brokers(
    three: tuple[tuple[Broker, ...], Session], tmp_path: Path
) -> None:
    (server, *_), clients = three
    for group_id in GROUPS:
        join_java(clients, group_id, f"{group_id}-1", "orders", **NEW)
        settle(clients, 3, f"{group_id}-1")
        clients.call("commit", name=f"{group_id}-1", offsets="orders:0:3,payments:1:4", metadata="")
    there = {("orders", 0): 3, ("payments", 1): 4}
    with LiveCluster(server.bootstrap, of_silence=True) as store:
        places = store.placements(GROUPS)
        assert len({place.coordinator for place in places.values()}) > 1
        plan = plan_deletion(store, GROUPS, topics={"orders": None, "payments": None})
        assert {(row.topic, row.result) for row in plan.rows} == {
            ("orders", Result.REFUSED),
            ("payments", Result.PLANNED),
        }
        report = carry_out(store, plan)
        assert {error.kind for error in report.errors} == {ProblemKind.ACTIVE}
        assert report.exit_status is ExitStatus.PARTLY
        for group_id in GROUPS:
            assert offsets_of(store, group_id) == {("orders", 0): 3}
            clients.call("leave", name=f"{group_id}-1")
        until(lambda: not has_members(store, GROUPS), every_s=0.5)

        # Undone, the deletion brings back what was there.
        changed(store, plan_transfer(backup(plan, tmp_path), store, store))
        assert all(offsets_of(store, group_id) == there for group_id in GROUPS)
        changed(store, plan_reset(store, store, GROUPS, ResetTo(ResetTarget.LATEST)))
        ends = {("orders", 0): 10, ("payments", 1): 11}
        assert all(offsets_by_kafka(server, group_id) == ends for group_id in GROUPS)
        changed(store, plan_deletion(store, GROUPS))
        assert store.read(GROUPS).image.groups == {}
