"""`describe` of the recorded ZooKeeper groups says what Kafka's own ConsumerOffsetChecker said."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.model.group import GroupState, GroupType
from kgroup.operation.describe import describe
from kgroup.protocol.zookeeper.tree import decode_tree
from kgroup.sample import sample_zookeeper
from kgroup.source.snapshot.file import read_snapshot
from kgroup.source.snapshot.source import snapshot_source
from tests.recorded_tree import TREE, TREES, recorded, recorded_nodes, recorded_ranges

DATA = Path(__file__).parents[1] / "data"
SAMPLE = "sample-zookeeper"
FILES = {**{name: DATA / name / "snapshot.json" for name in TREES}, SAMPLE: sample_zookeeper()}
ONLY_IN_KAFKA = {
    (TREE, "migrating", "shipments", 3): (4, 13),
    (SAMPLE, "loyalty-points", "payments", 2): (4, 12),
}
"""Commits of the tool, which asks Kafka first, and of ZooKeeper."""


@pytest.mark.parametrize(
    ("name", "group_id"), [(name, each) for name in FILES for each in recorded(name)["checked"]]
)
def test_same_owners_offsets_ends_and_lags(name: str, group_id: str) -> None:
    source = snapshot_source(read_snapshot(FILES[name]))
    (group,) = describe(source, [group_id]).data
    assert group.group.type is GroupType.ZOOKEEPER
    found = {(row.topic, row.partition): row for row in group.offsets}
    rows = [row for row in recorded(name)["checked"][group_id] if "topic" in row]
    assert rows
    for theirs in rows:
        ours = found.pop((theirs["topic"], theirs["partition"]))
        place = (name, group_id, theirs["topic"], theirs["partition"])
        if place in ONLY_IN_KAFKA:
            assert (theirs["offset"], ours.committed_offset) == ONLY_IN_KAFKA[place]
        else:
            assert ours.committed_offset == (None if theirs["offset"] == -1 else theirs["offset"])
            assert ours.lag == theirs["lag"]
        assert ours.log_end_offset == theirs["log_size"]
        owner = None if ours.member_id is None else f"{ours.member_id}-{ours.owner_thread}"
        assert owner == theirs["owner"]
    assert {topic for topic, _ in found} <= {"returns"}  # the tool passes over what has no leader
    alive = set(recorded(name)["consumers"].values())
    members = {member.member_id for member in group.group.members}
    assert members == {each for each in alive if each.startswith(f"{group_id}_")}
    assert group.group.state is (GroupState.STABLE if members else GroupState.EMPTY)


@pytest.mark.parametrize("name", TREES)
def test_the_snapshot_has_the_nodes_and_ends_that_others_saw(name: str) -> None:
    snapshot = read_snapshot(FILES[name])
    saved = {node.path: node for node in snapshot.zookeeper or ()}
    seen = {node["path"]: node for node in recorded_nodes(name)}
    for path, node in saved.items():
        theirs = seen[path]
        assert (node.data, node.base64) == (theirs["text"], None), path
        assert node.stat.ctime_ms == theirs["stat"]["ctime"]
        if name == "zookeeper-0.8.0-beta1" and path.startswith("/consumers/billing/offsets/"):
            continue  # its auto commit, twice a second, writes what is written already
        assert node.stat.mtime_ms == theirs["stat"]["mtime"]
    told = {path for path, node in seen.items() if node["text"]}
    assert {path for path in told - saved.keys() if not path.startswith("/zookeeper")} == set()
    ends = {(row.topic, row.partition): row for row in snapshot.log_ranges}
    assert {
        at: (row.log_start_offset, row.log_end_offset)
        for at, row in ends.items()
        if row.log_end_offset is not None
    } == {at: (log.start, log.end) for at, log in recorded_ranges(name).items()}


def test_the_sample_is_read_without_trouble() -> None:
    source = snapshot_source(read_snapshot(sample_zookeeper()))
    reading = source.read()
    assert reading.zookeeper is not None
    assert decode_tree(reading.zookeeper).problems == ()
    assert set(reading.image.groups) == set(recorded(SAMPLE)["checked"])
