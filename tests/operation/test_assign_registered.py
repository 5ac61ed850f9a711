"""Dry runs of the recorded groups of ZooKeeper consumers: Kafka's own tool says who owns what."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from kgroup.assignor.zookeeper import thread_name
from kgroup.errors import InputError, NotFoundError, UsageError
from kgroup.model.zookeeper import Node, ZookeeperTree
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.outcome import dry_run
from kgroup.protocol.zookeeper.tree import tree_of
from tests.operation.sources import TreeSource
from tests.recorded_tree import OLDER_TREES, TREE, recorded, recorded_tree

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
    unknown = "Topics that members subscribe to, and of which no partitions are known: orderz."
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
        "no node in ZooKeeper tells partition.assignment.strategy; taken is roundrobin; it gives "
        "what is owned now, as range does not",
    )


def test_the_default_is_range_where_nothing_is_owned() -> None:
    nodes = recorded_tree().nodes.values()
    owners = "/consumers/pricing/owners/"
    tree = tree_of(node for node in nodes if not node.path.startswith(owners))
    read = read_group(TreeSource(tree), "pricing")
    assert read.data[0].strategy == "range"
    assert read.notes[0].endswith("taken is range, Kafka's default; nothing is owned now")


def test_a_note_says_which_strategy_fits() -> None:
    source = TreeSource(recorded_tree())
    (note,) = read_group(source, "billing").notes
    assert note == (
        "no node in ZooKeeper tells partition.assignment.strategy; taken is range, Kafka's "
        "default; it gives what is owned now"
    )
    (note,) = read_group(source, "pricing", strategy="range").notes
    assert note == (
        "the strategy is range; what is owned now is what roundrobin gives (--strategy roundrobin)"
    )
    (note,) = read_group(source, "pricing", strategy="roundrobin").notes
    assert note == "the strategy is roundrobin; it gives what is owned now"


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
        left = {member.member_id for member in what_if.remove_member(spec, name).members}
        assert everybody - left == {member_id}
    with pytest.raises(UsageError, match="several members have host vm; name one by its id: "):
        what_if.remove_member(spec, "vm")
    with pytest.raises(NotFoundError, match="group billing has no member web-2; there are: "):
        what_if.remove_member(what_if.remove_member(spec, "web-2"), "web-2")


def test_owners_that_no_algorithm_gives_are_told() -> None:
    owner = "/consumers/billing/owners/orders/0"
    tree = with_nodes((owner, f"{NAMES['billing-2']}-1"))
    read = read_group(TreeSource(tree), "billing")
    assert read.notes[0].endswith("what is owned now is what no strategy gives: see owners")
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
            "what it subscribes to is not guessed",
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
    with pytest.raises(UsageError, match=r"not imitated as in Kafka 4\.3\.1, but as in 0\.8\.2\.2"):
        read_group(source, "billing", kafka_version="4.3.1")
