"""What is around the coordinator of consumer groups in tests, and members that talk to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgroup.model.delta import Delta
from kgroup.model.group import Group, GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import encode_subscription
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.clock import Clock
from kgroup.simulation.consumer.coordinator import ConsumerCoordinator
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import (
    AnyAnswer,
    AnyRequest,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    NumbersByTopic,
)
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.coordinator_log import CoordinatorLog, Data
from kgroup.simulation.group_coordinator import GroupCoordinatorShard, MixedCoordinator
from kgroup.simulation.message import (
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    Protocol,
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.position_commit import PositionCommits
from kgroup.simulation.rules import NEWEST, BrokerSettings, ConsumerSettings, Version
from tests.model.records import record

GROUP = "g"


def topic_id(name: str) -> str:
    """Return the id of a topic of the tests: its name, as long as an id is."""
    return f"{name:_<21}A"


def image(topics: Mapping[str, int]) -> TopicImage:
    """Make topics with as many partitions each."""
    return TopicImage(KnownTopic(name, topic_id(name), count) for name, count in topics.items())


class ConsumerWorld:
    """Answers and records are kept.

    Attributes:
        next_id: the id that is given to who has none.
        causes: why the group's epoch has risen, or a rebalance of it began.
        removals: who was removed, and why.
    """

    def __init__(
        self, settings: ConsumerSettings | None = None, topics: TopicImage | None = None
    ) -> None:
        self.clock = Clock()
        self.answers: list[ConsumerHeartbeatAnswer] = []
        self.records: list[GroupRecord] = []
        self.next_id = ""
        self.causes: list[RebalanceCause] = []
        self.removals: list[tuple[str, RebalanceCause]] = []
        settings = settings or ConsumerSettings(assignment_interval_ms=0)
        self.coordinator = ConsumerCoordinator(settings, self, topics)

    def answer(self, request: ConsumerGroupHeartbeat, answer: ConsumerHeartbeatAnswer) -> None:
        self.answers.append(answer)

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        self.records.append(GroupRecord(type_, key, value))

    def new_uuid(self) -> str:
        return self.next_id

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: RebalanceCause | None) -> None:
        if cause is not None:
            self.causes.append(cause)

    def removed(
        self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: RebalanceCause
    ) -> None:
        self.removals.append((member_id, cause))

    @property
    def group(self) -> ConsumerGroup:
        return self.coordinator.groups[GROUP]

    def state(self) -> GroupState:
        """Where the group stands now."""
        return self.group.state

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatAnswer:
        """Send a heartbeat; partitions that are owned are of the topic foo."""
        if "owned" in fields:
            fields["owned"] = foo(*fields["owned"])
        return self.send(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)

    def send(self, **fields: Any) -> ConsumerHeartbeatAnswer:
        """Send a heartbeat with these fields."""
        self.coordinator.heartbeat(ConsumerGroupHeartbeat(**fields))
        return self.answers.pop()

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatAnswer:
        """Join, by default for the topic foo."""
        fields = {"rebalance_timeout_ms": 60_000, "topics": topics or ("foo",), **fields}
        return self.beat(member_id, 0, owned=(), **fields)

    def replayed(self) -> Group:
        """Replay the records as any reader of the log does."""
        delta = Delta()
        for type_, key, value in self.records:
            delta.replay(record(type_, key, value))
        assert delta.problems() == ()
        return delta.groups()[GROUP]


def foo(*partitions: int) -> NumbersByTopic:
    """Give partitions of the topic foo."""
    return {topic_id("foo"): frozenset(partitions)} if partitions else {}


# ---- what is around a coordinator of both protocols in tests


class MixedWorld(ConsumerWorld):
    """A world for members of both protocols.

    Attributes:
        pairs: requests of the classic protocol that were answered, and the answers.
    """

    coordinator: MixedCoordinator

    def __init__(
        self, settings: ConsumerSettings, topics: TopicImage, classic: BrokerSettings
    ) -> None:
        super().__init__(settings, topics)
        self._settings = classic, settings
        self.coordinator = MixedCoordinator(classic, settings, self, topics)
        self.pairs: list[tuple[Any, Any]] = []

    def answer(self, request: Any, answer: Any) -> None:
        if isinstance(request, ConsumerGroupHeartbeat):
            super().answer(request, answer)
        else:
            self.pairs.append((request, answer))

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        raise NotImplementedError("requests of these tests commit offsets")

    def new_member_id(self, prefix: str) -> str:
        return self.next_id

    def fail_over(self, now_ms: int) -> None:
        """Have another coordinator go on from all the records, after a while without any."""
        topics = self.coordinator.topics
        self.coordinator.on_unloaded()
        self.clock.run(now_ms)
        self.coordinator = MixedCoordinator(*self._settings, self, topics)
        for written in self.records:
            self.coordinator.replay(written)
        self.coordinator.on_loaded()

    @property
    def classic(self) -> ClassicGroup:
        return self.coordinator.classic.groups[GROUP]

    def ask(self, request: Request) -> Any:
        """Send a request; return its answer, None where it has to wait."""
        self.coordinator.handle(request)
        self.clock.run(self.clock.now_ms)
        answers = [answer for asked, answer in self.pairs if asked is request]
        return answers[0] if answers else None

    def join_classic(self, member_id: str, *, new: str = "", **more: Any) -> Any:
        self.next_id = new
        return self.ask(join_group(member_id, **more))

    def sync(self, member_id: str, epoch: int, **more: Any) -> SyncAnswer:
        answer = self.ask(SyncGroup(GROUP, epoch, member_id, version=3, **more))
        assert isinstance(answer, SyncAnswer)
        return answer

    def beat_classic(self, member_id: str, epoch: int) -> ErrorCode:
        answer = self.ask(Heartbeat(GROUP, epoch, member_id))
        assert isinstance(answer, HeartbeatAnswer)
        return answer.error


def join_group(
    member_id: str,
    *,
    owned: tuple[int, ...] = (),
    instance_id: str | None = None,
    protocol_type: str = "consumer",
    names: tuple[str, ...] = ("range",),
    session_timeout_ms: int = 30_000,
) -> JoinGroup:
    """Join for the topic foo."""
    metadata = encode_subscription(
        {
            "version": 1,
            "topics": ["foo"],
            "userData": None,
            "ownedPartitions": [{"topic": "foo", "partitions": list(owned)}] if owned else [],
        }
    )
    return JoinGroup(
        GROUP,
        member_id,
        session_timeout_ms,
        60_000,
        protocol_type,
        tuple(Protocol(name, metadata) for name in names),
        instance_id,
    )


# ---- A world for a coordinator alone: requests go in, answers are kept


class Sim:
    """The world of the state machine: answers are kept, ids are those of the broker."""

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.log = CoordinatorLog()
        self.written: list[tuple[str, Data, Data | None]] = []
        self.answers: list[tuple[Any, Any]] = []
        self.moves: list[tuple[GroupState, RebalanceCause | None]] = []
        self.removals: list[tuple[str, RebalanceCause]] = []
        self.next_id: str | None = None
        self.coordinator = GroupCoordinatorShard(settings, self)
        self.coordinator.elect(self.log, 0)
        self.clock.run(0)

    def answer(self, request: AnyRequest, answer: AnyAnswer) -> None:
        self.answers.append((request, answer))

    def append(self, type_: str, key: Data, value: Data | None) -> None:
        self.log.append(type_, key, value, self.clock.now_ms)
        self.written.append((type_, key, value))

    def append_positions(self, commits: PositionCommits, count: int) -> int:
        return self.log.append_positions(commits, count)

    def new_member_id(self, prefix: str) -> str:
        assert self.next_id is not None
        return self.next_id

    def new_uuid(self) -> str:
        return self.new_member_id("")

    def moved(self, group: ClassicGroup | ConsumerGroup, cause: RebalanceCause | None) -> None:
        self.moves.append((group.state, cause))

    def removed(
        self, group: ClassicGroup | ConsumerGroup, member_id: str, cause: RebalanceCause
    ) -> None:
        self.removals.append((member_id, cause))

    def take(self) -> list[tuple[Any, Any]]:
        taken, self.answers = self.answers, []
        return taken

    def ask(self, request: AnyRequest) -> Any:
        """Send a request; return its answer, which comes at once."""
        self.coordinator.handle(request)
        ((asked, answer),) = self.take()
        assert asked is request
        return answer


def sim(version: Version = NEWEST) -> Sim:
    """Make a coordinator that knows the topic foo; the next member is C."""
    made = Sim(BrokerSettings(version, initial_rebalance_delay_ms=0))
    made.coordinator.update_topics(image({"foo": 6}))
    made.next_id = "C"
    return made


def beat(member_id: str, epoch: int, **more: Any) -> ConsumerGroupHeartbeat:
    """Make a heartbeat of a member of the consumer protocol."""
    return ConsumerGroupHeartbeat(GROUP, member_id, epoch, **more)


def join(member_id: str, **more: Any) -> ConsumerGroupHeartbeat:
    """Join for the topic foo."""
    more = {"rebalance_timeout_ms": 60_000, "topics": ("foo",), **more}
    return beat(member_id, 0, owned={}, **more)
