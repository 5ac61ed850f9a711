"""The recorded ZooKeeper as a source: from its nodes in a snapshot, and what Kafka said of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kgroup.model.group import GroupState, GroupType
from kgroup.model.log_range import OffsetMark
from kgroup.model.snapshot import Origin, SnapshotNode
from kgroup.operation.describe import GroupDescription, describe
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.base import GroupSource, Question
from kgroup.source.snapshot.file import read_snapshot, snapshot_lines
from kgroup.source.snapshot.source import snapshot_source
from tests.contract.group_source import GroupSourceContract
from tests.contract.saved import saved
from tests.recorded_tree import recorded, recorded_source, recorded_tree


@pytest.fixture(scope="module", params=["itself", "snapshot"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GroupSource:
    if request.param == "itself":
        return recorded_source()
    return saved(recorded_source(), tmp_path_factory.mktemp("snapshot"))


class TestRecordedZookeeper(GroupSourceContract):
    """Of the recorded nodes."""

    types = frozenset({GroupType.ZOOKEEPER})


@pytest.fixture(scope="module")
def described(source: GroupSource) -> Mapping[str, GroupDescription]:
    return {group.group.group_id: group for group in describe(source).data}


def test_as_consumer_offset_checker_says(described: Mapping[str, GroupDescription]) -> None:
    """Owner, offset, end and lag of every row that Kafka's own tool printed."""
    checked, elsewhere = 0, set()
    for group_id, lines in recorded()["checked"].items():
        rows = {(row.topic, row.partition): row for row in described[group_id].offsets}
        for line in lines:
            if "line" in line:  # a message
                continue
            row = rows[line["topic"], line["partition"]]
            owner = None if row.member_id is None else f"{row.member_id}-{row.owner_thread}"
            assert owner == line["owner"]
            told = None if line["offset"] == -1 else line["offset"]  # -1: nothing is committed
            if row.committed_offset != told:
                elsewhere.add((group_id, row.topic, row.partition))
            assert row.log_end_offset == line["log_size"]
            checked += 1
    assert checked > 50
    # that one was committed to Kafka alone, which the tool looks at first
    assert elsewhere == {("migrating", "shipments", 3)}
    node = recorded_tree().nodes["/consumers/migrating/offsets/shipments/3"]
    rows = {(row.topic, row.partition): row for row in described["migrating"].offsets}
    assert node.data == str(rows["shipments", 3].committed_offset).encode()


def test_consumers_that_were_running(described: Mapping[str, GroupDescription]) -> None:
    members = {member.member_id for group in described.values() for member in group.group.members}
    gone = {"nightly-report"}
    expected = {
        consumer_id
        for name, consumer_id in recorded()["consumers"].items()
        if name.rpartition("-")[0] not in gone
    }
    assert members == expected
    assert described["nightly-report"].group.state is GroupState.EMPTY
    assert {group.group.state for name, group in described.items() if name not in gone} == {
        GroupState.STABLE
    }
    hosts = {member.client_host for group in described.values() for member in group.group.members}
    assert len(hosts) == 1
    assert None not in hosts


def test_commits_that_are_out_of_range(described: Mapping[str, GroupDescription]) -> None:
    """As the consumers found out themselves: they were thrown elsewhere by `auto.offset.reset`."""
    marks = {OffsetMark.BEFORE_START, OffsetMark.PAST_END}
    marked = {
        (row.topic, row.partition, row.committed_offset)
        for group in described.values()
        for row in group.offsets
        if row.mark in marks
    }
    resets = {(each["topic"], each["partition"], each["offset"]) for each in recorded()["resets"]}
    assert marked == resets


def test_nodes_survive_a_file(tmp_path: Path) -> None:
    (snapshot,) = take_snapshot(recorded_source(), Origin("zookeeper"), taken_ms=1).data
    file = tmp_path / "a.json"
    file.write_bytes(b"".join(snapshot_lines(snapshot)))
    again = read_snapshot(file)
    assert again == snapshot
    nodes = recorded_tree().nodes
    assert again.zookeeper == tuple(SnapshotNode.of(node) for node in nodes.values())
    assert again.groups == ()
    assert set(again.group_ids) == set(recorded()["checked"]) | set(snapshot.group_ids)
    tree = snapshot_source(again).read(question=Question(nodes=True)).zookeeper
    assert tree is not None
    assert dict(tree.nodes) == dict(nodes)
