"""One random sequence of requests of both protocols to one group, as in `consumer_play`.

Members speak the classic protocol or that of KIP-848, and restart with the other one, so that the
group is upgraded and downgraded, also in the middle of rebalances.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kgroup.simulation.consumer.message import ConsumerHeartbeatAnswer
from kgroup.simulation.message import (
    CommitAnswer,
    DeleteAnswer,
    DescribeAnswer,
    DescribeGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    ListAnswer,
    ListGroups,
    OffsetDeleteAnswer,
    Protocol,
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings, MigrationPolicy
from tests.broker.consumer_play import (
    BROKER_SETTINGS,
    SETTINGS,
    TOPICS,
    Act,
    Actor,
    ConsumerPlay,
    expected_state,
)
from tests.broker.offset_request import OFFSET_VERSIONS, Sender, as_version, offsets_request
from tests.broker.raw_client import RawClient, as_version_has_it, from_wire, to_wire
from tests.broker.servers import Broker, broker
from tests.record.raw import await_coordinator, create_topics
from tests.record.wire import Wire
from tests.simulation.world import MixedWorld

CLASSIC = BrokerSettings(min_session_timeout_ms=1_000, initial_rebalance_delay_ms=0, max_size=4)
MIXED_BROKER_SETTINGS = BROKER_SETTINGS | {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "4",
    "num.io.threads": "1",
    "num.network.threads": "1",
}
FAIL_OVER_SETTINGS = MIXED_BROKER_SETTINGS | {
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}
"""Members are not removed while the broker restarts."""
_LONG_SESSION_MS = 600_000
_VERSION = "4.3.1"
_OFFSETS = 0.2
"""How many of the requests are about offsets."""
_COMMITTED = {topic: TOPICS[topic] for topic in ("t1", "t2", "orders")}
_LONG_S = 60.0
_ACCEPTED_S = 0.02
"""How long a broker takes to listen to a new connection, while others may overtake it."""


def mixed_settings(policy: MigrationPolicy, *, fails_over: bool) -> ConsumerSettings:
    """Return what brokers have with the settings above."""
    session_timeout_ms = _LONG_SESSION_MS if fails_over else SETTINGS.session_timeout_ms
    return replace(SETTINGS, migration_policy=policy, session_timeout_ms=session_timeout_ms)


@dataclass
class Side:
    """What an actor has learnt that speaks the classic protocol."""

    speaks: bool
    generation_id: int = -1
    leads: bool = False
    known: tuple[str, ...] = ()
    protocol: str | None = None
    joins: bool = True
    syncs: bool = False
    owned: Mapping[str, list[int]] = field(default_factory=dict)
    clients: list[RawClient] = field(default_factory=list)

    def forget(self) -> None:
        self.generation_id, self.joins, self.syncs, self.owned = -1, True, False, {}


@dataclass
class MixedPlay(ConsumerPlay):
    """A sequence of requests of both protocols."""

    policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    fails_over: bool = False
    answered: set[tuple[type, ErrorCode]] = field(default_factory=set, init=False)
    """How requests about offsets, and such that delete the group, were answered."""

    def begin(self) -> None:
        """Connect, and draw who plays."""
        self.settings = mixed_settings(self.policy, fails_over=self.fails_over)
        self._sides: dict[str, Side] = {}
        self._sent: dict[int, tuple[Actor, RawClient, int, int, Request, int]] = {}
        self._describer = RawClient(self.address, "describer")
        super().begin()

    def close(self) -> None:
        """Close all connections: who waits is not answered any more."""
        super().close()
        for side in self._sides.values():
            for client in side.clients:
                client.close()
            side.clients.clear()
        self._describer.close()
        self._sent.clear()

    def fail_over(self) -> None:
        """Connect to the broker that has loaded the group, and let the state machine do so."""
        self.log.append("fail over")
        self.acts.append(Act(self._now_ms(), fails_over=True))
        self._mixed.fail_over(self.acts[-1].now_ms)
        self._mixed.pairs.clear()
        self._describer = RawClient(self.address, "describer")
        self._observer = self._wire("observer")
        for actor in self._actors:
            actor.wire = self._wire(actor.name)
        self._compare_state()

    def _world(self) -> MixedWorld:
        self._mixed = MixedWorld(self.settings, self._topics, CLASSIC)
        return self._mixed

    def _actor(self, number: int) -> Actor:
        actor = super()._actor(number)
        self._sides[actor.name] = Side(self._draw.random() < 0.6)
        return actor

    def _step(self, actor: Actor) -> None:
        draw, side = self._draw, self._sides[actor.name]
        is_in = actor.epoch or side.generation_id >= 0
        if draw.random() < (0.02 if is_in else 0.15):
            side.speaks = not side.speaks
            side.forget()
            actor.epoch = 0
            if draw.random() < 0.7:
                actor.member_id = ""
        if draw.random() < _OFFSETS:
            self._ask(actor, side, *self._offsets_request(actor, side))
        elif side.speaks:
            request = self._classic_request(actor, side)
            self._ask(actor, side, request, getattr(request, "version", 4))
        else:
            super()._step(actor)

    def _compare_rest(self) -> None:
        self._compare_classic({})

    def _learn(self, actor: Actor, answer: ConsumerHeartbeatAnswer) -> None:
        super()._learn(actor, answer)
        if answer.error is ErrorCode.GROUP_ID_NOT_FOUND and self._draw.random() < 0.5:
            self._sides[actor.name].speaks = True

    # --- classic requests -----------------------------------------------------------------------

    def _classic_request(self, actor: Actor, side: Side) -> Request:
        draw = self._draw
        weights = [1, 1, 6, 0.6]
        if side.joins:
            weights = [9, 0.3, 0.7, 0.2]
        elif side.syncs:
            weights = [0.5, 9, 1, 0.2]
        kind = draw.choices(["join", "sync", "heartbeat", "leave"], weights)[0]
        member_id, generation_id = actor.member_id, side.generation_id
        if draw.random() < 0.04:
            member_id = draw.choice([*(each.member_id for each in self._actors), "nobody", ""])
        if draw.random() < 0.04:
            generation_id += draw.choice([-1, 1])
        if kind == "join":
            return self._join_group(actor, side, member_id)
        if kind == "sync":
            version = draw.choice([3, 5])
            protocol_type = "consumer" if draw.random() < 0.97 else "connect"
            return SyncGroup(
                self.group_id,
                generation_id,
                member_id,
                self._assignments(side) if side.leads else {},
                actor.instance_id,
                protocol_type if version == 5 else None,
                side.protocol if version == 5 else None,
                version,
            )
        if kind == "heartbeat":
            return Heartbeat(self.group_id, generation_id, member_id, actor.instance_id)
        members = [LeavingMember(member_id, actor.instance_id)]
        if actor.instance_id is not None and draw.random() < 0.3:
            members = [LeavingMember("", actor.instance_id)]
        while draw.random() < 0.2:
            other = draw.choice(self._actors)
            members.append(LeavingMember(other.member_id, other.instance_id))
        return LeaveGroup(self.group_id, tuple(members))

    def _join_group(self, actor: Actor, side: Side, member_id: str) -> JoinGroup:
        draw = self._draw
        if draw.random() < 0.1 or actor.topics is None:
            actor.topics = tuple(draw.sample(["t1", "t2", "t3", "orders"], draw.randint(0, 3)))
        group = self.sim.coordinator.groups.get(self.group_id)
        if group is not None and not group.members:
            member_id = ""  # else the broker removes the group, and describes it still
        names = draw.choice([["range"], ["range", "roundrobin"], ["roundrobin", "range"]])
        if draw.random() < 0.02:
            names = draw.choice([[], ["other"]])
        version = draw.randint(0, 3)
        metadata = encode_subscription(
            {
                "version": version,
                "topics": sorted(actor.topics),
                "userData": None,
                "ownedPartitions": [
                    {"topic": topic, "partitions": numbers} for topic, numbers in side.owned.items()
                ],
                "generationId": side.generation_id,
                "rackId": draw.choice([None, "r1"]) if version >= 3 else None,
            }
        )
        return JoinGroup(
            self.group_id,
            member_id,
            draw.choice([3_000, 30_000] if self.waits else [30_000]) if draw.random() < 0.98 else 1,
            draw.choice([1_500, 60_000] if self.waits else [60_000]),
            "consumer" if draw.random() < 0.97 else "connect",
            tuple(Protocol(name, metadata) for name in names),
            actor.instance_id,
            actor.name,
            "/127.0.0.1",
            draw.randint(5 if actor.instance_id is not None or self._has_static else 2, 9),
        )

    def _assignments(self, side: Side) -> Mapping[str, bytes]:
        """Give each partition of two topics to somebody, or to nobody."""
        draw = self._draw
        given: dict[str, dict[str, list[int]]] = {each: {} for each in side.known}
        for topic, count in {"t2": 3, "orders": 12}.items():
            for number in range(count):
                if draw.random() < 0.95:
                    given[draw.choice(side.known)].setdefault(topic, []).append(number)
        user_data = b"x" if draw.random() < 0.03 else None
        return {
            member_id: encode_assignment(
                {
                    "version": 1,
                    "assignedPartitions": [
                        {"topic": topic, "partitions": numbers} for topic, numbers in own.items()
                    ],
                    "userData": user_data,
                }
            )
            for member_id, own in given.items()
            if draw.random() < 0.95
        }

    def _offsets_request(self, actor: Actor, side: Side) -> tuple[Request, int]:
        draw = self._draw
        member_id, generation_id = actor.member_id, actor.epoch
        if side.speaks:
            generation_id = side.generation_id
        if draw.random() < 0.06:
            member_id = draw.choice([*(each.member_id for each in self._actors), "nobody", ""])
        if draw.random() < 0.25:
            generation_id += draw.choice([-3, -2, -1, -1, -1, 1])
        sender = Sender(self.group_id, member_id, generation_id, actor.instance_id)
        request = offsets_request(draw, _VERSION, sender, _COMMITTED)
        low, high = OFFSET_VERSIONS[_VERSION][type(request)]
        version = high if draw.random() < 0.6 else draw.randint(low, high)
        return as_version(draw, request, version)

    # --- play -----------------------------------------------------------------------------------

    def _ask(self, actor: Actor, side: Side, request: Request, version: int) -> None:
        place = self._note(actor, request)
        joins = isinstance(request, JoinGroup) and not request.member_id
        before = self._ids() if joins else None
        client = next((each for each in side.clients if not each.waiting), None)
        if client is None:
            client = RawClient(self.address, actor.name)
            side.clients.append(client)
            time.sleep(_ACCEPTED_S)
        number = client.send(to_wire(request, version), version)
        self._sent[id(request)] = (actor, client, number, version, request, place)
        early: dict[int, Any] = {}
        if before is not None:
            self.sim.next_id = self._learn_id(client, before, early, id(request))
        time.sleep(0.002)
        clock = self.sim.clock
        clock.run(self._now_ms())
        self.acts.append(Act(clock.now_ms, request, version, False, self.sim.next_id))
        self._mixed.coordinator.handle(request)
        clock.run(clock.now_ms)
        self._compare_classic(early)
        for each in self._sides.values():
            for other in each.clients:
                if (unexpected := other.receive(0)) is not None:
                    self.differences.append(f"unexpected {unexpected}")
        if not self.differences:
            self._compare_state()

    def _learn_id(
        self, client: RawClient, before: frozenset[str], early: dict[int, Any], asked: int
    ) -> str:
        """Wait until the broker has answered, or a classic group has a new member."""
        end = time.monotonic() + _LONG_S
        is_consumer = self.group_id in self.sim.coordinator.groups
        while time.monotonic() < end:
            if (found := client.receive(0.005)) is not None:
                early[asked] = found[1]
                return str(found[1].member_id)
            if not is_consumer and (new := self._ids() - before):
                return next(iter(new))
        self.differences.append("no new member and no answer")
        return "none"

    def _compare_classic(self, early: dict[int, Any]) -> None:
        answers, self._mixed.pairs = self._mixed.pairs, []
        for asked, answer in answers:
            actor, client, number, version, request, place = self._sent.pop(id(asked))
            expected = plain(as_version_has_it(answer, version))
            response = early.pop(id(asked), None)
            if response is None:
                found = client.receive(_LONG_S)
                if found is None:
                    self.differences.append(f"{actor.name}: no answer; expected {expected}")
                    return
                assert found[0] == number
                response = found[1]
            got = plain(from_wire(request, response, version))
            self.acts[-1].answers.append((place, got))
            self.log.append(f"    {actor.name} <- {got}")
            if got != expected:
                self.differences.append(f"{actor.name}: {got}\n  expected {expected}")
            self._learn_classic(actor, self._sides[actor.name], got)

    def _learn_classic(self, actor: Actor, side: Side, answer: Any) -> None:
        if isinstance(answer, CommitAnswer | FetchAnswer | OffsetDeleteAnswer | DeleteAnswer):
            codes = [] if isinstance(answer, CommitAnswer) else [answer.error]
            if isinstance(answer, CommitAnswer | OffsetDeleteAnswer):
                codes += answer.errors.values()
            self.answered.update((type(answer), code) for code in codes)
            return
        if isinstance(answer, LeaveAnswer):
            if answer.error is ErrorCode.NONE:
                side.forget()
                actor.member_id = ""
            return
        if answer.error is ErrorCode.NONE:
            if isinstance(answer, JoinAnswer):
                actor.member_id, side.generation_id = answer.member_id, answer.generation_id
                side.leads = answer.leader_id == answer.member_id
                side.known = tuple(member.member_id for member in answer.members)
                side.protocol, side.joins, side.syncs = answer.protocol, False, True
            if isinstance(answer, SyncAnswer):
                side.syncs = False
                side.owned = dict(_topics(answer.assignment))
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            actor.member_id = answer.member_id
        elif answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            side.joins = True
        elif answer.error is ErrorCode.UNRELEASED_INSTANCE_ID:
            actor.instance_id = None
        else:
            side.forget()
            actor.member_id = ""
        if isinstance(answer, HeartbeatAnswer) and answer.error is ErrorCode.ILLEGAL_GENERATION:
            side.joins = True

    # --- state ----------------------------------------------------------------------------------

    def _describe(self) -> Any:
        message = DescribeGroupsRequest(
            groups=[self.group_id], include_authorized_operations=False, version=1
        )
        number = self._describer.send(message, 1)
        found = self._describer.receive(_LONG_S)
        assert found is not None
        assert found[0] == number
        return found[1].groups[0]

    def _ids(self) -> frozenset[str]:
        return frozenset(member.member_id for member in self._describe().members)

    def _described_state(self) -> Any:
        found = self._describe()
        classic = (
            found.group_state,
            found.protocol_type,
            found.protocol_data,
            [
                (
                    member.member_id,
                    member.client_id,
                    member.client_host,
                    bytes(member.member_metadata),
                    _topics(bytes(member.member_assignment)),
                )
                for member in found.members
            ],
        )
        return super()._described_state(), classic, self._listed()

    def _listed(self) -> Any:
        number = self._describer.send(ListGroupsRequest(version=5), 5)
        found = self._describer.receive(_LONG_S)
        assert found is not None
        assert found[0] == number
        rows = [group for group in found[1].groups if group.group_id == self.group_id]
        return [(row.protocol_type, row.group_state) for row in rows]

    def _expected_state(self) -> Any:
        return expected_mixed_state(self._mixed, self.group_id)


def expected_mixed_state(sim: MixedWorld, group_id: str) -> Any:
    """Return a simulated group as `_described_state` tells of the broker's."""
    sim.coordinator.handle(DescribeGroup(group_id))
    sim.coordinator.handle(ListGroups())
    (_, answer), (_, listed) = sim.pairs[-2:]
    del sim.pairs[-2:]
    assert isinstance(answer, DescribeAnswer)
    assert isinstance(listed, ListAnswer)
    classic = (
        str(answer.state),
        answer.protocol_type,
        answer.protocol,
        [
            (
                member.member_id,
                member.client_id,
                member.client_host,
                member.metadata,
                _topics(member.assignment),
            )
            for member in answer.members
        ],
    )
    rows = [(kind, str(state)) for name, kind, state in listed.groups if name == group_id]
    return expected_state(sim, group_id), classic, rows


