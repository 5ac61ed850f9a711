"""Plan to delete committed offsets of groups for some topics, or whole groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from msgspec import structs

from kgroup.errors import ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.member_name import first_members
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.list_groups import idle_groups
from kgroup.operation.offsets.plan import (
    EVERY,
    IdleSince,
    OffsetPlan,
    OffsetTarget,
    PlannedOffset,
    Result,
    Topics,
    is_chosen,
    make_plan,
    not_committed,
    why_active,
)
from kgroup.operation.offsets.read import read_stored, unread
from kgroup.operation.report import first_names
from kgroup.source.base import GroupSource, OffsetReading, Question

_SHARED = (
    "It is a share group: its progress cannot be saved or restored; kafka-share-groups deletes it "
    "(--delete), or its state of topics (--delete-offsets)."
)
_HIDDEN = (
    "The group {} committed offsets for topics that you may not describe, and a backup would not "
    "contain them: it is not deleted. Get DESCRIBE on its topics, or choose --delete-hidden."
)
_SUBSCRIBED = (
    "Members of the group subscribe to the topic ({}): stop them, or remove it from their "
    "subscriptions."
)

Targets = Mapping[str, Mapping[TopicPartition, OffsetTarget]]


def plan_deletion(
    store: GroupSource,
    group_ids: Collection[str],
    regex: Pattern | None = None,
    *,
    topics: Topics = EVERY,
    hidden: bool = False,
) -> OffsetPlan:
    """Plan to delete committed offsets of groups for some partitions, or whole groups.

    The plan refuses what the coordinator would refuse, as far as known.

    Args:
        store: store of the offsets.
        group_ids: group ids.
        regex: also groups whose whole id matches, if they have committed offsets.
        topics: partitions whose offsets are deleted; empty to delete whole groups.
        hidden: also delete groups that may have committed offsets for topics which the user may not
            describe; no backup can restore these offsets.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = read_stored(store, group_ids, regex)
    chosen = {*group_ids, *reading.offsets}
    unknown = unread(reading, chosen)
    targets = {
        group_id: {
            (offset.topic, offset.partition): OffsetTarget(None)
            for offset in offsets
            if is_chosen((offset.topic, offset.partition), topics)
        }
        for group_id, offsets in reading.offsets.items()
        if group_id not in unknown
    }
    groups: dict[str, Group] = {}  # includes groups without commits
    if store.can(GroupSource.read):
        image_groups = store.read(chosen, Question(offsets=False, log_budget=0)).image.groups
        groups = {
            group_id: group for group_id, group in image_groups.items() if group_id not in unknown
        }
    shared = tuple(
        Problem(ProblemKind.UNSUPPORTED, _SHARED, group_id=group_id)
        for group_id, group in groups.items()
        if group.type is GroupType.SHARE
    )
    if topics:
        missing = not_committed(targets, topics, group_ids, reading.problems)
        return _of_topics(reading, targets, groups.values(), (*shared, *missing))
    return _of_groups(reading, targets, groups, (*shared, *(() if hidden else _unsaved(reading))))


