"""Plans for commits that go from ZooKeeper to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from kgroup.errors import ExitStatus
from kgroup.model.group import Group, GroupType, Member
from kgroup.model.offset import CommitStore
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets
from kgroup.operation.plan.plan import Plan, Precondition, Verdict
from kgroup.operation.plan.zookeeper_group import plan_old
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource
from tests.operation.plan.old_tree import COMMITTED, GROUP, IDS, changed, empty, source
from tests.operation.sources import FakeSource, TreeSource
from tests.recorded_tree import recorded_tree

READ = sum(COMMITTED.values())


def _report(
    found: GroupSource, settings: Mapping[str, str] | None = None, group_id: str = GROUP
) -> Report[Plan]:
    make = partial(plan_kafka_offsets, behavior=ProgramBehavior())
    return plan_old(found, [group_id], settings or {}, "zk-1:2181/kafka", make)


def _plan(found: GroupSource, settings: Mapping[str, str] | None = None) -> Plan:
    (plan,) = _report(found, settings).data
    return plan


def _of(plan: Plan, code: str) -> Precondition:
    (precondition,) = [
        precondition for precondition in plan.preconditions if precondition.code == code
    ]
    return precondition


def test_first_to_both_then_to_kafka_alone() -> None:
    plan = _plan(source(recorded_tree()))
    assert [
        [(setting.name, setting.before, setting.after) for setting in step.settings]
        for step in plan.steps
    ] == [
        [("offsets.storage", "zookeeper", "kafka"), ("dual.commit.enabled", None, "true")],
        [("dual.commit.enabled", "true", "false")],
    ]
    assert [step.restarted for step in plan.steps] == [IDS, IDS]
    assert [step.expected.commits for step in plan.steps] == [CommitStore.BOTH, CommitStore.KAFKA]
    assert all(step.expected.is_restarted for step in plan.steps)
    assert (
        plan.steps[0]
        .commands[0]
        .startswith("kgroup offsets diff zookeeper:zk-1:2181/kafka kafka:127.0.0.1:")
    )
    verdicts = {precondition.code: precondition.verdict for precondition in plan.preconditions}
    assert verdicts == {
        "stable": Verdict.VERIFIED,
        "storage": Verdict.VERIFIED,
        "broker-version": Verdict.VERIFIED,
        "client-version": Verdict.UNKNOWN,
        "leftovers": Verdict.VERIFIED,
    }


def test_nothing_is_lost_or_read_again_but_without_the_plan() -> None:
    """Who looks in Kafka alone finds nothing there: `auto.offset.reset` says where it begins."""
    plan = _plan(source(recorded_tree()))
    assert plan.forecast is not None
    assert plan.naive is not None
    assert (plan.forecast.read_again, plan.forecast.skipped) == (0, 0)
    assert plan.naive.forecast.skipped > 0
    assert plan.naive.forecast.read_again == 0
    settings = {"auto.offset.reset": "smallest"}
    naive = _plan(source(recorded_tree()), settings).naive
    assert naive is not None
    assert naive.forecast.read_again >= READ
    assert naive.forecast.skipped == 0


def test_each_restart_is_two_rebalances() -> None:
    """One when a consumer goes, one when it is back: two consumers, two steps."""
    plan = _plan(source(recorded_tree()))
    assert [step.forecast and step.forecast.rebalances for step in plan.steps] == [4, 4]


_SAME = dict(COMMITTED)
_FIRST = (GROUP, "orders", 0)
_ALL = "/consumers/billing/offsets/"


@pytest.mark.parametrize(
    ("tree", "kafka", "steps", "verdict"),
    [
        (changed(), {}, 2, Verdict.VERIFIED),
        (changed(), _SAME, 2, Verdict.UNKNOWN),
        (changed(), {at: offset + 1 for at, offset in _SAME.items()}, 2, Verdict.UNKNOWN),
        (changed(), _SAME | {_FIRST: 1}, 2, Verdict.UNKNOWN),
        (changed(), {_FIRST: COMMITTED[_FIRST]}, 2, Verdict.UNKNOWN),
        (changed(without=(_ALL,)), _SAME, 0, Verdict.VERIFIED),
        (changed(without=(_ALL,)), {}, 2, Verdict.UNKNOWN),
    ],
    ids=["zookeeper", "same", "ahead", "one behind", "one", "kafka", "none"],
)
def test_the_plan_begins_where_the_group_stands(
    tree: ZookeeperTree, kafka: Mapping[tuple[str, str, int], int], steps: int, verdict: Verdict
) -> None:
    report = _report(source(tree, kafka))
    (plan,) = report.data
    assert len(plan.steps) == steps
    assert _of(plan, "storage").verdict is verdict
    assert report.exit_status is ExitStatus.DONE
    if not steps:
        assert plan.summary == "Nothing to do: members commit to Kafka only."


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"offsets.storage": "zookeeper"}, 2),
        ({"offsets.storage": "kafka"}, 1),  # to both by default
        ({"offsets.storage": "kafka", "dual.commit.enabled": "false"}, 0),
    ],
)
def test_what_settings_say_is_not_to_be_found_out(settings: Mapping[str, str], steps: int) -> None:
    plan = _plan(source(recorded_tree(), _SAME), settings)
    assert len(plan.steps) == steps
    assert _of(plan, "storage").verdict is Verdict.VERIFIED


def test_where_nobody_tells_commits_to_kafka() -> None:
    plan = _plan(TreeSource(recorded_tree()))
    assert [
        precondition.verdict for precondition in (_of(plan, "storage"), _of(plan, "leftovers"))
    ] == [Verdict.UNKNOWN] * 2
    assert len(plan.steps) == 2


def test_an_old_commit_in_kafka_that_is_larger_would_skip_records() -> None:
    plan = _plan(
        source(recorded_tree(), {_FIRST: COMMITTED[_FIRST] + 1}), {"offsets.storage": "zookeeper"}
    )
    leftover = _of(plan, "leftovers")
    assert (leftover.verdict, leftover.found) == (Verdict.UNKNOWN, "ahead: orders-0")


def test_a_group_in_a_rebalance_is_not_moved() -> None:
    tree = changed(without=("/consumers/billing/owners/orders/0",))
    report = _report(source(tree))
    (plan,) = report.data
    assert _of(plan, "stable").verdict is Verdict.REFUTED
    assert plan.steps == ()
    assert report.exit_status is ExitStatus.PROBLEM


@pytest.mark.parametrize(
    ("found", "group_id", "reason"),
    [
        (source(recorded_tree()), "nobody", "The group does not exist; "),
        (
            FakeSource(Group(GROUP, GroupType.CLASSIC, None, members=(Member("m"),))),
            GROUP,
            "expected ZooKeeper consumers, found a group of type classic",
        ),
    ],
)
def test_groups_for_which_there_is_no_plan(found: GroupSource, group_id: str, reason: str) -> None:
    report = _report(found, group_id=group_id)
    assert report.data == ()
    (problem,) = report.errors
    assert reason in problem.reason


def test_of_a_stopped_group_the_commits_are_copied() -> None:
    plan = _plan(source(empty()))
    copy, start = plan.steps
    assert copy.commands[0].startswith("kgroup offsets copy zookeeper:zk-1:2181/kafka kafka:")
    assert copy.copies is not None
    assert [(setting.name, setting.after) for setting in start.settings] == [
        ("offsets.storage", "kafka"),
        ("dual.commit.enabled", "false"),
    ]
    assert plan.forecast is None
    copied = _plan(source(empty(), COMMITTED))
    assert [step.title for step in copied.steps] == [start.title]


def test_members_whose_id_is_set_come_back_with_it() -> None:
    first, _ = IDS
    plan = _plan(source(changed({first: f"{GROUP}_mine"})))
    assert _of(plan, "made-ids").found == "consumer.id seems to be set by billing_mine"
    assert not any(step.expected.is_restarted for step in plan.steps)


@pytest.mark.parametrize(
    ("version", "is_there", "verdict"),
    [(1, True, Verdict.VERIFIED), (1, False, Verdict.UNKNOWN), (2, False, Verdict.VERIFIED)],
)
def test_brokers_that_keep_commits(version: int, is_there: bool, verdict: Verdict) -> None:
    """Those of 0.8.2 register as those of 0.8.0 do, but have made a topic for them."""
    gone = () if is_there else ("/brokers/topics/__consumer_offsets",)
    plan = _plan(source(changed(without=gone, brokers=version)))
    assert _of(plan, "broker-version").verdict is verdict
