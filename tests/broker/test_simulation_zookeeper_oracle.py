"""Real consumers of 0.8.2.2 and simulated ones, to which the same happens.

After each step they have settled, and compared are the nodes of the group in ZooKeeper (who is
registered with what, who owns which partition, what is committed) and what each fetcher thread
reads. Ids are chosen (`consumer.id`), so that they are the same.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumer
from tests.broker.old_consumers import (
    QUIET_S,
    SESSION_TIMEOUT_MS,
    Black,
    OldConsumers,
    Streams,
    White,
    old_consumers,
)
from tests.broker.servers import Broker, cluster
from tests.examples import in_depth
from tests.record.session import ClientError
from tests.waiting import PATIENCE_S, until

VERSION = "0.8.2.2"
TICK_MS = 1_000
"""Of the servers that `tests.broker.servers` starts."""
TOPICS = {"t.orders": "1,2,1,2,1", "t.payments": "2,1,2", "u.one": "1"}
HOSTS = ("a", "b", "c")
MOST_CONSUMERS = 4
STEPS = in_depth(8, 4)
"""Of each story, behind the first consumer."""
SETTLED_MS = 60_000
"""After so long simulated consumers have what they will keep."""
STORIES = {
    "range-static": ("range", 1),
    "range-white": ("range", 2),
    "range-black": ("range", 3),
    "roundrobin-static": ("roundrobin", 4),
    "roundrobin-white": ("roundrobin", 5),
}
"""Strategy, and chance's seed."""
OTHERS = (*STORIES, "offsets", "paused", "fails")
"""Groups, with whose names their topics begin."""

Subscription = Streams | White | Black


def registration(subscription: Subscription) -> Registration:
    """Say a subscription as simulated consumers take it."""
    if isinstance(subscription, Streams):
        return Registration(dict(subscription.by_topic))
    is_white = isinstance(subscription, White)
    pattern = SubscriptionPattern.WHITE_LIST if is_white else SubscriptionPattern.BLACK_LIST
    return Registration({subscription.regex: subscription.streams}, pattern)


