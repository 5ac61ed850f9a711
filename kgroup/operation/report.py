"""The result of every operation: rows, errors and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.problem import Problem

Row = TypeVar("Row", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report(Generic[Row]):
    """The result of an operation.

    Attributes:
        data: rows, in the order that the operation documents.
        errors: what is missing from the rows or may be wrong in them.
        notes: assumptions and limits of the source, for people, shown on standard error; they do
            not change the exit status.
        verdict: exit status, if it does not follow from rows and errors.
    """

    data: Sequence[Row]
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: ExitStatus | None = None

    @property
    def exit_status(self) -> ExitStatus:
        """The exit status of the operation."""
        return outcome(self.data, self.errors) if self.verdict is None else self.verdict


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of rows.

    Attributes:
        key: name of the value by which rows are sorted.
        is_descending: whether the largest value comes first.
    """

    key: str
    is_descending: bool = False

    def __str__(self) -> str:
        return f"{self.key}, largest first" if self.is_descending else self.key

    def sorted(self, rows: Iterable[T], value: Callable[[T], Any]) -> list[T]:
        """Return rows in this order; those of which the value is unknown (None) come last."""
        given = list(rows)
        known = [row for row in given if value(row) is not None]
        unknown = [row for row in given if value(row) is None]
        return sorted(known, key=value, reverse=self.is_descending) + unknown


def joined(reports: Sequence[Report[T]]) -> Report[T]:
    """Return one report of several sources; the verdict is kept only if there is one report.

    Plans apply to groups of one kind; with two sources, one of them reports only errors.
    """
    if len(reports) == 1:
        return reports[0]
    return Report(
        tuple(row for report in reports for row in report.data),
        tuple(problem for report in reports for problem in report.errors),
        tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )


def first_names(things: Sequence[T], name: Callable[[T], str] = str) -> str:
    """Return the first ten names, and the number of the others."""
    more = f" and {len(things) - 10} more" if len(things) > 10 else ""
    return ", ".join(name(thing) or "''" for thing in things[:10]) + more


def outcome(rows: Sequence[object], errors: Sequence[Problem]) -> ExitStatus:
    """Return the exit status for rows and errors.

    Returns:
        DONE without errors; NOT_FOUND if there are no rows and all errors are missing names; FAILED
        if there are no rows because nothing could be read; otherwise PARTLY.
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
