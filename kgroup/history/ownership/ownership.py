"""Who owned what, from when to when: the table `assignments`, made of the record tables.

One partition of `__consumer_offsets` at a time, in the order of its offsets. What a record says:

- A classic group's GroupMetadata record is the whole group: each member has what the record gives
  it and nothing else, until the group's next one. Coordinators write it when a rebalance is
  complete, when the last member has left, when a group is made (it is empty then), and when a
  static member comes back under another id; never in the middle of a rebalance (Kafka's callers of
  `storeGroup`, and of `newGroupMetadataRecord` in `GroupMetadataManager`). Bytes that cannot be
  read give the member nothing: what is unknown is not claimed.
- A consumer, share or streams group's CurrentMemberAssignment record is about one member: it has
  what is assigned to it and what it is still to revoke, until its next record.
- A tombstone of a member or of its assignment ends what it has; that of a group ends all. So does
  a record of another group type. A tombstone of another type than the group's says nothing.

A coordinator writes the records of one request together, with one time. So it converts a group
(KIP-848: the old group's tombstones, then the new group's records): what a member has before and
behind, it has had all the time. And so a tombstone is judged by what comes at the same time.

All is done on whole columns. What records say of a member holds until the next one; as long as that
says the same, they are one interval, and only intervals are taken apart into partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.ownership.owned_set import CODED, coded, dense, indices
from kgroup.history.ownership.ownership_event import CLIENT, OwnershipEvents
from kgroup.history.ownership.record_order import (
    CLASSIC,
    GROUP_GONE,
    GROUP_TYPES,
    Flags,
    Ints,
    between,
)
from kgroup.history.warehouse.table import TABLES

_RECORD = ("log_offset", "time_ms", "group_id")

NEEDED: Mapping[str, tuple[str, ...]] = {
    "group_generations": (*_RECORD, "generation_id"),
    "members": ("log_offset", "group_id", "group_type", "member_id", *CLIENT, "assignment"),
    "consumer_group_epochs": (
        *(*_RECORD, "group_type", "type", "member_id"),
        *("epoch", "assignment", "pending_revocation"),
    ),
    "tombstones": (*_RECORD, "type", "member_id"),
}
"""The record tables that `derive` needs, and which columns of each."""

_ENDED = ("to_ms", "to_log_offset", "ended_by")
_SCHEMA = TABLES["assignments"].schema
_CODED = pa.schema(
    field.with_type(CODED) if pa.types.is_string(field.type) else field for field in _SCHEMA
)
_BEGUN = pa.schema([field for field in _CODED if field.name not in _ENDED])
_MEMBERS = pa.schema(
    [(name, pa.string()) for name in ("group_id", "group_type", "member_id", *CLIENT)]
)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What is owned behind the last record, all that `derive` must know to go on from there.

    Attributes:
        open: rows of `assignments` without an end.
        members: members of the groups that are not classic, with what their last MemberMetadata
            records say of them (columns of the table `members`): records that follow name them
            by id only.
    """

    open: pa.Table
    members: pa.Table

    @classmethod
    def none(cls) -> Ownership:
        """Before the first record."""
        return cls(_SCHEMA.empty_table(), _MEMBERS.empty_table())


@dataclass(frozen=True, slots=True)
class Derived:
    """What records say of ownership.

    Attributes:
        closed: rows of `assignments` that have ended: of the past, they stay as they are. Texts
            are dictionary-encoded.
        now: those that have not, with what the next call needs.
        is_changed: whether other rows are open now than before.
    """

    closed: pa.Table
    now: Ownership
    is_changed: bool


