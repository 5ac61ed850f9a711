"""What brokers answered to random requests, against the state machine: without a broker.

`tests/broker/test_simulation_oracle.py` plays more of them to live brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kgroup.model.group import GroupState
from kgroup.simulation.classic.group import ClassicGroup
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.message import DescribeAnswer, DescribeGroup, ListAnswer, ListGroups
from tests.broker.group_play import VERSIONS, settings
from tests.broker.play_file import DELAYS, encode, read_plays, request_of
from tests.broker.raw_client import as_version_has_it
from tests.simulation.world import Sim

PLAYS = [(version, kind) for version in VERSIONS for kind in DELAYS]
FIRST = [
    *[(version, "patient") for version in ("2.0", "2.8.1", "3.3", "4.0")],
    *[(version, "prompt") for version in ("2.2", "2.3", "2.4", "2.6", "4.0")],
]
"""The first versions of rules, with plays that meet them."""


def replayed(
    version: str, kind: str, simulated: str | None = None
) -> Iterator[tuple[Sim, str, dict[str, Any]]]:
    """Play each recorded play again; give the world, the group and the act after each act."""
    for acts in read_plays(version, kind):
        sim = Sim(settings(simulated or version, DELAYS[kind]))
        group_id = next(act["request"]["group_id"] for act in acts if act["request"])
        places: dict[int, tuple[int, int]] = {}
        requests = []
        for act in acts:
            sim.clock.run(act["now_ms"])
            request = request_of(act)
            if request is not None:
                requests.append(request)  # which keeps its identity its own
                places[id(request)] = (len(places), act["version"])
                sim.next_id = act["new_id"]
                sim.coordinator.handle(request)
                sim.clock.run(act["now_ms"])
            answers = []
            for asked, answer in sim.take():
                place, number = places[id(asked)]
                answers.append([place, encode(as_version_has_it(answer, number))])
            act["simulated"] = answers
            yield sim, group_id, act


@pytest.mark.parametrize(("version", "kind"), PLAYS)
def test_answers_and_states(version: str, kind: str) -> None:
    count = 0
    for sim, group_id, act in replayed(version, kind):
        assert act["simulated"] == act["answers"], act["request"]
        assert described(sim, group_id, version) == act["state"], act["request"]
        count += len(act["answers"])
    assert count > 200


@pytest.mark.parametrize(("version", "kind"), FIRST)
def test_a_rule_holds_from_its_first_version_on(version: str, kind: str) -> None:
    """2.2 and 2.2.0 are one version of Kafka, whatever a broker of 3.9.2 was asked."""
    first, second = (
        [
            (act["simulated"], described(sim, group_id, version), list(sim.removals))
            for sim, group_id, act in replayed("3.9.2", kind, each)
        ]
        for each in (version, f"{version}.0")
    )
    assert first == second


def described(sim: Sim, group_id: str, version: str) -> Any:
    answer = sim.ask(DescribeGroup(group_id))
    listed = sim.ask(ListGroups())
    assert isinstance(answer, DescribeAnswer)
    assert isinstance(listed, ListAnswer)
    members = tuple(replace(member, instance_id=None) for member in answer.members)
    state = {"1.1.1": None}
    rows = [[kind, state.get(version, each.name)] for _, kind, each in listed.groups]
    return [encode(replace(answer, members=members)), rows[0] if rows else None]


@pytest.mark.parametrize(("version", "kind"), PLAYS)
def test_records_give_the_durable_state(version: str, kind: str) -> None:
    """Read as any reader of the log does, and as the next coordinator does."""
    stable = 0
    for sim, group_id, _ in replayed(version, kind):
        group = sim.coordinator.classic.groups.get(group_id)
        offsets = sim.coordinator.classic.offsets.of(group_id)
        durable = sim.log.groups().get(group_id)
        next_one = GroupCoordinatorShard(settings(version, 0), sim)
        next_one.elect(sim.log, 0)
        sim.clock.run(sim.clock.now_ms)
        assert next_one.classic.offsets.of(group_id) == offsets
        found = (
            {(offset.topic, offset.partition): offset for offset in durable.offsets}
            if durable
            else {}
        )
        assert {
            place: replace(offset, log_offset=None) for place, offset in found.items()
        } == offsets
        if group is not None and group.state is GroupState.STABLE:
            stable += 1
            assert durable is not None
            assert told(next_one.classic.groups[group_id]) == told(group)
            assert durable.state is GroupState.STABLE
            assert (durable.generation_id, durable.leader_id, durable.assignor) == (
                group.generation_id,
                group.leader_id,
                group.protocol,
            )
            assert [
                (member.member_id, member.instance_id, member.client_id)
                for member in durable.members
            ] == sorted(
                (member.member_id, member.instance_id, member.client_id) for member in group.members
            )
        next_one.resign()
    assert stable > 10


def told(group: ClassicGroup) -> Any:
    """What a stable group is, besides the order and the other protocols of its members."""
    return (
        group.state,
        group.generation_id,
        group.leader_id,
        group.protocol_type,
        group.protocol,
        group.subscribed_topics,
        {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata(group.protocol or ""),
                member.assignment,
            )
            for member in group.members
        },
    )
