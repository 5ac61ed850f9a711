"""Plan to reset committed offsets: to a log position, a time, or another group's offsets.

The targets have the meaning of `ConsumerGroupCommand` of Kafka 4.3.1 (`prepareOffsetsToReset`): log
end offset if no record is as late as the time, and nearest available offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kgroup.described_enum import DescribedEnum
from kgroup.errors import ProblemKind, UsageError, near_names, shown_id
from kgroup.model.cluster import TopicPartition
from kgroup.model.instant import shown_time
from kgroup.model.log_range import GONE, LogRange, LogReading, OffsetMark, Position
from kgroup.model.offset import CommittedOffset
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import OffsetPlan, OffsetTarget, gone, make_plan, refused_groups
from kgroup.operation.offsets.read import read_stored, unread
from kgroup.operation.report import first_names
from kgroup.source.base import GroupSource, OffsetReading

_Offsets = Mapping[TopicPartition, int]
_MOST = (1 << 63) - 1


class ResetTarget(DescribedEnum):
    """Target of a reset."""

    EARLIEST = ("earliest", "The log start offset.")
    LATEST = ("latest", "The log end offset.")
    OFFSET = ("offset", "A given offset.")
    TIME = ("time", "The first record at or after a time; the log end offset if there is none.")
    SHIFT = ("shift", "The committed offset plus or minus a number of offsets.")
    CURRENT = ("current", "The committed offset; the log end offset if nothing is committed.")
    OTHER = ("other", "The committed offset of another group, or of a file.")


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Target of a reset with its value.

    Attributes:
        goal: type of the target.
        number: the offset, the epoch milliseconds, or the number of offsets to shift by.
        offsets: offsets of a file, by group.
        same: offsets of another group, for every group that is reset.
    """

    goal: ResetTarget
    number: int = 0
    offsets: Mapping[str, tuple[CommittedOffset, ...]] = field(default_factory=dict)
    same: tuple[CommittedOffset, ...] = ()

    def of_group(self, group_id: str) -> _Offsets:
        """Return the target offsets of a group, by topic and partition."""
        offsets = self.offsets.get(group_id, self.same)
        return {(offset.topic, offset.partition): offset.committed_offset for offset in offsets}


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Selection of partitions to reset.

    Attributes:
        topics: partition numbers by topic name, None for all partitions of the topic.
        regex: also topics with commits of the group whose whole name matches; if no topics are
            named, only these.
        only_uncommitted: only partitions without a committed offset.
    """

    topics: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    regex: Pattern | None = None
    only_uncommitted: bool = False


EVERYTHING = PartitionSelection()
"""All committed partitions."""


def plan_reset(
    store: GroupSource,
    cluster: GroupSource | None,
    group_ids: Collection[str],
    to: ResetTo,
    selection: PartitionSelection = EVERYTHING,
    *,
    regex: Pattern | None = None,
    with_times: bool = False,
) -> OffsetPlan:
    """Plan a reset of committed offsets.

    Args:
        store: store of the offsets.
        cluster: source of log start and end offsets; None if not available.
        group_ids: group ids; a group need not exist if topics are named.
        to: target of the reset.
        selection: partitions to reset.
        regex: also groups with committed offsets whose whole id matches. Without `group_ids`: these
            groups only, or all groups if there is no regex.
        with_times: read the times of the next records before and after the reset, and the bytes
            between them.

    Raises:
        UsageError: the target requires a source that is not given.
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = read_stored(store, group_ids, regex)
    problems = list(reading.problems)
    chosen = _chosen(reading, cluster, group_ids, to, selection, problems)
    targeted = {group_id for group_id, ats in chosen.items() if ats}
    problems = [  # a missing group with selected partitions is created
        problem
        for problem in problems
        if problem.kind is not ProblemKind.NOT_FOUND or problem.group_id not in targeted
    ]
    every = {at for ats in chosen.values() for at in ats}
    logs = LogReading({}) if cluster is None else cluster.log_ranges(every)
    problems += logs.problems
    starts = _starts_at(cluster, every, to, problems)
    committed = {
        group_id: {(offset.topic, offset.partition): offset.committed_offset for offset in offsets}
        for group_id, offsets in reading.offsets.items()
    }
    targets: dict[str, dict[TopicPartition, OffsetTarget]] = {}
    at_log_start: dict[str, None] = {}
    for group_id, ats in chosen.items():
        others = to.of_group(group_id)
        for at in sorted(ats):
            log = logs.ranges.get(at, LogRange())
            now = committed.get(group_id, {}).get(at)
            if log.mark is None and to.goal is ResetTarget.TIME and at not in starts:
                continue  # reported as a problem already
            wanted = _wanted(to, now, others.get(at), log, starts.get(at))
            if wanted is None or log.mark is not None or _is_blind(cluster, log, wanted):
                is_named = at[0] in selection.topics
                problems.append(_no_target(group_id, at, to, log, wanted, is_named=is_named))
            else:
                # Keep current commits unchanged, even outside the log.
                known = LogRange() if to.goal is ResetTarget.CURRENT else log
                target = _clamped(at, wanted, known)
                if to.goal is ResetTarget.TIME and starts[at].start is None:
                    target = replace(target, mark=OffsetMark.NO_RECORD_SINCE)
                elif to.goal is ResetTarget.TIME and log.start and wanted == log.start:
                    at_log_start[f"{at[0]}-{at[1]}"] = None
                targets.setdefault(group_id, {})[at] = target
    notes = [f"the time is {shown_time(to.number)}"] if to.goal is ResetTarget.TIME else []
    if at_log_start:
        notes.append(
            f"target is the log start offset of {first_names([*at_log_start])}; earlier records "
            "since that time, if there were any, have been deleted"
        )
    refused = refused_groups(cluster or store, targets.keys())
    existing = {problem.group_id for problem in refused}
    return make_plan(
        reading.offsets,
        targets,
        logs=logs.ranges,
        times=_times(cluster, committed, targets, logs.ranges, problems) if with_times else {},
        sizes=_sizes(cluster, every) if with_times else {},
        problems=(*refused, *problems),
        notes=(*reading.notes, *notes, *_new_groups(reading, targets.keys() - existing)),
    )


