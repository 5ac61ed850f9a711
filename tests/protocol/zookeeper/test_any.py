"""Nodes with anything in them: values or problems, never an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.model.zookeeper import Node, Stat
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from tests.examples import examples
from tests.recorded_tree import recorded_tree

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
