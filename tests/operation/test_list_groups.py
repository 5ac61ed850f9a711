from __future__ import annotations

import re
from typing import Any

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.group_filter import GroupFilter
from kgroup.operation.list_groups import (
    SORTS,
    ListedGroup,
    list_groups,
    list_with_lag,
    sorted_groups,
)
from kgroup.operation.report import Report, Sort
from tests.operation.sources import FakeSource

BILLING = Group(
    "billing",
    GroupType.CLASSIC,
    GroupState.STABLE,
    protocol_type="consumer",
    assignor="range",
    offsets_partition=4,
    members=(Member("m", subscription=Subscription(("payments",))),),
    offsets=(CommittedOffset("orders", 0, 5),),
)
BILLING_OLD = Group("billing-old", GroupType.CLASSIC, GroupState.EMPTY)
SHARE = Group("share", GroupType.SHARE, GroupState.EMPTY)
UNKNOWN = Group("streams", GroupType.STREAMS, None)
SOURCE = FakeSource(UNKNOWN, SHARE, BILLING_OLD, BILLING)


def test_everything_sorted_by_id() -> None:
    report = list_groups(SOURCE)
    assert [row.group_id for row in report.data] == ["billing", "billing-old", "share", "streams"]
    assert (report.errors, report.notes) == ((), ())


def test_row() -> None:
    row = list_groups(SOURCE).data[0]
    assert (row.type, row.state) == (GroupType.CLASSIC, GroupState.STABLE)
    assert (row.protocol_type, row.assignor) == ("consumer", "range")
    assert (row.coordinator, row.offsets_partition, row.member_count) == (None, 4, 1)
    assert row.topics == ("orders", "payments")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"states": [GroupState.STABLE]}, ["billing"]),
        ({"states": [GroupState.EMPTY]}, ["billing-old", "share"]),
        ({"states": list(GroupState)}, ["billing", "billing-old", "share"]),
        ({"types": [GroupType.SHARE, GroupType.STREAMS]}, ["share", "streams"]),
        ({"types": [GroupType.CLASSIC], "states": [GroupState.EMPTY]}, ["billing-old"]),
        ({"regex": re.compile("bill")}, []),
        ({"regex": re.compile("bill.*")}, ["billing", "billing-old"]),
        ({"topics": ["orders"]}, ["billing"]),
        ({"topics": ["payments", "absent"]}, ["billing"]),
        ({"topics": ["absent"]}, []),
    ],
)
def test_filters(filters: dict[str, Any], expected: list[str]) -> None:
    assert [row.group_id for row in list_groups(SOURCE, GroupFilter(**filters)).data] == expected


def test_problems_and_notes_of_the_source_are_passed_on() -> None:
    problem = Problem(ProblemKind.GARBAGE, "bytes")
    report = list_groups(FakeSource(BILLING, problems=[problem], notes=["a note"]))
    assert (report.errors, report.notes) == ((problem,), ("a note",))


def test_members_are_counted_only_where_they_were_asked_for() -> None:
    source = FakeSource(Group("g", GroupType.CLASSIC, GroupState.EMPTY))
    assert [row.member_count for row in list_groups(source).data] == [0]
    (row,) = list_groups(source, members=False).data
    assert (row.member_count, row.topics) == (None, None)
    (row,) = list_groups(source, with_topics=False).data
    assert (row.member_count, row.topics) == (0, None)
    (row,) = list_groups(
        SOURCE, GroupFilter(topics=["orders"]), members=False, with_topics=False
    ).data
    assert (row.member_count, row.topics) == (1, ("orders", "payments"))


EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE


def committed(
    group_id: str,
    *offsets: tuple[int, int | None],
    members: int = 0,
    state: GroupState | None = EMPTY,
    since_ms: int | None = None,
) -> Group:
    """Return a group that has committed partitions of "orders": offsets, and times."""
    return Group(
        group_id,
        GroupType.CLASSIC,
        state,
        members=tuple(Member(f"{group_id}-{number}") for number in range(members)),
        offsets=tuple(
            CommittedOffset("orders", partition, offset, commit_timestamp_ms=time_ms)
            for partition, (offset, time_ms) in enumerate(offsets)
        ),
        state_timestamp_ms=since_ms,
    )


