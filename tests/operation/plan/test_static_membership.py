"""Plans for static members: sessions and bounds are counted by hand, after KIP-345 and KIP-848."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import ExitStatus, UsageError
from kgroup.model.client_library import Certainty
from kgroup.model.group import Group, GroupState, Member
from kgroup.operation.plan.forecast import USUAL, ProgramBehavior
from kgroup.operation.plan.plan import Plan, Verdict
from kgroup.operation.plan.running_group import read_running
from kgroup.operation.plan.static_membership import (
    plan_dynamic_membership,
    plan_static_membership,
    proposed,
    why_unfit,
)
from kgroup.operation.plan.verify import StepProgress, verify_step
from kgroup.source.snapshot.source import read_source
from tests.operation.plan.fake_cluster import FakeCluster, classic_group, consumer_group, member

BROKER = {
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
}
"""A broker of 4.3 as it comes: it has no inter.broker.protocol.version."""


def two(**more: Any) -> Group:
    return classic_group(
        member(1, partitions=[("orders", 0), ("orders", 1)], **more),
        member(2, partitions=[("orders", 2), ("orders", 3)], **more),
    )


def two_of_consumer_protocol() -> Group:
    return consumer_group(
        member(1, partitions=[("orders", 0), ("orders", 1)], session_timeout_ms=None),
        member(2, partitions=[("orders", 2), ("orders", 3)], session_timeout_ms=None),
    )


def planned(
    group: Group, behavior: ProgramBehavior = USUAL, /, *, back: bool = False, **more: Any
) -> Plan:
    source = FakeCluster(group, topics={"orders": 4}, **{"settings": {1: BROKER}, **more})
    running = read_running(source, group.group_id)
    if back:
        return plan_dynamic_membership(running, behavior)
    return plan_static_membership(running, behavior)


def verdict(plan: Plan, code: str) -> Verdict:
    (found,) = [
        precondition.verdict for precondition in plan.preconditions if precondition.code == code
    ]
    return found


def settings(plan: Plan) -> list[tuple[str | None, str, str | None, str | None]]:
    return [
        (setting.member, setting.name, setting.before, setting.after)
        for setting in plan.steps[0].settings
    ]


IDS = [
    ("client-1", "group.instance.id", None, "client-1"),
    ("client-2", "group.instance.id", None, "client-2"),
]


def test_a_restart_moves_nothing_any_more() -> None:
    plan = planned(two())
    assert settings(plan) == IDS
    first, later = plan.steps
    assert first.forecast is not None
    assert later.forecast is not None
    assert plan.naive is not None
    assert first.forecast.rebalances > 0
    assert (later.forecast.rebalances, later.forecast.moved) == (0, 0)
    # Each partition waits for its member, about as long as the restart takes.
    assert later.forecast.longest_stop_ms in range(5_000, 6_000)
    assert plan.naive.forecast.rebalances == first.forecast.rebalances


@pytest.mark.parametrize(
    ("session_ms", "restart_ms", "expected"),
    [
        (45_000, 5_000, None),  # twice as long would do
        (10_000, 5_000, None),
        (10_000, 5_001, ("10000", "15000")),  # rounded up to five seconds
        (10_000, 40_000, ("10000", "80000")),
        (None, 5_000, (None, "45000")),  # no shorter than what is the default since 3.0
        (None, 60_000, (None, "120000")),
    ],
)
def test_a_session_is_twice_as_long_as_a_restart(
    session_ms: int | None, restart_ms: int, expected: tuple[str | None, str] | None
) -> None:
    plan = planned(two(session_timeout_ms=session_ms), ProgramBehavior(restart_ms=restart_ms))
    found = [setting for setting in settings(plan) if setting[1] == "session.timeout.ms"]
    assert found == ([] if expected is None else [(None, "session.timeout.ms", *expected)])


def test_who_misses_a_member_later_is_told_how_much() -> None:
    plan = planned(two(session_timeout_ms=10_000), ProgramBehavior(restart_ms=40_000))
    (told,) = [each for each in plan.steps[1].see if "crashes" in each]
    assert "expires after 80 s instead of 10 s now" in told


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Verdict.VERIFIED),
        ({"group.max.session.timeout.ms": "80000"}, Verdict.VERIFIED),
        ({"group.max.session.timeout.ms": "79999"}, Verdict.REFUTED),
        ({"group.min.session.timeout.ms": "80001"}, Verdict.REFUTED),
        (None, Verdict.UNKNOWN),
    ],
)
def test_brokers_bound_sessions(changes: dict[str, str] | None, expected: Verdict) -> None:
    told = None if changes is None else {1: BROKER, 2: BROKER | changes}
    plan = planned(two(), ProgramBehavior(restart_ms=40_000), settings=told)
    assert verdict(plan, "session-timeout") is expected
    assert plan.is_refuted is (expected is Verdict.REFUTED)
    assert bool(plan.steps) is not plan.is_refuted


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (None, Verdict.VERIFIED),
        ("2.3-IV0", Verdict.VERIFIED),
        ("2.3", Verdict.VERIFIED),
        ("2.2-IV1", Verdict.REFUTED),
        ("0.11.0-IV2", Verdict.REFUTED),
    ],
)
def test_brokers_before_2_3_refuse_static_members(version: str | None, expected: Verdict) -> None:
    more = {} if version is None else {"inter.broker.protocol.version": version}
    plan = planned(two(), settings={1: BROKER | more})
    assert verdict(plan, "broker-version") is expected
    assert verdict(planned(two(), settings=None), "broker-version") is Verdict.UNKNOWN


@pytest.mark.parametrize("version", [0, 1])
def test_settings_of_a_group_do_not_matter_to_its_classic_members(version: int) -> None:
    """Brokers of 3.9 have the API for members of the consumer protocol, and refuse to tell them."""
    plan = planned(two(), heartbeat_version=version, of_group=None)
    assert verdict(plan, "broker-version") is Verdict.VERIFIED
    assert verdict(plan, "session-timeout") is Verdict.VERIFIED


def test_old_subscriptions_do_not_tell_whether_clients_are_new_enough() -> None:
    assert verdict(planned(two()), "client-version") is Verdict.VERIFIED
    assert verdict(planned(two(is_old=True)), "client-version") is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("restart_ms", "of_group", "expected", "session"),
    [
        (5_000, "45000", Verdict.VERIFIED, None),
        (25_000, "45000", Verdict.VERIFIED, "50000"),
        (25_000, "50000", Verdict.VERIFIED, None),
        (40_000, "45000", Verdict.REFUTED, None),  # 80 s is more than the 60 s that brokers let be
        (5_000, None, Verdict.VERIFIED, None),  # the broker's own
    ],
)
def test_brokers_have_the_session_of_consumer_groups(
    restart_ms: int, of_group: str | None, expected: Verdict, session: str | None
) -> None:
    told = {} if of_group is None else {"consumer.session.timeout.ms": of_group}
    plan = planned(
        two_of_consumer_protocol(), ProgramBehavior(restart_ms=restart_ms), of_group=told
    )
    assert verdict(plan, "group-session-timeout") is expected
    if not plan.is_refuted:
        assert settings(plan) == IDS
        assert plan.steps[0].commands == (
            ()
            if session is None
            else (
                "kafka-configs.sh --bootstrap-server kafka-1:9092 --alter --entity-type groups "
                f"--entity-name billing --add-config consumer.session.timeout.ms={session}",
            )
        )


def test_sessions_of_consumer_groups_are_unknown_where_nobody_tells_them() -> None:
    plan = planned(two_of_consumer_protocol(), settings=None)
    assert verdict(plan, "group-session-timeout") is Verdict.UNKNOWN
    # The group may have a session of its own, which is not told.
    plan = planned(two_of_consumer_protocol(), of_group=None)
    assert verdict(plan, "group-session-timeout") is Verdict.UNKNOWN
    # Before 4.0 it cannot: that of the brokers holds.
    plan = planned(two_of_consumer_protocol(), of_group=None, heartbeat_version=0)
    assert verdict(plan, "group-session-timeout") is Verdict.VERIFIED
    later = plan.steps[1].forecast
    assert later is not None
    assert (later.rebalances, later.moved) == (0, 0)


def test_what_somebody_else_has_begun_is_gone_on_with() -> None:
    group = classic_group(
        member(1, partitions=[("orders", 0)], instance_id="one"),
        member(2, partitions=[("orders", 1)]),
    )
    plan = planned(group)
    assert plan.steps[0].restarted == ("client-2",)
    assert settings(plan) == [("client-2", "group.instance.id", None, "client-2")]
    assert plan.steps[1].restarted == ("client-1", "client-2")
    assert plan.steps[1].expected.instance_ids == ("one", "client-2")


def static(session_ms: int = 45_000) -> Group:
    return classic_group(
        member(1, partitions=[("orders", 0)], instance_id="one", session_timeout_ms=session_ms),
        member(2, partitions=[("orders", 1)], instance_id="two", session_timeout_ms=session_ms),
    )


def test_what_is_reached_is_said() -> None:
    plan = planned(static())
    assert (plan.steps, plan.is_refuted) == ((), False)
    assert plan.summary.startswith("Nothing to do")


def test_static_members_with_short_sessions_get_longer_ones() -> None:
    plan = planned(static(10_000), ProgramBehavior(restart_ms=20_000))
    assert settings(plan) == [(None, "session.timeout.ms", "10000", "40000")]
    assert plan.naive is not None
    assert plan.naive.forecast.rebalances > 0  # they are missed
    assert plan.steps[1].forecast is not None
    assert plan.steps[1].forecast.rebalances == 0


def test_the_way_back_removes_what_members_were() -> None:
    plan = planned(static(), back=True)
    (step,) = plan.steps
    assert step.commands == (
        "kgroup members remove billing -b kafka-1:9092 --instance one --execute",
        "kgroup members remove billing -b kafka-1:9092 --instance two --execute",
    )
    assert step.forecast is not None
    assert plan.naive is not None
    longest_ms, left_ms = step.forecast.longest_stop_ms, plan.naive.forecast.longest_stop_ms
    assert longest_ms is not None
    assert left_ms is not None
    # Others take over with their next heartbeats, and not when the session is over.
    assert longest_ms < 10_000
    assert left_ms > 40_000


def test_the_way_back_of_dynamic_members_is_none() -> None:
    assert planned(two(), back=True).steps == ()


def check(plan: Plan, step: int, group: Group) -> StepProgress:
    report = verify_step(FakeCluster(group), [plan], step)
    (found,) = report.data
    is_done = found.progress is StepProgress.DONE
    assert report.exit_status is (ExitStatus.DONE if is_done else ExitStatus.PROBLEM)
    return found.progress


def renamed(group: Group, *members: tuple[str, str | None]) -> Group:
    """Return the group's members other ids and instance ids."""
    assert len(members) <= len(group.members)
    return replace(
        group,
        members=tuple(
            replace(each, member_id=member_id, instance_id=instance_id)
            for each, (member_id, instance_id) in zip(group.members, members, strict=False)
        ),
    )


