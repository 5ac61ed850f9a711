"""Topics get more partitions for real: as plans say nothing is skipped, and else what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroup.source.broker.source import LiveCluster
from tests.broker.migration import RATE, Fleet, Happened, close_to, fleet, kgroup
from tests.broker.servers import Broker, broker
from tests.examples import in_depth
from tests.waiting import until

AGE = "15s"
NAMES = ["a", "b", "c"]
OLDER, CLASSIC, CONSUMER = ("3.9.2", "classic"), ("4.3.1", "classic"), ("4.3.1", "consumer")
PROTOCOLS = (OLDER, CLASSIC, CONSUMER)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    with (
        broker("3.9.2", tmp_path_factory.mktemp("older")) as older,
        broker("4.3.1", tmp_path_factory.mktemp("newer")) as newer,
    ):
        yield {"3.9.2": older, "4.3.1": newer}


def _reading(protocol: str, reset: str) -> dict[str, str]:
    found = {"metadata_max_age_ms": "15000", "auto_offset_reset": reset}
    return found | ({"group_protocol": "consumer"} if protocol == "consumer" else {})


def _plan(group: Fleet, path: Path, growth: str, *arguments: str, status: int = 0) -> Any:
    given = ("--metadata-max-age", AGE, *arguments)
    return group.plan(path, "partitions", growth, *given, status=status)


def _committed(group: Fleet) -> int:
    """Count the partitions that have a commit."""
    with LiveCluster(group.where[1]) as cluster:
        return len(cluster.read_offsets([group.group]).offsets.get(group.group, ()))


def _grow(group: Fleet, path: Path, step: Any) -> Happened:
    """Carry out the step that gives the topic eight partitions in place of six."""
    number = step["number"]
    assert group.verify(path, number) == "not-begun"
    with group.watched() as happened:
        group.grow(step["commands"][0], 8)
        group.settle()
    assert group.verify(path, number, "--done", "--wait", "30") == "done"
    print(step["forecast"], happened)
    return happened[0]


@pytest.mark.parametrize(("version", "protocol"), in_depth(PROTOCOLS, (OLDER, CONSUMER)))
def test_members_that_begin_at_the_latest_record_begin_at_the_first_before(
    servers: dict[str, Broker], version: str, protocol: str, tmp_path: Path
) -> None:
    path, name = tmp_path / "plan.json", f"planned-{protocol}"
    with fleet(servers[version], tmp_path, name, 6, name) as group:
        group.start(NAMES, **_reading(protocol, "latest"))
        until(lambda: _committed(group) == 6)
        plan = _plan(group, path, f"{name}=8", "--auto-offset-reset", "latest")
        verdicts = {each["code"]: each["verdict"] for each in plan["preconditions"]}
        assert verdicts.pop("keys") == "unknown"
        assert set(verdicts.values()) == {"verified"}
        restart, grow = plan["steps"]
        assert group.verify(path, 1) == "not-begun"
        with group.watched() as happened:
            for each in restart["restarted"]:
                group.restart(each, auto_offset_reset=restart["settings"][0]["after"])
        assert group.verify(path, 1, "--done") == "done"
        print(restart["forecast"], happened)
        close_to(restart["forecast"], happened[0])
        found = _grow(group, path, grow)
        assert (found.rebalances, found.moved) == (
            grow["forecast"]["rebalances"],
            grow["forecast"]["moved"],
        )
        assert found.skipped == 0 == grow["forecast"]["skipped"]
        assert found.read_again <= grow["forecast"]["read_again"]
        assert plan["naive"]["forecast"]["skipped"] > 0
        reached = _plan(group, tmp_path / "reached.json", f"{name}=8")
        assert (reached["steps"], reached["summary"][:7]) == ([], "Nothing")


@pytest.mark.parametrize(("version", "protocol"), in_depth(PROTOCOLS, (CLASSIC, CONSUMER)))
def test_without_the_plan_records_are_skipped(
    servers: dict[str, Broker], version: str, protocol: str, tmp_path: Path
) -> None:
    """What is forecast is the most: members may look sooner than after their whole time.

    A second more, as Kafka's tool and its brokers take their time, too.
    """
    path, name = tmp_path / "plan.json", f"naive-{protocol}"
    with fleet(servers[version], tmp_path, name, 6, name) as group:
        group.start(NAMES, **_reading(protocol, "latest"))
        plan = _plan(group, path, f"{name}=8")
        forecast = plan["naive"]["forecast"]
        happened = _grow(group, path, plan["steps"][1])
        print(forecast)
        assert (happened.rebalances, happened.moved) == (forecast["rebalances"], forecast["moved"])
        assert happened.skipped <= forecast["skipped"] + 2 * RATE
        # A heartbeat of the consumer protocol may come at once.
        assert happened.skipped > 0 or protocol == "consumer"


@pytest.mark.parametrize(("version", "protocol"), in_depth(PROTOCOLS, (OLDER,)))
def test_members_that_begin_at_the_first_record_skip_nothing(
    servers: dict[str, Broker], version: str, protocol: str, tmp_path: Path
) -> None:
    path, name = tmp_path / "plan.json", f"first-{protocol}"
    with fleet(servers[version], tmp_path, name, 6, name) as group:
        group.start(NAMES, **_reading(protocol, "earliest"))
        plan = _plan(group, path, f"{name}=8", "--auto-offset-reset", "earliest")
        (step,) = plan["steps"]
        happened = _grow(group, path, step)
        forecast = step["forecast"]
        assert (happened.rebalances, happened.moved) == (forecast["rebalances"], forecast["moved"])
        assert happened.skipped == 0 == forecast["skipped"]


def test_what_cannot_be_done_is_refused(servers: dict[str, Broker], tmp_path: Path) -> None:
    where = ("-b", servers["4.3.1"].bootstrap)
    with fleet(servers["4.3.1"], tmp_path, "refused", 4, "refused") as group:
        group.start(["a", "b"], **_reading("classic", "latest"))
        fewer = _plan(group, tmp_path / "fewer.json", "refused=3", status=5)
        (refuted,) = [each for each in fewer["preconditions"] if each["verdict"] == "refuted"]
        assert (refuted["code"], refuted["found"], fewer["steps"]) == ("more-partitions", "4", [])
        assert [each["group_id"] for each in kgroup("plan", "partitions", "refused=8", *where)] == [
            "refused"
        ]
        assert kgroup("plan", "partitions", "never=8", *where, status=3) == []
        kgroup("plan", "partitions", "refused=8", "nobody", *where, status=3)
