"""Plans for more partitions: keys are counted by remainders, records by what Kafka documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import ExitStatus, NotFoundError, ProblemKind, UsageError
from kgroup.model.group import Broker, Group, GroupState, Subscription
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.partitions import changed_keys, plan_partitions, reset_duration_ms
from kgroup.operation.plan.plan import Plan, SettingChange, Verdict
from kgroup.operation.plan.verify import StepProgress, verify_step
from kgroup.operation.report import Report
from kgroup.source.snapshot.source import read_source
from tests.operation.plan.fake_cluster import FakeCluster, classic_group, consumer_group, member
from tests.operation.sources import FakeSource


def two(**more: Any) -> Group:
    return classic_group(
        member(1, partitions=[("orders", 0), ("orders", 1)], **more),
        member(2, partitions=[("orders", 2), ("orders", 3)], **more),
    )


def report(
    *groups: Group, count: int = 6, named: tuple[str, ...] = (), **more: Any
) -> Report[Plan]:
    source = FakeCluster(*groups, topics={"orders": 4, "payments": 4, "returns": 2})
    return plan_partitions(source, "orders", count, named, ProgramBehavior(), **more)


def planned(group: Group, **more: Any) -> Plan:
    (plan,) = report(group, **more).data
    return plan


def verdict(plan: Plan, code: str) -> Verdict:
    (found,) = [
        precondition.verdict for precondition in plan.preconditions if precondition.code == code
    ]
    return found


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(4, 8, 1 / 2), (1, 3, 2 / 3), (6, 8, 3 / 4), (4, 6, 2 / 3)]
)
def test_keys_that_change_their_partition(before: int, after: int, expected: float) -> None:
    assert changed_keys(before, after) == pytest.approx(expected)
    hashes = range(before * after)
    changed = sum(each % before != each % after for each in hashes) / len(hashes)
    assert changed_keys(before, after) == pytest.approx(changed)


def test_members_that_begin_at_the_latest_record_are_restarted_first() -> None:
    plan = planned(two(), reset="latest")
    restart, grow = plan.steps
    (setting,) = restart.settings
    assert (setting.name, setting.before, setting.after) == (
        "auto.offset.reset",
        "latest",
        "earliest",
    )
    assert grow.commands == (
        "kafka-topics.sh --bootstrap-server kafka-1:9092 --alter --topic orders --partitions 6",
    )
    assert plan.forecast is not None
    assert plan.naive is not None
    assert plan.forecast.skipped == 0
    # Two partitions of ten records a second, until the leader looks after five minutes.
    assert plan.naive.forecast.skipped in range(2 * 10 * 299, 2 * 10 * 310)
    assert (grow.forecast and grow.forecast.rebalances) == 1


def test_members_that_look_more_often_skip_less() -> None:
    plan = planned(two(), reset="latest", max_age_ms=10_000)
    assert plan.naive is not None
    assert plan.naive.forecast.skipped in range(2 * 10 * 9, 2 * 10 * 16)


def test_members_that_begin_at_the_first_record_skip_nothing() -> None:
    plan = planned(two(), reset="earliest")
    (grow,) = plan.steps
    assert plan.naive is None
    assert grow.forecast is not None
    assert (grow.forecast.rebalances, grow.forecast.skipped, grow.forecast.read_again) == (1, 0, 0)


def test_what_members_do_is_not_guessed() -> None:
    plan = planned(two())
    assert verdict(plan, "auto-offset-reset") is Verdict.UNKNOWN
    assert plan.steps[0].settings[0].before is None
    assert plan.naive is not None
    assert plan.naive.forecast.skipped > 0
    assert "then step 1 is not needed" in plan.summary


def test_members_that_would_end_are_restarted_first_too() -> None:
    plan = planned(two(), reset="none")
    assert len(plan.steps) == 2
    assert plan.naive is None
    assert "NoOffsetForPartitionException" in plan.summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", None),
        ("by_duration:P1D", 86_400_000),
        ("by_duration:PT1H30M", 5_400_000),
        ("by_duration:p2dt3h4m5.06s", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_060),
        ("by_duration:PT0S", 0),
    ],
)
def test_values_of_auto_offset_reset(text: str, expected: int | None) -> None:
    assert reset_duration_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "smallest", "PT1H", *(f"by_duration:{each}" for each in ("", "P", "PT", "-PT1H"))]
)
def test_what_is_no_value_of_auto_offset_reset(text: str) -> None:
    with pytest.raises(ValueError, match="expected earliest, latest, none or by_duration:PnDT"):
        reset_duration_ms(text)


def test_members_that_begin_at_a_time_skip_what_is_older() -> None:
    """New partitions have records of the time since they were added, in which nobody looks."""
    plan = planned(two(), reset="by_duration:PT1H")
    (grow,) = plan.steps
    assert plan.naive is None
    assert grow.forecast is not None
    assert grow.forecast.skipped == 0
    assert verdict(plan, "auto-offset-reset") is Verdict.VERIFIED
    restart, _ = planned(two(), reset="by_duration:PT4M").steps
    assert restart.settings[0].before == "by_duration:PT4M"
    often = planned(two(), reset="by_duration:PT4M", max_age_ms=10_000)
    assert len(often.steps) == 1


def test_a_coordinator_of_consumer_groups_sees_it_at_once() -> None:
    group = consumer_group(
        member(1, partitions=[("orders", 0), ("orders", 1)], session_timeout_ms=None),
        member(2, partitions=[("orders", 2), ("orders", 3)], session_timeout_ms=None),
    )
    plan = planned(group, reset="latest")
    assert plan.naive is not None
    # Until the next heartbeats, every five seconds, whatever the age of metadata: at the worst
    # time both wait for all of that, and a poll() longer.
    assert 2 * 10 * 4.9 <= plan.naive.forecast.skipped < 2 * 10 * 6


@pytest.mark.parametrize(
    ("limit", "codec", "says", "is_sound"),
    [
        ("900", "0", "of max.message.bytes of __consumer_offsets (900): above that, Sync", True),
        ("300", "0", "bytes, more than max.message.bytes of __consumer_offsets (300): Sync", False),
        ("300", None, "more than max.message.bytes of __consumer_offsets (300): Sync", False),
        ("300", "4", None, True),
        (None, "4", None, True),
        ("5000", "0", None, True),
        (None, "0", None, True),
    ],
)
def test_a_record_near_the_limit_of_brokers(
    limit: str | None, codec: str | None, says: str | None, is_sound: bool
) -> None:
    source = FakeCluster(
        two(),
        topics={"orders": 4},
        settings={1: {} if codec is None else {"offsets.topic.compression.codec": codec}},
        of_offsets_topic={} if limit is None else {"max.message.bytes": limit},
    )
    found = plan_partitions(source, "orders", 6, (), ProgramBehavior(), reset="latest")
    notes = [note for note in found.notes if "max.message.bytes" in note]
    assert [says in note for note in notes if says is not None] == [True] * (says is not None)
    assert len(notes) == (says is not None)
    assert all(("compression.codec is unknown" in note) == (codec is None) for note in notes)
    (plan,) = found.data
    assert plan.is_sound is is_sound
    assert plan.forecast is not None
    # Two members with ids, client ids and hosts, a subscription and an assignment each.
    assert 300 < (plan.forecast.record_bytes or 0) < 900


@pytest.mark.parametrize(
    ("of_broker", "of_group"), [("15000", None), ("15000", "10000"), ("10000", "15000")]
)
def test_heartbeats_are_those_of_the_group(of_broker: str, of_group: str | None) -> None:
    group = consumer_group(
        member(1, partitions=[("orders", 0), ("orders", 1)], session_timeout_ms=None),
        member(2, partitions=[("orders", 2), ("orders", 3)], session_timeout_ms=None),
    )
    source = FakeCluster(
        replace(group, coordinator=Broker(1, "kafka-1", 9092)),
        topics={"orders": 4},
        settings={1: {"group.consumer.heartbeat.interval.ms": of_broker}},
        of_group=None if of_group is None else {"consumer.heartbeat.interval.ms": of_group},
    )
    (plan,) = plan_partitions(source, "orders", 6, (), ProgramBehavior(), reset="latest").data
    assert plan.naive is not None
    interval_s = int(of_group or of_broker) / 1000
    assert 2 * 10 * interval_s / 2 <= plan.naive.forecast.skipped <= 2 * 10 * (interval_s + 2)


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], Verdict.VERIFIED),
        ([("returns", 0), ("returns", 1)], Verdict.VERIFIED),
        ([("payments", n) for n in range(4)], Verdict.UNKNOWN),
    ],
)
def test_topics_with_as_many_partitions_may_be_joined(
    partitions: list[tuple[str, int]], expected: Verdict
) -> None:
    topics = tuple(dict.fromkeys(["orders", *(topic for topic, _ in partitions)]))
    first = [("orders", 0), ("orders", 1), *partitions]
    group = classic_group(
        member(1, partitions=first, topics=topics),
        member(2, partitions=[("orders", 2), ("orders", 3)], topics=topics),
    )
    assert verdict(planned(group), "joined") is expected


def test_partitions_without_commits_would_begin_anew() -> None:
    assert verdict(planned(two()), "commits") is Verdict.VERIFIED
    group = two()
    assert verdict(planned(replace(group, offsets=group.offsets[1:])), "commits") is Verdict.UNKNOWN
    plan = planned(replace(group, offsets=()), reset="earliest")
    assert "commits" not in {precondition.code for precondition in plan.preconditions}


def test_fewer_partitions_are_refused() -> None:
    found = report(two(), count=3)
    assert found.exit_status is ExitStatus.PROBLEM
    (plan,) = found.data
    assert (verdict(plan, "more-partitions"), plan.steps) == (Verdict.REFUTED, ())


def test_what_is_reached_is_said() -> None:
    found = report(two(), count=4)
    assert found.exit_status is ExitStatus.DONE
    assert found.data[0].steps == ()
    assert found.data[0].summary.startswith("Nothing to do")


@pytest.mark.parametrize("count", [3, 4])
def test_no_key_moves_where_no_partition_is_added(count: int) -> None:
    (plan,) = report(two(), count=count).data
    assert {precondition.code for precondition in plan.preconditions} == {
        "stable",
        "more-partitions",
    }


def test_a_source_without_topics_does_not_tell_that_nothing_is_to_be_done() -> None:
    """Members own four partitions; there may be more that nobody reads yet."""
    (plan,) = plan_partitions(FakeSource(two()), "orders", 4, ("billing",), ProgramBehavior()).data
    assert verdict(plan, "more-partitions") is Verdict.UNKNOWN
    assert plan.summary.startswith("Nothing to do if orders has 4 partitions: ")
    stopped = replace(two(), members=(), state=GroupState.EMPTY)
    (plan,) = plan_partitions(
        FakeSource(stopped), "orders", 4, ("billing",), ProgramBehavior()
    ).data
    assert plan.summary.startswith("Nothing to do if orders has 4 partitions: ")
    cluster = FakeCluster(stopped, topics={"orders": 4})
    (plan,) = plan_partitions(cluster, "orders", 4, ("billing",), ProgramBehavior()).data
    assert plan.summary == "Nothing to do: orders has 4 partitions."


def test_a_group_that_does_not_know_yet_of_new_partitions() -> None:
    """Somebody has added them, and its members own four of six."""
    cluster = FakeCluster(two(), topics={"orders": 6})
    (plan,) = plan_partitions(cluster, "orders", 6, ("billing",), ProgramBehavior()).data
    assert "owns 4 of them so far" in plan.summary


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_kafkas_own_topics_are_refused(topic: str) -> None:
    with pytest.raises(UsageError, match="expected a topic of programs"):
        plan_partitions(FakeCluster(two()), topic, 100, (), ProgramBehavior())


def test_topics_that_are_not_there() -> None:
    with pytest.raises(NotFoundError, match="topic never: The topic does not exist"):
        plan_partitions(FakeCluster(two(), topics={"orders": 4}), "never", 8, (), ProgramBehavior())
    with pytest.raises(NotFoundError, match="topic never: expected groups that read it"):
        plan_partitions(FakeSource(two()), "never", 8, (), ProgramBehavior())


def test_a_source_that_does_not_know_topics_counts_what_is_assigned() -> None:
    (plan,) = plan_partitions(FakeSource(two()), "orders", 6, (), ProgramBehavior()).data
    assert verdict(plan, "more-partitions") is Verdict.UNKNOWN
    assert len(plan.steps) == 2


def other(group_id: str, group: Group) -> Group:
    return replace(group, group_id=group_id)


def test_every_group_that_reads_the_topic_is_planned_for() -> None:
    reads = classic_group(
        member(1, partitions=[("payments", n) for n in range(4)], topics=("payments",))
    )
    regex = consumer_group(
        replace(
            member(1, partitions=[("orders", n) for n in range(4)], session_timeout_ms=None),
            subscription=Subscription((), regex="ord.*"),
        )
    )
    away = replace(two(), members=(), leader_id=None)
    found = report(two(), other("pays", reads), other("regex", regex), other("away", away))
    assert [plan.group_id for plan in found.data] == ["billing", "regex"]
    (note,) = [each for each in found.notes if "without members" in each]
    assert "new partitions: away; run when these exist, and before members return" in note
    reset = "kgroup offsets reset away -b kafka-1:9092 --topic orders:4,5 --uncommitted"
    assert f"{reset} --to-earliest --execute" in note
    found = report(two(), other("one", away), other("two", away))
    (note,) = [each for each in found.notes if "without members" in each]
    assert "new partitions: one, two;" in note
    assert "kgroup offsets reset GROUP -b kafka-1:9092 --topic orders:4,5" in note


@pytest.mark.parametrize("count", [3, 4])
def test_no_group_is_said_to_miss_partitions_that_are_not_added(count: int) -> None:
    away = other("away", replace(two(), members=(), leader_id=None))
    found = report(two(), away, count=count)
    assert [plan.steps for plan in found.data] == [()]
    assert found.notes == ()


def test_nobody_reads_it() -> None:
    found = report()
    assert (found.data, found.exit_status) == ((), ExitStatus.DONE)
    assert found.notes == ("no group has members that read orders",)


def test_groups_that_cannot_be_planned_for_are_problems() -> None:
    streams = other("app", replace(two(), assignor="stream"))
    found = report(two(), streams)
    assert [plan.group_id for plan in found.data] == ["billing"]
    (problem,) = found.errors
    assert (problem.group_id, found.exit_status) == ("app", ExitStatus.PARTLY)
    assert "'stream'" in problem.reason
    reads = classic_group(member(1, partitions=[("payments", 0)], topics=("payments",)))
    (problem,) = report(reads, named=("billing",)).errors
    assert problem.reason == "expected members that read orders, found payments"
    (problem,) = report(two(), named=("nobody",)).errors
    assert problem.kind is ProblemKind.NOT_FOUND


def check(plan: Plan, group: Group, count: int | None) -> StepProgress:
    topics = None if count is None else {"orders": count}
    source = FakeSource(group) if count is None else FakeCluster(group, topics=topics)
    (found,) = verify_step(source, [plan], plan.steps[-1].number).data
    return found.progress


def test_the_step_is_done_when_all_partitions_have_owners() -> None:
    group = two()
    plan = planned(group, reset="earliest")
    grown = classic_group(
        member(1, partitions=[("orders", 0), ("orders", 1), ("orders", 4)]),
        member(2, partitions=[("orders", 2), ("orders", 3), ("orders", 5)]),
    )
    assert check(plan, group, 4) is StepProgress.NOT_BEGUN
    assert check(plan, group, 6) is StepProgress.HALF_DONE
    assert check(plan, group, None) is StepProgress.HALF_DONE
    assert check(plan, grown, 6) is StepProgress.DONE
    assert check(plan, grown, 8) is StepProgress.DONE  # somebody else has added more
    assert check(plan, grown, None) is StepProgress.DONE


def test_a_topic_that_a_cluster_does_not_have_may_be_one_that_groups_read() -> None:
    with pytest.raises(NotFoundError, match="does not exist; did you mean 'orders'"):
        plan_partitions(FakeCluster(two(), topics={"orders": 4}), "ordes", 6, (), ProgramBehavior())
    with pytest.raises(NotFoundError, match=r"does not exist\.$"):
        plan_partitions(FakeCluster(two(), topics={"orders": 4}), "xyz", 6, (), ProgramBehavior())


@pytest.mark.parametrize(
    ("group_id", "setting", "first", "default"),
    [
        ("g12-kgo", "kgo.ConsumeStartOffset", "kgo.NewOffset().AtStart()", "earliest is the def"),
        ("g13-kafkago", "StartOffset", "kafka.FirstOffset", "earliest is the default"),
        ("g14-sarama", "Consumer.Offsets.Initial", "sarama.OffsetOldest", "the default"),
    ],
)
def test_the_reset_has_the_name_and_the_default_of_the_members_library(
    group_id: str, setting: str, first: str, default: str
) -> None:
    source = read_source(Path(__file__).parents[2] / "data/field/go-clients-snapshot.json")
    (plan,) = plan_partitions(source, "orders", 12, (group_id,), ProgramBehavior()).data
    assert f"With {setting}=latest, {default}" in plan.summary
    assert plan.steps[0].settings == (SettingChange(None, setting, None, first),)
    assert not any("auto.offset.reset" in each.text for each in plan.preconditions)
