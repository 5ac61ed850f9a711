"""What members own as numbers: which sets are the same, and what is in each.

A rank is a record's place among all that bear on ownership, from 1; rank 0 stands for what was
known before them, and `end` for a record that has not come yet.

What is *owned* is a partition of a topic or a task of a streams group. Its number is that of its
*kind* (topic, or subtopology and role) above 32 bits of partition.
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
"""Arrays here are of the shape (n,), of int64 or of truth values; those of one call or object have
an element each for the same things, in the same order, where nothing else is said."""

GROUP_TYPES = ("classic", "consumer", "share", "streams")
CLASSIC = 0
"""Group types are numbers here: indices in `GROUP_TYPES`, or -1 where it is not known."""

VALUE, GROUP_GONE, MEMBER_GONE, ASSIGNMENT_GONE, NOTHING = range(5)
"""What a record is: one with a value, or a tombstone of a group, a member or its assignment, or one
that says nothing: a tombstone of another type than the group's."""


class RecordOrder:
    """Records by rank: element 0 of each array is no record but what was known before.

    Args:
        group: number of the record's group.
        kind: group type that its own type belongs to.
        what: see `VALUE`.
        time_ms: its time, and
        has_time: whether it has any.
        kind_before: group types before the first record, (groups,), by number of the group.
    """

    def __init__(
        self, group: Ints, kind: Ints, what: Ints, time_ms: Ints, has_time: Flags, kind_before: Ints
    ) -> None:
        self.end = len(group)
        self._group, self._kind, self._time, self._has_time = group, kind, time_ms, has_time
        # From here on records stand group by group, each group's in order.
        order = np.argsort(group[1:], kind="stable") + 1
        index = np.arange(len(order))
        first = np.ones(len(order), dtype=bool)
        first[1:] = group[order[1:]] != group[order[:-1]]
        start = np.maximum.accumulate(np.where(first, index, 0))
        is_value = what[order] == VALUE
        before = np.empty(len(order), dtype=np.int64)  # the last index with a value before this
        before[:1] = -1
        before[1:] = np.maximum.accumulate(np.where(is_value, index, -1))[:-1]
        in_group = before >= start
        kinds = np.where(in_group, kind[order[before]], kind_before[group[order]])
        changes = is_value & (kind[order] != kinds)
        says_nothing = ~is_value & (kind[order] != kinds)
        # The tombstone of a classic group removes a group of any type, as in the coordinator.
        says_nothing &= (kind[order] != CLASSIC) | (what[order] != GROUP_GONE)
        self.what = what.copy()
        self.what[order[says_nothing]] = NOTHING
        judged = self.what[order]
        resets = changes | (is_value & (kind[order] == CLASSIC)) | (judged == GROUP_GONE)
        self._resets = self.key(group[order[resets]], order[resets])
        self._values = self.key(group[order[is_value]], order[is_value])
        # Where the run of records of one group and one time ends that each stands in.
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
        """Numbers that order by group (or anything counted from 0) first, then by rank."""
        return group * (self.end + 1) + rank

    def next_reset(self, group: Ints, rank: Ints) -> Ints:
        """Rank of the next record behind `rank` that says all of the group anew; or `end`."""
        return self.next_in(self._resets, group, rank)

    def last_reset(self, group: Ints, rank: Ints) -> Ints:
        """Rank of the last such record up to `rank`, or 0."""
        at = np.searchsorted(self._resets, self.key(group, rank), side="right")
        padded = np.concatenate([[-1], self._resets])[at]
        return np.where(padded // (self.end + 1) == group, padded % (self.end + 1), 0)

    def next_in(self, keys: Ints, number: Ints, rank: Ints) -> Ints:
        """Rank of the next of sorted keys of the same number behind `rank`; or `end`."""
        at = np.searchsorted(keys, self.key(number, rank), side="right")
        padded = np.append(keys, -1)[at]
        return np.where(padded // (self.end + 1) == number, padded % (self.end + 1), self.end)

    def write_end(self, rank: Ints) -> Ints:
        """Last rank of the same group and time, for records judged by what comes with them."""
        return self._write_end[rank]

    def has_value(self, group: Ints, after: Ints, until: Ints) -> Flags:
        """Whether the group has a record with a value of a rank above `after`, up to `until`."""
        return self.next_in(self._values, group, after) <= until

    def same_time(self, rank: Ints, other: Ints) -> Flags:
        """Whether both records have the same time; false where one has none."""
        rank, other = np.minimum(rank, self.end - 1), np.minimum(other, self.end - 1)
        same: Flags = self._time[rank] == self._time[other]
        return same & self._has_time[rank] & self._has_time[other]


def between(sorted_keys: Ints, low: Ints, high: Ints) -> Ints:
    """How many of the keys lie between each pair, both included."""
    return np.searchsorted(sorted_keys, high, side="right") - np.searchsorted(sorted_keys, low)


CODED = pa.dictionary(pa.int32(), pa.string())
"""Texts by their indices in a dictionary."""

_PARTITION_BITS = 32
_PARTITION_MASK = 0xFFFF_FFFF

_FIELDS = ("topic", "topic_id", "subtopology", "role")


def numbers(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Number the texts of columns, the same text alike; -1 for null. Also the texts by number."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    if encoded.num_chunks == 0:
        return [np.empty(0, dtype=np.int64) for _ in columns], pa.array([], pa.string())
    encoded = encoded.unify_dictionaries()
    found = np.concatenate(
        [pc.fill_null(chunk.indices, -1).to_numpy().astype(np.int64) for chunk in encoded.chunks]
    )
    ends = np.cumsum([len(column) for column in columns])
    return np.split(found, ends[:-1]), encoded.chunk(0).dictionary


def dense(first: Ints, *more: Ints) -> Ints:
    """Number the combinations of numbers (-1 and above), from 0."""
    combined = _dense(first)
    for each in more:
        if len(each) and (each != each[0]).any():
            combined = _dense((combined << _PARTITION_BITS) + each)
    return combined


def _dense(found: Ints) -> Ints:
    codes: Ints = pa.array(found).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def one_of_each(codes: Ints) -> Ints:
    """An index of each of dense numbers."""
    index = np.empty(codes.max(initial=-1) + 1, dtype=np.int64)
    index[codes] = np.arange(len(codes))
    return index


def indices(found: Ints) -> pa.Array:
    """Indices to take, null for -1."""
    return pa.array(np.maximum(found, 0), mask=found < 0)


def coded(found: Ints, texts: pa.Array) -> pa.DictionaryArray:
    """The texts at indices, null for -1, with the texts as their dictionary."""
    each = texts.dictionary_encode()  # they may be null, or there twice
    return pa.DictionaryArray.from_arrays(each.indices.take(indices(found)), each.dictionary)


def flags(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Truth values without nulls."""
    found: Flags = column.cast(pa.uint8()).to_numpy().astype(bool)
    return found


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of what is owned, by number.

    Attributes:
        texts: topic, topic_id, subtopology and role, each an array by number; topics by their id
            have the name that is known.
        same_name: to each a number that is the same for a topic by its name alone, and by an id
            whose name is known.
    """

    texts: Mapping[str, pa.Array]
    same_name: Ints

    def by_name(self, owned: Ints) -> Ints:
        """The numbers of what is owned as `same_name` tells them apart."""
        kinds, partitions = owned >> _PARTITION_BITS, owned & _PARTITION_MASK
        named: Ints = self.same_name[kinds]
        return (named << _PARTITION_BITS) | partitions

    def has_id(self, owned: Ints) -> Flags:
        """Whether each is of a topic that is known by its id."""
        found: Flags = flags(pc.is_valid(self.texts["topic_id"]))[owned >> _PARTITION_BITS]
        return found

    def columns(self, owned: Ints) -> dict[str, pa.Array]:
        """The texts of what is owned, dictionary-encoded, and its partition."""
        kinds = owned >> _PARTITION_BITS
        found = {name: coded(kinds, texts) for name, texts in self.texts.items()}
        return {**found, "partition": pa.array((owned & _PARTITION_MASK).astype(np.int32))}


@dataclass(frozen=True, slots=True)
class OwnedSets:
    """Sets of what is owned, by number of the set.

    A set is made of pieces, a piece is a list of partitions of one kind. `_contents` has the same
    number for pieces of the same content. `_starts` and `_partition_starts` have one element more
    than there are sets and pieces: where in `_pieces` and in `_partitions` (int32) each begins.
    """

    kinds: Kinds
    _starts: Ints
    _pieces: Ints
    _piece_kinds: Ints
    _contents: Ints
    _partition_starts: Ints
    _partitions: Ints

    def owned(self, sets: Ints) -> tuple[Ints, Ints]:
        """All that is in these sets, one set after the other; and the index in `sets` of each."""
        index, owner = _spread(self._starts, sets)
        pieces = self._pieces[index]
        partitions, piece = _spread(self._partition_starts, pieces)
        kinds = self._piece_kinds[pieces[piece]]
        return _owned(kinds, self._partitions[partitions]), owner[piece]

    def are_same(self, sets: Ints, others: Ints) -> Flags:
        """Whether each pair has the same in the same order."""
        sizes = np.diff(self._starts)
        same: Flags = sizes[sets] == sizes[others]
        pairs = np.flatnonzero(same)
        contents = self._contents[self._pieces]
        mine, index = _spread(self._starts, sets[pairs])
        theirs, _ = _spread(self._starts, others[pairs])
        same[pairs[index[contents[mine] != contents[theirs]]]] = False
        return same


def _spread(starts: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Indices of what is in some of many ranges; and for each the index in `which`."""
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
    """Read sets of what is owned, and what is owned one by one.

    Args:
        listed: columns of type `ASSIGNED`, each with the number of the set that a row belongs to;
            in any order.
        count: how many sets there are.
        single: topic, topic_id, subtopology, role and partition of what is owned one by one.
        by_name: which of those are told apart by the topic's name, whether they have an id or not.
        topic_names: by id.

    Returns:
        the sets, and the numbers of what is owned one by one.
    """
    lists = [pa.chunked_array(column.chunks, column.type).combine_chunks() for column, _ in listed]
    structs = pa.concat_arrays([each.flatten() for each in lists])
    coded = {
        name: numbers(pa.chunked_array([pc.struct_field(structs, name)]), single[name])
        for name in _FIELDS
    }
    topics, topic_ids = coded["topic"][0], coded["topic_id"][0]
    topic_ids[1] = np.where(by_name & (topics[1] >= 0), -1, topic_ids[1])
    # An id says more than a name, which may be given again.
    topics[:] = [np.where(at >= 0, -1, topic) for topic, at in zip(topics, topic_ids, strict=True)]
    combined = {name: np.concatenate(found) for name, (found, _) in coded.items()}
    kind = dense(*combined.values())
    kinds = _kinds(kind, combined, {name: texts for name, (_, texts) in coded.items()}, topic_names)
    kind, single_kind = np.split(kind, [len(structs)])

    partitions = pc.struct_field(structs, "partitions")
    owner = np.concatenate(
        [
            sets[pc.list_parent_indices(each).to_numpy()]
            for each, (_, sets) in zip(lists, listed, strict=True)
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
    """Number lists of int32, the same list alike."""
    values = lists.values.to_numpy()
    starts = lists.offsets.to_numpy().astype(np.int64) * values.itemsize
    as_bytes = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(starts), pa.py_buffer(values)]
    )
    found: Ints = as_bytes.dictionary_encode().indices.to_numpy().astype(np.int64)
    return found


def _kinds(
    kind: Ints,
    combined: Mapping[str, Ints],
    texts: Mapping[str, pa.Array],
    topic_names: Mapping[str, str],
) -> Kinds:
    """Say what each number stands for."""
    index = one_of_each(kind)
    columns = {}
    for name, found in combined.items():
        columns[name] = texts[name].take(indices(found[index]))
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
