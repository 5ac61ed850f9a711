"""A cluster of three brokers that die, fall silent and come back while groups are asked for."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kgroup.errors import BrokerError
from kgroup.model.group import GroupState
from kgroup.model.log_range import LogRange, OffsetMark
from kgroup.model.offsets_partition import offsets_partition
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from tests.broker.follower import Follower
from tests.broker.process import HOST
from tests.broker.proxy import RecordingProxy, why_not_harmless
from tests.broker.servers import Broker, cluster
from tests.cli.command_line import Cli
from tests.record.raw import await_coordinator, commit
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S, until

VERSION = "4.3.1"
OFFSETS = "__consumer_offsets"
GROUPS = [f"group-{number}" for number in range(9)]
CONFIG = {
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "1",
    "broker.session.timeout.ms": "25000",
}
"""Nobody is missed who is silent for a moment, while others are asked."""
TIMEOUT_S = 6
"""What a command may take, of which a silent broker takes a part."""
TIMEOUT = ("--timeout", str(TIMEOUT_S))

Brokers = tuple[Broker, ...]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Brokers 1 to 3 with the topic "orders", partition n of which only broker n + 1 has."""
    work = tmp_path_factory.mktemp("live-faults")
    with cluster(VERSION, 3, work, config=CONFIG) as servers, ExitStack() as stack:
        wires = {
            server.broker_id: stack.enter_context(Wire(VERSION, server.bootstrap))
            for server in servers
        }
        assignments = [
            {"partition_index": number, "broker_ids": [number + 1]} for number in range(3)
        ]
        topic = {"name": "orders", "num_partitions": -1, "replication_factor": -1, "configs": []}
        (made,) = wires[1].call(
            "CreateTopics", timeout_ms=30_000, topics=[{**topic, "assignments": assignments}]
        )["topics"]
        assert made["error_code"] == 0
        await_coordinator(wires[1])
        (answer,) = [wires[1].call("FindCoordinator", key_type=0, coordinator_keys=GROUPS)]
        homes = {each["key"]: each["node_id"] for each in answer["coordinators"]}
        assert set(homes.values()) == {1, 2, 3}
        for group_id, node in homes.items():
            commit(wires[node], group_id, {("orders", number): 7 for number in range(3)})
        yield servers


def test_all_brokers_are_asked(brokers: Brokers) -> None:
    with LiveCluster(brokers[0].bootstrap) as source:
        for question in (Question(members=False), Question()):
            reading = source.read(question=question)
            assert reading.problems == ()
            groups = reading.image.groups
            assert list(groups) == GROUPS
            assert {group.coordinator and group.coordinator.id for group in groups.values()} == {
                1,
                2,
                3,
            }
        for group_id, placement in source.placements(GROUPS).items():
            assert placement.coordinator == placement.leader == groups[group_id].coordinator
            assert placement.replicas is not None
            assert sorted(placement.replicas) == [1, 2, 3]
        assert all(len(group.offsets) == 3 for group in groups.values())


def test_any_bootstrap_server_that_answers_will_do(brokers: Brokers) -> None:
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        dead = f"{HOST}:{unused.getsockname()[1]}"
        with LiveCluster(f"{dead}, {brokers[1].bootstrap}") as source:
            assert list(source.read().image.groups) == GROUPS
        with LiveCluster([dead]) as source, pytest.raises(BrokerError) as raised:
            source.read()
    assert raised.value.kind == "unreachable"
    assert dead in str(raised.value)


def test_bootstrap_server_that_accepts_and_is_silent(brokers: Brokers) -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        address = f"{HOST}:{silent.getsockname()[1]}"
        with LiveCluster(address, timeout_s=1) as source, pytest.raises(BrokerError) as raised:
            source.read()
        assert raised.value.kind == "silent"
        with LiveCluster([address, brokers[0].bootstrap], timeout_s=15) as source:
            assert list(source.read().image.groups) == GROUPS


