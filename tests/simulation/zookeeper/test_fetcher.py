"""Fetchers, queues and streams."""

from __future__ import annotations

import pytest

from kgroup.assignor.zookeeper import fetcher_id
from kgroup.model.cluster import TopicPartition
from kgroup.simulation.zookeeper.config import Registration
from kgroup.simulation.zookeeper.thread import Wait
from tests.simulation.zookeeper.world import World, orders


def test_a_fetcher_for_each_broker_and_id() -> None:
    world = World(partitions=9)
    consumer = world.start("a", fetchers=2)
    world.run(2_000)
    assert consumer.fetchers.fetches == {
        at: (world.cluster.leaders[at], fetcher_id(*at, 2)) for at in orders(*range(9))
    }
    assert {key for key, _ in consumer.fetchers.fetches.values()} == {1, 2, 3}


def test_it_keeps_up() -> None:
    world = World(partitions=3)
    consumer = world.start("a")
    world.run(30_000)
    for info in consumer.registry.values():
        assert info.offset is not None
        assert 295 <= info.offset <= 300


def test_a_full_queue_blocks_the_fetcher() -> None:
    """Two chunks wait, one is read, one the fetcher holds: what comes then is not fetched."""
    world = World(partitions=1)
    consumer = world.start("a", processing_ms=1_000_000, fetch_wait_max_ms=100)
    world.run(60_000)
    (info,) = consumer.registry.values()
    requests = world.cluster.timeline.end(None, None, 0).requests
    assert requests["Fetch"] == 4
    assert info.fetched_offset is not None
    assert info.fetched_offset < 10


def test_what_was_fetched_and_not_read_is_dropped() -> None:
    """It is not committed either: the next owner reads it."""
    world = World(partitions=1)
    first = world.start("a", processing_ms=10_000)
    world.run(40_000)
    (info,) = first.registry.values()
    assert info.offset is not None
    assert info.fetched_offset is not None
    assert info.offset < info.fetched_offset
    read = info.offset
    first.stop()
    world.run(10)
    assert world.nodes("offsets", "orders") == {"0": str(read)}
    world.start("b")
    world.run(10_000)
    (total,) = world.cluster.timeline.end(None, None, 0).partitions
    assert (total.read_again, total.skipped) == (0, 0)


def test_streams_share_the_work() -> None:
    """A poison record holds up the stream of its partition, and no other."""
    world = World(partitions=2)
    world.poison["orders", 0] = (50, 30_000)
    consumer = world.start("a", registration=Registration({"orders": 2}))
    world.run(20_000)
    assert consumer.registry["orders", 0].offset == 51
    assert (consumer.registry["orders", 1].offset or 0) >= 195
    world.run(30_000)
    assert (consumer.registry["orders", 0].offset or 0) >= 495


@pytest.mark.parametrize(("reset", "begin"), [("smallest", 100), ("largest", 200)])
def test_out_of_range(reset: str, begin: int) -> None:
    world = World(partitions=1)
    world.run(10_000)
    world.cluster.logs.delete_records(world.cluster.logs.row(("orders", 0)))
    world.cluster.server.create("/consumers/g/offsets/orders/0", "7")
    world.run(10_000)
    consumer = world.start("a", processing_ms=60_000, reset=reset)
    world.run(150)
    (info,) = consumer.registry.values()
    (event,) = world.events("offset reset")
    assert event.answer == reset
    assert info.is_begun
    read = info.consumed_offset
    assert read is not None
    assert begin <= read <= begin + 2
    (total,) = world.cluster.timeline.end(None, None, 0).partitions
    assert total.skipped == read


def test_a_broker_fails_and_comes_back() -> None:
    world = World(partitions=3)
    consumer = world.start("a")
    world.run(10_000)
    lost = next(at for at, broker in world.cluster.leaders.items() if broker == 2)
    world.cluster.stop_broker(2, 6_000)
    world.run(1_000)
    assert lost not in consumer.fetchers.fetches
    assert not consumer.fetchers.is_settled
    (error,) = world.events("Fetch")
    assert (error.error, error.partitions) == ("NETWORK_EXCEPTION", (lost,))
    world.run(10_000)
    broker, _ = consumer.fetchers.fetches[lost]
    assert broker == world.cluster.leaders[lost] == 3
    world.run(10_000)
    assert (consumer.registry[lost].offset or 0) >= 265
    world.cluster.start_broker(2, 1_000)
    world.run(3_000)
    assert consumer.fetchers.fetches[lost][0] == 2
    assert [event.error for event in world.events("Fetch")][1:] == ["NOT_LEADER_OR_FOLLOWER"]
    (total, *_) = world.cluster.timeline.end(None, None, 0).partitions
    assert (total.read_again, total.skipped) == (0, 0)


