"""Play scenarios of consumer groups."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from kgroup.operation.report import Report
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.timeline import Simulation

__all__ = ["ShippedScenario", "scenario_names", "shipped_scenario", "shipped_scenarios", "simulate"]

_FOLDER = files("kgroup.simulation.scenario") / "shipped"


@dataclass(frozen=True, slots=True)
class ShippedScenario:
    """A scenario that comes with kgroup.

    Attributes:
        name: by which it is played.
        title: what happens in it.
        about: what there is to see.
    """

    name: str
    title: str | None
    about: str | None


def scenario_names() -> tuple[str, ...]:
    """Return the names of the shipped scenarios."""
    return tuple(sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir()))


def shipped_scenario(name: str) -> str:
    """Return the text of a shipped scenario, one of `scenario_names`."""
    return (_FOLDER / f"{name}.toml").read_text("utf-8")


def shipped_scenarios() -> Report[ShippedScenario]:
    """Return the shipped scenarios, sorted by name."""
    found = []
    for name in scenario_names():
        scenario = read_scenario(shipped_scenario(name), name)
        found.append(ShippedScenario(name, scenario.title, scenario.about))
    return Report(tuple(found))


def simulate(
    text: str, file: str, *, seed: int = 0, runs: int = 1, until_stable: bool = False
) -> Report[Simulation]:
    """Play a scenario, once or with several seeds.

    Args:
        text: of the scenario file.
        file: its name, for messages.
        seed: of the first run; those of others follow it.
        runs: how often.
        until_stable: end when the last step is done and the group rests.

    Returns:
        What happened, by run.

    Raises:
        InputError: the scenario is not as it should be.
    """
    scenario = read_scenario(text, file)
    return Report(
        tuple(play(scenario, seed + run, until_stable=until_stable) for run in range(runs))
    )
