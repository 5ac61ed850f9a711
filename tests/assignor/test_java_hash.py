"""Java's hashes, and its HashMap on named cases: the orders were recorded from a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.bulk_order import bulk_order, first_seen, ranks_within, stable_order
from kgroup.assignor.java.java_hash import JavaHashMap, spread, utf16
from kgroup.assignor.java.scala_hash import case_class_hash, immutable_order, mutable_order
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.server import server
from kgroup.assignor.server.server import IntSet, ServerGroup, Target
from kgroup.model.offsets_partition import string_hash
from tests.assignor.case.hash_map import MAPS, MapCase, own_order, recorded_orders
from tests.examples import examples

RECORDED = recorded_orders()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("Hello World", -862545276),  # as printed by Java
        ("polygenelubricants", -(1 << 31)),  # the well-known string with Integer.MIN_VALUE
        ("\U0001f600", 31 * 0xD83D + 0xDE00),  # two UTF-16 units, by the definition
        ("é", 0xE9),
    ],
)
def test_string_hash(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_every_map_is_recorded() -> None:
    assert list(RECORDED) == list(MAPS)


@pytest.mark.parametrize("name", MAPS)
def test_a_map_iterates_as_in_java(name: str) -> None:
    assert own_order(MAPS[name]) == RECORDED[name]


@dataclass
class _Map:
    """One map: hashes of early keys, which of them are removed in turn, hashes of late keys."""

    capacity: int
    early: list[int]
    removed: list[int]
    late: list[int]
    called_again: bool

    def order(self, prepend: bool) -> list[int]:
        table = JavaHashMap[int](self.capacity)
        hashes = [*self.early, *self.late]
        for key, hash_code in enumerate(self.early):
            table.put(key, hash_code)
        for key in self.removed:
            table.remove(key)
        for key in range(len(self.early), len(hashes)):
            table.put(key, hashes[key], prepend=prepend)
        if self.called_again:
            table.put(len(hashes) - 1, hashes[-1], prepend=prepend)
        return list(table)


def _map(random: Random, crowd: str) -> _Map:
    """Hashes are distinct; with `crowd` many maps have trees."""
    if crowd == "just":
        return _just_crowded(random)
    size = random.choice([0, 1, 2, 8, 9, 12, 13, 14, 30, 60])
    hashes = random.sample(range(1 << 20), size)
    if crowd == "two":  # buckets, whatever the size of the table is
        hashes = [each * 512 + random.choice([0, 3]) for each in random.sample(range(100), size)]
    early = random.choice([0, size, random.randint(0, size)])
    gone = random.choice([0, 0, random.randint(0, early)])
    return _Map(
        random.choice([0, 1, 3, 16, 100]),
        hashes[:early],
        random.sample(range(early), gone),
        hashes[early:],
        early < size and random.random() < 0.5,
    )


def _just_crowded(random: Random) -> _Map:
    """One bucket has so many keys, or nearly, that it matters, and the table is full, or nearly."""
    size = random.choice([16, 64])
    count = random.choice([size * 3 // 4 + more for more in range(3)] + [7, 8, 9])
    alike = min(random.choice([7, 8, 9]), count)
    hashes = [3 + size * each for each in random.sample(range(8 * size), alike)]
    hashes += [4 + size * each + each % (size - 8) for each in range(count - alike)]
    random.shuffle(hashes)
    if random.random() < 0.5:
        hashes.sort(key=lambda each: each % size == 3)
    early = random.choice([0, count])
    return _Map(
        random.choice([size, size - 1]),
        hashes[:early],
        [],
        hashes[early:],
        early < count and random.random() < 0.5,
    )


@pytest.mark.parametrize("prepend", [False, True])
@pytest.mark.parametrize("crowd", ["none", "two", "just"])
def test_maps_iterate_as_each_of_them_would(prepend: bool, crowd: str) -> None:
    random = Random(f"{prepend} {crowd}")
    trees = 0
    for _ in range(40):
        maps = [_map(random, crowd) for _ in range(random.choice([1, 3, 30]))]
        sizes = [len(each.early) + len(each.late) for each in maps]
        starts = np.cumsum([0, *sizes])
        got = bulk_order(
            np.repeat(np.arange(len(maps)), sizes),
            np.array([each for one in maps for each in [*one.early, *one.late]], np.int64),
            np.array([one.capacity for one in maps]),
            removals=np.array([_removal(one, k) for one in maps for k in range(_size(one))], int),
            late=np.array([k >= len(one.early) for one in maps for k in range(_size(one))], bool),
            prepend=prepend,
            called_again=np.array([one.called_again for one in maps], bool),
        )
        expected = [
            int(starts[at]) + key for at, one in enumerate(maps) for key in one.order(prepend)
        ]
        assert got.tolist() == expected
        trees += sum(_has_tree(one, prepend) for one in maps)
    assert bool(trees) == (crowd != "none")


def _size(one: _Map) -> int:
    return len(one.early) + len(one.late)


def _removal(one: _Map, key: int) -> int:
    return one.removed.index(key) if key in one.removed else -1


def _has_tree(one: _Map, prepend: bool) -> bool:
    table = JavaHashMap[int](one.capacity)
    for key, hash_code in enumerate([*one.early, *one.late]):
        table.put(key, hash_code, prepend=prepend and key >= len(one.early))
    return any(bucket.root is not None for bucket in table._buckets.values())


def test_hashes_beyond_32_bits_and_below_0_are_those_of_java() -> None:
    hashes = [-1, 1 << 40, (1 << 40) + 5, -(1 << 31), 0x10001]
    table = JavaHashMap[int]()
    for key, hash_code in enumerate(hashes):
        table.put(key, hash_code)
    got = bulk_order(np.zeros(len(hashes), np.int64), np.array(hashes, np.int64))
    assert got.tolist() == list(table)


def test_nothing_has_no_order() -> None:
    nothing = np.empty(0, np.int64)
    assert bulk_order(nothing, nothing).tolist() == []
    assert stable_order(nothing).tolist() == []
    assert ranks_within(nothing).tolist() == []
    assert [each.tolist() for each in first_seen(nothing)] == [[], []]


def test_keys_are_numbered_as_they_come_first() -> None:
    numbers, firsts = first_seen(np.array([7, 3, 7, 9, 3, 0]))
    assert numbers.tolist() == [0, 1, 0, 2, 1, 3]
    assert firsts.tolist() == [0, 1, 3, 5]


@pytest.mark.parametrize("most", [3, (1 << 63) - 1])  # the latter too large to be packed
def test_equal_keys_stay_in_order(most: int) -> None:
    assert stable_order(np.array([most, 2, most, 1, 2])).tolist() == [3, 1, 4, 0, 2]


def test_places_count_in_each_group() -> None:
    assert ranks_within(np.array([2, 2, 2, 5, 6, 6])).tolist() == [0, 1, 2, 0, 0, 1]


def test_a_small_map_keeps_the_order_of_insertion() -> None:
    assert immutable_order(["d", "c", "b", "a"], [1, 2, 3, 4]) == ["d", "c", "b", "a"]


def test_a_set_of_the_numbers_from_1_to_10() -> None:
    """As `(1 to 10).toSet` prints it: an Int is its own hash."""
    numbers = list(range(1, 11))
    assert immutable_order(numbers, numbers, of_set=True) == [5, 10, 1, 6, 9, 2, 7, 3, 8, 4]


def test_keys_of_one_hash_in_a_map_and_in_a_set() -> None:
    """A map lists them in the order of insertion, a set the last one first."""
    keys = ["AaAa", "AaBB", "BBAa", "BBBB", "AaC#"]
    assert {string_hash(key) for key in keys} == {string_hash("AaAa")}
    hashes = [string_hash(key) for key in keys]
    assert immutable_order(keys, hashes) == keys
    assert immutable_order(keys, hashes, of_set=True) == keys[::-1]


def test_a_mutable_map() -> None:
    assert mutable_order("abc") == ["b", "a", "c"]
    letters = "abcdefghijklmnopqrst"
    assert " ".join(mutable_order(letters)) == "e n h q t b k j s d m p g a r i c l f o"


def test_keys_of_one_bucket_turn_round_when_a_mutable_map_grows() -> None:
    assert [key for key in mutable_order(["Aa", "BB"]) if key in ("Aa", "BB")] == ["BB", "Aa"]
    grown = mutable_order(["Aa", "BB", *"abcdefghijk"])
    assert [key for key in grown if key in ("Aa", "BB")] == ["Aa", "BB"]


def test_the_hash_of_a_thread_id() -> None:
    """As `ConsumerThreadId.hashCode` of Kafka 0.8.2.2 prints it."""
    assert case_class_hash("C1", 0) == 1351647739
    assert case_class_hash("é", 12) == 1811782889


def _keys(case: MapCase) -> list[str]:
    return sorted({key for _, key in case.steps}, key=utf16)


def _are_numbers(case: MapCase) -> bool:
    """Return whether the hashes of the keys could be numbers of partitions, and are only put."""
    keys = _keys(case)
    numbers = {each for each in map(string_hash, keys) if each >= 0}
    return len(numbers) == len(keys) and all(kind != "compute" for kind, _ in case.steps)


@pytest.mark.parametrize("many", [1, 1_000])
@pytest.mark.parametrize("name", [name for name, case in MAPS.items() if _are_numbers(case)])
def test_a_set_of_numbers_iterates_as_in_java(
    name: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is its own hash, so those of the texts are taken."""
    monkeypatch.setattr(server, "MANY", many)
    numbers = IntSet((), MAPS[name].capacity)
    for kind, key in MAPS[name].steps:
        if kind == "remove":
            numbers.remove(string_hash(key))
        else:
            numbers.add([string_hash(key)])
        assert len(list(numbers)) == len(numbers)
    assert list(numbers) == list(map(string_hash, RECORDED[name]))


