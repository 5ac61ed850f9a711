"""Rows of a table as offsets: what others have stored is looked at before it is believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem, ProblemLog

MOST_CHARACTERS = 1 << 20
"""Of a text; Kafka takes ids of 32,767 bytes and, by default, metadata of 4,096."""
_SHOWN = 200
"""Characters of a value in an error."""
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
        if wanted is not None and not (isinstance(group_id, str) and group_id in wanted):
            continue
        if offset is None and "generation" in roles:
            found.claimed.add(_key(row))
            continue
        # Hundreds of thousands of rows come this way: the usual ones are told by their types.
        if not (
            type(offset) is int
            and type(partition) is int
            and type(topic) is str
            and type(group_id) is str
            and 0 <= partition <= _MOST_PARTITION
            and offset >= 0
            and len(group_id) + len(topic) <= MOST_CHARACTERS
            and not extra
        ):
            complaint = _complaint(dict(zip(roles, row, strict=True)))
            if complaint:
                found.unusable.add(_key(row))
                problems.add(_problem(group_id, topic, partition, where, complaint))
                continue
            offset = int(offset)
        if extra:
            leader_epoch = None if epoch is None or row[epoch] is None else int(row[epoch])
            if leader_epoch is not None and leader_epoch < 0:
                leader_epoch = None
            offsets[group_id][topic, partition] = CommittedOffset(
                topic,
                partition,
                offset,
                leader_epoch,
                None if metadata is None else row[metadata],
                None if time is None or row[time] is None else int(row[time]),
            )
        else:
            offsets[group_id][topic, partition] = CommittedOffset(topic, partition, offset)
    return found


def _key(row: Sequence[Any]) -> tuple[str, str, int]:
    """Give the key of a row: of arrays and documents, which have no hash, what Python shows."""
    group_id, topic, partition = (
        each if isinstance(each, Hashable) else repr(each) for each in row[:3]
    )
    return cast("tuple[str, str, int]", (group_id, topic, partition))


def _problem(group_id: object, topic: object, partition: object, where: str, why: str) -> Problem:
    return Problem(
        ProblemKind.UNUSABLE,
        f"Row of group {_shown(group_id)}, topic {_shown(topic)}, partition {_shown(partition)} of "
        f"{where} left out: {why}.",
        group_id if isinstance(group_id, str) else None,
    )


def _complaint(values: dict[str, Any]) -> str:
    """Say what is wrong with a row, of a database that does not watch its types."""
    for role in ("group_id", "topic"):
        if not isinstance(values[role], str):
            return f"expected a text as {role}, found {_shown(values[role])}"
        if len(values[role]) > MOST_CHARACTERS:
            return f"expected at most {MOST_CHARACTERS:,} characters as {role}, found more"
    for role, most in (("partition", _MOST_PARTITION), ("offset", _MOST_OFFSET)):
        number = values[role]
        if not _is_whole(number) or not 0 <= number <= most:
            return f"expected a whole number from 0 to {most} as {role}, found {_shown(number)}"
    for role, most in (("leader_epoch", _MOST_PARTITION), ("updated_at", _MOST_OFFSET)):
        number = values.get(role)
        if number is not None and not (_is_whole(number) and -most <= number <= most):
            return f"expected a whole number as {role}, found {_shown(number)}"
    metadata = values.get("metadata")
    if metadata is not None and not isinstance(metadata, str):
        return f"expected a text as metadata, found {_shown(metadata)}"
    if metadata is not None and len(metadata) > MOST_CHARACTERS:
        return f"expected at most {MOST_CHARACTERS:,} characters as metadata, found more"
    return ""


def _shown(value: object) -> str:
    """Write a value that may be anything a database can hold, shortened."""
    text = repr(value[:MOST_CHARACTERS] if isinstance(value, str | bytes) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_whole(number: Any) -> bool:
    """Tell whether it is one; a NUMERIC column gives decimals, NaN and infinity among them."""
    if isinstance(number, Decimal):
        return number.is_finite() and number == number.to_integral_value()
    return isinstance(number, int)
