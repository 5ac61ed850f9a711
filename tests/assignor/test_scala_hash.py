"""Orders of Scala's collections; the expected ones were printed by Scala 2.11."""

from __future__ import annotations

from kgroup.assignor.java.scala_hash import case_class_hash, immutable_order, mutable_order
from kgroup.model.offsets_partition import string_hash


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
