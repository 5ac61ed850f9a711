"""Descriptions of groups as a page for people, with the changes since the previous round.

A group begins with a verdict: one sentence with its state, members and lag. A few facts follow, its
members, and its partitions, worst first. On a narrow terminal columns are left out, and ids are
shortened, so that a member or a partition takes one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from types import SimpleNamespace
from typing import Any

from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.clients import Clients, all_members, host_of
from kgroup.model.group import Broker, Group, Member, MemberState, Task
from kgroup.model.instant import shown_time
from kgroup.model.log_range import OffsetMark
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription, ShareOffsetDescription, sorted_partitions
from kgroup.operation.report import Sort
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import (
    Changed,
    Column,
    Kind,
    age,
    cell,
    harmless,
    problem_texts,
    ranges,
    rough_age,
)
from kgroup.render.explanation import terms
from kgroup.render.group import connect_work, owned, subscribed, topology_sheet
from kgroup.render.sheet import Either, Head, Part, Sheet, Title, Verdict, apart, facts, section
from kgroup.render.verdict import verdict_words

SECTIONS = ("state", "members", "offsets")
Sections = Collection[str]
_TITLE_WIDTH = 80
"""Width of a title up to which it names what all rows have in common."""


def description_page(
    groups: Iterable[GroupDescription],
    *,
    sections: Sections = (),
    now_ms: int,
    sort: Sort | None = None,
    changes: Iterable[Change] = (),
    explain: bool = False,
) -> Iterator[Part]:
    """Yield a page of groups, one below the other, the one with the largest lag first.

    Args:
        groups: groups to describe.
        sections: sections to show, of `SECTIONS`; by default all, without the topology.
        now_ms: current time in epoch milliseconds, for ages.
        sort: order of partitions; by default worst first.
        changes: changes of the groups to mark.
        explain: whether the meanings of the terms on the page follow.
    """
    by_group: dict[str, list[Change]] = {}
    for change in changes:
        by_group.setdefault(change.group_id, []).append(change)
    ordered = sorted(groups, key=_badness)
    yield from apart(
        _group_parts(group, sections, now_ms, sort, by_group.get(group.group.group_id, ()))
        for group in ordered
    )
    if explain and ordered:
        rows = dict.fromkeys(term for group in ordered for term in terms(group))
        yield from section("What it means", Sheet(_TERM_COLUMNS, rows, Head.IN_DOCUMENTS), level=2)


_TERM_COLUMNS = (Column("term", Kind.TEXT), Column("meaning", Kind.TEXT, may_go_below=True))


def _badness(description: GroupDescription) -> tuple[int, bool]:
    """Return the sort key of groups: the largest lag first, then marks and unknown lags."""
    rows = description.rows
    is_clean = all(row.lag is not None and getattr(row, "mark", None) is None for row in rows)
    return (-(description.total_lag or 0), is_clean)


def _group_parts(
    description: GroupDescription,
    sections: Sections,
    now_ms: int,
    sort: Sort | None,
    changes: Collection[Change],
) -> Iterator[Part]:
    group = description.group
    clients = Clients(group)
    verdict = Verdict(tuple(verdict_words(description, clients, now_ms, changes)))
    lines = list(_facts(description, now_ms)) if "state" in (sections or SECTIONS) else []
    title = Title(f"Group {cell(group.group_id, Kind.NAME)}")
    yield Either(
        (verdict, facts(_mark_facts(lines, changes), _FACT_COLUMNS)) if lines else (verdict,),
        (title, facts([("verdict", verdict.text), *lines], _FACT_COLUMNS)),
    )
    if "state" in sections and group.topology is not None:
        yield from section("Topology", topology_sheet(group).without_blank())
    if "members" in (sections or SECTIONS):
        yield from _members(group, clients, changes, is_chosen="members" in sections)
    if "offsets" in (sections or SECTIONS):
        yield from _partitions(description, clients, now_ms, sort, changes)


# --- facts ---

_FACT_COLUMNS = (Column("property", Kind.TEXT), Column("value", Kind.TEXT, is_list=True))


def _facts(description: GroupDescription, now_ms: int) -> Iterator[tuple[str, str]]:
    group = description.group
    yield "protocol", ", ".join(_protocol(group, now_ms))
    if group.coordinator is not None:
        number = group.offsets_partition
        place = "" if number is None else f", partition {number} of __consumer_offsets"
        yield "coordinator", f"{group.coordinator.label}{place}"
    if (delay_ms := group.connect_delay_ms) is not None:
        yield "delayed", _delayed(delay_ms, group.state_timestamp_ms, now_ms)
    if (probing_ms := group.probing_ms) is not None:
        yield "scheduled", f"probing rebalance, {_in_future(probing_ms, now_ms)}"


def _protocol(group: Group, now_ms: int) -> Iterator[str]:
    is_own = group.protocol_type in (None, group.type.value, "consumer")
    yield group.type.value if is_own else f"{group.type} ({cell(group.protocol_type, Kind.TEXT)})"
    if group.assignor is not None:
        yield cell(group.assignor, Kind.TEXT)
    if group.generation_id is not None:
        age = ""
        if group.state_timestamp_ms is not None:
            length = rough_age(now_ms - group.state_timestamp_ms)
            age = f" for {length}" if group.members else f", empty for {length}"
        yield f"generation {group.generation_id}{age}"
    if (stable := group.last_stable) is not None:
        number = "unknown" if stable.generation_id is None else stable.generation_id
        at_ms = stable.recorded_ms
        yield f"last complete generation {number}"
        if at_ms is not None:
            yield f"{rough_age(now_ms - at_ms)} ago"
    if group.group_epoch is not None:
        yield f"epoch {group.group_epoch}"
        if group.assignment_epoch != group.group_epoch:
            epoch = "unknown" if group.assignment_epoch is None else group.assignment_epoch
            yield f"target assignment of epoch {epoch}"
    if group.topology is not None:
        yield f"topology epoch {group.topology.epoch}"


def _delayed(delay_ms: int, since_ms: int | None, now_ms: int) -> str:
    """Return until when the leader of a Connect group delays a part of the assignment."""
    what = "connectors and tasks of workers that left, or that even out the load"
    if since_ms is None:
        return f"{what}, {rough_age(delay_ms)} from the last rebalance on"
    return f"{what}, until {_in_future(since_ms + delay_ms, now_ms)}"


def _in_future(at_ms: int, now_ms: int) -> str:
    left_ms = at_ms - now_ms
    when = f"{rough_age(left_ms)} left" if left_ms > 0 else f"{rough_age(-left_ms)} ago"
    return f"{shown_time(at_ms)} ({when})"


# --- members ---


@dataclass(frozen=True, slots=True)
class _MemberLine:
    """A line of the members' table.

    Attributes:
        member: a member, or one that has gone since the last completed rebalance.
        before: the member in that rebalance, if another one is in progress.
        is_gone: whether it has gone.
        is_leader: whether it computes the assignment.
    """

    member: Member
    before: Member | None
    is_gone: bool
    is_leader: bool


def _of_member(name: str, kind: Kind = Kind.NAME, **more: Any) -> Column:
    """Return a column with a field of the member."""
    return Column(name, kind, value=lambda line: getattr(line.member, name), **more)


def _list_column(name: str, value: Callable[[_MemberLine], object], rank: int = 0) -> Column:
    """Return a column with the number of some things and their names."""
    return Column(name, Kind.TEXT, value=value, is_list=True, rank=rank)


def _task_column(kind: str) -> Column:
    def tasks(line: _MemberLine) -> str | None:
        own: Sequence[Task] | None = getattr(line.member.tasks, kind, None)
        if own is None:
            return None
        return _list(len(own), ranges((task.subtopology_id, task.partition) for task in own))

    return _list_column(kind, tasks)


def _list(count: int, names: str | None) -> str:
    return f"{count}: {names}" if names else str(count)


def _partitions_of(member: Member | None) -> str | None:
    if member is None or member.assignment is None:
        return None
    return _list(len(member.assignment), owned(member.assignment, None))


def _current(line: _MemberLine) -> str | None:
    return None if line.is_gone else _partitions_of(line.member)


def _target(line: _MemberLine) -> str | None:
    """Return a member's target assignment, if it differs from the current one."""
    member = line.member
    if member.target_assignment is None and member.target_tasks is None:
        return None
    shall = owned(member.target_assignment, member.target_tasks)
    return None if shall == owned(member.assignment, member.tasks) else shall or "nothing"


