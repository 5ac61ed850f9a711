"""Groups of sink connectors: what tasks have is their connector's, and they restart together.

Expected names are those of `Worker.baseConsumerConfigs` of Kafka 4.3.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kgroup.model.group import Group
from kgroup.operation.plan.advice import advise
from kgroup.operation.plan.assignor import plan_assignors
from kgroup.operation.plan.connect import sink_connectors
from kgroup.operation.plan.consumer_protocol import plan_consumer_protocol
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.partitions import plan_partitions
from kgroup.operation.plan.plan import MigrationTarget, Plan, SettingChange, Verdict
from kgroup.operation.plan.running_group import plan_each, read_running
from kgroup.operation.plan.static_membership import plan_static_membership
from tests.operation.plan.fake_cluster import group_of
from tests.operation.sources import FakeSource

STRATEGY = "consumer.override.partition.assignment.strategy"


def tasks(connector: str = "to-db", count: int = 2) -> Group:
    group = group_of("abcdef"[:count])
    members = tuple(
        replace(member, client_id=f"connector-consumer-{connector}-{number}")
        for number, member in enumerate(group.members)
    )
    return replace(group, members=members)


def verdicts(plan: Plan) -> dict[str, Verdict]:
    return {precondition.code: precondition.verdict for precondition in plan.preconditions}


@pytest.mark.parametrize("connector", ["to-db", "x", "two words", "a-7"])
def test_a_connector_is_known_by_the_client_ids_of_its_tasks(connector: str) -> None:
    assert sink_connectors(tasks(connector).members) == (connector,)


@pytest.mark.parametrize(
    "client_id", [None, "", "connector-consumer-x", "my-connector-consumer-x-1"]
)
def test_other_members_are_no_tasks(client_id: str | None) -> None:
    (member, _) = tasks().members
    assert sink_connectors([replace(member, client_id=client_id)]) == ()


def test_tasks_cannot_have_ids_of_their_own() -> None:
    source = FakeSource(tasks())
    plan = plan_static_membership(read_running(source, "g"), ProgramBehavior())
    assert plan.steps == ()
    assert [*verdicts(plan)] == ["stable", "own-settings"]  # others are for consumers
    assert verdicts(plan)["own-settings"] is Verdict.REFUTED
    assert "consumer.override.group.instance.id" in (plan.preconditions[1].check or "")
    (row,) = advise(source, ["g"], ProgramBehavior()).data
    assert MigrationTarget.STATIC_MEMBERSHIP not in {proposal.target for proposal in row.proposals}
    assert any(reason.startswith("static-membership: not now.") for reason in row.reasons)


def test_another_strategy_is_set_for_the_connector_that_is_stopped_meanwhile() -> None:
    source = FakeSource(tasks())
    (plan,) = plan_assignors(source, ["g"], "cooperative-sticky", {}, ProgramBehavior()).data
    (step,) = plan.steps
    assert [(setting.member, setting.name) for setting in step.settings] == [(None, STRATEGY)]
    assert verdicts(plan)["connector"] is Verdict.UNKNOWN
    (bears,) = [
        precondition.text for precondition in plan.preconditions if precondition.code == "listeners"
    ]
    assert "3.2 or later" in bears  # KAFKA-12487
    done = " ".join(step.actions)
    for path in ("stop", "config", "resume"):
        assert f"PUT /connectors/to-db/{path}" in done
    assert plan.forecast is not None
    assert plan.forecast.failed == {}


def test_what_is_said_of_single_tasks_becomes_one_setting() -> None:
    told = {"a-1": ("range", "sticky"), "": ("range",)}
    (plan,) = plan_assignors(FakeSource(tasks()), ["g"], "sticky", told, ProgramBehavior()).data
    assert [(setting.member, setting.name) for setting in plan.steps[0].settings] == [
        (None, STRATEGY)
    ]


def test_the_consumer_protocol_is_set_for_the_connector() -> None:
    source = FakeSource(tasks("two words"))
    make = partial(plan_consumer_protocol, behavior=ProgramBehavior())
    (plan,) = plan_each(source, ["g"], make).data
    (step,) = plan.steps
    assert (
        SettingChange(None, "consumer.override.group.protocol", "classic", "consumer")
        in step.settings
    )
    assert all(setting.name.startswith("consumer.override.") for setting in step.settings)
    assert "PUT /connectors/two%20words/resume" in " ".join(step.actions)
    # An empty group may always change.
    assert "migration-policy" not in verdicts(plan)


def test_new_partitions_begin_at_the_first_record_unless_somebody_says_otherwise() -> None:
    source = FakeSource(tasks())
    (plan,) = plan_partitions(source, "t", 6, ("g",), ProgramBehavior()).data
    assert len(plan.steps) == 1
    assert verdicts(plan)["auto-offset-reset"] is Verdict.UNKNOWN
    assert plan.forecast is not None
    assert plan.forecast.skipped == 0
    (plan,) = plan_partitions(source, "t", 6, ("g",), ProgramBehavior(), reset="latest").data
    assert len(plan.steps) == 2
    expected = SettingChange(None, "consumer.override.auto.offset.reset", "latest", "earliest")
    assert plan.steps[0].settings == (expected,)
    assert "PUT /connectors/to-db/stop" in " ".join(plan.steps[0].actions)


def test_several_connectors_in_one_group_are_all_stopped() -> None:
    first, second = tasks("a").members[0], tasks("b").members[1]
    source = FakeSource(replace(tasks(), members=(first, second)))
    (plan,) = plan_assignors(source, ["g"], "sticky", {}, ProgramBehavior()).data
    assert "PUT /connectors/a/stop, PUT /connectors/b/stop" in plan.steps[0].actions[0]
