"""What is counted of records that come, are read once, twice, or not at all."""

from __future__ import annotations

from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs

AT = 0
"""The row of the only partition."""


class Reader:
    """Somebody who has come to an offset."""

    def __init__(self) -> None:
        self.offset = 0

    def position(self, _: int) -> int:
        return self.offset


def logs() -> PartitionLogs:
    """A partition with a thousand records."""
    made = PartitionLogs(Clock(), 0)
    assert [*made.create([("orders", 0)])] == [AT]
    made.ends[AT] = 1_000
    return made


def test_what_is_read_after_an_older_commit_is_read_again() -> None:
    made, reader = logs(), Reader()
    reader.offset = made.begin(AT, 0, "latest", reader.position)
    reader.offset = 100
    made.end(AT, reader.position)
    reader.offset = made.begin(AT, 60, "latest", reader.position)
    assert made.again_and_skipped() == {AT: (0, 0)}  # it has not read any of them yet
    reader.offset = 90
    assert made.again_and_skipped() == {AT: (30, 0)}
    reader.offset = 200
    assert made.again_and_skipped() == {AT: (40, 0)}


def test_what_two_read_at_one_time_is_read_twice() -> None:
    made, first, second = logs(), Reader(), Reader()
    made.begin(AT, 0, "latest", first.position)
    first.offset = 100
    second.offset = made.begin(AT, 100, "latest", second.position)
    first.offset, second.offset = 180, 150
    assert made.again_and_skipped() == {AT: (50, 0)}
    made.end(AT, first.position)
    second.offset = 300
    assert made.again_and_skipped() == {AT: (80, 0)}


def test_what_nobody_has_read_before_others_is_skipped() -> None:
    made, reader = logs(), Reader()
    made.was_read({("orders", 0): 50})
    reader.offset = made.begin(AT, 80, "latest", reader.position)
    assert made.again_and_skipped() == {AT: (0, 30)}
    made.end(AT, reader.position)
    reader.offset = made.begin(AT, 20, "latest", reader.position)
    reader.offset = 100
    assert made.again_and_skipped() == {AT: (30, 0)}  # it was read after all


def test_who_goes_on_elsewhere_is_one_reader() -> None:
    made, reader = logs(), Reader()
    made.begin(AT, 0, "latest", reader.position)
    reader.offset = 10
    made.begin(AT, None, "earliest", reader.position)
    assert made.readers == {reader.position: {AT: 0}}
    assert made.again_and_skipped() == {AT: (10, 0)}


def test_a_partition_keeps_the_row_that_it_had_before_it_was_created() -> None:
    made = logs()
    made.was_read({("late", 1): 7, ("orders", 0): 3})
    late = made.row(("late", 1))
    assert made.create([("late", 0), ("late", 1)])[1] == late
    assert made.partitions == [("orders", 0), ("late", 1), ("late", 0)]
    partitions = (("late", 0), ("orders", 0), ("late", 1))
    for _ in range(2):
        assert [made.partitions[row] for row in made.rows(partitions)] == [*partitions]
    reader = Reader()
    reader.offset = made.begin(late, 9, "earliest", reader.position)  # it has no records
    assert made.again_and_skipped() == {late: (0, 0)}
    reader.offset = 8
    assert made.again_and_skipped() == {late: (7, 0)}


def test_rows_are_those_of_the_partitions_however_many_others_are_asked_for() -> None:
    made = logs()
    made.create([("orders", number) for number in range(1, 1_000)])
    for number in range(1_000):
        assert [*made.rows((("orders", number), ("orders", 0)))] == [number, AT]
