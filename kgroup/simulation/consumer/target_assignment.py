"""The target assignment of a consumer group, and the reconciliation of its members (KIP-848).

A member moves from its current assignment to its target in three phases:

1. The coordinator tells it to revoke the partitions outside its target; its epoch does not change.
2. When the member confirms the revocation, it moves to the target's epoch and receives the
   partitions of its target that no other member owns.
3. It receives the other partitions with later heartbeats, after their owners have revoked them.

`TABLE` has a handler for each member state.

Source: `TargetAssignmentBuilder` and `CurrentAssignmentBuilder` of 4.3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, filterfalse

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import hash_order
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.server.server import ServerGroup, Target, capacity_for, copied_set
from kgroup.assignor.strategy import assign_targets
from kgroup.model.group import MemberState
from kgroup.protocol.message.primitives import uuid_bytes
from kgroup.simulation.consumer.group import ConsumerGroup, TargetAssignment
from kgroup.simulation.consumer.member import ConsumerMember, Held
from kgroup.simulation.consumer.message import NumbersByTopic
from kgroup.simulation.consumer.topic_image import TopicImage


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The target of a member, and the facts needed to reconcile the member with it.

    Attributes:
        epoch: epoch of the target assignment.
        target: the member's target assignment.
        topics: existing topics.
        subscribed: subscribed topic names, including matches of its regular expression.
        is_new: the heartbeat changed the subscription.
        owned: partitions that the member reports; None if it does not report them.
        is_held: returns whether any member holds a partition.
    """

    epoch: int
    target: TargetAssignment
    topics: TopicImage
    subscribed: frozenset[str]
    is_new: bool
    owned: NumbersByTopic | None
    is_held: Callable[[str, int], bool]

    def wants(self, topic_id: str) -> bool:
        """Return whether the member subscribes to a topic."""
        return self.topics.name_of(topic_id) in self.subscribed

    def still_has(self, partitions: Held) -> bool:
        """Return whether the member owns some of these partitions, or does not report any."""
        return self.owned is None or not all(
            self.owned.get(topic_id, frozenset()).isdisjoint(numbers)
            for topic_id, numbers in partitions.items()
        )


