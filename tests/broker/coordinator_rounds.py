"""Record rounds of live share and streams groups: `python -m tests.broker.coordinator_rounds`.

In a round a snapshot of a group is taken, members join, leave or restart, or a topic grows, and
another snapshot is taken when the group has been at rest for some seconds. Members of a streams
group are the threads of instances, which start and stop together. It takes 10 minutes (JDK 17,
Maven).
"""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kgroup.errors import NotFoundError
from kgroup.model.group import Group, GroupState
from kgroup.model.snapshot import Origin
from kgroup.operation.assign.group import find_group
from kgroup.operation.assign.what_if import AddedMembers, Changes
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.rounds import JavaClients, write_rounds
from tests.broker.live_groups import MODERN_CONFIG
from tests.broker.servers import Broker, broker
from tests.record.raw import await_coordinator, configure_group, create_topics
from tests.record.session import session
from tests.record.wire import Wire
from tests.waiting import until

FILE = Path(__file__).parents[1] / "data" / "rounds" / "coordinator.jsonl.xz"
ROUNDS = 12
SEED = 20261130
REST_S = 6.0
CONFIG = {**MODERN_CONFIG, "group.initial.rebalance.delay.ms": "0"}


class _Group(ABC):
    """A group while it is played; `members` has the number of members of each client."""

    kind: str
    standbys: int | None = None

    def __init__(self, server: Broker, clients: JavaClients, name: str) -> None:
        self.server, self.clients, self.name = server, clients, name
        self.random = Random(f"{SEED} {name}")
        self.members: dict[str, int] = {}
        self._started = 0

    @abstractmethod
    def start(self, client: str, members: int) -> None:
        """Start the members of a client."""

    @abstractmethod
    def stop(self, client: str) -> None:
        """Let the members of a client leave."""

    @abstractmethod
    def added(self, client: str, members: int) -> AddedMembers:
        """Return how a dry run adds a client."""

    def grow(self) -> Changes | None:
        """Add partitions to a topic, if that can be foretold."""
        return None

    def new(self) -> tuple[str, int]:
        """Return a new client, and its number of members."""
        self._started += 1
        return f"{self.name}-{self.random.randrange(100)}-{self._started}", 1

    def play(self) -> list[dict[str, Any]]:
        """Play rounds."""
        for _ in range(self.random.randint(2, 4)):
            client, count = self.new()
            self.members[client] = count
            self.start(client, count)
        rows = []
        group = self._rests()
        for _ in range(ROUNDS):
            before = self._snapshot()
            word, changes = self._change(group)
            group = self._rests()
            row = {"kind": f"{self.kind} {word}", "group": self.name, "standbys": self.standbys}
            options = {k: v for k, v in msgspec.to_builtins(changes).items() if v}
            rows.append({**row, "options": options, "before": before, "after": self._snapshot()})
            print(time.strftime("%H:%M:%S"), rows[-1]["kind"], flush=True)
        return rows

    def _change(self, group: Group) -> tuple[str, Changes]:
        """Change the members, or a topic."""
        words = ["join", "join-two", "leave", "leave", "restart", "swap", "grow"]
        words = [word for word in words if len(self.members) > 2 or word.startswith("join")]
        words = [w for w in words if len(self.members) < 6 or not w.startswith("join")]
        word = self.random.choice(words)
        if word == "grow":
            if (grown := self.grow()) is not None:
                return word, grown
            word = "leave"
        gone = [] if word.startswith("join") else [self.random.choice(sorted(self.members))]
        coming = {"join": 1, "swap": 1, "join-two": 2}.get(word, 0)
        new = [self.new() for _ in range(coming)]
        ids = [
            member.member_id
            for client in gone
            for member in group.members
            if f"{member.client_id}-".startswith(f"{client}-")
        ]
        for client in gone:
            count = self.members.pop(client)
            self.stop(client)
            if word == "restart":
                new.append((client, count))
        for client, count in new:
            self.members[client] = count
            self.start(client, count)
        if word == "restart":
            return word, Changes(restart=ids)
        return word, Changes(remove=ids, add=[self.added(*client) for client in new])

    def _rests(self) -> Group:
        """Wait until all members are there, and nothing happens for some seconds."""
        seen: list[tuple[float, Group]] = []

        def rests() -> bool:
            try:
                with LiveCluster(self.server.bootstrap, of_silence=True) as live:
                    group = find_group(live, self.name)[1]
            except NotFoundError:
                return False
            if seen and seen[-1][1] != group:
                seen.clear()
            seen.append((time.monotonic(), group))
            is_whole = len(group.members) == sum(self.members.values())
            is_quiet = seen[-1][0] - seen[0][0] > REST_S
            return is_whole and group.state is GroupState.STABLE and is_quiet

        until(rests, every_s=0.5)
        return seen[-1][1]

    def _snapshot(self) -> Any:
        with LiveCluster(self.server.bootstrap, of_silence=True) as live:
            now_ms = time.time_ns() // 1_000_000
            report = take_snapshot(live, Origin("cluster"), [self.name], taken_ms=now_ms)
        return json.loads(msgspec.json.encode(report.data[0]))


