"""A problem as one line for people."""

from kgroup.model.problem import Problem

__all__ = ["problem_line"]


def problem_line(problem: Problem) -> str:
    """Say where it is, what kind it is and why."""
    known = [
        template.format(value)
        for template, value in (
            ("{}", problem.path),
            ("byte {}", problem.position),
            ("group {!r}", problem.group_id),
            ("partition {} of __consumer_offsets", problem.offsets_partition),
            ("offset {}", problem.offset),
        )
        if value is not None
    ]
    where = [", ".join(known)] if known else []
    return ": ".join([*where, problem.kind, problem.reason])
