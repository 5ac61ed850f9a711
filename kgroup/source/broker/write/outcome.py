"""How changes of groups end, each with what was not done; a broker that is lost ends none of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import Coordinators, GroupCoordinator, Refusal

NOT_BEGUN = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The only error of a moving coordinator behind which nothing can have been written. Whatever else
one answers, the next one may find the records that the last one was still to replicate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was not done of a group; never false, which would stand for nothing there."""

    problems: tuple[Problem, ...] = ()


Change = Callable[
    [int, list[GroupCoordinator]], Coroutine[Any, Any, Mapping[str, Outcome | Refusal]]
]
"""Changes some groups of one coordinator; see `Coordinators.ask`."""


async def change_groups(
    client: BrokerClient, group_ids: Collection[str], change: Change, unsettled: Collection[str]
) -> tuple[Problem, ...]:
    """Have all coordinators change their groups; return what was not done, in the order of groups.

    `client.metadata` has been asked for. `unsettled` are groups, as `change` finds them, of which
    something was sent that may have been done; they stay that where no `Outcome` comes of them.

    Raises:
        BrokerError: no broker answers, before anything was changed.
    """
    outcomes: dict[str, Outcome] = {}

    async def noted(
        node: int, coordinators: list[GroupCoordinator]
    ) -> Mapping[str, Outcome | Refusal]:
        results = await change(node, coordinators)
        outcomes.update(
            (group_id, each) for group_id, each in results.items() if isinstance(each, Outcome)
        )
        return results

    coordinators = Coordinators(client, named=True)
    found = await coordinators.find(group_ids)
    problems = coordinators.problems
    try:
        await coordinators.ask(found, noted, reads=False)
    except BrokerError as error:  # nobody answers any more
        told = outcomes.keys() | {each.group_id for each in problems}
        left = [group_id for group_id in group_ids if group_id not in told]
        text = f"{sentence(error)}."
        problems += [Problem(error.kind, text, group_id=group_id) for group_id in left]
    by_group: dict[str | None, list[Problem]] = {}
    for problem in problems:
        is_settled = problem.group_id not in unsettled
        by_group.setdefault(problem.group_id, []).append(
            problem if is_settled else with_unknown_end(problem)
        )
    for group_id, outcome in outcomes.items():
        by_group[group_id] = list(outcome.problems)
    return tuple(each for group_id in group_ids for each in by_group.get(group_id, ()))


def sentence(error: BrokerError) -> str:
    """Begin a sentence with what a broker did."""
    text = str(error)
    return text[:1].upper() + text[1:]


def with_unknown_end(problem: Problem) -> Problem:
    """Say of a problem that what was asked for may have been done all the same."""
    reason = problem.reason.removesuffix(".")
    reason += "; whether the group was changed is not known: read it again."
    return replace(problem, kind=ProblemKind.UNKNOWN_END, reason=reason)
