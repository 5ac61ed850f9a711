from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import ClusterView, Partition, Topic
from kgroup.model.group import (
    AssignedPartition,
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
    Subtopology,
    Task,
    TaskAssignment,
    Topology,
)
from kgroup.model.log_range import LogRange, NextReading, NextRecord, OffsetMark, Position
from kgroup.model.offset import CommittedOffset, PendingOffset, ShareOffset
from kgroup.model.problem import Problem
from kgroup.operation.describe import (
    GroupDescription,
    OffsetDescription,
    ShareOffsetDescription,
    describe,
    with_time_lags,
)
from kgroup.protocol.zookeeper.tree import decode_tree
from kgroup.render.group import description_object
from kgroup.sample import sample_zookeeper
from kgroup.source.base import EVERYTHING, Capability, GroupSource, Question, Reading
from kgroup.source.snapshot.file import read_snapshot
from kgroup.source.snapshot.source import snapshot_source
from tests.operation.sources import FakeSource
from tests.recorded_tree import TREE, TREES, recorded, recorded_nodes, recorded_ranges

ID = "vSfqgMKeR9eannCdjVzeYQ"
ABSENT = "The group does not exist; 'kgroup list' lists all groups."


def owned(
    topic: str | None, *partitions: int, topic_id: str | None = None
) -> tuple[AssignedPartition, ...]:
    return tuple(AssignedPartition(topic_id, topic, partition) for partition in partitions)


def group(group_id: str, *members: Member, offsets: tuple[CommittedOffset, ...] = ()) -> Group:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(group_id, GroupType.CLASSIC, state, members=members, offsets=offsets)


def only(source: FakeSource) -> GroupDescription:
    (row,) = describe(source).data
    return row


@pytest.mark.parametrize(
    ("row", "names"),
    [
        (
            Member,
            "member_id instance_id client_id client_host rack_id session_timeout_ms "
            "rebalance_timeout_ms member_epoch subscription assignment target_assignment",
        ),
        (Subscription, "topics regex owned generation_id user_data"),
        (AssignedPartition, "topic_id topic partition"),
        (
            OffsetDescription,
            "topic partition committed_offset leader_epoch metadata commit_timestamp_ms "
            "expire_timestamp_ms log_end_offset lag member_id",
        ),
    ],
)
def test_fields_that_are_promised_come_first_and_in_their_order(row: Any, names: str) -> None:
    """Others may follow."""
    assert f"{' '.join(field.name for field in fields(row))} ".startswith(f"{names} ")


def test_the_object_of_a_group_has_the_promised_keys_in_their_order() -> None:
    names = (
        "group_id type state protocol_type assignor generation_id group_epoch assignment_epoch "
        "leader_id coordinator offsets_partition state_timestamp_ms members offsets "
        "pending_offsets total_lag topology share_offsets last_stable max_time_lag_ms"
    )
    given = group("g", Member("m"))
    assert list(description_object(only(FakeSource(given)))) == names.split()


def test_a_description_has_the_group() -> None:
    given = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        leader_id="m",
        members=(Member("m"),),
        pending_offsets=(PendingOffset("orders", 0, 5, None, "", 1, 2, 0, 4),),
    )
    assert only(FakeSource(given)).group == given


def test_topics_are_sorted_in_whatever_order_they_were_sent() -> None:
    row = only(FakeSource(group("g", Member("m", subscription=Subscription(("zoo", "ant"))))))
    (shown,) = row.group.members
    assert shown.subscription == Subscription(("ant", "zoo"))


