"""A rebalance in a result: the members before and after, what moved, and why.

A rebalance is a new generation of a classic group, or a new group epoch of a consumer, share or
streams group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CauseKind(StrEnum):
    """Cause of a rebalance."""

    RESTARTED = "restarted"
    """A member came back under another id."""
    JOINED = "joined"
    LEFT = "left"
    """A member left, or an administrator removed it."""
    EXPIRED = "expired"
    """A member showed no sign of life for its session timeout."""
    GONE = "gone"
    """A member left or expired; the log does not show which."""
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_ADDED = "partitions_added"
    TOPICS_CHANGED = "topics_changed"
    """Topics changed: partitions, topics or racks."""
    STRATEGY_CHANGED = "strategy_changed"
    FOLLOW_UP = "follow_up"
    """Partitions that a cooperative rebalance revoked are assigned to their new owners
    (KIP-429).
    """
    CONVERTED = "converted"
    """The group type changed (KIP-848)."""
    COORDINATOR_MOVED = "coordinator_moved"
    UNKNOWN = "unknown"


class CauseCertainty(StrEnum):
    """Whether the log proves a cause, or makes it likely."""

    CERTAIN = "certain"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class PartitionOrTask:
    """What a member can own: a partition, or a task of a streams group.

    Attributes:
        topic: name of the topic; its id if the name is unknown; None for a task.
        subtopology: subtopology of a task; else None.
        role: role of a task: active, standby or warmup; else None.
        partition: partition of the topic, or number of the task.
    """

    topic: str | None
    subtopology: str | None
    role: str | None
    partition: int

    @property
    def sort_key(self) -> tuple[str, str, str, int]:
        """Sort key: topic, subtopology, role, partition."""
        return self.topic or "", self.subtopology or "", self.role or "", self.partition


@dataclass(frozen=True, slots=True)
class Participant:
    """The identity of a member."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Partitions or tasks that a member got and lost in a rebalance."""

    member_id: str
    client_id: str | None
    got: tuple[PartitionOrTask, ...]
    lost: tuple[PartitionOrTask, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """An event since the previous rebalance that starts a rebalance.

    Attributes:
        evidence: what the log shows, as a sentence.
        member_id: the member concerned; None if there is none.
        before_member_id: id of the member before it restarted.
        last_seen_ms: last sign of life in the log of a member that left.
        silent_ms: time from then to the rebalance.
        timeout_ms: time without a sign of life after which a member is removed.
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
    """A rebalance of a group.

    Attributes:
        time_ms: time of its record; None if the record has none.
        generation_before: previous generation, or group epoch; None if unknown, or if there was
            none.
        generation_id: the new generation, or group epoch.
        protocol: strategy that the members of a classic group agreed on.
        members_before: members before the rebalance; None if unknown.
        members: members after the rebalance.
        moved_count: number of partitions (or tasks) with a new owner or without one; None if
            unknown. For a group epoch it refers to the target assignment.
        moved: the same by member; only members that got or lost something.
        sync_ms: for a classic group, time from the end of the join phase to the record, when the
            leader had sent the assignment. How long members took to join is not in the log.
        reconcile_ms: for a group epoch, time from its record to the record with which the last
            member reached it, before the next epoch.
        commit_gap_ms: time from the last commit before to the first one after, an upper limit of
            how long the group stopped; None if there is no commit before or after.
        cause: the first of `causes`.
        certainty: certainty of that cause.
        evidence: evidence of all causes.
        causes: events since the previous rebalance. If there are several, the log does not show
            which came first.
        log_offset: offset of the record in `offsets_partition` of `__consumer_offsets`.
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
