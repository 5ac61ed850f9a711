"""What has changed: as marks in the tables of a description, and as lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from kgroup.model.group import Broker, Member
from kgroup.model.instant import rfc3339
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import Changed, Kind, age, cell
from kgroup.render.sheet import Sheet

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


def mark_facts(facts: Sheet, changes: Collection[Change]) -> Sheet:
    """Mark what has changed in the table of properties and values."""
    changed = {_FACTS[change.change] for change in changes if change.change in _FACTS}
    if sum((c.after or 0) - (c.before or 0) for c in changes if c.change is ChangeKind.LAG):
        changed.add("lag")
    rows = [(name, Changed(value) if name in changed else value) for name, value in facts.rows]
    return Sheet(facts.columns, rows)


def mark_members(sheet: Sheet, changes: Collection[Change]) -> Sheet:
    """Mark what has changed in the table of members."""
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
    """Mark what has changed in a table of partitions."""
    changed = {
        ((change.topic, change.partition), _OFFSET_COLUMNS[change.change])
        for change in changes
        if change.change in _OFFSET_COLUMNS
    }
    return _mark(sheet, ("topic", "partition"), changed)


def _mark(
    sheet: Sheet, key: tuple[str, ...], changed: Collection[tuple[tuple[Any, ...], str]]
) -> Sheet:
    """Mark cells by the key of their row and the name of their column."""
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
    """Write a change as a line for people."""
    parts = [rfc3339(change.time_ms), cell(change.group_id, Kind.NAME), change.change]
    if change.member_id is not None:
        parts.append(cell(change.member_id, Kind.NAME))
    if change.partition is not None:
        parts.append(f"{cell(change.topic or change.topic_id, Kind.TEXT)}-{change.partition}")
    parts += _values(change)
    return " ".join(parts)


def _values(change: Change) -> Iterator[str]:
    """Write what was and what is, where that can be said in a few words."""
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