def test_offsets_with_end_lag_and_owner() -> None:
    row = only(
        FakeSource(
            group(
                "g",
                Member("m1", assignment=owned("orders", 0)),
                Member("m2", assignment=owned("orders", 1, 2)),
                offsets=(
                    CommittedOffset("orders", 0, 5, 2, "text", 10, 20, ID),
                    CommittedOffset("orders", 1, 7),
                    CommittedOffset("payments", 0, 9),
                ),
            ),
            ends={("orders", 0): 8, ("orders", 2): 4, ("payments", 0): 6},
        )
    )
    past_end = OffsetMark.PAST_END
    assert row.offsets == (
        OffsetDescription(
            "orders", 0, 5, 2, "text", 10, 20, 8, 3, "m1", ID, None, None, None, waiting=3
        ),
        OffsetDescription(
            "orders", 1, 7, None, None, None, None, None, None, "m2", None, None, None, None
        ),
        OffsetDescription(
            "orders", 2, None, None, None, None, None, 4, None, "m2", None, None, None, None
        ),
        OffsetDescription(
            "payments",
            0,
            9,
            None,
            None,
            None,
            None,
            6,
            -3,
            None,
            None,
            None,
            None,
            past_end,
            waiting=0,
        ),
    )
    assert row.total_lag == 3, "the commit past the end does not make up for the other one"


