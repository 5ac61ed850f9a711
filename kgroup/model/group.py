"""Groups and their members, of every type, as one coordinator sees them at one instant.

One pair of dataclasses serves all types, so that list, describe and everything after them have one
path. What a type does not have, or a source cannot know, is None:

===================  =========================================================================
generation_id,       classic groups only
leader_id,
state_timestamp_ms
group_epoch,         consumer (KIP-848), share and streams groups only
assignment_epoch
topology             streams groups only
share_offsets        share groups only
unowned,             groups of the ZooKeeper consumer only
stray_owners
===================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.described_enum import DescribedEnum
from kgroup.model.client_library import Certainty
from kgroup.model.offset import CommittedOffset, PendingOffset, ShareOffset
from kgroup.model.zookeeper import SubscriptionPattern

EAGER_STRATEGIES = ("range", "roundrobin", "sticky")
"""Strategies of Java's consumer whose assignments have all partitions
(`partition.assignment.strategy`).
"""
NEVER_MS = 2**63 - 1
"""`nextRebalanceMs` of an assignment of Kafka Streams that schedules nothing. Java:
`Long.MAX_VALUE`.
"""


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition of a user's topic in an assignment.

    Attributes:
        topic_id: topic id; base64url, as Kafka prints it; None if only the name is recorded
            (classic protocol).
        topic: topic name; None if only the id is recorded (KIP-848, share) and no source knows the
            name.
        partition: partition number.
        since_epoch: epoch in which the partition was assigned to the member; consumer groups since
            Kafka 4.3, else None; not part of the partition's identity.
        thread: zookeeper: number of the member's thread that reads the partition; from 0.
        since_ms: zookeeper: when the member claimed the partition.
    """

    topic_id: str | None
    topic: str | None
    partition: int
    since_epoch: int | None = field(default=None, compare=False)
    thread: int | None = field(default=None, compare=False)
    since_ms: int | None = field(default=None, compare=False)

    @property
    def sort_key(self) -> tuple[bool, str, int]:
        """Sort key of reports: topics by name, then those of which only the id is known."""
        return (self.topic is None, self.topic or self.topic_id or "", self.partition)