def test_a_crowded_set_that_never_doubles_iterates_as_a_map() -> None:
    random = Random(8)
    for _ in range(examples(60, 240)):
        capacity = random.choice((64, 100, 1_000))
        numbers, table = IntSet((), capacity), JavaHashMap[int](capacity)
        hashes = [random.randrange(1 << 12) * 1024 + random.choice((0, 0, 5)) for _ in range(40)]
        for number in dict.fromkeys(map(spread, hashes)):  # which is its own inverse
            numbers.add([number])
            table.put(number, number)
            if random.random() < 0.2:
                gone = random.choice(list(table))
                numbers.remove(gone)
                table.remove(gone)
        assert list(numbers) == list(table)


@pytest.mark.parametrize("name", MAPS)
def test_the_topics_of_a_target_iterate_as_in_java(name: str) -> None:
    """Topics have ids that hash and compare as their names do."""
    keys = _keys(MAPS[name])
    ids = {
        key: (rank << 64 | rank ^ (string_hash(key) & 0xFFFFFFFF)).to_bytes(16, "big")
        for rank, key in enumerate(keys)
    }
    topics = {key: TopicMetadata(1) for key in keys}
    spec = GroupSpec("uniform", (MemberSpec("m", ()),), topics, "consumer", topic_ids=ids)
    target = Target(ServerGroup(spec), MAPS[name].capacity)
    for kind, key in MAPS[name].steps:
        topic = keys.index(key)
        if kind == "put" and target.get(topic) is None:
            target.put({topic: range(1)})
        elif kind == "compute":
            target.add([(topic, 0)])
        elif kind == "remove":
            target.remove(topic)
    assert [keys[topic] for topic, _ in target] == RECORDED[name]
