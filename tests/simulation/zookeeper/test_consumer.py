"""What a consumer of 0.8.2.2 does, as its sources say, step by step."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.simulation.clock import Clock, Process
from kgroup.simulation.zookeeper.config import Registered, Registration, ZookeeperConfig
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumer, ZookeeperConsumerState
from kgroup.simulation.zookeeper.fetcher import FetchedChunk, PartitionTopicInfo, Stream
from tests.simulation.zookeeper.world import BASE, World, orders


def test_a_consumer_registers_and_owns() -> None:
    world = World()
    consumer = world.start("a", registration=Registration({"orders": 2}))
    world.run(1_000)
    ((consumer_id, node),) = world.nodes("ids").items()
    assert consumer_id == consumer.consumer_id
    assert consumer_id.startswith("g_a-0-")
    assert json.loads(node) == {
        "version": 1,
        "subscription": {"orders": 2},
        "pattern": "static",
        "timestamp": "0",
    }
    # range: four partitions to two threads
    assert world.owners() == {
        ("orders", partition): f"{consumer_id}-{partition // 2}" for partition in range(4)
    }


def test_offsets_are_committed_when_fetchers_stop() -> None:
    world = World()
    world.start("a")
    world.run(10_000)
    assert world.nodes("offsets") == {}  # auto.commit.interval.ms is a minute
    world.start("b")
    world.run(100)
    found = {name: int(text) for name, text in world.nodes("offsets", "orders").items()}
    assert found.keys() == {"0", "1", "2", "3"}
    assert all(90 <= offset <= 101 for offset in found.values())  # ten a second


def test_auto_commit() -> None:
    world = World()
    world.start("a", auto_commit_interval_ms=5_000)
    world.start("off", auto_commit=False, registration=Registration({"none": 1}))
    world.run(4_999)
    assert world.nodes("offsets") == {}
    world.run(101)
    found = {name: int(text) for name, text in world.nodes("offsets", "orders").items()}
    assert found.keys() == {"0", "1", "2", "3"}
    assert all(40 <= offset <= 50 for offset in found.values())  # ten a second


def test_who_was_in_the_group_before_commits_by_itself_too() -> None:
    world = World()
    config = replace(BASE, auto_commit_interval_ms=5_000)
    registered = Registered("g_a-0", dict.fromkeys(orders(0, 1, 2, 3), 0), {})
    ZookeeperConsumer("a", config, 50, world.cluster, {}, registered)
    world.run(5_100)
    assert world.nodes("offsets", "orders").keys() == {"0", "1", "2", "3"}


def test_auto_commits_do_not_come_later_and_later() -> None:
    """`scheduleAtFixedRate`: however long each of them takes."""
    world = World()
    world.start("a", auto_commit_interval_ms=1_000)
    world.run(100_050)
    requests = world.cluster.timeline.end(None, None, 0).requests
    assert requests["setData"] == 100 * 4


def test_who_ends_waits_for_an_auto_commit() -> None:
    """`KafkaScheduler.shutdown` does, before the fetchers are stopped."""
    world = World()
    consumer = world.start("a", storage="kafka", auto_commit_interval_ms=1_000)
    world.run(5_500)
    world.cluster.stop_broker(1, 5_000)
    world.run(2_000)
    consumer.stop()
    world.run(2_500)
    assert consumer.fetchers.fetches.keys() == {*orders(1, 2)}
    world.run(2_000)
    assert not consumer.is_running
    assert world.cluster.offsets.keys() == {*orders(0, 1, 2, 3)}


def test_without_auto_commit_nothing_is_committed() -> None:
    world = World()
    consumer = world.start("a", auto_commit=False)
    world.run(70_000)
    consumer.stop()
    world.run(100)
    assert world.nodes("offsets") == {}
    assert world.nodes("ids") == {}


def test_a_commit_is_written_where_it_has_changed() -> None:
    world = World(rate=0)
    world.start("a", auto_commit_interval_ms=1_000)
    world.run(10_000)
    requests = world.cluster.timeline.end(None, None, 0).requests
    assert requests["setData"] == 4  # where it has begun, once


def test_who_stops_leaves_at_once() -> None:
    world = World()
    first = world.start("a")
    world.start("b")
    world.run(10_000)
    first.stop()
    world.run(1_000)
    assert world.owned() == {"b": [*orders(0, 1, 2, 3)]}
    assert world.events("session expired") == []


def test_who_crashes_is_missed_after_the_session() -> None:
    world = World()
    world.start("a")
    crashed = world.start("b")
    world.run(10_000)
    crashed.crash()
    world.run(5_000)
    assert crashed.consumer_id in world.nodes("ids")
    world.run(5_000)
    assert world.owned() == {"a": [*orders(0, 1, 2, 3)]}


def test_a_conflict_gives_all_back() -> None:
    world = World()
    busy = world.start("a")
    world.run(10_000)
    busy.pause()
    world.start("b", rebalance_max_retries=2, rebalance_backoff_ms=500)
    world.run(400)
    (conflict,) = world.events("conflict", "b")
    assert conflict.partitions == orders(2, 3)
    assert set(world.owners().values()) == {f"{busy.consumer_id}-0"}
    world.run(1_000)
    (failed,) = world.events("failed")
    assert (failed.actor, failed.answer) == ("b", "can't rebalance after 2 retries")
    assert not world.consumers["b"].is_running  # createMessageStreams has thrown


def test_who_fails_later_stays_and_reads_nothing() -> None:
    world = World()
    zombie = world.start("b", rebalance_max_retries=1, rebalance_backoff_ms=100)
    world.run(10_000)
    world.start("a", registration=Registration({"orders": 1}))
    world.run(30)
    world.consumers["a"].pause()  # it has registered, and holds what it has taken
    world.cluster.server.create("/consumers/g/owners/orders/9", "somebody")
    world.cluster.set_partitions({"orders": 10})
    world.run(2_000)
    assert zombie.is_running
    assert world.events("failed", "b")
    assert zombie.consumer_id in world.nodes("ids")
    assert not zombie.registry


def test_old_registration_is_waited_for() -> None:
    """With consumer.id a restarted program meets the node of its own session before."""
    world = World()
    world.start("a", consumer_id="one").crash()
    world.run(100)
    first = world.start("b", consumer_id="one")
    world.run(1_000)
    first.crash()
    world.run(100)
    world.start("c", consumer_id="one")
    world.run(3_000)
    assert world.events("registered", "c") == []
    world.run(12_000)
    (registered,) = world.events("registered", "c")
    assert (registered.time_ms - 1_200) % 6_000 < 20  # it looks once a session timeout
    assert world.owned()["c"] == [*orders(0, 1, 2, 3)]


def test_several_changes_are_one_rebalance() -> None:
    world = World()
    world.start("a")
    world.run(10_000)
    before = len(world.events("rebalance", "a"))
    for name in "bcd":
        world.start(name)
    world.run(10_000)
    assert len(world.events("rebalance", "a")) - before <= 2


def test_partitions_that_are_added_are_seen_at_once() -> None:
    world = World()
    world.start("a")
    world.start("b")
    world.run(10_000)
    world.cluster.set_partitions({"orders": 8})
    world.run(3_000)
    assert {name: len(owned) for name, owned in world.owned().items()} == {"a": 4, "b": 4}
    assert {str(event.answer) for event in world.events("rebalance", "a")[-1:]} == {
        "partitions changed"
    }


def test_a_topic_that_is_made_later() -> None:
    world = World()
    world.start("a", registration=Registration({"payments": 1}))
    world.run(1_000)
    assert world.owners() == {}
    world.cluster.set_partitions({"payments": 2})
    world.run(1_000)
    assert world.owners().keys() == {("payments", 0), ("payments", 1)}


def test_filters_see_new_topics() -> None:
    world = World()
    white = Registration({"orders.*": 1}, SubscriptionPattern.WHITE_LIST)
    black = Registration({"payments|x": 1}, SubscriptionPattern.BLACK_LIST)
    world.start("w", registration=white)
    world.run(5_000)
    world.start("z", registration=black)
    world.run(5_000)
    world.cluster.set_partitions({"orders-eu": 2, "payments": 2, "__consumer_offsets": 1})
    world.run(5_000)
    topics = {at[0] for owned in world.owned().values() for at in owned}
    assert topics == {"orders", "orders-eu"}
    assert len(world.owners()) == 6
    assert all(world.owned().values())


def test_sessions_that_expire_in_a_pause() -> None:
    world = World()
    paused = world.start("a")
    world.start("b")
    world.run(10_000)
    paused.pause()
    world.run(15_000)
    assert world.owned() == {"a": [], "b": [*orders(0, 1, 2, 3)]}
    paused.resume()
    world.run(5_000)
    assert world.owned() == {"a": [*orders(0, 1)], "b": [*orders(2, 3)]}
    assert paused.consumer_id in world.nodes("ids")
    (new,) = world.events("new session")
    assert new.actor == "a"


def test_a_short_pause_is_not_noticed() -> None:
    world = World()
    paused = world.start("a")
    world.start("b")
    world.run(10_000)
    before = len(world.cluster.timeline.events)
    paused.pause()
    world.run(5_000)
    paused.resume()
    world.run(30_000)
    assert len(world.cluster.timeline.events) == before


def test_cut_off_from_zookeeper_it_reads_on() -> None:
    world = World()
    alone = world.start("a")
    world.run(10_000)
    alone.cut(30_000)
    world.run(20_000)
    assert world.owners() == {}
    position = alone.registry["orders", 0].offset
    assert position is not None
    assert 290 <= position <= 300
    world.run(12_000)
    assert world.owned() == {"a": [*orders(0, 1, 2, 3)]}


def test_who_ends_while_it_is_cut_off_is_missed_after_the_session() -> None:
    """The server cannot be told (`ClientCnxn` ends without an answer)."""
    world = World()
    ended = world.start("a", auto_commit=False)
    world.start("b")
    world.run(10_000)
    ended.cut(60_000)
    world.run(1_000)
    ended.stop()
    world.run(3_000)
    assert not ended.is_running
    assert ended.consumer_id in world.nodes("ids")
    world.run(7_000)
    (expired,) = world.events("session expired")
    assert (expired.answer, expired.time_ms) == ("a", 18_000)  # pinged at 10 s; a tick behind
    assert world.owned() == {"b": [*orders(0, 1, 2, 3)]}
    world.run(60_000)
    assert world.events("connected again") == []


def test_who_ends_behind_a_short_pause_leaves_at_once() -> None:
    world = World()
    ended = world.start("a", auto_commit=False)
    world.run(10_000)
    ended.pause()
    ended.stop()
    world.run(1_000)
    ended.resume()
    world.run(10)
    assert world.nodes("ids") == {}
    world.run(20_000)
    assert world.events("session expired") == []


def test_a_cut_that_is_over_is_not_told_again() -> None:
    world = World()
    consumer = world.start("a")
    world.run(1_000)
    consumer.cut(1_000)
    world.run(2_000)
    consumer.pause()
    world.run(100)
    consumer.resume()
    world.run(100)
    assert [event.time_ms for event in world.events("connected again")] == [2_000]


@pytest.mark.parametrize("pause_ms", [0, 15_000, 40_000])
def test_the_last_of_several_cuts_counts(pause_ms: int) -> None:
    """A process that stands still is there when it goes on, and its connection may be."""
    world = World()
    consumer = world.start("a")
    world.run(10_000)
    consumer.cut(25_000)
    world.run(1_000)
    consumer.cut(1_000)
    if pause_ms:
        consumer.pause()
        world.clock.after(pause_ms, consumer.resume)
    world.run(60_000)
    (again,) = world.events("connected again")
    back_ms = max(35_000, 11_000 + pause_ms)
    assert back_ms <= again.time_ms <= back_ms + 1
    (new,) = world.events("new session")
    assert new.time_ms == again.time_ms
    assert world.owned() == {"a": [*orders(0, 1, 2, 3)]}


def test_round_robin_needs_the_same_topics() -> None:
    world = World()
    world.cluster.set_partitions({"payments": 1})
    world.start("a", strategy="roundrobin", registration=Registration({"orders": 1}))
    world.run(1_000)
    world.start(
        "b",
        strategy="roundrobin",
        registration=Registration({"orders": 1, "payments": 1}),
        rebalance_backoff_ms=100,
        rebalance_max_retries=3,
    )
    world.run(1_000)
    assert [event.answer for event in world.events("missed", "b")] == [
        "IllegalArgumentException"
    ] * 3
    assert world.events("failed", "b")


def test_no_broker_is_waited_for() -> None:
    world = World()
    for broker in (1, 2, 3):
        world.cluster.stop_broker(broker, 0)
    world.run(10)
    world.start("a")
    world.run(5_000)
    assert world.owners() == {}
    assert world.events("failed") == []
    world.cluster.start_broker(2, 0)
    world.run(1_000)
    assert world.owned() == {"a": [*orders(0, 1, 2, 3)]}


@pytest.mark.parametrize("dual", [{}, {"dual_commit": False}, {"dual_commit": True}])
def test_offsets_in_kafka(dual: dict[str, bool]) -> None:
    """They go to ZooKeeper too, if that is not switched off (`dual.commit.enabled`)."""
    world = World()
    consumer = world.start("a", storage="kafka", auto_commit_interval_ms=1_000, **dual)
    world.run(10_000)
    assert world.cluster.offsets.keys() == {*orders(0, 1, 2, 3)}
    assert bool(world.nodes("offsets")) is dual.get("dual_commit", True)
    consumer.stop()
    world.run(100)
    world.start("b", storage="kafka", **dual)
    world.run(1_000)
    assert len(world.owners()) == 4
    totals = world.cluster.timeline.end(None, None, 0).partitions
    assert {(total.read_again, total.skipped) for total in totals} == {(0, 0)}


def test_dual_commit_reads_the_larger_offset() -> None:
    world = World(partitions=2)
    world.run(20_000)
    world.cluster.offsets.update({("orders", 0): 50, ("orders", 1): 120})
    for number, offset in ((0, 70), (1, 80)):
        world.cluster.server.create(f"/consumers/g/offsets/orders/{number}", str(offset))
    consumer = world.start("a", 10_000, storage="kafka", dual_commit=True)
    world.run(60)
    begun = {at: info.consumed_offset for at, info in consumer.registry.items()}
    assert begun == {("orders", 0): 70, ("orders", 1): 120}


def test_who_gets_no_partition_asks_for_no_offsets() -> None:
    world = World(partitions=1)
    world.start("a")
    world.run(1_000)
    world.start("b", storage="kafka")
    world.run(10_000)
    totals = world.cluster.timeline.end(None, None, 0)
    assert "OffsetFetch" not in totals.requests


def test_who_keeps_offsets_in_kafka_registers_when_their_broker_is_found() -> None:
    """`ensureOffsetManagerConnected` is called before the consumer is made."""
    world = World()
    world.cluster.stop_broker(1, 5_000)
    world.start("a", storage="kafka")
    world.run(4_900)
    assert world.nodes("ids") == {}
    world.run(2_000)
    assert len(world.owners()) == 4


def test_commits_wait_for_the_broker_that_keeps_offsets() -> None:
    """One fails, by which the channel is known to be broken; then a rebalance waits, too."""
    world = World()
    first = world.start("a", storage="kafka", auto_commit_interval_ms=1_000)
    world.run(5_500)
    asked = world.cluster.timeline.end(None, None, 0).requests["FindCoordinator"]
    assert asked == 1
    world.cluster.stop_broker(1, 60_000)
    world.run(1_000)
    (failed,) = world.events("OffsetCommit", "a")
    assert failed.error == "NETWORK_EXCEPTION"
    world.start("b", rebalance_max_retries=100)
    world.run(20_000)
    assert len(world.events("OffsetCommit")) == 1
    assert set(world.owners().values()) == {f"{first.consumer_id}-0"}
    assert world.events("conflict", "b")
    asked = world.cluster.timeline.end(None, None, 0).requests["FindCoordinator"] - asked
    assert 18 <= asked <= 21  # one of its threads asks, once a second, and the other waits
    world.run(50_000)
    assert world.owned() == {"a": [*orders(0, 1)], "b": [*orders(2, 3)]}


@pytest.mark.parametrize(
    ("retries", "is_stopped", "is_done"), [(5, True, True), (0, True, False), (5, False, False)]
)
def test_a_commit_at_the_end_is_tried_again(retries: int, is_stopped: bool, is_done: bool) -> None:
    """At most `offsets.commit.max.retries` times; any other is not."""
    world = World()
    consumer = world.start("a", storage="kafka", offsets_commit_max_retries=retries)
    world.run(5_000)
    world.cluster.stop_broker(1, 0)  # another one keeps offsets now; the channel is broken
    world.run(10)
    if is_stopped:
        consumer.stop()
    else:
        consumer.commit()
    world.run(2_000)
    assert consumer.is_running is not is_stopped
    (failed,) = world.events("OffsetCommit", "a")
    assert failed.error == "NETWORK_EXCEPTION"
    assert (world.cluster.offsets.keys() == {*orders(0, 1, 2, 3)}) is is_done
    assert bool(world.nodes("offsets")) is is_done


def test_offsets_are_read_when_their_broker_is_found() -> None:
    world = World()
    world.start("a", storage="kafka", auto_commit=False)
    world.run(5_000)
    world.cluster.offsets["orders", 0] = 7
    world.cluster.stop_broker(1, 4_000)
    world.start("b", rebalance_max_retries=100)
    world.run(3_000)
    (failed,) = world.events("OffsetFetch", "a")
    assert failed.error == "NETWORK_EXCEPTION"
    world.run(5_000)
    assert world.owned()["a"] == [*orders(0, 1)]
    logs = world.cluster.logs
    assert {logs.row(("orders", 0)): 7} in logs.readers.values()


def test_who_ends_when_others_change_rebalances_no_more() -> None:
    """It is told of the new one, and ends before it has looked."""
    world = World()
    ended = world.start("a")
    world.run(10_000)
    world.start("b")
    world.run(2)
    ended.stop()
    world.run(60_000)
    assert not ended.is_running
    assert world.owned() == {"b": [*orders(0, 1, 2, 3)]}
    assert world.cluster.is_resting


def test_who_is_busy_with_a_record_stops_all_partitions_of_its_thread() -> None:
    """Range: of three partitions, the first two are one thread's, and the last is another's."""
    world = World(partitions=3)
    world.poison["orders", 0] = (50, 60_000)
    world.start("a", registration=Registration({"orders": 2}), auto_commit_interval_ms=1_000)
    world.run(30_000)
    found = [int(world.nodes("offsets", "orders")[str(number)]) for number in range(3)]
    assert [offset > 250 for offset in found] == [False, False, True]  # ten a second


def test_settings_that_are_not_told_are_as_in_kafka() -> None:
    """As "Consumer Configs" of the documentation of 0.8.2."""
    config = ZookeeperConfig("g", Registration({"orders": 1}))
    assert (config.session_timeout_ms, config.rebalance_max_retries) == (6_000, 4)
    assert config.rebalance_backoff_ms == 2_000  # zookeeper.sync.time.ms
    assert (config.auto_commit, config.auto_commit_interval_ms) == (True, 60_000)
    assert (config.reset, config.strategy, config.storage) == ("largest", "range", "zookeeper")
    assert (config.fetchers, config.queued_chunks) == (1, 2)
    assert (config.fetch_wait_max_ms, config.refresh_leader_backoff_ms) == (100, 200)
    assert (config.offsets_channel_backoff_ms, config.offsets_commit_max_retries) == (1_000, 5)


# ---- rebalances of consumers of 0.8.2.2 into which something comes, step by step


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


# ---- what a program is given by `ConsumerIterator` of 0.8.2.2


def read(begin: int) -> tuple[Clock, Stream, PartitionTopicInfo]:
    """Begin a stream whose program takes a second for a chunk."""
    clock = Clock()
    stream = Stream(Process(clock), 4, 1_000, {}, lambda at, ms: None, lambda: None)
    return clock, stream, PartitionTopicInfo(("t", 0), stream, begin, begin)


def put(stream: Stream, info: PartitionTopicInfo, *bounds: int) -> None:
    """Enqueue chunks that follow each other."""
    for begin, end in pairwise(bounds):
        stream.put(FetchedChunk(info, begin, end))(lambda _: None)


def test_records_are_given_one_after_another() -> None:
    """`next` sets the consumed offset behind each."""
    clock, stream, info = read(0)
    put(stream, info, 0, 10, 20)
    found = []
    for now_ms in (0, 499, 500, 999, 1_000, 1_950, 2_000):
        clock.run(now_ms)
        found.append(info.offset)
    assert found == [1, 5, 6, 10, 11, 20, 20]


def test_of_a_chunk_before_the_consumed_offset_the_last_record_is_given() -> None:
    """`makeNext` rejects what was consumed while there is more in the chunk; `next` goes back."""
    clock, stream, info = read(0)
    stream.be_busy(500)
    put(stream, info, 0, 10, 20)
    info.begin(100)  # `handleOffsetOutOfRange`
    put(stream, info, 100, 110)
    assert info.offset == 100
    clock.run(500)
    assert info.offset == 10
    clock.run(1_500)
    assert info.offset == 11  # nothing of this one was consumed, as far as is known then
    assert info.position(0) == 100
    clock.run(2_500)
    assert info.offset == 101


def test_an_offset_that_is_reset_passes_over_what_is_being_read() -> None:
    clock, stream, info = read(0)
    put(stream, info, 0, 10)
    clock.run(500)
    assert info.offset == 6
    info.begin(8)
    assert info.offset == 9
    info.begin(100)
    assert info.offset == 10
    put(stream, info, 100, 110)
    clock.run(1_000)
    assert info.offset == 101


def test_what_waits_to_be_read_is_dropped_with_the_queue() -> None:
    """`clearFetcherQueues` drops what was fetched; the program gets what is fetched anew."""
    clock, stream, info = read(0)
    put(stream, info, 0, 10, 20, 30)
    clock.run(1_500)
    assert info.offset == 16
    stream.clear()
    put(stream, info, 16, 20, 30)
    clock.run(2_500)
    assert info.offset == 21