def _topics(assignment: bytes) -> Any:
    """Read an assignment, whatever the order of its topics and partitions."""
    decoded = decode_assignment(assignment)
    return sorted(
        (each["topic"], sorted(each["partitions"]))
        for each in decoded.get("assignedPartitions", ())
    )


def plain(answer: Any) -> Any:
    """Put an assignment in order."""
    if not isinstance(answer, SyncAnswer) or not answer.assignment:
        return answer
    decoded = decode_assignment(answer.assignment)
    topics = [
        {"topic": name, "partitions": numbers} for name, numbers in _topics(answer.assignment)
    ]
    return replace(answer, assignment=encode_assignment({**decoded, "assignedPartitions": topics}))


@contextmanager
def policy_broker(
    policy: MigrationPolicy, work: Path, settings: Mapping[str, str] = MIXED_BROKER_SETTINGS
) -> Iterator[Broker]:
    config = {**settings, "group.consumer.migration.policy": policy.value}
    with broker("4.3.1", work, config=config) as running:
        with Wire(running.version, running.bootstrap) as wire:
            create_topics(wire, TOPICS)
            await_coordinator(wire)
        yield running


def fail_over_plays(server: Broker, seeds: Iterable[int]) -> list[MixedPlay]:
    """Play sequences to a broker that restarts when all of them are half done."""
    plays = [MixedPlay(server.bootstrap, seed, fails_over=True) for seed in seeds]
    for play in plays:
        play.begin()
    for play in plays:
        play.go_on()
        play.close()
    server.restart()
    with Wire(server.version, server.bootstrap) as wire:
        await_coordinator(wire)
    for play in plays:
        if not play.differences:
            play.fail_over()
            play.go_on()
            play.close()
    return plays
