"""ZooKeeper as a source: what is asked, many questions at once, and servers that fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import monotonic

import pytest

from kgroup.errors import BrokerError, InputError, ProblemKind, UsageError
from kgroup.model.group import Group, GroupState, GroupType, Image, Member
from kgroup.model.log_range import OffsetMark
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, Stat, ZookeeperTree
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from kgroup.source import deadline
from kgroup.source.base import KafkaOffsets, Question, Reading
from kgroup.source.broker import source as broker_source
from kgroup.source.config.client_setting import Secret
from kgroup.source.deadline import Deadline
from kgroup.source.zookeeper import client as zookeeper_client
from kgroup.source.zookeeper.address import ZookeeperAddress, parse_address
from kgroup.source.zookeeper.client import ZookeeperClient
from kgroup.source.zookeeper.source import Zookeeper
from tests.examples import examples
from tests.recorded_tree import recorded_tree
from tests.source.fake_broker import FakeBroker
from tests.source.fake_zookeeper import (
    AUTH,
    CLOSE,
    GET_CHILDREN,
    GET_DATA,
    FakeZookeeper,
    fake_zookeeper,
)
from tests.source.refusal import HOST, refused


@pytest.fixture
def server() -> Iterator[FakeZookeeper]:
    with fake_zookeeper(recorded_tree()) as server:
        yield server


def source(*connect: str, timeout_s: float = 30.0, digest: str | None = None) -> Zookeeper:
    return Zookeeper(parse_address(",".join(connect)), timeout_s=timeout_s, digest=digest)


def test_groups_are_those_of_the_recorded_nodes(server: FakeZookeeper) -> None:
    """All that a group is, of nodes as ZooKeeper 3.8 and consumers of 0.8.2.2 wrote them."""
    expected, _ = groups_of(decode_tree(recorded_tree()))
    with source(server.connect) as zookeeper:
        reading = zookeeper.read()
    assert dict(reading.image.groups) == dict(expected)
    assert len(expected) == 9
    assert reading.problems == ()
    server.await_close()
    assert set(server.opcodes) == {GET_DATA, GET_CHILDREN, CLOSE}
    assert server.sessions == 1


def test_all_nodes_of_kafka_are_read_where_they_matter(server: FakeZookeeper) -> None:
    with source(server.connect) as zookeeper:
        tree = zookeeper.read(question=Question(nodes=True)).zookeeper
    assert tree is not None
    recorded = recorded_tree().nodes
    whole, view = decode_tree(recorded_tree()), decode_tree(tree)
    read = [node for node in tree.nodes.values() if node.data is not None]
    assert all(node == recorded[node.path] for node in read)
    wanted = {"orders", "payments", "shipments", "returns", "clicks", "__consumer_offsets"}
    assert set(view.topics) == wanted
    for name in ("groups", "brokers", "topics", "partition_states", "controller", "configs"):
        assert getattr(view, name) == getattr(whole, name), name


def test_one_group_does_not_read_the_others(server: FakeZookeeper) -> None:
    with source(server.connect) as zookeeper:
        reading = zookeeper.read(["web", "nobody", "a/b", ".."])
    assert list(reading.image.groups) == ["web"]
    assert reading.zookeeper is not None
    below = {
        path.split("/")[2] for path in reading.zookeeper.nodes if path.startswith("/consumers/")
    }
    assert below == {"web"}


def test_what_can_be_no_name_is_not_asked_for(server: FakeZookeeper) -> None:
    names = ["web/ids", "", ".", "..", "a\0b"]
    with source(server.connect) as zookeeper:
        assert zookeeper.read(names).image.groups == {}
        assert zookeeper.view(["orders/partitions", ".."]).topics["orders/partitions"].error
    for _, path in server.asked:
        assert not path.startswith(("/consumers/", "/brokers/topics/orders/partitions"))
        assert ".." not in path


def test_only_names_are_read_where_nothing_else_matters(server: FakeZookeeper) -> None:
    question = Question(state=False, members=False, offsets=False)
    with source(server.connect) as zookeeper:
        groups = zookeeper.read(question=question).image.groups
    assert (len(groups), {group.state for group in groups.values()}) == (9, {None})
    assert server.opcodes.count(GET_DATA) == 0


def large_tree(partitions: int) -> ZookeeperTree:
    registration = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    replicas = ",".join(f'"{number}":[1]' for number in range(partitions))
    texts = {"/": b"", "/consumers": b"", "/consumers/g": b"", "/consumers/g/ids/c": registration}
    texts |= dict.fromkeys(("/brokers", "/brokers/ids", "/brokers/topics"), b"")
    texts["/brokers/topics/t"] = b'{"version":1,"partitions":{%s}}' % replicas.encode()
    for kind, text in (("ids", b""), ("owners", b"c-0"), ("offsets", b"5")):
        texts[f"/consumers/g/{kind}"] = b""
        if kind != "ids":
            texts[f"/consumers/g/{kind}/t"] = b""
            for number in range(partitions):
                texts[f"/consumers/g/{kind}/t/{number}"] = text
    return tree_of(Node(path, text) for path, text in texts.items())


def test_questions_do_not_wait_for_answers() -> None:
    """The server answers nothing before it has 128 questions, which one at a time never come."""
    with fake_zookeeper(large_tree(1280)) as server, source(server.connect) as zookeeper:
        names = zookeeper.read(question=Question(state=False, members=False, offsets=False))
        assert list(names.image.groups) == ["g"]
        server.waits_for = 128
        contents = [f"/consumers/g/offsets/t/{number}" for number in range(1280)]
        answers = zookeeper._client.contents(contents)
    assert [getattr(answer, "data", None) for answer in answers] == [b"5"] * 1280


def test_many_partitions() -> None:
    count = examples(1000, 3000)
    with fake_zookeeper(large_tree(count)) as server, source(server.connect) as zookeeper:
        group = zookeeper.read(["g"]).image.groups["g"]
    assert (group.state, len(group.offsets)) == (GroupState.STABLE, count)
    assert server.sessions == 1


@pytest.mark.parametrize("answers", [0, 1, 5, 60])
def test_a_connection_that_breaks_is_made_anew(server: FakeZookeeper, answers: int) -> None:
    server.breaks_after = [answers]
    expected, _ = groups_of(decode_tree(recorded_tree()))
    with source(server.connect) as zookeeper:
        assert dict(zookeeper.read().image.groups) == dict(expected)
    assert server.sessions == 2


def test_one_that_breaks_again_and_again_is_asked_as_long_as_it_answers() -> None:
    with fake_zookeeper(large_tree(500)) as server, source(server.connect) as zookeeper:
        server.breaks_after = [100] * 10
        assert len(zookeeper.read(["g"]).image.groups["g"].offsets) == 500
    assert server.sessions == 11


def test_answers_belong_to_their_questions(server: FakeZookeeper) -> None:
    server.notices = True
    with source(server.connect) as zookeeper:
        assert len(zookeeper.read().image.groups) == 9
        server.wrong_xid = True
        with pytest.raises(BrokerError, match="something else than ZooKeeper's protocol"):
            zookeeper.read()


def test_no_more_questions_are_open_than_a_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper reads no more from a client when 1000 of all are open."""
    open_now: list[int] = []
    most = 0

    class Link:
        def send(self, requests: list[object]) -> None:
            nonlocal most
            open_now.extend([0] * len(requests))
            most = max(most, len(open_now))

        def answer(self) -> tuple[int, bytes]:
            open_now.pop()
            return -101, b""

    monkeypatch.setattr(zookeeper_client, "Link", lambda *_: Link())
    client = ZookeeperClient(parse_address("a"), Deadline(30))
    assert client.contents(f"/{number}" for number in range(3000)) == [None] * 3000
    assert 256 <= most < 500


