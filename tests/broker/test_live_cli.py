"""`kgroup list`, `describe` and `coordinator` against live brokers, with what was done to them."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from struct import pack
from typing import Any

import pytest
from kafka import KafkaProducer

from tests.broker.process import HOST, free_port
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli, Result
from tests.record.raw import RawMember, await_coordinator, commit, create_topics, join
from tests.record.wire import Wire

PARTITION_COUNT = 4
"""Of `__consumer_offsets`."""
PARTITION_OF = {"steady": 892381166 % PARTITION_COUNT, "over": 3423444 % PARTITION_COUNT}
"""Java: "steady".hashCode() is -892381166, made positive; "over".hashCode() is 3423444."""


@dataclass(frozen=True)
class Live:
    """A broker with the topic "orders" and two classic groups, and how to ask for them.

    "steady" has one member, of generation 1, that owns orders-0 and committed 3 of its 5 records;
    "over" committed past the one record of orders-1, which is of an open transaction.
    """

    server: Broker
    cli: Cli

    def __call__(self, *args: str) -> Result:
        return self.cli(args[0], "-b", self.server.bootstrap, *args[1:])

    def rows(self, *args: str) -> list[Any]:
        """Run a command that shall give no error, and return its data."""
        result = self(*args, "-o", "json")
        assert (result.status, result.err) == (0, "")
        document = json.loads(result.out)
        assert (document["command"], document["errors"]) == (args[0], [])
        rows: list[Any] = document["data"]
        return rows

    @property
    def broker(self) -> dict[str, Any]:
        server = self.server
        return {"id": server.broker_id, "host": HOST, "port": server.port, "rack": None}


@pytest.fixture(scope="module", params=["4.3.1", "2.8.2"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with ExitStack() as stack:
        server = stack.enter_context(broker(version, tmp_path_factory.mktemp(f"cli-{version}")))
        wire = stack.enter_context(Wire(version, server.bootstrap))
        create_topics(wire, {"orders": 2})
        await_coordinator(wire)
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for _ in range(5):
            producer.send("orders", b"x", partition=0).get(30)
        producer.close()
        producer = KafkaProducer(
            bootstrap_servers=server.bootstrap, transactional_id="t", transaction_timeout_ms=600_000
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x", partition=1).get(30)
        member = RawMember(version, server.bootstrap, "steady-client")
        stack.callback(member.close)
        topics = pack(">hih6s", 0, 1, 6, b"orders")  # of ConsumerProtocol: version 0, one topic
        join(
            member,
            "steady",
            {"range": topics + pack(">i", 0)},
            topics + pack(">iii", 1, 0, 0),  # one partition, 0; no user data
        )
        who = (member.member_id, member.generation)
        commit(wire, "steady", {("orders", 0): 3}, metadata="three", member=who)
        commit(wire, "over", {("orders", 1): 0})
        yield server
        producer.abort_transaction()
        producer.close()


@pytest.fixture(scope="module")
def new_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of which nobody has asked anything, and that creates topics by itself."""
    config = {"auto.create.topics.enable": "true"}
    with broker("4.3.1", tmp_path_factory.mktemp("cli-new"), config=config) as server:
        yield server


@pytest.fixture
def live(server: Broker, cli: Cli) -> Live:
    return Live(server, cli)


def test_list(live: Live) -> None:
    for row in live.rows("list", "--no-lag"):
        for name in ("assignor", "member_count", "topics", "total_lag", "worst_lag"):
            assert row[name] is None
    now_ms = 1000 * time.time()
    over, steady = live.rows("list")
    for row in (over, steady):
        assert now_ms - 600_000 < row["last_commit_timestamp_ms"] <= now_ms
    assert [row["total_lag"] for row in (over, steady)] == [1, 2]
    place = [steady[name] for name in ("worst_topic", "worst_partition", "worst_lag")]
    assert place == ["orders", 0, 2]
    (timed,) = live.rows("list", "--min-lag", "2", "--sort", "time-lag")
    assert timed["group_id"] == "steady"
    assert 0 < timed["max_time_lag_ms"] < 600_000
    over, steady = live.rows("list", "--no-lag", "--members")
    assert (over["group_id"], steady["group_id"]) == ("over", "steady")
    assert [row["type"] for row in (over, steady)] == ["classic", "classic"]
    assert [row["state"] for row in (over, steady)] == ["Empty", "Stable"]
    assert [row["member_count"] for row in (over, steady)] == [0, 1]
    assert [row["topics"] for row in (over, steady)] == [["orders"], ["orders"]]
    assert (steady["protocol_type"], steady["assignor"]) == ("consumer", "range")
    for row in (over, steady):
        assert row["coordinator"] == live.broker
        assert row["offsets_partition"] == PARTITION_OF[row["group_id"]]


