"""Builds by an embedded Spark: the same tables, and the old ones where it fails."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kgroup.errors import KgroupError
from kgroup.spark.session import run_on
from tests.broker.killed_task import run_and_kill
from tests.examples import in_depth
from tests.history.build_file import files_on_disk, files_that_count, write_halves
from tests.history.builds import RECORDED, SAMPLE, build
from tests.history.random_history import RandomHistory
from tests.history.table_oracle import read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (3, 14, 15)


def test_recorded_logs(spark: SparkSession, tmp_path: Path) -> None:
    for directory in in_depth(RECORDED, RECORDED[::2]):
        build(tmp_path / "here", directory, cluster=directory.name)
        build(tmp_path / "spark", directory, cluster=directory.name, run=partial(run_on, spark))
        tables = read_tables(tmp_path / "spark", directory.name)
        assert tables == read_tables(tmp_path / "here", directory.name), directory.name
    assert read_tables(tmp_path / "spark", SAMPLE.name)["assignments"]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    build(tmp_path / "here", tmp_path / "log")
    build(tmp_path / "spark", tmp_path / "log", run=partial(run_on, spark))
    tables = read_tables(tmp_path / "spark", "c")
    assert tables == read_tables(tmp_path / "here", "c")
    assert tables["offset_commits"]


def test_workers_do_without_pandas(spark: SparkSession) -> None:
    def is_imported(number: int) -> bool:
        return pa.array([number]) is None or "pandas" in sys.modules

    assert list(run_on(spark, is_imported, range(4))) == [False] * 4


def test_a_worker_that_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    early, late, root = tmp_path / "early", tmp_path / "late", tmp_path / "w"
    write_halves(early, late)
    build(root, early)
    before = read_tables(root, "c")
    marker = tmp_path / "killed"
    with pytest.raises(KgroupError, match=r"Spark gave up: .*failure") as caught:
        build(root, late, run=run_and_kill(spark, marker, executor=False))
    assert "\n" not in str(caught.value)
    assert marker.exists()
    assert read_tables(root, "c") == before
    assert files_on_disk(root) == files_that_count(root)
    build(root, late, run=partial(run_on, spark))
    assert files_on_disk(root) == files_that_count(root)
    build(tmp_path / "here", late)
    assert read_tables(root, "c") == read_tables(tmp_path / "here", "c") != before
