"""What every operation returns: rows, the errors beside them, and remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.problem import Problem

Row = TypeVar("Row", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report(Generic[Row]):
    """The result of an operation.

    Attributes:
        data: the rows, in the order that the operation documents.
        errors: what is missing from them or may be wrong with them.
        notes: remarks for people (assumptions made, what the source cannot know), to be shown on
            standard error; they do not change the exit status.
        verdict: exit status, where there is more to it than rows and errors tell.
    """

    data: tuple[Row, ...]
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: ExitStatus | None = None

    @property
    def exit_status(self) -> ExitStatus:
        """What the operation comes to."""
        return outcome(self.data, self.errors) if self.verdict is None else self.verdict


def joined(reports: Sequence[Report[T]]) -> Report[T]:
    """Make one report of those of several sources; only one alone keeps its verdict.

    What is planned is for groups of one kind: of two sources one has nothing but errors.
    """
    if len(reports) == 1:
        return reports[0]
    return Report(
        tuple(row for report in reports for row in report.data),
        tuple(problem for report in reports for problem in report.errors),
        tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )


def first_names(things: Sequence[T], name: Callable[[T], str] = str) -> str:
    """Name the first ten, and say how many more there are."""
    more = f" and {len(things) - 10} more" if len(things) > 10 else ""
    return ", ".join(name(thing) or "''" for thing in things[:10]) + more


def outcome(rows: Sequence[object], errors: Sequence[Problem]) -> ExitStatus:
    """Return what rows and the errors beside them come to.

    Returns:
        DONE; PARTLY where there are errors; NOT_FOUND where they say that none of what was named
        exists, FAILED where nothing could be learnt of any of it.
    """
    if not errors:
        return ExitStatus.DONE
    if not rows:
        errors = [error for error in errors if error.kind is not ProblemKind.MORE] or errors
        if all(error.kind.exit_status is ExitStatus.NOT_FOUND for error in errors):
            return ExitStatus.NOT_FOUND
        if all(
            (error.group_id is not None and error.offset is None)
            or error.kind.exit_status is ExitStatus.FAILED
            for error in errors
        ):
            return ExitStatus.FAILED
    return ExitStatus.PARTLY