def derive(
    offsets_partition: int,
    before: Ownership,
    records: Mapping[str, pa.Table],
    topic_names: Mapping[str, str],
) -> Derived:
    """Follow who owns what through records of one partition of `__consumer_offsets`.

    Args:
        offsets_partition: its number.
        before: what was owned before them, as an earlier call gave it.
        records: rows of the tables in `NEEDED` with their columns, in any order, all behind the
            records of that call. What a coordinator wrote at once is not cut in two; whole batches
            of the log are enough for that.
        topic_names: by topic id, as far as they are known.
    """
    tables = {name: records[name].select(columns) for name, columns in NEEDED.items()}
    touched = pa.chunked_array(
        [
            pc.unique(tables[name]["group_id"])
            for name in ("group_generations", "consumer_group_epochs", "tombstones")
        ]
    )
    is_touched = pc.is_in(before.open["group_id"], touched)
    is_member_touched = pc.is_in(before.members["group_id"], touched)
    events = OwnershipEvents(
        before.open.filter(is_touched),
        before.members.filter(is_member_touched),
        tables,
        topic_names,
    )
    found = _intervals(events)
    rows = _rows(events, found, offsets_partition)
    is_open = pc.is_null(rows["to_log_offset"])
    opened = rows.filter(is_open).cast(_SCHEMA)
    members = [before.members.filter(pc.invert(is_member_touched)), _members(events, found)]
    return Derived(
        rows.filter(pc.invert(is_open)),
        Ownership(
            pa.concat_tables([before.open.filter(pc.invert(is_touched)), opened]),
            pa.concat_tables(members),
        ),
        not opened.equals(events.held),
    )


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Who (a member of a group, by number) has or is given something, from rank to rank.

    Attributes:
        source: with what it begins: the index of an open row, or, behind those, of a statement.
        kind: group type at that time.
    """

    member: Ints
    owned: Ints
    begin: Ints
    end: Ints
    kind: Ints
    source: Ints

    def take(self, first: Ints, last: Ints) -> _Intervals:
        """Join some to one each, by the indices of the first and the last."""
        return _Intervals(
            self.member[first],
            self.owned[first],
            self.begin[first],
            self.end[last],
            self.kind[last],
            self.source[first],
        )


def _intervals(events: OwnershipEvents) -> _Intervals:
    """Follow what is owned as long as a member has it; the open rows come first, in their order."""
    held = _Intervals(
        events.held_member,
        events.held_owned,
        np.zeros(len(events.held), dtype=np.int64),
        events.held_end,
        events.held_kind,
        np.arange(len(events.held)),
    )
    found = _join(held, _stated(events))
    order = np.lexsort((found.begin, found.owned, found.member))
    found = found.take(order, order)
    goes_on = (
        (found.member[1:] == found.member[:-1])
        & (found.owned[1:] == found.owned[:-1])
        & (found.kind[1:] == found.kind[:-1])
        & (found.begin[1:] <= found.end[:-1])
    )
    found = _converted(events, found.take(*_runs(goes_on, len(order))))
    order = np.argsort(np.minimum(found.source, len(events.held)), kind="stable")
    return found.take(order, order)


def _stated(events: OwnershipEvents) -> _Intervals:
    """Intervals that begin with statements: each member's as long as they say the same."""
    sets, member = events.by_member, events.member[events.by_member]
    at, end, kind = events.at[sets], events.end[sets], events.kind[sets]
    goes_on = (member[1:] == member[:-1]) & (end[:-1] == at[1:]) & (kind[1:] == kind[:-1])
    pairs = np.flatnonzero(goes_on)
    goes_on[pairs] = events.sets.are_same(sets[pairs], sets[pairs + 1])
    first, last = _runs(goes_on, len(sets))
    owned, index = events.sets.owned(sets[first])
    first, last = first[index], last[index]
    source = len(events.held) + sets[first]
    return _Intervals(member[first], owned, at[first], end[last], kind[first], source)


def _converted(events: OwnershipEvents, found: _Intervals) -> _Intervals:
    """Join what a member has before and behind a conversion of its group."""
    if not len(found.kind) or (found.kind == found.kind[0]).all():
        return found
    named = events.sets.kinds.by_name(found.owned)
    order = np.lexsort((found.begin, named, found.member))
    found, named = found.take(order, order), named[order]
    goes_on = (
        (found.member[1:] == found.member[:-1])
        & (named[1:] == named[:-1])
        & (found.kind[1:] != found.kind[:-1])
        & (found.begin[1:] >= found.end[:-1])
        & events.order.same_time(found.end[:-1], found.begin[1:])
    )
    first, last = _runs(goes_on, len(order))
    # A consumer group knows the topic's id, which a classic one does not.
    index = np.where(events.sets.kinds.has_id(found.owned), np.arange(len(order)), len(order))
    with_id = np.minimum.reduceat(index, first) if len(first) else first
    owned = found.owned[np.where(with_id < len(order), with_id, first)]
    return replace(found.take(first, last), owned=owned)


