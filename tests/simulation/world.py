"""A world for a coordinator alone: requests go in, answers are kept."""

from __future__ import annotations

from typing import Any

from kgroup.model.group import GroupState
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.clock import Clock
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import AnyAnswer, AnyRequest, ConsumerGroupHeartbeat
from kgroup.simulation.coordinator_log import CoordinatorLog, Data
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.rules import NEWEST, BrokerSettings, Version
from tests.simulation.consumer_world import GROUP, image


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
    return beat(member_id, 0, owned=frozenset(), **more)