def _chosen(
    reading: OffsetReading,
    cluster: GroupSource | None,
    group_ids: Collection[str],
    to: ResetTo,
    selection: PartitionSelection,
    problems: list[Problem],
) -> dict[str, set[TopicPartition]]:
    """Return the selected partitions of each group; missing ones are problems."""
    every_id = dict.fromkeys((*group_ids, *reading.offsets))
    unknown = unread(reading, every_id)
    committed = {
        group_id: {(offset.topic, offset.partition) for offset in reading.offsets.get(group_id, ())}
        for group_id in every_id
        if group_id not in unknown
    }
    topics = {group_id: _topics(ats, selection) for group_id, ats in committed.items()}
    named = {name for own in topics.values() for name in own or ()}
    counted = _partitions(cluster, named, committed, problems)
    chosen: dict[str, set[TopicPartition]] = {}
    for group_id, own in committed.items():
        names = topics[group_id]
        if names is None:
            ats = set(to.of_group(group_id)) if to.goal is ResetTarget.OTHER else own
        else:
            ats = set()
            for topic in names:
                numbers = selection.topics.get(topic)
                if numbers is None:
                    ats |= {at for at in own if at[0] == topic}
                    numbers = frozenset(counted.get(topic, ()))
                ats |= {(topic, number) for number in numbers}
        chosen[group_id] = ats
    problems += _missing(committed, chosen, selection, problems, group_ids)
    if selection.only_uncommitted:
        return {group_id: ats - committed[group_id] for group_id, ats in chosen.items()}
    return chosen


