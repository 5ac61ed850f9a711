"""A group that is there, as a scenario that begins with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import ASSIGNS_LIKE, CLIENTS, GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign
from kgroup.errors import UnfitError
from kgroup.model.client_library import Certainty
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Subscription
from kgroup.model.snapshot import Snapshot
from kgroup.operation.assign.dry_run import AssignRequest, Mode, assign_group
from kgroup.operation.assign.what_if import Changes
from kgroup.operation.group_scenario import group_as_it_is, with_steps
from kgroup.operation.plan.forecast import Course
from kgroup.operation.simulate import simulate
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import Action, Step
from kgroup.simulation.timeline import Simulation
from kgroup.source.snapshot.source import snapshot_source
from tests.broker.client.rounds import path_of, read_rounds
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
        text = f'version = "{version}"\nduration = "30s"'  # the heartbeats of 150 members take long
        read = read_scenario(text, "f", scenario)
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


def group_of_library(library: str, strategy: str) -> Group:
    """A stable group of three members that subscribe to two topics, as its library assigned."""
    topics = {"u": 5, "t": 7}
    members = [MemberSpec(f"m-{name}", tuple(topics), client_id=name) for name in "abc"]
    spec = GroupSpec(
        strategy,
        tuple(members),
        {name: TopicMetadata(count) for name, count in topics.items()},
        client=ASSIGNS_LIKE.get(library) or CLIENTS[library].newest,
        leader_id="m-a",
    )
    given = assign(spec)
    made = tuple(
        Member(
            member.member_id,
            client_id=member.client_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            subscription=Subscription(member.topics),
            assignment=tuple(
                AssignedPartition(None, topic, number) for topic, number in given[member.member_id]
            ),
            client_library=library,
            client_library_certainty=Certainty.CERTAIN,
        )
        for member in members
    )
    stable = GroupType.CLASSIC, GroupState.STABLE, "consumer", strategy, 7
    return Group("g", *stable, leader_id="m-a", members=made)


@pytest.mark.parametrize(
    ("library", "strategy"),
    [
        (name, strategy)
        for name, library in CLIENTS.items()
        for strategy in library.strategies[library.versions[0]]
        if (name, strategy)
        not in {("sarama", "sticky"), ("sarama", "cooperative-sticky")}  # chance
    ],
)
def test_a_leader_plays_the_assignor_of_its_library(library: str, strategy: str) -> None:
    """Simulated members own at the end what a dry run says, whose assignors the libraries prove."""
    cluster = FakeCluster(group_of_library(library, strategy), topics={"u": 5, "t": 7})
    report = group_as_it_is(cluster, "g")
    simulation = play(with_steps(report.data[0], [(Action.STOP, "b")]), 0)
    owners = {
        (each.topic, each.partition): each.owner
        for each in simulation.ownerships
        if each.end_ms is None
    }
    changes = Changes(remove=["b"])
    (run,) = assign_group(cluster, "g", AssignRequest(Mode.SETTLE, changes=changes)).data
    assignment = run.plans[-1].assignment
    assert assignment is not None
    expected = {
        at: member.removeprefix("m-") for member, owned in assignment.items() for at in owned
    }
    assert owners == expected


def test_members_of_other_libraries_have_their_own_defaults() -> None:
    def config(library: str) -> ConsumerConfig:
        group = group_of_library(library, "range")
        members = tuple(
            replace(member, session_timeout_ms=None, rebalance_timeout_ms=None)
            for member in group.members
        )
        cluster = FakeCluster(replace(group, members=members), topics={"u": 5, "t": 7})
        (scenario,) = group_as_it_is(cluster, "g").data
        return scenario.members["a"].config

    assert config("kafka-clients").library is None
    sarama = config("sarama")
    assert (sarama.session_timeout_ms, sarama.metadata_max_age_ms) == (10_000, 600_000)
    assert (sarama.max_poll_interval_ms, sarama.leaves_if_late) == (60_000, False)
    assert config("kafka-go").metadata_max_age_ms is None
    assert config("librdkafka").leaves_if_late
    aiokafka = config("aiokafka")
    assert (aiokafka.client, aiokafka.assigns_as("range").name) == ("aiokafka", "kafka-python")
    assert (aiokafka.session_timeout_ms, aiokafka.max_poll_interval_ms) == (10_000, 10_000)


@pytest.mark.parametrize("library", ["kafka-clients", "librdkafka"])
def test_an_assignor_of_another_library_is_not_played_without_a_word(library: str) -> None:
    group = slow_group()
    members = tuple(replace(member, client_library=library) for member in group.members)
    notes = group_as_it_is(FakeSource(replace(group, members=members)), "g").notes
    assert any("taken to use librdkafka" in note for note in notes) == (library == "librdkafka")


def test_consumer_groups_of_recorded_rounds_end_as_they_did() -> None:
    """The coordinator's order of members decides ties."""
    rounds = [
        line
        for line in read_rounds(path_of("kafka-clients"))
        if line["kind"].startswith("kafka-clients consumer:uniform, different")
        and [*line["options"]] == ["remove"]
    ]
    assert rounds
    for line in rounds:
        source = snapshot_source(msgspec.convert(line["snapshot"], Snapshot))
        (scenario,) = group_as_it_is(source, line["group"]).data
        leaving = [(Action.STOP, member_id) for member_id in line["options"]["remove"]]
        played = play(with_steps(scenario, leaving), 0)
        owned = {
            (each.owner, each.topic, each.partition)
            for each in played.ownerships
            if each.end_ms is None
        }
        assert owned == {
            (name, topic, number)
            for name, topics in line["outcome"].items()
            for topic, numbers in topics.items()
            for number in numbers
        }


