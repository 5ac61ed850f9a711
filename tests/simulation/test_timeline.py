"""What a timeline says of a group, and what its totals come to."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kgroup.model.group import GroupState
from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.timeline import (
    Owners,
    Ownership,
    SimulatedRebalance,
    Simulation,
    Standstill,
    Timeline,
)

GROUP = """
[topics]
orders = 4
[brokers]
load = "2s"
[[member]]
name = "m"
count = 2
start = "0s"
topics = "orders"
"""


def played(text: str) -> Simulation:
    return play(read_scenario(GROUP + text, "test"), 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("step", "away_ms"),
    [('do = "move_coordinator"', 2_000), ('do = "stop_broker"\nbroker = 1', 11_500)],
)
def test_nobody_knows_the_group_between_two_coordinators(
    protocol: str, step: str, away_ms: int
) -> None:
    simulation = played(f'group.protocol = "{protocol}"\n[[step]]\nat = "30s"\n{step}\n')
    away = [event for event in simulation.events if 30_000 <= event.time_ms < 30_000 + away_ms]
    assert {(event.state, event.generation_id) for event in away} == {(None, None)}
    assert "dead" not in {event.event for event in simulation.events}
    begun_ms = next(event.time_ms for event in simulation.events if event.state is not None)
    known_ms = simulation.end_ms - begun_ms - away_ms
    assert sum(simulation.state_ms.values()) in range(known_ms - 10, known_ms + 10)


def test_a_static_member_that_does_not_come_back_is_a_rebalance() -> None:
    """Its group has been Reconciling since it went, without a rebalance."""
    simulation = played(
        'group.protocol = "consumer"\ngroup.instance.id = "i"\n'
        '[[step]]\nat = "30s"\ndo = "stop"\nmember = "m1"\n'
    )
    last = simulation.rebalances[-1]
    assert (last.cause, last.generation_id) == ("session expired", 4)
    assert 30_000 + 40_000 < last.begin_ms <= 30_000 + 45_000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_that_is_removed_is_missed_at_once(protocol: str) -> None:
    simulation = played(
        f'group.protocol = "{protocol}"\ngroup.instance.id = "i"\n'
        '[[step]]\nat = "30s"\ndo = "restart"\nmember = "m1"\nfor = "20s"\n'
        '[[step]]\nat = "35s"\ndo = "remove"\nmember = "m1"\n'
    )
    left, joined = simulation.rebalances[-2:]
    assert (left.cause, joined.cause) == ("member left", "member joined")
    assert 35_000 <= left.begin_ms < 35_100
    assert 50_000 <= joined.begin_ms < 51_000
    (answer,) = [event for event in simulation.events if event.event == "LeaveGroup"]
    assert (answer.actor, answer.error) == ("operator", None)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_runs_and_is_removed_joins_again(protocol: str) -> None:
    simulation = played(
        f'group.protocol = "{protocol}"\n[[step]]\nat = "30s"\ndo = "remove"\nmember = "m2"\n'
    )
    assert "member left" in {
        rebalance.cause for rebalance in simulation.rebalances if rebalance.begin_ms >= 30_000
    }
    assert simulation.is_at_rest
    assert sum(ownership.end_ms is None for ownership in simulation.ownerships) == 4
    assert {ownership.owner for ownership in simulation.ownerships if ownership.end_ms is None} == {
        "m1",
        "m2",
    }


BROKERS = [
    ('do = "move_coordinator"\nbroker = 1', "move_coordinator", "already the coordinator"),
    ('do = "move_coordinator"\nbroker = 3', "move_coordinator", "not running"),
    ('do = "stop_broker"\nbroker = 3', "stop_broker", "not running"),
    ('do = "start_broker"\nbroker = 1', "start_broker", "already running"),
]


@pytest.mark.parametrize(("step", "event", "remark"), BROKERS)
def test_what_cannot_happen_to_a_broker_is_remarked(step: str, event: str, remark: str) -> None:
    simulation = played(
        f'[[step]]\nat = "20s"\ndo = "stop_broker"\nbroker = 3\n[[step]]\nat = "30s"\n{step}\n'
    )
    (told,) = [each for each in simulation.events if each.time_ms >= 30_000]
    assert (told.event, told.answer, str(told.state)) == (event, remark, "Stable")


def test_brokers_on_zookeeper_are_remarked_on_too() -> None:
    text = (
        GROUP.replace('load = "2s"\n', "")
        + '[[step]]\nat = "30s"\ndo = "start_broker"\nbroker = 1\n'
    )
    simulation = play(read_scenario(f'protocol = "zookeeper"\n{text}', "test"), 0)
    assert [(event.actor, event.answer) for event in simulation.events[-1:]] == [
        ("broker 1", "already running")
    ]


def test_streams_that_are_busy_stand_still_in_order() -> None:
    text = (
        'protocol = "zookeeper"\n[topics]\norders = 9\n'
        '[[member]]\nname = "m"\nstart = "0s"\ntopics = "orders:9"\n'
        '[[step]]\nat = "30s"\ndo = "pause"\nmember = "m"\nwhat = "processing"\nfor = "9s"\n'
    )
    standstills = play(read_scenario(text, "test"), 0).standstills
    assert [still.partition for still in standstills] == [*range(9)]


def test_the_longest_time_is_one_time_since_there_was_an_owner() -> None:
    """Not the sum of two restarts, and not the wait for the first rebalance."""
    simulation = played(
        '[[step]]\nat = "30s"\ndo = "restart"\nmember = ["m1", "m2"]\nfor = "1s"\nevery = "30s"\n'
        '[[step]]\nat = "5s"\ndo = "add_topic"\ntopic = "unread"\npartitions = 1\n'
    )
    for total in simulation.partitions[:4]:
        begins = sorted(
            (ownership.begin_ms, ownership.end_ms or simulation.end_ms)
            for ownership in simulation.ownerships
            if (ownership.topic, ownership.partition) == (total.topic, total.partition)
        )
        gaps = [after[0] - before[1] for before, after in pairwise(begins)]
        assert total.longest_unowned_ms == total.longest_unread_ms == max(gaps)
        assert total.unowned_ms == begins[0][0] + sum(gaps)
    assert simulation.partitions[4].longest_unowned_ms is None


@pytest.mark.parametrize(
    ("version", "more"), [("1.1.1", ""), ("2.3", 'group.instance.id = "i"'), ("4.3.1", "")]
)
def test_the_leader_has_its_name(version: str, more: str) -> None:
    """Its id comes from the coordinator, with the first answer that tells of it or before."""
    simulation = play(read_scenario(f'version = "{version}"\n{GROUP}{more}\n', "test"), 0)
    answers = [
        event.answer for event in simulation.events if event.event == "JoinGroup" and event.answer
    ]
    assert {answer for answer in answers if answer.endswith(" leads")} <= {
        "range, m1 leads",
        "range, m2 leads",
    }
    assert any(answer.endswith("leads 2") for answer in answers)


def told(found: Simulation, event: str) -> list[tuple[str | None, object]]:
    return [(each.answer, each.partitions) for each in found.events if each.event == event]


def test_a_step_is_told_with_how_it_happens() -> None:
    simulation = played(
        '[[step]]\nat = "20s"\ndo = "pause"\nmember = "m1"\nfor = "1500ms"\n'
        '[[step]]\nat = "30s"\ndo = "pause"\nmember = "m1"\nwhat = "processing"\nfor = "2s"\n'
        '[[step]]\nat = "40s"\ndo = "pause"\nmember = "m1"\n'
        '[[step]]\nat = "41s"\ndo = "resume"\nmember = "m1"\n'
        '[[step]]\nat = "50s"\ndo = "poison"\ntopic = "orders"\npartition = 3\nfor = "1s"\n'
        '[[step]]\nat = "1m"\ndo = "restart"\nmember = "m2"\n'
        'set = { processing = "2s", partition.assignment.strategy = ["sticky", "range"] }\n'
    )
    assert told(simulation, "pause") == [
        ("process, for 1.5 s", None),
        ("processing, for 2 s", None),
        ("process, until it is resumed", None),
    ]
    poisoned = [each for each in told(simulation, "poison") if str(each[0]).startswith("busy")]
    assert set(poisoned) == {("busy for 1 s", (("orders", 3),))}
    last = told(simulation, "start")[-1]
    assert last == ("processing = 2s, partition.assignment.strategy = sticky,range", None)


@pytest.mark.parametrize("protocol", ["classic", "consumer", "zookeeper"])
def test_a_commit_of_a_step_has_its_row(protocol: str) -> None:
    text = '[[step]]\nat = "30s"\ndo = "commit"\nmember = "m1"\n'
    if protocol == "zookeeper":
        group = GROUP.replace('load = "2s"\n', "")
        simulation = play(read_scenario(f'protocol = "zookeeper"\n{group}{text}', "test"), 0)
    else:
        simulation = played(f'group.protocol = "{protocol}"\n{text}')
    (committed,) = [event for event in simulation.events if event.event == "committed"]
    assert 30_000 < committed.time_ms < 30_050
    assert len(committed.partitions or ()) == 2


def test_an_answer_of_the_consumer_protocol_is_told_with_its_partitions() -> None:
    partitions = {
        event.actor: event.partitions
        for event in played('group.protocol = "consumer"').events
        if event.event == "ConsumerGroupHeartbeat" and event.partitions is not None
    }
    assert sorted(partitions["m1"] + partitions["m2"]) == [
        ("orders", number) for number in range(4)
    ]


def test_commits_that_are_refused_are_counted_by_their_error() -> None:
    step = '[[step]]\ndo = "commit"\nmember = "m1"\n'
    simulation = played(
        f'{step}at = "30s"\n' + "".join(f'{step}at = "{at}s"\ngeneration = 99\n' for at in (40, 50))
    )
    assert simulation.refused_commits == {"ILLEGAL_GENERATION": 2}
    assert "not sent" not in {
        event.answer for event in simulation.events if event.event == "commit"
    }


# ---- who owns and reads partitions, from when until when


PARTITION = ("t", 0)


def test_who_is_told_again_of_what_it_owns_has_owned_it_since_the_first_time() -> None:
    owners = Owners(clock := Clock(), [PARTITION])
    owners.exist([0])
    clock.run(10)
    owners.begin("a", [0])
    clock.run(20)
    owners.begin("a", [0])
    clock.run(30)
    owners.end("a", [0])
    assert list(owners.ownerships) == [Ownership(*PARTITION, "a", 10, 30)]


def test_a_partition_is_without_owner_when_the_last_one_has_gone() -> None:
    owners = Owners(clock := Clock(), [PARTITION])
    owners.exist([0])
    clock.run(10)
    owners.begin("a", [0])
    owners.begin("b", [0])
    owners.stand("b", [0], is_still=True)
    clock.run(20)
    owners.end("a", [0])
    clock.run(30)
    owners.end("b", [0])
    clock.run(35)
    assert owners.unowned.total_ms(0) == 10 + 5
    assert owners.unread.total_ms(0) == 10 + 15
    assert list(owners.standstills) == [Standstill(*PARTITION, "b", 10, 30)]


# ---- which rebalances a timeline counts, and from when until when


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