@dataclass
class Group:
    """One group, twice.

    Attributes:
        steps: how often both were compared.
    """

    real: OldConsumers
    group_id: str
    replicas: dict[str, list[int]]
    steps: int = 0

    def __post_init__(self) -> None:
        counts = {topic: len(found) for topic, found in self.replicas.items()}
        self.simulated = ZookeeperCluster(
            self.group_id, (1, 2), counts, TICK_MS, 0, (1, 5), Random(0)
        )
        self.members: dict[str, ZookeeperConsumer] = {}
        self._lead()

    def _lead(self) -> None:
        for topic, brokers in self.replicas.items():
            for number, broker in enumerate(brokers):
                self.simulated.leaders[topic, number] = broker

    # --- what happens ---------------------------------------------------------------------------

    def join(self, name: str, subscription: Subscription, host: str, **config: Any) -> None:
        """Start a consumer; settings have the names of `ZookeeperConfig`."""
        base = ZookeeperConfig(
            self.group_id,
            registration(subscription),
            consumer_id=name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_backoff_ms=200,
            rebalance_max_retries=100,
            refresh_leader_backoff_ms=100,
            auto_commit=False,
            reset="smallest",
        )
        chosen = replace(base, **config)
        self.members[name] = ZookeeperConsumer(name, chosen, 50, self.simulated, {})
        self.real.join(
            name,
            self.group_id,
            subscription,
            host=host,
            consumer_id=name,
            partition_assignment_strategy=chosen.strategy,
            num_consumer_fetchers=str(chosen.fetchers),
            auto_commit_enable=str(chosen.auto_commit).lower(),
            auto_commit_interval_ms="3600000",
            rebalance_backoff_ms=str(chosen.rebalance_backoff_ms),
            rebalance_max_retries=str(chosen.rebalance_max_retries),
        )

    def leave(self, name: str) -> None:
        self.members.pop(name).stop()
        self.real.leave(name)

    def crash(self, host: str) -> None:
        for name in self.real.crash(host):
            self.members.pop(name).crash()

    def add_partitions(self, topic: str, brokers: list[int]) -> None:
        """Write the topic's node, as Kafka's tool does: the controller makes the partitions."""
        path = f"/brokers/topics/{topic}"
        data, _ = self.real.zookeeper.get(path)
        node = json.loads(data)
        found = self.replicas[topic]
        for broker in brokers:
            node["partitions"][str(len(found))] = [broker]
            found.append(broker)
        self.real.zookeeper.set(path, json.dumps(node).encode())
        until(lambda: self._has_leaders(topic))
        self.simulated.set_partitions({topic: len(found)})
        self._lead()

    def add_topic(self, topic: str, brokers: list[int]) -> None:
        self.real.create_topic(topic, ",".join(map(str, brokers)))
        self.replicas[topic] = brokers
        self.simulated.set_partitions({topic: len(brokers)})
        self._lead()

    def _has_leaders(self, topic: str) -> bool:
        try:
            states = [
                self.real.zookeeper.get(f"/brokers/topics/{topic}/partitions/{number}/state")
                for number in range(len(self.replicas[topic]))
            ]
        except NoNodeError:
            return False
        return all(states)

    # --- what comes of it -----------------------------------------------------------------------

    def compare(self) -> None:
        """Wait until both have settled, and compare them."""
        self.real.settle()
        self.simulated.clock.run(self.simulated.clock.now_ms + SETTLED_MS)
        self.compare_nodes()
        for name, member in self.members.items():
            assert member.fetchers.fetches == {
                (fetch.topic, fetch.partition): (fetch.broker, _fetcher_id(fetch.thread))
                for fetch in self.real.settled_fetches(name)
            }

    def compare_nodes(self) -> None:
        """Compare who is there, who owns what, and what is committed."""
        assert self.simulated_nodes("owners") == self.real_nodes("owners")
        assert self.simulated_nodes("offsets") == self.real_nodes("offsets")
        assert _untimed(self.simulated_nodes("ids")) == _untimed(self.real_nodes("ids"))
        self.steps += 1

    def real_nodes(self, name: str) -> dict[str, str]:
        """The leaves below a node of the group, by path."""
        return _leaves(self._real_children, self._real_text, f"/consumers/{self.group_id}/{name}")

    def simulated_nodes(self, name: str) -> dict[str, str]:
        server = self.simulated.server
        return _leaves(
            lambda path: server.children(path) if server.exists(path) else [],
            server.read,
            f"/consumers/{self.group_id}/{name}",
        )

    def _real_children(self, path: str) -> list[str]:
        try:
            found: list[str] = self.real.zookeeper.get_children(path)
        except NoNodeError:
            return []
        return found

    def _real_text(self, path: str) -> str:
        try:
            data: bytes | None = self.real.zookeeper.get(path)[0]
        except NoNodeError:  # it went after its name was read: consumers rebalance meanwhile
            return ""
        return (data or b"").decode()

    def real_comes_to(self, name: str, expected: Mapping[str, str]) -> None:
        """Wait until nodes of the real group are these, and stay so."""
        deadline, since = time.monotonic() + PATIENCE_S, None
        while since is None or time.monotonic() < since + QUIET_S:
            found = self.real_nodes(name)
            assert time.monotonic() < deadline, (found, expected)
            since = (since or time.monotonic()) if found == expected else None
            time.sleep(0.1)


def _leaves(
    children: Callable[[str], list[str]], text: Callable[[str], str], path: str
) -> dict[str, str]:
    names = children(path)
    found: dict[str, str] = {}
    for name in names:
        below = _leaves(children, text, f"{path}/{name}")
        if below:
            found |= {f"{name}/{each}": data for each, data in below.items()}
        elif data := text(f"{path}/{name}"):
            found[name] = data
    return found


