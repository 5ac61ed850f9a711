"""Strategies are changed for real, as plans say: steps are verified, and cost what they should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.operation.plan.assignor import CLASSES
from tests.broker.migration import close_to, fleet
from tests.broker.servers import Broker, broker

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(version)) as running:
        yield running


def _listing(*strategies: str) -> dict[str, str]:
    return {"partition_assignment_strategy": ",".join(CLASSES[each] for each in strategies)}


def test_from_range_to_cooperative_sticky(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "eager", 6, "eager") as group:
        group.start(NAMES, **_listing("range"))
        plan = group.plan(path, "assignor", "cooperative-sticky")
        assert [len(step["restarted"]) for step in plan["steps"]] == [3, 3]
        lists = [("cooperative-sticky", "range"), ("cooperative-sticky",)]
        for step, strategies in zip(plan["steps"], lists, strict=True):
            number = step["number"]
            assert group.verify(path, number) == "not-begun"
            with group.watched() as happened:
                for name in step["restarted"]:
                    group.restart(name, **_listing(*strategies))
                    if name != step["restarted"][-1]:
                        assert group.verify(path, number) == "half-done"
            assert group.verify(path, number, "--done") == "done"
            print(step["forecast"], happened)
            close_to(step["forecast"], happened[0])
