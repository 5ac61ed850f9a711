"""The configuration of a consumer, and the interfaces to its environment.

Source: `ConsumerConfig` of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kgroup.assignor.client_facts import FACTS, ON_ERROR, ErrorBehavior
from kgroup.assignor.group_spec import CLIENTS
from kgroup.assignor.member_spec import NEWEST as NEWEST_ASSIGNORS
from kgroup.assignor.member_spec import Software
from kgroup.described_enum import DescribedEnum
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.cluster import TopicPartition
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

COOPERATIVE_STICKY = "cooperative-sticky"

POLL_MS = 100
"""Timeout that the application passes to poll(), in ms."""

_RETRY_BACKOFF_MAX_MS = 1_000
"""`retry.backoff.max.ms`."""

ELSEWHERE = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION}
)
"""Errors after which the client looks up the coordinator."""

RETRIABLE = ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors after which a commit is retried."""


class ClientState(DescribedEnum):
    """State of a consumer in its group (`AbstractCoordinator.MemberState`)."""

    UNJOINED = ("unjoined", "The consumer is in no group, or was removed from it.")
    PREPARING_REBALANCE = (
        "preparing rebalance",
        ("The consumer has sent JoinGroup and waits for the other members."),
    )
    COMPLETING_REBALANCE = (
        "completing rebalance",
        "The consumer is in a generation, has sent SyncGroup and waits for its assignment.",
    )
    STABLE = ("stable", "The consumer has its assignment.")


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Configuration of a consumer, under Kafka's names, with the defaults of kafka-clients 4.3.1.

    Attributes:
        group_id: `group.id`.
        client_id: `client.id`.
        instance_id: `group.instance.id`.
        topics: subscribed topics, without `pattern`.
        pattern: returns whether a topic matches the client-side pattern.
        group_protocol: `group.protocol`, "classic" or "consumer"; settings of the other protocol
            have no effect.
        regex: expression that the broker resolves (`SubscriptionPattern`, RE2 syntax); consumer
            protocol only.
        remote_assignor: `group.remote.assignor`; None for the broker's default.
        strategies: `partition.assignment.strategy`, by name.
        metadata_max_age_ms: `metadata.max.age.ms`; None: the member never refreshes its metadata.
        version: version of kafka-clients.
        library: another client library, whose subscriptions the consumer sends, whose assignor it
            runs as leader of a classic group, and whose reactions to errors it has; otherwise, it
            is played as Java's. None: Java's.
        reacts_as: library whose reactions to errors it has, if it is not `library`.
        leaves_if_late: whether the consumer leaves the group if its application polls too late.
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
    metadata_max_age_ms: int | None = 300_000
    retry_backoff_ms: int = 100
    version: Version = NEWEST
    library: Software | None = None
    reacts_as: str | None = None
    leaves_if_late: bool = True

    def subscribes_to(self, topic: str) -> bool:
        """Return whether the subscription includes a topic, which need not exist."""
        if self.pattern is not None:
            return self.pattern(topic)
        if self.regex is not None and parse_regex(self.regex).fullmatch(topic):
            return True
        return topic in self.topics

    def backoff_ms(self, attempts: int) -> int:
        """Return the backoff after this many failed attempts, in ms."""
        backoff_ms: int = self.retry_backoff_ms * 2**attempts
        return min(backoff_ms, _RETRY_BACKOFF_MAX_MS)

    @property
    def subscription_version(self) -> int:
        """Version of the subscription and the assignment."""
        if self.version >= GENERATION_SENT:
            return 3
        return 1 if self.version >= COOPERATIVE else 0

    @property
    def join_version(self) -> int:
        """Version of JoinGroup, where a rule depends on it."""
        if self.version >= SKIPPED_ASSIGNMENT:
            return 9
        if self.version >= STATIC_MEMBERS:
            return 5
        return 4 if self.version >= MEMBER_ID_REQUIRED else 2

    def assigns_as(self, strategy: str) -> Software:
        """Return whose assignor the consumer runs: its library's; Java's in the closest version.

        Java's stands for a strategy that the library does not have, too.
        """
        library = self.library
        if library is not None and strategy in CLIENTS[library.name].strategies[library.version]:
            return library
        version = NEWEST_ASSIGNORS if self.version >= COOPERATIVE else "1.1.1"
        return Software(KAFKA_CLIENTS, version)

    @property
    def client(self) -> str:
        """Name of the client library."""
        return self.reacts_as or (KAFKA_CLIENTS if self.library is None else self.library.name)

    @property
    def on_error(self) -> ErrorBehavior:
        """What the consumer does after errors in a classic group."""
        return ON_ERROR[self.client]

    def keeps_id(self, code: ErrorCode, request: str) -> bool:
        """Return whether the consumer joins again with its member id after an error."""
        return code is ErrorCode.ILLEGAL_GENERATION and request not in self.on_error.renewed_by

    @property
    def sent_instance_id(self) -> str | None:
        """Instance id in heartbeats and commits."""
        return self.instance_id if self.on_error.is_named else None

    @property
    def leaves(self) -> bool:
        """Whether the consumer leaves the group when it closes; most static ones stay."""
        return self.instance_id is None or FACTS[self.client].static_leaves

    @property
    def is_cooperative(self) -> bool:
        """Whether the consumer keeps its partitions while it rejoins: all strategies allow it."""
        return set(self.strategies) == {COOPERATIVE_STICKY}


@dataclass(frozen=True, slots=True)
class Joined:
    """A membership that exists when the simulation starts.

    Attributes:
        strategy: strategy of the generation.
        owned: partitions, sorted.
        topics: subscribed topics.
        group_topics: topics of all members; None unless the member is the leader.
        heartbeat_ms: time until its next heartbeat.
        revoking: partitions that it must revoke; consumer protocol only.
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
    """The application of a client."""

    @property
    def has_listener(self) -> bool:
        """Whether revocations and losses must wait for poll(), to call a listener."""
        ...

    def polled(self, *, is_active: bool) -> None:
        """Handle the return of poll(); `is_active` if assigned, with no need to rejoin."""

    def pausing(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop fetching from partitions that will be revoked soon."""

    def revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop reading partitions (`onPartitionsRevoked`)."""

    def commit_failed(self, code: ErrorCode) -> None:
        """Handle an auto-commit that was not sent because the consumer is in no group."""

    def lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop reading partitions that other members may already read (`onPartitionsLost`)."""

    def assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Start to read partitions (`onPartitionsAssigned`)."""

    def positions(self) -> Mapping[TopicPartition, CommittedPartition]:
        """Return the positions to commit."""
        ...

    def failed(self, reason: str) -> None:
        """End the application: poll() has thrown."""

    def retried(self, reason: str) -> None:
        """Record an error after which the client joins again by itself."""


class Host(Protocol):
    """The environment of a client; the client has no other access to the outside."""

    @property
    def clock(self) -> Clock:
        """The clock of the simulation."""
        ...

    @property
    def topics(self) -> TopicImage:
        """All topics of the cluster."""
        ...

    def new_uuid(self) -> str:
        """Return a new unique id."""
        ...

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Run an action after a delay, or later if the process is paused then."""
        ...

    def send(self, broker: int, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Send a request; the answer is None if the connection broke."""

    def find_coordinator(self, group_id: str, on_found: Callable[[int | None], None]) -> None:
        """Look up a group's coordinator; None if there is none."""

    def metadata(self, on_known: Callable[[TopicImage], None]) -> None:
        """Request metadata of all topics."""
