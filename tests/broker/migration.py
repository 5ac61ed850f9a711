"""Groups that are moved as a plan says, Java consumers among them, and what they did meanwhile.

What a plan forecasts is counted from the members' own journal: who was given which partition
when, who gave it up, and which records were read.
"""

from __future__ import annotations

import json
import shlex
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from kgroup.cli.main import status_of
from kgroup.model.group import Group
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from tests.broker.maven import run_java
from tests.broker.servers import Broker
from tests.record.clients import join_java, settle
from tests.record.raw import await_coordinator, create_topics
from tests.record.session import Session, session
from tests.record.wire import Wire

RATE = 10
"""Records a second into each partition: what the simulator assumes."""
RESTART_S = 5.0
HEARTBEAT_S = 3.0
_GENERATION = Question(offsets=False, commit_times=False)
"""That of a classic group stands in the log alone; times of commits would be searched longest."""
_LATE = b"SyncGroup failed: The group began another rebalance"
HABITS = ("--poll-interval", "50ms", "--restart-time", f"{RESTART_S:g}s")


@dataclass
class Happened:
    """What a step has cost; attributes as in `Forecast`.

    Of a partition that nobody had read before all was skipped that lies before the first read.

    Attributes:
        late: SyncGroup requests that came when another member had given up its partitions and begun
            the next rebalance: the one who sent it had stood still for a moment. It takes part with
            what it should have given up, so that there is one more rebalance.
    """

    rebalances: int
    moved: int
    stopped: int
    stopped_ms: int
    read_again: int
    skipped: int
    late: int = 0


def kgroup(*arguments: str, status: int = 0) -> Any:
    """Run a command line in this process, and read the document that it writes."""
    written = BytesIO()
    out = TextIOWrapper(written)
    with redirect_stdout(out):
        found = status_of([*arguments, "-o", "json"])
    out.flush()
    assert found == status, (found, written.getvalue())
    return json.loads(written.getvalue())["data"]


class MovedGroup(ABC):
    """A group that is moved, and watched meanwhile.

    Args:
        server: the broker.
        log: what the members say.
        group: its name.
        restart_s: how long restarts take.
    """

    def __init__(self, server: Broker, log: Path, group: str, restart_s: float) -> None:
        self.restart_s = restart_s
        self.group = group
        self.where = ("-b", server.bootstrap)
        self._server = server
        self._log = log

    @abstractmethod
    def journal(self) -> str:
        """Return what the members have done so far, as `Consumers.java` writes it."""

    def look(self) -> Group:
        """Return the group as it is now."""
        with LiveCluster(self._server.bootstrap) as cluster:
            return cluster.read([self.group], _GENERATION).image.groups[self.group]

    def generation(self) -> int:
        """Return the group's generation or epoch now."""
        group = self.look()
        found = group.group_epoch if group.generation_id is None else group.generation_id
        assert found is not None
        return found

    def plan(self, path: Path, *arguments: str, status: int = 0) -> Any:
        """Make a plan for the group, and save it."""
        habits = (*HABITS, "--restart-time", f"{self.restart_s:g}s")
        found = kgroup("plan", *arguments, self.group, *self.where, *habits, status=status)
        document = {"schema_version": 1, "command": f"plan {arguments[0]}", "data": found}
        path.write_text(json.dumps(document))
        return found[0]

    def verify(self, path: Path, step: int, *arguments: str) -> str:
        """Have a step looked at, and return how far it is."""
        status = 0 if "--done" in arguments else 5
        given = [argument for argument in arguments if argument != "--done"]
        (found,) = kgroup(
            "plan", "verify", str(path), "--step", str(step), *self.where, *given, status=status
        )
        return str(found["progress"])

    @contextmanager
    def watched(self) -> Iterator[list[Happened]]:
        """Note what happens until the end of the context, in the list.

        Prints why the broker says that it rebalanced: who sees another number than was forecast has
        to know.
        """
        happeneds: list[Happened] = []
        log = self._server.folder / "server.log"
        logged, said = log.stat().st_size, self._log.stat().st_size
        generation, begin_ms = self.generation(), _now_ms()
        yield happeneds
        time.sleep(1)  # what was given up is read by others
        end_ms = _now_ms()
        rebalances = self.generation() - generation
        happened = measured(self.journal(), rebalances, begin_ms, end_ms)
        happened.late = self._log.read_bytes()[said:].count(_LATE)
        happeneds.append(happened)
        for line in log.read_bytes()[logged:].decode("utf-8", "replace").splitlines():
            if self.group in line and ("rebalance" in line or "epoch" in line):
                print(line)


