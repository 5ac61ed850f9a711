"""Rows of a table as offsets: what others have stored is looked at before it is believed."""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem, ProblemLog

__all__ = ["Found", "read_rows"]

_MOST_OFFSET = 2**63 - 1
_MOST_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """What a table holds of groups.

    Attributes:
        offsets: by group, then by topic and partition.
        claimed: groups, topics and partitions of rows without an offset.
        unusable: likewise of rows that are no offsets.
    """

    offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    claimed: set[tuple[str, str, int]] = field(default_factory=set)
    unusable: set[tuple[str, str, int]] = field(default_factory=set)

    @property
    def names(self) -> set[tuple[str, str]]:
        """Groups and topics of all rows."""
        names = {(group_id, topic) for group_id, topic, _ in self.claimed | self.unusable}
        for group_id, stored in self.offsets.items():
            names.update((group_id, topic) for topic, _ in stored)
        return names


def read_rows(
    rows: Iterable[Sequence[Any]],
    roles: Sequence[str],
    wanted: Container[str] | None,
    where: str,
    problems: ProblemLog,
) -> Found:
    """Read rows.

    Args:
        rows: values in the order of `roles`, which begin with the key and the offset.
        roles: of the columns.
        wanted: ids of groups; rows of others are left out. None: of all.
        where: the table, for people.
        problems: takes what is wrong with rows.
    """
    found = Found()
    extra = {role: roles.index(role) for role in roles[4:] if role != "generation"}
    metadata, epoch, time = (extra.get(k) for k in ("metadata", "leader_epoch", "updated_at"))
    offsets = found.offsets
    for row in rows:
        group_id, topic, partition, offset = row[:4]
        if wanted is not None and group_id not in wanted:
            continue
        if offset is None and "generation" in roles:
            found.claimed.add((group_id, topic, partition))
            continue
        # Hundreds of thousands of rows come this way: the usual ones are told by their types.
        if not (
            type(offset) is int
            and type(partition) is int
            and type(topic) is str
            and type(group_id) is str
            and 0 <= partition <= _MOST_PARTITION
            and offset >= 0
            and not extra
        ):
            complaint = _complaint(dict(zip(roles, row, strict=True)))
            if complaint:
                found.unusable.add((group_id, topic, partition))
                problems.add(_problem(group_id, topic, partition, where, complaint))
                continue
            offset = int(offset)
        if extra:
            leader_epoch = None if epoch is None or (row[epoch] or 0) < 0 else row[epoch]
            offsets[group_id][topic, partition] = CommittedOffset(
                topic,
                partition,
                offset,
                leader_epoch,
                None if metadata is None else row[metadata],
                None if time is None else row[time],
            )
        else:
            offsets[group_id][topic, partition] = CommittedOffset(topic, partition, offset)
    return found


def _problem(group_id: object, topic: object, partition: object, where: str, why: str) -> Problem:
    return Problem(
        ProblemKind.UNUSABLE,
        f"Row of group {group_id!r}, topic {topic!r}, partition {partition!r} of {where} left "
        f"out: {why}.",
        group_id if isinstance(group_id, str) else None,
    )


def _complaint(values: dict[str, Any]) -> str:
    """Say what is wrong with a row, of a database that does not watch its types."""
    for role in ("group_id", "topic"):
        if not isinstance(values[role], str):
            return f"expected a text as {role}, found {values[role]!r}"
    for role, most in (("partition", _MOST_PARTITION), ("offset", _MOST_OFFSET)):
        number = values[role]
        if not _is_whole(number) or not 0 <= number <= most:
            return f"expected a whole number from 0 to {most} as {role}, found {number!r}"
    for role in ("leader_epoch", "updated_at"):
        number = values.get(role)
        if number is not None and not _is_whole(number):
            return f"expected a whole number as {role}, found {number!r}"
    metadata = values.get("metadata")
    if metadata is not None and not isinstance(metadata, str):
        return f"expected a text as metadata, found {metadata!r}"
    return ""


def _is_whole(number: Any) -> bool:
    """Tell whether it is one; a NUMERIC column gives decimals."""
    return not isinstance(number, float | str | bytes | None) and number == int(number)
