from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.errors import ProblemKind
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
    Task,
    TaskAssignment,
)
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommittedOffset, ShareOffset
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription, describe
from kgroup.operation.report import Report
from kgroup.operation.watch import Change, ChangeKind, changes, compare
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_000
ENDS = {("orders", number): LogRange(0, 10) for number in range(4)}
TOPICS = Subscription(("orders",))


def report_of(*groups: Group, problems: tuple[Problem, ...] = ()) -> Report[GroupDescription]:
    return describe(FakeSource(*groups, ranges=ENDS, problems=problems))


def described(group: Group) -> GroupDescription:
    (row,) = report_of(group).data
    return row


def owner(member_id: str, *partitions: int, **more: Any) -> Member:
    owned = tuple(AssignedPartition(None, "orders", number) for number in partitions)
    return Member(member_id, assignment=owned, **({"subscription": TOPICS} | more))


def classic(*members: Member, state: GroupState = GroupState.STABLE, **more: Any) -> Group:
    return Group("g", GroupType.CLASSIC, state, members=members, **more)


Brief = tuple[ChangeKind, Any, Any, Any]


def brief(found: tuple[Change, ...]) -> list[Brief]:
    """What changed, where, from what to what."""
    return [
        (c.change, c.member_id if c.member_id is not None else c.partition, c.before, c.after)
        for c in found
    ]


def between(before: Group, after: Group) -> list[Brief]:
    return brief(tuple(changes(described(before), described(after), NOW_MS)))


def test_first_every_group_is_found_with_its_whole_description() -> None:
    report = report_of(classic(owner("m", 0)), replace(classic(), group_id="h"))
    found, known = compare({}, report, NOW_MS)
    assert [(c.group_id, c.change, c.before, c.after) for c in found] == [
        (group.group.group_id, ChangeKind.GROUP_FOUND, None, group) for group in report.data
    ]
    assert {c.time_ms for c in found} == {NOW_MS}
    assert compare(known, report, NOW_MS) == ((), known)


def test_a_group_that_is_gone() -> None:
    _, known = compare({}, report_of(classic()), NOW_MS)
    gone: Report[GroupDescription] = Report(
        (), errors=(Problem(ProblemKind.NOT_FOUND, "No.", group_id="g"),)
    )
    found, known = compare(known, gone, NOW_MS)
    assert brief(found) == [(ChangeKind.GROUP_GONE, None, None, None)]
    assert known == {}
    assert compare(known, gone, NOW_MS) == ((), {})


def test_group_members_and_partitions() -> None:
    old = Broker(1, "h", 9092)
    before = classic(
        owner("a", 0, 1),
        owner("b", 2),
        offsets=(CommittedOffset("orders", 0, 4), CommittedOffset("orders", 3, 1)),
        generation_id=1,
        leader_id="a",
        assignor="range",
        coordinator=old,
    )
    after = classic(
        owner("a", 0, subscription=Subscription(("orders", "payments"))),
        owner("c", 1),
        offsets=(CommittedOffset("orders", 0, 6), CommittedOffset("orders", 1, 12)),
        generation_id=2,
        leader_id="c",
        assignor="sticky",
        coordinator=replace(old, id=2),
    )
    assert between(before, after) == [
        (ChangeKind.COORDINATOR, None, old, replace(old, id=2)),
        (ChangeKind.ASSIGNOR, None, "range", "sticky"),
        (ChangeKind.GENERATION, None, 1, 2),
        (ChangeKind.LEADER, None, "a", "c"),
        (
            ChangeKind.SUBSCRIPTION,
            "a",
            {"topics": ("orders",), "regex": None},
            {"topics": ("orders", "payments"), "regex": None},
        ),
        (ChangeKind.MEMBER_LEFT, "b", owner("b", 2), None),
        (ChangeKind.MEMBER_JOINED, "c", None, owner("c", 1)),
        (ChangeKind.COMMITTED_OFFSET, 0, 4, 6),
        (ChangeKind.LAG, 0, 6, 4),
        (ChangeKind.OWNER, 1, "a", "c"),
        (ChangeKind.COMMITTED_OFFSET, 1, None, 12),
        (ChangeKind.LAG, 1, None, -2),
        (ChangeKind.MARK, 1, None, "past-end"),
        (ChangeKind.OWNER, 2, "b", None),
        (ChangeKind.COMMITTED_OFFSET, 3, 1, None),
        (ChangeKind.LAG, 3, 9, None),
        (ChangeKind.MARK, 3, "no-owner", None),
    ]


def test_epochs_of_groups_and_members() -> None:
    def consumer(epoch: int, **more: Any) -> Group:
        return Group(
            "g",
            GroupType.CONSUMER,
            GroupState.STABLE,
            group_epoch=epoch,
            assignment_epoch=epoch,
            members=(owner("m", 0, member_epoch=epoch, **more),),
        )

    assert between(consumer(3), consumer(4)) == [
        (ChangeKind.EPOCH, None, 3, 4),
        (ChangeKind.ASSIGNMENT_EPOCH, None, 3, 4),
        (ChangeKind.MEMBER_EPOCH, "m", 3, 4),
    ]


