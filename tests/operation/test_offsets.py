"""Plans over offsets: what each goal means, what is refused, what is written, what is undone."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from kgroup.errors import BrokerError, ExitStatus, ProblemKind, UsageError
from kgroup.model.cluster import ClusterView, Topic
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange, LogReading, NextReading, OffsetMark, Position
from kgroup.model.offset import CommittedOffset, OffsetChange, StoredOffset
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.model.problem import Problem
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.diff import OffsetDifference, diff_offsets
from kgroup.operation.offsets.plan import OffsetPlan, Result, carry_out, refused_groups
from kgroup.operation.offsets.read import show_offsets
from kgroup.operation.offsets.reset import PartitionSelection, ResetTarget, ResetTo, plan_reset
from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer
from kgroup.source.base import OffsetReading
from kgroup.source.offset_file import OffsetFile
from kgroup.source.sql.store import SqlOffsetStore
from tests.operation.offset_stores import At, Cluster, Store, commits
from tests.operation.sources import FakeSource

RANGES = {
    ("orders", 0): LogRange(10, 100),
    ("orders", 1): LogRange(0, 50),
    ("orders", 2): LogRange(5, 5),
    ("gone", 0): LogRange(mark=OffsetMark.TOPIC_GONE),
    ("payments", 0): LogRange(0, 8),
}
COMMITTED = {("orders", 0): 40, ("orders", 1): 50}
EVERY = PartitionSelection()


def reset(to: ResetTo, selection: PartitionSelection = EVERY, **more: object) -> OffsetPlan:
    cluster = Cluster({"g": COMMITTED, **more.pop("offsets", {})}, RANGES, **more)  # type: ignore[arg-type, dict-item]
    return plan_reset(cluster, cluster, ["g"], to, selection)


def targets(plan: OffsetPlan) -> dict[tuple[str | None, int | None], int | None]:
    return {(row.topic, row.partition): row.target_offset for row in plan.rows}


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (ResetTo(ResetTarget.EARLIEST), {0: 10, 1: 0}),
        (ResetTo(ResetTarget.LATEST), {0: 100, 1: 50}),
        (ResetTo(ResetTarget.OFFSET, 45), {0: 45, 1: 45}),
        (ResetTo(ResetTarget.OFFSET, 60), {0: 60, 1: 50}),
        (ResetTo(ResetTarget.OFFSET, 3), {0: 10, 1: 3}),
        (ResetTo(ResetTarget.SHIFT, -35), {0: 10, 1: 15}),
        (ResetTo(ResetTarget.SHIFT, 20), {0: 60, 1: 50}),
        (ResetTo(ResetTarget.CURRENT), {0: 40, 1: 50}),
    ],
)
def test_goals(to: ResetTo, expected: Mapping[int, int]) -> None:
    assert targets(reset(to)) == {("orders", number): n for number, n in expected.items()}


def test_what_is_out_of_range_is_marked() -> None:
    rows = reset(ResetTo(ResetTarget.OFFSET, 60)).rows
    assert [row.mark for row in rows] == [None, OffsetMark.PAST_END]
    rows = reset(ResetTo(ResetTarget.SHIFT, -35)).rows
    assert [row.mark for row in rows] == [OffsetMark.BEFORE_START, None]


def test_the_end_and_the_start_are_in_range() -> None:
    edges = {("orders", 0): 100, ("orders", 1): 0}
    for to in (ResetTo(ResetTarget.LATEST), ResetTo(ResetTarget.EARLIEST)):
        plan = reset(to, offsets={"g": edges})
        assert [row.mark for row in plan.rows] == [None, None]


def test_partitions_end_behind_open_transactions() -> None:
    """As for Kafka's tool; readers of committed records wait there."""

    class Transactional(Cluster):
        def log_ranges(self, partitions: Collection[At], *, committed: bool = False) -> LogReading:
            assert not committed
            return super().log_ranges(partitions)

    cluster = Transactional({"g": COMMITTED}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.LATEST))
    assert targets(plan) == {("orders", 0): 100, ("orders", 1): 50}
    plan = plan_transfer(Store({"h": COMMITTED}), cluster, cluster)
    assert [row.log_end_offset for row in plan.rows] == [100, 50]


def test_what_is_committed_stays_wherever_it_is() -> None:
    far = {("orders", 0): 999, ("orders", 1): 2}
    plan = reset(ResetTo(ResetTarget.CURRENT), offsets={"g": far})
    past = OffsetMark.PAST_END
    assert [(row.target_offset, row.mark) for row in plan.rows] == [(999, past), (2, None)]
    plan = reset(ResetTo(ResetTarget.EARLIEST), offsets={"g": far})
    assert [(row.target_offset, row.mark) for row in plan.rows] == [(10, past), (0, None)]


def test_records_skipped_and_read_again() -> None:
    """Only those count that the log has."""
    rows = reset(ResetTo(ResetTarget.OFFSET, 45)).rows
    assert [(row.skipped, row.read_again) for row in rows] == [(5, 0), (0, 5)]
    old = reset(ResetTo(ResetTarget.OFFSET, 20), offsets={"g": {("orders", 0): 4}})
    assert [(row.committed_offset, row.skipped, row.read_again) for row in old.rows] == [(4, 10, 0)]
    new = reset(ResetTo(ResetTarget.LATEST), PartitionSelection({"payments": None}))
    assert [(row.committed_offset, row.skipped, row.read_again) for row in new.rows] == [
        (None, None, None)
    ]


def test_a_time() -> None:
    """A partition without a record so late is marked, and goes to its end as with Kafka's tool."""
    times = {("orders", 0, 7_000): 77, ("orders", 1, 7_000): None}
    plan = reset(ResetTo(ResetTarget.TIME, 7_000), times=times)
    assert targets(plan) == {("orders", 0): 77, ("orders", 1): 50}
    assert [row.mark for row in plan.rows] == [None, OffsetMark.NO_RECORD_SINCE]
    assert plan.notes == ("the time is 1970-01-01T00:00:07.000Z",)


def test_records_since_a_time_may_have_been_deleted() -> None:
    """The log of orders-0 starts at 10; that of orders-1 still has its first record."""
    plan = reset(
        ResetTo(ResetTarget.TIME, 7_000), times={("orders", 0, 7_000): 10, ("orders", 1, 7_000): 0}
    )
    assert targets(plan) == {("orders", 0): 10, ("orders", 1): 0}
    assert plan.notes[1:] == (
        "target is the log start offset of orders-0; earlier records since that time, if there "
        "were any, have been deleted",
    )


def test_a_partition_that_tells_no_times_is_left_alone() -> None:
    plan = reset(ResetTo(ResetTarget.TIME, 7_000), times={("orders", 1, 7_000): 3})
    assert targets(plan) == {("orders", 1): 3}
    assert [problem.reason for problem in plan.problems] == ["orders-0: its log tells no times."]


