"""Descriptions of groups as a page for people, with the changes since the previous round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.group import Broker, GroupState, GroupType, Member, Membership
from kgroup.model.instant import rfc3339
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import Changed, Column, Kind, age, cell, harmless, problem_line, unmarked
from kgroup.render.group import (
    connect_sheet,
    last_stable_sheet,
    members_sheet,
    offsets_sheet,
    pending_sheet,
    share_sheet,
    topology_sheet,
)
from kgroup.render.sheet import Part, Sheet, Title, apart, facts, section

_FACTS: Mapping[ChangeKind, str] = {
    ChangeKind.STATE: "state",
    ChangeKind.COORDINATOR: "coordinator",
    ChangeKind.ASSIGNOR: "protocol",
    ChangeKind.GENERATION: "generation",
    ChangeKind.LEADER: "leader",
    ChangeKind.EPOCH: "epoch",
    ChangeKind.ASSIGNMENT_EPOCH: "epoch",
    ChangeKind.MEMBER_JOINED: "members",
    ChangeKind.MEMBER_LEFT: "members",
    ChangeKind.TIME_LAG: "time lag",
}
_MEMBER_COLUMNS: Mapping[ChangeKind, str] = {
    ChangeKind.MEMBER_JOINED: "member_id",
    ChangeKind.MEMBER_STATE: "state",
    ChangeKind.MEMBER_EPOCH: "member_epoch",
    ChangeKind.SUBSCRIPTION: "subscription",
    ChangeKind.ASSIGNMENT: "assignment",
}
_OFFSET_COLUMNS: Mapping[ChangeKind, str] = {
    ChangeKind.OWNER: "member_id",
    ChangeKind.COMMITTED_OFFSET: "committed_offset",
    ChangeKind.START_OFFSET: "start_offset",
    ChangeKind.LAG: "lag",
    ChangeKind.TIME_LAG: "time_lag_ms",
    ChangeKind.MARK: "mark",
}


def mark_facts(
    rows: Iterable[tuple[str, str]], changes: Collection[Change]
) -> Iterator[tuple[str, object]]:
    """Yield properties and values, with changed ones marked."""
    changed = {_FACTS[change.change] for change in changes if change.change in _FACTS}
    if sum((c.after or 0) - (c.before or 0) for c in changes if c.change is ChangeKind.LAG):
        changed.add("lag")
    return ((name, Changed(value) if name in changed else value) for name, value in rows)


def mark_members(sheet: Sheet, changes: Collection[Change]) -> Sheet:
    """Return a table of members with changes marked."""
    changed = {
        (change.member_id, _MEMBER_COLUMNS[change.change])
        for change in changes
        if change.change in _MEMBER_COLUMNS
    }
    for change in changes:
        if change.change is ChangeKind.OWNER:
            changed |= {(change.before, "assignment"), (change.after, "assignment")}
    return _mark(sheet, ("member_id",), {((member_id,), name) for member_id, name in changed})


def mark_offsets(sheet: Sheet, changes: Collection[Change]) -> Sheet:
    """Return a table of partitions with changes marked."""
    changed = {
        ((change.topic, change.partition), _OFFSET_COLUMNS[change.change])
        for change in changes
        if change.change in _OFFSET_COLUMNS
    }
    return _mark(sheet, ("topic", "partition"), changed)


def _mark(
    sheet: Sheet, key: tuple[str, ...], changed: Collection[tuple[tuple[Any, ...], str]]
) -> Sheet:
    """Return a sheet with cells marked by the key of their row and the name of their column."""
    if not changed:
        return sheet
    names = [column.name for column in sheet.columns]
    key_columns = [names.index(name) for name in key]
    rows = [
        [
            Changed(value) if (tuple(row[at] for at in key_columns), name) in changed else value
            for name, value in zip(names, row, strict=True)
        ]
        for row in sheet.rows
    ]
    return Sheet(sheet.columns, rows)


def change_line(change: Change) -> str:
    """Return a change as a line for people."""
    parts = [rfc3339(change.time_ms), cell(change.group_id, Kind.NAME), change.change]
    if change.member_id is not None:
        parts.append(cell(change.member_id, Kind.NAME))
    if change.partition is not None:
        parts.append(f"{cell(change.topic or change.topic_id, Kind.TEXT)}-{change.partition}")
    parts += _values(change)
    return " ".join(parts)


def _values(change: Change) -> Iterator[str]:
    """Yield the old and the new value, if they are short."""
    if change.change in (ChangeKind.MEMBER_JOINED, ChangeKind.MEMBER_LEFT):
        member = change.after or change.before
        if isinstance(member, Member) and member.client_id is not None:
            host = f" at {cell(member.client_host, Kind.TEXT)}" if member.client_host else ""
            yield f"({cell(member.client_id, Kind.NAME)}{host})"
    elif change.change is not ChangeKind.GROUP_FOUND and change.change is not ChangeKind.GROUP_GONE:
        before, after = _value(change, change.before), _value(change, change.after)
        if before is not None and after is not None:
            yield f"{before} -> {after}"


def _value(change: Change, value: Any) -> str | None:
    if isinstance(value, Broker):
        return cell(value.label, Kind.TEXT)
    if isinstance(value, Mapping | tuple) or is_dataclass(value):
        return None
    if change.change is ChangeKind.TIME_LAG and isinstance(value, int):
        return age(value)
    return cell(value, Kind.TEXT)


SECTIONS = ("state", "members", "offsets")

_OWN = frozenset(
    {
        "partition",
        "committed_offset",
        "start_offset",
        "log_end_offset",
        "lag",
        "assignment",
        "target_assignment",
        "connectors",
        "tasks",
    }
)
"""Columns that tables show even if all rows have the same value."""
_FACT_COLUMNS = (Column("property", Kind.TEXT), Column("value", Kind.TEXT))


def description_page(
    groups: Iterable[GroupDescription],
    *,
    sections: Collection[str],
    now_ms: int,
    changes: Iterable[Change] = (),
) -> Iterator[Part]:
    """Yield a page of groups, one below the other.

    Args:
        groups: groups to describe.
        sections: sections to show, of `SECTIONS`.
        now_ms: current time in epoch milliseconds, for ages.
        changes: changes of the groups to mark.
    """
    by_group: dict[str, list[Change]] = {}
    for change in changes:
        by_group.setdefault(change.group_id, []).append(change)
    return apart(
        _group_parts(description, sections, now_ms, by_group.get(description.group.group_id, ()))
        for description in groups
    )


def _group_parts(
    description: GroupDescription,
    sections: Collection[str],
    now_ms: int,
    changes: Collection[Change],
) -> Iterator[Part]:
    yield Title(f"Group {cell(description.group.group_id, Kind.NAME)}")
    if "state" in sections:
        yield facts(mark_facts(_facts(description, now_ms), changes), _FACT_COLUMNS)
    for title, sheet in _sheets(description, sections, changes):
        if sheet.rows:
            short, common = _abridge(sheet)
            yield from section(f"{title} (all: {common})" if common else title, short)


def _sheets(
    description: GroupDescription, sections: Collection[str], changes: Collection[Change]
) -> Iterator[tuple[str, Sheet]]:
    """Yield the tables of a group, with their titles."""
    group = description.group
    if "state" in sections:
        yield "Topology", topology_sheet(group)
    if "members" in sections:
        yield "Members", mark_members(members_sheet([description]), changes)
        yield "Connectors and tasks", connect_sheet(group)
        if group.last_stable is not None:
            before = f"generation {_or_unknown(group.last_stable.generation_id)}"
            yield f"Members of {before}, the last one", last_stable_sheet(group)
    if "offsets" in sections:
        yield "Offsets", mark_offsets(offsets_sheet([description]), changes)
        yield "Offsets of open transactions, not visible yet", pending_sheet(group)
        yield "Share offsets", mark_offsets(share_sheet(description), changes)


def _facts(description: GroupDescription, now_ms: int) -> Iterator[tuple[str, str]]:
    group = description.group
    state = "unknown"
    if group.state is not None:
        state = f"{group.state}: {group.state.sentence_of(group.type)}"
    yield "state", state
    yield "type", f"{group.type}: {group.type.sentence}"
    protocol = [group.protocol_type, group.assignor and f"assignor {group.assignor}"]
    if any(protocol):
        yield "protocol", ", ".join(filter(None, protocol))
    if group.generation_id is not None:
        since = ""
        if group.state_timestamp_ms is not None:
            what = "empty since" if group.state is GroupState.EMPTY else "joined by all members at"
            since = f", {what} {rfc3339(group.state_timestamp_ms)}"
        yield "generation", f"{group.generation_id}{since}"
    if group.group_epoch is not None:
        yield (
            "epoch",
            f"{group.group_epoch}, target assignment of {_or_unknown(group.assignment_epoch)}",
        )
    if group.topology is not None:
        yield "topology", f"epoch {group.topology.epoch}"
    leader = next((m for m in group.members if m.member_id == group.leader_id), None)
    if group.leader_id is not None:
        client = f" ({leader.client_id} at {leader.client_host})" if leader else ""
        yield "leader", f"{group.leader_id}{client}"
    yield "members", str(len(group.members))
    if group.last_stable is not None:
        yield "last stable", _last_stable(group.last_stable, now_ms)
    lags = [offset.lag for offset in description.offsets]
    lags += [offset.lag for offset in description.share_offsets or ()]
    if lags:
        known = len(lags) - lags.count(None)
        total = _or_unknown(description.total_lag)
        yield "lag", f"{total} ({known} of {len(lags)} partitions known)"
    time_lags = [offset.time_lag_ms for offset in description.offsets]
    time_lags += [offset.time_lag_ms for offset in description.share_offsets or ()]
    if known := len(time_lags) - time_lags.count(None):
        most = cell(description.max_time_lag_ms, Kind.AGE)
        yield "time lag", f"at most {most} ({known} of {len(time_lags)} partitions known)"
    if group.type is GroupType.ZOOKEEPER:
        return  # these groups have no coordinator
    broker = group.coordinator
    prefix = f"{broker.label}, " if broker else ""
    yield (
        "coordinator",
        f"{prefix}partition {_or_unknown(group.offsets_partition)} of __consumer_offsets",
    )


def _last_stable(before: Membership, now_ms: int) -> str:
    when = "at an unknown time"
    if before.recorded_ms is not None:
        when = f"{age(now_ms - before.recorded_ms)} ago, at {rfc3339(before.recorded_ms)}"
    members = _counted(len(before.members), "member")
    assignor = f", assignor {before.assignor}" if before.assignor else ""
    leader = f", leader {cell(before.leader_id, Kind.NAME)}" if before.leader_id else ""
    return (
        f"generation {_or_unknown(before.generation_id)}, recorded {when}: "
        f"{members}{assignor}{leader}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _or_unknown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _abridge(sheet: Sheet) -> tuple[Sheet, str]:
    """Return a readable table: values that all rows have in common are shown once.

    Returns:
        The sheet without the group id, blank columns, topic ids if all topics have names,
        columns with the same value in all of several rows, and libraries if all known ones are
        Kafka's own; and these values as text, or "".
    """
    telling = sheet.without_blank()
    rows = list(telling.rows)
    columns = {column.name: index for index, column in enumerate(telling.columns)}
    columns.pop("group_id", None)
    marks = {unmarked(row[columns["mark"]]) for row in rows} if "mark" in columns else set()
    if OffsetMark.BEFORE_START not in marks:
        columns.pop("log_start_offset", None)
    columns.pop("next_timestamp_ms", None)  # the lag in time says the same
    if "topic" in columns and all(row[columns["topic"]] is not None for row in rows):
        columns.pop("topic_id", None)
    library = columns.get("client_library")
    if library is not None and all(row[library] in (None, KAFKA_CLIENTS) for row in rows):
        del columns["client_library"], columns["client_library_certainty"]
    is_reached = {"assignment", "target_assignment"} <= columns.keys() and all(
        row[columns["target_assignment"]] == unmarked(row[columns["assignment"]]) for row in rows
    )
    if is_reached:
        del columns["target_assignment"]
    short, common = Sheet(telling.columns, rows).select(list(columns)).without_common(_OWN)
    if is_reached:
        common.append("target assignment reached")
    return short, ", ".join(common)


EVENTS = 5
"""Number of changes of groups and members that stay on the page."""
_MAX_PROBLEMS = 5
_STEADY = frozenset(
    {ChangeKind.COMMITTED_OFFSET, ChangeKind.START_OFFSET, ChangeKind.LAG, ChangeKind.TIME_LAG}
)
"""Changes that happen all the time while records are consumed: marks in the tables suffice."""


def is_event(change: Change) -> bool:
    """Return whether a change gets its own line."""
    return change.change not in _STEADY


def watch_page(
    groups: Collection[GroupDescription],
    changes: Collection[Change],
    events: Sequence[Change],
    problems: Sequence[Problem],
    *,
    sections: Collection[str],
    interval_s: float,
    now_ms: int,
) -> Iterator[Part]:
    """Yield the page: its time, the problems, the latest changes, and the groups.

    Args:
        groups: current state of the groups.
        changes: changes since the last round, to be marked.
        events: latest changes, the newest last.
        problems: problems of this round.
        sections: see `description_page`.
        interval_s: time between rounds.
        now_ms: time of this round in epoch milliseconds.
    """
    yield Title(f"{rfc3339(now_ms)}, every {interval_s:g} s; * has changed since the last")
    yield from (f"! {harmless(problem_line(problem))}\n" for problem in problems[:_MAX_PROBLEMS])
    if len(problems) > _MAX_PROBLEMS:
        yield f"! and {len(problems) - _MAX_PROBLEMS} more\n"
    yield from (f"{change_line(event)}\n" for event in reversed(events))
    if groups:
        yield "\n"
    yield from description_page(groups, sections=sections, now_ms=now_ms, changes=changes)