def _work(line: _MemberLine, kind: int) -> str | None:
    work = connect_work(line.member)
    if work is None:
        return None
    connectors, tasks = work
    if kind:
        return _list(len(tasks), ranges(tasks))
    return _list(len(connectors), ", ".join(connectors))


def _state(line: _MemberLine) -> object:
    return "gone" if line.is_gone else "leader" if line.is_leader else line.member.state


_MEMBER_COLUMNS = (
    _of_member("member_id", is_reference=True),
    _of_member("client_id", is_reference=True),
    _of_member("instance_id", is_reference=True, rank=2),
    Column("host", Kind.TEXT, value=lambda line: host_of(line.member), is_reference=True),
    Column("state", Kind.TEXT, value=_state, is_reference=True, rank=2),
    _of_member("member_epoch", Kind.NUMBER, rank=3),
    _list_column("connectors", lambda line: _work(line, 0)),
    _list_column("tasks", lambda line: _work(line, 1)),
    _list_column("partitions", _current, rank=1),
    _list_column("had", lambda line: _partitions_of(line.before), rank=1),
    *map(_task_column, ("active", "standby", "warmup")),
    _list_column("target", _target, rank=1),
    _list_column("subscription", lambda line: subscribed(line.member.subscription), rank=4),
    _of_member("client_library", Kind.TEXT, is_reference=True, rank=5),
    _of_member("rack_id", Kind.TEXT, is_reference=True, rank=6),
)
_COMMON_OF_MEMBERS = ("host", "subscription", "state", "member_epoch", "client_library", "rack_id")


