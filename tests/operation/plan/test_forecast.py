"""What moves cost: until the group rests again, however long that takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    Course,
    PlayedStep,
    ProgramBehavior,
    forecast,
    paced,
    rolling_restart,
    stopped_group,
)
from kgroup.operation.plan.plan import Forecast
from kgroup.operation.plan.running_group import read_running
from kgroup.simulation.scenario.play import ScenarioPart, play_parts
from kgroup.simulation.scenario.scenario import Action, Step
from tests.operation.plan.fake_cluster import FakeCluster, group_of, running

SESSION_MS = 45_000
HEARTBEAT_MS = 3_000


def cost(
    move: PlayedStep, group: str = "abc", *, static: bool = False, brokers: int = 3
) -> Forecast:
    scenario = replace(running(group_of(group, static=static)).scenario, brokers=brokers)
    return forecast(scenario, [move], ProgramBehavior())[1]


def test_a_stop_is_played_to_its_end() -> None:
    """A static member does not leave: others take over when its session is over."""
    found = cost(PlayedStep(NOT_PLANNED, (Step(0, Action.STOP, "i-a"),), 1_000), static=True)
    assert found.is_at_rest
    assert (found.rebalances, found.stopped >= 2) == (1, True)
    assert found.longest_stop_ms is not None
    assert SESSION_MS - HEARTBEAT_MS <= found.longest_stop_ms <= SESSION_MS + 3 * HEARTBEAT_MS


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_that_are_measured_together_cost_what_they_cost_alone(strategy: str) -> None:
    behavior = ProgramBehavior()
    scenario = paced(running(group_of("abcd", each=10, strategy=strategy)).scenario, behavior)
    restart = rolling_restart(NOT_PLANNED, scenario, scenario.members, behavior)
    parts = [ScenarioPart((), 5_000), ScenarioPart(restart.steps, restart.duration_ms)]
    timeline, ends = play_parts(replace(scenario, steps=()), 1, parts, scenario.settles_ms)
    together = Course(
        timeline.owners.histories,
        timeline.events,
        timeline.rebalances,
        ends[-1].end_ms,
        is_at_rest=ends[-1].is_at_rest,
        record_bytes=ends[-1].record_bytes,
    )
    counts = {history.partitions for history in timeline.owners.histories}
    alone = Course.of(timeline.end("", "", 1, is_at_rest=ends[-1].is_at_rest))
    assert sum(history.partitions for history in timeline.owners.histories) == 40
    assert max(counts) > 1
    for begin_ms in range(0, ends[-1].end_ms, 7_000):
        for end_ms in (begin_ms + 1_000, begin_ms + 20_000, ends[-1].end_ms):
            found = together.costs(begin_ms, end_ms, 0, 0, 0)
            assert found == alone.costs(begin_ms, end_ms, 0, 0, 0)
    assert alone.costs(0, ends[-1].end_ms, 0, 0, 0).moved > 0


def test_a_group_that_does_not_come_to_rest() -> None:
    """It is said, and not played for ever."""
    away = Step(0, Action.STOP_BROKER, broker=1)
    assert not cost(PlayedStep(NOT_PLANNED, (away,), 1_000), brokers=1).is_at_rest
    assert cost(PlayedStep(NOT_PLANNED, (away,), 1_000)).is_at_rest


def test_a_member_that_reads_nothing_is_not_busy() -> None:
    """It waits in poll(), and joins as soon as a heartbeat tells that it is to.

    Who processes for longer than between two heartbeats joins with the next poll(): of three
    members that restart one after another each has others who are busy, or none.
    """
    behavior = ProgramBehavior(poll_ms=20_000)
    group = running(group_of("ab", each=1))
    scenario = replace(group.scenario, topics={"t": 1})
    assert scenario.start is not None
    first, second = scenario.start.members.values()
    alone = {"a": replace(first, owned=(("t", 0),)), "b": replace(second, owned=())}
    scenario = replace(scenario, start=replace(scenario.start, members=alone))
    stop = PlayedStep(NOT_PLANNED, (Step(0, Action.STOP, "a"),), 1_000)
    _, found = forecast(scenario, [stop], behavior)
    assert found.moved == 1
    assert found.longest_stop_ms is not None
    assert found.longest_stop_ms <= HEARTBEAT_MS + 1_000
    busy = rolling_restart(NOT_PLANNED, group.scenario, group.scenario.members, behavior)
    _, slow = forecast(group.scenario, [busy], behavior)
    assert slow.longest_stop_ms is not None
    assert slow.longest_stop_ms > 2 * HEARTBEAT_MS


def test_members_do_not_come_to_poll_as_one() -> None:
    """At each rebalance of an eager group all partitions stop until the last has come to poll().

    Of ten that come at any time in the course of it each waits for four tenths of the interval, the
    mean from one of them to the last. That 500 ms and 2 s go into the 3 s between two heartbeats,
    after which they learn of it, does not bring them together.
    """
    scenario = running(group_of("abcdefghij", each=5)).scenario

    def stopped_ms(poll_ms: int) -> int:
        behavior = ProgramBehavior(poll_ms=poll_ms)
        restart = rolling_restart(NOT_PLANNED, scenario, scenario.members, behavior)
        found = forecast(scenario, [restart], behavior)[1]
        assert found.rebalances == 20
        return found.stopped_ms

    waits_ms = 20 * 45 * 0.4 * (2_000 - 500)
    assert 0.5 * waits_ms < stopped_ms(2_000) - stopped_ms(500) < 2 * waits_ms


def test_what_is_read_again_is_the_most_of_several_courses() -> None:
    """A seed tells the most of its own course and those of the seven after it.

    So what seeds between two that are eight apart tell, one of these tells too.
    """
    scenario = running(group_of("abc", each=4, strategy="cooperative-sticky")).scenario
    move = rolling_restart(NOT_PLANNED, scenario, scenario.members, ProgramBehavior())
    told = [
        forecast(scenario, [move], ProgramBehavior(seed=seed))[1].read_again
        for seed in range(9, 18)
    ]
    assert len(set(told)) > 1
    assert max(told) == max(told[0], told[-1])


def test_a_group_that_becomes_large_is_played_once() -> None:
    """Here a seed tells of its own course only: some between two tell more than these."""
    scenario = running(group_of("abc", each=4, strategy="cooperative-sticky")).scenario
    grow = Step(0, Action.ADD_PARTITIONS, topic="t", count=251)
    restart = rolling_restart(NOT_PLANNED, scenario, scenario.members, ProgramBehavior())
    moves = [PlayedStep(NOT_PLANNED, (grow,), 1_000), restart]
    told = [
        forecast(scenario, moves, ProgramBehavior(seed=seed))[1].read_again for seed in range(9, 18)
    ]
    assert max(told) > max(told[0], told[-1])


def test_a_group_that_starts_waits_as_long_as_its_coordinator_says() -> None:
    """For `group.initial.rebalance.delay.ms`: an empty group waits for others so long at least."""
    stops = []
    for delay_ms in (None, 0, 20_000):
        told = {} if delay_ms is None else {1: {"group.initial.rebalance.delay.ms": str(delay_ms)}}
        cluster = FakeCluster(group_of("ab"), topics={"t": 4}, settings=told)
        scenario = read_running(cluster, "g").scenario
        move = stopped_group(NOT_PLANNED, scenario, scenario.members, ProgramBehavior())
        stop_ms = forecast(scenario, [move], ProgramBehavior())[1].longest_stop_ms
        assert stop_ms is not None
        stops.append(stop_ms)
    by_default, at_once, long = stops
    assert 3_000 <= by_default - at_once <= 7_000  # twice where a member joins meanwhile
    assert 20_000 <= long - at_once <= 41_000
