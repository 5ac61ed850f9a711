"""What clients ask a coordinator, and what it answers: the fields on which group state depends.

After the messages of kafka-clients 4.3.1. Older versions lack fields, which are None then, and the
coordinator looks at the version of a request only where a rule does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kgroup.model.group import GroupState
from kgroup.model.offset import CommittedOffset
from kgroup.protocol.error_code import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]

NO_GENERATION = -1
"""Of members that are in none."""

CONSUMER = "consumer"
"""Protocol type of consumers, whose subscriptions coordinators read."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol that a member supports (a strategy, of consumers), and what it says with it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, eq=False)
class JoinGroup:
    """Ask to be in the next generation.

    Attributes:
        member_id: "" of a member that has none yet.
        instance_id: of a static member (version 5 and later).
        protocols: in order of preference.
        version: of the request: 4 and later let a member be given an id first, 9 and later let a
            leader leave the assignment as it is.
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
    """Ask for one's assignment; of the leader: bring the assignments of all.

    Attributes:
        assignments: by member id.
        protocol_type: with `protocol` what the member has learnt; both are there from version 5 on.
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
        """Whether it lacks what its version must say."""
        return self.version >= 5 and None in (self.protocol_type, self.protocol)


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat:
    """Say that one is alive."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """Who leaves: by its id, or by its instance with the id ""."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LeaveGroup:
    """Leave, or have others leave.

    Attributes:
        members: one before version 3.
        version: its answer has an error for each member from 3 on, and before only one.
    """

    group_id: str
    members: tuple[LeavingMember, ...]
    version: int = 5


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """What is committed for a partition.

    Attributes:
        retention_ms: how long it is kept (requests of version 2 to 4), None: as the broker says.
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OffsetCommit:
    """Commit offsets; without generation (-1) as somebody who is in no group."""

    group_id: str
    offsets: Mapping[TopicPartition, CommittedPartition]
    generation_id: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    version: int = 9


@dataclass(frozen=True, slots=True, eq=False)
class OffsetFetch:
    """Ask for committed offsets; partitions None: of all.

    Attributes:
        member_id: of a member of a consumer group (version 9 and later); None: of nobody.
        member_epoch: likewise.
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
    """Ask for a group's state and members."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class ListGroups:
    """Ask which groups there are."""


@dataclass(frozen=True, slots=True, eq=False)
class DeleteGroup:
    """Remove a group that has no members, and its offsets."""

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
    """A member as its leader learns of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The generation that one is in.

    Attributes:
        members: of the leader only, in the coordinator's order.
        skip_assignment: the leader shall leave the assignment as it is (version 9 and later).
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
    """What one is to do."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Whether one is still in the group."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """Whether one has left, and each of several.

    Attributes:
        members: member, instance and error of each (version 3 and later).
    """

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """How each commit ended."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """What is committed; partitions without a commit are left out."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetDeleteAnswer:
    """How each removal ended, or that none was tried."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as everybody sees it; bytes are empty while there is no generation to show."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    """A group as everybody sees it; one that is not there is Dead.

    Attributes:
        protocol: "" while there is no generation to show.
        members: in the coordinator's order.
    """

    error: ErrorCode
    state: GroupState | None = None
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """Groups with protocol type ("" of one that only commits) and state."""

    error: ErrorCode
    groups: tuple[tuple[str, str, GroupState], ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAnswer:
    """Whether the group is gone."""

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
