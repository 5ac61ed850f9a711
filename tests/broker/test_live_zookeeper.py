"""Groups of real high-level consumers of 0.8.2.2 in a real ZooKeeper, read as they are.

`ConsumerOffsetChecker` is what their users had for a tool.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from kgroup.cli.command import zk
from kgroup.model.group import GroupState, GroupType
from kgroup.source.base import GroupSource, Question
from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.source import Zookeeper
from tests.broker.maven import run_java
from tests.broker.old_consumers import Black, Fetch, OldConsumers, Streams, White, old_consumers
from tests.broker.servers import Broker, broker
from tests.broker.zookeeper_proxy import READS, ZookeeperProxy
from tests.cli.command_line import Cli, Result
from tests.cli.suggested import suggested
from tests.contract.group_source import GroupSourceContract
from tests.contract.saved import saved
from tests.default_signals import default_signals
from tests.record.raw import commit
from tests.record.wire import Wire
from tests.record.zookeeper_tree import read_tree
from tests.waiting import PATIENCE_S, until

VERSION = "0.8.2.2"
TOPICS = {"orders": 4, "payments": 2}
GROUPS = ("billing", "empty", "orders", "others")


@dataclass(frozen=True)
class Live:
    """What runs."""

    server: Broker
    consumers: OldConsumers
    started_ms: float

    @property
    def connect(self) -> str:
        assert self.server.zookeeper is not None
        return self.server.zookeeper.connect

    def put(self, path: str, text: str, **options: Any) -> None:
        self.consumers.zookeeper.create(path, text.encode(), makepath=True, **options)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A broker with 10 + n records in partition n of each topic, and four groups.

    "orders": two consumers that read all of "orders", one with two streams, and committed;
    "billing": a white list, "others": a black list; "empty": commits and no consumer.
    """
    work: Path = tmp_path_factory.mktemp("live-zookeeper")
    started_ms = 1000 * time.time()
    with broker(VERSION, work) as server:
        assert server.zookeeper is not None
        with old_consumers(server.zookeeper.connect, work) as consumers:
            for topic, count in TOPICS.items():
                consumers.create_topic(topic, ",".join(["1"] * count))
                for partition in range(count):
                    consumers.host().call(
                        "produce",
                        topic=topic,
                        partition=partition,
                        count=10 + partition,
                        config={"bootstrap.servers": server.bootstrap},
                    )
            consumers.join("orders-1", "orders", Streams({"orders": 2}))
            consumers.join("orders-2", "orders", Streams({"orders": 1}))
            consumers.join("billing-1", "billing", White("pay.*,nothing", 1))
            consumers.join("others-1", "others", Black("pay.*", 3))
            consumers.settle()
            consumers.read(46, "orders-1", "orders-2")
            time.sleep(0.5)
            consumers.commit("orders-1", "orders-2")
            live = Live(server, consumers, started_ms)
            live.put("/consumers/empty/offsets/payments/0", "7")
            live.put("/consumers/empty/offsets/payments/1", "99")
            yield live


@pytest.fixture
def ask(live: Live, cli: Cli) -> Any:
    def run(*args: str) -> Result:
        return cli(*args, "--zookeeper", live.connect)

    return run


@pytest.fixture(scope="module", params=["itself", "snapshot"])
def source(
    live: Live, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GroupSource]:
    with Zookeeper(parse_address(live.connect), of_silence=True) as zookeeper:
        if request.param == "itself":
            yield zookeeper
        else:
            yield saved(zookeeper, tmp_path_factory.mktemp("snapshot"))


class TestZookeeper(GroupSourceContract):
    """Of ZooKeeper and of a snapshot of it."""

    types = frozenset({GroupType.ZOOKEEPER})


def test_a_snapshot_says_the_same(live: Live, tmp_path: Path) -> None:
    with Zookeeper(parse_address(live.connect), of_silence=True) as direct:
        through = saved(direct, tmp_path)
        assert through.capabilities == direct.capabilities
        reading = direct.read(question=Question(nodes=True))
        assert through.read() == reading
        assert reading.image.groups == direct.read().image.groups
        partitions = {at for group in reading.image.groups.values() for at in group.partitions}
        assert through.log_ranges(partitions) == direct.log_ranges(partitions)


