"""The target assignment of a consumer group, and how a member is reconciled with it (KIP-848).

A member comes from its assignment to its target in three phases:

1. It is told to revoke what it owns outside its target; it stays in its epoch until it has.
2. When it says that it has, it comes to the epoch of the target, and gets what nobody else owns.
3. What others still own it gets with later heartbeats, when they have revoked it.

`TABLE` says what a heartbeat does to a member in each of its states.

Source: `TargetAssignmentBuilder` and `CurrentAssignmentBuilder` of 4.3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from kgroup.assignor.base import Assignment, TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.server.server import ServerGroup, capacity_for
from kgroup.assignor.strategy import assignor_of
from kgroup.model.group import MemberState
from kgroup.protocol.message.primitives import uuid_bytes
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import IdPartition
from kgroup.simulation.consumer.topic_image import TopicImage


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member is to be reconciled to, and what is known about its way.

    Attributes:
        epoch: of the target assignment.
        target: what it shall have.
        topics: that exist.
        subscribed: names that it subscribes to, those that its expression matches included.
        is_new: whether it has changed its subscription just now.
        owned: what it says it has; None: it does not say.
        is_held: tells whether anybody has a partition.
    """

    epoch: int
    target: Collection[IdPartition]
    topics: TopicImage
    subscribed: frozenset[str]
    is_new: bool
    owned: frozenset[IdPartition] | None
    is_held: Callable[[IdPartition], bool]

    def wants(self, partition: IdPartition) -> bool:
        """Return whether the member subscribes to a partition's topic."""
        return self.topics.name_of(partition[0]) in self.subscribed

    def still_has(self, partitions: Collection[IdPartition]) -> bool:
        """Return whether the member has some of these, or may have: it does not say."""
        return self.owned is None or not self.owned.isdisjoint(partitions)


def _when_stable(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Take the next target; of the same one, drop what it does not subscribe to any more."""
    if member.epoch != way.epoch:
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _when_unrevoked(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Go on when it has given up what it was told to; until then there may only be more of it."""
    if not way.still_has(member.revoking):
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _next(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Give up what it shall not have, then take what nobody has any more of the rest.

    Kafka: `computeNextAssignment`.
    """
    target = frozenset(filter(way.wants, way.target))
    kept = {partition: since for partition, since in member.assigned.items() if partition in target}
    revoking = {
        partition: since for partition, since in member.assigned.items() if partition not in target
    }
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, kept, revoking)
    missing = [
        partition for partition in way.target if partition in target and partition not in kept
    ]
    free = [
        partition
        for partition in missing
        if partition in member.revoking or not way.is_held(partition)
    ]
    is_complete = len(free) == len(missing)
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return member.moved(state, way.epoch, kept | dict.fromkeys(free, way.epoch), {})


def _unsubscribed(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Have it give up what it does not subscribe to any more (`updateCurrentAssignment`)."""
    assigned = {
        partition: since for partition, since in member.assigned.items() if way.wants(partition)
    }
    # a member that subscribes to nothing is written anew in any case, as Kafka does
    is_same = len(assigned) == len(member.assigned)
    if is_same and (way.subscribed or member.revoking):
        return member
    dropped = {
        partition: since
        for partition, since in member.assigned.items()
        if partition not in assigned
    }
    revoking = {**member.revoking, **dropped}
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, assigned, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


TABLE: Mapping[MemberState, Callable[[ConsumerMember, Reconciliation], ConsumerMember]] = {
    MemberState.STABLE: _when_stable,
    MemberState.UNREVOKED_PARTITIONS: _when_unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _next,
}
"""What a heartbeat does to a member that has something to do, in each state."""


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
        {topic.name: TopicMetadata(topic.partitions, topic.racks) for topic in topics},
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
        member_id: tuple((ids[name], number) for name, number in partitions)
        for member_id, partitions in assigned.items()
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
