"""Consumers on a simulated ZooKeeper, one story at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.timeline import Event
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumer

BASE = ZookeeperConfig("g", Registration({"orders": 1}), reset="smallest")


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    """Partitions of the topic that all read."""
    return tuple(("orders", number) for number in numbers)


class World:
    """A cluster of three brokers, with messages that take a millisecond."""

    def __init__(self, partitions: int = 4, seed: int = 0, rate: float = 10) -> None:
        self.cluster = ZookeeperCluster(
            "g", (1, 2, 3), {"orders": partitions}, 2_000, rate, (1, 1), Random(seed)
        )
        self.clock = self.cluster.clock
        self.poison: dict[TopicPartition, tuple[int, int]] = {}
        self.consumers: dict[str, ZookeeperConsumer] = {}

    def start(self, name: str, processing_ms: int = 50, **config: Any) -> ZookeeperConsumer:
        """Start a consumer; what is not said is as in `BASE`."""
        consumer = ZookeeperConsumer(
            name, replace(BASE, **config), processing_ms, self.cluster, self.poison
        )
        self.consumers[name] = consumer
        return consumer

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.clock.run(self.clock.now_ms + duration_ms)

    def events(self, event: str, actor: str | None = None) -> list[Event]:
        """Return what happened of one kind."""
        return [
            each
            for each in self.cluster.timeline.events
            if each.event == event and actor in (None, each.actor)
        ]

    def nodes(self, *names: object) -> dict[str, str]:
        """Return the data of the nodes below one of the group, by name."""
        path = "/".join(map(str, ("/consumers/g", *names)))
        server = self.cluster.server
        if not server.exists(path):
            return {}
        return {name: server.read(f"{path}/{name}") for name in server.children(path)}

    def owners(self) -> dict[TopicPartition, str]:
        """Return the consumer thread that each owner node names."""
        return {
            (topic, int(number)): thread
            for topic in self.nodes("owners")
            for number, thread in self.nodes("owners", topic).items()
        }

    def owned(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each consumer that runs, by name."""
        ids = {
            consumer.consumer_id: name
            for name, consumer in self.consumers.items()
            if consumer.is_running
        }
        partitions: dict[str, list[TopicPartition]] = {name: [] for name in ids.values()}
        for at, thread in sorted(self.owners().items()):
            partitions[ids[thread.rpartition("-")[0]]].append(at)
        return partitions
