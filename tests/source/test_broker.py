"""What a cluster is asked, and what becomes of answers that are errors; brokers are made up."""

from __future__ import annotations

import re
import socket
from collections.abc import Coroutine
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import GroupState, GroupType
from kgroup.model.log_range import LogRange, OffsetMark
from kgroup.model.offsets_partition import offsets_partition
from kgroup.operation.describe import describe
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import uuid_text
from kgroup.protocol.record.consumer_protocol import encode_assignment, encode_subscription
from kgroup.source import deadline
from kgroup.source.base import Question
from kgroup.source.broker import client
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.error_code import error_name, what_it_needs
from kgroup.source.broker.source import LiveCluster
from kgroup.source.deadline import Deadline
from tests.source.broker_answers import (
    committed,
    coordinator,
    described,
    ends,
    metadata,
    offsets,
    orders,
    topic,
)
from tests.source.fake_broker import HOST, FakeBroker, fake_broker

NOT_COORDINATOR, LOADING, NOT_AVAILABLE = 16, 14, 15
GROUP_DENIED, TOPIC_DENIED = 30, 29
UNREPLICATED = 78
QUICK = Question(log_budget=0)
LISTED = ["DescribeGroups", "ListGroups", "DescribeGroups"]
"""A list, and whether the broker has loaded what it leads before and after it."""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of this process is what it will be at once."""
    monkeypatch.setattr(client, "FIRST_BACKOFF_S", 0.01)


def old_ends(request: Any, start: int, end: int) -> dict[str, Any]:
    """Version 0 of the answer gives lists of offsets."""
    answer = ends(request, start, end)
    for found in answer["topics"]:
        for each in found["partitions"]:
            each["old_style_offsets"] = [each.pop("offset")]
            del each["timestamp"]
    return answer


def test_reads_a_group(broker: FakeBroker) -> None:
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(["g"], QUICK)
        assert reading == source.read(question=QUICK)
        assert reading.problems == ()
        group = reading.image.groups["g"]
        assert (group.type, group.state) == (GroupType.CLASSIC, GroupState.STABLE)
        assert [(o.topic, o.partition, o.committed_offset) for o in group.offsets] == [
            ("orders", 0, 7)
        ]
        assert source.log_ranges({("orders", 0)}).ranges == {("orders", 0): LogRange(3, 9)}


def test_a_list_asks_for_a_list_only(broker: FakeBroker) -> None:
    listed = {"group_id": "g", "protocol_type": "consumer", "group_state": "Stable"}
    broker.handlers["ListGroups"] = lambda _: {"error_code": 0, "groups": [listed]}
    broker.newest["ListGroups"] = 4
    with LiveCluster(broker.bootstrap) as source:
        groups = source.read(question=Question(members=False)).image.groups
    assert (list(groups), groups["g"].state) == (["g"], GroupState.STABLE)
    assert broker.names == ["Metadata", *LISTED]


def test_a_list_that_tells_no_states_is_completed_where_they_matter(broker: FakeBroker) -> None:
    broker.newest["ListGroups"] = 3
    with LiveCluster(broker.bootstrap) as source:
        (group,) = source.read(question=Question(members=False)).image.groups.values()
        assert (group.state, group.type) == (GroupState.STABLE, GroupType.CLASSIC)
        assert broker.names == ["Metadata", *LISTED, "DescribeGroups"]
        (group,) = source.read(question=Question(state=False, members=False)).image.groups.values()
        assert group.state is None
    assert broker.names[5:] == ["Metadata", *LISTED]


def _dead(code: int = 0) -> Any:
    """Answer DescribeGroups for groups that do not exist, or may not be asked for here."""
    return lambda request: {
        "groups": [described(group, "Dead", error=code) for group in request.groups]
    }


def test_each_partition_is_probed_by_a_group_that_it_would_have(broker: FakeBroker) -> None:
    with LiveCluster(broker.bootstrap) as source:
        source.read(question=Question(state=False, members=False))
    before, after = (request.groups for name, _, request in broker.asked if "Describe" in name)
    assert before == after
    assert sorted(offsets_partition(group_id, 3) for group_id in before) == [0, 1, 2]


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING])
@pytest.mark.parametrize("list_sooner", [False, True])
def test_a_list_of_a_leader_that_has_not_loaded_its_groups(
    broker: FakeBroker, code: int, list_sooner: bool
) -> None:
    """A new leader lists nothing, without an error, before it begins to load; measured on 4.3.1.

    It may begin and end between two requests, before the list or behind it.
    """
    whole = broker.handlers["ListGroups"]
    lists = [{"error_code": 0, "groups": []}]
    probes = [_dead(), _dead(code)] if list_sooner else [_dead(code)]
    broker.handlers["ListGroups"] = lambda request: lists.pop() if lists else whole(request)
    broker.handlers["DescribeGroups"] = lambda request: (
        probes.pop(0)(request) if probes else _dead()(request)
    )
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(question=Question(state=False, members=False))
    assert (list(reading.image.groups), reading.problems, reading.notes) == (["g"], (), ())
    assert broker.names == ["Metadata", *LISTED] * 2


def _ends(*codes: int) -> Any:
    """Answer ListOffsets with each of these errors in turn, then with ends."""
    left = list(codes)
    return lambda request: ends(request, 3, 9, left.pop(0) if left else 0)


@pytest.mark.parametrize("number", [-1, 3, 1 << 30])
def test_a_list_of_a_cluster_that_numbers_partitions_as_none_does(
    broker: FakeBroker, number: int
) -> None:
    """No group can be in such a partition, and none is looked for."""
    wrong = offsets()
    wrong["partitions"][1]["partition_index"] = number
    broker.handlers["Metadata"] = metadata(broker, wrong, orders())
    with LiveCluster(broker.bootstrap) as source:
        assert [*source.read(question=QUICK).image.groups] == ["g"]


@pytest.mark.parametrize("count", [31, 62, 400, 961])
def test_a_list_of_a_cluster_with_any_number_of_partitions(broker: FakeBroker, count: int) -> None:
    """For each of them there is a name that Java's hash, with its factor 31, gives to it."""
    broker.handlers["Metadata"] = metadata(
        broker, topic("__consumer_offsets", *[1] * count), orders()
    )
    with LiveCluster(broker.bootstrap) as source:
        assert [*source.read(question=QUICK).image.groups] == ["g"]


