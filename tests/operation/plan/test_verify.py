"""How far a step is, by what its group looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kgroup.errors import ExitStatus, ProblemKind, UsageError
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.model.offset import StoreName
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets
from kgroup.operation.plan.new_consumer import plan_new_consumer
from kgroup.operation.plan.plan import Expected, Plan, PlanStep
from kgroup.operation.plan.plan_file import read_plan_file
from kgroup.operation.plan.running_group import plan_each
from kgroup.operation.plan.verify import StepCheck, StepProgress, verify_step, with_members_seen
from kgroup.operation.plan.zookeeper_group import plan_old
from kgroup.render.json_document import json_document, json_rows
from kgroup.source.base import GroupSource, OffsetReading
from tests.operation.plan.fake_cluster import group_of, running
from tests.operation.plan.old_tree import COMMITTED, GROUP, IDS, changed, empty, source, stopped
from tests.operation.sources import FakeSource, TreeSource

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
        "no member is there",
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
        "Members that joined since have the configuration of this step.",
        StepProgress.HALF_DONE,
        "joined since, configuration unknown: d; restart them with the others, too",
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
        "Members that joined since have the configuration of this step.",
        StepProgress.HALF_DONE,
        "1 of these joined since, configuration unknown: consumer-g-1@10.0.0.7#1, "
        "consumer-g-1@10.0.0.7#2, consumer-g-1@10.0.0.7#3, consumer-g-1@10.0.0.7#4; plan again",
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
        "2; not back: c; if they are gone for good, plan again",
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
    assert "cannot be distinguished from those of step 2" in (found.conditions[-1].found or "")
    assert check(plan, FIRST).progress is StepProgress.DONE
    noted = with_members_seen(plan, check(plan, FIRST))
    assert check(noted, SECOND, 2).progress is StepProgress.DONE


def test_a_step_that_is_not_in_the_plan(plan: Plan) -> None:
    with pytest.raises(
        UsageError, match="expected --step of at most 2, the last step of the plan, found 3"
    ):
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
    with pytest.raises(
        UsageError, match="was made for the cluster with the id one, found kafka-1:9092"
    ):
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


_FIRST = (GROUP, "orders", 0)
_AHEAD = {at: offset + 1 for at, offset in COMMITTED.items()}
_HALF = {IDS[0]: f"{GROUP}_vm-1795321669999-00000001"}
_RESTARTED = changed({**_HALF, IDS[1]: f"{GROUP}_vm-1795321669999-00000002"})


@pytest.fixture(scope="module")
def commits() -> Plan:
    """Plan how commits go to Kafka."""
    make = partial(plan_kafka_offsets, behavior=ProgramBehavior())
    return plan_old(source(changed()), [GROUP], {}, None, make).data[0]


@pytest.fixture(scope="module")
def consumers() -> Plan:
    """Plan how Java's consumers take over."""
    make = partial(plan_new_consumer, behavior=ProgramBehavior())
    return plan_old(source(changed(brokers=4)), [GROUP], {}, None, make).data[0]


def _look(found: GroupSource, plan: Plan, step: int) -> StepCheck:
    report = verify_step(found, [plan], step)
    (check,) = report.data
    is_done = check.progress is StepProgress.DONE
    assert report.exit_status is (ExitStatus.DONE if is_done else ExitStatus.PROBLEM)
    return check


@pytest.mark.parametrize(
    ("tree", "kafka", "progress"),
    [
        (changed(), {}, StepProgress.NOT_BEGUN),
        (changed(), COMMITTED, StepProgress.NOT_BEGUN),
        (changed(_HALF), {}, StepProgress.HALF_DONE),
        (changed(_HALF), COMMITTED, StepProgress.HALF_DONE),
        (_RESTARTED, {}, StepProgress.HALF_DONE),
        (_RESTARTED, COMMITTED | {_FIRST: 0}, StepProgress.HALF_DONE),
        (_RESTARTED, _AHEAD, StepProgress.HALF_DONE),
        (_RESTARTED, COMMITTED, StepProgress.DONE),
        (_RESTARTED, COMMITTED | {(GROUP, "old", 0): 5}, StepProgress.DONE),
    ],
)
def test_commits_to_both(
    commits: Plan,
    tree: ZookeeperTree,
    kafka: Mapping[tuple[str, str, int], int],
    progress: StepProgress,
) -> None:
    assert _look(source(tree, kafka), commits, 1).progress is progress


@pytest.mark.parametrize(
    ("kafka", "progress"),
    [
        (COMMITTED, StepProgress.HALF_DONE),
        (_AHEAD, StepProgress.DONE),
        (COMMITTED | {_FIRST: COMMITTED[_FIRST] + 1}, StepProgress.DONE),
        (_AHEAD | {_FIRST: 0}, StepProgress.HALF_DONE),
        ({}, StepProgress.HALF_DONE),
    ],
)
def test_commits_to_kafka_alone(
    commits: Plan, kafka: Mapping[tuple[str, str, int], int], progress: StepProgress
) -> None:
    """Kafka is ahead as soon as something is committed; while both are the same nobody knows."""
    assert _look(source(_RESTARTED, kafka), commits, 2).progress is progress


_SET = changed({IDS[0]: f"{GROUP}_first", IDS[1]: f"{GROUP}_second"})