def test_a_group_as_kafka_says_it_is(live: Live, ask: Any) -> None:
    result = ask("describe", "orders", "-o", "json")
    assert (result.status, result.err) == (0, "")
    (group,) = json.loads(result.out)["data"]
    assert (group["type"], group["state"]) == ("zookeeper", "Stable")
    owners = {
        (row["topic"], row["partition"]): f"{row['member_id']}-{row['owner_thread']}"
        for row in group["offsets"]
    }
    assert owners == live.consumers.owners("orders")
    ids = {name: consumer.consumer_id for name, consumer in live.consumers.alive.items()}
    members = {member["member_id"]: member for member in group["members"]}
    assert set(members) == {ids["orders-1"], ids["orders-2"]}
    nodes = live.consumers.zookeeper
    for member_id, member in members.items():
        data, stat = nodes.get(f"/consumers/orders/ids/{member_id}")
        assert member["subscription"]["streams"] == json.loads(data)["subscription"]
        assert member["session_id"] == f"{stat.ephemeralOwner:#x}"
        assert member["registered_ms"] == stat.ctime
        assert member["client_host"] in member_id
    for row in group["offsets"]:
        _, stat = nodes.get(f"/consumers/orders/owners/orders/{row['partition']}")
        assert row["owned_since_ms"] == stat.ctime
        _, stat = nodes.get(f"/consumers/orders/offsets/orders/{row['partition']}")
        assert row["commit_timestamp_ms"] == stat.mtime > live.started_ms


@pytest.mark.parametrize(("group", "topic"), [("orders", "orders"), ("empty", "payments")])
def test_same_offsets_and_lags_as_the_tool(live: Live, ask: Any, group: str, topic: str) -> None:
    where = ["--zookeeper", live.connect, "--group", group, "--topic", topic]
    printed = run_java(VERSION, "kafka.tools.ConsumerOffsetChecker", where).stdout.decode()
    lines = [line.split() for line in printed.splitlines() if line.startswith(group)]
    theirs = {
        int(line[2]): (*map(int, line[3:6]), None if line[6] == "none" else line[6])
        for line in lines
    }
    (found,) = json.loads(ask("describe", group, "-o", "json").out)["data"]
    assert len(theirs) == TOPICS[topic]
    assert {
        row["partition"]: (
            row["committed_offset"],
            row["log_end_offset"],
            row["lag"],
            row["member_id"] and f"{row['member_id']}-{row['owner_thread']}",
        )
        for row in found["offsets"]
    } == theirs


@pytest.mark.parametrize("dual", ["true", "false"])
def test_consumers_that_commit_to_kafka_begin_where_they_are_said_to(
    live: Live, ask: Any, tmp_path: Path, cli: Cli, dual: str
) -> None:
    consumers, name = live.consumers, f"stored-{dual}"
    config = {"offsets_storage": "kafka", "dual_commit_enabled": dual}
    consumers.join(name, name, Streams({"orders": 1}), **config)
    consumers.read(46, name)
    consumers.commit(name)
    consumers.leave(name)
    if dual == "true":
        for partition, offset in ((1, 3), (2, 5)):
            consumers.zookeeper.set(f"/consumers/{name}/offsets/orders/{partition}", b"%d" % offset)
        moved = {("orders", 0): 4, ("orders", 2): 2}
        # in ZooKeeper and in Kafka: 10 and 4, 3 and 11, 5 and 2, 13 and 13
        commits = {0: (10, "zookeeper"), 1: (11, "kafka"), 2: (5, "zookeeper"), 3: (13, "both")}
    else:
        moved = {("orders", 0): 4}
        commits = {0: (4, "kafka"), 1: (11, "kafka"), 2: (12, "kafka"), 3: (13, "kafka")}
    with Wire(VERSION, live.server.bootstrap) as wire:
        commit(wire, name, moved)
    file = str(tmp_path / "snapshot.json")
    assert cli("snapshot", name, "--zookeeper", live.connect, "-f", file).status == 0
    for source in (["--snapshot", file], ["--zookeeper", live.connect]):
        (group,) = json.loads(cli("describe", name, *source, "-o", "json").out)["data"]
        assert {
            row["partition"]: (row["committed_offset"], row["committed_in"])
            for row in group["offsets"]
        } == commits
        assert group["total_lag"] == 46 - sum(offset for offset, _ in commits.values())
    # The consumer reads what is left from there on, and nothing else.
    consumers.join(name, name, Streams({"orders": 1}), **config)
    consumers.settle()
    fetches = json.loads(ask("zk", "fetchers", name, "-o", "json").out)["data"]
    assert {row["partition"]: row["fetch_offset"] for row in fetches} == {
        partition: offset for partition, (offset, _) in commits.items()
    }
    while [fetch.offset for fetch in consumers.settled_fetches(name)] != [10, 11, 12, 13]:
        time.sleep(0.1)
    time.sleep(0.3)
    left = group["total_lag"]
    assert int(consumers.host().call("old-read", names=name, count=left)) == left
    consumers.leave(name)
    consumers.zookeeper.delete(f"/consumers/{name}", recursive=True)


