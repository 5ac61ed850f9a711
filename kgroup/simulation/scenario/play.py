"""Play a scenario: from its steps to what happened."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from kgroup.simulation.scenario.coordinator_stage import CoordinatorStage
from kgroup.simulation.scenario.scenario import Scenario, Step, last_ms
from kgroup.simulation.scenario.zookeeper_stage import ZookeeperStage
from kgroup.simulation.timeline import Simulation

_LOOK_MS = 10
"""How often it is looked whether the group rests."""
_LOOK_AGAIN_MS = 100
"""Likewise where it should have rested already."""


def play(scenario: Scenario, seed: int, *, until_stable: bool = False) -> Simulation:
    """Play a scenario to its end.

    Args:
        scenario: what happens.
        seed: of everything that chance decides: the same seed gives the same timeline.
        until_stable: end as soon as the last step is done and the group rests.

    Returns:
        What happened.
    """
    stage = _stage(scenario, seed)
    clock = stage.clock
    if not until_stable:
        clock.run(scenario.duration_ms)
    else:
        clock.run(last_ms(scenario.steps, scenario.jitter_ms))
        _rest(stage, scenario.duration_ms, _LOOK_MS)
    return stage.timeline.end(scenario.title, scenario.about, seed, is_at_rest=stage.is_settled)


class Part(NamedTuple):
    """What happens in a part of a scenario; `at_ms` of its steps counts from its begin.

    Attributes:
        steps: in order of time.
        duration_ms: how long it takes at least.
    """

    steps: tuple[Step, ...]
    duration_ms: int


def play_parts(
    scenario: Scenario, seed: int, parts: Iterable[Part], patience_ms: int
) -> tuple[Simulation, ...]:
    """Play the parts of a scenario one after another, each with steps until the group rests.

    Args:
        scenario: with which it begins; it has no steps, and its duration does not count.
        seed: likewise.
        parts: in order.
        patience_ms: for how long each is played on at most, behind its duration.

    Returns:
        What had happened by the end of each part.
    """
    stage = _stage(scenario, seed)
    found = []
    for part in parts:
        stage.schedule(part.steps)
        end_ms = stage.clock.now_ms + part.duration_ms
        stage.clock.run(end_ms)
        if part.steps:
            _rest(stage, end_ms + patience_ms, _LOOK_AGAIN_MS)
        end = stage.timeline.end(scenario.title, scenario.about, seed, is_at_rest=stage.is_settled)
        found.append(end)
    return tuple(found)


def _stage(scenario: Scenario, seed: int) -> CoordinatorStage | ZookeeperStage:
    make = ZookeeperStage if scenario.connectors else CoordinatorStage
    return make(scenario, Random(seed))


def _rest(stage: CoordinatorStage | ZookeeperStage, end_ms: int, every_ms: int) -> None:
    """Go on until the group rests, or to the end."""
    clock = stage.clock
    while not stage.is_settled and clock.now_ms < end_ms:
        clock.run(min(clock.now_ms + every_ms, end_ms))