def test_a_list_where_the_partitions_may_not_be_described(broker: FakeBroker) -> None:
    """Groups may be missing: nobody can tell whether their coordinators are there."""
    denied = topic("__consumer_offsets", error=29)
    broker.handlers["Metadata"] = metadata(broker, denied, orders())
    note = (
        "__consumer_offsets: the cluster returned TOPIC_AUTHORIZATION_FAILED; whether every "
        "coordinator has loaded its groups could not be checked: groups may be missing."
    )
    with LiveCluster(broker.bootstrap) as source:
        assert note in source.read(question=QUICK).notes
        assert note in source.read_offsets().notes


def test_a_list_of_a_leader_whose_records_are_not_replicated_yet(broker: FakeBroker) -> None:
    """Its coordinator leaves out the groups of these records (4.0 and later)."""
    broker.newest["ListOffsets"] = 5
    broker.handlers["ListOffsets"] = _ends(UNREPLICATED)
    whole = broker.handlers["ListGroups"]
    lists = [{"error_code": 0, "groups": []}]
    broker.handlers["ListGroups"] = lambda request: lists.pop() if lists else whole(request)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read_offsets()
    assert (list(reading.offsets), reading.problems) == (["g"], ())


@pytest.mark.parametrize("read", ["read", "read_offsets"])
def test_a_named_group_whose_records_are_not_replicated_yet(broker: FakeBroker, read: str) -> None:
    broker.newest["ListOffsets"] = 5
    broker.handlers["ListOffsets"] = _ends(UNREPLICATED, UNREPLICATED)
    fetches = [committed(), committed()]
    broker.handlers["OffsetFetch"] = lambda _: (
        fetches.pop() if fetches else committed(("orders", 0, 7))
    )
    with LiveCluster(broker.bootstrap) as source:
        if read == "read":
            reading = source.read(["g"], QUICK)
            offsets = reading.image.groups["g"].offsets
            assert reading.problems == ()
        else:
            offsets = source.read_offsets(["g"]).offsets["g"]
    assert [offset.committed_offset for offset in offsets] == [7]


@pytest.mark.slow
def test_partitions_that_are_never_loaded_are_named(broker: FakeBroker) -> None:
    broker.handlers["DescribeGroups"] = lambda request: {
        "groups": [
            described(group, "Dead", error=LOADING if offsets_partition(group, 3) == 2 else 0)
            for group in request.groups
        ]
    }
    with LiveCluster(broker.bootstrap, timeout_s=2) as source:
        reading = source.read(question=Question(state=False, members=False))
    assert list(reading.image.groups) == ["g"]
    (problem,) = reading.problems
    assert (problem.kind, problem.offsets_partition, problem.broker) == ("no-coordinator", 2, 1)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in problem.reason


@pytest.mark.parametrize("leader", [-1, 7])
def test_partitions_of_groups_without_a_leader_are_named(broker: FakeBroker, leader: int) -> None:
    """Broker 7 is not one of the cluster's."""
    broker.handlers["Metadata"] = metadata(
        broker, topic("__consumer_offsets", 1, leader, leader), orders()
    )
    with LiveCluster(broker.bootstrap) as source:
        listed = source.read(question=Question(state=False, members=False))
        offsets = source.read_offsets()
    assert (list(listed.image.groups), list(offsets.offsets)) == (["g"], ["g"])
    for problems in (listed.problems, offsets.problems):
        assert [(problem.kind, problem.offsets_partition) for problem in problems] == [
            ("no-leader", 1),
            ("no-leader", 2),
        ]
        assert "broker 1" in problems[0].reason  # has the replica


def test_who_may_not_ask_for_any_group_is_told_that_nobody_looked(broker: FakeBroker) -> None:
    broker.handlers["DescribeGroups"] = _dead(GROUP_DENIED)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(question=Question(state=False, members=False))
    assert (list(reading.image.groups), reading.problems) == (["g"], ())
    (note,) = reading.notes
    assert "could not be checked: GROUP_AUTHORIZATION_FAILED" in note


@pytest.mark.parametrize("version", [3, 4, 5])
def test_filters_are_for_the_brokers_that_have_them(broker: FakeBroker, version: int) -> None:
    """States since version 4 (KIP-518), types since 5 (KIP-848); this broker heeds neither."""
    groups = [("g", "Stable", "classic"), ("e", "Empty", "classic")]
    if version == 5:
        groups += [("s", "Stable", "share"), ("c", "Stable", "consumer")]
    names = ("group_id", "group_state", "group_type")
    rows = [dict(zip(names, group, strict=True)) for group in groups]
    broker.newest["ListGroups"] = version
    broker.handlers["ListGroups"] = lambda _: {
        "error_code": 0,
        "groups": [{**row, "protocol_type": "consumer"} for row in rows],
    }
    states = {name: state for name, state, _ in groups}
    broker.handlers["DescribeGroups"] = lambda request: {
        "groups": [described(name, states.get(name, "Dead")) for name in request.groups]
    }
    question = Question(
        states=frozenset({GroupState.STABLE}),
        types=frozenset({GroupType.SHARE, GroupType.CLASSIC}),
        members=False,
        log_budget=0,
    )
    with LiveCluster(broker.bootstrap) as source:
        found = source.read(question=question).image.groups
    assert list(found) == (["g", "s"] if version == 5 else ["g"])
    (sent,) = (request for name, _, request in broker.asked if name == "ListGroups")
    assert (sent.states_filter, sent.types_filter) == {
        3: ([], []),
        4: (["Stable"], []),
        5: (["Stable"], ["classic", "share"]),
    }[version]


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_metadata_that_names_a_topic_never_creates_it(broker: FakeBroker, version: int) -> None:
    broker.newest["Metadata"] = version
    with LiveCluster(broker.bootstrap) as source:
        source.read(["g"], QUICK)
        source.log_ranges({("no such topic", 0)})
        source.placements(["g"])
    asked = [request for name, _, request in broker.asked if name == "Metadata"]
    assert len(asked) >= 3
    for request in asked:
        if version >= 4:
            assert request.allow_auto_topic_creation is False
        else:
            assert not request.topics  # all of them