def test_marks() -> None:
    """Each partition is a row, whatever is the matter with it."""
    ranges = {
        ("logs", 0): LogRange(5, 9),
        ("logs", 1): LogRange(5, 9),
        ("logs", 2): LogRange(5, 9),
        ("logs", 3): LogRange(5, 9),
        ("logs", 4): LogRange(mark=OffsetMark.NO_LEADER),
        ("logs", 5): LogRange(mark=OffsetMark.TOPIC_GONE),
    }
    offsets = tuple(CommittedOffset("logs", n, at) for n, at in enumerate((4, 5, 9, 10, 7, 7, 7)))
    problem = Problem(ProblemKind.NO_LEADER, "Why.", topic="logs", partition=4)
    source = FakeSource(group("g", offsets=offsets), ranges=ranges, range_problems=[problem])
    report = describe(source, ["g"])
    assert report.errors == (problem,)
    (row,) = report.data
    assert [(o.partition, o.log_start_offset, o.lag, o.waiting, o.mark) for o in row.offsets] == [
        (0, 5, 5, 4, OffsetMark.BEFORE_START),
        (1, 5, 4, 4, None),
        (2, 5, 0, 0, None),
        (3, 5, -1, 0, OffsetMark.PAST_END),
        (4, None, None, None, OffsetMark.NO_LEADER),
        (5, None, None, None, OffsetMark.TOPIC_GONE),
        (6, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("type_", "state", "assignment", "mark"),
    [
        (GroupType.CLASSIC, GroupState.STABLE, owned("orders", 0), OffsetMark.NO_OWNER),
        (GroupType.CONSUMER, GroupState.RECONCILING, owned("orders", 0), OffsetMark.NO_OWNER),
        (GroupType.CLASSIC, GroupState.PREPARING_REBALANCE, owned("orders", 0), None),
        # assigned something that is no list of partitions
        (GroupType.CLASSIC, GroupState.STABLE, None, None),
    ],
)
def test_partitions_that_nobody_owns(
    type_: GroupType,
    state: GroupState,
    assignment: tuple[AssignedPartition, ...] | None,
    mark: OffsetMark | None,
) -> None:
    offsets = (CommittedOffset("orders", 0, 1), CommittedOffset("orders", 1, 1))
    given = Group("g", type_, state, members=(Member("m", assignment=assignment),), offsets=offsets)
    assert [offset.mark for offset in only(FakeSource(given)).offsets] == [None, mark]
    assert [o.mark for o in only(FakeSource(group("g", offsets=offsets))).offsets] == [None, None]


class FakeCluster(FakeSource):
    """Has topics too."""

    def placements(self, keys: Any, *, transactional: bool = False) -> Any:
        raise NotImplementedError

    def view(self, topics: Collection[str]) -> ClusterView:
        partitions = {number: Partition(1, (1,), (1,)) for number in range(3)}
        found = {name: Topic(name, None, partitions) for name in topics if name == "orders"}
        return ClusterView(None, None, {}, found)


@pytest.mark.parametrize(
    ("kind", "state", "expected"),
    [
        (GroupType.CLASSIC, GroupState.STABLE, [1, 2]),
        (GroupType.CONSUMER, GroupState.RECONCILING, [1, 2]),
        (GroupType.CLASSIC, GroupState.PREPARING_REBALANCE, []),
        (GroupType.SHARE, GroupState.STABLE, []),
    ],
)
def test_partitions_of_subscribed_topics_that_nobody_owns_or_ever_committed(
    kind: GroupType, state: GroupState, expected: list[int]
) -> None:
    subscription = Subscription(("no-such-topic", "orders"))
    members = (Member("m", subscription=subscription, assignment=owned("orders", 0)),)
    given = Group("g", kind, state, members=members)
    rows = only(FakeCluster(given)).offsets
    unowned = [row for row in rows if row.member_id is None]
    assert [(row.topic, row.partition, row.mark) for row in unowned] == [
        ("orders", partition, OffsetMark.NO_OWNER) for partition in expected
    ]
    assert all(row.member_id for row in only(FakeSource(given)).offsets)


@pytest.mark.parametrize(("regex", "mark"), [((), OffsetMark.NO_OWNER), (("o.*",), None)])
def test_partitions_that_no_task_reads(regex: tuple[str, ...], mark: OffsetMark | None) -> None:
    """Where topics are found by a pattern, it is not known which task reads them."""
    given = Group(
        "g",
        GroupType.STREAMS,
        GroupState.STABLE,
        members=(Member("m", tasks=TaskAssignment(active=(Task("0", 0),))),),
        offsets=(CommittedOffset("orders", 0, 1), CommittedOffset("orders", 1, 1)),
        topology=Topology(1, (Subtopology("0", ("orders",), regex, (), (), ()),)),
    )
    assert [offset.mark for offset in only(FakeSource(given)).offsets] == [None, mark]


def test_read_committed_where_the_source_cannot_tell() -> None:
    for capabilities, notes in ((Capability, 0), ((), 1)):
        source = FakeSource(group("g"), capabilities=capabilities)
        assert len(describe(source, committed=True).notes) == notes
        assert describe(source).notes == ()


def test_group_that_could_not_be_asked_for_is_not_missing() -> None:
    problem = Problem(ProblemKind.SILENT, "Broker 3 did not answer.", group_id="far")
    report = describe(FakeSource(problems=[problem]), ["far", "near"])
    assert report.data == ()
    assert [(error.kind, error.group_id) for error in report.errors] == [
        ("not-found", "near"),
        ("silent", "far"),
    ]


def test_since_when_a_member_owns_what() -> None:
    member = Member(
        "m", assignment=tuple(AssignedPartition(ID, "orders", p, p + 4) for p in (0, 1))
    )
    row = only(FakeSource(group("g", member, offsets=(CommittedOffset("orders", 1, 5),))))
    assert [(o.partition, o.owned_since_epoch) for o in row.offsets] == [(0, 4), (1, 5)]


def test_total_lag_is_unknown_where_none_is_known() -> None:
    assert (
        only(FakeSource(group("g", offsets=(CommittedOffset("orders", 0, 5),)))).total_lag is None
    )
    assert only(FakeSource(group("g"))).total_lag is None


def test_owned_partition_of_a_topic_without_a_name() -> None:
    row = only(FakeSource(group("g", Member("m", assignment=owned(None, 1, 0, topic_id=ID)))))
    assert [(o.topic, o.topic_id, o.partition, o.member_id) for o in row.offsets] == [
        (None, ID, 0, "m"),
        (None, ID, 1, "m"),
    ]


def test_id_of_the_assignment_goes_before_that_of_the_commit() -> None:
    """The topic was made anew since the commit."""
    row = only(
        FakeSource(
            group(
                "g",
                Member("m", assignment=owned("orders", 0, topic_id=ID)),
                offsets=(CommittedOffset("orders", 0, 5, topic_id="older"),),
            )
        )
    )
    assert [offset.topic_id for offset in row.offsets] == [ID]


def test_nobody_owns_the_partitions_of_a_share_group() -> None:
    share = Group(
        "s",
        GroupType.SHARE,
        GroupState.STABLE,
        members=(Member("a", assignment=owned("orders", 0)),),
        share_offsets=(ShareOffset(ID, "orders", 0, "initialized"),),
    )
    assert only(FakeSource(share)).offsets == ()


def test_share_offsets_with_end_and_lag() -> None:
    """DescribeShareGroupOffsets: lag = end - start - what is complete already."""
    share = Group(
        "s",
        GroupType.SHARE,
        GroupState.STABLE,
        share_offsets=(
            ShareOffset(ID, "orders", 0, "initialized", 10, 1, 2, 3),
            ShareOffset(ID, "orders", 1, "initialized", 10, 1, 2),
            ShareOffset(ID, "orders", 2, "initialized", None, 1, 2, 3),
            ShareOffset(ID, "orders", 3, "initialized", 4, 1, 2, 0),
            ShareOffset(ID, "orders", 4, "initialized", 4, 1, 2, 0),
            ShareOffset("gone", None, None, "deleting"),
        ),
    )
    row = only(FakeSource(share, ends={("orders", p): 20 for p in range(4)}))
    assert row.share_offsets == (
        ShareOffsetDescription("orders", 0, "initialized", 10, 3, 20, 7, 1, 2, ID),
        ShareOffsetDescription("orders", 1, "initialized", 10, None, 20, None, 1, 2, ID),
        ShareOffsetDescription("orders", 2, "initialized", None, 3, 20, None, 1, 2, ID),
        ShareOffsetDescription("orders", 3, "initialized", 4, 0, 20, 16, 1, 2, ID),
        ShareOffsetDescription("orders", 4, "initialized", 4, 0, None, None, 1, 2, ID),
        ShareOffsetDescription(None, None, "deleting", None, None, None, None, None, None, "gone"),
    )
    assert row.total_lag == 23
    assert only(FakeSource(group("g"))).share_offsets is None


def test_start_offsets_that_a_source_cannot_know_are_noted() -> None:
    share = Group(
        "s",
        GroupType.SHARE,
        GroupState.STABLE,
        share_offsets=(ShareOffset(ID, "orders", 0, "initialized"),),
    )
    (note,) = describe(FakeSource(share, capabilities=())).notes
    assert "__share_group_state" in note
    all_but = frozenset(Capability)
    assert describe(FakeSource(share, capabilities=all_but)).notes == ()
    assert describe(FakeSource(group("g"), capabilities=())).notes == ()


def test_streams_tasks_own_the_partitions_that_were_committed() -> None:
    def subtopology(name: str, sources: str, repartition: str) -> Subtopology:
        return Subtopology(name, (sources,), (), (repartition,), (), ())

    streams = Group(
        "t",
        GroupType.STREAMS,
        GroupState.STABLE,
        members=(
            Member("a", tasks=TaskAssignment(active=(Task("0", 0, 6),), standby=(Task("0", 1),))),
            Member(
                "b",
                tasks=TaskAssignment(active=(Task("1", 0),)),
                pending_revocation_tasks=TaskAssignment(active=(Task("0", 1),)),
            ),
        ),
        offsets=(
            CommittedOffset("by-key", 0, 1),
            CommittedOffset("clicks", 0, 1),
            CommittedOffset("orders", 0, 1),
            CommittedOffset("orders", 1, 1),
            CommittedOffset("orders", 2, 1),
        ),
        topology=Topology(
            0, (subtopology("0", "orders", "x"), subtopology("1", "clicks", "by-key"))
        ),
    )
    row = only(FakeSource(streams))
    assert row.offsets[2].owned_since_epoch == 6
    assert {(o.topic, o.partition): o.member_id for o in row.offsets} == {
        ("by-key", 0): "b",
        ("clicks", 0): "b",
        ("orders", 0): "a",
        ("orders", 1): "b",
        ("orders", 2): None,
    }


THREE = FakeSource(group("a1"), group("a2"), group("b"))


@pytest.mark.parametrize(
    ("group_ids", "regex", "expected"),
    [
        ((), None, ["a1", "a2", "b"]),
        (("b", "a1"), None, ["a1", "b"]),
        ((), "a.", ["a1", "a2"]),
        (("b",), "a1", ["a1", "b"]),
        (("a1",), "nothing", ["a1"]),
    ],
)
def test_choice_of_groups(
    group_ids: tuple[str, ...], regex: str | None, expected: list[str]
) -> None:
    report = describe(THREE, group_ids, regex=re.compile(regex) if regex else None)
    assert [row.group.group_id for row in report.data] == expected
    assert report.errors == ()


def test_missing_groups_are_errors_beside_the_rest() -> None:
    damage = Problem(ProblemKind.GARBAGE, "bytes")
    source = FakeSource(group("a"), problems=[damage])
    report = describe(source, ["a", "x", "x", "y"])
    assert [row.group.group_id for row in report.data] == ["a"]
    assert [(error.kind, error.group_id) for error in report.errors] == [
        ("not-found", "x"),
        ("not-found", "y"),
        ("garbage", None),
    ]


@pytest.mark.parametrize(
    ("names", "regex", "missing"),
    [
        (["x", "y"], None, [("x", ABSENT), ("y", ABSENT)]),
        ([], "x.*", [(None, "No group matches 'x.*'; 'kgroup list' lists all groups.")]),
        (
            ["y"],
            "x",
            [("y", ABSENT), (None, "No group matches 'x'; 'kgroup list' lists all groups.")],
        ),
    ],
)
def test_none_of_the_named_groups(
    names: list[str], regex: str | None, missing: list[tuple[str | None, str]]
) -> None:
    report = describe(THREE, names, regex=re.compile(regex) if regex else None)
    assert report.data == ()
    assert report.errors == tuple(
        Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id) for group_id, reason in missing
    )


