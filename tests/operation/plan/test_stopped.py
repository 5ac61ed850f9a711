"""Groups that nobody is in: no target needs a restart, and each says what is to be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.errors import UnfitError
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.offset import CommittedOffset
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.consumer_protocol import plan_consumer_protocol
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.partitions import plan_partitions
from kgroup.operation.plan.plan import Plan, Verdict
from kgroup.operation.plan.running_group import read_running
from kgroup.operation.plan.static_membership import plan_dynamic_membership, plan_static_membership
from kgroup.operation.plan.verify import StepProgress, verify_step
from tests.operation.plan.fake_cluster import FakeCluster, group_of, running
from tests.operation.sources import FakeSource

STOPPED = replace(
    group_of("", None, state=GroupState.EMPTY),
    offsets=tuple(CommittedOffset("t", number, 10) for number in range(4)),
)


def settings(plan: Plan) -> list[tuple[str, str | None, str | None]]:
    (step,) = plan.steps
    return [(setting.name, setting.before, setting.after) for setting in step.settings]


def progress(plan: Plan, group: Group) -> StepProgress:
    (check,) = verify_step(FakeSource(group), [plan], 1, []).data
    return check.progress


def test_a_strategy_is_what_members_come_with() -> None:
    plan = plan_assignor(running(STOPPED), "sticky", {}, ProgramBehavior())
    name = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert settings(plan) == [("partition.assignment.strategy", None, name)]
    assert {precondition.verdict for precondition in plan.preconditions} == {Verdict.VERIFIED}
    assert plan.forecast is None
    assert progress(plan, STOPPED) is StepProgress.NOT_BEGUN
    assert progress(plan, group_of(strategy="sticky")) is StepProgress.DONE
    assert progress(plan, group_of(strategy="range")) is StepProgress.WRONG


def test_librdkafka_has_no_sticky() -> None:
    plan = plan_assignor(running(STOPPED), "sticky", {}, ProgramBehavior(), "librdkafka")
    assert plan.is_refuted
    assert plan.steps == ()


def test_an_empty_group_may_always_change_its_protocol() -> None:
    plan = plan_consumer_protocol(running(STOPPED), ProgramBehavior())
    assert settings(plan)[0] == ("group.protocol", None, "consumer")
    assert "migration-policy" not in {precondition.code for precondition in plan.preconditions}
    assert "broker-support" in {precondition.code for precondition in plan.preconditions}
    assert progress(plan, STOPPED) is StepProgress.NOT_BEGUN
    back = plan_consumer_protocol(running(STOPPED), ProgramBehavior(), back=True)
    assert settings(back)[0] == ("group.protocol", None, "classic")


def test_names_are_for_members_that_are_there() -> None:
    plan = plan_static_membership(running(STOPPED), ProgramBehavior())
    back = plan_dynamic_membership(running(STOPPED), ProgramBehavior())
    for each, told in ((plan, "its own group.instance.id"), (back, "remove group.instance.id")):
        assert not each.is_refuted
        assert each.steps == ()
        assert told in each.summary


def test_new_partitions_begin_at_their_first_record() -> None:
    cluster = FakeCluster(STOPPED, topics={"t": 4})
    (plan,) = plan_partitions(cluster, "t", 6, ("g",), ProgramBehavior()).data
    (step,) = plan.steps
    assert [command.split()[0] for command in step.commands] == ["kafka-topics.sh", "kgroup"]
    assert "--topic t:4,5 --uncommitted --to-earliest --execute" in step.commands[1]
    (plan,) = plan_partitions(cluster, "t", 6, ("g",), ProgramBehavior(), reset="earliest").data
    assert [command.split()[0] for command in plan.steps[0].commands] == ["kafka-topics.sh"]
    (plan,) = plan_partitions(cluster, "t", 4, ("g",), ProgramBehavior()).data
    assert "Nothing to do" in plan.summary


def test_a_topic_that_a_stopped_group_has_not_read() -> None:
    cluster = FakeCluster(STOPPED, topics={"other": 4})
    report = plan_partitions(cluster, "other", 6, ("g",), ProgramBehavior())
    assert report.data == ()
    assert "or commits of it, found neither" in report.errors[0].reason


@pytest.mark.parametrize("type_", [GroupType.SHARE, GroupType.STREAMS, GroupType.ZOOKEEPER])
def test_groups_of_other_types_are_unfit(type_: GroupType) -> None:
    group = group_of("", None, state=GroupState.EMPTY, type_=type_)
    with pytest.raises(UnfitError, match=f"expected what it takes, found one of type {type_}"):
        read_running(FakeSource(group), "g", expected="what it takes")


def test_members_that_were_no_consumers_are_unfit() -> None:
    group = replace(STOPPED, protocol_type="other")
    with pytest.raises(UnfitError, match="found 'other'"):
        read_running(FakeSource(group), "g")


def test_workers_are_never_static() -> None:
    """Kafka's `GroupRebalanceConfig` reads `group.instance.id` of consumers only."""
    for group in (STOPPED, group_of("ab")):
        workers = replace(group, protocol_type="connect")
        with pytest.raises(UnfitError, match=r"found 'connect': .* which are never static"):
            read_running(FakeSource(workers), "g")
