"""Groups as they are described: with the partitions that they read, and how far behind they are."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.model.group import Broker, GroupState, GroupType, Member, Membership, Topology
from kgroup.model.log_range import OffsetMark
from kgroup.model.offset import CommitStore, PendingOffset


@dataclass(frozen=True, slots=True)
class OffsetDescription:
    """One partition that a group has committed, that a member owns, or that nobody owns but should.

    More attributes are as in `CommittedOffset`, and None where nothing is committed.

    Attributes:
        topic: name of the user's topic; None where only its id is known (a partition that is owned
            and not committed).
        log_end_offset: offset that the next record written to the partition gets; for readers of
            committed records that of the first one in an open transaction.
        lag: `log_end_offset` minus `committed_offset`, as Kafka's tools compute it; negative where
            the commit lies past the end of the log.
        member_id: the member that owns the partition, None where nobody does.
        topic_id: of the assignment, or else of the commit.
        owned_since_epoch: epoch in which that member got the partition, or the task that reads it
            (consumer and streams groups of Kafka 4.3 and later).
        log_start_offset: offset of the first record that the partition still has.
        mark: what is wrong with the partition or the commit; None where nothing is known to be.
        next_timestamp_ms: time of the next record to read; None where that was not asked, there
            is none, or it has no time.
        time_lag_ms: how long ago that was; 0 where nothing is left to read.
        owner_thread: ZooKeeper consumers: number of the owner's stream that reads the partition.
        owned_since_ms: ZooKeeper consumers: when the owner took it.
        committed_in: ZooKeeper consumers: where the commit was found; see `with_kafka_commits`.
        waiting: how many records wait at most: offsets from `committed_offset`, or from
            `log_start_offset` where that is later, to `log_end_offset`; 0 where somebody looked and
            there was none (`with_time_lags`, `with_records_seen`).
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
    owned_since_epoch: int | None
    log_start_offset: int | None
    mark: OffsetMark | None
    next_timestamp_ms: int | None = None
    time_lag_ms: int | None = None
    owner_thread: int | None = None
    owned_since_ms: int | None = None
    committed_in: CommitStore | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class ShareOffsetDescription:
    """One partition that a share group works on; more attributes as in `ShareOffset`.

    Attributes:
        log_end_offset: offset that the next record written to the partition gets.
        lag: records that the group has not finished: `log_end_offset` minus `start_offset` minus
            `delivery_complete_count`, as Kafka's DescribeShareGroupOffsets has it (KIP-1226); None
            before Kafka 4.2, which kept no count.
        next_timestamp_ms: time of the first record that is not finished; as in
            `OffsetDescription`.
        time_lag_ms: likewise.
    """

    topic: str | None
    partition: int | None
    state: str | None
    start_offset: int | None
    delivery_complete_count: int | None
    log_end_offset: int | None
    lag: int | None
    leader_epoch: int | None
    state_epoch: int | None
    topic_id: str
    next_timestamp_ms: int | None = None
    time_lag_ms: int | None = None


def records_waiting(row: OffsetDescription | ShareOffsetDescription) -> int:
    """Return how many records wait in a partition at most; 0 where that is not known."""
    return (row.waiting if isinstance(row, OffsetDescription) else row.lag) or 0


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group; attributes as in `kgroup.model.group.Group`, in the order of the JSON output.

    Attributes:
        offsets: commits, owned partitions, and (from a cluster or ZooKeeper) partitions of
            subscribed topics that nobody owns, sorted by topic and partition.
        total_lag: sum of the known lags of `offsets` and `share_offsets`, of which those below 0
            count as 0: a commit past the end does not make up for others; None where none is known.
        max_time_lag_ms: largest of their known lags in time; likewise.
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
    share_offsets: tuple[ShareOffsetDescription, ...] | None
    last_stable: Membership | None
    max_time_lag_ms: int | None = None

    @property
    def waiting(self) -> int:
        """How many records wait for the group at most, in partitions of which that is known."""
        shared = self.share_offsets or ()
        return sum(map(records_waiting, self.offsets)) + sum(map(records_waiting, shared))
