"""Rebalances of consumers of 0.8.2.2 into which something comes, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.simulation.zookeeper.config import Registration
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumerState
from tests.simulation.zookeeper.world import World, orders


def test_who_else_is_there_is_read_last() -> None:
    """`AssignmentContext`: its own topics, their partitions, and then the consumers."""
    world = World()
    paths: list[str] = []
    server = world.cluster.server
    read = server.read

    def note(path: str) -> str:
        paths.append(path)
        return read(path)

    server.read = note  # type: ignore[method-assign]
    world.start("a", consumer_id="one")
    world.run(1_000)
    own, topic = "/consumers/g/ids/g_one", "/brokers/topics/orders"
    assert [path for path in paths if path in (own, topic)] == [own, own, topic, own]


def test_a_broker_that_goes_is_missed_once() -> None:
    """`getCluster` wants each of those that it has found; `getAllBrokersInCluster` leaves it out.

    At one time in the rebalance it may be missed, and not again some requests later.
    """
    missed = []
    for at_ms in range(60):
        world = World(partitions=1)
        world.start("a", rebalance_backoff_ms=100)
        world.run(at_ms)
        world.cluster.server.delete("/brokers/ids/3")
        world.run(1_000)
        if world.events("missed"):
            missed.append(at_ms)
        assert len(world.owners()) == 1
    assert missed
    assert missed == [*range(missed[0], missed[-1] + 1)]
    assert len(missed) <= 7  # between the answer with its name, and that to the fourth request


def test_who_comes_back_leaves_the_owners_of_its_partitions_alone() -> None:
    """`ZKSessionExpireListener` forgets what it had before it registers, and releases nothing."""
    world = World()
    back = world.start("a")
    other = world.start("b")
    world.run(10_000)
    back.pause()
    world.run(15_000)
    assert world.owned()["b"] == [*orders(0, 1, 2, 3)]
    other.pause()  # it does not release them itself
    back.resume()
    world.run(3_000)
    assert back.consumer_id in world.nodes("ids")
    assert set(world.owners().values()) == {f"{other.consumer_id}-0"}
    assert len(world.owners()) == 4
    assert [event.partitions for event in world.events("conflict", "a")] == [orders(0, 1)] * 2
    assert world.events("missed", "a") == []  # it registers before listeners are told


def test_a_try_that_fails_before_fetchers_were_stopped_stops_them() -> None:
    """`closeFetchersForQueues` behind every try: else it would go on to read."""
    world = World(partitions=1)
    consumer = world.start("a", 10_000, rebalance_max_retries=2, rebalance_backoff_ms=1_000)
    world.run(15_000)
    info = consumer.registry["orders", 0]
    assert consumer.fetchers.fetches
    world.cluster.server.delete(f"/consumers/g/ids/{consumer.consumer_id}")
    world.run(100)
    assert consumer.state is ZookeeperConsumerState.BACKING_OFF
    assert not consumer.fetchers.fetches
    assert world.nodes("offsets", "orders") == {"0": str(info.offset)}
    read = info.offset
    world.run(5_000)
    assert len(world.events("missed", "a")) == 2
    assert world.events("failed", "a")
    assert info.offset == read


def held(world: World, partition: int) -> None:
    """Let somebody own a partition who is not there."""
    world.cluster.server.create(f"/consumers/g/owners/orders/{partition}", "somebody-0")


def test_a_conflict_gives_back_what_was_taken() -> None:
    world = World()
    held(world, 3)
    world.start("a")
    world.run(1_000)
    (conflict,) = world.events("conflict")
    assert conflict.partitions == orders(3)
    assert world.owners() == {("orders", 3): "somebody-0"}


def test_its_own_owner_node_is_no_conflict() -> None:
    """`createEphemeralPathExpectConflict`: it was written before a connection was lost."""
    world = World()
    world.cluster.server.create("/consumers/g/owners/orders/2", "g_one-0")
    world.start("a", consumer_id="one")
    world.run(1_000)
    assert world.events("conflict") == []
    assert world.owned() == {"a": [*orders(0, 1, 2, 3)]}


def test_who_stops_while_it_backs_off_takes_nothing() -> None:
    """`shutdown` waits for the lock; each try that is left fails when it has read offsets."""
    world = World()
    held(world, 3)
    stopped = world.start("a", rebalance_max_retries=4, rebalance_backoff_ms=1_000)
    world.run(500)
    assert stopped.state is ZookeeperConsumerState.BACKING_OFF
    stopped.stop()
    world.cluster.server.delete("/consumers/g/owners/orders/3")
    world.run(3_400)
    assert stopped.is_running
    assert len(world.events("rebalance", "a")) == 4
    assert world.owners() == {}
    world.run(1_000)
    assert not stopped.is_running
    assert world.events("assigned", "a") == []
    assert world.nodes("ids") == {}


def white(world: World, **config: Any) -> None:
    """Start a consumer with a filter."""
    registration = Registration({"orders.*": 1}, SubscriptionPattern.WHITE_LIST)
    world.start("a", registration=registration, **config)


def test_who_stops_begins_no_rebalance() -> None:
    """`syncedRebalance` returns at once: here that of a topic, which waits for the lock."""
    world = World()
    white(world, rebalance_max_retries=2, rebalance_backoff_ms=1_000)
    world.run(1_000)
    held(world, 4)
    world.cluster.set_partitions({"orders": 5})
    world.run(500)
    world.cluster.set_partitions({"orders-eu": 1})
    world.run(100)
    begun = len(world.events("rebalance", "a"))
    assert begun == 2
    world.consumers["a"].stop()
    world.run(2_000)
    assert not world.consumers["a"].is_running
    assert len(world.events("rebalance", "a")) == begun + 1  # the second try


@pytest.mark.parametrize("topics", [{"orders": 8}, {"orders-eu": 2}])
def test_what_changes_in_a_rebalance_leads_to_another(topics: dict[str, int]) -> None:
    """Behind it, as a lock is held; it waits here for the broker that keeps offsets."""
    world = World()
    white(world, storage="kafka", auto_commit=False)
    world.run(5_000)
    world.cluster.stop_broker(1, 5_000)
    world.cluster.set_partitions({"orders": 6})
    world.run(1_000)
    assert world.consumers["a"].state is ZookeeperConsumerState.READING_OFFSETS
    world.cluster.set_partitions(topics)
    world.run(1_000)
    assert world.consumers["a"].state is ZookeeperConsumerState.READING_OFFSETS
    world.run(8_000)
    assert len(world.owners()) == 8


def test_offsets_that_were_read_are_not_written_again() -> None:
    """`addPartitionTopicInfo` puts them into `checkpointedZkOffsets`."""
    world = World(rate=0)
    world.start("a", auto_commit_interval_ms=1_000)
    world.run(5_000)
    world.start("b", auto_commit_interval_ms=1_000)
    world.run(5_000)
    assert {len(owned) for owned in world.owned().values()} == {2}
    assert world.cluster.timeline.end(None, None, 0).requests["setData"] == 4
