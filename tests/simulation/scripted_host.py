"""What is around a simulated consumer, scripted by a test: coordinator, network and program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Clock, Timer
from kgroup.simulation.consumer.message import AnyRequest
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.message import CommittedPartition


class ScriptedHost:
    """Keeps what the client sends, and what it tells its program; answers are the test's.

    Attributes:
        client: a subclass makes it.
        broker: that the client finds as its coordinator; None: none.
        settles_ms: how long the test lets things happen after what it does.
    """

    client: Any
    settles_ms = 5

    def __init__(self, topics: TopicImage) -> None:
        self.clock = Clock()
        self.topics = topics
        self.sent: list[tuple[AnyRequest, Callable[[Any], None]]] = []
        self.told: list[tuple[str, tuple[TopicPartition, ...] | ErrorCode]] = []
        self.searches = 0
        self.lookups = 0
        """How often the client has asked which topics there are."""
        self.broker: int | None = 1
        self.failure: str | None = None
        self.retries: list[str] = []

    # what the client asks for

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        return self.clock.after(delay_ms, action)

    def send(self, broker: int, request: AnyRequest, on_answer: Callable[[Any], None]) -> None:
        assert broker == self.broker
        self.sent.append((request, on_answer))

    def find_coordinator(self, group_id: str, on_found: Callable[[int | None], None]) -> None:
        self.searches += 1
        self.clock.after(1, lambda: on_found(self.broker))

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        self.lookups += 1
        self.clock.after(1, lambda: on_known(self.topics))

    # what it tells the program

    def revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("revoked", partitions))

    def commit_failed(self, code: ErrorCode) -> None:
        self.told.append(("commit failed", code))

    def lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("lost", partitions))

    def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("assigned", partitions))

    def positions(self) -> Mapping[TopicPartition, CommittedPartition]:
        return {each: CommittedPartition(7) for each in self.client.owned}

    def failed(self, reason: str) -> None:
        self.failure = reason

    def retried(self, reason: str) -> None:
        self.retries.append(reason)

    # what the test does

    def run(self, duration_ms: int | None = None) -> None:
        self.clock.run(
            self.clock.now_ms + (self.settles_ms if duration_ms is None else duration_ms)
        )

    def poll(self) -> None:
        self.client.poll()
        self.run()
