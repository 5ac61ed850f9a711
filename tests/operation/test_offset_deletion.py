"""What is planned to be deleted, and what coordinators would refuse, by their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.group import (
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
    Subtopology,
    Topology,
)
from kgroup.model.offset import CommittedOffset
from kgroup.model.pattern import parse_regex
from kgroup.model.problem import Problem
from kgroup.operation.offsets.deletion import plan_deletion, plan_idle_deletion
from kgroup.operation.offsets.plan import IdleSince, Result, carry_out
from kgroup.source.base import OffsetReading
from tests.operation.offset_stores import Store
from tests.operation.sources import FakeSource

READ, KEPT = ("orders", 0), ("kept", 0)


class Cluster(FakeSource, Store):
    """A store that knows these groups, each of which has committed what is given."""

    def __init__(self, *groups: Group, offsets: Mapping[tuple[str, int], int]) -> None:
        FakeSource.__init__(self, *groups)
        Store.__init__(self, {group.group_id: offsets for group in groups if offsets})


def member(*topics: str, regex: str | None = None) -> Member:
    return Member("m", subscription=Subscription(topics, regex))


CLASSIC, STABLE = GroupType.CLASSIC, GroupState.STABLE
TOPOLOGY = Topology(0, (Subtopology("0", ("orders",), (), ("kept",), (), ()),))


@pytest.mark.parametrize(
    ("group", "refused"),
    [
        (Group("g", CLASSIC, GroupState.EMPTY, "consumer"), set()),
        (Group("g", CLASSIC, STABLE, "consumer", members=(member("orders"),)), {READ}),
        (Group("g", CLASSIC, STABLE, "consumer", members=(Member("m"), member("kept"))), {KEPT}),
        (
            Group(
                *("g", CLASSIC, GroupState.PREPARING_REBALANCE, "consumer"),
                members=(member("orders"),),
            ),
            set(),
        ),
        (Group("g", CLASSIC, STABLE, "connect", members=(Member("m"),)), {READ, KEPT}),
        (
            Group("g", GroupType.CONSUMER, GroupState.RECONCILING, members=(member("orders"),)),
            {READ},
        ),
        (Group("g", GroupType.CONSUMER, STABLE, members=(member(regex="orders"),)), set()),
        (
            Group("g", GroupType.STREAMS, STABLE, topology=TOPOLOGY, members=(Member("m"),)),
            {READ, KEPT},
        ),
        (Group("g", GroupType.STREAMS, GroupState.EMPTY, topology=TOPOLOGY), set()),
        (Group("g", GroupType.ZOOKEEPER, STABLE, members=(member("orders"),)), {READ, KEPT}),
    ],
    ids=[
        *("empty", "consumers", "of one the subscription is not known", "in a rebalance"),
        *("connect", "consumer protocol", "by a regular expression", "streams", "streams stopped"),
        "ZooKeeper",
    ],
)
def test_topics_that_members_read_are_left_alone(
    group: Group, refused: set[tuple[str, int]]
) -> None:
    """As `isSubscribedToTopic` and `validateOffsetDelete` of Kafka's groups have it."""
    store = Cluster(group, offsets={READ: 1, KEPT: 2})
    plan = plan_deletion(store, ["g"], topics={"orders": None, "kept": None})
    found = {(row.topic, row.partition) for row in plan.rows if row.result is Result.REFUSED}
    assert found == refused
    assert {problem.kind for problem in plan.problems} == (
        {ProblemKind.ACTIVE} if refused else set()
    )
    assert all("(m)" in problem.reason or ": m;" in problem.reason for problem in plan.problems)
    left = {READ, KEPT} - refused
    assert {(change.topic, change.partition) for change in plan.changes.get("g", ())} == left


class Clock(Cluster):
    """Groups with the times of their last commits: their only offsets are of READ."""

    def __init__(self, *groups: Group) -> None:
        super().__init__(*groups, offsets={})
        self.offsets = {group.group_id: group.offsets for group in groups if group.offsets}


