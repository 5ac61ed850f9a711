"""Record rounds of live groups: `python -m tests.broker.client.rounds [FAMILY…]`.

In a round a snapshot of a group is taken, the group or its topics change, and when its members have
been at rest for some seconds, what they own is written beside the snapshot. Client ids name the
members, whose ids are chosen at random. Groups are played several at a time. What is recorded of a
kind of group takes the place of what was there; a JDK, Maven, Go and Node are needed.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from string import ascii_lowercase
from threading import Lock
from typing import Any, Protocol

import msgspec

from kgroup.assignor.group_spec import CLIENTS
from kgroup.model.group import Group
from kgroup.model.snapshot import Origin
from kgroup.operation.assign.dry_run import Mode
from kgroup.operation.assign.group import find_group
from kgroup.operation.assign.what_if import AddedMembers, Changes
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.protocol.record.consumer_protocol import decode_assignment
from kgroup.source.broker.source import LiveCluster
from kgroup.source.log.source import LogDir
from tests.broker.client.member import LibraryMember
from tests.broker.servers import Broker, broker
from tests.record.clients import ASSIGNOR
from tests.record.raw import await_coordinator, create_topics
from tests.record.session import Session, session
from tests.record.wire import Wire
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "data" / "rounds"
ROUNDS = 8
AT_ONCE = 7
SEED = 20261129
QUIET_S = 3.0
"""How long nothing must happen after a change of members."""
QUIET_TOPICS_S = 8.0
"""The same after a change of topics, which members notice when they refresh their metadata."""
QUIET_DELETED_S = 40.0
"""The same if a topic is deleted, which librdkafka believes after 30 s."""
QUIET_REGEX_S = 16.0
"""The same if the coordinator has to resolve regular expressions again, after 10 s at least."""
PATIENCE_S = 75.0
"""A group that does not rest then is given up, as some members never join again."""
ATTEMPTS = 3
REFRESH_MS = (1_000, 3_000)
HEARTBEAT_MS = 1_000

_JAVA_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
_VERSIONS = {
    "@platformatic/kafka": "1.35.0",
    "kafka-node": "5.0.0",
    "kafka-ts": "1.5.0",
    "aiokafka": "0.14.0",
    "node-rdkafka": "3.6.1",
    "@confluentinc/kafka-javascript": "1.10.1",
}
_PROTOCOL_VERSIONS = {"sarama": "2.3.0"}
"""Without cooperative-sticky, which needs 2.4 and is played with the default."""

_ODD = ("Web App (ü)", "~svc/日本", "rdkafka", "consumer", "kafka-python", "A", "kgo-" + 60 * "x")
"""Beginnings of odd client ids, those first that no instance id may have."""

Outcome = dict[str, dict[str, list[int]]]
"""Partitions by client id and topic."""


@dataclass(frozen=True)
class Kind:
    """A kind of group; each new member is of one of the libraries, with a strategy.

    Attributes:
        family: file in which its rounds are.
        members: libraries and strategies (see `LibraryMember`) that are drawn for each member; a
            library may be followed by `@` and its version.
        topics: "alike", "different" or "pattern": how members subscribe.
        is_static: whether members are static.
        broker: its version.
        is_log: whether the snapshots are taken of a log directory.
        changes: what happens in its rounds; empty for whatever may happen.
        rounds: number of rounds.
        has_odd_ids: whether some client ids have more than letters and digits, or name a library.
    """

    family: str
    members: tuple[tuple[str, str], ...]
    topics: str = "alike"
    is_static: bool = False
    broker: str = "4.3.1"
    is_log: bool = False
    changes: tuple[str, ...] = ()
    rounds: int = ROUNDS
    has_odd_ids: bool = False

    @property
    def name(self) -> str:
        """Unique name."""
        words = [f"{library} {strategy}" for library, strategy in self.members]
        flags = [self.topics, *["static"] * self.is_static, *["log-dir"] * self.is_log]
        flags += [" or ".join(self.changes)] * bool(self.changes)
        flags += ["odd ids"] * self.has_odd_ids
        return f"{' + '.join(words)}, {', '.join(flags)}, {self.broker}"

    @property
    def has_lists(self) -> bool:
        """Whether members of a library list different strategies: who joins may change the vote."""
        is_voted = self.changes == _VOTES or len(dict(self.members)) < len(self.members)
        return is_voted and not self.is_consumer

    @property
    def is_consumer(self) -> bool:
        """Whether the group uses the consumer protocol."""
        return self.members[0][1].startswith("consumer")


def _kinds(family: str, *strategies: str, **more: Any) -> list[Kind]:
    return [Kind(family, ((family, strategy),), **more) for strategy in strategies]


def _drawn(members: str) -> Iterator[tuple[str, str]]:
    """Yield the libraries and strategies in the name of a kind."""
    for member in members.split(" + "):
        library, strategy = member.split()
        yield library, strategy


_JAVA = "kafka-clients"
_EAGER = ("range", "roundrobin")
_STICKY = "cooperative-sticky"
_RESTARTS = ("restart", "restart-three")
_VOTES = ("join", "leave", "leave-two", "leave-leader", "restart")
_LEAVES = ("join", "leave", "leave-two", "leave-leader")
KINDS = (
    *_kinds(_JAVA, *_EAGER, "sticky", _STICKY),
    *_kinds(_JAVA, "roundrobin", "sticky", _STICKY, topics="different"),
    *_kinds(_JAVA, "range", _STICKY, topics="pattern"),
    *_kinds(_JAVA, _STICKY, is_static=True),
    *_kinds(_JAVA, "range", "sticky", broker="3.9.2"),
    *_kinds(_JAVA, _STICKY, is_log=True),
    Kind(_JAVA, ((_JAVA, "roundrobin,range"), (_JAVA, "range,roundrobin"))),
    *_kinds(_JAVA, "consumer:uniform", "consumer:range"),
    *_kinds(_JAVA, "consumer:uniform", topics="different"),
    *_kinds(_JAVA, "consumer", topics="pattern"),
    Kind(_JAVA, ((_JAVA, "consumer:uniform"), (_JAVA, "consumer:range")), is_log=True),
    Kind(_JAVA, ((_JAVA, "consumer:uniform"), (_JAVA, "consumer:range"))),
    *_kinds("librdkafka", *_EAGER, _STICKY),
    *_kinds("librdkafka", "range", _STICKY, topics="different"),
    *_kinds("librdkafka", "range", _STICKY, topics="pattern"),
    *_kinds("librdkafka", _STICKY, is_static=True),
    *_kinds("librdkafka", _STICKY, broker="3.9.2", is_log=True),
    Kind("librdkafka", (("librdkafka", "range,roundrobin"), ("librdkafka", "roundrobin,range"))),
    *_kinds("librdkafka", "consumer", topics="different"),
    *_kinds("kafka-python", *_EAGER, "sticky", _STICKY),
    *_kinds("kafka-python", "range", _STICKY, topics="different"),
    *_kinds("kafka-python", "range", "sticky", topics="pattern"),
    *_kinds("aiokafka", *_EAGER, "sticky"),
    *_kinds("aiokafka", "range", topics="pattern"),
    *_kinds("franz-go", *_EAGER, "sticky", _STICKY),
    *_kinds("franz-go", "range", _STICKY, topics="different"),
    *_kinds("franz-go", "range", _STICKY, topics="pattern"),
    *_kinds("franz-go", "range", is_static=True),
    *_kinds("sarama", *_EAGER, "sticky"),
    *_kinds("sarama", "range", topics="different"),
    *_kinds("kafka-go", *_EAGER),
    *_kinds("kafka-go", "range", topics="different"),
    *_kinds("kafkajs", "RoundRobinAssigner"),
    *_kinds("kafkajs", "RoundRobinAssigner", topics="pattern"),
    *_kinds("@platformatic/kafka", "roundrobin"),
    *_kinds("kafka-node", *_EAGER, broker="3.9.2"),
    *_kinds(_JAVA, "sticky", "range", changes=_RESTARTS),
    *_kinds(_JAVA, "range,cooperative-sticky", changes=_LEAVES),
    *(
        Kind("librdkafka", (("node-rdkafka", strategy),))
        for strategy in ("range,roundrobin", _STICKY)
    ),
    *_kinds("kafkajs", "RoundRobinAssigner", topics="pattern", changes=_RESTARTS),
    *_kinds(_JAVA, "consumer:uniform", is_static=True),
    *_kinds("librdkafka", "range", is_static=True),
    *_kinds("kafka-python", "range", is_static=True),
    *_kinds("sarama", "range", is_static=True),
    *_kinds("@platformatic/kafka", "roundrobin", topics="different"),
    *_kinds("@platformatic/kafka", "roundrobin", broker="3.9.2"),
    *(
        Kind("librdkafka", (("@confluentinc/kafka-javascript", strategy),))
        for strategy in (*_EAGER, _STICKY)
    ),
    *_kinds("sarama", _STICKY),
    Kind("mixed", ((_JAVA, "range,cooperative-sticky"), ("librdkafka", "range,roundrobin"))),
    *(
        Kind("mixed", tuple((library, strategy) for library in libraries), topics=topics)
        for libraries, strategy, topics in (
            ((_JAVA, "librdkafka"), "range", "alike"),
            ((_JAVA, "librdkafka"), _STICKY, "alike"),
            ((_JAVA, "franz-go"), _STICKY, "different"),
            (("librdkafka", "franz-go"), "range", "pattern"),
            (("sarama", _JAVA), "range", "alike"),
            (("kafka-python", "aiokafka", "librdkafka"), "roundrobin", "alike"),
            ((_JAVA, "kafka-python"), "sticky", "alike"),
            (("librdkafka", _JAVA), "range", "different"),
            ((_JAVA, "franz-go"), "range", "alike"),
            (("franz-go", "librdkafka"), _STICKY, "alike"),
            ((_JAVA, "kafka-python"), _STICKY, "alike"),
            (("kafka-go", "sarama"), "range", "alike"),
            ((_JAVA, "franz-go"), "roundrobin", "different"),
            ((_JAVA, "franz-go"), "sticky", "alike"),
            (("sarama", "franz-go"), "roundrobin", "different"),
            ((_JAVA, "aiokafka"), "roundrobin", "alike"),
            (("kafka-python", "librdkafka"), "range", "pattern"),
            ((_JAVA, "librdkafka"), _STICKY, "pattern"),
        )
    ),
    *_kinds(_JAVA, "consumer:range", topics="different"),
    Kind(
        "mixed",
        ((_JAVA, "consumer"), ("librdkafka", "consumer")),
        topics="pattern",
        # Nobody joins, with one of their two texts: a dry run cannot know which.
        changes=("leave", "leave-two", "restart", "grow", "add-topic", "drop-topic"),
    ),
    Kind("mixed", ((_JAVA, "consumer"), ("librdkafka", "range"))),
    # Without deleted topics, for which a member of Sarama that joins waits.
    Kind(
        "mixed",
        (("sarama", _STICKY), (_JAVA, _STICKY)),
        changes=("join", "leave", "leave-two", "leave-leader", "restart", "grow"),
    ),
    # All members list the same two strategies.
    *_kinds(_JAVA, "sticky,range", f"{_STICKY},range", changes=_VOTES),
    *_kinds("librdkafka", "range,roundrobin", changes=_VOTES),
    *_kinds("kafka-python", "range,roundrobin", changes=_VOTES),
    *(
        Kind(family, tuple(_drawn(members)), changes=_VOTES, rounds=4)
        for family, members in (
            (_JAVA, "kafka-clients range,sticky + kafka-clients sticky,range"),
            (_JAVA, f"kafka-clients {_STICKY},range + kafka-clients range,{_STICKY}"),
            (_JAVA, f"kafka-clients range + kafka-clients {_STICKY},range"),
            (_JAVA, f"kafka-clients {_STICKY} + kafka-clients range,{_STICKY}"),
            (
                _JAVA,
                "kafka-clients range,roundrobin,sticky + kafka-clients sticky,roundrobin,range + "
                "kafka-clients roundrobin,sticky,range",
            ),
            (
                "librdkafka",
                "librdkafka range,roundrobin + librdkafka roundrobin,range + librdkafka roundrobin",
            ),
            ("librdkafka", "librdkafka range + librdkafka roundrobin,range"),
            ("franz-go", "franz-go range,roundrobin + franz-go roundrobin,range"),
            ("franz-go", f"franz-go {_STICKY},range + franz-go range,{_STICKY}"),
            ("sarama", "sarama range,roundrobin + sarama roundrobin,range,sticky"),
            ("kafka-python", "kafka-python range,roundrobin + kafka-python roundrobin,range"),
            ("kafka-go", "kafka-go range,roundrobin + kafka-go roundrobin,range"),
            (
                "mixed",
                "kafka-clients range,roundrobin + librdkafka roundrobin,range + sarama "
                "range,roundrobin",
            ),
            ("mixed", f"kafka-clients {_STICKY},range + franz-go range,{_STICKY}"),
            (
                "mixed",
                "kafka-python roundrobin,range + librdkafka range,roundrobin + sarama "
                "range,roundrobin",
            ),
        )
    ),
)


def split_version(library: str) -> tuple[str, str | None]:
    """Return a library's name and its version, or the one with which it is recorded."""
    name, _, version = library[1:].partition("@")
    name = library[0] + name
    return name, version or _VERSIONS.get(name)


