"""What members of consumer groups (KIP-848) ask a coordinator, and what it answers.

After ConsumerGroupHeartbeat and ConsumerGroupDescribe of kafka-clients 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import Answer, Request

IdPartition: TypeAlias = tuple[str, int]
"""A partition by the id of its topic, in Kafka's base64url text."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
PAUSE_EPOCH = -2
"""Of a static member that leaves and will be back in its session."""


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerGroupHeartbeat:
    """Join, stay, or leave; None: as it was.

    Attributes:
        member_id: chosen by the member; "" of one of version 0 that has none yet.
        member_epoch: the last one it was told, or one of those above.
        topics: names that it subscribes to.
        regex: that names of topics are to match as a whole, RE2 syntax (version 1); "": none.
        assignor: that it wants the coordinator to use.
        owned: partitions that it has and has not given up; empty when it joins.
        version: a member chooses its id itself from 1 on.
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
    owned: frozenset[IdPartition] | None = None
    client_id: str = ""
    client_host: str = ""
    version: int = 1

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as a member does that joins or has missed an answer."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswer:
    """Where the member stands.

    Attributes:
        assignment: what it is to own from now on; None: as it was.
    """

    error: ErrorCode
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[IdPartition] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DescribeConsumerGroup:
    """Ask for the state and the members of a consumer group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerDescribedMember:
    """A member as everybody sees it.

    Attributes:
        assigned: what it has, also what it is still to give up.
        target: what it shall have.
        speaks_classic: whether it speaks the classic protocol.
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
    """A consumer group as everybody sees it.

    Attributes:
        assignor: that most members want, or the broker's first.
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