def test_no_broker_is_sent_more_than_questions(brokers: Brokers) -> None:
    with RecordingProxy([server.port for server in brokers]) as proxy:
        with LiveCluster(proxy.bootstrap) as source:
            assert list(source.read().image.groups) == GROUPS
            assert list(source.read(GROUPS).image.groups) == GROUPS
            assert source.log_ranges({("orders", 0), ("orders", 2)}).problems == ()
            assert len(source.placements(GROUPS)) == len(GROUPS)
        assert {request.port for request in proxy.requests} == {broker.port for broker in brokers}
        assert {why_not_harmless(request, VERSION) for request in proxy.requests} == {None}


@contextmanager
def silenced(server: Broker) -> Iterator[None]:
    """Stop a broker's process: the kernel takes its connections, and nobody answers."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_one_silent_broker_costs_its_own_groups_only(brokers: Brokers) -> None:
    with LiveCluster(brokers[0].bootstrap) as source:
        homes = {
            group_id: placement.coordinator
            for group_id, placement in source.placements(GROUPS).items()
        }
    others = [name for name, home in homes.items() if home is not None and home.id != 3]
    with silenced(brokers[2]), LiveCluster(brokers[0].bootstrap, timeout_s=TIMEOUT_S) as source:
        reading = source.read()
        ranges = source.log_ranges({("orders", number) for number in range(3)})
    assert list(reading.image.groups) == others
    assert all(len(group.offsets) == 3 for group in reading.image.groups.values())
    (problem,) = reading.problems
    assert (problem.kind, problem.broker) == ("silent", 3)
    assert ranges.ranges == {
        ("orders", 0): LogRange(0, 0),
        ("orders", 1): LogRange(0, 0),
        ("orders", 2): LogRange(mark=OffsetMark.NO_ANSWER),
    }
    (problem,) = ranges.problems
    assert (problem.kind, problem.broker) == ("silent", 3)


def test_the_doctor_tells_which_broker_is_silent(brokers: Brokers, cli: Cli) -> None:
    def ask() -> tuple[int, list[dict[str, str]]]:
        result = cli("doctor", "-b", brokers[0].bootstrap, *TIMEOUT, "-o", "json")
        rows = json.loads(result.out)["data"]
        return result.status, [row for row in rows if row["kind"] in ("source", "broker")]

    names = [f"{server.bootstrap} ({server.broker_id})" for server in brokers]
    status, (source, *rows) = ask()
    assert (status, source["condition"]) == (0, "ok")
    assert [(row["name"], row["condition"]) for row in rows] == [(name, "ok") for name in names]
    with silenced(brokers[1]):
        status, (source, *rows) = ask()
    assert (status, source["condition"]) == (5, "ok")
    assert [row["name"] for row in rows] == names
    assert [row["condition"] for row in rows] == ["ok", "unreachable", "ok"]
    assert "did not answer within" in rows[1]["reason"]


def answers(cli: Cli, bootstrap: str) -> tuple[int, Mapping[int, set[str | None]], set[str]]:
    """Return status, errors of answers by the coordinator's id, and kinds of problems."""
    result = cli("coordinator", *GROUPS, "-b", bootstrap, *TIMEOUT, "-o", "json")
    document = json.loads(result.out)
    errors: dict[int, set[str | None]] = {}
    for row in document["data"]:
        errors.setdefault(row["coordinator"]["id"], set()).add(row["answer_error"])
        assert (row["answer_ms"] is None) == (row["answer_error"] is not None)
    return result.status, errors, {error["kind"] for error in document["errors"]}


def test_a_coordinator_that_does_not_answer(brokers: Brokers, cli: Cli) -> None:
    assert answers(cli, brokers[0].bootstrap) == (0, {1: {None}, 2: {None}, 3: {None}}, set())
    with silenced(brokers[1]):
        status, errors, kinds = answers(cli, brokers[0].bootstrap)
    assert (status, kinds, errors[1], errors[3]) == (4, {"silent"}, {None}, {None})
    (error,) = errors[2]
    assert error is not None
    assert "did not answer within" in error


