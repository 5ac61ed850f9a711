"""Problems as values, which are reported together with the rows and never replace them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kgroup.errors import ProblemKind
from kgroup.model.record import DecodedRecord
from kgroup.redaction import redact


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, was not found or is not credible, and what it concerns.

    Attributes:
        kind: kind of problem, a stable word.
        reason: a sentence for people: what was expected and what was found; secrets are hidden.
        group_id: group id.
        path: path of the file, `-` for standard input; or path of a ZooKeeper node, or of the
            folder of a partition of another topic.
        position: byte position in that file; None for data from a broker.
        offsets_partition: partition of `__consumer_offsets`.
        offset: offset of the record in that partition; for data from a broker, offset of the first
            missing record.
        topic: topic name of a user topic.
        partition: partition number.
        broker: broker id.
    """

    kind: ProblemKind
    reason: str
    group_id: str | None = None
    path: str | None = None
    position: int | None = None
    offsets_partition: int | None = None
    offset: int | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", redact(self.reason))
        if self.path is not None:
            object.__setattr__(self, "path", redact(self.path))


class ProblemLog:
    """Collects problems in bounded memory: beyond `limit` they are only counted."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._problems: list[Problem] = []
        self._left_out = 0

    def add(self, problem: Problem) -> None:
        """Store, or count, one problem."""
        if len(self._problems) < self._limit:
            self._problems.append(problem)
        else:
            self._left_out += 1

    def problems(self) -> tuple[Problem, ...]:
        """Return the stored problems, and one with the number of the others, if there are any."""
        if not self._left_out:
            return tuple(self._problems)
        rest = Problem(ProblemKind.MORE, f"{self._left_out} further problems are not shown.")
        return (*self._problems, rest)


class ReplayProblems:
    """Collects what cannot be replayed of one log: records of unknown types only by their number.

    Args:
        path: folder of the log, or
        offsets_partition: the partition of `__consumer_offsets` that it is.
    """

    def __init__(self, *, path: str | None = None, offsets_partition: int | None = None) -> None:
        self._problem = partial(Problem, path=path, offsets_partition=offsets_partition)
        self._problems = ProblemLog()
        self._unknown: dict[int | None, tuple[int, int]] = {}

    def can_replay(self, record: DecodedRecord, types: Container[str]) -> bool:
        """Return whether a record has one of these types and was decoded; else store a problem."""
        if record.type in types and record.key is not None:
            if record.value is None or record.value["data"] is not None:
                return True
            self._bad_record(record, record.value)
        elif record.key and "error" in record.key:
            self._bad_record(record, record.key)
        else:
            key_type = record.key.get("type") if record.key else None
            count, first = self._unknown.get(key_type, (0, record.offset))
            self._unknown[key_type] = (count + 1, first)
        return False

    def add(
        self, kind: ProblemKind, record: DecodedRecord, reason: str, group_id: str | None = None
    ) -> None:
        """Store a problem with one record."""
        self._problems.add(self._problem(kind, reason, group_id, offset=record.offset))

    def problems(self) -> tuple[Problem, ...]:
        """Return unknown records by type, then the other problems in order."""
        unknown = tuple(
            self._problem(
                ProblemKind.UNKNOWN_RECORD,
                f"{count} record{'s' if count > 1 else ''} "
                + ("without a key" if key_type is None else f"of the unknown key type {key_type}")
                + f" left out, the first at offset {first}.",
                offset=first,
            )
            for key_type, (count, first) in self._unknown.items()
        )
        return unknown + self._problems.problems()

    def _bad_record(self, record: DecodedRecord, part: Mapping[str, Any]) -> None:
        what = part.get("error") or f"version {part.get('version')} of its value is not known"
        self.add(ProblemKind.BAD_RECORD, record, f"{record.type} record left out: {what}.")
