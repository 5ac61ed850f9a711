"""What moves cost: until the group rests again, however long that takes."""

from __future__ import annotations

from dataclasses import replace

from kgroup.operation.plan.forecast import NOT_PLANNED, Habits, Move, forecast, rolling_restart
from kgroup.operation.plan.plan import Forecast
from kgroup.simulation.scenario.scenario import Action, Step
from tests.operation.plan.groups import group_of, running

SESSION_MS = 45_000
HEARTBEAT_MS = 3_000


def cost(move: Move, group: str = "abc", *, static: bool = False, brokers: int = 3) -> Forecast:
    scenario = replace(running(group_of(group, static=static)).scenario, brokers=brokers)
    return forecast(scenario, [move], Habits())[1]


def test_a_stop_is_played_to_its_end() -> None:
    """A static member does not leave: others take over when its session is over."""
    found = cost(Move(NOT_PLANNED, (Step(0, Action.STOP, "i-a"),), 1_000), static=True)
    assert found.is_at_rest
    assert (found.rebalances, found.stopped >= 2) == (1, True)
    assert found.longest_stop_ms is not None
    assert SESSION_MS - HEARTBEAT_MS <= found.longest_stop_ms <= SESSION_MS + 3 * HEARTBEAT_MS


def test_a_group_that_does_not_come_to_rest() -> None:
    """It is said, and not played for ever."""
    away = Step(0, Action.STOP_BROKER, broker=1)
    assert not cost(Move(NOT_PLANNED, (away,), 1_000), brokers=1).is_at_rest
    assert cost(Move(NOT_PLANNED, (away,), 1_000)).is_at_rest


def test_a_member_that_reads_nothing_is_not_busy() -> None:
    """It waits in poll(), and joins as soon as a heartbeat tells that it is to.

    Who processes for longer than between two heartbeats joins with the next poll(): of three
    members that restart one after another each has others who are busy, or none.
    """
    habits = Habits(poll_ms=20_000)
    group = running(group_of("ab", each=1))
    scenario = replace(group.scenario, topics={"t": 1})
    assert scenario.start is not None
    first, second = scenario.start.members.values()
    alone = {"a": replace(first, owned=(("t", 0),)), "b": replace(second, owned=())}
    scenario = replace(scenario, start=replace(scenario.start, members=alone))
    stop = Move(NOT_PLANNED, (Step(0, Action.STOP, "a"),), 1_000)
    _, found = forecast(scenario, [stop], habits)
    assert found.moved == 1
    assert found.longest_stop_ms is not None
    assert found.longest_stop_ms <= HEARTBEAT_MS + 1_000
    busy = rolling_restart(NOT_PLANNED, group.scenario, group.scenario.members, habits)
    _, slow = forecast(group.scenario, [busy], habits)
    assert slow.longest_stop_ms is not None
    assert slow.longest_stop_ms > 2 * HEARTBEAT_MS
