"""Describe groups repeatedly, and list the changes between two descriptions.

A change is a value that was known before and is known to be different now. A value that is unknown
for some time is not a change: the owners in a classic group are unknown during a rebalance, and
only owners that differ afterwards are changes. Values of a broker that did not answer count as
unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from kgroup.described_enum import DescribedEnum
from kgroup.errors import BrokerError, KgroupError, ProblemKind
from kgroup.model.group import GroupState, GroupType, Member
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription, OffsetDescription, ShareOffsetDescription
from kgroup.operation.report import Report


class ChangeKind(DescribedEnum):
    """What changed; part of the JSON output."""

    GROUP_FOUND = ("group-found", "A group appeared; `after` is its whole description.")
    GROUP_GONE = ("group-gone", "The group no longer exists.")
    STATE = ("state", "Group state.")
    COORDINATOR = ("coordinator", "Group coordinator.")
    ASSIGNOR = ("assignor", "Assignor of the group.")
    GENERATION = ("generation", "Classic: generation of the last completed rebalance.")
    LEADER = ("leader", "Classic: member id of the leader.")
    EPOCH = ("epoch", "Not classic: group epoch.")
    ASSIGNMENT_EPOCH = ("assignment-epoch", "Not classic: group epoch of the target assignment.")
    MEMBER_JOINED = ("member-joined", "A member joined; `after` is its description.")
    MEMBER_LEFT = ("member-left", "A member left; `before` was its description.")
    MEMBER_STATE = ("member-state", "Not classic: state of a member's reconciliation.")
    MEMBER_EPOCH = ("member-epoch", "Not classic: epoch that a member has reached.")
    SUBSCRIPTION = ("subscription", "Subscribed topics and regular expression of a member.")
    ASSIGNMENT = ("assignment", "Share and streams: partitions or tasks of a member.")
    OWNER = ("owner", "Member id of the partition's owner; null: no owner.")
    COMMITTED_OFFSET = ("committed-offset", "Committed offset of the partition; null: none.")
    START_OFFSET = (
        "start-offset",
        "Share: first offset of the partition that the group has not finished.",
    )
    LAG = ("lag", "Lag of the group in the partition, in records; null: unknown.")
    TIME_LAG = (
        "time-lag",
        "With `--time-lag`: lag in time of the partition, in milliseconds; null: unknown.",
    )
    MARK = ("mark", "Problem of the partition or of its committed offset; null: none known.")


_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
_UNANSWERED = (ProblemKind.DENIED, ProblemKind.NO_COORDINATOR)

_Row = OffsetDescription | ShareOffsetDescription
_At = tuple[str | None, str | None, int | None]  # topic name (or topic id if unknown), partition


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two descriptions.

    Attributes:
        time_ms: when kgroup noticed the change, by the clock of this machine.
        group_id: group id.
        change: what changed.
        member_id: member id; None if the change does not concern a member.
        topic: topic name; None if the change does not concern a topic, or only the topic id is
            known.
        partition: partition number; None if the change does not concern a partition.
        topic_id: topic id; if the source knows it.
        before: previous value, as in the description; None if there was none, or if unknown.
        after: new value, as in the description; None if there is none, or if unknown.
    """

    time_ms: int
    group_id: str
    change: ChangeKind
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    topic_id: str | None = None
    before: Any = None
    after: Any = None


def compare(
    known: Mapping[str, GroupDescription], report: Report[GroupDescription], time_ms: int
) -> tuple[tuple[Change, ...], dict[str, GroupDescription]]:
    """Compare a report with the previous descriptions.

    Args:
        known: previous descriptions by group id; empty at first, which reports all groups as found.
        report: report of `describe`.
        time_ms: time of the report, in epoch milliseconds.

    Returns:
        Changes by group, and the current descriptions.
    """
    differences: list[Change] = []
    current: dict[str, GroupDescription] = {}
    described = {description.group.group_id: description for description in report.data}
    for group_id in sorted(known.keys() | described.keys()):
        before, after = known.get(group_id), described.get(group_id)
        if before is None and after is not None:
            current[group_id] = after
            differences.append(Change(time_ms, group_id, ChangeKind.GROUP_FOUND, after=after))
        elif before is not None and _is_unanswered(group_id, before, after, report.errors):
            current[group_id] = before
        elif before is not None and after is not None:
            current[group_id] = _with_previous_values(before, after)
            differences += changes(before, current[group_id], time_ms)
        else:
            differences.append(Change(time_ms, group_id, ChangeKind.GROUP_GONE))
    return tuple(differences), current