def _rows(events: OwnershipEvents, found: _Intervals, offsets_partition: int) -> pa.Table:
    """Rows of `assignments`, of intervals of which those come first that were open before.

    Texts are dictionary-encoded.
    """
    count = int((found.source < len(events.held)).sum())
    columns = events.sets.kinds.columns(found.owned)
    held = events.held.take(pa.array(found.source[:count])).select(_BEGUN.names)
    for name in ("topic", "topic_id"):
        known = columns[name][:count].cast(pa.string())
        held = held.set_column(
            held.schema.get_field_index(name), name, pc.coalesce(held[name], known)
        )
    new = {
        **{name: column[count:] for name, column in columns.items()},
        **events.columns(found.source[count:] - len(events.held)),
        "offsets_partition": np.full(len(found.source) - count, offsets_partition),
    }
    begun = pa.concat_tables([held.cast(_BEGUN), pa.table(new, schema=_BEGUN)])
    to_ms, to_log_offset = events.records(np.where(found.end < events.order.end, found.end, -1))
    ended = {"to_ms": to_ms, "to_log_offset": to_log_offset, "ended_by": _ended_by(events, found)}
    columns = {**{name: begun[name] for name in _BEGUN.names}, **ended}
    return pa.table(columns, schema=_CODED)


def _ended_by(events: OwnershipEvents, found: _Intervals) -> pa.Array:
    """How each has ended; null for those that have not, and where it cannot be told."""
    order, member, group = events.order, found.member, events.group[found.member]
    is_open = found.end == order.end
    end = np.where(is_open, 0, found.end)
    until = order.write_end(end)
    is_deleted = (order.what[end] == GROUP_GONE) & ~order.has_value(group, end, until)
    is_there, is_known = events.presence(member, until)
    has_lost = ~is_open & ~is_deleted & is_there
    cases = [
        (is_open, None),
        (is_deleted, "deleted"),
        (~is_there, "gone"),
        (_moved(events, found, has_lost, end, until), "moved"),
        (~is_known, None),
        (np.ones_like(is_open), "released"),
    ]
    case = np.argmax([is_so for is_so, _ in cases], axis=0)
    names = pa.array([name for _, name in cases], pa.string())
    return coded(case, names)


def _moved(
    events: OwnershipEvents, found: _Intervals, has_lost: Flags, end: Ints, until: Ints
) -> Flags:
    """Whether others were given, from the end of each of these until then, what it lost."""
    order, group = events.order, events.group[found.member]
    has_moved = np.zeros_like(has_lost)
    if not has_lost.any():
        return has_moved
    of_group = np.zeros(group.max() + 1, dtype=bool)
    of_group[group[has_lost]] = True
    near = np.flatnonzero(of_group[group])
    lost = has_lost[near]
    begin, end, until = found.begin[near], end[near][lost], until[near][lost]
    owned = dense(group[near], events.sets.kinds.by_name(found.owned[near]))
    taken, by_itself = (
        between(
            np.sort(order.key(each, begin)),
            order.key(each[lost], end),
            order.key(each[lost], until),
        )
        for each in (owned, dense(owned, found.member[near]))
    )
    has_moved[near[lost]] = taken > by_itself
    return has_moved


def _members(events: OwnershipEvents, found: _Intervals) -> pa.Table:
    """What to know behind the last record of members of groups that are not classic."""
    every = np.arange(len(events.group))
    row = events.description(every, np.full(len(every), events.order.end - 1))
    kind = np.full(len(every), CLASSIC)
    is_open = found.end == events.order.end
    kind[found.member[is_open]] = found.kind[is_open]
    kinds = pa.array(GROUP_TYPES).take(indices(np.where(kind == CLASSIC, -1, kind)))
    described = events.descriptions.take(indices(row))
    members = pa.table(
        {
            "group_id": events.group_ids.take(pa.array(events.group)),
            "group_type": pc.coalesce(described["group_type"], kinds),
            "member_id": events.member_ids.take(indices(events.name)),
            **{name: described[name] for name in CLIENT},
        },
        schema=_MEMBERS,
    )
    return members.filter(pc.is_valid(members["group_type"]))


def _runs(goes_on: Flags, count: int) -> tuple[Ints, Ints]:
    """First and last of each run of indices: `goes_on` tells of each if the next belongs to it."""
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on])[:count])
    return begins, np.append(begins[1:], count)[: len(begins)] - 1


def _join(*some: _Intervals) -> _Intervals:
    """All in one."""
    return _Intervals(
        *(
            np.concatenate([getattr(each, name) for each in some])
            for name in ("member", "owned", "begin", "end", "kind", "source")
        )
    )
