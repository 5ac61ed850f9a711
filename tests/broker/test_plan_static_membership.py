"""Members become static for real, and dynamic again, as plans say and at the cost of forecasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroup.cli.main import status_of
from tests.broker.migration import Fleet, close_to, fleet, kgroup
from tests.broker.servers import Broker, broker
from tests.examples import in_depth

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


def _verdicts(plan: Any) -> dict[str, str]:
    return {each["code"]: each["verdict"] for each in plan["preconditions"]}


def _become_static(group: Fleet, path: Path) -> None:
    """Carry out a plan, and see that later restarts move nothing."""
    plan = group.plan(path, "static-membership")
    assert set(_verdicts(plan).values()) == {"verified", "unknown"}
    assert [code for code, word in _verdicts(plan).items() if word == "unknown"] == ["lasting-ids"]
    first, later = plan["steps"]
    ids = {each["member"]: each["after"] for each in first["settings"]}
    assert ids == {name: name for name in NAMES}
    for step in (first, later):
        assert group.verify(path, step["number"]) == "not-begun"
        with group.watched() as happened:
            for name in step["restarted"]:
                group.restart(name, group_instance_id=ids[name])
                if name != step["restarted"][-1]:
                    assert group.verify(path, step["number"]) == "half-done"
        assert group.verify(path, step["number"], "--done") == "done"
        print(step["forecast"], happened)
        close_to(step["forecast"], happened[0])
    assert (happened[0].rebalances, happened[0].moved) == (0, 0)
    assert plan["naive"]["forecast"]["rebalances"] > 0
    reached = group.plan(path.with_name("reached.json"), "static-membership")
    assert reached["steps"] == []
    assert reached["summary"].startswith("Nothing to do")


def _become_dynamic(group: Fleet, path: Path) -> None:
    """Carry out the plan of the way back: each is removed while it is away."""
    plan = group.plan(path, "static-membership", "--back")
    (step,) = plan["steps"]
    commands = {
        each["before"]: command.split()[1:]
        for each, command in zip(step["settings"], step["commands"], strict=True)
    }
    assert group.verify(path, 1) == "not-begun"
    with group.watched() as happened:
        for name in step["restarted"]:
            group.stop(name)
            # A second later, as is forecast; a process would take several to begin on a busy
            # machine, and nobody reads meanwhile what the member had.
            time.sleep(1)
            assert status_of(commands[name]) == 0
            group.come_back(name, group_instance_id=None)
            if name != step["restarted"][-1]:
                assert group.verify(path, 1) == "half-done"
    assert group.verify(path, 1, "--done") == "done"
    print(step["forecast"], happened)
    close_to(step["forecast"], happened[0])


@pytest.mark.parametrize("server", in_depth(VERSIONS, OLDER), indirect=True)
def test_classic_members(server: Broker, tmp_path: Path) -> None:
    with fleet(server, tmp_path, "named", 6, "named") as group:
        group.start(NAMES)
        _become_static(group, tmp_path / "plan.json")
        _become_dynamic(group, tmp_path / "back.json")


@pytest.mark.parametrize("server", NEWER, indirect=True)  # what 3.9 has of it is a preview
def test_members_of_the_consumer_protocol(server: Broker, tmp_path: Path) -> None:
    with fleet(server, tmp_path, "new-named", 6, "new-named") as group:
        group.start(NAMES, group_protocol="consumer")
        _become_static(group, tmp_path / "plan.json")
        _become_dynamic(group, tmp_path / "back.json")


@pytest.mark.parametrize("server", in_depth(VERSIONS, NEWER), indirect=True)
def test_what_cannot_be_done_is_refused(server: Broker, tmp_path: Path) -> None:
    with fleet(server, tmp_path, "refused", 2, "refused") as group:
        group.start(NAMES[:2])
        alike = group.plan(
            tmp_path / "alike.json", "static-membership", "--instance-id", "worker", status=5
        )
        assert _verdicts(alike)["unique-ids"] == "refuted"
        assert alike["steps"] == []
        slow = kgroup(
            *("plan", "static-membership", "refused", *group.where, "--restart-time", "20m"),
            status=5,
        )
        assert _verdicts(slow[0])["session-timeout"] == "refuted"
        assert slow[0]["steps"] == []