ABSENT = pytest.mark.parametrize("absent", [[], [topic("__consumer_offsets", error=3)]])


@ABSENT
def test_virgin_cluster_is_not_asked_for_coordinators(broker: FakeBroker, absent: Any) -> None:
    """FindCoordinator would create the topic; ListGroups does not."""
    broker.handlers["Metadata"] = metadata(broker, *absent)
    broker.handlers["ListGroups"] = lambda _: {"error_code": 0, "groups": []}
    with LiveCluster(broker.bootstrap) as source:
        for reading in (source.read(["g"]), source.read(), source.read_offsets(["g"])):
            assert reading.problems == ()
            assert "the cluster has never had one" in reading.notes[0]
        assert source.read().image.groups == {}
        assert source.placements(["g"]) == {}
        (problem,) = source.delete_groups(["g"])
    assert problem.kind is ProblemKind.NOT_FOUND
    assert set(broker.names) == {"Metadata", "ListGroups"}


@ABSENT
def test_groups_of_a_cluster_that_shows_no_topic_for_them(broker: FakeBroker, absent: Any) -> None:
    """As franz-go's kfake and some services: groups are where ListGroups names them."""
    broker.handlers["Metadata"] = metadata(broker, orders(), *absent)
    with LiveCluster(broker.bootstrap) as source:
        for reading in (source.read(["g"]), source.read(), source.read(["g", "nobody"])):
            (group,) = reading.image.groups.values()
            assert (group.group_id, group.state) == ("g", GroupState.STABLE)
            assert [o.committed_offset for o in group.offsets] == [7]
            assert group.offsets_partition is None
            assert reading.problems == ()
        assert list(source.read_offsets(["g"]).offsets) == ["g"]
        assert list(source.read_offsets().offsets) == ["g"]
        assert "FindCoordinator" not in broker.names
        placement = source.placements(["g"])["g"]
    assert placement.coordinator is not None
    assert (placement.partition_count, placement.leader) == (None, None)


@ABSENT
def test_a_broker_that_does_not_list_is_not_taken_for_one_without_groups(
    broker: FakeBroker, absent: Any
) -> None:
    broker.handlers["Metadata"] = metadata(broker, *absent)
    broker.handlers["ListGroups"] = lambda _: {"error_code": GROUP_DENIED, "groups": []}
    with LiveCluster(broker.bootstrap) as source, pytest.raises(BrokerError, match="does not list"):
        source.read(["g"])


@pytest.mark.parametrize("transactional", [False, True])
def test_what_kind_of_coordinator_is_asked_for(broker: FakeBroker, transactional: bool) -> None:
    """0 is that of a group, 1 that of a transactional id (KIP-98); each has a topic of its own."""
    name = "__transaction_state" if transactional else "__consumer_offsets"
    broker.handlers["Metadata"] = metadata(broker, topic(name, 1, 1))
    with LiveCluster(broker.bootstrap) as source:
        placement = source.placements(["g"], transactional=transactional)["g"]
    assert (placement.partition_count, placement.coordinator) == (2, placement.leader)
    (asked,) = (request for api, _, request in broker.asked if api == "Metadata")
    assert [each.name for each in asked.topics] == [name]
    (sought,) = (request for api, _, request in broker.asked if api == "FindCoordinator")
    assert (sought.key, sought.key_type) == ("g", int(transactional))


@pytest.mark.parametrize(
    ("version", "empty"), [(1, ()), (2, (("orders", 1),)), (8, (("orders", 1),))]
)
def test_a_negative_number_is_no_offset(
    broker: FakeBroker, version: int, empty: tuple[tuple[str, int], ...]
) -> None:
    """Brokers store it. Version 1 asks for partitions by name: -1 is said of what is not there."""
    broker.newest["OffsetFetch"] = version
    stored = committed(("orders", 0, 7), ("orders", 1, -1))
    broker.handlers["OffsetFetch"] = lambda _: (
        {"groups": [{"group_id": "g", **stored}]} if version == 8 else stored
    )
    with LiveCluster(broker.bootstrap) as source:
        group = source.read(["g"], QUICK).image.groups["g"]
        reading = source.read_offsets(["g"])
    assert [o.committed_offset for o in group.offsets] == [7]
    assert group.empty_commits == empty
    assert [o.committed_offset for o in reading.offsets["g"]] == [7]
    assert reading.empty_commits == ({"g": empty} if empty else {})


@pytest.mark.slow
@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING, NOT_AVAILABLE])
@pytest.mark.parametrize("api", ["DescribeGroups", "OffsetFetch", "FindCoordinator", "ListGroups"])
def test_what_passes_is_asked_for_again(broker: FakeBroker, api: str, code: int) -> None:
    answer = broker.handlers[api]
    refusals: dict[str, Any] = {
        "DescribeGroups": lambda _: {"groups": [described("g", error=code)]},
        "OffsetFetch": lambda _: committed(error=code),
        "FindCoordinator": lambda _: coordinator(broker, code),
        "ListGroups": lambda _: {"error_code": code, "groups": []},
    }
    handlers = [refusals[api], refusals[api], answer]
    broker.handlers[api] = lambda request: (handlers.pop(0) if len(handlers) > 1 else handlers[0])(
        request
    )
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(None if api == "ListGroups" else ["g"], QUICK)
    assert reading.problems == ()
    group = reading.image.groups["g"]
    assert (len(group.members), len(group.offsets)) == (1, 1)
    # Members and offsets are asked for side by side, and each looks for the coordinator.
    assert broker.names.count(api) == (4 if api == "FindCoordinator" else 3)


