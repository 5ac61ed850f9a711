"""Offsets of real clusters: read, compared and set; deleted; and what brokers refuse, by row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kgroup.source.broker.source import Cluster
from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, broker
from tests.contract.offset_store import OffsetStoreContract
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire

VERSIONS = ("1.1.1", "2.8.2", "3.9.2", "4.3.1")


@pytest.fixture(scope="module", params=VERSIONS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(f"kafka-{version}")) as server:
        with Wire(version, server.bootstrap) as wire:
            create_topics(wire, {"orders": 3, "payments": 1})
            await_coordinator(wire)
        yield server


@pytest.fixture
def store(server: Broker) -> Iterator[Cluster]:
    with Cluster(server.bootstrap, of_silence=True) as store:
        yield store


class TestContract(OffsetStoreContract):
    @pytest.fixture(autouse=True)
    def _as_the_version_can(self, server: Broker) -> None:
        number = version_tuple(server.version)
        self.keeps_leader_epochs = number >= (2, 1)
        self.removes_offsets = number >= (2, 4)
