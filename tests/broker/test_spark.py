"""Spark, embedded: the data source `kgroup`, and tasks of ours in its executors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, In, StringContains
from pyspark.sql.types import StructType

from kgroup.columnar.segment import decode_chunks
from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.spark.data_source import KgroupDataSource
from kgroup.spark.session import run_on
from tests.history.recorded import log_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "kgroup" / "sample" / "log-dir"


def test_rows_are_the_decoded_records(spark: SparkSession) -> None:
    rows = spark.read.format("kgroup").load(str(SAMPLE)).collect()
    expected: list[dict[str, Any]] = []
    for path in sorted(SAMPLE.glob("__consumer_offsets-*/*.log")):
        number = int(path.parent.name.rpartition("-")[2])
        for part in decode_chunks(path, partition=number, compiled=False):
            assert isinstance(part, pa.RecordBatch)
            expected += part.to_pylist()
    cluster = "sample"
    for line in (SAMPLE / "meta.properties").read_text().splitlines():
        if line.startswith("cluster.id="):
            cluster = line.removeprefix("cluster.id=")
    found = [row.asDict() for row in rows]
    assert {row.pop("cluster") for row in found} == {cluster}
    key = lambda row: (row["partition"], row["offset"])  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)
    assert len(found) > 100


FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "partition = 1": lambda row: row["partition"] == 1,
    "`group` = 'order-service' AND offset >= 20": lambda row: (
        row["group"] == "order-service" and row["offset"] >= 20
    ),
    "type IN ('OffsetCommit', 'GroupMetadata') AND topic_partition < 2": lambda row: (
        row["topic_partition"] in (0, 1) and row["type"] in ("OffsetCommit", "GroupMetadata")
    ),
    "partition > 0 AND partition <= 3 AND producer_id IS NOT NULL": lambda row: (
        0 < row["partition"] <= 3 and row["producer_id"] is not None
    ),
    "cluster = 'other'": lambda row: False,
    "`group` LIKE '%service' OR offset = 3": lambda row: (
        (row["group"] or "").endswith("service") or row["offset"] == 3
    ),
}
"""SQL conditions, and the rows that they keep."""


@pytest.mark.parametrize("condition", FILTERS)
def test_filters_are_pushed(spark: SparkSession, condition: str) -> None:
    every = [row.asDict() for row in spark.read.format("kgroup").load(str(SAMPLE)).collect()]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushing = spark.read.format("kgroup").option("pushFilters", "true").load(str(SAMPLE))
        found = [row.asDict() for row in pushing.where(condition).collect()]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    key = lambda row: (row["partition"], row["offset"])  # noqa: E731
    assert sorted(found, key=key) == sorted(filter(FILTERS[condition], every), key=key)


def test_tasks_drop_what_filters_drop() -> None:
    options = {"path": str(SAMPLE), "pushFilters": "true"}
    every = KgroupDataSource({"path": str(SAMPLE)}).reader(StructType()).partitions()
    reader = KgroupDataSource(options).reader(StructType())
    filters = [EqualTo(("partition",), 1), In(("group",), ("order-service", "ledger"))]
    other = StringContains(("topic",), "o")
    assert reader.pushFilters([*filters, other]) == [*filters, other]
    splits = reader.partitions()
    assert {split.value.offsets_partition for split in splits} == {1}
    assert 0 < len(splits) < len(every)
    plain = KgroupDataSource({"path": str(SAMPLE)}).reader(StructType())

    def rows(reading: DataSourceReader) -> list[dict[str, Any]]:
        batches = [batch for split in splits for batch in reading.read(split)]
        return [row for batch in batches for row in batch.to_pylist()]

    expected = [row for row in rows(plain) if row["group"] in ("order-service", "ledger")]
    assert rows(reader) == expected


def test_damage_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    good = next(SAMPLE.glob("__consumer_offsets-1/*.log")).read_bytes()
    (folder / f"{0:020}.log").write_bytes(good[:-3])
    (folder / f"{1000:020}.log").write_bytes(good)
    reader = spark.read.format("kgroup").option("cluster", "eu")
    rows = reader.load([str(tmp_path)]).collect()
    [damage] = [row for row in rows if row["type"] == "Damage"]
    assert damage["partition"] == 5
    assert damage["offset"] is None
    assert '"kind"' in damage["value_json"]
    assert f"{0:020}.log" in damage["value_json"]
    assert len(rows) > 10


def test_the_cluster_must_be_known(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(Exception, match=r"expected a meta\.properties with a cluster\.id"):
        spark.read.format("kgroup").load(str(tmp_path)).collect()


@pytest.mark.parametrize(
    ("options", "is_stream", "reason"),
    [
        ({"pth": "/logs"}, False, "pth: no option of files; there are path, paths, splitSize"),
        ({"path": "/logs", "startingOffsets": "latest"}, False, "startingOffsets: no option of"),
        ({"kafka.bootstrap.servers": "b:1", "splitSize": "1"}, False, "of the live topic; there"),
        ({"kafka.bootstrap.servers": "b:1", "path": "/x"}, False, "are two sources; choose one"),
        ({"path": "/logs"}, True, "a stream needs the option kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "b:1", "splitSize": "1"}, True, "no option of a stream"),
        (
            {"kafka.bootstrap.servers": "b:1", "startingOffsets": "newest"},
            True,
            "expected startingOffsets earliest or latest, found 'newest'",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: dict[str, str], is_stream: bool, reason: str
) -> None:
    source = KgroupDataSource(options)
    with pytest.raises(UsageError) as caught:
        source.streamReader(StructType()) if is_stream else source.reader(StructType())
    assert reason in str(caught.value)


@pytest.mark.parametrize("paths", ["/logs", '"/logs"', "[1]", "[", "{}"])
def test_paths_are_a_list_as_spark_writes_it(paths: str) -> None:
    reader = KgroupDataSource({"paths": paths}).reader(StructType())
    with pytest.raises(UsageError, match="paths: expected a JSON list of texts, found "):
        reader.partitions()


def test_spark_says_which_option_is_none(spark: SparkSession) -> None:
    reader = spark.read.format("kgroup").option("Pth", "x").option("SplitSize", "100")
    with pytest.raises(Exception, match="pth: no option of files; there are path"):
        reader.load(str(SAMPLE)).collect()
    reader = spark.read.format("kgroup").option("SplitSize", "100")
    assert reader.load(str(SAMPLE)).count() == sum(map(len, log_of(SAMPLE).values()))


def test_tasks_run_in_executors(spark: SparkSession) -> None:
    def work(number: int) -> tuple[int, bool]:
        from pyspark import TaskContext

        return number * number, TaskContext.get() is not None

    assert sorted(run_on(spark, work, [1, 2, 3])) == [(1, True), (4, True), (9, True)]
    assert list(run_on(spark, work, [])) == []


def test_errors_of_tasks_come_back_as_they_are(spark: SparkSession) -> None:
    def fail(number: int) -> int:
        raise InputError(f"number {number}: expected a path", path="/x")

    def full(number: int) -> int:
        raise OSError(28, "No space left on device")

    def crash(number: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(InputError, match="number 1: expected a path") as caught:
        list(run_on(spark, fail, [1]))
    assert caught.value.path == "/x"
    with pytest.raises(OSError, match="No space left"):
        list(run_on(spark, full, [1]))

    def end(number: int) -> int:
        os._exit(3)

    with pytest.raises(ZeroDivisionError):
        list(run_on(spark, crash, [1]))
    with pytest.raises(KgroupError, match=r"Spark gave up: .*stage failure") as gave_up:
        list(run_on(spark, end, [1]))
    assert "\n" not in str(gave_up.value)
    assert "org.apache" not in str(gave_up.value)[:40]
