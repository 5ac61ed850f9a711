"""One random sequence of requests, played to a broker and to the state machine side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import encode_subscription
from kgroup.simulation.clock import Clock, Timer
from kgroup.simulation.coordinator_log import Data
from kgroup.simulation.message import (
    Answer,
    DescribeAnswer,
    DescribedMember,
    DescribeGroup,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListAnswer,
    ListGroups,
    Protocol,
    Request,
    SyncGroup,
)
from kgroup.simulation.rules import MEMBER_ID_REQUIRED, BrokerSettings
from tests.broker.maven import version_tuple
from tests.broker.offset_request import OFFSET_VERSIONS, Sender, as_version, offsets_request
from tests.broker.raw_client import RawClient, as_version_has_it, from_wire, to_wire
from tests.broker.servers import Broker, broker
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire
from tests.simulation.world import Sim

VERSIONS: Mapping[str, Mapping[type, tuple[int, int]]] = {
    "1.1.1": {JoinGroup: (0, 2), SyncGroup: (0, 1), Heartbeat: (0, 1), LeaveGroup: (0, 1)},
    "2.8.2": {JoinGroup: (0, 7), SyncGroup: (0, 5), Heartbeat: (0, 4), LeaveGroup: (0, 4)},
    "3.9.2": {JoinGroup: (0, 9), SyncGroup: (0, 5), Heartbeat: (0, 4), LeaveGroup: (0, 5)},
    "4.3.1": {JoinGroup: (2, 9), SyncGroup: (0, 5), Heartbeat: (0, 4), LeaveGroup: (0, 5)},
}
"""Lowest and highest version of each request of members that brokers take."""

TOPICS = {"t": 3, "u": 1}
"""That the brokers have, with their partitions."""

_CONFIG = {
    "num.io.threads": "1",  # requests are handled in the order in which they were sent
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
}
_MAX_SIZE = 4


def settings(version: str, delay_ms: int) -> BrokerSettings:
    """Return the settings that a broker has which `play_broker` runs."""
    number = version_tuple(version)
    max_size = _MAX_SIZE if number >= MEMBER_ID_REQUIRED else BrokerSettings().max_size
    return BrokerSettings(
        number, min_session_timeout_ms=1_000, initial_rebalance_delay_ms=delay_ms, max_size=max_size
    )


@contextmanager
def play_broker(version: str, work: Path, delay_ms: int) -> Iterator[Broker]:
    """Run a broker to play with, which waits so long for the first members of a group."""
    config = {
        **_CONFIG,
        "group.max.size": str(_MAX_SIZE),
        "group.initial.rebalance.delay.ms": str(delay_ms),
    }
    with broker(version, work, config=config) as server:
        with Wire(version, server.bootstrap) as wire:
            create_topics(wire, TOPICS)
            await_coordinator(wire)
        time.sleep(1)  # a coordinator may still be at it
        yield server


Differences = list[str]
_LONG_S = 60.0
_MARGIN_MS = 200
"""How far from a request things happen by themselves."""
_CHANCE_MS = 100
"""How near to each other things are of which a broker that is late may do either first."""


class ChanceError(Exception):
    """What comes next depends on how fast the machine is."""


class PlayClock(Clock):
    """A clock that does not go on where chance would decide what is first.

    Of what was set off with the same delay, the first is first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pending: list[tuple[int, Timer]] = []

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        timer = super().after(delay_ms, action)
        self._pending.append((delay_ms, timer))
        return timer

    def run(self, until_ms: int) -> None:
        """Raise ChanceError: two things are due at almost the same time."""
        while (due_ms := self.next_ms) is not None and due_ms <= until_ms:
            self._look()
            self.step()
        self._look()
        super().run(until_ms)

    def _look(self) -> None:
        self._pending = [each for each in self._pending if each[1].action is not None]
        due = sorted((timer.due_ms, delay_ms) for delay_ms, timer in self._pending)
        for (first_ms, delay_ms), (second_ms, other_ms) in pairwise(due):
            if second_ms - first_ms < _CHANCE_MS and delay_ms != other_ms:
                raise ChanceError


@dataclass
class Actor:
    """Somebody, and what it has learnt.

    A broker reads the next request of a connection when it has answered the one before.
    """

    name: str
    address: str
    instance_id: str | None
    protocols: tuple[Protocol, ...]
    member_id: str = ""
    generation_id: int = -1
    leader: bool = False
    known: tuple[str, ...] = ()
    """Members, of the leader."""
    protocol: str | None = None
    clients: list[RawClient] = field(default_factory=list)

    def idle_client(self) -> RawClient:
        """Return a connection on which no request waits."""
        client = next((each for each in self.clients if not each.waiting), None)
        if client is None:
            client = RawClient(self.address, self.name)
            self.clients.append(client)
        return client