def changes(before: GroupDescription, after: GroupDescription, time_ms: int) -> Iterator[Change]:
    """Yield the differences between two descriptions of a group: group, members, partitions."""
    group_id = before.group.group_id
    for kind, old, new in _differing(before.group, after.group, _GROUP_FIELDS):
        yield Change(time_ms, group_id, kind, before=old, after=new)
    old_members = {member.member_id: member for member in before.group.members}
    new_members = {member.member_id: member for member in after.group.members}
    for member_id in sorted(old_members.keys() | new_members.keys()):
        for kind, old, new in _member_changes(
            old_members.get(member_id), new_members.get(member_id), before.group.type
        ):
            yield Change(time_ms, group_id, kind, member_id, before=old, after=new)
    old_rows, new_rows = _rows(before), _rows(after)
    for at in sorted(old_rows.keys() | new_rows.keys(), key=_order):
        old_row, new_row = old_rows.get(at), new_rows.get(at)
        row = new_row or old_row
        assert row is not None
        place = (row.topic, row.partition, row.topic_id)
        for kind, old, new in _differing(old_row, new_row, _ROW_FIELDS):
            yield Change(time_ms, group_id, kind, None, *place, old, new)


_GROUP_FIELDS = (
    (ChangeKind.STATE, "state"),
    (ChangeKind.COORDINATOR, "coordinator"),
    (ChangeKind.ASSIGNOR, "assignor"),
    (ChangeKind.GENERATION, "generation_id"),
    (ChangeKind.LEADER, "leader_id"),
    (ChangeKind.EPOCH, "group_epoch"),
    (ChangeKind.ASSIGNMENT_EPOCH, "assignment_epoch"),
)
_MEMBER_FIELDS = ((ChangeKind.MEMBER_STATE, "state"), (ChangeKind.MEMBER_EPOCH, "member_epoch"))
_ROW_FIELDS = (
    (ChangeKind.OWNER, "member_id"),
    (ChangeKind.COMMITTED_OFFSET, "committed_offset"),
    (ChangeKind.START_OFFSET, "start_offset"),
    (ChangeKind.LAG, "lag"),
    (ChangeKind.TIME_LAG, "time_lag_ms"),
    (ChangeKind.MARK, "mark"),
)


def _differing(
    before: object, after: object, fields: Iterable[tuple[ChangeKind, str]]
) -> Iterator[tuple[ChangeKind, Any, Any]]:
    for kind, name in fields:
        old, new = getattr(before, name, None), getattr(after, name, None)
        if old != new:
            yield kind, old, new


def _member_changes(
    before: Member | None, after: Member | None, group_type: GroupType
) -> Iterator[tuple[ChangeKind, Any, Any]]:
    if before is None:
        yield ChangeKind.MEMBER_JOINED, None, after
    elif after is None:
        yield ChangeKind.MEMBER_LEFT, before, None
    else:
        yield from _differing(before, after, _MEMBER_FIELDS)
        old, new = _subscribed(before), _subscribed(after)
        if old != new:
            yield ChangeKind.SUBSCRIPTION, old, new
        if group_type in (GroupType.SHARE, GroupType.STREAMS):
            had, has = before.tasks or before.assignment, after.tasks or after.assignment
            if had != has:
                yield ChangeKind.ASSIGNMENT, had, has


def _subscribed(member: Member) -> dict[str, Any] | None:
    """Return the topics and the regex that a member subscribes to, without ownership or history."""
    subscription = member.subscription
    return (
        None
        if subscription is None
        else {"topics": subscription.topics, "regex": subscription.regex}
    )


def _rows(description: GroupDescription) -> dict[_At, _Row]:
    rows: list[_Row] = [*description.offsets, *(description.share_offsets or ())]
    return {
        (row.topic, None if row.topic is not None else row.topic_id, row.partition): row
        for row in rows
    }


