"""Plan a change of committed offsets by partition, and execute it.

A plan compares the committed offsets with the target offsets, and writes nothing. On execution, the
store writes a group's offsets only if its commits are unchanged since the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import Struct, structs

from kgroup.described_enum import DescribedEnum
from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import GONE, LogRange, OffsetMark
from kgroup.model.member_name import first_members
from kgroup.model.offset import CommittedOffset, OffsetChange, StoredOffset, is_same
from kgroup.model.problem import Problem
from kgroup.operation.list_groups import idle_groups
from kgroup.operation.offsets.read import stored, unread
from kgroup.operation.report import Report, first_names
from kgroup.source.base import GroupSource, Question
from kgroup.source.offset_change import conflict, place_of
from kgroup.value_class import value_class

Topics = Mapping[str, Collection[int] | None]
"""Partition numbers by topic, None for all partitions; an empty mapping selects everything."""
EVERY: Topics = {}


def is_chosen(at: TopicPartition, topics: Topics) -> bool:
    """Return whether a partition is selected."""
    topic, partition = at
    numbers = topics.get(topic, ())
    return not topics or numbers is None or partition in numbers


def not_committed(
    chosen: Mapping[str, Collection[TopicPartition]],
    topics: Topics,
    group_ids: Collection[str],
    problems: Collection[Problem] = (),
) -> Iterator[Problem]:
    """Yield selected topics without commits, and named groups without selected partitions.

    Topics that may not be described are skipped: `problems` of the reading contain them.
    """
    denied = {problem.topic for problem in problems if problem.kind is ProblemKind.NOT_AUTHORIZED}
    topics = {topic: numbers for topic, numbers in topics.items() if topic not in denied}
    if not topics or not chosen:
        return
    known = {at for ats in chosen.values() for at in ats}
    known_topics = {topic for topic, _ in known}
    for topic, numbers in topics.items():
        if numbers is None and topic not in known_topics:
            text = f"{topic}: No offsets are committed for this topic."
            yield Problem(ProblemKind.NOT_FOUND, text, topic=topic)
        for number in sorted(numbers or ()):
            if (topic, number) not in known:
                text = f"{topic}-{number}: There is no offset of this partition."
                yield Problem(ProblemKind.NOT_FOUND, text, topic=topic, partition=number)
    for group_id, ats in chosen.items():
        if known and not ats and group_id in group_ids:
            reason = "There are no committed offsets for these partitions."
            yield Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id)


_UNKNOWN = LogRange()
_REFUSING = (ProblemKind.ACTIVE, ProblemKind.UNSUPPORTED)
_SHARED = (
    "It is a share group, which commits no offsets; kafka-share-groups moves its start offsets "
    "(--reset-offsets)."
)
_INACTIVE = (GroupState.EMPTY, GroupState.DEAD)


class Result(DescribedEnum):
    """Result of a planned change."""

    PLANNED = ("planned", "The change was not executed; use --execute.")
    UNCHANGED = ("unchanged", "Nothing to do: the offset is already committed.")
    DONE = ("done", "The change was executed.")
    REFUSED = ("refused", "The change was not, or would not be, executed; `errors` has the reason.")
    OVERWRITTEN = (
        "overwritten",
        "The change was executed, and then overwritten by another process; `errors` has the "
        "details.",
    )
    UNKNOWN = (
        "unknown",
        "The change was sent, but may or may not have been executed; `errors` has the reason.",
    )

    @classmethod
    def of(cls, problem: Problem) -> Result:
        """Return the result of a change that had a problem."""
        return _RESULTS.get(problem.kind, cls.REFUSED)


_RESULTS: Mapping[ProblemKind, Result] = {
    ProblemKind.OVERWRITTEN: Result.OVERWRITTEN,
    ProblemKind.UNKNOWN_END: Result.UNKNOWN,
}
"""Results by kind of problem; for other kinds, the change was refused."""


@value_class
class PlannedOffset(Struct, frozen=True, gc=False):
    """Planned change of a partition's committed offset.

    Attributes:
        group_id: group id.
        topic: topic name; None if a group without committed offsets is deleted.
        partition: partition number; None if a group without committed offsets is deleted.
        committed_offset: current committed offset; None if nothing is committed.
        target_offset: new committed offset; None if it is deleted.
        skipped: number of records between the two offsets that the group would not read; None if
            unknown: without a current or new offset; counted in offsets: compacted topics and
            topics with transactions have fewer records.
        read_again: number of records between the two offsets that the group would read again; None
            if unknown: without a current or new offset; counted in offsets: compacted topics and
            topics with transactions have fewer records.
        bytes: bytes between the two offsets, if they span the whole partition (`--times`); None
            otherwise, if there are no records between them, and without `--times`.
        log_start_offset: log start offset; None if unknown.
        log_end_offset: log end offset; None if unknown.
        committed_ms: timestamp of the next record to read at the current offset (`--times`); None
            if unknown, for example because the offset is outside the log, or without `--times`.
        target_ms: timestamp of the next record to read at the new offset (`--times`); None if
            unknown, for example because the offset is outside the log, or without `--times`.
        mark: problem of the partition or the offset; `past-end` or `before-start` if the new
            offset, or else the current one, is outside the log, or if the requested offset is and
            `reset` uses the log end or start offset instead; `no-record-since` if there is no
            record at or after `--to-time`.
        result: result of the change: `planned`, `unchanged`, `done`, `refused`, `overwritten` or
            `unknown`.
    """

    group_id: str
    topic: str | None
    partition: int | None
    committed_offset: int | None
    target_offset: int | None
    skipped: int | None
    read_again: int | None
    bytes: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    committed_ms: int | None
    target_ms: int | None
    mark: OffsetMark | None
    result: Result

    @classmethod
    def of_group(cls, group_id: str, result: Result) -> PlannedOffset:
        """Return the row of a group without committed offsets."""
        nothing = (None, None, None, None)
        return cls(group_id, *nothing, *nothing, *nothing, result)


class IdleSince(NamedTuple):
    """When groups were last active at the latest; see `idle_groups`."""

    time_ms: int
    log_budget: int


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """A plan to change committed offsets.

    Attributes:
        rows: planned changes, sorted by group, topic and partition.
        changes: changes for the store, by group; without offsets that are already committed.
        problems: what is missing from the plan.
        notes: assumptions and choices, for people.
        deleted: groups to delete as a whole; `changes` has their committed offsets.
        only_idle: delete only groups that are still idle; None: whether they are or not.
        verdict: exit status, if rows and problems do not tell it.
    """

    rows: tuple[PlannedOffset, ...]
    changes: Mapping[str, tuple[OffsetChange, ...]]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    only_idle: IdleSince | None = None
    verdict: ExitStatus | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.changes or self.deleted)

    @property
    def report(self) -> Report[PlannedOffset]:
        """The plan as a report."""
        return Report(self.rows, self.problems, self.notes, self.verdict)

    @property
    def backup(self) -> tuple[StoredOffset, ...]:
        """The committed offsets that the plan changes, in the file format."""
        return tuple(
            StoredOffset(group_id, change.topic, change.partition, None)
            if change.before is None
            else stored(group_id, change.before)
            for group_id, of_group in self.changes.items()
            for change in of_group
        )


@value_class
class OffsetTarget(Struct, frozen=True, gc=False):
    """The target offset of a partition.

    Attributes:
        offset: new offset with its metadata; None to delete the commit.
        mark: why it differs from the requested offset.
        refusal: why the offset may not be committed, as a sentence; None if it may.
    """

    offset: CommittedOffset | None
    mark: OffsetMark | None = None
    refusal: str | None = None


def make_plan(
    committed: Mapping[str, Iterable[CommittedOffset]],
    targets: Mapping[str, Mapping[TopicPartition, OffsetTarget]],
    *,
    logs: Mapping[TopicPartition, LogRange] = {},
    times: Mapping[tuple[str, int, int], int | None] = {},
    sizes: Mapping[TopicPartition, int] = {},
    problems: Iterable[Problem] = (),
    notes: Iterable[str] = (),
) -> OffsetPlan:
    """Return the plan that changes committed offsets to the targets.

    Args:
        committed: current commits, by group.
        targets: target offsets, by group, topic and partition; other partitions are unchanged.
        logs: log start and end offsets, as far as known. Nothing is committed for partitions that
            do not exist.
        times: time of the first record at or after an offset, by topic, partition and offset, as
            far as known.
        sizes: size of partitions in bytes, as far as known.
        problems: what is missing from the targets; and active groups or partitions and unsupported
            groups, which are not changed. An active group without planned changes is not a problem.
        notes: assumptions of the targets.
    """
    problems = list(problems)
    refused = {
        (problem.group_id, problem.topic, problem.partition)
        for problem in problems
        if problem.kind in _REFUSING
    }
    idle = {name for name, *_ in refused if name is not None and targets.get(name)}
    rows: list[PlannedOffset] = []
    changes: dict[str, tuple[OffsetChange, ...]] = {}
    planned, unchanged = Result.PLANNED, Result.UNCHANGED
    for group_id in sorted(targets):
        now = {(offset.topic, offset.partition): offset for offset in committed.get(group_id, ())}
        of_group = []
        for at, target in sorted(targets[group_id].items()):
            before, after, log = now.get(at), target.offset, logs.get(at, _UNKNOWN)
            result = unchanged
            if not is_same(before, after):
                if refused and not refused.isdisjoint(((group_id, None, None), (group_id, *at))):
                    result = Result.REFUSED
                    idle.discard(group_id)
                elif after is not None and log.mark in GONE:
                    problems.append(gone(group_id, at, log.mark))
                    result = Result.REFUSED
                elif target.refusal is not None:
                    text, kind = f"{at[0]}-{at[1]}: {target.refusal}", ProblemKind.OUT_OF_RANGE
                    problems.append(Problem(kind, text, group_id, topic=at[0], partition=at[1]))
                    result = Result.REFUSED
                else:
                    result = planned
                    of_group.append(OffsetChange(*at, before, after))
            row = _row(group_id, at, before, target, log, times, sizes, result)
            rows.append(row)
        if of_group:
            changes[group_id] = tuple(of_group)
    if idle:
        problems = [
            problem
            for problem in problems
            if problem.kind is not ProblemKind.ACTIVE or problem.group_id not in idle
        ]
        names = first_names(sorted(idle))
        notes = (*notes, f"groups with members that need no change: {names}")
    return OffsetPlan(tuple(rows), changes, tuple(problems), tuple(notes))


def with_requests(plan: OffsetPlan, store: GroupSource) -> OffsetPlan:
    """Add notes on groups that the store writes in several requests."""
    if plan.deleted:
        return plan
    notes = (
        f"{group_id or repr('')}: {len(plan.changes[group_id])} offsets are written in {count} "
        "requests, one after the other: where one fails, those before it stay written, and "
        "problems name the partitions that are not"
        for group_id, count in store.divided(plan.changes).items()
    )
    return replace(plan, notes=(*plan.notes, *notes))


def gone(group_id: str, at: TopicPartition, mark: OffsetMark) -> Problem:
    """Return the problem that a partition does not exist, so that nothing can be committed."""
    topic, partition = at
    text = f"{topic}-{partition}: {mark.sentence}"
    return Problem(ProblemKind(mark), text, group_id, topic=topic, partition=partition)


def _row(
    group_id: str,
    at: TopicPartition,
    before: CommittedOffset | None,
    target: OffsetTarget,
    log: LogRange,
    times: Mapping[tuple[str, int, int], int | None],
    sizes: Mapping[TopicPartition, int],
    result: Result,
) -> PlannedOffset:
    now = None if before is None else before.committed_offset
    then = None if target.offset is None else target.offset.committed_offset
    skipped = read_again = size = None
    if now is not None and then is not None:
        first, last = _within(now, log), _within(then, log)
        skipped, read_again = (0, first - last) if first > last else (last - first, 0)
        if sizes and first != last and {first, last} == {log.start, log.end}:
            size = sizes.get(at)
    return PlannedOffset(  # positional arguments: fast for 100,000s of rows
        group_id,
        at[0],
        at[1],
        now,
        then,
        skipped,
        read_again,
        size,
        log.start,
        log.end,
        times.get((*at, now)) if times and now is not None else None,
        times.get((*at, then)) if times and then is not None else None,
        target.mark or log.mark_of(then) or log.mark_of(now),
        result,
    )


def _within(offset: int, log: LogRange) -> int:
    """Return the nearest offset within the log."""
    if log.start is not None and offset < log.start:
        return log.start
    if log.end is not None and offset > log.end:
        return log.end
    return offset


def refused_groups(source: GroupSource | None, group_ids: Collection[str]) -> tuple[Problem, ...]:
    """Return problems of share groups and groups with members, if the source can read groups.

    Raises:
        BrokerError: no broker answers.
    """
    if not group_ids or source is None or not source.can(GroupSource.read):
        return ()
    reading = source.read(group_ids, Question(offsets=False, log_budget=0))
    groups = reading.image.groups.values()
    shared = [group for group in groups if group.type is GroupType.SHARE]
    return (
        *(Problem(ProblemKind.UNSUPPORTED, _SHARED, group_id=group.group_id) for group in shared),
        *why_active(group for group in groups if group.type is not GroupType.SHARE),
    )


def why_active(groups: Iterable[Group]) -> tuple[Problem, ...]:
    """Return problems of those groups that have members."""
    return tuple(
        Problem(
            ProblemKind.ACTIVE,
            f"The group is {group.state or 'in an unknown state'}{_members(group)}; stop its "
            "members first: while a group has members, only they may commit.",
            group_id=group.group_id,
        )
        for group in groups
        if group.members or (group.state is not None and group.state not in _INACTIVE)
    )


def _members(group: Group) -> str:
    count = len(group.members)
    if not count:
        return ""
    return f" and has {count} member{'' if count == 1 else 's'}: {first_members(group.members)}"


def carry_out(
    store: GroupSource,
    plan: OffsetPlan,
    on_done: Callable[[str], object] = lambda group_id: None,
    cluster: GroupSource | None = None,
) -> Report[PlannedOffset]:
    """Execute a plan; see `GroupSource` for `on_done` and for partitions that are skipped.

    If the store cannot read members, `cluster`, where the groups are coordinated, is checked first.

    Returns:
        The rows of the plan with their results, and problems. If no broker answers, the report has
        the error and the status FAILED.
    """
    verdict = None
    try:
        problems = _carried_out(store, plan, on_done, cluster)
    except BrokerError as error:
        problems, verdict = (failed(error),), ExitStatus.FAILED
    ends = {
        (problem.group_id, problem.topic, problem.partition): Result.of(problem)
        for problem in problems
    }
    planned, done = Result.PLANNED, Result.DONE  # enum access is as slow as a call

    def end(row: PlannedOffset) -> Result:
        of_row = (row.group_id, row.topic, row.partition)
        keys = (of_row, (row.group_id, None, None), (None, None, None))
        return next((ends[key] for key in keys if key in ends), done)

    rows = tuple(
        structs.replace(row, result=end(row) if ends else done) if row.result is planned else row
        for row in plan.rows
    )
    return Report(rows, (*plan.problems, *problems), plan.notes, verdict)


def failed(error: BrokerError) -> Problem:
    """Return the problem of a store that did not answer when a change was started."""
    if error.was_sent:
        text = f"{error}; it is unknown whether anything was changed: read the offsets again."
        return Problem(ProblemKind.UNKNOWN_END, text, broker=error.broker_id)
    return Problem(error.kind, f"{error}; nothing was changed.", broker=error.broker_id)


def _carried_out(
    store: GroupSource,
    plan: OffsetPlan,
    on_done: Callable[[str], object],
    cluster: GroupSource | None,
) -> tuple[Problem, ...]:
    if not plan.deleted:
        active = () if store.can(GroupSource.read) else refused_groups(cluster, plan.changes)
        busy = {problem.group_id for problem in active}
        changes = {name: of_group for name, of_group in plan.changes.items() if name not in busy}
        return (*active, *(store.write_offsets(changes, on_done) if changes else ()))
    changed = _changed(store, plan)
    names = [
        group_id
        for group_id in plan.deleted
        if group_id not in {problem.group_id for problem in changed}
    ]
    return (*changed, *(_delete(store, plan, names, on_done) if names else ()))


def _delete(
    store: GroupSource,
    plan: OffsetPlan,
    group_ids: Collection[str],
    on_done: Callable[[str], object],
) -> tuple[Problem, ...]:
    """Delete groups; in a store of offsets only, compare and delete all their offsets."""
    if store.can(GroupSource.delete_groups):
        return store.delete_groups(group_ids, on_done)
    return store.write_offsets(
        {group_id: plan.changes[group_id] for group_id in group_ids}, on_done
    )


def _changed(store: GroupSource, plan: OffsetPlan) -> tuple[Problem, ...]:
    """Return problems of groups to delete that were active since the plan and its backup."""
    idle = {*plan.deleted}
    if plan.only_idle is not None:
        time_ms, log_budget = plan.only_idle
        report = idle_groups(store, time_ms, log_budget=log_budget, group_ids=plan.deleted)
        idle = {row.group_id for row in report.data}
    reading = store.read_offsets(plan.deleted)
    unknown = unread(reading, plan.deleted)
    problems = []
    for group_id in plan.deleted:
        now = {place_of(offset): offset for offset in reading.offsets.get(group_id, ())}
        planned = {place_of(change): change for change in plan.changes.get(group_id, ())}
        new = (OffsetChange(*at, None, None) for at in now if at not in planned)
        changed = conflict((*planned.values(), *new), now)
        if group_id in unknown:
            changed = "The committed offsets of the group can no longer be read."
        if group_id not in idle:
            changed = "The group has become active, or it is no longer known that it is idle."
        if changed is not None:
            text = f"{changed} Plan the deletion again."
            problems.append(Problem(ProblemKind.CHANGED, text, group_id=group_id))
    return tuple(problems)
