"""Groups of the ZooKeeper consumer: who is in them, who owns what, what nobody owns."""

from __future__ import annotations

import json
import warnings

import pytest

from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, Stat, SubscriptionPattern
from kgroup.protocol.zookeeper.group import groups_of
from kgroup.protocol.zookeeper.topic_filter import filter_regex, parse_filter
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of

ORDERS = {"/brokers/topics/orders": '{"version":1,"partitions":{"0":[1],"1":[1],"2":[1]}}'}


def registered(pattern: str = "static", **streams: int) -> str:
    return json.dumps({"version": 1, "subscription": streams, "pattern": pattern, "timestamp": "5"})


def read(nodes: dict[str, str]) -> tuple[Group, tuple[Problem, ...]]:
    rows = [
        Node(path, text.encode(), Stat(ctime_ms=100 + i, mtime_ms=200 + i, ephemeral_owner="0x1"))
        for i, (path, text) in enumerate(nodes.items())
    ]
    groups, problems = groups_of(decode_tree(tree_of(rows)))
    return groups["g"], problems


def test_every_partition_has_its_thread() -> None:
    group, problems = read(
        {
            "/consumers/g/ids/g_h-1400000000000-1a2b3c4d": registered(orders=2),
            "/consumers/g/owners/orders/0": "g_h-1400000000000-1a2b3c4d-0",
            "/consumers/g/owners/orders/1": "g_h-1400000000000-1a2b3c4d-0",
            "/consumers/g/owners/orders/2": "g_h-1400000000000-1a2b3c4d-1",
            "/consumers/g/offsets/orders/1": "77",
            **ORDERS,
        }
    )
    assert (group.type, group.state, problems) == (GroupType.ZOOKEEPER, GroupState.STABLE, ())
    (member,) = group.members
    assert (member.client_host, member.session_id, member.registered_ms) == ("h", "0x1", 100)
    assert member.subscription is not None
    assert member.subscription.topics == ("orders",)
    assert member.subscription.streams == {"orders": 2}
    owned = [(p.topic, p.partition, p.thread, p.since_ms) for p in member.assignment or ()]
    assert owned == [("orders", 0, 0, 101), ("orders", 1, 0, 102), ("orders", 2, 1, 103)]
    (offset,) = group.offsets
    assert (offset.partition, offset.committed_offset, offset.commit_timestamp_ms) == (1, 77, 204)
    assert (group.unowned, group.stray_owners) == ((), ())


@pytest.mark.parametrize("owned", [True, False])
def test_internal_topics_are_in_lists_of_those_who_own_them(owned: bool) -> None:
    """No node has the consumer's version, nor its `exclude.internal.topics`."""
    group, _ = read(
        {
            "/brokers/topics/__consumer_offsets": '{"version":1,"partitions":{"0":[1]}}',
            "/consumers/g/ids/c": registered("white_list", **{".*": 1}),
            "/consumers/g/owners/orders/0": "c-0",
            **({"/consumers/g/owners/__consumer_offsets/0": "c-0"} if owned else {}),
            **ORDERS,
        }
    )
    (member,) = group.members
    assert member.subscription is not None
    assert member.subscription.topics == (*(["__consumer_offsets"] if owned else []), "orders")
    assert {partition.topic for partition in group.unowned} == {"orders"}


def test_partitions_without_an_owner_and_owners_that_are_gone() -> None:
    group, _ = read(
        {
            "/consumers/g/ids/c": registered(orders=1),
            "/consumers/g/owners/orders/0": "c-0",
            "/consumers/g/owners/orders/1": "gone-0",
            **ORDERS,
        }
    )
    assert group.state is GroupState.RECONCILING
    assert group.unowned == (AssignedPartition(None, "orders", 2),)
    (stray,) = group.stray_owners
    assert (stray.member_id, stray.partition.partition, stray.partition.thread) == ("gone", 1, 0)
    assert group.partitions == {("orders", 0), ("orders", 1), ("orders", 2)}


def test_a_group_with_owners_that_are_gone_alone_is_no_stable_one() -> None:
    group, _ = read(
        {
            "/consumers/g/ids/c": registered(orders=1),
            "/consumers/g/owners/orders/0": "c-0",
            "/consumers/g/owners/orders/1": "gone-0",
            "/consumers/g/owners/orders/2": "c-0",
            **ORDERS,
        }
    )
    assert (group.state, group.unowned) == (GroupState.RECONCILING, ())