def _order(at: _At) -> tuple[bool, str, str, int]:
    topic, topic_id, partition = at
    return (topic is None, topic or "", topic_id or "", -1 if partition is None else partition)


# --- unknown values ---


def _is_unanswered(
    group_id: str,
    before: GroupDescription,
    after: GroupDescription | None,
    problems: Collection[Problem],
) -> bool:
    """Return whether the report may be wrong about a group, because of unanswered requests."""
    brokers = {
        description.group.coordinator.id
        for description in (before, after)
        if description and description.group.coordinator
    }
    for problem in problems:
        if problem.kind is ProblemKind.NOT_FOUND or problem.group_id not in (None, group_id):
            continue
        if after is None and problem.topic is None:
            return True
        if problem.group_id == group_id:
            if problem.broker is not None or problem.kind in _UNANSWERED:
                return True
        elif problem.broker in brokers:
            return True
    return False


def _with_previous_values(before: GroupDescription, after: GroupDescription) -> GroupDescription:
    """Return the current description, with previous values in place of unknown ones."""
    old, new = before.group, after.group
    names = _KEPT_WHILE_UNKNOWN + _KEPT_WITH_MEMBERS if new.members else _KEPT_WHILE_UNKNOWN
    known = {
        name: getattr(old, name)
        for name in names
        if old.type is new.type  # which a migration changes, or a new group of the same id
        and getattr(new, name) is None
        and getattr(old, name) is not None
    }
    subscriptions = {member.member_id: member.subscription for member in old.members}
    known["members"] = tuple(
        replace(member, subscription=member.subscription or subscriptions.get(member.member_id))
        for member in new.members
    )
    offsets = after.offsets
    if new.type is GroupType.CLASSIC and new.state in _REBALANCING:
        offsets = _with_owners(before.offsets, offsets)
    return replace(after, group=replace(new, **known), offsets=offsets)


_KEPT_WHILE_UNKNOWN = ("state", "coordinator", "generation_id", "group_epoch", "assignment_epoch")
_KEPT_WITH_MEMBERS = ("assignor", "leader_id")


def _with_owners(
    before: tuple[OffsetDescription, ...], after: tuple[OffsetDescription, ...]
) -> tuple[OffsetDescription, ...]:
    """Keep the previous owners, and rows that exist only because of their owner."""
    rows = {(row.topic, row.partition): row for row in after}
    for row in before:
        at = (row.topic, row.partition)
        now = rows.get(at)
        if now is None and row.committed_offset is None:
            rows[at] = row
        elif now is not None:
            mark = row.mark if now.mark is None and row.mark is OffsetMark.NO_OWNER else now.mark
            rows[at] = replace(now, member_id=now.member_id or row.member_id, mark=mark)
    return tuple(sorted(rows.values(), key=lambda row: _order((row.topic, None, row.partition))))


@dataclass(frozen=True, slots=True)
class Round:
    """One iteration of a watch.

    Attributes:
        groups: current descriptions.
        changes: changes since the previous round; in the first one, all groups are found.
        time_ms: time of the round, in epoch milliseconds.
        has_failed: whether nothing could be read.
    """

    groups: Collection[GroupDescription]
    changes: tuple[Change, ...]
    report: Report[GroupDescription]
    time_ms: int
    has_failed: bool


def watch(read: Callable[[], Report[GroupDescription]]) -> Iterator[Round]:
    """Yield rounds endlessly, one on each request.

    Args:
        read: describes the groups once.

    Raises:
        KgroupError: the first round fails; failures of later rounds are errors in their reports.
    """
    known: dict[str, GroupDescription] = {}
    for number in count():
        has_failed = False
        try:
            report = read()
        except (KgroupError, OSError) as error:
            if not number:
                raise
            has_failed = True
            report = Report((), errors=(failure(error),))
        now_ms = time.time_ns() // 1_000_000
        changes, known = compare(known, report, now_ms)
        yield Round(known.values(), changes, report, now_ms, has_failed)


def failure(error: KgroupError | OSError) -> Problem:
    """Return the problem that a whole round failed."""
    kind = error.kind if isinstance(error, KgroupError) else ProblemKind.UNREADABLE
    broker = error.broker_id if isinstance(error, BrokerError) else None
    return Problem(kind, f"{error}", broker=broker)