def test_sessions_of_servers_with_large_numbers() -> None:
    """The first byte of a session's id is the server's number: above 127 Java's long is below 0."""
    known = {**recorded_tree().nodes}
    path = "/consumers/web/owners/orders/0"
    stat = replace(known[path].stat, ephemeral_owner="0xff0221016e0016ab")
    known[path] = replace(known[path], stat=stat)
    with fake_zookeeper(tree_of(known.values())) as server, source(server.connect) as zookeeper:
        assert zookeeper.subtree(path).nodes[path].stat.ephemeral_owner == "0xff0221016e0016ab"


def test_one_that_breaks_whenever_it_is_asked_is_given_up(server: FakeZookeeper) -> None:
    server.breaks_after = [0] * 10
    with source(server.connect) as zookeeper, pytest.raises(BrokerError) as caught:
        zookeeper.read()
    assert caught.value.kind == "disconnected"
    assert str(caught.value) == f"ZooKeeper {server.connect} closes the connection"


@contextmanager
def listening(answer: bytes | None = None) -> Iterator[str]:
    """A server that takes connections, and says this to whoever says something; or nothing."""
    with socket.create_server((HOST, 0)) as listener:

        def talk() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer is not None:
                    with suppress(OSError):  # whoever asked has gone
                        connection.recv(1000)
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)

        kept: list[socket.socket] = []
        threading.Thread(target=talk, daemon=True).start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