def _members(
    group: Group, clients: Clients, changes: Collection[Change], *, is_chosen: bool
) -> Iterator[Part]:
    before = {m.member_id: m for m in (group.last_stable.members if group.last_stable else ())}
    here = {member.member_id for member in group.members}
    lines = [
        _MemberLine(
            member,
            before.get(member.member_id),
            is_gone=member.member_id not in here,
            is_leader=member.member_id == group.leader_id,
        )
        for member in all_members(group)
    ]
    if not lines:
        return
    hidden = {"member_id"} if clients.are_unique() else set()
    if {*map(_state, lines)} <= {None, MemberState.STABLE}:
        hidden.add("state")
    if {member.member_epoch for member in group.members} <= {None, group.group_epoch}:
        hidden.add("member_epoch")
    is_alike = len({subscribed(line.member.subscription) for line in lines}) == 1
    if is_alike and not is_chosen:
        hidden.add("subscription")
    if {line.member.client_library for line in lines} <= {None, KAFKA_CLIENTS}:
        hidden.add("client_library")
    changed = {(c.member_id, _CHANGED_OF_MEMBERS.get(c.change)) for c in changes}
    for change in changes:
        if change.change is ChangeKind.OWNER:
            changed |= {(change.before, "partitions"), (change.after, "partitions")}
    sheet = _mark(
        Sheet.of(_MEMBER_COLUMNS, lines), [line.member.member_id for line in lines], changed
    )
    title = "Members" if group.last_stable is None else "Members, and what each had before"
    yield from _table(title, sheet, hidden, _COMMON_OF_MEMBERS)


# --- partitions ---


@dataclass(frozen=True, slots=True)
class _PartitionLine:
    """A line of the partitions' table.

    Attributes:
        row: what is known of the partition.
        pending: offset committed in an open transaction.
        clients: names of members.
        now_ms: current time in epoch milliseconds.
    """

    row: Any
    pending: int | None
    clients: Clients
    now_ms: int


def _of_row(name: str, kind: Kind, field: str = "", **more: Any) -> Column:
    """Return a column with a field of the row, if rows of its kind have it."""
    return Column(name, kind, value=lambda line: getattr(line.row, field or name, None), **more)


def _of_client(
    name: str, kind: Kind, value: Callable[[Clients, str | None], str | None], rank: int
) -> Column:
    """Return a column about the owner of a partition."""
    return Column(
        name,
        kind,
        value=lambda line: value(line.clients, getattr(line.row, "member_id", None)),
        is_reference=True,
        rank=rank,
    )