def test_share_and_streams_groups() -> None:
    def share(start: int, *partitions: int) -> Group:
        shared = (ShareOffset("id", "orders", 0, start_offset=start, delivery_complete_count=0),)
        members = (owner("m", *partitions),)
        return Group("g", GroupType.SHARE, GroupState.STABLE, members=members, share_offsets=shared)

    one = (AssignedPartition(None, "orders", 0),)
    assert between(share(2, 0), share(5)) == [
        (ChangeKind.ASSIGNMENT, "m", one, ()),
        (ChangeKind.START_OFFSET, 0, 2, 5),
        (ChangeKind.LAG, 0, 8, 5),
    ]

    def streams(*tasks: Task) -> Group:
        members = (Member("m", tasks=TaskAssignment(active=tasks)),)
        return Group("g", GroupType.STREAMS, GroupState.STABLE, members=members)

    assert between(streams(), streams(Task("0", 1))) == [
        (ChangeKind.ASSIGNMENT, "m", TaskAssignment(), TaskAssignment(active=(Task("0", 1),)))
    ]


def test_a_rebalance_changes_what_is_different_when_it_is_over() -> None:
    """While it lasts, brokers tell neither owners nor subscriptions of members."""
    common: dict[str, Any] = {"offsets": (CommittedOffset("orders", 3, 1),)}
    about = {"assignor": "range", "generation_id": 1, "leader_id": "a"}
    both: dict[str, Any] = common | about
    rounds = [
        classic(owner("a", 0, 1), owner("b", 2), **both),
        classic(
            Member("a"), Member("b"), Member("c"), **common, state=GroupState.PREPARING_REBALANCE
        ),
        classic(Member("a"), Member("c"), **common, state=GroupState.COMPLETING_REBALANCE),
        classic(owner("a", 0, 2), owner("c", 1), **(both | {"generation_id": 2})),
    ]
    known: dict[str, GroupDescription] = {}
    told = []
    for group in rounds:
        found, known = compare(known, report_of(group), NOW_MS)
        told.append([(kind, where) for kind, where, _, _ in brief(found)])
    assert told[1:] == [
        [(ChangeKind.STATE, None), (ChangeKind.MEMBER_JOINED, "c")],
        [(ChangeKind.STATE, None), (ChangeKind.MEMBER_LEFT, "b")],
        [
            (ChangeKind.STATE, None),
            (ChangeKind.GENERATION, None),
            (ChangeKind.SUBSCRIPTION, "c"),
            (ChangeKind.OWNER, 1),
            (ChangeKind.OWNER, 2),
        ],
    ]


def test_the_last_member_leaves() -> None:
    about: dict[str, Any] = {"assignor": "range", "leader_id": "a", "generation_id": 1}
    _, known = compare({}, report_of(classic(owner("a", 0), **about)), NOW_MS)
    empty = classic(state=GroupState.EMPTY)
    found, known = compare(known, report_of(empty), NOW_MS)
    assert [(kind, after) for kind, _, _, after in brief(found)] == [
        (ChangeKind.STATE, "Empty"),
        (ChangeKind.ASSIGNOR, None),
        (ChangeKind.LEADER, None),
        (ChangeKind.MEMBER_LEFT, None),
        (ChangeKind.OWNER, None),
    ]
    assert known["g"].group.generation_id == 1


SILENT = Problem(ProblemKind.SILENT, "Broker 1 does not answer.", broker=1)


@pytest.mark.parametrize(
    ("problem", "is_gone"),
    [
        (SILENT, False),
        (replace(SILENT, group_id="g"), False),
        (replace(SILENT, group_id="other"), True),
        (Problem(ProblemKind.FAILED, "No broker answers."), False),
        (Problem(ProblemKind.NOT_FOUND, "No.", group_id="g"), True),
        (Problem(ProblemKind.NOT_AUTHORIZED, "No.", topic="orders"), True),
        (Problem(ProblemKind.UNREADABLE, "A file.", path="p"), False),
    ],
)
def test_a_group_is_not_gone_where_it_could_not_be_asked_for(
    problem: Problem, is_gone: bool
) -> None:
    _, known = compare({}, report_of(classic()), NOW_MS)
    found, after = compare(known, Report((), errors=(problem,)), NOW_MS)
    assert [c.change for c in found] == ([ChangeKind.GROUP_GONE] if is_gone else [])
    assert after == ({} if is_gone else known)