@dataclass(frozen=True, slots=True)
class StrayOwner:
    """A partition whose owner is not a member.

    Attributes:
        member_id: member id of the owner.
        partition: partition that it owns.
    """

    member_id: str
    partition: AssignedPartition


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """A task of a streams group (KIP-1071): a subtopology on one partition number.

    Attributes:
        subtopology_id: subtopology id.
        partition: partition number in the source topics.
        since_epoch: epoch in which an active task was assigned to the member; since Kafka 4.3, else
            None; not part of the task's identity.
    """

    subtopology_id: str
    partition: int
    since_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of a streams member, each list sorted.

    Attributes:
        active: active tasks; the member processes their records.
        standby: standby tasks; the member keeps copies of their state.
        warmup: warm-up tasks; the member is restoring their state.
    """

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()


class GroupType(DescribedEnum):
    """Protocol of a group; the words of ListGroups (KIP-848).

    Groups of the ZooKeeper consumer of Kafka 0.7 and 0.8 have no coordinator.
    """

    CLASSIC = (
        "classic",
        "Members join in rounds (JoinGroup, SyncGroup), and the leader assigns partitions; "
        "includes groups that only commit offsets.",
    )
    CONSUMER = (
        "consumer",
        "The coordinator assigns partitions and reconciles each member (KIP-848).",
    )
    SHARE = ("share", "Members share partitions and acknowledge individual records (KIP-932).")
    STREAMS = ("streams", "The coordinator assigns the tasks of a Streams topology (KIP-1071).")
    ZOOKEEPER = (
        "zookeeper",
        "Consumers of Kafka 0.7 and 0.8 register in ZooKeeper, and each computes its own "
        "partitions.",
    )

    @property
    def states(self) -> frozenset[GroupState]:
        """The states that groups of this type can have."""
        return _STATES[self]


class GroupState(DescribedEnum):
    """States of all group types; the words of ListGroups and the describe APIs.

    Classic groups move from one `to` another. The other types have no transitions of their own:
    their coordinator derives the state from epochs and members after every record
    (`ConsumerGroup.maybeUpdateGroupState` and its like), so any state can follow any other.
    """

    EMPTY = ("Empty", "The group has no members; its committed offsets are kept until they expire.")
    PREPARING_REBALANCE = (
        "PreparingRebalance",
        "A rebalance has begun; the coordinator waits for members to rejoin.",
    )
    COMPLETING_REBALANCE = (
        "CompletingRebalance",
        "All members have joined; the coordinator waits for the leader's assignment.",
    )
    ASSIGNING = (
        "Assigning",
        "Members or topics have changed; the new target assignment is not computed yet.",
    )
    RECONCILING = (
        "Reconciling",
        "The target assignment is computed; some members have not revoked or taken all of their "
        "partitions.",
    )
    NOT_READY = (
        "NotReady",
        "The topology cannot run yet: topics that it needs are missing or have the wrong number "
        "of partitions.",
    )
    STABLE = ("Stable", "Every member has its assignment.")
    DEAD = ("Dead", "The group does not exist, or is being removed.")

    def sentence_of(self, type_: GroupType) -> str:
        """Return the meaning of the state for a group of this type."""
        own = _ZOOKEEPER_STATE_SENTENCES if type_ is GroupType.ZOOKEEPER else {}
        return own.get(self, self.sentence)

    def to(self, following: GroupState) -> GroupState:
        """Return the following state of a classic group.

        Raises:
            ValueError: Kafka's coordinator never makes this transition.
        """
        if following not in _CLASSIC_TRANSITIONS.get(self, ()):
            raise ValueError(f"no classic group goes from {self} to {following}")
        return following


_ZOOKEEPER_STATE_SENTENCES = {
    GroupState.EMPTY: "The group has no members; its committed offsets stay until deleted.",
    GroupState.RECONCILING: (
        "Partitions have no owner, or a former member as owner: a rebalance is running or failed."
    ),
}

_CLASSIC_TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}
"""Possible next states of each state of a classic group (Kafka's `ClassicGroupState`)."""

_EPOCH_STATES = frozenset(
    {
        GroupState.EMPTY,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
        GroupState.STABLE,
        GroupState.DEAD,
    }
)
_STATES = {
    GroupType.CLASSIC: frozenset(_CLASSIC_TRANSITIONS),
    GroupType.CONSUMER: _EPOCH_STATES,
    GroupType.SHARE: frozenset({GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD}),
    GroupType.STREAMS: _EPOCH_STATES | {GroupState.NOT_READY},
    GroupType.ZOOKEEPER: frozenset({GroupState.EMPTY, GroupState.RECONCILING, GroupState.STABLE}),
}


class MemberState(DescribedEnum):
    """State of a member's reconciliation (consumer, share and streams groups).

    The coordinator chooses one after every heartbeat (`CurrentAssignmentBuilder`), so there is no
    table of transitions.
    """

    STABLE = ("Stable", "The member has its whole assignment for its epoch.")
    UNREVOKED_PARTITIONS = (
        "UnrevokedPartitions",
        "The member must revoke partitions before it can get others.",
    )
    UNRELEASED_PARTITIONS = (
        "UnreleasedPartitions",
        "The member waits for partitions that other members still own.",
    )
    UNREVOKED_TASKS = ("UnrevokedTasks", "The member must revoke tasks before it can get others.")
    UNRELEASED_TASKS = (
        "UnreleasedTasks",
        "The member waits for tasks that other members still own.",
    )


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker with the address that clients use.

    Attributes:
        id: broker id.
        host: host name or address; None, like `port`, if the broker is registered in ZooKeeper
            without one.
        port: port.
        rack: `broker.rack`; None if not set.
    """

    id: int
    host: str | None
    port: int | None
    rack: str | None = None

    @property
    def address(self) -> str | None:
        """Host and port, as settings and options accept them; None if unknown."""
        return server_text(self.host, self.port) if self.host and self.port else None

    @property
    def label(self) -> str:
        """Text for people: host and port, if known, and id."""
        return f"{self.address} ({self.id})" if self.address else f"({self.id})"


def server_text(host: str, port: int) -> str:
    """Return host and port as text, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription of a member.

    Attributes:
        topics: subscribed topics; sorted, except in the classic protocol: as the member sent them
            (some leaders assign in that order).
        regex: subscribed regular expression, resolved by the coordinator (KIP-848); RE2 syntax.
        owned: partitions that the member reported as owned when it joined; classic protocol v1 and
            later, also in a consumer group.
        generation_id: generation in which the member owned them; classic protocol v2 and later.
        version: classic: version of the message; None if unknown.
        user_data: user data of the client-side assignor; decoded for sticky assignors, else base64;
            None if there is none.
        pattern: zookeeper: how the consumer selects topics; for a white or black list, `regex` is a
            Java regular expression, and `topics` are the existing topics that it allows, None if
            unknown.
        streams: zookeeper: number of streams by topic; for a list, by its regular expression as the
            consumer wrote it.
    """

    topics: tuple[str, ...] | None
    regex: str | None = None
    owned: tuple[AssignedPartition, ...] | None = None
    generation_id: int | None = None
    user_data: Any = None
    pattern: SubscriptionPattern | None = None
    streams: Mapping[str, int] | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: member id; assigned by the coordinator, or by the client in later versions of
            KIP-848.
        instance_id: `group.instance.id` of a static member; else None.
        client_id: `client.id` that the client sent.
        client_host: client address as seen by the broker; such as `/127.0.0.1`; zookeeper: host
            name in the member id, if there is one.
        rack_id: `client.rack`.
        session_timeout_ms: classic: session timeout; None if the broker's configuration determines
            it (all other types).
        rebalance_timeout_ms: rebalance timeout; None for share groups, which have none.
        member_epoch: not classic: epoch that the member has reached; -1 and -2 are kept as stored:
            a leaving member, and a static member that may return.
        subscription: subscription; None if the member does not speak the consumer protocol, see
            `protocol_metadata`.
        assignment: assigned partitions, including those still to be revoked; in the order of the
            coordinator or of its record, which the next assignment depends on; None if assignments
            are not partitions (streams, Connect).
        target_assignment: not classic: target assignment; in the same order.
        state: not classic: state of the member's reconciliation.
        previous_member_epoch: not classic: previous epoch of the member; the coordinator still
            accepts it.
        pending_revocation: not classic: partitions of `assignment` that the member must revoke.
        uses_classic_protocol: consumer: whether the member still uses the classic protocol; None in
            other groups.
        assignor: consumer: server-side assignor that the member requested.
        classic_protocols: consumer: client-side assignors of a member that uses the classic
            protocol.
        protocol_metadata: classic: decoded metadata that is not a consumer subscription (of
            Connect, for example); `{"raw", "error"}` if it cannot be decoded.
        protocol_assignment: classic: decoded assignment of a member with `protocol_metadata`;
            `{"raw", "error"}` if it cannot be decoded.
        metadata_bytes: classic: size of the metadata (subscription) that the member sent, in bytes;
            from a live cluster, of a stable group.
        assignment_bytes: classic: size of the member's assignment in bytes; likewise.
        assignment_user_data: classic: user data that the client-side assignor added to the
            assignment; base64, or decoded (of Streams); Java's consumer assignors add none.
        tasks: streams: assigned tasks; without those that the member must revoke.
        target_tasks: streams: target assignment of tasks.
        pending_revocation_tasks: streams: tasks that the member must revoke.
        topology_epoch: streams: epoch of the member's topology.
        process_id: streams: id of the member's process.
        user_endpoint: streams: `host:port` for interactive queries; an IPv6 address in brackets.
        client_tags: streams: client tags for rack-aware assignment.
        session_id: zookeeper: id of the session that owns the registration, such as
            `0x1008f3a2b410000`.
        registered_ms: zookeeper: when the member registered.
        client_library: classic: client library of the member; recognized by the bytes that it sent,
            named as in "Client libraries" of docs/assign.md (`kafka-clients` is Kafka's own); None
            if it is unknown.
        client_library_certainty: classic: how certain `client_library` is; None if it is unknown.
        client_library_evidence: classic: what shows the library, or why it is unknown.
        client_library_candidates: classic: known libraries that send such bytes; None if the source
            does not say.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    member_epoch: int | None = None
    subscription: Subscription | None = None
    assignment: tuple[AssignedPartition, ...] | None = None
    target_assignment: tuple[AssignedPartition, ...] | None = None
    state: MemberState | None = None
    previous_member_epoch: int | None = None
    pending_revocation: tuple[AssignedPartition, ...] | None = None
    uses_classic_protocol: bool | None = None
    assignor: str | None = None
    classic_protocols: tuple[str, ...] | None = None
    protocol_metadata: Any = None
    protocol_assignment: Any = None
    metadata_bytes: int | None = field(default=None, compare=False)
    assignment_bytes: int | None = field(default=None, compare=False)
    assignment_user_data: Any = None
    tasks: TaskAssignment | None = None
    target_tasks: TaskAssignment | None = None
    pending_revocation_tasks: TaskAssignment | None = None
    topology_epoch: int | None = None
    process_id: str | None = None
    user_endpoint: str | None = None
    client_tags: Mapping[str, str] | None = None
    session_id: str | None = None
    registered_ms: int | None = None
    client_library: str | None = None
    client_library_certainty: Certainty | None = None
    client_library_evidence: str | None = None
    client_library_candidates: tuple[str, ...] | None = None

    @property
    def subscribed_topics(self) -> tuple[str, ...]:
        """Topics that the member subscribes to by name; empty if unknown."""
        return (self.subscription.topics if self.subscription else None) or ()


@dataclass(frozen=True, slots=True)
class Membership:
    """Members of a classic group when its last rebalance was complete.

    Tables show how long ago they were recorded, and what each member had beside what it has.

    Attributes:
        generation_id: generation of that rebalance.
        leader_id: member id of the leader.
        assignor: assignor that the members agreed on.
        recorded_ms: when the coordinator recorded the members.
        members: members; sorted by id.
        record_bytes: size of the record with the members, as a batch without compression; None if
            unknown.
    """

    generation_id: int | None
    leader_id: str | None
    assignor: str | None
    recorded_ms: int | None
    members: tuple[Member, ...]
    record_bytes: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PastGeneration:
    """An earlier generation of a classic group.

    Attributes:
        generation_id: generation.
        assignor: strategy that won the vote of its members.
        members: member ids; sorted.
        idle: those of them that got no partitions; sorted.
        claimed: those that claimed partitions when they joined; sorted.
        unclaimed: those that were in a generation before, and claimed nothing; sorted.
    """

    generation_id: int
    assignor: str
    members: tuple[str, ...]
    idle: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    unclaimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a streams topology whose tasks run together.

    Attributes:
        subtopology_id: subtopology id.
        source_topics: source topics.
        source_topic_regex: regular expressions for source topics.
        repartition_source_topics: repartition topics that it reads and other subtopologies write.
        repartition_sink_topics: repartition topics that it writes for other subtopologies.
        state_changelog_topics: changelog topics of its state stores.
    """

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a streams group.

    Attributes:
        epoch: topology epoch.
        subtopologies: subtopologies; sorted by id.
    """

    epoch: int
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group.

    Attributes:
        group_id: group id.
        type: group type: `classic`, `consumer`, `share`, `streams` or `zookeeper`; the last is for
            consumers of Kafka 0.7 and 0.8.
        state: group state, as Kafka names it; None if unknown; from a log, the state of a classic
            group after its last completed rebalance.
        protocol_type: protocol type that the clients sent; Kafka's own are `consumer`, `connect`,
            `share` and `streams`; None for a group that only commits offsets.
        assignor: assignor of the group; classic: the one that the members agreed on; consumer: the
            one that most members request; None if the broker's configuration decides.
        generation_id: classic: generation of the last completed rebalance.
        group_epoch: not classic: group epoch; incremented when members or topics change.
        assignment_epoch: not classic: group epoch of the target assignment; None before the first
            target assignment.
        leader_id: classic: member id of the leader.
        coordinator: group coordinator; None without a live cluster.
        offsets_partition: partition of `__consumer_offsets` that stores the group.
        state_timestamp_ms: classic: when all members had joined the last rebalance, or the last
            member had left; Kafka's `currentStateTimestamp`, None before Kafka 2.1.
        members: members; sorted by id.
        leader_library: classic: client library that encoded the assignments; if it is known and the
            leader is not.
        member_order: classic: member ids in the order in which the coordinator lists them, also to
            the leader; empty if unknown.
        offsets: committed offsets; sorted by topic and partition.
        pending_offsets: commits in open transactions; not effective yet; sorted by topic, partition
            and position in the log.
        topology: streams: topology of the group; else None.
        share_offsets: share: partitions of the group; sorted by topic and partition; else None.
        resolved_regexes: consumer: topics that the coordinator found for each regular expression;
            None if the source does not know them.
        last_stable: classic: members before the rebalance in progress; from a live cluster, else
            None.
        unowned: zookeeper: partitions of subscribed topics without an owner node; only in sources
            of this type, not in files.
        stray_owners: zookeeper: partitions whose owner node names no member; only in sources of
            this type, not in files.
        empty_commits: partitions with a negative committed offset, which means no offset; sorted by
            topic and partition.
        past_generations: classic: earlier generations with members of the current one, newest
            first, as far as they were read in `__consumer_offsets`.
    """

    group_id: str
    type: GroupType
    state: GroupState | None
    protocol_type: str | None = None
    assignor: str | None = None
    generation_id: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    leader_id: str | None = None
    coordinator: Broker | None = None
    offsets_partition: int | None = None
    state_timestamp_ms: int | None = None
    members: tuple[Member, ...] = ()
    leader_library: str | None = None
    member_order: tuple[str, ...] = field(default=(), compare=False)
    offsets: tuple[CommittedOffset, ...] = ()
    pending_offsets: tuple[PendingOffset, ...] = ()
    topology: Topology | None = None
    share_offsets: tuple[ShareOffset, ...] | None = None
    resolved_regexes: Mapping[str, tuple[str, ...]] | None = None
    last_stable: Membership | None = None
    unowned: tuple[AssignedPartition, ...] = ()
    stray_owners: tuple[StrayOwner, ...] = ()
    empty_commits: tuple[tuple[str, int], ...] = ()
    past_generations: tuple[PastGeneration, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Raise a ValueError if no group of this type has such a state."""
        if self.state is not None and self.state not in self.type.states:
            raise ValueError(f"no {self.type} group is {self.state}")

    @property
    def connect_delay_ms(self) -> int | None:
        """Connect: how long after the last rebalance what lost workers ran stays unassigned.

        None if nothing waits for workers to return. Then all workers rejoin (KIP-415).
        """
        assignments = (member.protocol_assignment for member in self.members)
        delays = (each.get("delay") for each in assignments if isinstance(each, Mapping))
        return max(
            (delay for delay in delays if isinstance(delay, int) and delay > 0), default=None
        )

    @property
    def probing_ms(self) -> int | None:
        """Kafka Streams: when the last assignment scheduled a probing rebalance (KIP-441).

        By the clock of the assigning instance. None if it scheduled none, and in groups with the
        streams protocol.
        """
        given = (member.assignment_user_data for member in self.members)
        times = (each.get("nextRebalanceMs") for each in given if isinstance(each, Mapping))
        return min((at for at in times if isinstance(at, int) and 0 < at < NEVER_MS), default=None)

    @property
    def topics(self) -> frozenset[str]:
        """Names of topics that the group subscribes to, is assigned, or has committed."""
        names = {offset.topic for offset in self.offsets}
        names.update(topic for topic, _ in self.empty_commits)
        names.update(offset.topic for offset in self.pending_offsets)
        names.update(offset.topic for offset in self.share_offsets or () if offset.topic)
        names.update(topic for regex in (self.resolved_regexes or {}).values() for topic in regex)
        for member in self.members:
            names.update(member.subscribed_topics)
            names.update(owned.topic for owned in member.assignment or () if owned.topic)
        for subtopology in self.topology.subtopologies if self.topology else ():
            names.update(subtopology.source_topics)
            names.update(subtopology.repartition_source_topics)
        return frozenset(names)

    @property
    def partitions(self) -> frozenset[tuple[str, int]]:
        """Partitions, by topic and number, that the group has committed, owns, shares or lacks.

        Assignments of a share group's members add nothing: they share the partitions of the group.
        """
        parts = {(offset.topic, offset.partition) for offset in self.offsets}
        parts.update(self.empty_commits)
        for member in self.members if self.type is not GroupType.SHARE else ():
            for owned in member.assignment or ():
                if owned.topic is not None:
                    parts.add((owned.topic, owned.partition))
        for partition in (*self.unowned, *(stray.partition for stray in self.stray_owners)):
            assert partition.topic is not None
            parts.add((partition.topic, partition.partition))
        for shared in self.share_offsets or ():
            if shared.topic is not None and shared.partition is not None:
                parts.add((shared.topic, shared.partition))
        return frozenset(parts)


@dataclass(frozen=True, slots=True)
class Image:
    """The groups of a cluster, or the part of them that a source can see.

    Attributes:
        groups: groups by id, sorted.
        topic_names: topic names by topic id, as far as the source knows them.
        cluster_id: cluster id, base64url as Kafka prints it.
        broker_ids: ids of the brokers whose log directories were read; empty for a live cluster.
        offsets_partition_count: number of partitions of `__consumer_offsets`; None if the source
            cannot know it.
    """

    groups: Mapping[str, Group] = field(default_factory=dict)
    topic_names: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    broker_ids: tuple[int, ...] = ()
    offsets_partition_count: int | None = None
