"""Plan to transfer offsets from one store to another: copy, import, and restore from a backup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum

from msgspec import structs

from kgroup.errors import ProblemKind, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.log_range import GONE, LogRange, LogReading, OffsetMark, Position
from kgroup.model.offset import CommittedOffset, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import (
    EVERY,
    OffsetPlan,
    OffsetTarget,
    Topics,
    is_chosen,
    make_plan,
    not_committed,
    refused_groups,
)
from kgroup.operation.offsets.read import read_stored, unread
from kgroup.source.base import GroupSource, OffsetReading


class OutOfRange(Enum):
    """What to do with offsets outside the logs of the target store."""

    REFUSE = "refuse"
    """Commit none of these; except that a file saved from the same store is restored unchanged."""
    CLAMP = "clamp"
    """Commit the log start or end offset, whichever is nearer."""
    BY_TIME = "by-time"
    """Commit the offset of the record with the same time, for every partition."""


def plan_transfer(
    origin: GroupSource,
    store: GroupSource,
    cluster: GroupSource | None,
    group_ids: Collection[str] = (),
    regex: Pattern | None = None,
    *,
    new_id: str | None = None,
    topics: Topics = EVERY,
    leader_epochs: bool = True,
    fit: OutOfRange = OutOfRange.REFUSE,
) -> OffsetPlan:
    """Plan to write the offsets that groups with these ids, matching groups, or all have elsewhere.

    Offsets that only the target store has are unchanged, except partitions that a backup lists
    without a commit. With `OutOfRange.REFUSE`, a backup of this store is restored unchanged, even
    if its offsets are outside the log.

    Args:
        origin: store to read.
        store: store to write.
        cluster: source of log start and end offsets for the target store; None if not available.
        group_ids: group ids.
        regex: pattern that matches the whole group id.
        new_id: group id in the target store, if only one group is named.
        topics: partitions to transfer.
        leader_epochs: transfer leader epochs; in another cluster they would be wrong.
        fit: what to do with offsets outside the target logs, as far as `cluster` knows them.

    Raises:
        UsageError: `OutOfRange.BY_TIME`, and one of the stores has no record times.
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = read_stored(origin, group_ids, regex)
    has_content = reading.offsets or reading.absent or reading.problems
    nothing = (
        ()
        if has_content
        else (Problem(ProblemKind.NOT_FOUND, "There are no committed offsets to copy."),)
    )
    # Drop fields that the store cannot keep; otherwise they would always differ.
    unkept: dict[str, None] = {} if leader_epochs else {"leader_epoch": None}
    unkept |= {} if store.keeps_metadata else {"metadata": None}
    unkept |= {} if store.keeps_leader_epochs else {"leader_epoch": None}
    targets: dict[str, dict[TopicPartition, OffsetTarget]] = {}
    for group_id, offsets in reading.offsets.items():
        of_group = targets.setdefault(group_id if new_id is None else new_id, {})
        for offset in offsets:
            at = offset.topic, offset.partition
            if is_chosen(at, topics):
                of_group[at] = OffsetTarget(structs.replace(offset, **unkept) if unkept else offset)
    for group_id, ats in reading.absent.items():
        of_group = targets.setdefault(group_id if new_id is None else new_id, {})
        of_group.update({at: OffsetTarget(None) for at in ats if is_chosen(at, topics)})
    current = _there(store, targets)
    for group_id in unread(current, targets):
        del targets[group_id]
    every = {at for of_group in targets.values() for at in of_group}
    logs = cluster.log_ranges(every) if cluster is not None and every else LogReading({})
    problems: list[Problem] = []
    if fit is OutOfRange.BY_TIME:
        _fit_by_time(origin, cluster, targets, logs.ranges, problems)
    elif fit is OutOfRange.CLAMP or not _is_own(reading.saved_from, store):
        for of_group in targets.values():
            of_group.update(
                {at: _fitted(target, logs.ranges.get(at), fit) for at, target in of_group.items()}
            )
    return make_plan(
        current.offsets,
        targets,
        logs=logs.ranges,
        problems=(
            *refused_groups(
                store, [group_id for group_id, of_group in targets.items() if of_group]
            ),
            *reading.problems,
            *nothing,
            *not_committed(targets, topics, group_ids, reading.problems),
            *current.problems,
            *logs.problems,
            *problems,
        ),
        notes=(*reading.notes, *current.notes, *_other_store(reading.saved_from, store)),
    )


def _fitted(target: OffsetTarget, log: LogRange | None, fit: OutOfRange) -> OffsetTarget:
    """Return a target whose out-of-range offset is refused or replaced by the nearest offset."""
    if target.offset is None or log is None:
        return target
    offset, mark = target.offset.committed_offset, log.mark_of(target.offset.committed_offset)
    if mark is None or mark in GONE:  # make_plan refuses missing partitions
        return target
    if mark not in (OffsetMark.PAST_END, OffsetMark.BEFORE_START):
        text = "The log start and end offsets are unknown, so the offset cannot be checked."
        return OffsetTarget(target.offset, refusal=text)
    past = mark is OffsetMark.PAST_END
    nearest = log.end if past else log.start
    if fit is OutOfRange.CLAMP and nearest is not None:
        return OffsetTarget(_moved(target.offset, nearest), mark)
    end = (
        f"past the log end offset {log.end}" if past else f"before the log start offset {log.start}"
    )
    text = f"Offset {offset} is {end} of the partition there; --clamp commits {nearest} instead."
    return OffsetTarget(target.offset, mark, text)


