"""Requests to a coordinator and its answers, with the fields that affect the state of a group.

They follow kafka-clients 4.3.1. Fields that an older version lacks are None; the coordinator
checks the version of a request only where a rule depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState
from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode

NO_GENERATION = -1
"""Generation of a client that is not in a group."""

CONSUMER = "consumer"
"""Protocol type of consumers; coordinators decode their subscriptions."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol that a member supports (for consumers, a strategy) and its metadata."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, eq=False)
class JoinGroup:
    """Join the next generation of a group.

    Attributes:
        member_id: "" if the member has no id yet.
        instance_id: instance of a static member (version 5 and later).
        protocols: supported protocols, in order of preference.
        version: request version: from 4 on, the coordinator may return a member id first
            (MEMBER_ID_REQUIRED); from 9 on, it may tell the leader to skip the assignment.
    """

    group_id: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    version: int = 9


@dataclass(frozen=True, slots=True, eq=False)
class SyncGroup:
    """Request the member's assignment; the leader sends the assignments of all members.

    Attributes:
        assignments: assignments by member id; empty unless the leader sends it.
        protocol_type: protocol type from the JoinGroup answer; like `protocol`, required from
            version 5 on.
    """

    group_id: str
    generation_id: int
    member_id: str
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    version: int = 5

    @property
    def is_incomplete(self) -> bool:
        """Whether fields that its version requires are missing."""
        return self.version >= 5 and None in (self.protocol_type, self.protocol)


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat:
    """Keep the member's session alive."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member to remove, by member id, or by instance id with the member id ""."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LeaveGroup:
    """Leave the group, or remove other members.

    Attributes:
        members: members to remove; exactly one before version 3.
        version: request version: from 3 on, the answer has an error per member.
    """

    group_id: str
    members: tuple[LeavingMember, ...]
    version: int = 5


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """A commit for one partition.

    Attributes:
        retention_ms: retention of the offset (versions 2 to 4); None for the broker's setting.
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OffsetCommit:
    """Commit offsets; generation -1 is a client outside the group."""

    group_id: str
    offsets: Mapping[TopicPartition, CommittedPartition]
    generation_id: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    version: int = 9


@dataclass(frozen=True, slots=True, eq=False)
class OffsetFetch:
    """Request committed offsets; all partitions if `partitions` is None.

    Attributes:
        member_id: member of a consumer group (version 9 and later); None for other clients.
        member_epoch: epoch of that member.
    """

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


@dataclass(frozen=True, slots=True, eq=False)
class OffsetDelete:
    """Remove committed offsets."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DescribeGroup:
    """Request a group's state and members."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class ListGroups:
    """Request all groups."""


@dataclass(frozen=True, slots=True, eq=False)
class DeleteGroup:
    """Remove a group without members, and its offsets."""

    group_id: str


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | OffsetDelete
    | DescribeGroup
    | ListGroups
    | DeleteGroup
)


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member in the JoinGroup answer to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The member's generation.

    Attributes:
        members: for the leader only, in the coordinator's order.
        skip_assignment: the leader must not compute a new assignment (version 9 and later).
    """

    error: ErrorCode
    member_id: str = ""
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The member's assignment."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Whether the member is still in the group and its generation is current."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """The result of a LeaveGroup request.

    Attributes:
        members: each member with its error (version 3 and later).
    """

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Accepted(Mapping[TopicPartition, ErrorCode]):
    """The errors of commits that were all accepted: `NONE` for each partition."""

    offsets: Mapping[TopicPartition, CommittedPartition]

    def __getitem__(self, partition: TopicPartition) -> ErrorCode:
        if partition not in self.offsets:
            raise KeyError(partition)
        return ErrorCode.NONE

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The error of each commit."""

    errors: Mapping[TopicPartition, ErrorCode]

    @property
    def first_error(self) -> ErrorCode:
        """The first error; `NONE` if all offsets were committed."""
        if isinstance(self.errors, Accepted):
            return ErrorCode.NONE
        return next((code for code in self.errors.values() if code), ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Committed offsets; partitions without a commit are left out."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)

    def committed(self, partitions: Iterable[TopicPartition]) -> Sequence[int | None]:
        """Return the committed offset of each requested partition; None if it has none."""
        offsets = map(self.offsets.get, partitions)
        return [None if offset is None else offset.committed_offset for offset in offsets]


@dataclass(frozen=True, slots=True)
class PositionAnswer(FetchAnswer):
    """Committed offsets, of which some are positions of consumers, without metadata.

    Attributes:
        positions: committed position of each requested partition; None if it has none, so that
            its offset may be in `offsets`.
    """

    positions: Sequence[int | None] = ()

    def committed(self, partitions: Iterable[TopicPartition]) -> Sequence[int | None]:
        """Return the committed offset of each requested partition; None if it has none."""
        if not self.offsets:
            return self.positions
        others = FetchAnswer.committed(self, partitions)
        both = zip(self.positions, others, strict=True)
        return [other if position is None else position for position, other in both]


@dataclass(frozen=True, slots=True)
class OffsetDeleteAnswer:
    """The error of each removal, or one error if none was tried."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member in the answer to DescribeGroup; bytes are empty without a generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    """The answer to DescribeGroup; a group that does not exist is Dead.

    Attributes:
        protocol: "" unless the group has a generation to report.
        members: in the coordinator's order.
    """

    error: ErrorCode
    state: GroupState | None = None
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """All groups: id, protocol type ("" if the group only commits) and state."""

    error: ErrorCode
    groups: tuple[tuple[str, str, GroupState], ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAnswer:
    """Whether the group was removed."""

    error: ErrorCode


Answer: TypeAlias = (
    JoinAnswer
    | SyncAnswer
    | HeartbeatAnswer
    | LeaveAnswer
    | CommitAnswer
    | FetchAnswer
    | OffsetDeleteAnswer
    | DescribeAnswer
    | ListAnswer
    | DeleteAnswer
)