@pytest.mark.slow
def test_a_server_that_never_answers_costs_its_part_of_the_time(server: FakeZookeeper) -> None:
    with listening() as silent:
        with source(silent, server.connect, timeout_s=6) as zookeeper:
            assert len(zookeeper.read().image.groups) == 9
        with source(silent, timeout_s=0.2) as zookeeper, pytest.raises(BrokerError) as caught:
            zookeeper.read()
    assert caught.value.kind == "silent"
    assert str(caught.value) == (
        f"ZooKeeper {silent} gave no answer within its part of 0.2 s (--timeout)"
    )


def test_why_servers_cannot_be_used() -> None:
    down = refused()
    with (
        listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as other,
        listening(b"") as closing,
        source(down, other, closing, "[::1]:1") as zookeeper,
        pytest.raises(BrokerError) as caught,
    ):
        zookeeper.read()
    assert caught.value.kind == "unreachable"
    reasons = str(caught.value).split("; ZooKeeper ")
    assert reasons[0] == f"ZooKeeper {down} cannot be reached: connection refused"
    assert reasons[1] == (
        f"{other} answers with something else than ZooKeeper's protocol; perhaps it wants TLS "
        "(zookeeper.ssl.client.enable)"
    )
    assert reasons[2] == f"{closing} closes the connection"
    assert reasons[3].startswith("[::1]:1 cannot be reached")


def test_answers_that_are_cut_or_wrong_are_no_bugs() -> None:
    session = (37).to_bytes(4) + bytes(37)
    for answer in (
        session + b"\0\0\0\x02ab",
        session + b"\0\0\0\x10" + bytes(16),
        session + b"\0\0\0\x10\0\0\0\x01" + bytes(12),
        session + b"\0\0\0\x10\0\0\0\x01" + bytes(11) + b"\x05",
        session + b"\xff\xff\xff\xff",
        session + b"\0\0\0\x18\0\0\0\x01" + bytes(12) + b"\x7f\xff\xff\xff" + bytes(4),
    ):
        with (
            listening(answer) as strange,
            source(strange) as zookeeper,
            pytest.raises(BrokerError) as caught,
        ):
            zookeeper.read()
        assert caught.value.kind in ("unusable", "disconnected")


def test_nodes_that_may_not_be_read(server: FakeZookeeper) -> None:
    denied = ("/consumers/web/ids", "/consumers/web/offsets/orders/0", "/brokers/ids/1")
    server.denied, server.secret = denied, "kgroup:secret"
    with source(server.connect) as zookeeper:
        reading = zookeeper.read(["web"])
    assert {(p.kind, p.path, p.group_id) for p in reading.problems} == {
        ("denied-node", "/consumers/web/ids", "web"),
        ("denied-node", "/consumers/web/offsets/orders/0", "web"),
        ("denied-node", "/brokers/ids/1", None),
    }
    assert len(reading.image.groups["web"].offsets) == 5
    with source(server.connect, digest=Secret("kgroup:secret")) as zookeeper:
        assert zookeeper.read(["web"]).problems == ()
    assert AUTH in server.opcodes
    with (
        source(server.connect, digest=Secret("kgroup:wrong")) as zookeeper,
        pytest.raises(BrokerError, match="refuses the digest") as caught,
    ):
        zookeeper.read(["web"])
    assert caught.value.kind == "refused"
    assert "wrong" not in str(caught.value)


