"""Java's hashes, and its HashMap on named cases: the orders were recorded from a JVM."""

from __future__ import annotations

import pytest

from kgroup.model.offsets_partition import string_hash
from tests.assignor.case.hash_map import MAPS, own_order, recorded_orders

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
