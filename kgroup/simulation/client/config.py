"""How a consumer is configured, and what is around it.

Source: `ConsumerConfig` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kgroup.assignor.base import TopicPartition
from kgroup.assignor.member_spec import NEWEST as NEWEST_ASSIGNORS
from kgroup.model.pattern import parse_regex
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.clock import Clock, Timer
from kgroup.simulation.consumer.message import AnyRequest as Request
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.message import CommittedPartition
from kgroup.simulation.rules import (
    COOPERATIVE,
    GENERATION_SENT,
    MEMBER_ID_REQUIRED,
    NEWEST,
    SKIPPED_ASSIGNMENT,
    STATIC_MEMBERS,
    Version,
)
from kgroup.word import Word

COOPERATIVE_STICKY = "cooperative-sticky"

POLL_MS = 100
"""How long the program lets poll() wait (its argument)."""

_RETRY_BACKOFF_MAX_MS = 1_000
"""`retry.backoff.max.ms`."""

ELSEWHERE = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION}
)
"""Errors after which the coordinator is looked for."""

RETRIABLE = ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors of a commit that is worth another try."""


class ClientState(Word):
    """Where a consumer stands in its group (`AbstractCoordinator.MemberState`)."""

    UNJOINED = ("unjoined", "The consumer is in no group, or was removed from it.")
    PREPARING_REBALANCE = ("preparing rebalance", "It has sent JoinGroup and waits for the others.")
    COMPLETING_REBALANCE = (
        "completing rebalance",
        "It is in a generation, has sent SyncGroup and waits for its assignment.",
    )
    STABLE = ("stable", "It has its assignment.")


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """How a consumer is configured, by Kafka's names; defaults are those of kafka-clients 4.3.1.

    Attributes:
        group_id: `group.id`.
        client_id: `client.id`.
        instance_id: `group.instance.id`.
        topics: that it subscribes to, where it has no pattern.
        pattern: tells whether it subscribes to a topic.
        group_protocol: `group.protocol`, "classic" or "consumer"; settings of the other have no
            effect.
        regex: that the broker compares names with (`SubscriptionPattern`, RE2 syntax); of the
            consumer protocol only.
        remote_assignor: `group.remote.assignor`; None: as the broker likes.
        strategies: `partition.assignment.strategy`, by name.
        version: of kafka-clients.
    """

    group_id: str
    client_id: str
    topics: tuple[str, ...] = ()
    pattern: Callable[[str], bool] | None = None
    instance_id: str | None = None
    rack: str | None = None
    group_protocol: str = "classic"
    regex: str | None = None
    remote_assignor: str | None = None
    strategies: tuple[str, ...] = ("range", COOPERATIVE_STICKY)
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    version: Version = NEWEST

    def subscribes_to(self, topic: str) -> bool:
        """Return whether it wants to read a topic, as soon as there is one."""
        if self.pattern is not None:
            return self.pattern(topic)
        if self.regex is not None and parse_regex(self.regex).fullmatch(topic):
            return True
        return topic in self.topics

    def backoff_ms(self, attempts: int) -> int:
        """Return how long it waits before it tries again what has failed so many times before."""
        backoff_ms: int = self.retry_backoff_ms * 2**attempts
        return min(backoff_ms, _RETRY_BACKOFF_MAX_MS)

    @property
    def subscription_version(self) -> int:
        """Version of the messages to and from the leader."""
        if self.version >= GENERATION_SENT:
            return 3
        return 1 if self.version >= COOPERATIVE else 0

    @property
    def join_version(self) -> int:
        """Version of JoinGroup, as far as a rule depends on it."""
        if self.version >= SKIPPED_ASSIGNMENT:
            return 9
        if self.version >= STATIC_MEMBERS:
            return 5
        return 4 if self.version >= MEMBER_ID_REQUIRED else 2

    @property
    def assigns_as(self) -> str:
        """The version whose assignors come nearest; 1.1.1 and 4.3.1 are imitated."""
        return NEWEST_ASSIGNORS if self.version >= COOPERATIVE else "1.1.1"

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions while it joins: if all its strategies allow that."""
        return set(self.strategies) == {COOPERATIVE_STICKY}


@dataclass(frozen=True, slots=True)
class Joined:
    """Where a consumer stands that is in a generation already.

    Attributes:
        strategy: that the members agreed on.
        owned: partitions, sorted.
        topics: that it has subscribed to.
        group_topics: that all members have subscribed to, of the leader; None of others.
        heartbeat_ms: until its next heartbeat.
        revoking: what it was told to give up; of the consumer protocol only.
    """

    member_id: str
    generation_id: int
    strategy: str
    owned: tuple[TopicPartition, ...]
    topics: tuple[str, ...]
    group_topics: frozenset[str] | None
    heartbeat_ms: int
    revoking: frozenset[TopicPartition] = frozenset()


class Application(Protocol):
    """Whom a client serves."""

    @property
    def has_listener(self) -> bool:
        """Whether it wants to be asked in poll() before partitions are revoked or lost."""
        ...

    def polled(self, *, is_active: bool) -> None:
        """Go on: poll() returns; active: the consumer has its part, and need not join now."""

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Take no more records of partitions, which are to be given up soon."""

    def revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop to read partitions (`onPartitionsRevoked`)."""

    def commit_failed(self, code: ErrorCode) -> None:
        """Note that an automatic commit failed without being sent: the consumer is in no group."""

    def lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop to read partitions that others may read already (`onPartitionsLost`)."""

    def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Begin to read partitions (`onPartitionsAssigned`)."""

    def positions(self) -> Mapping[TopicPartition, CommittedPartition]:
        """Return what is to be committed."""
        ...

    def failed(self, reason: str) -> None:
        """End: poll() has thrown."""


class Host(Protocol):
    """What is around a client: it does nothing that is not asked of this."""

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def topics(self) -> TopicImage:
        """All topics."""
        ...

    def new_uuid(self) -> str:
        """Make an id that nobody has."""
        ...

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Do something later, if the process can then."""
        ...

    def send(self, broker: int, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Send a request; the answer is None where the connection broke."""

    def find_coordinator(self, group_id: str, on_found: Callable[[int | None], None]) -> None:
        """Ask for a group's coordinator; None: there is none."""

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        """Ask for all topics."""
