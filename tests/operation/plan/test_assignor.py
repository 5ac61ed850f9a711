"""Ways from one strategy to another: which there are, what they cost, and which are refused.

What groups do is Kafka's: the same plans are carried out with its consumers in
`tests/broker/test_plan_assignor.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kgroup.errors import InputError, NotFoundError, UsageError
from kgroup.model.client_library import Certainty
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.operation.plan.assignor import CLASSES, plan_assignor, plan_assignors, strategy_named
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import Plan, Verdict
from tests.operation.plan.fake_cluster import group_of, running
from tests.operation.sources import FakeSource

RANGE, COOPERATIVE = CLASSES["range"], CLASSES["cooperative-sticky"]


def plan(
    group: Group,
    strategy: str,
    told: Mapping[str, tuple[str, ...]] | None = None,
    library: str | None = None,
    behavior: ProgramBehavior | None = None,
) -> Plan:
    """Plan with the usual behavior of applications."""
    return plan_assignor(
        running(group), strategy, told or {}, behavior or ProgramBehavior(), library
    )


def lists(found: Plan) -> list[list[str | None]]:
    """Return what each step sets."""
    return [[setting.after for setting in step.settings] for step in found.steps]


def verdicts(found: Plan) -> dict[str, Verdict]:
    return {precondition.code: precondition.verdict for precondition in found.preconditions}


def test_eager_to_cooperative_takes_two_restarts_of_everybody() -> None:
    found = plan(group_of(), "cooperative-sticky")
    assert lists(found) == [[f"{COOPERATIVE},{RANGE}"], [COOPERATIVE]]
    assert [step.restarted for step in found.steps] == [("a", "b", "c")] * 2
    assert [step.number for step in found.steps] == [1, 2]
    assert found.forecast is not None
    assert found.forecast.failed == {}
    # Who has the new strategy alone finds nobody to agree with.
    assert found.naive is not None
    assert set(found.naive.forecast.failed.values()) == {"INCONSISTENT_GROUP_PROTOCOL"}
    assert verdicts(found) == {
        "stable": Verdict.VERIFIED,
        "common-strategy": Verdict.VERIFIED,
        "supported-strategies": Verdict.UNKNOWN,
        "mixed-strategies": Verdict.UNKNOWN,
        "client-version": Verdict.UNKNOWN,
        "listeners": Verdict.UNKNOWN,
    }
    of_java = plan(group_of(), "cooperative-sticky", library="kafka-clients")
    assert verdicts(of_java)["client-version"] is Verdict.VERIFIED
    back = plan(group_of(strategy="cooperative-sticky"), "range")
    assert "listeners" not in verdicts(back)  # who bears parts bears all


def test_forecasts_of_steps_are_those_of_the_whole() -> None:
    found = plan(group_of(), "cooperative-sticky")
    assert found.forecast is not None
    for name in ("rebalances", "moved", "stopped_ms", "read_again", "skipped"):
        parts = [getattr(step.forecast, name) for step in found.steps]
        assert sum(parts) == getattr(found.forecast, name)
    # Each restart of a dynamic member is two generations: without it, and with it again.
    assert found.steps[0].forecast is not None
    assert found.steps[0].forecast.rebalances == 6


def test_a_group_that_stands_between_both_restarts() -> None:
    """It uses the new strategy, and only its members know whether they list others still."""
    group = group_of(strategy="cooperative-sticky")
    unknown = plan(group, "cooperative-sticky")
    assert unknown.steps == ()
    assert "--settings cooperative-sticky,OTHER" in unknown.summary
    told = {"": ("cooperative-sticky", "range"), "a": ("cooperative-sticky",)}
    (step,) = plan(group, "cooperative-sticky", told).steps
    assert step.restarted == ("b", "c")
    alone = plan(group, "cooperative-sticky", {"": ("cooperative-sticky",)})
    assert alone.summary == "Nothing to do: every member supports cooperative-sticky only."


def test_who_lists_the_strategy_already_is_restarted_once() -> None:
    told = {"": ("range", "cooperative-sticky")}
    found = plan(group_of(), "cooperative-sticky", told)
    assert lists(found) == [[COOPERATIVE]]
    assert found.naive is None
    assert verdicts(found)["supported-strategies"] is Verdict.VERIFIED


def test_only_members_whose_list_changes_are_restarted() -> None:
    told = {"": ("range",), "a": ("cooperative-sticky", "range")}
    found = plan(group_of(), "cooperative-sticky", told)
    assert [step.restarted for step in found.steps] == [("b", "c"), ("a", "b", "c")]
    assert found.steps[0].expected.is_restarted
    assert [(setting.member, setting.after) for setting in found.steps[0].settings] == [
        ("b", f"{COOPERATIVE},{RANGE}"),
        ("c", f"{COOPERATIVE},{RANGE}"),
    ]


def test_nothing_is_to_be_done() -> None:
    found = plan(group_of(strategy="sticky"), "sticky")
    assert found.steps == ()
    assert found.forecast is None
    assert not found.is_refuted


def test_a_group_of_librdkafka_is_stopped_where_kinds_of_strategies_mix() -> None:
    found = plan(group_of(), "cooperative-sticky", library="librdkafka")
    (step,) = found.steps
    assert step.actions[0].startswith("Shut down all members")
    assert (
        step.actions[1]
        == "Wait until kgroup describe g -b HOST:PORT shows it Empty, or no longer: it has no "
        "commits that stay."
    )
    assert step.commands == ()
    (mixed,) = (each for each in found.preconditions if each.code == "mixed-strategies")
    assert not mixed.text.startswith("The group is stopped"), "it is stable until the step"
    # From range to roundrobin nothing mixes.
    assert len(plan(group_of(), "roundrobin", library="librdkafka").steps) == 2


def test_the_library_of_all_members_is_known_by_what_they_sent() -> None:
    stopped = plan(group_of(library="librdkafka"), "cooperative-sticky")
    (step,) = stopped.steps
    assert step.actions[0].startswith("Shut down all members")
    assert verdicts(stopped)["mixed-strategies"] is Verdict.VERIFIED
    java = plan(group_of(library="kafka-clients"), "cooperative-sticky")
    assert (len(java.steps), verdicts(java)["mixed-strategies"]) == (2, Verdict.VERIFIED)
    # What is said counts more.
    said = plan(group_of(library="librdkafka"), "cooperative-sticky", library="kafka-clients")
    assert len(said.steps) == 2
    other = plan(group_of(library="sarama"), "cooperative-sticky")
    assert verdicts(other)["mixed-strategies"] is Verdict.VERIFIED
    group = group_of(library="librdkafka")
    first, *rest = group.members
    inferred = [replace(m, client_library_certainty=Certainty.INFERRED) for m in group.members]
    unknown = replace(first, client_library=None, client_library_certainty=None)
    others = ("franz-go", "kafka-clients")
    for members in (
        inferred,
        (replace(first, client_library="kafka-clients"), *rest),
        (unknown, *rest),
        (replace(unknown, client_library_candidates=others), *rest),
    ):
        mixed = plan(replace(group, members=tuple(members)), "cooperative-sticky")
        assert (len(mixed.steps), verdicts(mixed)["mixed-strategies"]) == (2, Verdict.UNKNOWN)
    # One is certain, and the others may be of its library.
    may_be = replace(unknown, client_library_candidates=("librdkafka", "kafka-python"))
    stopped = plan(replace(group, members=(may_be, *rest)), "cooperative-sticky")
    assert verdicts(stopped)["mixed-strategies"] is Verdict.VERIFIED


def test_members_that_are_surely_not_of_java_are_not_planned_as_javas() -> None:
    """Which of two libraries they use is unknown; what neither has is refused."""
    group = group_of()

    def of(*candidates: str) -> Plan:
        members = tuple(
            replace(member, client_library_candidates=candidates) for member in group.members
        )
        return plan(replace(group, members=members), "cooperative-sticky")

    unsure = of("franz-go", "kafka-go")
    assert verdicts(unsure)["client-library"] is Verdict.UNKNOWN
    assert verdicts(unsure)["client-version"] is Verdict.UNKNOWN
    neither = of("kafka-go", "kafkajs")
    assert verdicts(neither)["client-library"] is Verdict.REFUTED
    assert neither.steps == ()
    assert "client-library" not in verdicts(of("kafka-clients", "kafka-go"))


@pytest.mark.parametrize("static", [False, True])
def test_only_dynamic_members_leave_when_they_are_restarted(static: bool) -> None:
    found = plan(group_of(static=static), "roundrobin")
    assert ["leaves the group" in step.actions[-1] for step in found.steps] == [not static] * 2


def test_librdkafka_takes_names_in_the_place_of_classes() -> None:
    assert lists(plan(group_of(), "roundrobin", library="librdkafka")) == [
        ["roundrobin,range"],
        ["roundrobin"],
    ]
    assert lists(plan(group_of(), "cooperative-sticky", library="librdkafka")) == [
        ["cooperative-sticky"]
    ]


def test_librdkafka_has_no_eager_sticky_strategy() -> None:
    found = plan(group_of(), "sticky", library="librdkafka")
    assert found.steps == ()
    assert verdicts(found)["known-strategies"] is Verdict.REFUTED
    assert "known-strategies" not in verdicts(plan(group_of(), "sticky"))


def test_static_members_do_not_leave_when_they_stop() -> None:
    found = plan(group_of(static=True), "cooperative-sticky", library="librdkafka")
    (step,) = found.steps
    assert step.commands == ("kgroup members remove g -b HOST:PORT --all --execute",)
    # Run last it would remove those that were just started.
    assert step.actions[1].endswith("the command below, run before any is started, removes them.")
    assert step.forecast is not None
    assert step.forecast.longest_stop_ms is not None
    assert step.forecast.longest_stop_ms >= 45_000  # their session timeout
    assert step.forecast.failed == {}


def test_large_groups_are_restarted_some_at_a_time() -> None:
    one = plan(group_of("abcd"), "sticky", behavior=ProgramBehavior(at_once=1))
    two = plan(group_of("abcd"), "sticky", behavior=ProgramBehavior(at_once=2))
    assert one.forecast is not None
    assert two.forecast is not None
    assert two.forecast.rebalances == one.forecast.rebalances / 2
    assert two.steps[0].actions[0].startswith("Restart 2 members at a time")
    assert ProgramBehavior().restarted_at_once(20) == 1
    assert ProgramBehavior().restarted_at_once(100) == 5


@pytest.mark.parametrize(
    ("group", "code"), [(group_of(state=GroupState.PREPARING_REBALANCE), "stable")]
)
def test_refused(group: Group, code: str) -> None:
    found = plan(group, "cooperative-sticky")
    assert found.is_refuted
    assert found.steps == ()
    assert verdicts(found)[code] is Verdict.REFUTED


def test_a_member_that_does_not_support_what_the_group_uses() -> None:
    found = plan(group_of(), "sticky", {"b": ("roundrobin",)})
    assert found.is_refuted
    (common,) = [
        precondition
        for precondition in found.preconditions
        if precondition.code == "common-strategy"
    ]
    assert common.found == "not listed for b"
    assert "INCONSISTENT_GROUP_PROTOCOL" in (common.check or "")


def test_old_clients() -> None:
    old = group_of(owned=False)
    assert verdicts(plan(old, "cooperative-sticky"))["client-version"] is Verdict.UNKNOWN
    refused = plan(old, "cooperative-sticky", library="kafka-clients")
    assert verdicts(refused)["client-version"] is Verdict.REFUTED
    assert "client-version" not in verdicts(plan(old, "sticky"))


def test_what_is_no_strategy_and_who_is_no_member() -> None:
    with pytest.raises(UsageError, match=r"expected a strategy .* found 'fair'"):
        strategy_named("fair")
    with pytest.raises(NotFoundError, match="group g has no member 'd'; it has: a"):
        plan(group_of(), "sticky", {"d": ("sticky",)})
    with pytest.raises(InputError, match="expected a classic group"):
        plan(group_of(type_=GroupType.CONSUMER), "sticky")


def test_strategies_have_names_and_classes() -> None:
    assert [strategy_named(each) for each in CLASSES] == list(CLASSES)
    assert [strategy_named(each) for each in CLASSES.values()] == list(CLASSES)


def test_what_is_said_of_members_is_for_the_groups_that_have_them() -> None:
    source = FakeSource(group_of("abc"), replace(group_of("de"), group_id="h"))
    told = {"a": ("sticky", "range"), "d": ("sticky", "range")}
    report = plan_assignors(source, ["g", "h"], "sticky", told, ProgramBehavior())
    assert report.errors == ()
    first, second = report.data
    # Who lists it first already needs one restart less.
    assert [step.restarted for step in first.steps] == [("b", "c"), ("a", "b", "c")]
    assert [step.restarted for step in second.steps] == [("e",), ("d", "e")]
    assert report.notes[-2:] == ("--settings of a is of g", "--settings of d is of h")
    with pytest.raises(NotFoundError, match="members of g, h, found none that is called 'x'"):
        plan_assignors(source, ["g", "h"], "sticky", {**told, "x": ("sticky",)}, ProgramBehavior())


def test_members_are_named_by_what_outlives_their_restart() -> None:
    group = group_of("abcd")
    hosts = ["/h1", "/h2", "/h2", "/h3"]
    members = tuple(
        replace(member, client_id="app", client_host=host)
        for member, host in zip(group.members, hosts, strict=True)
    )
    found = plan(replace(group, members=members), "sticky")
    assert found.steps[1].restarted == ("app@h1#1", "app@h2#1", "app@h2#2", "app@h3#1")
    apart = plan(replace(group, members=(members[0], members[1], members[3])), "sticky")
    assert apart.steps[1].restarted == ("app@h1", "app@h2", "app@h3")
