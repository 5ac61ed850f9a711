"""Tables of a live cluster, and of the segments that its broker wrote; and tables made by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.cli.main import status_of
from kgroup.history.build import Build, ClusterReport
from kgroup.history.live_source import ask_live
from kgroup.history.warehouse import write_warehouse
from kgroup.source.client_config import client_config
from kgroup.source.log_folder import read_topic_names
from tests.broker.servers import CLUSTER_ID, Broker, broker
from tests.history.log_copy import read_log
from tests.history.table_oracle import differences, expected_tables, read_tables
from tests.history.test_build import SAMPLE, build
from tests.record.raw import await_coordinator, commit, create_topics
from tests.record.wire import Wire

pytestmark = pytest.mark.broker

VERSION = "4.3.1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(VERSION, tmp_path_factory.mktemp("build")) as found:
        with Wire(VERSION, found.bootstrap) as wire:
            create_topics(wire, {"orders": 3})
            await_coordinator(wire)
        yield found


def commits(server: Broker, offsets: range) -> None:
    with Wire(VERSION, server.bootstrap) as wire:
        for number in offsets:
            commit(wire, f"group-{number % 9}", {("orders", number % 3): number})


def build_live(root: Path, server: Broker) -> ClusterReport:
    config = client_config(environment={}, bootstrap_server=server.bootstrap)
    with write_warehouse(root) as writer:
        made = Build(writer)
        made.read_live(ask_live(config))
        (report,) = made.commit().data
        return report


def fates(root: Path) -> list[str | None]:
    return [row["transaction"] for row in read_tables(root, CLUSTER_ID)["offset_commits"]]


def test_the_live_topic_bit_by_bit(server: Broker, tmp_path: Path) -> None:
    root = tmp_path / "w"
    commits(server, range(50))
    with closing(
        KafkaProducer(bootstrap_servers=server.bootstrap, transactional_id="payer")
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        at = {TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)}
        producer.send_offsets_to_transaction(at, "paid")
        first = build_live(root, server)
        assert first.segments_read > 0
        assert fates(root).count("open") == 1
        producer.commit_transaction()
    commits(server, range(50, 80))
    second = build_live(root, server)
    assert 0 < second.segments_read <= first.segments_read
    assert fates(root).count("open") == 0
    assert fates(root).count("committed") == 1
    third = build_live(root, server)
    assert (third.segments_read, third.damage) == (0, 0)

    found = read_tables(root, CLUSTER_ID)
    assert len(found["offset_commits"]) == 81
    expected = expected_tables(read_log(server.log_dir), read_topic_names([server.log_dir]))
    assert differences(found, expected) == []
    # what the segments have is known by now
    (again,) = build(root, server.log_dir, cluster=CLUSTER_ID).data
    assert [table.new_rows for table in again.tables] == [0] * len(again.tables)
    assert read_tables(root, CLUSTER_ID) == found


def test_spark_makes_the_same_tables(tmp_path: Path) -> None:
    build(tmp_path / "here", SAMPLE)
    args = ["--from", str(SAMPLE), "--cluster", "c", "--master", "local[2]"]
    conf = ["--spark-conf", "spark.ui.enabled=false"]
    for _ in range(2):
        assert status_of(["history", "build", "--to", str(tmp_path / "w"), *args, *conf]) == 0
        assert read_tables(tmp_path / "w", "c") == read_tables(tmp_path / "here", "c")