def test_lists_are_the_topics_that_they_come_to(live: Live, ask: Any) -> None:
    rows = json.loads(ask("describe", "billing", "others", "-o", "json").out)["data"]
    billing, others = (row["members"][0]["subscription"] for row in rows)
    assert (billing["pattern"], billing["topics"]) == ("white_list", ["payments"])
    assert (billing["regex"], billing["streams"]) == ("pay.*|nothing", {"pay.*|nothing": 1})
    assert (others["pattern"], others["topics"]) == ("black_list", ["orders"])
    for row in rows:
        owned = {(r["topic"], r["partition"]) for r in row["offsets"] if r["member_id"]}
        assert owned == set(live.consumers.owners(row["group_id"]))


def test_marks_and_time_lag(ask: Any) -> None:
    (row,) = json.loads(ask("describe", "empty", "--time-lag", "-o", "json").out)["data"]
    assert (row["state"], row["members"]) == ("Empty", [])
    assert [each["mark"] for each in row["offsets"]] == [None, "past-end"]
    # 0.8 keeps no times of records
    assert [each["time_lag_ms"] for each in row["offsets"]] == [None, None]


def test_what_is_asked_only_reads(live: Live, cli: Cli, tmp_path: Path) -> None:
    """Every command that takes --zookeeper, as a proxy sees it."""
    assert live.server.zookeeper is not None
    lines = (
        ["list"],
        ["list", "--topic", "orders", "--type", "zookeeper"],
        ["describe", "--all", "--time-lag"],
        ["describe", "orders", "-X", "zookeeper.digest=kgroup:secret"],
        ["coordinator", "orders"],
        [
            "assign",
            "orders",
            "--dry-run",
            "--remove-member",
            live.consumers.alive["orders-1"].consumer_id,
        ],
        ["snapshot", "--all", "-f", str(tmp_path / "a.json")],
        ["zk", "ids"],
        ["zk", "owners", "orders"],
        ["zk", "tree"],
        ["zk", "tree", "/consumers", "--depth", "1"],
        ["zk", "fetchers", "orders"],
        ["check", "orders"],
        ["doctor"],
        ["plan", "kafka-offsets", "orders"],
        ["plan", "new-consumer", "orders"],
    )
    assert {line[1] for line in lines if line[0] == "zk"} == set(zk.command.commands)

    def has_closed(proxy: ZookeeperProxy) -> bool:
        return proxy.opcodes[-1] == -11

    for line in lines:
        with ZookeeperProxy(live.server.zookeeper.port) as proxy:
            result = cli(*line, "--zookeeper", proxy.connect)
            refused = "new-consumer" in line  # by brokers of 0.8
            assert result.status == (5 if refused else 0), result.err
            until(partial(has_closed, proxy), every_s=0.01)
            assert proxy.sessions == 1
            assert set(proxy.opcodes) <= set(READS), line
            assert {4, 12} <= set(proxy.opcodes)
            assert (100 in proxy.opcodes) == ("-X" in line)
            assert proxy.watches == []


def test_the_doctor_reaches_brokers_by_zookeeper(live: Live, ask: Any) -> None:
    result = ask("doctor", "-o", "json")
    _, *rows = [
        row for row in json.loads(result.out)["data"] if row["kind"] in ("source", "broker")
    ]
    name = f"{live.server.bootstrap} ({live.server.broker_id})"
    assert [(row["name"], row["condition"]) for row in rows] == [(name, "ok")]
    result = ask("doctor", "-X", "security.protocol=SSL", "-o", "json")
    _, row = [row for row in json.loads(result.out)["data"] if row["kind"] in ("source", "broker")]
    assert (result.status, row["condition"]) == (5, "unreachable")
    assert "listens with security.protocol SSL" in row["reason"]


@pytest.mark.parametrize("group", ["billing", "orders", "others"])
def test_a_dry_run_gives_what_the_consumers_own(live: Live, ask: Any, group: str) -> None:
    result = ask("assign", group, "--dry-run", "-o", "json")
    assert result.status == 0
    assert (
        "kgroup: note: no node in ZooKeeper contains partition.assignment.strategy; assuming "
        "range, "
        "Kafka's default; it gives the current assignment" in result.err
    )
    (row,) = json.loads(result.out)["data"]
    given = {
        (topic, partition): thread
        for thread, partitions in row["threads"].items()
        for topic, partition in partitions
    }
    assert given == live.consumers.owners(group)
    assert (row["moves"], row["kept"]) == ([], len(given))