def test_where_another_group_is() -> None:
    to = ResetTo(ResetTarget.OTHER, offsets={"g": commits({("orders", 1): 7, ("payments", 0): 2})})
    assert targets(reset(to)) == {("orders", 1): 7, ("payments", 0): 2}
    plan = reset(to, PartitionSelection({"orders": None}))
    assert targets(plan) == {("orders", 1): 7}
    assert [(problem.topic, problem.partition) for problem in plan.problems] == [
        ("orders", 0),
        ("orders", 2),
    ]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (PartitionSelection(), [("orders", 0), ("orders", 1)]),
        (PartitionSelection({"orders": None}), [("orders", 0), ("orders", 1), ("orders", 2)]),
        (PartitionSelection({"orders": frozenset({2, 1})}), [("orders", 1), ("orders", 2)]),
        (PartitionSelection({"payments": None}), [("payments", 0)]),
        (PartitionSelection({"orders": None}, only_uncommitted=True), [("orders", 2)]),
        (PartitionSelection(only_uncommitted=True), [("orders", 2)]),
        (
            PartitionSelection(regex=parse_regex("o.*")),
            [("orders", 0), ("orders", 1), ("orders", 2)],
        ),
        (PartitionSelection(regex=parse_regex("p.*")), [("orders", 0), ("orders", 1)][:0]),
        (
            PartitionSelection({"payments": None}, parse_regex("o.*"), only_uncommitted=True),
            [("orders", 2), ("payments", 0)],
        ),
    ],
)
def test_selections(selection: PartitionSelection, expected: list[At]) -> None:
    assert list(targets(reset(ResetTo(ResetTarget.LATEST), selection))) == expected


def test_names_of_topics_match_as_a_whole() -> None:
    offsets = {"g": {("orders", 0): 40, ("orders-2", 0): 1}}
    plan = reset(
        ResetTo(ResetTarget.OFFSET, 45),
        PartitionSelection(regex=parse_regex("orders")),
        offsets=offsets,
    )
    assert {topic for topic, _ in targets(plan)} == {"orders"}
    assert plan.problems == ()


def test_topics_of_which_only_the_store_knows() -> None:
    store = Store({"g": {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}})
    to = ResetTo(ResetTarget.SHIFT, 1)
    plan = plan_reset(store, None, ["g"], to, PartitionSelection({"t": None}))
    assert targets(plan) == {("t", 0): 6, ("t", 1): 7}
    plan = plan_reset(store, None, ["g"], to, PartitionSelection({"t": frozenset({1})}))
    assert targets(plan) == {("t", 1): 7}


def test_a_topic_that_the_cluster_cannot_tell_of_is_a_problem() -> None:
    class Denying(Cluster):
        def view(self, topics: Collection[str]) -> ClusterView:
            found = super().view(topics)
            denied = Topic("payments", None, {}, "TOPIC_AUTHORIZATION_FAILED")
            return replace(found, topics={**found.topics, "payments": denied})

    cluster = Denying({"g": COMMITTED}, RANGES)
    named = PartitionSelection({"payments": None, "orders": frozenset({0})})
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.LATEST), named)
    assert list(targets(plan)) == [("orders", 0)]
    (problem,) = plan.problems
    assert (problem.kind, problem.topic) == (ProblemKind.DENIED, "payments")
    assert problem.reason == "payments: The cluster returned TOPIC_AUTHORIZATION_FAILED."


def test_a_topic_that_does_not_exist_is_a_problem() -> None:
    plan = reset(
        ResetTo(ResetTarget.LATEST), PartitionSelection({"nosuch": None, "payments": None})
    )
    assert list(targets(plan)) == [("payments", 0)]
    assert [(problem.kind, problem.topic) for problem in plan.problems] == [
        (ProblemKind.NOT_FOUND, "nosuch")
    ]


@pytest.mark.parametrize("selection", [{"gone": None}, {"gone": frozenset({0})}])
def test_a_partition_that_was_named_and_is_gone_is_not_found(
    selection: Mapping[str, frozenset[int] | None],
) -> None:
    plan = reset(
        ResetTo(ResetTarget.LATEST), PartitionSelection(selection), offsets={"g": {("gone", 0): 4}}
    )
    assert {problem.kind for problem in plan.problems} == {ProblemKind.NOT_FOUND}
    assert "gone-0: The topic no longer exists." in {problem.reason for problem in plan.problems}
    assert plan.report.exit_status is ExitStatus.NOT_FOUND


def test_selections_that_match_nothing_are_not_found() -> None:
    store = Store({"g": {("t", 0): 5}, "h": {("u", 0): 6}})
    for groups, selection, found in (
        (["g"], PartitionSelection({"nosuch": None}), [(None, "nosuch")]),
        (["g"], PartitionSelection(regex=parse_regex("nosuch")), [(None, None)]),
        (["x"], PartitionSelection({"t": None}), [("x", None), (None, "t")]),
        (["x"], PartitionSelection(regex=parse_regex("t")), [("x", None)]),
    ):
        plan = plan_reset(store, None, groups, ResetTo(ResetTarget.SHIFT, 1), selection)
        assert [(problem.group_id, problem.topic) for problem in plan.problems] == found
        assert plan.report.exit_status is ExitStatus.NOT_FOUND
    named = PartitionSelection({"t": None, "nosuch": None})
    plan = plan_reset(store, None, ["g", "h", "x"], ResetTo(ResetTarget.SHIFT, 1), named)
    assert [(problem.group_id, problem.topic) for problem in plan.problems] == [
        ("x", None),
        (None, "nosuch"),
        ("h", None),
    ]
    assert plan.report.exit_status is ExitStatus.PARTLY
    none_left = PartitionSelection(only_uncommitted=True)
    assert plan_reset(store, None, ["g"], ResetTo(ResetTarget.OFFSET, 1), none_left).problems == ()


def test_topics_of_which_there_is_nothing_to_take_are_not_found() -> None:
    one = Store({"g": {("t", 0): 5}, "h": {("u", 0): 6}})
    plan = plan_transfer(one, Store({}), None, ["g"], topics={"t": None, "nosuch": None})
    assert [(problem.group_id, problem.topic) for problem in plan.problems] == [(None, "nosuch")]
    assert plan.report.exit_status is ExitStatus.PARTLY
    plan = plan_transfer(one, Store({}), None, ["g"], topics={"nosuch": None})
    assert plan.report.exit_status is ExitStatus.NOT_FOUND
    plan = plan_transfer(one, Store({}), None, ["g", "h"], topics={"t": None})
    assert [(problem.group_id, problem.topic) for problem in plan.problems] == [("h", None)]
    assert plan_transfer(one, Store({}), None, topics={"t": None}).problems == (), "nobody named h"
    numbered = {"t": frozenset({0, 3}), "u": frozenset({1})}
    plan = plan_transfer(one, Store({}), None, topics=numbered)
    assert [(problem.topic, problem.partition) for problem in plan.problems] == [("t", 3), ("u", 1)]
    assert [(row.topic, row.partition) for row in plan.rows] == [("t", 0)]


