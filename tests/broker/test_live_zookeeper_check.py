"""`kgroup check` on a real ZooKeeper with real consumers of 0.8.2.2, and what can go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.broker.old_consumers import Black, OldConsumers, Streams, old_consumers
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.raw import commit
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S, until

VERSION = "0.8.2.2"
PARTITIONS = 4
CRASH_SESSIONS_MS = (8000, 30_000, 60_000)
"""The next one where a busy machine was not done before the consumer was missed."""
GROUPS = (
    "sound", "unowned", "stray", "threadless", "swapped", "twice", "stuck", "broken",
)  # fmt: skip
"""Each of them one consumer with two streams of orders."""


@dataclass(frozen=True)
class Live:
    """What runs."""

    server: Broker
    consumers: OldConsumers

    @property
    def connect(self) -> str:
        assert self.server.zookeeper is not None
        return self.server.zookeeper.connect

    def consumer_id(self, group: str) -> str:
        (found,) = [
            consumer.consumer_id
            for consumer in self.consumers.alive.values()
            if consumer.group == group
        ]
        return found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A broker with 10 records in each partition of "orders", and a group for each problem."""
    work: Path = tmp_path_factory.mktemp("zookeeper-check")
    with broker(VERSION, work) as server:
        assert server.zookeeper is not None
        with old_consumers(server.zookeeper.connect, work) as consumers:
            consumers.create_topic("orders", ",".join(["1"] * PARTITIONS))
            for partition in range(PARTITIONS):
                consumers.host().call(
                    "produce",
                    topic="orders",
                    partition=partition,
                    count=10,
                    config={"bootstrap.servers": server.bootstrap},
                )
            for group in GROUPS:
                consumers.join(group, group, Streams({"orders": 2}))
            consumers.settle()
            yield Live(server, consumers)


Check = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def check(live: Live, cli: Cli) -> Check:
    """Check groups, and give the findings; the exit status says whether there are any."""

    def run(*args: str) -> list[dict[str, Any]]:
        result = cli("check", *args, "--zookeeper", live.connect, "-o", "json")
        document = json.loads(result.out)
        assert document["errors"] == []
        found: list[dict[str, Any]] = document["data"]
        assert result.status == (5 if found else 0), result.err
        return found

    return run


def test_a_sound_group(check: Check) -> None:
    assert check("sound") == []


def test_owner_nodes_by_hand(live: Live, check: Check) -> None:
    """Owners are not watched by consumers, so these stay as they are."""
    nodes = live.consumers.zookeeper
    owner = "/consumers/{}/owners/orders/0".format
    nodes.delete(owner("unowned"))
    nodes.delete(owner("stray"))
    nodes.create(owner("stray"), b"stray_gone-1700000000000-0000abcd-0", ephemeral=True)
    nodes.set(owner("threadless"), f"{live.consumer_id('threadless')}-7".encode())
    nodes.set(owner("swapped"), f"{live.consumer_id('swapped')}-1".encode())
    nodes.delete(owner("twice"))
    nodes.create(owner("twice"), f"{live.consumer_id('twice')}-0".encode(), ephemeral=True)
    nodes.delete(owner("stuck"))
    nodes.create(owner("stuck"), f"{live.consumer_id('stuck')}-0".encode())
    found = {(each["group_id"], each["code"]): each for each in check(*GROUPS[1:-1])}
    assert found.keys() == {
        ("unowned", "no-owner"),
        ("stray", "owner-gone"),
        ("threadless", "no-such-thread"),
        ("swapped", "other-owner"),
        ("twice", "same-id"),
        ("stuck", "no-session"),
    }
    twice = f"/consumers/twice/ids/{live.consumer_id('twice')}"
    for (group, _), each in found.items():
        assert each["path"] == (twice if group == "twice" else owner(group))
        assert each["reason"]
        assert each["advice"]
    ours = nodes.get(owner("twice"))[1].ephemeralOwner
    theirs = nodes.get(twice)[1].ephemeralOwner
    assert f"in session {ours:#x}." in found["twice", "same-id"]["reason"]
    assert f"is registered in session {theirs:#x}," in found["twice", "same-id"]["reason"]
    since = found["swapped", "other-owner"]["since_ms"]
    assert since == nodes.get(owner("swapped"))[1].ctime


def test_a_topic_that_does_not_exist(live: Live, check: Check) -> None:
    live.consumers.join("typo", "typo", Streams({"orders": 1, "orderz": 1}))
    live.consumers.settle("typo")
    (finding,) = check("typo")
    assert (finding["code"], finding["topic"]) == ("no-topic", "orderz")
    assert finding["path"] == f"/consumers/typo/ids/{live.consumer_id('typo')}"


