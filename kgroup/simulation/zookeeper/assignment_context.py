"""What a ZooKeeper consumer reads there before it assigns.

Source: `AssignmentContext`, `TopicCount` and `ZkUtils` of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.assignor.base import Topic
from kgroup.assignor.zookeeper import Consumers
from kgroup.simulation.zookeeper.client import Client
from kgroup.simulation.zookeeper.cluster import BROKERS, TOPICS, ZookeeperCluster
from kgroup.simulation.zookeeper.registration import read_registration
from kgroup.simulation.zookeeper.server import NoNodeError
from kgroup.simulation.zookeeper.thread import Routine


def read_cluster(zookeeper: Client) -> Routine[None]:
    """Read all brokers (`getCluster`).

    Raises:
        NoNodeError: one went meanwhile.
    """
    for name in (yield from zookeeper.children(BROKERS)):
        if (yield from zookeeper.read(f"{BROKERS}/{name}")) is None:
            raise NoNodeError(name)


def streams_of(
    zookeeper: Client, cluster: ZookeeperCluster, consumer_id: str
) -> Routine[Mapping[str, int]]:
    """Return how many streams a consumer has for each topic (`constructTopicCount`).

    Raises:
        NoNodeError: it is not registered.
    """
    data = yield from zookeeper.read(cluster.path("ids", consumer_id))
    if data is None:
        raise NoNodeError(consumer_id)
    registration = read_registration(data)
    if registration.is_static:
        return registration.subscription
    return registration.streams((yield from zookeeper.children(TOPICS)))


def assignment_context(
    zookeeper: Client, cluster: ZookeeperCluster, consumer_id: str
) -> Routine[tuple[Consumers, dict[str, Topic]]]:
    """Read which topics a consumer has, their partitions, and then who else is there.

    Raises:
        NoNodeError: a consumer went meanwhile.
    """
    topics = {}
    for topic in (yield from streams_of(zookeeper, cluster, consumer_id)):
        data = yield from zookeeper.read(f"{TOPICS}/{topic}")
        if data is not None:
            topics[topic] = Topic(int(data))
    consumers = {}
    for each in (yield from zookeeper.children(cluster.path("ids"))):
        consumers[each] = yield from streams_of(zookeeper, cluster, each)
    yield from zookeeper.children(cluster.path("ids"))
    return consumers, topics
