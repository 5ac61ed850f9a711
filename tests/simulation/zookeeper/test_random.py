"""Whatever happens to consumers and brokers: in the end everybody has what is theirs."""

from __future__ import annotations

from random import Random

import pytest

from kgroup.simulation.scenario.play import ZookeeperStage
from kgroup.simulation.scenario.scenario import Action, Paused, Scenario, Step, ZookeeperMemberPlan
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig

_QUIET_MS = 200_000
"""Longer than all retries, and any session."""
_ACTIONS = (
    *(Action.START, Action.STOP, Action.CRASH, Action.RESTART, Action.PAUSE, Action.PAUSE),
    *(Action.COMMIT, Action.ADD_PARTITIONS, Action.DELETE_RECORDS, Action.STOP_BROKER),
)


def random_scenario(seed: int) -> Scenario:
    random = Random(seed)
    topics = {topic: random.randint(1, 6) for topic in ("a", "b")}
    streams = {topic: random.randint(1, 3) for topic in random.sample(["a", "b"], 1)}
    if random.random() < 0.5:
        streams = dict.fromkeys(topics, random.randint(1, 3))
    plans = {}
    steps = []
    strategy = random.choice(["range", "roundrobin"])
    for number in range(random.randint(1, 4)):
        config = ZookeeperConfig(
            "g",
            Registration(streams),
            reset=random.choice(["smallest", "largest"]),
            strategy=strategy,
            fetchers=random.randint(1, 2),
            storage=random.choice(["zookeeper", "zookeeper", "kafka"]),
            dual_commit=random.random() < 0.5,
            auto_commit=random.random() < 0.8,
            rebalance_max_retries=30,
        )
        plans[f"c{number}"] = ZookeeperMemberPlan(config, random.choice([10, 50, 500]))
        steps.append(Step(random.randint(0, 10_000), Action.START, f"c{number}"))
    at_ms = 10_000
    grown = dict(topics)
    for _ in range(random.randint(0, 8)):
        at_ms += random.randint(10, 20_000)
        steps.append(_step(at_ms, list(plans), grown, random))
    return Scenario("g", topics, {}, tuple(steps), at_ms + _QUIET_MS, connectors=plans)


def _step(at_ms: int, names: list[str], topics: dict[str, int], random: Random) -> Step:
    action = random.choice(_ACTIONS)
    for_ms = random.randint(10, 40_000)
    if action is Action.STOP_BROKER:
        action = random.choice([Action.STOP_BROKER, Action.START_BROKER])
        return Step(at_ms, action, broker=random.randint(2, 3))
    topic = random.choice(list(topics))
    if action is Action.ADD_PARTITIONS:
        topics[topic] += random.randint(1, 3)
        return Step(at_ms, action, topic=topic, count=topics[topic])
    if action is Action.DELETE_RECORDS:
        return Step(at_ms, action, topic=topic, count=0)
    paused = random.choice(list(Paused)) if action is Action.PAUSE else Paused.PROCESS
    return Step(at_ms, action, random.choice(names), for_ms, paused=paused)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_all_ends_well(first: int) -> None:
    for seed in range(first, first + 20):
        scenario = random_scenario(seed)
        stage = ZookeeperStage(scenario, Random(seed))
        stage.clock.run(scenario.duration_ms)
        assert stage.is_settled, seed
        server = stage.cluster.server
        owners = {}
        for topic in stage.cluster.topics:
            path = f"/consumers/g/owners/{topic}"
            for number in server.children(path) if server.exists(path) else ():
                owners[topic, int(number)] = server.read(f"{path}/{number}").rpartition("-")[0]
        running = stage.consumers
        assert owners == {at: each.consumer_id for each in running for at in each.registry}, seed
        wanted = {topic for each in running for topic in each.topics}
        assert owners.keys() == {at for at in stage.cluster.leaders if at[0] in wanted}, seed
        last = stage.timeline.end(None, None, seed)
        reading = [ownership for ownership in last.ownerships if ownership.end_ms is None]
        assert len(reading) == len(owners), seed
        logs = stage.cluster.logs
        for consumer in running:
            for at, info in consumer.registry.items():
                behind = logs.end_offset(logs.row(at)) - (info.offset or 0)
                assert 0 <= behind < 200, (seed, at)


def test_a_seed_says_it_all() -> None:
    for seed in range(5):
        first, second = (ZookeeperStage(random_scenario(seed), Random(seed)) for _ in range(2))
        for stage in (first, second):
            stage.clock.run(100_000)
        assert first.timeline.events == second.timeline.events