def plan_idle_deletion(
    store: GroupSource, idle: IdleSince, regex: Pattern | None = None
) -> OffsetPlan:
    """Plan to delete the groups that have had no member and no commit since a time.

    Groups whose last commit is unknown stay, and share groups, which cannot be backed up; notes
    name them. Before the plan is executed, groups are read again: those that became active stay.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    report = idle_groups(store, idle.time_ms, log_budget=idle.log_budget, regex=regex)
    shared = [row.group_id for row in report.data if row.type is GroupType.SHARE]
    group_ids = [row.group_id for row in report.data if row.type is not GroupType.SHARE]
    # Without ids, `plan_deletion` would plan to delete every group.
    nothing = OffsetPlan((), {}, verdict=report.verdict)
    plan = plan_deletion(store, group_ids) if group_ids else nothing
    notes = [*report.notes, *plan.notes]
    if not report.data:
        notes.append("no group is known to have been idle for that long")
    if shared:
        notes.append(f"share groups left out ({first_names(shared)}): they cannot be backed up")
    problems = tuple(dict.fromkeys((*report.errors, *plan.problems)))
    return replace(plan, problems=problems, notes=tuple(notes), only_idle=idle)


def _of_topics(
    reading: OffsetReading, targets: Targets, groups: Iterable[Group], shared: tuple[Problem, ...]
) -> OffsetPlan:
    refused = {problem.group_id for problem in shared} - {None}
    active = (
        problem for group in groups for problem in _read(group, targets.get(group.group_id, {}))
    )
    missing = (problem for problem in reading.problems if problem.group_id not in refused)
    problems = (*active, *shared, *missing)
    return make_plan(reading.offsets, targets, problems=problems, notes=reading.notes)


def _of_groups(
    reading: OffsetReading,
    targets: Targets,
    groups: Mapping[str, Group],
    refusals: tuple[Problem, ...],
) -> OffsetPlan:
    group_ids = {*targets, *groups}
    active = why_active(group for group in groups.values() if group.type is not GroupType.SHARE)
    refused = {problem.group_id for problem in (*active, *refusals)}
    missing = (
        problem
        for problem in reading.problems
        if problem.group_id not in group_ids or problem.kind is ProblemKind.NOT_AUTHORIZED
    )
    plan = make_plan(
        reading.offsets, targets, problems=(*active, *refusals, *missing), notes=reading.notes
    )
    planned = (
        structs.replace(row, result=Result.REFUSED) if row.group_id in refused else row
        for row in plan.rows
    )
    changes = {name: of_group for name, of_group in plan.changes.items() if name not in refused}
    bare = (
        PlannedOffset.of_group(name, Result.REFUSED if name in refused else Result.PLANNED)
        for name in group_ids - targets.keys()
    )
    rows = sorted(
        (*planned, *bare), key=lambda row: row.group_id
    )  # stable: keeps the order in a group
    deleted = tuple(sorted(group_ids - refused))
    return replace(plan, rows=tuple(rows), changes=changes, deleted=deleted)


def _unsaved(reading: OffsetReading) -> Iterator[Problem]:
    """Yield the groups of which a backup lacks, or may lack, some committed offsets."""
    denied = [problem for problem in reading.problems if problem.kind is ProblemKind.NOT_AUTHORIZED]
    certain = {problem.group_id for problem in denied if problem.topic is not None}
    hidden = {problem.group_id for problem in denied} | reading.doubtful
    for group_id in sorted(group for group in hidden if group is not None):
        has = "has" if group_id in certain else "may have"
        yield Problem(ProblemKind.NOT_AUTHORIZED, _HIDDEN.format(has), group_id=group_id)


def _read(group: Group, ats: Iterable[TopicPartition]) -> Iterator[Problem]:
    """Yield the offsets that members protect from deletion: of subscribed topics, or all.

    Source: `Group.isSubscribedToTopic` and `validateOffsetDelete` of Kafka's group types.
    """
    if not why_active([group]):
        return
    if group.type is GroupType.ZOOKEEPER or (
        group.type is GroupType.CLASSIC and group.protocol_type != "consumer"
    ):
        yield from why_active([group])
        return
    topics = _subscribed(group)
    for topic, partition in ats:
        if topic in topics:
            yield Problem(
                ProblemKind.ACTIVE,
                _SUBSCRIBED.format(first_members(_subscribers(group, topic))),
                group_id=group.group_id,
                topic=topic,
                partition=partition,
            )


def _subscribers(group: Group, topic: str) -> Iterable[Member]:
    """Return the members that certainly subscribe to a topic; all of a streams group."""
    some = [member for member in group.members if topic in member.subscribed_topics]
    return some or group.members


def _subscribed(group: Group) -> frozenset[str]:
    """Return the topics that members certainly subscribe to.

    Only the coordinator knows the topics of a regular expression, and the subscriptions of a
    classic group during a rebalance.
    """
    if group.type is GroupType.STREAMS:
        parts = group.topology.subtopologies if group.topology else ()
        return frozenset(
            topic
            for part in parts
            for topic in (*part.source_topics, *part.repartition_source_topics)
        )
    if group.type is GroupType.CLASSIC and group.state is not GroupState.STABLE:
        return frozenset()
    return frozenset(topic for member in group.members for topic in member.subscribed_topics)
