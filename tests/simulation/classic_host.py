"""What is around a classic consumer, scripted by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.assignor.base import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientConfig, ClientState, Joined
from kgroup.simulation.client.membership import ClassicClient
from kgroup.simulation.clock import Clock, Timer
from kgroup.simulation.consumer.message import AnyRequest
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.message import (
    CommitAnswer,
    CommittedPartition,
    JoinAnswer,
    JoinGroup,
    SyncAnswer,
)
from kgroup.simulation.subscription import encode_assignment

__all__ = ["CONFIG", "ClassicHost", "orders"]

CONFIG = ClientConfig("g", "c", ("orders",), strategies=("range",))


class ClassicHost:
    """The test, in the place of coordinator, network and program."""

    def __init__(self, config: ClientConfig = CONFIG) -> None:
        self.clock = Clock()
        self.topics = TopicImage([KnownTopic("orders", "A" * 21 + "Q", 6)])
        self.has_listener = False
        self.sent: list[tuple[AnyRequest, Callable[[Any], None]]] = []
        self.told: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.polls: list[bool] = []
        """Of each poll() that has returned, whether the consumer had its part."""
        self.searches = 0
        self.broker: int | None = 1
        self.failure: str | None = None
        self.consumed: Mapping[TopicPartition, CommittedPartition] | None = None
        self.client = ClassicClient(config, self, self)

    # what the client asks for

    def new_uuid(self) -> str:
        raise NotImplementedError

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        return self.clock.after(delay_ms, action)

    def send(self, broker: int, request: AnyRequest, on_answer: Callable[[Any], None]) -> None:
        assert broker == self.broker
        self.sent.append((request, on_answer))

    def find_coordinator(self, group_id: str, on_found: Callable[[int | None], None]) -> None:
        self.searches += 1
        self.clock.after(1, lambda: on_found(self.broker))

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        self.clock.after(1, lambda: on_known(self.topics))

    # what it tells the program

    def polled(self, *, is_active: bool) -> None:
        self.polls.append(is_active)

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        raise NotImplementedError

    def revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("revoked", partitions))

    def lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("lost", partitions))

    def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append(("assigned", partitions))

    def positions(self) -> Mapping[TopicPartition, CommittedPartition]:
        return {each: CommittedPartition(7) for each in self.client.owned}

    def failed(self, reason: str) -> None:
        self.failure = reason

    # what the test does

    def run(self, duration_ms: int = 5) -> None:
        self.clock.run(self.clock.now_ms + duration_ms)

    def poll(self) -> None:
        self.client.poll()
        self.run()

    def state(self) -> ClientState:
        """Tell where it stands."""
        return self.client.state

    @property
    def waiting(self) -> list[str]:
        """Names of the requests that wait for an answer."""
        return [type(request).__name__ for request, _ in self.sent]

    def take(self, name: str) -> tuple[Any, Callable[[Any], None]]:
        """Take a request that waits for an answer: the first of its name."""
        found = next(each for each in self.sent if type(each[0]).__name__ == name)
        self.sent.remove(found)
        return found

    def answer(self, name: str, answer: object) -> Any:
        """Answer a request; return it."""
        request, on_answer = self.take(name)
        on_answer(answer)
        self.run()
        return request

    def join(self, generation_id: int = 1, member_id: str = "m") -> JoinGroup:
        """Let it join, as one that follows."""
        answer = JoinAnswer(
            ErrorCode.NONE, member_id, generation_id, "consumer", "range", leader_id="other"
        )
        request: JoinGroup = self.answer("JoinGroup", answer)
        return request

    def sync(self, *partitions: TopicPartition) -> None:
        """Give it its assignment."""
        self.answer("SyncGroup", SyncAnswer(ErrorCode.NONE, encode_assignment(partitions, 3)))

    def commit(self, code: ErrorCode) -> None:
        """Answer a commit."""
        request, on_answer = self.take("OffsetCommit")
        on_answer(CommitAnswer(dict.fromkeys(request.offsets, code)))
        self.run()

    def stable(self, *partitions: TopicPartition, generation_id: int = 1) -> ClassicHost:
        """Put it into a generation, in which it owns partitions and has read from them."""
        joined = Joined(
            "m",
            generation_id,
            self.client.config.strategies[0],
            partitions,
            ("orders",),
            None,
            1000,
        )
        self.client.resume(joined, 1)
        self.poll()
        self.told.clear()
        return self


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(("orders", number) for number in numbers)
