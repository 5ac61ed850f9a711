"""How far a step is, by what its group looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.errors import ExitStatus, ProblemKind, UsageError
from kgroup.model.group import Group, GroupState
from kgroup.model.offset import StoreName
from kgroup.model.problem import Problem
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import Expected, Plan, PlanStep
from kgroup.operation.plan.running_group import plan_each
from kgroup.operation.plan.verify import StepCheck, StepProgress, verify_step, with_members_seen
from kgroup.source.base import OffsetReading
from tests.operation.plan.groups import group_of, running
from tests.operation.sources import FakeSource

BEFORE = group_of()
FIRST = group_of(strategy="cooperative-sticky", incarnation=2)
SECOND = group_of(strategy="cooperative-sticky", incarnation=3)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_assignor(running(BEFORE), "cooperative-sticky", {}, ProgramBehavior())


def check(plan: Plan, group: Group, step: int = 1) -> StepCheck:
    (found,) = verify_step(FakeSource(group), [plan], step).data
    return found


def mixed(*groups: Group) -> Group:
    """Take a member of each of these groups, in order."""
    members = tuple(group.members[number] for number, group in enumerate(groups))
    return replace(groups[0], members=members)


def test_nothing_was_done(plan: Plan) -> None:
    found = check(plan, BEFORE)
    assert found.progress is StepProgress.NOT_BEGUN
    assert found.missing == ("a", "b", "c")
    # That the group still uses its old strategy is not wrong yet.
    (strategy,) = [condition for condition in found.conditions if "strategy" in condition.text]
    assert (strategy.progress, strategy.found) == (StepProgress.NOT_BEGUN, "range")


def test_some_have_taken_it(plan: Plan) -> None:
    found = check(plan, mixed(BEFORE, FIRST, BEFORE))
    assert found.progress is StepProgress.HALF_DONE
    assert found.missing == ("a", "c")
    assert StepProgress.WRONG not in {condition.progress for condition in found.conditions}


def test_one_is_away(plan: Plan) -> None:
    found = check(plan, replace(BEFORE, members=BEFORE.members[1:]))
    assert found.progress is StepProgress.HALF_DONE
    assert found.missing == ("b", "c")


def test_one_member_is_counted_as_one() -> None:
    alone = replace(BEFORE, members=BEFORE.members[:1])
    plan = plan_assignor(running(alone), "sticky", {}, ProgramBehavior())
    texts = [condition.text for condition in check(plan, alone).conditions]
    assert texts[:2] == ["The member was restarted.", "The group has 1 member or more."]


def test_all_are_away(plan: Plan) -> None:
    found = check(plan, replace(BEFORE, members=(), state=GroupState.EMPTY))
    assert found.progress is StepProgress.HALF_DONE
    assert (found.conditions[0].progress, found.conditions[0].found) == (
        StepProgress.HALF_DONE,
        "nobody is there",
    )


def test_done(plan: Plan) -> None:
    assert check(plan, FIRST).progress is StepProgress.DONE
    report = verify_step(FakeSource(FIRST), [plan], 1)
    assert report.exit_status is ExitStatus.DONE
    assert verify_step(FakeSource(BEFORE), [plan], 1).exit_status is ExitStatus.PROBLEM


def test_all_have_taken_it_and_the_group_uses_something_else(plan: Plan) -> None:
    found = check(plan, replace(FIRST, assignor="range"))
    assert found.progress is StepProgress.WRONG
    assert StepProgress.WRONG in {condition.progress for condition in found.conditions}
    # As long as a rebalance goes on, that may still come right.
    moving = replace(FIRST, assignor=None, state=GroupState.PREPARING_REBALANCE)
    assert check(plan, moving).progress is StepProgress.HALF_DONE


def test_who_took_the_first_step_has_not_taken_the_second(plan: Plan) -> None:
    noted = with_members_seen(plan, check(plan, FIRST))
    assert [member.member_id for member in noted.steps[0].seen or ()] == ["a-2", "b-2", "c-2"]
    found = check(noted, FIRST, 2)
    assert found.progress is StepProgress.NOT_BEGUN
    assert check(noted, mixed(SECOND, SECOND, FIRST), 2).missing == ("c",)
    assert check(noted, SECOND, 2).progress is StepProgress.DONE


def test_members_that_came_between_two_steps_are_restarted_too(plan: Plan) -> None:
    first = group_of("abcde", strategy="cooperative-sticky", incarnation=2)
    second = group_of("abcde", strategy="cooperative-sticky", incarnation=3)
    noted = with_members_seen(plan, check(plan, first))
    assert check(noted, first, 2).progress is StepProgress.NOT_BEGUN
    found = check(noted, replace(first, members=(second.members[0], *first.members[1:])), 2)
    assert found.progress is StepProgress.HALF_DONE
    assert found.missing == ("b", "c", "d", "e")
    assert found.conditions[0].text == "All 5 members were restarted."


def conditions(found: StepCheck) -> list[tuple[str, StepProgress, str | None]]:
    return [(condition.text, condition.progress, condition.found) for condition in found.conditions]


def test_a_member_that_came_after_the_step_before(plan: Plan) -> None:
    """It may list both strategies or one: no cluster tells it, so it is to be restarted, too."""
    noted = with_members_seen(plan, check(plan, FIRST))
    more = group_of("abcd", strategy="cooperative-sticky", incarnation=3)
    found = check(noted, more, 2)
    assert (found.progress, found.missing, found.new) == (StepProgress.HALF_DONE, (), ("d",))
    assert (
        "Members that came since were started as the step says.",
        StepProgress.HALF_DONE,
        "came since, nobody tells how: d; restart them with the others, too",
    ) in conditions(found)
    noted = with_members_seen(noted, found)
    assert [member.member_id for member in noted.steps[1].met or ()] == ["d-3"]
    assert noted.steps[1].seen is None
    found = check(noted, more, 2)
    assert (found.progress, found.missing, found.new) == (StepProgress.HALF_DONE, ("d",), ())
    again = group_of("abcd", strategy="cooperative-sticky", incarnation=4)
    done = check(noted, again, 2)
    assert (done.progress, done.new) == (StepProgress.DONE, ())
    assert done.conditions[0].text == "All 4 members were restarted."
    assert len(with_members_seen(noted, done).steps[1].seen or ()) == 4


def test_a_member_that_came_while_one_is_away(plan: Plan) -> None:
    """So many are there as before, but c is not back, and d is not it: it has another name."""
    noted = with_members_seen(plan, check(plan, FIRST))
    others = group_of("abd", strategy="cooperative-sticky", incarnation=3)
    both = replace(others, members=(*others.members, FIRST.members[2]))
    found = check(noted, both, 2)
    assert (found.progress, found.missing, found.new) == (StepProgress.HALF_DONE, ("c",), ("d",))
    # Whether c has come back as d, with another name, nobody tells: it has another id.
    assert check(noted, others, 2).progress is StepProgress.DONE


def test_of_members_with_one_name_nobody_tells_which_came_later(plan: Plan) -> None:
    def alike(group: Group) -> Group:
        members = tuple(
            replace(member, client_id="consumer-g-1", client_host="/10.0.0.7")
            for member in group.members
        )
        return replace(group, members=members)

    noted = with_members_seen(plan, check(plan, alike(FIRST)))
    more = alike(group_of("abcd", strategy="cooperative-sticky", incarnation=3))
    found = check(noted, more, 2)
    assert (found.progress, found.new) == (StepProgress.HALF_DONE, ())
    assert (
        "Members that came since were started as the step says.",
        StepProgress.HALF_DONE,
        "1 of these came since, nobody tells how: consumer-g-1@10.0.0.7#1, "
        "consumer-g-1@10.0.0.7#2, consumer-g-1@10.0.0.7#3, consumer-g-1@10.0.0.7#4; plan anew",
    ) in conditions(found)
    assert with_members_seen(noted, found) == noted


def test_a_new_strategy_shows_that_every_member_supports_it(plan: Plan) -> None:
    more = group_of("abcd", strategy="cooperative-sticky", incarnation=2)
    found = check(plan, more)
    assert (found.progress, found.new) == (StepProgress.DONE, ("d",))
    early = check(plan, replace(more, members=(*more.members[:2], *BEFORE.members[2:])))
    assert early.progress is StepProgress.HALF_DONE
    assert with_members_seen(plan, early) == plan


def test_a_group_that_has_become_smaller(plan: Plan) -> None:
    found = check(plan, replace(FIRST, members=FIRST.members[:2]))
    assert found.progress is StepProgress.HALF_DONE
    assert (
        "The group has 3 members or more.",
        StepProgress.HALF_DONE,
        "2; not back: c; where that is for good, plan anew",
    ) in conditions(found)


def test_an_earlier_step_may_be_looked_at_again(plan: Plan) -> None:
    """Before the next one is verified, and after."""
    noted = with_members_seen(plan, check(plan, FIRST))
    again = check(noted, SECOND, 1)
    assert again.progress is StepProgress.DONE
    assert with_members_seen(noted, again) == noted
    done = check(noted, SECOND, 2)
    assert done.progress is StepProgress.DONE
    noted = with_members_seen(noted, done)
    noted = with_members_seen(noted, check(noted, SECOND, 1))
    assert check(noted, SECOND, 2).progress is StepProgress.DONE


def test_a_step_before_that_nobody_has_verified(plan: Plan) -> None:
    found = check(plan, FIRST, 2)
    assert found.progress is StepProgress.HALF_DONE
    assert "cannot be told from those of step 2" in (found.conditions[-1].found or "")
    assert check(plan, FIRST).progress is StepProgress.DONE
    noted = with_members_seen(plan, check(plan, FIRST))
    assert check(noted, SECOND, 2).progress is StepProgress.DONE


def test_a_step_that_is_not_in_the_plan(plan: Plan) -> None:
    with pytest.raises(UsageError, match="expected --step of 2 at most, as the plan has, found 3"):
        verify_step(FakeSource(BEFORE), [plan], 3)
    with pytest.raises(UsageError, match="the plan has no step"):
        verify_step(FakeSource(BEFORE), [replace(plan, steps=())], 1)
    with pytest.raises(UsageError, match="there is no plan for x; there are plans for g"):
        verify_step(FakeSource(BEFORE), [plan], 1, ["x"])


class _Named(FakeSource):
    """A group in a cluster that tells its id."""

    store_name: StoreName | None = None

    def __init__(self, group: Group, cluster_id: str | None) -> None:
        super().__init__(group)
        self.store_name = StoreName("kafka-1:9092", cluster_id)

    def read_offsets(self, *_: object) -> OffsetReading:
        raise AssertionError("nothing is asked for")

    def write_offsets(self, *_: object) -> tuple[Problem, ...]:
        raise AssertionError("nothing is written")


def test_another_cluster(plan: Plan) -> None:
    (made,) = plan_each(_Named(BEFORE, "one"), ["g"], lambda _: plan, ProgramBehavior()).data
    assert made.cluster_id == "one"
    assert any("of 1 member at a time" in each for each in made.assumed)
    for cluster_id in ("one", None):
        (found,) = verify_step(_Named(FIRST, cluster_id), [made], 1).data
        assert found.progress is StepProgress.DONE
    with pytest.raises(UsageError, match="was made in the cluster of id one; found kafka-1:9092"):
        verify_step(_Named(FIRST, "two"), [made], 1)


def test_a_group_that_is_gone_when_its_last_member_has_left() -> None:
    """Without commits no coordinator keeps it; what cannot be read may be there, though."""
    stopped = PlanStep(1, "stop", expected=Expected(state=GroupState.EMPTY))
    plan = replace(
        plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior()), steps=(stopped,)
    )
    (found,) = (gone := verify_step(FakeSource(), [plan], 1)).data
    assert (found.progress, gone.exit_status) == (StepProgress.DONE, ExitStatus.DONE)
    assert check(plan, BEFORE).progress is StepProgress.NOT_BEGUN
    silent = FakeSource(problems=(Problem(ProblemKind.SILENT, "a broker is silent", broker=1),))
    assert verify_step(silent, [plan], 1).data == ()
    started = replace(plan, steps=(replace(stopped, expected=Expected(members=1)),))
    assert verify_step(FakeSource(), [started], 1).exit_status is ExitStatus.NOT_FOUND
