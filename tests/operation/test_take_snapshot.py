"""Snapshots of sources that are written down here, and what they are as sources themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kgroup.errors import BrokerError, InputError, ProblemKind
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Membership,
    Subscription,
)
from kgroup.model.log_range import LogRange, LogReading, OffsetMark
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.model.snapshot import Choice, Origin, Snapshot, SnapshotRange
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.base import Capability, GroupSource, Question
from kgroup.source.snapshot.source import ClusterSnapshotSource, SnapshotSource, snapshot_source
from tests.operation.sources import FakeSource

ONE, TWO = Broker(1, "one", 9092, "rack-a"), Broker(2, "two", 9092, "rack-b")
A = Group("a", GroupType.CLASSIC, GroupState.EMPTY, offsets=(CommittedOffset("t", 0, 5),))
B = Group("b", GroupType.CLASSIC, GroupState.EMPTY, offsets=(CommittedOffset("u", 1, 5),))
RANGES = {
    ("t", 0): LogRange(1, 9),
    ("t", 7): LogRange(0, 1),  # of no group
    ("u", 1): LogRange(mark=OffsetMark.NO_ANSWER),
}
OFFSETS = Topic(
    "__consumer_offsets", "id", {1: Partition(2, (2, 1), (2,)), 0: Partition(1, (1,), ())}
)
VIEW = ClusterView(
    "c",
    1,
    {2: TWO, 1: ONE},
    {"t": Topic("t", None, {0: Partition(None, (1,), ())}), OFFSETS.name: OFFSETS},
)
SILENT = BrokerError(ProblemKind.SILENT, "broker 2 did not answer", 2)


class FakeCluster(FakeSource):
    """A cluster; what it has no answer to ends in an error."""

    def __init__(self, *groups: Group, **options: Any) -> None:
        super().__init__(*groups, **options)
        self.asked: dict[str, Any] = {}
        self.silent: set[str] = set()

    def _ask(self, name: str, what: object) -> None:
        self.asked[name] = what
        if name in self.silent:
            raise SILENT

    def log_ranges(
        self, partitions: Collection[tuple[str, int]], *, committed: bool = False
    ) -> LogReading:
        self._ask("stable" if committed else "ends", set(partitions))
        reading = super().log_ranges(partitions)
        if not committed:
            return reading
        stable = {at: LogRange(log.start, log.end and log.end - 2) for at, log in RANGES.items()}
        return LogReading({at: stable[at] for at in reading.ranges}, reading.problems)

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        self._ask("placements", list(keys))
        return {key: Placement(2, ONE, None, TWO, (2, 1), (2,)) for key in keys}

    def view(self, topics: Collection[str]) -> ClusterView:
        self._ask("view", set(topics))
        return VIEW


def take(source: FakeSource, *group_ids: str, **options: Any) -> Snapshot:
    report = take_snapshot(source, Origin("cluster"), group_ids, taken_ms=7, **options)
    (snapshot,) = report.data
    return snapshot


def test_changelogs_of_streams_applications() -> None:
    """From their ends follow the lags of tasks (`kgroup assign`)."""
    changelog = "a-counts-changelog"
    asked: list[str] = []

    class Cluster(FakeCluster):
        def changelogs(self, applications: Collection[str]) -> dict[str, list[str]]:
            asked.append("changelogs")
            return {name: [f"{name}-counts-changelog"] for name in applications}

        def view(self, topics: Collection[str]) -> ClusterView:
            asked.append("view")
            topic = Topic(changelog, None, {0: Partition(None, (1,), ())})
            known = {**VIEW.topics, changelog: topic}
            return replace(VIEW, topics={name: known[name] for name in topics if name in known})

    applications = [replace(A, group_id=name, assignor="stream") for name in "ac"]
    ranges = {**RANGES, (changelog, 0): LogRange(0, 40)}
    snapshot = take(Cluster(*applications, B, ranges=ranges, capabilities=[Capability.COORDINATOR]))
    assert asked == ["changelogs", "view"], "once for all applications"
    saved = snapshot_source(snapshot)
    assert saved.changelogs(["a", "b"]) == {"a": [changelog], "b": []}
    assert saved.log_ranges([(changelog, 0)]).ranges[changelog, 0].end == 40


def test_asks_for_what_the_groups_have_to_do_with() -> None:
    cluster = FakeCluster(A, B, ranges=RANGES)
    snapshot = take(cluster, "a", "none")
    assert cluster.asked == {
        "ends": {("t", 0)},
        "stable": {("t", 0)},
        "view": {"t", "__consumer_offsets"},
        "placements": ["a", "none"],
    }
    assert snapshot.groups == (A,)
    assert snapshot.choice == Choice(("a", "none"), None)
    assert snapshot.log_ranges == (SnapshotRange("t", 0, 1, 9, 7, None),)
    assert [topic.topic for topic in snapshot.topics or ()] == ["__consumer_offsets", "t"]
    listed = [p.partition for p in (snapshot.topics or ())[0].partitions]
    assert listed == [1, 0], "as brokers list them, in which order leaders of kafka-go assign"
    assert list(snapshot_source(snapshot).view([OFFSETS.name]).topics[OFFSETS.name].partitions) == [
        1,
        0,
    ]
    assert (snapshot.brokers, snapshot.controller, snapshot.taken_ms) == ((ONE, TWO), 1, 7)


def test_missing_groups_are_errors_of_the_report_only() -> None:
    report = take_snapshot(FakeCluster(A), Origin("cluster"), ["a", "none"], taken_ms=7)
    assert [(error.kind, error.group_id) for error in report.errors] == [("not-found", "none")]
    assert report.data[0].problems == ()


@pytest.mark.parametrize(
    ("silent", "text", "is_of_log"),
    [
        ("ends", "Broker 2 did not answer; the offset ranges of partitions are missing.", True),
        ("view", "Broker 2 did not answer; brokers and topics are missing.", False),
        ("placements", "Broker 2 did not answer; the coordinators of groups are missing.", False),
    ],
)
def test_what_can_be_learnt_is_kept(silent: str, text: str, is_of_log: bool) -> None:
    cluster = FakeCluster(A, ranges=RANGES)
    cluster.silent = {silent}
    report = take_snapshot(cluster, Origin("cluster"), taken_ms=7)
    (snapshot,) = report.data
    assert snapshot.groups == (A,)
    problem = Problem(ProblemKind.SILENT, text, broker=2)
    assert report.errors == (problem,)
    assert (snapshot.log_problems if is_of_log else snapshot.problems) == (problem,)
    assert (snapshot.brokers is None) == (snapshot.topics is None) == (silent == "view")
    assert (snapshot.placements is None) == (silent == "placements")
    saved = SnapshotSource(snapshot)
    assert saved.read().problems == snapshot.problems
    assert saved.log_ranges([("t", 0)]).problems == snapshot.log_problems


def test_an_unreachable_cluster_gives_none() -> None:
    class Unreachable(FakeCluster):
        def read(self, *_: object) -> Any:
            raise SILENT

    with pytest.raises(BrokerError):
        take(Unreachable())


def test_without_a_look_into_the_log_it_knows_less() -> None:
    lost = {Capability.GENERATION, Capability.COMMIT_TIMESTAMPS}
    assert SnapshotSource(take(FakeCluster(A))).capabilities == set(Capability)
    source = SnapshotSource(take(FakeCluster(A), log_budget=0))
    assert source.capabilities == set(Capability) - lost
    assert source.read(["a"], Question(log_budget=0)).notes == ()
    (note,) = source.read(["a"]).notes
    assert "--log-budget" in note
    assert SnapshotSource(take(FakeSource(A), log_budget=0)).capabilities == set(Capability)


def test_a_source_that_is_no_cluster() -> None:
    snapshot = take(FakeSource(A, capabilities=[Capability.LOG_END_OFFSETS], ranges=RANGES))
    assert (snapshot.brokers, snapshot.topics, snapshot.placements) == (None, None, None)
    assert snapshot.log_ranges == (SnapshotRange("t", 0, 1, 9, None, None),)
    saved = SnapshotSource(snapshot)
    assert saved.log_ranges([("t", 0)], committed=True) == LogReading({("t", 0): LogRange(1, 9)})


# --- as a source ---


def test_log_ranges() -> None:
    problems = (
        Problem(ProblemKind.SILENT, "…", broker=2),
        Problem(ProblemKind.DENIED, "…", topic="t", partition=0),
    )
    cluster = FakeCluster(A, B, ranges=RANGES, range_problems=problems)
    saved = SnapshotSource(take(cluster))
    assert saved.log_ranges([("t", 0), ("x", 0)]).ranges == {("t", 0): LogRange(1, 9)}
    stable = saved.log_ranges([("t", 0)], committed=True)
    assert stable.ranges == {("t", 0): LogRange(1, 7, log_end=9)}
    assert saved.log_ranges([]) == LogReading({})
    assert saved.log_ranges([("t", 0)]).problems == problems[1:]
    assert saved.log_ranges([("u", 1)]).problems == problems[:1]
    assert saved.log_ranges([("t", 0), ("u", 1)]).problems == problems


def test_groups_that_nobody_asked_for() -> None:
    saved = SnapshotSource(take(FakeCluster(A, B), "a", regex=re.compile("x.*")))
    assert saved.read(["a", "x1"]).problems == ()
    reading = saved.read(["a", "b", "b"])
    assert list(reading.image.groups) == ["a"]
    assert [(problem.kind, problem.group_id) for problem in reading.problems] == [
        ("not-in-snapshot", "b")
    ]
    assert saved.read(["a"]).notes == ()
    (note,) = saved.read().notes
    assert "('a', --regex 'x.*')" in note
    assert len(saved.read(None, Question(regex=re.compile("y"))).notes) == 1
    assert saved.read(["a"], Question(regex=re.compile("x.*"))).notes == ()
    assert SnapshotSource(take(FakeCluster(A))).read(["b"]).problems == ()


def test_placements() -> None:
    saved = ClusterSnapshotSource(take(FakeCluster(A)))
    placed = saved.placements(["a", "b"])
    assert list(placed) == ["a", "b"]
    assert placed["a"] == Placement(2, ONE, None, TWO, (2, 1), (2,))
    # Java: "b".hashCode() is 98.
    assert placed["b"] == Placement(2, None, None, ONE, (1,), ())
    assert saved.view(["t", "x"]) == ClusterView(None, 1, VIEW.brokers, {"t": VIEW.topics["t"]})
    with pytest.raises(InputError, match="transactions"):
        saved.placements(["a"], transactional=True)


def test_a_cluster_without_groups() -> None:
    class Virgin(FakeCluster):
        def placements(self, *_: object, **__: object) -> Mapping[str, Placement]:
            return {}

        def view(self, topics: Collection[str]) -> ClusterView:
            return ClusterView("c", 1, {1: ONE}, {})

    assert ClusterSnapshotSource(take(Virgin())).placements(["a"]) == {}


def test_only_what_a_cluster_said_is_a_cluster() -> None:
    """Else it would seem that topics do not exist which the source knew nothing of."""
    assert snapshot_source(take(FakeCluster(A))).can(GroupSource.view)
    assert not snapshot_source(take(FakeSource(A))).can(GroupSource.view)
    cluster = FakeCluster(A)
    cluster.silent = {"view"}
    assert not snapshot_source(take(cluster)).can(GroupSource.view)


def test_asks_for_topics_that_a_group_shall_have_or_had() -> None:
    def part(topic: str) -> tuple[AssignedPartition, ...]:
        return (AssignedPartition(None, topic, 0),)

    before = Member("m", subscription=Subscription(("before",)), assignment=part("had"))
    member = Member("m", assignment=part("has"), target_assignment=part("shall-have"))
    stable = Membership(1, "m", "range", None, (before,))
    cluster = FakeCluster(replace(A, members=(member,), last_stable=stable))
    take(cluster)
    topics = {"t", "has", "shall-have", "had", "before", "__consumer_offsets"}
    assert cluster.asked["view"] == topics
