"""What a dry run tells of random groups, sound or not, found again by the definitions."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from statistics import pstdev

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign import what_if
from kgroup.operation.assign.outcome import AssignPlan, dry_run
from kgroup.operation.assign.spec import read_spec
from tests.assignor.random_group import RandomGroup
from tests.examples import examples

SEEDS = examples(12)
ROUNDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [
        ("classic", "range"),
        ("classic", "sticky"),
        ("classic", "cooperative-sticky"),
        ("consumer", "uniform"),
        ("share", "simple"),
    ],
)
def test_definitions(protocol: str, strategy: str, seed: int) -> None:
    group = RandomGroup(seed, strategy, protocol)
    for _ in range(ROUNDS):
        spec = read_spec(group.spec)
        if len(spec.members) > 1:
            spec = what_if.leaves(spec, spec.members[0])
        plan = dry_run(spec)
        if plan.assignment is not None:
            check_moves(spec, plan)
            check_balance(spec, plan)
            check_warnings(spec, plan)
            check_racks(spec, plan)
        left = {member.member_id: () for member in spec.departed}
        group.go_on(None if plan.assignment is None else {**plan.assignment, **left})


def check_moves(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    before = {m.member_id: set(m.owned or ()) for m in (*spec.members, *spec.departed)}
    after = {member_id: set(got) for member_id, got in plan.assignment.items()}
    expected = []
    for topic, number in sorted(
        set().union(*before.values()),
        key=lambda partition: (partition[0].encode("utf-16-be"), partition[1]),
    ):
        partition = topic, number
        givers = [m for m in before if partition in before[m] and partition not in after.get(m, ())]
        takers = [m for m in after if partition in after[m] and partition not in before[m]]
        expected += [
            (topic, number, giver, taker)
            for giver, taker in zip_longest(sorted(givers), sorted(takers))
            if giver is not None
        ]
    assert [(m.topic, m.partition, m.from_member, m.to_member) for m in plan.moves] == expected
    assert plan.kept == sum(len(after[m] & before[m]) for m in after)
    for member in plan.members:
        had, partitions = before[member.member_id], after[member.member_id]
        assert member.before == len(had)
        assert member.after == len(plan.assignment[member.member_id])
        assert member.kept == len(had & partitions)


def check_balance(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    assert plan.balance is not None
    counts = {m: len(partitions) for m, partitions in plan.assignment.items()}
    assert (plan.balance.minimum, plan.balance.maximum) == (
        min(counts.values()),
        max(counts.values()),
    )
    assert plan.balance.deviation == pytest.approx(pstdev(counts.values()), abs=0.0006)
    assert set(plan.balance.idle_members) == {m for m, count in counts.items() if not count}
    by_topic = {each.topic: each for each in plan.balance.topics}
    for topic in spec.topics:
        own = [
            sum(name == topic for name, _ in plan.assignment[member.member_id])
            for member in spec.members
            if topic in member.topics
        ]
        assert (topic in by_topic) == bool(own)
        if own:
            balance = by_topic[topic]
            assert (balance.minimum, balance.maximum) == (min(own), max(own))
            assert balance.deviation == pytest.approx(pstdev(own), abs=0.0006)


def check_warnings(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    existing = {(name, p) for name, topic in spec.topics.items() for p in range(topic.partitions)}
    owners = Counter(p for partitions in plan.assignment.values() for p in set(partitions))
    topics = {member.member_id: member.topics for member in spec.members}
    waiting = {
        (m.topic, m.partition)
        for m in plan.moves
        if m.to_member is None
        and m.from_member in plan.assignment
        and plan.rebalance == "cooperative"
    }
    expected: dict[str, set[TopicPartition]] = {
        "to more than one member at once": {
            p for p, count in owners.items() if count > 1 and spec.protocol != "share"
        },
        "to members, though there are no such partitions": owners.keys() - existing,
        "to members that do not subscribe to the topic": {
            p
            for member_id, partitions in plan.assignment.items()
            for p in partitions
            if p in existing and p[0] not in topics[member_id]
        },
        "to nobody, though there are members that subscribe": {
            p
            for p in existing - owners.keys() - waiting
            if any(p[0] in names for names in topics.values())
        },
    }
    told = {}
    for warning in plan.warnings:
        if warning.startswith("Given "):
            what, _, names = warning.removeprefix("Given ").removesuffix(".").partition(": ")
            told[what] = names
    assert told.keys() == {what for what, partitions in expected.items() if partitions}
    for what, names in told.items():
        first, _, more = names.partition(" and ")
        shown = set(first.split(", "))
        assert shown <= {f"{topic}-{number}" for topic, number in expected[what]}
        assert len(shown) + int(more.removesuffix(" more") or 0) == len(expected[what])


def check_racks(spec: GroupSpec, plan: AssignPlan) -> None:
    assert plan.assignment is not None
    racks = {member.member_id: member.rack for member in spec.members if member.rack}
    has_racks = any(topic.racks for topic in spec.topics.values())
    local = [
        (topic, number)
        for member_id, partitions in plan.assignment.items()
        for topic, number in partitions
        if topic in spec.topics
        and number < spec.topics[topic].partitions
        and racks.get(member_id) in spec.topics[topic].racks_of(number)
    ]
    assert plan.rack_local == (len(local) if racks and has_racks else None)