def test_group_that_has_moved_is_asked_for_where_it_is_now(broker: FakeBroker) -> None:
    """Broker 1 is its coordinator no more when it is asked; broker 2 is."""
    with fake_broker() as other:
        nodes = [
            {"node_id": number, "host": HOST, "port": fake.port, "rack": None}
            for number, fake in ((1, broker), (2, other))
        ]
        answer = metadata(broker, offsets(), orders())(None) | {"brokers": nodes}
        homes = iter([1, 2, 2, 2])  # members and offsets are asked for side by side
        broker.handlers |= {
            "Metadata": lambda _: answer,
            "FindCoordinator": lambda _: coordinator(broker) | {"node_id": next(homes)},
        }
        other.newest = broker.newest
        other.handlers = dict(broker.handlers)
        broker.handlers |= {
            "DescribeGroups": lambda _: {"groups": [described("g", error=NOT_COORDINATOR)]},
            "OffsetFetch": lambda _: committed(error=NOT_COORDINATOR),
        }
        with LiveCluster(broker.bootstrap) as source:
            reading = source.read(["g"], QUICK)
    group = reading.image.groups["g"]
    assert (group.state, len(group.offsets), reading.problems) == (GroupState.STABLE, 1, ())
    assert group.coordinator is not None
    assert group.coordinator.id == 2


def test_new_coordinator_that_does_not_know_a_group_yet_is_asked_again(broker: FakeBroker) -> None:
    """It has the records, and does not answer from them before it knows them to be replicated."""
    fine = {api: broker.handlers[api] for api in ("DescribeGroups", "OffsetFetch")}
    descriptions = iter([described("g", error=NOT_COORDINATOR), *[described("g", "Dead")] * 2])
    offsets = iter([committed(error=NOT_COORDINATOR), *[committed()] * 2])
    broker.handlers["DescribeGroups"] = lambda request: (
        {"groups": [row]} if (row := next(descriptions, None)) else fine["DescribeGroups"](request)
    )
    broker.handlers["OffsetFetch"] = lambda request: next(offsets, fine["OffsetFetch"](request))
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(["g"], QUICK)
    assert reading.problems == ()
    group = reading.image.groups["g"]
    assert (len(group.members), len(group.offsets)) == (1, 1)


@pytest.mark.slow
def test_what_does_not_pass_is_told(broker: FakeBroker) -> None:
    broker.handlers["FindCoordinator"] = lambda _: coordinator(broker, NOT_AVAILABLE)
    with LiveCluster(broker.bootstrap, timeout_s=3) as source:
        reading = source.read(["g", "h"], QUICK)
    assert [(problem.kind, problem.group_id) for problem in reading.problems] == [
        ("no-coordinator", "g"),
        ("no-coordinator", "h"),
    ]
    assert "COORDINATOR_NOT_AVAILABLE" in reading.problems[0].reason


@pytest.mark.slow
def test_a_group_without_a_coordinator_leaves_the_time_to_the_others(broker: FakeBroker) -> None:
    """It is waited for, and what is asked about the others behind that still has time."""
    fine = broker.handlers["FindCoordinator"]
    broker.handlers["FindCoordinator"] = lambda request: (
        coordinator(broker, NOT_AVAILABLE) if request.key == "lost" else fine(request)
    )
    with LiveCluster(broker.bootstrap, timeout_s=4) as source:
        reading = source.read(["g", "lost"], QUICK)
        ranges = source.log_ranges({("orders", 0)})
        offsets = source.read_offsets(["g", "lost"])
    assert [(problem.kind, problem.group_id) for problem in reading.problems] == [
        ("no-coordinator", "lost")
    ]
    assert len(reading.image.groups["g"].members) == 1
    assert ranges.ranges == {("orders", 0): LogRange(3, 9)}
    assert list(offsets.offsets) == ["g"]


def test_who_was_not_asked_is_not_said_to_be_silent(broker: FakeBroker) -> None:
    """All the time went by waiting for a coordinator; the next request has none."""
    broker.handlers["FindCoordinator"] = lambda _: coordinator(broker, NOT_AVAILABLE)
    with LiveCluster(broker.bootstrap, timeout_s=2) as source:
        source.placements(["g"])
        assert source._client is not None
        source._client.deadline._end = 0.0
        with pytest.raises(BrokerError) as raised:
            source.topic_names()
    assert re.fullmatch(
        r"broker 1 \(127.0.0.1:\d+\) was not asked Metadata: the time limit of 2 s had been used "
        r"up, [01].\d s of it waiting for the coordinator of 'g'",
        str(raised.value),
    )


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [
        (0, None, ""),
        (69, None, ""),  # GROUP_ID_NOT_FOUND: an answer about a group that does not exist
        (14, "no-coordinator", "COORDINATOR_LOAD_IN_PROGRESS"),
        (16, "no-coordinator", "NOT_COORDINATOR"),
        (GROUP_DENIED, "denied", "GROUP_AUTHORIZATION_FAILED (it needs DESCRIBE on the group)"),
    ],
)
def test_what_a_coordinator_answers(
    broker: FakeBroker, error: int, kind: str | None, name: str
) -> None:
    broker.handlers["DescribeGroups"] = lambda _: {"groups": [described("g", error=error)]}
    with LiveCluster(broker.bootstrap) as source:
        answer = source.coordinator_answers({"g": 1})["g"]
    assert answer.time_ms is not None
    problem = answer.problem
    assert (problem and problem.kind, problem and problem.reason) == (
        kind, kind and f"The coordinator answers, but with {name}.",
    )  # fmt: skip
    assert broker.names.count("DescribeGroups") == 1


def test_a_coordinator_that_cannot_be_asked(broker: FakeBroker) -> None:
    """Kafka 0.8 has no request about groups."""
    del broker.handlers["DescribeGroups"]
    with LiveCluster(broker.bootstrap) as source:
        assert source.coordinator_answers({"g": 1}) == {}


def test_group_that_may_not_be_described(broker: FakeBroker) -> None:
    broker.handlers["DescribeGroups"] = lambda _: {"groups": [described("g", error=GROUP_DENIED)]}
    broker.handlers["OffsetFetch"] = lambda _: committed(error=GROUP_DENIED)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(["g"], QUICK)
    assert reading.image.groups == {}
    (problem,) = reading.problems
    assert (problem.kind, problem.group_id) == ("denied", "g")
    assert "GROUP_AUTHORIZATION_FAILED (it needs DESCRIBE on the group)" in problem.reason