def committed(group_id: str, *times: int | None, **fields: Any) -> Group:
    offsets = tuple(
        CommittedOffset("orders", at, 7, commit_timestamp_ms=time) for at, time in enumerate(times)
    )
    return Group(
        group_id, CLASSIC, fields.pop("state", GroupState.EMPTY), offsets=offsets, **fields
    )


SINCE = IdleSince(5_000, 1 << 20)


def test_only_groups_that_are_known_to_be_idle_are_deleted() -> None:
    store = Clock(
        committed("busy", 1_000, state=STABLE, members=(member("orders"),)),
        committed("fresh", 1_000, 5_001),
        committed("old", 1_000, 5_000),
        committed("refused", 1_000, state=STABLE),
        committed("unborn"),
        committed("untimed", None),
        Group("share", GroupType.SHARE, GroupState.EMPTY, state_timestamp_ms=1_000),
    )
    plan = plan_idle_deletion(store, SINCE)
    assert (plan.deleted, plan.problems) == (("old",), ())
    assert [(offset.group_id, offset.partition) for offset in plan.backup] == [
        ("old", 0),
        ("old", 1),
    ]
    left_out, shared = plan.notes
    assert left_out.startswith(
        "3 groups left out ('refused', 'unborn', 'untimed'): their members, "
    )
    assert shared == "share groups left out (share): they cannot be backed up"
    carry_out(store, plan)
    assert store.deleted == ["old"]
    assert plan_idle_deletion(store, SINCE, parse_regex("o.*")).deleted == ("old",)


def test_where_no_group_is_idle_nothing_is_planned() -> None:
    """Without names, a plan of deletions is about all groups."""
    store = Clock(committed("fresh", 5_001))
    for regex in (None, parse_regex("f.*"), parse_regex("none")):
        plan = plan_idle_deletion(store, SINCE, regex)
        assert (plan.is_empty, plan.rows, plan.report.exit_status) == (True, (), ExitStatus.DONE)


@pytest.mark.parametrize(
    "now",
    [
        committed("g", 6_000),  # it has committed the same offset again
        committed("g", None),
        committed("g", 1_000, state=STABLE, members=(member("orders"),)),
    ],
    ids=["commit", "unknown", "member"],
)
def test_a_group_that_became_active_stays(now: Group) -> None:
    store = Clock(committed("g", 1_000), committed("h", 2_000))
    plan = plan_idle_deletion(store, SINCE)
    assert plan.deleted == ("g", "h")
    store.replace(now)
    done = carry_out(store, plan)
    assert store.deleted == ["h"]
    assert [row.result for row in done.data] == [Result.REFUSED, Result.DONE]
    (problem,) = done.errors
    assert (problem.kind, problem.group_id) == (ProblemKind.CHANGED, "g")
    assert problem.reason.startswith("The group has become active, or it is no longer known that")


def test_a_group_that_has_committed_nothing_has_a_row() -> None:
    store = Cluster(Group("g", CLASSIC, GroupState.EMPTY), offsets={})
    plan = plan_deletion(store, ["g"])
    (row,) = plan.rows
    assert (row.group_id, row.topic, row.partition, row.result) == ("g", None, None, Result.PLANNED)
    assert (plan.deleted, plan.problems) == (("g",), ())
    done = carry_out(store, plan)
    assert ([offset.result for offset in done.data], store.deleted) == ([Result.DONE], ["g"])
    assert done.exit_status is ExitStatus.DONE


@pytest.mark.parametrize("offsets", [{}, {READ: 1}], ids=["nothing committed", "committed"])
def test_a_group_with_members_is_refused_alike(offsets: Mapping[tuple[str, int], int]) -> None:
    store = Cluster(
        Group("g", GroupType.CONSUMER, STABLE, members=(member("orders"),)), offsets=offsets
    )
    plan = plan_deletion(store, ["g"])
    assert [row.result for row in plan.rows] == [Result.REFUSED]
    assert ([problem.kind for problem in plan.problems], plan.is_empty) == (
        [ProblemKind.ACTIVE],
        True,
    )
    assert plan.report.exit_status is ExitStatus.PARTLY


