"""A rebalance in a result: the members before and after, what moved, and why.

A rebalance is a new generation of a classic group, or a new group epoch of a consumer, share or
streams group.
"""

from __future__ import annotations

from msgspec import Struct

from kgroup.described_enum import DescribedEnum
from kgroup.value_class import value_class


class CauseKind(DescribedEnum):
    """Why a group rebalanced: what the log shows."""

    RESTARTED = (
        "restarted",
        "A new member has the instance id (certain) or the client id (inferred) of a member that "
        "left, now or earlier; members with the same client id are matched by host.",
    )
    INSTANCE_ID_USED_TWICE = (
        "instance_id_used_twice",
        "A static member was replaced at least three times within 30 seconds, faster than a "
        "process restarts: two processes use the same `group.instance.id`.",
    )
    JOINED = ("joined", "A member with a new member id joined.")
    LEFT = (
        "left",
        "A member left or was removed; its last sign of life was too recent for it to have "
        "expired: certain if it had joined since the previous rebalance, inferred if its "
        "partitions were committed.",
    )
    EXPIRED = (
        "expired",
        "A member's partitions were committed regularly, then not for its session timeout while "
        "the other members worked; or the member is static: static members do not leave when they "
        "are closed; or it returned under the same member id (consumer protocol), so that its "
        "process was not restarted.",
    )
    GONE = ("gone", "A member left or expired; the log does not show which.")
    POLLED_LATE = (
        "polled_late",
        "A dynamic member of a classic group left when its rebalance timeout "
        "(`max.poll.interval.ms`) had passed since its assignment, and returned under a new member "
        "id with the same client id and host: processing took too long between two polls. With the "
        "consumer protocol: it left after that time and returned under the same member id.",
    )
    SCHEDULED = (
        "scheduled",
        "The previous assignment scheduled the rebalance: a probing rebalance of Kafka Streams "
        "(`nextRebalanceMs`), or the end of a delay of Kafka Connect "
        "(`scheduled.rebalance.max.delay.ms`).",
    )
    METADATA_CHANGED = (
        "metadata_changed",
        "A member of a classic group changed what it states besides topics: user data for the "
        "strategy, or the config offset of Kafka Connect.",
    )
    SUBSCRIPTION_CHANGED = (
        "subscription_changed",
        "A member changed its subscription, or the topology of a streams group changed.",
    )
    PARTITIONS_ADDED = (
        "partitions_added",
        "Partitions were added to a topic, or partitions are assigned for the first time.",
    )
    TOPICS_CHANGED = (
        "topics_changed",
        "Metadata of the group's topics changed, such as partitions or racks (consumer, share and "
        "streams groups); or a topic was deleted (inferred: nobody is assigned its partitions any "
        "more), or deleted and created again (inferred from the topic ids of commits).",
    )
    STRATEGY_CHANGED = ("strategy_changed", "A classic group changed its strategy.")
    FOLLOW_UP = (
        "follow_up",
        "Partitions that the previous rebalance revoked are assigned to their new owners "
        "(cooperative rebalancing, KIP-429), or the same of connectors and tasks (KIP-415).",
    )
    CONVERTED = ("converted", "The group type changed (KIP-848).")
    COORDINATOR_MOVED = (
        "coordinator_moved",
        "The leader epoch of the group's partition of `__consumer_offsets` grew.",
    )
    UNKNOWN = (
        "unknown",
        "None of these: a member rejoined by itself, as a leader does when its topics change; or "
        "nothing is known from before the rebalance.",
    )


class CauseCertainty(DescribedEnum):
    """Whether the log proves a cause, or makes it likely."""

    CERTAIN = ("certain", "The records prove it.")
    INFERRED = ("inferred", "The records make it likely.")


@value_class
class PartitionOrTask(Struct, frozen=True, gc=False):
    """What a member can own: a partition, or a task of a streams group.

    Attributes:
        topic: topic name, for a partition; topic id if the name is unknown; None for a task.
        subtopology: subtopology of a task; else None.
        role: role of a task: active, standby or warmup; else None.
        partition: partition number, or task number.
    """

    topic: str | None
    subtopology: str | None
    role: str | None
    partition: int

    @property
    def sort_key(self) -> tuple[str, str, str, int]:
        """Sort key: topic, subtopology, role, partition."""
        return self.topic or "", self.subtopology or "", self.role or "", self.partition