def test_connection_that_breaks_is_made_anew(broker: FakeBroker) -> None:
    answers = iter([None, None])
    fine = broker.handlers["DescribeGroups"]
    broker.handlers["DescribeGroups"] = lambda request: next(answers, fine(request))
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(["g"], QUICK)
    assert reading.problems == ()
    assert reading.image.groups["g"].state is GroupState.STABLE
    assert broker.names.count("DescribeGroups") == 3


def test_a_null_where_none_may_be(broker: FakeBroker) -> None:
    """Found by fuzzing; kafka-python takes a string's length of -1 for null everywhere."""
    member = described("g")
    broker.handlers["DescribeGroups"] = lambda _: {"groups": [member]}
    broker.damage = lambda _, body: body.replace(b"\0\6Stable", b"\xff\xff")
    with LiveCluster(broker.bootstrap) as source:
        (problem,) = source.read(["g"], QUICK).problems
    assert problem.kind is ProblemKind.UNUSABLE
    assert "DescribeGroups with null for groups.group_state" in problem.reason


def test_a_partition_that_is_left_out_of_an_answer(broker: FakeBroker) -> None:
    broker.handlers["ListOffsets"] = lambda _: {"topics": []}
    with LiveCluster(broker.bootstrap) as source:
        (problem,) = source.log_ranges({("orders", 0)}).problems
    assert problem.kind is ProblemKind.UNUSABLE
    assert "without orders-0" in problem.reason


@pytest.mark.parametrize("api", ["DescribeGroups", "OffsetFetch", "FindCoordinator"])
def test_a_group_that_is_left_out_of_an_answer(broker: FakeBroker, api: str) -> None:
    """Another one stands there, that nobody asked for."""
    broker.newest |= {"OffsetFetch": 8, "FindCoordinator": 4}
    broker.handlers |= {
        "FindCoordinator": lambda _: {"coordinators": [{**coordinator(broker), "key": "g"}]},
        "OffsetFetch": lambda _: {"groups": [{"group_id": "g", **committed()}]},
    }
    fields = {
        "DescribeGroups": {"groups": [described("other")]},
        "OffsetFetch": {"groups": [{"group_id": "other", **committed()}]},
        "FindCoordinator": {"coordinators": [{**coordinator(broker), "key": "other"}]},
    }[api]
    broker.handlers[api] = lambda _: fields
    with LiveCluster(broker.bootstrap) as source:
        try:
            (problem,) = source.read(["g"], QUICK).problems
            kind, reason = problem.kind, problem.reason
        except BrokerError as error:  # nobody to ask at all
            kind, reason = error.kind, str(error)
    assert kind is ProblemKind.UNUSABLE
    assert f"answered {api} without g" in reason


def test_a_null_inside_a_structure(broker: FakeBroker) -> None:
    """Found by fuzzing; of a member's assignment, which is a structure in a structure."""
    listed = {"group_id": "g", "protocol_type": "consumer", "group_type": "consumer"}
    owned = {"topic_partitions": None}
    texts = dict.fromkeys(("member_id", "client_id", "client_host", "subscribed_topic_regex"), "")
    member = {
        **texts,
        "subscribed_topic_names": [],
        "assignment": owned,
        "target_assignment": owned,
    }
    group = {"group_id": "g", "group_state": "Stable", "assignor_name": "", "members": [member]}
    broker.newest["ListGroups"] = 5
    broker.handlers["ListGroups"] = lambda _: {"error_code": 0, "groups": [listed]}
    broker.handlers["ConsumerGroupDescribe"] = lambda _: {"groups": [group]}
    with LiveCluster(broker.bootstrap) as source:
        (problem,) = source.read(None, QUICK).problems
    assert problem.kind is ProblemKind.UNUSABLE
    assert "null for groups.members.assignment.topic_partitions" in problem.reason


def test_members_are_kept_in_the_order_in_which_the_coordinator_lists_them(
    broker: FakeBroker,
) -> None:
    """Its assignors walk over them so; shown they are by id."""
    nothing: dict[str, Any] = {"topic_partitions": []}
    members = [
        {
            "member_id": member_id,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "subscribed_topic_names": ["orders"],
            "assignment": nothing,
            "target_assignment": nothing,
        }
        for member_id in ("pib0", "TMAY", "6P--")
    ]
    group = {"group_id": "g", "group_state": "Stable", "assignor_name": "", "members": members}
    listed = {"group_id": "g", "protocol_type": "consumer", "group_type": "consumer"}
    broker.newest["ListGroups"] = 5
    broker.handlers["ListGroups"] = lambda _: {"error_code": 0, "groups": [listed]}
    broker.handlers["ConsumerGroupDescribe"] = lambda _: {"groups": [group]}
    with LiveCluster(broker.bootstrap) as source:
        found = source.read(None, QUICK).image.groups["g"]
    assert found.member_order == ("pib0", "TMAY", "6P--")
    assert [member.member_id for member in found.members] == ["6P--", "TMAY", "pib0"]


def test_topics_that_a_coordinator_tells_by_id_alone_are_named(broker: FakeBroker) -> None:
    """As franz-go's kfake does; without a name they would be taken for topics that are gone."""
    there, gone = UUID(int=7), UUID(int=8)
    owned = {
        "topic_partitions": [
            {"topic_id": uuid, "topic_name": "", "partitions": [0]} for uuid in (there, gone)
        ]
    }
    member = {
        "member_id": "m",
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "subscribed_topic_names": ["orders"],
        "assignment": owned,
        "target_assignment": owned,
    }
    group = {"group_id": "g", "group_state": "Stable", "assignor_name": "", "members": [member]}
    listed = {"group_id": "g", "protocol_type": "consumer", "group_type": "consumer"}
    broker.newest |= {"ListGroups": 5, "Metadata": 12}
    broker.handlers |= {
        "ListGroups": lambda _: {"error_code": 0, "groups": [listed]},
        "ConsumerGroupDescribe": lambda _: {"groups": [group]},
        "Metadata": metadata(
            broker, offsets() | {"topic_id": UUID(int=1)}, orders() | {"topic_id": there}
        ),
    }
    with LiveCluster(broker.bootstrap) as source:
        (found,) = source.read(None, QUICK).image.groups["g"].members
    names = [("orders", uuid_text(there.bytes)), (None, uuid_text(gone.bytes))]
    for partitions in (found.assignment, found.target_assignment):
        assert [(at.topic, at.topic_id) for at in partitions or ()] == names


