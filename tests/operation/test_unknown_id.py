"""What depends on the ids of members that are still to join."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import (
    bounced,
    compared,
    dry_run_as,
    is_small,
    is_small_restart,
    random_ids,
    settled,
)
from kgroup.operation.assign.outcome import AssignPlan, dry_run
from kgroup.operation.assign.spec import read_spec
from kgroup.operation.assign.what_if import AddedMembers

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def group(strategy: str, *, protocol: str = "classic", partitions: int = 3) -> GroupSpec:
    """Two members in the middle of the alphabet, that own all."""
    owned = [["t", number] for number in range(partitions)]
    spec: dict[str, Any] = {
        "id": "g",
        "protocol": protocol,
        "strategy": strategy,
        "topics": {"t": {"partitions": partitions}},
        "members": [
            {"member_id": "m1", "topics": ["t"], "owned": owned[::2], "generation": 1},
            {"member_id": "m2", "topics": ["t"], "owned": owned[1::2], "generation": 1},
        ],
    }
    return read_spec(spec)


def unsure(plan: AssignPlan) -> dict[str, bool | None]:
    return {member.member_id: member.depends_on_id for member in plan.members}


def test_ids_have_the_shape_of_real_ones() -> None:
    def made(protocol: str, added: AddedMembers) -> str:
        strategy = {"classic": "range", "consumer": "uniform", "share": "simple"}[protocol]
        spec = what_if.add_members(group(strategy, protocol=protocol), added)
        return random_ids(spec, 5)["new-1"]

    assert re.fullmatch(f"c-{UUID}", made("classic", AddedMembers(client_id="c")))
    static = AddedMembers(client_id="c", instance_id="i")
    assert re.fullmatch(f"i-{UUID}", made("classic", static))
    assert re.fullmatch(f"consumer-g-1-{UUID}", made("classic", AddedMembers()))
    for protocol in ("consumer", "share"):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", made(protocol, AddedMembers()))


@pytest.mark.parametrize(("client", "place"), [("a", 0), ("z", 2)])
def test_a_client_id_that_settles_the_order_settles_the_assignment(client: str, place: int) -> None:
    """Range goes by member id, and a client id comes first in it."""
    plan = settled(what_if.add_members(group("range"), AddedMembers(client_id=client))).first
    assert plan.assignment is not None
    assert plan.assignment["new-1"] == (("t", place),)
    assert unsure(plan) == {"m1": False, "m2": False, "new-1": False}
    assert {move.depends_on_id for move in plan.moves} == {False}
    assert plan.warnings == ()


@pytest.mark.parametrize(
    ("client", "client_id"),
    [
        ("librdkafka", "rdkafka"),
        ("franz-go", "kgo"),
        ("sarama", "sarama"),
        ("kafka-go", r"[a-z]{8}@[a-z]{8} \(github\.com/segmentio/kafka-go\)"),
        ("kafka-python@2.2.21", r"kafka-python-2\.2\.21"),
        ("kafkajs", "kafkajs"),
    ],
)
def test_a_client_id_that_nobody_tells_is_the_default_one_of_the_library(
    client: str, client_id: str
) -> None:
    """Defaults from members of each library (`tests/data/clients`)."""
    strategy = "RoundRobinAssigner" if client == "kafkajs" else "range"
    read = read_spec(
        {
            "client": client,
            "strategy": strategy,
            "topics": {},
            "members": [{"member_id": "m", "topics": []}],
        }
    )
    spec = what_if.add_members(read, AddedMembers())
    assert re.fullmatch(f"{client_id}-{UUID}", random_ids(spec, 0)["new-1"])
    back = what_if.restart_member(read, "m")
    assert re.fullmatch(f"{client_id}-{UUID}", random_ids(back, 0)["new-1"])


def of_librdkafka(*client_ids: str) -> GroupSpec:
    """Members that are called so, the first of which leads, and more of Java."""
    spec = group("range", partitions=8)
    members = [
        MemberSpec(f"{name}-{at}", ("t",), client_id=name, client=Software("librdkafka", "2.16.0"))
        for at, name in enumerate(client_ids)
    ]
    java = [
        MemberSpec(f"j-{at}", ("t",), client_id="j", client=Software("kafka-clients", "4.3.1"))
        for at in range(3)
    ]
    return replace(spec, client=None, leader_id=members[0].member_id, members=(*java, *members))


def test_a_new_member_is_called_as_most_of_the_leaders_library_are() -> None:
    spec = what_if.add_members(of_librdkafka("a", "pay", "pay"), AddedMembers())
    for seed in range(7):
        assert re.fullmatch(f"pay-{UUID}", random_ids(spec, seed)["new-1"])
    left = of_librdkafka("a", "pay", "pay")
    left = replace(left, members=(), departed=left.members, leader_client=left.members[-1].client)
    joined = what_if.add_members(left, AddedMembers())
    assert re.fullmatch(f"pay-{UUID}", random_ids(joined, 0)["new-1"])


def test_a_new_member_is_called_as_any_where_each_is_called_otherwise() -> None:
    spec = what_if.add_members(of_librdkafka("a", "pay"), AddedMembers())
    made = [random_ids(spec, seed)["new-1"] for seed in range(7)]
    assert made[0].startswith("a-")
    assert {name.partition("-")[0] for name in made} == {"a", "pay"}


def three_of_librdkafka(partitions: int = 8) -> GroupSpec:
    """Members of the default client id; range goes by the random rest of their ids."""
    share = partitions // 3 + 1
    members = [
        {
            "member_id": f"rdkafka-{digit}c1d2b7e-0000-4000-8000-00000000000{at}",
            "client_id": "rdkafka",
            "topics": ["t"],
            "owned": [["t", n] for n in range(share * at, min(share * (at + 1), partitions))],
        }
        for at, digit in enumerate("37b")
    ]
    topics = {"t": {"partitions": partitions}}
    spec = {"client": "librdkafka", "strategy": "range", "topics": topics}
    return read_spec(spec | {"members": members})


def test_where_a_new_member_of_librdkafka_comes_is_not_known() -> None:
    """It may come anywhere among three of the same client id."""
    plan = settled(what_if.add_members(three_of_librdkafka(), AddedMembers())).first
    assert unsure(plan)["new-1"] is True
    assert True in {move.depends_on_id for move in plan.moves}


def test_a_rolling_restart_marks_what_depends_on_the_new_ids() -> None:
    """Two members that stay know their places, as all ids are known; no later step does."""
    first, *later = bounced(three_of_librdkafka()).runs
    assert set(unsure(first.first).values()) == {False}
    assert {move.depends_on_id for move in first.first.moves} == {False}
    assert len(later) == 5
    for run in later:
        assert True in unsure(run.first).values()
        assert True in {move.depends_on_id for move in run.first.moves}
        assert "depends on the ids of new members" in run.first.warnings[-1]


def test_a_rolling_restart_by_ids_that_sort_as_before_depends_on_none() -> None:
    spec = three_of_librdkafka()
    members = tuple(replace(m, client_id=name) for m, name in zip(spec.members, "abc", strict=True))
    for run in bounced(replace(spec, members=members)).runs:
        assert set(unsure(run.first).values()) == {False}
        assert run.first.warnings == ()


def test_in_a_large_rolling_restart_it_is_not_found_out() -> None:
    assert is_small_restart(three_of_librdkafka(8_333))  # 6 rebalances, 49,998
    large = three_of_librdkafka(8_334)
    assert not is_small_restart(large)
    first, *later = bounced(large).runs
    assert {move.depends_on_id for move in first.first.moves} == {False}
    for run in later:
        assert set(unsure(run.first).values()) == {None}
        assert {move.depends_on_id for move in run.first.moves} == {None}
        assert "in a restart of so many members and partitions" in run.first.warnings[-1]


def test_ids_alone_decide_between_two_new_members_of_one_client() -> None:
    spec = what_if.add_members(group("range", partitions=4), AddedMembers(2, client_id="z"))
    plan = settled(spec).first
    assert unsure(plan) == {"m1": False, "m2": False, "new-1": True, "new-2": True}
    assert [(move.partition, move.depends_on_id) for move in plan.moves] == [(2, True), (3, True)]
    assert plan.warnings[-1] == (
        "What comes of 2 of 2 moves and of 2 of 4 members depends on the ids of new members, "
        "which are not known."
    )


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_what_is_not_marked_comes_out_with_any_other_ids_too(strategy: str) -> None:
    """Random ids that were not tried give the rows without a mark, save for a rare one."""
    spec = what_if.add_members(group(strategy, partitions=9), AddedMembers(3))
    plan = settled(spec, alone=True).first
    assert plan.assignment is not None
    sure = [member for member, depends in unsure(plan).items() if not depends]
    differing = set()
    for seed in range(1000, 1030):
        other = dry_run_as(spec, seed)
        assert other.assignment is not None
        assert {m: set(other.assignment[m]) for m in sure} == {
            m: set(plan.assignment[m]) for m in sure
        }
        differing |= {
            m
            for m, partitions in plan.assignment.items()
            if set(other.assignment[m]) != set(partitions)
        }
    assert differing == {member for member, depends in unsure(plan).items() if depends}


def test_known_ids_leave_nothing_unknown() -> None:
    plan = settled(what_if.remove_member(group("sticky"), "m1")).first
    assert {move.depends_on_id for move in plan.moves} == {False}
    assert unsure(plan) == {"m2": False}


def test_rebalances_that_follow_are_marked_and_all_strategies_too() -> None:
    spec = what_if.add_members(group("cooperative-sticky", partitions=8), AddedMembers(2))
    run = settled(spec)
    assert run.following
    assert unsure(run.following[0])["new-1"] is True
    assert all(unsure(each.first)["new-1"] is not None for each in compared(spec))


def test_very_large_groups_are_not_assigned_again() -> None:
    spec = what_if.add_members(group("range", partitions=5_001), AddedMembers(2))
    plan = settled(spec).first
    assert set(unsure(plan).values()) == {None}
    assert {move.depends_on_id for move in plan.moves} == {None}
    assert "above 5000 partitions or members it is not found out" in plan.warnings[-1]


def test_nor_are_groups_of_very_many_members() -> None:
    assert is_small(what_if.add_members(group("range"), AddedMembers(4_998)))
    assert not is_small(what_if.add_members(group("range"), AddedMembers(4_999)))


@pytest.mark.parametrize(
    ("protocol", "strategy"), [("classic", "cooperative-sticky"), ("share", "simple")]
)
def test_whether_a_group_is_assigned_again_changes_the_marks_only(
    protocol: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = what_if.add_members(group(strategy, protocol=protocol), AddedMembers(20))
    marked = settled(spec).first
    monkeypatch.setattr("kgroup.operation.assign.dry_run.MOST_IDS", 21)
    unmarked = settled(spec).first
    assert None not in unsure(marked).values()
    assert set(unsure(unmarked).values()) == {None}
    assert unmarked.assignment == marked.assignment
    assert [move[:4] for move in unmarked.moves] == [move[:4] for move in marked.moves]
    assert (unmarked.kept, unmarked.balance) == (marked.kept, marked.balance)


def test_an_unknown_id_is_nowhere_in_a_plan() -> None:
    spec = what_if.lead(what_if.add_members(group("sticky"), AddedMembers(9)), "new-2")
    plan = dry_run_as(spec, 3)
    assert re.search(UUID, repr(plan)) is None
    assert plan.leader_id == "new-2"
    assert plan.balance is not None
    assert len(plan.balance.idle_members) == 8
    assert len(set(random_ids(spec, 3).values())) == 9
    assert dry_run(spec).computed_as == plan.computed_as


def test_a_new_member_of_kafka_python_names_its_topics_in_any_order() -> None:
    """Its sticky assignor gives by that order; of a real group of 3.0.12 (`kim`, then `lee`)."""
    sizes = {"zoo": 3, "ant": 4, "Mole": 2}
    owned = [[topic, number] for topic, count in sizes.items() for number in range(count)]
    spec = read_spec(
        {
            "strategy": "sticky",
            "client": "kafka-python",
            "topics": {topic: {"partitions": count} for topic, count in sizes.items()},
            "members": [
                {"member_id": "kim-1", "topics": [*sizes], "owned": owned, "generation": 1}
            ],
        }
    )
    joined = what_if.add_members(spec, AddedMembers(client_id="lee"))
    assert unsure(settled(joined).first)["kim-1"] is True
    assert unsure(settled(replace(joined, client=None)).first)["kim-1"] is False