def test_a_missing_group_that_is_like_one_that_is_there() -> None:
    source = FakeSource(group("billing"), group("shipping"))
    report = describe(source, ["biling", "nothing-like-it"])
    assert [error.reason for error in report.errors] == [
        "The group does not exist; did you mean 'billing'?",
        ABSENT,
    ]


def test_a_missing_group_where_the_source_cannot_tell_which_are_there() -> None:
    class Silent(FakeSource):
        def read(
            self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
        ) -> Reading:
            if group_ids is None:
                raise BrokerError(ProblemKind.UNREACHABLE, "no answer")
            return super().read(group_ids, question)

    report = describe(Silent(group("billing")), ["biling"])
    assert [error.reason for error in report.errors] == [ABSENT]


@pytest.mark.parametrize("names", [["x"], []])
def test_groups_that_may_be_in_what_could_not_be_read(names: list[str]) -> None:
    damage = Problem(
        ProblemKind.UNREADABLE, "The file cannot be read.", path="f", offsets_partition=3
    )
    source = FakeSource(group("a"), problems=[damage])
    report = describe(source, names, regex=re.compile("y"))
    missing = [
        Problem(ProblemKind.NOT_FOUND, "Not found in what could be read.", group_id=n)
        for n in names
    ]
    assert report.data == ()
    assert report.errors == (*missing, damage)


