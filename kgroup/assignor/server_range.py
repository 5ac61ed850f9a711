"""The coordinator's own range: of each topic, every member gets a run of neighbouring partitions.

Source: `org.apache.kafka.coordinator.group.assignor.RangeAssignor` of group-coordinator 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.server import ServerAssignment, ServerGroup, ServerMember, ServerTopic, Target

__all__ = ["assign"]


def assign(members: Sequence[ServerMember], topics: Mapping[str, ServerTopic]) -> ServerAssignment:
    """Assign as the coordinator does.

    Args:
        members: in the order in which they are put in a map.
        topics: of the cluster.
    """
    group = ServerGroup(members, topics)
    shares: dict[bytes, int] = {}
    for subscribed in group.subscriptions.values():
        for topic_id in subscribed:
            shares[topic_id] = shares.get(topic_id, 0) + 1
    start = dict.fromkeys(shares, 0)
    extras = {topic_id: group.partitions(topic_id) % count for topic_id, count in shares.items()}
    targets: dict[str, Target] = {}
    for member_id in group.static_first():
        subscribed = group.subscriptions[member_id]
        size = len(subscribed) if group.is_homogeneous else group.sizes[member_id]
        target = Target(int(size / 0.75 + 1))
        for topic_id in subscribed:
            count = group.partitions(topic_id)
            end = start[topic_id] + count // shares[topic_id] + (extras[topic_id] > 0)
            extras[topic_id] -= 1
            end = min(end, count)
            if start[topic_id] < end:
                target.put(topic_id, range(start[topic_id], end))
            start[topic_id] = end
        targets[member_id] = target
    return group.assignment(targets)
