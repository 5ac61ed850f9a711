"""Tables of a live cluster, and of the segments that its broker wrote; and tables made by Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.cli.main import status_of
from kgroup.history.build.build import Build, ClusterReport
from kgroup.history.input.live_source import ask_live
from kgroup.history.warehouse.warehouse import write_warehouse
from kgroup.source.config.client_config import client_config
from kgroup.source.log.folder import read_topic_names
from tests.broker.servers import CLUSTER_ID, Broker
from tests.history.builds import SAMPLE, build
from tests.history.log_copy import read_log
from tests.history.table_oracle import differences, expected_tables, read_tables
from tests.record.raw import commit_each


def commits(server: Broker, offsets: range) -> None:
    for number in range(9):
        commit_each(server.version, server.bootstrap, f"build-{number}", offsets[number::9])


def build_live(root: Path, server: Broker) -> ClusterReport:
    config = client_config(environment={}, bootstrap_server=server.bootstrap)
    with write_warehouse(root) as writer:
        made = Build(writer)
        made.read_live(ask_live(config))
        (report,) = made.commit().data
        return report


def statuses(root: Path) -> list[str | None]:
    rows = read_tables(root, CLUSTER_ID)["offset_commits"]
    return [row["transaction"] for row in rows if row["group_id"] == "paid"]


def test_the_live_topic_bit_by_bit(orders_broker: Broker, tmp_path: Path) -> None:
    root = tmp_path / "w"
    commits(orders_broker, range(50))
    with closing(
        KafkaProducer(
            bootstrap_servers=orders_broker.bootstrap,
            transactional_id="payer",
            transaction_timeout_ms=600_000,
        )
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        at = {TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)}
        producer.send_offsets_to_transaction(at, "paid")
        first = build_live(root, orders_broker)
        assert first.segments_read > 0
        assert statuses(root) == ["open"]
        producer.commit_transaction()
    commits(orders_broker, range(50, 80))
    second = build_live(root, orders_broker)
    assert 0 < second.segments_read <= first.segments_read
    assert statuses(root) == ["committed"]
    third = build_live(root, orders_broker)
    assert (third.segments_read, third.damage_count) == (0, 0)

    tables = read_tables(root, CLUSTER_ID)
    groups = [row["group_id"] for row in tables["offset_commits"]]
    assert sum(group.startswith("build-") for group in groups) == 80
    log_dir = orders_broker.log_dir
    expected = expected_tables(read_log(log_dir), read_topic_names([log_dir]))
    assert differences(tables, expected) == []
    # what the segments have is known by now
    (again,) = build(root, log_dir, cluster=CLUSTER_ID).data
    assert [table.new_row_count for table in again.tables] == [0] * len(again.tables)
    assert read_tables(root, CLUSTER_ID) == tables


def test_spark_makes_the_same_tables(tmp_path: Path) -> None:
    build(tmp_path / "here", SAMPLE)
    args = ["--from", str(SAMPLE), "--cluster", "c", "--master", "local[2]"]
    conf = ["--spark-conf", "spark.ui.enabled=false"]
    for _ in range(2):
        assert status_of(["history", "build", "--to", str(tmp_path / "w"), *args, *conf]) == 0
        assert read_tables(tmp_path / "w", "c") == read_tables(tmp_path / "here", "c")
