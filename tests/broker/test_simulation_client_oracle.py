"""The simulated consumer of the consumer protocol against Java's: the same story, lived by both.

A proxy sees what Java's consumers tell the coordinator. What each of them has to say is the same,
field by field and in order. The simulated ones have their ids, and so get the same partitions.

Not compared is what hangs on time: heartbeats that only say "still here", repetitions, and whether
an epoch is first said by itself or with what is owned in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest

from kgroup.simulation.client.application import ApplicationSettings, Consumer
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.cluster import SimulatedCluster
from kgroup.simulation.consumer.message import AnyRequest, ConsumerGroupHeartbeat
from kgroup.simulation.rules import NEWEST, BrokerSettings, ConsumerSettings
from tests.broker.proxy import RecordingProxy
from tests.broker.servers import broker
from tests.record.clients import join_java, settle
from tests.record.raw import await_coordinator, create_topics
from tests.record.session import Session, session
from tests.record.wire import Wire, jsonable, message_class
from tests.waiting import until

VERSION = "4.3.1"
INTERVAL_MS = 500
BROKER_SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
}
KAFKA_NAMES = {
    "instance_id": "group_instance_id",
    "max_poll_interval_ms": "max_poll_interval_ms",
    "rack": "client_rack",
    "remote_assignor": "group_remote_assignor",
}
"""Options of Java's consumers by those of simulated ones."""


class Beat(NamedTuple):
    """What a heartbeat says; None: nothing of that."""

    epoch: int
    instance_id: str | None
    rack: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True)
class Story:
    """What the consumers of a group do.

    Attributes:
        acts: each when the one before has come to rest: "a" joins, "-a" leaves.
        options: of all of them.
        is_static: whether they are static members.
        has_regex: whether they subscribe by an expression, else by names.
    """

    acts: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    is_static: bool = False
    has_regex: bool = False

    def options_of(self, member: str) -> dict[str, Any]:
        return {**self.options, **({"instance_id": f"pod-{member}"} if self.is_static else {})}


STORIES = {
    "names": Story(("a", "b", "-a", "-b"), {"rack": "east"}),
    "assignor": Story(("a", "b", "-a", "-b"), {"remote_assignor": "range"}),
    "static": Story(("a", "b", "-a", "a", "-b", "-a"), is_static=True),
    "regex": Story(("a", "b", "-a", "-b"), {"max_poll_interval_ms": 60_000}, has_regex=True),
}


@dataclass(frozen=True)
class Live:
    """A broker, a proxy before it, and a JVM with consumers that only know the proxy."""

    wire: Wire
    proxy: RecordingProxy
    clients: Session


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    work = tmp_path_factory.mktemp("client")
    with (
        broker(VERSION, work, config=BROKER_SETTINGS) as server,
        Wire(VERSION, server.bootstrap) as wire,
        RecordingProxy([server.port]) as proxy,
        session(VERSION, ["Consumers"], bootstrap=proxy.bootstrap, log=work / "log") as clients,
    ):
        create_topics(wire, {topic: n for name in STORIES for topic, n in topics_of(name).items()})
        await_coordinator(wire)  # which hears of new topics a little later than who asks for them
        yield Live(wire, proxy, clients)


def topics_of(name: str) -> dict[str, int]:
    """Return the topics of a story, and how many partitions each has."""
    return {f"{name}-orders": 4, f"{name}-refunds": 3}


@pytest.mark.parametrize("name", STORIES)
def test_what_consumers_say(live: Live, name: str) -> None:
    topics = topics_of(name)
    known = jsonable(live.wire.call("Metadata", topics=None))["topics"]
    topic_ids = {each["name"]: each["topic_id"] for each in known if each["name"] in topics}
    real = Real(live, name, topic_ids)
    real.play()
    simulated = Simulated(name, topics, topic_ids, real.member_ids)
    simulated.play()
    assert informative(simulated.beats) == informative(real.beats)


def informative(beats: Iterable[tuple[str, Beat]]) -> dict[str, list[Beat]]:
    """Return what each member says, without what is always said, and what is said once more."""
    said: dict[str, list[Beat]] = {}
    for member, beat in beats:
        told = said.setdefault(member, [])
        bare = Beat(beat.epoch, beat.instance_id)
        if told[-1:] == [bare]:
            told.pop()
        is_said = told and (beat == told[-1] or (beat == bare and beat.epoch == told[-1].epoch))
        if not is_said:
            told.append(beat)
    return said


def named(
    owned: Mapping[str, Iterable[int]] | None, topic_ids: Mapping[str, str]
) -> tuple[tuple[str, int], ...] | None:
    """Give partitions by their topics' names, sorted."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    if owned is None:
        return None
    return tuple(
        sorted((names[topic_id], number) for topic_id, some in owned.items() for number in some)
    )


def ordered(topics: Iterable[str] | None) -> tuple[str, ...] | None:
    """Sort names: Java's are in the order of a hash table."""
    return None if topics is None else tuple(sorted(topics))