def test_a_problem_of_another_group_hides_none() -> None:
    problem = Problem(ProblemKind.BAD_RECORD, "A record.", group_id="a")
    (error,) = describe(FakeSource(problems=[problem]), ["x"]).errors
    assert (error.kind, error.group_id) == ("not-found", "x")
    assert describe(FakeSource(problems=[problem]), regex=re.compile("a+")).errors == (problem,)


def test_no_groups_at_all_is_no_error() -> None:
    assert describe(FakeSource()).data == ()


DATA = Path(__file__).parents[1] / "data"
SAMPLE = "sample-zookeeper"
FILES = {**{name: DATA / name / "snapshot.json" for name in TREES}, SAMPLE: sample_zookeeper()}
ONLY_IN_KAFKA = {
    (TREE, "migrating", "shipments", 3): (4, 13),
    (SAMPLE, "loyalty-points", "payments", 2): (4, 12),
}
"""Commits of the tool, which asks Kafka first, and of ZooKeeper."""


@pytest.mark.parametrize(
    ("name", "group_id"), [(name, each) for name in FILES for each in recorded(name)["checked"]]
)
def test_same_owners_offsets_ends_and_lags(name: str, group_id: str) -> None:
    source = snapshot_source(read_snapshot(FILES[name]))
    (group,) = describe(source, [group_id]).data
    assert group.group.type is GroupType.ZOOKEEPER
    found = {(row.topic, row.partition): row for row in group.offsets}
    rows = [row for row in recorded(name)["checked"][group_id] if "topic" in row]
    assert rows
    for theirs in rows:
        ours = found.pop((theirs["topic"], theirs["partition"]))
        place = (name, group_id, theirs["topic"], theirs["partition"])
        if place in ONLY_IN_KAFKA:
            assert (theirs["offset"], ours.committed_offset) == ONLY_IN_KAFKA[place]
        else:
            assert ours.committed_offset == (None if theirs["offset"] == -1 else theirs["offset"])
            assert ours.lag == theirs["lag"]
        assert ours.log_end_offset == theirs["log_size"]
        owner = None if ours.member_id is None else f"{ours.member_id}-{ours.owner_thread}"
        assert owner == theirs["owner"]
    assert {topic for topic, _ in found} <= {"returns"}  # the tool passes over what has no leader
    alive = set(recorded(name)["consumers"].values())
    members = {member.member_id for member in group.group.members}
    assert members == {each for each in alive if each.startswith(f"{group_id}_")}
    assert group.group.state is (GroupState.STABLE if members else GroupState.EMPTY)


