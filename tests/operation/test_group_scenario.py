"""A group that is there, as a scenario that begins with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kgroup.errors import UnfitError
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Subscription
from kgroup.operation.group_scenario import group_as_it_is
from kgroup.operation.simulate import simulate
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import Action, Step
from kgroup.simulation.timeline import Simulation
from tests.operation.plan.fake_cluster import FakeCluster
from tests.operation.sources import FakeSource, TreeSource
from tests.recorded_tree import recorded, recorded_ranges, recorded_tree


def slow_group() -> Group:
    """A classic group of one member, which is missed after ten minutes."""
    member = Member(
        "slow-1",
        client_id="slow",
        session_timeout_ms=600_000,
        subscription=Subscription(("t",)),
        assignment=(AssignedPartition(None, "t", 0),),
    )
    return Group(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        "consumer",
        "range",
        7,
        leader_id="slow-1",
        members=(member,),
    )


def test_a_group_is_watched_until_its_sessions_are_over() -> None:
    scenario = group_as_it_is(FakeSource(slow_group()), "g").data[0]
    assert scenario.duration_ms == 1_000 + 600_000 + 60_000
    step = '[[step]]\nat = "5m"\ndo = "crash"\nmember = "slow"\n'
    assert read_scenario("", "test", scenario).duration_ms == scenario.duration_ms
    assert read_scenario(step, "test", scenario).duration_ms == 300_000 + 600_000 + 60_000
    short = read_scenario(f'duration = "6m"\n{step}', "test", scenario)
    assert short.duration_ms == 360_000


def wide_group(members: int) -> Group:
    """A stable group whose members subscribe to 100 topics with names of 50 characters."""
    slow = slow_group()
    topics = tuple(f"{'t':_<48}{number:02}" for number in range(100))
    names = [f"wide-{number:040}" for number in range(members)]
    made = (
        replace(slow.members[0], member_id=name, client_id=name, subscription=Subscription(topics))
        for name in names
    )
    return replace(slow, leader_id=names[0], members=tuple(made))


@pytest.mark.parametrize(
    ("members", "limit", "codec", "expected"),
    [
        (1, None, "0", 1_048_588),  # the default
        (1, "5000", "0", 5_000),
        (1, "5000", "4", 2**31 - 1),
        (1, "8388608", None, 8_388_608),
        (1, None, "4", 2**31 - 1),
        (1, None, None, 1_048_588),
        (250, "8388608", "0", 8_388_608),
        (250, None, "0", 2**31 - 1),  # accepted, so that the limit is not the default
    ],
)
def test_the_limit_of_records_is_that_of_the_cluster(
    members: int, limit: str | None, codec: str | None, expected: int
) -> None:
    cluster = FakeCluster(
        wide_group(members),
        topics={"t": 1},
        settings={1: {} if codec is None else {"offsets.topic.compression.codec": codec}},
        of_offsets_topic={} if limit is None else {"max.message.bytes": limit},
    )
    scenario = group_as_it_is(cluster, "g").data[0]
    assert scenario.settings.message_max_size == expected
    assert read_scenario("", "f", scenario).settings.message_max_size == expected
    own = read_scenario('[brokers]\n"message.max.bytes" = 7\n', "f", scenario)
    assert own.settings.message_max_size == 7
    assert not own.settings.is_limit_assumed
    assert own.settings.may_compress == (codec is None)


@pytest.mark.parametrize(
    ("limit", "codecs", "limit_says", "may_compress"),
    [
        ("1048588", ["0"], "(1,048,588)", False),  # the default, but the cluster's
        ("1048588", [None, "0"], "(1,048,588)", True),
        ("1048588", ["0", "1"], "(1,048,588)", False),  # broker 1 coordinates
        (None, ["0"], "(1,048,588 by default)", False),
        (None, None, "(1,048,588 by default)", True),
    ],
)
def test_an_assumed_limit_is_not_that_of_the_cluster(
    limit: str | None, codecs: Sequence[str | None] | None, limit_says: str, may_compress: bool
) -> None:
    """A record of 150 members is accepted; brokers before 2.5 had a smaller default."""
    found = {
        broker: {} if codec is None else {"offsets.topic.compression.codec": codec}
        for broker, codec in enumerate(codecs or (), 1)
    }
    cluster = FakeCluster(
        wide_group(150),
        topics={f"{'t':_<48}{number:02}": 1 for number in range(100)},
        settings=None if codecs is None else found,
        of_offsets_topic={} if limit is None else {"max.message.bytes": limit},
    )
    scenario = group_as_it_is(cluster, "g").data[0]
    step = Step(1_000, Action.RESTART, next(iter(scenario.members)), 5_000)
    for version, by_default in (("4.3.1", limit_says), ("2.4.1", "(1,000,012 by default)")):
        expected = by_default if limit is None else limit_says
        read = read_scenario(f'version = "{version}"', "f", scenario)
        (note,) = (
            note
            for note in simulate(replace(read, steps=(step,))).notes
            if "max.message.bytes" in note
        )
        assert f"% of max.message.bytes of __consumer_offsets {expected}" in note
        assert ("offsets.topic.compression.codec is unknown" in note) == may_compress


def test_a_leader_that_is_no_member_is_not_known() -> None:
    """No coordinator has such a group; snapshots and logs may say anything."""
    group = slow_group()
    other = replace(group.members[0], member_id="other-1", client_id="other")
    group = replace(group, leader_id="gone", members=(*group.members, other))
    report = group_as_it_is(FakeSource(group), "g")
    step = Step(1_000, Action.RESTART, "slow", 5_000)
    played = play(replace(report.data[0], steps=(step,)), 0)
    assert "the group's leader is unknown; slow is assumed" in report.notes
    assert [event.actor for event in played.events if event.event == "JoinGroup"]


def test_a_generation_that_cannot_be_counted_on() -> None:
    """It is an int32 of Kafka's; snapshots may say any."""
    group = slow_group()
    for generation_id in (1, 1 << 30):
        report = group_as_it_is(FakeSource(replace(group, generation_id=generation_id)), "g")
        assert play(report.data[0], 0).events
    with pytest.raises(UnfitError) as caught:
        group_as_it_is(FakeSource(replace(group, generation_id=(1 << 31) - 1)), "g")
    assert str(caught.value) == (
        "group g: expected a generation of at most 1073741824, found 2147483647"
    )


