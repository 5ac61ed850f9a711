"""Random scenarios: members of both protocols, and all that may happen to them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.rules import (
    CONSUMER_PROTOCOL,
    COOPERATIVE,
    SKIPPED_ASSIGNMENT,
    BrokerSettings,
    ConsumerSettings,
    MigrationPolicy,
)
from kgroup.simulation.scenario.scenario import Action, KeptIn, MemberPlan, Paused, Scenario, Step

_VERSIONS = ((1, 1, 1), (2, 8, 2), (3, 9, 2), (4, 3, 1), (4, 3, 1), (4, 3, 1))
_STRATEGIES = (
    ("range",),
    ("range", "cooperative-sticky"),
    ("cooperative-sticky",),
    ("sticky", "range"),
)
_POLICIES = (*MigrationPolicy, *[MigrationPolicy.BIDIRECTIONAL] * 3)
_KEPT = (KeptIn.BOTH, KeptIn.EXTERNAL, *[KeptIn.KAFKA] * 8)
_QUIET_MS = 400_000
"""Longer than any timeout, and than metadata are old."""


def random_scenario(seed: int) -> Scenario:
    """Make a scenario that ends in peace."""
    random = Random(seed)
    version = random.choice(_VERSIONS)
    names = random.sample(["a", "b", "c"], random.randint(1, 3))
    topics = {topic: random.randint(1, 5) for topic in names}
    is_static = version >= SKIPPED_ASSIGNMENT and random.random() < 0.4
    grown = dict(topics)
    members = {}
    steps = []
    for number in range(random.randint(1, 5)):
        name = f"m{number}"
        config = _config(name, names, version, is_static, random)
        habits = random.choice([100, 500, 2000]), random.choice(["latest", "earliest"])
        members[name] = MemberPlan(config, *habits, _KEPT[int(random.random() * 10)])
        steps.append(Step(random.randint(0, 20_000), Action.START, name))
    at_ms = 20_000
    for _ in range(random.randint(0, 8)):
        at_ms += random.randint(100, 30_000)
        # A group that has changed its protocol takes topics as they are then for assigned, as
        # Kafka does; and a static member that comes back changes nothing.
        grows = not is_static
        steps.append(_step(at_ms, members, grown, grows, random))
    return Scenario(
        "g",
        topics,
        members,
        tuple(steps),
        at_ms + _QUIET_MS,
        settings=BrokerSettings.of(version),
        consumer_settings=ConsumerSettings(migration_policy=random.choice(_POLICIES)),
    )


def _config(
    name: str, topics: list[str], version: tuple[int, ...], is_static: bool, random: Random
) -> ConsumerConfig:
    is_new = version >= CONSUMER_PROTOCOL and random.random() < 0.6
    config = ConsumerConfig(
        "g",
        name,
        tuple(random.sample(topics, random.randint(1, len(topics)))),
        instance_id=f"i-{name}" if is_static and random.random() < 0.6 else None,
        group_protocol="consumer" if is_new else "classic",
        strategies=random.choice(_STRATEGIES) if version >= COOPERATIVE else ("range",),
        session_timeout_ms=random.choice([6_000, 10_000, 45_000]),
        heartbeat_interval_ms=random.choice([1_000, 3_000]),
        max_poll_interval_ms=random.choice([10_000, 300_000]),
        enable_auto_commit=random.random() < 0.8,
        metadata_max_age_ms=random.choice([10_000, 300_000]),
        version=version,
    )
    if is_new:
        config = replace(config, remote_assignor=random.choice([None, "range", "uniform"]))
        if random.random() < 0.3:
            config = replace(config, topics=(), regex=random.choice(["a|b", ".*", "c"]))
    return config


def _step(
    at_ms: int, members: dict[str, MemberPlan], topics: dict[str, int], grows: bool, random: Random
) -> Step:
    action = random.choice(
        [
            *(Action.START, Action.STOP, Action.CRASH, Action.RESTART, Action.PAUSE),
            *(Action.COMMIT, Action.STOP_BROKER, Action.START_BROKER, Action.MOVE_COORDINATOR),
            Action.REMOVE,
            *([Action.ADD_PARTITIONS] if grows else []),
        ]
    )
    step = Step(at_ms, action)
    if action is Action.ADD_PARTITIONS:
        topic = random.choice(list(topics))
        topics[topic] += 2
        return replace(step, topic=topic, count=topics[topic])
    if action in (Action.STOP_BROKER, Action.START_BROKER):
        return replace(step, broker=random.randint(1, 3))
    if action is Action.MOVE_COORDINATOR:
        return step
    name = random.choice(list(members))
    step = replace(step, member=name, for_ms=random.randint(100, 60_000))
    if action is Action.PAUSE:
        paused = Paused.PROCESS if random.random() < 0.5 else Paused.PROCESSING
        return replace(step, paused=paused)
    if action is Action.RESTART:
        return replace(step, plan=_other_protocol(members[name], topics, random))
    return step


def _other_protocol(plan: MemberPlan, topics: dict[str, int], random: Random) -> MemberPlan:
    config = plan.config
    if config.version < CONSUMER_PROTOCOL or random.random() < 0.4:
        return plan
    is_classic = config.group_protocol == "classic"
    config = replace(
        config,
        group_protocol="consumer" if is_classic else "classic",
        topics=config.topics or tuple(topics),
        regex=None,
    )
    return replace(plan, config=config)