def test_owners_and_nodes(live: Live, ask: Any) -> None:
    def rows(*args: str) -> list[dict[str, Any]]:
        result = ask("zk", *args, "-o", "json")
        assert (result.status, result.err) == (0, "")
        data: list[dict[str, Any]] = json.loads(result.out)["data"]
        return data

    for group in ("orders", "billing", "others"):
        owners = {
            (row["topic"], row["partition"]): row["thread_id"] for row in rows("owners", group)
        }
        assert owners == live.consumers.owners(group)
    assert {row["consumer_id"] for row in rows("ids")} == {
        consumer.consumer_id for consumer in live.consumers.alive.values()
    }
    nodes = read_tree(live.consumers.zookeeper)
    assert {row["path"]: (row["text"], row["mtime_ms"]) for row in rows("tree")} == {
        node["path"]: (node["text"], node["stat"]["mtime"]) for node in nodes
    }
    shallow = [row["path"] for row in rows("tree", "/consumers", "--depth", "1")]
    assert shallow == ["/consumers", *(f"/consumers/{group}" for group in GROUPS)]


def test_completion(live: Live, cli: Cli) -> None:
    line = f"kgroup describe --zookeeper {live.connect} "
    assert suggested(cli, line) == ("plain", list(GROUPS))
    (id_,) = [
        consumer.consumer_id
        for consumer in live.consumers.alive.values()
        if consumer.group == "billing"
    ]
    assert suggested(
        cli, f"kgroup assign billing --zookeeper {live.connect} --remove-member b"
    ) == ("plain", [id_])


def test_names(ask: Any) -> None:
    result = ask("list", "-o", "tsv", "--no-headers", "--columns", "group_id,state,member_count")
    assert result.out.splitlines() == [
        "billing\tStable\t1",
        "empty\tEmpty\t0",
        "orders\tStable\t2",
        "others\tStable\t1",
    ]
    assert ask("describe", "nobody").status == 3
    assert ask("describe", "nobody", "a/b", "..", "orders").status == 4
    both = ask("describe", "--regex", "o.*", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["group_id"] for line in both] == ["orders", "others"]


def test_nodes_that_cannot_be_read(live: Live, ask: Any, cli: Cli) -> None:
    acl = [make_digest_acl("kgroup", "secret", read=True)]
    live.put("/bad/consumers/g/ids/c", "{")
    live.put("/bad/consumers/g/locks/one", "x")
    live.put("/bad/consumers/g/offsets/t/0", "5")
    live.put("/bad/consumers/g/offsets/t/1", "6", acl=acl)
    live.put("/bad/brokers/ids/1", "")
    at = ("--zookeeper", f"{live.connect}/bad")
    result = cli("describe", "g", *at, "-o", "json")
    document = json.loads(result.out)
    assert result.status == 4
    assert [row["committed_offset"] for row in document["data"][0]["offsets"]] == [5]
    assert {(each["kind"], each["path"]) for each in document["errors"]} == {
        ("bad-node", "/consumers/g/ids/c"),
        ("foreign-node", "/consumers/g/locks"),
        ("denied-node", "/consumers/g/offsets/t/1"),
        ("bad-node", "/brokers/ids/1"),
        ("unreachable", None),
    }
    shown = cli("describe", "g", *at, "-X", "zookeeper.digest=kgroup:secret", "-o", "json")
    (group,) = json.loads(shown.out)["data"]
    assert [row["committed_offset"] for row in group["offsets"]] == [5, 6]
    assert "secret" not in shown.err
    wrong = cli("describe", "g", *at, "-X", "zookeeper.digest=kgroup:wrong", "-o", "json")
    assert "denied-node" in [each["kind"] for each in json.loads(wrong.out)["errors"]]


def test_where_there_is_no_kafka(live: Live, cli: Cli) -> None:
    live.put("/other/kafka/brokers/ids", "")
    result = cli("list", "--zookeeper", f"{live.connect}/other")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "kgroup: error: --zookeeper: expected Kafka's nodes /consumers and /brokers below "
        "/other, found kafka; there is a Kafka below /other/kafka: add that to the address\n"
    )
    result = cli("list", "--zookeeper", f"{live.connect}/no/where")
    assert (result.status, result.err) == (
        1,
        "kgroup: error: --zookeeper: expected a node /no/where (the chroot), found none\n",
    )
    assert cli("list", "--zookeeper", f"{live.connect}/other/kafka").status == 0