def test_endpoints_of_streams_members_are_written_as_servers(broker: FakeBroker) -> None:
    """An IPv6 address in brackets, as RFC 3986 has it: a port cannot be told from it without."""
    texts = dict.fromkeys(("client_id", "client_host", "process_id"), "")
    no_tasks: dict[str, Any] = {f"{kind}_tasks": [] for kind in ("active", "standby", "warmup")}
    members: list[dict[str, Any]] = [
        {
            **texts,
            "member_id": host,
            "user_endpoint": {"host": host, "port": 8080},
            "client_tags": [],
            "assignment": no_tasks,
            "target_assignment": no_tasks,
        }
        for host in ("2001:db8::7", "10.0.0.7", "totals.internal")
    ]
    listed = {"group_id": "g", "protocol_type": "streams", "group_type": "streams"}
    broker.newest["ListGroups"] = 5
    broker.handlers["ListGroups"] = lambda _: {"error_code": 0, "groups": [listed]}
    broker.handlers["StreamsGroupDescribe"] = lambda _: {
        "groups": [{"group_id": "g", "group_state": "Stable", "members": members}]
    }
    with LiveCluster(broker.bootstrap) as source:
        group = source.read(None, QUICK).image.groups["g"]
    assert {member.member_id: member.user_endpoint for member in group.members} == {
        "2001:db8::7": "[2001:db8::7]:8080",
        "10.0.0.7": "10.0.0.7:8080",
        "totals.internal": "totals.internal:8080",
    }


def test_topics_whose_names_no_request_can_hold_are_not_there(broker: FakeBroker) -> None:
    """The length of a string is an int16; a file of offsets may have any name."""
    long, orders = ("é" * 16_384, 0), ("orders", 0)
    with LiveCluster(broker.bootstrap) as source:
        ranges = source.log_ranges({long, orders}).ranges
    assert ranges == {long: LogRange(mark=OffsetMark.TOPIC_GONE), orders: LogRange(3, 9)}


def test_group_that_is_gone_when_it_is_described(broker: FakeBroker) -> None:
    broker.handlers["DescribeGroups"] = lambda request: {
        "groups": [described(group, "Dead") for group in request.groups]
    }
    broker.handlers["OffsetFetch"] = lambda _: committed()
    with LiveCluster(broker.bootstrap) as source:
        for group_ids in (None, ["g"]):
            reading = source.read(group_ids, QUICK)
            assert (reading.image.groups, reading.problems) == ({}, ())


def test_group_that_has_only_offsets_and_is_not_described(broker: FakeBroker) -> None:
    """As brokers of 0.9 have it."""
    broker.handlers["DescribeGroups"] = lambda _: {"groups": [described("g", "Dead")]}
    with LiveCluster(broker.bootstrap) as source:
        group = source.read(["g"], QUICK).image.groups["g"]
    assert (group.state, group.protocol_type, len(group.offsets)) == (GroupState.EMPTY, None, 1)


def test_partitions_that_have_no_range(broker: FakeBroker) -> None:
    topics = [orders(), topic("gone", error=3), topic("secret", error=TOPIC_DENIED)]
    broker.handlers["Metadata"] = metadata(broker, offsets(), *topics)
    wanted = {("orders", 0), ("orders", 1), ("orders", 2), ("gone", 0), ("secret", 0), ("new", 0)}
    with LiveCluster(broker.bootstrap) as source:
        reading = source.log_ranges(wanted)
    assert reading.ranges == {
        ("orders", 0): LogRange(3, 9),
        ("orders", 1): LogRange(mark=OffsetMark.NO_LEADER),
        ("orders", 2): LogRange(mark=OffsetMark.PARTITION_GONE),
        ("gone", 0): LogRange(mark=OffsetMark.TOPIC_GONE),
        ("new", 0): LogRange(mark=OffsetMark.TOPIC_GONE),
        ("secret", 0): LogRange(mark=OffsetMark.NOT_AUTHORIZED),
    }
    assert [(problem.kind, problem.topic, problem.partition) for problem in reading.problems] == [
        ("no-leader", "orders", 1),
        ("not-authorized", "secret", None),
    ]


def test_leader_that_has_moved_is_looked_for_again(broker: FakeBroker) -> None:
    moved = iter([6, 6])
    broker.handlers["ListOffsets"] = lambda request: ends(request, 3, 9, next(moved, 0))
    with LiveCluster(broker.bootstrap) as source:
        reading = source.log_ranges({("orders", 0)})
    assert reading.ranges == {("orders", 0): LogRange(3, 9)}
    assert broker.names.count("Metadata") == 2


def subscribed(group_id: str) -> dict[str, Any]:
    """Describe a group whose member reads orders and payments, and owns orders-0."""
    group = described(group_id)
    subscription = {"version": 0, "topics": ["orders", "payments"], "userData": None}
    assigned = [{"topic": "orders", "partitions": [0]}]
    group["members"][0] |= {
        "member_metadata": encode_subscription(subscription),
        "member_assignment": encode_assignment(
            {"version": 0, "assignedPartitions": assigned, "userData": None}
        ),
    }
    return group


