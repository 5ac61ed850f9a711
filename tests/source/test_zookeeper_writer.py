"""Writing to ZooKeeper: what is sent, what keeps it from being sent, and servers that are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, Stat, ZookeeperTree
from kgroup.protocol.zookeeper.tree import tree_of
from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.nodes import read_tree
from kgroup.source.zookeeper.source import Zookeeper
from tests.contract.offset_store import changes_to
from tests.source.fake_zookeeper import MULTI, FakeZookeeper, Operation, fake_zookeeper

THERE, WANTED = {("orders", 0): 7}, {("orders", 0): 9}
LEAF = "/consumers/{}/offsets/orders/0"
VERSION = 5
NO_AUTH, BAD_VERSION, BEHIND = -102, -103, -2


def tree(*paths: str) -> ZookeeperTree:
    """Groups "a" and "b", which have committed `THERE`, and further nodes."""
    data = dict.fromkeys(["/brokers/ids", "/brokers/topics", *paths], b"")
    data |= {LEAF.format(group_id): b"7" for group_id in "ab"}
    return tree_of(_with_parents(data))


def _with_parents(data: Mapping[str, bytes]) -> Iterator[Node]:
    paths = {"/"}
    for path in data:
        parts = path.split("/")
        paths.update("/".join(parts[:count]) for count in range(2, len(parts) + 1))
    for path in sorted(paths):
        children = sum(each != "/" and each.rpartition("/")[0] == path for each in paths)
        yield Node(path, data.get(path), Stat(version=VERSION, children=children))


def store_of(server: FakeZookeeper, timeout_s: float = 30) -> Zookeeper:
    return Zookeeper(parse_address(server.connect), timeout_s=timeout_s)


def test_nodes_are_changed_in_the_version_that_was_read() -> None:
    """Else who commits meanwhile would be written over."""
    sent: list[list[Operation]] = []

    def transacts(operations: list[Operation]) -> list[int]:
        sent.append(operations)
        return [0] * len(operations)

    with fake_zookeeper(tree()) as server, store_of(server) as store:
        server.transacts = transacts
        changes = changes_to(WANTED | {("orders", 1): 4}, THERE)
        assert store.write_offsets({"a": changes}) == ()
        assert store.write_offsets({"b": changes_to({("orders", 0): None}, THERE)}) == ()
        assert store.delete_groups(["a"]) == ()
    assert sent == [
        [
            ("set", LEAF.format("a"), b"9", VERSION),
            ("create", "/consumers/a/offsets/orders/1", b"4"),
        ],
        [("delete", LEAF.format("b"), VERSION), ("delete", "/consumers/b/offsets/orders", -1)],
        [
            ("delete", LEAF.format("a"), VERSION),
            ("delete", "/consumers/a/offsets/orders", VERSION),
            ("delete", "/consumers/a/offsets", VERSION),
            ("delete", "/consumers/a", VERSION),
        ],
    ]


@pytest.mark.parametrize(
    ("path", "deletes", "text"),
    [
        ("/consumers/a/ids/a-1", False, "1 consumer (nodes below /consumers/a/ids)"),
        ("/consumers/a/ids/a-1", True, "1 consumer (nodes below /consumers/a/ids)"),
        ("/consumers/a/owners/orders/0", True, "owners of 1 partition (nodes below"),
    ],
)
def test_groups_of_consumers_that_live_are_left_alone(path: str, deletes: bool, text: str) -> None:
    with fake_zookeeper(tree(path)) as server, store_of(server) as store:
        if deletes:
            (problem,) = store.delete_groups(["a"])
        else:
            (problem,) = store.write_offsets({"a": changes_to(WANTED, THERE)})
        assert (problem.kind, problem.group_id) == (ProblemKind.ACTIVE, "a")
        assert text in problem.reason
        assert MULTI not in server.opcodes


@pytest.mark.parametrize("codes", [[NO_AUTH, BEHIND, BEHIND], [0, NO_AUTH, BEHIND]])
def test_the_operation_that_failed_tells_why(codes: list[int]) -> None:
    """The others have 0 before it and -2, runtime inconsistency, behind it."""
    changes = changes_to(WANTED | {("orders", 1): 4, ("orders", 2): 4}, THERE)
    with fake_zookeeper(tree()) as server, store_of(server) as store:
        server.transacts = lambda _: codes
        (problem,) = store.write_offsets({"a": changes})
    assert problem.kind is ProblemKind.DENIED_NODE
    assert "ACL" in problem.reason


def test_a_node_that_changes_again_and_again() -> None:
    with fake_zookeeper(tree()) as server, store_of(server) as store:
        server.transacts = lambda operations: [BAD_VERSION] * len(operations)
        (problem,) = store.write_offsets({"a": changes_to(WANTED, THERE)})
        assert problem.kind is ProblemKind.CHANGED
        assert server.opcodes.count(MULTI) == 5


@pytest.mark.parametrize("deletes", [False, True])
def test_a_server_that_is_lost_in_a_transaction_may_have_done_it(deletes: bool) -> None:
    with fake_zookeeper(tree()) as server, store_of(server, 1) as store:

        def stops(_: list[Operation]) -> None:
            server.stop()

        server.transacts = stops
        if deletes:
            problems = store.delete_groups(["a", "b"])
        else:
            changes = {name: changes_to(WANTED, THERE) for name in ("a", "b")}
            problems = store.write_offsets(changes)
        assert [problem.group_id for problem in problems] == ["a", "b"]
        assert problems[0].kind is ProblemKind.UNKNOWN_END
        assert "it is unknown whether the group was changed" in problems[0].reason
        # Transactions of many groups are on their way at once; groups are deleted one by one.
        assert (problems[1].kind is ProblemKind.UNKNOWN_END) is not deletes


def test_a_server_that_is_lost_before_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent, so that nothing can have been done."""
    with fake_zookeeper(tree()) as server, store_of(server, 1) as store:

        def stops(*arguments: object) -> ZookeeperTree:
            found = read_tree(*arguments)  # type: ignore[arg-type]
            server.stop()
            store.close()
            return found

        monkeypatch.setattr("kgroup.source.zookeeper.writer.read_tree", stops)
        with pytest.raises(BrokerError) as caught:
            store.write_offsets({"a": changes_to(WANTED, THERE)})
        assert not caught.value.was_sent
        assert MULTI not in server.opcodes


def test_who_was_written_is_told_at_once() -> None:
    done: list[str] = []
    with fake_zookeeper(tree()) as server, store_of(server) as store:
        server.transacts = lambda operations: (
            [NO_AUTH] * len(operations) if "/b/" in operations[0][1] else [0] * len(operations)
        )
        changes = {name: changes_to(WANTED, THERE) for name in ("a", "b")}
        problems: tuple[Problem, ...] = store.write_offsets(changes, done.append)
    assert (done, [problem.group_id for problem in problems]) == (["a"], ["b"])
