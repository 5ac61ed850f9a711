"""Describe groups: state, members, who owns what, what is committed and how far behind it is."""

from dataclasses import dataclass

from kgroup.model.group import Broker, GroupState, GroupType, Member, Topology
from kgroup.model.offset import PendingOffset, ShareOffset

__all__ = ["GroupDescription", "OffsetDescription"]


@dataclass(frozen=True, slots=True)
class OffsetDescription:
    """One partition that a group has committed or that a member owns.

    Attributes:
        topic: name of the user's topic; None where only its id is known (a partition that is owned
            and not committed).
        partition: its partition.
        committed_offset: offset of the next record to read; None: owned, nothing committed.
        leader_epoch: epoch of the last record read.
        metadata: text that the client stored with the offset.
        commit_timestamp_ms: when the coordinator took the commit.
        expire_timestamp_ms: only where the commit carried an explicit retention.
        log_end_offset: offset that the next record written to the partition gets.
        lag: `log_end_offset` minus `committed_offset`; negative where the commit lies past the end.
        member_id: the member that owns the partition, None where nobody does.
        topic_id: of the assignment, or else of the commit.
    """

    topic: str | None
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp_ms: int | None
    expire_timestamp_ms: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group; attributes as in `kgroup.model.group.Group`, in the order of the JSON output.

    Attributes:
        offsets: commits and owned partitions, sorted by topic and partition.
        total_lag: sum of the known lags; None where none is known.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    protocol_type: str | None
    assignor: str | None
    generation_id: int | None
    group_epoch: int | None
    assignment_epoch: int | None
    leader_id: str | None
    coordinator: Broker | None
    offsets_partition: int | None
    state_timestamp_ms: int | None
    members: tuple[Member, ...]
    offsets: tuple[OffsetDescription, ...]
    pending_offsets: tuple[PendingOffset, ...]
    total_lag: int | None
    topology: Topology | None
    share_offsets: tuple[ShareOffset, ...] | None
