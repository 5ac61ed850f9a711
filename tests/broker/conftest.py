"""Fixtures that run real servers; everything below this folder carries the marker `broker`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.servers import KAFKA_VERSIONS, Broker, broker


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("broker")


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
