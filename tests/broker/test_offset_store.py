"""Offsets of real clusters: read, compared and set; deleted; and what brokers refuse, by row."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaProducer

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.source.broker.source import LiveCluster
from tests.broker.group_tools import consumer_groups, offsets_by_kafka
from tests.broker.maven import version_tuple
from tests.broker.process import HOST
from tests.broker.proxy import RecordingProxy, Request, groups_written, why_not_harmless
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.contract.offset_store import LARGEST, OffsetStoreContract, changes_to, essence
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    consumer_protocol,
    create_topics,
    join,
)
from tests.record.wire import Wire

VERSIONS = ("1.1.1", "2.8.2", "3.9.2", "4.3.1")
AT = ("orders", 0)
OFFSET_COMMIT, DESCRIBE_GROUPS = 8, 15


@pytest.fixture(scope="module", params=VERSIONS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(f"kafka-{version}")) as server:
        with Wire(version, server.bootstrap) as wire:
            create_topics(wire, {"orders": 3, "payments": 1})
            await_coordinator(wire)
        yield server


@pytest.fixture
def store(server: Broker) -> Iterator[LiveCluster]:
    with LiveCluster(server.bootstrap, of_silence=True) as store:
        yield store


class TestContract(OffsetStoreContract):
    @pytest.fixture(autouse=True)
    def _as_the_version_can(self, server: Broker) -> None:
        number = version_tuple(server.version)
        self.keeps_leader_epochs = number >= (2, 1)
        self.removes_offsets = number >= (2, 4)


def test_kafkas_own_tool_reads_what_was_written(server: Broker, store: LiveCluster) -> None:
    wanted = {("orders", 0): 0, ("orders", 2): 5, ("payments", 0): LARGEST}
    assert store.write_offsets({"told": changes_to(wanted)}) == ()
    assert offsets_by_kafka(server, "told") == wanted
    (problem,) = store.delete_groups(["told", "nobody"])
    assert (problem.kind, problem.group_id) == (ProblemKind.NOT_FOUND, "nobody")
    groups = consumer_groups(server.version, server.bootstrap, "--list")
    assert "told" not in {row["group"] for row in groups}


def test_what_kafkas_own_tool_wrote_is_what_was_there(server: Broker, store: LiveCluster) -> None:
    store.write_offsets({"moved": changes_to({("orders", 0): 7, ("orders", 1): 8})})
    consumer_groups(
        server.version,
        server.bootstrap,
        *("--group", "moved", "--topic", "orders:0", "--reset-offsets", "--to-earliest"),
        "--execute",
    )
    found = essence(store.read_offsets(["moved"]).offsets["moved"])
    assert found == {("orders", 0): 0, ("orders", 1): 8}
    changes = changes_to({("orders", 0): 1, ("orders", 1): 2}, {("orders", 0): 7, ("orders", 1): 8})
    (problem,) = store.write_offsets({"moved": changes})
    assert problem.kind is ProblemKind.CHANGED
    assert problem.reason == (
        "The group has changed since that was planned: orders-0: expected offset 7, found offset 0."
    )
    assert offsets_by_kafka(server, "moved") == found, "nothing was written"


def test_offsets_of_a_time_are_written_back(
    server: Broker, store: LiveCluster, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/howto/reset-offsets.md does it."""
    monkeypatch.chdir(tmp_path)  # where the former offsets are kept
    with closing(KafkaProducer(bootstrap_servers=server.bootstrap)) as producer:
        for _ in range(5):
            producer.send("payments", b"x", partition=0).get(30)
    assert store.write_offsets({"back": changes_to({("payments", 0): 3})}) == ()
    time.sleep(0.1)
    then = datetime.now(UTC).isoformat()
    time.sleep(0.1)
    later = changes_to({("payments", 0): 5}, {("payments", 0): 3})
    assert store.write_offsets({"back": later}) == ()
    where, file = ("-b", server.bootstrap), tmp_path / "then.json"
    as_of = cli("history", "as-of", then, "back", *where, "-o", "json")
    assert as_of.status == 0, as_of.err
    file.write_text(as_of.out)
    for execute, offset in (((), 5), (("--execute",), 3)):
        reset = cli("offsets", "reset", "back", *where, "--to-file", file, *execute)
        assert reset.status == 0, reset.err
        assert offsets_by_kafka(server, "back") == {("payments", 0): offset}


