"""Whether a step of a plan is done: the group as it is, beside what the step was to make of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kgroup.errors import ExitStatus, InputError, UsageError
from kgroup.model.group import Group, GroupState
from kgroup.operation.plan.plan import Plan, PlannedMember, PlanStep
from kgroup.operation.plan.running import planned_members
from kgroup.operation.report import Report, first_names
from kgroup.operation.select_groups import select_groups
from kgroup.source.base import GroupSource, Question
from kgroup.word import Word

__all__ = ["Condition", "Progress", "StepCheck", "verify_step", "with_members_seen"]

_QUESTION = Question(offsets=False, log_budget=0)


class Progress(Word):
    """How far a step, or something that it was to do, has come."""

    DONE = ("done", "All is as it should be.")
    HALF_DONE = ("half-done", "Some members have taken the step, or the group does not rest yet.")
    NOT_BEGUN = ("not-begun", "Nothing of it is to be seen.")
    WRONG = ("wrong", "The step was taken, and the group is not as it should be.")


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the things that a step was to bring about.

    Attributes:
        text: what should be.
        found: what is; None where nobody tells.
    """

    text: str
    progress: Progress
    found: str | None


@dataclass(frozen=True, slots=True)
class StepCheck:
    """What `kgroup plan verify` found of one group.

    Attributes:
        step: its number.
        progress: of the whole step.
        missing: members that have not taken it, by their names in the plan.
        members: that are there now.
    """

    group_id: str
    step: int
    title: str
    progress: Progress
    missing: tuple[str, ...]
    conditions: tuple[Condition, ...]
    members: tuple[PlannedMember, ...]


def verify_step(
    source: GroupSource, plans: Sequence[Plan], number: int, group_ids: Collection[str] = ()
) -> Report[StepCheck]:
    """Look at the groups of plans.

    Args:
        source: of groups.
        plans: that were saved.
        number: of the step.
        group_ids: only these; all where none is named.

    Returns:
        A check for each group; groups that do not exist are problems. Its verdict is a problem
        where a step is not done.

    Raises:
        UsageError: no plan has such a step, or is for a group that is named.
        BrokerError: nobody answers.
    """
    chosen = [plan for plan in plans if not group_ids or plan.group_id in group_ids]
    if unknown := set(group_ids) - {plan.group_id for plan in plans}:
        raise UsageError(
            f"there is no plan for {', '.join(sorted(unknown))}; there are plans for "
            f"{', '.join(plan.group_id for plan in plans) or 'no group'}"
        )
    if not chosen:
        raise InputError("expected a plan of a group, found none")
    steps = {plan.group_id: step for plan in chosen for step in plan.steps if step.number == number}
    if not steps:
        most = max(len(plan.steps) for plan in chosen)
        raise UsageError(f"expected --step of {most} at most, as the plan has, found {number}")
    reading, missing = select_groups(source, list(steps), _QUESTION)
    checks = tuple(
        _check(plan, steps[plan.group_id], reading.image.groups[plan.group_id])
        for plan in chosen
        if plan.group_id in reading.image.groups
    )
    shorter = [plan.group_id for plan in chosen if plan.group_id not in steps]
    notes = (f"no step {number} is planned for {first_names(shorter)}",) if shorter else ()
    problems = (*missing, *reading.problems)
    is_done = all(each.progress is Progress.DONE for each in checks)
    verdict = None if problems or is_done else ExitStatus.PROBLEM
    return Report(checks, problems, (*reading.notes, *notes), verdict)


def with_members_seen(plan: Plan, check: StepCheck) -> Plan:
    """Note who was there when a step was done: the next step is to replace them."""
    steps = tuple(
        replace(step, seen=check.members) if step.number == check.step else step
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def _check(plan: Plan, step: PlanStep, group: Group) -> StepCheck:
    there = {member.member_id for member in group.members}
    missing = _not_restarted(plan, step, there) if step.expected.is_restarted else ()
    conditions = tuple(_conditions(plan, step, group, missing))
    progress = _whole(step, group, [each.progress for each in conditions], missing)
    return StepCheck(
        plan.group_id,
        step.number,
        step.title,
        progress,
        missing,
        conditions,
        planned_members(group.members),
    )


def _not_restarted(plan: Plan, step: PlanStep, there: Collection[str]) -> tuple[str, ...]:
    """Name the members that are still the ones that they were before the step.

    Who was there when the last step before was verified, its check has noted; a member that is
    restarted comes back with another id, a static one too (`ClassicGroup.replaceStaticMember`).
    """
    seen = [each.seen for each in plan.steps if each.number < step.number and each.seen]
    if seen:
        return tuple(each.name for each in seen[-1] if each.member_id in there)
    return tuple(
        each.name
        for each in plan.members
        if each.member_id in there and (not step.restarted or each.name in step.restarted)
    )


def _conditions(
    plan: Plan, step: PlanStep, group: Group, missing: Sequence[str]
) -> Iterator[Condition]:
    expected = step.expected
    count = len(group.members)
    if expected.is_restarted:
        total = len(step.restarted)
        progress = Progress.DONE
        if missing:
            begun = len(missing) < total or count < len(plan.members)
            progress = Progress.HALF_DONE if begun else Progress.NOT_BEGUN
        yield Condition(
            f"All {total} members were restarted." if total != 1 else "The member was restarted.",
            progress,
            f"not yet: {', '.join(missing)}" if missing else "every one has another id",
        )
    if expected.members is not None:
        yield Condition(
            f"The group has {expected.members} members or more.",
            Progress.DONE if count >= expected.members else Progress.HALF_DONE,
            str(count),
        )
    if expected.type is not None:
        yield _same("type", expected.type, group.type)
    if expected.assignor is not None:
        yield _same("strategy", expected.assignor, group.assignor)
    is_stable = group.state is GroupState.STABLE
    yield Condition(
        "The group is stable.",
        Progress.DONE if is_stable else Progress.HALF_DONE,
        None if group.state is None else str(group.state),
    )


def _same(what: str, expected: str, found: str | None) -> Condition:
    progress = Progress.DONE if expected == found else Progress.WRONG
    if found is None:  # as long as a rebalance goes on
        progress = Progress.HALF_DONE
    return Condition(f"The group's {what} is {expected}.", progress, found)


def _whole(
    step: PlanStep, group: Group, found: Sequence[Progress], missing: Sequence[str]
) -> Progress:
    """Say how far a step is; what is wrong before it was taken by all may still come right."""
    if all(each is Progress.DONE for each in found):
        return Progress.DONE
    if Progress.NOT_BEGUN in found:
        return Progress.NOT_BEGUN
    if missing or Progress.HALF_DONE in found:
        return Progress.HALF_DONE
    return Progress.WRONG
