"""Which rebalances a timeline counts, and from when until when."""

from __future__ import annotations

from kgroup.model.group import GroupState
from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs
from kgroup.simulation.timeline import SimulatedRebalance, Timeline

PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


def rebalances(*moves: tuple[int, GroupState | None, int, str | None]) -> list[SimulatedRebalance]:
    """Count the rebalances of a group: when it came to which state, in which generation, and why.

    Without a state its coordinator has gone.
    """
    clock = Clock()
    timeline = Timeline(clock, PartitionLogs(clock, 0))
    for at_ms, state, generation_id, cause in moves:
        clock.run(at_ms)
        if state is None:
            timeline.gone()
        else:
            timeline.moved(state, generation_id, cause)
    return list(timeline.end(None, None, 0).rebalances)


def test_a_rebalance_that_begins_anew_before_it_is_over_is_one() -> None:
    assert rebalances(
        (10, PREPARING, 1, "member joined"),
        (20, COMPLETING, 2, None),
        (30, PREPARING, 2, "session expired"),
        (40, COMPLETING, 3, None),
        (50, GroupState.STABLE, 3, None),
        (60, PREPARING, 3, "member left"),
        (70, GroupState.EMPTY, 4, None),
    ) == [
        SimulatedRebalance(10, 50, "member joined", 3),
        SimulatedRebalance(60, 70, "member left", 4),
    ]


def test_a_coordinator_that_goes_ends_no_rebalance_but_the_next_one_does() -> None:
    began = (10, PREPARING, 1, "member joined")
    assert rebalances(began, (20, None, 0, None)) == [
        SimulatedRebalance(10, None, "member joined", None)
    ]
    loaded = (30, GroupState.STABLE, 1, None)  # what was written: the generation before
    assert rebalances(began, (20, None, 0, None), loaded) == [
        SimulatedRebalance(10, 30, "member joined", 1)
    ]
