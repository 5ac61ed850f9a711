"""Real high-level consumers of Kafka 0.8 in several JVMs, which start, stop and crash.

    with old_consumers(zookeeper.connect, work) as consumers:
        consumers.create_topic("orders", "1,1:1")
        consumers.join("billing-1", "billing", Streams({"orders": 2}), host="a")
        consumers.settle()
        consumers.crash("a")

Consumers of one host live in one JVM, each with a connection to ZooKeeper of its own. A host that
crashes is killed with all of them: their nodes stay until ZooKeeper has missed them for a session.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.broker.maven import version_tuple
from tests.record.session import Session, session
from tests.waiting import PATIENCE_S

VERSION = "0.8.2.2"
"""The version that runs where nothing else is said."""
SESSION_TIMEOUT_MS = 6000
"""ZooKeeper misses a crashed consumer after this, where nothing else is configured."""
QUIET_S = 0.6
"""Nothing moves for so long: then everybody has what they will keep."""
FIRST_HOST = "first"


@dataclass(frozen=True, slots=True)
class Streams:
    """A static subscription: topic -> number of streams."""

    by_topic: Mapping[str, int]

    @property
    def arguments(self) -> dict[str, object]:
        """What the verb `old-join` takes."""
        return {"streams": ",".join(f"{topic}:{n}" for topic, n in self.by_topic.items())}

    def topics(self, existing: set[str]) -> set[str]:
        """The topics of it that exist."""
        return existing & self.by_topic.keys()


@dataclass(frozen=True, slots=True)
class White:
    """Streams that share all topics whose names match."""

    regex: str
    streams: int

    @property
    def arguments(self) -> dict[str, object]:
        """What the verb `old-join` takes."""
        return {"white": self.regex, "threads": self.streams}

    def topics(self, existing: set[str]) -> set[str]:
        """The topics that match; the tests' patterns mean the same in Java and Python."""
        return {topic for topic in existing if re.fullmatch(self.regex.replace(",", "|"), topic)}


@dataclass(frozen=True, slots=True)
class Black:
    """Streams that share all topics whose names do not match."""

    regex: str
    streams: int

    @property
    def arguments(self) -> dict[str, object]:
        """What the verb `old-join` takes."""
        return {"black": self.regex, "threads": self.streams}

    def topics(self, existing: set[str]) -> set[str]:
        """The topics that do not match, without those of Kafka itself."""
        matching = White(self.regex, self.streams).topics(existing)
        return existing - matching - {"__consumer_offsets"}


@dataclass(frozen=True, slots=True)
class OldConsumer:
    """One that lives, as far as is known."""

    name: str
    consumer_id: str
    group: str
    subscription: Streams | White | Black
    host: str


@dataclass(frozen=True, slots=True, order=True)
class Fetch:
    """What a consumer fetches now; thread, broker and offset are None while it seeks a leader."""

    topic: str
    partition: int
    thread: str | None
    broker: int | None
    offset: int | None