def _ago(line: _PartitionLine) -> str | None:
    ms = getattr(line.row, "commit_timestamp_ms", None)
    return None if ms is None else f"{rough_age(line.now_ms - ms)} ago"


def _offset(line: _PartitionLine) -> object:
    is_shared = isinstance(line.row, ShareOffsetDescription)
    return getattr(line.row, "start_offset" if is_shared else "committed_offset", None)


_PARTITION_COLUMNS = (
    Column(
        "topic",
        Kind.TEXT,
        value=lambda line: line.row.topic or line.row.topic_id,
        is_reference=True,
    ),
    _of_row("partition", Kind.NUMBER),
    _of_row("lag", Kind.NUMBER, is_alarm=True),
    _of_row("behind", Kind.ROUGH_AGE, "time_lag_ms", is_alarm=True, rank=1),
    _of_row("mark", Kind.TEXT, is_reference=True, rank=1),
    _of_row("state", Kind.TEXT, is_reference=True, rank=2),
    Column("offset", Kind.NUMBER, value=_offset, rank=4),
    _of_row("finished", Kind.NUMBER, "delivery_complete_count", rank=6),
    Column("pending", Kind.NUMBER, value=lambda line: line.pending, rank=2),
    _of_row("start", Kind.NUMBER, "log_start_offset", rank=6),
    _of_row("end", Kind.NUMBER, "log_end_offset", rank=5),
    Column("committed", Kind.AGE, value=_ago, rank=3),
    _of_row("store", Kind.TEXT, "committed_in", rank=2),
    _of_client("owner", Kind.NAME, Clients.name, rank=1),
    _of_client("host", Kind.TEXT, Clients.host, rank=2),
)
_COMMON_OF_PARTITIONS = ("store", "committed", "state", "host")


def _partitions(
    description: GroupDescription,
    clients: Clients,
    now_ms: int,
    sort: Sort | None,
    changes: Collection[Change],
) -> Iterator[Part]:
    rows: list[Any] = sorted_partitions(description.rows, sort)
    pending = {
        (commit.topic, commit.partition): commit.committed_offset
        for commit in description.group.pending_offsets
    }
    rest = pending.keys() - {(row.topic, row.partition) for row in rows}
    rows += [
        SimpleNamespace(topic=topic, topic_id=None, partition=number)
        for topic, number in sorted(rest)
    ]
    if not rows:
        return
    keys = [(row.topic, row.partition) for row in rows]
    lines = [
        _PartitionLine(row, pending.get(key), clients, now_ms)
        for row, key in zip(rows, keys, strict=True)
    ]
    changed = {((c.topic, c.partition), _CHANGED_OF_PARTITIONS.get(c.change)) for c in changes}
    sheet = _mark(Sheet.of(_PARTITION_COLUMNS, lines), keys, changed)
    hidden = set()
    if OffsetMark.BEFORE_START not in {getattr(row, "mark", None) for row in rows}:
        hidden.add("start")
    if {getattr(row, "state", None) for row in rows} <= {None, "initialized"}:
        hidden.add("state")
    topics = {row.topic or row.topic_id for row in rows}
    title = "Partitions"
    if len(topics) == 1 and len(topic := cell(topics.pop(), Kind.TEXT)) < _TITLE_WIDTH - 30:
        hidden.add("topic")
        title = f"Partitions of {topic}"
    title += ", worst first" if sort is None else f", by {sort}"
    marks = Counter(row.mark for row in description.offsets if row.mark is not None)
    counts = ", ".join(f"{count} {mark}" for mark, count in marks.most_common())
    if marks and len(title) + len(counts) < _TITLE_WIDTH - 1:
        title += f"; {counts}"
    yield from _table(title, sheet, hidden, _COMMON_OF_PARTITIONS)


