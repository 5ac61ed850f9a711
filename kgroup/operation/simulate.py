"""Simulate scenarios of consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files

from kgroup.model.group import GroupState
from kgroup.operation.record_limit import record_notes
from kgroup.operation.report import Report
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import Action, Scenario
from kgroup.simulation.timeline import Simulation

_FOLDER = files("kgroup.simulation.scenario") / "shipped"


@dataclass(frozen=True, slots=True)
class ShippedScenario:
    """A scenario that is shipped with kgroup.

    Attributes:
        name: name of the scenario.
        title: what happens in the scenario.
        about: what the scenario shows.
    """

    name: str
    title: str | None
    about: str | None


def scenario_names() -> tuple[str, ...]:
    """Return the names of the shipped scenarios."""
    return tuple(
        sorted(traversable.name.removesuffix(".toml") for traversable in _FOLDER.iterdir())
    )


def shipped_scenario(name: str) -> str:
    """Return the text of a shipped scenario, one of `scenario_names`."""
    return (_FOLDER / f"{name}.toml").read_text("utf-8")


def shipped_scenarios() -> Report[ShippedScenario]:
    """Return the shipped scenarios, sorted by name."""
    scenarios = []
    for name in scenario_names():
        scenario = read_scenario(shipped_scenario(name), name)
        scenarios.append(ShippedScenario(name, scenario.title, scenario.about))
    return Report(tuple(scenarios))


def simulate(
    scenario: Scenario,
    *,
    seed: int = 0,
    runs: int = 1,
    until_stable: bool = False,
    on_progress: Callable[[int, int], None] = lambda done_ms, total_ms: None,
) -> Report[Simulation]:
    """Simulate a scenario, once or with several consecutive seeds.

    Args:
        scenario: the scenario.
        seed: seed of the first run.
        runs: number of runs.
        until_stable: end a run when the group is at rest after the last step.
        on_progress: called with the simulated time of all runs, so far and in total.

    Returns:
        One simulation for each run; notes name what was unfinished at the end.
    """
    limits = _limits(scenario)
    each_ms = scenario.duration_ms

    def played(run: int) -> Simulation:
        simulation = play(
            scenario,
            seed + run,
            until_stable=until_stable,
            on_progress=lambda now_ms: on_progress(run * each_ms + now_ms, runs * each_ms),
        )
        return replace(simulation, limits=limits)

    simulations = tuple(map(played, range(runs)))
    unfinished = [simulation.rebalances[-1] for simulation in simulations if simulation.rebalances]
    counts = {
        "a rebalance was not complete": sum(rebalance.end_ms is None for rebalance in unfinished),
        "the group was not stable": sum(
            not simulation.is_at_rest for simulation in simulations if until_stable
        ),
        "the group had no members, so that nothing is read": sum(
            bool(events) and events[-1].state is GroupState.EMPTY
            for events in (simulation.events for simulation in simulations)
        ),
    }
    end_ms = max(simulation.end_ms for simulation in simulations)
    end = f"at the end, after {end_ms / 1000:,g} s"
    return Report(
        simulations,
        notes=(
            *limits,
            *record_notes(
                max((simulation.record_bytes or 0 for simulation in simulations), default=0),
                scenario.settings,
            ),
            *(
                f"{end}, {what}" + (f" in {count} of {runs} runs" if runs > 1 else "")
                for what, count in counts.items()
                if count
            ),
        ),
    )


def _limits(scenario: Scenario) -> tuple[str, ...]:
    """Return notes on how a broker crash differs between this simulation and a cluster."""
    if scenario.connectors or all(step.action is not Action.STOP_BROKER for step in scenario.steps):
        return ()
    return (
        "every partition is assumed to have a replica on each broker: after a crash, "
        f"none is read for {scenario.failover_ms / 1000:,g} s (failover). On a cluster "
        "of three brokers of 4.3.1 with KRaft's defaults, all stopped for 7 to 12 s; "
        "partitions without a replica on that broker are read without interruption",
        "a rebalance continues here before the crash of the broker is detected; on a "
        "cluster, the coordinator's records about it wait for the replicas",
    )