def _missing(
    committed: Mapping[str, Collection[TopicPartition]],
    chosen: Mapping[str, Collection[TopicPartition]],
    selection: PartitionSelection,
    problems: Collection[Problem],
    named: Collection[str],
) -> list[Problem]:
    """Return problems: topics without any commit, and named groups without selected partitions."""
    known = {problem.topic for problem in problems} | {
        topic for ats in chosen.values() for topic, _ in ats
    }
    missing = [
        Problem(
            ProblemKind.NOT_FOUND,
            f"{topic}: Nothing is committed for this topic, and it is unknown "
            f"here{_meant(topic, committed)}",
            topic=topic,
        )
        for topic in selection.topics
        if topic not in known
    ]
    if not any(chosen.values()):
        if selection.regex is not None and any(committed.values()):
            text = f"Nothing is committed for a topic that matches {selection.regex.pattern!r}."
            missing.append(Problem(ProblemKind.NOT_FOUND, text))
        return missing
    told_groups = {problem.group_id for problem in problems}
    return missing + [
        Problem(ProblemKind.NOT_FOUND, "Nothing is committed for these topics.", group_id=group_id)
        for group_id in named
        if group_id in chosen and not chosen[group_id] and group_id not in told_groups
    ]


def _topics(
    committed: Collection[TopicPartition], selection: PartitionSelection
) -> frozenset[str] | None:
    """Return the topics whose partitions are selected; None for all committed ones."""
    read = frozenset(topic for topic, _ in committed)
    names = frozenset(selection.topics)
    if selection.regex is not None:
        return names | {topic for topic in read if selection.regex.fullmatch(topic)}
    if names or not selection.only_uncommitted:
        return names or None
    return read


def _meant(topic: str, committed: Mapping[str, Collection[TopicPartition]]) -> str:
    """Return the end of a sentence on a missing topic: similar names, or a full stop."""
    return near_names(topic, sorted({name for ats in committed.values() for name, _ in ats})) or "."


def _partitions(
    cluster: GroupSource | None,
    topics: Collection[str],
    committed: Mapping[str, Collection[TopicPartition]],
    problems: list[Problem],
) -> Mapping[str, Collection[int]]:
    """Return the partitions of topics; missing topics are problems."""
    if not topics or cluster is None or not cluster.can(GroupSource.view):
        return {}
    topic_views = cluster.view(topics).topics
    for topic in sorted(topics):
        if topic not in topic_views or not topic_views[topic].partitions:
            error = topic_views[topic].error if topic in topic_views else None
            is_absent = error in (None, "UNKNOWN_TOPIC_OR_PARTITION")
            text = (
                f"The topic does not exist{_meant(topic, committed)}"
                if is_absent
                else f"The cluster returned {error}."
            )
            kind = ProblemKind.NOT_FOUND if is_absent else ProblemKind.DENIED
            problems.append(Problem(kind, f"{topic}: {text}", topic=topic))
    return {topic: sorted(topic_view.partitions) for topic, topic_view in topic_views.items()}


def _starts_at(
    cluster: GroupSource | None,
    ats: Collection[TopicPartition],
    to: ResetTo,
    problems: list[Problem],
) -> Mapping[TopicPartition, LogRange]:
    """Return the offsets of the first records at or after the target time.

    Raises:
        UsageError: no source of record times, or of log start and end offsets, is given.
    """
    if (
        to.goal in (ResetTarget.EARLIEST, ResetTarget.LATEST, ResetTarget.CURRENT, ResetTarget.TIME)
        and cluster is None
    ):
        raise UsageError(
            f"a reset to {to.goal} needs the log start and end offsets: name the cluster "
            "(--bootstrap-server)"
        )
    if to.goal is not ResetTarget.TIME:
        return {}
    if cluster is None or not cluster.can(GroupSource.offsets_at):
        raise UsageError("a reset to a time needs a live cluster (--bootstrap-server)")
    reading = cluster.offsets_at(ats, to.number)
    problems += reading.problems
    return reading.ranges