def _table(
    title: str, sheet: Sheet, hidden: Collection[str], movable: Sequence[str]
) -> Iterator[Part]:
    """Yield a table with its title, which names values that all rows have in common.

    Args:
        title: title.
        sheet: all columns and rows; blank columns are not shown.
        hidden: names of columns that are not shown.
        movable: names of columns that the title may name instead.
    """
    names = [column.name for column in sheet.columns if column.name not in hidden]
    sheet = sheet.select(names).without_blank()
    rows = list(sheet.rows)
    common: list[str] = []
    kept = [column.name for column in sheet.columns]
    for index, column in enumerate(sheet.columns):
        values = {row[index] for row in rows}
        if column.name not in movable or len(rows) == 1 or len(values) > 1:
            continue
        text = f"{column.title.replace('_', ' ')} {cell(values.pop(), column.kind)}"
        if len(f"{title} (all: {', '.join([*common, text])})") <= _TITLE_WIDTH:
            common.append(text)
            kept.remove(column.name)
    if common and kept:
        title = f"{title} (all: {', '.join(common)})"
    yield from section(title, Sheet(sheet.columns, rows).select(kept))


# --- changes ---

_CHANGED_FACTS: Mapping[ChangeKind, str] = {
    ChangeKind.COORDINATOR: "coordinator",
    ChangeKind.ASSIGNOR: "protocol",
    ChangeKind.GENERATION: "protocol",
    ChangeKind.LEADER: "protocol",
    ChangeKind.EPOCH: "protocol",
    ChangeKind.ASSIGNMENT_EPOCH: "protocol",
}
_CHANGED_OF_MEMBERS: Mapping[ChangeKind, str] = {
    ChangeKind.MEMBER_JOINED: "client_id",
    ChangeKind.MEMBER_STATE: "state",
    ChangeKind.MEMBER_EPOCH: "member_epoch",
    ChangeKind.SUBSCRIPTION: "subscription",
    ChangeKind.ASSIGNMENT: "partitions",
}
_CHANGED_OF_PARTITIONS: Mapping[ChangeKind, str] = {
    ChangeKind.OWNER: "owner",
    ChangeKind.COMMITTED_OFFSET: "offset",
    ChangeKind.START_OFFSET: "offset",
    ChangeKind.LAG: "lag",
    ChangeKind.TIME_LAG: "behind",
    ChangeKind.MARK: "mark",
}


def _mark_facts(
    rows: Iterable[tuple[str, str]], changes: Collection[Change]
) -> Iterator[tuple[str, object]]:
    """Yield properties and values, with changed ones marked."""
    changed = {_CHANGED_FACTS.get(change.change) for change in changes}
    return ((name, Changed(value) if name in changed else value) for name, value in rows)


def _mark(
    sheet: Sheet, keys: Sequence[object], changed: Collection[tuple[object, object]]
) -> Sheet:
    """Return a sheet with cells marked by the key of their row and the name of their column."""
    if not changed:
        return sheet
    names = [column.name for column in sheet.columns]
    rows = [
        [
            Changed(value) if (key, name) in changed else value
            for name, value in zip(names, row, strict=True)
        ]
        for key, row in zip(keys, sheet.rows, strict=True)
    ]
    return Sheet(sheet.columns, rows)


def change_line(change: Change) -> str:
    """Return a change as a line for people."""
    parts = [shown_time(change.time_ms), cell(change.group_id, Kind.NAME), change.change]
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


def problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield a line for each of the first problems, and the number of the others."""
    lines = problem_texts(problems)
    yield from (f"! {harmless(line)}\n" for line in lines[:_MAX_PROBLEMS])
    if len(lines) > _MAX_PROBLEMS:
        yield f"! and {len(lines) - _MAX_PROBLEMS} more\n"


def watch_page(
    groups: Collection[GroupDescription],
    changes: Collection[Change],
    events: Sequence[Change],
    problems: Sequence[Problem],
    *,
    sections: Collection[str],
    interval_s: float,
    now_ms: int,
    sort: Sort | None = None,
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
        sort: see `description_page`.
    """
    yield Title(f"{shown_time(now_ms)}, every {interval_s:g} s; * has changed since the last")
    yield from problem_lines(problems)
    yield from (f"{change_line(event)}\n" for event in reversed(events))
    if groups:
        yield "\n"
    yield from description_page(
        groups, sections=sections, now_ms=now_ms, sort=sort, changes=changes
    )
