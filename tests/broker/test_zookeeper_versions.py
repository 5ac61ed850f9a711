"""What brokers of every version that had a ZooKeeper wrote there, beside what they answer."""

from __future__ import annotations

import pytest

from kgroup.source.base import Question
from kgroup.source.broker import Cluster
from kgroup.source.zookeeper import Zookeeper
from kgroup.source.zookeeper_address import parse_address
from tests.broker.maven import version_tuple
from tests.broker.servers import KAFKA_VERSIONS, Broker
from tests.record.raw import commit
from tests.record.wire import Wire

VERSIONS = tuple(version for version in KAFKA_VERSIONS if version_tuple(version) < (3,))
TOPIC = "of-every-version"


@pytest.mark.parametrize("every_broker", VERSIONS, indirect=True)
def test_brokers_topics_and_commits(every_broker: Broker) -> None:
    server = every_broker
    assert server.zookeeper is not None
    server.create_topic(TOPIC, 3)
    with Wire(server.version, server.bootstrap) as wire:  # version 0 goes to ZooKeeper
        commit(wire, "by-request", {(TOPIC, 0): 0, (TOPIC, 2): 0}, version=0)
    with (
        Cluster(server.bootstrap, of_silence=True) as cluster,
        Zookeeper(parse_address(server.zookeeper.connect), of_silence=True) as zookeeper,
    ):
        told, read = cluster.view([TOPIC]), zookeeper.view([TOPIC])
        reading = zookeeper.read(["by-request"], Question(nodes=True))
        ends = zookeeper.log_ranges([(TOPIC, 0), (TOPIC, 1)])
    assert read.brokers == told.brokers
    assert read.topics == told.topics
    assert read.controller == server.broker_id
    assert told.controller in (None, read.controller)
    assert read.cluster_id == told.cluster_id
    assert (read.cluster_id is None) == (version_tuple(server.version) < (0, 10, 1))
    assert reading.problems == ()
    group = reading.image.groups["by-request"]
    assert [(each.partition, each.committed_offset) for each in group.offsets] == [(0, 0), (2, 0)]
    assert group.members == ()
    assert {at: (log.start, log.end) for at, log in ends.ranges.items()} == {
        (TOPIC, 0): (0, 0),
        (TOPIC, 1): (0, 0),
    }
