"""What the prose of each shipped scenario says is what happens in it, whatever chance decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kgroup.operation.simulate import scenario_names, shipped_scenario, simulate
from kgroup.render.form import page_text
from kgroup.render.simulation import simulations_page
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.timeline import Event, Simulation

SEEDS = range(5)


def played(name: str, seed: int) -> Simulation:
    return play(read_scenario(shipped_scenario(name), name), seed)


def events(found: Simulation, event: str, actor: str | None = None) -> list[Event]:
    return [each for each in found.events if each.event == event and actor in (None, each.actor)]


def causes(found: Simulation) -> list[str]:
    return [rebalance.cause for rebalance in found.rebalances]


def unowned_ms(found: Simulation, partition: int, topic: str = "orders") -> int:
    (total,) = [
        each for each in found.partitions if (each.topic, each.partition) == (topic, partition)
    ]
    return total.unowned_ms


def unread_ms(found: Simulation, partition: int) -> int:
    return found.partitions[partition].unread_ms


def two_members(found: Simulation) -> None:
    first, _ = found.rebalances
    assert first.end_ms is not None
    assert 3_000 <= first.end_ms - first.begin_ms < 3_100
    (assigned, again) = events(found, "assigned", "first")
    assert len(assigned.partitions or ()) == 6
    (revoked,) = events(found, "revoked", "first")
    (learnt,) = [event for event in events(found, "Heartbeat", "first") if event.error]
    assert learnt.time_ms < revoked.time_ms
    assert revoked.partitions == assigned.partitions
    assert len(again.partitions or ()) == 3


def member_leaves(found: Simulation) -> None:
    assert causes(found) == ["member joined", "member left"]
    last = found.rebalances[-1]
    assert last.end_ms is not None
    assert last.end_ms - last.begin_ms < 3_000 + 600  # a heartbeat, and what it is busy with


def member_crashes(found: Simulation) -> None:
    assert causes(found) == ["member joined", "session expired"]
    begin_ms = found.rebalances[1].begin_ms
    assert 33_000 + 45_000 - 3_100 <= begin_ms <= 33_000 + 45_000
    away = [partition.partition for partition in found.partitions if partition.unowned_ms > 40_000]
    assert away == [2, 3]
    assert all(
        (partition.read_again > 0) == (partition.partition in away)
        for partition in found.partitions
    )


def partitions_added(found: Simulation) -> None:
    assert causes(found) == ["member joined", "leader joined again"]
    assert 300_000 <= found.rebalances[1].begin_ms < 301_100
    assert min(unowned_ms(found, 6), unowned_ms(found, 7)) > 4 * 60_000
    assert all(
        partition.skipped > 2_000 for partition in found.partitions if partition.partition > 5
    )


def topic_appears(found: Simulation) -> None:
    assert len(found.rebalances) == 4
    assert 5 * 60_000 <= found.rebalances[-1].begin_ms < 5 * 60_000 + 1_100
    assert all(unowned_ms(found, number, "orders-eu") < 4 * 60_000 for number in range(3))


def long_pause(found: Simulation) -> None:
    assert causes(found) == ["member joined", "session expired", "member joined"]
    refused = [event.error for event in events(found, "OffsetCommit") if event.error]
    assert refused == ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"]
    lost = events(found, "lost", "paused")[0]
    assert lost.partitions == (("orders", 0), ("orders", 1), ("orders", 2))
    taken = [
        event for event in events(found, "assigned", "steady") if len(event.partitions or ()) == 6
    ]
    assert taken[0].time_ms < lost.time_ms  # by then another one reads there
    for number in range(3):  # nobody read until another one had them
        stood = [standstill for standstill in found.standstills if standstill.partition == number]
        assert [standstill.begin_ms for standstill in stood] == [30_000]
        assert taken[0].time_ms - 30_000 <= unread_ms(found, number) < 60_000
        assert unowned_ms(found, number) < 7_000
    assert all(unread_ms(found, each) == unowned_ms(found, each) for each in range(3, 6))


def rolling_restart(found: Simulation) -> None:
    assert causes(found)[1:] == ["member left", "member joined"] * 3


def rolling_restart_static(found: Simulation) -> None:
    assert causes(found) == ["member joined"]
    assert all(10_000 < partition.unowned_ms < 10_000 + 6_500 for partition in found.partitions)


def poison_message(found: Simulation) -> None:
    assert len(found.rebalances) > 6
    assert len({event.actor for event in events(found, "poison") if event.actor != "operator"}) > 1
    assert len(events(found, "LeaveGroup")) > 3
    assert (
        next(partition for partition in found.partitions if partition.partition == 3).read_again
        > 1_000
    )
    assert unread_ms(found, 3) > found.end_ms - 40_000  # but it has an owner most of the time
    assert unowned_ms(found, 3) < 60_000


def coordinator_fails(found: Simulation) -> None:
    assert causes(found) == ["member joined"]
    assert set(found.refused_commits) <= {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"}
    assert [event for event in found.events if event.error == "NOT_COORDINATOR"]
    for total in found.partitions:
        assert total.unread_ms - total.unowned_ms == total.longest_unread_ms == 9_000
        assert (total.read_again, total.skipped) == (0, 0)
    (elected,) = events(found, "elected")
    assert elected.actor == "broker 2"
    assert found.events[-1].time_ms < 60_000
    assert "Dead" not in found.state_ms
    away = [event for event in found.events if 30_000 <= event.time_ms < 39_000]
    assert {(event.state, event.generation_id) for event in away} == {(None, None)}


def eager_to_cooperative(found: Simulation) -> None:
    refused = [event.error for event in events(found, "JoinGroup", "m1") if event.error]
    assert "INCONSISTENT_GROUP_PROTOCOL" in refused
    assert events(found, "failed", "m1")
    again = [event for event in events(found, "JoinGroup", "m1") if event.answer]
    assert str(again[-1].answer).startswith("cooperative-sticky")
    last = [event.answer for event in events(found, "JoinGroup") if event.answer][-1]
    assert last is not None
    assert last.startswith("cooperative-sticky")
    kept = events(found, "assigned")[-1]
    assert len(kept.partitions or ()) == 2  # the others went on reading


def external_offsets(found: Simulation) -> None:
    assert causes(found) == ["member joined", "session expired"]
    assert {partition.partition for partition in found.partitions if partition.read_again} == {
        0,
        1,
        2,
    }
    assert "OffsetCommit" not in found.requests


def consumer_protocol(found: Simulation) -> None:
    assert causes(found) == ["member joined", "member joined", "session expired"]
    assert {event.state for event in found.events} <= {None, "Stable", "Reconciling", "Assigning"}
    (revoked,) = events(found, "revoked")
    gone = [partition.partition for partition in found.partitions if partition.unowned_ms > 1_000]
    assert [(revoked.actor, revoked.partitions)] == [
        ("first", tuple(("orders", each) for each in gone))
    ]
    assert len(gone) == 3
    (joined,) = events(found, "start", "second")
    (taken,) = events(found, "assigned", "second")
    assert revoked.time_ms < taken.time_ms
    assert (taken.time_ms - joined.time_ms) % 5_000 < 200
    kept = [partition for partition in found.partitions if partition.partition not in gone]
    assert all(total.unowned_ms < 100 and not total.read_again for total in kept)
    crash_ms = 60_000
    (expired,) = events(found, "member removed")
    assert 40_000 - 100 <= expired.time_ms - crash_ms <= 45_000
    back = events(found, "assigned", "first")[-1]
    assert 0 < back.time_ms - expired.time_ms < 5_000 + 1_100


def classic_to_consumer(found: Simulation) -> None:
    up, down = 35_000, 160_000
    mixed = [event for event in found.events if up + 100 < event.time_ms < down]
    assert {"Stable", "Assigning", "Reconciling"} == {event.state for event in mixed}
    assert "waits" not in {event.answer for event in mixed}
    generations = [event.generation_id for event in found.events if event.generation_id is not None]
    assert generations == sorted(generations)
    alone = {event.event for event in mixed if 80_000 < event.time_ms < 120_000}
    assert alone.isdisjoint({"JoinGroup", "SyncGroup", "Heartbeat"})
    eager = [event for event in mixed if event.event == "revoked" and event.actor in ("m2", "m3")]
    rejoined = [event for event in mixed if event.event == "JoinGroup" and event.time_ms < 80_000]
    assert rejoined
    assert eager
    for join in rejoined:  # it had given up all before
        last = [
            event for event in eager if event.actor == join.actor and event.time_ms < join.time_ms
        ]
        had = [
            ownership
            for ownership in found.ownerships
            if ownership.owner == join.actor and ownership.begin_ms < join.time_ms
        ]
        assert last
        assert all(
            ownership.end_ms is not None and ownership.end_ms <= join.time_ms for ownership in had
        )
    after = [event for event in found.events if event.time_ms >= down + 100]
    assert {"PreparingRebalance", "CompletingRebalance", "Stable"} == {e.state for e in after}
    assert {event.actor for event in after if event.event == "revoked"} == {"m1", "m2"}
    assert found.events[-1].state == "Stable"


def zookeeper_broker_fails(found: Simulation) -> None:
    assert causes(found) == ["consumer started"]
    assert {event.error for event in events(found, "Fetch")} == {
        "NETWORK_EXCEPTION",
        "NOT_LEADER_OR_FOLLOWER",
    }
    away, back = (events(found, "leader found")[at : at + 2] for at in (0, 2))
    assert {event.answer for event in away} == {"broker 3"}
    assert {event.answer for event in back} == {"broker 2"}
    # refresh.leader.backoff.ms; requests for brokers and leaders, of 10 ms at most each; the new
    # leader's fetcher may wait for room in a queue, as long as the program takes for a chunk or two
    assert all(36_000 <= event.time_ms < 36_000 + 200 + 50 + 100 for event in away)
    assert not any(partition.read_again or partition.skipped for partition in found.partitions)


def zookeeper_consumers(found: Simulation) -> None:
    assert causes(found) == ["consumer started"] * 4 + ["consumers changed"]
    tries = events(found, "rebalance")
    for at, count in ((10_000, 2), (20_000, 3), (30_000, 4), (60_000, 3)):
        rebalancing = {event.actor for event in tries if at <= event.time_ms < at + 1_000}
        assert len(rebalancing) == count  # all who are there
    conflicts = events(found, "conflict")
    again = [event for event in tries if str(event.answer).startswith("try")]
    assert len(again) == len(conflicts)
    for conflict, retry in zip(conflicts, again, strict=True):
        assert conflict.actor == retry.actor
        assert 2_000 <= retry.time_ms - conflict.time_ms < 2_200
    assert not any(partition.read_again or partition.skipped for partition in found.partitions)


def zookeeper_crash(found: Simulation) -> None:
    (expired,) = events(found, "session expired")
    assert expired.time_ms in (56_000, 58_000)
    assert causes(found) == ["consumer started", "consumers changed"]
    gone = [partition.partition for partition in found.partitions if partition.read_again]
    assert gone == [2, 3]
    # nothing was committed since it began, and ten records come a second
    assert all(
        partition.read_again >= 490 for partition in found.partitions if partition.partition in gone
    )
    assert all(unowned_ms(found, each) > 6_000 - 2_000 for each in gone)


def zookeeper_offsets_to_kafka(found: Simulation) -> None:
    assert not any(partition.read_again or partition.skipped for partition in found.partitions)
    assert {"OffsetCommit", "OffsetFetch", "setData"} <= found.requests.keys()
    assert len(events(found, "restart")) == 0
    assert [event.actor for event in events(found, "stop")] == ["c1", "c2", "c1", "c2"]


def zookeeper_rebalance_fails(found: Simulation) -> None:
    conflicts = events(found, "conflict", "new")
    assert len(conflicts) == 4
    assert len({conflict.partitions for conflict in conflicts}) == 1
    (failed,) = events(found, "failed")
    assert failed.actor == "new"
    assert failed.time_ms < 30_000 + 15_000  # before the other one goes on
    assert unread_ms(found, 0) == unowned_ms(found, 0) + 15_000  # while it is paused
    alone = events(found, "assigned", "busy")[-1]
    assert len(alone.partitions or ()) == 4


def zookeeper_records_deleted(found: Simulation) -> None:
    again = [event for event in events(found, "offset reset") if event.time_ms > 50_000]
    assert {event.actor: event.answer for event in again} == {
        "largest": "largest",
        "smallest": "smallest",
    }
    largest, smallest = found.partitions
    assert 200 <= smallest.skipped < 210  # ten a second, for twenty seconds
    assert 300 <= largest.skipped < 310
    assert not any(partition.read_again for partition in found.partitions)


def zookeeper_split_brain(found: Simulation) -> None:
    (expired,) = events(found, "session expired")
    assert expired.answer == "cut-off"
    taken = events(found, "assigned", "other")[1]
    assert len(taken.partitions or ()) == 4
    (end,) = events(found, "connected again")
    reasons = {
        str(event.answer)
        for event in events(found, "rebalance", "cut-off")
        if event.time_ms >= end.time_ms
    }
    assert "session expired" in reasons
    assert reasons & {"consumers changed", "partitions changed"}
    reading = [
        ownership
        for ownership in found.ownerships
        if ownership.owner == "cut-off" and ownership.begin_ms < expired.time_ms
    ]
    assert len(reading) == 2
    for ownership in reading:
        assert ownership.end_ms is not None
        assert ownership.end_ms > end.time_ms
        assert (ownership.topic, ownership.partition) in (taken.partitions or ())
        # all since it began, as nothing was committed, and all that both read at one time
        twice_ms = ownership.end_ms - ownership.begin_ms
        assert found.partitions[ownership.partition].read_again > twice_ms // 100 - 20


def zookeeper_topic_appears(found: Simulation) -> None:
    assert causes(found) == ["consumer started", "topics changed"]
    new = [partition.partition for partition in found.partitions if partition.topic == "orders-eu"]
    assert new == [0, 1, 2]
    assert all(unowned_ms(found, each, "orders-eu") < 1_000 for each in new)
    assert {
        event.actor for event in events(found, "rebalance") if event.answer == "topics changed"
    } == {"c1", "c2"}


CLAIMS: dict[str, Callable[[Simulation], None]] = {
    "classic-to-consumer": classic_to_consumer,
    "consumer-protocol": consumer_protocol,
    "coordinator-fails": coordinator_fails,
    "eager-to-cooperative": eager_to_cooperative,
    "external-offsets": external_offsets,
    "long-pause": long_pause,
    "member-crashes": member_crashes,
    "member-leaves": member_leaves,
    "partitions-added": partitions_added,
    "poison-message": poison_message,
    "rolling-restart": rolling_restart,
    "rolling-restart-static": rolling_restart_static,
    "topic-appears": topic_appears,
    "two-members": two_members,
    "zookeeper-broker-fails": zookeeper_broker_fails,
    "zookeeper-consumers": zookeeper_consumers,
    "zookeeper-crash": zookeeper_crash,
    "zookeeper-offsets-to-kafka": zookeeper_offsets_to_kafka,
    "zookeeper-rebalance-fails": zookeeper_rebalance_fails,
    "zookeeper-records-deleted": zookeeper_records_deleted,
    "zookeeper-split-brain": zookeeper_split_brain,
    "zookeeper-topic-appears": zookeeper_topic_appears,
}


def test_every_scenario_has_its_claims() -> None:
    assert scenario_names() == tuple(sorted(CLAIMS))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CLAIMS)
def test_prose_is_true(name: str, seed: int) -> None:
    simulation = played(name, seed)
    assert simulation.title
    assert simulation.about
    CLAIMS[name](simulation)


def test_conflicts_are_chance() -> None:
    """Who is faster than others let go finds owners, and others do not."""
    found = [len(events(played("zookeeper-consumers", seed), "conflict")) for seed in SEEDS]
    assert min(found) == 0
    assert found[2] > 0  # which the prose names


@pytest.mark.parametrize("name", sorted(CLAIMS.keys() - {"poison-message"}))
def test_nothing_happens_behind_rest(name: str) -> None:
    """What the last step brings about is waited for."""
    scenario = read_scenario(shipped_scenario(name), name)
    whole, short = play(scenario, 0), play(scenario, 0, until_stable=True)
    assert short.is_at_rest
    assert short.end_ms < whole.end_ms
    assert short.events == whole.events[: len(short.events)]
    assert whole.events[len(short.events) :] == ()


def test_a_storm_does_not_rest() -> None:
    scenario = read_scenario(shipped_scenario("poison-message"), "poison-message")
    report = simulate(scenario, until_stable=True)
    assert [simulation.is_at_rest for simulation in report.data] == [False]
    assert report.notes == ("at the end, after 480 s, the group was not stable",)
    short = replace(scenario, duration_ms=306_000)
    assert "at the end, after 306 s, a rebalance was not complete" in simulate(short).notes


@pytest.mark.parametrize("name", CLAIMS)
def test_chance_is_in_the_seed(name: str) -> None:
    assert played(name, 7) == played(name, 7)
    assert played(name, 7) != played(name, 8)


@pytest.mark.parametrize("name", CLAIMS)
def test_totals_add_up(name: str) -> None:
    simulation = played(name, 3)
    begun = min((e.time_ms for e in simulation.events if e.state is not None), default=None)
    if begun is None:
        assert name.startswith("zookeeper-")  # where there are no states
        assert not simulation.state_ms
    else:
        assert sum(simulation.state_ms.values()) <= simulation.end_ms
        known_ms = simulation.end_ms - begun - 100
        if name == "coordinator-fails":  # until the new one has read the group
            known_ms -= 9_700
        assert known_ms <= sum(simulation.state_ms.values()) <= known_ms + 200
    for partition in simulation.partitions:
        spans = [
            (
                ownership.begin_ms,
                simulation.end_ms if ownership.end_ms is None else ownership.end_ms,
            )
            for ownership in simulation.ownerships
            if (ownership.topic, ownership.partition) == (partition.topic, partition.partition)
        ]
        covered = {ms for begin, end in spans for ms in range(begin, end)}
        if partition.topic == "orders" and partition.partition < 3:  # there from the begin
            assert partition.unowned_ms == simulation.end_ms - len(covered)


@pytest.mark.parametrize(
    ("name", "is_limited"),
    [("coordinator-fails", True), ("member-crashes", False), ("zookeeper-broker-fails", False)],
)
def test_what_a_broker_that_crashes_stops_besides_is_stated(name: str, is_limited: bool) -> None:
    """In every form: as a note, in `limits`, and in documents."""
    report = simulate(read_scenario(shipped_scenario(name), name))
    (simulation,) = report.data
    assert bool(simulation.limits) == is_limited
    assert report.notes[: len(simulation.limits)] == simulation.limits
    if is_limited:
        assert "none is read for 9 s" in simulation.limits[0]
        for runs in (report.data, [simulation] * 2):
            page = "".join(page_text(simulations_page(runs), "markdown"))
            assert all(limit in page for limit in simulation.limits)


_CRASHES = """
[topics]
orders = 8
[brokers]
count = {count}
[members]
topics = "orders"
auto.offset.reset = "earliest"
[[member]]
name = "m"
count = 2
start = "0s"
"""
_STEP = """
[[step]]
at = "{at}s"
do = "{do}"
broker = {broker}
"""


def _crashes(count: int, *steps: tuple[int, str, int]) -> Simulation:
    parts = (_STEP.format(at=at, do=do, broker=broker) for at, do, broker in steps)
    return play(read_scenario("".join((_CRASHES.format(count=count), *parts)), "crash"), 0)


def test_a_broker_that_does_not_coordinate_stops_all_partitions_too() -> None:
    """Measured with three brokers of 4.3.1: all eight partitions stopped for 9.6 to 10.8 s.

    Of both members a commit was refused after `offsets.commit.timeout.ms`.
    """
    simulation = _crashes(3, (31, "stop_broker", 2))
    for total in simulation.partitions:
        assert total.unread_ms - total.unowned_ms == total.longest_unread_ms == 9_000
        assert (total.read_again, total.skipped) == (0, 0)
    assert simulation.refused_commits == {"COORDINATOR_NOT_AVAILABLE": 2}
    assert {event.actor for event in simulation.events if event.error} >= {"m1", "m2"}
    assert len(simulation.standstills) == 8
    assert not events(simulation, "elected")


@pytest.mark.parametrize(
    ("count", "steps", "unread_s"),
    [
        (1, ((30, "stop_broker", 1), (50, "start_broker", 1)), 20),
        (3, ((30, "stop_broker", 2), (33, "start_broker", 2)), 3),
        (3, ((30, "stop_broker", 2), (35, "stop_broker", 3)), 14),
        (2, ((30, "stop_broker", 2), (35, "stop_broker", 1), (60, "start_broker", 1)), 30),
    ],
)
def test_partitions_stop_until_a_broker_is_missed_or_back(
    count: int, steps: tuple[tuple[int, str, int], ...], unread_s: int
) -> None:
    simulation = _crashes(count, *steps)
    stopped = {total.longest_unread_ms for total in simulation.partitions}
    assert stopped == {1_000 * unread_s}
    assert {total.skipped for total in simulation.partitions} == {0}


def test_the_automatic_commit_of_a_member_that_is_out_of_its_group_is_told() -> None:
    """Java says so in its log: it is not part of an active group."""
    failed = [event for event in played("long-pause", 0).events if event.event == "auto-commit"]
    assert {(event.answer, event.error) for event in failed} <= {("not sent", "UNKNOWN_MEMBER_ID")}
    assert failed