class Real:
    """A story lived by Java's consumers."""

    def __init__(self, live: Live, name: str, topic_ids: Mapping[str, str]) -> None:
        self._live = live
        self._name = name
        self._story = STORIES[name]
        self._topic_ids = topic_ids

    def play(self) -> None:
        there: list[str] = []
        for act in self._story.acts:
            if act.startswith("-"):
                there.remove(act[1:])
                self._live.clients.call("leave", name=self._client_id(act[1:]))
            else:
                there.append(act)
                self._join(act)
            if there and not (self._story.is_static and act.startswith("-")):
                settle(
                    self._live.clients,
                    sum(topics_of(self._name).values()),
                    *map(self._client_id, there),
                )
                until(lambda: self._are_at_one(there))

    def _client_id(self, member: str) -> str:
        return f"{self._name}-{member}"

    def _join(self, member: str) -> None:
        topics = f"^{self._name}-.*" if self._story.has_regex else ",".join(self._topic_ids)
        options = {
            KAFKA_NAMES[key]: str(value) for key, value in self._story.options_of(member).items()
        }
        client_id = self._client_id(member)
        options["group_protocol"] = "consumer"
        join_java(self._live.clients, self._name, client_id, topics, **options)

    def _are_at_one(self, members: Iterable[str]) -> bool:
        """Return whether all have said that they are in the same epoch."""
        last = {member: beat.epoch for member, beat in self.beats}
        return len({last[member] for member in members}) == 1

    def _requests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield all requests by members of the group."""
        kind = message_class(VERSION, "ConsumerGroupHeartbeatRequest")
        for each in self._live.proxy.requests:
            if each.api_key == kind.API_KEY:
                request = kind.decode(each.message, version=each.version, header=True)
                plain = jsonable(request.to_dict(json=False))
                if plain["group_id"] == self._name:
                    assert each.client_id is not None
                    yield each.client_id.removeprefix(f"{self._name}-"), plain

    @property
    def member_ids(self) -> list[str]:
        """In the order in which they joined."""
        return list(dict.fromkeys(request["member_id"] for _, request in self._requests()))

    @property
    def beats(self) -> list[tuple[str, Beat]]:
        return [(member, self._beat(request)) for member, request in self._requests()]

    def _beat(self, request: Mapping[str, Any]) -> Beat:
        timeout_ms, owned = request["rebalance_timeout_ms"], request["topic_partitions"]
        if owned is not None:
            owned = {each["topic_id"]: each["partitions"] for each in owned}
        return Beat(
            request["member_epoch"],
            request["instance_id"],
            request["rack_id"],
            None if timeout_ms == -1 else timeout_ms,
            ordered(request["subscribed_topic_names"]),
            request["subscribed_topic_regex"],
            request["server_assignor"],
            named(owned, self._topic_ids),
        )


_HABITS = ApplicationSettings(processing_ms=50)
"""Of the Java program, as `poll` there takes so long."""


class Simulated(SimulatedCluster):
    """The same story, lived by simulated consumers."""

    def __init__(
        self,
        name: str,
        topics: Mapping[str, int],
        topic_ids: Mapping[str, str],
        member_ids: list[str],
    ) -> None:
        settings = BrokerSettings.of(NEWEST), ConsumerSettings(heartbeat_interval_ms=INTERVAL_MS)
        super().__init__(name, *settings, (1,), topics, 10, (1, 5), 0, Random(1), topic_ids)
        self.beats: list[tuple[str, Beat]] = []
        self._name = name
        self._story = STORIES[name]
        self._ids = topic_ids
        self._member_ids = member_ids

    def play(self) -> None:
        running: dict[str, Consumer] = {}
        self.begin()
        for act in self._story.acts:
            if act.startswith("-"):
                running.pop(act[1:]).stop()
            else:
                running[act] = Consumer(act, self._config(act), _HABITS, self, {})
            self.clock.run(self.clock.now_ms + 30_000)

    def _config(self, member: str) -> ConsumerConfig:
        has_regex = self._story.has_regex
        return ConsumerConfig(
            self._name,
            member,
            () if has_regex else tuple(self._ids),
            regex=f"^{self._name}-.*" if has_regex else None,
            group_protocol="consumer",
            enable_auto_commit=False,
            **self._story.options_of(member),
        )

    def new_uuid(self) -> str:
        return self._member_ids.pop(0)

    def send(self, actor: str, broker: int, request: AnyRequest, on_answer: Any) -> None:
        if isinstance(request, ConsumerGroupHeartbeat):
            self.beats.append((actor, self._beat(request)))
        super().send(actor, broker, request, on_answer)

    def _beat(self, request: ConsumerGroupHeartbeat) -> Beat:
        return Beat(
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            ordered(request.topics),
            request.regex,
            request.assignor,
            named(request.owned, self._ids),
        )
