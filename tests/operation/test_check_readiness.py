"""Whether groups are ready for the consumer protocol: told where it is asked for, only there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kgroup.model.group import Broker, Group
from kgroup.operation.check.check import Audit, Request, check
from kgroup.operation.check.rule import Rule
from kgroup.operation.plan.coordinator import MIGRATION_POLICY
from tests.operation.plan.fake_cluster import FakeCluster
from tests.operation.plan.groups import group_of

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
    assert Rule.CONSUMER_PROTOCOL not in {each.code for each in unasked}
    assert found(group_of(""), SETTINGS).report.data == ()


def test_a_group_of_a_strategy_that_nobody_knows_is_an_error() -> None:
    report = found(group_of("ab", "mine"), SETTINGS).report
    assert report.data == ()
    assert [(each.kind, each.group_id) for each in report.errors] == [("unfit", "g")]