def test_a_store_without_offsets_is_not_found() -> None:
    plan = plan_transfer(Store({}), Store({"g": {("t", 0): 5}}), None)
    assert plan.report.exit_status is ExitStatus.NOT_FOUND
    assert plan.is_empty


def test_a_topic_that_has_gone_is_left_alone() -> None:
    plan = reset(ResetTo(ResetTarget.EARLIEST), offsets={"g": {("gone", 0): 4}})
    assert plan.rows == ()
    assert [(problem.kind, problem.group_id) for problem in plan.problems] == [
        (ProblemKind.TOPIC_GONE, "g")
    ]


def test_groups_that_do_not_exist() -> None:
    """They come into being where topics are named, and are not found otherwise."""
    cluster = Cluster({}, RANGES)
    plan = plan_reset(cluster, cluster, ["new"], ResetTo(ResetTarget.LATEST))
    assert [problem.kind for problem in plan.problems] == [ProblemKind.NOT_FOUND]
    assert plan.report.exit_status is ExitStatus.NOT_FOUND
    named = PartitionSelection({"payments": None})
    plan = plan_reset(cluster, cluster, ["new"], ResetTo(ResetTarget.LATEST), named)
    assert plan.problems == ()
    assert plan.notes == ("new: nothing is committed yet; this creates the group.",)
    assert carry_out(cluster, plan).exit_status is ExitStatus.DONE
    assert cluster.offsets == {"new": commits({("payments", 0): 8})}


def test_groups_that_match_and_all_of_them() -> None:
    cluster = Cluster({"a1": COMMITTED, "a2": {("payments", 0): 1}, "b": COMMITTED}, RANGES)
    to = ResetTo(ResetTarget.LATEST)
    plan = plan_reset(cluster, cluster, ["b"], to, regex=parse_regex("a."))
    assert {row.group_id for row in plan.rows} == {"a1", "a2", "b"}
    plan = plan_reset(cluster, cluster, [], to, regex=parse_regex("a1|b"))
    assert {row.group_id for row in plan.rows} == {"a1", "b"}
    orders = PartitionSelection({"orders": frozenset({0})})
    plan = plan_reset(cluster, cluster, [], to, orders)
    assert {row.group_id for row in plan.rows} == {"a1", "a2", "b"}
    of_topics = PartitionSelection(regex=parse_regex("orders"))
    plan = plan_reset(cluster, cluster, [], to, of_topics)
    assert {row.group_id for row in plan.rows} == {"a1", "b"}
    assert plan.problems == (), "nobody named a2"
    plan = plan_reset(cluster, cluster, [], to, regex=parse_regex("nobody"))
    assert plan.report.exit_status is ExitStatus.NOT_FOUND
    elsewhere = ResetTo(ResetTarget.OTHER, same=commits({("orders", 1): 7}))
    plan = plan_reset(cluster, cluster, [], elsewhere)
    assert [(row.group_id, row.target_offset) for row in plan.rows] == [
        ("a1", 7),
        ("a2", 7),
        ("b", 7),
    ]


def test_active_groups_are_left_alone() -> None:
    cluster = Cluster({"g": COMMITTED, "idle": COMMITTED}, RANGES, {"g": 2})
    plan = plan_reset(cluster, cluster, ["g", "idle"], ResetTo(ResetTarget.LATEST))
    assert [(row.group_id, row.result) for row in plan.rows] == [
        ("g", Result.REFUSED),
        ("g", Result.UNCHANGED),
        ("idle", Result.PLANNED),
        ("idle", Result.UNCHANGED),
    ]
    assert [(problem.kind, problem.group_id) for problem in plan.problems] == [
        (ProblemKind.ACTIVE, "g")
    ]
    carry_out(cluster, plan)
    assert cluster.written == ["idle"]


@pytest.mark.parametrize("members", [0, 1])
def test_share_groups_commit_no_offsets(members: int) -> None:
    """Members need not be stopped: the coordinator would refuse the commit in any case."""
    found = tuple(Member(f"m-{n}", None, f"c-{n}", "/h") for n in range(members))
    state = GroupState.STABLE if members else GroupState.EMPTY
    cluster = Cluster({}, RANGES)
    cluster.replace(Group("shared", GroupType.SHARE, state, members=found))
    topics = PartitionSelection({"orders": None})
    to = ResetTo(ResetTarget.EARLIEST)
    copied = Store({"shared": COMMITTED})
    for plan in (
        plan_reset(cluster, cluster, ["shared"], to, topics),
        plan_transfer(copied, cluster, cluster),
    ):
        assert {row.result for row in plan.rows} == {Result.REFUSED}
        assert (plan.is_empty, plan.notes) == (True, ())
        (problem,) = plan.problems
        assert (problem.kind, problem.group_id) == (ProblemKind.UNSUPPORTED, "shared")
        assert "kafka-share-groups" in problem.reason


def test_an_existing_group_without_commits_is_not_created() -> None:
    topics = PartitionSelection({"orders": None})
    for members in (0, 1):
        cluster = Cluster({}, RANGES, {"g": members} if members else {})
        plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.EARLIEST), topics)
        assert any("creates the group" in note for note in plan.notes) == (not members)


def test_active_groups_of_which_nothing_would_be_changed_are_no_error() -> None:
    """Nor are those that have none of the topics; others are, for all that they have."""
    offsets = {"g": COMMITTED, "h": COMMITTED, "i": {("other", 0): 1}}
    cluster = Cluster(offsets, RANGES, dict.fromkeys(offsets, 1))
    plan = plan_transfer(Store(offsets), cluster, cluster, topics={"orders": None})
    assert {row.result for row in plan.rows} == {Result.UNCHANGED}
    assert plan.report.exit_status is ExitStatus.DONE
    assert plan.notes == ("groups with members that need no change: g, h",)
    plan = plan_transfer(Store({**offsets, "h": {("orders", 0): 41}}), cluster, cluster)
    assert [(problem.kind, problem.group_id) for problem in plan.problems] == [
        (ProblemKind.ACTIVE, "h")
    ]


def test_times_of_records() -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES)
    to = ResetTo(ResetTarget.OFFSET, 45)
    plan = plan_reset(cluster, cluster, ["g"], to, with_times=True)
    assert [(row.committed_ms, row.target_ms) for row in plan.rows] == [
        (40_000, 45_000),
        (50_000, 45_000),
    ]


