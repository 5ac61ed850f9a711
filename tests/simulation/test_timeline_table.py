"""The order of a `TimelineHashMap`, by what is known of Fibonacci hashing."""

from __future__ import annotations

from math import sqrt
from random import Random

from kgroup.simulation.consumer.group import TimelineTable

# Slots of a table of so many names: it grows before the one of which three quarters are more.
SLOTS = [2] * 3 + [4] * 3 + [8] * 5 + [16] * 11 + [32] * 5


def listed(names: list[str], slots: int) -> list[str]:
    """Order names of one letter, whose hash is its code.

    Slots are numbered by the part behind the point of that times the golden ratio; of those in one
    slot the last comes first.
    """
    found: list[list[str]] = [[] for _ in range(slots)]
    for name in names:
        found[int(ord(name) * (sqrt(5) - 1) / 2 % 1 * slots)].insert(0, name)
    return [name for slot in found for name in slot]


def test_names_are_in_the_order_of_their_slots() -> None:
    for seed in range(20):
        letters = [chr(ord("a") + number) for number in range(26)]
        Random(seed).shuffle(letters)
        table = TimelineTable()
        for count, letter in enumerate(letters, 1):
            table.put(letter)
            assert [*table] == listed(letters[:count], SLOTS[count])


def test_a_name_that_is_there_may_make_the_table_grow() -> None:
    """`hashAddIfAbsent` makes room before it looks."""
    for names in (["a", "b"], ["b", "a"]):
        table = TimelineTable()
        for name in [*names, "a"]:
            table.put(name)
        assert [*table] == listed(names, 4)


def test_names_that_are_gone_take_no_room() -> None:
    table = TimelineTable()
    for name in ("x", "y"):
        table.put(name)
    for name in ("x", "y"):
        table.remove(name)
    for name in ("b", "a"):
        table.put(name)
    assert [*table] == listed(["b", "a"], 2)
