from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.problem import Problem
from kgroup.operation.group_lag import GroupLag, LagReading
from kgroup.operation.top import SeenRebalance, Top, TopRow, growth_per_s
from tests.operation.sources import FakeSource

STABLE, PREPARING = GroupState.STABLE, GroupState.PREPARING_REBALANCE
COMPLETING, EMPTY = GroupState.COMPLETING_REBALANCE, GroupState.EMPTY
SECOND = 1000


def owning(**partitions: Sequence[int]) -> tuple[Member, ...]:
    return tuple(
        Member(
            f"{name}-id",
            client_id=name,
            assignment=tuple(AssignedPartition(None, "orders", n) for n in own),
        )
        for name, own in sorted(partitions.items())
    )


def classic(state: GroupState = STABLE, **partitions: Sequence[int]) -> Group:
    return Group("g", GroupType.CLASSIC, state, members=owning(**partitions))


def lag_of(group: Group, lag: int | None, unknown: int = 0) -> GroupLag:
    count = len(group.members)
    return GroupLag(
        group.group_id, group.type, group.state, count, lag, unknown, "orders", 0, lag, None
    )


def reading(
    at_s: float,
    *groups: Group,
    lag: int | None = 0,
    unknown: int = 0,
    problems: Sequence[Problem] = (),
) -> LagReading:
    rows = tuple(lag_of(group, lag, unknown) for group in groups)
    known = {group.group_id: group for group in groups}
    return LagReading(int(at_s * SECOND), rows, known, {}, {}, tuple(problems))


def followed(*readings: LagReading) -> TopRow:
    """Follow one group; return its last row."""
    top = Top(FakeSource())
    for each in readings:
        rows = top.follow(each)
    (row,) = rows
    return row


# --- growth ---


@pytest.mark.parametrize(
    ("samples", "growth"),
    [
        ([(0, 5)], None),
        ([(0, 5), (2_000, 25)], 10.0),
        ([(0, 25), (2_000, 5)], -10.0),
        ([(0, 5), (2_000, None)], None),
        ([(0, None), (2_000, 5)], None),
        ([(0, None), (2_000, 5), (4_000, 9)], 2.0),
        ([(0, 0), (30_000, 300), (60_000, 300)], 5.0),  # since the oldest of the last minute
        ([(0, 0), (30_000, 300), (61_000, 300)], 0.0),
        ([(0, 0), (120_000, 600)], 5.0),  # after a pause, since the one before
        ([(5_000, 1), (5_000, 2)], None),  # a clock that was set back tells nothing
    ],
)
def test_growth(samples: list[tuple[int, int | None]], growth: float | None) -> None:
    assert growth_per_s(samples) == growth


def test_trend_and_growth_of_a_group() -> None:
    row = followed(
        reading(0, classic(), lag=10),
        reading(5, classic(), lag=None),
        reading(10, classic(), lag=30),
    )
    assert row.trend == (10, None, 30)
    assert row.group.growth_per_s == 2.0
    assert row.group.time_ms == 10 * SECOND


def test_a_sum_of_fewer_partitions_is_not_compared_with_one_of_more() -> None:
    """Otherwise a leader that is away would look as if the group caught up."""
    row = followed(
        reading(0, classic(), lag=100, unknown=1),
        reading(5, classic(), lag=40, unknown=3),
        reading(10, classic(), lag=110, unknown=1),
    )
    assert (row.trend, row.group.growth_per_s) == ((100, None, 110), 1.0)
    row = followed(
        reading(0, classic(), lag=40, unknown=3), reading(5, classic(), lag=100, unknown=1)
    )
    assert (row.trend, row.group.growth_per_s) == ((100,), None)


# --- rebalances ---


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        ([classic(a=[0]), classic(a=[0])], 0),
        ([classic(PREPARING), classic(PREPARING)], 0),  # was there before
        ([classic(a=[0]), classic(PREPARING, a=[]), classic(a=[0])], 1),
        ([classic(a=[0]), classic(COMPLETING, a=[])], 1),
        ([classic(a=[0]), classic(PREPARING), classic(COMPLETING), classic(a=[0], b=[1])], 1),
        ([classic(a=[0]), classic(COMPLETING), classic(PREPARING), classic(a=[0])], 2),
        ([classic(a=[0]), classic(PREPARING), classic(a=[0]), classic(PREPARING)], 2),
        ([classic(a=[0]), classic(a=[0], b=[1])], 1),  # over before it was seen
        ([classic(a=[0, 1], b=[]), classic(a=[0], b=[1])], 1),
        ([classic(EMPTY), classic(a=[0])], 1),
        ([classic(a=[0]), classic(EMPTY)], 1),
        ([classic(EMPTY), classic(EMPTY)], 0),
    ],
)
def test_rebalances_of_a_classic_group_are_counted_at_least(
    groups: Sequence[Group], count: int
) -> None:
    row = followed(*(reading(5 * n, group) for n, group in enumerate(groups)))
    assert (row.group.rebalance_count, row.group.is_rebalance_count_exact) == (count, False)
    assert sum(each.count for each in row.rebalances) == count


