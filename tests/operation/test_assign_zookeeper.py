"""Dry runs of ZooKeeper consumers: threads, what moves between them, what-ifs, bad specs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.errors import UsageError
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import bounced, compared, random_ids, settled
from kgroup.operation.assign.outcome import Move, after, dry_run
from kgroup.operation.assign.spec import SpecError, read_spec
from kgroup.operation.assign.what_if import AddedMembers
from kgroup.operation.assign.zookeeper import Overlap

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
    assert plan.warnings[0] == "Given to more than one member at once: BB-0."
    assert plan.warnings[1].startswith("Only one consumer can own such a partition in ZooKeeper.")
    assert plan.warnings[2].startswith("Given to nobody, though there are members that subscribe")


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
