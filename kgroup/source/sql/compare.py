"""What has to be done to a table, decided from what is in it: compare and set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.errors import InputError, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem
from kgroup.source.sql.row_reader import Found
from kgroup.source.sql.table import TableFacts

__all__ = ["Work", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """Rows by role to delete, update and insert, in the order of their keys.

    Attributes:
        problems: of each group that is left out.
    """

    deleted: Sequence[Mapping[str, Any]]
    updated: Sequence[Mapping[str, Any]]
    inserted: Sequence[Mapping[str, Any]]
    problems: tuple[Problem, ...]


def work_of(
    changes: Mapping[str, Sequence[OffsetChange]],
    found: Found,
    facts: TableFacts,
    where: str,
    *,
    now_ms: int,
) -> Work:
    """Compare what is stored with what was expected, and give what is to be done.

    Args:
        changes: by group.
        found: what is stored, and stays so until it is changed.
        facts: of the table: offsets are compared, and metadata and epoch where there are columns.
        where: the table, for people.
        now_ms: time of rows whose offset was not committed at a known time.

    Raises:
        InputError: a partition has two changes.
    """
    deleted: list[Mapping[str, Any]] = []
    updated: list[Mapping[str, Any]] = []
    inserted: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    for group_id in sorted(changes):
        ordered = sorted(changes[group_id], key=lambda change: (change.topic, change.partition))
        stored = found.offsets.get(group_id, {})
        differing = _differing(group_id, ordered, found, facts)
        if differing:
            problems.append(_changed(group_id, differing, stored, where))
            continue
        for change in ordered:
            key = {"group_id": group_id, "topic": change.topic, "partition": change.partition}
            is_there = (change.topic, change.partition) in stored or (
                group_id,
                change.topic,
                change.partition,
            ) in found.claimed
            if change.after is None:
                if is_there:
                    deleted.append(key)
            elif change.after != change.before:
                (updated if is_there else inserted).append(
                    key | _values(change.after, facts, now_ms)
                )
    return Work(deleted, updated, inserted, tuple(problems))


def _differing(
    group_id: str, ordered: Sequence[OffsetChange], found: Found, facts: TableFacts
) -> list[OffsetChange]:
    differing = []
    stored = found.offsets.get(group_id, {})
    unusable = found.unusable
    seen: set[tuple[str, int]] = set()
    for change in ordered:
        key = (change.topic, change.partition)
        if key in seen:
            raise InputError(
                f"expected one change of each partition, found two of {change.topic} "
                f"{change.partition}",
                group_id=group_id,
                topic=change.topic,
            )
        seen.add(key)
        if _compared(stored.get(key), facts) != _compared(change.before, facts) or (
            unusable and (group_id, *key) in unusable
        ):
            differing.append(change)
    return differing


def _compared(offset: CommittedOffset | None, facts: TableFacts) -> tuple[object, ...] | None:
    """Give what must be equal. Not the time: the same offset stored once more is no change."""
    if offset is None:
        return None
    return (
        offset.committed_offset,
        (offset.metadata or "") if "metadata" in facts.columns else "",
        offset.leader_epoch if "leader_epoch" in facts.columns else None,
    )


def _changed(
    group_id: str,
    differing: Sequence[OffsetChange],
    stored: Mapping[tuple[str, int], CommittedOffset],
    where: str,
) -> Problem:
    first = differing[0]
    more = len(differing) - 1
    return Problem(
        ProblemKind.CHANGED,
        f"Group {group_id} left out: of topic {first.topic}, partition {first.partition}, expected "
        f"{_text(first.before)}, found {_text(stored.get((first.topic, first.partition)))} in "
        f"{where}" + (f"; likewise {more} more" if more else "") + ". Plan it anew.",
        group_id,
    )


def _text(offset: CommittedOffset | None) -> str:
    if offset is None:
        return "nothing"
    text = f"offset {offset.committed_offset}"
    if offset.leader_epoch is not None:
        text += f", leader epoch {offset.leader_epoch}"
    return text + (f", metadata {offset.metadata!r}" if offset.metadata else "")


def _values(after: CommittedOffset, facts: TableFacts, now_ms: int) -> dict[str, Any]:
    """Give the values of a row; what a column cannot leave open is what Kafka means by it."""
    values: dict[str, Any] = {"offset": after.committed_offset}
    if "metadata" in facts.columns:
        absent = None if facts.columns["metadata"].nullable else ""
        values["metadata"] = absent if after.metadata is None else after.metadata
    if "leader_epoch" in facts.columns:
        absent_epoch = None if facts.columns["leader_epoch"].nullable else -1
        values["leader_epoch"] = absent_epoch if after.leader_epoch is None else after.leader_epoch
    if "updated_at" in facts.columns:
        known = after.commit_timestamp_ms
        values["updated_at"] = now_ms if known is None else known
    return values
