"""The offsets that a step of a plan copies: how far they are copied, and a plan to copy them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kgroup.errors import ProblemKind, UsageError, shown_id
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import OffsetPlan, Result, active_groups
from kgroup.operation.offsets.read import read_stored
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.operation.plan.plan import OffsetCopy, Plan, PlanStep, chosen_steps
from kgroup.source.base import GroupSource
from kgroup.source.offset_change import At


@dataclass(frozen=True, slots=True)
class StepCopy:
    """What the same step of several plans copies.

    Attributes:
        copy: None: nothing.
        group_ids: of which groups.
        notes: what people do of the step, for which groups; and which have no such step.
    """

    copy: OffsetCopy | None
    group_ids: tuple[str, ...]
    notes: tuple[str, ...]


def copy_of_step(plans: Sequence[Plan], number: int, group_ids: Collection[str] = ()) -> StepCopy:
    """Tell what of a step can be applied, of all groups or of those that are named.

    Raises:
        InputError: there is no plan.
        UsageError: none has such a step, or is for a group that is named; or they copy between
            different stores, or give several groups another name.
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
    """Plan to copy what groups have committed.

    What both stores are to have in the end is copied only of groups without members: they would
    commit more to the first one.

    Raises:
        InputError: there is nothing to read.
        BrokerError: nobody answers.
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
    }  # where the second store tells
    active = tuple(
        replace(group, group_id=group.group_id if copy.new_id is None else copy.new_id)
        for group in active_groups(origin, group_ids)
    )
    names = {problem.group_id for problem in active}
    rows = tuple(
        replace(row, result=Result.REFUSED)
        if row.group_id in names and row.result is Result.PLANNED
        else row
        for row in plan.rows
    )
    changes = {name: each for name, each in plan.changes.items() if name not in names}
    new = tuple(problem for problem in active if (problem.kind, problem.group_id) not in known)
    return replace(plan, rows=rows, changes=changes, problems=(*new, *plan.problems))


@dataclass(frozen=True, slots=True)
class Copied:
    """How far offsets are copied.

    Attributes:
        partitions: of how many the first store has an offset.
        missing: those of which the second has none, by topic and number.
        different: those of which it has another one.
        problems: what could not be read.
    """

    partitions: int
    missing: tuple[At, ...]
    different: tuple[At, ...]
    problems: tuple[Problem, ...]


def compare_copied(
    origin: GroupSource, goal: GroupSource, copy: OffsetCopy, group_id: str
) -> Copied:
    """Compare two stores; what only the second one has does not matter.

    Raises:
        InputError: there is nothing to read.
        BrokerError: nobody answers.
    """
    new_id = group_id if copy.new_id is None else copy.new_id
    first, second = read_stored(origin, [group_id]), read_stored(goal, [new_id])
    wanted = _by_partition(first.offsets.get(group_id, ()))
    there = _by_partition(second.offsets.get(new_id, ()))
    return Copied(
        len(wanted),
        tuple(at for at in wanted if at not in there),
        tuple(at for at, offset in wanted.items() if there.get(at, offset) != offset),
        tuple(
            problem
            for problem in (*first.problems, *second.problems)
            if problem.kind is not ProblemKind.NOT_FOUND
        ),
    )


def _by_partition(offsets: Iterable[CommittedOffset]) -> dict[At, int]:
    return {(offset.topic, offset.partition): offset.committed_offset for offset in offsets}
