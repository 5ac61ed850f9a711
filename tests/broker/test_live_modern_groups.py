"""Consumer (KIP-848), share and streams groups of a live broker, against Kafka's own tools."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path

import pytest

from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Task
from kgroup.operation.assign.group import read_group
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from tests.broker.group_tools import consumer_groups, number, share_groups, streams_groups
from tests.broker.live_groups import (
    MODERN_CONFIG,
    TOPICS,
    await_lag_0,
    await_rest,
    join_consumer_groups,
    join_share_group,
    start_streams,
)
from tests.broker.maven import run_java
from tests.broker.proxy import RecordingProxy
from tests.broker.servers import Broker, broker
from tests.record.clients import java, make_topics
from tests.record.recording import Recording
from tests.record.wire import Wire

VERSION = "4.3.1"
FETCH = 1
Live = tuple[Broker, LiveCluster]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    work: Path = tmp_path_factory.mktemp("live-modern")
    recording = Recording("live", work)
    with (
        broker(VERSION, work, config=MODERN_CONFIG) as server,
        java(recording, server, "Consumers", "Producers", "ShareConsumers") as clients,
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
        Wire(VERSION, server.bootstrap) as wire,
        LiveCluster(server.bootstrap, of_silence=True) as source,
    ):
        make_topics(recording, server, clients, TOPICS)
        start_streams(apps, work)
        join_consumer_groups(clients)
        join_share_group(clients, wire)
        await_lag_0(server, "totals")
        await_rest(source)
        yield server, source


@pytest.fixture(scope="module")
def groups(live: Live) -> Mapping[str, Group]:
    reading = live[1].read()
    assert reading.problems == ()
    return reading.image.groups


def test_types_and_states(live: Live, groups: Mapping[str, Group]) -> None:
    rows = run_java(
        VERSION,
        "org.apache.kafka.tools.GroupsCommand",
        ["--bootstrap-server", live[0].bootstrap, "--list"],
    ).stdout.decode()
    told = {tuple(line.split()) for line in rows.splitlines()[1:] if line}
    assert {
        (group_id, group.type.capitalize(), group.protocol_type)
        for group_id, group in groups.items()
    } == told
    assert {group.type for group in groups.values()} == {
        GroupType.CONSUMER,
        GroupType.SHARE,
        GroupType.STREAMS,
    }
    assert {group.state for group in groups.values()} == {GroupState.STABLE}


def test_named_and_listed_are_the_same(live: Live, groups: Mapping[str, Group]) -> None:
    for _ in range(30):  # a streams group may still go on between two readings
        listed = live[1].read().image.groups
        reading = live[1].read([*groups, "no such group"])
        if reading.image.groups == {group_id: listed[group_id] for group_id in groups}:
            break
        time.sleep(1)
    assert reading.problems == ()
    assert reading.image.groups == {group_id: listed[group_id] for group_id in groups}


@pytest.mark.parametrize("group_type", [GroupType.CONSUMER, GroupType.SHARE])
def test_filters(live: Live, groups: Mapping[str, Group], group_type: GroupType) -> None:
    source = live[1]
    wanted = {group_id for group_id, group in groups.items() if group.type is group_type}
    for members in (True, False):
        question = Question(types=frozenset({group_type}), members=members)
        assert set(source.read(question=question).image.groups) == wanted
        question = Question(states=frozenset({GroupState.EMPTY}), members=members)
        assert source.read(question=question).image.groups == {}
    question = Question(regex=re.compile("r.*"), types=frozenset({GroupType.CONSUMER}))
    assert set(source.read(question=question).image.groups) == {"racks", "regex"}
    assert set(source.read(["shared"], question).image.groups) == {"racks", "regex"}
    question = Question(regex=re.compile("r.*"))
    assert set(source.read(["shared"], question).image.groups) == {"racks", "regex", "shared"}


def test_consumer_groups(live: Live, groups: Mapping[str, Group]) -> None:
    names = [group_id for group_id in groups if groups[group_id].type is GroupType.CONSUMER]
    assert names == ["racks", "regex", "upgrading"]
    for name in names:
        group = groups[name]
        where = ("--describe", "--group", name)
        (state,) = consumer_groups(VERSION, live[0].bootstrap, *where, "--state", "--verbose")
        assert (group.state, group.assignor) == (state["state"], state["assignment-strategy"])
        assert group.group_epoch == int(state["group-epoch"])
        assert group.assignment_epoch == int(state["target-assignment-epoch"])
        rows = consumer_groups(VERSION, live[0].bootstrap, *where, "--members", "--verbose")
        assert {row["consumer-id"] for row in rows} == {each.member_id for each in group.members}
        for row in rows:
            member = member_of(group, row["consumer-id"])
            assert (member.client_host, member.client_id) == (row["host"], row["client-id"])
            assert member.member_epoch == int(row["current-epoch"])
            assert text_of(member.assignment) == row["current-assignment"]
            assert text_of(member.target_assignment) == row["target-assignment"]
            if "upgraded" in row:
                assert member.uses_classic_protocol == (row["upgraded"] == "false")
    old = member_of(groups["upgrading"], client_id="upgrading-old")
    assert old.uses_classic_protocol is True
    racks = groups["racks"]
    assert member_of(racks, client_id="racks-1").rack_id == "rack-a"
    assert member_of(racks, client_id="racks-2").instance_id == "pod-2"
    subscription = groups["regex"].members[0].subscription
    assert subscription is not None
    assert (subscription.regex, subscription.topics) == ("^(orders|pay.*)$", ())
    assert [(o.topic, o.partition, o.committed_offset, o.leader_epoch) for o in racks.offsets] == [
        ("orders", 0, 3, 0)
    ]


def test_share_groups(live: Live, groups: Mapping[str, Group]) -> None:
    group = groups["shared"]
    bootstrap = live[0].bootstrap
    where = ("--describe", "--group", "shared")
    (state,) = share_groups(VERSION, bootstrap, *where, "--state", "--verbose")
    assert (group.state, group.group_epoch) == (state["state"], int(state["group-epoch"]))
    assert group.assignment_epoch == int(state["assignment-epoch"])
    (row,) = share_groups(VERSION, bootstrap, *where, "--members", "--verbose")
    (member,) = group.members
    assert (member.member_id, member.client_id) == (row["consumer-id"], "shared-1")
    assert member.member_epoch == int(row["member-epoch"])
    assert text_of(member.assignment) == row["assignment"]
    rows = share_groups(VERSION, bootstrap, *where)
    fresh = live[1].read(["shared"]).image.groups["shared"]
    assert [
        (offset.topic, offset.partition, offset.start_offset, offset.lag)
        for offset in fresh.share_offsets or ()
    ] == [
        (row["topic"], int(row["partition"]), number(row["start-offset"]), number(row["lag"]))
        for row in rows
    ]
    assert len(rows) == 2


def test_streams_groups(live: Live, groups: Mapping[str, Group]) -> None:
    group = groups["totals"]
    bootstrap = live[0].bootstrap
    where = ("--describe", "--group", "totals")
    (state,) = streams_groups(VERSION, bootstrap, *where, "--state", "--verbose")
    assert (group.state, group.group_epoch) == (state["state"], int(state["group-epoch"]))
    assert group.assignment_epoch == int(state["target-assignment-epoch"])
    (row,) = streams_groups(VERSION, bootstrap, *where, "--members", "--verbose")
    (member,) = group.members
    assert (member.member_id, member.process_id) == (row["member"], row["process"])
    assert (member.member_epoch, member.topology_epoch) == (
        int(row["member-epoch"]),
        int(row["topology-epoch"]),
    )
    assert member.user_endpoint == "totals.internal:8080"
    assert member.tasks is not None
    assert member.target_tasks is not None
    assert tasks_text("ACTIVE", member.tasks.active) in row["assignments"]
    assert tasks_text("TARGET-ACTIVE", member.target_tasks.active) in row["assignments"]
    assert len(member.tasks.active) == 6
    rows = streams_groups(VERSION, bootstrap, *where, "--verbose")
    fresh = live[1].read(["totals"]).image.groups["totals"]
    ours = {(offset.topic, offset.partition): offset.committed_offset for offset in fresh.offsets}
    theirs = {(row["topic"], int(row["partition"])): number(row["current-offset"]) for row in rows}
    assert ours == theirs
    assert fresh.topology is not None
    assert [subtopology.source_topics for subtopology in fresh.topology.subtopologies] == [
        ("orders",),
        (),
    ]


def member_of(
    group: Group, member_id: str | None = None, *, client_id: str | None = None
) -> Member:
    (member,) = (
        member
        for member in group.members
        if member.member_id == member_id or member.client_id == client_id
    )
    return member


def text_of(assignment: tuple[AssignedPartition, ...] | None) -> str:
    """Write partitions as the tools do: ``orders:0,1;payments:0``."""
    topics: dict[str, list[int]] = {}
    for partition in sorted(assignment or (), key=attrgetter("sort_key")):
        assert partition.topic is not None
        assert partition.topic_id is not None
        topics.setdefault(partition.topic, []).append(partition.partition)
    return ";".join(
        f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in topics.items()
    )


def tasks_text(kind: str, tasks: tuple[Task, ...]) -> str:
    """Write tasks as the tool does: ``ACTIVE: 0:[0,1]; 1:[0,1];``."""
    parts: dict[str, list[int]] = {}
    for task in tasks:
        parts.setdefault(task.subtopology_id, []).append(task.partition)
    return f"{kind}: " + " ".join(
        f"{name}:[{','.join(map(str, numbers))}];" for name, numbers in parts.items()
    )


def test_a_dry_run_reads_of_the_log_only_what_it_needs(live: Live) -> None:
    """Which assignors the members of a consumer group prefer; nothing of a share group."""
    server, _ = live
    with RecordingProxy([server.port]) as proxy, LiveCluster(proxy.bootstrap) as source:
        read = read_group(source, "shared")
        assert "shared-1" in {member.client_id for member in read.data[0].members}
        assert FETCH not in {request.api_key for request in proxy.requests}
        read = read_group(source, "racks")
        assert {member.client_id for member in read.data[0].members} == {"racks-1", "racks-2"}
        assert FETCH in {request.api_key for request in proxy.requests}
