"""Trees of nodes: what belongs to which group, what is nobody's, what cannot be read."""

from __future__ import annotations

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, Stat, ZookeeperView
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of

STATIC = '{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"5"}'


def view(nodes: dict[str, str | None], *problems: Problem) -> ZookeeperView:
    rows = [
        Node(path, None if text is None else text.encode(), Stat(ctime_ms=number))
        for number, (path, text) in enumerate(nodes.items())
    ]
    return decode_tree(tree_of(rows, problems))


def test_a_group_is_its_consumers_owners_and_offsets() -> None:
    found = view(
        {
            "/consumers": None,
            "/consumers/g": None,
            "/consumers/g/ids": None,
            "/consumers/g/ids/c-1": STATIC,
            "/consumers/g/owners": None,
            "/consumers/g/owners/t": None,
            "/consumers/g/owners/t/10": "c-1-1",
            "/consumers/g/owners/t/2": "c-1",
            "/consumers/g/offsets/t/10": "77",
            "/consumers/g/offsets/t/9": "78",
            "/consumers/only-commits/offsets/t/0": "1",
        }
    )
    assert list(found.groups) == ["g", "only-commits"]
    group = found.groups["g"]
    assert (group.stat.ctime_ms, group.has_ids) == (1, True)
    assert [registration.consumer_id for registration in group.registrations] == ["c-1"]
    # "c-1" is a consumer here, so it is not thread 1 of a consumer "c"
    assert [(owner.partition, owner.consumer_id, owner.thread) for owner in group.owners] == [
        (2, "c-1", None),
        (10, "c-1", 1),
    ]
    assert [(offset.partition, offset.offset) for offset in group.offsets] == [(9, 78), (10, 77)]
    assert found.groups["only-commits"].has_ids is False
    assert found.problems == ()


def test_what_cannot_be_read_is_left_out_with_its_path() -> None:
    denied = Problem(ProblemKind.DENIED_NODE, "Not allowed.", path="/consumers/h")
    found = view(
        {
            "/consumers/g/ids/c": "{",
            "/consumers/g/owners/t/0": "",
            "/consumers/g/owners/t/x": "c-0",
            "/consumers/g/offsets/t/0": "many",
            "/consumers/g/offsets/t/1": "5",
            "/brokers/ids/1": "{}",
            "/brokers/ids/one": '{"host":"h","port":1}',
            "/brokers/topics/t": "{}",
            "/controller": "none",
        },
        denied,
    )
    assert found.problems[0] is denied
    bad = {problem.path: problem for problem in found.problems[1:]}
    assert set(bad) == {
        "/consumers/g/ids/c",
        "/consumers/g/owners/t/0",
        "/consumers/g/owners/t/x",
        "/consumers/g/offsets/t/0",
        "/brokers/ids/1",
        "/brokers/ids/one",
        "/brokers/topics/t",
        "/controller",
    }
    assert {problem.kind for problem in bad.values()} == {"bad-node"}
    assert bad["/consumers/g/ids/c"].group_id == "g"
    assert bad["/controller"].group_id is None
    group = found.groups["g"]
    assert (group.registrations, group.owners) == ((), ())
    assert group.unreadable == ("c",)
    assert [offset.offset for offset in group.offsets] == [5]


def test_a_consumer_that_may_not_be_read_is_known_to_be_there() -> None:
    denied = Problem(ProblemKind.DENIED_NODE, "Not allowed.", path="/consumers/g/ids/c-1")
    nodes: dict[str, str | None] = {"/consumers/g/ids": None, "/consumers/g/owners/t/0": "c-1"}
    group = view(nodes, denied).groups["g"]
    assert group.unreadable == ("c-1",)
    assert (group.owners[0].consumer_id, group.owners[0].thread) == ("c-1", None)


def test_nodes_of_others_are_named_once() -> None:
    found = view(
        {
            "/consumers/g/ids/c": STATIC,
            "/consumers/g/ids/c/below": "x",
            "/consumers/g/locks": None,
            "/consumers/g/locks/a": "x",
            "/consumers/g/locks/a/b": "x",
            "/consumers/g/locks-too": None,
            "/storm/offsets": "not looked at",
        }
    )
    assert [(problem.kind, problem.path) for problem in found.problems] == [
        ("foreign-node", "/consumers/g/ids/c/below"),
        ("foreign-node", "/consumers/g/locks"),
        ("foreign-node", "/consumers/g/locks-too"),
    ]


def test_a_tree_of_0_7() -> None:
    found = view(
        {
            "/brokers/ids/0": "h-1400000000000:h:9092",
            "/brokers/topics/t": None,
            "/brokers/topics/t/0": "2",
            "/consumers/g/ids/g_h-1400000000000-1a2b3c4d": "*1*t",
            "/consumers/g/owners/t/0-1": "g_h-1400000000000-1a2b3c4d-0",
            "/consumers/g/offsets/t/0-1": "4096",
        }
    )
    assert found.problems == ()
    assert found.topics == {}
    assert [(t.topic, t.broker, t.partition_count) for t in found.legacy_topics] == [("t", 0, 2)]
    group = found.groups["g"]
    assert (group.owners[0].broker, group.owners[0].partition) == (0, 1)
    assert (group.offsets[0].broker, group.offsets[0].offset) == (0, 4096)


def test_the_cluster() -> None:
    found = view(
        {
            "/controller": '{"version":1,"brokerid":2,"timestamp":"5"}',
            "/controller_epoch": "9",
            "/cluster/id": '{"version":"1","id":"abc"}',
            "/brokers/ids/2": '{"version":1,"host":"h","port":9092}',
            "/brokers/topics/t": '{"version":1,"partitions":{"0":[2]}}',
            "/brokers/topics/t/partitions/0/state": (
                '{"controller_epoch":9,"leader":2,"version":1,"leader_epoch":0,"isr":[2]}'
            ),
            "/config/topics/t": '{"version":1,"config":{"a":"b"}}',
            "/admin/delete_topics/t": None,
            "/admin/reassign_partitions": None,
        }
    )
    assert (found.controller_epoch, found.cluster_id) == (9, "abc")
    assert found.controller is not None
    assert found.controller.broker == 2
    assert (list(found.brokers), list(found.topics)) == ([2], ["t"])
    assert found.partition_states["t", 0].leader == 2
    assert (found.configs["t"].config, found.deleting) == ({"a": "b"}, ("t",))
    assert found.problems == ()
