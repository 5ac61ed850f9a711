"""The target assignment of a consumer group: what its members shall have in the end.

Source: `TargetAssignmentBuilder` of 4.3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from kgroup.assignor.base import Assignment, Topic
from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.server.server import ServerGroup, capacity_for
from kgroup.assignor.spec import GroupSpec, MemberSpec
from kgroup.assignor.strategy import assignor_of
from kgroup.protocol.message.primitives import uuid_bytes
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import IdPartition
from kgroup.simulation.consumer.topic_image import TopicImage


def target_assignments(
    group: ConsumerGroup,
    updated: ConsumerMember,
    topics: TopicImage,
    assignor: str,
    *,
    is_homogeneous: bool,
) -> dict[str, tuple[IdPartition, ...]]:
    """Compute what every member shall have, in the order of the assignor.

    Args:
        group: as it was before the member's heartbeat.
        updated: the member as it will be; it takes the place of another of the same instance.
        topics: that exist.
        assignor: name of one that brokers have.
        is_homogeneous: whether all members subscribe to the same.

    Raises:
        AssignorError: Kafka's assignor fails.
        UnknownStrategyError: brokers have no such assignor.
    """
    members = {member_id: group.members[member_id] for member_id in group.member_order}
    members[updated.member_id] = updated
    replaced = group.statics.get(updated.instance_id or "")
    if replaced is not None and replaced != updated.member_id:
        del members[replaced]
    owned = {**group.targets, updated.member_id: _target(group, updated)}
    names = _names(topics, group.targets.values())
    spec = GroupSpec(
        assignor,
        tuple(
            MemberSpec(
                member_id,
                tuple(dict.fromkeys([*member.topic_order, *sorted(group.topics_of(member))])),
                instance_id=member.instance_id,
                rack=member.rack_id,
                owned=tuple((names[each], number) for each, number in owned.get(member_id, ())),
            )
            for member_id, member in members.items()
        ),
        {each.name: Topic(each.partitions, each.racks) for each in topics},
        "consumer",
        topic_ids={name: uuid_bytes(topic_id) for topic_id, name in names.items()},
    )
    server = ServerGroup(spec)
    server.is_homogeneous = is_homogeneous
    numbers = {name: number for number, name in enumerate(server.names)}
    # what a member had that now takes another's place counts as owned, though nobody has it
    server.owned = taken = defaultdict(set)
    for topic_id, number in chain.from_iterable(group.targets.values()):
        taken[numbers[names[topic_id]]].add(number)
    for member_id, member in members.items():
        if both := _union_order(group, member):
            server.subscriptions[member_id] = [
                numbers[name] for name in both if name in spec.topics
            ]
    ids = {name: topic_id for topic_id, name in names.items()}
    assigned: Assignment = assignor_of("consumer", assignor, group_id=group.group_id)(server)
    return {
        member_id: tuple((ids[name], number) for name, number in found)
        for member_id, found in assigned.items()
    }


def _target(group: ConsumerGroup, updated: ConsumerMember) -> tuple[IdPartition, ...]:
    """Return what the member shall have until now: that of its instance, else its own."""
    replaced = group.statics.get(updated.instance_id or "")
    return group.targets.get(replaced or updated.member_id, ())


def _union_order(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """Order what a member names and what its expression matches, if it has both (`UnionSet`)."""
    resolved = group.regexes.get(member.regex)
    if resolved is None or not resolved.topics or not member.topics:
        return []
    both = [sorted(resolved.topics), list(dict.fromkeys(member.topic_order))]
    both.sort(key=len, reverse=True)
    in_order = [hash_order(each, capacity_for(len(each))) for each in both]
    return list(dict.fromkeys(in_order[0] + in_order[1]))


def _names(topics: TopicImage, targets: Iterable[tuple[IdPartition, ...]]) -> dict[str, str]:
    """Name topics by id; those that are gone by their ids."""
    names = {topic.topic_id: topic.name for topic in topics}
    for target in targets:
        for topic_id, _ in target:
            names.setdefault(topic_id, topic_id)
    return names
