"""What went wrong on the way, as a value: it travels beside the rows and never replaces them."""

from dataclasses import dataclass

__all__ = ["Problem", "ProblemLog"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that could not be read, found or believed.

    Attributes:
        kind: stable short word for programs: the kinds of `record_batch.Damage`, or
            "unknown-record", "bad-record", "inconsistent", "unreadable", "not-found", "more".
        reason: whole sentence for people: what was expected, what was found.
        group_id: the group concerned.
        path: file concerned.
        position: byte position in that file.
        offsets_partition: partition of `__consumer_offsets`.
        offset: offset of the record in it.
    """

    kind: str
    reason: str
    group_id: str | None = None
    path: str | None = None
    position: int | None = None
    offsets_partition: int | None = None
    offset: int | None = None


class ProblemLog:
    """Collects problems in bounded memory: beyond `limit` they are only counted."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._problems: list[Problem] = []
        self._left_out = 0

    def add(self, problem: Problem) -> None:
        """Keep, or count, one problem."""
        if len(self._problems) < self._limit:
            self._problems.append(problem)
        else:
            self._left_out += 1

    def problems(self) -> tuple[Problem, ...]:
        """Return what was kept, and one more that tells how many were left out."""
        if not self._left_out:
            return tuple(self._problems)
        rest = Problem("more", f"{self._left_out} further problems are not shown.")
        return (*self._problems, rest)
