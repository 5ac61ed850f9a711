"""The coordinator's range assignor: consecutive partitions of each topic for every member.

Source: `org.apache.kafka.coordinator.group.assignor.RangeAssignor` of group-coordinator 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from kgroup.assignor.base import consumers_by_topic
from kgroup.assignor.server.server import ServerGroup, Target


def assign_targets(group: ServerGroup) -> Mapping[str, Target]:
    """Return the new target assignment of each member."""
    members = group.static_first()
    subscriptions = [tuple(group.subscriptions[member_id]) for member_id in members]
    if group.is_homogeneous:  # the coordinator then reads the first one only
        subscriptions = [subscriptions[0]] * len(members)
    topics = {topic for subscribed in dict.fromkeys(subscriptions) for topic in subscribed}
    consumers = consumers_by_topic(subscriptions, topics)
    # topics with equal consumers and partition counts get equal runs
    shapes = {topic: (id(consumers[topic]), group.partitions(topic)) for topic in topics}
    examples = {shape: topic for topic, shape in shapes.items()}
    shapes_of = {own: {shapes[topic] for topic in own} for own in dict.fromkeys(subscriptions)}
    targets: dict[str, Target] = {}
    for at, (member_id, subscribed) in enumerate(zip(members, subscriptions, strict=True)):
        runs = {}
        for shape in shapes_of[subscribed]:
            sharing = consumers[examples[shape]]
            quota, extras = divmod(shape[1], len(sharing))
            turn = bisect_left(sharing, at)
            start = turn * quota + min(turn, extras)
            runs[shape] = range(start, start + quota + (turn < extras))
        size = len(subscribed) if group.is_homogeneous else group.sizes[member_id]
        targets[member_id] = target = Target(group, int(size / 0.75 + 1))
        target.put({topic: run for topic in subscribed if (run := runs[shapes[topic]])})
    return targets
