"""In which order brokers keep members; who leads and what wins votes depends on it."""

from __future__ import annotations

import pytest

from kgroup.simulation.classic.group import member_table
from kgroup.simulation.rules import Version


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ((2, 5, 1), ["b", "a", "c"]),  # as Scala 2.11 prints it, see `test_java_hash`
        ((2, 6), ["a", "b", "c"]),  # Scala 2.13: in buckets by the hashes 97, 98 and 99
        ((3, 9, 2), ["a", "b", "c"]),
    ],
)
def test_brokers_since_2_6_run_on_scala_2_13(version: Version, order: list[str]) -> None:
    """The downloads page recommends Scala 2.12 for Kafka 2.5, and 2.13 for 2.6."""
    table = member_table(version)
    for name in "cba":
        table.put(name)
    assert list(table) == order


def test_a_table_of_scala_2_13_is_doubled_when_it_is_three_quarters_full() -> None:
    """The hashes of the letters, 97 to 116, are in order in 32 buckets, and not in 16."""
    letters = "abcdefghijklmnopqrst"
    table = member_table((2, 6))
    for name in letters[:11]:
        table.put(name)
    table.put("q")  # the twelfth, which is in the bucket of a among 16
    assert list(table) == [*letters[:11], "q"]
    for name in reversed(letters):
        table.put(name)
    assert list(table) == [*letters]
