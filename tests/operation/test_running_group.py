"""A group that is there, as a scenario that begins with it."""

from __future__ import annotations

from kgroup.model.assignment import AssignedPartition
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.operation.running_group import group_as_it_is
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.scenario import Scenario
from tests.operation.sources import FakeSource


def slow_group() -> Scenario:
    """A classic group of one member, which is missed after ten minutes."""
    member = Member(
        "slow-1",
        client_id="slow",
        session_timeout_ms=600_000,
        subscription=Subscription(("t",)),
        assignment=(AssignedPartition(None, "t", 0),),
    )
    group = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        "consumer",
        "range",
        7,
        leader_id="slow-1",
        members=(member,),
    )
    return group_as_it_is(FakeSource(group), "g").data[0]


def test_a_group_is_watched_until_its_sessions_are_over() -> None:
    scenario = slow_group()
    assert scenario.duration_ms == 1_000 + 600_000 + 60_000
    step = '[[step]]\nat = "5m"\ndo = "crash"\nmember = "slow"\n'
    assert read_scenario("", "test", scenario).duration_ms == scenario.duration_ms
    assert read_scenario(step, "test", scenario).duration_ms == 300_000 + 600_000 + 60_000
    short = read_scenario(f'duration = "6m"\n{step}', "test", scenario)
    assert short.duration_ms == 360_000
