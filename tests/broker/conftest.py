"""Fixtures that run real servers; everything below this folder carries the marker `broker`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kgroup.cli.option.connection import DEFAULT_TIMEOUT_S
from kgroup.source.deadline import Deadline
from tests.broker.quick_spark import QUICK
from tests.broker.servers import KAFKA_VERSIONS, Broker, broker
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LONG = (
    "test_spark_engine_answers.py",
    "test_harmless.py",
    "test_spark_cluster.py",
    "test_history_store.py",
    "test_history_stream.py",
    "test_live_client_libraries.py",
    "test_live_ownership.py",
    "test_live_zookeeper_assign.py",
    "test_simulation_oracle.py",
    "test_live_assign.py",
    "test_simulation_zookeeper_oracle.py",
    "test_assignor_oracle.py",
    "test_simulation_mixed_oracle.py",
    "test_live_check.py",
    "test_incidents.py",
    "test_live_causes.py",
    "test_plan_partitions.py",
    "test_plan_static_membership.py",
    "test_plan_assignor.py",
    "test_plan_consumer_protocol.py",
    "test_plan_external_offsets.py",
    "test_plan_zookeeper.py",
)
"""Files of over a minute, longest first: begun last, one would run alone at the end."""


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("broker")
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def _patient_commands() -> Iterator[None]:
    """Let a command take twice as long as by default: machines are busy.

    No longer, as some brokers never answer some requests.
    """
    begin = Deadline.__init__

    def patient(self: Deadline, timeout_s: float, *, of_silence: bool = False) -> None:
        factor = 2 if timeout_s == DEFAULT_TIMEOUT_S else 1
        begin(self, factor * timeout_s, of_silence=of_silence)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Deadline, "__init__", patient)
        yield


@pytest.fixture(scope="session", params=KAFKA_VERSIONS)
def every_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Run a broker of each version in turn: one at a time, shared by all tests that ask for it.

    Topics and groups need names of their own.
    """
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(f"kafka-{version}")) as server:
        yield server


@pytest.fixture(scope="session")
def orders_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker with the topic "orders", shared likewise."""
    with broker("4.3.1", tmp_path_factory.mktemp("orders")) as server:
        with Wire(server.version, server.bootstrap) as wire:
            create_topics(wire, {"orders": 3})
            await_coordinator(wire)
        yield server


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Run an embedded Spark that knows the data source. Those of other files use the same JVM."""
    from kgroup.spark.data_source import KgroupDataSource
    from kgroup.spark.session import spark_session

    with spark_session("local[2]", QUICK) as session:
        session.dataSource.register(KgroupDataSource)
        yield session
