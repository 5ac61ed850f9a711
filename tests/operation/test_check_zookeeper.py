"""What `kgroup check` finds in recorded ZooKeeper trees, as they are and with wrong nodes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from kgroup.errors import UsageError
from kgroup.model.instant import rfc3339
from kgroup.model.snapshot import Origin, SnapshotCommit
from kgroup.model.zookeeper import Node, Stat, ZookeeperTree
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.rule import Finding, Rule
from kgroup.operation.report import Report
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.protocol.zookeeper.tree import tree_of
from kgroup.source.snapshot.source import snapshot_source
from tests.operation.plan.old_tree import changed as changed_tree
from tests.operation.sources import KafkaSource
from tests.recorded_tree import (
    OLDER_TREES,
    recorded,
    recorded_ranges,
    recorded_snapshot,
    recorded_source,
    recorded_tree,
)

NAMES = recorded()["consumers"]
FIRST, SECOND = NAMES["billing-1"], NAMES["billing-2"]
BILLING = "/consumers/billing"
ORDERS_0 = f"{BILLING}/owners/orders/0"
DAY_MS = 86_400_000
ELSEWHERE_OTHERWISE = (Rule.BEFORE_START, Rule.PAST_END, Rule.NO_OWNER)
"""Of members that have a coordinator, other things help."""


def changed(
    nodes: Mapping[str, str | None], *, session: str | None = None, gone: Collection[str] = ()
) -> ZookeeperTree:
    """Give the recorded tree with other data in some nodes, perhaps written in another session."""
    known = {path: node for path, node in recorded_tree().nodes.items() if path not in gone}
    for path, text in nodes.items():
        before = known.get(path, Node(path, stat=Stat(1, 1, 0, 0, "0x1", 0)))
        stat = replace(before.stat, ephemeral_owner=session) if session else before.stat
        known[path] = Node(path, text.encode() if text is not None else None, stat)
    return tree_of(known.values())


def checked(tree: ZookeeperTree, *groups: str, strategy: str | None = None) -> Report[Finding]:
    source = KafkaSource(tree, recorded_ranges(), {})
    now_ms = recorded_now_ms() + 3 * DAY_MS
    return check(source, Request(groups, strategy=strategy), lambda: now_ms).report


def recorded_now_ms() -> int:
    return max(node.stat.mtime_ms or 0 for node in recorded_tree().nodes.values())


def only(report: Report[Finding]) -> Finding:
    (finding,) = report.data
    assert (
        finding.code.advice.startswith(finding.advice[:20]) or finding.code in ELSEWHERE_OTHERWISE
    )
    return finding


def test_the_recorded_groups_have_what_was_done_to_them() -> None:
    """`clickstream` begins behind the start of one log and past the end of another; see `done`."""
    report = checked(recorded_tree())
    assert [
        (finding.group_id, finding.code, finding.topic, finding.partition)
        for finding in report.data
    ] == [
        ("clickstream", Rule.BEFORE_START, "clicks", 0),
        ("clickstream", Rule.PAST_END, "payments", 0),
        ("nightly-report", Rule.NO_CONSUMERS, None, None),
        ("typo", Rule.NO_TOPIC, "orderz", None),
    ]
    assert report.errors == ()


@pytest.mark.parametrize("name", OLDER_TREES)
def test_the_groups_of_older_consumers_have_what_was_done_to_them(name: str) -> None:
    report = check(recorded_source(name), Request(), recorded_now_ms).report
    assert [(finding.group_id, finding.code, finding.topic) for finding in report.data] == [
        ("nightly-report", Rule.NO_CONSUMERS, None),
        ("typo", Rule.NO_TOPIC, "orderz"),
    ]
    assert report.errors == ()


def test_where_a_reset_leads_is_where_kafkas_consumer_went() -> None:
    """It had `auto.offset.reset=smallest`."""
    found = {(each.topic, each.partition): each for each in checked(recorded_tree()).data}
    assert recorded()["resets"]
    for reset in recorded()["resets"]:
        finding = found[reset["topic"], reset["partition"]]
        assert finding.offset == reset["offset"]
        assert finding.log_start_offset == reset["to"]
        assert f"auto.offset.reset=smallest goes to {reset['to']} " in finding.reason
    assert "misses 272 records" in found["clicks", 0].reason
    assert "goes to 600 and skips 325 more" in found["clicks", 0].reason
    assert "reads all of its 10 records again" in found["payments", 0].reason


def test_a_group_without_consumers_tells_when_it_committed_last() -> None:
    finding = only(checked(recorded_tree(), "nightly-report"))
    times = [
        node.stat.mtime_ms
        for path, node in recorded_tree().nodes.items()
        if path.startswith("/consumers/nightly-report/offsets/") and node.data
    ]
    assert finding.since_ms == max(time for time in times if time is not None)
    assert (
        "has 7 committed offsets but no consumers; its last commit was 3 days ago" in finding.reason
    )
    assert finding.since_ms is not None
    assert finding.reason.endswith(f", at {rfc3339(finding.since_ms)[:-5]}Z.")


def test_a_commit_of_a_time_that_no_calendar_holds() -> None:
    tree = recorded_tree()
    stat = Stat(1, 10**16)
    nodes = [
        replace(node, stat=stat) if path.startswith("/consumers/nightly-report/offsets/") else node
        for path, node in tree.nodes.items()
    ]
    finding = only(checked(tree_of(nodes), "nightly-report"))
    assert finding.reason.endswith(f", at {10**16} ms.")


@pytest.mark.parametrize("name", ["billing", "pricing", "warehouse", "audit", "migrating", "web"])
def test_sound_groups(name: str) -> None:
    report = checked(recorded_tree(), name)
    assert (report.data, report.errors) == ((), ())
    assert report.notes == ()


def test_a_partition_without_owner() -> None:
    finding = only(checked(changed({}, gone=[ORDERS_0]), "billing"))
    assert (finding.code, finding.path) == (Rule.NO_OWNER, ORDERS_0)
    assert finding.reason == "No consumer owns orders-0."


def test_an_owner_that_is_gone() -> None:
    finding = only(checked(changed({ORDERS_0: "billing_x-1700000000000-0000abcd-1"}), "billing"))
    assert (finding.code, finding.path) == (Rule.OWNER_GONE, ORDERS_0)
    assert finding.member_id == "billing_x-1700000000000-0000abcd"
    assert finding.since_ms == recorded_tree().nodes[ORDERS_0].stat.ctime_ms


def test_a_thread_that_does_not_exist() -> None:
    finding = only(checked(changed({ORDERS_0: f"{FIRST}-2"}), "billing"))
    assert (finding.code, finding.path) == (Rule.NO_SUCH_THREAD, ORDERS_0)
    assert finding.reason == (f"{FIRST}-2 owns orders-0, but its consumer has 2 threads, 0 to 1.")
    clicks = f"{BILLING}/owners/clicks/0"
    finding = only(checked(changed({clicks: f"{FIRST}-0"}, session=_session(FIRST)), "billing"))
    assert finding.code is Rule.NO_SUCH_THREAD
    assert "does not subscribe to the topic" in finding.reason


def test_an_owner_that_the_algorithm_does_not_give() -> None:
    """Also where the group's strategy, which no node tells, is the other one."""
    for group, strategy, path in (
        ("billing", "range", ORDERS_0),
        ("pricing", "roundrobin", "/consumers/pricing/owners/orders/0"),
    ):
        data = recorded_tree().nodes[path].data
        assert data is not None
        before = data.decode()
        other = f"{before[:-1]}1"
        finding = only(checked(changed({path: other}), group))
        assert (finding.code, finding.path) == (Rule.OTHER_OWNER, path)
        assert finding.reason == f"{other} owns orders-0, but {strategy} assigns it to {before}."


