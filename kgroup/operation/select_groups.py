"""Read groups that are chosen by name or pattern, and tell which of them were not found."""

from collections.abc import Collection
from dataclasses import replace

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.source.base import GroupSource, Question, Reading

__all__ = ["select_groups"]


def select_groups(
    source: GroupSource, group_ids: Collection[str], question: Question
) -> tuple[Reading, tuple[Problem, ...]]:
    """Read the groups of these ids, those that the question's regex chooses, or all.

    Returns:
        What the source said, without problems of other groups; and what was not found: each group
        that was named and does not exist, a pattern where there is no group at all.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    names, regex = group_ids or None, question.regex
    reading = source.read(names, question)
    problems = tuple(
        problem
        for problem in reading.problems
        if problem.group_id is None or question.names(problem.group_id, names)
    )
    groups = reading.image.groups
    unanswered = {problem.group_id for problem in problems}
    is_known = None not in unanswered  # else the groups may be in what could not be read
    reason = "The group does not exist." if is_known else "Not found in what could be read."
    missing = tuple(
        Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id)
        for group_id in dict.fromkeys(group_ids)
        if group_id not in groups and group_id not in unanswered
    )
    if regex is not None and not groups and not unanswered:
        missing += (Problem(ProblemKind.NOT_FOUND, f"No group matches {regex.pattern!r}."),)
    return replace(reading, problems=problems), missing
