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


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition of a user's topic in an assignment.

    Attributes:
        topic_id: id of the topic; base64url, as Kafka prints it; None where only the name is
            recorded (classic protocol).
        topic: name of the topic; None where only the id is recorded (KIP-848, share) and no source
            knows its name.
        partition: partition of that topic.
        since_epoch: epoch in which the member got it; of consumer groups since Kafka 4.3, else
            None; with another one it is the same partition still.
        thread: zookeeper: number of the member's thread that reads it; from 0.
        since_ms: zookeeper: when the member took it.
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
    """A partition whose owner is no member.

    Attributes:
        member_id: id of the owner.
        partition: what it owns.
    """

    member_id: str
    partition: AssignedPartition


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """A task of a streams group (KIP-1071): a subtopology on one partition number.

    Attributes:
        subtopology_id: id of the subtopology.
        partition: partition of its source topics.
        since_epoch: epoch in which the member got an active task; since Kafka 4.3, else None; with
            another one it is the same task still.
    """

    subtopology_id: str
    partition: int
    since_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of a streams member, each list sorted.

    Attributes:
        active: tasks that it runs.
        standby: tasks whose state it keeps a copy of.
        warmup: tasks whose state it is catching up with.
    """

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()


class GroupType(DescribedEnum):
    """The protocol that a group's coordinator runs; the words of ListGroups (KIP-848).

    Groups of the ZooKeeper consumer of Kafka 0.7 and 0.8 have no coordinator.
    """

    CLASSIC = (
        "classic",
        "Members join in rounds (JoinGroup, SyncGroup) and a leader among them assigns; also "
        "groups that only commit offsets.",
    )
    CONSUMER = ("consumer", "The coordinator assigns partitions, member by member (KIP-848).")
    SHARE = ("share", "Members share partitions and acknowledge record by record (KIP-932).")
    STREAMS = ("streams", "The coordinator assigns the tasks of a Streams topology (KIP-1071).")
    ZOOKEEPER = (
        "zookeeper",
        "Consumers of Kafka 0.7 and 0.8 register in ZooKeeper, and each computes what it owns.",
    )

    @property
    def states(self) -> frozenset[GroupState]:
        """The states that groups of this type can have."""
        return _STATES[self]


class GroupState(DescribedEnum):
    """The states of every group type; the words of ListGroups and the describe APIs.

    Classic groups move from one `to` another. The other types have no transitions of their own:
    their coordinator derives the state from epochs and members after every record
    (`ConsumerGroup.maybeUpdateGroupState` and its like), so any state can follow any other.
    """

    EMPTY = ("Empty", "The group has no members; what it committed is kept until it expires.")
    PREPARING_REBALANCE = (
        "PreparingRebalance",
        "A rebalance has begun: the coordinator waits until the members have joined again.",
    )
    COMPLETING_REBALANCE = (
        "CompletingRebalance",
        "All members have joined: the coordinator waits for the assignment from the leader.",
    )
    ASSIGNING = (
        "Assigning",
        "Members or topics have changed and a new target assignment is still to be computed.",
    )
    RECONCILING = (
        "Reconciling",
        "The target assignment is known and some members have not taken or given up all of theirs.",
    )
    NOT_READY = (
        "NotReady",
        "The topology cannot run yet: topics that it needs are missing or do not fit.",
    )
    STABLE = ("Stable", "Every member has its assignment.")
    DEAD = ("Dead", "The group does not exist, or is being removed.")

    def sentence_of(self, type_: GroupType) -> str:
        """What it means of a group of this type."""
        own = _ZOOKEEPER_STATE_SENTENCES if type_ is GroupType.ZOOKEEPER else {}
        return own.get(self, self.sentence)

    def to(self, following: GroupState) -> GroupState:
        """Move a classic group on.

        Raises:
            ValueError: Kafka's coordinator never moves a group so.
        """
        if following not in _CLASSIC_TRANSITIONS.get(self, ()):
            raise ValueError(f"no classic group goes from {self} to {following}")
        return following


_ZOOKEEPER_STATE_SENTENCES = {
    GroupState.EMPTY: "The group has no members; what it committed stays until it is deleted.",
    GroupState.RECONCILING: (
        "Partitions have no owner, or one that has gone: a rebalance goes on, or has failed."
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
    """Where a member of a consumer, share or streams group stands; recorded with its assignment.

    The coordinator chooses one after every heartbeat (`CurrentAssignmentBuilder`), so there is no
    table of transitions.
    """

    STABLE = ("Stable", "The member has all that it should have at its epoch.")
    UNREVOKED_PARTITIONS = (
        "UnrevokedPartitions",
        "The member must give up partitions before it can go on.",
    )
    UNRELEASED_PARTITIONS = (
        "UnreleasedPartitions",
        "The member waits for partitions that others still hold.",
    )
    UNREVOKED_TASKS = ("UnrevokedTasks", "The member must give up tasks before it can go on.")
    UNRELEASED_TASKS = ("UnreleasedTasks", "The member waits for tasks that others still hold.")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as other programs reach it.

    Attributes:
        id: its number.
        host: its name or address; None, as `port`, where it is registered in ZooKeeper without one.
        port: its port.
        rack: its rack; None where it has none.
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
    """What a member asked for.

    Attributes:
        topics: names of topics; sorted, but of the classic protocol as the member sent them (some
            leaders assign in that order).
        regex: regular expression that the coordinator resolves (KIP-848); RE2's syntax.
        owned: partitions that the member said it owned when it joined; classic protocol v1 and
            later, in a consumer group too.
        generation_id: generation in which it owned them; classic protocol v2 and later.
        user_data: what the client-side assignor added; decoded for the sticky assignors, else
            base64; None where there is none.
        pattern: zookeeper: how it chooses topics; of a white or black list `regex` is Java's, and
            `topics` are those that exist and are allowed, None where they cannot be told.
        streams: zookeeper: number of streams by topic; by the expression of a list, as the consumer
            wrote it.
    """

    topics: tuple[str, ...] | None
    regex: str | None = None
    owned: tuple[AssignedPartition, ...] | None = None
    generation_id: int | None = None
    user_data: Any = None
    pattern: SubscriptionPattern | None = None
    streams: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: id of the member; given by the coordinator, or by the client in later versions of
            KIP-848.
        instance_id: `group.instance.id` of a static member.
        client_id: as the client calls itself.
        client_host: address that the broker saw; `/127.0.0.1`; zookeeper: name of its machine, as
            far as its id has it.
        rack_id: `client.rack`.
        session_timeout_ms: classic: silence after which it is removed; None where the broker's
            configuration decides (all but classic).
        rebalance_timeout_ms: time it has to join a rebalance; None where there is none (share).
        member_epoch: not classic: epoch that it has reached; -1 and -2 are kept as stored: a member
            that leaves, a static member that may come back.
        subscription: what it asked for; None where it speaks no consumer protocol, see
            `protocol_metadata`.
        assignment: partitions that it may read; also those that it must give up; in the order of
            the coordinator or of its record, from which assignors go on; None where assignments are
            no partitions (streams, Connect).
        target_assignment: not classic: partitions that it shall have in the end; in that order too.
        state: not classic: where it stands in a reconciliation.
        previous_member_epoch: not classic: epoch before `member_epoch`; still accepted from it.
        pending_revocation: not classic: the part of `assignment` that it must give up.
        uses_classic_protocol: consumer: whether it still speaks the classic protocol; None in other
            groups.
        assignor: consumer: server-side assignor that it asked for.
        classic_protocols: consumer: client-side assignors that it offers; where it speaks the
            classic protocol.
        protocol_metadata: classic: the decoded object of bytes that are no consumer subscription
            (of Connect, say); `{"raw", "error"}` where they cannot be decoded.
        protocol_assignment: likewise for its assignment.
        assignment_user_data: classic: what the client-side assignor added to the assignment;
            base64, or decoded (of Streams); Java's assignors of consumers add nothing.
        tasks: streams: tasks that it runs; without those that it must give up.
        target_tasks: streams: tasks that it shall have in the end.
        pending_revocation_tasks: streams: tasks that it must give up.
        topology_epoch: streams: epoch of the topology that it runs.
        process_id: streams: the process it lives in.
        user_endpoint: streams: `host:port` for interactive queries; an IPv6 address in brackets.
        client_tags: streams: tags for rack-aware assignment.
        session_id: zookeeper: session with which its registration goes; as in `0x1008f3a2b410000`.
        registered_ms: zookeeper: when it registered.
        client_library: classic: client library that the member uses; recognized by the bytes that
            it sent, named as in "Client libraries" of docs/assign.md (`kafka-clients` is Kafka's
            own); None where several write such bytes.
        client_library_certainty: how sure the library is; None where it is not known.
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

    @property
    def subscribed_topics(self) -> tuple[str, ...]:
        """Topics that the member subscribes to by name; empty if unknown."""
        return (self.subscription.topics if self.subscription else None) or ()


@dataclass(frozen=True, slots=True)
class Membership:
    """Who was in a classic group when its last rebalance was complete.

    Tables tell how long ago that was recorded, and show its members below those of now.

    Attributes:
        generation_id: number of that rebalance.
        leader_id: id of the member that assigned.
        assignor: the protocol that the members agreed on.
        recorded_ms: when the coordinator wrote it down.
        members: members of the group; sorted by id.
    """

    generation_id: int | None
    leader_id: str | None
    assignor: str | None
    recorded_ms: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a streams topology whose tasks run together.

    Attributes:
        subtopology_id: id of the subtopology.
        source_topics: topics that it reads.
        source_topic_regex: regular expressions for topics that it reads.
        repartition_source_topics: topics that it reads and other subtopologies write.
        repartition_sink_topics: topics that it writes for other subtopologies.
        state_changelog_topics: topics of its state stores.
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
        epoch: epoch of the topology.
        subtopologies: its parts; sorted by id.
    """

    epoch: int
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group.

    Attributes:
        group_id: id of the group.
        type: `classic`, `consumer`, `share`, `streams` or `zookeeper`; the last one of consumers of
            Kafka 0.7 and 0.8.
        state: state of the group, as Kafka names it; None where it cannot be known; from a log, a
            classic group is as its last completed rebalance left it.
        protocol_type: what the clients say; `consumer`, `connect`, `share` and `streams` are
            Kafka's own; None for a group that only commits.
        assignor: assignor that the group uses; classic: on which the members agreed; consumer: for
            which most members ask; None where the broker's configuration decides.
        generation_id: classic: number of the last completed rebalance.
        group_epoch: not classic: raised when members or topics change.
        assignment_epoch: not classic: group epoch of the target assignment; None before there is
            any.
        leader_id: classic: id of the member that assigns.
        coordinator: broker that runs the group; None without a live cluster.
        offsets_partition: partition of `__consumer_offsets` that holds the group.
        state_timestamp_ms: classic: when all members had joined the last rebalance, or the last one
            had left; Kafka's `currentStateTimestamp`, None before Kafka 2.1.
        members: members of the group; sorted by id.
        leader_library: classic: client library that wrote the assignments; where it is known and
            the leader is not.
        member_order: classic: ids of the members as the coordinator lists them; to the leader too;
            empty where that is not known.
        offsets: commits; sorted by topic and partition.
        pending_offsets: commits of open transactions; they do not count yet; sorted by topic,
            partition and place in the log.
        topology: streams: topology of the group; else None.
        share_offsets: share: partitions that the group works on; sorted by topic and partition;
            else None.
        resolved_regexes: consumer: topics that the coordinator found for each regular expression;
            None where the source does not know them.
        last_stable: classic: who was in the group before the rebalance in flight; from a live
            cluster, else None.
        unowned: zookeeper: partitions of subscribed topics that have no owner node; sources of
            groups of this type have it, files do not.
        stray_owners: zookeeper: partitions whose owner node names no member; likewise.
        empty_commits: partitions for which the group committed a negative number; that stands for
            no offset; by topic and number, sorted.
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

    def __post_init__(self) -> None:
        """Raise a ValueError if no group of this type has such a state."""
        if self.state is not None and self.state not in self.type.states:
            raise ValueError(f"no {self.type} group is {self.state}")

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
    """The groups of a cluster, or of the part of it that a source could see.

    Attributes:
        groups: by group id, sorted.
        topic_names: names of topics by their ids, as far as the source knows them.
        cluster_id: Kafka's base64url text.
        broker_ids: brokers whose log directories were read; empty for a live cluster.
        offsets_partition_count: partitions of `__consumer_offsets`; None where the source cannot
            know it.
    """

    groups: Mapping[str, Group] = field(default_factory=dict)
    topic_names: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    broker_ids: tuple[int, ...] = ()
    offsets_partition_count: int | None = None
