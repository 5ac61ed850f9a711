"""Represent what members own as numbers, to compare and list sets of partitions quickly.

A rank is a record's position, from 1, among all records that affect ownership. Rank 0 stands for
what was known before them, and `end` for a future record.

An *owned* item is a partition of a topic or a task of a streams group. Its number consists of its
*kind* (topic, or subtopology and role) in the high bits and the partition in the low 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
"""Arrays have the shape (n,) and contain int64 or bool. Unless stated otherwise, the arrays of one
call or object have one element each for the same items, in the same order.
"""

GROUP_TYPES = ("classic", "consumer", "share", "streams")
CLASSIC = 0
"""Group types are numbers: indices in `GROUP_TYPES`, or -1 if unknown."""

VALUE, GROUP_GONE, MEMBER_GONE, ASSIGNMENT_GONE, NOTHING = range(5)
"""Effect of a record: it has a value, or it is a tombstone of a group, a member or its assignment,
or it has no effect: a tombstone of another type than the group's.
"""


class RecordOrder:
    """Records by rank; element 0 of each array stands for what was known before the records.

    Args:
        group: number of the record's group.
        kind: group type of the record's type.
        what: see `VALUE`.
        time_ms: time of the record.
        has_time: whether it has a time.
        kind_before: group types before the first record, (groups,), by group number.
    """

    def __init__(
        self, group: Ints, kind: Ints, what: Ints, time_ms: Ints, has_time: Flags, kind_before: Ints
    ) -> None:
        self.end = len(group)
        self._group, self._kind, self._time, self._has_time = group, kind, time_ms, has_time
        # From here on, records are ordered by group, then by rank.
        order = np.argsort(group[1:], kind="stable") + 1
        index = np.arange(len(order))
        first = np.ones(len(order), dtype=bool)
        first[1:] = group[order[1:]] != group[order[:-1]]
        start = np.maximum.accumulate(np.where(first, index, 0))
        is_value = what[order] == VALUE
        before = np.empty(len(order), dtype=np.int64)  # index of the previous record with a value
        before[:1] = -1
        before[1:] = np.maximum.accumulate(np.where(is_value, index, -1))[:-1]
        in_group = before >= start
        kinds = np.where(in_group, kind[order[before]], kind_before[group[order]])
        changes = is_value & (kind[order] != kinds)
        says_nothing = ~is_value & (kind[order] != kinds)
        # A tombstone of a classic group removes a group of any type, as in the coordinator.
        says_nothing &= (kind[order] != CLASSIC) | (what[order] != GROUP_GONE)
        self.what = what.copy()
        self.what[order[says_nothing]] = NOTHING
        judged = self.what[order]
        resets = changes | (is_value & (kind[order] == CLASSIC)) | (judged == GROUP_GONE)
        self._resets = self.key(group[order[resets]], order[resets])
        self._values = self.key(group[order[is_value]], order[is_value])
        # For each record, the end of its run of records with the same group and time.
        last = np.ones(len(order), dtype=bool)
        last[:-1] = (
            first[1:]
            | ~has_time[order[1:]]
            | ~has_time[order[:-1]]
            | (time_ms[order[1:]] != time_ms[order[:-1]])
        )
        ends = np.flatnonzero(last)
        run_end = order[ends[np.searchsorted(ends, index)]] if len(order) else order
        self._write_end = np.arange(self.end + 1)
        judged_later = changes | ~is_value
        self._write_end[order[judged_later]] = run_end[judged_later]

    def key(self, group: Ints, rank: Ints) -> Ints:
        """Return keys that sort by group (or another number from 0), then by rank."""
        return group * (self.end + 1) + rank

    def next_reset(self, group: Ints, rank: Ints) -> Ints:
        """Return the rank of the next record that replaces the whole group; or `end`."""
        return self.next_in(self._resets, group, rank)

    def last_reset(self, group: Ints, rank: Ints) -> Ints:
        """Return the rank of the last record that replaces the whole group; or 0."""
        at = np.searchsorted(self._resets, self.key(group, rank), side="right")
        padded = np.concatenate([[-1], self._resets])[at]
        return np.where(padded // (self.end + 1) == group, padded % (self.end + 1), 0)

    def next_in(self, keys: Ints, number: Ints, rank: Ints) -> Ints:
        """Return the rank of the next sorted key with this number after `rank`; or `end`."""
        at = np.searchsorted(keys, self.key(number, rank), side="right")
        padded = np.append(keys, -1)[at]
        return np.where(padded // (self.end + 1) == number, padded % (self.end + 1), self.end)

    def write_end(self, rank: Ints) -> Ints:
        """Return the last rank of the same write, for records whose effect depends on it."""
        return self._write_end[rank]

    def has_value(self, group: Ints, after: Ints, until: Ints) -> Flags:
        """Return whether the group has a value of rank above `after` and up to `until`."""
        return self.next_in(self._values, group, after) <= until

    def same_time(self, rank: Ints, other: Ints) -> Flags:
        """Return whether both records have the same time; False if one has none."""
        rank, other = np.minimum(rank, self.end - 1), np.minimum(other, self.end - 1)
        same: Flags = self._time[rank] == self._time[other]
        return same & self._has_time[rank] & self._has_time[other]


def between(sorted_keys: Ints, low: Ints, high: Ints) -> Ints:
    """Return the number of keys from each `low` to `high`, inclusive."""
    return np.searchsorted(sorted_keys, high, side="right") - np.searchsorted(sorted_keys, low)


CODED = pa.dictionary(pa.int32(), pa.string())
"""Dictionary-encoded texts."""

_PARTITION_BITS = 32
_PARTITION_MASK = 0xFFFF_FFFF

_FIELDS = ("topic", "topic_id", "subtopology", "role")


def numbers(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Return the number of each text of the columns, -1 for null, and the texts by number."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    if encoded.num_chunks == 0:
        return [np.empty(0, dtype=np.int64) for _ in columns], pa.array([], pa.string())
    encoded = encoded.unify_dictionaries()
    all_indices = np.concatenate(
        [pc.fill_null(chunk.indices, -1).to_numpy().astype(np.int64) for chunk in encoded.chunks]
    )
    ends = np.cumsum([len(column) for column in columns])
    return np.split(all_indices, ends[:-1]), encoded.chunk(0).dictionary


def dense(first: Ints, *more: Ints) -> Ints:
    """Return consecutive numbers from 0 for combinations of numbers (-1 and above)."""
    combined = _dense(first)
    for codes in more:
        if len(codes) and (codes != codes[0]).any():
            combined = _dense((combined << _PARTITION_BITS) + codes)
    return combined


def _dense(numbers: Ints) -> Ints:
    codes: Ints = pa.array(numbers).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def one_of_each(codes: Ints) -> Ints:
    """Return, for each of consecutive numbers, an index with that number."""
    index = np.empty(codes.max(initial=-1) + 1, dtype=np.int64)
    index[codes] = np.arange(len(codes))
    return index


def indices(numbers: Ints) -> pa.Array:
    """Return indices for `take`; null for -1."""
    return pa.array(np.maximum(numbers, 0), mask=numbers < 0)


def coded(numbers: Ints, texts: pa.Array) -> pa.DictionaryArray:
    """Return the texts at indices, dictionary-encoded; null for -1."""
    encoded = texts.dictionary_encode()  # texts may be null or repeated
    return pa.DictionaryArray.from_arrays(
        encoded.indices.take(indices(numbers)), encoded.dictionary
    )


def flags(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Return a column without nulls as bools."""
    values: Flags = column.cast(pa.uint8()).to_numpy().astype(bool)
    return values


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of owned items, by number.

    Attributes:
        texts: topic, topic_id, subtopology and role, each an array by number; topics with an id
            also have their name, if known.
        same_name: number of the topic's name, the same whether the topic is given by name or by an
            id with that name.
    """

    texts: Mapping[str, pa.Array]
    same_name: Ints

    def by_name(self, owned: Ints) -> Ints:
        """Return numbers of owned items that depend on the topic's name only, not on its id."""
        kinds, partitions = owned >> _PARTITION_BITS, owned & _PARTITION_MASK
        named: Ints = self.same_name[kinds]
        return (named << _PARTITION_BITS) | partitions

    def has_id(self, owned: Ints) -> Flags:
        """Return whether each owned item has a topic id."""
        has_id: Flags = flags(pc.is_valid(self.texts["topic_id"]))[owned >> _PARTITION_BITS]
        return has_id

    def columns(self, owned: Ints) -> dict[str, pa.Array]:
        """Return the texts of owned items, dictionary-encoded, and their partitions."""
        kinds = owned >> _PARTITION_BITS
        columns = {name: coded(kinds, texts) for name, texts in self.texts.items()}
        return {**columns, "partition": pa.array((owned & _PARTITION_MASK).astype(np.int32))}


