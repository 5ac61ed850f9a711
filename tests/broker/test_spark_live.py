"""The live topic as rows of Spark: what is there, and what comes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.broker.servers import CLUSTER_ID, Broker
from tests.record.raw import commit_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def commits(server: Broker, group: str, offsets: range) -> None:
    commit_each(server.version, server.bootstrap, group, offsets)


def committed(rows: list[Any], group: str) -> list[int]:
    return [row["committed_offset"] for row in rows if row["group"] == group]


def test_a_batch_reads_to_the_present_end(spark: SparkSession, orders_broker: Broker) -> None:
    commits(orders_broker, "batch", range(5))
    reader = spark.read.format("kgroup").option("kafka.bootstrap.servers", orders_broker.bootstrap)
    rows = reader.load().orderBy("partition", "offset").collect()
    assert committed(rows, "batch") == list(range(5))
    assert {row["cluster"] for row in rows} == {CLUSTER_ID}


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, orders_broker: Broker, tmp_path: Path
) -> None:
    batches: list[list[int]] = []

    def run() -> None:
        reader = spark.readStream.format("kgroup").option(
            "kafka.bootstrap.servers", orders_broker.bootstrap
        )
        query = (
            reader.load()
            .writeStream.foreachBatch(
                lambda rows, _: batches.append(
                    committed(rows.orderBy("partition", "offset").collect(), "stream")
                )
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    commits(orders_broker, "stream", range(4))
    run()
    commits(orders_broker, "stream", range(4, 6))
    run()
    run()
    assert [batch for batch in batches if batch] == [[0, 1, 2, 3], [4, 5]]


def test_a_stream_can_begin_at_the_end(
    spark: SparkSession, orders_broker: Broker, tmp_path: Path
) -> None:
    found: list[int] = []
    commits(orders_broker, "late", range(3))
    reader = spark.readStream.format("kgroup").option("startingOffsets", "latest")
    query = (
        reader.option("kafka.bootstrap.servers", orders_broker.bootstrap)
        .load()
        .writeStream.foreachBatch(
            lambda rows, _: found.extend(
                committed(rows.orderBy("partition", "offset").collect(), "late")
            )
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        query.processAllAvailable()  # it has begun, and there is nothing yet
        assert found == []
        commits(orders_broker, "late", range(3, 5))
        query.processAllAvailable()
    finally:
        query.stop()
    assert found == [3, 4]