def test_partitions_below_zero_are_not_there() -> None:
    owned = (AssignedPartition(None, "t", 0), AssignedPartition(None, "t", -1))
    (member,) = slow_group().members
    member = replace(member, assignment=owned, target_assignment=owned[:1], member_epoch=7)
    group = replace(slow_group(), type=GroupType.CONSUMER, group_epoch=7, members=(member,))
    report = group_as_it_is(FakeSource(replace(group, assignor="uniform")), "g")
    assert "members own partitions that do not exist, which are left out: t--1" in report.notes
    assert play(report.data[0], 0).events


def test_a_partition_that_the_leader_assigned_twice_is_revoked_once() -> None:
    (member,) = slow_group().members
    first, *_ = member.assignment or ()
    doubled = replace(member, assignment=(*(member.assignment or ()), first))
    report = group_as_it_is(FakeSource(replace(slow_group(), members=(doubled,))), "g")
    (name,) = report.data[0].members
    step = Step(1_000, Action.RESTART, name, 5_000)
    assert play(replace(report.data[0], steps=(step,)), 0).events


def _restarted(**changes: Any) -> tuple[Simulation, str]:
    """Play that the first of the recorded consumers of "billing" restarts, perhaps otherwise."""
    scenario = group_as_it_is(TreeSource(recorded_tree(), recorded_ranges()), "billing").data[0]
    first, *_ = sorted(scenario.connectors)
    plan = scenario.connectors[first]
    plan = replace(plan, config=replace(plan.config, **changes))
    step = Step(1_000, Action.RESTART, first, 5_000, plan)
    return play(replace(scenario, steps=(step,)), 0), first


def test_a_consumer_on_zookeeper_comes_back_behind_those_of_its_host() -> None:
    """Its id has the time when it began (`ZookeeperConsumerConnector.consumerIdString`)."""
    played, first = _restarted()
    (event,) = [each for each in played.events if each.event == "registered"]
    host = first.rsplit("-", 2)[0]
    assert event.actor == first
    assert re.fullmatch(rf"billing_{host}-\d{{13}}-[0-9a-f]{{8}}", event.answer or "")
    assert (event.answer or "") > recorded()["consumers"]["billing-2"] > f"billing_{first}"


def test_a_group_on_zookeeper_has_its_commits_where_it_commits() -> None:
    """A consumer that looks in Kafka for what is in ZooKeeper begins at the end of the log."""
    skipped = sum(partition.skipped for partition in _restarted()[0].partitions)
    elsewhere = _restarted(storage="kafka", dual_commit=False)[0].partitions
    assert skipped == 0
    assert sum(total.skipped for total in elsewhere) > 0
    both = _restarted(storage="kafka", dual_commit=True)[0].partitions
    assert sum(total.skipped for total in both) == 0


@pytest.mark.parametrize("library", ["kafka-clients", "librdkafka"])
def test_an_assignor_of_another_library_is_not_played_without_a_word(library: str) -> None:
    group = slow_group()
    members = tuple(replace(member, client_library=library) for member in group.members)
    notes = group_as_it_is(FakeSource(replace(group, members=members)), "g").notes
    assert any("taken to use librdkafka" in note for note in notes) == (library == "librdkafka")
