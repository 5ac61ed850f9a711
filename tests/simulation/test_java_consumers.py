"""What real Java consumers did, recorded in their groups' records, against simulated ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kgroup.model.problem import ProblemLog
from kgroup.protocol.record.coordinator_record import decode_members
from kgroup.simulation.client.application import ApplicationSettings, Consumer
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.cluster import SimulatedCluster
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ("1.1.1", "2.8.2", "3.9.2", "4.0.0", "4.1.1", "4.3.1")
GROUPS = {
    "orders-range": "range",
    "orders-roundrobin": "roundrobin",
    "orders-sticky": "sticky",
    "orders-cooperative": "cooperative-sticky",
    "billing-empty": "range",
}
LEFT_OUT = {
    ("1.1.1", "orders-cooperative"),  # there was none
    ("2.8.2", "orders-sticky"),  # whose sticky assignors are neither those of 1.1.1 nor of 4.3.1
    ("2.8.2", "orders-cooperative"),
}
CASES = [
    (version, group) for version in VERSIONS for group in GROUPS if (version, group) not in LEFT_OUT
]


@cache
def recorded(version: str) -> dict[str, list[Any]]:
    """Read the values of the records of each group, in order."""
    found: dict[str, list[Any]] = {}
    problems = ProblemLog()
    for segment in find_segments([DATA / f"kafka-{version}"]):
        for record in read_segment(segment, problems):
            if record.type == "GroupMetadata" and record.key is not None:
                value = None if record.value is None else record.value["data"]
                found.setdefault(record.key["data"]["group"], []).append(value)
    return found


class Stage(SimulatedCluster):
    """A cluster that gives out the recorded ids, and keeps the records of the group."""

    def __init__(self, group: str, version: str, ids: list[str]) -> None:
        number = tuple(map(int, version.split(".")))
        if version == "3.9.2":
            number = (4, 0, 0)  # that broker had the new coordinator switched on
        self.ids = ids
        self.values: list[Any] = []
        topics = {"orders": 6, "payments": 3, "shipments": 4}
        super().__init__(
            group,
            BrokerSettings.of(number),
            ConsumerSettings(),
            (1,),
            topics,
            10,
            (1, 5),
            0,
            Random(1),
            {},
        )
        self.begin()

    def new_member_id(self, prefix: str) -> str:
        return self.ids.pop(0)

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        super().append(type_, key, value)
        if type_ == "GroupMetadata":
            self.values.append(value and decoded(value))


def decoded(value: Data) -> Any:
    group = {**value, "members": [dict(each) for each in value["members"]]}
    decode_members(group)
    return group


def without_times(value: Any) -> Any:
    """Leave out what depends on the clock, and the instance that older records do not tell."""
    members = [{"groupInstanceId": None, **member} for member in value["members"]]
    rest = {name: value[name] for name in ("protocolType", "generation", "protocol", "leader")}
    return rest | {"members": members}


@pytest.mark.parametrize(("version", "group"), CASES)
def test_records_of_java_consumers(version: str, group: str) -> None:
    expected = [each for each in recorded(version)[group] if each is not None]
    members = {each["memberId"]: each for value in expected for each in value["members"]}
    stage = Stage(group, version, list(members))
    number = tuple(map(int, version.split(".")))
    consumers = []
    for place, each in enumerate(members.values()):
        config = ConsumerConfig(
            group,
            each["clientId"],
            tuple(each["subscription"]["topics"]),
            strategies=(GROUPS[group],),
            session_timeout_ms=each["sessionTimeout"],
            max_poll_interval_ms=each["rebalanceTimeout"],
            rack=each["subscription"].get("rackId"),
            version=number,
        )

        def start(config: ConsumerConfig = config) -> None:
            consumers.append(Consumer(config.client_id, config, ApplicationSettings(), stage, {}))

        stage.clock.after(place * 20_000, start)
    if not expected[-1]["members"]:
        stage.clock.after(30_000, lambda: consumers[0].stop())
    stage.clock.run(60_000)
    assert list(map(without_times, stage.values)) == list(map(without_times, expected))
