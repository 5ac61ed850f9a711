"""Derive the table `assignments`, who owned what and when, from the record tables.

A *statement* is what a record says about what one member owns: a row of `members` for classic
groups, a row of `consumer_group_epochs` (CurrentMemberAssignment) for others. A *description* is
what is known about the identity of a member of a group that is not classic.

One partition of `__consumer_offsets` is processed at a time, in offset order. The meaning of a
record:

- A classic group's GroupMetadata record is the whole group: until the group's next record, each
  member owns what the record gives it and nothing else. Coordinators write it when a rebalance is
  complete, when the last member has left, when a group is created (it is empty then), and when a
  static member comes back under another id; never in the middle of a rebalance (Kafka's callers of
  `storeGroup`, and of `newGroupMetadataRecord` in `GroupMetadataManager`). If the bytes of an
  assignment cannot be read, the member gets nothing, as what it owns is unknown.
- A consumer, share or streams group's CurrentMemberAssignment record is about one member: until its
  next record, it owns what is assigned to it and what it has still to revoke.
- A tombstone of a member or of its assignment ends what the member owns; a tombstone of a group
  ends everything. So does a record of another group type. A tombstone of another type than the
  group's has no effect.

A coordinator writes the records of one request together, with the same time. When it converts a
group (KIP-848: the old group's tombstones, then the new group's records), a member keeps what it
owns before and after. For the same reason the effect of a tombstone depends on the other records of
the same time.

Everything is computed on whole columns. A record about a member is valid until the member's next
record; equal consecutive records are one interval, and only intervals are split into partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.ownership.owned_set import (
    ASSIGNMENT_GONE,
    CLASSIC,
    CODED,
    GROUP_GONE,
    GROUP_TYPES,
    MEMBER_GONE,
    VALUE,
    Flags,
    Ints,
    RecordOrder,
    between,
    coded,
    dense,
    flags,
    indices,
    numbers,
    one_of_each,
    owned_sets,
)
from kgroup.history.warehouse.table import TABLES
from kgroup.model.group_log import EFFECTS

CLIENT = ("instance_id", "client_id", "client_host")
"""Columns that identify the client of a member."""

_CURRENT = [name for name, effect in EFFECTS.items() if effect.attribute == "current"]
_GONE = {"metadata": GROUP_GONE, "members": MEMBER_GONE, "current": ASSIGNMENT_GONE}
_TOMBSTONES = {
    name: (GROUP_TYPES.index(effect.group_type), _GONE[effect.attribute])
    for name, effect in EFFECTS.items()
    if effect.attribute in _GONE
}
"""Group type and what is removed, by the type of a tombstone that affects ownership."""

_OWNED = ("topic", "topic_id", "subtopology", "role", "partition")


class OwnershipEvents:
    """The state before some records, and the events in them.

    Args:
        held: rows of `assignments` that are open.
        known: descriptions, see `OwnershipState.members`.
        tables: the record tables by name.
        topic_names: topic names by topic id.

    Attributes:
        held: as given; each row has `held_member`, `held_kind` (group type), `held_owned` and
            `held_end`, the rank of the next record about the member.
        order: ranks of records.
        sets: owned items of statements.
        group, name: group and index of the id of each member, by member number.
        group_ids, member_ids: texts of the ids.
        member, at, end, kind, is_known: for each statement the member, the rank of its record and
            of the next record about the member, the group type, and whether it could be read.
    """

    def __init__(
        self,
        held: pa.Table,
        known: pa.Table,
        tables: Mapping[str, pa.Table],
        topic_names: Mapping[str, str],
    ) -> None:
        self.held, self._known = held, known
        self._generations = tables["group_generations"]
        self._epochs = tables["consumer_group_epochs"]
        self._current = self._epochs.filter(pc.is_in(self._epochs["type"], pa.array(_CURRENT)))
        members, tombstones = tables["members"], tables["tombstones"]
        self._gone = tombstones.filter(pc.is_in(tombstones["type"], pa.array(list(_TOMBSTONES))))
        is_classic = pc.equal(members["group_type"], GROUP_TYPES[CLASSIC])
        self._classic, self._described = members, members.slice(0, 0)
        if not pc.all(is_classic).as_py():  # usually all are, and copying takes time
            self._classic = members.filter(is_classic)
            self._described = members.filter(pc.invert(is_classic))
        self._number_members()
        self._order_records()
        self._state(topic_names)
        self._describe()

    def _number_members(self) -> None:
        """Number groups and members; a group and an id together identify a member."""
        tables = (self.held, self._known, self._classic, self._described, self._current, self._gone)
        groups, self.group_ids = numbers(
            *(table["group_id"] for table in (*tables, self._generations, self._epochs))
        )
        ids, self.member_ids = numbers(*(table["member_id"] for table in tables))
        group, name = np.concatenate(groups[: len(ids)]), np.concatenate(ids)
        member = dense(group, name)
        index = one_of_each(member)
        self.group, self.name = group[index], name[index]
        (
            self.held_member,
            self._known_member,
            self._classic_member,
            self._described_member,
            self._current_member,
            self._gone_member,
        ) = np.split(member, np.cumsum([len(id_) for id_ in ids])[:-1])
        self._record_groups = np.concatenate([groups[6], groups[7], groups[5]])
        self._kind_before = np.full(len(self.group_ids), -1)
        self._kind_before[groups[0]] = CLASSIC
        self._kind_before[groups[1]] = _kinds(self._known["group_type"])

    def _order_records(self) -> None:
        """Rank the records: values of classic groups, values of other groups, tombstones."""
        records = (self._generations, self._epochs, self._gone)
        gone = [_TOMBSTONES[record_type] for record_type in self._gone["type"].to_pylist()]
        gone_kind, gone_what = np.array(gone, dtype=np.int64).reshape(-1, 2).T
        values = len(self._generations) + len(self._epochs)
        kind = [np.full(len(self._generations), CLASSIC), _kinds(self._epochs["group_type"])]
        offsets = np.concatenate([_ints(record["log_offset"]) for record in records])
        times = [chunk for record in records for chunk in record["time_ms"].chunks]
        order = np.argsort(offsets, kind="stable")

        def ranked(codes: Ints) -> Ints:
            return np.concatenate([[-1], codes[order]])

        self._offset = ranked(offsets)
        self._time = pa.chunked_array(times, pa.int64()).take(indices(np.append(-1, order)))
        self.order = RecordOrder(
            group=ranked(self._record_groups),
            kind=ranked(np.concatenate([*kind, gone_kind])),
            what=ranked(np.concatenate([np.full(values, VALUE), gone_what])),
            time_ms=pc.fill_null(self._time, 0).to_numpy(),
            has_time=flags(pc.is_valid(self._time)),
            kind_before=self._kind_before,
        )

    def _state(self, topic_names: Mapping[str, str]) -> None:
        """Read the statements, and how long each is valid."""
        count = len(self._classic)
        self.member = np.concatenate([self._classic_member, self._current_member])
        self.at = np.concatenate([self._rank(self._classic), self._rank(self._current)])
        self.kind = np.concatenate([np.full(count, CLASSIC), _kinds(self._current["group_type"])])
        self.is_known = np.ones(len(self.member), dtype=bool)
        self.is_known[:count] = flags(pc.is_valid(self._classic["assignment"]))
        current = np.arange(count, len(self.member))
        self.held_kind = self._kind_before[self.group[self.held_member]]
        self.sets, self.held_owned = owned_sets(
            [
                (self._classic["assignment"], np.arange(count)),
                (self._current["assignment"], current),
                (self._current["pending_revocation"], current),
            ],
            len(self.member),
            self.held.select(_OWNED),
            self.held_kind == CLASSIC,
            topic_names,
        )
        gone = self._rank(self._gone)
        is_member = np.isin(self.order.what[gone], (MEMBER_GONE, ASSIGNMENT_GONE))
        news = [
            self.order.key(self._current_member, self.at[count:]),
            self.order.key(self._gone_member, gone)[is_member],
        ]
        self._news = np.sort(np.concatenate(news))
        self.end = self._end_of(self.member, self.at)
        self.held_end = self._end_of(self.held_member, np.zeros(len(self.held), dtype=np.int64))
        keys = self.order.key(self.member, self.at)
        self.by_member = np.argsort(keys, kind="stable")
        self._keys = keys[self.by_member]

    def _describe(self) -> None:
        """Sort the descriptions: rows of `known`, then of `described`; -1 for a tombstone."""
        gone = self._rank(self._gone)
        is_gone = self.order.what[gone] == MEMBER_GONE
        member = [self._known_member, self._described_member, self._gone_member[is_gone]]
        zeros = np.zeros(len(self._known), dtype=np.int64)
        rank = [zeros, self._rank(self._described), gone[is_gone]]
        keys = self.order.key(np.concatenate(member), np.concatenate(rank))
        rows = np.arange(len(self._known) + len(self._described))
        order = np.argsort(keys)
        self._description_keys = np.append(-1, keys[order])
        self._description_rows = np.append(
            -1, np.append(rows, np.full(int(is_gone.sum()), -1))[order]
        )

    def _rank(self, table: pa.Table) -> Ints:
        return np.searchsorted(self._offset, _ints(table["log_offset"]))

    def _end_of(self, member: Ints, rank: Ints) -> Ints:
        """Return the rank of the next record about what a member owns."""
        return np.minimum(
            self.order.next_reset(self.group[member], rank),
            self.order.next_in(self._news, member, rank),
        )

    def description(self, member: Ints, rank: Ints) -> Ints:
        """Return each member's row of `descriptions` at a rank; -1 if there is none."""
        if not len(self.descriptions):
            return np.full(len(member), -1)
        at = np.searchsorted(self._description_keys, self.order.key(member, rank), side="right") - 1
        reset = self.order.key(member, self.order.last_reset(self.group[member], rank))
        return np.where(self._description_keys[at] >= reset, self._description_rows[at], -1)

    @property
    def descriptions(self) -> pa.Table:
        """Group type and client of the known and described members."""
        columns = ["group_type", *CLIENT]
        return pa.concat_tables([table.select(columns) for table in (self._known, self._described)])

    def presence(self, member: Ints, rank: Ints) -> tuple[Flags, Flags]:
        """Return whether each is a member at a rank, and whether it is known what it owns."""
        last = np.searchsorted(self._keys, self.order.key(member, rank), side="right")
        statement = np.append(-1, self.by_member)[last]
        has_stated = np.append(self.member, -1)[statement] == member
        has_stated &= np.append(self.end, -1)[statement] > rank
        is_there: Flags = has_stated | (self.description(member, rank) >= 0)
        return is_there, ~has_stated | np.append(self.is_known, True)[statement]

    def records(self, rank: Ints) -> tuple[pa.Array, pa.Array]:
        """Return times and offsets of records; null for -1."""
        return self._time.take(indices(rank)), pa.array(self._offset).take(indices(rank))

    def columns(self, statement: Ints) -> dict[str, pa.Array]:
        """Return the columns of `assignments` about the owner and the start, from statements.

        Texts are dictionary-encoded.
        """
        rank, member, kind = self.at[statement], self.member[statement], self.kind[statement]
        is_classic = kind == CLASSIC
        generation_at = np.zeros(self.order.end, dtype=np.int64)
        generation_at[self._rank(self._generations)] = np.arange(len(self._generations))
        epoch = len(self._generations) + statement - len(self._classic)
        generations = [*self._generations["generation_id"].chunks, *self._current["epoch"].chunks]
        row = self.description(member, rank)
        row = np.where(row < 0, -1, len(self._classic) + row)
        clients = pa.concat_tables(
            [table.select(CLIENT) for table in (self._classic, self.descriptions)]
        )
        told_by = np.where(is_classic, statement, row)
        time_ms, log_offset = self.records(rank)
        return {
            **{name: coded(told_by, clients[name].combine_chunks()) for name in CLIENT},
            "group_id": coded(self.group[member], self.group_ids),
            "group_type": coded(kind, pa.array(GROUP_TYPES)),
            "member_id": coded(self.name[member], self.member_ids),
            "generation_id": pa.chunked_array(generations, pa.int32()).take(
                pa.array(np.where(is_classic, generation_at[rank], epoch))
            ),
            "from_ms": time_ms,
            "from_log_offset": log_offset,
        }


