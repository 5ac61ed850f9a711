"""Whether a step of a plan is done: the group as it is, beside what the step was to make of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kgroup.errors import ExitStatus, UsageError, shown_id
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.problem import Problem
from kgroup.operation.plan.chosen_step import chosen_steps
from kgroup.operation.plan.plan import Plan, PlannedMember, PlanStep
from kgroup.operation.plan.running import planned_members
from kgroup.operation.plan.verify.condition import (
    Commits,
    Condition,
    OpenStores,
    Progress,
    Seen,
    conditions,
    copied,
)
from kgroup.operation.plan.verify.member import is_shown, turnover
from kgroup.operation.report import Report
from kgroup.operation.select_groups import select_groups
from kgroup.operation.zookeeper.commit import kafka_offsets
from kgroup.source.base import (
    ClusterSource,
    GroupSource,
    KafkaOffsets,
    NodeSource,
    Question,
    WritableOffsetStore,
)


@dataclass(frozen=True, slots=True)
class StepCheck:
    """What `kgroup plan verify` found of one group.

    Attributes:
        step: its number.
        progress: of the whole step.
        missing: members that have not taken it, by their names in the plan.
        new: members that were not there before it, where it can be told who they are.
        members: that are there now.
    """

    group_id: str
    step: int
    title: str
    progress: Progress
    missing: tuple[str, ...]
    new: tuple[str, ...]
    conditions: tuple[Condition, ...]
    members: tuple[PlannedMember, ...]


def verify_step(
    source: GroupSource,
    plans: Sequence[Plan],
    number: int,
    group_ids: Collection[str] = (),
    *,
    open_stores: OpenStores | None = None,
) -> Report[StepCheck]:
    """Look at the groups of plans.

    Args:
        source: of groups.
        plans: that were saved.
        number: of the step.
        group_ids: only these; all where none is named.
        open_stores: where the step copies offsets; None: it does not, or nobody can tell.

    Returns:
        A check for each group; groups that do not exist are problems. Its verdict is a problem
        where a step is not done.

    Raises:
        UsageError: no plan has such a step, or is for a group that is named; or the step is to be
            seen in another source.
        BrokerError: nobody answers.
    """
    chosen, notes = chosen_steps(plans, number, group_ids)
    steps = {plan.group_id: step for plan, step in chosen}
    for step in steps.values():
        _check_source(source, step)
    _check_cluster(source, [plan for plan, _ in chosen])
    # Before ZooKeeper: whoever commits to both writes there last, so that it is never behind.
    asked = [group_id for group_id, step in steps.items() if step.expected.commits]
    kafka = kafka_offsets(source, asked)
    counts = _partition_counts(source, steps.values())
    question = Question(offsets=bool(asked), log_budget=0, commit_times=False)
    reading, missing = select_groups(source, list(steps), question)
    gone = _gone(chosen, missing, reading.problems)
    groups = {**reading.image.groups, **gone}
    checks = tuple(
        _check(
            plan, step, groups[plan.group_id], _of_group(kafka, plan.group_id), counts, open_stores
        )
        for plan, step in chosen
        if plan.group_id in groups
    )
    missing = tuple(each for each in missing if each.group_id not in gone)
    problems = (*missing, *reading.problems, *kafka.problems)
    is_done = all(each.progress is Progress.DONE for each in checks)
    verdict = None if problems or is_done else ExitStatus.PROBLEM
    return Report(checks, problems, (*reading.notes, *notes), verdict)


def _gone(
    chosen: Iterable[tuple[Plan, PlanStep]], missing: Iterable[Problem], others: Iterable[Problem]
) -> Mapping[str, Group]:
    """Give groups that were to become empty, and are not there: without commits none stays.

    Not where others may be in what could not be read.
    """
    if any(each.group_id is None for each in others):
        return {}
    names = {each.group_id for each in missing}
    return {
        plan.group_id: Group(plan.group_id, plan.type, GroupState.EMPTY)
        for plan, step in chosen
        if plan.group_id in names and step.expected.state is GroupState.EMPTY
        if plan.type is not None
    }


def _check_cluster(source: GroupSource, plans: Iterable[Plan]) -> None:
    """Refuse to look at a group of the same name in another cluster."""
    if not isinstance(source, WritableOffsetStore):
        return
    name = source.store_name
    for plan in plans:
        if None not in (plan.cluster_id, name.cluster_id) and plan.cluster_id != name.cluster_id:
            raise UsageError(
                f"the plan for {shown_id(plan.group_id)} was made in the cluster of id "
                f"{plan.cluster_id}; found {name}"
            )


def _check_source(source: GroupSource, step: PlanStep) -> None:
    """Refuse to look in Kafka for what is in ZooKeeper, or the other way round."""
    if step.expected.type is None:
        return
    is_there = step.expected.type is GroupType.ZOOKEEPER
    if is_there and not isinstance(source, NodeSource):
        raise UsageError(
            f"step {step.number} is to be seen in ZooKeeper: expected --zookeeper HOST:PORT/CHROOT"
        )
    if isinstance(source, NodeSource) and not is_there:
        raise UsageError(
            f"step {step.number} is to be seen at the brokers: expected --bootstrap-server "
            "HOST:PORT, found ZooKeeper"
        )


def _of_group(kafka: KafkaOffsets, group_id: str) -> Commits | None:
    """Give what one group has committed to Kafka; None where nobody tells."""
    if kafka.offsets is None:
        return None
    return {at[1:]: offset for at, offset in kafka.offsets.items() if at[0] == group_id}


def with_members_seen(plan: Plan, check: StepCheck) -> Plan:
    """Note who was there when a step was done: the next step is to replace them.

    Just once: who is there later may have taken the next step, which would seem to be undone. Until
    it is done it is noted who came in between: they are to be restarted with the others.
    """
    came = tuple(each for each in check.members if each.name in check.new)

    def noted(step: PlanStep) -> PlanStep:
        if step.number != check.step or step.seen is not None:
            return step
        if check.progress is Progress.DONE:
            return replace(step, seen=check.members)
        if came and not is_shown(plan, step):
            return replace(step, met=(*(step.met or ()), *came))
        return step

    return replace(plan, steps=tuple(map(noted, plan.steps)))


def _partition_counts(source: GroupSource, steps: Iterable[PlanStep]) -> Mapping[str, int]:
    """Tell how many partitions topics have, where that matters and the source knows it."""
    topics = {topic for step in steps for topic in step.expected.partitions}
    if not topics or not isinstance(source, ClusterSource):
        return {}
    return {name: len(found.partitions) for name, found in source.view(topics).topics.items()}


def _check(
    plan: Plan,
    step: PlanStep,
    group: Group,
    kafka: Commits | None,
    counts: Mapping[str, int],
    open_stores: OpenStores | None,
) -> StepCheck:
    there = planned_members(group.members)
    members = turnover(plan, step, there)
    missing: tuple[str, ...] = ()
    if step.expected.is_restarted:
        missing = tuple(each.name for each in members.missing)
    elif step.expected.state is GroupState.EMPTY:
        names = {each.member_id: each.name for each in plan.members}
        missing = tuple(sorted(names.get(each.member_id, each.member_id) for each in there))
    found = tuple(conditions(plan, step, Seen(group, kafka, counts, members, missing)))
    if step.copies is not None and step.expected.commits is None:  # which tells the same
        found += (copied(step.copies, plan.group_id, open_stores),)
    progress = _whole([each.progress for each in found], missing)
    if progress is not Progress.WRONG:  # what is not so yet may still come
        found = tuple(
            replace(each, progress=progress) if each.progress is Progress.WRONG else each
            for each in found
        )
    new = tuple(each.name for each in members.known_new) if step.expected.is_restarted else ()
    return StepCheck(plan.group_id, step.number, step.title, progress, missing, new, found, there)


def _whole(found: Sequence[Progress], missing: Sequence[str]) -> Progress:
    """Say how far a step is; what is wrong before it was taken by all may still come right."""
    if all(each is Progress.DONE for each in found):
        return Progress.DONE
    if Progress.NOT_BEGUN in found:
        return Progress.NOT_BEGUN
    if missing or Progress.HALF_DONE in found:
        return Progress.HALF_DONE
    return Progress.WRONG
