"""Compare the committed offsets of the same groups in two stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kgroup.errors import ExitStatus
from kgroup.model.log_range import LogRange, Position
from kgroup.model.pattern import Pattern
from kgroup.operation.offsets.read import read_stored, unread
from kgroup.operation.report import Report, outcome
from kgroup.source.base import GroupSource, OffsetReading


@dataclass(frozen=True, slots=True)
class OffsetDifference:
    """A partition whose committed offsets differ between two stores.

    Attributes:
        group_id: group id.
        topic: topic name.
        partition: partition number.
        first_offset: committed offset in the first store; None if it has none.
        second_offset: committed offset in the second store; None if it has none.
        difference: second offset minus first offset; None if one store has none.
        first_ms: timestamp of the next record to read according to the first store (`--times`);
            None if unknown, for example because the offset is outside the log, or without
            `--times`.
        second_ms: timestamp of the next record to read according to the second store (`--times`);
            None if unknown, for example because the offset is outside the log, or without
            `--times`.
        time_difference_ms: second time minus first time; None if one is unknown.
    """

    group_id: str
    topic: str
    partition: int
    first_offset: int | None
    second_offset: int | None
    difference: int | None
    first_ms: int | None
    second_ms: int | None
    time_difference_ms: int | None


def diff_offsets(
    first: GroupSource,
    second: GroupSource,
    group_ids: Collection[str] = (),
    regex: Pattern | None = None,
    *,
    second_id: str | None = None,
    first_log: GroupSource | None = None,
    second_log: GroupSource | None = None,
) -> Report[OffsetDifference]:
    """Compare groups with these ids, those whose whole id matches, or all groups of both stores.

    Args:
        first: first store.
        second: second store; may be the same as the first.
        group_ids: group ids.
        regex: pattern that matches the whole group id.
        second_id: group id in the second store, if only one group is named.
        first_log: source of record timestamps for the first store; None to skip times.
        second_log: likewise for the second store: in another cluster, equal offsets are other
            records.

    Returns:
        Partitions that differ, sorted; the verdict is `PROBLEM` if there are any.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    first_reading = read_stored(first, group_ids, regex)
    other = read_stored(second, group_ids if second_id is None else (second_id,), regex)
    names = {} if second_id is None else {second_id: next(iter(group_ids))}
    a, b = _by_partition(first_reading, {}), _by_partition(other, names)
    ids = {group_id for group_id, _, _ in a.keys() | b.keys()}
    unknown = unread(first_reading, ids) | {
        names.get(group_id, group_id) for group_id in unread(other, {*ids, *names})
    }
    differing = [
        at for at in sorted(a.keys() | b.keys()) if at[0] not in unknown and a.get(at) != b.get(at)
    ]
    problems = (*first_reading.problems, *other.problems)
    known: list[Mapping[Position, int | None]] = []
    for offsets, log in ((a, first_log), (b, second_log)):
        positions = {(*at[1:], offsets[at]) for at in differing if at in offsets}
        if log is None or not positions:
            known.append({})
            continue
        reading = log.next_records(_in_range(log, positions))
        problems += reading.problems
        known.append({at: record.timestamp_ms for at, record in reading.records.items()})
    rows = tuple(_difference(at, a.get(at), b.get(at), *known) for at in differing)
    missing = {problem.group_id for problem in problems} - {row.group_id for row in rows}
    remaining = [
        problem for problem in problems if problem.group_id is None or problem.group_id in missing
    ]
    problems = tuple(dict.fromkeys(remaining))  # report a problem of both stores once
    verdict = ExitStatus.PROBLEM if rows else outcome((*a, *b), problems)
    is_same = verdict is ExitStatus.DONE and bool(a)
    same = (f"no offset differs, of {len(a)} partitions",) if is_same else ()
    return Report(rows, problems, (*first_reading.notes, *other.notes, *same), verdict)


def _in_range(log: GroupSource, positions: Collection[Position]) -> set[Position]:
    """Return the positions that are not known to be outside the log."""
    if not log.can(GroupSource.log_ranges):
        return set(positions)
    ranges = log.log_ranges({(topic, partition) for topic, partition, _ in positions}).ranges
    return {at for at in positions if ranges.get(at[:2], LogRange()).mark_of(at[2]) is None}


def _by_partition(
    reading: OffsetReading, names: Mapping[str, str]
) -> dict[tuple[str, str, int], int]:
    """Return offsets by group, topic and partition, with some groups renamed."""
    by_place = {}
    for group_id, offsets in reading.offsets.items():
        name = names.get(group_id, group_id)
        for offset in offsets:
            by_place[name, offset.topic, offset.partition] = offset.committed_offset
    return by_place


def _difference(
    at: tuple[str, str, int],
    first: int | None,
    second: int | None,
    first_times: Mapping[Position, int | None],
    second_times: Mapping[Position, int | None],
) -> OffsetDifference:
    first_ms = None if first is None else first_times.get((*at[1:], first))
    second_ms = None if second is None else second_times.get((*at[1:], second))
    return OffsetDifference(
        *at,
        first_offset=first,
        second_offset=second,
        difference=None if first is None or second is None else second - first,
        first_ms=first_ms,
        second_ms=second_ms,
        time_difference_ms=None if first_ms is None or second_ms is None else second_ms - first_ms,
    )
