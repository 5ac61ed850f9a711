"""Trees of nodes: what belongs to which group, what is nobody's, what cannot be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import (
    BrokerNode,
    ControllerNode,
    Node,
    RegistrationNode,
    Stat,
    SubscriptionPattern,
    ZookeeperView,
)
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from tests.examples import examples
from tests.recorded_tree import (
    OLDER_TREES,
    consumer_names,
    recorded,
    recorded_nodes,
    recorded_ranges,
    recorded_tree,
)

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


# ---- the tree of a real ZooKeeper, beside what Kafka's own tools and brokers said of it


CHECKED = recorded()["checked"]


def test_every_node_is_understood() -> None:
    view = decode_tree(recorded_tree())
    assert view.problems == ()
    assert set(view.groups) == set(CHECKED)
    assert {name: len(topic.partitions) for name, topic in view.topics.items()} == {
        **{name: text.count(",") + 1 for name, text in recorded()["topics"].items()},
        "__consumer_offsets": 4,
    }
    assert sorted(view.brokers) == [1, 2]
    assert view.controller is not None
    assert view.controller.broker in (1, 2)


@pytest.mark.parametrize("group_id", CHECKED)
def test_owners_and_offsets_are_those_of_the_offset_checker(group_id: str) -> None:
    group = decode_tree(recorded_tree()).groups[group_id]
    owners = {(owner.topic, owner.partition): owner.thread_id for owner in group.owners}
    offsets = {(node.topic, node.partition): node.offset for node in group.offsets}
    rows = [row for row in CHECKED[group_id] if "topic" in row]
    assert rows
    for row in rows:
        place = row["topic"], row["partition"]
        assert owners.pop(place, None) == row["owner"]
        offset = None if row["offset"] == -1 else row["offset"]
        if (group_id, *place) == ("migrating", "shipments", 3):
            assert (offsets.pop(place), offset) == (13, 4)  # the tool asks Kafka first
        else:
            assert offsets.pop(place, None) == offset
    # It passes over a partition without a leader.
    assert {*owners, *offsets} <= {("returns", 0)}


def test_consumers_are_those_that_were_started() -> None:
    view = decode_tree(recorded_tree())
    nodes = {
        registration.consumer_id: registration
        for group in view.groups.values()
        for registration in group.registrations
    }
    assert nodes.keys() == consumer_names().keys()
    named = {name: nodes[consumer_id] for consumer_id, name in consumer_names().items()}
    assert dict(named["billing-1"].subscription) == {"orders": 2, "payments": 1}
    assert dict(named["typo-1"].subscription) == {"orderz": 1, "payments": 1}
    assert (named["warehouse-2"].pattern, dict(named["warehouse-2"].subscription)) == (
        SubscriptionPattern.WHITE_LIST,
        {"ship.*|returns": 1},
    )
    assert (named["audit-1"].pattern, dict(named["audit-1"].subscription)) == (
        SubscriptionPattern.BLACK_LIST,
        {"clicks|orders": 3},
    )
    sessions = {node.stat.ephemeral_owner for node in nodes.values()}
    assert len(sessions) == len(nodes)
    assert None not in sessions
    kept = {node["path"]: node["stat"] for node in recorded_nodes()}
    for each in nodes.values():
        assert each.timestamp_ms is not None
        assert 0 <= kept[each.path]["ctime"] - each.timestamp_ms < 60_000


def test_who_leads() -> None:
    states = decode_tree(recorded_tree()).partition_states
    told = recorded()["log_ranges"]
    for (topic, partition), state in states.items():
        if topic != "__consumer_offsets":
            has_leader = state.leader in (1, 2)
            assert has_leader == (f"{topic}-{partition}" in told)
    assert states["returns", 0].leader in (None, 3)  # 3 was stopped


# ---- nodes with anything in them: values or problems, never an exception


FIELDS = [
    "version",
    "subscription",
    "pattern",
    "timestamp",
    "host",
    "port",
    "endpoints",
    "partitions",
    "leader",
    "isr",
    "brokerid",
    "config",
    "0",
    "1-2",
    "white_list",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=8,
)
contents = (
    st.none()
    | st.binary(max_size=12)
    | values.map(lambda value: json.dumps(value).encode())
    | st.sampled_from([b"*1*", b"!1!(", b"*1*a{,99999}", b"a:b:1", b"-1", b"c-0", b'{"a":1e999}'])
)


@pytest.mark.slow
@settings(max_examples=examples(25, 240))
@given(data=st.data())
def test_any_contents(data: st.DataObject) -> None:
    nodes = dict(recorded_tree().nodes)
    for path in data.draw(st.lists(st.sampled_from(list(nodes)), min_size=1, max_size=12)):
        nodes[path] = Node(path, data.draw(contents), Stat())
    view = decode_tree(tree_of(nodes.values()))
    groups, problems = groups_of(view)
    assert list(groups) == list(view.groups)
    for problem in (*view.problems, *problems):
        assert problem.kind in ("bad-node", "foreign-node", "unsupported", "more")
        assert problem.path is None or problem.path in nodes
        assert len(problem.reason) < 400


@settings(max_examples=examples(25, 240))
@given(
    names=st.lists(
        st.lists(
            st.sampled_from(["consumers", "brokers", "ids", "owners", "offsets", "topics", "0"])
            | st.text("ab-01/é\n", min_size=1, max_size=4).map(lambda name: name.replace("/", "x")),
            max_size=6,
        ),
        max_size=20,
    ),
    content=contents,
)
def test_any_paths(names: list[list[str]], content: bytes | None) -> None:
    nodes = [Node("/" + "/".join(parts), content) for parts in names]
    groups, _ = groups_of(decode_tree(tree_of(nodes)))
    assert set(groups) == {parts[1] for parts in names if parts[:1] == ["consumers"] and parts[1:]}


# ---- trees of real ZooKeepers with brokers and consumers before 0.8.2: older forms of nodes


BETA = "zookeeper-0.8.0-beta1"

every_tree = pytest.mark.parametrize("name", OLDER_TREES)


def registrations(name: str) -> dict[str, RegistrationNode]:
    """By what the scenario calls the consumers."""
    view = decode_tree(recorded_tree(name))
    return {
        consumer_names(name)[registration.consumer_id]: registration
        for group in view.groups.values()
        for registration in group.registrations
    }


@every_tree
def test_every_node_of_older_trees_is_understood(name: str) -> None:
    view = decode_tree(recorded_tree(name))
    assert view.problems == ()
    assert set(view.groups) == set(recorded(name)["checked"])
    assert {topic: dict(node.partitions) for topic, node in view.topics.items()} == {
        topic: {
            number: tuple(map(int, brokers.split(":")))
            for number, brokers in enumerate(text.split(","))
        }
        for topic, text in recorded(name)["topics"].items()
    }
    assert sorted(view.brokers) == [1, 2]
    assert view.controller_epoch is not None


@every_tree
def test_subscriptions_are_those_of_the_consumers(name: str) -> None:
    found = {key: (node.pattern, node.subscription) for key, node in registrations(name).items()}
    static = SubscriptionPattern.STATIC
    assert found == {
        "billing-1": (static, {"orders": 2, "payments": 1}),
        "billing-2": (static, {"orders": 2, "payments": 1}),
        "typo-1": (static, {"orderz": 1, "payments": 1}),
        "warehouse-1": (SubscriptionPattern.WHITE_LIST, {r"ship\w+|returns": 2}),
        "warehouse-2": (SubscriptionPattern.WHITE_LIST, {r"ship\w+|returns": 1}),
        "audit-1": (SubscriptionPattern.BLACK_LIST, {"returns|orders": 3}),
        "web-1": (static, {"orders": 1}),
        "web-2": (static, {"orders": 2}),
    }


@every_tree
def test_expressions_were_written_without_escapes(name: str) -> None:
    """So they are no JSON: the trees are there for this form."""
    texts = {node["path"]: node["text"] for node in recorded_nodes(name)}
    written = texts[registrations(name)["warehouse-1"].path]
    assert r'"ship\w+|returns"' in written
    with pytest.raises(json.JSONDecodeError):
        json.loads(written)


@every_tree
def test_times_are_there_since_0_8_0(name: str) -> None:
    view = decode_tree(recorded_tree(name))
    assert view.controller is not None
    assert (view.controller.version, view.controller.broker in (1, 2)) == (
        None if name == BETA else 1,
        True,
    )
    nodes: list[BrokerNode | ControllerNode | RegistrationNode]
    nodes = [*view.brokers.values(), *registrations(name).values(), view.controller]
    created = {node["path"]: node["stat"]["ctime"] for node in recorded_nodes(name)}
    for node in nodes:
        if name == BETA:
            assert node.timestamp_ms is None
        else:
            assert node.timestamp_ms is not None
            assert abs(created[node.path] - node.timestamp_ms) < 60_000


@every_tree
def test_brokers_listen_where_they_were_asked(name: str) -> None:
    nodes = decode_tree(recorded_tree(name)).brokers.values()
    assert {(node.host, node.jmx_port, node.version) for node in nodes} == {("127.0.0.1", None, 1)}
    assert all(node.port for node in nodes)


@every_tree
def test_who_leads_in_older_trees(name: str) -> None:
    """The logs were asked of whom Metadata named as the leader."""
    states = decode_tree(recorded_tree(name)).partition_states
    assert len(states) == sum(text.count(",") + 1 for text in recorded(name)["topics"].values())
    led = {at for at, state in states.items() if state.leader in (1, 2)}
    assert led == set(recorded_ranges(name))
    assert set(states) - led == {("returns", 0)}