def _moved(offset: CommittedOffset, to: int) -> CommittedOffset:
    return structs.replace(offset, committed_offset=to, leader_epoch=None)


_LOOK_BACK = 4
"""Number of offsets before the log end to search for the last record; markers are no records."""


def _fit_by_time(
    origin: GroupSource,
    cluster: GroupSource | None,
    targets: Mapping[str, dict[TopicPartition, OffsetTarget]],
    logs: Mapping[TopicPartition, LogRange],
    problems: list[Problem],
) -> None:
    """Replace offsets by those of the target's records with the same time as the next record.

    If the group has read all records of the origin, it resumes in the target after the last record
    that it has read. If the target has no record that late, or both logs are empty, it resumes at
    the log end offset and reads later records.
    """
    if not origin.can(GroupSource.next_records):
        raise UsageError("--by-time needs the timestamps of records: copy from a live cluster")
    if cluster is None or not cluster.can(GroupSource.offsets_at):
        raise UsageError(
            "--by-time needs the timestamps of records: the goal must be a live cluster"
        )
    wanted = {
        (*at, target.offset.committed_offset)
        for of_group in targets.values()
        for at, target in of_group.items()
        if target.offset is not None
    }
    source = origin.log_ranges({(topic, partition) for topic, partition, _ in wanted})
    problems += source.problems
    times, refusals = _times(origin, wanted, source.ranges, problems)
    ranges: dict[tuple[TopicPartition, int], LogRange] = {}
    for time_ms in sorted(set(times.values())):
        ats = {
            (topic, number)
            for (topic, number, _), commit_ms in times.items()
            if commit_ms == time_ms
        }
        reading = cluster.offsets_at(ats, time_ms)
        problems += reading.problems
        ranges.update(((at, time_ms), log_range) for at, log_range in reading.ranges.items())
    for of_group in targets.values():
        for at, target in of_group.items():
            if target.offset is None or (log := logs.get(at, LogRange())).mark in GONE:
                continue
            position = (*at, target.offset.committed_offset)
            start = ranges.get((at, times[position])) if position in times else None
            here = source.ranges.get(at, LogRange())
            if here.start == here.end == position[2] and log.start == log.end is not None:
                of_group[at] = OffsetTarget(_moved(target.offset, log.end))
            elif start is None:
                text = refusals.get(
                    position, "The second store does not know the timestamps of its records."
                )
                of_group[at] = OffsetTarget(target.offset, refusal=text)
            elif start.start is not None:
                of_group[at] = OffsetTarget(_moved(target.offset, start.start))
            elif log.end is not None:
                of_group[at] = OffsetTarget(
                    _moved(target.offset, log.end), OffsetMark.NO_RECORD_SINCE
                )
            else:
                text = (
                    "The second store has no record that late, and its log end offset is unknown."
                )
                of_group[at] = OffsetTarget(target.offset, refusal=text)


def _times(
    source: GroupSource,
    wanted: Collection[Position],
    logs: Mapping[TopicPartition, LogRange],
    problems: list[Problem],
) -> tuple[dict[Position, int], dict[Position, str]]:
    """Return the time from which to resume for each position, or why it is unknown."""
    refusals: dict[Position, str] = {}
    asked: dict[Position, list[Position]] = {}
    for topic, partition, offset in wanted:
        log = logs.get((topic, partition), LogRange())
        if log.start is None or log.end is None:
            refusals[topic, partition, offset] = "The first store does not know its log end offset."
        elif offset > log.end:
            text = f"Offset {offset} is after the log end offset {log.end} of the first store."
            refusals[topic, partition, offset] = text
        elif offset < log.end:
            first = max(offset, log.start)
            asked[topic, partition, offset] = [(topic, partition, first)]
        else:
            last = range(max(log.start, log.end - _LOOK_BACK), log.end)
            asked[topic, partition, offset] = [(topic, partition, earlier) for earlier in last]
    reading = source.next_records({position for every in asked.values() for position in every})
    problems += reading.problems
    times = {}
    for position, every in asked.items():
        records = [reading.records[earlier] for earlier in every if earlier in reading.records]
        known = [
            record
            for record in records
            if record.offset is not None and record.timestamp_ms is not None
        ]
        if not known:
            refusals[position] = "No record of the first store determines the time of the offset."
            continue
        last_one = max(known, key=lambda record: record.offset or 0)
        behind = (last_one.offset or 0) < position[2]
        times[position] = (last_one.timestamp_ms or 0) + behind
    return times, refusals


def _is_own(saved_from: StoreName | None, store: GroupSource) -> bool:
    """Return whether a file is known to be saved from the target store."""
    return (
        saved_from is not None
        and store.store_name is not None
        and not saved_from.is_other(store.store_name)
    )


def _other_store(saved_from: StoreName | None, store: GroupSource) -> Iterable[str]:
    """Yield a note if a file was saved from a store other than the target."""
    name = store.store_name
    if saved_from is None or name is None:
        return
    if saved_from.is_other(name):
        yield (
            f"the offsets were saved from {saved_from}, but this is {name}; in another cluster, "
            "they belong to other records, and leader epochs are meaningless (--without-epochs)"
        )


def _there(store: GroupSource, group_ids: Collection[str]) -> OffsetReading:
    """Read the target store; a group without offsets is not a problem."""
    if not group_ids:
        return OffsetReading({})
    reading = read_stored(store, group_ids)
    others = (ProblemKind.NOT_FOUND, ProblemKind.NOT_AUTHORIZED)  # nothing is written for them
    problems = tuple(problem for problem in reading.problems if problem.kind not in others)
    return replace(reading, problems=problems)
