"""A standalone cluster does the same as an embedded Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.spark.data_source import KgroupDataSource
from kgroup.spark.session import run_on, spark_session
from tests.broker.spark_cluster import SparkCluster, spark_cluster

pytestmark = pytest.mark.broker

SAMPLE = Path(__file__).parents[2] / "kgroup" / "sample" / "log-dir"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def test_executors_of_both_workers_do_the_work(cluster: SparkCluster) -> None:
    def where(number: int) -> tuple[int, str]:
        import os
        import time

        time.sleep(2)
        return number, os.environ["SPARK_EXECUTOR_DIRS"]

    settings = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    with spark_session(cluster.master, settings) as session:
        done = list(run_on(session, where, range(4)))
        assert [number for number, _ in done] == [0, 1, 2, 3]
        assert len({place for _, place in done}) == 2
        session.dataSource.register(KgroupDataSource)
        rows = session.read.format("kgroup").load(str(SAMPLE))
        assert rows.count() == 168
