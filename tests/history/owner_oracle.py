"""Who owned what, record by record: an oracle for `kgroup.history.ownership.ownership`.

After each record a coordinator's groups are asked for (`kgroup.model.delta`), and what each member
has is compared with what it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.model.delta import Delta
from kgroup.model.group import AssignedPartition, Group, Member, Task
from kgroup.model.record import DecodedRecord

Row = dict[str, Any]
Owned = tuple[str | None, AssignedPartition | Task]
"""Role, and what is owned."""

_OF_GROUPS = (
    "GroupMetadata",
    "ConsumerGroupMetadata",
    "ShareGroupMetadata",
    "StreamsGroupMetadata",
)


@dataclass(slots=True)
class _Stretch:
    group_type: str
    member_id: str
    owned: Owned
    row: Row
    begin: int
    last_type: str
    end: int | None = None


@dataclass(slots=True)
class _Log:
    """What one group's records said, one after the other."""

    group_id: str
    delta: Delta = field(default_factory=lambda: Delta(0))
    records: list[DecodedRecord] = field(default_factory=list)
    groups: list[Group | None] = field(default_factory=list)
    stretches: list[_Stretch] = field(default_factory=list)


def assignments(
    records: Iterable[DecodedRecord], topic_names: Mapping[str, str] | None = None
) -> list[Row]:
    """The rows of `assignments` that records of one partition make, in the log's order."""
    logs: dict[str, _Log] = {}
    for record in records:
        data = (record.key or {}).get("data") or {}
        group_id = data.get("group", data.get("groupId"))
        if group_id is not None and not record.type.endswith("OffsetCommit"):
            _replay(logs.setdefault(group_id, _Log(group_id)), record, topic_names or {})
    return [row for log in logs.values() for row in _rows(log)]


def _replay(log: _Log, record: DecodedRecord, topic_names: Mapping[str, str]) -> None:
    known = len(log.delta.problems())
    log.delta.replay(record)
    if any(problem.kind != "inconsistent" for problem in log.delta.problems()[known:]):
        return  # not a record that can be read
    group = log.delta.groups(topic_names).get(log.group_id)
    log.records.append(record)
    log.groups.append(group)
    here = len(log.records) - 1
    has: dict[tuple[str, str, Owned], Member] = {}
    if group:
        for member in group.members:
            has |= {(str(group.type), member.member_id, owned): member for owned in _owned(member)}
    held = {
        (each.group_type, each.member_id, each.owned): each
        for each in log.stretches
        if each.end is None
    }
    for key, stretch in held.items():
        if key not in has:
            stretch.end = here
    for (group_type, member_id, owned), member in has.items():
        if (group_type, member_id, owned) not in held:
            assert group is not None
            begun = _begun(group, member, owned, record)
            log.stretches.append(_Stretch(group_type, member_id, owned, begun, here, group_type))


def _owned(member: Member) -> list[Owned]:
    found: list[Owned] = [(None, partition) for partition in member.assignment or ()]
    for tasks in (member.tasks, member.pending_revocation_tasks):
        if tasks is not None:
            found += [("active", task) for task in tasks.active]
            found += [("standby", task) for task in tasks.standby]
            found += [("warmup", task) for task in tasks.warmup]
    return found


def _begun(group: Group, member: Member, owned: Owned, record: DecodedRecord) -> Row:
    role, thing = owned
    is_task = isinstance(thing, Task)
    return {
        "offsets_partition": record.partition,
        "group_id": group.group_id,
        "group_type": str(group.type),
        "topic": None if isinstance(thing, Task) else thing.topic,
        "topic_id": None if isinstance(thing, Task) else thing.topic_id,
        "subtopology": thing.subtopology_id if isinstance(thing, Task) else None,
        "partition": thing.partition,
        "role": role if is_task else None,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "generation_id": member.member_epoch
        if group.generation_id is None
        else group.generation_id,
        "from_ms": record.timestamp_ms,
        "from_log_offset": record.offset,
    }


def _same(owned: Owned) -> Any:
    """What tells it apart by name, as a record does that knows no ids."""
    role, thing = owned
    if isinstance(thing, AssignedPartition) and thing.topic is not None:
        return (role, thing.topic, thing.partition)
    return owned


def _rows(log: _Log) -> list[Row]:
    _join_conversions(log)
    return [_row(log, stretch) for stretch in log.stretches]


def _join_conversions(log: _Log) -> None:
    """What a member has before and behind a conversion, it has had all the time."""
    for later in sorted(log.stretches, key=lambda stretch: stretch.begin):
        for earlier in log.stretches:
            if (
                earlier is not later
                and earlier.end is not None
                and earlier.end <= later.begin
                and (earlier.member_id, _same(earlier.owned))
                == (later.member_id, _same(later.owned))
                and earlier.last_type != later.group_type
                and _time(log, earlier.end) is not None
                and _time(log, earlier.end) == _time(log, later.begin)
            ):
                earlier.end, earlier.last_type = later.end, later.last_type
                earlier.row["topic_id"] = earlier.row["topic_id"] or later.row["topic_id"]
                earlier.row["topic"] = earlier.row["topic"] or later.row["topic"]
                log.stretches.remove(later)
                break


def _row(log: _Log, stretch: _Stretch) -> Row:
    end = stretch.end
    return {
        **stretch.row,
        "to_ms": None if end is None else log.records[end].timestamp_ms,
        "to_log_offset": None if end is None else log.records[end].offset,
        "ended_by": None if end is None else _ended_by(log, stretch, end),
    }


def _ended_by(log: _Log, stretch: _Stretch, end: int) -> str | None:
    record, until = log.records[end], _write_end(log, end)
    written = log.records[end + 1 : until + 1]
    is_deletion = record.type in _OF_GROUPS and record.value is None
    if is_deletion and all(each.value is None for each in written):
        return "deleted"
    group = log.groups[until]
    members = {member.member_id: member for member in group.members} if group else {}
    if stretch.member_id not in members:
        return "gone"
    if any(
        other.member_id != stretch.member_id
        and _same(other.owned) == _same(stretch.owned)
        and end <= other.begin <= until
        for other in log.stretches
    ):
        return "moved"
    member = members[stretch.member_id]
    return "released" if member.assignment is not None or member.tasks is not None else None


def _write_end(log: _Log, place: int) -> int:
    """The last record written with this one, if this one is to be judged with them."""
    record, end = log.records[place], place
    before, after = log.groups[place - 1] if place else None, log.groups[place]
    converts = before is not None and after is not None and before.type != after.type
    if record.value is None or converts:
        while (
            end + 1 < len(log.records)
            and record.timestamp_ms is not None
            and log.records[end + 1].timestamp_ms == record.timestamp_ms
        ):
            end += 1
    return end


def _time(log: _Log, place: int) -> int | None:
    return log.records[place].timestamp_ms
