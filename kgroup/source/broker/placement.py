"""Where groups and transactional ids are coordinated: by which brokers, for which partitions."""

from __future__ import annotations

from collections.abc import Collection

from kgroup.model.cluster import Partition, Placement
from kgroup.model.offsets_partition import OFFSETS_TOPIC, offsets_partition
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import (
    TRANSACTION_TOPIC,
    Coordinators,
    Refusal,
    find_coordinators,
    is_missing,
)
from kgroup.source.broker.group_list import list_hidden_groups


async def placements_of(
    client: BrokerClient, keys: Collection[str], *, transactional: bool
) -> dict[str, Placement]:
    """Find coordinators, and the partitions that make them that; see `CoordinatorSource`."""
    name = TRANSACTION_TOPIC if transactional else OFFSETS_TOPIC
    view = await client.metadata([name])
    topic = view.topics.get(name)
    if is_missing(topic):
        coordinators = Coordinators(client, named=False)
        if transactional or not await list_hidden_groups(client, coordinators):
            return {}
    found = await find_coordinators(client, keys, transactional=transactional)
    brokers = client.brokers
    count = len(topic.partitions) if topic and topic.partitions else None
    placements = {}
    for key, answer in found.items():
        partition: Partition | None = None
        if topic is not None and count is not None:
            partition = topic.partitions.get(offsets_partition(key, count))
        leader = partition.leader if partition else None
        placements[key] = Placement(
            partition_count=count,
            coordinator=brokers.get(answer) if isinstance(answer, int) else None,
            error=str(answer) if isinstance(answer, Refusal) else None,
            leader=None if leader is None else brokers.get(leader),
            replicas=partition.replicas if partition else None,
            isr=partition.isr if partition else None,
        )
    return placements
