from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.cluster import Placement
from kgroup.model.group import Broker, Group, GroupType
from kgroup.model.offsets_partition import offsets_partition
from kgroup.model.problem import Problem
from kgroup.operation.locate import locate, locate_transactions
from kgroup.source.base import CoordinatorAnswer
from tests.operation.sources import FakeSource


@pytest.mark.parametrize(
    ("group_id", "count", "expected"),
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("Hello World", 50, 26),  # hash -862545276
        ("polygenelubricants", 50, 0),  # hash Integer.MIN_VALUE, whose abs is 0 to Kafka
        ("polygenelubricants", 7, 0),
    ],
)
def test_partition(group_id: str, count: int, expected: int) -> None:
    assert offsets_partition(group_id, count) == expected


def group(group_id: str, partition: int) -> Group:
    return Group(group_id, GroupType.CLASSIC, None, offsets_partition=partition)


def test_without_a_source() -> None:
    report = locate(["a", "", "a"])
    assert [(row.group_id, row.offsets_partition) for row in report.data] == [("a", 47), ("", 0)]
    assert {(row.partition_count, row.found_in, row.agrees) for row in report.data} == {
        (50, None, None)
    }
    (note,) = report.notes
    assert "50" in note


def test_with_a_count() -> None:
    report = locate(["a"], partition_count=4)
    assert (report.data[0].offsets_partition, report.data[0].partition_count) == (1, 4)
    assert report.notes == ()


def test_count_of_the_source_is_taken_unless_another_is_given() -> None:
    source = FakeSource(group("a", 1), partition_count=4)
    row = locate(["a"], source).data[0]
    assert (row.offsets_partition, row.found_in, row.agrees) == (1, 1, True)
    assert locate(["a"], source).notes == ()
    assert locate(["a"], source, partition_count=50).data[0].offsets_partition == 47


def test_group_found_elsewhere() -> None:
    report = locate(["a", "b"], FakeSource(group("a", 3), partition_count=4))
    assert [(row.found_in, row.agrees) for row in report.data] == [(3, False), (None, None)]
    (note,) = report.notes
    assert note.startswith("1 of 2 groups")


def test_coordinator_of_a_live_source() -> None:
    broker = Broker(1, "h", 9092)
    live = Group("a", GroupType.CLASSIC, None, coordinator=broker)
    assert locate(["a"], FakeSource(live)).data[0].coordinator == broker


class FakeCluster(FakeSource):
    """Has coordinators too."""

    def __init__(self, *, of_transactions: bool = False, **placements: Placement) -> None:
        super().__init__()
        self._of_transactions = of_transactions
        self._placements = placements

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        assert transactional == self._of_transactions
        return {key: self._placements[key] for key in keys if key in self._placements}


def test_live_cluster() -> None:
    one, two = Broker(1, "one", 9092), Broker(2, "two", 9092)
    cluster = FakeCluster(
        same=Placement(6, one, None, one, (1, 2), (1,)),
        moving=Placement(6, two, None, one, (1, 2), (1, 2)),
        lost=Placement(6, None, "COORDINATOR_NOT_AVAILABLE", None, (1, 2), ()),
    )
    report = locate(["same", "lost", "moving", "same"], cluster)
    assert [(row.group_id, row.agrees, row.coordinator, row.leader) for row in report.data] == [
        ("same", True, one, one),
        ("lost", None, None, None),
        ("moving", False, two, one),
    ]
    for row in report.data:
        assert row.offsets_partition == offsets_partition(row.group_id, 6)
        assert row.partition_count == 6
    assert [(error.kind, error.group_id) for error in report.errors] == [("no-coordinator", "lost")]
    assert "COORDINATOR_NOT_AVAILABLE" in report.errors[0].reason
    assert report.notes == ()


def test_live_cluster_without_the_topic() -> None:
    report = locate(["g"], FakeCluster())
    (row,) = report.data
    assert (row.partition_count, row.coordinator, row.agrees) == (50, None, None)
    assert report.errors == ()
    assert "no topic __consumer_offsets" in report.notes[0]


def test_live_cluster_that_does_not_show_the_topic() -> None:
    one = Broker(1, "one", 9092)
    report = locate(["g"], FakeCluster(g=Placement(None, one, None, None, None, None)))
    (row,) = report.data
    assert (row.coordinator, row.leader, row.agrees) == (one, None, None)
    (note,) = report.notes
    assert "the actual number is unknown: the cluster does not report the topic" in note


def test_transactions() -> None:
    one, two = Broker(1, "one", 9092), Broker(2, "two", 9092)
    cluster = FakeCluster(
        of_transactions=True,
        same=Placement(6, one, None, one, (1, 2), (1,)),
        moving=Placement(6, two, None, one, (1, 2), (1, 2)),
        lost=Placement(6, None, "COORDINATOR_NOT_AVAILABLE", None, (1, 2), ()),
    )
    report = locate_transactions(["same", "lost", "moving", "same"], cluster)
    assert [(r.transactional_id, r.agrees, r.coordinator, r.leader) for r in report.data] == [
        ("same", True, one, one),
        ("lost", None, None, None),
        ("moving", False, two, one),
    ]
    assert {row.partition_count for row in report.data} == {6}
    assert [row.isr for row in report.data] == [(1,), (), (1, 2)]
    (error,) = report.errors
    assert (error.kind, error.group_id) == ("no-coordinator", None)
    assert "'lost'" in error.reason
    assert report.notes == ()


@pytest.mark.parametrize(("count", "partition", "notes"), [(None, 47, 1), (7, 97 % 7, 0)])
def test_transactions_without_a_cluster(count: int | None, partition: int, notes: int) -> None:
    """Java: "a".hashCode() is 97."""
    report = locate_transactions(["a"], partition_count=count)
    (row,) = report.data
    assert (row.transaction_partition, row.partition_count) == (partition, count or 50)
    assert (row.coordinator, row.agrees) == (None, None)
    assert len(report.notes) == notes


def test_transactions_where_the_cluster_has_none() -> None:
    report = locate_transactions(["a"], FakeCluster(of_transactions=True))
    assert [(row.transaction_partition, row.leader) for row in report.data] == [(47, None)]
    assert "no topic __transaction_state" in report.notes[0]
    assert report.errors == ()


class Answering(FakeSource):
    """Broker 1 coordinates all groups, and answers only about "a"."""

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        at = Placement(4, Broker(1, "h", 9), None, Broker(1, "h", 9), (1,), (1,))
        return {key: replace(at, coordinator=None) if key == "nowhere" else at for key in keys}

    def coordinator_answers(
        self, coordinators: Mapping[str, int]
    ) -> Mapping[str, CoordinatorAnswer]:
        assert set(coordinators.values()) == {1}
        silent = Problem(ProblemKind.SILENT, "It is silent.", group_id="b", broker=1)
        answers = {"a": CoordinatorAnswer(1.5), "b": CoordinatorAnswer(None, silent)}
        return {group_id: answers[group_id] for group_id in coordinators}


def test_answers_of_coordinators() -> None:
    report = locate(["a", "b", "nowhere"], Answering())
    assert [(row.answer_ms, row.answer_error) for row in report.data] == [
        (1.5, None),
        (None, "It is silent."),
        (None, None),
    ]
    assert [(problem.group_id, problem.kind) for problem in report.errors] == [("b", "silent")]
    assert report.exit_status == 4
