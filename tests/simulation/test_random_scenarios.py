"""Whatever happens to members, brokers and topics: in the end all is as it should be.

What each consumer owns is what the coordinator's records say; nobody owns what another does; every
partition that somebody subscribes to is owned. The one exception is Kafka's own.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.client.application import Consumer
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.scenario.play import CoordinatorStage
from tests.simulation.random_scenario import random_scenario


def wanted(stage: CoordinatorStage, consumers: list[Consumer]) -> set[TopicPartition]:
    """Return the partitions of the topics that consumers subscribe to."""
    configs = [consumer.client.config for consumer in consumers]
    return {
        (topic.name, number)
        for topic in stage.cluster.topics
        for number in range(topic.partitions)
        if any(
            topic.name in config.topics
            or (config.regex is not None and re.fullmatch(config.regex, topic.name))
            for config in configs
        )
    }


def is_abandoned(stage: CoordinatorStage) -> bool:
    """Return whether only members of the classic protocol are left in a consumer group.

    Kafka computes a target assignment, and looks for new partitions, when a member of the consumer
    protocol beats or one of the classic protocol joins; heartbeats of the latter do neither
    (`classicGroupHeartbeatToConsumerGroup` of 4.3.1). It happens where the policy does not allow to
    downgrade.
    """
    group = stage.cluster.group
    return isinstance(group, ConsumerGroup) and all(
        member.classic is not None for member in group.members.values()
    )


@pytest.mark.parametrize("first", range(0, 300, 30))
def test_all_ends_well(first: int) -> None:
    for seed in range(first, first + 30):
        scenario = random_scenario(seed)
        stage = CoordinatorStage(scenario, Random(seed))
        cluster = stage.cluster
        cluster.clock.run(scenario.duration_ms)
        if cluster.coordinator is None or is_abandoned(stage):
            continue
        consumers = stage.consumers
        assert stage.is_settled, seed
        owned = sorted(partition for consumer in consumers for partition in consumer.client.owned)
        assert owned == sorted(wanted(stage, consumers)), seed
        written = cluster.log.groups().get("g")
        if consumers:
            assert written is not None
            ids = {topic.topic_id: topic.name for topic in cluster.topics}
            partitions = {
                member.member_id: sorted(
                    (at.topic or ids[at.topic_id or ""], at.partition)
                    for at in member.assignment or ()
                )
                for member in written.members
            }
            has = {
                consumer.client.member_id: sorted(consumer.client.owned) for consumer in consumers
            }
            assert partitions == has, seed


def test_a_seed_says_it_all() -> None:
    for seed in range(10):
        first, second = (CoordinatorStage(random_scenario(seed), Random(seed)) for _ in range(2))
        for stage in (first, second):
            stage.cluster.clock.run(200_000)
        assert first.cluster.timeline.events == second.cluster.timeline.events
