"""What whole scenarios come to: what members commit and read, who coordinates, who runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import CoordinatorStage, play
from kgroup.simulation.scenario.scenario import InitialGroup
from kgroup.simulation.timeline import Simulation

MEMBER = """
topics = "t"
start = 0
auto.offset.reset = "earliest"
"""


def stage(text: str) -> CoordinatorStage:
    return CoordinatorStage(read_scenario(text, "s.toml"), Random(0))


def step(at: str, do: str, rest: str) -> str:
    return f'[[step]]\nat = "{at}"\ndo = "{do}"\n{rest}\n'


def commits(here: CoordinatorStage, since_ms: int) -> list[tuple[int, TopicPartition]]:
    """Return when which offsets were committed."""
    found = []
    for record in here.cluster.log:
        if record.type == "OffsetCommit" and record.key and record.value:
            key, at_ms = record.key["data"], record.value["data"]["commitTimestamp"]
            if at_ms >= since_ms:
                found.append((at_ms, (key["topic"], key["partition"])))
    return found


def test_a_member_that_has_left_commits_nothing_when_it_stops() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'\nmax.poll.interval.ms = '10s'" + MEMBER
    busy = step("12s", "pause", "member = 'm'\nwhat = 'processing'\nfor = '60s'")
    here = stage(
        text + busy + step("30s", "commit", "member = 'm'") + step("40s", "stop", "member = 'm'")
    )
    here.clock.run(60_000)
    assert not here.consumers
    assert commits(here, 0)
    assert not commits(here, 13_000)
    (event,) = [each for each in here.timeline.events if each.answer == "not sent"]
    assert (event.time_ms, event.event, event.error) == (30_000, "commit", "UNKNOWN_MEMBER_ID")


def test_without_any_broker_members_read_and_commit_nothing() -> None:
    text = "[brokers]\ncount = 1\n[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    here = stage(text + step("30s", "stop_broker", "broker = 1"))
    here.clock.run(90_000)
    (member,) = here.consumers
    assert member.client.owned == (("t", 0),)
    assert 290 < member.position(0) <= 300
    assert commits(here, 0)
    assert not commits(here, 30_000)


def test_cooperative_members_read_on_while_a_rebalance_waits() -> None:
    cooperative = MEMBER + "partition.assignment.strategy = 'cooperative-sticky'\n"
    text = "[topics]\nt = 4\n[[member]]\nname = 'm'\ncount = 3" + cooperative
    text += "[[member]]\nname = 'new'" + cooperative.replace("start = 0", "start = '31s'")
    here = stage(text + step("30s", "pause", "member = 'm3'\nfor = '90s'"))
    here.clock.run(60_000)  # everybody waits for m3
    for member in (here._running["m1"], here._running["m2"]):
        assert member.client.owned
        assert all(member.position(number) > 590 for _, number in member.client.owned)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_stops_without_coordinator_waits_for_one_then_commits_and_leaves(protocol: str) -> None:
    text = f"[topics]\nt = 2\n[[member]]\nname = 'm'\ncount = 2\ngroup.protocol = '{protocol}'"
    text += MEMBER + step("30s", "stop_broker", "broker = 1")
    here = stage(text + step("32s", "stop", "member = 'm1'"))
    here.clock.run(35_000)
    member = here._running["m1"]
    assert member.is_running
    reads = member.client.owned
    assert reads
    here.clock.run(41_000)  # the coordinator is back after 39.7 s
    assert not member.is_running
    assert {each for _, each in commits(here, 39_000)} >= set(reads)
    group = here.cluster.group
    assert group is not None
    assert len(group) == 1


def test_who_stops_and_finds_no_coordinator_ends_after_thirty_seconds() -> None:
    text = "[brokers]\ncount = 1\n[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    text += step("30s", "stop_broker", "broker = 1")
    here = stage(text + step("32s", "stop", "member = 'm'") + step("40s", "stop", "member = 'm'"))
    here.clock.run(61_990)
    assert here.consumers
    here.clock.run(62_100)
    assert not here.consumers
    ends = [event.time_ms for event in here.timeline.events if event.event in ("revoked", "lost")]
    assert len(ends) == 1


def test_who_stops_and_need_not_commit_looks_for_no_coordinator() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'\nenable.auto.commit = false" + MEMBER
    text += step("30s", "stop_broker", "broker = 1")
    here = stage(text + step("32s", "stop", "member = 'm'"))
    here.clock.run(32_000)
    assert not here.consumers  # it leaves if it knows its coordinator, AbstractCoordinator.close


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_that_failed_is_repeated_soon(protocol: str) -> None:
    text = f"[topics]\nt = 1\n[[member]]\nname = 'm'\ngroup.protocol = '{protocol}'" + MEMBER
    here = stage(text)
    here.clock.run(20_000)
    (last_ms, _) = max(commits(here, 0))
    here.clock.run(last_ms + 4_990)
    here.cluster.move_coordinator(2)  # which loads for 200 ms
    here.clock.run(last_ms + 6_500)
    refused = [event for event in here.timeline.events if event.event == "OffsetCommit"]
    assert refused
    (again_ms, _) = max(commits(here, last_ms + 1))
    assert again_ms - refused[-1].time_ms < 100 + 500 + 20  # the backoff, and the next poll()


def test_a_second_crash_has_a_fail_over_of_its_own() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    text += step("20s", "stop_broker", "broker = 1") + step("21s", "start_broker", "broker = 1")
    here = stage(text + step("25s", "stop_broker", "broker = 1"))
    here.clock.run(60_000)
    told = [event.time_ms for event in here.timeline.events if event.event == "elected"]
    assert told == [25_000 + 9_000]  # not 20 s + 9 s


def test_a_coordinator_that_was_moved_needs_no_fail_over() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    text += step("20s", "stop_broker", "broker = 1")
    here = stage(text + step("21s", "move_coordinator", "broker = 3"))
    here.clock.run(60_000)
    assert here.cluster.coordinator == 3
    assert not [event for event in here.timeline.events if event.event == "elected"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_stands_still_stops_when_it_goes_on(protocol: str) -> None:
    text = f"[topics]\nt = 2\n[[member]]\nname = 'm'\ngroup.protocol = '{protocol}'" + MEMBER
    text += "enable.auto.commit = false\n"
    text += step("30s", "pause", "member = 'm'\nfor = '10s'") + step("32s", "stop", "member = 'm'")
    simulation = play(read_scenario(text + step("33s", "commit", "member = 'm'"), "s.toml"), 0)
    revoked = [event.time_ms for event in simulation.events if event.event in ("revoked", "lost")]
    assert min(revoked) >= 40_000
    assert max(revoked) < 41_000


def test_of_pauses_that_overlap_the_one_counts_that_ends_last() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    text += step("20s", "pause", "member = 'm'\nfor = '10s'")
    text += step("25s", "pause", "member = 'm'\nfor = '30s'")
    text += step("26s", "pause", "member = 'm'\nfor = '1s'")
    simulation = play(read_scenario(text, "s.toml"), 0)
    assert [event.time_ms for event in simulation.events if event.event == "resume"] == [55_000]
    text += step("40s", "resume", "member = 'm'") + step("45s", "pause", "member = 'm'\nfor = '1s'")
    simulation = play(read_scenario(text, "s.toml"), 0)
    resumed = [event.time_ms for event in simulation.events if event.event == "resume"]
    assert resumed == [40_000, 46_000]


@pytest.mark.parametrize(("duration", "most_ms"), [("0s", 20), ("2ms", 20), ("3s", 3_000)])
@pytest.mark.parametrize("kind", ["kafka", "zookeeper"])
def test_who_restarts_starts_when_it_has_stopped_and_the_time_is_over(
    kind: str, duration: str, most_ms: int
) -> None:
    text = (
        f"protocol = '{kind}'\n[topics]\nt = 2\n[[member]]\nname = 'm'\nstart = 0\ntopics = 't'\n"
    )
    text += step("20s", "restart", f"member = 'm'\nfor = '{duration}'")
    simulation = play(read_scenario(text, "s.toml"), 0)
    starts = [event for event in simulation.events if event.event == "start"]
    assert [start.answer for start in starts] == [None, None]
    assert 0 < starts[1].time_ms - 20_000 <= most_ms
    ended = [
        ownership.end_ms for ownership in simulation.ownerships if ownership.end_ms is not None
    ]
    assert max(ended) <= starts[1].time_ms
    assert (
        len(
            [
                ownership
                for ownership in simulation.ownerships
                if ownership.begin_ms > starts[1].time_ms
            ]
        )
        == 2
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_fetched_from_the_coordinator_that_the_consumer_knows(protocol: str) -> None:
    text = f"[topics]\nt = 1\n[[member]]\nname = 'm'\ngroup.protocol = '{protocol}'" + MEMBER
    here = stage(text)
    while not any(event.partitions for event in here.timeline.events):
        here.clock.step()
    here.cluster.move_coordinator(2)  # while the assignment is on its way
    here.clock.run(here.clock.now_ms + 2_000)
    events = [event for event in here.timeline.events if event.event == "OffsetFetch"]
    assert next(event.error for event in events) == "NOT_COORDINATOR"
    (member,) = here.consumers
    assert member.position(0) > 0


def test_a_request_that_waits_is_lost_when_its_broker_crashes() -> None:
    text = "[topics]\nt = 2\n[[member]]\nname = 'm'\ncount = 2\nevery = '20s'" + MEMBER
    here = stage(text + step("20100ms", "stop_broker", "broker = 1"))
    here.clock.run(29_000)  # nobody coordinates until 29.1 s
    events = [event for event in here.timeline.events if event.time_ms >= 20_100]
    broken = [event for event in events if event.answer == "connection broken"]
    assert [event.time_ms for event in broken if event.event == "JoinGroup"] == [20_100]
    requests = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")
    assert {event.answer for event in events if event.event in requests} == {"connection broken"}
    here.clock.run(40_000)
    assert here.is_settled


def test_a_broker_that_comes_back_leads_if_nobody_does() -> None:
    text = "[brokers]\ncount = 1\n[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    text += step("20s", "stop_broker", "broker = 1") + step("40s", "start_broker", "broker = 1")
    here = stage(text)
    here.clock.run(39_999)
    assert here.cluster.coordinator is None
    here.clock.run(50_000)
    assert here.cluster.coordinator == 1
    assert here.is_settled


def test_an_error_of_heartbeats_is_told_once_in_a_generation() -> None:
    text = "[topics]\nt = 2\n[[member]]\nname = 'm'\ncount = 2\nevery = '20s'\nprocessing = '15s'"
    here = stage(text + MEMBER)
    here.clock.run(60_000)
    events = [event for event in here.timeline.events if event.event == "Heartbeat"]
    assert [event.error for event in events] == ["REBALANCE_IN_PROGRESS"]
    assert here.is_settled


@pytest.mark.parametrize("joins", ["22s", "23s", "24s"])
def test_it_commits_by_itself_an_interval_after_its_assignment(joins: str) -> None:
    """`onJoinComplete`: "Reschedule the auto commit starting from now"."""
    text = "[topics]\nt = 2\n[[member]]\nname = 'm'\nprocessing = '100ms'" + MEMBER
    text += f"[[member]]\nname = 'n'\ntopics = 't'\nstart = '{joins}'\n"
    here = stage(text)
    here.clock.run(24_500)
    while not here.is_settled:
        here.clock.run(here.clock.now_ms + 10)
    assigned_ms = max(e.time_ms for e in here.timeline.events if e.event == "assigned")
    here.clock.run(assigned_ms + 4_900)
    assert not commits(here, assigned_ms)
    here.clock.run(assigned_ms + 5_200)
    assert commits(here, assigned_ms)


def test_a_partition_that_somebody_still_reads_has_an_owner() -> None:
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'\ncount = 2" + MEMBER
    here = stage(text + step("30s", "pause", "member = 'm1'\nfor = '60s'"))
    here.clock.run(29_000)
    owners = here.timeline.owners
    before_ms = owners.unowned.total_ms(0)
    here.clock.run(95_000)
    begun = [ownership for ownership in owners.ownerships if ownership.end_ms is not None]
    assert begun  # both took it for theirs for a while
    assert owners.unowned.total_ms(0) - before_ms < 4_000


def test_commits_of_a_group_that_is_there_say_nothing_but_the_offset() -> None:
    """Kafka's schema: -1 is an epoch, or a time of expiry, that is not known."""
    start = InitialGroup(1, "range", "", {}, {("t", 0): 5}, {})
    text = "[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    here = CoordinatorStage(replace(read_scenario(text, "s.toml"), start=start), Random(0))
    (record,) = [each for each in here.cluster.log if each.type == "OffsetCommit"]
    assert record.value is not None
    value = {"offset": 5, "leaderEpoch": -1, "metadata": ""}
    assert record.value["data"] == value | {"commitTimestamp": 0, "expireTimestamp": -1}


# ---- when a group rests: not before the last step has had its effect


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


def test_partitions_that_will_be_revoked_are_not_read_until_then() -> None:
    here = stage("[topics]\nt = 2\n[[member]]\nname = 'm'" + MEMBER)
    here.clock.run(30_000)
    (member,) = here.consumers
    paused, read = member.client.owned
    member.pausing((paused,))
    here.clock.run(60_000)
    before, now = member.positions().offsets((0, 1))
    assert (before, now) == (member.position(0), member.position(1))
    assert before <= 300 < 590 < now
    member.revoked((read,))
    assert member.positions().offsets((0,)) == [before]
