"""Strategies are changed for real, as plans say: steps are verified, and cost what they should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from kgroup.operation.plan.assignor import CLASSES
from tests.broker.client.group import LibraryGroup
from tests.broker.migration import Happened, close_to, fleet, kgroup
from tests.broker.servers import Broker, broker
from tests.examples import in_depth
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire
from tests.waiting import until_steady

NAMES = ["a", "b", "c"]
VERSIONS = ("3.9.2", "4.3.1")
OLDER, NEWER = VERSIONS[:1], VERSIONS[1:]
"""On which of them a test runs in `make test`: together all tests have both."""


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(version)) as running:
        yield running


def _listing(*strategies: str) -> dict[str, str]:
    return {"partition_assignment_strategy": ",".join(CLASSES[strategy] for strategy in strategies)}


@pytest.mark.parametrize("server", in_depth(VERSIONS, NEWER), indirect=True)
def test_from_range_to_cooperative_sticky(server: Broker, tmp_path: Path) -> None:
    # Forecasts are of members that do not stand still: where one did, the history says nothing of
    # them, and is played again. (The simulator with a member 100 ms late has a rebalance more too.)
    for attempt in range(3):
        steps = list(_to_cooperative_sticky(server, tmp_path, f"eager-{attempt}"))
        if not any(happened.late for _, happened in steps):
            break
    for forecast, happened in steps:
        close_to(forecast, happened)


def _to_cooperative_sticky(
    server: Broker, work: Path, name: str
) -> Iterator[tuple[dict[str, Any], Happened]]:
    path = work / f"{name}.json"
    with fleet(server, work, name, 6, name) as group:
        group.start(NAMES, **_listing("range"))
        plan = group.plan(path, "assignor", "cooperative-sticky")
        assert [len(step["restarted"]) for step in plan["steps"]] == [3, 3]
        lists = [("cooperative-sticky", "range"), ("cooperative-sticky",)]
        for step, strategies in zip(plan["steps"], lists, strict=True):
            number = step["number"]
            assert group.verify(path, number) == "not-begun"
            with group.watched() as happened:
                for member in step["restarted"]:
                    group.restart(member, **_listing(*strategies))
                    if member != step["restarted"][-1]:
                        assert group.verify(path, number) == "half-done"
            assert group.verify(path, number, "--done") == "done"
            print(step["forecast"], happened)
            yield step["forecast"], happened[0]


@pytest.mark.parametrize("server", in_depth(VERSIONS, OLDER), indirect=True)
def test_back_to_range_in_one_restart_of_members_that_list_it(
    server: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "listed", 6, "listed") as group:
        group.start(NAMES, **_listing("cooperative-sticky", "range"))
        plan = group.plan(path, "assignor", "range", "--settings", "cooperative-sticky,range")
        (step,) = plan["steps"]
        assert plan["naive"] is None
        with group.watched() as happened:
            for name in step["restarted"]:
                group.restart(name, **_listing("range"))
        assert group.verify(path, 1, "--done") == "done"
        close_to(step["forecast"], happened[0])


@pytest.mark.parametrize("server", in_depth(VERSIONS, NEWER), indirect=True)
def test_a_member_with_the_wrong_list(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "wrong", 2, "wrong") as group:
        group.start(["a"], **_listing("range"))
        group.plan(path, "assignor", "roundrobin")
        group.restart("a", **_listing("range", "roundrobin"))
        assert group.verify(path, 1) == "wrong"
        group.restart("a", **_listing("roundrobin", "range"))
        assert group.verify(path, 1, "--done", "--wait", "30") == "done"


@pytest.mark.parametrize("server", in_depth(VERSIONS, OLDER), indirect=True)
def test_a_plan_that_goes_by_strategies_that_no_group_has(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "refused", 2, "refused") as group:
        group.start(["a"], **_listing("range"))
        plan = group.plan(
            path, "assignor", "sticky", "--settings", "a=cooperative-sticky", status=5
        )
        assert plan["steps"] == []
        refuted = [each["code"] for each in plan["preconditions"] if each["verdict"] == "refuted"]
        assert refuted == ["common-strategy"]


@pytest.mark.parametrize("server", in_depth(VERSIONS, NEWER), indirect=True)
def test_a_group_of_librdkafka_is_stopped(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"rd": 6})
        await_coordinator(wire)
    group = LibraryGroup("librdkafka", server.bootstrap, "rd", "rd", 6, tmp_path / "rd.log")
    group.start(NAMES, "range")
    with pytest.raises(KafkaException, match="must have the same protocol type"):
        Consumer({"group.id": "rd", "partition.assignment.strategy": "cooperative-sticky,range"})
    where = ("-b", server.bootstrap)
    until_steady(lambda: kgroup("describe", "rd", *where)[0]["state"] == "Stable")
    plan = kgroup("plan", "assignor", "cooperative-sticky", "rd", *where)
    path.write_text(json.dumps({"schema_version": 1, "command": "plan assignor", "data": plan}))
    (step,) = plan[0]["steps"]
    assert step["actions"][0].startswith("Shut down all members")

    def verified(status: int, *wait: str) -> str:
        given = (str(path), "--step", "1", *where, *wait)
        (found,) = kgroup("plan", "verify", *given, status=status)
        return str(found["progress"])

    assert verified(5) == "not-begun"
    group.stop_all()
    assert verified(5) == "half-done"
    group.start(NAMES, "cooperative-sticky")
    assert verified(0, "--wait", "60") == "done"
    group.stop_all()
