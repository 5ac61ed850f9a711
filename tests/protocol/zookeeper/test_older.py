"""Trees of real ZooKeepers with brokers and consumers before 0.8.2: older forms of nodes."""

from __future__ import annotations

import json

import pytest

from kgroup.model.zookeeper import BrokerNode, ControllerNode, RegistrationNode, SubscriptionPattern
from kgroup.protocol.zookeeper.tree import decode_tree
from tests.recorded_tree import (
    OLDER_TREES,
    consumer_names,
    recorded,
    recorded_nodes,
    recorded_ranges,
    recorded_tree,
)

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
def test_every_node_is_understood(name: str) -> None:
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
def test_who_leads(name: str) -> None:
    """The logs were asked of whom Metadata named as the leader."""
    states = decode_tree(recorded_tree(name)).partition_states
    assert len(states) == sum(text.count(",") + 1 for text in recorded(name)["topics"].values())
    led = {at for at, state in states.items() if state.leader in (1, 2)}
    assert led == set(recorded_ranges(name))
    assert set(states) - led == {("returns", 0)}
