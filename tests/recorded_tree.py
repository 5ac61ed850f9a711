"""The recorded ZooKeeper trees of `tests/data`, and what Kafka itself said of them."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from kgroup.model.log_range import LogRange
from kgroup.model.snapshot import (
    SNAPSHOT_VERSION,
    Choice,
    Origin,
    Snapshot,
    SnapshotNode,
    SnapshotRange,
)
from kgroup.model.zookeeper import Node, Stat, ZookeeperTree
from kgroup.protocol.zookeeper.tree import tree_of
from kgroup.source.snapshot.source import SnapshotSource, snapshot_source
from kgroup.source.zookeeper.view import ZOOKEEPER_CAPABILITIES

TREE = "zookeeper-0.8.2.2"
OLDER_TREES = ("zookeeper-0.8.0-beta1", "zookeeper-0.8.0", "zookeeper-0.8.1.1")
"""Of versions whose nodes have other forms, and whose consumers know no strategy but range."""
TREES = (*OLDER_TREES, TREE)
_DATA = Path(__file__).parent / "data"


@cache
def recorded(name: str = TREE) -> dict[str, Any]:
    """What its manifest tells: `checked`, `fetches`, `log_ranges`, `resets`, `consumers`."""
    manifest: dict[str, Any] = json.loads((_DATA / name / "manifest.json").read_text("utf-8"))
    return manifest


@cache
def recorded_nodes(name: str = TREE) -> tuple[dict[str, Any], ...]:
    """The nodes as kazoo gave them: path, text or base64, stat with ZooKeeper's own names."""
    return tuple(json.loads((_DATA / name / "tree.json").read_text("utf-8")))


@cache
def recorded_tree(name: str = TREE) -> ZookeeperTree:
    """The same as the project's own model."""
    return tree_of(
        Node(
            node["path"],
            _data(node),
            Stat(
                node["stat"]["ctime"],
                node["stat"]["mtime"],
                node["stat"]["version"],
                node["stat"]["cversion"],
                hex(node["stat"]["ephemeralOwner"]) if node["stat"]["ephemeralOwner"] else None,
                node["stat"]["numChildren"],
            ),
        )
        for node in recorded_nodes(name)
    )


def recorded_ranges(name: str = TREE) -> dict[tuple[str, int], LogRange]:
    """Where partitions begin and end, said their leaders."""
    ranges = {}
    for place, told in recorded(name)["log_ranges"].items():
        topic, _, partition = place.rpartition("-")
        ranges[topic, int(partition)] = LogRange(told["start"], told["end"])
    return ranges


def recorded_snapshot(name: str = TREE) -> Snapshot:
    """The tree and the ends of the logs as a snapshot."""
    return Snapshot(
        command="snapshot",
        schema_version=SNAPSHOT_VERSION,
        kgroup_version="0",
        taken_ms=max(node["stat"]["mtime"] for node in recorded_nodes(name)),
        origin=Origin("zookeeper"),
        choice=Choice(),
        capabilities=tuple(sorted(ZOOKEEPER_CAPABILITIES)),
        cluster_id=None,
        controller=None,
        brokers=None,
        broker_ids=(),
        offsets_partition_count=None,
        topic_names={},
        groups=(),
        topics=None,
        log_ranges=tuple(
            SnapshotRange(topic, partition, log.start, log.end, log.end, None)
            for (topic, partition), log in sorted(recorded_ranges(name).items())
        ),
        placements=None,
        problems=(),
        log_problems=(),
        notes=(),
        zookeeper=tuple(map(SnapshotNode.of, recorded_tree(name).nodes.values())),
    )


def recorded_source(name: str = TREE) -> SnapshotSource:
    """The same as a source."""
    return snapshot_source(recorded_snapshot(name))


def consumer_names(name: str = TREE) -> dict[str, str]:
    """What the scenario calls each consumer, such as ``billing-1``, by its id."""
    return {consumer_id: called for called, consumer_id in recorded(name)["consumers"].items()}


def _data(node: dict[str, Any]) -> bytes | None:
    if "base64" in node:
        return base64.b64decode(node["base64"])
    return None if node["text"] is None else str(node["text"]).encode()
