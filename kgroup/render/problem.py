"""A problem as one line for people."""

from kgroup.model.problem import Problem

__all__ = ["problem_line"]


def problem_line(problem: Problem) -> str:
    """Say where it is, what kind it is and why."""
    place = [
        problem.path,
        None if problem.position is None else f"byte {problem.position}",
        None if problem.group_id is None else f"group {problem.group_id!r}",
        None
        if problem.offsets_partition is None
        else f"partition {problem.offsets_partition} of __consumer_offsets",
        None if problem.offset is None else f"offset {problem.offset}",
    ]
    parts = [text for text in place if text is not None]
    return ": ".join(
        [", ".join(parts), f"{problem.kind}", problem.reason]
        if parts
        else [problem.kind, problem.reason]
    )
