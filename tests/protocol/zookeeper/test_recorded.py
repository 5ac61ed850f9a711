"""The tree of a real ZooKeeper, beside what Kafka's own tools and brokers said of it."""

from __future__ import annotations

import pytest

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.protocol.zookeeper.tree import decode_tree
from tests.recorded_tree import consumer_names, recorded, recorded_nodes, recorded_tree

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
