"""What is around a coordinator of both protocols in tests."""

from __future__ import annotations

from typing import Any

from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import encode_subscription
from kgroup.simulation.classic.group import ClassicGroup
from kgroup.simulation.consumer.message import ConsumerGroupHeartbeat
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.group_coordinator import MixedCoordinator
from kgroup.simulation.message import (
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    Protocol,
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, ConsumerSettings
from tests.simulation.consumer_world import GROUP, ConsumerWorld


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

    def new_member_id(self, prefix: str) -> str:
        return self.next_id

    def fail_over(self, now_ms: int) -> None:
        """Have another coordinator go on from all the records, after a while without any."""
        topics = self.coordinator.topics
        self.coordinator.on_unloaded()
        self.clock.run(now_ms)
        self.coordinator = MixedCoordinator(*self._settings, self, topics)
        for record in self.records:
            self.coordinator.replay(record)
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
