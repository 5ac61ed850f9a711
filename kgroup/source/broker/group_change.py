"""Changes of groups at their coordinators, and problems of changes that failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import CoordinatedGroup, CoordinatorRefusal, Coordinators
from kgroup.source.broker.error_code import error_name, what_it_needs

OF_PARTITIONS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
"""Codes that concern a single partition. All others concern the whole group, although OffsetCommit
returns them per partition (`OffsetCommitRequest.getErrorResponse`).
"""

_ACTIVE = "it has members, for which only they may commit: stop or remove them"
_REASONS: Mapping[int, tuple[ProblemKind, str]] = {
    ErrorCode.ILLEGAL_GENERATION: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.UNKNOWN_MEMBER_ID: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.REBALANCE_IN_PROGRESS: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.NON_EMPTY_GROUP: (ProblemKind.ACTIVE, "it has members: stop or remove them"),
    ErrorCode.FENCED_MEMBER_EPOCH: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.STALE_MEMBER_EPOCH: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        ProblemKind.ACTIVE,
        "members of the group subscribe to the topic: stop them, or remove it from their "
        "subscriptions",
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: (
        ProblemKind.NOT_FOUND,
        "the group does not exist, or has a type that does not support this",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        ProblemKind.TOPIC_GONE,
        "the topic or partition does not exist",
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        ProblemKind.DENIED,
        "the metadata is larger than the broker's offset.metadata.max.bytes (4096 by default)",
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: (
        ProblemKind.DENIED,
        "the commit is larger than max.message.bytes of __consumer_offsets",
    ),
}


def refused(code: int, operation: str) -> tuple[ProblemKind, str]:
    """Return kind and sentence of a problem; `operation` is the required permission."""
    kind, reason = _REASONS.get(code, (ProblemKind.DENIED, what_it_needs(code, operation)))
    return kind, f"The cluster returned {error_name(code)}{f' ({reason})' if reason else ''}."


NOT_BEGUN = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The only error of a moving coordinator after which nothing can have been written. After any other
error, the next coordinator may find records that the previous one had yet to replicate.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Problems of a change to a group; an instance is never falsy, which would mean no result."""

    problems: tuple[Problem, ...] = ()


Change = Callable[
    [int, list[CoordinatedGroup]], Coroutine[Any, Any, Mapping[str, Outcome | CoordinatorRefusal]]
]
"""Changes some groups of one coordinator; see `Coordinators.ask`."""


async def change_groups(
    client: BrokerClient, group_ids: Collection[str], change: Change, unsettled: Collection[str]
) -> tuple[Problem, ...]:
    """Change groups at their coordinators; return the problems, in the order of groups.

    `client.metadata` must have been called. `change` adds groups to `unsettled` if a request was
    sent whose outcome is unknown; they stay there unless they get an `Outcome`.

    Raises:
        BrokerError: no broker answers, and nothing was changed.
    """
    outcomes: dict[str, Outcome] = {}

    async def noted(
        node: int, coordinators: list[CoordinatedGroup]
    ) -> Mapping[str, Outcome | CoordinatorRefusal]:
        results = await change(node, coordinators)
        outcomes.update(
            (group_id, outcome)
            for group_id, outcome in results.items()
            if isinstance(outcome, Outcome)
        )
        return results

    coordinators = Coordinators(client, named=True)
    groups = await coordinators.find(group_ids)
    problems = coordinators.problems
    try:
        await coordinators.ask(groups, noted, reads=False)
    except BrokerError as error:  # no broker answers any more
        answered = outcomes.keys() | {problem.group_id for problem in problems}
        left = [group_id for group_id in group_ids if group_id not in answered]
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
    return tuple(problem for group_id in group_ids for problem in by_group.get(group_id, ()))


def sentence(error: BrokerError) -> str:
    """Return the error message with a capital letter, to start a sentence."""
    text = str(error)
    return text[:1].upper() + text[1:]


def with_unknown_end(problem: Problem) -> Problem:
    """Return the problem with a note that the change may have been made nevertheless."""
    reason = problem.reason.removesuffix(".")
    reason += "; it is unknown whether the group was changed: read it again."
    return replace(problem, kind=ProblemKind.UNKNOWN_END, reason=reason)
