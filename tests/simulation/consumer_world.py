"""What is around the coordinator of consumer groups in tests, and members that talk to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgroup.model.delta import Delta
from kgroup.model.group import Group, GroupState
from kgroup.simulation.classic.group import ClassicGroup, RebalanceCause
from kgroup.simulation.clock import Clock
from kgroup.simulation.consumer.coordinator import ConsumerCoordinator
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import Data
from kgroup.simulation.consumer.message import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.rules import ConsumerSettings
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


def foo(*partitions: int) -> frozenset[tuple[str, int]]:
    """Give partitions of the topic foo."""
    return frozenset((topic_id("foo"), number) for number in partitions)
