"""Dry runs of ZooKeeper groups come true: foretold, then done by real consumers of 0.8.

Consumers start, stop and crash at random, several to a JVM, with all kinds of subscriptions and
both strategies, of which those before 0.8.2 have one. Each time kgroup foretells who will own what,
from what ZooKeeper says before, and compares with the owner nodes that the consumers then write;
also, each time, which fetcher thread of which consumer reads what.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.what_if import AddedMembers
from kgroup.operation.zookeeper.fetcher import OffsetReset, list_fetches
from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.source import Zookeeper
from tests.broker.old_consumers import Black, OldConsumers, Streams, White, old_consumers
from tests.broker.servers import cluster
from tests.examples import in_depth

ROUNDS = in_depth(
    {"0.8.2.2": (28, 20261122), "0.8.1.1": (10, 5), "0.8.0": (10, 5)},
    {"0.8.2.2": (10, 1), "0.8.0": (5, 3)},
)
"""By version, and chance's seed; some start a group, of which nothing can be foretold.

The few have a seed with which every kind of change happens to groups of every strategy.
"""
HOSTS = ("a", "b", "c", "d")
MOST_CONSUMERS = 5
TOPICS = {"t.orders": "1,2,1,2,1,2,1", "t.payments": "2,1,2,1", "t.clicks": "1,2,2", "u.one": "1"}
FETCHERS = 3
"""The consumers' `num.consumer.fetchers`, which those of 0.8.0 have and do not heed."""

Owners = Mapping[tuple[str, int], str]
Subscription = Streams | White | Black


@dataclass
class OldGroup:
    """A group, and how its consumers may subscribe."""

    name: str
    strategy: str
    kind: str
    joined: int = 0

    def subscription(self, chance: random.Random) -> Subscription:
        """Choose what a new consumer reads; roundrobin wants the same of all."""
        free = self.strategy == "range"
        count = chance.randint(1, 3) if free else 2
        if self.kind == "white":
            return White(chance.choice(["t[.].*", "t.orders,u.*"]) if free else "t[.].*", count)
        if self.kind == "black":
            return Black("u[.].*", count)
        if not free:
            return Streams(dict.fromkeys(("t.orders", "t.payments", "u.one"), 2))
        topics = chance.sample(sorted(TOPICS), chance.randint(1, 3))
        return Streams(dict.fromkeys(topics, count))


def groups_of(version: str) -> tuple[OldGroup, ...]:
    """Return a group for each kind of subscription and strategy that a version has."""
    names = (
        {"range": "range", "robin": "roundrobin"} if version == "0.8.2.2" else {"range": "range"}
    )
    return tuple(
        OldGroup(f"{short}-{kind}", strategy, kind)
        for short, strategy in names.items()
        for kind in ("static", "white", "black")
    )