def test_connections_that_break_and_servers_that_are_down(live: Live, cli: Cli) -> None:
    assert live.server.zookeeper is not None
    result = cli("list", "--zookeeper", f"127.0.0.1:1,{live.connect}")
    assert (result.status, result.err) == (0, "")
    with (
        ZookeeperProxy(live.server.zookeeper.port) as proxy,
        Zookeeper(parse_address(proxy.connect), timeout_s=30) as zookeeper,
    ):
        before = zookeeper.read()
        proxy.break_connections()
        assert zookeeper.read() == before
        assert proxy.sessions == 2
        zookeeper.renew(after_failure=True)
        assert zookeeper.read() == before


def test_watching(live: Live) -> None:
    """Who joins, who leaves, and what changes hands by it, as JSON lines."""
    command = [sys.executable, "-m", "kgroup", "describe", "orders", "--zookeeper", live.connect]
    with subprocess.Popen(
        [*command, "--watch", "0.2", "--timeout", "20"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    ) as process:
        assert process.stdout is not None
        seen: list[dict[str, Any]] = []

        def until(change: str) -> dict[str, Any]:
            assert process.stdout is not None
            while not seen or seen[-1]["change"] != change:
                seen.append(json.loads(process.stdout.readline()))
            return seen[-1]

        def has_owned(member_id: str) -> bool:
            return any(each["change"] == "owner" and each["after"] == member_id for each in seen)

        first = until("group-found")["after"]
        owners = {row["partition"]: row["member_id"] for row in first["offsets"]}
        consumer_id = live.consumers.join("late-1", "orders", Streams({"orders": 1}))
        assert until("member-joined")["member_id"] == consumer_id
        live.consumers.settle()
        while not has_owned(consumer_id):  # it must not leave before that is seen
            seen.append(json.loads(process.stdout.readline()))
        live.consumers.leave("late-1")
        assert until("member-left")["member_id"] == consumer_id
        live.consumers.settle()
        settled = {
            partition: thread.rpartition("-")[0]
            for (_, partition), thread in live.consumers.owners("orders").items()
        }
        deadline = time.monotonic() + PATIENCE_S
        while owners != settled or len(seen) < 4:
            assert time.monotonic() < deadline
            line = json.loads(process.stdout.readline())
            seen.append(line)
            owners = dict(
                {row["partition"]: row["member_id"] for row in first["offsets"]}
                | {each["partition"]: each["after"] for each in seen if each["change"] == "owner"}
            )
        process.send_signal(signal.SIGTERM)


def test_a_crash_is_seen_until_its_session_is_over(live: Live) -> None:
    consumers = live.consumers
    crashed = consumers.join("crash-1", "orders", Streams({"orders": 1}), host="weak")
    consumers.settle()
    with Zookeeper(parse_address(live.connect), of_silence=True) as zookeeper:
        before = zookeeper.read(["orders"]).image.groups["orders"]
        consumers.crash("weak")
        assert crashed in {member.member_id for member in before.members}
        consumers.settle()
        after = zookeeper.read(["orders"]).image.groups["orders"]
    assert crashed not in {member.member_id for member in after.members}
    assert after.state is GroupState.STABLE
    owners = {
        (part.topic, part.partition): f"{member.member_id}-{part.thread}"
        for member in after.members
        for part in member.assignment or ()
    }
    assert owners == consumers.owners("orders")


def test_where_fetchers_begin(live: Live, ask: Any) -> None:
    """Without a commit, and with one past the end; no other records come."""
    live.put("/consumers/late/offsets/payments/1", "99")
    subscription = Streams({"payments": 2})
    live.consumers.join("late-1", "late", subscription, auto_offset_reset="largest")
    live.consumers.settle()
    result = ask("zk", "fetchers", "late", "--reset", "largest", "-o", "json")
    assert (result.status, result.err) == (0, "")
    rows = json.loads(result.out)["data"]
    assert {row["partition"]: row["reset"] for row in rows} == {0: "no-commit", 1: "past-end"}

    def fetched() -> list[Fetch] | None:  # that it is past the end, a first fetch tells
        now = live.consumers.settled_fetches("late-1")
        return None if 99 in {fetch.offset for fetch in now} else now

    now = until(fetched)
    assert {(fetch.partition, fetch.thread, fetch.offset) for fetch in now} == {
        (row["partition"], row["fetcher"], row["fetch_offset"]) for row in rows
    }
    live.consumers.leave("late-1")
