"""Every question asked through Spark has the answer that DuckDB gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgroup.history.commit_story import commit_story
from kgroup.history.engine import DuckEngine, Engine
from kgroup.history.lag import lags
from kgroup.history.log_ends import LogEnd
from kgroup.history.owner import owners
from kgroup.history.past_group import PastGroups
from kgroup.history.question import span_of
from kgroup.history.stale import stale_offsets
from kgroup.history.stock import stock_of
from kgroup.history.timeline import timeline
from kgroup.history.warehouse import Warehouse, read_warehouse
from kgroup.sample import sample_log_dir
from kgroup.spark.engine import SparkEngine
from kgroup.spark.session import spark_session
from tests.history.test_build import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

MIDDLE = 1_795_299_150_000
"""A time in the sample: 2026-11-21T22:12:30Z."""
ENDS = [LogEnd("orders", partition, 0, 100, MIDDLE) for partition in range(3)]

Ask = Callable[[Warehouse, Engine], object]
QUESTIONS: dict[str, Ask] = {
    "span": lambda _, engine: span_of(engine, "c", 6),
    "owner": lambda _, engine: owners(engine, "orders", 2, 0, 2 * MIDDLE, group_id="order-service"),
    "timeline": lambda _, engine: timeline(engine, "fraud-check"),
    "commits": lambda _, engine: commit_story(engine, "order-service", pause_ms=10),
    "stale": lambda _, engine: stale_offsets(engine, silent_ms=0, expiring_ms=0, retention_ms=1000),
    "lag": lambda _, engine: lags(engine, "order-service", since_ms=0, given=ENDS),
    "as-of": lambda _, engine: PastGroups(engine, "c", MIDDLE + 10_000).read(),
    "show": lambda warehouse, engine: stock_of(warehouse, engine),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    root = tmp_path_factory.mktemp("history") / "warehouse"
    build(root, Path(sample_log_dir()))
    with read_warehouse(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[1]", {"spark.sql.shuffle.partitions": "1"}) as session:
        yield session


@pytest.mark.parametrize("name", QUESTIONS)
def test_both_engines_give_one_answer(spark: SparkSession, warehouse: Warehouse, name: str) -> None:
    with DuckEngine(warehouse.files()) as duck:
        expected = QUESTIONS[name](warehouse, duck)
    assert expected
    assert QUESTIONS[name](warehouse, SparkEngine(spark, warehouse.files())) == expected