def refuse(world: World, partition: TopicPartition, times: int) -> None:
    """Have no leader tell the offsets of a partition, some times."""
    cluster = world.cluster
    ask = cluster.list_offset
    left = times

    def list_offset(broker: int, at: TopicPartition, reset: str) -> Wait:
        nonlocal left
        if at != partition or not left:
            return ask(broker, at, reset)
        left -= 1
        return lambda on_answer: on_answer(None)

    cluster.list_offset = list_offset  # type: ignore[method-assign]


def test_partitions_that_cannot_be_added_are_tried_again_with_all_others() -> None:
    """`addFetcherForPartitions` throws, and `noLeaderPartitionSet` gets all that were found."""
    world = World(partitions=9)
    refuse(world, ("orders", 3), 2)
    consumer = world.start("a")
    world.run(2_000)
    assert consumer.fetchers.fetches.keys() == {*orders(*range(9))}
    assert consumer.fetchers.is_settled


def test_a_reset_that_fails_gives_the_partition_back() -> None:
    """`partitionsWithError`, in the branch of `OffsetOutOfRangeCode`."""
    world = World(partitions=2)
    consumer = world.start("a", 20_000)
    world.run(10_000)
    refuse(world, ("orders", 0), 1)
    world.cluster.logs.delete_records(
        world.cluster.logs.row(("orders", 0))
    )  # it is late: it has not read them
    world.run(60_000)
    assert consumer.fetchers.is_settled
    assert [(event.error, event.partitions) for event in world.events("Fetch")] == [
        ("OFFSET_OUT_OF_RANGE", orders(0))
    ]


def test_leaders_are_looked_for_now_and_then() -> None:
    """`refresh.leader.backoff.ms`, 200 by default."""
    world = World(partitions=3)
    world.start("a", 1)
    world.run(5_000)
    asked = world.cluster.timeline.end(None, None, 0).requests["Metadata"]
    world.cluster.stop_broker(2, 5_000)
    world.run(5_000)
    asked = world.cluster.timeline.end(None, None, 0).requests["Metadata"] - asked
    assert 20 <= asked <= 25


def test_leaders_are_not_found_without_zookeeper() -> None:
    """`LeaderFinderThread.doWork` reads all brokers there first, and holds its lock meanwhile."""
    world = World(partitions=6)
    consumer = world.start("a", session_timeout_ms=40_000)
    world.run(10_000)
    read = world.cluster.timeline.end(None, None, 0).requests["getChildren"]
    consumer.cut(30_000)
    world.cluster.stop_broker(2, 0)
    world.run(2_000)
    world.cluster.leaders["orders", 0] = 3  # no more the one that leads partition 3, too
    world.run(1_000)
    stuck = {at: consumer.registry[at].fetched_offset for at in orders(0, 1, 3, 4)}
    world.run(20_000)
    assert {at: consumer.registry[at].fetched_offset for at in stuck} == stuck
    assert consumer.fetchers.fetches.keys() == {*orders(2, 3, 5)}
    for at in orders(2, 5):
        assert (consumer.registry[at].fetched_offset or 0) >= 325
    world.run(10_000)
    assert consumer.fetchers.is_settled
    assert (consumer.registry["orders", 0].offset or 0) >= 400
    assert world.cluster.timeline.end(None, None, 0).requests["getChildren"] - read >= 2


def test_a_fetcher_with_a_full_queue_holds_up_who_looks_for_leaders() -> None:
    """`processFetchRequest` puts chunks holding the lock that `partitionCount` needs."""
    world = World(partitions=3)
    world.poison["orders", 0] = (50, 60_000)
    consumer = world.start("a", registration=Registration({"orders": 3}))
    world.run(20_000)
    world.cluster.stop_broker(2, 0)
    world.run(2_000)
    assert consumer.fetchers.fetches["orders", 1][0] == 3
    world.cluster.stop_broker(3, 0)
    world.run(30_000)
    assert consumer.fetchers.fetches.keys() == {*orders(0)}
    world.run(20_000)
    assert consumer.fetchers.is_settled
    assert {key for key, _ in consumer.fetchers.fetches.values()} == {1}


def test_busy_programs_take_nothing() -> None:
    world = World(partitions=1)
    consumer = world.start("a")
    world.run(5_000)
    consumer.process(20_000)
    before = consumer.registry["orders", 0].offset
    world.run(15_000)
    assert consumer.registry["orders", 0].offset == before
    world.run(10_000)
    assert (consumer.registry["orders", 0].offset or 0) >= 295
