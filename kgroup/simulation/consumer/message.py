"""Requests of members of consumer groups (KIP-848), and the coordinator's answers.

They follow ConsumerGroupHeartbeat and ConsumerGroupDescribe of kafka-clients 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import Answer, Request

IdPartition: TypeAlias = tuple[str, int]
"""A partition by topic id (base64url)."""

NumbersByTopic: TypeAlias = Mapping[str, frozenset[int]]
"""Numbers of partitions by topic id (or name); every topic has one.

A group may have a hundred thousand partitions, which take a fraction of the time of pairs.
"""

_NO_NUMBERS = frozenset[int]()


def numbers_of(partitions: Mapping[str, Iterable[int]]) -> NumbersByTopic:
    """Return partitions by topic, without their order and epochs."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}


def common(some: NumbersByTopic, others: NumbersByTopic) -> NumbersByTopic:
    """Return the partitions that are among the others."""
    both = ((topic, numbers & others.get(topic, _NO_NUMBERS)) for topic, numbers in some.items())
    return {topic: numbers for topic, numbers in both if numbers}


def without(some: NumbersByTopic, others: NumbersByTopic) -> NumbersByTopic:
    """Return the partitions that are not among the others."""
    rest = ((topic, numbers - others.get(topic, _NO_NUMBERS)) for topic, numbers in some.items())
    return {topic: numbers for topic, numbers in rest if numbers}


JOIN_EPOCH = 0
LEAVE_EPOCH = -1
PAUSE_EPOCH = -2
"""Epoch of a static member that leaves and will return within its session timeout."""


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerGroupHeartbeat:
    """Join, stay in, or leave a group; None means unchanged.

    Attributes:
        member_id: chosen by the member; in version 0, "" before the coordinator chose one.
        member_epoch: epoch from the last answer, or one of the constants above.
        topics: names of subscribed topics.
        regex: RE2 expression that must match whole topic names (version 1); "" if none.
        assignor: assignor that the member prefers.
        owned: partitions that the member owns and has not revoked; empty when it joins.
        version: request version: from 1 on, the member chooses its id.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: NumbersByTopic | None = None
    client_id: str = ""
    client_host: str = ""
    version: int = 1

    @property
    def is_full(self) -> bool:
        """Whether all fields are present, as when a member joins or has missed an answer."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswer:
    """The member's epoch and assignment.

    Attributes:
        assignment: partitions that it owns from now on; None if unchanged.
    """

    error: ErrorCode
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: NumbersByTopic | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DescribeConsumerGroup:
    """Request the state and members of a consumer group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerDescribedMember:
    """A member in the answer to ConsumerGroupDescribe.

    Attributes:
        assigned: its partitions, including those that it must revoke.
        target: its target assignment.
        speaks_classic: the member uses the classic protocol.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: frozenset[str]
    regex: str
    assigned: frozenset[IdPartition]
    target: frozenset[IdPartition]
    speaks_classic: bool


@dataclass(frozen=True, slots=True)
class ConsumerDescribeAnswer:
    """The answer to ConsumerGroupDescribe.

    Attributes:
        assignor: the assignor that most members prefer, or the broker's default.
        members: in the coordinator's order.
    """

    error: ErrorCode
    state: GroupState | None = None
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerDescribedMember, ...] = ()


AnyRequest: TypeAlias = Request | ConsumerGroupHeartbeat | DescribeConsumerGroup
AnyAnswer: TypeAlias = Answer | ConsumerHeartbeatAnswer | ConsumerDescribeAnswer
