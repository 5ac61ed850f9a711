"""Answers of sources from ZooKeeper's nodes, for the live source and for snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import Broker, Image
from kgroup.model.offsets_partition import OFFSETS_TOPIC, offsets_partition
from kgroup.model.zookeeper import BrokerNode, ZookeeperTree, ZookeeperView
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.protocol.zookeeper.tree import decode_tree
from kgroup.source.base import Capability, Question, Reading

ZOOKEEPER_CAPABILITIES = frozenset(
    {
        Capability.COMMIT_TIMESTAMPS,
        Capability.LOG_END_OFFSETS,
        Capability.LOG_START_OFFSETS,
        Capability.LAST_STABLE_OFFSETS,
    }
)

_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


def reading_of(
    tree: ZookeeperTree, group_ids: Collection[str] | None, question: Question
) -> Reading:
    """Return the groups in a tree that the question covers, with these ids or all."""
    view = decode_tree(tree)
    groups, problems = groups_of(view)
    names = None if group_ids is None else frozenset(group_ids)
    offsets = view.topics.get(OFFSETS_TOPIC)
    image = Image(
        groups={
            group_id: group
            for group_id, group in groups.items()
            if question.names(group_id, names)
            if not question.types or group.type in question.types
            if not question.states or group.state in question.states
        },
        cluster_id=view.cluster_id,
        offsets_partition_count=len(offsets.partitions) if offsets else None,
    )
    return Reading(image, view.problems + problems, zookeeper=tree, view=view)


def cluster_view(view: ZookeeperView, topics: Collection[str]) -> ClusterView:
    """Return the brokers, and these topics with their partitions; see `GroupSource.view`."""
    return ClusterView(
        view.cluster_id,
        None if view.controller is None else view.controller.broker,
        {broker.id: _broker(broker) for broker in view.brokers.values()},
        {name: _topic(view, name) for name in sorted(topics)},
    )


def placements(view: ZookeeperView, keys: Collection[str]) -> Mapping[str, Placement]:
    """Return the leader of the partition of `__consumer_offsets` that each group belongs to."""
    topic, brokers = _topic(view, OFFSETS_TOPIC), cluster_view(view, ()).brokers
    return {key: placement(topic, brokers, key) for key in keys} if topic.partitions else {}


def placement(topic: Topic, brokers: Mapping[int, Broker], group_id: str) -> Placement:
    """Return the placement of one group; `__consumer_offsets` must have partitions."""
    count = len(topic.partitions)
    partition = topic.partitions.get(offsets_partition(group_id, count))
    leader = partition.leader if partition else None
    return Placement(
        partition_count=count,
        coordinator=None,
        error=None,
        leader=None if leader is None else brokers.get(leader),
        replicas=partition.replicas if partition else None,
        isr=partition.isr if partition else None,
    )


def _topic(view: ZookeeperView, name: str) -> Topic:
    node = view.topics.get(name)
    if node is None:
        return Topic(name, None, {}, _UNKNOWN_TOPIC)
    partitions = {}
    for number, replicas in node.partitions.items():
        state = view.partition_states.get((name, number))
        partitions[number] = Partition(
            state.leader if state else None, replicas, state.isr if state else ()
        )
    return Topic(name, node.topic_id, partitions)


def _broker(node: BrokerNode) -> Broker:
    listening = [
        (node.host, node.port),
        *((endpoint.host, endpoint.port) for endpoint in node.endpoints),
    ]
    host, port = next(((host, port) for host, port in listening if host), (None, None))
    return Broker(node.id, host, port, node.rack)
