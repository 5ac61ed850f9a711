"""The recorded group "billing" on ZooKeeper, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from kgroup.model.zookeeper import Node, ZookeeperTree
from kgroup.protocol.zookeeper.tree import tree_of
from tests.operation.sources import KafkaSource
from tests.recorded_tree import recorded, recorded_ranges, recorded_tree

GROUP = "billing"
IDS = (recorded()["consumers"]["billing-1"], recorded()["consumers"]["billing-2"])
"""Two consumers of 0.8.2.2, each with two streams of "orders" and one of "payments"."""
COMMITTED = {
    (GROUP, row["topic"], row["partition"]): row["offset"] for row in recorded()["checked"][GROUP]
}
"""What it has committed to ZooKeeper, says Kafka's own ConsumerOffsetChecker."""


def changed(
    texts: Mapping[str, str] | None = None,
    *,
    without: tuple[str, ...] = (),
    brokers: int | None = None,
) -> ZookeeperTree:
    """Return the recorded tree with other texts in paths and nodes.

    Args:
        texts: by what they take the place of.
        without: what paths of nodes begin with that are gone.
        brokers: version of their nodes.
    """

    def new(text: str) -> str:
        for before, after in (texts or {}).items():
            text = text.replace(before, after)
        return text

    def node(found: Node) -> Node:
        data = found.data
        if brokers is not None and found.path.startswith("/brokers/ids/"):
            data = json.dumps(json.loads(data or b"") | {"version": brokers}).encode()
        text = None if data is None else new(data.decode()).encode()
        return replace(found, path=new(found.path), data=text)

    nodes = recorded_tree().nodes.values()
    return tree_of(node(each) for each in nodes if not each.path.startswith(without or "-"))


def stopped(*consumer_ids: str, brokers: int | None = None) -> ZookeeperTree:
    """Return the tree without these consumers, and without what they own."""
    owned = tuple(
        node.path
        for node in recorded_tree().nodes.values()
        if node.path.startswith(f"/consumers/{GROUP}/owners/")
        if (node.data or b"").decode().rpartition("-")[0] in consumer_ids
    )
    ids = tuple(f"/consumers/{GROUP}/ids/{each}" for each in consumer_ids)
    return changed(without=(*ids, *owned), brokers=brokers)


def empty(brokers: int | None = None) -> ZookeeperTree:
    """Return the tree without all of them."""
    return stopped(*IDS, brokers=brokers)


def source(
    tree: ZookeeperTree,
    kafka: Mapping[tuple[str, str, int], int] | None = None,
    members: int | None = None,
) -> KafkaSource:
    """Return a source beside a Kafka with commits, and with members of the group."""
    told = {} if members is None else {GROUP: members}
    return KafkaSource(tree, recorded_ranges(), kafka or {}, told)