def test_a_strategy_that_was_named_is_the_one_that_counts() -> None:
    report = checked(recorded_tree(), "pricing", strategy="range")
    assert {each.code for each in report.data} == {Rule.OTHER_OWNER}
    finding = only(checked(recorded_tree(), "billing", strategy="roundrobin"))
    assert finding.code is Rule.CANNOT_ASSIGN
    assert finding.reason.startswith("roundrobin fails with IllegalArgumentException: ")
    with pytest.raises(UsageError, match="no strategy 'sticky'"):
        checked(recorded_tree(), strategy="sticky")


def test_two_sessions_with_one_id() -> None:
    finding = only(checked(changed({ORDERS_0: f"{FIRST}-0"}, session="0xbeef"), "billing"))
    assert (finding.code, finding.path) == (Rule.SAME_ID, f"{BILLING}/ids/{FIRST}")
    assert finding.reason == (
        f"{FIRST} is registered in session {_session(FIRST)}, but owns orders-0 in session 0xbeef."
    )


def test_nodes_that_outlive_their_consumers() -> None:
    tree = recorded_tree()
    stat = replace(tree.nodes[ORDERS_0].stat, ephemeral_owner=None)
    nodes = {**tree.nodes, ORDERS_0: replace(tree.nodes[ORDERS_0], stat=stat)}
    finding = only(checked(ZookeeperTree(nodes), "billing"))
    assert (finding.code, finding.path) == (Rule.NO_SESSION, ORDERS_0)
    # a dump without stats says nothing of sessions
    bare = {path: replace(node, stat=Stat()) for path, node in tree.nodes.items()}
    assert checked(ZookeeperTree(bare), "billing").data == ()


