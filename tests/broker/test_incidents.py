"""What `kgroup check GROUP` says after incidents on a real broker, and after busy sound days.

All incidents happen at once, each in its group, with consumers of librdkafka and Java; then each
group is checked, from the cluster alone, and the first finding has to be the cause. An incident
waits for the members that it needs, and what it leaves stays until the end: how long processes
take to start, or the other incidents, does not matter.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from select import select
from threading import Event, Lock, Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from kgroup.model.group import Group, GroupState
from kgroup.operation.describe import describe
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.faulty_member import Faults
from tests.broker.live_groups import MODERN_CONFIG
from tests.broker.maven import die_with_parent
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.clients import ASSIGNOR, java, join_java, make_topics
from tests.record.raw import (
    RawMember,
    commit,
    configure_group,
    consumer_protocol,
    create_topics,
    join,
    knock,
)
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S, until

VERSION = "4.3.1"
TOPICS = {"orders": 4, "payments": 4} | dict.fromkeys(
    ("audit", "stuck", "left", "again", "cut", "exact"), 1
)
SESSION_MS = 3_000
LONG_MS = 1_500_000
"""Nothing lasts that long, and brokers allow it for every timeout."""
QUICK = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
MEMBER = Path(__file__).parent / "client" / "faulty_member.py"


@dataclass
class Stage:
    """Where incidents happen: a broker, Java's consumers, and processes of librdkafka's.

    Attributes:
        server: the broker.
        stack: ends what is left.
        java: Java's clients, one call at a time.
        producer: of records.
        lock: of these calls.
    """

    server: Broker
    stack: ExitStack
    java: Session
    producer: KafkaProducer
    lock: Lock = field(default_factory=Lock)

    def call(self, verb: str, **arguments: Any) -> str:
        """Have one of Java's consumers do something."""
        with self.lock:
            return self.java.call(verb, **arguments)

    def join(self, group: str, name: str, topics: str = "orders", **config: str) -> None:
        """Start one of Java's consumers."""
        with self.lock:
            join_java(self.java, group, name, topics, **config)

    def group(self, group: str) -> Group | None:
        """Return a group as it is now; None if there is none."""
        with LiveCluster(self.server.bootstrap, of_silence=True) as source:
            return next((each.group for each in describe(source, [group], log_budget=0).data), None)

    def members(self, group: str) -> dict[str, str | None]:
        """Return the client ids by member id; nothing while a group rebalances."""
        now = self.group(group)
        if now is None or now.state is not GroupState.STABLE:
            return {}
        return {member.member_id: member.client_id for member in now.members}

    def await_member(self, group: str, client_id: str, but: str = "") -> str:
        """Wait until a client is a member, and return its member id, which is not `but`."""

        def found() -> str | None:
            members = self.members(group).items()
            return next((name for name, id_ in members if id_ == client_id and name != but), None)

        return until(found, every_s=0.5)

    def await_gone(self, group: str, member_id: str) -> None:
        """Wait until a group is complete without a member."""
        until(lambda: (found := self.members(group)) and member_id not in found, every_s=0.5)

    def await_topics(self, group: str, client_id: str, *topics: str) -> None:
        """Wait until a client is a member that subscribes to these topics."""

        def is_found() -> bool:
            now = self.group(group)
            return any(
                member.client_id == client_id and set(member.subscribed_topics) == set(topics)
                for member in (now.members if now else ())
            )

        until(is_found, every_s=0.5)

    def await_commit(self, group: str) -> None:
        """Wait until a group has committed something."""
        until(lambda: (found := self.group(group)) and found.offsets, every_s=0.5)

    def wire(self) -> Wire:
        """Return a connection."""
        return Wire(VERSION, self.server.bootstrap)

    def produce(self, topic: str, partition: int) -> None:
        """Produce one record."""
        self.producer.send(topic, b"x", partition=partition).get(30)

    def process(
        self, group: str, client_id: str, topics: Sequence[str] = ("orders",), **more: Any
    ) -> subprocess.Popen[bytes]:
        """Start a consumer of librdkafka; settings have `_` for `.`, faults are as in `Faults`."""
        faults: Faults = {"subscriptions": more.pop("subscriptions", [list(topics)])}
        for name in ("turn_s", "slow_s", "slow_times", "commits"):
            if name in more:
                faults[name] = more.pop(name)
        settings = QUICK if "group_protocol" not in more else {}
        settings = settings | {name.replace("_", "."): value for name, value in more.items()}
        faults["config"] = settings | {
            "bootstrap.servers": self.server.bootstrap,
            "group.id": group,
            "client.id": client_id,
        }
        process = subprocess.Popen(
            [sys.executable, str(MEMBER), json.dumps(faults)],
            preexec_fn=die_with_parent(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.stack.callback(_end, process)
        return process


@contextmanager
def stage(work: Path) -> Iterator[Stage]:
    """Run the broker and Java's consumers."""
    recording = Recording("incidents", work)
    config = (
        MODERN_CONFIG
        | {"group.min.session.timeout.ms": "1000"}
        | {"group.consumer.max.session.timeout.ms": str(LONG_MS)}
        | {"transaction.max.timeout.ms": str(LONG_MS)}
        | {f"group.consumer.{word}session.timeout.ms": str(SESSION_MS) for word in ("", "min.")}
    )
    with (
        broker(VERSION, work, config=config) as server,
        java(recording, server, "Consumers", "Producers") as clients,
        ExitStack() as stack,
    ):
        make_topics(recording, server, clients, TOPICS)
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        stack.callback(producer.close)
        yield Stage(server, stack, clients, producer)


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:  # waits, and closes the pipe
        process.kill()


def await_quick(process: subprocess.Popen[bytes]) -> None:
    """Wait until a consumer has been slow as often as it should, and has partitions again."""
    assert process.stdout is not None
    assert select([process.stdout], [], [], PATIENCE_S)[0], f"still slow after {PATIENCE_S:g} s"
    assert process.stdout.readline() == b"quick\n"


def leave(process: subprocess.Popen[bytes]) -> None:
    """Stop a consumer in order."""
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)


# ---- incidents


def a_slow_consumer(stage: Stage, group: str) -> None:
    """One of two consumers takes longer than max.poll.interval.ms for what it has polled."""
    stage.process(group, "quick-1")
    await_quick(stage.process(group, "slow-1", max_poll_interval_ms=5_000, slow_s=7, slow_times=4))


def a_slow_java_consumer(stage: Stage, group: str) -> None:
    for _ in range(4):
        stage.call("pause", name="slow-2", ms=7_000)
    for name in ("quick-2", "slow-2"):
        stage.join(group, name, max_poll_interval_ms="5000", **CLASSIC_JAVA)

    def is_quick() -> bool:
        lines = [line.split(" ") for line in stage.call("diary", name="slow-2").split("\n")]
        return len({member_id for _, member_id, _, owned in lines if owned}) > 4

    until(is_quick, every_s=0.5)


def a_slow_modern_consumer(stage: Stage, group: str) -> None:
    stage.process(group, "quick-3", **MODERN_RD)
    slow = MODERN_RD | {"max_poll_interval_ms": 5_000, "slow_s": 8, "slow_times": 4}
    await_quick(stage.process(group, "slow-3", **slow))


def a_crash_loop(stage: Stage, group: str) -> None:
    """A consumer dies of each batch, and its supervisor starts it again."""
    stage.process(group, "steady-4")
    member = ""
    for _ in range(6):
        process = stage.process(group, "crashing-4")
        member = stage.await_member(group, "crashing-4", but=member)
        _end(process)
        time.sleep(SESSION_MS / 1000 - 1)


def a_restart_loop(stage: Stage, group: str) -> None:
    """A consumer leaves in order, and comes back, again and again."""
    stage.process(group, "steady-5")
    for _ in range(7):
        process = stage.process(group, "restarting-5")
        stage.await_member(group, "restarting-5")
        leave(process)
        time.sleep(1)


def a_frozen_process(stage: Stage, group: str) -> None:
    """A pause of the whole process (memory, disk) outlasts its session, again and again."""
    stage.process(group, "steady-6")
    _freeze(stage, group, stage.process(group, "frozen-6"), "frozen-6")


def _freeze(stage: Stage, group: str, process: subprocess.Popen[bytes], client_id: str) -> None:
    for _ in range(5):
        member = stage.await_member(group, client_id)
        process.send_signal(signal.SIGSTOP)
        stage.await_gone(group, member)
        process.send_signal(signal.SIGCONT)
    stage.await_member(group, client_id)


def two_processes_of_one_instance_id(stage: Stage, group: str) -> None:
    """Each process fences the other one, whose supervisor starts it again."""
    member = ""
    for _ in range(12):
        stage.process(group, "twin", group_instance_id="pod-1")
        member = stage.await_member(group, "twin", but=member)


def a_changing_subscription(stage: Stage, group: str) -> None:
    stage.process(group, "steady-9")
    stage.process(group, "fickle-9", subscriptions=[["orders"], ["orders", "payments"]], turn_s=4)
    for _ in range(4):
        stage.await_topics(group, "fickle-9", "orders")
        stage.await_topics(group, "fickle-9", "orders", "payments")


def two_applications(stage: Stage, group: str) -> None:
    """Two teams took the same group id; both deploy."""
    topics = {"audit-1": "audit", "audit-2": "audit", "billing-1": "orders", "billing-2": "orders"}
    _deploy(stage, group, {name: {"topics": [topic]} for name, topic in topics.items()})


def a_modern_crash_loop(stage: Stage, group: str) -> None:
    stage.process(group, "steady-10", **MODERN_RD)
    member = ""
    for _ in range(6):
        process = stage.process(group, "crashing-10", **MODERN_RD)
        member = stage.await_member(group, "crashing-10", but=member)
        _end(process)
        time.sleep(2)


def a_modern_frozen_process(stage: Stage, group: str) -> None:
    stage.process(group, "steady-11", **MODERN_RD)
    _freeze(stage, group, stage.process(group, "frozen-11", **MODERN_RD), "frozen-11")


def a_stuck_partition(stage: Stage, group: str) -> None:
    """A record that cannot be processed: the consumer polls, and never commits any more."""
    process = stage.process(group, "poisoned", ["stuck"], commits=True)
    stage.await_commit(group)
    leave(process)
    stage.process(group, "poisoned", ["stuck"])
    for _ in range(60):
        stage.produce("stuck", 0)
        time.sleep(0.5)
    stage.await_member(group, "poisoned")


def nobody_reads(stage: Stage, group: str) -> None:
    """The last consumer was stopped, and the topic grows."""
    process = stage.process(group, "stopped", ["left"], commits=True)
    stage.await_commit(group)
    leave(process)
    for _ in range(20):
        stage.produce("left", 0)
        time.sleep(0.5)


def a_recreated_topic(stage: Stage, group: str) -> None:
    """A topic was recreated, and has fewer records than the group has committed."""
    process = stage.process(group, "reader-14", ["again"], commits=True)
    stage.await_commit(group)
    leave(process)
    with stage.wire() as wire:
        wire.call("DeleteTopics", 5, timeout_ms=30_000, topic_names=["again"])
        time.sleep(2)
        create_topics(wire, {"again": 1})
        time.sleep(1)
        stage.produce("again", 0)
        commit(wire, group, {("again", 0): 10})  # of a copy of the offsets, say


def an_expired_backlog(stage: Stage, group: str) -> None:
    """Retention deletes records before the group has read them."""
    with stage.wire() as wire:
        commit(wire, group, {("cut", 0): 1})
        wire.call(
            "DeleteRecords",
            timeout_ms=30_000,
            topics=[{"name": "cut", "partitions": [{"partition_index": 0, "offset": 6}]}],
        )


def a_member_that_does_not_rejoin(stage: Stage, group: str) -> None:
    """A rebalance waits for a frozen process with long timeouts."""
    process = stage.process(
        group, "frozen-16", session_timeout_ms=LONG_MS, max_poll_interval_ms=LONG_MS
    )
    stage.await_member(group, "frozen-16")
    process.send_signal(signal.SIGSTOP)
    stage.process(group, "new-16")
    until(
        lambda: (now := stage.group(group)) and now.state is GroupState.PREPARING_REBALANCE,
        every_s=0.5,
    )


def a_hanging_transaction(stage: Stage, group: str) -> None:
    stage.process(group, "reader-17", ["exact"], commits=True, isolation_level="read_committed")
    settings = {"bootstrap.servers": stage.server.bootstrap, "transactional.id": group}
    producer = Producer(settings | {"transaction.timeout.ms": LONG_MS})
    stage.stack.callback(producer.abort_transaction)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("exact", b"x")
    producer.flush(30)
    stage.await_commit(group)


def two_readers_without_a_group(stage: Stage, group: str) -> None:
    """Two processes assign themselves the same partition, and both commit, until all is over."""
    is_over = Event()

    def read() -> None:
        with stage.wire() as wire:
            for offset in cycle((4, 2, 6, 3, 8, 5)):
                commit(wire, group, {("orders", 0): offset})
                if is_over.wait(1):
                    return

    readers = Thread(target=read)
    readers.start()
    stage.stack.callback(readers.join)
    stage.stack.callback(is_over.set)  # before that


def a_member_without_partitions(stage: Stage, group: str) -> None:
    """Range gives the first of two members all topics of one partition."""
    for number in (1, 2):
        stage.process(
            group, f"worker-19-{number}", ["audit", "cut"], partition_assignment_strategy="range"
        )
    for number in (1, 2):
        stage.await_member(group, f"worker-19-{number}")


def a_missing_static_member(stage: Stage, group: str) -> None:
    """A static consumer stops in order, and is not started again."""
    with stage.wire() as wire:
        configure_group(wire, group, consumer_session_timeout_ms=str(LONG_MS))
    stage.process(group, "steady-20", group_instance_id="pod-1", **MODERN_RD)
    process = stage.process(group, "away-20", group_instance_id="pod-2", **MODERN_RD)
    stage.await_member(group, "away-20")
    leave(process)


CLASSIC_JAVA = {
    "session_timeout_ms": str(SESSION_MS),
    "heartbeat_interval_ms": "500",
    "partition_assignment_strategy": f"{ASSIGNOR}CooperativeStickyAssignor",
}
MODERN_RD: dict[str, Any] = {"group_protocol": "consumer"}
COMMITS: dict[str, Any] = {"commits": True}


# ---- sound days


APPS = ("app-0", "app-1", "app-2")


def a_deployment(stage: Stage, group: str) -> None:
    """Three consumers are replaced one after another."""
    _deploy(stage, group, dict.fromkeys(APPS, COMMITS))


def a_modern_deployment(stage: Stage, group: str) -> None:
    _deploy(stage, group, dict.fromkeys(APPS, COMMITS | MODERN_RD))


def a_cooperative_deployment(stage: Stage, group: str) -> None:
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    _deploy(stage, group, dict.fromkeys(APPS, COMMITS | cooperative))


def a_static_deployment(stage: Stage, group: str) -> None:
    _deploy(stage, group, {name: COMMITS | {"group_instance_id": f"pod-{name}"} for name in APPS})


def _deploy(stage: Stage, group: str, consumers: Mapping[str, Mapping[str, Any]]) -> None:
    """Start consumers, by client id with what `Stage.process` takes, and replace one by one."""
    processes = {name: stage.process(group, name, **more) for name, more in consumers.items()}
    members = {name: stage.await_member(group, name) for name in consumers}
    for name, more in consumers.items():
        leave(processes[name])
        stage.process(group, name, **more)
        stage.await_member(group, name, but=members[name])


def a_scale_out(stage: Stage, group: str) -> None:
    for number in range(4):
        stage.process(group, f"worker-{number}", commits=True)
        stage.await_member(group, f"worker-{number}")


def a_scale_in(stage: Stage, group: str) -> None:
    names = [f"worker-{number}" for number in range(4)]
    processes = [stage.process(group, name, commits=True) for name in names]
    members = [stage.await_member(group, name) for name in names]
    for process, member in list(zip(processes, members, strict=True))[1:]:
        leave(process)
        stage.await_gone(group, member)


def one_crash(stage: Stage, group: str) -> None:
    stage.process(group, "worker-1", commits=True)
    process = stage.process(group, "worker-2", commits=True)
    stage.await_member(group, "worker-1")
    member = stage.await_member(group, "worker-2")
    _end(process)
    stage.await_gone(group, member)
    stage.process(group, "worker-2", commits=True)
    stage.await_member(group, "worker-2")


def a_java_deployment(stage: Stage, group: str) -> None:
    names = [f"{group}-{number}" for number in range(3)]
    for name in names:
        stage.join(group, name, **CLASSIC_JAVA)
    members = [stage.await_member(group, name) for name in names]
    for name, member in zip(names, members, strict=True):
        stage.call("leave", name=name)
        stage.join(group, name, **CLASSIC_JAVA)
        stage.await_member(group, name, but=member)


def one_long_batch(stage: Stage, group: str) -> None:
    """A consumer polls too late once."""
    stage.process(group, "worker-1")
    await_quick(
        stage.process(group, "worker-2", max_poll_interval_ms=5_000, slow_s=7, slow_times=1)
    )


def a_new_group(stage: Stage, group: str) -> None:
    stage.process(group, "worker-1", commits=True)
    stage.await_commit(group)


def a_record_that_outgrows_the_limit(stage: Stage, group: str) -> None:
    """A second member with a large subscription: the broker would refuse the record of both."""
    large = {"range": consumer_protocol(["orders"]).ljust(600_000, b"x")}
    first, second = (RawMember(VERSION, stage.server.bootstrap, "large") for _ in range(2))
    stage.stack.callback(first.close)
    stage.stack.callback(second.close)
    join(first, group, large, consumer_protocol(["orders"], 0))
    knock(second, group, large)


INCIDENTS: dict[Callable[[Stage, str], None], str] = {
    a_record_that_outgrows_the_limit: "large-group-record",
    two_readers_without_a_group: "reader-without-membership",
    a_slow_consumer: "late-poll",
    a_slow_java_consumer: "late-poll",
    a_slow_modern_consumer: "late-poll",
    a_crash_loop: "restarting-member",
    a_restart_loop: "restarting-member",
    a_frozen_process: "restarting-member",
    two_processes_of_one_instance_id: "shared-instance-id",
    a_changing_subscription: "changing-subscription",
    two_applications: "shared-group-id",
    a_modern_crash_loop: "restarting-member",
    a_modern_frozen_process: "expiring-session",
    a_stuck_partition: "old-commit",
    nobody_reads: "nobody-reads",
    a_recreated_topic: "past-end",
    an_expired_backlog: "before-start",
    a_member_that_does_not_rejoin: "long-rebalance",
    a_hanging_transaction: "open-transaction",
    a_member_without_partitions: "idle-member",
    a_missing_static_member: "missing-static-member",
}
SOUND: Sequence[Callable[[Stage, str], None]] = (
    a_deployment,
    a_modern_deployment,
    a_cooperative_deployment,
    a_static_deployment,
    a_scale_out,
    a_scale_in,
    one_crash,
    a_java_deployment,
    one_long_batch,
    a_new_group,
)
LIMITS = "transaction=3s,old-commit=20s"
"""Thresholds of minutes, as seconds."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Play everything at once, and last what the broker forgets after five minutes."""
    last = a_record_that_outgrows_the_limit
    plays = [play for play in (*INCIDENTS, *SOUND) if play is not last]
    with (
        ThreadPoolExecutor(len(plays)) as pool,  # consumers end with the thread that started them
        stage(tmp_path_factory.mktemp("incidents")) as place,
    ):
        for done in [pool.submit(play, place, group_of(play)) for play in plays]:
            done.result()
        last(place, group_of(last))
        yield place


def group_of(play: Callable[[Stage, str], None]) -> str:
    """Return the id of the group of an incident."""
    return play.__name__.replace("_", "-")


def findings(stage: Stage, cli: Cli, group: str) -> list[dict[str, Any]]:
    """Return what `kgroup check` finds."""
    where = ("-b", stage.server.bootstrap, "--limit", LIMITS)
    result = cli("check", group, *where, "-o", "json")
    assert result.status in (0, 5), result.err
    rows: list[dict[str, Any]] = json.loads(result.out)["data"]
    return rows


@pytest.mark.parametrize("play", INCIDENTS, ids=group_of)
def test_the_cause_comes_first(played: Stage, cli: Cli, play: Callable[[Stage, str], None]) -> None:
    codes = [row["code"] for row in findings(played, cli, group_of(play))]
    assert codes[:1] == [INCIDENTS[play]], codes


@pytest.mark.parametrize("play", SOUND, ids=group_of)
def test_sound_days(played: Stage, cli: Cli, play: Callable[[Stage, str], None]) -> None:
    rows = findings(played, cli, group_of(play))
    assert [row["code"] for row in rows if row["severity"] != "info"] == []