def test_nodes_of_nobody_below_a_group() -> None:
    nodes = [*recorded_tree().nodes.values(), Node("/consumers/web/mine", b"5")]
    with fake_zookeeper(tree_of(nodes)) as server, source(server.connect) as zookeeper:
        problems = zookeeper.read(["web"]).problems
    assert [(p.kind, p.path, p.group_id) for p in problems] == [
        ("foreign-node", "/consumers/web/mine", "web")
    ]


def test_a_zookeeper_that_may_not_be_read_at_all(server: FakeZookeeper) -> None:
    server.denied = ("/consumers", "/brokers/ids", "/brokers/topics")
    with source(server.connect) as zookeeper:
        reading = zookeeper.read()
    assert reading.image.groups == {}
    assert [problem.path for problem in reading.problems] == list(server.denied)


def test_where_there_is_no_kafka() -> None:
    other = tree_of([Node("/"), Node("/hbase"), Node("/kafka"), Node("/kafka/brokers")])
    with (
        fake_zookeeper(other) as server,
        source(server.connect) as zookeeper,
        pytest.raises(InputError) as caught,
    ):
        zookeeper.read()
    assert str(caught.value) == (
        "--zookeeper: expected Kafka's nodes /consumers and /brokers below /, found hbase, kafka; "
        "there is a Kafka below /kafka: add that to the address"
    )


def test_a_chroot(server: FakeZookeeper) -> None:
    below = tree_of(
        replace(node, path=f"/a/kafka{node.path}".rstrip("/"))
        for node in recorded_tree().nodes.values()
    )
    with fake_zookeeper(below) as other, source(f"{other.connect}/a/kafka") as zookeeper:
        reading = zookeeper.read()
    with source(server.connect) as zookeeper:
        assert zookeeper.read() == reading


@pytest.mark.parametrize("path", ["/", "/consumers", "/consumers/web/ids"])
def test_a_chroot_that_is_not_there(server: FakeZookeeper, path: str) -> None:
    """A path below it is not one that the tree lacks."""
    text = r"expected a node /a/kafka \(the chroot\), found none$"
    with source(f"{server.connect}/a/kafka") as zookeeper:
        with pytest.raises(InputError, match=text):
            zookeeper.subtree(path)
        with pytest.raises(InputError, match=text):
            zookeeper.read()
    text = "the chroot once behind the last: a:2181,b:2181/kafka$"
    with (
        source(f"{server.connect}/kafka,b:2181/kafka") as zookeeper,
        pytest.raises(InputError, match=text),
    ):
        zookeeper.read()


def test_brokers_and_topics(server: FakeZookeeper) -> None:
    with source(server.connect) as zookeeper:
        view = zookeeper.view(["orders", "nothing"])
        placement = zookeeper.placements(["web"])["web"]
    nodes = decode_tree(recorded_tree())
    assert set(view.brokers) == set(nodes.brokers)
    assert view.topics["nothing"].error == "UNKNOWN_TOPIC_OR_PARTITION"
    for number, partition in view.topics["orders"].partitions.items():
        state = nodes.partition_states["orders", number]
        assert (partition.leader, partition.isr) == (state.leader, state.isr)
        assert partition.replicas == nodes.topics["orders"].partitions[number]
    assert placement.partition_count == len(nodes.topics["__consumer_offsets"].partitions)
    assert placement.coordinator is None


def test_a_subtree(server: FakeZookeeper) -> None:
    nodes = recorded_tree().nodes
    with source(server.connect) as zookeeper:
        assert zookeeper.subtree("/consumers/nobody").nodes == {}
        found = zookeeper.subtree("/consumers/web").nodes
    assert found == {
        path: nodes[path] for path in nodes if f"{path}/".startswith("/consumers/web/")
    }


def test_no_more_levels_of_a_subtree_are_read_than_were_asked_for(server: FakeZookeeper) -> None:
    with source(server.connect) as zookeeper:
        for depth in (0, 1, 2):
            nodes = zookeeper.subtree("/consumers", depth).nodes
            assert set(nodes) == {
                path
                for path in recorded_tree().nodes
                if path.startswith("/consumers") and path.count("/") <= depth + 1
            }


