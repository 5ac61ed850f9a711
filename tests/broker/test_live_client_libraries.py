"""Groups led by other libraries than Kafka's own do what dry runs say that they will."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.client.foretold import ForetoldGroup
from tests.broker.client.program import GO_AND_NODE
from tests.broker.servers import Broker, broker
from tests.examples import in_depth
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire

STRATEGIES = {
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "sarama": ("range", "roundrobin", "sticky"),
    "kafka-go": ("range", "roundrobin"),
    "kafkajs": ("RoundRobinAssigner",),
}
GROUPS = [(library, strategy) for library, each in STRATEGIES.items() for strategy in each]
BY_HAND = [each for each in GROUPS if each[0] in GO_AND_NODE]
VERSIONS = ("3.9.2", "4.3.1")
CASES = [
    pytest.param(version, *group, marks=[pytest.mark.oracle_clients] if group in BY_HAND else [])
    for at, version in enumerate(VERSIONS)
    for number, group in enumerate(GROUPS)
    if group in BY_HAND or in_depth(True, (number + at) % 2 == 0)
]
"""In `make test` each strategy of a library on one of the versions, in turn."""
WITHOUT_STATIC_MEMBERS = ("kafka-go", "kafkajs")
SUBSCRIBED_ALIKE = [
    ("kafkajs", "RoundRobinAssigner"),  # a leader gives nobody what it does not know, and any leads
    ("kafka-python", "roundrobin"),  # which ends with a KeyError where members know other topics
]
# of more topics nearly all is left to chance
WITH_ONE_TOPIC = [("franz-go", "sticky"), ("franz-go-by-rack", "sticky")]
RACK = "south"
GOES_BY_RACKS = ("franz-go", "1.21.0")
RACK_GROUPS = [("franz-go-by-rack", strategy) for strategy in STRATEGIES["franz-go"]]


def topics_of(library: str, strategy: str) -> dict[str, int]:
    sizes = {"zoo": 3, "ant": 4, "Mole": 2}
    if (library, strategy) in WITH_ONE_TOPIC:
        sizes = {"ant": 4}
    return {f"{name}.{library}.{strategy}": size for name, size in sizes.items()}


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    version: str = request.param
    with broker(version, tmp_path_factory.mktemp(version), rack=RACK) as running:
        with Wire(version, running.bootstrap) as wire:
            topics: dict[str, int] = {}
            for each in (*GROUPS, *RACK_GROUPS):
                topics |= topics_of(*each)
            create_topics(wire, topics)
            await_coordinator(wire)
        yield running


@pytest.mark.parametrize(("server", "library", "strategy"), CASES, indirect=["server"])
def test_groups_do_what_dry_runs_say(
    server: Broker, library: str, strategy: str, tmp_path: Path
) -> None:
    topics = topics_of(library, strategy)
    zoo, ant = (list(topics) * 2)[:2]
    name = f"{library}.{strategy}"
    group = ForetoldGroup(server, library, strategy, name, topics, tmp_path / "log")
    try:
        group.start("kim")
        group.join("lee")
        group.join("joe")
        group.leave("kim")
        group.grow(zoo, 6)
        group.join("mae", None if (library, strategy) in SUBSCRIBED_ALIKE else [ant])
        group.leave("joe")
        group.join("ida", is_static=library not in WITHOUT_STATIC_MEMBERS)
        group.grow(ant, 7)
        group.join("ned")
        group.leave("lee")
    finally:
        group.kill()
    print(name, dict(group.rounds), group.foretold)
    assert group.foretold > 10


@pytest.mark.oracle_clients
@pytest.mark.parametrize("server", VERSIONS, indirect=True)
@pytest.mark.parametrize("strategy", [strategy for _, strategy in RACK_GROUPS])
def test_groups_that_go_by_racks_do_what_dry_runs_say(
    server: Broker, strategy: str, tmp_path: Path
) -> None:
    library, version = GOES_BY_RACKS
    topics = topics_of(f"{library}-by-rack", strategy)
    (zoo, *_) = topics
    name = f"{library}-by-rack.{strategy}"
    group = ForetoldGroup(server, library, strategy, name, topics, tmp_path / "log", version)
    try:
        group.start("kim", rack="north")
        group.join("lee", rack=RACK)
        group.join("joe", rack=RACK)
        group.leave("kim")
        group.join("amy")
        group.grow(zoo, 6)
        group.join("mae", rack=RACK)
        group.leave("joe")
        group.join("ida", is_static=True, rack="north")
        group.leave("lee")
        group.join("zed", rack=RACK)
    finally:
        group.kill()
    print(name, dict(group.rounds), group.foretold)
    assert group.foretold > 10
