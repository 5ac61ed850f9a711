"""Offsets in a real ZooKeeper: what is written is what consumers of 0.8.2.2 begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.source import Zookeeper
from tests.broker.maven import run_java
from tests.broker.old_consumers import OldConsumers, Streams, old_consumers
from tests.broker.servers import Broker, broker
from tests.broker.zookeeper_proxy import (
    READS,
    READS_OF_WRITERS,
    WRITES,
    ZookeeperProxy,
    groups_written,
)
from tests.contract.offset_store import OffsetStoreContract, changes_to, essence

VERSION = "0.8.2.2"
USER, PASSWORD = "kgroup", "s3cret"
MULTI = 14


@dataclass(frozen=True)
class Live:
    """What runs: a broker of 0.8.2.2 with "orders" and "payments", and its ZooKeeper."""

    server: Broker
    consumers: OldConsumers

    @property
    def connect(self) -> str:
        assert self.server.zookeeper is not None
        return self.server.zookeeper.connect

    @property
    def nodes(self) -> KazooClient:
        return self.consumers.zookeeper

    def data(self, path: str) -> bytes:
        found, _ = self.nodes.get(path)
        assert isinstance(found, bytes)
        return found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    work = tmp_path_factory.mktemp("zookeeper-offsets")
    with broker(VERSION, work) as server:
        assert server.zookeeper is not None
        with old_consumers(server.zookeeper.connect, work) as consumers:
            consumers.create_topic("orders", "1,1,1")
            consumers.create_topic("payments", "1")
            yield Live(server, consumers)


@pytest.fixture
def store(live: Live) -> Iterator[Zookeeper]:
    with Zookeeper(parse_address(live.connect)) as store:
        yield store


class TestContract(OffsetStoreContract):
    keeps_metadata = False
    keeps_leader_epochs = False
    refused_names = frozenset({"𝄞"})  # `PathUtils.validatePath` knows no character beyond U+FFFF


def test_consumers_begin_with_what_was_written(live: Live, store: Zookeeper) -> None:
    producer = KafkaProducer(**live.server.client_options)
    for partition in (0, 1, 2):
        for _ in range(5):
            producer.send("orders", b"x", partition=partition).get(30)
    producer.close()
    wanted = {("orders", 0): 2, ("orders", 1): 5, ("orders", 2): 3}
    assert store.write_offsets({"billing": changes_to(wanted)}) == ()
    for (topic, partition), offset in wanted.items():
        assert live.data(f"/consumers/billing/offsets/{topic}/{partition}") == str(offset).encode()
    checked = _checked_by_kafka(live, "billing")
    assert checked == {0: (2, 3), 1: (5, 0), 2: (3, 2)}, "offset and lag by partition"

    live.consumers.join("billing-1", "billing", Streams({"orders": 1}))
    live.consumers.read(5, "billing-1")
    live.consumers.commit("billing-1")
    live.consumers.settle()
    after = {("orders", partition): 5 for partition in range(3)}
    assert essence(store.read_offsets(["billing"]).offsets["billing"]) == after
    fetches = live.consumers.settled_fetches("billing-1")
    assert {(fetch.partition, fetch.offset) for fetch in fetches} == {(0, 5), (1, 5), (2, 5)}

    changes = changes_to({("orders", 0): 0}, after)
    for problems in (store.write_offsets({"billing": changes}), store.delete_groups(["billing"])):
        assert [problem.kind for problem in problems] == [ProblemKind.ACTIVE]
        assert "1 consumer (nodes below /consumers/billing/ids)" in problems[0].reason
    live.consumers.leave("billing-1")
    assert store.write_offsets({"billing": changes}) == ()
    live.consumers.join("billing-2", "billing", Streams({"orders": 1}))
    live.consumers.read(5, "billing-2")
    live.consumers.leave("billing-2")

    assert store.delete_groups(["billing"]) == ()
    assert live.nodes.exists("/consumers/billing") is None


def test_owners_keep_a_group_from_being_deleted(live: Live, store: Zookeeper) -> None:
    """Those that a crashed consumer has left, until its session ends."""
    store.write_offsets({"stray": changes_to({("orders", 0): 1})})
    live.nodes.create("/consumers/stray/owners/orders/0", b"x-0", makepath=True)
    (problem,) = store.delete_groups(["stray"])
    assert problem.kind is ProblemKind.ACTIVE
    assert essence(store.read_offsets(["stray"]).offsets["stray"]) == {("orders", 0): 1}
    live.nodes.delete("/consumers/stray/owners/orders/0")
    assert store.delete_groups(["stray"]) == ()


def test_the_last_offset_of_a_topic_takes_its_node_along(live: Live, store: Zookeeper) -> None:
    there = {("orders", 0): 1, ("orders", 1): 2, ("payments", 0): 3}
    store.write_offsets({"topics": changes_to(there)})
    gone = changes_to({("orders", 0): None, ("payments", 0): None}, there)
    assert store.write_offsets({"topics": gone}) == ()
    assert live.nodes.get_children("/consumers/topics/offsets") == ["orders"]
    assert live.nodes.get_children("/consumers/topics/offsets/orders") == ["1"]
    rest = changes_to({("orders", 1): None}, there)
    assert store.write_offsets({"topics": rest}) == ()
    assert live.nodes.get_children("/consumers/topics/offsets") == []
    again = changes_to({("orders", 2): 4})
    assert store.write_offsets({"topics": again}) == ()
    assert live.data("/consumers/topics/offsets/orders/2") == b"4"


def test_what_is_no_offset_is_not_written_over(live: Live, store: Zookeeper) -> None:
    live.nodes.create("/consumers/odd/offsets/orders/0", b"soon", makepath=True)
    wanted = {("orders", 0): 1, ("orders", 1): 1}
    (problem,) = store.write_offsets({"odd": changes_to(wanted)})
    assert problem.kind is ProblemKind.BAD_NODE
    assert problem.reason == ("/consumers/odd/offsets/orders/0: expected an offset, found b'soon'.")
    assert live.nodes.get_children("/consumers/odd/offsets/orders") == ["0"]
    assert store.write_offsets({"odd": changes_to({("orders", 1): 1})}) == ()


@pytest.mark.parametrize("name", ["a/b", ".", "", "nul\0", "bell\7", "\ue000"])
def test_names_that_no_node_can_have(store: Zookeeper, name: str) -> None:
    (problem,) = store.write_offsets({name: changes_to({("orders", 0): 1})})
    assert (problem.kind, problem.group_id) == (ProblemKind.UNSUPPORTED, name)
    (problem,) = store.delete_groups([name])
    assert problem.kind is ProblemKind.NOT_FOUND


@contextmanager
def _interfered(
    live: Live, happens: Callable[[int], object]
) -> Iterator[tuple[Zookeeper, ZookeeperProxy]]:
    """Have something happen right before each transaction of a store, given its number."""
    assert live.server.zookeeper is not None
    with ZookeeperProxy(live.server.zookeeper.port) as proxy:
        proxy.before[MULTI] = lambda: happens(proxy.opcodes.count(MULTI))
        with Zookeeper(parse_address(proxy.connect)) as store:
            yield store, proxy


def test_who_commits_between_reading_and_writing_is_not_written_over(live: Live) -> None:
    """The transaction names the versions that were read, so that ZooKeeper refuses it."""
    there = {("orders", 0): 1, ("orders", 1): 2}
    leaf = "/consumers/raced/offsets/orders/0"
    with Zookeeper(parse_address(live.connect)) as store:
        store.write_offsets({"raced": changes_to(there)})

    def commits(_: int) -> None:
        live.nodes.set(leaf, b"7")

    with _interfered(live, commits) as (store, proxy):
        wanted = changes_to({("orders", 1): 20, ("orders", 0): 10}, there)
        (problem,) = store.write_offsets({"raced": wanted})
        assert problem.kind is ProblemKind.CHANGED
        assert "orders-0: expected offset 1, found offset 7." in problem.reason
        assert proxy.opcodes.count(MULTI) == 1
        assert essence(store.read_offsets(["raced"]).offsets["raced"]) == {
            ("orders", 0): 7,
            ("orders", 1): 2,
        }


def test_the_same_committed_again_is_no_change(live: Live) -> None:
    """A new version with the same offset: the second attempt takes that one."""
    leaf = "/consumers/same/offsets/orders/0"
    with Zookeeper(parse_address(live.connect)) as store:
        store.write_offsets({"same": changes_to({("orders", 0): 1})})
    wanted = changes_to({("orders", 0): 5}, {("orders", 0): 1})
    with _interfered(live, lambda n: n == 1 and live.nodes.set(leaf, b"1")) as (store, proxy):
        assert store.write_offsets({"same": wanted}) == ()
        assert proxy.opcodes.count(MULTI) == 2
    assert live.data(leaf) == b"5"
    wanted = changes_to({("orders", 0): 6}, {("orders", 0): 5})
    with _interfered(live, lambda _: live.nodes.set(leaf, b"5")) as (store, proxy):
        (problem,) = store.write_offsets({"same": wanted})
        assert problem.kind is ProblemKind.CHANGED
        assert "again and again" in problem.reason
    assert live.data(leaf) == b"5"


def test_a_node_that_comes_between_reading_and_writing(live: Live) -> None:
    leaf = "/consumers/made/offsets/orders/0"
    wanted = changes_to({("orders", 0): 5, ("payments", 0): 5})
    with _interfered(
        live, lambda n: live.nodes.ensure_path(leaf) and live.nodes.set(leaf, b"4")
    ) as (store, _):
        (problem,) = store.write_offsets({"made": wanted})
        assert problem.kind is ProblemKind.CHANGED
        assert "orders-0: expected no offset, found offset 4" in problem.reason
    assert live.nodes.exists("/consumers/made/offsets/payments") is None, "all or nothing"


@pytest.mark.parametrize("is_passed_on", [False, True], ids=["request lost", "answer lost"])
def test_a_connection_that_breaks_in_a_transaction(live: Live, is_passed_on: bool) -> None:
    """What became of it is looked for; if it was done, it is not done again."""
    group = f"broken-{is_passed_on}"
    leaf = f"/consumers/{group}/offsets/orders/0"

    def breaks(number: int) -> None:
        if number > 1:
            return
        if is_passed_on:  # what the transaction would have done
            live.nodes.create(leaf, b"5", makepath=True)
        proxy.break_connections()

    with _interfered(live, breaks) as (store, proxy):
        assert store.write_offsets({group: changes_to({("orders", 0): 5})}) == ()
        assert proxy.sessions == 2
    data, stat = live.nodes.get(leaf)
    assert (data, stat.version) == (b"5", 0)


def test_a_group_too_large_for_one_transaction(live: Live, store: Zookeeper) -> None:
    """A server takes no request of more than 1 MiB."""
    topic = "t" * 200
    wanted: dict[tuple[str, int], int | None] = {(topic, number): number for number in range(4000)}
    assert store.write_offsets({"large": changes_to(wanted)}) == ()
    assert essence(store.read_offsets(["large"]).offsets["large"]) == wanted
    there = {at: offset for at, offset in wanted.items() if offset is not None}
    assert store.write_offsets({"large": changes_to(dict.fromkeys(wanted), there)}) == ()
    assert store.read_offsets(["large"]).offsets == {}
    assert live.nodes.get_children("/consumers/large/offsets") == []
    assert store.write_offsets({"large": changes_to(wanted)}) == ()
    assert store.delete_groups(["large"]) == ()
    assert live.nodes.exists("/consumers/large") is None


def test_new_nodes_have_the_acl_of_the_node_above(live: Live, store: Zookeeper) -> None:
    store.write_offsets({"open": changes_to({("orders", 0): 1})})
    for path in ("/consumers/open", "/consumers/open/offsets/orders/0"):
        acl, _ = live.nodes.get_acls(path)
        assert acl == OPEN_ACL_UNSAFE

    secret = [make_digest_acl(USER, PASSWORD, all=True)]
    live.nodes.create("/consumers/closed", b"", acl=secret)
    changes = {"closed": changes_to({("orders", 0): 1}), "open": changes_to({("orders", 1): 1})}
    (problem,) = store.write_offsets(changes)
    assert (problem.kind, problem.group_id) == (ProblemKind.DENIED_NODE, "closed")
    assert "zookeeper.digest" in problem.reason
    assert len(store.read_offsets(["open"]).offsets["open"]) == 2
    (problem,) = store.delete_groups(["closed"])
    assert problem.kind is ProblemKind.DENIED_NODE

    digest = f"{USER}:{PASSWORD}"
    with Zookeeper(parse_address(live.connect), digest=digest) as allowed:
        assert allowed.write_offsets(changes_of("closed", 1)) == ()
        with pytest.raises(NoAuthError):
            live.nodes.get("/consumers/closed/offsets/orders/0")
        (offset,) = allowed.read_offsets(["closed"]).offsets["closed"]
        assert offset.committed_offset == 1
        moved = OffsetChange("orders", 0, offset, CommittedOffset("orders", 0, 2))
        assert allowed.write_offsets({"closed": [moved]}) == ()
        assert allowed.delete_groups(["closed"]) == ()
    with pytest.raises(NoNodeError):
        live.nodes.get("/consumers/closed")


def test_nodes_that_may_be_read_and_not_written(live: Live, store: Zookeeper) -> None:
    read_only = [make_digest_acl(USER, PASSWORD, all=True), make_acl("world", "anyone", read=True)]
    path = "/consumers/shown/offsets/orders/0"
    live.nodes.ensure_path("/consumers/shown/offsets/orders")
    live.nodes.create(path, b"1", acl=read_only)
    (problem,) = store.write_offsets({"shown": changes_to({("orders", 0): 2}, {("orders", 0): 1})})
    assert problem.kind is ProblemKind.DENIED_NODE
    assert live.data(path) == b"1"


def test_only_named_groups_are_written(live: Live) -> None:
    """And by transactions alone; reading sends nothing but reads."""
    with _interfered(live, lambda _: None) as (store, proxy):
        assert store.write_offsets(changes_of("named", 1) | changes_of("too", 2)) == ()
        assert groups_written(proxy.writes) == {"named", "too"}
        assert set(proxy.opcodes) & WRITES.keys() == {MULTI}
        assert set(proxy.opcodes) <= READS.keys() | READS_OF_WRITERS.keys() | {MULTI}
        proxy.writes.clear()
        (offset,) = store.read_offsets(["named"]).offsets["named"]
        moved = CommittedOffset("orders", 0, 2)
        assert store.write_offsets({"named": [OffsetChange("orders", 0, offset, moved)]}) == ()
        assert store.delete_groups(["too"]) == ()
        assert groups_written(proxy.writes) == {"named", "too"}
        proxy.opcodes.clear()
        store.read_offsets()
        store.read_offsets(["named"])
        assert set(proxy.opcodes) <= READS.keys()


def test_chroot(live: Live) -> None:
    live.nodes.ensure_path("/kafka/brokers/ids")
    with Zookeeper(parse_address(f"{live.connect}/kafka")) as store:
        assert store.write_offsets(changes_of("deep", 3) | changes_of("deeper", 4)) == ()
        assert list(store.read_offsets().offsets) == ["deep", "deeper"]
        assert live.data("/kafka/consumers/deep/offsets/orders/0") == b"3"
        assert store.delete_groups(["deep"]) == ()
        assert live.nodes.get_children("/kafka/consumers") == ["deeper"]


def test_nobody_there(tmp_path: Path) -> None:
    with (
        Zookeeper(parse_address("127.0.0.1:1"), timeout_s=1) as store,
        pytest.raises(BrokerError, match="cannot be reached"),
    ):
        store.write_offsets(changes_of("nobody", 1))


def _checked_by_kafka(live: Live, group_id: str) -> dict[int, tuple[int, int]]:
    """Have Kafka's own tool read offsets: offset and lag of each partition of "orders"."""
    printed = run_java(
        VERSION,
        "kafka.tools.ConsumerOffsetChecker",
        ["--zookeeper", live.connect, "--group", group_id, "--topic", "orders"],
    ).stdout.decode()
    rows = [line.split() for line in printed.splitlines() if line.startswith(group_id)]
    return {int(row[2]): (int(row[3]), int(row[5])) for row in rows}


def changes_of(group_id: str, offset: int) -> dict[str, Sequence[OffsetChange]]:
    return {group_id: changes_to({("orders", 0): offset})}