def _when_stable(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Reconcile with a new target; within the same epoch, revoke unsubscribed topics."""
    if member.epoch != way.epoch:
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _when_unrevoked(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Continue after the revocation; until then, add partitions of unsubscribed topics to it."""
    if not way.still_has(member.revoking):
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _next(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Revoke partitions outside the target; then assign those of the target that are free.

    Kafka: `computeNextAssignment`.
    """
    target = {topic_id: some for topic_id, some in way.target.items() if way.wants(topic_id)}
    missing = {
        topic_id: [*filterfalse(member.assigned.get(topic_id, {}).__contains__, numbers)]
        for topic_id, numbers in target.items()
    }
    kept, revoking = _split(member.assigned, target, missing)
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, kept, revoking)
    state, assigned = MemberState.STABLE, {**kept}
    for topic_id, numbers in missing.items():
        own = member.revoking.get(topic_id, {})
        free = [number for number in numbers if number in own or not way.is_held(topic_id, number)]
        if free:
            assigned[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(free, way.epoch)}
        if len(free) < len(numbers):
            state = MemberState.UNRELEASED_PARTITIONS
    return member.moved(state, way.epoch, assigned, {})


def _split(held: Held, target: TargetAssignment, missing: TargetAssignment) -> tuple[Held, Held]:
    """Return the partitions inside and outside a target; `missing` has those not held."""
    inside, outside = dict[str, Mapping[int, int]](), dict[str, Mapping[int, int]]()
    for topic_id, epochs in held.items():
        kept, wanted = {**epochs}, target.get(topic_id, ())
        if len(wanted) - len(missing.get(topic_id, ())) < len(epochs):  # rarely
            gone = [*filterfalse(frozenset(wanted).__contains__, epochs)]
            outside[topic_id] = {number: kept.pop(number) for number in gone}
        if kept:
            inside[topic_id] = kept
    return inside, outside


def _unsubscribed(member: ConsumerMember, way: Reconciliation) -> ConsumerMember:
    """Revoke partitions of topics to which it no longer subscribes (`updateCurrentAssignment`)."""
    assigned = {
        topic_id: epochs for topic_id, epochs in member.assigned.items() if way.wants(topic_id)
    }
    # without a subscription, the member is always written again, as in Kafka
    is_same = len(assigned) == len(member.assigned)
    if is_same and (way.subscribed or member.revoking):
        return member
    revoking = {**member.revoking}
    for topic_id, epochs in member.assigned.items():
        if topic_id not in assigned:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, assigned, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


TABLE: Mapping[MemberState, Callable[[ConsumerMember, Reconciliation], ConsumerMember]] = {
    MemberState.STABLE: _when_stable,
    MemberState.UNREVOKED_PARTITIONS: _when_unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _next,
}
"""The handler for a member that is not reconciled, in each state."""


def target_assignments(
    group: ConsumerGroup,
    updated: ConsumerMember,
    topics: TopicImage,
    assignor: str,
    *,
    is_homogeneous: bool,
) -> Mapping[str, TargetAssignment]:
    """Return the target assignment of every member, in the order of the assignor.

    Args:
        group: the group before the member's heartbeat.
        updated: the member with the heartbeat's fields; it replaces another member with the same
            instance id.
        topics: existing topics.
        assignor: name of a server-side assignor.
        is_homogeneous: all members have the same subscription.

    Raises:
        AssignorError: Kafka's assignor fails.
        UnknownStrategyError: brokers have no such assignor.
    """
    members = {member_id: group.members[member_id] for member_id in group.member_order}
    members[updated.member_id] = updated
    replaced = group.statics.get(updated.instance_id or "")
    if replaced is not None and replaced != updated.member_id:
        del members[replaced]
    targets = group.targets
    owned = {**targets, updated.member_id: targets.get(replaced or updated.member_id, {})}
    names = _names(topics, targets.values())
    spec = GroupSpec(
        assignor,
        tuple(
            MemberSpec(
                member_id,
                tuple(dict.fromkeys([*member.topic_order, *sorted(group.topics_of(member))])),
                instance_id=member.instance_id,
                rack=member.rack_id,
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
    server.targets = {member_id: Target(server) for member_id in server.member_ids}
    for member_id, target in server.targets.items():
        by_topic = owned.get(member_id, {})
        target.put({numbers[names[at]]: copied_set(some) for at, some in by_topic.items()})
    # partitions of a replaced member count as owned, although no member has them
    server.owned = taken = defaultdict[int, set[int]](set)
    for topic_id, some in chain.from_iterable(by_topic.items() for by_topic in targets.values()):
        taken[numbers[names[topic_id]]].update(some)
    for member_id, member in members.items():
        if both := _union_order(group, member):
            server.subscriptions[member_id] = [
                numbers[name] for name in both if name in spec.topics
            ]
    topic_ids = list(names)
    assigned = assign_targets(assignor, server, group.group_id)
    targets_of = {
        member_id: {
            topic_ids[topic]: [*numbers]
            for topic, numbers in assigned.get(member_id, ())
            if numbers
        }
        for member_id in server.member_ids
    }
    # Frees a group of 100,000 partitions at once: without targets, it is in no cycle of references.
    server.targets = {}
    return targets_of


def is_moved(before: TargetAssignment, target: TargetAssignment) -> bool:
    """Return whether two targets differ, apart from their order."""
    return before.keys() != target.keys() or any(
        len(before[topic_id]) != len(numbers) or not {*numbers}.issuperset(before[topic_id])
        for topic_id, numbers in target.items()
    )


def _union_order(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """Return topics in `UnionSet` order; empty unless it has both names and matches."""
    resolved = group.regexes.get(member.regex)
    if resolved is None or not resolved.topics or not member.topics:
        return []
    both = [sorted(resolved.topics), list(dict.fromkeys(member.topic_order))]
    both.sort(key=len, reverse=True)
    in_order = [hash_order(names, capacity_for(len(names))) for names in both]
    return list(dict.fromkeys(in_order[0] + in_order[1]))


def _names(topics: TopicImage, targets: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return topic names by id; a deleted topic has its id as name."""
    names = {topic.topic_id: topic.name for topic in topics}
    for topic_id in chain.from_iterable(targets):
        names.setdefault(topic_id, topic_id)
    return names
