"""Consumers of 0.8 that are moved as a plan says, and what they did meanwhile.

What they read they tell themselves; who owns what is looked up in ZooKeeper again and again, as
nothing tells a program of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from kazoo.exceptions import NoNodeError

from tests.broker.migration import HABITS, RATE, RESTART_S, Happened, kgroup, measured
from tests.broker.old_consumers import OldConsumers, Streams, old_consumers
from tests.broker.servers import Broker

_LOOK_S = 0.01
SETTINGS = {
    "auto.commit.enable": "true",
    "auto.commit.interval.ms": "3000",
    "rebalance.backoff.ms": "1000",
    "zookeeper.session.timeout.ms": "6000",
    "auto.offset.reset": "smallest",
}


class OldFleet:
    """Consumers of one group.

    Args:
        server: the broker.
        consumers: by which they are started.
        group: their group.
        topic: that they read, and
        partitions: that it has.
        work: a folder for their settings.
    """

    def __init__(
        self,
        server: Broker,
        consumers: OldConsumers,
        group: str,
        topic: str,
        partitions: int,
        work: Path,
    ) -> None:
        assert server.zookeeper is not None
        self.group = group
        self.topic = topic
        self.where = ("--zookeeper", server.zookeeper.connect)
        self._consumers = consumers
        self._partitions = partitions
        self._names: dict[str, str] = {}
        self._changes: list[tuple[int, str, str, str]] = []
        self._rebalances: list[int] = []
        self._settings = work / f"{group}.properties"
        self._settings.write_text("".join(f"{key}={text}\n" for key, text in SETTINGS.items()))

    def start(self, names: list[str], **config: str) -> None:
        """Start consumers one after another, and wait until they rest."""
        for name in names:
            self._join(name, config)
        self._consumers.settle()

    def restart(self, name: str, **config: str) -> None:
        """Restart a consumer, and wait until the group rests."""
        self._consumers.leave(name)
        time.sleep(RESTART_S)
        self._join(name, config)
        self._consumers.settle()

    def stop(self, *names: str) -> None:
        """Stop consumers, all at once."""
        self._consumers.leave(*names)

    def _join(self, name: str, config: dict[str, str]) -> None:
        settings = {key.replace(".", "_"): text for key, text in SETTINGS.items()}
        streams = Streams({self.topic: 1})
        consumer_id = self._consumers.join(name, self.group, streams, **{**settings, **config})
        self._names[consumer_id] = name

    def plan(self, path: Path, target: str, *arguments: str, status: int = 0) -> Any:
        """Make a plan for the group, and save it."""
        given = ("--consumer-config", str(self._settings), *HABITS, *arguments)
        found = kgroup("plan", target, self.group, *self.where, *given, status=status)
        document = {"schema_version": 1, "command": f"plan {target}", "data": found}
        path.write_text(json.dumps(document))
        return found[0]

    def verify(self, path: Path, step: int, *arguments: str, is_done: bool = False) -> str:
        """Have a step looked at, and return how far it is."""
        where = arguments or self.where
        status = 0 if is_done else 5
        wait = ("--wait", "60") if is_done else ()
        (found,) = kgroup(
            "plan", "verify", str(path), "--step", str(step), *where, *wait, status=status
        )
        return str(found["progress"])

    @property
    def journal(self) -> str:
        """What consumers have read, and what they owned."""
        read = self._consumers.host().call("old-journal")
        owned = [
            f"{at_ms} {self._names[consumer_id]} {word} {at}"
            for at_ms, consumer_id, word, at in self._changes
        ]
        return "\n".join(filter(None, [read, *owned]))

    @contextmanager
    def watched(self, others: Callable[[], str] = str) -> Iterator[list[Happened]]:
        """Note what happens until the end of the context, in the list.

        Args:
            others: gives the journal of consumers of another kind.
        """
        happeneds: list[Happened] = []
        begin_ms = _now_ms()
        yield happeneds
        time.sleep(1)  # what was given up is read by others
        end_ms = _now_ms()
        rebalances = sum(begin_ms <= at_ms < end_ms for at_ms in self._rebalances)
        journal = "\n".join(filter(None, [self.journal, others()]))
        happeneds.append(measured(journal, rebalances, begin_ms, end_ms))

    def look(self, is_over: Event) -> None:
        """Look who owns what, until it is over.

        Nodes are read one after another, while consumers delete and make them: only what is owned
        by the same nodes in two looks was so at one time. Where it is everything the group rests,
        and has rebalanced if nodes are others than when it rested last.
        """
        before: dict[str, tuple[str, int]] = {}
        rested: dict[str, tuple[str, int]] = {}
        while not is_over.wait(_LOOK_S):
            try:
                now = self._owners()
            except NoNodeError:  # released since its name was read
                continue
            at_ms = _now_ms()
            for at in before.keys() | now.keys():
                old, new = before.get(at), now.get(at)
                if old != new:
                    self._changes += [(at_ms, old[0], "revoked", at)] if old else []
                    self._changes += [(at_ms, new[0], "assigned", at)] if new else []
            if now == before and len(now) == self._partitions and now != rested:
                self._rebalances.append(at_ms)
                rested = now
            before = now

    def _owners(self) -> dict[str, tuple[str, int]]:
        """Tell who owns each partition, and which transaction has made the node that says so."""
        zookeeper, folder = self._consumers.zookeeper, f"/consumers/{self.group}/owners"
        found = {}
        for topic in zookeeper.get_children(folder):
            for number in zookeeper.get_children(f"{folder}/{topic}"):
                thread, stat = zookeeper.get(f"{folder}/{topic}/{number}")
                owner = thread.decode().rpartition("-")[0]
                found[f"{topic}-{number}"] = owner, stat.czxid
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def old_fleet(
    server: Broker, work: Path, group: str, partitions: int, topic: str
) -> Iterator[OldFleet]:
    """Run a JVM with consumers of 0.8.2.2, and records for them."""
    assert server.zookeeper is not None
    with old_consumers(server.zookeeper.connect, work) as consumers:
        consumers.create_topic(topic, ",".join(["1"] * partitions))
        config = {"bootstrap.servers": server.bootstrap}
        consumers.host().call("flow", topic=topic, partitions=partitions, rate=RATE, config=config)
        fleet = OldFleet(server, consumers, group, topic, partitions, work)
        is_over = Event()
        looking = Thread(target=fleet.look, args=(is_over,))
        looking.start()
        try:
            yield fleet
        finally:
            is_over.set()
            looking.join()
