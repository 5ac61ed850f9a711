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
says the same, they are one stretch, and only stretches are taken apart into partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.owned_set import dense, flags, numbers, one_of_each, owned_sets, places
from kgroup.history.record_order import (
    ASSIGNMENT_GONE,
    CLASSIC,
    GROUP_GONE,
    GROUP_TYPES,
    MEMBER_GONE,
    VALUE,
    Flags,
    Ints,
    RecordOrder,
    between,
)
from kgroup.history.table import TABLES

__all__ = ["NEEDED", "Derived", "Ownership", "derive"]

_CLIENT = ("instance_id", "client_id", "client_host")
_RECORD = ("log_offset", "time_ms", "group_id")

NEEDED: Mapping[str, tuple[str, ...]] = {
    "group_generations": (*_RECORD, "generation_id"),
    "members": ("log_offset", "group_id", "group_type", "member_id", *_CLIENT, "assignment"),
    "consumer_group_epochs": (
        *(*_RECORD, "group_type", "type", "member_id"),
        *("epoch", "assignment", "pending_revocation"),
    ),
    "tombstones": (*_RECORD, "type", "member_id"),
}
"""The record tables that `derive` needs, and which columns of each."""

_CURRENT = "CurrentMemberAssignment"
_TOMBSTONES = {
    "GroupMetadata": (CLASSIC, GROUP_GONE),
    **{
        f"{name}Group{end}": (kind, what)
        for kind, name in ((1, "Consumer"), (2, "Share"), (3, "Streams"))
        for end, what in (
            ("Metadata", GROUP_GONE),
            ("MemberMetadata", MEMBER_GONE),
            (_CURRENT, ASSIGNMENT_GONE),
        )
    },
}
"""Group type, and what is gone, by the type of a tombstone that bears on ownership."""

_ENDED = ("to_ms", "to_log_offset", "ended_by")
_SCHEMA = TABLES["assignments"].schema
_BEGUN = pa.schema([field for field in _SCHEMA if field.name not in _ENDED])
_MEMBERS = pa.schema(
    [(name, pa.string()) for name in ("group_id", "group_type", "member_id", *_CLIENT)]
)
_THING = ("topic", "topic_id", "subtopology", "role")


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
        closed: rows of `assignments` that have ended: of the past, they stay as they are.
        now: those that have not, with what the next call needs.
    """

    closed: pa.Table
    now: Ownership


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
    following = _Following(
        offsets_partition,
        before.open.filter(is_touched),
        before.members.filter(is_member_touched),
        tables,
        topic_names,
    )
    found = following.stretches()
    rows = following.rows(found)
    is_open = pc.is_null(rows["to_log_offset"])
    return Derived(
        rows.filter(pc.invert(is_open)),
        Ownership(
            pa.concat_tables([before.open.filter(pc.invert(is_touched)), rows.filter(is_open)]),
            pa.concat_tables(
                [before.members.filter(pc.invert(is_member_touched)), following.members(found)]
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Who (a member of a group, by number) has or is given something, from rank to rank.

    Attributes:
        source: number of the open row or of the statement with which it begins; see `_Following`.
        kind: group type at that time.
    """

    member: Ints
    thing: Ints
    begin: Ints
    end: Ints
    kind: Ints
    source: Ints

    def take(self, first: Ints, last: Ints) -> _Stretches:
        """Join some to one each, by the places of the first and the last."""
        return _Stretches(
            self.member[first],
            self.thing[first],
            self.begin[first],
            self.end[last],
            self.kind[last],
            self.source[first],
        )


