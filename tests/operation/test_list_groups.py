from __future__ import annotations

import re
from typing import Any

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.list_groups import GroupFilter, list_groups
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