def test_topics_of_kafka_0_7_are_read_with_their_brokers() -> None:
    folders = ("/", "/consumers", "/consumers/g", "/consumers/g/ids", "/brokers", "/brokers/ids")
    texts = {
        **dict.fromkeys((*folders, "/brokers/topics"), b""),
        "/consumers/g/ids/c": b'{ "t": 2 }',
        "/brokers/topics/t/0": b"3",
        "/brokers/topics/t/1": b"2",
    }
    nodes = [Node(path, text) for path, text in texts.items()]
    nodes.append(Node("/brokers/topics/t", None, Stat(children=2)))
    with fake_zookeeper(tree_of(nodes)) as server, source(server.connect) as zookeeper:
        view = zookeeper.read(["g"]).view
    assert view is not None
    assert [(topic.broker, topic.partition_count) for topic in view.legacy_topics] == [
        (0, 3),
        (1, 2),
    ]


def test_credentials_are_not_read() -> None:
    texts = {"/": b"", "/consumers": b"", "/config": b"", "/config/users": b""}
    secret = "/config/users/alice"
    nodes = [Node(path, text) for path, text in texts.items()] + [Node(secret, b"SCRAM-SHA-256=")]
    with fake_zookeeper(tree_of(nodes)) as server, source(server.connect) as zookeeper:
        for path in ("/", "/config", secret):
            assert zookeeper.subtree(path).nodes[secret].data is None
    assert server.asked.count((GET_DATA, secret)) == 0
    assert server.asked.count((GET_CHILDREN, secret)) == 3


def test_brokers_that_do_not_answer_cost_the_ends_only(server: FakeZookeeper) -> None:
    brokers = {"bootstrap_servers": [refused()]}
    address = parse_address(server.connect)
    with Zookeeper(address, timeout_s=10, brokers=brokers) as zookeeper:
        groups = zookeeper.read(["web"]).image.groups
        reading = zookeeper.log_ranges(groups["web"].partitions)
        assert zookeeper.log_ranges([]).problems == ()
    assert reading.ranges == {}
    (problem,) = reading.problems
    assert (problem.kind, problem.path) == ("unreachable", None)
    assert problem.reason.endswith("; log end offsets are unknown.")


class Brokers:
    """What stands for the brokers; nobody is there where there is no answer."""

    def __init__(self, answer: Reading | None) -> None:
        self.answer = answer
        self.asked = 0

    def read(self, *_: object) -> Reading:
        self.asked += 1
        if self.answer is None:
            raise BrokerError(ProblemKind.UNREACHABLE, "nobody is there")
        return self.answer

    log_ranges = offsets_at = log_sizes = read

    def close(self) -> None:
        pass

    def renew(self) -> None:
        pass