@pytest.mark.parametrize("name", TREES)
def test_the_snapshot_has_the_nodes_and_ends_that_others_saw(name: str) -> None:
    snapshot = read_snapshot(FILES[name])
    saved = {node.path: node for node in snapshot.zookeeper or ()}
    seen = {node["path"]: node for node in recorded_nodes(name)}
    for path, node in saved.items():
        theirs = seen[path]
        assert (node.data, node.base64) == (theirs["text"], None), path
        assert node.stat.ctime_ms == theirs["stat"]["ctime"]
        if name == "zookeeper-0.8.0-beta1" and path.startswith("/consumers/billing/offsets/"):
            continue  # its auto commit, twice a second, writes what is written already
        assert node.stat.mtime_ms == theirs["stat"]["mtime"]
    told = {path for path, node in seen.items() if node["text"]}
    assert {path for path in told - saved.keys() if not path.startswith("/zookeeper")} == set()
    ends = {(row.topic, row.partition): row for row in snapshot.log_ranges}
    assert {
        at: (row.log_start_offset, row.log_end_offset)
        for at, row in ends.items()
        if row.log_end_offset is not None
    } == {at: (log.start, log.end) for at, log in recorded_ranges(name).items()}


def test_the_sample_is_read_without_trouble() -> None:
    source = snapshot_source(read_snapshot(sample_zookeeper()))
    reading = source.read()
    assert reading.zookeeper is not None
    assert decode_tree(reading.zookeeper).problems == ()
    assert set(reading.image.groups) == set(recorded(SAMPLE)["checked"])