class _Member(Protocol):
    """A member that runs."""

    def stop(self) -> None:
        """Leave in order."""

    def kill(self) -> None:
        """End at once."""


class _JavaMember:
    """A consumer in the JVM that all groups share."""

    def __init__(self, clients: JavaClients, name: str) -> None:
        self._clients = clients
        self._name = name

    def stop(self) -> None:
        self._clients.call("leave", name=self._name)

    kill = stop


class JavaClients:
    """The JVM, to which one thread at a time may speak."""

    def __init__(self, clients: Session) -> None:
        self._clients = clients
        self._lock = Lock()

    def call(self, verb: str, **arguments: object) -> str:
        with self._lock:
            return self._clients.call(verb, **arguments)


@dataclass
class _Group:
    """A group while it is played; `clients` are those of each version of Kafka."""

    kind: Kind
    name: str
    server: Broker
    clients: Mapping[str, JavaClients]
    log: Path
    random: Random
    topics: dict[str, int] = field(default_factory=dict)
    subscribed: tuple[str, ...] = ()
    members: dict[str, _Member] = field(default_factory=dict)
    owned: frozenset[str] = frozenset()
    how: dict[str, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)

    def new_name(self) -> str:
        """Return a client id."""
        while True:
            name = "".join(self.random.choices(ascii_lowercase, k=self.random.randint(2, 6)))
            if self.kind.has_odd_ids and self.random.random() < 0.6:
                odd = _ODD[2 * self.kind.is_static :]  # instance ids have no other characters
                name = self.random.choice(odd)
            name += self.random.choice(("", "-", "_", ".")) + str(self.random.randint(0, 12))
            if name not in self.how:
                return name

    def draw(self, name: str) -> None:
        """Draw what a new member is."""
        library, strategy = self.random.choice(self.kind.members)
        topics = self.subscribed
        if self.kind.topics == "pattern":
            topics = (f"^{self.name}\\..*",)
        elif self.kind.topics == "different" and self.random.random() < 0.6:
            topics = tuple(self.random.sample(topics, self.random.randint(1, len(topics))))
        self.how[name] = library, strategy, topics

    def start(self, name: str) -> None:
        """Start a member."""
        library, strategy, topics = self.how[name]
        library, version = split_version(library)
        instance_id = name if self.kind.is_static else None
        if library != _JAVA:
            self.members[name] = LibraryMember(
                library,
                self.server.bootstrap,
                self.name,
                topics,
                strategy,
                self.log,
                client_id=name,
                instance_id=instance_id,
                version=version,
                protocol_version=None if strategy == _STICKY else _PROTOCOL_VERSIONS.get(library),
                refresh_ms=self.random.randint(*REFRESH_MS),
                heartbeat_ms=HEARTBEAT_MS,
            )
            return
        config: dict[str, object] = {
            "group.id": self.name,
            "client.id": name,
            "metadata.max.age.ms": self.random.randint(*REFRESH_MS),
        }
        protocol, _, assignor = strategy.partition(":")
        if protocol == "consumer":
            config["group.protocol"] = protocol
            config |= {"group.remote.assignor": assignor} if assignor else {}
        else:
            classes = (ASSIGNOR + _JAVA_CLASSES[word] for word in strategy.split(","))
            config["partition.assignment.strategy"] = ",".join(classes)
            # The default: who restarts has left and joined again when the others hear of it.
            config["heartbeat.interval.ms"] = 3 * HEARTBEAT_MS
        config |= {} if instance_id is None else {"group.instance.id": instance_id}
        key, text = "topics", ",".join(topics)
        if text.startswith("^"):
            key, text = ("regex", text[1:]) if protocol == "consumer" else ("pattern", text)
        java_name = f"{self.name} {name}"
        clients = self.clients[version or self.kind.broker]
        clients.call("join", name=java_name, **{key: text}, config=config)
        self.members[name] = _JavaMember(clients, java_name)

    def stop(self, *names: str) -> None:
        """Let members leave at the same time; static ones are removed, as an operator does."""
        members = [self.members.pop(name) for name in names]
        with ThreadPoolExecutor(len(members)) as pool:
            list(pool.map(lambda member: member.stop(), members))
        if self.kind.is_static:
            self._remove({name: self.instance_ids[name] for name in names})

    @property
    def instance_ids(self) -> dict[str, str]:
        """Member ids by client id, as the coordinator has them."""
        return {member["client_id"]: member["member_id"] for member in self.described()["members"]}

    def crash(self, *names: str) -> None:
        """End members and start them anew; remove those that ended once all have joined."""
        ids = self.instance_ids
        if self.kind.is_consumer:
            self.stop(*names)
            for name in names:
                self.start(name)
            return
        new = len(names)
        for name in names:
            self.members.pop(name).kill()
        for name in names:
            self.start(name)
        crashed = {n: ids[n] for n in names if split_version(self.how[n][0])[0] != _JAVA}
        if not crashed:
            return  # they have left
        old = set(ids.values())
        until(lambda: sum(m["member_id"] not in old for m in self.described()["members"]) >= new)
        self._remove(crashed)

    def _remove(self, ids: Mapping[str, str]) -> None:
        members = [
            {
                "member_id": member_id,
                "group_instance_id": name if self.kind.is_static else None,
                "reason": None,
            }
            for name, member_id in ids.items()
        ]
        with Wire(self.server.version, self.server.bootstrap) as wire:
            wire.call("LeaveGroup", group_id=self.name, members=members)

    def described(self) -> dict[str, Any]:
        """Return the coordinator's description."""
        with Wire(self.server.version, self.server.bootstrap) as wire:
            if self.kind.is_consumer:
                answer = wire.call(
                    "ConsumerGroupDescribe",
                    group_ids=[self.name],
                    include_authorized_operations=False,
                )
                consumer: dict[str, Any] = answer["groups"][0]
                if consumer["error_code"] == 0:  # else all members use the classic protocol
                    return consumer
            classic: dict[str, Any] = wire.call("DescribeGroups", groups=[self.name])["groups"][0]
        return classic

    def settled(self, quiet_s: float, gone: frozenset[str] = frozenset()) -> Outcome:
        """Wait until the group rests for so long, without the members with some ids."""
        deadline = time.monotonic() + PATIENCE_S + quiet_s
        before: object = None
        since = time.monotonic()
        while True:
            answer = self.described()
            members = answer["members"]
            now = (answer["group_state"], members)
            if now != before:
                before, since = now, time.monotonic()
            is_there = sorted(member["client_id"] for member in members) == sorted(self.members)
            ids = {member["member_id"] for member in members}
            is_done = all(
                _owned(member) == _owned({"assignment": member["target_assignment"]})
                and member["member_epoch"] == answer["group_epoch"]
                for member in members
                if "target_assignment" in member
            )
            if (
                now[0] == "Stable"
                and is_there
                and is_done
                and not gone & ids
                and time.monotonic() > since + quiet_s
            ):
                outcome = {member["client_id"]: _owned(member) for member in members}
                self.owned = frozenset(topic for owned in outcome.values() for topic in owned)
                return outcome
            assert time.monotonic() < deadline, f"{self.kind.name}: {now}"
            time.sleep(0.3)

    def snapshot(self) -> dict[str, Any]:
        """Take a snapshot of the group, without what no dry run reads and compresses badly."""
        now = time.time_ns() // 1_000_000
        if self.kind.is_log:
            folder, origin = LogDir([self.server.log_dir]), Origin("log-dir", ("data",))
            (taken,) = take_snapshot(folder, origin, [self.name], taken_ms=now).data
        else:
            with LiveCluster(self.server.bootstrap, of_silence=True) as live:
                origin = Origin("cluster")
                (taken,) = take_snapshot(live, origin, [self.name], taken_ms=now).data
        snapshot: dict[str, Any] = json.loads(msgspec.json.encode(taken))
        snapshot |= {"taken_ms": 0, "log_ranges": []}
        for group in snapshot["groups"]:
            group |= {"offsets": [], "state_timestamp_ms": None}
        for topic in () if self.kind.is_consumer else snapshot["topics"]:
            topic["topic_id"] = None
        return snapshot

    def in_log(self) -> Group:
        """Return the group as the log has it."""
        return find_group(LogDir([self.server.log_dir]), self.name)[1]

    def leader(self) -> str:
        """Return the client id of the leader of a classic group."""
        group = self.in_log()
        leader = next(m for m in group.members if m.member_id == group.leader_id)
        assert leader.client_id is not None
        return leader.client_id

    def play(self, rounds: int, add: Callable[[dict[str, Any]], None]) -> None:
        """Play rounds, and add a line for each."""
        for letter in "abcd"[: self.random.randint(1 + (self.kind.topics == "different"), 4)]:
            self.topics[f"{self.name}.{letter}"] = self.random.randint(1, 13)
        self.subscribed = tuple(self.topics)
        with Wire(self.server.version, self.server.bootstrap) as wire:
            create_topics(wire, self.topics)
        try:
            is_large = self.kind.has_lists or self.kind.changes
            first = self.random.randint(5, 7) if is_large else self.random.randint(1, 5)
            for _ in range(first):
                name = self.new_name()
                self.draw(name)
                self.start(name)
            self.settled(QUIET_REGEX_S if self.kind.is_consumer else QUIET_TOPICS_S)
            for _ in range(rounds):
                self.play_a_round(add)
        finally:
            for member in self.members.values():
                member.kill()

    def play_a_round(self, add: Callable[[dict[str, Any]], None]) -> None:
        """Take a snapshot, change something, and add what the members own afterwards."""
        names = sorted(self.members)
        random = self.random
        words = ["grow", "drop-topic"] if len(self.topics) > 1 else ["grow"]
        words += ["add-topic"] * 3 if self.kind.topics == "pattern" else []
        if len(names) < 7 and (not self.kind.has_lists or self.kind.changes):
            words += ["join"] * 3 + ["join-two"]
        if len(names) > 1:
            words += ["leave"] * 2 + ["restart"]
            words += [] if self.kind.is_consumer else ["leave-leader"] * 2 + ["restart-leader"]
            words += ["bounce"] if len(names) < 4 else []
        if len(names) > 2:
            words += ["leave-two", "leave-two"]
        if len(names) > 3:
            words += ["restart-three"]
        words = [word for word in words if word in self.kind.changes] or words
        word = random.choice(words)
        snapshot = self.snapshot()
        ids = self.instance_ids
        mode, quiet_s, gone = Mode.SETTLE, QUIET_S, list[str]()
        changes = Changes()
        if word.startswith("join"):
            new = [self.new_name() for _ in range(2 if word == "join-two" else 1)]
            for name in new:
                self.draw(name)
            read = {topic for name in names for topic in self.how[name][2]}
            more = {topic for name in new for topic in self.how[name][2]}
            counts = [(t, n) for t, n in self.topics.items() if t in more - read]
            (group,) = snapshot["groups"]
            added = [self._added(name, group["type"]) for name in new]
            changes = Changes(add=added, partitions=counts)
            for name in new:
                self.start(name)
        elif word.startswith("leave"):
            gone = [self.leader()] if word == "leave-leader" else []
            gone = gone or random.sample(names, 2 if word == "leave-two" else 1)
            changes = Changes(remove=gone)
            self.stop(*gone)
        elif word.startswith("restart"):
            gone = [self.leader()] if word == "restart-leader" else []
            gone = gone or random.sample(names, 3 if word == "restart-three" else 1)
            changes = Changes(restart=gone)
            if self.kind.is_static:
                quiet_s, gone = QUIET_TOPICS_S, self._restart_static(gone)
            else:
                self.crash(*gone)
        elif word == "bounce":
            mode = Mode.BOUNCE
            for name in self._in_order(names):
                if self.kind.is_static:
                    self._restart_static([name])
                    continue
                self.stop(name)
                self.settled(QUIET_S)
                self.start(name)
                self.settled(QUIET_S)
        else:
            quiet_s = QUIET_TOPICS_S
            if self.kind.is_consumer and self.kind.topics == "pattern":
                quiet_s = QUIET_REGEX_S
            changes = self._change_topics(word)
            if changes.drop_topics and self.kind.family != _JAVA:
                quiet_s = QUIET_DELETED_S
        lists = {name: self.how[name][1] for name in {**dict.fromkeys(names), **self.members}}

        def end(outcome: Outcome | None) -> None:
            line = {
                "kind": self.kind.name,
                "broker": self.kind.broker,
                "group": self.name,
                "change": word,
                "mode": mode.name,
                "options": {k: v for k, v in msgspec.to_builtins(changes).items() if v},
                "snapshot": snapshot,
                "outcome": outcome,
                **({"lists": lists} if self.kind.has_lists else {}),
            }
            add(line)

        try:
            outcome = self.settled(quiet_s, frozenset(ids[name] for name in gone))
        except AssertionError:
            end(None)
            raise
        end(outcome)

    def _in_order(self, names: Sequence[str]) -> list[str]:
        """Return members in the order in which `--bounce` restarts them: that of the source."""
        (group,) = self.snapshot()["groups"]
        ids = [member["client_id"] for member in group["members"]]
        return [client_id for client_id in ids if client_id in names]

    def _restart_static(self, names: Sequence[str]) -> list[str]:
        for name in names:
            member = self.members.pop(name)
            member.stop()
            self.start(name)
        return list(names)

    def _added(self, name: str, group_type: str) -> AddedMembers:
        """Return a new member of a group of some type as its operator would describe it."""
        library, strategy, topics = self.how[name]
        added = AddedMembers(client_id=name, instance_id=name if self.kind.is_static else None)
        if self.kind.topics != "pattern":
            added = replace(added, topics=topics)
        if not self.kind.is_consumer:
            is_mixed = len({name for name, _ in self.kind.members}) > 1
            is_known = split_version(library)[0] in CLIENTS
            return (
                replace(added, library=library, strategies=tuple(strategy.split(",")))
                if is_mixed and is_known
                else added
            )
        protocol, _, assignor = strategy.partition(":")
        if protocol != "consumer":
            return added
        if group_type == "classic":
            added = replace(added, protocol="consumer")
        if self.kind.topics == "pattern":
            added = replace(added, regex=topics[0][library == _JAVA :])
        return replace(added, strategies=(assignor,) if assignor else None)

    def _change_topics(self, word: str) -> Changes:
        read = {topic for name in self.members for topic in self.how[name][2]}
        known = self.topics.keys() & (self.owned or read) or self.topics.keys()
        topic = self.random.choice(sorted(known))
        with Wire(self.server.version, self.server.bootstrap) as wire:
            if word == "grow":
                count = self.topics[topic] = self.topics[topic] + self.random.randint(1, 5)
                rows = [{"name": topic, "count": count, "assignments": None}]
                wire.call("CreatePartitions", topics=rows, timeout_ms=30_000, validate_only=False)
                return Changes(partitions=[(topic, count)])
            if word == "add-topic":
                topic = f"{self.name}.{self.random.choice('_az')}{self.random.randint(0, 99)}"
                if topic not in self.topics:
                    count = self.topics[topic] = self.random.randint(2, 9)
                    create_topics(wire, {topic: count})
                    return Changes(add_topics=[(topic, count)])
                topic = sorted(self.owned & self.topics.keys())[0]
            del self.topics[topic]
            wire.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=30_000)
            return Changes(drop_topics=[topic])


