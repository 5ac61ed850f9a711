"""Groups of all kinds of clients as targets of plans: reset, deleted, brought back on brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from json import dumps
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, TopicPartition

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.group import GroupType
from kgroup.model.offset import StoredOffset
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.plan import OffsetPlan, Result, carry_out
from kgroup.operation.offsets.reset import Goal, ResetTo, plan_reset
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.source.base import Question
from kgroup.source.broker.source import Cluster
from kgroup.source.offset_file import OffsetFile
from tests.broker.group_tools import offsets_by_kafka
from tests.broker.live_groups import MODERN_CONFIG, start_streams
from tests.broker.servers import Broker, broker, cluster
from tests.contract.offset_store import essence
from tests.record.clients import java, join_java, make_topics, settle
from tests.record.recording import Recording
from tests.record.session import Session
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


def changed(store: Cluster, plan: OffsetPlan) -> None:
    """Carry out a plan of which everything can be."""
    report = carry_out(store, plan)
    assert report.errors == ()
    assert {row.result for row in report.data} <= {Result.DONE, Result.UNCHANGED}


def backup(plan: OffsetPlan, folder: Path) -> OffsetFile:
    """Save what was there, as `--execute` does."""
    path = folder / "backup.jsonl"
    path.write_text("".join(dumps(asdict(row)) + "\n" for row in plan.backup))
    return OffsetFile(path)


def offsets_of(store: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    return essence(store.read_offsets([group_id]).offsets.get(group_id, ()))


def has_members(store: Cluster, group_ids: Collection[str]) -> bool:
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
        Cluster(server.bootstrap, of_silence=True) as store,
    ):
        start_streams(apps, tmp_path)
        until(lambda: ENDS.items() <= offsets_of(store, "totals").items(), every_s=0.5)
        topics = {topic for topic, _ in offsets_of(store, "totals")}
        assert len(topics) == 2, "orders, and what is grouped anew by its values"
        plan = plan_deletion(store, ["totals"], topics=dict.fromkeys(topics))
        assert {row.result for row in plan.rows} == {Result.REFUSED}
        assert plan.is_empty
        assert plan_deletion(store, ["totals"]).is_empty
        reset = plan_reset(store, store, ["totals"], ResetTo(Goal.EARLIEST))
        assert ({row.result for row in reset.rows}, reset.is_empty) == ({Result.REFUSED}, True)

        apps.call("streams-close", name="totals-1")
        until(lambda: not has_members(store, ["totals"]), every_s=0.5)
        before = offsets_of(store, "totals")
        changed(store, plan_reset(store, store, ["totals"], ResetTo(Goal.OFFSET, 2)))
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
            assert len(consumer.partitions_for_topic("orders") or ()) == 3
            until(lambda: consumer.poll(200) is not None and len(consumer.assignment()) == 3)
            for partition in range(3):
                found["orders", partition] = consumer.position(TopicPartition("orders", partition))
            consumer.commit()
        finally:
            consumer.close()
        return found

    first_offsets()
    with Cluster(server.bootstrap, of_silence=True) as store:
        until(lambda: not has_members(store, ["python"]))
        changed(store, plan_reset(store, store, ["python"], ResetTo(Goal.LATEST)))
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
    with Cluster(server.bootstrap, of_silence=True) as store:
        changed(store, plan_transfer(OffsetFile(path), store, store))
        there = store.read_offsets(["rdkafka"]).offsets["rdkafka"]
        assert [(each.leader_epoch, each.metadata) for each in there] == [
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
    with Cluster(server.bootstrap, of_silence=True) as store:
        places = store.placements(GROUPS)
        assert len({place.coordinator for place in places.values()}) > 1
        plan = plan_deletion(store, GROUPS, topics={"orders": None, "payments": None})
        assert {(row.topic, row.result) for row in plan.rows} == {
            ("orders", Result.REFUSED),
            ("payments", Result.PLANNED),
        }
        report = carry_out(store, plan)
        assert {each.kind for each in report.errors} == {ProblemKind.ACTIVE}
        assert report.exit_status is ExitStatus.PARTLY
        for group_id in GROUPS:
            assert offsets_of(store, group_id) == {("orders", 0): 3}
            clients.call("leave", name=f"{group_id}-1")
        until(lambda: not has_members(store, GROUPS), every_s=0.5)

        # Undone, the deletion brings back what was there.
        changed(store, plan_transfer(backup(plan, tmp_path), store, store))
        assert all(offsets_of(store, group_id) == there for group_id in GROUPS)
        changed(store, plan_reset(store, store, GROUPS, ResetTo(Goal.LATEST)))
        ends = {("orders", 0): 10, ("payments", 1): 11}
        assert all(offsets_by_kafka(server, group_id) == ends for group_id in GROUPS)
        changed(store, plan_deletion(store, GROUPS))
        assert store.read(GROUPS).image.groups == {}