def test_a_step_is_done_when_every_member_has_its_instance_id() -> None:
    group = two()
    plan = planned(group)
    is_static = renamed(group, ("n1", "client-1"), ("n2", "client-2"))
    assert check(plan, 1, group) is StepProgress.NOT_BEGUN
    assert (
        check(plan, 1, renamed(group, ("n1", "client-1"), ("m2", None))) is StepProgress.HALF_DONE
    )
    assert check(plan, 1, renamed(group, ("n1", "client-1"))) is StepProgress.HALF_DONE
    assert check(plan, 1, renamed(group, ("n1", None), ("n2", None))) is StepProgress.WRONG
    assert check(plan, 1, renamed(group, ("n1", "x"), ("n2", "client-2"))) is StepProgress.WRONG
    assert check(plan, 1, is_static) is StepProgress.DONE
    rebalancing = replace(is_static, state=GroupState.PREPARING_REBALANCE)
    assert check(plan, 1, rebalancing) is StepProgress.HALF_DONE


def test_a_new_member_without_an_id_keeps_the_step_from_being_done() -> None:
    group = two()
    grown = replace(
        renamed(group, ("n1", "client-1"), ("n2", "client-2")),
        members=(
            *renamed(group, ("n1", "client-1"), ("n2", "client-2")).members,
            member(3, partitions=[]),
        ),
    )
    assert check(planned(group), 1, grown) is StepProgress.WRONG


