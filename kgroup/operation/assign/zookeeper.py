"""Registered groups of ZooKeeper consumers: owners, and the spec of a dry run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kgroup.assignor.base import AssignorError, java_order
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign_threads, strategies
from kgroup.assignor.zookeeper import ThreadAssignment, ThreadId
from kgroup.errors import InputError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import AssignedPartition, Group, Member
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import SubscriptionPattern


@dataclass(frozen=True, slots=True)
class Overlap:
    """Consumers of a group whose topics overlap directly or transitively; both sorted.

    Attributes:
        members: ids of consumers whose topics overlap; directly or through others, sorted.
        topics: topics that the consumers subscribe to; sorted.
    """

    members: tuple[str, ...]
    topics: tuple[str, ...]


def overlaps(spec: GroupSpec) -> tuple[Overlap, ...]:
    """Partition the consumers by overlapping topics, sorted by member id."""
    components: list[tuple[set[str], set[str]]] = []
    for member in spec.members:
        members, topics = {member.member_id}, set(member.topics)
        apart = []
        for other in components:
            if topics.isdisjoint(other[1]):
                apart.append(other)
            else:
                members |= other[0]
                topics |= other[1]
        components = [*apart, (members, topics)]
    made = (
        Overlap(tuple(sorted(members, key=utf16)), tuple(sorted(topics, key=utf16)))
        for members, topics in components
    )
    return tuple(sorted(made, key=lambda overlap: utf16(overlap.members[0])))


@dataclass(frozen=True, slots=True)
class PartitionOwner:
    """Current and computed owner of a partition.

    Attributes:
        owner: current consumer, and its thread number or None if unknown; None without an owner.
        given: thread to which the assignor assigns the partition; None if unassigned. If several
            consumers claim it, the first one.
    """

    topic: str
    partition: int
    owner: tuple[str, int | None] | None
    given: ThreadId | None

    @property
    def is_as_given(self) -> bool:
        """Whether the current owner is the computed one, as far as known."""
        if self.owner is None or self.given is None:
            return self.owner == self.given
        return self.owner[0] == self.given[0] and self.owner[1] in (None, self.given[1])


def ownership(spec: GroupSpec, threads: ThreadAssignment) -> tuple[PartitionOwner, ...]:
    """Return current and computed owners of partitions, by topic and number.

    Args:
        spec: group of ZooKeeper consumers.
        threads: computed assignment, by thread.
    """
    owners: dict[TopicPartition, tuple[str, int | None]] = {
        partition: (member.member_id, member.threads.get(partition))
        for member in (*spec.members, *spec.departed)
        for partition in member.owned or ()
    }
    given: dict[TopicPartition, ThreadId] = {}
    for thread, partitions in threads.items():
        for partition in partitions:
            given.setdefault(partition, thread)
    return tuple(
        PartitionOwner(*partition, owners.get(partition), given.get(partition))
        for partition in sorted(owners.keys() | given.keys(), key=java_order)
    )


def check_registrations(group: Group, problems: Iterable[Problem]) -> None:
    """Check that the subscriptions of all consumers are known.

    Raises:
        InputError: a node cannot be read, or its whitelist or blacklist cannot be evaluated.
    """
    ids = f"/consumers/{group.group_id}/ids/"
    unread = next((problem for problem in problems if (problem.path or "").startswith(ids)), None)
    if unread is None:
        return
    without = {
        f"{ids}{member.member_id}" for member in group.members if member.subscription is None
    }
    effect = (
        "Kafka's consumers read it too, and none of them can rebalance while it is there"
        if unread.kind is ProblemKind.BAD_NODE and unread.path in without
        else "kgroup does not guess what it subscribes to; --spec takes it from a file"
    )
    raise InputError.of_group(
        group.group_id, f"{unread.path}: {unread.reason.rstrip('.')}; {effect}"
    )


def registered_consumer(member: Member) -> MemberSpec:
    """Return a consumer with its topics and threads, and the partitions of its owner nodes."""
    subscription = member.subscription
    assert subscription is not None
    assert subscription.topics is not None  # ensured by check_registrations
    streams = dict(subscription.streams or {})
    topics = tuple(streams)
    if streams and subscription.pattern is not SubscriptionPattern.STATIC:
        topics = subscription.topics
        streams = dict.fromkeys(topics, next(iter(streams.values())))
    consumer = _owner(member.member_id, member.assignment or ())
    return replace(consumer, topics=topics, streams=streams)


def departed_consumers(group: Group) -> tuple[MemberSpec, ...]:
    """Return the consumers that own partitions but are not registered."""
    owned: dict[str, list[AssignedPartition]] = defaultdict(list)
    for stray in group.stray_owners:
        owned[stray.member_id].append(stray.partition)
    return tuple(_owner(member_id, partitions) for member_id, partitions in owned.items())


def with_fitting_strategy(spec: GroupSpec, asked: str | None) -> tuple[GroupSpec, str]:
    """Choose the strategy: the requested one, one that matches the current owners, or range.

    Returns:
        The spec with the strategy, and a note on the choice.
    """
    names = strategies(spec.protocol)
    fitting = [name for name in names if _gives_what_is_owned(replace(spec, strategy=name))]
    if asked is not None:
        chosen, why = asked, f"the strategy is {asked}"
    else:
        chosen = fitting[0] if fitting else names[0]
        why = f"no node in ZooKeeper contains partition.assignment.strategy; assuming {chosen}"
        why += ", Kafka's default" if chosen == names[0] else ""
    if chosen in fitting:
        now = "it gives the current assignment"
        if len(fitting) > 1:
            now += ", as every strategy does"
        elif asked is None and chosen != names[0]:
            now += f", unlike {names[0]}"
    elif fitting:
        now = f"{fitting[0]} gives the current assignment (--strategy {fitting[0]})"
    elif any(member.owned for member in (*spec.members, *spec.departed)):
        now = "no strategy gives the current assignment: see owners"
    else:
        now = "no partition has an owner now"
    return replace(spec, strategy=chosen), f"{why}; {now}"


def _gives_what_is_owned(spec: GroupSpec) -> bool:
    try:
        threads = assign_threads(spec)
    except AssignorError:
        return False
    return all(owner.is_as_given for owner in ownership(spec, threads))


def _owner(member_id: str, partitions: Iterable[AssignedPartition]) -> MemberSpec:
    named = [
        (partition.topic or "", partition.partition, partition.thread) for partition in partitions
    ]
    return MemberSpec(
        member_id,
        (),
        owned=tuple((topic, number) for topic, number, _ in named),
        threads={(topic, number): at for topic, number, at in named if at is not None},
    )