@pytest.mark.parametrize(
    ("problem", "is_told"),
    [
        (SILENT, False),
        (replace(SILENT, broker=2), True),
        (replace(SILENT, group_id="g", broker=3), False),
        (Problem(ProblemKind.DENIED, "No.", group_id="g"), False),
        (Problem(ProblemKind.NO_LEADER, "No.", topic="orders", partition=3), True),
        (Problem(ProblemKind.BAD_RECORD, "A record.", group_id="g", path="p"), True),
    ],
)
def test_a_group_is_as_it_was_where_its_broker_gave_no_answer(
    problem: Problem, is_told: bool
) -> None:
    broker = Broker(1, "h", 9092)
    _, known = compare({}, report_of(classic(owner("a", 0), coordinator=broker)), NOW_MS)
    listed_only = classic(state=GroupState.EMPTY, coordinator=broker)
    found, after = compare(known, report_of(listed_only, problems=(problem,)), NOW_MS)
    assert bool(found) is is_told
    assert (after == known) is not is_told


def test_a_group_of_another_type_has_nothing_of_the_one_before() -> None:
    """Another group took its id between two rounds, and its state is not known yet."""
    before = classic(owner("a", 0), state=GroupState.PREPARING_REBALANCE, generation_id=3)
    _, known = compare({}, report_of(before), NOW_MS)
    share = Group("g", GroupType.SHARE, state=None)
    _, known = compare(known, report_of(share), NOW_MS)
    (description,) = known.values()
    assert (description.group.state, description.group.generation_id) == (None, None)


# --- properties ---

_members = st.lists(
    st.builds(
        lambda name, partitions, epoch, state: owner(
            name, *partitions, member_epoch=epoch, state=state
        ),
        st.sampled_from("abc"),
        st.sets(st.integers(0, 3)),
        st.integers(0, 2),
        st.none(),
    ),
    unique_by=lambda member: member.member_id,
).map(lambda members: tuple(sorted(members, key=lambda member: member.member_id)))
_offsets = st.dictionaries(st.integers(0, 3), st.integers(0, 12)).map(
    lambda rows: tuple(CommittedOffset("orders", number, rows[number]) for number in sorted(rows))
)
GROUPS = st.builds(
    Group,
    group_id=st.just("g"),
    type=st.just(GroupType.CONSUMER),
    state=st.sampled_from([GroupState.STABLE, GroupState.RECONCILING, GroupState.EMPTY]),
    group_epoch=st.integers(0, 3),
    assignment_epoch=st.integers(0, 3),
    members=_members,
    offsets=_offsets,
)


def facts(group: GroupDescription) -> dict[tuple[ChangeKind, object], Any]:
    """Everything that the vocabulary can tell of a group, each under its kind and place."""
    found: dict[tuple[ChangeKind, object], Any] = {
        (ChangeKind.STATE, None): group.group.state,
        (ChangeKind.EPOCH, None): group.group.group_epoch,
        (ChangeKind.ASSIGNMENT_EPOCH, None): group.group.assignment_epoch,
    }
    for member in group.group.members:
        found[ChangeKind.MEMBER_EPOCH, member.member_id] = member.member_epoch
    for row in group.offsets:
        found[ChangeKind.OWNER, row.partition] = row.member_id
        found[ChangeKind.COMMITTED_OFFSET, row.partition] = row.committed_offset
        found[ChangeKind.LAG, row.partition] = row.lag
        found[ChangeKind.MARK, row.partition] = row.mark
    return {key: value for key, value in found.items() if value is not None}


@given(GROUPS.map(described))
def test_nothing_changes_between_equal_descriptions(group: GroupDescription) -> None:
    assert list(changes(group, group, NOW_MS)) == []


@given(GROUPS.map(described), GROUPS.map(described))
def test_changes_lead_from_one_description_to_the_other(
    before: GroupDescription, after: GroupDescription
) -> None:
    known = facts(before)
    for kind, where, old, new in brief(tuple(changes(before, after, NOW_MS))):
        if kind is ChangeKind.MEMBER_JOINED:
            kind, new = ChangeKind.MEMBER_EPOCH, new.member_epoch
        elif kind is ChangeKind.MEMBER_LEFT:
            kind, old = ChangeKind.MEMBER_EPOCH, old.member_epoch
        assert known.pop((kind, where), None) == old
        assert old != new or new is None
        if new is not None:
            known[kind, where] = new
    assert known == facts(after)


@pytest.mark.slow
@given(GROUPS.map(described), GROUPS.map(described))
def test_the_way_back_is_the_same_changes_turned_round(
    before: GroupDescription, after: GroupDescription
) -> None:
    def turned(kind: ChangeKind) -> ChangeKind:
        other = {
            ChangeKind.MEMBER_JOINED: ChangeKind.MEMBER_LEFT,
            ChangeKind.MEMBER_LEFT: ChangeKind.MEMBER_JOINED,
        }
        return other.get(kind, kind)

    order: Callable[[Brief], str] = repr
    there = brief(tuple(changes(before, after, NOW_MS)))
    back = brief(tuple(changes(after, before, NOW_MS)))
    assert sorted(back, key=order) == sorted(
        [(turned(kind), where, new, old) for kind, where, old, new in there], key=order
    )