def test_the_way_back_is_done_when_nobody_has_one() -> None:
    group = static()
    plan = planned(group, back=True)
    assert check(plan, 1, group) is StepProgress.NOT_BEGUN
    assert check(plan, 1, renamed(group, ("n1", None), ("m2", "two"))) is StepProgress.HALF_DONE
    assert check(plan, 1, renamed(group, ("n1", None), ("n2", None))) is StepProgress.DONE
    assert check(plan, 1, renamed(group, ("n1", "one"), ("n2", None))) is StepProgress.WRONG


def test_each_removal_stands_between_the_stop_and_the_start_of_its_member() -> None:
    (step,) = planned(static(), back=True).steps
    stop, remove, start = step.actions
    assert (stop.split()[0], start.split()[0]) == ("Shut", "Start")
    assert "only with its own command below" in remove
    removed = [command.partition("--instance ")[2].split()[0] for command in step.commands]
    ids = {setting.member: setting.before for setting in step.settings}
    assert removed == [ids[name] for name in step.restarted]


def members(*clients: tuple[str | None, str | None]) -> Mapping[str, Member]:
    return {
        f"m{number}": Member(f"id-{number}", client_id=client, client_host=host)
        for number, (client, host) in enumerate(clients, 1)
    }


PROPOSALS = [
    ([("a", "/10.0.0.1"), ("b", "/10.0.0.1")], ["a", "b"]),
    ([("c", "/10.0.0.1"), ("c", "/10.0.0.2")], ["c-10.0.0.1", "c-10.0.0.2"]),
    ([("c", "/10.0.0.1"), ("c", "/10.0.0.1"), ("d", "/10.0.0.1")], ["c-1", "c-2", "d-3"]),
    ([("pay/in", "/fd00::1"), ("pay/in", "/fd00::2")], ["pay-in-fd00--1", "pay-in-fd00--2"]),
    ([(None, None), ("", "/10.0.0.1")], ["member-unknown", "member-10.0.0.1"]),
]