def ids(report: Report[ListedGroup]) -> list[str]:
    return [row.group_id for row in report.data]


def test_least_lag_leaves_out_what_may_have_it_with_a_note() -> None:
    source = FakeSource(
        committed("a", (4, None)),
        committed("b", (9, None)),
        committed("c", (9, None), (0, None)),  # the end of orders-1 is not known
        committed("d"),
        ends={("orders", 0): 10},
    )
    report = list_with_lag(source, min_lag=6)
    assert ids(report) == ["a"]
    assert report.notes == ("1 group left out ('c'): their lag is not known and may be 6 or more.",)
    assert list_with_lag(source, min_lag=1).notes == ()
    assert ids(list_with_lag(source, min_lag=1)) == ["a", "b", "c"]


def test_idle_groups_have_neither_members_nor_commits_since() -> None:
    source = FakeSource(
        committed("busy", (1, 1_000), members=1, state=STABLE),
        committed("fresh", (1, 1_000), (2, 5_001)),
        committed("hidden", (1, 1_000)),
        committed("left", (1, 1_000), since_ms=6_000),
        committed("never", since_ms=2_000),
        committed("old", (1, 1_000), (2, 5_000)),
        committed("refused", (1, 1_000), state=STABLE),
        committed("unborn"),
        committed("untimed", (1, None), since_ms=1_000),
        problems=[Problem(ProblemKind.DENIED, "no", group_id="hidden")],
    )
    report = list_with_lag(source, idle_since_ms=5_000)
    assert ids(report) == ["never", "old"]
    assert report.notes == (
        "4 groups left out ('hidden', 'refused', 'unborn', 'untimed'): their members, or the time "
        "of their last commit, are unknown.",
    )


def test_members_that_a_coordinator_does_not_describe_are_not_0() -> None:
    source = FakeSource(
        committed("empty"),
        committed("old", state=None),
        committed("refused", state=STABLE),
        committed("some", members=2, state=STABLE),
    )
    for report in (list_with_lag(source), list_groups(source)):
        assert [row.member_count for row in report.data] == [0, None, None, 2]


def test_a_filter_does_not_make_a_failure_of_a_part() -> None:
    problem = Problem(ProblemKind.DENIED, "no", group_id="b")
    source = FakeSource(committed("a", (4, None)), ends={("orders", 0): 10}, problems=[problem])
    report = list_with_lag(source, min_lag=100)
    assert (report.data, report.exit_status) == ((), ExitStatus.PARTLY)


@pytest.mark.parametrize("key", SORTS)
@pytest.mark.parametrize("is_descending", [False, True])
def test_sorted_groups_are_in_order_and_unknown_ones_last(key: str, is_descending: bool) -> None:
    source = FakeSource(
        committed("a", (4, 7), members=1, state=STABLE),
        committed("b", (9, 3)),
        committed("c", state=None),
        committed("d", (9, 9), members=2, state=GroupState.PREPARING_REBALANCE),
        ends={("orders", 0): 10},
    )
    rows = sorted_groups(list_with_lag(source), Sort(key, is_descending)).data
    field = {
        "name": "group_id",
        "lag": "total_lag",
        "time-lag": "max_time_lag_ms",
        "state": "state",
        "members": "member_count",
        "last-commit": "last_commit_timestamp_ms",
    }[key]
    values = [getattr(row, field) for row in rows]
    known = [value for value in values if value is not None]
    assert values == sorted(known, reverse=is_descending) + [None] * (len(values) - len(known))
    assert {row.group_id for row in rows} == set("abcd")


def test_time_lags_need_a_cluster() -> None:
    report = list_with_lag(FakeSource(committed("a", (4, None))), time_lags=True)
    assert report.data[0].max_time_lag_ms is None
    assert report.notes == ("Time lags are unknown: only a live cluster has the records to read.",)
