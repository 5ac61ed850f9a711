"""What is around a classic consumer, scripted by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.client.config import ClientState, ConsumerConfig, Joined
from kgroup.simulation.client.membership import ClassicClient
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.message import (
    CommitAnswer,
    CommittedPartition,
    JoinAnswer,
    JoinGroup,
    SyncAnswer,
)
from kgroup.simulation.subscription import encode_assignment
from tests.simulation.scripted_host import ScriptedHost

CONFIG = ConsumerConfig("g", "c", ("orders",), strategies=("range",))


class ClassicHost(ScriptedHost):
    """What is around a consumer of the classic protocol."""

    client: ClassicClient

    def __init__(self, config: ConsumerConfig = CONFIG) -> None:
        super().__init__(TopicImage([KnownTopic("orders", "A" * 21 + "Q", 6)]))
        self.has_listener = False
        self.polls: list[bool] = []
        """Of each poll() that has returned, whether the consumer had its part."""
        self.consumed: Mapping[TopicPartition, CommittedPartition] | None = None
        self.client = ClassicClient(config, self, self)

    def new_uuid(self) -> str:
        raise NotImplementedError

    def polled(self, *, is_active: bool) -> None:
        self.polls.append(is_active)

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        raise NotImplementedError

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