def test_offsets_out_of_range_have_no_times() -> None:
    """A leader would say OFFSET_OUT_OF_RANGE."""
    far = {("orders", 0): 4, ("orders", 1): 51}

    class Strict(Cluster):
        def next_records(
            self, positions: Collection[Position], *, committed: bool = False
        ) -> NextReading:
            assert not {(*at, offset) for at, offset in far.items()} & set(positions)
            return super().next_records(positions)

    cluster = Strict({"g": far}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.LATEST), with_times=True)
    assert [(row.committed_ms, row.target_ms) for row in plan.rows] == [
        (None, 100_000),
        (None, 50_000),
    ]
    report = diff_offsets(cluster, Store({"g": COMMITTED}), first_log=cluster, second_log=cluster)
    assert [(row.first_ms, row.second_ms) for row in report.data] == [
        (None, 40_000),
        (None, 50_000),
    ]


def test_no_bytes_lie_in_an_empty_partition() -> None:
    """What its segments still have is older than its start."""
    cluster = Cluster({"g": {("orders", 2): 5}}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.EARLIEST), with_times=True)
    assert [(row.skipped, row.bytes) for row in plan.rows] == [(0, None)]


def test_bytes_are_known_of_whole_partitions_only() -> None:
    cluster = Cluster({"g": {("orders", 0): 100, ("orders", 1): 49}}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.EARLIEST), with_times=True)
    assert [(row.read_again, row.bytes) for row in plan.rows] == [(90, 1_000), (49, None)]
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.EARLIEST))
    assert [row.bytes for row in plan.rows] == [None, None]


@pytest.mark.parametrize(
    "goal", [ResetTarget.EARLIEST, ResetTarget.LATEST, ResetTarget.CURRENT, ResetTarget.TIME]
)
def test_some_goals_need_a_cluster(goal: ResetTarget) -> None:
    with pytest.raises(UsageError, match="name the cluster"):
        plan_reset(Store({"g": COMMITTED}), None, ["g"], ResetTo(goal))
    plan = plan_reset(Store({"g": COMMITTED}), None, ["g"], ResetTo(ResetTarget.SHIFT, -45))
    assert targets(plan) == {("orders", 0): 0, ("orders", 1): 5}


@pytest.mark.parametrize(
    ("state", "members", "text"),
    [
        (GroupState.EMPTY, 0, None),
        (GroupState.DEAD, 0, None),
        (None, 0, None),
        (GroupState.PREPARING_REBALANCE, 0, "The group is PreparingRebalance; stop its members"),
        (GroupState.STABLE, 1, "The group is Stable and has 1 member: c-0 at h; stop"),
        (None, 2, "The group is in an unknown state and has 2 members: c-0 at h, c-1 at h; stop"),
        (GroupState.STABLE, 12, "The group is Stable and has 12 members: c-0 at h, c-1 at h, c-2 "),
    ],
)
def test_what_makes_a_group_active(
    state: GroupState | None, members: int, text: str | None
) -> None:
    found = tuple(Member(f"m-{n}", None, f"c-{n}", "/h") for n in range(members))
    source = FakeSource(Group("g", GroupType.CLASSIC, state, members=found))
    reasons = [group.reason for group in refused_groups(source, ["g"])]
    assert len(reasons) == (text is not None)
    assert text is None or reasons[0].startswith(text)


def test_carrying_out() -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.OFFSET, 50))
    report = carry_out(cluster, plan)
    assert [row.result for row in report.data] == [Result.DONE, Result.UNCHANGED]
    assert cluster.offsets["g"] == commits({("orders", 0): 50, ("orders", 1): 50})


def test_what_the_store_refuses_is_said_by_partition() -> None:
    cluster = Cluster({"a": COMMITTED, "b": COMMITTED, "c": COMMITTED}, RANGES)
    plan = plan_reset(cluster, cluster, ["a", "b", "c"], ResetTo(ResetTarget.OFFSET, 45))
    cluster.refuses = (
        Problem(ProblemKind.CHANGED, "Others have committed.", "a"),
        Problem(ProblemKind.DENIED, "No.", "b", topic="orders", partition=1),
    )
    report = carry_out(cluster, plan)
    assert [row.result for row in report.data] == [
        *(Result.REFUSED, Result.REFUSED),
        *(Result.DONE, Result.REFUSED),
        *(Result.DONE, Result.DONE),
    ]
    assert report.exit_status is ExitStatus.PARTLY
    assert report.errors == cluster.refuses


def test_who_joins_behind_the_plan_of_a_table_is_noticed() -> None:
    """A table knows no members: the cluster that they read from does."""
    table = Store({"g": COMMITTED, "h": COMMITTED})
    idle, busy = (Cluster({"g": {}, "h": {}}, RANGES, members) for members in ({}, {"g": 1}))
    plan = plan_reset(table, idle, ["g", "h"], ResetTo(ResetTarget.OFFSET, 50))
    report = carry_out(table, plan, cluster=busy)
    assert table.written == ["h"]
    assert [(error.kind, error.group_id) for error in report.errors] == [(ProblemKind.ACTIVE, "g")]
    assert [row.result for row in report.data] == [
        *(Result.REFUSED, Result.UNCHANGED),
        *(Result.DONE, Result.UNCHANGED),
    ]


def test_what_may_have_been_written_is_unknown() -> None:
    cluster = Cluster({"a": COMMITTED, "b": COMMITTED}, RANGES)
    plan = plan_reset(cluster, cluster, ["a", "b"], ResetTo(ResetTarget.OFFSET, 45))
    cluster.refuses = (
        Problem(ProblemKind.UNKNOWN_END, "No answer.", "a"),
        Problem(ProblemKind.UNKNOWN_END, "No answer.", "b", topic="orders", partition=1),
    )
    assert [row.result for row in carry_out(cluster, plan).data] == [
        *(Result.UNKNOWN, Result.UNKNOWN),
        *(Result.DONE, Result.UNKNOWN),
    ]


@pytest.mark.parametrize(
    ("was_sent", "result", "kind", "text"),
    [
        (False, Result.REFUSED, ProblemKind.SILENT, "b-1 is silent; nothing was changed."),
        (
            *(True, Result.UNKNOWN, ProblemKind.UNKNOWN_END),
            "b-1 is silent; it is unknown whether anything was changed: read the offsets again.",
        ),
    ],
)
@pytest.mark.parametrize("deletes", [False, True])
def test_nobody_answers_when_it_begins(
    monkeypatch: pytest.MonkeyPatch,
    deletes: bool,
    was_sent: bool,
    result: Result,
    kind: ProblemKind,
    text: str,
) -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES)

    def silent(*_: object) -> tuple[Problem, ...]:
        raise BrokerError(ProblemKind.SILENT, "b-1 is silent", 1, was_sent=was_sent)

    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.OFFSET, 50))
    if deletes:
        plan = plan_deletion(cluster, ["g"])
    for name in ("write_offsets", "delete_groups"):
        monkeypatch.setattr(cluster, name, silent)
    report = carry_out(cluster, plan)
    assert [row.result for row in report.data] == [result, result if deletes else Result.UNCHANGED]
    assert report.errors == (Problem(kind, text, broker=1),)
    assert report.exit_status is ExitStatus.FAILED


