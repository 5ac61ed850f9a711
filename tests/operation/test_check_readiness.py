"""Whether groups are ready for the consumer protocol: told where it is asked for, only there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest

from kgroup.model.group import Broker, Group
from kgroup.operation.check.check import Audit, Request, check
from kgroup.operation.check.rule import Rule
from kgroup.operation.plan.advice import advise
from kgroup.operation.plan.coordinator import MIGRATION_POLICY
from kgroup.operation.plan.forecast import USUAL
from kgroup.operation.plan.plan import MigrationTarget
from tests.operation.plan.fake_cluster import FakeCluster
from tests.operation.plan.groups import group_of
from tests.operation.sources import FakeSource

ASKED = frozenset({Rule.CONSUMER_PROTOCOL})
SETTINGS = {
    MIGRATION_POLICY: "bidirectional",
    "group.consumer.max.size": "100",
    "group.consumer.assignors": "uniform,range",
}


def found(group: Group, settings: Mapping[str, str], rules: frozenset[Rule] = ASKED) -> Audit:
    there = replace(group, coordinator=Broker(1, "b", 9092))
    source = FakeCluster(there, topics={"t": 6}, settings={1: settings})
    return check(source, Request(rules=rules), lambda: 1)


def of_library(name: str) -> Group:
    return group_of("ab", "cooperative-sticky", library=name)


@pytest.mark.parametrize(
    ("group", "settings", "reason"),
    [
        (
            group_of("ab"),
            SETTINGS,
            "Ready as far as is known; not known: client-version, listeners.",
        ),
        (
            group_of("ab"),
            SETTINGS | {MIGRATION_POLICY: "disabled", "group.consumer.max.size": "1"},
            "Not ready: migration-policy (disabled on broker 1); "
            "group-size (group.consumer.max.size is 1).",
        ),
        (
            of_library("kafka-clients"),
            SETTINGS,
            "Ready as far as is known; not known: client-version.",
        ),
        (
            of_library("librdkafka"),
            SETTINGS,
            "Not ready: user-data (none yet; librdkafka adds some with cooperative-sticky from the "
            "second rebalance on).",
        ),
        (
            of_library("sarama"),
            SETTINGS,
            "Ready as far as is known; not known: user-data, client-version.",
        ),
    ],
)
def test_preconditions_of_the_plan(group: Group, settings: Mapping[str, str], reason: str) -> None:
    (finding,) = found(group, settings).report.data
    assert (finding.severity, finding.reason) == ("info", reason)


def test_nothing_is_told_unasked_nor_of_a_group_that_nobody_is_in() -> None:
    unasked = found(group_of("ab"), SETTINGS, frozenset()).report.data
    assert Rule.CONSUMER_PROTOCOL not in {finding.code for finding in unasked}
    assert found(group_of(""), SETTINGS).report.data == ()


def test_a_group_of_a_strategy_that_nobody_knows_is_an_error() -> None:
    report = found(group_of("ab", "mine"), SETTINGS).report
    assert report.data == ()
    assert [(error.kind, error.group_id) for error in report.errors] == [("unfit", "g")]


EAGER = frozenset({Rule.EAGER_STRATEGY})


def random_groups(count: int) -> Iterator[Group]:
    """Groups with an eager strategy; the last one is large, which is what gains."""
    random = Random(5)
    for number in range(count):
        names = "abcdefghijklmnopqrst"[: 20 if number == count - 1 else random.randint(2, 6)]
        yield group_of(
            names,
            random.choice(("range", "roundrobin", "sticky")),
            each=5 if number == count - 1 else random.randint(1, 4),
            static=bool(number % 3 == 0) and number < count - 1,
        )


@pytest.mark.slow
def test_check_recommends_a_strategy_just_where_its_plan_does() -> None:
    """By the same numbers: what stops partitions for longer is not recommended."""
    recommended = []
    for group in random_groups(9):
        source = FakeSource(group)
        (row,) = advise(source, ["g"], USUAL).data
        plans = [
            proposal for proposal in row.proposals if proposal.target is MigrationTarget.ASSIGNOR
        ]
        plan = plans[0] if plans else None
        (finding,) = check(source, Request(rules=EAGER), lambda: 1).report.data
        if plan is None or plan.against is not None:
            assert "cooperative-sticky is not worth it: " in finding.reason
            assert finding.advice == "Nothing to do."
            assert finding.commands == ("kgroup plan g",)
            (why,) = (
                [plan.against]
                if plan
                else [reason for reason in row.reasons if "sticky: " in reason]
            )
            assert why is not None
            assert why.partition("sticky: ")[2].rstrip(".") in finding.reason
        else:
            assert plan.now is not None
            assert plan.then is not None
            now, then = plan.now.forecast.stopped_ms, plan.then.forecast.stopped_ms
            assert then < now
            assert f"for {now / 1000:g} s together" in finding.reason
            assert f"it would for {then / 1000:g} s." in finding.reason
            assert finding.commands == (plan.command,)
        recommended.append(finding.advice != "Nothing to do.")
    assert {True, False} == {*recommended}


def test_a_strategy_is_judged_where_that_is_asked_for_only() -> None:
    """The forecast takes requests and time, which monitoring does not have for each group."""
    source = FakeSource(group_of("ab", each=1))
    (finding,) = check(source, Request(), lambda: 1).report.data
    assert (finding.code, finding.advice) == (Rule.EAGER_STRATEGY, Rule.EAGER_STRATEGY.advice)
    assert "cooperative-sticky" not in finding.reason + finding.advice
    assert finding.commands == ("kgroup plan g",)