@dataclass(frozen=True, slots=True)
class OwnedSets:
    """Sets of owned items, by number of the set.

    A set consists of pieces; a piece is a list of partitions of one kind. Pieces with the same
    content have the same number in `_contents`. `_starts` and `_partition_starts` are where each
    set begins in `_pieces` and each piece in `_partitions` (int32); they have one more element, for
    the end.
    """

    kinds: Kinds
    _starts: Ints
    _pieces: Ints
    _piece_kinds: Ints
    _contents: Ints
    _partition_starts: Ints
    _partitions: Ints

    def owned(self, sets: Ints) -> tuple[Ints, Ints]:
        """Return the items of these sets, set after set, and the index in `sets` of each item."""
        index, owner = _spread(self._starts, sets)
        pieces = self._pieces[index]
        partitions, piece = _spread(self._partition_starts, pieces)
        kinds = self._piece_kinds[pieces[piece]]
        return _owned(kinds, self._partitions[partitions]), owner[piece]

    def are_same(self, sets: Ints, others: Ints) -> Flags:
        """Return whether each pair of sets has the same items in the same order."""
        sizes = np.diff(self._starts)
        same: Flags = sizes[sets] == sizes[others]
        pairs = np.flatnonzero(same)
        contents = self._contents[self._pieces]
        mine, index = _spread(self._starts, sets[pairs])
        theirs, _ = _spread(self._starts, others[pairs])
        same[pairs[index[contents[mine] != contents[theirs]]]] = False
        return same


