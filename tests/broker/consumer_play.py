"""One random sequence of ConsumerGroupHeartbeat, played to a broker and to the state machine.

A broker looks for the topics of regular expressions in a thread of its own: whoever plays waits
until it must have found them. All else is settled when it answers, as long as it assigns anew as
often as it has to (`group.consumer.assignment.interval.ms` is 0).
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kgroup.model.cluster import numbers_by_topic, partitions_of
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import uuid_text
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    IdPartition,
    NumbersByTopic,
    numbers_of,
)
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.rules import ConsumerSettings
from tests.record.raw import create_topics
from tests.record.wire import Wire
from tests.simulation.world import ConsumerWorld
from tests.waiting import PATIENCE_S

TOPICS = {"t1": 1, "t2": 3, "t3": 7, "orders": 12, "orders-eu": 5, "pay": 2}
"""Partitions of the topics that are there."""

SETTINGS = ConsumerSettings(
    max_size=5, assignment_interval_ms=0, session_timeout_ms=6_000, heartbeat_interval_ms=500
)
BROKER_SETTINGS = {
    "group.consumer.max.size": "5",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}

_NAMES = [*TOPICS, "missing"]
_REGEXES = ["t.*", "orders.*", "pay|t1", "none.*", ".*", "orders|pay", "(", "t[12]", ""]
_WAITS_S = (2.2, 2.2, 6.8, 10.3)
"""Far from any sum of timeouts."""
_RESOLVED_S = 0.2
_CHANGED_S = 10.0
_VERSION = "4.3.1"


@dataclass
class Actor:
    """Somebody, and what it has learnt."""

    name: str
    wire: Wire
    topics: tuple[str, ...] | None
    regex: str | None
    member_id: str = ""
    epoch: int = 0
    instance_id: str | None = None
    assignor: str | None = None
    told: frozenset[IdPartition] = frozenset()
    owned: frozenset[IdPartition] = frozenset()


@dataclass
class Act:
    """What happened at one time: what a broker answered, and how the group was then.

    Attributes:
        request: that was sent, with its version; None where only time passed.
        fails_over: the broker has restarted.
        new_id: of the member that the request made, if it did.
        answers: the place of each request that was answered, counted from 0, and the answer.
        state: that was described.
    """

    now_ms: int
    request: Any = None
    version: int = 0
    fails_over: bool = False
    new_id: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    state: Any = None


@dataclass
class ConsumerPlay:
    """A sequence.

    Args:
        address: of the broker.
        seed: of the sequence.
        waits: whether it waits between some requests, until a rebalance has taken too long, a
            session is over, or expressions are looked at again.
        changes_topics: whether it makes, changes and deletes a topic of its own.
        attempt: counted from 0; each is played with a group of its own.
    """

    address: str
    seed: int
    waits: bool = False
    changes_topics: bool = False
    settings: ConsumerSettings = SETTINGS
    attempt: int = 0
    count: int = field(default=0, init=False)
    log: list[str] = field(default_factory=list, init=False)
    acts: list[Act] = field(default_factory=list, init=False)
    differences: list[str] = field(default_factory=list, init=False)

    @property
    def topics(self) -> TopicImage:
        """The topics that there were."""
        return self._topics

    @property
    def story(self) -> str:
        """What was sent and answered, and the differences."""
        return "\n".join([f"seed {self.seed}", *self.log, *self.differences])

    def run(self) -> None:
        """Play the whole sequence."""
        try:
            self.begin()
            self.go_on()
        finally:
            self.close()

    def begin(self) -> None:
        """Connect, and draw who plays."""
        self._draw = draw = Random(self.seed)
        self.group_id = f"play-{self.seed}-{self.attempt}"
        self._own_topic = f"own-{self.seed}-{self.attempt}"
        self._wires: list[Wire] = []
        self._observer = self._wire("observer")
        self._others = 0
        self._topics = self._known_topics()
        self.sim = self._world()
        self._begin = time.monotonic()
        self._has_static = draw.random() < 0.6
        self._has_regex = draw.random() < 0.5
        self._actors = [self._actor(number) for number in range(draw.randint(1, 6))]

    def go_on(self) -> None:
        """Send some requests."""
        draw = self._draw
        for _ in range(draw.randint(5, 60)):
            if self.changes_topics and draw.random() < 0.08:
                self._change_topics()
            if self.waits and draw.random() < 0.08:
                self._wait(draw.choice(_WAITS_S))
            self._step(draw.choice(self._actors))
            if self.differences:
                return

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()
        self._wires.clear()

    def _world(self) -> ConsumerWorld:
        return ConsumerWorld(self.settings, self._topics)

    def _wire(self, name: str) -> Wire:
        self._wires.append(Wire(_VERSION, self.address, name))
        return self._wires[-1]

    def _actor(self, number: int) -> Actor:
        draw = self._draw
        name = f"{draw.choice('abcdef')}{number}"
        actor = Actor(name, self._wire(name), None, None)
        self._subscribe(actor)
        if self._has_static and draw.random() < 0.6:
            actor.instance_id = f"i{draw.randint(0, 2)}"
        actor.assignor = draw.choice([None, None, "uniform", "range"])
        return actor

    def _subscribe(self, actor: Actor) -> None:
        draw = self._draw
        kind = draw.random()
        actor.topics, actor.regex = None, None
        if not self._has_regex or kind < 0.7:
            common = ("orders", "t2") if draw.random() < 0.4 else ()
            names = common or tuple(draw.sample(_NAMES, draw.randint(0, 4)))
            if self.changes_topics and draw.random() < 0.6:
                names += (self._own_topic,)
            actor.topics = names
        if self._has_regex and kind > 0.5:
            actor.regex = draw.choice(_REGEXES)

    # --- requests -------------------------------------------------------------------------------

    def _request(self, actor: Actor) -> ConsumerGroupHeartbeat:
        draw = self._draw
        kind = draw.choices(
            ["join", "beat", "acknowledge", "full", "change", "leave", "pause"],
            [6 if not actor.epoch else 1, 3, 8, 2, 2, 1, 1],
        )[0]
        if not actor.epoch and draw.random() < 0.95:
            kind = "join"
        request = ConsumerGroupHeartbeat(
            self.group_id,
            actor.member_id,
            actor.epoch,
            actor.instance_id if draw.random() < 0.97 else draw.choice([None, "i0", "i3", " "]),
            client_id=actor.name,
            client_host="/127.0.0.1",
        )
        if kind == "join":
            return self._join(actor, request)
        if kind == "leave":
            return replace(request, member_epoch=LEAVE_EPOCH)
        if kind == "pause":
            return replace(request, member_epoch=PAUSE_EPOCH)
        if kind == "beat":
            return request
        if kind == "change":
            self._subscribe(actor)
            if draw.random() < 0.3:
                actor.assignor = draw.choice(["uniform", "range", "other"])
            request = replace(
                request, topics=actor.topics, regex=actor.regex, assignor=actor.assignor
            )
        if kind == "full":
            request = replace(
                request,
                topics=actor.topics,
                regex=actor.regex,
                rebalance_timeout_ms=draw.choice([1_500, 90_000] if self.waits else [90_000]),
            )
        if kind == "change" and draw.random() < 0.5:
            return request
        return replace(request, owned=_by_topic(self._owned(actor)))

    def _join(self, actor: Actor, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeat:
        draw = self._draw
        if not actor.member_id or draw.random() < 0.1:
            actor.member_id = self._new_id()
        if draw.random() < 0.05:
            actor.instance_id = draw.choice([None, "i0", "i1", "i2", "i4"])
        request = replace(
            request,
            member_id=actor.member_id,
            member_epoch=JOIN_EPOCH,
            rack_id=None if draw.random() < 0.9 else draw.choice(["r1", ""]),
            rebalance_timeout_ms=1_500 if self.waits and draw.random() < 0.5 else 60_000,
            topics=actor.topics,
            regex=actor.regex,
            assignor=actor.assignor,
            owned={},
        )
        if draw.random() < 0.03:
            request = replace(request, owned=draw.choice([None, _by_topic([self._partition()])]))
        if draw.random() < 0.02:
            request = replace(request, topics=None, regex=None)
        if draw.random() < 0.02:
            request = replace(request, rebalance_timeout_ms=None)
        return request

    def _owned(self, actor: Actor) -> frozenset[IdPartition]:
        """Take and give up what the actor was told to, or only some of it."""
        draw = self._draw
        if draw.random() < 0.7:
            actor.owned = actor.told
        else:
            both = sorted(actor.owned | actor.told)
            actor.owned = frozenset(partition for partition in both if draw.random() < 0.7)
        if draw.random() < 0.05:
            return actor.owned | {self._partition()}
        return actor.owned

    def _partition(self) -> IdPartition:
        topic = self._draw.choice(sorted(self._topics, key=lambda each: each.name))
        return topic.topic_id, self._draw.randrange(topic.partitions)

    def _new_id(self) -> str:
        return uuid_text(self._draw.randbytes(16))

    def _spoilt(self, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeat:
        draw = self._draw
        if draw.random() < 0.05:
            ids = [actor.member_id for actor in self._actors]
            request = replace(request, member_id=draw.choice([*ids, "nobody", "", " "]))
        if draw.random() < 0.06:
            epoch = request.member_epoch + draw.choice([-2, -1, 1, 100])
            request = replace(request, member_epoch=epoch)
        if draw.random() < 0.15:
            request = replace(request, version=0, regex=None, topics=request.topics or ("t3",))
            if request.member_epoch == JOIN_EPOCH and draw.random() < 0.5:
                request = replace(request, member_id="")
        return request

    # --- play -----------------------------------------------------------------------------------

    def _step(self, actor: Actor) -> None:
        self._beat(actor, self._spoilt(self._request(actor)))

    def _beat(self, actor: Actor, request: ConsumerGroupHeartbeat) -> None:
        draw, sim = self._draw, self.sim
        place = self._note(actor, request)
        now_ms = self._now_ms()
        answer = _answer(
            actor.wire.call("ConsumerGroupHeartbeat", request.version, **_wire(request))
        )
        self.log.append(f"    <- {answer}")
        sim.next_id = answer.member_id or ""
        self.acts.append(
            Act(now_ms, request, request.version, False, sim.next_id, [(place, answer)])
        )
        sim.clock.run(now_ms)
        sim.coordinator.heartbeat(request)
        if sim.clock.next_ms == sim.clock.now_ms:  # expressions are looked at
            time.sleep(_RESOLVED_S)
            sim.clock.run(sim.clock.now_ms)
        self._compare_rest()
        expected = sim.answers.pop()
        if answer != expected:
            self.differences.append(f"{actor.name}: {answer}\n  expected {expected}")
            return
        if draw.random() < 0.9:  # else the answer is lost
            self._learn(actor, answer)
        self._compare_state()

    def _note(self, actor: Actor, request: Any) -> int:
        """Note what is sent; return its place."""
        self.count += 1
        self.log.append(f"{actor.name} {request}")
        return self.count - 1

    def _wait(self, seconds: float) -> None:
        self.log.append(f"wait {seconds} s")
        time.sleep(seconds)
        self.acts.append(Act(self._now_ms()))
        self.sim.clock.run(self.acts[-1].now_ms)
        self._compare_rest()
        self._compare_state()

    def _compare_rest(self) -> None:
        """Compare what is answered to others; heartbeats are answered at once."""

    def _now_ms(self) -> int:
        return int((time.monotonic() - self._begin) * 1000)

    def _learn(self, actor: Actor, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.error is ErrorCode.NONE and answer.member_epoch >= 0:
            actor.member_id = answer.member_id or ""
            actor.epoch = answer.member_epoch
            if answer.assignment is not None:
                actor.told = frozenset(partitions_of(answer.assignment.items()))
        elif answer.error is ErrorCode.NONE:
            actor.epoch, actor.told, actor.owned = 0, frozenset(), frozenset()
            if self._draw.random() < 0.7:
                actor.member_id = ""
        elif answer.error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            actor.epoch, actor.told, actor.owned = 0, frozenset(), frozenset()
        elif answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR:
            actor.assignor = None
        elif answer.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            actor.instance_id = self._draw.choice([None, "i0", "i1", "i2"])
        elif answer.error is ErrorCode.INVALID_REQUEST:
            self._subscribe(actor)
        elif answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION:
            actor.regex, actor.topics = None, ("t3",)

    def _compare_state(self) -> None:
        expected = self._expected_state()
        end = time.monotonic() + _CHANGED_S
        while (got := self._described_state()) != expected and time.monotonic() < end:
            time.sleep(0.01)
        self.acts[-1].state = got
        if got != expected:
            self.differences.append(f"state {got}\n  expected {expected}")

    def _described_state(self) -> Any:
        answer = self._observer.call(
            "ConsumerGroupDescribe", group_ids=[self.group_id], include_authorized_operations=False
        )
        found = answer["groups"][0]
        if found["error_code"]:
            return ErrorCode(found["error_code"])
        return (
            found["group_state"],
            found["group_epoch"],
            found["assignment_epoch"],
            found["assignor_name"],
            {
                each["member_id"]: (
                    each["member_epoch"],
                    each["instance_id"],
                    each["rack_id"],
                    each["client_id"],
                    each["client_host"],
                    sorted(each["subscribed_topic_names"]),
                    each["subscribed_topic_regex"],
                    _partitions(each["assignment"]),
                    _partitions(each["target_assignment"]),
                    each["member_type"],
                )
                for each in found["members"]
            },
        )

    def _expected_state(self) -> Any:
        return expected_state(self.sim, self.group_id)

    # --- topics ---------------------------------------------------------------------------------

    def _known_topics(self) -> TopicImage:
        answer = self._observer.call("Metadata", topics=None)
        return TopicImage(
            KnownTopic(
                each["name"], uuid_text(_uuid(each["topic_id"]).bytes), len(each["partitions"])
            )
            for each in answer["topics"]
        )

    def _change_topics(self) -> None:
        """Make the sequence's own topic, let it grow, or delete it."""
        draw, wire, name = self._draw, self._observer, self._own_topic
        own = self._topics.get(name)
        if own is None:
            create_topics(wire, {name: draw.randint(1, 4)})
        elif draw.random() < 0.7:
            more = {"name": name, "count": own.partitions + draw.randint(1, 3), "assignments": None}
            wire.call("CreatePartitions", topics=[more], timeout_ms=30_000, validate_only=False)
        else:
            gone = {"name": name, "topic_id": uuid.UUID(int=0)}
            wire.call("DeleteTopics", topics=[gone], timeout_ms=30_000)
        end = time.monotonic() + PATIENCE_S
        while (topics := self._known_topics()).get(name) == own:
            assert time.monotonic() < end, "the topic has not changed"
            time.sleep(0.01)
        while not self._coordinator_knows(topics.get(name)):  # it hears of it a little later
            assert time.monotonic() < end, "the coordinator does not know that the topic changed"
            time.sleep(0.01)
        self._topics = topics
        self.log.append(f"{name}: {topics.get(name)}")
        self.sim.coordinator.update_topics(topics)

    def _coordinator_knows(self, topic: KnownTopic | None) -> bool:
        """Tell whether it knows the sequence's own topic so, by what it gives to another group."""
        self._others += 1
        joining = ConsumerGroupHeartbeat(
            group_id=f"{self.group_id}-{self._others}",
            member_id="",
            member_epoch=JOIN_EPOCH,
            rebalance_timeout_ms=60_000,
            topics=(self._own_topic,),
            owned={},
            version=0,
        )
        answer = _answer(self._observer.call("ConsumerGroupHeartbeat", 0, **_wire(joining)))
        leaving = replace(joining, member_id=answer.member_id or "", member_epoch=LEAVE_EPOCH)
        self._observer.call("ConsumerGroupHeartbeat", 0, **_wire(leaving))
        if topic is None:
            return not answer.assignment
        return answer.assignment == {topic.topic_id: frozenset(range(topic.partitions))}


