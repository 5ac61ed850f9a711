"""Read groups selected by name or pattern, and report those that were not found."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from kgroup.errors import KgroupError, ProblemKind, near_names
from kgroup.model.problem import Problem
from kgroup.source.base import GroupSource, Question, Reading

_UNKNOWN = "Not found in what could be read."
_NEXT_STEP = "; 'kgroup list' lists all groups."


def select_groups(
    source: GroupSource,
    group_ids: Collection[str],
    question: Question,
    absence: str = "The group does not exist",
    suggestions: dict[str, str] | None = None,
) -> tuple[Reading, tuple[Problem, ...]]:
    """Read the groups with these ids, those that match the question's regex, or all groups.

    Args:
        source: source of groups.
        group_ids: group ids.
        question: what to read.
        absence: message about a missing group, without the end of the sentence.
        suggestions: ends of these sentences by group id, updated by each call. While the same
            groups are missing, the next call does not list all groups again to find similar names.

    Returns:
        The reading without problems of other groups; and problems: each named group that does not
        exist, or a pattern that matches no group.

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
    is_known = None not in unanswered  # otherwise, what could not be read may contain the groups
    absent = [
        group_id
        for group_id in dict.fromkeys(group_ids)
        if group_id not in groups and group_id not in unanswered
    ]
    ends = {} if suggestions is None else suggestions
    if is_known:
        known_ids = () if ends.keys() >= set(absent) else _ids(source)
        asked = {
            group_id: ends.get(group_id) or near_names(group_id, known_ids) or _NEXT_STEP
            for group_id in absent
        }
        ends.clear()
        ends.update(asked)
    missing = tuple(
        Problem(
            ProblemKind.NOT_FOUND,
            f"{absence}{ends[group_id]}" if is_known else _UNKNOWN,
            group_id=group_id,
        )
        for group_id in absent
    )
    if regex is not None and not groups and not unanswered:
        text = f"No group matches {regex.pattern!r}{_NEXT_STEP}"
        missing += (Problem(ProblemKind.NOT_FOUND, text),)
    return replace(reading, problems=problems), missing


def _ids(source: GroupSource) -> Collection[str]:
    """Return the ids of all groups; empty if the source cannot list them in time."""
    with suppress(KgroupError):
        question = Question(state=False, members=False, offsets=False, log_budget=0)
        return source.read(question=question).image.groups
    return ()
