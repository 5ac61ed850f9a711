"""A problem as one line for people."""

from __future__ import annotations

from kgroup.model.problem import Problem


def problem_line(problem: Problem) -> str:
    """Say where it is, what kind it is and why; a partition that the reason names not twice."""
    known = [
        template.format(value)
        for template, value in (
            ("{}", problem.path),
            ("byte {}", problem.position),
            ("group {!r}", problem.group_id),
            ("{}", _user_partition(problem)),
            ("partition {} of __consumer_offsets", problem.offsets_partition),
            ("offset {}", problem.offset),
        )
        if value is not None
    ]
    where = [", ".join(known)] if known else []
    return ": ".join([*where, problem.kind, problem.reason])


def _user_partition(problem: Problem) -> str | None:
    """Give the topic of a user, and its partition, where the reason does not name them."""
    if problem.topic is None:
        return None
    name = problem.topic if problem.partition is None else f"{problem.topic}-{problem.partition}"
    if any(word.strip(".,:;") == name for word in problem.reason.split()):
        return None
    return f"topic {name!r}" if problem.partition is None else name
