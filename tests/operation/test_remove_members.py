"""Who is removed from a group, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.assignment import AssignedPartition
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import Result
from kgroup.operation.remove_members import carry_out_removal, plan_removal
from kgroup.source.base import EVERYTHING, Question, Reading
from tests.operation.sources import FakeSource

STATIC = Member(
    "s-1", "i-1", assignment=(AssignedPartition(None, "t", 0), AssignedPartition(None, "t", 1))
)
PLAIN = Member("p-1", None, assignment=None)
OTHER = Member("p-2", None, assignment=())


class Live:
    """A cluster with a group; implements `LiveGroups`.

    Attributes:
        asked: what was to be removed.
        stubborn: ids of members that stay.
    """

    def __init__(self, *members: Member, stubborn: Collection[str] = ()) -> None:
        self.members = members
        self.asked: list[object] = []
        self.stubborn = stubborn
        self.capabilities = FakeSource().capabilities

    def __getattr__(self, name: str) -> object:
        return getattr(self._source(), name)

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        return self._source().read(group_ids, question)

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> tuple[Problem, ...]:
        self.asked.append((group_id, members, reason))
        gone = members.keys() - self.stubborn
        self.members = tuple(each for each in self.members if each.member_id not in gone)
        return tuple(Problem(ProblemKind.DENIED, f"{each}: No.", "g") for each in self.stubborn)

    def _source(self) -> FakeSource:
        return FakeSource(Group("g", GroupType.CLASSIC, GroupState.STABLE, members=self.members))


def test_members_go_by_both_their_ids() -> None:
    cluster = Live(PLAIN, STATIC, OTHER)
    plan = plan_removal(cluster, "g", ["p-1"], ["i-1"])  # type: ignore[arg-type]
    assert [(row.member_id, row.partition_count) for row in plan.data] == [
        ("p-1", None),
        ("s-1", 2),
    ]
    assert {row.result for row in plan.data} == {Result.PLANNED}
    assert cluster.asked == []
    done = carry_out_removal(cluster, plan, "moved")  # type: ignore[arg-type]
    assert cluster.asked == [("g", {"p-1": None, "s-1": "i-1"}, "moved")]
    assert [row.result for row in done.data] == [Result.DONE, Result.DONE]
    assert done.exit_status is ExitStatus.DONE


def test_who_is_there_still_was_not_removed() -> None:
    cluster = Live(PLAIN, OTHER, stubborn=["p-2"])
    plan = plan_removal(cluster, "g", every=True)  # type: ignore[arg-type]
    done = carry_out_removal(cluster, plan, None)  # type: ignore[arg-type]
    assert [row.result for row in done.data] == [Result.DONE, Result.REFUSED]
    assert [each.reason for each in done.errors] == ["p-2: No."]
    assert done.exit_status is ExitStatus.PARTLY


@pytest.mark.parametrize(
    ("member_ids", "instance_ids", "reasons"),
    [
        (["x"], [], ["The group has no member 'x'."]),
        (["i-1"], ["s-1"], ["The group has no member 'i-1'.", "The group has no instance 's-1'."]),
    ],
)
def test_names_that_are_none(
    member_ids: list[str], instance_ids: list[str], reasons: list[str]
) -> None:
    cluster = Live(PLAIN, STATIC)
    plan = plan_removal(cluster, "g", member_ids, instance_ids)  # type: ignore[arg-type]
    assert (plan.data, [each.reason for each in plan.errors]) == ((), reasons)
    assert carry_out_removal(cluster, plan, None) is plan  # type: ignore[arg-type]
    assert cluster.asked == [], "nobody is asked to remove nobody"


def test_a_group_without_members() -> None:
    plan = plan_removal(Live(), "g", every=True)  # type: ignore[arg-type]
    assert [each.reason for each in plan.errors] == ["The group has no members."]
    assert plan.exit_status is ExitStatus.NOT_FOUND
