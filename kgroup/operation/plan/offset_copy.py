"""Copy the offsets of a plan step, and check how far they are copied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kgroup.errors import ProblemKind, UsageError, shown_id
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import OffsetPlan, Result, refused_groups
from kgroup.operation.offsets.read import read_stored
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.operation.plan.plan import OffsetCopy, Plan, PlanStep, chosen_steps
from kgroup.source.base import GroupSource


@dataclass(frozen=True, slots=True)
class StepCopy:
    """What the same step of several plans copies.

    Attributes:
        copy: the copy; None if the step copies nothing.
        group_ids: groups with this copy.
        notes: groups whose step is manual, with instructions; and groups without such a step.
    """

    copy: OffsetCopy | None
    group_ids: tuple[str, ...]
    notes: tuple[str, ...]


def copy_of_step(plans: Sequence[Plan], number: int, group_ids: Collection[str] = ()) -> StepCopy:
    """Return the copy of a step, for all groups or for the named ones.

    Raises:
        InputError: there is no plan.
        UsageError: no plan has the step or is for a named group; or the plans copy between
            different stores, or rename several groups.
    """
    steps, notes = chosen_steps(plans, number, group_ids)
    copying = [(plan, step.copies) for plan, step in steps if step.copies is not None]
    notes = (*notes, *(_by_hand(plan, step) for plan, step in steps if step.copies is None))
    if not copying:
        return StepCopy(None, (), notes)
    first = copying[0][1]
    names = tuple(plan.group_id for plan, _ in copying)
    is_same = all(copy == first for _, copy in copying)
    if not is_same or (first.new_id is not None and len(names) > 1):
        raise UsageError(
            "the step does not copy between the same stores for all groups of the plan: name one "
            f"of {', '.join(names)}"
        )
    return StepCopy(first, names, notes)


def _by_hand(plan: Plan, step: PlanStep) -> str:
    what = (*step.actions, *(f"Run: {command}" for command in step.commands))
    return (
        f"step {step.number} for {shown_id(plan.group_id)} copies no offsets, which is all that "
        f"can be applied; do it by hand: {step.title}. {' '.join(what)}".rstrip()
    )


def plan_copy(
    origin: GroupSource,
    goal: GroupSource,
    copy: OffsetCopy,
    group_ids: Collection[str],
    notes: tuple[str, ...] = (),
) -> OffsetPlan:
    """Plan to copy the committed offsets of groups.

    A final copy, after which both stores are equal, requires groups without members: members would
    continue to commit to the first store.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    clusters = [source for source in (goal, origin) if source.can(GroupSource.read)]
    plan = plan_transfer(
        origin,
        goal,
        clusters[0] if clusters else None,
        group_ids,
        new_id=copy.new_id,
        leader_epochs=False,
    )
    plan = replace(plan, notes=(*notes, *plan.notes))
    if not copy.is_last:
        return plan
    known = {
        (problem.kind, problem.group_id) for problem in plan.problems
    }  # known from the second store
    active = tuple(
        replace(group, group_id=group.group_id if copy.new_id is None else copy.new_id)
        for group in refused_groups(origin, group_ids)
    )
    names = {problem.group_id for problem in active}
    rows = tuple(
        replace(row, result=Result.REFUSED)
        if row.group_id in names and row.result is Result.PLANNED
        else row
        for row in plan.rows
    )
    changes = {name: of_group for name, of_group in plan.changes.items() if name not in names}
    new = tuple(problem for problem in active if (problem.kind, problem.group_id) not in known)
    return replace(plan, rows=rows, changes=changes, problems=(*new, *plan.problems))


@dataclass(frozen=True, slots=True)
class Copied:
    """Progress of a copy.

    Attributes:
        partitions: number of partitions with an offset in the first store.
        missing: partitions without an offset in the second store, by topic and number.
        different: partitions with a different offset in the second store.
        problems: what could not be read.
    """

    partitions: int
    missing: tuple[TopicPartition, ...]
    different: tuple[TopicPartition, ...]
    problems: tuple[Problem, ...]


def compare_copied(
    origin: GroupSource, goal: GroupSource, copy: OffsetCopy, group_id: str
) -> Copied:
    """Compare two stores; ignore offsets that only the second one has.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    new_id = group_id if copy.new_id is None else copy.new_id
    first, second = read_stored(origin, [group_id]), read_stored(goal, [new_id])
    wanted = _by_partition(first.offsets.get(group_id, ()))
    existing = _by_partition(second.offsets.get(new_id, ()))
    return Copied(
        len(wanted),
        tuple(at for at in wanted if at not in existing),
        tuple(at for at, offset in wanted.items() if existing.get(at, offset) != offset),
        tuple(
            problem
            for problem in (*first.problems, *second.problems)
            if problem.kind is not ProblemKind.NOT_FOUND
        ),
    )


def _by_partition(offsets: Iterable[CommittedOffset]) -> dict[TopicPartition, int]:
    return {(offset.topic, offset.partition): offset.committed_offset for offset in offsets}
