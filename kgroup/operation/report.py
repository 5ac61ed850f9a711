"""What every operation returns: rows, the errors beside them, and remarks."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from kgroup.model.problem import Problem

__all__ = ["Report"]

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True)
class Report(Generic[Row]):
    """The result of an operation.

    Attributes:
        data: the rows, in the order that the operation documents.
        errors: what is missing from them or may be wrong with them; not empty means exit status 4.
        notes: remarks for people (assumptions made, what the source cannot know), to be shown on
            standard error; they do not change the exit status.
    """

    data: tuple[Row, ...]
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