@value_class
class Participant(Struct, frozen=True, gc=False):
    """Identity of a member.

    Attributes:
        member_id: member id.
        instance_id: group.instance.id of a static member; else None.
        client_id: client.id that the client sent.
        client_host: client address as seen by the broker.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None


@value_class
class MemberChange(Struct, frozen=True, gc=False):
    """Partitions or tasks that a member got and lost in a rebalance.

    Attributes:
        member_id: member id.
        client_id: client.id that the client sent.
        got: partitions or tasks assigned to the member.
        lost: partitions or tasks taken from the member.
    """

    member_id: str
    client_id: str | None
    got: tuple[PartitionOrTask, ...]
    lost: tuple[PartitionOrTask, ...]


@value_class
class Cause(Struct, frozen=True, gc=False):
    """An event since the previous rebalance that starts a rebalance.

    Attributes:
        kind: kind of event.
        certainty: whether the records prove the cause (`certain`) or make it likely
            (`inferred`).
        evidence: what the log shows, as a sentence.
        member_id: member id; None, as the fields up to `client_host`, if the cause concerns no
            member.
        instance_id: group.instance.id of a static member; else None.
        client_id: client.id that the client sent.
        client_host: client address as seen by the broker.
        before_member_id: earlier member id of a member that restarted, or returned after it
            polled too late; else None.
        last_seen_ms: last sign of life of a member that left; None for other causes, and if the
            log has no sign of life.
        silent_ms: time from the last sign of life to the rebalance; None for other causes, and
            if the log has no sign of life.
        timeout_ms: time without a sign of life after which the member is removed; rebalance
            timeout of a member that polled too late; None for other causes.
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


@value_class
class Takeover(Struct, frozen=True, gc=False):
    """A process that took over a static member's instance id without a rebalance.

    Attributes:
        time_ms: time of the record; None if it has none.
        instance_id: group.instance.id of the static member.
        member_id: new member id.
        before_member_id: previous member id, which the coordinator fences.
        client_id: client.id of the process that joined first; the coordinator keeps it.
        client_host: address of that process as seen by the broker.
        log_offset: offset of the record.
    """

    time_ms: int | None
    instance_id: str
    member_id: str
    before_member_id: str
    client_id: str | None
    client_host: str | None
    log_offset: int


@value_class
class Rebalance(Struct, frozen=True, gc=False):
    """A rebalance of a group.

    Attributes:
        cluster: name of the cluster in the warehouse.
        group_id: group id.
        group_type: group type: `classic`, `consumer`, `share` or `streams`.
        time_ms: time of the rebalance's record; None if the record has none.
        generation_before: previous generation, or group epoch; None for a new group, and if
            unknown.
        generation_id: new generation, or group epoch.
        protocol_before: previous strategy of a classic group; else None.
        protocol: strategy that the members of a classic group agreed on; else None.
        members_before: members before the rebalance; None if unknown.
        members: members after the rebalance.
        moved_count: number of partitions, or tasks, with a new owner or without one; for a
            group epoch, of its target assignment; None if the next epoch came before that
            assignment, and if unknown.
        moved: partitions or tasks that moved, by member; only members that got or lost
            something; None if unknown, as `moved_count`.
        sync_ms: time from the end of a classic group's join phase to the record; the record is
            written when the leader has sent the assignment; None for other groups, and if one
            of the two times is unknown; how long members took to join is not in the log.
        reconcile_ms: time until the last member of a consumer, share or streams group had its
            target assignment; None for classic groups, and if the next epoch came first.
        commit_gap_ms: time without commits around the rebalance; the group stopped for at most
            this long; None if one of the two commits is unknown.
        cause: first of `causes`.
        certainty: certainty of `cause`.
        evidence: what the log shows for all `causes`.
        causes: events since the previous rebalance; if there are several, the log does not show
            which came first.
        takeovers: static members replaced in this generation, in log order; one that is replaced
            again and again runs twice, or restarts in a loop.
        offsets_partition: partition of `__consumer_offsets` with the record.
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
    takeovers: tuple[Takeover, ...]
    offsets_partition: int
    log_offset: int
