"""What has to be done to a table, decided from what is in it: compare and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kgroup.errors import InputError, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem
from kgroup.source.offset_change import conflict, place_of
from kgroup.source.sql.row_reader import Found
from kgroup.source.sql.table import TableFacts


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
    changes: Mapping[str, Sequence[OffsetChange]], found: Found, facts: TableFacts, *, now_ms: int
) -> Work:
    """Compare what is stored with what was expected, and give what is to be done.

    Args:
        changes: by group.
        found: what is stored, and stays so until it is changed.
        facts: of the table.
        now_ms: time of rows whose offset was not committed at a known time.

    Raises:
        InputError: a partition has two changes.
    """
    deleted: list[Mapping[str, Any]] = []
    updated: list[Mapping[str, Any]] = []
    inserted: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    # A row's generation fences as long as the group lives, with an offset or without.
    keeps_claims = "generation" in facts.columns and facts.columns["offset"].nullable
    for group_id in sorted(changes):
        ordered = sorted(changes[group_id], key=place_of)
        _check_once(group_id, ordered)
        stored = found.offsets.get(group_id, {})
        reason = _unusable(group_id, ordered, found) or conflict(ordered, stored)
        if reason is not None:
            problems.append(Problem(ProblemKind.CHANGED, reason, group_id))
            continue
        for change in ordered:
            at = place_of(change)
            key = {"group_id": group_id, "topic": change.topic, "partition": change.partition}
            if change.after is None:
                if change.before is None:  # a claim without an offset stays
                    continue
                if keeps_claims:
                    updated.append(key | _values(None, facts, now_ms))
                else:
                    deleted.append(key)
            elif change.after != change.before:
                is_there = at in stored or (group_id, *at) in found.claimed
                (updated if is_there else inserted).append(
                    key | _values(change.after, facts, now_ms)
                )
    return Work(deleted, updated, inserted, tuple(problems))


def _check_once(group_id: str, ordered: Sequence[OffsetChange]) -> None:
    for one, other in pairwise(ordered):
        if place_of(one) == place_of(other):
            raise InputError(
                f"expected one change of each partition, found two of {one.topic}-{one.partition}",
                group_id=group_id,
                topic=one.topic,
            )


def _unusable(group_id: str, changes: Sequence[OffsetChange], found: Found) -> str | None:
    """Say of which change there is a row that cannot be compared."""
    for change in changes if found.unusable else ():
        if (group_id, *place_of(change)) in found.unusable:
            return (
                f"{change.topic}-{change.partition}: expected an offset, found a row that is none."
            )
    return None


def _values(after: CommittedOffset | None, facts: TableFacts, now_ms: int) -> dict[str, Any]:
    """Give the values of a row; what a column cannot leave open is what Kafka means by it."""
    values: dict[str, Any] = {"offset": after and after.committed_offset}
    if "metadata" in facts.columns:
        absent = None if facts.columns["metadata"].nullable else ""
        known = after and after.metadata
        values["metadata"] = absent if known is None else known
    if "leader_epoch" in facts.columns:
        absent_epoch = None if facts.columns["leader_epoch"].nullable else -1
        epoch = after and after.leader_epoch
        values["leader_epoch"] = absent_epoch if epoch is None else epoch
    if "updated_at" in facts.columns:
        time_ms = after and after.commit_timestamp_ms
        values["updated_at"] = now_ms if time_ms is None else time_ms
    return values