@pytest.mark.parametrize("state", [GroupState.EMPTY, STABLE])
def test_share_groups_are_not_deleted(state: GroupState) -> None:
    """What they know cannot be saved: nothing would undo that."""
    members = (member("orders"),) if state is STABLE else ()
    store = Cluster(Group("g", GroupType.SHARE, state, members=members), offsets={})
    plan = plan_deletion(store, ["g"])
    assert [row.result for row in plan.rows] == [Result.REFUSED]
    (problem,) = plan.problems
    assert (problem.kind, problem.group_id) == (ProblemKind.UNSUPPORTED, "g")
    assert "kafka-share-groups deletes it" in problem.reason
    assert plan.is_empty
    (problem,) = plan_deletion(store, ["g"], topics={"orders": None}).problems
    assert problem.kind is ProblemKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (CommittedOffset(*READ, 1, 2, "new"), "expected metadata 'old', found 'new'"),
        (CommittedOffset(*READ, 1, 3, "old"), "expected leader epoch 2, found 3"),
        (CommittedOffset(*READ, 1, None, "old"), "expected leader epoch 2, found none"),
        (CommittedOffset(*READ, 2, 2, "old"), "expected offset 1, found offset 2"),
        (None, "expected offset 1, found no offset"),
    ],
)
def test_what_was_committed_since_is_not_deleted_unsaved(
    now: CommittedOffset | None, text: str
) -> None:
    """The backup has what was committed when the deletion was planned."""
    store = Cluster(Group("g", CLASSIC, GroupState.EMPTY), offsets={READ: 1})
    store.offsets["g"] = (CommittedOffset(*READ, 1, 2, "old"),)
    plan = plan_deletion(store, ["g"])
    store.offsets["g"] = () if now is None else (now,)
    done = carry_out(store, plan)
    assert ([offset.result for offset in done.data], store.deleted) == ([Result.REFUSED], [])
    (problem,) = done.errors
    assert problem.kind is ProblemKind.CHANGED
    assert f"orders-0: {text}." in problem.reason


@pytest.mark.parametrize("is_certain", [False, True])
def test_a_group_of_which_commits_are_hidden_is_deleted_only_if_told_to(is_certain: bool) -> None:
    """Topics that may not be described: nothing would bring their commits back."""
    store = Cluster(
        Group("g", CLASSIC, GroupState.EMPTY),
        Group("h", CLASSIC, GroupState.EMPTY),
        offsets={READ: 1},
    )
    problem = Problem(ProblemKind.NOT_AUTHORIZED, "Hidden.", "g", topic="secret")
    reading = OffsetReading(
        store.offsets, (problem,) if is_certain else (), doubtful=frozenset({"g"})
    )
    store.read_offsets = lambda *_: reading  # type: ignore[method-assign]
    plan = plan_deletion(store, ["g", "h"])
    assert [(row.group_id, row.result) for row in plan.rows] == [
        ("g", Result.REFUSED),
        ("h", Result.PLANNED),
    ]
    assert (plan.deleted, [*plan.changes]) == (("h",), ["h"])
    reason = next(each.reason for each in plan.problems if each.topic is None)
    has = "has" if is_certain else "may have"
    assert reason.startswith(
        f"The group {has} committed offsets for topics that you may not describe"
    )
    assert plan.report.exit_status is ExitStatus.PARTLY
    assert plan_deletion(store, ["g", "h"], hidden=True).deleted == ("g", "h")
    assert "g" in plan_deletion(store, ["g"], topics={"orders": None}).changes, "the rest is saved"


def test_a_group_that_came_since_is_not_deleted_unseen() -> None:
    store = Cluster(Group("g", CLASSIC, GroupState.EMPTY), offsets={})
    plan = plan_deletion(store, ["g"])
    store.read_offsets = lambda *_: OffsetReading(  # type: ignore[method-assign]
        Store({"g": {READ: 1}}).offsets
    )
    done = carry_out(store, plan)
    assert ([offset.result for offset in done.data], store.deleted) == ([Result.REFUSED], [])
    assert [error.kind for error in done.errors] == [ProblemKind.CHANGED]