def test_list_as_a_table_with_filters(live: Live) -> None:
    result = live("list", "--state", "stable")
    assert (result.status, result.err) == (0, "")
    head, row = result.out.splitlines()
    assert "coordinator" not in head.split()
    columns = ["--columns", "group_id,type,state,protocol_type,coordinator"]
    head, row = live("list", "--state", "stable", *columns).out.splitlines()
    cells = dict(zip(head.split(), [*row.split()[:4], " ".join(row.split()[4:6])], strict=False))
    assert (cells["group_id"], cells["state"]) == ("steady", "Stable")
    assert cells["coordinator"] == f"{live.server.bootstrap} ({live.server.broker_id})"
    for options in (["--regex", "o.*"], ["--state", "Empty"]):
        assert [row["group_id"] for row in live.rows("list", *options)] == ["over"]
    assert live.rows("list", "--type", "share") == []
    assert live.rows("list", "--topic", "payments") == []


def test_describe(live: Live) -> None:
    now_ms = 1000 * time.time()
    (group,) = live.rows("describe", "steady")
    assert group["state"] == "Stable"
    assert group["coordinator"] == live.broker
    (member,) = group["members"]
    assert member["client_id"] == "steady-client"
    assert member["client_host"] == f"/{HOST}"
    assert member["subscription"]["topics"] == ["orders"]
    assert [(a["topic"], a["partition"]) for a in member["assignment"]] == [("orders", 0)]
    offset, unowned = group["offsets"]
    assert (unowned["partition"], unowned["member_id"], unowned["mark"]) == (1, None, "no-owner")
    assert offset["member_id"] == member["member_id"] == group["leader_id"]
    assert (offset["committed_offset"], offset["metadata"]) == (3, "three")
    assert (offset["log_start_offset"], offset["log_end_offset"], offset["lag"]) == (0, 5, 2)
    assert group["total_lag"] == 2
    # What no API tells comes from __consumer_offsets.
    assert group["generation_id"] == 1
    assert member["session_timeout_ms"] == 1_800_000
    assert now_ms - 600_000 < offset["commit_timestamp_ms"] <= now_ms


def test_describe_all(live: Live) -> None:
    """Of all groups the log is read only where that is asked for."""
    over, steady = live.rows("describe", "--all")
    assert (over["group_id"], steady["group_id"]) == ("over", "steady")
    assert (steady["generation_id"], steady["offsets"][0]["lag"]) == (None, 2)
    (_, steady) = live.rows("describe", "--all", "--log-budget", "1")
    assert steady["generation_id"] == 1


def test_describe_as_a_table(live: Live) -> None:
    result = live("describe", "steady")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("steady  Stable  1 member  lag 2, all in orders-0 (")
    facts = dict(line.split(maxsplit=1) for line in lines[1 : lines.index("")])
    assert facts["coordinator"].startswith(f"{live.server.bootstrap} ({live.server.broker_id})")
    assert "generation 1 for " in facts["protocol"]
    result = live("describe", "steady", "-o", "tsv", "--columns", "topic,partition,lag")
    assert result.out == "topic\tpartition\tlag\norders\t0\t2\norders\t1\t-\n"


def test_isolation(live: Live) -> None:
    """The record in an open transaction is not there for who reads committed ones only."""
    for isolation, end in (("read-uncommitted", 1), ("read-committed", 0)):
        (group,) = live.rows("describe", "over", "--isolation", isolation)
        (offset,) = group["offsets"]
        assert (offset["log_end_offset"], offset["lag"]) == (end, end)