def _untimed(nodes: Mapping[str, str]) -> dict[str, Any]:
    return {name: {**json.loads(text), "timestamp": None} for name, text in nodes.items()}


def _fetcher_id(thread: str | None) -> int:
    assert thread is not None
    return int(thread.rsplit("-", 2)[1])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OldConsumers, Broker]]:
    work: Path = tmp_path_factory.mktemp("simulation-zookeeper")
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster(VERSION, 2, work))
        assert brokers[0].zookeeper is not None
        connect = brokers[0].zookeeper.connect
        yield stack.enter_context(old_consumers(connect, work)), brokers[0]


def new_group(real: OldConsumers, name: str, topics: Mapping[str, str]) -> Group:
    """Make topics that no other story has, and a group without consumers."""
    replicas = {f"{name}.{topic}": text for topic, text in topics.items()}
    for topic, text in replicas.items():
        real.create_topic(topic, text)
    return Group(real, name, {at: [*map(int, text.split(","))] for at, text in replicas.items()})


def drawn(group: Group, name: str, strategy: str, chance: random.Random) -> Subscription:
    """Choose what a consumer reads; roundrobin wants the same of all."""
    streams = chance.randint(1, 3) if strategy == "range" else 2
    if name.endswith("white"):
        return White(f"{name}[.]t[.].*", streams)
    if name.endswith("black"):
        others = [f"{each}[.].*" for each in OTHERS if each != name]
        return Black("|".join([f"{name}[.]u[.].*", *others]), streams)
    topics = sorted(group.replicas)
    if strategy == "range":
        topics = chance.sample(topics, chance.randint(1, len(topics)))
    return Streams(dict.fromkeys(topics, streams))


@pytest.mark.parametrize("name", STORIES)
def test_the_same_happens(servers: tuple[OldConsumers, Broker], name: str) -> None:
    real, _ = servers
    strategy, seed = STORIES[name]
    chance = random.Random(seed)
    group = new_group(real, name, TOPICS)
    joined = 0
    for number in range(STEPS + 1):
        acts = ["join"] * 3 * (len(group.members) < MOST_CONSUMERS)
        if number and group.members:
            acts += ["grow"] + ["leave", "crash"] * (len(group.members) > 1)
            acts += ["topic"] * (not name.endswith("static"))
        act = chance.choice(acts)
        if act == "join":
            joined += 1
            subscription = drawn(group, name, strategy, chance)
            group.join(
                f"{chance.randrange(100)}-{joined}",
                subscription,
                f"{name}-{chance.choice(HOSTS)}",
                strategy=strategy,
                fetchers=2,
            )
        elif act == "leave":
            group.leave(chance.choice(sorted(group.members)))
        elif act == "crash":
            group.crash(real.alive[chance.choice(sorted(group.members))].host)
        elif act == "grow":
            group.add_partitions(chance.choice(sorted(group.replicas)), [chance.choice([1, 2])])
        else:
            group.add_topic(f"{name}.t.new{number}", [1, 2])
        group.compare()
    for host in {real.alive[member].host for member in group.members}:
        group.crash(host)
    print(f"{name}: {group.steps} steps, no difference")


