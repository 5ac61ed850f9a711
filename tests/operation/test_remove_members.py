"""Who is removed from a group, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from kgroup.errors import BrokerError, ExitStatus, ProblemKind, UsageError
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import Result
from kgroup.operation.remove_members import carry_out_removal, plan_removal
from kgroup.source.base import EVERYTHING, GroupSource, Question, Reading
from tests.operation.sources import FakeSource

STATIC = Member(
    "s-1", "i-1", assignment=(AssignedPartition(None, "t", 0), AssignedPartition(None, "t", 1))
)
PLAIN = Member("p-1", None, assignment=None)
OTHER = Member("p-2", None, assignment=())


class Live(GroupSource):
    """A cluster with a group.

    Attributes:
        asked: what was to be removed.
        stubborn: ids of members that stay, and what is said of them.
        lost: raised by the look behind the removal.
        unread: problems of the look behind it.
    """

    def __init__(
        self,
        *members: Member,
        stubborn: Mapping[str, Problem | None] = {},
        lost: BrokerError | None = None,
        unread: tuple[Problem, ...] = (),
    ) -> None:
        self.members = members
        self.asked: list[object] = []
        self.stubborn = stubborn
        self.lost = lost
        self.unread = unread

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        if self.asked and self.lost is not None:
            raise self.lost
        reading = self._source().read(group_ids, question)
        return replace(reading, problems=self.unread if self.asked else ())

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> Mapping[str, Problem]:
        self.asked.append((group_id, members, reason))
        gone = members.keys() - self.stubborn
        self.members = tuple(member for member in self.members if member.member_id not in gone)
        return {each: problem for each, problem in self.stubborn.items() if problem is not None}

    def _source(self) -> FakeSource:
        return FakeSource(Group("g", GroupType.CLASSIC, GroupState.STABLE, members=self.members))


def test_members_go_by_both_their_ids() -> None:
    cluster = Live(PLAIN, STATIC, OTHER)
    plan = plan_removal(cluster, "g", ["p-1"], ["i-1"])
    assert [(row.member_id, row.partition_count) for row in plan.data] == [
        ("p-1", None),
        ("s-1", 2),
    ]
    assert {row.result for row in plan.data} == {Result.PLANNED}
    assert cluster.asked == []
    done = carry_out_removal(cluster, plan, "moved")
    assert cluster.asked == [("g", {"p-1": None, "s-1": "i-1"}, "moved")]
    assert [row.result for row in done.data] == [Result.DONE, Result.DONE]
    assert done.exit_status is ExitStatus.DONE


def test_members_go_by_names_that_are_not_their_ids() -> None:
    web = Member("web-1-8f3c", None, "web-1", "/10.0.0.1")
    other = Member("web-10-4a1d", None, "web-10", "/10.0.0.2")
    for name in ("web-1", "10.0.0.1", "web-1-8"):
        plan = plan_removal(Live(web, other, STATIC), "g", [name])
        assert ([row.member_id for row in plan.data], plan.errors) == (["web-1-8f3c"], ())
        assert plan.notes == (f"{name} is web-1 at 10.0.0.1 (web-1-8f3c)",)
    assert plan_removal(Live(other), "g", ["web-1"]).data == (), "its id begins so"
    assert plan_removal(Live(web, STATIC), "g", ["web-1-8f3c"]).notes == ()
    with pytest.raises(UsageError, match="'web-1' means 2 members"):
        plan_removal(Live(web, replace(web, member_id="web-1-77aa"), STATIC), "g", ["web-1", "s-1"])


def test_instances_may_not_be_known() -> None:
    """Brokers before 2.4 have static members, but do not tell of them."""
    for members, text in (
        ((PLAIN, OTHER), "'i-2', as far as known: brokers before 2.4 do not report instance ids."),
        ((PLAIN, STATIC), "The group has no instance 'i-2'."),
    ):
        plan = plan_removal(Live(*members), "g", [], ["i-2"])
        (problem,) = plan.errors
        assert problem.reason.endswith(text)
        assert plan.exit_status is ExitStatus.NOT_FOUND


def test_who_is_there_still_was_not_removed() -> None:
    cluster = Live(PLAIN, OTHER, stubborn={"p-2": Problem(ProblemKind.DENIED, "p-2: No.", "g")})
    plan = plan_removal(cluster, "g", every=True)
    done = carry_out_removal(cluster, plan, None)
    assert [row.result for row in done.data] == [Result.DONE, Result.REFUSED]
    assert [error.reason for error in done.errors] == ["p-2: No."]
    assert done.exit_status is ExitStatus.PARTLY


def test_who_was_removed_and_is_there_again_is_told() -> None:
    """A member of the consumer protocol that runs on joins again under the id that it had."""
    cluster = Live(PLAIN, stubborn={"p-1": None})
    plan = plan_removal(cluster, "g", every=True)
    done = carry_out_removal(cluster, plan, None)
    assert [row.result for row in done.data] == [Result.REFUSED]
    assert [error.reason for error in done.errors] == [
        "p-1: Still a member, or a member again: running clients rejoin."
    ]


GONE = Problem(ProblemKind.NOT_FOUND, "p-1: The group has no such member.", "g")
LOST = Problem(ProblemKind.UNKNOWN_END, "No answer.", "g")
UNREAD = Problem(ProblemKind.DENIED, "The cluster returned no.", "g")


@pytest.mark.parametrize(
    ("told", "stays", "unread", "result", "errors"),
    [
        (None, False, (), Result.DONE, ()),
        (None, False, (UNREAD,), Result.DONE, ()),
        (GONE, False, (), Result.REFUSED, (GONE,)),
        (LOST, False, (), Result.DONE, ()),
        (LOST, True, (), Result.UNKNOWN, (LOST,)),
        (LOST, False, (UNREAD,), Result.UNKNOWN, (LOST,)),
    ],
    ids=[
        *("done", "done, and not seen", "gone by itself"),
        *("not known, and gone", "not known, and there", "not known, and not seen"),
    ],
)
def test_the_answer_counts_and_the_look_where_there_is_none(
    told: Problem | None,
    stays: bool,
    unread: tuple[Problem, ...],
    result: Result,
    errors: tuple[Problem, ...],
) -> None:
    cluster = Live(PLAIN, STATIC, unread=unread)
    plan = plan_removal(cluster, "g", ["p-1"])
    cluster.stubborn = {"p-1": told} if stays or told is not None else {}
    if not stays:
        cluster.members = (STATIC,)
    done = carry_out_removal(cluster, plan, None)
    assert [row.result for row in done.data] == [result]
    assert done.errors == errors
    assert done.notes == tuple(
        f"the members of the group could not be read again: {problem.reason}" for problem in unread
    )


def test_a_broker_that_is_lost_behind_the_removal_takes_no_report_along() -> None:
    lost = BrokerError(ProblemKind.SILENT, "broker 1 is silent", 1)
    cluster = Live(PLAIN, lost=lost)
    plan = plan_removal(cluster, "g", every=True)
    done = carry_out_removal(cluster, plan, None)
    assert [row.result for row in done.data] == [Result.DONE]
    assert done.notes == ("the members of the group could not be read again: broker 1 is silent.",)


def test_nobody_answers_when_members_are_to_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> Mapping[str, Problem]:
        raise BrokerError(ProblemKind.SILENT, "broker 1 is silent", 1)

    cluster = Live(PLAIN)
    plan = plan_removal(cluster, "g", every=True)
    monkeypatch.setattr(cluster, "remove_members", silent)
    done = carry_out_removal(cluster, plan, None)
    assert [row.result for row in done.data] == [Result.REFUSED]
    assert [error.reason for error in done.errors] == ["broker 1 is silent; nothing was changed."]
    assert done.exit_status is ExitStatus.FAILED


@pytest.mark.parametrize(
    ("member_ids", "instance_ids", "reasons"),
    [
        (["x"], [], ["The group has no member 'x'; it has: p-1, s-1."]),
        (
            [""],
            ["s-1"],
            ["The group has no member ''; it has: p-1, s-1.", "The group has no instance 's-1'."],
        ),
    ],
)
def test_names_that_are_none(
    member_ids: list[str], instance_ids: list[str], reasons: list[str]
) -> None:
    cluster = Live(PLAIN, STATIC)
    plan = plan_removal(cluster, "g", member_ids, instance_ids)
    assert (plan.data, [error.reason for error in plan.errors]) == ((), reasons)
    assert carry_out_removal(cluster, plan, None) is plan
    assert cluster.asked == [], "nobody is asked to remove nobody"


def test_a_group_without_members() -> None:
    plan = plan_removal(Live(), "g", every=True)
    assert [error.reason for error in plan.errors] == ["The group has no members."]
    assert plan.exit_status is ExitStatus.NOT_FOUND


@pytest.mark.parametrize("type_", [GroupType.SHARE, GroupType.STREAMS, GroupType.ZOOKEEPER])
def test_groups_that_only_their_members_leave(type_: GroupType) -> None:
    """Kafka 4.3.1 answers LeaveGroup of streams groups as if the member were not there."""
    source = FakeSource(Group("g", type_, GroupState.STABLE, members=(PLAIN,)))
    plan = plan_removal(source, "g", every=True)
    assert [row.result for row in plan.data] == [Result.REFUSED]
    (problem,) = plan.errors
    assert problem.kind is ProblemKind.UNSUPPORTED
    assert problem.reason.startswith(f"Only the member itself can leave a {type_} group")
    assert carry_out_removal(Live(PLAIN), plan, None) is plan
