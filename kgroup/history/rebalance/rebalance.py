"""A rebalance in a result: the members before and after, what moved, and why.

A rebalance is a new generation of a classic group, or a new group epoch of a consumer, share or
streams group.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.described_enum import DescribedEnum


class CauseKind(DescribedEnum):
    """Why a group rebalanced: what the log shows."""

    RESTARTED = (
        "restarted",
        "A new member has the instance id (certain) or the client id (inferred) of one that is "
        "gone, now or earlier; of members with one client id, those of one host.",
    )
    JOINED = ("joined", "A member id was not there before.")
    LEFT = (
        "left",
        "A member is gone, by itself or removed, and was alive too shortly before to have expired: "
        "certain where it had joined since, inferred from commits of its partitions.",
    )
    EXPIRED = (
        "expired",
        "A member's partitions were committed regularly, then not for its session timeout while "
        "others worked; or it is static: such members do not leave when they are closed.",
    )
    GONE = ("gone", "A member left or expired, and nothing tells which.")
    SUBSCRIPTION_CHANGED = (
        "subscription_changed",
        "A member subscribes to something else, or the topology of a streams group is another one.",
    )
    PARTITIONS_ADDED = (
        "partitions_added",
        "A topic has more partitions, or partitions are assigned that never were.",
    )
    TOPICS_CHANGED = (
        "topics_changed",
        "Not classic: something about the group's topics is new, such as partitions or racks.",
    )
    STRATEGY_CHANGED = ("strategy_changed", "A classic group has another protocol.")
    FOLLOW_UP = (
        "follow_up",
        "Partitions that the rebalance before took from their owners are handed over (cooperative "
        "rebalancing, KIP-429).",
    )
    CONVERTED = ("converted", "The group has another type (KIP-848).")
    COORDINATOR_MOVED = (
        "coordinator_moved",
        "The leader epoch of the group's partition of `__consumer_offsets` rose.",
    )
    UNKNOWN = (
        "unknown",
        "Nothing of this: a member joined again by itself, as a leader does when its topics "
        "change; or nothing is known from before.",
    )


class CauseCertainty(DescribedEnum):
    """Whether the log proves something, or makes it likely."""

    CERTAIN = ("certain", "The records prove it.")
    INFERRED = ("inferred", "The records make it likely.")


@dataclass(frozen=True, slots=True)
class PartitionOrTask:
    """What a member can own: a partition, or a task of a streams group.

    Attributes:
        topic: name of a partition's topic; its id where the name is not known; None of a task.
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
    """The identity of a member.

    Attributes:
        member_id: id of the member.
        instance_id: `group.instance.id` of a static member.
        client_id: as the client calls itself.
        client_host: address that the broker saw.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Partitions or tasks that a member got and lost in a rebalance.

    Attributes:
        member_id: id of the member.
        client_id: as the client calls itself.
        got: partitions or tasks that it got.
        lost: partitions or tasks that it lost.
    """

    member_id: str
    client_id: str | None
    got: tuple[PartitionOrTask, ...]
    lost: tuple[PartitionOrTask, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """An event since the previous rebalance that starts a rebalance.

    Attributes:
        kind: what happened.
        certainty: `certain` is what the records prove, `inferred` what they make likely.
        evidence: what the log shows of it.
        member_id: id of the member that it is about; None where it is about none, as what follows.
        instance_id: `group.instance.id` of a static member.
        client_id: as the client calls itself.
        client_host: address that the broker saw.
        before_member_id: id of the member before a restart; else None.
        last_seen_ms: last sign of life of a member that is gone; None of others, and where there is
            none.
        silent_ms: how long ago that sign of life was; likewise.
        timeout_ms: how long the member might be silent; None of others.
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
        cluster: name of the cluster in the warehouse.
        group_id: id of the group.
        group_type: `classic`, `consumer`, `share` or `streams`.
        time_ms: time of the record that tells of it; None where that has none.
        generation_before: generation, or group epoch, before; None for a new group, and where it is
            not known.
        generation_id: generation, or group epoch, that came of it.
        protocol_before: classic: strategy of the group before; else None.
        protocol: classic: strategy of the group; else None.
        members_before: members before; None where that is not known.
        members: members after it.
        moved_count: partitions, or tasks, with other owners than before; nobody counts as an owner;
            of an epoch those of its target assignment, None where the next epoch came before that;
            None where that is not known.
        moved: what moved, by member; of those that got or lost something; None likewise.
        sync_ms: classic: from the end of the join phase to the record; it is written when the
            leader has sent the assignment; None of others, and where one of the two times is not
            known; how long members take to join is never written.
        reconcile_ms: not classic: until the last member has what it should have; None of classic
            groups, and where the next epoch came before that.
        commit_gap_ms: time without a commit around it; the group stood still no longer than that;
            None where one of the two commits is not known.
        cause: what started it; the first of `causes`.
        certainty: whether `cause` is certain or inferred.
        evidence: what the log shows of all `causes`.
        causes: all that happened since the rebalance before.
        offsets_partition: partition of `__consumer_offsets` that has the record.
        log_offset: offset of the record in that partition.
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
