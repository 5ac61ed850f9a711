"""The tables of a warehouse asked through Spark: the same answers as DuckDB gives."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgroup.errors import InputError, UsageError
from kgroup.history.sql.engine import DuckEngine, Engine
from kgroup.history.warehouse.table import ASSIGNED, TABLES
from kgroup.spark.engine import SparkEngine
from tests.history.warehouse_files import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


def test_tables_have_their_columns_and_the_folders_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [ASSIGNED.value_type.field(at).name for at in range(ASSIGNED.value_type.num_fields)]
    given = [dict.fromkeys(names) | {"topic": "a", "partitions": [0, 2]}]
    files = write_rows(
        tmp_path / "cluster=wrong [1]'s %20",
        {
            "offset_commits": [{"time_ms": 3 * DAY_MS, "partition": 1}, {"partition": 2}],
            "members": [{"time_ms": 1, "member_id": "m", "assignment": given}],
        },
        cluster="a/b=c é%20",
    )
    engine = SparkEngine(spark, files)
    with DuckEngine(files) as duck:
        for name, table in TABLES.items():
            sql = f"SELECT * FROM {name}"
            found = engine.query(sql)
            assert found.schema.names == table.full_schema.names
            assert sorted(found.to_pylist(), key=repr) == sorted(
                duck.query(sql).to_pylist(), key=repr
            )
    rows = engine.query("SELECT partition, cluster, date FROM offset_commits ORDER BY partition")
    assert rows.to_pylist() == [
        {"partition": 1, "cluster": "a/b=c é%20", "date": date(1970, 1, 4)},
        {"partition": 2, "cluster": "a/b=c é%20", "date": None},
    ]


def test_parameters_and_nulls(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"time_ms": 1, "group_id": group, "partition": p} for group in "ab" for p in (1, None)]
    engine = SparkEngine(spark, write_rows(tmp_path, {"offset_commits": rows}))
    sql = "SELECT partition FROM offset_commits WHERE group_id = ? AND time_ms < ? ORDER BY 1"
    assert engine.query(sql, ["b", 2])["partition"].to_pylist() == [None, 1]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT nothing FROM offset_commits", "`nothing` cannot be resolved"),
        ("SELECT 1 FROM commits", "no table commits; the tables are: offset_commits, group_gen"),
        ("DESCRIBE main.commits", "no table main.commits; the tables are: offset_commits"),
        ("DROP VIEW members", "expected one query"),
        ("INSERT INTO members SELECT * FROM members", "expected one query"),
        ("INSERT OVERWRITE DIRECTORY '/tmp/kgroup-none' USING csv SELECT 1", "expected one query"),
        ("SET spark.sql.runSQLOnFiles = true", "expected one query"),
        ("SELECT * FROM text.`/etc/passwd`", "no table text./etc/passwd"),
        ("SELECT 1 / 0", "Division by zero"),
        ("SELECT 'a\udcff'", "expected UTF-8, found"),
    ],
)
def test_what_is_no_query_on_the_tables_is_refused(
    spark: SparkSession, sql: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        SparkEngine(spark, {}).query(sql)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""  # PySpark logs what it raises


def test_tables_can_be_described(spark: SparkSession) -> None:
    found = SparkEngine(spark, {}).query("DESCRIBE damage")
    assert found["col_name"].to_pylist() == TABLES["damage"].full_schema.names


def test_a_file_that_is_gone_is_said(spark: SparkSession, tmp_path: Path) -> None:
    files = write_rows(tmp_path, {"damage": [{"time_ms": 1}]})
    engine = SparkEngine(spark, files)
    files["damage"][0].unlink()
    with pytest.raises(InputError, match=r"no such file\. Repeat the query if a build"):
        engine.query("SELECT * FROM damage")


def test_jobs_run_in_executors_with_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"time_ms": 1, "group_id": group, "partition": p} for group in "ab" for p in (1, 5)]
    files = write_rows(tmp_path, {"offset_commits": rows})

    def asked(engine: Engine, group_id: str) -> tuple[int, str, int]:
        sql = "SELECT SUM(partition) AS sum FROM offset_commits WHERE group_id = ?"
        (row,) = engine.query(sql, [group_id], is_trusted=True).to_pylist()
        return int(row["sum"] or 0), type(engine).__name__, os.getpid()

    found = list(SparkEngine(spark, files).each(asked, ["b", "a", "c"]))
    assert [(total, name) for total, name, _ in found] == [(6, "DuckEngine")] * 2 + [
        (0, "DuckEngine")
    ]
    assert os.getpid() not in {process for *_, process in found}
    with pytest.raises(UsageError, match="no_such"):
        list(SparkEngine(spark, files).each(fail, ["b"]))


def fail(engine: Engine, job: str) -> None:
    engine.query("SELECT no_such FROM offset_commits")
