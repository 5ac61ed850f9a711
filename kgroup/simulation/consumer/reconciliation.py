"""How a member comes from what it has to what it shall have, in three phases (KIP-848).

1. What it has and shall not have it is told to give up; it stays in its epoch until it has.
2. When it says that it has, it comes to the epoch of the target, and gets what nobody else has.
3. What others still have it gets with later heartbeats, when they have given it up.

`TABLE` says what a heartbeat does to a member in each of its states.

Source: `CurrentAssignmentBuilder` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kgroup.model.group import MemberState
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import IdPartition
from kgroup.simulation.consumer.topic_image import TopicImage


@dataclass(frozen=True, slots=True)
class Way:
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
        """Tell whether the member subscribes to a partition's topic."""
        return self.topics.name_of(partition[0]) in self.subscribed

    def still_has(self, partitions: Collection[IdPartition]) -> bool:
        """Tell whether the member has some of these, or may have: it does not say."""
        return self.owned is None or not self.owned.isdisjoint(partitions)


def _when_stable(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Take the next target; of the same one, drop what it does not subscribe to any more."""
    if member.epoch != way.epoch:
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _when_unrevoked(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Go on when it has given up what it was told to; until then there may only be more of it."""
    if not way.still_has(member.revoking):
        return _next(member, way)
    return _unsubscribed(member, way) if way.is_new else member


def _next(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Give up what it shall not have, then take what nobody has any more of the rest.

    Kafka: `computeNextAssignment`.
    """
    target = frozenset(filter(way.wants, way.target))
    kept = {each: since for each, since in member.assigned.items() if each in target}
    revoking = {each: since for each, since in member.assigned.items() if each not in target}
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, kept, revoking)
    missing = [each for each in way.target if each in target and each not in kept]
    free = [each for each in missing if each in member.revoking or not way.is_held(each)]
    is_complete = len(free) == len(missing)
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return member.moved(state, way.epoch, kept | dict.fromkeys(free, way.epoch), {})


def _unsubscribed(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Have it give up what it does not subscribe to any more (`updateCurrentAssignment`)."""
    assigned = {each: since for each, since in member.assigned.items() if way.wants(each)}
    # a member that subscribes to nothing is written anew in any case, as Kafka does
    is_same = len(assigned) == len(member.assigned)
    if is_same and (way.subscribed or member.revoking):
        return member
    dropped = {each: since for each, since in member.assigned.items() if each not in assigned}
    revoking = {**member.revoking, **dropped}
    if revoking and way.still_has(revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return member.moved(state, member.epoch, assigned, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


TABLE: Mapping[MemberState, Callable[[ConsumerMember, Way], ConsumerMember]] = {
    MemberState.STABLE: _when_stable,
    MemberState.UNREVOKED_PARTITIONS: _when_unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _next,
}
"""What a heartbeat does to a member that has something to do, in each state."""