def _spread(starts: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Return the indices in the selected ranges, and for each the index in `which`."""
    sizes = starts[which + 1] - starts[which]
    owner = np.repeat(np.arange(len(which)), sizes)
    first = starts[which] - (np.cumsum(sizes) - sizes)
    return first[owner] + np.arange(len(owner)), owner


def _owned(kinds: Ints, partitions: Ints) -> Ints:
    return (kinds << _PARTITION_BITS) | (partitions.astype(np.int64) & _PARTITION_MASK)


def owned_sets(
    listed: Sequence[tuple[pa.ChunkedArray, Ints]],
    count: int,
    single: pa.Table,
    by_name: Flags,
    topic_names: Mapping[str, str],
) -> tuple[OwnedSets, Ints]:
    """Build sets of owned items, and numbers of single owned items.

    Args:
        listed: columns of type `ASSIGNED`, each with the number of the set of each row, in any
            order.
        count: number of sets.
        single: topic, topic_id, subtopology, role and partition of the single items.
        by_name: which single items are identified by the topic's name even if they have an id.
        topic_names: topic names by topic id.

    Returns:
        The sets, and the numbers of the single items.
    """
    lists = [pa.chunked_array(column.chunks, column.type).combine_chunks() for column, _ in listed]
    structs = pa.concat_arrays([array.flatten() for array in lists])
    coded = {
        name: numbers(pa.chunked_array([pc.struct_field(structs, name)]), single[name])
        for name in _FIELDS
    }
    topics, topic_ids = coded["topic"][0], coded["topic_id"][0]
    topic_ids[1] = np.where(by_name & (topics[1] >= 0), -1, topic_ids[1])
    # An id is more specific than a name, which may be reused.
    topics[:] = [np.where(at >= 0, -1, topic) for topic, at in zip(topics, topic_ids, strict=True)]
    combined = {name: np.concatenate(codes) for name, (codes, _) in coded.items()}
    kind = dense(*combined.values())
    kinds = _kinds(kind, combined, {name: texts for name, (_, texts) in coded.items()}, topic_names)
    kind, single_kind = np.split(kind, [len(structs)])

    partitions = pc.struct_field(structs, "partitions")
    owner = np.concatenate(
        [
            sets[pc.list_parent_indices(array).to_numpy()]
            for array, (_, sets) in zip(lists, listed, strict=True)
        ]
    )
    order = np.argsort(owner, kind="stable")
    sets = OwnedSets(
        kinds,
        np.searchsorted(owner[order], np.arange(count + 1)),
        order,
        kind,
        dense(kind, _same_lists(partitions)),
        partitions.offsets.to_numpy().astype(np.int64),
        partitions.values.to_numpy(),
    )
    return sets, _owned(single_kind, single["partition"].to_numpy())


def _same_lists(lists: pa.ListArray) -> Ints:
    """Return numbers for lists of int32, the same for equal lists."""
    values = lists.values.to_numpy()
    starts = lists.offsets.to_numpy().astype(np.int64) * values.itemsize
    as_bytes = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(starts), pa.py_buffer(values)]
    )
    codes: Ints = as_bytes.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _kinds(
    kind: Ints,
    combined: Mapping[str, Ints],
    texts: Mapping[str, pa.Array],
    topic_names: Mapping[str, str],
) -> Kinds:
    """Return the meaning of each number."""
    index = one_of_each(kind)
    columns = {}
    for name, codes in combined.items():
        columns[name] = texts[name].take(indices(codes[index]))
    rows = list(zip(*(columns[name].to_pylist() for name in _FIELDS), strict=True))
    named = [
        (topic or topic_names.get(topic_id), topic_id, *task) for topic, topic_id, *task in rows
    ]
    columns["topic"] = pa.array([topic for topic, *_ in named], pa.string())
    same: dict[object, int] = {}
    same_name = [
        same.setdefault((topic, None if topic else topic_id, *task), len(same))
        for topic, topic_id, *task in named
    ]
    return Kinds(columns, np.array(same_name, dtype=np.int64))
