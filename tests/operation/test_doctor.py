from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

import pytest

from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.cluster import ClusterView
from kgroup.model.group import Broker
from kgroup.model.offset import StoreName
from kgroup.model.problem import Problem
from kgroup.operation import doctor
from kgroup.operation.doctor import (
    PACKAGES,
    Availability,
    Diagnosis,
    examine,
    installed_version,
    versions,
)
from kgroup.source.base import GroupSource

ONE, TWO = Broker(1, "kafka-1", 9092), Broker(2, "::1", 9093)


@dataclass
class FakeReach(GroupSource):
    """Brokers, and why some cannot be reached."""

    brokers: Mapping[int, Broker] = field(default_factory=lambda: {2: TWO, 1: ONE})
    failed: Mapping[int, Problem] = field(default_factory=dict)
    error: BrokerError | None = None
    store_name = StoreName("the cluster kafka-1:9092")

    def view(self, topics: Collection[str]) -> ClusterView:
        assert not topics
        if self.error is not None:
            raise self.error
        return ClusterView("id", 1, self.brokers, {})

    def unreachable(self) -> Mapping[int, Problem]:
        return self.failed


def reached(source: GroupSource) -> tuple[ExitStatus, list[Diagnosis]]:
    report = examine(source, None)
    diagnosis = [row for row in report.data if row.kind in ("source", "broker")]
    assert diagnosis == list(report.data[-len(diagnosis) :])
    return report.exit_status, diagnosis


def test_what_answers_is_well() -> None:
    assert reached(FakeReach()) == (
        ExitStatus.DONE,
        [
            Diagnosis("source", "the cluster kafka-1:9092", Availability.OK),
            Diagnosis("broker", "kafka-1:9092 (1)", Availability.OK),
            Diagnosis("broker", "[::1]:9093 (2)", Availability.OK),
        ],
    )


def test_one_broker_that_does_not_answer_is_told_from_the_others() -> None:
    failed = {1: Problem(ProblemKind.SILENT, "it is silent", broker=1)}
    status, (source, one, two) = reached(FakeReach(failed=failed))
    assert status is ExitStatus.PROBLEM
    assert (source.condition, two.condition) == (Availability.OK, Availability.OK)
    assert (one.condition, one.reason) == (Availability.UNREACHABLE, "it is silent")


def test_a_source_that_does_not_answer_is_a_row_beside_what_is_installed() -> None:
    error = BrokerError(ProblemKind.REFUSED, "wrong password")
    status, (source,) = reached(FakeReach(error=error))
    assert status is ExitStatus.PROBLEM
    assert (source.condition, source.reason) == (Availability.UNREACHABLE, "wrong password")


def test_a_zookeeper_without_brokers_is_the_wrong_place() -> None:
    status, (source,) = reached(FakeReach(brokers={}))
    assert (status, source.condition) == (ExitStatus.PROBLEM, Availability.UNREACHABLE)


def test_what_is_missing_is_said_with_what_needs_it_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        doctor, "installed_version", lambda name: None if name in ("pyspark", "rich") else "9"
    )
    report = examine(None, "set JAVA_HOME")
    assert report.exit_status is ExitStatus.DONE
    by_name = {row.name: row for row in report.data}
    assert [*by_name][2:] == [*(part.name for part in PACKAGES), "java"]
    missing = {row.name: row.advice for row in report.data if row.condition is Availability.MISSING}
    assert missing == {
        "rich": "install kgroup again",
        "pyspark": "install the extra [spark] (docs/install.md)",
        "java": "set JAVA_HOME",
    }
    assert by_name["pyspark"].version is None
    assert "history" in (by_name["pyspark"].needed_for or "")
    assert (by_name["numpy"].version, by_name["numpy"].condition) == ("9", Availability.OK)


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]


def name_of(requirement: str) -> str:
    (name,) = re.findall(r"^[a-z0-9-]+", requirement)
    return str(name)


def test_parts_are_what_the_project_depends_on() -> None:
    required = {name_of(each): None for each in PROJECT["dependencies"]}
    extra = {
        name_of(each): name
        for name, group in PROJECT["optional-dependencies"].items()
        for each in group
    }
    assert {part.name: part.extra for part in PACKAGES} == required | extra


def test_versions_are_of_what_is_installed() -> None:
    there = {
        distribution.metadata["Name"].lower(): distribution.version
        for distribution in distributions()
    }
    found = dict(versions())
    assert found.pop("Python") == sys.version.split()[0]
    assert found == {part.name: there[part.name] for part in PACKAGES}
    assert installed_version("kgroup-no-such-part") is None
