"""Plans to the consumer protocol and back: who is restarted, what must hold, what is refused.

What brokers do is from `GroupMetadataManager` of 4.3.1; they do it in
`tests/broker/test_plan_consumer_protocol`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kgroup.errors import BrokerError, ExitStatus, ProblemKind, UsageError
from kgroup.model.client_library import Certainty
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
)
from kgroup.model.problem import Problem
from kgroup.operation.plan.consumer_protocol import plan_consumer_protocol
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import Plan, Verdict
from kgroup.operation.plan.running_group import plan_each, read_running
from kgroup.operation.plan.verify import StepProgress, verify_step, with_members_seen
from kgroup.source.base import BrokerFeatures, SettingReading
from tests.operation.sources import FakeSource


@dataclass(frozen=True)
class Told:
    """What a broker tells: what it can, its settings and those of the group; else why not."""

    apis: Mapping[int, int]
    levels: Mapping[str, int] | None
    settings: Mapping[str, str] = field(default_factory=dict)
    group_settings: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None


NEW = Told({68: 1}, {"group.version": 1})
"""A broker of 4.x that tells none of its settings."""
SETTINGS = {
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.max.size": "2147483647",
    "group.max.size": "2147483647",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
}
"""As a broker of 4.3.1 has them where nobody has changed any."""


class LiveSource(FakeSource):
    """Groups of a broker that tells what it can."""

    def __init__(self, group: Group, told: Told | BrokerError) -> None:
        super().__init__(replace(group, coordinator=Broker(1, "kafka-1", 9092)))
        self._told = told

    @property
    def told(self) -> Told:
        if isinstance(self._told, BrokerError):
            raise self._told
        return self._told

    def features(self, broker_id: int) -> BrokerFeatures:
        assert broker_id == 1
        return BrokerFeatures(self.told.apis, self.told.levels)

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        return {}

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        if self.told.refused is not None:
            problem = Problem(ProblemKind.DENIED, self.told.refused, broker=1)
            return SettingReading({}, (problem,))
        return SettingReading(
            {
                1: {name: self.told.settings[name] for name in names if name in self.told.settings},
                2: {},
            }
        )

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        return {
            name: self.told.group_settings[name]
            for name in names
            if name in self.told.group_settings
        }


def telling(**changed: str) -> Told:
    """A broker of 4.3.1 with some settings changed; names have `_` for `.`."""
    own = {name.replace("_", "."): value for name, value in changed.items()}
    return replace(NEW, settings={**SETTINGS, **own})


def member(name: str, partition: int, **more: Any) -> Member:
    fields: dict[str, Any] = {
        "client_id": name,
        "session_timeout_ms": 45_000,
        "subscription": Subscription(("t",)),
        "assignment": (AssignedPartition(None, "t", partition),),
    }
    return Member(f"{name}-id", **{**fields, **more})


def classic(*members: Member, strategy: str = "range") -> Group:
    return Group(
        "g",
        GroupType.CLASSIC,
        GroupState.STABLE,
        "consumer",
        strategy,
        7,
        leader_id=members[0].member_id,
        members=members,
    )


def modern(classic_by_name: Mapping[str, bool | None], **more: Any) -> Group:
    members = tuple(
        member(
            name,
            number,
            session_timeout_ms=None,
            member_epoch=9,
            uses_classic_protocol=is_classic,
            **more,
        )
        for number, (name, is_classic) in enumerate(classic_by_name.items())
    )
    return Group(
        "g",
        GroupType.CONSUMER,
        GroupState.STABLE,
        "consumer",
        "uniform",
        group_epoch=9,
        assignment_epoch=9,
        members=members,
    )


PAIR = (member("a", 0), member("b", 1))


def plan(group: Group, features: Told | BrokerError | None = None, **options: Any) -> Plan:
    source = FakeSource(group) if features is None else LiveSource(group, features)
    return plan_consumer_protocol(read_running(source, "g"), ProgramBehavior(), **options)


def verdict(found: Plan, code: str) -> Verdict:
    (precondition,) = (
        precondition for precondition in found.preconditions if precondition.code == code
    )
    return precondition.verdict


def refuted(found: Plan) -> list[str]:
    return [
        precondition.code
        for precondition in found.preconditions
        if precondition.verdict is Verdict.REFUTED
    ]


def test_one_member_goes_first() -> None:
    found = plan(classic(*PAIR, member("c", 2)), telling())
    assert [step.restarted for step in found.steps] == [("a",), ("b", "c")]
    assert [step.expected.protocol for step in found.steps] == [None, "consumer"]
    assert refuted(found) == []
    assert verdict(found, "broker-support") is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("policy", "back", "told"),
    [
        ("bidirectional", False, "Restart these members again with their previous"),
        ("upgrade", False, "policy is upgrade, the group stays a consumer group: stop all members"),
        (None, False, "is not downgrade or bidirectional, the group stays a consumer group"),
        ("bidirectional", True, "Restart the members one by one"),
        ("downgrade", True, "get GROUP_ID_NOT_FOUND: once the group is classic, stop all members"),
    ],
)
def test_the_way_back_hangs_on_the_policy(policy: str | None, back: bool, told: str) -> None:
    broker = NEW if policy is None else telling(group_consumer_migration_policy=policy)
    group = modern({"a": False, "b": False}) if back else classic(*PAIR)
    for step in plan(group, broker, back=back).steps:
        assert told in (step.back or "")


def test_protocols_of_a_broker_may_have_blanks() -> None:
    told = telling(group_coordinator_rebalance_protocols="classic, consumer")
    assert verdict(plan(classic(*PAIR), told), "broker-support") is Verdict.VERIFIED


def test_a_group_of_one_has_one_step() -> None:
    (step,) = plan(classic(member("a", 0)), telling()).steps
    assert (step.restarted, step.expected.protocol) == (("a",), "consumer")


def test_settings_that_java_refuses_are_taken_out() -> None:
    """`ConsumerConfig.CONSUMER_PROTOCOL_UNSUPPORTED_CONFIGS`, and the one of the classic one."""
    (first, *_) = plan(classic(*PAIR), telling()).steps
    after = {setting.name: setting.after for setting in first.settings}
    assert after == {
        "group.protocol": "consumer",
        "group.remote.assignor": "range",
        "partition.assignment.strategy": None,
        "session.timeout.ms": None,
        "heartbeat.interval.ms": None,
    }
    (step,) = plan(modern({"a": False}), telling(), back=True).steps
    after = {setting.name: setting.after for setting in step.settings}
    assert after == {
        "group.protocol": "classic",
        "group.remote.assignor": None,
        "partition.assignment.strategy": (
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        ),
    }


@pytest.mark.parametrize(
    ("assignors", "strategy", "asked"),
    [
        ("uniform,range", "range", "range"),
        ("uniform,range", "sticky", None),  # the broker takes the first
        ("range,uniform", "range", None),
        ("range,uniform", "roundrobin", "uniform"),
        (
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor,"
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",  # as 3.9 has them
            "range",
            "range",
        ),
    ],
)
def test_the_assignor_that_is_nearest(assignors: str, strategy: str, asked: str | None) -> None:
    found = plan(classic(*PAIR, strategy=strategy), telling(group_consumer_assignors=assignors))
    (first, *_) = found.steps
    given = [setting.after for setting in first.settings if setting.name == "group.remote.assignor"]
    assert given == ([] if asked is None else [asked])
    assert verdict(found, "server-assignor") is Verdict.VERIFIED
    (text,) = [
        precondition.text
        for precondition in found.preconditions
        if precondition.code == "server-assignor"
    ]
    assert f"{strategy}, in the place of {strategy}" not in text


@pytest.mark.parametrize(
    ("features", "code", "found"),
    [
        (replace(NEW, apis={}), "broker-support", Verdict.REFUTED),
        (replace(NEW, levels={}), "broker-support", Verdict.REFUTED),
        (replace(NEW, levels=None), "broker-support", Verdict.UNKNOWN),
        (
            telling(group_coordinator_rebalance_protocols="classic"),
            "broker-support",
            Verdict.REFUTED,
        ),
        (replace(NEW, refused="no"), "migration-policy", Verdict.UNKNOWN),
        (NEW, "migration-policy", Verdict.UNKNOWN),
        (telling(group_consumer_migration_policy="disabled"), "migration-policy", Verdict.REFUTED),
        (telling(group_consumer_migration_policy="downgrade"), "migration-policy", Verdict.REFUTED),
        (telling(group_consumer_migration_policy="UPGRADE"), "migration-policy", Verdict.VERIFIED),
        (telling(group_consumer_max_size="1"), "group-size", Verdict.REFUTED),
        (telling(group_consumer_max_size="2"), "group-size", Verdict.VERIFIED),
        (telling(group_consumer_assignors="uniform"), "server-assignor", Verdict.REFUTED),
        (telling(group_consumer_assignors="com.acme.Own"), "server-assignor", Verdict.UNKNOWN),
        (NEW, "server-assignor", Verdict.UNKNOWN),
        (BrokerError(ProblemKind.SILENT, "silent", 1), "broker-support", Verdict.UNKNOWN),
        (None, "broker-support", Verdict.UNKNOWN),
        (None, "migration-policy", Verdict.UNKNOWN),
        (None, "group-size", Verdict.UNKNOWN),
    ],
)
def test_what_the_broker_tells(
    features: Told | BrokerError | None, code: str, found: Verdict
) -> None:
    made = plan(classic(*PAIR), features)
    assert verdict(made, code) is found
    assert bool(made.steps) is (refuted(made) == [])
    for precondition in made.preconditions:
        assert (precondition.check is None) is (precondition.verdict is Verdict.VERIFIED), (
            precondition
        )
        assert "None" not in (precondition.found or ""), precondition


def test_a_static_member_that_comes_back_needs_a_place_of_its_own() -> None:
    """`throwIfConsumerGroupIsFull` comes before the old member is replaced."""
    group = classic(*(replace(each, instance_id=each.client_id) for each in PAIR))
    assert refuted(plan(group, telling(group_consumer_max_size="2"))) == ["group-size"]
    assert refuted(plan(group, telling(group_consumer_max_size="3"))) == []
    assert refuted(plan(group, telling(group_consumer_max_size="2"), stops=True)) == []


def test_data_of_a_custom_assignor_refuses() -> None:
    group = classic(member("a", 0, assignment_user_data="aGk="), member("b", 1))
    found = plan(group, telling())
    assert refuted(found) == ["user-data"]
    assert found.steps == ()
    assert refuted(plan(group, telling(), stops=True)) == []


@pytest.mark.parametrize(
    ("strategy", "library", "found"),
    [
        ("range", None, Verdict.VERIFIED),
        ("range", "librdkafka", Verdict.VERIFIED),
        ("cooperative-sticky", "kafka-clients", Verdict.VERIFIED),
        ("cooperative-sticky", None, Verdict.UNKNOWN),
        ("cooperative-sticky", "librdkafka", Verdict.REFUTED),
    ],
)
def test_librdkafka_adds_data_to_assignments_later(
    strategy: str, library: str | None, found: Verdict
) -> None:
    group = classic(*PAIR, strategy=strategy)
    assert verdict(plan(group, telling(), library=library), "user-data") is found
    if library is not None:  # what members sent tells it as well
        name = library
        members = [
            replace(each, client_library=name, client_library_certainty=Certainty.CERTAIN)
            for each in group.members
        ]
        group = replace(group, members=tuple(members))
        assert verdict(plan(group, telling()), "user-data") is found


def test_a_stopped_group_needs_no_policy() -> None:
    found = plan(classic(*PAIR), telling(group_consumer_migration_policy="disabled"), stops=True)
    (step,) = found.steps
    assert step.restarted == ("a", "b")
    assert found.naive is None
    assert step.forecast is not None
    assert step.forecast.stopped == 2


@pytest.mark.parametrize("generation_id", [1, 2, 7])
def test_epochs_begin_anew_when_a_group_was_stopped(generation_id: int) -> None:
    """One generation without anybody, then epochs 2 and 3, as a broker of 4.3.1 logs it."""
    group = replace(classic(*PAIR), generation_id=generation_id)
    found = plan(group, telling(), stops=True)
    assert (found.forecast and found.forecast.rebalances) == 3


def test_generations_begin_anew_when_a_group_was_stopped() -> None:
    """An epoch as each member leaves, then generation 1 of both, as a broker of 4.3.1 logs it."""
    found = plan(modern({"a": False, "b": False}), telling(), back=True, stops=True)
    assert (found.forecast and found.forecast.rebalances) == 3


@pytest.mark.parametrize(
    ("library", "version", "found"),
    [
        (None, None, Verdict.UNKNOWN),
        ("kafka-clients", None, Verdict.UNKNOWN),
        ("kafka-clients", (3, 9, 1), Verdict.REFUTED),
        ("kafka-clients", (4, 0), Verdict.VERIFIED),
        ("librdkafka", (2, 8), Verdict.REFUTED),
        ("librdkafka", (2, 12, 1), Verdict.VERIFIED),
    ],
)
def test_clients_know_it_or_not(
    library: str | None, version: tuple[int, ...] | None, found: Verdict
) -> None:
    made = plan(classic(*PAIR), telling(), library=library, version=version)
    assert verdict(made, "client-version") is found


def test_a_migration_that_somebody_has_begun() -> None:
    found = plan(modern({"a": False, "b": True, "c": True}), telling())
    (step,) = found.steps
    assert step.restarted == ("b", "c")
    assert "2 of 3 members" in found.summary
    back = plan(modern({"a": False, "b": True, "c": True}), telling(), back=True)
    assert [each.restarted for each in back.steps] == [("a",)]


def test_who_speaks_what_is_not_guessed() -> None:
    """Brokers before 4.0 do not tell it: those are restarted of whom it is not known."""
    found = plan(modern({"a": False, "b": None}), telling())
    assert [step.restarted for step in found.steps] == [("b",)]
    assert verdict(found, "spoken-protocol") is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("group", "back"),
    [(classic(*PAIR), True), (modern({"a": False}), False), (modern({"a": True}), True)],
)
def test_there_already(group: Group, back: bool) -> None:
    found = plan(group, telling(), back=back)
    assert (found.steps, found.forecast) == ((), None)
    assert found.summary.startswith("Nothing to do")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("upgrade", Verdict.REFUTED), ("disabled", Verdict.REFUTED), ("downgrade", Verdict.VERIFIED)],
)
def test_the_way_back_needs_another_policy(policy: str, expected: Verdict) -> None:
    features = telling(group_consumer_migration_policy=policy)
    assert verdict(plan(modern({"a": False}), features, back=True), "migration-policy") is expected


def test_the_way_back_of_a_group_that_is_too_large() -> None:
    found = plan(modern({"a": False, "b": False}), telling(group_max_size="1"), back=True)
    assert refuted(found) == ["group-size"]


def test_members_with_a_strategy_in_common() -> None:
    group = modern({"a": False, "b": True}, classic_protocols=("range",))
    assert refuted(plan(group, telling(), back=True)) == ["common-strategy"]
    assert refuted(plan(group, telling(), back=True, assignor="range")) == []
    with pytest.raises(UsageError, match="'uniform'"):
        plan(group, telling(), back=True, assignor="uniform")


def test_a_pattern_of_the_broker_does_not_come_back() -> None:
    group = modern({"a": False}, subscription=Subscription((), "t.*"))
    found = plan(group, telling(), back=True)
    assert verdict(found, "patterns") is Verdict.UNKNOWN
    assert found.forecast is not None
    assert (found.forecast.moved, found.forecast.most_partitions) == (0, 1)
    assert found.forecast.longest_stop_ms is not None
    assert found.forecast.longest_stop_ms < 10_000  # 5 s to restart, 3 s of an initial delay


@pytest.mark.parametrize(
    ("session_ms", "says", "commands"),
    [
        (45_000, "", 0),
        (50_000, "instead of 50000 ms. To keep it, run the command below.", 1),
        (10_000, "brokers allow 45000 to 60000 ms", 0),
    ],
)
def test_the_session_timeout_moves_to_the_broker(session_ms: int, says: str, commands: int) -> None:
    pair = [replace(each, session_timeout_ms=session_ms) for each in PAIR]
    (first, *_) = plan(classic(*pair), telling()).steps
    assert says in " ".join(first.actions)
    assert len(first.commands) == commands
    for command in first.commands:
        assert command.endswith("--add-config consumer.session.timeout.ms=50000")
        assert "--bootstrap-server kafka-1:9092 " in command


def test_the_groups_own_settings_go_before_those_of_the_broker() -> None:
    pair = [replace(each, session_timeout_ms=50_000) for each in PAIR]
    features = replace(telling(), group_settings={"consumer.session.timeout.ms": "50000"})
    (first, *_) = plan(classic(*pair), features).steps
    assert first.commands == ()


def test_a_strategy_that_nobody_knows_is_a_problem() -> None:
    source = FakeSource(classic(*PAIR, strategy="own"))
    report = plan_each(
        source, ["g"], lambda running: plan_consumer_protocol(running, ProgramBehavior())
    )
    assert report.exit_status is ExitStatus.FAILED
    assert "'own'" in report.errors[0].reason


def test_librdkafka_takes_the_name_of_a_strategy() -> None:
    (step,) = plan(modern({"a": False}), telling(), back=True, library="librdkafka").steps
    assert [
        setting.after
        for setting in step.settings
        if setting.name == "partition.assignment.strategy"
    ] == ["cooperative-sticky"]


def _check(found: Plan, group: Group, number: int) -> StepProgress:
    (check,) = verify_step(FakeSource(group), [found], number, ()).data
    return check.progress


def test_steps_are_verified() -> None:
    """The first step replaces one member, the second the others, and not the first again."""
    found = plan(classic(*PAIR), telling())
    first, second = found.steps
    assert (first.restarted, second.restarted) == (("a",), ("b",))
    assert _check(found, classic(*PAIR), 1) is StepProgress.NOT_BEGUN
    half = modern({"a": False, "b": True})
    a, b = half.members
    half = replace(half, assignor="range", members=(replace(a, member_id="new"), b))
    assert _check(found, half, 1) is StepProgress.DONE
    assert _check(found, half, 2) is StepProgress.NOT_BEGUN
    (check,) = verify_step(FakeSource(half), [found], 1, ()).data
    seen = with_members_seen(found, check)
    assert _check(seen, half, 2) is StepProgress.NOT_BEGUN
    both = replace(half, members=(half.members[0], replace(b, member_id="newer")))
    assert _check(seen, both, 2) is StepProgress.HALF_DONE  # it came back as it was
    done = replace(
        both, members=(both.members[0], replace(both.members[1], uses_classic_protocol=False))
    )
    assert _check(seen, done, 2) is StepProgress.DONE
    assert _check(found, done, 2) is StepProgress.DONE
    untold = replace(
        done, members=tuple(replace(each, uses_classic_protocol=None) for each in done.members)
    )
    assert _check(seen, untold, 2) is StepProgress.HALF_DONE