def test_members_alone_commit(server: Broker, store: LiveCluster) -> None:
    """A classic group, whose broker would refuse too."""
    member = RawMember(server.version, server.bootstrap, "member")
    names = ["orders"]
    join(member, "busy", {"range": consumer_protocol(names)}, consumer_protocol(names, 0))
    who = member.member_id, member.generation
    commit(member.wire, "busy", {("orders", 0): 3, ("payments", 0): 4}, member=who)
    there = {("orders", 0): 3, ("payments", 0): 4}
    problems = store.write_offsets({"busy": changes_to({("orders", 0): 9}, there)})
    problems += store.delete_groups(["busy"])
    assert [each.kind for each in problems] == [ProblemKind.ACTIVE] * 2
    assert problems[0].reason.startswith("The group is Stable, with 1 member: ")
    assert "NON_EMPTY_GROUP" in problems[1].reason
    assert essence(store.read_offsets(["busy"]).offsets["busy"]) == there

    if version_tuple(server.version) >= (2, 4):
        gone = changes_to({("orders", 0): None, ("payments", 0): None}, there)
        (problem,) = store.write_offsets({"busy": gone})
        assert (problem.kind, problem.topic, problem.partition) == (ProblemKind.ACTIVE, *AT)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in problem.reason
        del there[("payments", 0)]
        assert essence(store.read_offsets(["busy"]).offsets["busy"]) == there

    (problem,) = store.remove_members("busy", {"nobody": None}).values()
    assert (problem.kind, problem.reason) == (
        ProblemKind.NOT_FOUND,
        "nobody: The group has no such member.",
    )
    reason = "kgroup takes over " + "." * 300
    assert store.remove_members("busy", {member.member_id: None}, reason) == {}
    if version_tuple(server.version) >= (3, 2):
        assert "kgroup takes over" in server.server_log.read_text()
    assert store.write_offsets({"busy": changes_to({("orders", 0): 9}, there)}) == ()
    member.close()


def test_who_has_taken_the_place_of_a_static_member_stays(
    server: Broker, store: LiveCluster
) -> None:
    """Kafka before 2.3 knows no static members, and 2.3 does not tell which members are static."""
    if version_tuple(server.version) < (2, 4):
        return
    first, second = (RawMember(server.version, server.bootstrap, each) for each in ("1", "2"))
    subscription = {"range": consumer_protocol(["orders"])}
    assignment = consumer_protocol(["orders"], 0)
    join(first, "static", subscription, assignment, instance_id="pod-1")
    join(second, "static", subscription, assignment, instance_id="pod-1")
    (problem,) = store.remove_members("static", {first.member_id: "pod-1"}).values()
    assert problem.kind is ProblemKind.CHANGED
    assert problem.reason.startswith("pod-1: The cluster returned FENCED_INSTANCE_ID")
    rows = consumer_groups(
        server.version, server.bootstrap, "--describe", "--group", "static", "--members"
    )
    assert [row["consumer-id"] for row in rows] == [second.member_id]
    (problem,) = store.remove_members("static", {second.member_id: "pod-1", "m": "pod-2"}).values()
    assert problem.reason == "pod-2: The group has no such member."
    assert store.write_offsets({"static": changes_to({("orders", 0): 1})}) == ()
    first.close()
    second.close()


def test_who_joins_between_the_look_and_the_commit(server: Broker) -> None:
    """The broker refuses, since the group has a member by then."""
    member = RawMember(server.version, server.bootstrap, "member")
    subscription = {"range": consumer_protocol(["orders"])}

    def joins(_: Request) -> None:
        join(member, "late", subscription, consumer_protocol(["orders"], 0))

    with _interfered(server, OFFSET_COMMIT, joins) as (store, _):
        (problem,) = store.write_offsets({"late": changes_to({("orders", 0): 1})})
        assert (problem.kind, problem.topic) == (ProblemKind.ACTIVE, None)
        assert "UNKNOWN_MEMBER_ID (it has members" in problem.reason
        assert store.read_offsets(["late"]).offsets == {}
    member.close()


def test_who_joins_right_behind_a_deletion(server: Broker) -> None:
    """The group exists again when it is looked for: it is not called deleted."""
    member = RawMember(server.version, server.bootstrap, "member")
    subscription = {"range": consumer_protocol(["orders"])}

    def joins(_: Request) -> None:
        join(member, "again", subscription, consumer_protocol(["orders"], 0))

    with _interfered(server, DESCRIBE_GROUPS, joins) as (store, _):
        with Wire(server.version, server.bootstrap) as wire:
            commit(wire, "again", {("orders", 0): 1})
        (problem,) = store.delete_groups(["again"])
    assert (problem.kind, problem.group_id) == (ProblemKind.OVERWRITTEN, "again")
    assert problem.reason.startswith(
        "It was deleted, and exists again (state Stable, with 1 member)"
    )
    member.close()


@pytest.mark.parametrize("is_passed_on", [False, True], ids=["request lost", "answer lost"])
def test_a_connection_that_breaks_in_a_commit(server: Broker, is_passed_on: bool) -> None:
    """What became of it is looked for; if it was done, it is not done again."""
    group = f"broken-{is_passed_on}"
    broken: list[Request] = []

    def breaks(request: Request) -> None:
        if broken:
            return
        broken.append(request)
        if is_passed_on:
            _passed_on(server, request)
        raise ConnectionError

    with _interfered(server, OFFSET_COMMIT, breaks) as (store, proxy):
        wanted = {("orders", 0): 5, ("orders", 1): 6}
        assert store.write_offsets({group: changes_to(wanted)}) == ()
        assert essence(store.read_offsets([group]).offsets[group]) == wanted
        sent = [request for request in proxy.requests if request.api_key == OFFSET_COMMIT]
        assert len(sent) == (1 if is_passed_on else 2)