def test_a_description_asks_for_each_topic_once(broker: FakeBroker) -> None:
    """Whose partitions are asked for their ends, and for generations, and such as nobody owns."""
    broker.handlers |= {
        "Metadata": metadata(broker, offsets(), topic("orders", 1, 1), topic("payments", 1)),
        "DescribeGroups": lambda request: {"groups": list(map(subscribed, request.groups))},
        "Fetch": nothing,
    }
    broker.newest["Fetch"] = 4
    with LiveCluster(broker.bootstrap) as source:
        (group,) = describe(source, ["g"]).data
        assert asked_of(broker) == ["__consumer_offsets", "orders", "payments"]
        assert [(offset.topic, offset.partition, offset.mark) for offset in group.offsets] == [
            ("orders", 0, None),
            ("orders", 1, OffsetMark.NO_OWNER),
            ("payments", 0, OffsetMark.NO_OWNER),
        ]
        grown = topic("orders", 1, 1), topic("payments", 1, 1)
        broker.handlers["Metadata"] = metadata(broker, offsets(), *grown)
        source.renew()
        (again,) = describe(source, ["g"]).data
    assert len(again.offsets) == len(group.offsets) + 1


def test_a_leader_that_was_missing_is_asked_for_again(broker: FakeBroker) -> None:
    """One may have been chosen since: as of `__consumer_offsets` after its broker was lost."""
    with LiveCluster(broker.bootstrap) as source:
        before = source.log_ranges({("orders", 1)})
        broker.handlers["Metadata"] = metadata(broker, offsets(), topic("orders", 1, 1))
        after = source.log_ranges({("orders", 1)})
    assert before.ranges == {("orders", 1): LogRange(mark=OffsetMark.NO_LEADER)}
    assert after.ranges == {("orders", 1): LogRange(3, 9)}


def asked_of(broker: FakeBroker) -> list[str]:
    """Names that were asked for, sorted, as often as they were."""
    requests = (request for name, _, request in broker.asked if name == "Metadata")
    return sorted(each.name for request in requests for each in request.topics)