class _ShareGroup(_Group):
    def __init__(self, server: Broker, clients: JavaClients, name: str, *, is_alike: bool) -> None:
        super().__init__(server, clients, name)
        self.kind = "share alike" if is_alike else "share different"
        self._is_alike = is_alike
        self._topics = {f"{name}.{letter}": self.random.randint(2, 12) for letter in "abc"}
        self._subscribed: dict[str, tuple[str, ...]] = {}
        with Wire(server.version, server.bootstrap) as wire:
            create_topics(wire, self._topics)

    def start(self, client: str, members: int) -> None:
        topics = self._of(client)
        config = {"group.id": self.name, "client.id": client}
        self.clients.call("share-join", name=client, topics=",".join(topics), config=config)

    def stop(self, client: str) -> None:
        self.clients.call("share-leave", name=client)

    def added(self, client: str, members: int) -> AddedMembers:
        return AddedMembers(client_id=client, topics=self._of(client))

    def grow(self) -> Changes:
        topic = self.random.choice(sorted(self._topics))
        count = self._topics[topic] = self._topics[topic] + self.random.randint(1, 5)
        rows = [{"name": topic, "count": count, "assignments": None}]
        with Wire(self.server.version, self.server.bootstrap) as wire:
            wire.call("CreatePartitions", topics=rows, timeout_ms=30_000, validate_only=False)
        return Changes(partitions=[(topic, count)])

    def _of(self, client: str) -> tuple[str, ...]:
        names = tuple(self._topics)
        if not self._is_alike and client not in self._subscribed:
            self._subscribed[client] = tuple(self.random.sample(names, self.random.randint(1, 3)))
        return self._subscribed.get(client, names)


class _StreamsGroup(_Group):
    def __init__(self, server: Broker, clients: JavaClients, name: str, standbys: int) -> None:
        super().__init__(server, clients, name)
        self.kind = f"streams {standbys}"
        self.standbys = standbys
        with Wire(server.version, server.bootstrap) as wire:
            create_topics(wire, {f"{name}-in": self.random.randint(4, 9), f"{name}-out": 2})
            configure_group(wire, name, streams_num_standby_replicas=str(standbys))

    def new(self) -> tuple[str, int]:
        return super().new()[0], self.random.choice((1, 1, 2, 3))

    def start(self, client: str, members: int) -> None:
        config = {
            "application.id": self.name,
            "client.id": client,
            "group.protocol": "streams",
            "commit.interval.ms": "500",
            "state.dir": str(self.server.folder / client),
            "replication.factor": "1",
            "num.stream.threads": str(members),
        }
        where = {"source": f"{self.name}-in", "sink": f"{self.name}-out"}
        self.clients.call("streams-start", name=client, **where, config=config)

    def stop(self, client: str) -> None:
        self.clients.call("streams-close", name=client)

    def added(self, client: str, members: int) -> AddedMembers:
        return AddedMembers(members, client_id=client)


def record() -> None:
    """Record all rounds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        broker("4.3.1", Path(folder), config=CONFIG) as server,
        ExitStack() as stack,
    ):
        with Wire(server.version, server.bootstrap) as wire:
            await_coordinator(wire)
        at, log = server.bootstrap, Path(folder) / "clients.log"
        consumers = session(server.version, ["ShareConsumers"], bootstrap=at, log=log)
        apps = session(server.version, ["StreamsApps"], bootstrap=at, log=log, artifacts="streams")
        share, streams = (
            JavaClients(stack.enter_context(consumers)),
            JavaClients(stack.enter_context(apps)),
        )
        groups: Sequence[_Group] = (
            *(_ShareGroup(server, share, f"s{n}", is_alike=n % 2 == 0) for n in range(4)),
            *(_StreamsGroup(server, streams, f"t{n}", n % 3) for n in range(3)),
        )

        def play(group: _Group) -> list[dict[str, Any]]:
            try:
                return group.play()
            except Exception:
                traceback.print_exc()
                return []

        with ThreadPoolExecutor(len(groups)) as pool:
            rows: list[Mapping[str, Any]] = [row for own in pool.map(play, groups) for row in own]
    write_rounds(FILE, rows)


if __name__ == "__main__":
    record()
