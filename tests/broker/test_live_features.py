"""What brokers say that they can do, and how they are configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.source.broker.source import LiveCluster
from tests.broker.servers import broker

POLICY, PROTOCOLS = "group.consumer.migration.policy", "group.coordinator.rebalance.protocols"


@pytest.mark.parametrize(
    ("version", "has_api", "level", "settings"),
    [
        ("4.3.1", True, 1, {POLICY: "upgrade", PROTOCOLS: "classic,consumer,streams"}),
        ("3.9.2", True, None, {PROTOCOLS: "classic"}),  # whose consumer protocol is a preview
        ("2.8.2", False, None, {}),
    ],
)
def test_features_of(
    tmp_path: Path, version: str, has_api: bool, level: int | None, settings: dict[str, str]
) -> None:
    config = {POLICY: "upgrade"} if POLICY in settings else {}
    with (
        broker(version, tmp_path, config=config) as server,
        LiveCluster(server.bootstrap) as cluster,
    ):
        features = cluster.features(server.broker_id)
        reading = cluster.broker_settings([POLICY, PROTOCOLS])
    assert (68 in features.apis) is has_api
    assert features.levels is not None
    assert features.levels.get("group.version") == level
    assert reading.brokers == {server.broker_id: settings}
