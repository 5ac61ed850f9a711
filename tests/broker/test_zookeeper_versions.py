"""What brokers of every version that had a ZooKeeper wrote there, beside what they answer."""

from __future__ import annotations

import pytest

from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.source import Zookeeper
from tests.broker.maven import version_tuple
from tests.broker.servers import KAFKA_VERSIONS, Broker
from tests.record.raw import commit
from tests.record.wire import Wire
from tests.waiting import until

VERSIONS = (
    "0.8.0-beta1",
    "0.8.0",
    "0.8.1.1",
    *(version for version in KAFKA_VERSIONS if version_tuple(version) < (3,)),
)
TOPIC = "of-every-version"


def await_leaders(wire: Wire) -> None:
    """Wait until the topic has leaders: before, 0.8.0 does not even name the brokers."""

    def are_there() -> bool:
        (topic,) = wire.call("Metadata", 0, topics=[{"name": TOPIC}])["topics"]
        return [each["error_code"] for each in topic["partitions"]] == [0, 0, 0]

    until(are_there)


@pytest.mark.parametrize("every_broker", VERSIONS, indirect=True)
def test_brokers_topics_and_commits(every_broker: Broker) -> None:
    server = every_broker
    assert server.zookeeper is not None
    server.create_topic(TOPIC, 3)
    takes_commits = version_tuple(server.version) >= (0, 8, 1)
    with Wire(server.version, server.bootstrap) as wire:
        await_leaders(wire)
        if takes_commits:
            at = {(TOPIC, 0): 0, (TOPIC, 2): 0}
            commit(wire, "by-request", at, version=0)  # goes to ZooKeeper
    with (
        LiveCluster(server.bootstrap, of_silence=True) as cluster,
        Zookeeper(parse_address(server.zookeeper.connect), of_silence=True) as zookeeper,
    ):
        view, read = cluster.view([TOPIC]), zookeeper.view([TOPIC])
        reading = zookeeper.read(["by-request"], Question(nodes=True))
        ends = zookeeper.log_ranges([(TOPIC, 0), (TOPIC, 1)])
    assert read.brokers == view.brokers
    assert read.topics == view.topics
    assert read.controller == server.broker_id
    assert view.controller in (None, read.controller)
    assert read.cluster_id == view.cluster_id
    assert (read.cluster_id is None) == (version_tuple(server.version) < (0, 10, 1))
    assert {at: (log.start, log.end) for at, log in ends.ranges.items()} == {
        (TOPIC, 0): (0, 0),
        (TOPIC, 1): (0, 0),
    }
    assert reading.problems == ()
    if not takes_commits:
        assert not reading.image.groups
        return
    group = reading.image.groups["by-request"]
    assert [(offset.partition, offset.committed_offset) for offset in group.offsets] == [
        (0, 0),
        (2, 0),
    ]
    assert group.members == ()