def test_a_snapshot_keeps_what_the_others_say(brokers: Brokers, cli: Cli, tmp_path: Path) -> None:
    with LiveCluster(brokers[0].bootstrap) as source:
        placed = source.placements(GROUPS).items()
    others = [name for name, home in placed if home.coordinator and home.coordinator.id != 3]
    file = tmp_path / "some.json"
    with silenced(brokers[2]):
        cluster = ("-b", brokers[0].bootstrap, *TIMEOUT)
        result = cli("snapshot", *cluster, "--all", "-f", file)
    assert (result.status, result.out) == (4, "")
    listed = cli("list", "--snapshot", file, "-o", "json")
    document = json.loads(listed.out)
    assert (listed.status, [row["group_id"] for row in document["data"]]) == (4, others)
    assert {(error["kind"], error["broker"]) for error in document["errors"]} == {("silent", 3)}
    described = cli("describe", "--snapshot", file, others[0], "-o", "json")
    document = json.loads(described.out)
    assert [each["mark"] for each in document["data"][0]["offsets"]] == [
        "past-end",
        "past-end",
        "no-answer",
    ]
    assert {(error["kind"], error["broker"]) for error in document["errors"]} == {("silent", 3)}
    assert described.status == 4


def test_the_records_of_one_silent_broker_are_missing(brokers: Brokers, cli: Cli) -> None:
    with LiveCluster(brokers[0].bootstrap) as source:
        leaders = {
            number: partition.leader
            for number, partition in source.view([OFFSETS]).topics[OFFSETS].partitions.items()
        }
    silent = sorted(number for number, leader in leaders.items() if leader == 3)
    command = ("decode-offsets", "-b", brokers[0].bootstrap, "-o", "json")
    whole = cli(*command)
    assert (whole.status, whole.err) == (0, "")
    with silenced(brokers[2]):
        result = cli(*command, *TIMEOUT)
    document = json.loads(result.out)
    everything = json.loads(whole.out)["data"]
    assert document["data"] == [row for row in everything if row["partition"] not in silent]
    assert 0 < len(document["data"]) < len(everything)
    (problem,) = document["errors"]
    assert (result.status, problem["kind"], problem["broker"]) == (4, "silent", 3)
    assert f" {', '.join(map(str, silent))} of __consumer_offsets" in problem["reason"]


def test_coordinator_dies_between_two_requests(brokers: Brokers, cli: Cli) -> None:
    """It cannot be reached first. Its groups move to other brokers, and are asked for until then.

    Who follows the records gets those that the next coordinator writes, and each once.
    """
    with (
        Follower(f"{brokers[0].bootstrap},{brokers[1].bootstrap}", "--from-offset", "0") as records,
        LiveCluster(brokers[0].bootstrap, timeout_s=PATIENCE_S) as source,
    ):
        records.rows(3 * len(GROUPS))
        before = source.read(GROUPS)
        assert list(before.image.groups) == GROUPS
        brokers[1].kill()
        status, errors, kinds = answers(cli, brokers[0].bootstrap)
        assert (status, kinds, errors[1], errors[3]) == (4, {"unreachable"}, {None}, {None})
        assert errors[2] == {
            f"broker 2 ({brokers[1].bootstrap}) cannot be reached: Connection refused"
        }
        after = source.read(GROUPS)
        assert after.problems == ()
        assert list(after.image.groups) == GROUPS
        for group in after.image.groups.values():
            assert group.state is GroupState.EMPTY
            assert group.coordinator is not None
            assert group.coordinator.id != 2
            assert group.offsets == before.image.groups[group.group_id].offsets
        ranges = source.log_ranges({("orders", 0), ("orders", 1)})
        moved = [
            group_id
            for group_id, group in before.image.groups.items()
            if group.coordinator and group.coordinator.id == 2
        ]
        for group_id in moved:
            home = after.image.groups[group_id].coordinator
            assert home is not None
            with Wire(VERSION, f"{home.host}:{home.port}") as wire:
                commit(wire, group_id, {("orders", 0): 1000})
            records.row_of(group_id, 1000)
        assert moved
    assert records.status == 130
    places = [(row["partition"], row["offset"]) for row in records.seen]
    assert len(places) == len(set(places)) == 3 * len(GROUPS) + len(moved)
    assert any("can be read again" in note for note in records.notes)
    assert ranges.ranges == {
        ("orders", 0): LogRange(0, 0),
        ("orders", 1): LogRange(mark=OffsetMark.NO_LEADER),
    }
    (problem,) = ranges.problems
    assert (problem.kind, problem.topic, problem.partition) == ("no-leader", "orders", 1)