def test_a_group_that_is_left_and_a_commit_past_the_end(live: Live, check: Check) -> None:
    live.consumers.join("left", "left", Streams({"orders": 1}))
    live.consumers.settle("left")
    live.consumers.read(40, "left")
    live.consumers.commit("left")
    assert check("left") == []
    live.consumers.leave("left")
    nodes = live.consumers.zookeeper
    path = "/consumers/left/offsets/orders/1"
    nodes.set(path, b"1000")
    past_end, left = check("left")
    assert (left["code"], left["path"]) == ("no-consumers", "/consumers/left")
    assert left["since_ms"] == nodes.get(path)[1].mtime
    assert (past_end["code"], past_end["path"], past_end["offset"]) == ("past-end", path, 1000)
    assert (past_end["log_start_offset"], past_end["log_end_offset"]) == (0, 10)


def test_commits_to_zookeeper_and_to_kafka(
    live: Live, check: Check, cli: Cli, tmp_path: Path
) -> None:
    live.consumers.join(
        "dual", "dual", Streams({"orders": 1}), offsets_storage="kafka", dual_commit_enabled="true"
    )
    live.consumers.settle("dual")
    live.consumers.read(40, "dual")
    live.consumers.commit("dual")
    assert check("dual") == []
    with Wire(VERSION, live.server.bootstrap) as wire:
        commit(wire, "dual", {("orders", 2): 4})
    (finding,) = check("dual")
    assert (finding["code"], finding["partition"]) == ("offsets-differ", 2)
    assert (finding["offset"], finding["kafka_offset"]) == (10, 4)
    file = str(tmp_path / "snapshot.json")
    assert cli("snapshot", "dual", "--zookeeper", live.connect, "-f", file).status == 0
    saved = cli("check", "dual", "--snapshot", file, "-o", "jsonl")
    assert saved.status == 5
    assert [json.loads(line) for line in saved.out.splitlines()] == [finding]


def test_a_list_that_comes_to_internal_topics(live: Live, check: Check, cli: Cli) -> None:
    """Comes when there are some, which the test before sees to."""

    def owns(group: str, topics: set[str]) -> bool:
        return {topic for topic, _ in live.consumers.owners(group)} == topics

    for number, options in enumerate([{"exclude_internal_topics": "false"}, {}]):
        name = f"internal-{number}"
        live.consumers.join(name, name, Black("nothing", 1), **options)
        owned = {"orders", *(["__consumer_offsets"] if options else [])}
        until(partial(owns, name, owned))
        assert check(name) == []
        where = ["--zookeeper", live.connect]
        (plan,) = json.loads(cli("assign", name, "--dry-run", *where, "-o", "json").out)["data"]
        assert (plan["moves"], len(plan["owners"])) == ([], len(live.consumers.owners(name)))
        (row,) = json.loads(cli("zk", "ids", name, *where, "-o", "json").out)["data"]
        assert set(row["topics"]) == owned
        live.consumers.leave(name)


def test_a_consumer_that_crashed_within_its_session(live: Live, check: Check) -> None:
    """A new one cannot take what is still owned by the one that crashed."""

    def others(consumer_id: str) -> set[str]:
        return {*ids()} - {consumer_id}

    ids = partial(live.consumers.zookeeper.get_children, "/consumers/crash/ids")
    streams = Streams({"orders": 1})
    live.consumers.host("new")
    for session_ms in CRASH_SESSIONS_MS:
        session = {"zookeeper_session_timeout_ms": str(session_ms)}
        gone = live.consumers.join("crash-1", "crash", streams, host="crashing", **session)
        live.consumers.settle("crash")
        assert check("crash") == []
        live.consumers.crash("crashing")
        new = Thread(
            target=live.consumers.join,
            args=("crash-2", "crash", streams),
            kwargs={"host": "new", "rebalance_max_retries": "1000"},
        )
        new.start()
        until(partial(others, gone))
        found = check("crash")
        was_within = gone in ids()
        new.join(timeout=PATIENCE_S)
        # Once more than it looks: that the other one has gone is one more reason to rebalance.
        until(lambda: len(live.consumers.owners("crash")) == PARTITIONS and check("crash") == [])
        if was_within:
            break
        live.consumers.leave("crash-2")
    assert [(each["code"], each["partition"]) for each in found] == [
        ("other-owner", 2),
        ("other-owner", 3),
    ]
    assert {each["member_id"] for each in found} == {gone}


def test_a_registration_that_nobody_can_read(live: Live, check: Check) -> None:
    """Comes last: no consumer of the group gets its partitions back, as is said."""
    path = "/consumers/broken/ids/broken_by-hand"
    live.consumers.zookeeper.create(path, b"{no json")
    until(lambda: not live.consumers.owners("broken"))
    found = check("broken")
    assert (found[0]["code"], found[0]["path"]) == ("bad-registration", path)
    assert [(each["code"], each["partition"]) for each in found[1:]] == [
        ("no-owner", number) for number in range(PARTITIONS)
    ]