def _owned(member: Mapping[str, Any]) -> dict[str, list[int]]:
    if "assignment" in member:
        rows = member["assignment"]["topic_partitions"]
        owned = {row["topic_name"]: row["partitions"] for row in rows}
    else:
        owned = {}
        for row in decode_assignment(member["member_assignment"])["assignedPartitions"]:
            owned.setdefault(row["topic"], []).extend(row["partitions"])
    return {topic: sorted(owned[topic]) for topic in sorted(owned)}


def path_of(family: str) -> Path:
    """Return the file of a family's rounds."""
    return FOLDER / f"{family.replace('/', '-').lstrip('@')}.jsonl.xz"


def read_rounds(path: Path) -> list[dict[str, Any]]:
    """Return the rounds in a file."""
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


def _write(kind: Kind, lines: Sequence[Mapping[str, Any]]) -> None:
    """Replace the rounds of a kind."""
    path = path_of(kind.family)
    known = read_rounds(path) if path.exists() else []
    known = [line for line in known if line["kind"] != kind.name]
    rows = sorted([*known, *lines], key=lambda line: str(line["kind"]))
    path.parent.mkdir(exist_ok=True)
    write_rounds(path, rows)


_UNREAD = frozenset({"client_library_evidence", "metadata_bytes", "assignment_bytes"})
"""Fields of members that no dry run reads, and that compress badly."""
_NULLABLE = frozenset(
    {"brokers", "controller", "error", "placements", "rack", "regex", "topic_id", "topics"}
)
"""Fields of snapshots that may be null, and have no default."""