class OldConsumers:
    """All consumers of a cluster, by name; made by `old_consumers`."""

    def __init__(self, zookeeper: str, work: Path, stack: ExitStack, version: str) -> None:
        self.zookeeper = KazooClient(hosts=zookeeper)
        self.zookeeper.start(timeout=60)
        stack.callback(self.zookeeper.close)
        stack.callback(self.zookeeper.stop)
        self.alive: dict[str, OldConsumer] = {}
        self.version = version
        self._connect = zookeeper
        self._log = work / "consumers.log"
        self._stack = stack
        self._hosts: dict[str, Session] = {}
        self._groups: set[str] = set()

    def host(self, name: str = FIRST_HOST) -> Session:
        """The JVM of that name, started where there is none or it has crashed."""
        if name not in self._hosts:
            self._hosts[name] = self._stack.enter_context(
                session(self.version, _actors(self.version), bootstrap=None, log=self._log)
            )
        return self._hosts[name]

    def create_topic(self, topic: str, replicas: str, **config: str) -> None:
        """Create a topic with the broker ids of each partition, such as ``1:2,1:2``."""
        options = {key.replace("_", "."): value for key, value in config.items()}
        self.host().call(
            "old-topic", zookeeper=self._connect, topic=topic, replicas=replicas, config=options
        )

    def join(
        self,
        name: str,
        group: str,
        subscription: Streams | White | Black,
        *,
        host: str = FIRST_HOST,
        **config: str,
    ) -> str:
        """Start a consumer and wait until it has its first partitions; option names have `_`.

        Returns:
            Its id: with `consumer_id` in the configuration ``<group>_<consumer_id>``.
        """
        options = {
            "zookeeper.connect": self._connect,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "zookeeper.connection.timeout.ms": "30000",
            "group.id": group,
            "client.id": name,
            "auto.commit.enable": "false",
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": "200",
            "rebalance.max.retries": "100",
            "refresh.leader.backoff.ms": "100",
        } | {key.replace("_", "."): value for key, value in config.items()}
        arguments = subscription.arguments
        self._groups.add(group)
        consumer_id = self.host(host).call("old-join", name=name, **arguments, config=options)
        self.alive[name] = OldConsumer(name, consumer_id, group, subscription, host)
        return consumer_id

    def leave(self, *names: str) -> None:
        """Stop consumers of one host cleanly, all at once."""
        (host,) = {self.alive.pop(name).host for name in names}
        self.host(host).call("old-leave", names=",".join(names))

    def crash(self, host: str) -> list[str]:
        """Kill a JVM, and tell which consumers went with it."""
        self._hosts.pop(host).halt()
        gone = [consumer.name for consumer in self.alive.values() if consumer.host == host]
        for name in gone:
            del self.alive[name]
        return gone

    def commit(self, *names: str) -> None:
        """Let consumers commit their positions."""
        for name in names:
            self.host(self.alive[name].host).call("old-commit", name=name)

    def read(self, count: int, *names: str) -> None:
        """Wait until consumers of one host have read so many records together."""
        (host,) = {self.alive[name].host for name in names}
        self.host(host).call("old-read", names=",".join(names), count=count)

    def fetches(self, name: str) -> list[Fetch]:
        """What a consumer's fetcher threads do, sorted, told by its own objects."""
        told = self.host(self.alive[name].host).call("old-fetchers", name=name)
        fetches = []
        for line in told.split("\n") if told else []:
            thread, broker, topic, partition, offset = line.split("\t")
            fetches.append(
                Fetch(
                    topic,
                    int(partition),
                    thread or None,
                    int(broker) if broker else None,
                    int(offset) if offset else None,
                )
            )
        return sorted(fetches)

    def settled_fetches(self, name: str) -> list[Fetch]:
        """The same, once it seeks no leader any more, and fetches all that it owns.

        On its way from the thread that has found its leader to the one that fetches it, a partition
        is at neither.
        """
        consumer = self.alive[name]
        owned = {
            at
            for at, thread in self.owners(consumer.group).items()
            if thread.rpartition("-")[0] == consumer.consumer_id
        }
        deadline = time.monotonic() + PATIENCE_S
        while True:
            fetches = self.fetches(name)
            fetched = {(fetch.topic, fetch.partition) for fetch in fetches}
            if owned <= fetched and all(fetch.thread for fetch in fetches):
                return fetches
            assert time.monotonic() < deadline, fetches
            time.sleep(0.1)

    def settle(self, *groups: str) -> None:
        """Wait until the living consumers, and they alone, own everything and nothing moves.

        Args:
            groups: those that count; all by default.
        """
        deadline = time.monotonic() + PATIENCE_S
        seen, since = None, time.monotonic()
        while seen is None or time.monotonic() < since + QUIET_S:
            assert time.monotonic() < deadline, f"not settled: {self.alive}, {seen}"
            time.sleep(0.1)
            now = self._all_owners(groups or self._groups)
            if now is None or any(host.call("old-busy") for host in self._hosts.values()):
                seen = None
            elif now != seen:
                seen, since = now, time.monotonic()

    def owners(self, group: str) -> dict[tuple[str, int], str]:
        """Consumer thread that owns each partition, by topic and partition."""
        found = {}
        for topic in self._children(f"/consumers/{group}/owners"):
            for partition in self._children(f"/consumers/{group}/owners/{topic}"):
                with suppress(NoNodeError):  # released since its name was read
                    owner = self._text(f"/consumers/{group}/owners/{topic}/{partition}")
                    found[topic, int(partition)] = owner
        return found

    def _all_owners(self, groups: Iterable[str]) -> dict[str, dict[tuple[str, int], str]] | None:
        """The owners of each of the groups, None while anything is missing."""
        existing = {
            topic: len(self._children(f"/brokers/topics/{topic}/partitions"))
            for topic in self._children("/brokers/topics")
        }
        found = {}
        for group in sorted(groups):
            members = [consumer for consumer in self.alive.values() if consumer.group == group]
            ids = {member.consumer_id for member in members}
            if set(self._children(f"/consumers/{group}/ids")) != ids:
                return None
            topics = {
                topic for member in members for topic in member.subscription.topics({*existing})
            }
            found[group] = self.owners(group)
            wanted = {(topic, number) for topic in topics for number in range(existing[topic])}
            if found[group].keys() != wanted:
                return None
            if not {owner.rpartition("-")[0] for owner in found[group].values()} <= ids:
                return None
        return found

    def _children(self, path: str) -> list[str]:
        try:
            names: list[str] = self.zookeeper.get_children(path)
        except NoNodeError:
            return []
        return names

    def _text(self, path: str) -> str:
        data, _ = self.zookeeper.get(path)
        assert isinstance(data, bytes)
        return data.decode()


def _actors(version: str) -> list[str]:
    """What a JVM of that version can do, as far as its jars have it."""
    number = version_tuple(version)
    return [
        "OldConsumers",
        "Producers" if number >= (0, 8, 2) else "OldProducers",
        "OldTopics" if number >= (0, 8, 1) else "FirstTopics",
    ]


@contextmanager
def old_consumers(zookeeper: str, work: Path, version: str = VERSION) -> Iterator[OldConsumers]:
    """Give the means to start consumers of one version; all of them crash at the end."""
    with ExitStack() as stack:
        yield OldConsumers(zookeeper, work, stack, version)
