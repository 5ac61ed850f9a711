"""Groups of the ZooKeeper consumer, derived from their nodes.

There is no coordinator: a registered consumer is a member, and the consumer in an owner node owns
the partition. A group is Empty without registrations. It is Stable if each partition of each
subscribed topic has a registered owner. Otherwise it is Reconciling: its consumers have computed
the assignment, and not all have claimed their partitions (a rebalance is in progress, or has
failed).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kgroup.errors import ProblemKind
from kgroup.model.group import (
    AssignedPartition,
    Group,
    GroupState,
    GroupType,
    Member,
    StrayOwner,
    Subscription,
)
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import (
    GroupNodes,
    OffsetNode,
    OwnerNode,
    RegistrationNode,
    SubscriptionPattern,
    TopicNode,
    ZookeeperView,
)
from kgroup.protocol.zookeeper.node import consumer_host
from kgroup.protocol.zookeeper.topic_filter import filter_regex, subscribed_topics


def groups_of(view: ZookeeperView) -> tuple[Mapping[str, Group], tuple[Problem, ...]]:
    """Return the groups of a view, sorted by id, and the problems with them."""
    problems: list[Problem] = []
    groups = {
        group_id: _group(nodes, view.topics, problems) for group_id, nodes in view.groups.items()
    }
    return groups, tuple(problems)


def _group(nodes: GroupNodes, topics: Mapping[str, TopicNode], problems: list[Problem]) -> Group:
    problems.extend(_of_0_7(nodes))
    problems.extend(_no_offsets(nodes))
    owners = [owner for owner in nodes.owners if owner.broker is None]
    owned: dict[str, list[AssignedPartition]] = {}
    for owner in owners:
        owned.setdefault(owner.consumer_id, []).append(_owned(owner))
    owned_topics = frozenset(owner.topic for owner in owners)
    known = [
        _member(
            registration, owned.get(registration.consumer_id, ()), topics, owned_topics, problems
        )
        for registration in nodes.registrations
    ]
    known += [
        Member(
            consumer_id,
            client_host=consumer_host(nodes.group_id, consumer_id),
            assignment=tuple(owned.get(consumer_id, ())),
        )
        for consumer_id in nodes.unreadable
    ]
    members = tuple(sorted(known, key=lambda member: member.member_id))
    ids = {member.member_id for member in members}
    subscribed = {
        (topic, partition)
        for member in members
        for topic in member.subscribed_topics
        if topic in topics
        for partition in topics[topic].partitions
    }
    unowned = sorted(subscribed - {(owner.topic, owner.partition) for owner in owners})
    strays = tuple(
        StrayOwner(owner.consumer_id, _owned(owner))
        for owner in owners
        if owner.consumer_id not in ids
    )
    return Group(
        group_id=nodes.group_id,
        type=GroupType.ZOOKEEPER,
        state=_state(members, bool(unowned or strays)),
        members=members,
        offsets=tuple(_offset(node) for node in nodes.offsets if node.is_commit),
        unowned=tuple(AssignedPartition(None, *at) for at in unowned),
        stray_owners=strays,
        empty_commits=tuple(
            (node.topic, node.partition)
            for node in nodes.offsets
            if node.broker is None and node.offset < 0
        ),
    )


def _state(members: tuple[Member, ...], is_reconciling: bool) -> GroupState | None:
    if not members:
        return GroupState.EMPTY
    if any(member.subscription is None or member.subscription.topics is None for member in members):
        return None  # it is unknown whether there are unowned partitions
    return GroupState.RECONCILING if is_reconciling else GroupState.STABLE


def _member(
    node: RegistrationNode,
    owned: Sequence[AssignedPartition],
    topics: Mapping[str, TopicNode],
    owned_topics: Collection[str],
    problems: list[Problem],
) -> Member:
    names: tuple[str, ...] | None
    try:
        names = subscribed_topics(node, topics, owned_topics)
    except ValueError as error:
        names = None
        reason = f"What {node.consumer_id} reads is not known: {error}."
        problems.append(
            Problem(ProblemKind.BAD_NODE, reason, group_id=node.group_id, path=node.path)
        )
    is_list = node.pattern is not SubscriptionPattern.STATIC and node.subscription
    return Member(
        node.consumer_id,
        client_host=node.host,
        subscription=Subscription(
            names,
            regex=filter_regex(next(iter(node.subscription))) if is_list else None,
            pattern=node.pattern,
            streams=node.subscription,
        ),
        assignment=tuple(owned),
        session_id=node.stat.ephemeral_owner,
        registered_ms=node.stat.ctime_ms,
    )


def _owned(node: OwnerNode) -> AssignedPartition:
    return AssignedPartition(
        None, node.topic, node.partition, thread=node.thread, since_ms=node.stat.ctime_ms
    )


def _offset(node: OffsetNode) -> CommittedOffset:
    return CommittedOffset(
        node.topic, node.partition, node.offset, commit_timestamp_ms=node.stat.mtime_ms
    )


def _of_0_7(nodes: GroupNodes) -> Iterator[Problem]:
    """Yield a problem if owners or offsets are for partitions of Kafka 0.7 (per broker)."""
    brokers = [node.broker for node in nodes.owners] + [node.broker for node in nodes.offsets]
    count = sum(broker is not None for broker in brokers)
    if count:
        yield Problem(
            ProblemKind.UNSUPPORTED,
            f"Kafka 0.7 numbers partitions broker by broker: {count} owners and offsets of that "
            "kind are left out.",
            group_id=nodes.group_id,
        )


def _no_offsets(nodes: GroupNodes) -> Iterator[Problem]:
    """Yield a problem for each stored negative offset; a consumer ignores it and resets."""
    for node in nodes.offsets:
        if node.broker is None and node.offset < 0:
            yield Problem(
                ProblemKind.BAD_NODE,
                f"Expected an offset, found {node.offset}.",
                group_id=nodes.group_id,
                path=node.path,
                topic=node.topic,
                partition=node.partition,
            )
