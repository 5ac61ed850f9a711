"""Dry runs of ZooKeeper consumers: threads, what moves between them, what-ifs, bad specs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.zookeeper import thread_name
from kgroup.errors import InputError, NotFoundError, UsageError
from kgroup.model.zookeeper import Node, ZookeeperTree
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import bounced, compared, settled
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.outcome import Move, after, dry_run
from kgroup.operation.assign.spec import SpecError, read_spec
from kgroup.operation.assign.unknown_ids import random_ids
from kgroup.operation.assign.what_if import AddedMembers, Changes
from kgroup.operation.assign.zookeeper import Overlap
from kgroup.protocol.zookeeper.tree import tree_of
from tests.operation.sources import TreeSource
from tests.recorded_tree import OLDER_TREES, TREE, recorded, recorded_tree

OWNED = {"C1": [["P", 0, 0], ["P", 1, 0], ["P", 2, 1]], "C2": [["P", 3, 0], ["P", 4, 1]]}


def group(**changes: Any) -> GroupSpec:
    members = [
        {"member_id": name, "streams": {"P": 2}, "owned": owned} for name, owned in OWNED.items()
    ]
    spec = {"protocol": "zookeeper", "topics": {"P": {"partitions": 5}}, "members": members}
    return read_spec(spec | changes)


def test_the_assignment_by_thread_and_by_member() -> None:
    plan = dry_run(group())
    assert plan.threads == {
        ("C1", 0): (("P", 0), ("P", 1)),
        ("C1", 1): (("P", 2),),
        ("C2", 0): (("P", 3),),
        ("C2", 1): (("P", 4),),
    }
    assert plan.assignment == {"C1": (("P", 0), ("P", 1), ("P", 2)), "C2": (("P", 3), ("P", 4))}
    assert (plan.computed_as, plan.rebalance) == ("kafka 0.8.2.2", "eager")
    assert (plan.moves, plan.kept, plan.warnings) == ((), 5, ())


def test_a_partition_that_goes_to_another_thread_of_its_consumer_moves() -> None:
    owned = [["P", 0, 0], ["P", 1, 1], ["P", 2, 1]]
    members = [{"member_id": "C1", "streams": {"P": 2}, "owned": owned}]
    plan = dry_run(group(members=members, topics={"P": {"partitions": 3}}))
    assert plan.moves == (Move("P", 1, "C1", "C1", from_thread=1, to_thread=0),)
    assert plan.kept == 2


def test_where_the_thread_is_not_known_the_consumer_counts() -> None:
    owned = [["P", number] for number in range(4)]
    members = [{"member_id": name, "streams": {"P": 2}} for name in ("C1", "C2")]
    plan = dry_run(group(members=[members[0] | {"owned": owned}, members[1]]))
    assert plan.moves == (Move("P", 3, "C1", "C2", to_thread=0),)


def test_what_a_consumer_had_that_leaves_moves_from_its_threads() -> None:
    plan = dry_run(what_if.remove_member(group(), "C2"))
    assert plan.moves == (
        Move("P", 2, "C1", "C1", from_thread=1, to_thread=0),
        Move("P", 3, "C2", "C1", from_thread=0, to_thread=1),
        Move("P", 4, "C2", "C1", from_thread=1, to_thread=1),
    )


def test_after_an_assignment_the_threads_are_remembered() -> None:
    spec = group(strategy="roundrobin")
    assert dry_run(spec).moves
    assert dry_run(after(spec, dry_run(spec))).moves == ()


def test_consumers_that_join_have_threads_too() -> None:
    plan = dry_run(what_if.add_members(group(), AddedMembers(host="a", streams=3)))
    assert plan.threads is not None
    assert [thread for thread in plan.threads if thread[0] == "new-1"] == [
        ("new-1", number) for number in range(3)
    ]
    alike = what_if.add_members(group(), AddedMembers())
    assert alike.members[-1].streams == {"P": 2}
    with pytest.raises(UsageError, match="members of zookeeper groups have no instance="):
        what_if.add_members(group(), AddedMembers(instance_id="i"))
    classic = read_spec({"topics": {}, "members": [{"member_id": "a", "topics": []}]})
    with pytest.raises(UsageError, match="members of classic groups have no streams="):
        what_if.add_members(classic, AddedMembers(streams=2))


def test_the_id_of_a_new_consumer_has_the_shape_that_kafka_gives_it() -> None:
    spec = what_if.add_members(group(id="g"), AddedMembers(host="web-1"))
    assert re.fullmatch(r"g_web-1-\d{13}-[0-9a-f]{8}", random_ids(spec, 1)["new-1"])


def test_what_depends_on_the_host_of_a_new_consumer_is_marked() -> None:
    members = [{"member_id": "g_m-1700000000000-00000001", "streams": {"P": 1}, "owned": []}]
    spec = group(id="g", members=members, topics={"P": {"partitions": 3}})
    unknown = settled(what_if.add_members(spec, AddedMembers()))
    assert {member.depends_on_id for member in unknown.first.members} == {True}
    known = settled(what_if.add_members(spec, AddedMembers(host="z")))
    assert {member.depends_on_id for member in known.first.members} == {False}
    assert known.first.assignment == {
        "g_m-1700000000000-00000001": (("P", 0), ("P", 1)),
        "new-1": (("P", 2),),
    }


def test_a_consumer_comes_back_on_its_host_with_another_id() -> None:
    """Only where the whole id is set (`consumer.id`) does it keep it."""
    members = [
        {"member_id": "g_m-1700000000000-00000001", "streams": {"P": 1}, "owned": [["P", 0]]},
        {"member_id": "g_fixed", "streams": {"P": 1}, "owned": [["P", 1]]},
    ]
    spec = group(id="g", members=members, topics={"P": {"partitions": 2}})
    back = what_if.restart_member(spec, "g_m-1700000000000-00000001").members[-1]
    assert (back.member_id, back.host, back.unknown_id, back.owned) == ("new-1", "m", True, None)
    fixed = what_if.restart_member(spec, "g_fixed").members[-1]
    assert (fixed.member_id, fixed.unknown_id, fixed.streams) == ("g_fixed", False, {"P": 1})
    assert not bounced(spec).can_be_static


def test_a_new_topic_has_as_many_threads_as_the_others() -> None:
    plan = dry_run(what_if.add_topic(group(), "Q", 4))
    assert plan.threads is not None
    assert {thread: len(partitions) for thread, partitions in plan.threads.items()} == {
        ("C1", 0): 3,
        ("C1", 1): 2,
        ("C2", 0): 2,
        ("C2", 1): 2,
    }


def test_strategies_are_compared() -> None:
    assert [run.first.strategy for run in compared(group())] == ["range", "roundrobin"]


def test_nobody_leads() -> None:
    with pytest.raises(UsageError, match="every consumer of a zookeeper group assigns for itself"):
        what_if.lead(group(), "C1")


def test_an_error_of_kafka_is_told_as_what_happens_to_the_consumers() -> None:
    members = [{"member_id": "C1", "streams": {"P": 2}}, {"member_id": "C2", "streams": {"Q": 1}}]
    plan = dry_run(group(strategy="roundrobin", members=members))
    assert plan.error is not None
    assert plan.error.type == "IllegalArgumentException"
    (warning,) = plan.warnings
    assert warning.startswith("Every consumer fails with IllegalArgumentException")


def test_two_consumers_that_take_one_partition_are_told() -> None:
    members = [
        {"member_id": "c1", "streams": {"Aa": 1, "BB": 1}},
        {"member_id": "c2", "streams": {"BB": 1, "Aa": 1}},
    ]
    topics = {"Aa": {"partitions": 1}, "BB": {"partitions": 1}}
    plan = dry_run(group(strategy="roundrobin", members=members, topics=topics))
    assert plan.warnings[0] == "Assigned to more than one member at once: BB-0."
    assert plan.warnings[1].startswith("Only one consumer can own such a partition in ZooKeeper.")
    assert plan.warnings[2].startswith("Not assigned, although members subscribe")


def test_which_consumers_topics_overlap() -> None:
    members = [
        {"member_id": name, "streams": dict.fromkeys(topics, 1)}
        for name, topics in (("a", "PQ"), ("b", "R"), ("c", "QS"), ("d", ""), ("e", "S"))
    ]
    assert dry_run(group(members=members)).overlaps == (
        Overlap(("a", "c", "e"), ("P", "Q", "S")),
        Overlap(("b",), ("R",)),
        Overlap(("d",), ()),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": [{"member_id": "a"}]}, "members[0].topics: expected a list, found nothing"),
        (
            {"members": [{"member_id": "a", "streams": {"P": -1}}]},
            "members[0].streams.P: expected an integer from 0 to 100000, found -1",
        ),
        (
            {"members": [{"member_id": "a", "streams": ["P"]}]},
            "members[0].streams: expected an object, found ['P']",
        ),
        (
            {"members": [{"member_id": "a", "streams": {"P": 1}, "topics": ["Q"]}]},
            "members[0].streams.P: members[0].topics does not name this topic",
        ),
        (
            {"members": [{"member_id": "a", "streams": {"P": 1}, "rack": "r"}]},
            "members[0].rack: unknown; the fields are member_id, topics, streams, owned",
        ),
        (
            {"members": [{"member_id": "a", "streams": {}, "owned": [["P", 0, 1, 2]]}]},
            "members[0].owned[0]: expected [topic, partition] or [topic, partition, thread], found",
        ),
        (
            {"members": [{"member_id": "a", "streams": {}, "owned": [["P", 0, "x"]]}]},
            "members[0].owned[0][2]: expected an integer from 0 to 99999, found 'x'",
        ),
        ({"strategy": "sticky"}, "strategy: expected one of range, roundrobin, found 'sticky'"),
        ({"kafka_version": "4.3.1"}, "kafka_version: expected one of 0.8.2.2, found '4.3.1'"),
    ],
)
def test_a_bad_spec_is_told_by_the_path_of_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        group(**change)
    assert str(caught.value).startswith(message)


def test_streams_may_be_left_out() -> None:
    members = [{"member_id": "a", "topics": ["P", "Q"], "streams": {"Q": 3}}]
    (member,) = group(members=members).members
    assert (member.topics, member.streams_of("P"), member.streams_of("Q")) == (("P", "Q"), 3, 3)
    (member,) = group(members=[{"member_id": "a", "topics": ["P"]}]).members
    assert member.streams_of("P") == 1


STRATEGIES = {
    **dict.fromkeys(
        ("audit", "billing", "clickstream", "migrating", "typo", "warehouse", "web"), "range"
    ),
    "pricing": "roundrobin",
}
NAMES = recorded()["consumers"]
GROUPS = [
    *((TREE, name) for name in STRATEGIES),
    *(
        (tree, name)
        for tree in OLDER_TREES
        for name in ("audit", "billing", "typo", "warehouse", "web")
    ),
]


def with_nodes(*nodes: tuple[str, str | None], without: str | None = None) -> ZookeeperTree:
    """Return the recorded tree with other nodes; those without text are gone."""
    known = dict(recorded_tree().nodes)
    for path, text in nodes:
        known[path] = replace(known.get(path, Node(path)), data=text.encode() if text else None)
    return tree_of(node for path, node in known.items() if path != without)


@pytest.mark.parametrize(("tree", "name"), GROUPS)
def test_the_algorithm_gives_what_the_consumers_own(tree: str, name: str) -> None:
    read = read_group(TreeSource(recorded_tree(tree)), name, strategy=STRATEGIES[name])
    assert read.errors == ()
    assert read.data[0].protocol == "zookeeper"
    plan = dry_run(read.data[0])
    assert plan.moves == ()
    unknown = "Subscribed topics without known partitions: orderz."
    assert [warning.startswith(unknown) for warning in plan.warnings] == [True] * (name == "typo")
    assert plan.threads is not None
    owners = {
        (row["topic"], row["partition"]): row["owner"]
        for row in recorded(tree)["checked"][name]
        if "owner" in row
    }
    assert owners
    assert plan.owners is not None
    given = {
        partition: thread_name(thread)
        for thread, partitions in plan.threads.items()
        for partition in partitions
    }
    # the tool passes over partitions without a leader
    assert given.keys() - owners.keys() <= {("returns", 0)}
    assert {at: given[at] for at in owners} == owners
    assert all(owner.is_as_given for owner in plan.owners)


def test_the_default_is_what_gives_what_is_owned() -> None:
    """The consumers of "pricing" had `partition.assignment.strategy=roundrobin`."""
    read = read_group(TreeSource(recorded_tree()), "pricing")
    assert read.data[0].strategy == "roundrobin"
    assert dry_run(read.data[0]).moves == ()
    assert read.notes == (
        "no node in ZooKeeper contains partition.assignment.strategy; assuming roundrobin; it "
        "gives the current assignment, unlike range",
    )


def test_the_default_is_range_where_nothing_is_owned() -> None:
    nodes = recorded_tree().nodes.values()
    owners = "/consumers/pricing/owners/"
    tree = tree_of(node for node in nodes if not node.path.startswith(owners))
    read = read_group(TreeSource(tree), "pricing")
    assert read.data[0].strategy == "range"
    assert read.notes[0].endswith("assuming range, Kafka's default; no partition has an owner now")


def test_a_note_says_which_strategy_fits() -> None:
    source = TreeSource(recorded_tree())
    (note,) = read_group(source, "billing").notes
    assert note == (
        "no node in ZooKeeper contains partition.assignment.strategy; assuming range, Kafka's "
        "default; it gives the current assignment"
    )
    (note,) = read_group(source, "pricing", strategy="range").notes
    assert note == (
        "the strategy is range; roundrobin gives the current assignment (--strategy roundrobin)"
    )
    (note,) = read_group(source, "pricing", strategy="roundrobin").notes
    assert note == "the strategy is roundrobin; it gives the current assignment"


def left_by(spec: GroupSpec, name: str) -> GroupSpec:
    return what_if.changed(spec, Changes(remove=[name]))


def test_consumers_are_called_by_their_host_or_without_their_group() -> None:
    prefix = "/consumers/billing/ids/"
    ids = {
        "web-1": "billing_web-1-1700000000000-0a1b2c3d",
        "web-2-1700000000001-0a1b2c3d": "billing_web-2-1700000000001-0a1b2c3d",
        "mine": "billing_mine",
    }
    some = recorded_tree().nodes[f"{prefix}{NAMES['billing-1']}"].data
    assert some is not None
    tree = with_nodes(*((f"{prefix}{each}", some.decode()) for each in ids.values()))
    spec = read_group(TreeSource(tree), "billing").data[0]
    everybody = {member.member_id for member in spec.members}
    for name, member_id in ids.items():
        left = {member.member_id for member in left_by(spec, name).members}
        assert everybody - left == {member_id}
    with pytest.raises(UsageError, match="'vm' means 2 members; name one by its member id: "):
        left_by(spec, "vm")
    with pytest.raises(NotFoundError, match="group billing has no member 'web-2'"):
        left_by(left_by(spec, "web-2"), "web-2")


def test_owners_that_no_algorithm_gives_are_told() -> None:
    owner = "/consumers/billing/owners/orders/0"
    tree = with_nodes((owner, f"{NAMES['billing-2']}-1"))
    read = read_group(TreeSource(tree), "billing")
    assert read.notes[0].endswith("no strategy gives the current assignment: see owners")
    plan = dry_run(read.data[0])
    assert plan.owners is not None
    (other,) = [each for each in plan.owners if not each.is_as_given]
    assert (other.topic, other.partition) == ("orders", 0)
    assert (other.owner, other.given) == ((NAMES["billing-2"], 1), (NAMES["billing-1"], 0))


def test_what_nobody_owns_and_what_a_consumer_owns_that_is_gone() -> None:
    owner = "/consumers/billing/owners/orders/0"
    gone = "billing_elsewhere-1700000000000-0000abcd"
    tree = with_nodes((owner, f"{gone}-1"), without="/consumers/billing/owners/payments/2")
    read = read_group(TreeSource(tree), "billing")
    assert [member.member_id for member in read.data[0].departed] == [gone]
    plan = dry_run(read.data[0])
    (move,) = plan.moves
    assert (move.from_member, move.from_thread) == (gone, 1)
    assert (move.to_member, move.to_thread) == (NAMES["billing-1"], 0)
    assert plan.owners is not None
    assert [
        (each.topic, each.partition, each.owner) for each in plan.owners if not each.is_as_given
    ] == [("orders", 0, (gone, 1)), ("payments", 2, None)]


def test_an_owner_without_the_number_of_a_thread_counts_as_its_consumer() -> None:
    """As clients in other languages write it."""
    owners = "/consumers/billing/owners/orders"
    tree = with_nodes((f"{owners}/0", NAMES["billing-1"]), (f"{owners}/5", NAMES["billing-1"]))
    plan = dry_run(read_group(TreeSource(tree), "billing").data[0])
    assert [(move.partition, move.from_thread, move.to_thread) for move in plan.moves] == [
        (5, None, 1)
    ]


def test_what_ifs() -> None:
    spec = read_group(TreeSource(recorded_tree()), "billing").data[0]
    alone = dry_run(what_if.remove_member(spec, NAMES["billing-1"]))
    assert alone.assignment is not None
    assert Counter(topic for topic, _ in alone.assignment[NAMES["billing-2"]]) == {
        "orders": 6,
        "payments": 3,
    }
    added = what_if.add_members(spec, what_if.AddedMembers(host="zzz"))
    run = settled(added)
    assert run.first.threads is not None
    assert {thread[1] for thread in run.first.threads if thread[0] == "new-1"} == {0, 1}
    assert {member.depends_on_id for member in run.first.members} == {False}
    back = settled(what_if.restart_member(spec, NAMES["billing-2"])).first
    assert {m.from_member for m in back.moves if m.from_member != m.to_member} == {
        NAMES["billing-2"]
    }


def test_a_list_has_all_its_streams_for_each_of_its_topics() -> None:
    spec = read_group(TreeSource(recorded_tree()), "warehouse").data[0]
    assert {member.member_id: member.streams for member in spec.members} == {
        NAMES["warehouse-1"]: {"returns": 2, "shipments": 2},
        NAMES["warehouse-2"]: {"returns": 1, "shipments": 1},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "none of them can rebalance while it is there"),
        (
            '{"version":1,"subscription":{"\\p{Alpha}+":1},"pattern":"white_list"}',
            "kgroup does not guess what it subscribes to",
        ),
    ],
)
def test_a_consumer_that_cannot_be_understood_is_not_guessed(text: str, message: str) -> None:
    path = f"/consumers/billing/ids/{NAMES['billing-1']}"
    with pytest.raises(InputError, match=message) as caught:
        read_group(TreeSource(with_nodes((path, text))), "billing")
    assert path in str(caught.value)


def test_what_is_refused() -> None:
    source = TreeSource(recorded_tree())
    with pytest.raises(InputError, match="expected members that subscribe, found none"):
        read_group(source, "nightly-report")
    with pytest.raises(UsageError, match="no strategy 'sticky'; known for zookeeper groups"):
        read_group(source, "billing", strategy="sticky")
    with pytest.raises(UsageError, match=r"not imitated for Kafka 4\.3\.1, but for 0\.8\.2\.2"):
        read_group(source, "billing", kafka_version="4.3.1")
