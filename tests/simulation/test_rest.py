"""When a group rests: not before the last step has had its effect."""

from __future__ import annotations

import pytest

from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.timeline import Simulation

GROUP = """
protocol = "{}"
[topics]
orders = 4
[members]
topics = "orders"
{}
[[member]]
name = "m"
count = 2
start = "0s"
"""
KINDS = {
    "classic": ("kafka", ""),
    "consumer": ("kafka", 'group.protocol = "consumer"'),
    "zookeeper": ("zookeeper", ""),
}


def played(kind: str, step: str) -> tuple[Simulation, Simulation]:
    """Play a scenario until the group rests, and to its end."""
    text = f'{GROUP.format(*KINDS[kind])}[[step]]\nat = "30s"\n{step}\n'
    scenario = read_scenario(text, "test")
    return play(scenario, 0, until_stable=True), play(scenario, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "step",
    [
        'do = "poison"\ntopic = "orders"\npartition = 1\nfor = "20s"',
        'do = "pause"\nmember = "m1"\nwhat = "processing"\nfor = "20s"',
    ],
)
def test_nobody_is_late(kind: str, step: str) -> None:
    short, whole = played(kind, step)
    assert short.is_at_rest
    assert len(short.standstills) == len(whole.standstills) > 0
    assert (
        max(standstill.end_ms or whole.end_ms for standstill in short.standstills)
        <= short.end_ms
        < 52_000
    )


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_everybody_knows_the_coordinator(kind: str) -> None:
    short, whole = played(kind, 'do = "move_coordinator"')
    assert short.is_at_rest
    assert short.events == whole.events
    assert short.events[-1].time_ms > 30_000  # who asked the old one, or asked too early


@pytest.mark.parametrize("kind", KINDS)
def test_who_stands_still_for_ever_is_out_of_the_group(kind: str) -> None:
    short, whole = played(kind, 'do = "pause"\nmember = "m1"')
    assert short.is_at_rest
    assert short.events == whole.events
    assert short.end_ms < whole.end_ms
    owners = {ownership.owner for ownership in short.ownerships if ownership.end_ms is None}
    assert owners == {"m1", "m2"}  # which m1 does not know


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_is_answered(kind: str) -> None:
    short, _ = played(kind, 'do = "commit"\nmember = "m1"')
    assert short.is_at_rest
    assert short.events[-1].event == "committed"
