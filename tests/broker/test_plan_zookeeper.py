"""Groups of real consumers of 0.8.2.2 leave ZooKeeper, as plans say."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.migration import Happened, close_to, kgroup
from tests.broker.old_migration import old_fleet
from tests.broker.servers import Broker, broker
from tests.record.clients import join_java, settle
from tests.record.session import Session, session


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker("0.8.2.2", tmp_path_factory.mktemp("0.8.2.2")) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker that serves consumers of both kinds, and waits for new ones as by default."""
    config = {"group.initial.rebalance.delay.ms": "3000"}
    with broker("2.8.2", tmp_path_factory.mktemp("2.8.2"), config=config) as running:
        yield running


@pytest.mark.parametrize("names", [["a", "b"], ["alone"]], ids=["two", "one"])
def test_commits_go_to_kafka(old_server: Broker, tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "plan.json"
    name = f"group-of-{len(names)}"
    with old_fleet(old_server, tmp_path, name, 6, f"read-by-{len(names)}") as group:
        group.start(names)
        plan = group.plan(path, "kafka-offsets")
        assert [len(step["restarted"]) for step in plan["steps"]] == [len(names)] * 2
        for step, dual in zip(plan["steps"], ("true", "false"), strict=True):
            number = step["number"]
            assert group.verify(path, number) == "not-begun"
            with group.watched() as happened:
                for each in names:
                    group.restart(each, offsets_storage="kafka", dual_commit_enabled=dual)
                    if each != names[-1]:
                        assert group.verify(path, number) == "half-done"
            assert group.verify(path, number, is_done=True) == "done"
            _costs(step["forecast"], happened[0], is_alone=len(names) == 1)
        (again,) = [
            each
            for each in group.plan(tmp_path / "again.json", "kafka-offsets")["preconditions"]
            if each["code"] == "storage"
        ]
        assert "larger in Kafka, 0 in ZooKeeper" in again["found"]


def _costs(forecast: dict[str, Any], happened: Happened, *, is_alone: bool) -> None:
    """See that a step has cost what was forecast.

    How long it takes until others read what somebody gave up is a matter of messages, which take
    no time here and some milliseconds in a forecast: it is no more. Where nobody is there to take
    over it is the restart that counts, and that is compared.
    """
    if is_alone:
        close_to(forecast, happened)
        return
    assert (forecast["rebalances"], forecast["moved"]) == (happened.rebalances, happened.moved)
    assert happened.stopped_ms <= 2 * forecast["stopped_ms"]
    assert happened.skipped == 0
    assert happened.read_again <= forecast["read_again"]


def test_new_consumers_want_brokers_that_coordinate(old_server: Broker, tmp_path: Path) -> None:
    with old_fleet(old_server, tmp_path, "too-old", 2, "of-old-brokers") as group:
        group.start(["a"])
        plan = group.plan(tmp_path / "plan.json", "new-consumer", status=5)
    assert plan["steps"] == []
    refuted = [each["code"] for each in plan["preconditions"] if each["verdict"] == "refuted"]
    assert refuted == ["broker-version"]


_AWAY_S = 15.0
"""From the end of the old consumers to the start of the new ones: commands are run meanwhile."""


def test_new_consumers_take_the_place_of_old_ones(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    brokers = ("-b", server.bootstrap)
    with (
        _java(server, tmp_path) as clients,
        old_fleet(server, tmp_path, "billing", 4, "orders") as group,
    ):
        group.start(["a", "b"])
        (finding,) = kgroup("check", "billing", *group.where)
        assert (finding["code"], finding["severity"]) == ("legacy-group", "info")
        plan = group.plan(path, "new-consumer", "--restart-time", f"{_AWAY_S:g}s")
        assert [step["number"] for step in plan["steps"]] == [1, 2, 3]
        assert group.verify(path, 1) == "not-begun"
        assert group.verify(path, 2) == "not-begun"
        with group.watched(lambda: clients.call("journal")) as happened:
            group.stop("a", "b")
            start_s = time.monotonic() + _AWAY_S
            assert group.verify(path, 1, is_done=True) == "done"
            assert group.verify(path, 2) == "not-begun"
            stopped = group.plan(tmp_path / "stopped.json", "new-consumer")
            assert [each["title"] for each in stopped["steps"]] == [
                step["title"] for step in plan["steps"][1:]
            ]
            backup = ("--backup", str(tmp_path / "before.json"))
            kgroup("plan", "apply", str(path), "--step", "2", "--execute", *backup)
            _, compare = (shlex.split(each)[1:] for each in plan["steps"][1]["commands"])
            kgroup(*compare)
            assert group.verify(path, 2, is_done=True) == "done"
            assert group.verify(path, 3, *brokers) == "not-begun"
            time.sleep(max(0, start_s - time.monotonic()))
            settings = {
                each["name"].replace(".", "_"): each["after"]
                for each in plan["steps"][2]["settings"]
                if each["after"] is not None and "deserializer" not in each["name"]
            }
            for name in ("a-0", "b-0"):
                join_java(clients, "billing", name, "orders", **settings)
            settle(clients, 4, "a-0", "b-0")
            assert group.verify(path, 3, *brokers, is_done=True) == "done"
        (new,) = kgroup("describe", "billing", *brokers)
        happened[0].rebalances += new["generation_id"]
        close_to(plan["forecast"], happened[0])
        there = group.plan(tmp_path / "there.json", "new-consumer")
        assert there["steps"] == []
        assert there["summary"].startswith("Nothing to do: the group has 2 members in Kafka")


def test_both_kinds_of_consumers_are_not_to_be_there_at_once(
    server: Broker, tmp_path: Path
) -> None:
    with (
        _java(server, tmp_path) as clients,
        old_fleet(server, tmp_path, "beside", 2, "read-twice") as group,
    ):
        group.start(["a", "b"])
        path = tmp_path / "before.json"
        group.plan(path, "new-consumer")
        group.stop("b")
        assert group.verify(path, 1) == "half-done"
        join_java(clients, "beside", "new", "read-twice")
        settle(clients, 2, "new")
        plan = group.plan(tmp_path / "plan.json", "new-consumer", status=5)
    refuted = [each["code"] for each in plan["preconditions"] if each["verdict"] == "refuted"]
    assert refuted == ["alone"]


@contextmanager
def _java(server: Broker, work: Path) -> Iterator[Session]:
    with session(
        server.version, ["Consumers"], bootstrap=server.bootstrap, log=work / "java.log"
    ) as clients:
        yield clients
