"""What a rebalance is, as an answer: who was there before and after, what moved, and why.

A rebalance is a new generation of a classic group, or a new group epoch of a consumer, share or
streams group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CauseKind(StrEnum):
    """Why a group rebalanced."""

    RESTARTED = "restarted"
    """A member came back under another id."""
    JOINED = "joined"
    LEFT = "left"
    """A member said that it leaves, or an administrator removed it."""
    EXPIRED = "expired"
    """A member was not heard of for its session timeout."""
    GONE = "gone"
    """A member left or expired: which of the two cannot be told."""
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_ADDED = "partitions_added"
    TOPICS_CHANGED = "topics_changed"
    """Something about the topics is new: partitions, topics or racks."""
    STRATEGY_CHANGED = "strategy_changed"
    FOLLOW_UP = "follow_up"
    """Partitions that a cooperative rebalance took from their owners are handed over (KIP-429)."""
    CONVERTED = "converted"
    """The group changed its type (KIP-848)."""
    COORDINATOR_MOVED = "coordinator_moved"
    UNKNOWN = "unknown"


class CauseCertainty(StrEnum):
    """Whether the log proves something, or makes it likely."""

    CERTAIN = "certain"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class PartitionOrTask:
    """What a member can own: a partition, or a task of a streams group.

    Attributes:
        topic: name of the topic; its id where the name is not known; None for a task.
        subtopology: of a task; else None.
        role: of a task: active, standby or warmup; else None.
        partition: of the topic, or number of the task.
    """

    topic: str | None
    subtopology: str | None
    role: str | None
    partition: int

    @property
    def sort_key(self) -> tuple[str, str, str, int]:
        """What they are put in order by."""
        return self.topic or "", self.subtopology or "", self.role or "", self.partition


@dataclass(frozen=True, slots=True)
class Participant:
    """A member, as far as it can be recognized."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What a rebalance gave a member and took from it."""

    member_id: str
    client_id: str | None
    got: tuple[PartitionOrTask, ...]
    lost: tuple[PartitionOrTask, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that starts a rebalance, and happened since the one before.

    Attributes:
        evidence: what the log shows of it, as a sentence.
        member_id: of the member that it is about; None: it is about none.
        before_member_id: id that the member had before it was restarted.
        last_seen_ms: last sign of life of a member that is gone, that the log has.
        silent_ms: from then to the rebalance.
        timeout_ms: how long a member may be silent before it is removed.
    """

    kind: CauseKind
    certainty: CauseCertainty
    evidence: str
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    before_member_id: str | None = None
    last_seen_ms: int | None = None
    silent_ms: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance.

    Attributes:
        time_ms: of the record that tells of it; None where that has no time.
        generation_before: generation, or group epoch, before; None where it is not known, or there
            was none.
        generation_id: the new one.
        protocol: the strategy that the members of a classic group agreed on.
        members_before: who was there; None where that is not known.
        members: who is.
        moved_count: how many partitions (or tasks) have other owners than before, nobody among
            them; None where that is not known. For epochs it is about the target assignment.
        moved: the same by member; only those that got or lost something.
        sync_ms: of a classic group: from the end of the join phase to the record, which is when
            the leader has sent the assignment. How long members took to join is never written.
        reconcile_ms: of an epoch: from its record to the one with which the last member has
            arrived at it, before the next epoch.
        commit_gap_ms: from the last commit before to the first one behind it; how long the group
            stood still at most. None where one of the two is not known.
        cause: the first of `causes`.
        certainty: of that one.
        evidence: of all of them.
        causes: what happened since the rebalance before; where it is several things, the log does
            not tell which of them came first.
        log_offset: of the record, in `offsets_partition` of `__consumer_offsets`.
    """

    cluster: str
    group_id: str
    group_type: str
    time_ms: int | None
    generation_before: int | None
    generation_id: int
    protocol_before: str | None
    protocol: str | None
    members_before: tuple[Participant, ...] | None
    members: tuple[Participant, ...]
    moved_count: int | None
    moved: tuple[MemberChange, ...] | None
    sync_ms: int | None
    reconcile_ms: int | None
    commit_gap_ms: int | None
    cause: CauseKind
    certainty: CauseCertainty
    evidence: str
    causes: tuple[Cause, ...]
    offsets_partition: int
    log_offset: int