@pytest.mark.parametrize(
    ("step", "ahead", "progress"),
    [
        (1, frozenset(), StepProgress.DONE),
        (1, frozenset({"first"}), StepProgress.HALF_DONE),
        (2, frozenset(), StepProgress.HALF_DONE),
        (2, frozenset({"first"}), StepProgress.HALF_DONE),
        (2, frozenset({"first", "second"}), StepProgress.DONE),
    ],
)
def test_of_consumers_whose_ids_are_set_each_has_to_commit(
    step: int, ahead: frozenset[str], progress: StepProgress
) -> None:
    """Those that commit to both, and then to Kafka alone, are known by nothing else."""
    make = partial(plan_kafka_offsets, behavior=ProgramBehavior())
    (plan,) = plan_old(source(_SET), [GROUP], {}, None, make).data
    assert not plan.steps[0].expected.is_restarted
    (group,) = source(_SET).read([GROUP]).image.groups.values()
    owned = {
        (GROUP, str(at.topic), at.partition)
        for member in group.members
        for at in member.assignment or ()
        if member.member_id.removeprefix(f"{GROUP}_") in ahead
    }
    kafka = {at: offset + (at in owned) for at, offset in COMMITTED.items()}
    assert _look(source(_SET, kafka), plan, step).progress is progress


def test_where_commits_to_kafka_are_not_known_nothing_is_done(commits: Plan) -> None:
    class Silent(TreeSource):
        subtree = source(_RESTARTED).subtree

    check = _look(Silent(_RESTARTED), commits, 1)
    assert check.progress is StepProgress.HALF_DONE
    (condition,) = [each for each in check.conditions if each.found is None]
    assert condition.text == "Kafka has the same commits as ZooKeeper."


@pytest.mark.parametrize(
    ("tree", "progress", "missing"),
    [
        (changed(), StepProgress.NOT_BEGUN, IDS),
        (stopped(IDS[0]), StepProgress.HALF_DONE, IDS[1:]),
        (_RESTARTED, StepProgress.HALF_DONE, None),
        (empty(), StepProgress.DONE, ()),
        (
            changed(without=tuple(f"/consumers/{GROUP}/ids/{each}" for each in IDS)),
            StepProgress.HALF_DONE,
            (),
        ),
    ],
    ids=["all there", "one there", "others there", "nobody", "owners left"],
)
def test_old_consumers_are_stopped(
    consumers: Plan, tree: ZookeeperTree, progress: StepProgress, missing: Sequence[str] | None
) -> None:
    check = _look(source(tree), consumers, 1)
    assert check.progress is progress
    if missing is not None:
        assert check.missing == tuple(missing)


@pytest.mark.parametrize(
    ("tree", "kafka", "progress"),
    [
        (changed(), {}, StepProgress.NOT_BEGUN),
        (empty(), {}, StepProgress.NOT_BEGUN),
        (empty(), {_FIRST: COMMITTED[_FIRST]}, StepProgress.HALF_DONE),
        (empty(), COMMITTED | {_FIRST: 0}, StepProgress.HALF_DONE),
        (empty(), COMMITTED, StepProgress.DONE),
    ],
)
def test_commits_are_copied(
    consumers: Plan,
    tree: ZookeeperTree,
    kafka: Mapping[tuple[str, str, int], int],
    progress: StepProgress,
) -> None:
    assert _look(source(tree, kafka), consumers, 2).progress is progress


def _java(count: int, topics: tuple[str, ...] = ("orders", "payments")) -> Group:
    members = tuple(Member(f"m-{n}", subscription=Subscription(topics)) for n in range(count))
    state = GroupState.STABLE if count else GroupState.EMPTY
    return Group(GROUP, GroupType.CLASSIC, state, "consumer", "range", 1, members=members)


@pytest.mark.parametrize(
    ("group", "progress"),
    [
        (_java(0), StepProgress.NOT_BEGUN),
        (_java(3), StepProgress.HALF_DONE),
        (_java(4, ("orders",)), StepProgress.HALF_DONE),
        (replace(_java(4), state=GroupState.PREPARING_REBALANCE), StepProgress.HALF_DONE),
        (replace(_java(4), assignor="roundrobin"), StepProgress.WRONG),
        (_java(4), StepProgress.DONE),
    ],
    ids=["nobody", "fewer", "one topic", "rebalance", "strategy", "done"],
)
def test_new_consumers_are_there(consumers: Plan, group: Group, progress: StepProgress) -> None:
    assert _look(FakeSource(group), consumers, 3).progress is progress


def test_each_step_is_looked_for_where_it_is_to_be_seen(consumers: Plan) -> None:
    with pytest.raises(UsageError, match="step 1 is verified in ZooKeeper: expected --zookeeper"):
        verify_step(FakeSource(_java(4)), [consumers], 1)
    with pytest.raises(UsageError, match="step 3 is verified with the brokers: expected --boot"):
        verify_step(source(empty()), [consumers], 3)


def test_plans_are_read_as_they_were_written(
    commits: Plan, consumers: Plan, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    plans = [commits, consumers]
    path.write_bytes(b"".join(json_document("plan kafka-offsets", json_rows(plans), [])))
    assert read_plan_file(path).data == plans
