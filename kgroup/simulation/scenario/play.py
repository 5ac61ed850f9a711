"""Play a scenario: from its steps to what happened."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from kgroup.simulation.scenario.coordinator_stage import CoordinatorStage
from kgroup.simulation.scenario.scenario import Scenario, last_ms
from kgroup.simulation.scenario.zookeeper_stage import ZookeeperStage
from kgroup.simulation.timeline import Simulation

__all__ = ["play", "play_parts"]

_LOOK_MS = 10
"""How often it is looked whether the group rests."""


def play(scenario: Scenario, seed: int, *, until_stable: bool = False) -> Simulation:
    """Play a scenario to its end.

    Args:
        scenario: what happens.
        seed: of everything that chance decides: the same seed gives the same timeline.
        until_stable: end as soon as the last step is done and the group rests.

    Returns:
        What happened.
    """
    make = ZookeeperStage if scenario.connectors else CoordinatorStage
    stage = make(scenario, Random(seed))
    clock = stage.clock
    if not until_stable:
        clock.run(scenario.duration_ms)
    else:
        clock.run(last_ms(scenario.steps, scenario.jitter_ms))
        while not stage.is_settled and clock.now_ms < scenario.duration_ms:
            clock.run(min(clock.now_ms + _LOOK_MS, scenario.duration_ms))
    return stage.timeline.end(scenario.title, scenario.about, seed, is_at_rest=stage.is_settled)


def play_parts(scenario: Scenario, seed: int, ends_ms: Iterable[int]) -> tuple[Simulation, ...]:
    """Play a scenario, and tell of each of these times what had happened by then.

    Args:
        scenario: what happens.
        seed: likewise.
        ends_ms: in order; with the last one it ends.
    """
    make = ZookeeperStage if scenario.connectors else CoordinatorStage
    stage = make(scenario, Random(seed))
    found = []
    for end_ms in ends_ms:
        stage.clock.run(end_ms)
        end = stage.timeline.end(scenario.title, scenario.about, seed, is_at_rest=stage.is_settled)
        found.append(end)
    return tuple(found)
