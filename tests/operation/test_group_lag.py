from __future__ import annotations

from collections.abc import Collection

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange, NextReading, NextRecord, OffsetMark, Position
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe
from kgroup.operation.group_filter import GroupFilter
from kgroup.operation.group_lag import group_lag, read_group_lags, with_group_time_lags
from kgroup.sample import sample_log_dir, sample_zookeeper
from kgroup.source.base import GroupSource
from kgroup.source.log.source import LogDir
from kgroup.source.snapshot.file import read_snapshot
from kgroup.source.snapshot.source import snapshot_source
from tests.operation.sources import FakeSource


def group(group_id: str, *offsets: CommittedOffset, members: int = 0) -> Group:
    own = tuple(
        Member(f"{group_id}-{n}", assignment=(AssignedPartition(None, "orders", n),))
        for n in range(members)
    )
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(group_id, GroupType.CLASSIC, state, members=own, offsets=offsets)


def at(partition: int, offset: int, time_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset("orders", partition, offset, commit_timestamp_ms=time_ms)


ENDS = {("orders", 0): 10, ("orders", 1): 10}


def test_sum_worst_partition_and_last_commit() -> None:
    found = group_lag(
        group("g", at(0, 4, 1_000), at(1, 1, 3_000), members=2),
        {part: LogRange(end=end) for part, end in ENDS.items()},
    )
    assert (found.total_lag, found.worst_topic, found.worst_partition, found.worst_lag) == (
        *(6 + 9, "orders", 1, 9),
    )
    assert (found.member_count, found.unknown_count) == (2, 0)
    assert found.last_commit_timestamp_ms == 3_000
    assert found.max_time_lag_ms is None


@pytest.mark.parametrize(
    ("ranges", "total", "unknown"),
    [
        ({}, None, 2),
        ({("orders", 0): LogRange(end=10)}, 6, 1),
        (
            {
                ("orders", 0): LogRange(end=10),
                ("orders", 1): LogRange(mark=OffsetMark.NOT_AUTHORIZED),
            },
            6,
            1,
        ),
        (
            {("orders", 0): LogRange(end=10), ("orders", 1): LogRange(mark=OffsetMark.TOPIC_GONE)},
            6,
            0,
        ),
    ],
)
def test_what_is_not_known_is_counted_and_not_taken_for_0(
    ranges: dict[tuple[str, int], LogRange], total: int | None, unknown: int
) -> None:
    found = group_lag(group("g", at(0, 4), at(1, 1)), ranges)
    assert (found.total_lag, found.unknown_count) == (total, unknown)


def test_a_commit_past_the_end_does_not_make_up_for_others() -> None:
    found = group_lag(
        group("g", at(0, 4), at(1, 15)), {part: LogRange(end=end) for part, end in ENDS.items()}
    )
    assert (found.total_lag, found.worst_partition) == (6, 0)


def test_nothing_waits() -> None:
    found = group_lag(group("g", at(0, 10)), {("orders", 0): LogRange(end=10)})
    assert (found.total_lag, found.worst_lag, found.max_time_lag_ms) == (0, 0, 0)


def test_share_groups_have_the_lag_that_brokers_tell() -> None:
    offsets = (
        ShareOffset(topic_id="a", topic="orders", partition=0, start_offset=1, lag=7),
        ShareOffset(topic_id="a", topic="orders", partition=1, start_offset=1, lag=None),
    )
    share = Group("s", GroupType.SHARE, GroupState.EMPTY, share_offsets=offsets)
    found = group_lag(share, {})
    assert (found.total_lag, found.worst_partition, found.unknown_count) == (7, 0, 1)


@pytest.mark.parametrize(
    "source",
    [LogDir((sample_log_dir(),)), snapshot_source(read_snapshot(sample_zookeeper()))],
    ids=["log", "zookeeper"],
)
def test_the_numbers_are_those_of_describe(source: GroupSource) -> None:
    described = describe(source).data
    found = read_group_lags(source, log_budget=1).rows
    assert [(row.group_id, row.total_lag, row.member_count) for row in found] == [
        (each.group.group_id, each.total_lag, len(each.group.members)) for each in described
    ]
    assert any(row.total_lag for row in found)


def test_filters() -> None:
    source = FakeSource(group("a", at(0, 1)), group("b", members=1), ends=ENDS)
    by_state = read_group_lags(source, GroupFilter(states=[GroupState.STABLE]))
    assert [row.group_id for row in by_state.rows] == ["b"]
    by_topic = read_group_lags(source, GroupFilter(topics=["never"]))
    assert (by_topic.rows, by_topic.groups) == ((), {})


def test_problems_are_kept() -> None:
    problem = Problem(ProblemKind.UNREACHABLE, "Broker 3 is away.", broker=3)
    report = read_group_lags(FakeSource(group("a"), problems=[problem], notes=["n"])).report
    assert (report.errors, report.notes) == ((problem,), ("n",))


class TimedSource(FakeSource):
    """Every record is of the time that its offset says, in seconds."""

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        self.asked = sorted(positions)
        return NextReading({at: NextRecord(at[2], 1000 * at[2]) for at in positions})


def timed_source() -> TimedSource:
    return TimedSource(
        group("little", at(0, 9)), group("much", at(0, 3), at(1, 5)), group("none"), ends=ENDS
    )


def test_time_lag_is_that_of_the_oldest_record() -> None:
    source = timed_source()
    reading = read_group_lags(source)
    found = with_group_time_lags(reading, source)
    times = {row.group_id: row.max_time_lag_ms for row in found.rows}
    now = reading.time_ms
    assert times == {"little": now - 9_000, "much": now - 3_000, "none": None}


@pytest.mark.parametrize(
    ("most", "first", "asked"),
    [
        (3, (), {("orders", 0, 3), ("orders", 1, 5), ("orders", 0, 9)}),
        (2, (), {("orders", 0, 3), ("orders", 1, 5)}),
        (2, ("little",), {("orders", 0, 9)}),  # all partitions of a group, or none
        (0, (), set()),
    ],
)
def test_time_lags_are_read_of_the_worst_groups_and_of_those_named(
    most: int, first: tuple[str, ...], asked: set[Position]
) -> None:
    source = timed_source()
    found = with_group_time_lags(read_group_lags(source), source, first=first, most_partitions=most)
    assert set(source.asked) == asked
    known = {row.group_id for row in found.rows if row.max_time_lag_ms is not None}
    assert known == {{3: "much", 5: "much", 9: "little"}[offset] for _, _, offset in asked}