NOW_MS = 1_700_000_000_000
PROBLEM = Problem(ProblemKind.NOT_AUTHORIZED, "Why.", topic="secret")


class FakeRecords(GroupSource):
    """Records with their timestamps."""

    def __init__(self, **timestamps: int | None) -> None:
        self.asked: list[Position] = []
        self._timestamps = timestamps

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        self.asked = sorted(positions)
        records = {at: NextRecord(at[2], self._timestamps[at[0]]) for at in positions}
        return NextReading(records, (PROBLEM,))


def test_time_lags() -> None:
    rows = {
        "behind": (CommittedOffset("behind", 0, 3), LogRange(0, 5)),
        "done": (CommittedOffset("done", 0, 5), LogRange(0, 5)),
        "timeless": (CommittedOffset("timeless", 0, 4), LogRange(0, 5)),
        "past": (CommittedOffset("past", 0, 6), LogRange(0, 5)),
        "before": (CommittedOffset("before", 0, 1), LogRange(2, 5)),
        "unknown": (CommittedOffset("unknown", 0, 1), LogRange()),
    }
    group = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.EMPTY,
        offsets=tuple(commit for commit, _ in rows.values()),
    )
    source = FakeSource(group, ranges={(name, 0): log for name, (_, log) in rows.items()})
    records = FakeRecords(behind=NOW_MS - 70, timeless=None)
    report = with_time_lags(describe(source), records, now_ms=NOW_MS)
    assert records.asked == [("behind", 0, 3), ("timeless", 0, 4)]
    (row,) = report.data
    assert {o.topic: (o.next_timestamp_ms, o.time_lag_ms) for o in row.offsets} == {
        "behind": (NOW_MS - 70, 70),
        "done": (None, 0),
        "timeless": (None, None),
        "past": (None, None),
        "before": (None, None),
        "unknown": (None, None),
    }
    assert row.max_time_lag_ms == 70
    assert report.errors == (PROBLEM,)


def test_only_what_consumers_never_see_is_left() -> None:
    class Markers(FakeRecords):
        def next_records(
            self, positions: Collection[Position], *, committed: bool = False
        ) -> NextReading:
            return NextReading(dict.fromkeys(positions, NextRecord()))

    group = Group(
        "g", GroupType.CLASSIC, GroupState.EMPTY, offsets=(CommittedOffset("orders", 0, 4),)
    )
    source = FakeSource(group, ends={("orders", 0): 5})
    (row,) = with_time_lags(describe(source), Markers(), now_ms=NOW_MS).data
    assert [(o.lag, o.next_timestamp_ms, o.time_lag_ms) for o in row.offsets] == [(1, None, 0)]
    assert row.max_time_lag_ms == 0


def test_share_groups_by_the_first_record_that_is_not_finished() -> None:
    shared = (
        ShareOffset("id", "orders", 0, start_offset=2, delivery_complete_count=1),
        ShareOffset("id", "orders", 1, start_offset=2, delivery_complete_count=3),
        ShareOffset("id", "orders", 2),
    )
    group = Group("g", GroupType.SHARE, GroupState.EMPTY, share_offsets=shared)
    source = FakeSource(group, ends={("orders", number): 5 for number in range(3)})
    records = FakeRecords(orders=NOW_MS - 9)
    (row,) = with_time_lags(describe(source), records, now_ms=NOW_MS).data
    assert records.asked == [("orders", 0, 2)]
    assert [(o.lag, o.time_lag_ms) for o in row.share_offsets or ()] == [
        (2, 9),
        (0, 0),
        (None, None),
    ]
    assert row.max_time_lag_ms == 9


def test_nothing_is_known_of_nothing() -> None:
    group = Group("g", GroupType.CLASSIC, GroupState.EMPTY)
    (row,) = with_time_lags(describe(FakeSource(group)), FakeRecords(), now_ms=NOW_MS).data
    assert row.max_time_lag_ms is None