@dataclass(frozen=True)
class Play:
    """Everything that takes part, and chance."""

    source: Zookeeper
    consumers: OldConsumers
    groups: tuple[OldGroup, ...]
    chance: random.Random

    def names(self, group: OldGroup) -> list[str]:
        """The living consumers of a group."""
        alive = self.consumers.alive.values()
        return sorted(consumer.name for consumer in alive if consumer.group == group.name)

    def read(self, group: OldGroup, topics: Collection[str] = ()) -> GroupSpec:
        """What kgroup knows of a group now, and of topics."""
        self.source.renew()
        report = read_group(self.source, group.name, strategy=group.strategy, topics=topics)
        assert report.errors == ()
        return report.data[0]

    def join(self, group: OldGroup) -> Owners | None:
        """Start a consumer; give what was foretold, None where there was no group before."""
        subscription = group.subscription(self.chance)
        new = added(subscription)
        before = self.read(group, new.topics or ()) if self.names(group) else None
        group.joined += 1
        name = f"{group.name}-{group.joined}"
        chosen = {"consumer_id": f"{self.chance.randrange(100)}-{name}"}
        consumer_id = self.consumers.join(
            name,
            group.name,
            subscription,
            host=self.chance.choice(HOSTS),
            partition_assignment_strategy=group.strategy,
            num_consumer_fetchers=str(FETCHERS),
            **(chosen if self.chance.random() < 0.5 else {}),
        )
        if before is None:
            return None
        changed = what_if.add_members(before, new)
        *rest, joined = changed.members  # the new id takes part in the order: feed it back
        joined = replace(joined, member_id=consumer_id, unknown_id=False)
        return foretold(replace(changed, members=(*rest, joined)))

    def leave(self, group: OldGroup) -> Owners:
        """Stop a consumer cleanly; give what was foretold."""
        name = self.chance.choice(self.names(group))
        consumer = self.consumers.alive[name]
        spec = what_if.remove_member(self.read(group), consumer.consumer_id)
        self.consumers.leave(name)
        return foretold(spec)

    def crash(self) -> dict[str, Owners]:
        """Kill a JVM with all its consumers; give what was foretold, by group."""
        hosts = {consumer.host for consumer in self.consumers.alive.values()} & {*HOSTS}
        host = self.chance.choice(sorted(hosts))
        specs = {}
        for group in self.groups:
            names = self.names(group)
            gone = [name for name in names if self.consumers.alive[name].host == host]
            if not gone:
                continue
            spec = self.read(group)
            for name in gone:
                spec = what_if.remove_member(spec, self.consumers.alive[name].consumer_id)
            specs[group.name] = spec
        self.consumers.crash(host)
        return {name: foretold(spec) for name, spec in specs.items()}

    def play_a_round(self) -> set[tuple[str, str]]:
        """Foretell a change of some group, or of several by a crash; make it, and compare.

        Returns:
            What was foretold: the kind of change, and the strategy.
        """
        before = {group.name: self.consumers.owners(group.name) for group in self.groups}
        group = self.chance.choice(self.groups)
        size = len(self.names(group))
        kinds = ["join"] * 3 * (size < MOST_CONSUMERS) + ["leave", "leave", "crash"] * (size > 1)
        kind = self.chance.choice(kinds)
        if kind == "join":
            told = self.join(group)
            expected: dict[str, Owners] = {} if told is None else {group.name: told}
            free = {group.name} if told is None else set()
        else:
            expected = self.crash() if kind == "crash" else {group.name: self.leave(group)}
            free = set()
        self.consumers.settle()
        for each in self.groups:
            if each.name not in free:
                now = self.consumers.owners(each.name)
                assert now == {**expected.get(each.name, before[each.name])}, (kind, each.name)
        self.compare_fetches(group)
        return {(kind, each.strategy) for each in self.groups if each.name in expected}

    def compare_fetches(self, group: OldGroup) -> None:
        """What the consumers' fetcher threads read is what `kgroup zk fetchers` says."""
        self.source.renew()
        fetches = list_fetches(
            self.source,
            group.name,
            count=FETCHERS,
            reset=OffsetReset.SMALLEST,
            kafka_version=self.consumers.version,
        )
        assert fetches.errors == ()
        for name in self.names(group):
            consumer_id = self.consumers.alive[name].consumer_id
            assert {
                (fetch.topic, fetch.partition): (fetch.fetcher, fetch.broker and fetch.broker.id)
                for fetch in fetches.data
                if fetch.consumer_id == consumer_id
            } == {
                (fetch.topic, fetch.partition): (fetch.thread, fetch.broker)
                for fetch in self.consumers.settled_fetches(name)
            }


def added(subscription: Subscription) -> AddedMembers:
    """Say of a new consumer what a user would: its topics, and how many streams."""
    topics = tuple(sorted(subscription.topics({*TOPICS})))
    if isinstance(subscription, Streams):
        (count,) = set(subscription.by_topic.values())
        return AddedMembers(topics=topics, streams=count)
    return AddedMembers(topics=topics, streams=subscription.streams)


def foretold(spec: GroupSpec) -> Owners:
    """Compute the owner nodes of a group."""
    if not spec.members:
        return {}
    threads = settled(spec).last.threads
    assert threads is not None
    return {
        at: f"{consumer_id}-{number}"
        for (consumer_id, number), partitions in threads.items()
        for at in partitions
    }


@pytest.fixture(scope="module", params=ROUNDS)
def play(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Play]:
    version: str = request.param
    work: Path = tmp_path_factory.mktemp(f"zookeeper-assign-{version}")
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster(version, 2, work))
        assert brokers[0].zookeeper is not None
        connect = brokers[0].zookeeper.connect
        consumers = stack.enter_context(old_consumers(connect, work, version))
        for topic, replicas in TOPICS.items():
            consumers.create_topic(topic, replicas)
        source = stack.enter_context(Zookeeper(parse_address(connect), of_silence=True))
        yield Play(source, consumers, groups_of(version), random.Random(ROUNDS[version][1]))


def test_what_is_foretold_comes_true(play: Play) -> None:
    for group in play.groups:
        play.join(group)
        play.join(group)
    play.consumers.settle()
    count, _ = ROUNDS[play.consumers.version]
    rounds = [play.play_a_round() for _ in range(count)]
    told = [each for each in rounds if each]  # nothing is foretold of the first of a group
    print(f"{len(told)} rounds, all as foretold: {told}")
    assert len(told) >= 0.7 * count
    strategies = {each.strategy for each in play.groups}
    assert set.union(*told) == {*product(("join", "leave", "crash"), strategies)}