def test_coordinator(live: Live) -> None:
    rows = live.rows("coordinator", "steady", "no-such-group", "over")
    assert [row["group_id"] for row in rows] == ["steady", "no-such-group", "over"]
    for row in rows:
        assert row["coordinator"] == row["leader"] == live.broker
        assert row["replicas"] == row["isr"] == [live.server.broker_id]
        assert (row["agrees"], row["partition_count"]) == (True, PARTITION_COUNT)
        assert row["answer_error"] is None
        assert 0 <= row["answer_ms"] < 10_000
        if row["group_id"] in PARTITION_OF:
            assert row["offsets_partition"] == PARTITION_OF[row["group_id"]]
    head, row = live("coordinator", "over").out.splitlines()
    assert head.split()[:2] == ["group_id", "offsets_partition"]
    assert row.split()[:2] == ["over", str(PARTITION_OF["over"])]


def test_coordinator_of_transactions(live: Live) -> None:
    """Java: "t".hashCode() is 116, "other" 106069776; two partitions of __transaction_state."""
    rows = live.rows("coordinator", "--type", "transaction", "t", "other")
    for row, name, hashed in zip(rows, ("t", "other"), (116, 106069776), strict=True):
        assert row["transactional_id"] == name
        assert (row["transaction_partition"], row["partition_count"]) == (hashed % 2, 2)
        assert row["coordinator"] == row["leader"] == live.broker
        assert row["replicas"] == row["isr"] == [live.server.broker_id]
        assert row["agrees"] is True


def test_exit_statuses(live: Live) -> None:
    result = live("describe", "no-such-group")
    assert (result.status, result.out) == (3, "")
    assert "group 'no-such-group': not-found: The group does not exist; " in result.err
    result = live("describe", "no-such-group", "over", "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    assert [row["group_id"] for row in document["data"]] == ["over"]
    (error,) = document["errors"]
    assert (error["kind"], error["group_id"]) == ("not-found", "no-such-group")
    assert live("describe", "--regex", "no.*").status == 3


def test_the_environment_names_the_cluster(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", live.server.bootstrap)
    result = live.cli("list", "-o", "tsv", "--no-headers", "--columns", "group_id")
    assert (result.status, result.out) == (0, "over\nsteady\n")


def test_one_dead_bootstrap_server_is_passed_over(live: Live) -> None:
    servers = f"{HOST}:{free_port()},{live.server.bootstrap}"
    assert live.cli("list", "-b", servers).status == 0


def test_no_topic_comes_into_being(live: Live) -> None:
    with Wire(live.server.version, live.server.bootstrap) as wire:
        topics = {topic["name"] for topic in wire.call("Metadata", 1, topics=None)["topics"]}
    assert topics == {"orders", "__consumer_offsets", "__transaction_state"}


@pytest.mark.parametrize(
    ("kind", "topic"), [("group", "__consumer_offsets"), ("transaction", "__transaction_state")]
)
def test_no_topic_comes_into_being_on_a_new_cluster(
    new_server: Broker, cli: Cli, kind: str, topic: str
) -> None:
    """Asking for a coordinator would create it."""
    result = cli("coordinator", "--type", kind, "x", "-b", new_server.bootstrap, "-o", "jsonl")
    (row,) = map(json.loads, result.out.splitlines())
    assert (result.status, row["coordinator"], row["leader"]) == (0, None, None)
    assert f"The cluster has no topic {topic} yet" in result.err
    with Wire(new_server.version, new_server.bootstrap) as wire:
        for _ in range(5):
            assert wire.call("Metadata", 1, topics=None)["topics"] == []
            time.sleep(0.2)  # a topic comes a moment after the answer


COMMANDS = [["list"], ["describe", "--all"], ["describe", "g"], ["coordinator", "g"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dead_port(cli: Cli, command: list[str]) -> None:
    server = f"{HOST}:{free_port()}"
    result = cli(*command, "-b", server)
    assert (result.status, result.out) == (1, "")
    assert result.err == f"kgroup: error: {server} cannot be reached: Connection refused\n"


def test_a_name_without_an_address(cli: Cli) -> None:
    result = cli("list", "-b", "no-such-host.invalid")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("kgroup: error: no-such-host.invalid:9092 cannot be found: ")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_listener_that_never_answers(cli: Cli, command: list[str]) -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        server = f"{HOST}:{silent.getsockname()[1]}"
        result = cli(*command, "-b", server, "--timeout", "1")
    assert (result.status, result.out) == (1, "")
    # the default limit is 10 s, and that of a connection itself 30 s
    assert re.match(rf"kgroup: error: {server} did not answer within [01]\.\d s\n", result.err)
    assert len(result.err.splitlines()) == 1
