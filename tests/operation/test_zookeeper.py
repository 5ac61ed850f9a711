"""Consumers, owners and nodes of the recorded tree, beside what Kafka and kazoo said."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from kgroup.errors import UsageError
from kgroup.model.snapshot import SnapshotNode
from kgroup.model.zookeeper import Node, Stat, SubscriptionPattern
from kgroup.operation.report import Report
from kgroup.operation.zookeeper.nodes import (
    RegisteredConsumer,
    TreeNode,
    list_consumers,
    list_nodes,
    list_owners,
)
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from kgroup.source.snapshot.source import SnapshotSource, snapshot_source
from tests.recorded_tree import (
    TREE,
    TREES,
    consumer_names,
    recorded,
    recorded_nodes,
    recorded_snapshot,
    recorded_source,
)

STATS = {node["path"]: node["stat"] for node in recorded_nodes()}

of_every_version = pytest.mark.parametrize("name", TREES)


def stats(name: str) -> dict[str, dict[str, int]]:
    return {node["path"]: node["stat"] for node in recorded_nodes(name)}


def by_name(name: str = TREE) -> dict[str, RegisteredConsumer]:
    report = list_consumers(recorded_source(name))
    assert (report.errors, report.notes) == ((), ())
    return {consumer_names(name)[row.consumer_id]: row for row in report.data}


@of_every_version
def test_consumers_are_those_that_were_started(name: str) -> None:
    assert by_name(name).keys() == recorded(name)["consumers"].keys()
    assert [row.consumer_id for row in list_consumers(recorded_source(name)).data] == sorted(
        recorded(name)["consumers"].values(), key=lambda each: (each.split("_")[0], each)
    )


def test_what_consumers_read() -> None:
    found = {name: (row.pattern, row.streams, row.topics) for name, row in by_name().items()}
    assert found["billing-1"] == (
        SubscriptionPattern.STATIC,
        {"orders": 2, "payments": 1},
        ("orders", "payments"),
    )
    assert found["typo-1"][2] == ("orderz", "payments")
    assert found["warehouse-2"] == (
        SubscriptionPattern.WHITE_LIST,
        {"ship.*|returns": 1},
        ("returns", "shipments"),
    )
    assert found["audit-1"] == (
        SubscriptionPattern.BLACK_LIST,
        {"clicks|orders": 3},
        ("payments", "returns", "shipments"),
    )


@of_every_version
def test_what_consumers_own_and_since_when_they_are_there(name: str) -> None:
    counts = Counter(
        consumer_id for consumer_id, fetches in recorded(name)["fetches"].items() for _ in fetches
    )
    for row in by_name(name).values():
        path = f"/consumers/{row.group_id}/ids/{row.consumer_id}"
        assert row.owned_count == counts[row.consumer_id]
        assert row.registered_ms == stats(name)[path]["ctime"]
        assert row.session_id == hex(stats(name)[path]["ephemeralOwner"])
        assert (row.timestamp_ms is None) == ("beta" in name)
        assert row.host is not None
        assert row.host in row.consumer_id


@of_every_version
def test_owners_are_those_of_the_offset_checker(name: str) -> None:
    report = list_owners(recorded_source(name))
    assert report.errors == ()
    partitions = {(row.group_id, row.topic, row.partition): row for row in report.data}
    for group_id, rows in recorded(name)["checked"].items():
        for checked in rows:
            if "topic" in checked and checked["owner"] is not None:
                row = partitions.pop((group_id, checked["topic"], checked["partition"]))
                assert row.thread_id == checked["owner"] == f"{row.consumer_id}-{row.thread}"
                path = f"/consumers/{group_id}/owners/{row.topic}/{row.partition}"
                assert row.since_ms == stats(name)[path]["ctime"]
                assert row.registered
    assert {at[1:] for at in partitions} == {("returns", 0)}  # the tool passes it over: no leader


def test_rows_are_sorted_by_number_and_chosen_by_group() -> None:
    rows = list_owners(recorded_source(), ["pricing", "billing"]).data
    places = [(row.group_id, row.topic, row.partition) for row in rows]
    assert places == sorted(places)
    assert {place[0] for place in places} == {"billing", "pricing"}
    assert {row.group_id for row in list_consumers(recorded_source(), ["web"]).data} == {"web"}


@pytest.mark.parametrize("operation", [list_consumers, list_owners])
def test_a_group_that_does_not_exist(operation: object) -> None:
    assert callable(operation)
    report: Report[object] = operation(recorded_source(), ["web", "nobody"])
    assert report.data
    assert [(error.kind, error.group_id) for error in report.errors] == [("not-found", "nobody")]


def test_a_source_without_nodes() -> None:
    for operation in (list_consumers, list_owners, list_nodes):
        with pytest.raises(UsageError, match="no nodes of ZooKeeper"):
            operation(LogDir([sample_log_dir()]))


@of_every_version
def test_every_node_is_listed_as_it_is(name: str) -> None:
    report = list_nodes(recorded_source(name))
    assert report.errors == ()
    assert {
        row.path: (row.text, row.ctime_ms, row.mtime_ms, row.version, row.children)
        for row in report.data
    } == {
        node["path"]: (
            node["text"],
            *(node["stat"][name] for name in ("ctime", "mtime", "version", "numChildren")),
        )
        for node in recorded_nodes(name)
    }
    assert {row.error for row in report.data} == {None}
    sessions = {row.path for row in report.data if row.session_id}
    assert sessions == {path for path, stat in stats(name).items() if stat["ephemeralOwner"]}


@of_every_version
def test_every_node_with_data_is_decoded(name: str) -> None:
    rows = {row.path: row for row in list_nodes(recorded_source(name)).data}
    kinds = {row.kind for row in rows.values() if row.text}
    assert None not in {
        row.kind for row in rows.values() if row.text and "/zookeeper" not in row.path
    }
    assert kinds == {
        *("registration", "owner", "offset", "broker", "topic", "partition-state"),
        *("controller", "controller-epoch"),
        *(["config"] if "0.8.0" not in name else []),  # of topics since 0.8.1
    }


def test_what_nodes_say() -> None:
    rows = {row.path: row for row in list_nodes(recorded_source()).data}
    assert rows["/consumers/clickstream/offsets/payments/0"].value == {
        "group_id": "clickstream",
        "topic": "payments",
        "broker": None,
        "partition": 0,
        "offset": 1000,
    }
    topic = rows["/brokers/topics/returns"].value
    assert (topic["topic"], topic["partitions"]) == ("returns", {"0": (3,), "1": (1,)})
    state = rows["/brokers/topics/orders/partitions/1/state"]
    assert state.text is not None
    assert {name: state.value[name] for name in ("leader", "leader_epoch")} == {
        name: json.loads(state.text)[name] for name in ("leader", "leader_epoch")
    }


@pytest.mark.parametrize("path", ["/brokers/topics", "brokers/topics/", "//brokers/topics"])
def test_a_path_and_a_depth(path: str) -> None:
    def paths(depth: int | None) -> list[str]:
        return [row.path for row in list_nodes(recorded_source(), path, depth).data]

    assert paths(0) == ["/brokers/topics"]
    topics = [*sorted(recorded()["topics"]), "__consumer_offsets"]
    assert sorted(paths(1)[1:]) == sorted(f"/brokers/topics/{topic}" for topic in topics)
    assert len(paths(2)) == 1 + 2 * len(topics)
    everything = [node for node in STATS if f"{node}/".startswith("/brokers/topics/")]
    assert sorted(paths(None)) == sorted(everything)
    assert paths(9) == paths(None)


def source_of(*nodes: Node) -> SnapshotSource:
    saved = tuple(map(SnapshotNode.of, nodes))
    return snapshot_source(replace(recorded_snapshot(), zookeeper=saved))


def one(path: str, data: bytes | None, at: str = "/") -> Report[TreeNode]:
    return list_nodes(source_of(Node(path, data, Stat())), at)


def test_bad_data_are_shown_with_the_reason() -> None:
    report = one("/consumers/g/offsets/t/0", b"12x")
    (row,), (problem,) = report.data, report.errors
    assert (row.kind, row.value, row.text) == (None, None, "12x")
    assert row.error == problem.reason
    assert "12x" in problem.reason
    assert problem.path == row.path


def test_bytes_that_are_no_text() -> None:
    (row,) = one("/brokers/ids/1", b"\xff\xfe").data
    assert (row.text, row.raw) == (None, "//4=")
    assert row.error is not None
    (row,) = one("/mine", b"\xff").data
    assert (row.kind, row.raw, row.error) == (None, "/w==", None)
    (row,) = one("/mine", b"").data
    assert (row.text, row.raw) == ("", None)


def test_problems_elsewhere_are_not_told() -> None:
    assert one("/consumers/g/offsets/t/0", b"12x", "/consumers/g").errors
    report = one("/consumers/g/offsets/t/0", b"12x", "/consumers/h")
    assert [error.kind for error in report.errors] == ["not-found"]
    assert [error.path for error in report.errors] == ["/consumers/h"]


def test_a_name_that_begins_alike_lies_elsewhere() -> None:
    source = source_of(Node("/a"), Node("/a/b"), Node("/ab"))
    assert [row.path for row in list_nodes(source, "/a").data] == ["/a", "/a/b"]


def test_what_an_administrator_asked_for() -> None:
    reassign = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    (row,) = one("/admin/reassign_partitions", reassign).data
    assert row.kind == "reassignment"
    assert row.value == [{"topic": "t", "partition": 0, "replicas": (2, 3)}]
    elect = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    (row,) = one("/admin/preferred_replica_election", elect).data
    assert (row.kind, row.value) == ("election", [{"topic": "t", "partition": 0}])
    (row,) = one("/cluster/id", b'{"version":"1","id":"abc"}').data
    assert (row.kind, row.value) == ("cluster-id", "abc")