def test_a_group_without_consumers_is_empty() -> None:
    group, _ = read({"/consumers/g/offsets/orders/0": "1", **ORDERS})
    assert (group.state, group.members, group.unowned) == (GroupState.EMPTY, (), ())


@pytest.mark.parametrize(
    ("pattern", "regex", "topics"),
    [
        ("white_list", "orders|pay.*", ("orders", "pay", "pay-2")),
        ("white_list", "orders,pay", ("orders", "pay")),
        ("white_list", "pay", ("pay",)),
        ("white_list", "(?!pay).*", ("orders",)),
        ("black_list", "pay.*", ("orders",)),
        ("black_list", "none", ("orders", "pay", "pay-2")),
    ],
)
def test_lists_are_of_the_topics_that_exist(
    pattern: str, regex: str, topics: tuple[str, ...]
) -> None:
    partitions = '{"version":1,"partitions":{"0":[1]}}'
    names = ("orders", "pay", "pay-2", "__consumer_offsets")
    group, problems = read(
        {
            "/consumers/g/ids/c": registered(pattern, **{regex: 3}),
            **{f"/brokers/topics/{name}": partitions for name in names},
        }
    )
    subscription = group.members[0].subscription
    assert subscription is not None
    assert (subscription.topics, problems) == (topics, ())
    assert (subscription.pattern, subscription.streams) == (
        SubscriptionPattern(pattern),
        {regex: 3},
    )
    assert subscription.regex == filter_regex(regex)


@pytest.mark.parametrize("regex", ["[a-z&&[^p]]*", "[[:alpha:]]*", r"\p{Alpha}*", "(", "a**"])
def test_a_list_that_cannot_be_evaluated_is_unknown(regex: str) -> None:
    group, problems = read({"/consumers/g/ids/c": registered("white_list", **{regex: 1}), **ORDERS})
    assert group.state is None
    subscription = group.members[0].subscription
    assert subscription is not None
    assert subscription.topics is None
    assert [(problem.kind, problem.path) for problem in problems] == [
        ("bad-node", "/consumers/g/ids/c")
    ]


def test_expressions_are_cleaned_as_kafka_does() -> None:
    # TopicFilter: trim, commas to bars, no blanks, no quotes around
    assert filter_regex(" 'a , b.*' ") == "a|b.*"
    assert parse_filter("a{1}").fullmatch("a") is not None
    assert parse_filter(r"[\[a]\[&&b").fullmatch("[[&&b") is not None


def test_what_python_may_read_otherwise_some_day_is_read_as_java_reads_it() -> None:
    """And without a word: RE2 has no looking ahead, and Python warns of these signs in a class."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pattern = parse_filter("(?=.)[a||b~~]")
    assert [text for text in "ab|~c&" if pattern.fullmatch(text)] == ["a", "b", "|", "~"]


def test_a_consumer_that_cannot_be_read_is_a_member_all_the_same() -> None:
    group, _ = read(
        {
            "/consumers/g/ids/b": registered(orders=1),
            "/consumers/g/ids/g_h-1400000000000-1a2b3c4d": "{",
            "/consumers/g/owners/orders/0": "g_h-1400000000000-1a2b3c4d-0",
            **ORDERS,
        }
    )
    assert group.state is None
    assert group.stray_owners == ()
    _, member = group.members
    assert (member.client_host, member.subscription) == ("h", None)
    assert [part.partition for part in member.assignment or ()] == [0]


def test_what_is_no_offset_and_what_0_7_wrote_is_told() -> None:
    group, problems = read(
        {
            "/consumers/g/ids/c": registered(orders=1),
            "/consumers/g/owners/orders/0-1": "c-0",
            "/consumers/g/offsets/orders/0-1": "4096",
            "/consumers/g/offsets/orders/2": "-1",
            **ORDERS,
        }
    )
    assert group.offsets == ()
    assert [(problem.kind, problem.path) for problem in problems] == [
        ("unsupported", None),
        ("bad-node", "/consumers/g/offsets/orders/2"),
    ]
    assert "2 owners and offsets" in problems[0].reason
