"""What members own as numbers: which sets are the same, and what is in each.

A *thing* that is owned is a partition of a topic or a task of a streams group. Its number is that
of its *kind* (topic, or subtopology and role) above 32 bits of partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroup.history.record_order import Flags, Ints

__all__ = ["Kinds", "OwnedSets", "dense", "flags", "numbers", "owned_sets", "places"]

_PARTITION_BITS = 32
_BLOCK = 1 << 22
"""Partitions compared at a time: bounds memory."""

_FIELDS = ("topic", "topic_id", "subtopology", "role")


def numbers(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Number the texts of columns, the same text alike; -1 for null. Also the texts by number."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).dictionary_encode()
    if encoded.num_chunks == 0:
        return [np.empty(0, dtype=np.int64) for _ in columns], pa.array([], pa.string())
    encoded = encoded.unify_dictionaries()
    found = np.concatenate(
        [pc.fill_null(each.indices, -1).to_numpy().astype(np.int64) for each in encoded.chunks]
    )
    ends = np.cumsum([len(column) for column in columns])
    return np.split(found, ends[:-1]), encoded.chunk(0).dictionary


def dense(first: Ints, *more: Ints) -> Ints:
    """Number the combinations of numbers (-1 and above), from 0."""
    combined = first
    for each in more:
        if len(each) and (each != each[0]).any():
            combined = np.unique(combined, return_inverse=True)[1]
            combined = (combined << _PARTITION_BITS) + each
    return np.unique(combined, return_inverse=True)[1]


def places(found: Ints) -> pa.Array:
    """Places to take, null for -1."""
    return pa.array(np.maximum(found, 0), mask=found < 0)


def flags(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Truth values without nulls."""
    found: Flags = column.cast(pa.uint8()).to_numpy().astype(bool)
    return found


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of things by number.

    Attributes:
        texts: topic, topic_id, subtopology and role, each an array by number; topics by their id
            have the name that is known.
        same_name: to each a number that is the same for a topic by its name alone, and by an id
            whose name is known.
    """

    texts: Mapping[str, pa.Array]
    same_name: Ints

    def by_name(self, things: Ints) -> Ints:
        """The numbers of things as `same_name` tells them apart."""
        kinds, partitions = things >> _PARTITION_BITS, things & 0xFFFF_FFFF
        named: Ints = self.same_name[kinds]
        return (named << _PARTITION_BITS) | partitions

    def has_id(self, things: Ints) -> Flags:
        """Whether each is of a topic that is known by its id."""
        found: Flags = flags(pc.is_valid(self.texts["topic_id"]))[things >> _PARTITION_BITS]
        return found

    def columns(self, things: Ints) -> dict[str, pa.Array]:
        """The texts of things, and their partition."""
        kinds = pa.array(things >> _PARTITION_BITS)
        found = {name: texts.take(kinds) for name, texts in self.texts.items()}
        return {**found, "partition": pa.array((things & 0xFFFF_FFFF).astype(np.int32))}


@dataclass(frozen=True, slots=True)
class OwnedSets:
    """Sets of things, by number of the set."""

    kinds: Kinds
    _starts: Ints
    _things: Ints

    def sizes(self, sets: Ints) -> Ints:
        """How many things are in each."""
        return self._starts[sets + 1] - self._starts[sets]

    def things(self, sets: Ints) -> tuple[Ints, Ints]:
        """All things in these sets, one set after the other; and the place in `sets` of each."""
        sizes = self.sizes(sets)
        owner = np.repeat(np.arange(len(sets)), sizes)
        first = np.repeat(self._starts[sets] - (np.cumsum(sizes) - sizes), sizes)
        return self._things[first + np.arange(len(first))], owner

    def are_same(self, sets: Ints, others: Ints) -> Flags:
        """Whether each pair has the same things in the same order."""
        same: Flags = self.sizes(sets) == self.sizes(others)
        pairs = np.flatnonzero(same)
        block = np.cumsum(self.sizes(sets[pairs])) // _BLOCK
        for some in np.split(pairs, np.flatnonzero(np.diff(block)) + 1):
            mine, place = self.things(sets[some])
            differing = place[mine != self.things(others[some])[0]]
            same[some[differing]] = False
        return same


def owned_sets(
    listed: Sequence[tuple[pa.ChunkedArray, Ints]],
    count: int,
    single: pa.Table,
    by_name: Flags,
    topic_names: Mapping[str, str],
) -> tuple[OwnedSets, Ints]:
    """Read sets of things, and things one by one.

    Args:
        listed: columns of type `ASSIGNED`, each with the number of the set that a row belongs to;
            in any order.
        count: how many sets there are.
        single: topic, topic_id, subtopology, role and partition of things.
        by_name: which of those are told apart by the topic's name, whether they have an id or not.
        topic_names: by id.

    Returns:
        the sets, and the numbers of the single things.
    """
    structs, set_of_struct, partitions = [], [], []
    for column, sets in listed:
        lists = pa.chunked_array(column.chunks, column.type).combine_chunks()
        structs.append(lists.flatten())
        set_of_struct.append(sets[pc.list_parent_indices(lists).to_numpy()])
        partitions.append(pc.struct_field(structs[-1], "partitions"))
    coded = {
        name: numbers(
            pa.chunked_array([pc.struct_field(each, name) for each in structs], pa.string()),
            single[name],
        )
        for name in _FIELDS
    }
    topics, topic_ids = coded["topic"][0], coded["topic_id"][0]
    # An id says more than a name, which may be given again.
    topics[0] = np.where(topic_ids[0] >= 0, -1, topics[0])
    topic_ids[1] = np.where(by_name & (topics[1] >= 0), -1, topic_ids[1])
    topics[1] = np.where(topic_ids[1] >= 0, -1, topics[1])
    combined = {name: np.concatenate(found) for name, (found, _) in coded.items()}
    kind = dense(*combined.values())
    kinds = _kinds(kind, combined, {name: texts for name, (_, texts) in coded.items()}, topic_names)
    struct_count = sum(map(len, structs))

    set_of_thing, things, begin = [], [], 0
    for lists, owner in zip(partitions, set_of_struct, strict=True):
        parent = pc.list_parent_indices(lists).to_numpy()
        set_of_thing.append(owner[parent])
        things.append(
            (kind[begin + parent] << _PARTITION_BITS) | lists.flatten().to_numpy().astype(np.int64)
        )
        begin += len(owner)
    all_sets, all_things = np.concatenate(set_of_thing), np.concatenate(things)
    if (all_sets[1:] < all_sets[:-1]).any():
        order = np.argsort(all_sets, kind="stable")
        all_sets, all_things = all_sets[order], all_things[order]
    starts = np.searchsorted(all_sets, np.arange(count + 1))
    partition = single["partition"].to_numpy().astype(np.int64)
    alone = (kind[struct_count:] << _PARTITION_BITS) | partition
    return OwnedSets(kinds, starts, all_things), alone


def _kinds(
    kind: Ints,
    combined: Mapping[str, Ints],
    texts: Mapping[str, pa.Array],
    topic_names: Mapping[str, str],
) -> Kinds:
    """Say what each number stands for."""
    one_of_each = np.unique(kind, return_index=True)[1]
    columns = {}
    for name, found in combined.items():
        columns[name] = texts[name].take(places(found[one_of_each]))
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
