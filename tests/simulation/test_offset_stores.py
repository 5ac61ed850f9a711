"""Offsets in Kafka, in an external store, or in both, while a group goes from one to the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import Action, KeptIn, Step
from kgroup.simulation.timeline import Simulation

BEGIN = """
duration = "5m"
[topics]
orders = 6
[members]
topics = "orders"
auto.offset.reset = "earliest"
partition.assignment.strategy = "range"
[[member]]
name = "m"
count = 3
start = "0s"
"""
MEMBERS = 'member = ["m2", "m1", "m3"]'  # so that the first has at times what others get back
AFTER = "enable.auto.commit = false"


def played(*steps: str, first: str = "") -> Simulation:
    """Play a group of three; ``first`` is set for all of them."""
    text = BEGIN.replace("[[member]]", f"{first}\n[[member]]")
    return play(
        read_scenario("\n".join(f"[[step]]\n{each}" for each in (text, *steps))[9:], "s"), 1
    )


def rolling(at: str, changes: str) -> str:
    return f'at = "{at}"\ndo = "restart"\n{MEMBERS}\nevery = "15s"\nset = {{ {changes} }}'


def cost(found: Simulation) -> tuple[int, int]:
    """Return what was read again, and what was left out."""
    return (
        sum(partition.read_again for partition in found.partitions),
        sum(partition.skipped for partition in found.partitions),
    )


EXTERNAL = f'offsets = "external", {AFTER}'
BOTH = 'offsets = "both"'
KAFKA = 'offsets = "kafka", enable.auto.commit = true'


def test_a_member_begins_at_what_is_committed_where_its_store_has_nothing() -> None:
    simulation = played(f'at = "1m"\ndo = "stop"\n{MEMBERS}', *starts(EXTERNAL))
    assert cost(simulation) == (0, 0)


def starts(changes: str) -> tuple[str, ...]:
    """Start the members anew, which are stopped before."""
    return (rolling("2m", changes).replace('every = "15s"\n', ""),)


def test_a_rolling_restart_from_one_store_to_the_other_reads_again_what_went_back_and_forth() -> (
    None
):
    again, skipped = cost(played(rolling("1m", EXTERNAL)))
    assert again > 0 == skipped
    again, skipped = cost(played(rolling("1m", KAFKA), first=EXTERNAL.replace(", ", "\n")))
    assert again > 0 == skipped


@pytest.mark.parametrize("goal", [EXTERNAL, KAFKA])
def test_two_rolling_restarts_by_way_of_both_lose_nothing_and_read_nothing_again(goal: str) -> None:
    first = "" if goal is EXTERNAL else EXTERNAL.replace(", ", "\n")
    simulation = played(
        rolling("1m", f"{BOTH}, enable.auto.commit = true"), rolling("2m30s", goal), first=first
    )
    assert cost(simulation) == (0, 0)
    assert len(simulation.rebalances) > 6


@pytest.mark.parametrize(("to", "goal"), [("external", EXTERNAL), ("kafka", KAFKA)])
@pytest.mark.parametrize("copies", [True, False])
def test_offsets_of_a_stopped_group_are_copied(to: str, goal: str, copies: bool) -> None:
    """The other store is behind: for half a minute nothing was written there."""
    there = KAFKA if to == "external" else EXTERNAL
    leave = rolling("1m", there).replace('every = "15s"\n', "")
    stop = f'at = "100s"\ndo = "stop"\n{MEMBERS}'
    copy = [f'at = "110s"\ndo = "copy_offsets"\nto = "{to}"'] if copies else []
    again, skipped = cost(played(leave, stop, *copy, *starts(goal), first=BOTH))
    assert skipped == 0
    assert (again == 0) is copies


def test_who_keeps_offsets_in_both_commits_before_others_read() -> None:
    """With a cooperative strategy partitions are read until they are given up."""
    scenario = read_scenario(
        f"""
        duration = "2m"
        [topics]
        orders = 6
        [members]
        topics = "orders"
        partition.assignment.strategy = "cooperative-sticky"
        auto.offset.reset = "earliest"
        [[member]]
        name = "b"
        start = "0s"
        {BOTH}
        [[member]]
        name = "k"
        start = "1m"
        """,
        "s",
    )
    simulation = play(scenario, 1)
    assert any(ownership.owner == "k" for ownership in simulation.ownerships)
    assert cost(simulation) == (0, 0)


def test_a_member_that_is_started_may_be_configured_anew() -> None:
    scenario = read_scenario(BEGIN, "s")
    names = list(scenario.members)
    steps = list(scenario.steps)
    for number, offsets in enumerate((KeptIn.EXTERNAL, KeptIn.KAFKA)):
        at_ms = 60_000 * (1 + number)
        for name in names:
            plan = scenario.members[name]
            config = replace(plan.config, enable_auto_commit=offsets is KeptIn.KAFKA)
            plan = replace(plan, config=config, offsets=offsets)
            steps += [
                Step(at_ms, Action.STOP, name),
                Step(at_ms + 5_000, Action.START, name, plan=plan),
            ]
    again, skipped = cost(play(replace(scenario, steps=tuple(steps)), 1))
    assert again > 6 * 10 * 40 > skipped == 0  # what was stored for a minute is not committed


def test_offsets_are_not_copied_to_kafka_under_members() -> None:
    simulation = played(
        'at = "1m"\ndo = "copy_offsets"\nto = "kafka"', first=EXTERNAL.replace(", ", "\n")
    )
    (copied,) = (event for event in simulation.events if event.event == "copy_offsets")
    assert copied.answer == "to kafka"
    (refused,) = (event for event in simulation.events if event.event == "OffsetCommit")
    assert (refused.actor, refused.error) == ("operator", "UNKNOWN_MEMBER_ID")