class Fleet(MovedGroup):
    """Consumers of one group.

    Args:
        server: the broker.
        clients: the JVM that they run in.
        log: what they say.
        group: their group.
        topic: that they read, and
        partitions: that it has.
        restart_s: how long restarts take.
    """

    def __init__(
        self,
        server: Broker,
        clients: Session,
        log: Path,
        group: str,
        topic: str,
        partitions: int,
        restart_s: float,
    ) -> None:
        super().__init__(server, log, group, restart_s)
        self.topic = topic
        self.partitions = partitions
        self._clients = clients
        self._configs: dict[str, dict[str, str]] = {}
        self._phases = cycle([HEARTBEAT_S * number / 3 for number in range(3)])

    def journal(self) -> str:
        return self._clients.call("journal")

    def start(self, names: list[str], **config: str) -> None:
        """Start consumers one after another, and wait until they rest."""
        for name in names:
            self._configs[name] = {"enable_auto_commit": "true", **config}
            self._join(name)
        self.settle()

    def restart(self, name: str, **config: str | None) -> None:
        """Restart a consumer, and wait until the group rests; None takes a setting out."""
        self.stop(name)
        self.come_back(name, **config)

    def stop(self, name: str) -> None:
        """Stop a consumer, which will come back.

        Each at another time since the heartbeats of the others, which beat as one after a
        rebalance: how long they take to learn of it would be the same by chance in all of a step.
        """
        time.sleep(next(self._phases))
        self._clients.call("leave", name=name)

    def come_back(self, name: str, **config: str | None) -> None:
        """Start it again when the time of a restart is over; likewise."""
        given = {**self._configs[name], **config}
        self._configs[name] = {key: value for key, value in given.items() if value is not None}
        time.sleep(self.restart_s)
        self._join(name)
        self.settle()

    def grow(self, command: str, partitions: int) -> None:
        """Give the topic more partitions by Kafka's own tool, and let records come to them."""
        tool, *arguments = shlex.split(command.replace("HOST:PORT", self._server.bootstrap))
        assert tool == "kafka-topics.sh"
        run_java(self._server.version, "org.apache.kafka.tools.TopicCommand", arguments)
        before, self.partitions = self.partitions, partitions
        self._clients.call("flow", topic=self.topic, partitions=partitions, first=before, rate=RATE)

    def stop_all(self) -> None:
        """Stop all consumers."""
        for name in self._configs:
            self._clients.call("leave", name=name)

    def start_all(self, **config: str) -> None:
        """Start them again, and wait until they rest."""
        self.start(list(self._configs), **config)

    def settle(self) -> None:
        """Wait until all partitions are owned, and nothing moves for a second."""
        settle(self._clients, self.partitions, *self._configs)

    def _join(self, name: str) -> None:
        join_java(self._clients, self.group, name, self.topic, **self._configs[name])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def measured(journal: str, rebalances: int, begin_ms: int, end_ms: int) -> Happened:
    """Count from a journal what happened between two times."""
    owned: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    since: dict[tuple[str, str], int] = {}
    read: dict[str, set[int]] = defaultdict(set)
    read_again = 0
    new: set[str] = set()
    lines = sorted(journal.split("\n"), key=lambda line: int(line.split(" ", 1)[0]))
    for line in lines:
        at, name, word, partition, *offsets = line.split(" ")
        at_ms = int(at)
        match word:
            case "assigned":
                since[name, partition] = at_ms
            case "revoked" | "lost":
                owned[partition].append((since.pop((name, partition)), at_ms, name))
            case "read":
                batch = set(range(int(offsets[0]), int(offsets[1]) + 1))
                if begin_ms <= at_ms < end_ms:
                    new |= {partition} - read.keys()
                    read_again += len(batch & read[partition])
                read[partition] |= batch
    for (name, partition), at_ms in since.items():
        owned[partition].append((at_ms, end_ms, name))
    moved, stops = 0, []
    for partition, spans in owned.items():
        for before, after in pairwise(sorted(spans)):
            if begin_ms <= after[0] < end_ms:
                moved += before[2] != after[2]
                if after[0] > before[1]:
                    stops.append((partition, after[0] - before[1]))
    return Happened(
        rebalances,
        moved,
        len({partition for partition, _ in stops}),
        sum(ms for _, ms in stops),
        read_again,
        sum(
            max(each) + 1 - (0 if partition in new else min(each)) - len(each)
            for partition, each in read.items()
            if each
        ),
    )


@contextmanager
def fleet(
    server: Broker,
    work: Path,
    group: str,
    partitions: int,
    topic: str = "orders",
    restart_s: float = RESTART_S,
) -> Iterator[Fleet]:
    """Run a JVM with consumers of the broker's version, and records for them."""
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {topic: partitions})
        await_coordinator(wire)
    log = work / f"{group}.log"
    with session(
        server.version,
        ["Consumers", "Producers"],
        bootstrap=server.bootstrap,
        log=log,
        log_level="INFO",
    ) as clients:
        clients.call("flow", topic=topic, partitions=partitions, rate=RATE)
        yield Fleet(server, clients, log, group, topic, partitions, restart_s)


def close_to(forecast: Mapping[str, Any], happened: Happened, beat_ms: int = 0) -> None:
    """See that what was forecast has happened.

    Stops agree within a factor of two, or, of partitions that move, within one heartbeat each: when
    in the course of its heartbeats a member learns of what moves is chance.
    """
    assert (forecast["rebalances"], forecast["moved"]) == (happened.rebalances, happened.moved)
    spare_ms = beat_ms * happened.moved
    assert happened.stopped_ms <= max(2 * forecast["stopped_ms"], forecast["stopped_ms"] + spare_ms)
    assert forecast["stopped_ms"] <= max(2 * happened.stopped_ms, happened.stopped_ms + spare_ms)
    assert happened.skipped == 0
    assert happened.read_again <= forecast["read_again"]