def test_a_list_that_comes_to_no_topic() -> None:
    path = f"/consumers/warehouse/ids/{NAMES['warehouse-1']}"
    text = '{"version":1,"subscription":{"nothing.*":2},"pattern":"white_list","timestamp":"1"}'
    report = checked(changed({path: text}), "warehouse")
    assert (Rule.NO_TOPIC, path) in {(each.code, each.path) for each in report.data}
    (finding,) = [each for each in report.data if each.code is Rule.NO_TOPIC]
    assert finding.reason == f"The list 'nothing.*' of {NAMES['warehouse-1']} matches no topic."


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{BILLING}/ids/{FIRST}", Rule.BAD_REGISTRATION),
        (f"{BILLING}/offsets/orders/0", Rule.BAD_OFFSET),
        (f"{BILLING}/owners/orders/0", Rule.BAD_OWNER),
        (f"{BILLING}/locks/orders", Rule.FOREIGN_NODE),
    ],
)
def test_nodes_that_cannot_be_read(path: str, code: Rule) -> None:
    """Each is a finding, and no error beside it."""
    text = "" if code is Rule.BAD_OWNER else "{"
    report = checked(changed({path: text}), "billing")
    findings = {finding.code: finding for finding in report.data}
    assert code in findings
    assert path.startswith(findings[code].path or "-")
    assert report.errors == ()


def test_of_a_list_that_cannot_be_evaluated_nothing_is_said_but_an_error() -> None:
    path = f"/consumers/warehouse/ids/{NAMES['warehouse-1']}"
    list_ = {"\\p{Alpha}+": 2}
    text = json.dumps({"version": 1, "subscription": list_, "pattern": "white_list"})
    report = checked(changed({path: text}), "warehouse")
    assert report.data == ()
    assert [error.path for error in report.errors] == [path]


def test_commits_that_differ_between_zookeeper_and_kafka() -> None:
    kafka = {
        ("migrating", "shipments", 0): 10,  # the same
        ("migrating", "shipments", 3): 4,
        ("migrating", "returns", 0): 9,  # only there
    }
    source = KafkaSource(recorded_tree(), recorded_ranges(), kafka)
    report = check(source, Request(["migrating"]), recorded_now_ms).report
    finding = only(report)
    assert finding.code is Rule.OFFSETS_DIFFER
    assert finding.path == "/consumers/migrating/offsets/shipments/3"
    assert (finding.offset, finding.kafka_offset) == (13, 4)
    assert finding.reason == "shipments-3: the committed offset is 13 in ZooKeeper, 4 in Kafka."


def test_a_commit_between_the_two_readings_is_no_difference() -> None:
    """Kafka is asked after ZooKeeper, and ZooKeeper once more where they differ."""
    path = "/consumers/migrating/offsets/shipments/3"
    source = KafkaSource(recorded_tree(), recorded_ranges(), {("migrating", "shipments", 3): 13})
    late = [changed({path: "12"}), recorded_tree()]
    source.next_tree = lambda: late.pop(0) if len(late) > 1 else late[0]
    assert check(source, Request(["migrating"]), recorded_now_ms).report.data == ()


def test_a_snapshot_tells_of_kafka_what_it_was_told() -> None:
    """One that was taken while no broker answered, or before it kept that, says so."""
    bare = check(snapshot_source(recorded_snapshot()), Request(["migrating"]), lambda: 1).report
    assert bare.data == ()
    assert bare.notes[0] == (
        "this source does not have the offsets that groups of ZooKeeper "
        "consumers have committed to Kafka"
    )
    source = KafkaSource(
        recorded_tree(), recorded_ranges(), {("migrating", "shipments", 3): 4, ("audit", "x", 0): 1}
    )
    taken = take_snapshot(source, Origin("zookeeper"), taken_ms=1).data[0]
    assert taken.kafka_commits == (
        SnapshotCommit("audit", "x", 0, 1),
        SnapshotCommit("migrating", "shipments", 3, 4),
    )
    saved = check(snapshot_source(taken), Request(["migrating"]), lambda: 1).report
    live = check(source, Request(["migrating"]), lambda: 1).report
    assert saved.data == live.data
    assert [finding.code for finding in saved.data] == [Rule.OFFSETS_DIFFER]


@pytest.mark.parametrize(
    ("tree", "brokers"),
    [
        (changed_tree(), 1),
        (changed_tree(brokers=2), 2),
        (changed_tree(without=("/brokers/ids/",)), 0),
    ],
)
def test_a_group_that_is_left_beside_brokers_which_coordinate_groups(
    tree: ZookeeperTree, brokers: int
) -> None:
    """Brokers of 0.9 and later register with version 2 or a later one (`kafka.zk.ZkData`)."""
    findings = checked(tree, "billing").data
    assert [each.code for each in findings] == ([Rule.LEGACY_GROUP] if brokers == 2 else [])
    for finding in findings:
        assert (finding.severity, finding.path) == ("info", BILLING)
        assert finding.reason.startswith("billing uses ZooKeeper, with 2 consumers, although ")


def test_groups_that_do_not_exist() -> None:
    report = checked(recorded_tree(), "billing", "nobody")
    assert [error.kind for error in report.errors] == ["not-found"]


def _session(consumer_id: str) -> str:
    session = recorded_tree().nodes[f"{BILLING}/ids/{consumer_id}"].stat.ephemeral_owner
    assert session is not None
    return session
