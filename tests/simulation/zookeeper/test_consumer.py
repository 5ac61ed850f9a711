"""What a consumer of 0.8.2.2 does, as its sources say, step by step."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.simulation.zookeeper.config import Registered, Registration, ZookeeperConfig
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumer
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
    assert list(world.cluster.logs.readers["orders", 0].values()) == [7]


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