@pytest.mark.parametrize(("clients", "expected"), PROPOSALS)
def test_the_shortest_name_that_tells_members_apart_is_proposed(
    clients: list[tuple[str | None, str | None]], expected: list[str]
) -> None:
    ids, _ = proposed(members(*clients))
    assert list(ids.values()) == expected
    assert why_unfit(ids) is None


def test_who_has_an_id_keeps_it_and_nobody_else_gets_it() -> None:
    found = dict(members(("a", "/h1"), ("a-2", "/h1")))
    found["m3"] = Member("id-3", instance_id="a", client_id="x", client_host="/h1")
    ids, _ = proposed(found)
    assert ids == {"m1": "a-h1", "m2": "a-2-h1", "m3": "a"}


def test_a_template_is_taken_as_it_is() -> None:
    ids, made_of = proposed(members(("a", "/h1"), ("b", "/h2")), "eu.{host}_{number}-{client}")
    assert list(ids.values()) == ["eu.h1_1-a", "eu.h2_2-b"]
    assert made_of == "--instance-id eu.{host}_{number}-{client}"
    alike, _ = proposed(members(("a", "/h1"), ("b", "/h2")), "worker")
    assert why_unfit(alike) == "'worker' would be the id of m1, m2"


@pytest.mark.parametrize(
    "template", ["{pod}", "{}", "{0}", "{client", "a b", "{client!r}", "{number:03}", "{client.x}"]
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match=r"expected a text with \{client\}, \{host\}, \{number\}"):
        proposed(members(("a", "/h1")), template)


@pytest.mark.parametrize("unfit", ["", ".", "..", "a" * 250, "a b", "ä"])
def test_what_kafka_does_not_take_is_unfit(unfit: str) -> None:
    assert why_unfit({"m1": unfit}) is not None
    assert why_unfit({"m1": "a" * 249}) is None


def test_a_library_that_is_not_javas_is_named_where_it_is_not_certain() -> None:
    """Recorded: members of @platformatic/kafka, which send what kafka-go sends."""
    path = Path(__file__).parents[2] / "data/field/platformatic.before.json"
    (note,) = [
        text for text in read_running(read_source(path), "grp-401").notes if "do not use" in text
    ]
    assert "but @platformatic/kafka or kafka-go, which is not certain" in note


@pytest.mark.parametrize("instance_id", [None, "pod"])
def test_a_library_whose_static_members_leave_is_refused(instance_id: str | None) -> None:
    """A restart moves partitions as before, so the plan's promise would not hold."""
    known: dict[str, Any] = {
        "client_library": "@platformatic/kafka",
        "client_library_certainty": Certainty.CERTAIN,
    }
    given = two()
    members = tuple(
        replace(each, instance_id=instance_id and f"{instance_id}-{number}", **known)
        for number, each in enumerate(given.members)
    )
    plan = planned(replace(given, members=members, assignor="roundrobin"))
    assert (plan.is_refuted, plan.steps) == (True, ())
    assert verdict(plan, "client-version") is Verdict.REFUTED


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("kafka-clients", "and poll() throws FencedInstanceIdException"),
        ("librdkafka", "and it gives up its partitions with a fatal error"),
        ("kafka-python", "and it sends no more heartbeats, but reads on"),
    ],
)
def test_what_happens_to_the_older_of_two_processes_with_one_id(
    library: str, expected: str
) -> None:
    known: dict[str, Any] = {
        "client_library": library,
        "client_library_certainty": Certainty.CERTAIN,
    }
    group = two()
    group = replace(group, members=tuple(replace(each, **known) for each in group.members))
    (condition,) = [each for each in planned(group).preconditions if each.code == "lasting-ids"]
    assert f"is fenced (FENCED_INSTANCE_ID), {expected}" in (condition.check or "")


def test_an_instance_id_in_use_is_refused_with_the_consumer_protocol() -> None:
    """Kafka's `throwIfInstanceIdIsUnreleased`: the member that has the id stays."""
    conditions = planned(two_of_consumer_protocol()).preconditions
    (check,) = [each.check or "" for each in conditions if each.code == "lasting-ids"]
    assert check.endswith("the newer one is refused (UNRELEASED_INSTANCE_ID).")