def test_brokers_that_do_not_answer_are_waited_for_once_in_a_round(
    server: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(None)
    monkeypatch.setattr(broker_source, "LiveCluster", lambda *_, **__: brokers)
    with source(server.connect) as zookeeper:
        for asked in (1, 2):
            commits = zookeeper.kafka_offsets(["web"])
            assert commits.offsets is None
            assert [problem.reason for problem in commits.problems] == [
                "Nobody is there; commits to Kafka are unknown."
            ]
            assert [problem.reason for problem in zookeeper.log_ranges([("t", 0)]).problems] == [
                "Nobody is there; log end offsets are unknown."
            ]
            assert [problem.reason for problem in zookeeper.offsets_at([("t", 0)], 1).problems] == [
                "Nobody is there; offsets at a time are unknown."
            ]
            assert zookeeper.log_sizes([("t", 0)]) == {}
            assert brokers.asked == asked
            zookeeper.renew()


def test_the_timeout_starts_again_after_a_wait(
    server: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a connection which is there already."""
    with source(server.connect) as zookeeper:
        assert "web" in zookeeper.read(["web"]).image.groups
        monkeypatch.setattr(deadline, "monotonic", lambda: monotonic() + 60)
        zookeeper.renew()
        assert "web" in zookeeper.read(["web"]).image.groups
        monkeypatch.setattr(deadline, "monotonic", lambda: monotonic() + 120)
        with pytest.raises(BrokerError):
            zookeeper.read(["web"])


def test_commits_to_kafka_and_what_could_not_be_learnt_of_them(
    server: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(
        ProblemKind.NOT_AUTHORIZED, "The group may not be described.", group_id="audit"
    )
    committed = (CommittedOffset("t", 1, 7),)
    group = Group("web", GroupType.CLASSIC, None, offsets=committed, members=(Member("web-1"),))
    reading = Reading(Image({"web": group}), (problem,))
    monkeypatch.setattr(broker_source, "LiveCluster", lambda *_, **__: Brokers(reading))
    with source(server.connect) as zookeeper:
        offsets = zookeeper.kafka_offsets(["web", "audit", "nobody"])
    assert offsets == KafkaOffsets({("web", "t", 1): 7}, (problem,), {"web": 1, "nobody": 0})


def test_nothing_is_known_of_coordinators_of_transactions(server: FakeZookeeper) -> None:
    with source(server.connect) as zookeeper:
        assert list(zookeeper.placements(["web"])) == ["web"]
        assert zookeeper.placements(["web"], transactional=True) == {}


def test_what_brokers_have_not_learnt_of_is_not_gone(
    server: FakeZookeeper, broker: FakeBroker
) -> None:
    """The broker says that it has no payments, and two partitions of orders, one led by nobody."""
    options = {"bootstrap_servers": [broker.bootstrap]}
    with Zookeeper(parse_address(server.connect), timeout_s=30, brokers=options) as zookeeper:
        zookeeper.read(["billing"])
        wanted = [("orders", 0), ("orders", 1), ("orders", 5), ("payments", 0), ("orders", 99)]
        reading = zookeeper.log_ranges(wanted)
    assert {at: log.mark for at, log in reading.ranges.items()} == {
        ("orders", 0): None,
        ("orders", 1): OffsetMark.NO_LEADER,
        ("orders", 5): OffsetMark.NO_ANSWER,
        ("orders", 99): OffsetMark.PARTITION_GONE,
        ("payments", 0): OffsetMark.NO_ANSWER,
    }
    told = {p.topic: p.reason for p in reading.problems if p.kind == "inconsistent"}
    text = "ZooKeeper has the topic, and brokers do not know 1 of its partitions yet."
    assert told == {"orders": text, "payments": text}


def test_brokers_are_asked_where_they_listen_in_that_way(server: FakeZookeeper) -> None:
    options = {"security_protocol": "SASL_SSL"}
    with Zookeeper(parse_address(server.connect), brokers=options) as zookeeper:
        (problem,) = zookeeper.log_ranges([("orders", 0)]).problems
    assert problem.reason == (
        f"None of the {len(decode_tree(recorded_tree()).brokers)} brokers in ZooKeeper listens "
        "with security.protocol SASL_SSL (-X security.protocol=…); log end offsets are "
        "unknown."
    )
    nodes = [n for n in recorded_tree().nodes.values() if not n.path.startswith("/brokers/ids/")]
    with fake_zookeeper(tree_of(nodes)) as other, source(other.connect) as zookeeper:
        (problem,) = zookeeper.log_ranges([("orders", 0)]).problems
    assert problem.reason == ("No broker is registered in ZooKeeper; log end offsets are unknown.")


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk-1", (("zk-1", 2181),), ""),
        ("zk-1:2182, zk-2/", (("zk-1", 2182), ("zk-2", 2181)), ""),
        ("[::1]:2182,[fe80::1%eth0]/kafka/a/", (("::1", 2182), ("fe80::1%eth0", 2181)), "/kafka/a"),
    ],
)
def test_addresses(text: str, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
    assert parse_address(text) == ZookeeperAddress(servers, chroot)
    assert parse_address(str(parse_address(text))) == ZookeeperAddress(servers, chroot)


@pytest.mark.parametrize(
    "text", ["", "/kafka", "zk:0", "zk:99999", "zk:x", "zk//a", "zk/..", "a b"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="--zookeeper: expected HOST:PORT"):
        parse_address(text)