def test_a_backup_undoes_a_change(tmp_path: Path) -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES)
    before = dict(cluster.offsets)
    named = PartitionSelection({"orders": None})
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.OFFSET, 5), named)
    assert plan.backup == (
        StoredOffset("g", "orders", 0, 40),
        StoredOffset("g", "orders", 1, 50),
        StoredOffset("g", "orders", 2, None),
    )
    carry_out(cluster, plan)
    assert cluster.offsets != before

    file = tmp_path / "backup.jsonl"
    file.write_text("".join(json.dumps(asdict(row)) + "\n" for row in plan.backup))
    undo = plan_transfer(OffsetFile(file), cluster, cluster)
    assert carry_out(cluster, undo).exit_status is ExitStatus.DONE
    assert cluster.offsets == before


def test_transfer() -> None:
    one = Store({"g": {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}, "h": {("t", 0): 1}})
    other = Store({"g": {("t", 0): 5, ("t", 1): 1, ("t", 2): 9}})
    plan = plan_transfer(one, other, None, ["g"], topics={"t": None})
    assert [(row.partition, row.result) for row in plan.rows] == [
        (0, Result.UNCHANGED),
        (1, Result.PLANNED),
    ]
    carry_out(other, plan)
    assert other.offsets == {"g": commits({("t", 0): 5, ("t", 1): 6, ("t", 2): 9})}


def backup_of(folder: Path, offsets: Mapping[At, int], cluster_id: str) -> OffsetFile:
    """Write a backup of group g that was saved from a cluster."""
    file = folder / f"{cluster_id}.json"
    rows = [asdict(StoredOffset("g", *at, offset)) for at, offset in offsets.items()]
    store = {"where": "the cluster b", "cluster_id": cluster_id}
    file.write_text(json.dumps({"schema_version": 1, "store": store, "data": rows}))
    return OffsetFile(file)


def test_what_is_out_of_range_comes_back_as_it_was_and_marked(tmp_path: Path) -> None:
    """A change is undone by its backup, wherever the group was before."""
    offsets = {("orders", 0): 4, ("orders", 1): 99, ("orders", 2): 5}
    cluster = Cluster({"g": {("orders", 0): 40, ("orders", 1): 50}}, RANGES)
    plan = plan_transfer(backup_of(tmp_path, offsets, "c"), cluster, cluster)
    assert [(row.target_offset, row.mark, row.log_start_offset) for row in plan.rows] == [
        (4, OffsetMark.BEFORE_START, 10),
        (99, OffsetMark.PAST_END, 0),
        (5, None, 5),
    ]
    skipped = [(row.skipped, row.read_again) for row in plan.rows]
    assert skipped == [(0, 30), (0, 0), (None, None)], "only records that the log has"
    carry_out(cluster, plan)
    assert cluster.offsets == {"g": commits(offsets)}


OUTSIDE = {("orders", 0): 4, ("orders", 1): 238, ("orders", 2): 5}


def test_offsets_that_the_log_does_not_have_are_refused() -> None:
    cluster = Cluster({"g": {("orders", 0): 40}}, RANGES)
    plan = plan_transfer(Store({"g": OUTSIDE}), cluster, cluster, fit=OutOfRange.REFUSE)
    assert [(row.target_offset, row.mark, row.result) for row in plan.rows] == [
        (4, OffsetMark.BEFORE_START, Result.REFUSED),
        (238, OffsetMark.PAST_END, Result.REFUSED),
        (5, None, Result.PLANNED),
    ]
    assert {(problem.kind, problem.reason) for problem in plan.problems} == {
        (
            ProblemKind.OUT_OF_RANGE,
            "orders-0: Offset 4 is before the log start offset 10 of the partition there; --clamp "
            "commits 10 instead.",
        ),
        (
            ProblemKind.OUT_OF_RANGE,
            "orders-1: Offset 238 is past the log end offset 50 of the partition there; --clamp "
            "commits 50 instead.",
        ),
    }
    carry_out(cluster, plan)
    assert cluster.offsets == {"g": commits({("orders", 0): 40, ("orders", 2): 5})}
    assert plan.report.exit_status is ExitStatus.PARTLY


@pytest.mark.parametrize(
    "mark",
    [
        OffsetMark.TOPIC_GONE,
        OffsetMark.PARTITION_GONE,
        OffsetMark.NO_LEADER,
        OffsetMark.NOT_AUTHORIZED,
        OffsetMark.NO_ANSWER,
    ],
)
@pytest.mark.parametrize(
    "goal", [ResetTarget.EARLIEST, ResetTarget.LATEST, ResetTarget.OFFSET, ResetTarget.CURRENT]
)
def test_partitions_whose_log_is_not_known_are_not_reset(
    mark: OffsetMark, goal: ResetTarget
) -> None:
    """What a log can be marked with is a kind of problem, too."""
    cluster = Cluster({"g": {("orders", 0): 40}}, {("orders", 0): LogRange(mark=mark)})
    plan = plan_reset(cluster, cluster, ["g"], ResetTo(goal, number=7))
    assert plan.is_empty
    assert [(problem.kind, problem.topic, problem.partition) for problem in plan.problems] == [
        (ProblemKind(mark), "orders", 0)
    ]


def test_an_offset_that_cannot_be_checked_is_refused() -> None:
    silent = {("orders", 0): LogRange(mark=OffsetMark.NO_ANSWER)}
    cluster = Cluster({}, silent)
    plan = plan_transfer(Store({"g": {("orders", 0): 4}}), cluster, cluster, fit=OutOfRange.REFUSE)
    assert [(row.mark, row.result) for row in plan.rows] == [(OffsetMark.NO_ANSWER, Result.REFUSED)]
    assert "the offset cannot be checked" in plan.problems[0].reason


def test_what_is_committed_out_of_range_already_is_unchanged() -> None:
    cluster = Cluster({"g": OUTSIDE}, RANGES)
    plan = plan_transfer(Store({"g": OUTSIDE}), cluster, cluster, fit=OutOfRange.REFUSE)
    assert {row.result for row in plan.rows} == {Result.UNCHANGED}
    assert plan.problems == ()


def test_offsets_are_clamped_to_the_log() -> None:
    """Its epoch is that of another record then."""
    cluster = Cluster({}, RANGES)
    store = Store({"g": OUTSIDE})
    store.offsets["g"] = tuple(replace(offset, leader_epoch=3) for offset in store.offsets["g"])
    plan = plan_transfer(store, cluster, cluster, fit=OutOfRange.CLAMP)
    assert [(row.target_offset, row.mark) for row in plan.rows] == [
        (10, OffsetMark.BEFORE_START),
        (50, OffsetMark.PAST_END),
        (5, None),
    ]
    carry_out(cluster, plan)
    assert [offset.leader_epoch for offset in cluster.offsets["g"]] == [None, None, 3]


