"""Record rounds of live Kafka Streams applications: `python -m tests.broker.streams_rounds`.

In a round a snapshot of an application with the classic protocol is taken, clients join, leave or
restart, or a probing rebalance comes, and another snapshot is taken when all threads are at rest.
One application has two subtopologies, one with state, and standby tasks; the other has only state.
Their changelogs have more records than is an acceptable lag, and the applications are idle; then
fewer, while records come. It takes 20 minutes (JDK 17, Maven).
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import msgspec
from kafka import KafkaProducer

from kgroup.model.group import Group, GroupState
from kgroup.model.snapshot import Origin
from kgroup.operation.assign.group import find_group
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.rounds import write_rounds
from tests.broker.live_groups import MODERN_CONFIG
from tests.broker.servers import Broker, broker
from tests.record.clients import java, make_topics, start_streams
from tests.record.recording import Recording
from tests.record.session import Session
from tests.waiting import until

FILE = Path(__file__).parents[1] / "data" / "rounds" / "kafka-streams.jsonl.xz"
PLAYS = (("4.3.1", True), ("3.9.2", True), ("4.3.1", False))
"""Versions, and whether the changelogs are large."""
SOURCES = {"totals": "orders", "keyed": "again"}
STANDBYS = {"totals": 1, "keyed": 0}
LARGE, SMALL = 240_000, 6_000
PROBING_MS = 60_000
REST_S = 4.0


class _Stage:
    """Applications on a broker, with the number of threads of each client."""

    def __init__(
        self, server: Broker, recording: Recording, apps: Session, *, is_large: bool
    ) -> None:
        self.server, self.recording, self.apps = server, recording, apps
        self.name = server.version if is_large else f"{server.version} small"
        self.threads: dict[str, dict[str, int]] = {name: {} for name in SOURCES}
        self.rounds: list[dict[str, Any]] = []

    def start(self, app: str, name: str, threads: int) -> None:
        self.threads[app][name] = threads
        start_streams(
            self.recording,
            self.apps,
            app,
            name,
            SOURCES[app],
            app == "keyed",
            num_standby_replicas=str(STANDBYS[app]),
            num_stream_threads=str(threads),
            probing_rebalance_interval_ms=str(PROBING_MS),
            session_timeout_ms="6000",
            heartbeat_interval_ms="500",
            **({"group_protocol": "classic"} if self.server.version > "4" else {}),
        )

    def close(self, app: str, name: str) -> int:
        self.apps.call("streams-close", name=name)
        return self.threads[app].pop(name)

    def restart(self, app: str, name: str) -> None:
        self.start(app, name, self.close(app, name))

    def round(self, app: str, what: str, act: Callable[[], object] | None = None) -> None:
        """Play a round; without `act`, the scheduled probing rebalance, if there is one."""
        group = self._at_rest(app)
        before = self._snapshot(app)
        if act is not None:
            act()
        elif group.probing_ms is not None:
            time.sleep(max(0.0, group.probing_ms / 1000 - time.time()) + 3)
        else:
            return
        self._at_rest(app, None if act is None else group)
        after = self._snapshot(app)
        kind = f"{self.name} {app} {what}"
        row = {"kind": kind, "group": app, "standbys": STANDBYS[app], "probing_ms": PROBING_MS}
        self.rounds.append({**row, "before": before, "after": after})

    def _at_rest(self, app: str, before: Group | None = None) -> Group:
        """Wait until all threads are there, and keep what they have for some seconds."""
        seen: list[tuple[float, Group]] = []

        def rests() -> bool:
            group = find_group(LiveCluster(self.server.bootstrap), app)[1]
            infos = [member.assignment_user_data or {} for member in group.members]
            is_whole = (
                group.state is GroupState.STABLE
                and len(group.members) == sum(self.threads[app].values())
                and all(info.get("nextRebalanceMs") != 0 for info in infos)
                and (before is None or _ids(group) != _ids(before))
            )
            if not is_whole or (seen and seen[-1][1].members != group.members):
                seen.clear()
            if is_whole:
                seen.append((time.monotonic(), group))
            return bool(seen) and seen[-1][0] - seen[0][0] > REST_S

        until(rests, every_s=0.5)
        return seen[-1][1]

    def _snapshot(self, app: str) -> Any:
        source = LiveCluster(self.server.bootstrap)
        report = take_snapshot(source, Origin("cluster"), [app], taken_ms=int(time.time() * 1000))
        return json.loads(msgspec.json.encode(report.data[0]))


def _ids(group: Group) -> set[str]:
    return {member.member_id for member in group.members}


def _produce(server: Broker, partitions: dict[str, int], records: int) -> None:
    producer = KafkaProducer(bootstrap_servers=server.bootstrap, linger_ms=50)
    random = Random(1)
    for topic, count in partitions.items():
        for number in range(records):
            key = f"key-{random.randrange(10**7)}".encode()
            producer.send(topic, key=key, value=key, partition=number % count)
    producer.flush()
    producer.close()


@contextmanager
def _traffic(server: Broker, partitions: dict[str, int]) -> Iterator[None]:
    """Produce 50 records a second to each topic."""
    is_over = Event()

    def run() -> None:
        with closing(KafkaProducer(bootstrap_servers=server.bootstrap)) as producer:
            for number in itertools.count():
                if is_over.wait(0.02):
                    return
                for topic, partition_count in partitions.items():
                    key = f"key-{number % 2_000}".encode()
                    producer.send(topic, key=key, value=key, partition=number % partition_count)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def play(version: str, *, is_large: bool) -> list[dict[str, Any]]:
    """Return the rounds of applications of a version."""
    recording = Recording("streams-rounds", Path(tempfile.mkdtemp(prefix="kgroup-rounds-")))
    config = MODERN_CONFIG | {"group.min.session.timeout.ms": "5000"}
    partitions = {"orders": 6, "again": 5}
    with (
        broker(version, recording.work, config=config) as server,
        java(recording, server, "Producers") as clients,
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
        ExitStack() as traffic,
    ):
        make_topics(recording, server, clients, partitions | {"order-totals": 2})
        _produce(server, partitions, LARGE if is_large else SMALL)
        traffic.enter_context(nullcontext() if is_large else _traffic(server, partitions))
        stage = _Stage(server, recording, apps, is_large=is_large)
        for app, threads in (("totals", 2), ("keyed", 1)):
            stage.start(app, f"{app}-1", threads)
        time.sleep(30)  # until they have read all

        def both(what: str, act: Callable[[str], object] | None = None) -> None:
            for app in SOURCES:
                stage.round(app, what, None if act is None else lambda app=app: act(app))  # type: ignore[misc]

        both("join", lambda app: stage.start(app, f"{app}-2", 2))
        both("probing")
        both("second join", lambda app: stage.start(app, f"{app}-3", 1))
        both("second probing")
        both("third probing")
        both("leave", lambda app: stage.close(app, f"{app}-2"))
        both("fourth probing")
        both("restart", lambda app: stage.restart(app, f"{app}-3"))
        both("thread", lambda app: apps.call("streams-restart-thread", name=f"{app}-1"))
        both("third join", lambda app: stage.start(app, f"{app}-4", 3))
        both("fifth probing")
        both("second leave", lambda app: stage.close(app, f"{app}-3"))
        for app, names in stage.threads.items():
            for name in list(names):
                stage.close(app, name)
    return stage.rounds


if __name__ == "__main__":
    played: list[dict[str, Any]] = []
    for version, is_large in PLAYS:
        played += play(version, is_large=is_large)
        write_rounds(FILE, played)