class _Following:
    """The tables as numbers.

    A *statement* is what a record says of what a member has: first those of classic groups (rows of
    `members`), then those of others (rows of `consumer_group_epochs`).
    """

    def __init__(
        self,
        offsets_partition: int,
        held: pa.Table,
        known: pa.Table,
        tables: Mapping[str, pa.Table],
        topic_names: Mapping[str, str],
    ) -> None:
        self._offsets_partition = offsets_partition
        generations, epochs = tables["group_generations"], tables["consumer_group_epochs"]
        tombstones, members = tables["tombstones"], tables["members"]
        tombstones = tombstones.filter(pc.is_in(tombstones["type"], pa.array(list(_TOMBSTONES))))
        is_classic = pc.equal(members["group_type"], GROUP_TYPES[CLASSIC])
        classic, described = members, members.slice(0, 0)
        if not pc.all(is_classic).as_py():  # as a rule they are, and copying takes its time
            classic, described = members.filter(is_classic), members.filter(pc.invert(is_classic))
        current = epochs.filter(pc.ends_with(epochs["type"], _CURRENT))
        self._held, self._known, self._classic, self._described = held, known, classic, described
        self._generations, self._current = generations, current

        # Groups and members get numbers; a member's is that of its group and id together.
        groups, self._group_ids = numbers(
            *(
                each["group_id"]
                for each in (
                    *(held, known, classic, described, current),
                    *(generations, epochs, tombstones),
                )
            )
        )
        ids, self._member_ids = numbers(
            *(each["member_id"] for each in (held, known, classic, described, current, tombstones))
        )
        pairs = [*zip(groups[:5], ids[:5], strict=True), (groups[7], ids[5])]
        self._member_count = np.cumsum([0, *(len(group) for group, _ in pairs)])
        group_of, id_of = (np.concatenate(each) for each in zip(*pairs, strict=True))
        member = dense(group_of, id_of)
        place = one_of_each(member)
        self._group, self._id = group_of[place], id_of[place]
        held_member, known_member, classic_member, described_member, current_member, gone_member = (
            np.split(member, self._member_count[1:-1])
        )

        # Records get ranks.
        epoch_kinds = _kinds(epochs["group_type"])
        gone = [_TOMBSTONES[each] for each in tombstones["type"].to_pylist()]
        gone_kinds, gone_what = np.array(gone, dtype=np.int64).reshape(-1, 2).T
        offsets = [_ints(each["log_offset"]) for each in (generations, epochs, tombstones)]
        unordered = np.concatenate(offsets)
        order = np.argsort(unordered, kind="stable")
        self._offset = np.concatenate([[-1], unordered[order]])
        self._time = pa.chunked_array(
            [
                pa.nulls(1, pa.int64()),
                *pa.chunked_array(
                    [
                        chunk
                        for each in (generations, epochs, tombstones)
                        for chunk in each["time_ms"].chunks
                    ],
                    pa.int64(),
                )
                .take(pa.array(order))
                .chunks,
            ]
        ).combine_chunks()

        def ranked(values: list[Ints], first: int) -> Ints:
            return np.concatenate([[first], np.concatenate(values)[order]])

        held_kinds = np.full(len(self._group_ids), -1)
        held_kinds[groups[0]] = CLASSIC
        held_kinds[groups[1]] = _kinds(known["group_type"])
        value = [np.full(len(each), VALUE) for each in (generations, epochs)]
        self._order = RecordOrder(
            group=ranked([groups[5], groups[6], groups[7]], -1),
            kind=ranked([np.full(len(generations), CLASSIC), epoch_kinds, gone_kinds], -1),
            what=ranked([*value, gone_what], VALUE),
            time_ms=pc.fill_null(self._time, 0).to_numpy(),
            has_time=flags(pc.is_valid(self._time)),
            kind_before=held_kinds,
        )
        gone_rank = self._rank(tombstones)
        said = self._order.what[gone_rank]
        is_gone = (said == MEMBER_GONE) | (said == ASSIGNMENT_GONE)

        # Statements.
        self._member = np.concatenate([classic_member, current_member])
        self._at = np.concatenate([self._rank(classic), self._rank(current)])
        self._kind = np.concatenate([np.full(len(classic), CLASSIC), _kinds(current["group_type"])])
        self._is_known = np.concatenate(
            [
                flags(pc.is_valid(classic["assignment"])),
                np.ones(len(current), dtype=bool),
            ]
        )
        current_sets = np.arange(len(classic), len(self._at))
        self._sets, held_things = owned_sets(
            [
                (classic["assignment"], np.arange(len(classic))),
                (current["assignment"], current_sets),
                (current["pending_revocation"], current_sets),
            ],
            len(self._at),
            held.select([*_THING, "partition"]),
            held_kinds[groups[0]] == CLASSIC,
            topic_names,
        )
        gone_keys = self._order.key(gone_member, gone_rank)
        changes = self._order.key(current_member, self._at[len(classic) :])
        self._member_changes = np.sort(np.concatenate([changes, gone_keys[is_gone]]))
        self._until = self._end_of(self._member, self._at)
        self._held_stretches = _Stretches(
            held_member,
            held_things,
            np.zeros(len(held), dtype=np.int64),
            self._end_of(held_member, np.zeros(len(held), dtype=np.int64)),
            held_kinds[groups[0]],
            np.arange(len(held)),
        )
        self._by_member = np.argsort(self._order.key(self._member, self._at), kind="stable")
        self._sorted_keys = self._order.key(self._member, self._at)[self._by_member]

        # What is known of members that are not classic: rows of `described`, then of `known`.
        rows = [len(known) + np.arange(len(described)), np.arange(len(known))]
        ranks = [self._rank(described), np.zeros(len(known), dtype=np.int64)]
        is_member_gone = said == MEMBER_GONE
        row = np.concatenate([*rows, np.full(is_member_gone.sum(), -1)])
        keys = self._order.key(
            np.concatenate([described_member, known_member, gone_member[is_member_gone]]),
            np.concatenate([*ranks, gone_rank[is_member_gone]]),
        )
        by_key = np.argsort(keys)
        self._description_keys, self._description_rows = keys[by_key], row[by_key]

    def _rank(self, table: pa.Table) -> Ints:
        return np.searchsorted(self._offset, _ints(table["log_offset"]))

    def _end_of(self, member: Ints, rank: Ints) -> Ints:
        """Rank of the record that says anew what a member has, behind this one."""
        return np.minimum(
            self._order.next_reset(self._group[member], rank),
            self._order.next_in(self._member_changes, member, rank),
        )

    def _said(self) -> _Stretches:
        """Stretches that begin with statements: each member's, as long as they say the same."""
        sets, member = self._by_member, self._member[self._by_member]
        at, until, kind = self._at[sets], self._until[sets], self._kind[sets]
        goes_on = (member[1:] == member[:-1]) & (until[:-1] == at[1:]) & (kind[1:] == kind[:-1])
        pairs = np.flatnonzero(goes_on)
        goes_on[pairs] = self._sets.are_same(sets[pairs], sets[pairs + 1])
        first, last = _runs(goes_on, len(sets))
        things, place = self._sets.things(sets[first])
        first, last = first[place], last[place]
        source = len(self._held) + sets[first]
        return _Stretches(member[first], things, at[first], until[last], kind[first], source)

    def stretches(self) -> _Stretches:
        """All stretches, as long as they are; first those that were open before."""
        found = _join(self._held_stretches, self._said())
        order = np.lexsort((found.begin, found.thing, found.member))
        found = found.take(order, order)
        goes_on = (
            (found.member[1:] == found.member[:-1])
            & (found.thing[1:] == found.thing[:-1])
            & (found.kind[1:] == found.kind[:-1])
            & (found.begin[1:] <= found.end[:-1])
        )
        return self._converted(found.take(*_runs(goes_on, len(order))))

    def _converted(self, found: _Stretches) -> _Stretches:
        """Join what a member has before and behind a conversion of its group."""
        named = self._sets.kinds.by_name(found.thing)
        order = np.lexsort((found.begin, named, found.member))
        found, named = found.take(order, order), named[order]
        goes_on = (
            (found.member[1:] == found.member[:-1])
            & (named[1:] == named[:-1])
            & (found.kind[1:] != found.kind[:-1])
            & (found.begin[1:] >= found.end[:-1])
            & self._order.same_time(found.end[:-1], found.begin[1:])
        )
        first, last = _runs(goes_on, len(order))
        # A consumer group knows the topic's id, which a classic one does not.
        place = np.where(self._sets.kinds.has_id(found.thing), np.arange(len(order)), len(order))
        with_id = np.minimum.reduceat(place, first) if len(first) else first
        thing = found.thing[np.where(with_id < len(order), with_id, first)]
        found = replace(found.take(first, last), thing=thing)
        order = np.argsort(found.source >= len(self._held), kind="stable")
        return found.take(order, order)

    def rows(self, found: _Stretches) -> pa.Table:
        """Rows of `assignments`; `found` begins with those that were open before."""
        count = int((found.source < len(self._held)).sum())
        held = self._held.take(pa.array(found.source[:count])).select(_BEGUN.names)
        begun = pa.concat_tables([held, self._begun(found, count)])
        is_open = found.end == self._order.end
        end = places(np.where(is_open, -1, found.end))
        things = self._sets.kinds.columns(found.thing)
        columns = {
            **{name: begun[name] for name in _BEGUN.names},
            "topic": pc.coalesce(begun["topic"], things["topic"]),
            "topic_id": pc.coalesce(begun["topic_id"], things["topic_id"]),
            "to_ms": self._time.take(end),
            "to_log_offset": pa.array(self._offset).take(end),
            "ended_by": self._ended_by(found),
        }
        return pa.table(columns, schema=_SCHEMA)

    def _begun(self, found: _Stretches, start: int) -> pa.Table:
        """Columns of stretches from `start` on, which begin with statements, as they begin."""
        source = found.source[start:] - len(self._held)
        rank, member, kind = self._at[source], self._member[source], self._kind[source]
        is_classic = kind == CLASSIC
        generation_at = np.zeros(self._order.end, dtype=np.int64)
        generation_at[self._rank(self._generations)] = np.arange(len(self._generations))
        generation = np.where(
            is_classic,
            generation_at[rank],
            len(self._generations) + source - len(self._classic),
        )
        generations = pa.chunked_array(
            [*self._generations["generation_id"].chunks, *self._current["epoch"].chunks]
        )
        clients = pa.concat_tables(
            [each.select(_CLIENT) for each in (self._classic, self._known, self._described)]
        )
        described = self._description(member, rank)
        other = np.where(described < 0, -1, len(self._classic) + described)
        clients = clients.take(places(np.where(is_classic, source, other)))
        return pa.table(
            {
                **self._sets.kinds.columns(found.thing[start:]),
                **{name: clients[name] for name in _CLIENT},
                "offsets_partition": pa.array(
                    np.full(len(source), self._offsets_partition, np.int32)
                ),
                "group_id": self._group_ids.take(pa.array(self._group[member])),
                "group_type": pa.array(GROUP_TYPES).take(pa.array(kind)),
                "member_id": self._member_ids.take(pa.array(self._id[member])),
                "generation_id": generations.take(pa.array(generation)),
                "from_ms": self._time.take(pa.array(rank)),
                "from_log_offset": pa.array(self._offset).take(pa.array(rank)),
            },
            schema=_BEGUN,
        )

    def _description(self, member: Ints, rank: Ints) -> Ints:
        """Row of `known` or `described` that tells of each member at a rank; -1 where none does."""
        at = np.searchsorted(self._description_keys, self._order.key(member, rank), side="right")
        keys = np.concatenate([[-1], self._description_keys])[at]
        rows = np.concatenate([[-1], self._description_rows])[at]
        reset = self._order.key(member, self._order.last_reset(self._group[member], rank))
        return np.where(keys >= reset, rows, -1)

    def _ended_by(self, found: _Stretches) -> pa.Array:
        """How each has ended; null for those that have not, and where it cannot be told."""
        order, group, member = self._order, self._group[found.member], found.member
        is_open = found.end == order.end
        end = np.where(is_open, 0, found.end)
        until = order.write_end(end)
        is_deleted = (order.what[end] == GROUP_GONE) & ~order.has_value(group, end, until)
        upto = order.key(member, until)
        # The member's last statement by then, if it still holds.
        last = np.searchsorted(self._sorted_keys, upto, side="right")
        sets = np.concatenate([[-1], self._by_member])[last]
        holds = (np.append(self._member, -1)[sets] == member) & (
            np.append(self._until, -1)[sets] > until
        )
        is_there = holds | (self._description(member, until) >= 0)
        is_known = ~holds | np.append(self._is_known, True)[sets]
        thing = dense(group, self._sets.kinds.by_name(found.thing))
        taker = dense(thing, member)
        taken, mine = (
            between(
                np.sort(order.key(each, found.begin)), order.key(each, end), order.key(each, until)
            )
            for each in (thing, taker)
        )
        cases = [is_open, is_deleted, ~is_there, taken > mine, ~is_known]
        names = [None, "deleted", "gone", "moved", None, "released"]
        return pa.array(names, pa.string()).take(
            pa.array(np.argmax([*cases, np.ones_like(is_open)], axis=0))
        )

    def members(self, found: _Stretches) -> pa.Table:
        """What to know behind the last record of members of groups that are not classic."""
        every = np.arange(len(self._group))
        row = self._description(every, np.full(len(every), self._order.end - 1))
        kind = np.full(len(every), CLASSIC)
        is_open = found.end == self._order.end
        kind[found.member[is_open]] = found.kind[is_open]
        described = pa.concat_tables(
            [each.select(["group_type", *_CLIENT]) for each in (self._known, self._described)]
        ).take(places(row))
        kinds = pa.array(GROUP_TYPES).take(places(np.where(kind == CLASSIC, -1, kind)))
        named = pa.table(
            {
                **{name: described[name] for name in _CLIENT},
                "group_id": self._group_ids.take(pa.array(self._group)),
                "group_type": pc.coalesce(described["group_type"], kinds),
                "member_id": self._member_ids.take(places(self._id)),
            }
        )
        return named.filter(pc.is_valid(named["group_type"])).select(_MEMBERS.names)


def _runs(goes_on: Flags, count: int) -> tuple[Ints, Ints]:
    """First and last of each run of places: `goes_on` tells of each if the next belongs to it."""
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on])[:count])
    return begins, np.append(begins[1:], count)[: len(begins)] - 1


def _join(*some: _Stretches) -> _Stretches:
    """All in one."""
    return _Stretches(
        *(
            np.concatenate([getattr(each, name) for each in some])
            for name in ("member", "thing", "begin", "end", "kind", "source")
        )
    )


def _ints(column: pa.ChunkedArray) -> Ints:
    """Numbers without nulls."""
    found: Ints = column.to_numpy().astype(np.int64)
    return found


def _kinds(column: pa.ChunkedArray) -> Ints:
    """Numbers of group types."""
    return _ints(pc.index_in(column, pa.array(GROUP_TYPES)))