@pytest.mark.parametrize("fit", [OutOfRange.REFUSE, OutOfRange.CLAMP])
def test_a_backup_of_the_same_store_comes_back_as_it_was(tmp_path: Path, fit: OutOfRange) -> None:
    """Unless it is to be clamped."""
    cluster = Cluster({}, RANGES)
    for cluster_id, expected in (("c", OUTSIDE), ("other", {("orders", 2): 5})):
        backup = backup_of(tmp_path, OUTSIDE, cluster_id)
        plan = plan_transfer(backup, cluster, cluster, fit=fit)
        if fit is OutOfRange.CLAMP:
            expected = {("orders", 0): 10, ("orders", 1): 50, ("orders", 2): 5}
        written = {
            (change.topic, change.partition): change.after.committed_offset
            for change in plan.changes["g"]
            if change.after is not None
        }
        assert written == expected


def test_empty_partitions_need_no_times() -> None:
    """Of two without records nothing is left to read; a record there may be one still to read."""
    empty = LogRange(9, 9)
    at = ("orders", 0)
    origin = Cluster({"g": {at: 9}}, {at: empty})
    for there, target in ((LogRange(4, 4), 4), (LogRange(0, 4), None)):
        goal = Cluster({}, {at: there})
        (row,) = plan_transfer(origin, goal, goal, fit=OutOfRange.BY_TIME).rows
        expected = Result.REFUSED if target is None else Result.PLANNED
        assert row.result is expected
        assert target is None or row.target_offset == target


def test_offsets_are_found_by_the_times_of_records() -> None:
    """A record's time is 1000 times its offset at the origin."""
    origin = Cluster(
        {"g": {("orders", 0): 238, ("orders", 1): 300, ("orders", 2): 7, ("payments", 0): 9}},
        {
            ("orders", 0): LogRange(0, 300),
            ("orders", 1): LogRange(0, 300),
            ("orders", 2): LogRange(0, 6),
            ("payments", 0): LogRange(9, 9),
        },
    )
    goal = Cluster({}, RANGES, times={("orders", 0, 238_000): 98, ("orders", 1, 299_001): None})
    plan = plan_transfer(origin, goal, goal, fit=OutOfRange.BY_TIME)
    assert [(row.target_offset, row.mark, row.result) for row in plan.rows] == [
        (98, None, Result.PLANNED),
        (50, OffsetMark.NO_RECORD_SINCE, Result.PLANNED),
        (7, OffsetMark.PAST_END, Result.REFUSED),
        (9, OffsetMark.PAST_END, Result.REFUSED),
    ]
    assert [
        problem.reason for problem in plan.problems if problem.kind is ProblemKind.OUT_OF_RANGE
    ] == [
        "orders-2: Offset 7 is after the log end offset 6 of the first store.",
        "payments-0: No record of the first store determines the time of the offset.",
    ]


def test_times_of_records_need_live_clusters() -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES)
    for origin, goal in ((Store({"g": COMMITTED}), cluster), (cluster, None)):
        with pytest.raises(UsageError, match="--by-time needs the timestamps of records"):
            plan_transfer(origin, cluster, goal, fit=OutOfRange.BY_TIME)


def test_a_group_may_be_copied_to_the_empty_id() -> None:
    plan = plan_transfer(Store({"g": COMMITTED}), Store({}), None, ["g"], new_id="")
    assert {row.group_id for row in plan.rows} == {""}


def test_nothing_is_transferred_to_active_groups() -> None:
    cluster = Cluster({"g": COMMITTED}, RANGES, {"g": 1})
    plan = plan_transfer(Store({"g": {("orders", 0): 41}}), cluster, cluster)
    assert [(problem.kind, problem.group_id) for problem in plan.problems] == [
        (ProblemKind.ACTIVE, "g")
    ]
    assert [row.result for row in plan.rows] == [Result.REFUSED]
    assert plan.is_empty


def test_nothing_is_transferred_to_partitions_that_are_gone(tmp_path: Path) -> None:
    """But what is committed for them may stay as it is, or go."""
    ranges = {**RANGES, ("orders", 9): LogRange(mark=OffsetMark.PARTITION_GONE)}
    cluster = Cluster({"g": {("gone", 0): 4}, "h": {("gone", 0): 4}}, ranges)
    wanted = {("gone", 0): 4, ("orders", 0): 40, ("orders", 9): 1}
    plan = plan_transfer(Store({"g": wanted}), cluster, cluster)
    assert [(row.topic, row.partition, row.mark, row.result) for row in plan.rows] == [
        ("gone", 0, OffsetMark.TOPIC_GONE, Result.UNCHANGED),
        ("orders", 0, None, Result.PLANNED),
        ("orders", 9, OffsetMark.PARTITION_GONE, Result.REFUSED),
    ]
    (problem,) = plan.problems
    assert (problem.kind, problem.group_id) == (ProblemKind.PARTITION_GONE, "g")
    assert (problem.topic, problem.partition) == ("orders", 9)
    assert problem.reason.startswith("orders-9: The topic exists")
    assert carry_out(cluster, plan).exit_status is ExitStatus.PARTLY
    assert cluster.offsets["g"] == commits({("gone", 0): 4, ("orders", 0): 40})

    file = tmp_path / "backup.jsonl"
    file.write_text(json.dumps(asdict(StoredOffset("h", "gone", 0, None))) + "\n")
    carry_out(cluster, plan_transfer(OffsetFile(file), cluster, cluster))
    assert cluster.offsets["h"] == ()


def test_only_what_can_be_checked_is_transferred() -> None:
    silent = Problem(ProblemKind.SILENT, "No answer.")
    cluster = FakeSource(ranges={("t", 0): LogRange(mark=OffsetMark.NO_LEADER)}, problems=[silent])
    store = Store({})
    plan = plan_transfer(Store({"g": {("t", 0): 1, ("t", 1): 1}}), store, cluster)
    assert [row.mark for row in plan.rows] == [OffsetMark.NO_LEADER, None]
    assert [row.result for row in plan.rows] == [Result.REFUSED, Result.PLANNED]


