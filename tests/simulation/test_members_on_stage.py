"""What whole scenarios come to for members: what is committed, and what is read again."""

from __future__ import annotations

from random import Random

from kgroup.simulation.message import TopicPartition
from kgroup.simulation.scenario.coordinator_stage import CoordinatorStage
from kgroup.simulation.scenario.file import read_scenario

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
    (told,) = [each for each in here.timeline.events if each.answer == "not sent"]
    assert (told.time_ms, told.event, told.error) == (30_000, "commit", "UNKNOWN_MEMBER_ID")


def test_without_coordinator_members_read_on_and_commit_nothing() -> None:
    text = "[brokers]\ncount = 1\n[topics]\nt = 1\n[[member]]\nname = 'm'" + MEMBER
    here = stage(text + step("30s", "stop_broker", "broker = 1"))
    here.clock.run(90_000)
    (member,) = here.consumers
    assert member.position(("t", 0)) > 890
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
        assert all(member.position(each) > 590 for each in member.client.owned)
