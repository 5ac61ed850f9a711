"""The step of saved plans that somebody looks at or carries out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgroup.errors import InputError, UsageError
from kgroup.operation.plan.plan import Plan, PlanStep
from kgroup.operation.report import first_names


def chosen_steps(
    plans: Sequence[Plan], number: int, group_ids: Collection[str] = ()
) -> tuple[tuple[tuple[Plan, PlanStep], ...], tuple[str, ...]]:
    """Give the step of this number of each plan, or of those for the groups that are named.

    Returns:
        The plans that have such a step, with it, and notes on the others.

    Raises:
        UsageError: none of them has such a step, or there is no plan for a group that is named.
        InputError: there is no plan.
    """
    if unknown := set(group_ids) - {plan.group_id for plan in plans}:
        raise UsageError(
            f"there is no plan for {', '.join(sorted(unknown))}; there are plans for "
            f"{', '.join(plan.group_id for plan in plans) or 'no group'}"
        )
    if not plans:
        raise InputError("expected a plan of a group, found none")
    chosen = [plan for plan in plans if not group_ids or plan.group_id in group_ids]
    steps = tuple((plan, step) for plan in chosen for step in plan.steps if step.number == number)
    if not steps:
        most = max(len(plan.steps) for plan in chosen)
        if not most:
            raise UsageError("the plan has no step: nothing is to be done, or it cannot be done so")
        raise UsageError(f"expected --step of {most} at most, as the plan has, found {number}")
    there = {plan.group_id for plan, _ in steps}
    shorter = [plan.group_id for plan in chosen if plan.group_id not in there]
    return steps, (f"no step {number} is planned for {first_names(shorter)}",) if shorter else ()