def test_a_leader_of_kafka_go_that_fails_leaves_the_group_to_another_library() -> None:
    """It cannot read the subscription of the Java member, which then leads."""
    (scenario,) = group_as_it_is(
        FakeCluster(group_of_library("kafka-go", "range"), topics={"u": 5, "t": 7}), "g"
    ).data
    config = replace(scenario.members["a"].config, library=None, client_id="java")
    java = replace(scenario.members["a"], config=config)
    step = Step(1_000, Action.START, "java", plan=java)
    scenario = replace(scenario, members={**scenario.members, "java": java}, steps=(step,))
    simulation = play(scenario, 0)
    retries = [each for each in simulation.events if each.event == "retries"]
    assert {(each.answer or "").partition(":")[0] for each in retries} == {"wrapError"}
    assert not [each for each in simulation.events if each.event == "failed"]
    leaders = [each.actor for each in simulation.events if "leads 4" in (each.answer or "")]
    assert leaders[-1] == "java"
    owners = {each.owner for each in simulation.ownerships if each.end_ms is None}
    assert owners == {"a", "b", "c", "java"}


@pytest.mark.parametrize(
    ("library", "is_failed"), [("kafka-clients", True), ("librdkafka", False), ("sarama", True)]
)
def test_a_refused_member_ends_or_retries_as_its_library_does(
    library: str, is_failed: bool
) -> None:
    (scenario,) = group_as_it_is(
        FakeCluster(group_of_library(library, "range"), topics={"u": 5, "t": 7}), "g"
    ).data
    plan = scenario.members["c"]
    other = replace(plan, config=replace(plan.config, strategies=("roundrobin",)))
    back = Step(60_000, Action.RESTART, "c", 1_000, plan)
    steps = (Step(1_000, Action.RESTART, "c", 1_000, other), back)
    events = play(replace(scenario, steps=steps), 0).events
    refused = [e for e in events if e.error == "INCONSISTENT_GROUP_PROTOCOL"]
    if is_failed:
        assert (len(refused), [e.actor for e in events if e.event == "failed"]) == (1, ["c"])
    else:
        assert 50 <= len(refused) <= 60
        assert not [e for e in events if e.event == "failed"]


def test_a_forecast_names_the_members_that_are_refused_to_the_end() -> None:
    """A member of librdkafka joins when those with the other strategy have left."""
    (scenario,) = group_as_it_is(
        FakeCluster(group_of_library("librdkafka", "range"), topics={"u": 5, "t": 7}), "g"
    ).data
    plan = scenario.members["c"]
    other = replace(plan, config=replace(plan.config, strategies=("roundrobin",)))
    refused = Step(1_000, Action.RESTART, "c", 1_000, other)
    others = [Step(30_000, Action.STOP, name) for name in "ab"]
    for steps, failed in (
        ((refused,), {"c": "INCONSISTENT_GROUP_PROTOCOL"}),
        ((refused, *others), {}),
    ):
        simulation = play(replace(scenario, steps=steps), 0)
        costs = Course.of(simulation).costs(0, simulation.end_ms, 0, 0, 0)
        assert costs.failed == failed