def test_what_has_changed_in_a_rebalance_that_was_seen_on_its_way() -> None:
    row = followed(
        reading(0, classic(a=[0, 1], b=[2])),
        reading(5, classic(PREPARING, a=[], c=[])),
        reading(10, classic(a=[0, 1], c=[2])),
    )
    (rebalance,) = row.rebalances
    assert rebalance == SeenRebalance(5 * SECOND, 1, False, True, ("c",), ("b",), 1)


def test_a_rebalance_goes_on() -> None:
    row = followed(reading(0, classic(a=[0])), reading(5, classic(PREPARING, b=[])))
    assert row.rebalances == (SeenRebalance(5 * SECOND, 1, False, False),)


@pytest.mark.parametrize(
    ("type_", "field"),
    [
        (GroupType.CLASSIC, "generation_id"),
        (GroupType.CONSUMER, "group_epoch"),
        (GroupType.STREAMS, "group_epoch"),
        (GroupType.SHARE, "group_epoch"),
    ],
)
def test_generations_and_epochs_are_counted_exactly(type_: GroupType, field: str) -> None:
    def numbered(number: int | None) -> Group:
        values: Any = {field: number}
        return Group("g", type_, STABLE, **values)

    row = followed(*(reading(n, numbered(number)) for n, number in enumerate((4, 4, 7, 8))))
    assert (row.group.rebalance_count, row.group.is_rebalance_count_exact) == (4, True)
    assert [each.count for each in row.rebalances] == [3, 1]
    # a deleted group that was created again starts from zero; growth in between is unknown
    row = followed(*(reading(n, numbered(number)) for n, number in enumerate((4, 2))))
    assert (row.group.rebalance_count, row.group.is_rebalance_count_exact) == (0, False)
    row = followed(*(reading(n, numbered(number)) for n, number in enumerate((4, None, 6))))
    assert not row.group.is_rebalance_count_exact


# --- groups that come and go ---

AWAY = Problem(ProblemKind.UNREACHABLE, "Broker 3 is away.", broker=3)
DENIED = Problem(ProblemKind.DENIED, "No.", group_id="g")


def rows_of(*readings: LagReading) -> list[tuple[str, int | None, int]]:
    top = Top(FakeSource())
    for each in readings:
        rows = top.follow(each)
    return [(row.group.group_id, row.group.total_lag, row.group.time_ms) for row in rows]


A, B = replace(classic(), group_id="a"), replace(classic(), group_id="b")


def test_groups_come_and_go() -> None:
    assert rows_of(reading(0, A), reading(1, A, B)) == [("a", 0, 1000), ("b", 0, 1000)]
    assert rows_of(reading(0, A, B), reading(1, B)) == [("b", 0, 1000)]


def test_a_group_whose_broker_does_not_answer_keeps_its_row() -> None:
    missing = reading(1, B, problems=[AWAY])
    assert rows_of(reading(0, A, B, lag=5), missing) == [("a", 5, 0), ("b", 0, 1000)]
    unknown = reading(1, A, B, lag=None, problems=[AWAY])
    assert rows_of(reading(0, A, B, lag=5), unknown) == [("a", 5, 0), ("b", 5, 0)]
    assert rows_of(unknown) == [("a", None, 1000), ("b", None, 1000)]


def test_only_the_group_that_a_problem_names_keeps_its_row() -> None:
    g = classic()
    gone = reading(1, problems=[DENIED])
    assert rows_of(reading(0, A, g, lag=5), gone) == [("g", 5, 0)]
    of_topic = Problem(ProblemKind.DENIED, "No.", topic="orders")
    assert rows_of(reading(0, A, lag=5), reading(1, problems=[of_topic])) == []


def test_a_group_that_is_open_is_described() -> None:
    source = FakeSource(classic(a=[0]))
    refresh = Top(source).refresh(opened_id="g")
    assert refresh.opened is not None
    assert [member.client_id for member in refresh.opened.group.members] == ["a"]
    assert [row.group.group_id for row in refresh.rows] == ["g"]
    assert Top(source).describe("other") is None
