"""What records say about who owns what, as numbers.

A *statement* is what a record says of what one member has: those of classic groups are rows of
`members`, those of others rows of `consumer_group_epochs` (CurrentMemberAssignment). A
*description* is what is known of who a member is, of groups that are not classic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.ownership.owned_set import (
    coded,
    dense,
    flags,
    indices,
    numbers,
    one_of_each,
    owned_sets,
)
from kgroup.history.ownership.record_order import (
    ASSIGNMENT_GONE,
    CLASSIC,
    GROUP_GONE,
    GROUP_TYPES,
    MEMBER_GONE,
    VALUE,
    Flags,
    Ints,
    RecordOrder,
)

CLIENT = ("instance_id", "client_id", "client_host")
"""Columns that tell who a member is."""

_CURRENT = "CurrentMemberAssignment"
_TOMBSTONES = {
    "GroupMetadata": (CLASSIC, GROUP_GONE),
    **{
        f"{name.capitalize()}Group{end}": (kind, what)
        for kind, name in enumerate(GROUP_TYPES)
        if kind != CLASSIC
        for end, what in (
            ("Metadata", GROUP_GONE),
            ("MemberMetadata", MEMBER_GONE),
            (_CURRENT, ASSIGNMENT_GONE),
        )
    },
}
"""Group type, and what is gone, by the type of a tombstone that bears on ownership."""

_OWNED = ("topic", "topic_id", "subtopology", "role", "partition")


class OwnershipEvents:
    """What was known before, and what records say.

    Args:
        held: rows of `assignments` that are open.
        known: descriptions, see `Ownership.members`.
        tables: the record tables by name.
        topic_names: by id.

    Attributes:
        held: as given; of each row `held_member`, `held_kind` (group type), `held_owned` and
            `held_end`, the rank of the record that speaks of the member next.
        order: ranks of records.
        sets: what is owned.
        group, name: of each member (by number) its group and the index of its id.
        group_ids, member_ids: the texts of those.
        member, at, end, kind, is_known: of each statement the member, the rank of its record and of
            the next one that speaks of the member, the group type, and whether it could be read.
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
        self._current = self._epochs.filter(pc.ends_with(self._epochs["type"], _CURRENT))
        members, tombstones = tables["members"], tables["tombstones"]
        self._gone = tombstones.filter(pc.is_in(tombstones["type"], pa.array(list(_TOMBSTONES))))
        is_classic = pc.equal(members["group_type"], GROUP_TYPES[CLASSIC])
        self._classic, self._described = members, members.slice(0, 0)
        if not pc.all(is_classic).as_py():  # as a rule they are, and copying takes its time
            self._classic = members.filter(is_classic)
            self._described = members.filter(pc.invert(is_classic))
        self._number_members()
        self._order_records()
        self._state(topic_names)
        self._describe()

    def _number_members(self) -> None:
        """Number groups and members: a member is its group and its id together."""
        tables = (self.held, self._known, self._classic, self._described, self._current, self._gone)
        groups, self.group_ids = numbers(
            *(each["group_id"] for each in (*tables, self._generations, self._epochs))
        )
        ids, self.member_ids = numbers(*(each["member_id"] for each in tables))
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
        ) = np.split(member, np.cumsum([len(each) for each in ids])[:-1])
        self._record_groups = np.concatenate([groups[6], groups[7], groups[5]])
        self._kind_before = np.full(len(self.group_ids), -1)
        self._kind_before[groups[0]] = CLASSIC
        self._kind_before[groups[1]] = _kinds(self._known["group_type"])

    def _order_records(self) -> None:
        """Rank the records: values of classic groups, values of others, tombstones."""
        records = (self._generations, self._epochs, self._gone)
        gone = [_TOMBSTONES[each] for each in self._gone["type"].to_pylist()]
        gone_kind, gone_what = np.array(gone, dtype=np.int64).reshape(-1, 2).T
        values = len(self._generations) + len(self._epochs)
        kind = [np.full(len(self._generations), CLASSIC), _kinds(self._epochs["group_type"])]
        offsets = np.concatenate([_ints(each["log_offset"]) for each in records])
        times = [chunk for each in records for chunk in each["time_ms"].chunks]
        order = np.argsort(offsets, kind="stable")

        def ranked(found: Ints) -> Ints:
            return np.concatenate([[-1], found[order]])

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
        """Read the statements, and how long each holds."""
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
        """Put descriptions in order: rows of `known`, then of `described`; -1 for a tombstone."""
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
        """Rank of the record that says anew what a member has, behind this one."""
        return np.minimum(
            self.order.next_reset(self.group[member], rank),
            self.order.next_in(self._news, member, rank),
        )

    def description(self, member: Ints, rank: Ints) -> Ints:
        """Row of `descriptions` that tells of each member at a rank; -1 where none does."""
        if not len(self.descriptions):
            return np.full(len(member), -1)
        at = np.searchsorted(self._description_keys, self.order.key(member, rank), side="right") - 1
        reset = self.order.key(member, self.order.last_reset(self.group[member], rank))
        return np.where(self._description_keys[at] >= reset, self._description_rows[at], -1)

    @property
    def descriptions(self) -> pa.Table:
        """Group type, and who it is."""
        columns = ["group_type", *CLIENT]
        return pa.concat_tables([each.select(columns) for each in (self._known, self._described)])

    def presence(self, member: Ints, rank: Ints) -> tuple[Flags, Flags]:
        """Whether each is a member at a rank, and if so, whether it is known what it has."""
        last = np.searchsorted(self._keys, self.order.key(member, rank), side="right")
        statement = np.append(-1, self.by_member)[last]
        has_stated = np.append(self.member, -1)[statement] == member
        has_stated &= np.append(self.end, -1)[statement] > rank
        is_there: Flags = has_stated | (self.description(member, rank) >= 0)
        return is_there, ~has_stated | np.append(self.is_known, True)[statement]

    def records(self, rank: Ints) -> tuple[pa.Array, pa.Array]:
        """Times and offsets of records; null for -1."""
        return self._time.take(indices(rank)), pa.array(self._offset).take(indices(rank))

    def columns(self, statement: Ints) -> dict[str, pa.Array]:
        """Columns of `assignments` that statements tell of who owns something since when.

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
            [each.select(CLIENT) for each in (self._classic, self.descriptions)]
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
    """Numbers without nulls."""
    found: Ints = column.to_numpy().astype(np.int64)
    return found


def _kinds(column: pa.ChunkedArray) -> Ints:
    """Numbers of group types."""
    return _ints(pc.index_in(column, pa.array(GROUP_TYPES)))