def test_transfer_of_topics_leaves_what_a_backup_says_of_others(tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    rows = [StoredOffset("g", "t", 0, None), StoredOffset("g", "u", 0, None)]
    file.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    store = Store({"g": {("t", 0): 5, ("u", 0): 6}})
    carry_out(store, plan_transfer(OffsetFile(file), store, None, topics={"t": None}))
    assert store.offsets == {"g": commits({("u", 0): 6})}


@pytest.mark.parametrize(
    ("where", "cluster_id", "is_other"),
    [
        ("the cluster b", "c", False),
        ("the cluster a", "c", False),
        ("the cluster b", "d", True),
        ("the cluster b", None, False),
        ("the cluster a", None, True),
    ],
)
def test_a_file_of_another_store_is_told(
    tmp_path: Path, where: str, cluster_id: str | None, is_other: bool
) -> None:
    """The store is "the cluster b", whose id is "c"."""
    file = tmp_path / "backup.json"
    store = {"where": where, "cluster_id": cluster_id}
    row = asdict(StoredOffset("g", "t", 0, 1))
    file.write_text(json.dumps({"schema_version": 1, "store": store, "data": [row]}))
    notes = plan_transfer(OffsetFile(file), Store({}), None).notes
    assert [note.split(", but this is ")[0] for note in notes] == (
        [f"the offsets were saved from {where}{f' (id {cluster_id})' if cluster_id else ''}"]
        if is_other
        else []
    )


def test_transfer_under_another_name() -> None:
    one, other = Store({"g": {("t", 0): 5}}), Store({})
    carry_out(other, plan_transfer(one, other, None, ["g"], new_id="h"))
    assert other.offsets == {"h": commits({("t", 0): 5})}


def test_epochs_of_leaders_stay_behind_if_so_wanted() -> None:
    one, other = Store({}), Store({})
    one.offsets["g"] = (CommittedOffset("t", 0, 5, 3, "m", 1),)
    assert plan_transfer(one, other, None).changes["g"] == (
        OffsetChange("t", 0, None, CommittedOffset("t", 0, 5, 3, "m", 1)),
    )
    assert plan_transfer(one, other, None, leader_epochs=False).changes["g"] == (
        OffsetChange("t", 0, None, CommittedOffset("t", 0, 5, None, "m", 1)),
    )


def test_what_a_store_has_no_place_for_stays_behind() -> None:
    """Else a second import would find everything changed."""
    one, other = Store({}), Store({})
    one.offsets["g"] = (CommittedOffset("t", 0, 5, 3, "m", 1),)
    other.keeps_metadata = other.keeps_leader_epochs = False
    plan = plan_transfer(one, other, None)
    assert plan.changes["g"] == (
        OffsetChange("t", 0, None, CommittedOffset("t", 0, 5, commit_timestamp_ms=1)),
    )
    carry_out(other, plan)
    assert plan_transfer(one, other, None).is_empty


def test_metadata_are_part_of_a_commit() -> None:
    one, other = Store({}), Store({})
    one.offsets["g"] = (CommittedOffset("t", 0, 5, 3, "m"),)
    for there, result in (
        (CommittedOffset("t", 0, 5, 3, "m", 8), Result.UNCHANGED),
        (CommittedOffset("t", 0, 5, 3, "n"), Result.PLANNED),
        (CommittedOffset("t", 0, 5, 2, "m"), Result.PLANNED),
    ):
        other.offsets["g"] = (there,)
        assert [row.result for row in plan_transfer(one, other, None).rows] == [result]


def test_deletion_of_topics() -> None:
    store = Store({"g": {("t", 0): 5, ("u", 0): 7}})
    plan = plan_deletion(store, ["g"], topics={"t": None, "nosuch": None})
    assert [(problem.kind, problem.topic) for problem in plan.problems] == [
        (ProblemKind.NOT_FOUND, "nosuch")
    ]
    assert carry_out(store, plan).exit_status is ExitStatus.PARTLY
    assert store.offsets == {"g": commits({("u", 0): 7})}
    assert (
        plan_deletion(store, ["g"], topics={"t": None}).report.exit_status is ExitStatus.NOT_FOUND
    )
    store.offsets["h"] = commits({("v", 0): 1})
    plan = plan_deletion(store, ["g", "h"], topics={"v": None})
    assert [(problem.group_id, problem.topic) for problem in plan.problems] == [("g", None)]


def test_deletion_of_groups() -> None:
    cluster = Cluster({"g": COMMITTED, "bare": {}, "busy": COMMITTED}, RANGES, {"busy": 1})
    cluster.offsets.pop("bare")
    plan = plan_deletion(cluster, ["g", "bare", "busy", "nosuch"])
    assert plan.deleted == ("bare", "g")
    assert [(row.group_id, row.topic, row.result) for row in plan.rows] == [
        ("bare", None, Result.PLANNED),
        *(("busy", "orders", Result.REFUSED),) * 2,
        *(("g", "orders", Result.PLANNED),) * 2,
    ]
    assert {(problem.kind, problem.group_id) for problem in plan.problems} == {
        (ProblemKind.ACTIVE, "busy"),
        (ProblemKind.NOT_FOUND, "nosuch"),
    }
    carry_out(cluster, plan)
    assert cluster.deleted == ["bare", "g"]
    assert cluster.written == []


def test_deletion_of_groups_that_match() -> None:
    """Only of those that have committed something, which rows show."""
    cluster = Cluster({"g1": COMMITTED, "g2": COMMITTED, "h": COMMITTED, "g3": {}}, RANGES)
    cluster.offsets.pop("g3")
    plan = plan_deletion(cluster, [], parse_regex("g."))
    assert plan.deleted == ("g1", "g2")
    assert {row.group_id for row in plan.rows} == {"g1", "g2"}
    plan = plan_deletion(cluster, ["g3"], parse_regex("h"))
    assert plan.deleted == ("g3", "h")
    assert plan_deletion(cluster, [], parse_regex("x")).report.exit_status is ExitStatus.NOT_FOUND
    plan = plan_deletion(cluster, [], parse_regex("g."), topics={"orders": None})
    assert plan.changes.keys() == {"g1", "g2"}


class Silent(Cluster):
    """A cluster that does not tell what the group "g" has committed."""

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        reading = super().read_offsets(group_ids, regex)
        offsets = {group_id: each for group_id, each in reading.offsets.items() if group_id != "g"}
        problem = Problem(ProblemKind.NO_COORDINATOR, "It is loading.", "g")
        return OffsetReading(offsets, (problem,))


def test_nothing_is_planned_for_groups_that_could_not_be_read() -> None:
    """What is not known is not absent: a deletion would have no backup."""
    cluster = Silent({"g": COMMITTED, "h": COMMITTED}, RANGES)
    deletion = plan_deletion(cluster, ["g", "h"])
    assert (deletion.deleted, {row.group_id for row in deletion.rows}) == (("h",), {"h"})
    assert [problem.group_id for problem in deletion.problems] == ["g"]
    assert plan_deletion(cluster, ["g"], topics={"orders": None}).is_empty
    named = PartitionSelection({"orders": frozenset({0})})
    assert plan_reset(cluster, cluster, ["g"], ResetTo(ResetTarget.LATEST), named).rows == ()
    assert plan_transfer(Store({"g": {("orders", 0): 1}}), cluster, cluster).rows == ()
    one = Store({"g": COMMITTED})
    assert diff_offsets(one, cluster, ["g"]).data == ()
    assert diff_offsets(cluster, one, ["g"]).data == ()
    assert diff_offsets(Store({"f": COMMITTED}), cluster, ["f"], second_id="g").data == ()


def test_a_group_that_has_committed_since_is_not_deleted() -> None:
    cluster = Cluster({"g": COMMITTED, "h": COMMITTED}, RANGES)
    plan = plan_deletion(cluster, ["g", "h"])
    cluster.offsets["g"] = commits({**COMMITTED, ("payments", 0): 1})
    report = carry_out(cluster, plan)
    assert cluster.deleted == ["h"]
    assert [(error.kind, error.group_id) for error in report.errors] == [(ProblemKind.CHANGED, "g")]
    assert {(row.group_id, row.result) for row in report.data} == {
        ("g", Result.REFUSED),
        ("h", Result.DONE),
    }


def test_a_table_is_compared_in_the_transaction_that_deletes(tmp_path: Path) -> None:
    """An application that commits after the last look keeps what it has committed."""

    class Late(SqlOffsetStore):
        is_late = False

        def read_offsets(
            self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
        ) -> OffsetReading:
            reading = super().read_offsets(group_ids, regex)
            if self.is_late:
                (change,) = plan.changes["g"]
                after = CommittedOffset("t", 0, 6)
                super().write_offsets({"g": [replace(change, after=after)]})
            return reading

    store = Late(str(tmp_path / "o.db"))
    store.create_table()
    new = {each: [OffsetChange("t", 0, None, CommittedOffset("t", 0, 5))] for each in ("g", "h")}
    assert store.write_offsets(new) == ()
    plan = plan_deletion(store, ["g", "h"])
    store.is_late = True
    report = carry_out(store, plan)
    store.is_late = False
    assert [(error.kind, error.group_id) for error in report.errors] == [(ProblemKind.CHANGED, "g")]
    assert [row.result for row in report.data] == [Result.REFUSED, Result.DONE]
    assert store.read_offsets().offsets == {"g": commits({("t", 0): 6})}


@pytest.mark.parametrize("to", [ResetTo(ResetTarget.OFFSET, 10**15), ResetTo(ResetTarget.SHIFT, 2)])
def test_an_offset_that_cannot_be_checked_is_not_taken(to: ResetTo) -> None:
    cluster = Cluster({"g": {("unknown", 0): 5}}, RANGES)
    plan = plan_reset(cluster, cluster, ["g"], to)
    assert (plan.rows, [problem.kind for problem in plan.problems]) == (
        (),
        [ProblemKind.UNREADABLE],
    )
    far = plan_reset(
        Store({"g": COMMITTED}), None, ["g"], ResetTo(ResetTarget.SHIFT, (1 << 63) - 1)
    )
    assert far.rows == ()


def test_show() -> None:
    store = Store({"b": {("t", 1): 6, ("t", 0): 5}, "a": {("t", 0): 1}})
    report = show_offsets(store)
    assert [(row.group_id, row.partition, row.committed_offset) for row in report.data] == [
        ("a", 0, 1),
        ("b", 0, 5),
        ("b", 1, 6),
    ]
    assert show_offsets(store, ["a", "x"]).exit_status is ExitStatus.PARTLY
    assert show_offsets(store, ["x"]).exit_status is ExitStatus.NOT_FOUND
    assert show_offsets(store, regex=parse_regex("x.*")).exit_status is ExitStatus.NOT_FOUND
    assert len(show_offsets(store, regex=parse_regex("b|x")).data) == 2


class Failing(Store):
    """A store of which a part does not answer."""

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        problem = Problem(ProblemKind.SILENT, "No answer.")
        return replace(super().read_offsets(group_ids, regex), problems=(problem,))


def test_a_group_that_cannot_be_looked_at_again_is_not_deleted() -> None:
    store = Failing({})
    report = carry_out(store, OffsetPlan((), {}, deleted=("idle",)))
    assert store.deleted == []
    assert [(error.kind, error.group_id) for error in report.errors] == [
        (ProblemKind.CHANGED, "idle")
    ]


def test_what_could_not_be_read_is_not_said_to_be_absent() -> None:
    report = show_offsets(Failing({"a": {("t", 0): 1}}), ["a", "x"], parse_regex("y"))
    assert [error.kind for error in report.errors] == [ProblemKind.SILENT]


def test_groups_of_other_sources_are_shown_too() -> None:
    source = Cluster({}, {})
    plain = FakeSource(*source.read().image.groups.values())
    assert show_offsets(plain, ["x"]).exit_status is ExitStatus.NOT_FOUND


def test_difference() -> None:
    one = Store({"g": {("t", 0): 5, ("t", 1): 6, ("t", 2): 7}})
    other = Cluster({"g": {("t", 0): 5, ("t", 1): 4, ("t", 3): 8}}, {})
    report = diff_offsets(one, other, ["g"], first_log=other, second_log=other)
    assert report.data == (
        OffsetDifference("g", "t", 1, 6, 4, -2, 6_000, 4_000, -2_000),
        OffsetDifference("g", "t", 2, 7, None, None, 7_000, None, None),
        OffsetDifference("g", "t", 3, None, 8, None, None, 8_000, None),
    )
    assert report.exit_status is ExitStatus.PROBLEM


def test_each_of_two_clusters_knows_its_own_records() -> None:
    class Later(Cluster):
        """A cluster with the same offsets, a day later."""

        def next_records(
            self, positions: Collection[Position], *, committed: bool = False
        ) -> NextReading:
            reading = super().next_records(positions)
            later = {
                at: replace(record, timestamp_ms=(record.timestamp_ms or 0) + 86_400_000)
                for at, record in reading.records.items()
            }
            return replace(reading, records=later)

    one, other = Cluster({"g": {("t", 0): 5}}, {}), Later({"g": {("t", 0): 6}}, {})
    (row,) = diff_offsets(one, other, first_log=one, second_log=other).data
    assert (row.first_ms, row.second_ms) == (5_000, 86_406_000)
    assert row.time_difference_ms == 86_401_000


def test_no_difference() -> None:
    one, other = Store({"g": {("t", 0): 5}}), Store({"g": {("t", 0): 5}})
    assert diff_offsets(one, other).exit_status is ExitStatus.DONE
    assert diff_offsets(one, other, ["g", "x"]).exit_status is ExitStatus.PARTLY
    assert diff_offsets(one, other, ["x"]).exit_status is ExitStatus.NOT_FOUND


def test_a_group_that_one_side_has_not_differs() -> None:
    one, other = Store({"g": {("t", 0): 5}}), Store({"h": {("t", 0): 5}})
    report = diff_offsets(one, other, ["g", "nobody"])
    assert report.exit_status is ExitStatus.PROBLEM
    assert {error.group_id for error in report.errors} == {"nobody"}, "the rows tell of the other"
    assert [row.group_id for row in diff_offsets(one, other).data] == ["g", "h"]
    assert diff_offsets(one, other, ["g"], second_id="h").exit_status is ExitStatus.DONE


def test_a_group_that_runs_beside_its_table_is_left_alone() -> None:
    cluster = Cluster({}, RANGES, {"g": 1})
    plan = plan_reset(Store({"g": COMMITTED}), cluster, ["g"], ResetTo(ResetTarget.LATEST))
    assert [problem.kind for problem in plan.problems] == [ProblemKind.ACTIVE]
    assert plan.is_empty
