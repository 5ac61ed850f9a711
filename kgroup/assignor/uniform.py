"""Uniform, the default of consumer groups: as even as can be, and then as little moved as can be.

Source: `UniformAssignor` of group-coordinator 4.3.1 and its two builders: the one for groups whose
members all subscribe to the same topics is here, the other in `uniform_mixed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor import uniform_mixed
from kgroup.assignor.base import AssignorError
from kgroup.assignor.java_hash import JavaHashMap
from kgroup.assignor.server import (
    ServerAssignment,
    ServerGroup,
    ServerMember,
    ServerTopic,
    Target,
    capacity_for,
    uuid_hash,
    uuid_order,
)

__all__ = ["assign"]


def assign(members: Sequence[ServerMember], topics: Mapping[str, ServerTopic]) -> ServerAssignment:
    """Assign as the coordinator does.

    Args:
        members: in the order in which they are put in a map.
        topics: of the cluster.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    group = ServerGroup(members, topics)
    build = _assign_evenly if group.is_homogeneous else uniform_mixed.assign
    return group.assignment(build(group))


def _assign_evenly(group: ServerGroup) -> dict[str, Target]:
    """Source: `UniformHomogeneousAssignmentBuilder`."""
    first = group.member_ids[0]
    subscribed = JavaHashMap[bytes](capacity_for(group.sizes[first]))
    for topic_id in group.subscriptions[first]:
        subscribed.put(topic_id, uuid_hash(topic_id), uuid_order(topic_id))
    if not len(subscribed):
        return {}
    assigned = {
        (topic_id, partition)
        for target in group.targets.values()
        for topic_id, partitions in target
        for partition in partitions
    }
    free = [
        (topic_id, partition)
        for topic_id in subscribed
        for partition in range(group.partitions(topic_id))
        if (topic_id, partition) not in assigned
    ]
    total = sum(group.partitions(topic_id) for topic_id in subscribed)
    least, extras = divmod(total, len(group.member_ids))
    targets: dict[str, Target] = {}
    room: list[tuple[str, int]] = []
    for index, member_id in enumerate(group.member_ids):
        quota = least + (extras > 0)
        has_extra = extras > 0
        target = group.targets[member_id]
        changed: Target | None = None
        for topic_id, partitions in target:
            if topic_id not in subscribed:
                changed = changed or target.copy()
                changed.remove(topic_id)
            elif len(partitions) <= quota:
                quota -= len(partitions)
            else:
                revoked = list(partitions)[quota:]
                quota = 0
                changed = changed or target.copy()
                for partition in revoked:
                    changed.discard(topic_id, partition)
                    free.append((topic_id, partition))
                if not changed.get(topic_id):
                    changed.remove(topic_id)
        if quota > 0 and has_extra and len(group.member_ids) - index > extras:
            quota -= 1  # left to another, unless all that follow must take one
            has_extra = False
        if quota > 0:
            room.append((member_id, quota))
        extras -= has_extra
        targets[member_id] = changed or target
        if changed is None and quota > 0:
            targets[member_id] = target.copy()
    given = 0
    for member_id, quota in room:
        for topic_id, partition in free[given : given + quota]:
            targets[member_id].add(topic_id, partition)
        given += quota
    if given < len(free):
        raise AssignorError("PartitionAssignorException", "Partitions were left unassigned")
    return targets