def test_it_comes_back(brokers: Brokers) -> None:
    brokers[1].start()
    for server in brokers:
        server.await_cluster(3)
    with LiveCluster(brokers[0].bootstrap, timeout_s=PATIENCE_S) as source:
        reading = source.read()
        assert (list(reading.image.groups), reading.problems) == (GROUPS, ())
        ranges = source.log_ranges({("orders", 1)})
        assert ranges.ranges == {("orders", 1): LogRange(0, 0)}


def test_no_group_disappears_without_a_word(brokers: Brokers, cli: Cli, tmp_path: Path) -> None:
    """Broker 3 dies, with the only replica of partition 0 of `__consumer_offsets`.

    The others' leaders move. A new one lists no groups, without an error, until it loads them.
    """
    only = {"partition_index": 0, "replicas": [3]}
    with Wire(VERSION, brokers[0].bootstrap) as wire:
        wire.call(
            "AlterPartitionReassignments",
            timeout_ms=30_000,
            topics=[{"name": OFFSETS, "partitions": [only]}],
        )
    with LiveCluster(brokers[0].bootstrap, timeout_s=PATIENCE_S) as source:
        until(lambda: source.view([OFFSETS]).topics[OFFSETS].partitions[0].replicas == (3,))
        until(lambda: source.view([OFFSETS]).topics[OFFSETS].partitions[0].leader == 3)
        until(lambda: list(source.read().image.groups) == GROUPS)
    lost = [group_id for group_id in GROUPS if offsets_partition(group_id, 6) == 0]
    others = [group_id for group_id in GROUPS if group_id not in lost]
    assert lost
    brokers[2].kill()
    looks = 0
    while looks < 20:
        with LiveCluster(brokers[looks % 2].bootstrap, timeout_s=PATIENCE_S) as source:
            listed, stored = source.read(question=Question(members=False)), source.read_offsets()
        for groups, problems in (
            (listed.image.groups, listed.problems),
            (stored.offsets, stored.problems),
        ):
            kinds = {problem.kind for problem in problems}
            assert kinds  # else nothing is missing, it says
            if kinds == {"no-leader"}:
                assert list(groups) == others
                assert {problem.offsets_partition for problem in problems} == {0}
                looks += 1
    file = tmp_path / "offsets.json"
    for command in (
        ("list",),
        ("offsets", "export", "--all", "-f", file),
        ("snapshot", "--all", "-f", tmp_path / "groups.json"),
    ):
        result = cli(*command, "-b", brokers[0].bootstrap)
        assert result.status == 4
        assert f"{OFFSETS}-0 has no leader" in result.err
    brokers[2].start()
    for server in brokers:
        server.await_cluster(3)
    with LiveCluster(brokers[0].bootstrap, timeout_s=PATIENCE_S) as source:
        reading = source.read()
        assert (list(reading.image.groups), reading.problems) == (GROUPS, ())


def test_topic_deleted_while_groups_are_described(brokers: Brokers) -> None:
    """Last, for the topic is gone then. The coordinator forgets its commits after a while."""
    with (
        LiveCluster(brokers[0].bootstrap, timeout_s=PATIENCE_S) as source,
        Wire(VERSION, brokers[0].bootstrap) as wire,
    ):
        assert len(source.read(GROUPS).image.groups) == len(GROUPS)
        topic = {"name": "orders", "topic_id": None}
        wire.call("DeleteTopics", topics=[topic], timeout_ms=30_000)
        gone = {LogRange(mark=OffsetMark.TOPIC_GONE)}

        def all_know() -> bool:
            reading = source.log_ranges({("orders", number) for number in range(3)})
            assert reading.problems == ()
            assert set(reading.ranges.values()) <= gone | {LogRange(0, 0)}
            return set(reading.ranges.values()) == gone

        until(all_know)
