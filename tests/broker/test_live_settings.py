"""What brokers and groups are configured with, as the brokers tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.source.broker.source import LiveCluster
from tests.broker.servers import broker
from tests.record.raw import configure_group
from tests.record.wire import Wire

LONGEST = "group.max.session.timeout.ms"
OF_GROUP = "consumer.session.timeout.ms"


@pytest.mark.parametrize("version", ["0.11.0.3", "4.3.1"])
def test_brokers_tell_their_settings(version: str, tmp_path: Path) -> None:
    with (
        broker(version, tmp_path, config={LONGEST: "234567"}) as server,
        LiveCluster(server.bootstrap) as cluster,
    ):
        reading = cluster.broker_settings([LONGEST, "no.such.setting"])
        assert reading.brokers == {server.broker_id: {LONGEST: "234567"}}
        assert reading.problems == ()
        if version != "4.3.1":
            with pytest.raises(BrokerError):
                cluster.group_settings("billing", [OF_GROUP])
            return
        assert cluster.group_settings("billing", [OF_GROUP]) == {OF_GROUP: "45000"}
        with Wire(version, server.bootstrap) as wire:
            configure_group(wire, "billing", consumer_session_timeout_ms="50000")
        assert cluster.group_settings("billing", [OF_GROUP]) == {OF_GROUP: "50000"}


def test_brokers_before_0_11_tell_none(tmp_path: Path) -> None:
    with broker("0.10.2.2", tmp_path) as server, LiveCluster(server.bootstrap) as cluster:
        reading = cluster.broker_settings([LONGEST])
        assert reading.brokers == {}
        (problem,) = reading.problems
        assert (problem.kind, problem.broker) == (ProblemKind.UNSUPPORTED, server.broker_id)