@dataclass
class Act:
    """What happened at one time: what a broker answered, and how the group was then.

    Attributes:
        request: that was sent, with its version; None where only time passed.
        new_id: of the member that it made, if it did.
        answers: the place of each request that was answered, counted from 0, and the answer.
        state: that was described.
    """

    now_ms: int
    request: Request | None = None
    version: int = 0
    new_id: str | None = None
    answers: list[tuple[int, Answer]] = field(default_factory=list)
    state: tuple[DescribeAnswer, tuple[str, GroupState | None] | None] | None = None


@dataclass
class Play:
    """A sequence.

    Args:
        version: of the broker.
        address: of it.
        seed: of the sequence.
        settings: as the broker has them.
        timed: let time pass between requests, and members be slow enough to be removed.
        attempt: counted from 0; each is played with a group of its own.
    """

    version: str
    address: str
    seed: int
    settings: BrokerSettings
    timed: bool = False
    attempt: int = 0
    cut: bool = field(default=False, init=False)
    """It ended where chance would have decided what is next."""
    count: int = field(default=0, init=False)
    log: list[str] = field(default_factory=list, init=False)
    acts: list[Act] = field(default_factory=list, init=False)
    differences: Differences = field(default_factory=list, init=False)

    def run(self) -> None:
        self._draw = Random(self.seed)
        kind = "timed" if self.timed else "play"
        self._group_id = f"{kind}-{self.seed}-{self.attempt}"
        self._sim = Sim(self.settings, PlayClock() if self.timed else Clock())
        self._begin = time.monotonic()
        self._sent: dict[int, tuple[Actor, RawClient, int, int, Request]] = {}
        self._places: dict[int, int] = {}
        self._observer = RawClient(self.address, "observer")
        # a broker breaks off where a leader that knows no instances is to be told of one
        self._has_static = self.version != "1.1.1" and self._draw.random() < 0.6
        self._actors = [self._actor(number) for number in range(self._draw.randint(1, 6))]
        try:
            for _ in range(self._draw.randint(5, 20 if self.timed else 60)):
                if self.timed:
                    self._pass_time()
                self._step()
                if self.differences:
                    return
            if self.timed:
                self._end()
        except ChanceError:
            self.cut = True
        finally:
            for actor in self._actors:
                for client in actor.clients:
                    client.close()
            self._observer.close()

    def _actor(self, number: int) -> Actor:
        draw = self._draw
        name = f"{draw.choice('abcdef')}{number}"
        instance = f"i{draw.randint(0, 2)}" if self._has_static and draw.random() < 0.5 else None
        return Actor(name, self.address, instance, self._protocols())

    def _metadata(self) -> bytes:
        """Return a subscription, or something that is none."""
        if self._draw.random() < 0.3:
            return bytes([self._draw.randint(0, 3)])
        topics = self._draw.sample(["t", "u"], self._draw.randint(1, 2))
        return encode_subscription(
            {"version": 1, "topics": topics, "userData": None, "ownedPartitions": []}
        )

    def _protocols(self) -> tuple[Protocol, ...]:
        draw = self._draw
        names = draw.sample(["range", "roundrobin", "sticky", "other"], draw.randint(1, 3))
        if draw.random() < 0.8 and "range" not in names:
            names.insert(draw.randint(0, len(names)), "range")
        return tuple(Protocol(name, self._metadata()) for name in names)

    @property
    def _session_timeouts(self) -> list[int]:
        return [1_200, 2_000] if self.timed else [30_000, 60_000]

    @property
    def _rebalance_timeouts(self) -> list[int]:
        return [1_000, 2_600] if self.timed else [60_000]

    def _pass_time(self) -> None:
        """Wait, but not until something is about to happen: what is first would be chance."""
        self._wait(self._now_ms() + self._draw.choice([0, 0, 0, 400, 900, 2_500]))

    def _end(self) -> None:
        """Wait until all members are forgotten."""
        while (due_ms := self._sim.clock.next_ms) is not None and due_ms < self._now_ms() + 60_000:
            self._wait(due_ms)

    def _wait(self, target_ms: int) -> None:
        clock = self._sim.clock
        clock.run(target_ms - _MARGIN_MS)
        while (due_ms := clock.next_ms) is not None and due_ms <= target_ms + _MARGIN_MS:
            target_ms = max(target_ms, due_ms + _MARGIN_MS)
            clock.run(target_ms - _MARGIN_MS)
        time.sleep(max(target_ms - self._now_ms(), 0) / 1000)
        self.acts.append(Act(clock.now_ms))
        for asked, answer in self._sim.take():
            self._compare(asked, answer, {})
        self._compare_state()

    def _now_ms(self) -> int:
        return int((time.monotonic() - self._begin) * 1000)

    def _step(self) -> None:
        actor = self._draw.choice(self._actors)
        request = self._request(actor)
        low, high = {**VERSIONS[self.version], **OFFSET_VERSIONS[self.version]}[type(request)]
        version = self._draw.randint(low, high)
        if isinstance(request, JoinGroup):
            version = self._join_version(request, low, high)
            object.__setattr__(request, "version", version)
            if version == 0:
                object.__setattr__(request, "rebalance_timeout_ms", request.session_timeout_ms)
        if isinstance(request, LeaveGroup) and version < 3:
            only = LeavingMember(request.members[0].member_id)
            object.__setattr__(request, "members", (only,))
        oldest = {SyncGroup: 3, Heartbeat: 3, JoinGroup: 5}
        if type(request) in oldest and getattr(request, "instance_id", None) is not None:
            version = max(version, oldest[type(request)])
        if isinstance(request, SyncGroup):
            object.__setattr__(request, "version", version)
            if version < 5:
                object.__setattr__(request, "protocol_type", None)
                object.__setattr__(request, "protocol", None)
        request, version = as_version(self._draw, request, version)
        self.count += 1
        self.log.append(f"{actor.name} v{version} {request}")
        self._play(actor, request, version)

    def _join_version(self, request: JoinGroup, low: int, high: int) -> int:
        if self._has_static:
            low = 5
        return self._draw.randint(low, high)

    def _request(self, actor: Actor) -> Request:
        draw, group_id = self._draw, self._group_id
        kind = draw.choices(["join", "sync", "heartbeat", "leave", "offsets"], [5, 5, 3, 1, 3])[0]
        member_id = actor.member_id
        if draw.random() < 0.07:
            member_id = draw.choice([*(each.member_id for each in self._actors), "nobody", ""])
        generation_id = actor.generation_id
        if draw.random() < 0.07:
            generation_id += draw.choice([-1, 1])
        instance_id = actor.instance_id
        if kind == "join" and draw.random() < 0.15:
            actor.protocols = self._protocols()
        if kind == "join":
            protocol_type = "consumer" if draw.random() < 0.96 else draw.choice(["connect", ""])
            protocols = actor.protocols if draw.random() < 0.98 else ()
            return JoinGroup(
                group_id,
                member_id,
                draw.choice(self._session_timeouts) if draw.random() < 0.97 else 1,
                draw.choice(self._rebalance_timeouts),
                protocol_type,
                protocols,
                instance_id,
                actor.name,
                "/127.0.0.1",
            )
        if kind == "sync":
            assignments = {}
            if actor.leader or draw.random() < 0.05:
                for each in actor.known:
                    if draw.random() < 0.9:
                        assignments[each] = bytes([draw.randint(0, 255)])
            synced = "consumer" if draw.random() < 0.95 else draw.choice(["connect", None])
            protocol = actor.protocol if draw.random() < 0.95 else draw.choice(["range", None])
            return SyncGroup(
                group_id, generation_id, member_id, assignments, instance_id, synced, protocol
            )
        if kind == "offsets":
            sender = Sender(group_id, member_id, generation_id, instance_id)
            return offsets_request(draw, self.version, sender, TOPICS)
        if kind == "heartbeat":
            return Heartbeat(group_id, generation_id, member_id, instance_id)
        members = [LeavingMember(member_id, instance_id)]
        if instance_id is not None and draw.random() < 0.3:
            members = [LeavingMember("", instance_id)]
        while draw.random() < 0.2:
            other = draw.choice(self._actors)
            members.append(LeavingMember(other.member_id, other.instance_id))
        return LeaveGroup(group_id, tuple(members))

    def _play(self, actor: Actor, request: Request, version: int) -> None:
        before = self._ids() if isinstance(request, JoinGroup) and not request.member_id else None
        client = actor.idle_client()
        number = client.send(to_wire(request, version), version)
        self._sent[id(request)] = (actor, client, number, version, request)
        self._places[id(request)] = len(self._places)
        early: dict[int, Any] = {}
        if before is not None:
            self._sim.next_id = self._learn_id(client, before, early, id(request))
        time.sleep(0.002)
        self._sim.clock.run(self._now_ms())
        new_id = None if before is None else self._sim.next_id
        self.acts.append(Act(self._sim.clock.now_ms, request, version, new_id))
        self._sim.coordinator.handle(request)
        self._sim.clock.run(self._sim.clock.now_ms)
        for asked, answer in self._sim.take():
            self._compare(asked, answer, early)
        for each in self._actors:
            for client in each.clients:
                if (unexpected := client.receive(0)) is not None:
                    self.differences.append(f"{each.name}: unexpected {unexpected}")
        if not self.differences:
            self._compare_state()

    def _learn_id(
        self, client: RawClient, before: frozenset[str], early: dict[int, Any], asked: int
    ) -> str:
        """Wait until the broker has answered, or has a new member."""
        end = time.monotonic() + _LONG_S
        while time.monotonic() < end:
            if (found := client.receive(0.005)) is not None:
                early[asked] = found[1]
                return str(found[1].member_id)
            new = self._ids() - before
            if new:
                return next(iter(new))
        self.differences.append("no new member and no answer")
        return "none"

    def _describe(self) -> Any:
        message = DescribeGroupsRequest(
            groups=[self._group_id], include_authorized_operations=False, version=1
        )
        return self._ask(message, 1).groups[0]

    def _ask(self, message: Any, version: int) -> Any:
        number = self._observer.send(message, version)
        found = self._observer.receive(_LONG_S)
        assert found is not None
        assert found[0] == number
        return found[1]

    def _ids(self) -> frozenset[str]:
        return frozenset(member.member_id for member in self._describe().members)

    def _compare(self, asked: Request, answer: Answer, early: dict[int, Any]) -> None:
        actor, client, number, version, request = self._sent.pop(id(asked))
        expected = as_version_has_it(answer, version)
        response = early.pop(id(asked), None)
        if response is None:
            found = client.receive(_LONG_S)
            if found is None:
                self.differences.append(f"{actor.name}: no answer; expected {expected}")
                return
            assert found[0] == number
            response = found[1]
        got = from_wire(request, response, version)
        self.acts[-1].answers.append((self._places[id(asked)], got))
        self.log.append(f"    {actor.name} <- {got}")
        if got != expected:
            self.differences.append(f"{actor.name}: {got}\n  expected {expected}")
        self._learn(actor, got)

    def _learn(self, actor: Actor, answer: Answer) -> None:
        if not isinstance(answer, JoinAnswer):
            return
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            actor.member_id = answer.member_id
        elif answer.error is ErrorCode.NONE:
            actor.member_id = answer.member_id
            actor.generation_id = answer.generation_id
            actor.leader = answer.leader_id == answer.member_id
            actor.known = tuple(member.member_id for member in answer.members)
            actor.protocol = answer.protocol
        elif answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            actor.member_id, actor.generation_id, actor.leader = "", -1, False

    @property
    def written(self) -> list[tuple[str, Data, Data | None]]:
        """Type, key and value of the records that the state machine has written."""
        return self._sim.written

    @property
    def group_id(self) -> str:
        return self._group_id

    def _compare_state(self) -> None:
        expected = self._expected_state()
        end = time.monotonic() + 10
        while (got := self._described_state()) != expected and time.monotonic() < end:
            time.sleep(0.01)
        self.acts[-1].state = got
        if got != expected:
            self.differences.append(f"state {got}\n  expected {expected}")

    def _described_state(self) -> tuple[DescribeAnswer, tuple[str, GroupState | None] | None]:
        found = self._describe()
        described = DescribeAnswer(
            ErrorCode(found.error_code),
            GroupState(found.group_state),
            found.protocol_type,
            found.protocol_data,
            tuple(
                DescribedMember(
                    member.member_id,
                    None,
                    member.client_id,
                    member.client_host,
                    bytes(member.member_metadata),
                    bytes(member.member_assignment),
                )
                for member in found.members
            ),
        )
        version = 0 if self.version < "2.6" else 4
        listed = self._ask(ListGroupsRequest(version=version), version)
        rows = [group for group in listed.groups if group.group_id == self._group_id]
        state = None if version == 0 or not rows else GroupState(rows[0].group_state)
        return described, (rows[0].protocol_type, state) if rows else None

    def _expected_state(self) -> tuple[DescribeAnswer, tuple[str, GroupState | None] | None]:
        self._sim.coordinator.handle(DescribeGroup(self._group_id))
        self._sim.coordinator.handle(ListGroups())
        (_, described), (_, listed) = self._sim.take()
        assert isinstance(described, DescribeAnswer)
        assert isinstance(listed, ListAnswer)
        members = tuple(replace(member, instance_id=None) for member in described.members)
        has_state = self.version >= "2.6"
        row = next(((kind, state if has_state else None) for _, kind, state in listed.groups), None)
        return replace(described, members=members), row