def test_what_is_wrong_with_a_partition_is_told_of_it(server: Broker, store: LiveCluster) -> None:
    """The others of the group are committed. 1.1.1 does not ask how many partitions there are."""

    def wanted(topic: str, partition: int, metadata: str = "") -> OffsetChange:
        offset = CommittedOffset(topic, partition, 1, metadata=metadata)
        return OffsetChange(topic, partition, None, offset)

    changes = [wanted("nowhere", 0), wanted("orders", 99), wanted("orders", 0)]
    changes.append(wanted("orders", 1, "m" * 5000))
    problems = store.write_offsets({"mixed": changes})
    done = {("orders", 0): 1}
    expected = {
        ("nowhere", 0): ProblemKind.TOPIC_GONE,
        ("orders", 99): ProblemKind.TOPIC_GONE,
        ("orders", 1): ProblemKind.DENIED,
    }
    if version_tuple(server.version) < (2,):
        del expected["orders", 99]
        done["orders", 99] = 1
    assert {(each.topic, each.partition): each.kind for each in problems} == expected
    assert all("(" in each.reason and each.group_id == "mixed" for each in problems)
    assert essence(store.read_offsets(["mixed"]).offsets["mixed"]) == done
    (problem,) = store.write_offsets({"mixed": [wanted("nowhere", 1)]})
    assert (problem.topic, problem.partition) == ("nowhere", 1), "not of the group"


def test_a_group_too_large_for_one_request(server: Broker) -> None:
    """Its records would not fit into a batch of `__consumer_offsets`, 1 MiB."""
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"wide": 300})
    changes = [
        OffsetChange("wide", each, None, CommittedOffset("wide", each, each, metadata="m" * 4000))
        for each in range(300)
    ]
    with _interfered(server, OFFSET_COMMIT, lambda _: None) as (store, proxy):
        assert store.write_offsets({"large": changes}) == ()
        assert len(store.read_offsets(["large"]).offsets["large"]) == 300
        sent = [request for request in proxy.requests if request.api_key == OFFSET_COMMIT]
        assert len(sent) == 2


def test_only_named_groups_are_written(server: Broker) -> None:
    """And reading sends nothing but questions."""
    with _interfered(server, OFFSET_COMMIT, lambda _: None) as (store, proxy):
        there = {("orders", 0): 1, ("orders", 1): 1}
        store.write_offsets({"named": changes_to(there), "too": changes_to(there)})
        sent = {"OffsetCommit": {"named", "too"}}
        assert groups_written(proxy.requests) == sent
        if version_tuple(server.version) >= (2, 4):
            assert store.write_offsets({"too": changes_to({("orders", 0): None}, there)}) == ()
            sent["OffsetDelete"] = {"too"}
        store.delete_groups(["named"])
        store.remove_members("too", {"nobody": None})
        sent |= {"DeleteGroups": {"named"}, "LeaveGroup": {"too"}}
        assert groups_written(proxy.requests) == sent
        count = len(proxy.requests)
        assert "too" in store.read_offsets().offsets
        store.read_offsets(["too", "nobody"], log_budget=1 << 20)
        later = proxy.requests[count:]
        assert [why_not_harmless(request, server.version) for request in later] == [None] * len(
            later
        )


def test_times_of_commits_are_in_the_log(store: LiveCluster) -> None:
    before = time.time_ns() // 1_000_000
    store.write_offsets({"timed": changes_to({("orders", 0): 1})})
    (offset,) = store.read_offsets(["timed"], log_budget=32 << 20).offsets["timed"]
    assert offset.commit_timestamp_ms is not None
    assert before <= offset.commit_timestamp_ms <= time.time_ns() // 1_000_000
    (offset,) = store.read_offsets(["timed"]).offsets["timed"]
    assert offset.commit_timestamp_ms is None


# --- helpers ---


@contextmanager
def _interfered(
    server: Broker, api_key: int, happens: Callable[[Request], object]
) -> Iterator[tuple[LiveCluster, RecordingProxy]]:
    """Have something happen before requests of a kind reach the broker."""
    with RecordingProxy([server.port]) as proxy:
        proxy.before[api_key] = happens
        with LiveCluster(proxy.bootstrap, of_silence=True) as store:
            yield store, proxy


def _passed_on(server: Broker, request: Request) -> None:
    """Send a request over a connection of its own, and wait for the answer."""
    with socket.create_connection((HOST, server.port), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(request.message)) + request.message)
        assert connection.recv(4)