def _wanted(
    to: ResetTo, now: int | None, other: int | None, log: LogRange, at_time: LogRange | None
) -> int | None:
    """Return the target offset before clamping; None if it is unknown."""
    match to.goal:
        case ResetTarget.EARLIEST:
            return log.start
        case ResetTarget.LATEST:
            return log.end
        case ResetTarget.OFFSET:
            return to.number
        case ResetTarget.TIME:
            return log.end if at_time is None or at_time.start is None else at_time.start
        case ResetTarget.SHIFT:
            return None if now is None else now + to.number
        case ResetTarget.CURRENT:
            return log.end if now is None else now
        case ResetTarget.OTHER:
            return other


def _is_blind(cluster: GroupSource | None, log: LogRange, wanted: int) -> bool:
    """Return whether an offset cannot be checked though a cluster is given, or is too large."""
    is_unknown = log.start is None and log.end is None
    return (cluster is not None and is_unknown) or (is_unknown and wanted > _MOST)


def _clamped(at: TopicPartition, wanted: int, log: LogRange) -> OffsetTarget:
    """Return the target with the nearest offset within the log."""
    mark, offset = None, wanted
    if log.end is not None and wanted > log.end:
        mark, offset = OffsetMark.PAST_END, log.end
    elif wanted < (log.start or 0):
        mark, offset = OffsetMark.BEFORE_START, log.start or 0
    return OffsetTarget(CommittedOffset(*at, offset), mark)


def _no_target(
    group_id: str,
    at: TopicPartition,
    to: ResetTo,
    log: LogRange,
    wanted: int | None,
    *,
    is_named: bool,
) -> Problem:
    """Return the problem that a partition has no target offset."""
    topic, partition = at
    if log.mark is not None:
        problem = gone(group_id, at, log.mark)
        is_missing = is_named and log.mark in GONE
        return replace(problem, kind=ProblemKind.NOT_FOUND) if is_missing else problem
    if wanted is not None:
        text = "The log start and end offsets are unknown: the offset cannot be checked."
        kind = ProblemKind.UNREADABLE
    elif to.goal is ResetTarget.SHIFT:
        kind, text = ProblemKind.NOT_FOUND, "There is no committed offset to shift."
    elif to.goal is ResetTarget.OTHER:
        kind, text = ProblemKind.NOT_FOUND, "The other group, or the file, has no offset for it."
    else:
        end = "start" if to.goal is ResetTarget.EARLIEST else "end"
        text = f"This source does not know the log {end} offset; a live cluster does."
        kind = ProblemKind.UNREADABLE
    return Problem(kind, f"{topic}-{partition}: {text}", group_id, topic=topic, partition=partition)


def _times(
    cluster: GroupSource | None,
    committed: Mapping[str, _Offsets],
    targets: Mapping[str, Mapping[TopicPartition, OffsetTarget]],
    logs: Mapping[TopicPartition, LogRange],
    problems: list[Problem],
) -> Mapping[Position, int | None]:
    """Return the times of the records at committed and target offsets.

    An offset outside the log has no record to read.
    """
    if cluster is None or not cluster.can(GroupSource.next_records):
        return {}
    positions = {
        (*at, offset)
        for group_id, of_group in targets.items()
        for at, target in of_group.items()
        for offset in (
            committed.get(group_id, {}).get(at),
            None if target.offset is None else target.offset.committed_offset,
        )
        if offset is not None and logs.get(at, LogRange()).mark_of(offset) is None
    }
    reading = cluster.next_records(positions)
    problems += reading.problems
    return {position: record.timestamp_ms for position, record in reading.records.items()}


def _sizes(
    cluster: GroupSource | None, ats: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    return {} if cluster is None else cluster.log_sizes(ats)


def _new_groups(reading: OffsetReading, group_ids: Iterable[str]) -> Iterable[str]:
    for group_id in sorted(group_ids):
        if group_id not in reading.offsets:
            yield f"{shown_id(group_id)}: nothing is committed yet; this creates the group."