def _small(value: Any) -> Any:
    """Return a snapshot without unread fields and defaults that are null."""
    if isinstance(value, list):
        return [_small(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _small(each)
        for key, each in value.items()
        if key not in _UNREAD and (each is not None or key in _NULLABLE)
    }


def write_rounds(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rounds into a file."""
    lines = [{**row, "snapshot": _small(row["snapshot"])} for row in rows]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def play(
    kinds: Sequence[Kind], seed: str, is_done: Callable[[Kind, Sequence[dict[str, Any]]], None]
) -> None:
    """Play groups of some kinds, one broker after another, and hand over the rounds of each."""
    lock = Lock()
    for broker_version in sorted({kind.broker for kind in kinds}, reverse=True):
        of_broker = [(at, kind) for at, kind in enumerate(kinds) if kind.broker == broker_version]
        libraries = {split_version(library) for _, kind in of_broker for library, _ in kind.members}
        versions = {version or broker_version for name, version in libraries if name == _JAVA}
        config = _CONFIG if broker_version == "4.3.1" else {"group.initial.rebalance.delay.ms": "0"}
        with (
            tempfile.TemporaryDirectory() as folder,
            broker(broker_version, Path(folder), config=config) as server,
            ExitStack() as stack,
        ):
            log = Path(folder) / "clients.log"
            with Wire(broker_version, server.bootstrap) as wire:
                await_coordinator(wire)
            clients = {
                version: JavaClients(
                    stack.enter_context(
                        session(version, ["Consumers"], bootstrap=server.bootstrap, log=log)
                    )
                )
                for version in versions
            }

            def play_one(
                number: int,
                kind: Kind,
                server: Broker = server,
                log: Path = log,
                clients: Mapping[str, JavaClients] = clients,
            ) -> None:
                random = Random(f"{seed} {kind.name}")
                lines: list[dict[str, Any]] = []
                for attempt in range(ATTEMPTS):
                    name = f"g{number}" + "bcd"[attempt - 1] * (attempt > 0)
                    group = _Group(kind, name, server, clients, log, random)
                    try:
                        group.play(kind.rounds - len(lines), lines.append)
                        break
                    except Exception:
                        traceback.print_exc()
                with lock:
                    print(time.strftime("%H:%M:%S"), kind.name, len(lines), flush=True)
                    is_done(kind, lines)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                for at, kind in of_broker:
                    pool.submit(play_one, at, kind)


def record(wanted: Sequence[str]) -> None:
    """Record the rounds of families, or of kinds that begin with a word; or of all."""
    kinds = [
        kind
        for kind in KINDS
        if not wanted or any(word == kind.family or kind.name.startswith(word) for word in wanted)
    ]
    play(kinds, str(SEED), lambda kind, lines: _write(kind, lines) if lines else None)


if __name__ == "__main__":
    record(sys.argv[1:])