def expected_state(sim: ConsumerWorld, group_id: str) -> Any:
    """Return a simulated group as `_described_state` tells of the broker's."""
    if (group := sim.coordinator.groups.get(group_id)) is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    answer = group.describe(SETTINGS.assignors[0], sim.coordinator.topics)
    return (
        str(answer.state),
        answer.epoch,
        answer.assignment_epoch,
        answer.assignor,
        {
            member.member_id: (
                member.epoch,
                member.instance_id,
                member.rack_id,
                member.client_id,
                member.client_host,
                sorted(member.topics),
                member.regex,
                member.assigned,
                member.target,
                int(not member.speaks_classic),
            )
            for member in answer.members
        },
    )


def _wire(request: ConsumerGroupHeartbeat) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": request.group_id,
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": (
            -1 if request.rebalance_timeout_ms is None else request.rebalance_timeout_ms
        ),
        "subscribed_topic_names": None if request.topics is None else list(request.topics),
        "server_assignor": request.assignor,
        "topic_partitions": None,
    }
    if request.version >= 1:
        fields["subscribed_topic_regex"] = request.regex
    if request.owned is not None:
        fields["topic_partitions"] = [
            {"topic_id": _uuid(topic_id), "partitions": [*numbers]}
            for topic_id, numbers in request.owned.items()
        ]
    return fields


def _uuid(value: uuid.UUID | str) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))


def _answer(answer: Mapping[str, Any]) -> ConsumerHeartbeatAnswer:
    assignment = answer["assignment"]
    return ConsumerHeartbeatAnswer(
        ErrorCode(answer["error_code"]),
        answer["member_id"],
        answer["member_epoch"],
        answer["heartbeat_interval_ms"],
        None if assignment is None else _by_topic(_partitions(assignment)),
    )


def _by_topic(partitions: Iterable[IdPartition]) -> NumbersByTopic:
    return numbers_of(numbers_by_topic(partitions))


def _partitions(assignment: Mapping[str, Any]) -> frozenset[IdPartition]:
    return frozenset(
        (uuid_text(_uuid(topic["topic_id"]).bytes), number)
        for topic in assignment["topic_partitions"]
        for number in topic["partitions"]
    )