def nothing(request: Any) -> dict[str, Any]:
    """Answer a Fetch without records."""
    answer = {"error_code": 0, "high_watermark": 9, "last_stable_offset": 9, "records": b""}
    return {
        "throttle_time_ms": 0,
        "responses": [
            {
                "topic": topic.topic,
                "partitions": [
                    {"partition_index": partition.partition, "aborted_transactions": [], **answer}
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


@pytest.mark.parametrize("time_ms", [-1, -2, -4, 0])
def test_a_time_before_1970_is_the_first_record(broker: FakeBroker, time_ms: int) -> None:
    """Below 0 ListOffsets has special values: -1 asks for the end."""
    with LiveCluster(broker.bootstrap) as source:
        assert source.offsets_at({("orders", 0)}, time_ms).ranges == {("orders", 0): LogRange(3)}
    (request,) = (r for name, _, r in broker.asked if name == "ListOffsets")
    assert request.topics[0].partitions[0].timestamp == 0


@pytest.mark.parametrize("committed_only", [False, True])
def test_isolation(broker: FakeBroker, committed_only: bool) -> None:
    """The field's case: committed 21, last stable offset 10, log end offset 21."""
    broker.newest["ListOffsets"] = 2
    broker.handlers["ListOffsets"] = lambda request: ends(
        request, 3, 10 if request.isolation_level else 21
    )
    with LiveCluster(broker.bootstrap) as source:
        reading = source.log_ranges({("orders", 0)}, committed=committed_only)
    log = reading.ranges["orders", 0]
    assert log == (LogRange(3, 10, log_end=21) if committed_only else LogRange(3, 21))
    assert (log.mark_of(21), log.lag(21)) == (None, 0)


def old(answer: Any) -> Any:
    """Take from an answer what version 0 does not have."""
    return lambda request: {
        name: value
        for name, value in answer(request).items()
        if name not in ("cluster_id", "controller_id", "error_message")
    }


def test_broker_of_0_9(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing when it is asked what it speaks, so it is asked something else."""
    monkeypatch.setattr(client, "SOON_S", 0.1)
    broker.is_silent_on_versions = True
    broker.handlers |= {
        name: old(broker.handlers[name]) for name in ("Metadata", "FindCoordinator")
    }
    broker.handlers["ListOffsets"] = lambda request: old_ends(request, 3, 9)
    with LiveCluster(broker.bootstrap) as source:
        reading = source.read(question=QUICK)
        assert list(reading.image.groups) == ["g"]
        assert [o.committed_offset for o in reading.image.groups["g"].offsets] == [7]
        assert source.log_ranges({("orders", 0)}).ranges == {("orders", 0): LogRange(3, 9)}
    assert {(name, version) for name, version, _ in broker.asked} == {
        ("ListGroups", 0),
        ("Metadata", 0),
        ("DescribeGroups", 0),
        ("OffsetFetch", 1),
        ("ListOffsets", 0),
    }


def test_broker_of_0_8(broker: FakeBroker) -> None:
    """It closes the connection on what it does not know, lists no groups and describes none."""
    broker.is_closed_on_versions = True
    broker.handlers |= {
        name: old(broker.handlers[name]) for name in ("Metadata", "FindCoordinator")
    }
    del broker.handlers["ListGroups"], broker.handlers["DescribeGroups"]
    with LiveCluster(broker.bootstrap) as source:
        with pytest.raises(BrokerError, match="name them") as raised:
            source.read(question=QUICK)
        assert raised.value.kind == "unsupported"
        reading = source.read(["g"], QUICK)
    assert reading.problems == ()
    group = reading.image.groups["g"]
    assert (group.state, [o.committed_offset for o in group.offsets]) == (None, [7])


@pytest.mark.parametrize("silent", [True, False])
def test_old_brokers_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    """What finds out that they are old shuffles bootstrap servers, each time anew."""
    shuffles = iter([lambda hosts: None, list.reverse] * 4)
    monkeypatch.setattr(client, "SOON_S", 0.1)
    monkeypatch.setattr("kafka.cluster.random.shuffle", lambda hosts: next(shuffles)(hosts))
    with fake_broker() as first, fake_broker() as second:
        nodes = [
            {"node_id": number, "host": HOST, "port": fake.port}
            for number, fake in ((1, first), (2, second))
        ]
        for number, fake in ((1, first), (2, second)):
            fake.is_silent_on_versions, fake.is_closed_on_versions = silent, not silent
            fake.handlers = {
                "Metadata": lambda _: {"brokers": nodes, "topics": [topic("orders", 1, 2)]},
                "ListGroups": lambda _: {"error_code": 0, "groups": []},
                "ListOffsets": partial(old_ends, start=0, end=number),
            }
        with LiveCluster([first.bootstrap, second.bootstrap]) as source:
            ranges = source.log_ranges({("orders", 0), ("orders", 1)}).ranges
    assert ranges == {("orders", 0): LogRange(0, 1), ("orders", 1): LogRange(0, 2)}


@pytest.mark.slow
def test_broker_that_accepts_and_says_nothing_at_all() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        address = f"{HOST}:{listener.getsockname()[1]}"
        with LiveCluster(address, timeout_s=0.5) as source, pytest.raises(BrokerError) as raised:
            source.read()
    assert raised.value.kind == "silent"
    assert str(raised.value).startswith(f"{address} did not answer")


def test_connections_refused_and_closed() -> None:
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        address = f"{HOST}:{unused.getsockname()[1]}"
        with LiveCluster(address) as source, pytest.raises(BrokerError) as raised:
            source.read()
    assert (raised.value.kind, str(raised.value)) == (
        "unreachable",
        f"{address} cannot be reached: Connection refused",
    )


def test_what_a_step_has_waited_for_in_vain_the_next_one_does_not(broker: FakeBroker) -> None:
    """The leader cannot be reached, and stays the leader: a broker behind a firewall, say."""
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        nodes = [
            {"node_id": number, "host": HOST, "port": port, "rack": None}
            for number, port in ((1, broker.port), (2, unused.getsockname()[1]))
        ]
        answer = metadata(broker, topic("orders", 2))(None) | {"brokers": nodes}
        broker.handlers["Metadata"] = lambda _: answer
        with LiveCluster(broker.bootstrap, timeout_s=2, of_silence=True) as source:
            rounds = []
            for is_renewed in (False, False, True):
                if is_renewed:
                    source.renew()
                broker.asked.clear()
                logs = source.log_ranges({("orders", 0)})
                assert [problem.kind for problem in logs.problems] == ["unreachable"]
                rounds.append(broker.names.count("Metadata"))
    first, second, renewed = rounds
    assert first > 2, "it is looked for again and again"
    assert second == 0, "the topic is known, and nothing is looked for again"
    assert renewed > 2


def test_the_timeout_starts_again_after_a_wait(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveCluster(broker.bootstrap, timeout_s=10) as source:
        assert source.read(["g"], QUICK).problems == ()
        monkeypatch.setattr(deadline, "monotonic", lambda: monotonic() + 60)
        source.renew()
        assert source.read(["g"], QUICK).problems == ()
        monkeypatch.setattr(deadline, "monotonic", lambda: monotonic() + 120)
        with pytest.raises(BrokerError):
            source.read(["g"], QUICK)


@pytest.mark.parametrize(
    ("version", "local_start", "is_known"),
    [(7, 8000, True), (8, 8000, False), (9, 8000, False), (9, 7, True)],
)
def test_the_size_of_what_is_partly_in_remote_storage_is_unknown(
    broker: FakeBroker, version: int, local_start: int, *, is_known: bool
) -> None:
    """Tiered storage: DescribeLogDirs tells bytes of disks; -4 asks where these begin (KIP-405)."""
    starts = {-2: 7, -4: local_start}

    def list_offsets(request: Any) -> dict[str, Any]:
        answer = ends(request, 0, 9000)
        for told, asked in zip(answer["topics"], request.topics, strict=True):
            for row, each in zip(told["partitions"], asked.partitions, strict=True):
                row |= {"offset": starts[each.timestamp], "leader_epoch": 0}
        return {"throttle_time_ms": 0, **answer}

    partition = {
        "partition_index": 0,
        "partition_size": 750_000,
        "offset_lag": 0,
        "is_future_key": False,
    }
    folder = {
        "error_code": 0,
        "log_dir": "/data",
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    broker.newest |= {"ListOffsets": version, "DescribeLogDirs": 1}
    broker.handlers |= {
        "ListOffsets": list_offsets,
        "DescribeLogDirs": lambda _: {"throttle_time_ms": 0, "results": [folder]},
    }
    with LiveCluster(broker.bootstrap) as source:
        sizes = source.log_sizes([("orders", 0)])
    assert sizes == ({("orders", 0): 750_000} if is_known else {})
    (request,) = [request for name, _, request in broker.asked if name == "DescribeLogDirs"]
    assert [(each.topic, each.partitions) for each in request.topics] == [("orders", [0])]


# ---- the loop on which requests to brokers run


class Interrupted(Deadline):
    """Ctrl-C as a run begins."""

    def heard(self) -> None:
        raise KeyboardInterrupt


def test_no_coroutine_is_left_by_an_interrupt_before_its_start() -> None:
    """Python would warn of one that "was never awaited", on standard error."""
    made = []

    async def answer() -> int:
        return 1

    def ask() -> Coroutine[Any, Any, int]:
        made.append(1)
        return answer()

    with BrokerClient("127.0.0.1:1", Interrupted(1)) as client, pytest.raises(KeyboardInterrupt):
        client.run(ask)
    assert not made
    with BrokerClient("127.0.0.1:1", Deadline(1)) as client:
        assert client.run(ask) == 1


# ---- error codes of brokers, against those of kafka-python


_OLD_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NONE": "NO_ERROR",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",  # Kafka, until 2.6
    "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
    "INVALID_REGULAR_EXPRESSION": "UNKNOWN",  # to kafka-python
}


def test_names() -> None:
    for name, code in ErrorCode.__members__.items():  # with those that have another's number
        assert error_name(code) == _OLD_NAMES.get(name, name)
    unnamed = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert unnamed == (-1, 128)  # as in Kafka's `Errors`
    assert error_name(12345) == "UNKNOWN"


def test_what_is_missing_where_something_may_not_be_described() -> None:
    assert what_it_needs(ErrorCode.GROUP_AUTHORIZATION_FAILED) == "it needs DESCRIBE on the group"
    denied = {code for code in ErrorCode if what_it_needs(code) is not None}
    assert denied == {code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")}
    assert what_it_needs(ErrorCode.NOT_COORDINATOR) is None
    assert what_it_needs(12345) is None
