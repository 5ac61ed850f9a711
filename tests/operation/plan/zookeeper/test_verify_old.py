"""Steps of consumers that leave ZooKeeper, looked at before, while and after they are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kgroup.errors import ExitStatus, UsageError
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets
from kgroup.operation.plan.new_consumer import plan_new_consumer
from kgroup.operation.plan.plan import Plan
from kgroup.operation.plan.plan_file import read_plan_file
from kgroup.operation.plan.verify import StepCheck, StepProgress, verify_step
from kgroup.operation.plan.zookeeper_group import plan_old
from kgroup.render.json_document import json_document, json_rows
from kgroup.source.base import GroupSource
from tests.operation.plan.zookeeper.old_tree import (
    COMMITTED,
    GROUP,
    IDS,
    changed,
    empty,
    source,
    stopped,
)
from tests.operation.sources import FakeSource, TreeSource

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
    assert condition.text == "Kafka has the commits that ZooKeeper has."


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
    with pytest.raises(UsageError, match="step 1 is to be seen in ZooKeeper: expected --zookeeper"):
        verify_step(FakeSource(_java(4)), [consumers], 1)
    with pytest.raises(UsageError, match="step 3 is to be seen at the brokers: expected --boot"):
        verify_step(source(empty()), [consumers], 3)


def test_plans_are_read_as_they_were_written(
    commits: Plan, consumers: Plan, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    plans = [commits, consumers]
    path.write_bytes(b"".join(json_document("plan kafka-offsets", json_rows(plans), [])))
    assert read_plan_file(path).data == plans