def test_offsets(servers: tuple[OldConsumers, Broker]) -> None:
    """Who stops to fetch commits; who crashes does not, and the next one reads that again."""
    real, broker = servers
    group = new_group(real, "offsets", {"t": "1,2,1,2"})
    (topic,) = group.replicas
    both = Streams({topic: 1})

    def produce(count: int) -> None:
        config = {"bootstrap.servers": broker.bootstrap}
        for number in range(4):
            real.host().call("produce", topic=topic, partition=number, count=count, config=config)
            logs = group.simulated.logs
            logs.ends[logs.row((topic, number))] += count

    group.join("1-a", both, "offsets-1", auto_commit=True, auto_commit_interval_ms=10**9)
    group.compare()
    produce(5)
    real.read(20, "1-a")
    group.compare()
    assert not group.real_nodes("offsets")
    group.join("2-b", both, "offsets-2", auto_commit=True, auto_commit_interval_ms=10**9)
    group.compare()
    assert {*group.real_nodes("offsets").values()} == {"5"}
    produce(3)
    real.read(20 + 6, "1-a")
    real.read(6, "2-b")
    group.simulated.clock.run(group.simulated.clock.now_ms + SETTLED_MS)
    group.crash("offsets-2")
    group.compare()
    assert sorted(group.real_nodes("offsets").values()) == ["5", "5", "8", "8"]
    real.read(20 + 6 + 6, "1-a")
    again = [
        partition.read_again for partition in group.simulated.timeline.end(None, None, 0).partitions
    ]
    assert again == [0, 0, 3, 3]
    group.leave("1-a")
    group.simulated.clock.run(group.simulated.clock.now_ms + SETTLED_MS)
    group.real_comes_to("ids", {})
    group.compare_nodes()
    assert {*group.real_nodes("offsets").values()} == {"8"}


def test_sessions_that_expire(servers: tuple[OldConsumers, Broker]) -> None:
    """A process that stood still for longer than its session registers again."""
    real, _ = servers
    group = new_group(real, "paused", {"t": "1,2,1,2"})
    both = Streams(dict.fromkeys(group.replicas, 1))
    for name in ("1-a", "2-b"):
        group.join(name, both, f"paused-{name}")
        group.compare()
    host = real.host("paused-1-a")
    host.suspend()
    group.members["1-a"].pause()
    group.simulated.clock.run(group.simulated.clock.now_ms + SETTLED_MS)
    try:
        group.real_comes_to("owners", group.simulated_nodes("owners"))
        group.compare_nodes()
        assert len(group.real_nodes("ids")) == 1
    finally:
        host.go_on()
    group.members["1-a"].resume()
    group.compare()
    assert len(group.real_nodes("ids")) == 2
    for name in ("1-a", "2-b"):
        group.crash(f"paused-{name}")


def test_rebalances_that_fail(servers: tuple[OldConsumers, Broker]) -> None:
    """A node that nobody deletes keeps consumers from their partitions, until it is gone."""
    real, _ = servers
    group = new_group(real, "fails", {"t": "1,2"})
    (topic,) = group.replicas
    both = Streams({topic: 1})
    few = {"rebalance_max_retries": 3, "rebalance_backoff_ms": 100}

    def hold(number: int) -> str:
        path = f"/consumers/fails/owners/{topic}/{number}"
        real.zookeeper.create(path, b"somebody", makepath=True)
        group.simulated.server.create(path, "somebody")
        return path

    path = hold(1)
    with pytest.raises(ClientError) as thrown:
        group.join("1-a", both, "fails-1", **few)
    group.simulated.clock.run(SETTLED_MS)
    (failed,) = [e for e in group.simulated.timeline.events if e.event == "failed"]
    assert f"ConsumerRebalanceFailedException: fails_1-a {failed.answer}" in str(thrown.value)
    real.crash("fails-1")  # as the program would end
    group.real_comes_to("ids", {})
    group.compare_nodes()
    real.zookeeper.delete(path)
    group.simulated.server.delete(path)

    group.join("2-b", both, "fails-2", **few)
    group.members.pop("1-a")
    group.compare()
    path = hold(2)
    group.add_partitions(topic, [1])  # of which somebody owns the new one already
    group.simulated.clock.run(group.simulated.clock.now_ms + SETTLED_MS)
    group.real_comes_to("owners", group.simulated_nodes("owners"))
    group.compare_nodes()
    assert group.real_nodes("owners") == {f"{topic}/2": "somebody"}
    assert len(group.real_nodes("ids")) == 1
    real.zookeeper.delete(path)
    group.simulated.server.delete(path)
    group.add_partitions(topic, [2])
    group.compare()
    group.crash("fails-2")