def _ints(column: pa.ChunkedArray) -> Ints:
    """Return a column without nulls as int64."""
    numbers: Ints = column.to_numpy().astype(np.int64)
    return numbers


def _kinds(column: pa.ChunkedArray) -> Ints:
    """Return numbers of group types."""
    return _ints(pc.index_in(column, pa.array(GROUP_TYPES)))


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
"""Columns of the record tables that `derive` needs."""

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
class OwnershipState:
    """Ownership after the last record, from which `derive` continues.

    Attributes:
        open: rows of `assignments` without an end.
        members: members of the groups that are not classic, with columns of `members` from their
            last MemberMetadata records, because later records name them by id only.
    """

    open: pa.Table
    members: pa.Table

    @classmethod
    def none(cls) -> OwnershipState:
        """Return the state before the first record."""
        return cls(_SCHEMA.empty_table(), _MEMBERS.empty_table())


@dataclass(frozen=True, slots=True)
class Derived:
    """Assignments derived from records.

    Attributes:
        closed: rows of `assignments` that have ended and are final. Texts are dictionary-encoded.
        now: open rows, and the state for the next call.
        is_changed: whether the open rows differ from those before.
    """

    closed: pa.Table
    now: OwnershipState
    is_changed: bool


def derive(
    offsets_partition: int,
    before: OwnershipState,
    records: Mapping[str, pa.Table],
    topic_names: Mapping[str, str],
) -> Derived:
    """Derive assignments from records of one partition of `__consumer_offsets`.

    Args:
        offsets_partition: the partition.
        before: state before the records, from an earlier call.
        records: rows of the tables in `NEEDED` with their columns, in any order, all after the
            records of that call. Records of one write of a coordinator must be in one call; whole
            batches of the log satisfy this.
        topic_names: known topic names, by topic id.
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
    intervals = _intervals(events)
    rows = _rows(events, intervals, offsets_partition)
    is_open = pc.is_null(rows["to_log_offset"])
    opened = rows.filter(is_open).cast(_SCHEMA)
    members = [before.members.filter(pc.invert(is_member_touched)), _members(events, intervals)]
    return Derived(
        rows.filter(pc.invert(is_open)),
        OwnershipState(
            pa.concat_tables([before.open.filter(pc.invert(is_touched)), opened]),
            pa.concat_tables(members),
        ),
        not opened.equals(events.held),
    )


class _Intervals(NamedTuple):
    """Intervals during which a member owns an item, from rank to rank.

    Attributes:
        source: where the interval begins: index of an open row or, offset by the number of open
            rows, of a statement.
        kind: group type at that time.
    """

    member: Ints
    owned: Ints
    begin: Ints
    end: Ints
    kind: Ints
    source: Ints

    def take(self, first: Ints, last: Ints) -> _Intervals:
        """Merge runs of intervals, given the indices of the first and the last of each."""
        return _Intervals(
            self.member[first],
            self.owned[first],
            self.begin[first],
            self.end[last],
            self.kind[last],
            self.source[first],
        )


def _intervals(events: OwnershipEvents) -> _Intervals:
    """Return the intervals of ownership; the open rows come first, in their order."""
    held = _Intervals(
        events.held_member,
        events.held_owned,
        np.zeros(len(events.held), dtype=np.int64),
        events.held_end,
        events.held_kind,
        np.arange(len(events.held)),
    )
    intervals = _Intervals(*map(np.concatenate, zip(held, _stated(events), strict=True)))
    order = np.lexsort((intervals.begin, intervals.owned, intervals.member))
    intervals = intervals.take(order, order)
    goes_on = (
        (intervals.member[1:] == intervals.member[:-1])
        & (intervals.owned[1:] == intervals.owned[:-1])
        & (intervals.kind[1:] == intervals.kind[:-1])
        & (intervals.begin[1:] <= intervals.end[:-1])
    )
    intervals = _converted(events, intervals.take(*_runs(goes_on, len(order))))
    order = np.argsort(np.minimum(intervals.source, len(events.held)), kind="stable")
    return intervals.take(order, order)


def _stated(events: OwnershipEvents) -> _Intervals:
    """Return the intervals that begin with statements; equal statements of a member are merged."""
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


def _converted(events: OwnershipEvents, intervals: _Intervals) -> _Intervals:
    """Merge what a member owns before and after a conversion of its group."""
    if not len(intervals.kind) or (intervals.kind == intervals.kind[0]).all():
        return intervals
    named = events.sets.kinds.by_name(intervals.owned)
    order = np.lexsort((intervals.begin, named, intervals.member))
    intervals, named = intervals.take(order, order), named[order]
    goes_on = (
        (intervals.member[1:] == intervals.member[:-1])
        & (named[1:] == named[:-1])
        & (intervals.kind[1:] != intervals.kind[:-1])
        & (intervals.begin[1:] >= intervals.end[:-1])
        & events.order.same_time(intervals.end[:-1], intervals.begin[1:])
    )
    first, last = _runs(goes_on, len(order))
    # A consumer group has the topic's id, a classic group does not.
    index = np.where(events.sets.kinds.has_id(intervals.owned), np.arange(len(order)), len(order))
    with_id = np.minimum.reduceat(index, first) if len(first) else first
    owned = intervals.owned[np.where(with_id < len(order), with_id, first)]
    return intervals.take(first, last)._replace(owned=owned)


def _rows(events: OwnershipEvents, intervals: _Intervals, offsets_partition: int) -> pa.Table:
    """Return rows of `assignments`; intervals that were open before must come first.

    Texts are dictionary-encoded.
    """
    count = int((intervals.source < len(events.held)).sum())
    columns = events.sets.kinds.columns(intervals.owned)
    held = events.held.take(pa.array(intervals.source[:count])).select(_BEGUN.names)
    for name in ("topic", "topic_id"):
        known = columns[name][:count].cast(pa.string())
        held = held.set_column(
            held.schema.get_field_index(name), name, pc.coalesce(held[name], known)
        )
    new = {
        **{name: column[count:] for name, column in columns.items()},
        **events.columns(intervals.source[count:] - len(events.held)),
        "offsets_partition": np.full(len(intervals.source) - count, offsets_partition),
    }
    begun = pa.concat_tables([held.cast(_BEGUN), pa.table(new, schema=_BEGUN)])
    to_ms, to_log_offset = events.records(
        np.where(intervals.end < events.order.end, intervals.end, -1)
    )
    ended = {
        "to_ms": to_ms,
        "to_log_offset": to_log_offset,
        "ended_by": _ended_by(events, intervals),
    }
    columns = {**{name: begun[name] for name in _BEGUN.names}, **ended}
    return pa.table(columns, schema=_CODED)


def _ended_by(events: OwnershipEvents, intervals: _Intervals) -> pa.Array:
    """Return how each interval ended; null if it has not, or if unknown."""
    order, member, group = events.order, intervals.member, events.group[intervals.member]
    is_open = intervals.end == order.end
    end = np.where(is_open, 0, intervals.end)
    until = order.write_end(end)
    is_deleted = (order.what[end] == GROUP_GONE) & ~order.has_value(group, end, until)
    is_there, is_known = events.presence(member, until)
    has_lost = ~is_open & ~is_deleted & is_there
    cases = [
        (is_open, None),
        (is_deleted, "deleted"),
        (~is_there, "gone"),
        (_moved(events, intervals, has_lost, end, until), "moved"),
        (~is_known, None),
        (np.ones_like(is_open), "released"),
    ]
    case = np.argmax([is_so for is_so, _ in cases], axis=0)
    names = pa.array([name for _, name in cases], pa.string())
    return coded(case, names)


def _moved(
    events: OwnershipEvents, intervals: _Intervals, has_lost: Flags, end: Ints, until: Ints
) -> Flags:
    """Return whether another member got what was lost, from the end of each until `until`."""
    order, group = events.order, events.group[intervals.member]
    has_moved = np.zeros_like(has_lost)
    if not has_lost.any():
        return has_moved
    of_group = np.zeros(group.max() + 1, dtype=bool)
    of_group[group[has_lost]] = True
    near = np.flatnonzero(of_group[group])
    lost = has_lost[near]
    begin, end, until = intervals.begin[near], end[near][lost], until[near][lost]
    owned = dense(group[near], events.sets.kinds.by_name(intervals.owned[near]))
    taken, by_itself = (
        between(
            np.sort(order.key(codes, begin)),
            order.key(codes[lost], end),
            order.key(codes[lost], until),
        )
        for codes in (owned, dense(owned, intervals.member[near]))
    )
    has_moved[near[lost]] = taken > by_itself
    return has_moved


def _members(events: OwnershipEvents, intervals: _Intervals) -> pa.Table:
    """Return the members of groups that are not classic, as of the last record."""
    every = np.arange(len(events.group))
    row = events.description(every, np.full(len(every), events.order.end - 1))
    kind = np.full(len(every), CLASSIC)
    is_open = intervals.end == events.order.end
    kind[intervals.member[is_open]] = intervals.kind[is_open]
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
    """Return the first and last index of each run; `goes_on` is whether the next belongs to it."""
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on])[:count])
    return begins, np.append(begins[1:], count)[: len(begins)] - 1
