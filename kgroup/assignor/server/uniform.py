"""Uniform, the default of consumer groups: as even as can be, and then as little moved as can be.

Source: `UniformAssignor` of group-coordinator 4.3.1 and its two builders: the one for groups whose
members all subscribe to the same topics is here, the other in `uniform_mixed`.
"""

from __future__ import annotations

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.server import uniform_mixed
from kgroup.assignor.server.server import ServerGroup, Target, capacity_for


def assign(group: ServerGroup) -> Assignment:
    """Assign as the coordinator does.

    Raises:
        AssignorError: Kafka's assignor fails.
    """
    build = _assign_evenly if group.is_homogeneous else uniform_mixed.assign
    return group.assignment(build(group))


def _assign_evenly(group: ServerGroup) -> dict[str, Target]:
    """Source: `UniformHomogeneousAssignmentBuilder`."""
    first = group.member_ids[0]
    subscribed = group.put_order(group.subscriptions[first], capacity_for(group.sizes[first]))
    if not subscribed:
        return {}
    wanted = frozenset(subscribed)
    free: list[tuple[int, int]] = []
    for topic in subscribed:
        taken = group.owned.get(topic, ())
        free += [(topic, p) for p in range(group.partitions(topic)) if p not in taken]
    total = sum(group.partitions(topic) for topic in subscribed)
    least, extras = divmod(total, len(group.member_ids))
    targets: dict[str, Target] = {}
    room: list[tuple[str, int]] = []
    for index, member_id in enumerate(group.member_ids):
        quota = least + (extras > 0)
        has_extra = extras > 0
        target = group.targets[member_id]
        changed: Target | None = None
        for topic, partitions in target:
            if topic not in wanted:
                changed = changed or target.copy()
                changed.remove(topic)
            elif len(partitions) <= quota:
                quota -= len(partitions)
            else:
                revoked = list(partitions)[quota:]
                quota = 0
                changed = changed or target.copy()
                for partition in revoked:
                    changed.discard(topic, partition)
                    free.append((topic, partition))
                if not changed.get(topic):
                    changed.remove(topic)
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
        targets[member_id].add(free[given : given + quota])
        given += quota
    if given < len(free):
        raise AssignorError("PartitionAssignorException", "Partitions were left unassigned")
    return targets
