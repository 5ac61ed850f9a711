"""Plans by which Java's consumers take the place of those on ZooKeeper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import pytest

from kgroup.errors import ExitStatus
from kgroup.model.group import GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.new_consumer import plan_new_consumer
from kgroup.operation.plan.plan import Plan, Precondition, Verdict
from kgroup.operation.plan.zookeeper_group import plan_old
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource
from tests.operation.plan.old_tree import COMMITTED, GROUP, IDS, changed, empty, source, stopped
from tests.operation.sources import TreeSource
from tests.recorded_tree import recorded

LAG = sum(row["lag"] for row in recorded()["checked"][GROUP])
"""Of all partitions, says ConsumerOffsetChecker."""
READ = sum(COMMITTED.values())
"""All logs begin at 0."""
RATE = 10
"""Records a second that the simulator writes into each partition."""
NEWER = changed(brokers=4)


def _report(
    found: GroupSource, settings: Mapping[str, str] | None = None, group_id: str = GROUP
) -> Report[Plan]:
    make = partial(plan_new_consumer, behavior=ProgramBehavior())
    return plan_old(found, [group_id], settings or {}, "zk-1:2181/kafka", make)


def _plan(
    found: GroupSource, settings: Mapping[str, str] | None = None, group_id: str = GROUP
) -> Plan:
    (plan,) = _report(found, settings, group_id).data
    return plan


def _of(plan: Plan, code: str) -> Precondition:
    (precondition,) = [each for each in plan.preconditions if each.code == code]
    return precondition


def test_the_old_ones_stop_commits_are_copied_and_new_ones_start() -> None:
    plan = _plan(source(NEWER, members=0))
    assert [step.number for step in plan.steps] == [1, 2, 3]
    stop, copy, start = (step.expected for step in plan.steps)
    assert (stop.type, stop.state, stop.commits) == (GroupType.ZOOKEEPER, GroupState.EMPTY, None)
    assert (copy.type, copy.state) == (GroupType.ZOOKEEPER, GroupState.EMPTY)
    assert copy.commits is CommitStore.BOTH
    assert (start.type, start.assignor) == (GroupType.CLASSIC, "range")
    assert (start.members, start.topics) == (4, ("orders", "payments"))
    command, _ = plan.steps[1].commands
    assert re.fullmatch(
        r"kgroup offsets copy zookeeper:zk-1:2181/kafka kafka:127\.0\.0\.1:\d+,127\.0\.0\.1:\d+ "
        r"--group billing --execute",
        command,
    )
    copies = plan.steps[1].copies
    assert copies is not None
    assert copies.command("billing", "not-asked:9092") == command
    verdicts = {precondition.code: precondition.verdict for precondition in plan.preconditions}
    assert verdicts == {
        "broker-version": Verdict.VERIFIED,
        "client-version": Verdict.UNKNOWN,
        "alone": Verdict.VERIFIED,
        "storage": Verdict.VERIFIED,
        "committed": Verdict.VERIFIED,
    }


def test_a_consumer_for_each_thread() -> None:
    """Two streams of "orders" and one of "payments": the second thread reads "orders" alone."""
    action = _plan(source(NEWER)).steps[2].actions[0]
    assert action.endswith(
        "createMessageStreams(payments:1, orders:2) becomes 2 consumers, each with a thread of its "
        "own, subscribe(orders, payments); subscribe(orders)."
    )


def test_what_it_costs() -> None:
    """All partitions stop until new consumers read them, and each has another owner then."""
    plan = _plan(source(NEWER))
    stop, copy, start = (step.forecast for step in plan.steps)
    assert stop is not None
    assert start is not None
    assert copy is None
    count = len(COMMITTED)
    assert (stop.stopped, stop.moved, start.moved) == (count, 0, count)
    # 5 s of a restart, and 3 s of group.initial.rebalance.delay.ms, or twice that
    assert 8_000 < (stop.longest_stop_ms or 0) < 13_000
    assert plan.forecast is not None
    assert (plan.forecast.read_again, plan.forecast.skipped) == (0, 0)
    assert plan.forecast.stopped_ms == stop.stopped_ms
    assert "would skip 30 records" in plan.steps[1].actions[1]
    assert LAG == 30
    assert f"earliest would read {READ} again" in plan.steps[1].actions[1]


def test_side_by_side_each_record_is_read_twice() -> None:
    plan = _plan(source(NEWER))
    assert plan.naive is not None
    latest = plan.naive.forecast
    # from the first new consumer to the end of the last old one: a pause between two restarts
    assert latest.read_again >= len(COMMITTED) * RATE * 5
    assert latest.skipped == 0
    earliest = _plan(source(NEWER), {"auto.offset.reset": "smallest"}).naive
    assert earliest is not None
    assert earliest.forecast.read_again == latest.read_again + READ


def test_without_a_copy_of_commits_a_pause_is_skipped() -> None:
    """Where the only old consumer ends before the new one comes."""
    plan = _plan(source(stopped(IDS[1], brokers=4)))
    # its partitions alone are read until then
    assert plan.naive is not None
    owned = sum(row["owner"].rpartition("-")[0] == IDS[0] for row in recorded()["checked"][GROUP])
    assert plan.naive.forecast.skipped >= owned * RATE * 5
    assert plan.naive.forecast.read_again == 0


@pytest.mark.parametrize("version", [1, None])
def test_brokers_that_do_not_coordinate(version: int | None) -> None:
    """Those of the recorded cluster are of 0.8.2.2."""
    report = _report(source(changed(brokers=version)))
    (plan,) = report.data
    assert _of(plan, "broker-version").verdict is Verdict.REFUTED
    assert plan.steps == ()
    assert report.exit_status is ExitStatus.PROBLEM


def test_where_no_broker_is_there_nothing_is_known_of_them() -> None:
    plan = _plan(source(changed(without=("/brokers/ids/",))))
    assert _of(plan, "broker-version").verdict is Verdict.UNKNOWN
    assert "kafka:HOST:PORT" in plan.steps[1].commands[0]


def test_both_kinds_at_once_read_everything_twice() -> None:
    plan = _plan(source(NEWER, members=2))
    alone = _of(plan, "alone")
    assert alone.verdict is Verdict.REFUTED
    assert alone.found is not None
    assert "has 2 members, and 2 members in ZooKeeper" in alone.found
    assert _of(_plan(TreeSource(NEWER)), "alone").verdict is Verdict.UNKNOWN


def test_a_group_that_was_stopped_already() -> None:
    there = empty(brokers=4)
    copy, start = _plan(source(there)).steps
    assert (copy.title, start.title) == (
        "Copy the commits from ZooKeeper to Kafka",
        "Start new consumers",
    )
    (start,) = _plan(source(there, COMMITTED)).steps
    assert (start.number, start.title) == (1, "Start new consumers")
    assert start.forecast is None
    ahead = {at: offset + 1 for at, offset in COMMITTED.items()}
    report = _report(source(there, ahead, members=1))
    assert report.exit_status is ExitStatus.DONE
    (plan,) = report.data
    assert plan.steps == ()
    assert plan.summary == (
        "Nothing to do: the group has one member in Kafka, and none in ZooKeeper."
    )


def test_commits_that_are_in_kafka_are_not_copied() -> None:
    tree = changed(without=(f"/consumers/{GROUP}/offsets/",), brokers=4)
    plan = _plan(source(tree, COMMITTED))
    assert [step.title for step in plan.steps] == ["Stop all old consumers", "Start new consumers"]


@pytest.mark.parametrize("there", [NEWER, empty(brokers=4)], ids=["running", "stopped"])
@pytest.mark.parametrize("more", [-1, 1], ids=["behind", "ahead"])
def test_nothing_is_copied_from_where_perhaps_nobody_commits(
    there: ZookeeperTree, more: int
) -> None:
    """Which store is the old one cannot be seen: a copy of it would skip records or repeat them."""
    kafka = {at: offset + more for at, offset in COMMITTED.items()}
    report = _report(source(there, kafka))
    (plan,) = report.data
    assert _of(plan, "storage").verdict is Verdict.REFUTED
    assert plan.steps == ()
    assert report.exit_status is ExitStatus.PROBLEM
    settings = {"offsets.storage": "zookeeper"}
    copies = [step.title.startswith("Copy") for step in _plan(source(there, kafka), settings).steps]
    assert copies.count(True) == 1
    settings = {"offsets.storage": "kafka"}  # and to both
    steps = _plan(source(there, kafka), settings).steps
    assert not any(step.title.startswith("Copy") for step in steps)
    if there is NEWER:  # what is in both is compared when nobody commits any more
        assert steps[0].expected.commits is CommitStore.BOTH


def test_partitions_without_a_commit_are_named() -> None:
    tree = changed(without=(f"/consumers/{GROUP}/offsets/payments/1",), brokers=4)
    committed = _of(_plan(source(tree)), "committed")
    assert (committed.verdict, committed.found) == (Verdict.UNKNOWN, "none yet: payments-1")


@pytest.mark.parametrize(
    ("name", "consumers"), [("audit", [3]), ("warehouse", [2, 1])], ids=["black", "white"]
)
def test_lists_become_patterns_of_the_same_topics(name: str, consumers: list[int]) -> None:
    """A pattern matches as a whole, in Java as here."""
    plan = _plan(source(NEWER), group_id=name)
    actions = [each for each in plan.steps[2].actions if "subscribe(Pattern)" in each]
    assert len(actions) == len(consumers)
    topics = {row["topic"] for row in recorded()["checked"][name] if "topic" in row}
    for action, count in zip(actions, consumers, strict=True):
        match = re.search(r"becomes (.+), .*subscribe\(Pattern\) with (.+); new topics", action)
        assert match is not None
        assert match[1].startswith("one consumer" if count == 1 else f"{count} consumers")
        every = set(recorded()["topics"])
        assert {topic for topic in every if re.fullmatch(match[2], topic)} == topics


def test_new_consumers_are_not_played_as_old_ones() -> None:
    """Kafka 0.8.2 has no coordinator, and none of Java's consumers of groups."""
    told = _plan(source(NEWER, members=0)).assumed[0]
    assert re.fullmatch(
        r"the old consumers .* Kafka 0\.8\.2, the new ones .* Kafka 4\.\d\.\d", told
    )
