"""The effect of each record on its group, and the `Group` that a coordinator derives.

`EFFECTS` describes each record type, and `GroupLog.apply` applies one record. `GroupLog`
keeps what compaction would keep, the newest value of each key, so that updating it is
cheap; values are interpreted only when the group is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from kgroup.model.client_library import (
    Recognition,
    generation_before,
    readable,
    recognize,
    recognize_again,
)
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import (
    AssignedPartition,
    Group,
    GroupState,
    GroupType,
    Member,
    MemberState,
    PastGeneration,
    Subscription,
    Subtopology,
    Task,
    TaskAssignment,
    Topology,
    server_text,
)
from kgroup.model.offset import CommittedOffset, PendingOffset, ShareOffset, split_commits
from kgroup.model.record import known

Data = Mapping[str, Any]
_Epoch = TypeVar("_Epoch", int, None)

_CONSUMER_PROTOCOL_TYPE = "consumer"
MEMBER_STATES = {
    0: MemberState.STABLE,
    1: MemberState.UNREVOKED_PARTITIONS,
    2: MemberState.UNRELEASED_PARTITIONS,
}
"""Member states by their number in records of consumer and share groups."""
_STREAMS_MEMBER_STATES = {
    1: MemberState.STABLE,
    2: MemberState.UNREVOKED_TASKS,
    3: MemberState.UNRELEASED_TASKS,
}
_NO_BYTES = {"raw": ""}
_NOTHING: Mapping[str, Data] = MappingProxyType({})

_MEMBER_GONE: Data = {"memberEpoch": -1, "previousMemberEpoch": -1, "state": 0}
"""What remains of a member between the tombstones of its assignment and of itself."""


class Effect(NamedTuple):
    """Effect of records of one type on a group.

    Attributes:
        group_type: type of the groups that have such records.
        attribute: attribute of `GroupLog` that stores the value.
        key_field: field of the key that distinguishes a group's records of this type; None if a
            group has only one.
    """

    group_type: GroupType
    attribute: str
    key_field: str | None = None


def _effects(group_type: GroupType) -> dict[str, Effect]:
    """Return the effects of the records that consumer, share and streams groups have."""
    kinds = {
        "Metadata": ("metadata", None),
        "PartitionMetadata": ("partition_metadata", None),
        "TargetAssignmentMetadata": ("target_metadata", None),
        "MemberMetadata": ("members", "memberId"),
        "TargetAssignmentMember": ("targets", "memberId"),
        "CurrentMemberAssignment": ("current", "memberId"),
    }
    prefix = f"{group_type.value.capitalize()}Group"
    return {prefix + kind: Effect(group_type, *effect) for kind, effect in kinds.items()}


EFFECTS: Mapping[str, Effect] = {
    "GroupMetadata": Effect(GroupType.CLASSIC, "metadata"),
    **_effects(GroupType.CONSUMER),
    "ConsumerGroupRegularExpression": Effect(GroupType.CONSUMER, "regexes", "regularExpression"),
    **_effects(GroupType.SHARE),
    "ShareGroupStatePartitionMetadata": Effect(GroupType.SHARE, "share_state"),
    **_effects(GroupType.STREAMS),
    "StreamsGroupTopology": Effect(GroupType.STREAMS, "topology"),
}
"""Effects by record type, without OffsetCommit, which groups of every type have."""

NAMING_RECORDS = "PartitionMetadata"
"""End of the types of records whose values contain topic names with their topic ids."""

_TOPIC_FIELDS = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
"""Lists of topics with id and name, in the value of such a record."""

_UNKNOWN_TOPIC = "<UNKNOWN>"
"""Topic name that coordinators record for a deleted topic."""


def recorded_names(value: Data) -> dict[str, str]:
    """Return the topic names by topic id in the value of one of the `NAMING_RECORDS`."""
    return {
        topic["topicId"]: topic["topicName"]
        for field in _TOPIC_FIELDS
        for topic in value.get(field) or ()
        if topic["topicName"] != _UNKNOWN_TOPIC
    }


class GroupLog:
    """The latest value of each of a group's keys.

    Values are the ``data`` objects of decoded records, with Kafka's own field names. A caller that
    never asks for `group` may keep other values.

    Attributes:
        type: group type; None while only offsets of the group are known.
        metadata: value of GroupMetadata, ConsumerGroupMetadata, …, depending on `type`.
        target_metadata: value of …TargetAssignmentMetadata.
        members: values of …MemberMetadata by member id.
        current: values of …CurrentMemberAssignment by member id.
        targets: values of …TargetAssignmentMember by member id.
        regexes: values of ConsumerGroupRegularExpression by expression.
        partition_metadata: value of ConsumerGroupPartitionMetadata or its like (before 4.1).
        topology: value of StreamsGroupTopology.
        share_state: value of ShareGroupStatePartitionMetadata.
        offsets: committed offsets by topic and partition.
        changed_ms: time of the latest replayed record that changed the group; 0 if unknown.
    """

    __slots__ = (
        "changed_ms",
        "current",
        "group_id",
        "members",
        "metadata",
        "offsets",
        "partition_metadata",
        "regexes",
        "share_state",
        "target_metadata",
        "targets",
        "topology",
        "type",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.changed_ms = 0
        self.become(None)

    def become(self, group_type: GroupType | None) -> None:
        """Remove everything except offsets, and change the group type."""
        self.type = group_type
        self.metadata: Data | None = None
        self.target_metadata: Data | None = None
        self.members: Mapping[str, Any] = _NOTHING
        self.current: Mapping[str, Any] = _NOTHING
        self.targets: Mapping[str, Any] = _NOTHING
        self.regexes: Mapping[str, Any] = _NOTHING
        self.partition_metadata: Data | None = None
        self.topology: Data | None = None
        self.share_state: Data | None = None

    def apply(self, effect: Effect, name: str | None, value: Any) -> bool:
        """Apply a record as a coordinator does when it loads the log.

        Args:
            effect: effect of the record's type.
            name: the key's `key_field`; None if a group has only one such record.
            value: value of the record; None for a tombstone.

        Returns:
            False for a tombstone of another group type, which changes nothing.
        """
        if value is None and effect.attribute == "metadata":
            # The tombstone of a classic group removes a group of any type.
            is_own = effect.group_type in (GroupType.CLASSIC, self.type) or self.type is None
            if is_own:
                self.become(None)
            return is_own
        if self.type is not effect.group_type:
            if value is None:
                return False
            self.become(effect.group_type)
        if name is None:
            setattr(self, effect.attribute, value)
        elif value is not None:
            self.put(effect.attribute, name, value)
        elif effect.attribute == "current" and name in self.members:
            self.put("current", name, _MEMBER_GONE)
        else:
            self._remove(effect.attribute, name)
            if effect.attribute == "members":
                self._remove("current", name)
        return True

    def put(self, attribute: str, name: str, value: Any) -> None:
        """Store a value in one of `members`, `current`, `targets` and `regexes`."""
        values = getattr(self, attribute)
        if values is _NOTHING:  # dictionaries would take most of a simple group's memory
            values = {}
            setattr(self, attribute, values)
        values[name] = value

    def _remove(self, attribute: str, name: str) -> None:
        values = getattr(self, attribute)
        if name in values:
            del values[name]

    @property
    def is_simple(self) -> bool:
        """Whether the group consists of offsets only (Kafka: `ClassicGroup.isSimpleGroup`)."""
        if self.type is None:
            return True
        return self.type is GroupType.CLASSIC and not (
            self.metadata and (self.metadata.get("protocolType") or self.metadata.get("members"))
        )

    @property
    def member_ids(self) -> list[str]:
        """Member ids of a group that is not classic, sorted."""
        return sorted(self.members.keys() | self.current.keys())

    def group(
        self,
        topic_names: Mapping[str, str],
        pending_offsets: Iterable[PendingOffset],
        offsets_partition: int | None,
    ) -> Group:
        """Return the group as a coordinator interprets the values after loading them."""
        pending = sorted(pending_offsets, key=lambda o: (o.topic, o.partition, o.log_offset or 0))
        offsets, empty_commits = split_commits(self.offsets[at] for at in sorted(self.offsets))
        common: dict[str, Any] = {
            "group_id": self.group_id,
            "offsets_partition": offsets_partition,
            "offsets": offsets,
            "empty_commits": empty_commits,
            "pending_offsets": tuple(pending),
        }
        if self.type is None:  # no members, no protocol: ListGroups says classic and Empty
            return Group(type=GroupType.CLASSIC, state=GroupState.EMPTY, **common)
        return _BUILDERS[self.type](self, topic_names, common)


# --- classic -------------------------------------------------------------------------------------


def _classic_group(log: GroupLog, topic_names: Mapping[str, str], common: dict[str, Any]) -> Group:
    """Kafka: `GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)`.

    The record is written when a rebalance is complete (and when the last member has left), so a
    group with members is Stable. A rebalance in progress is not in the log.
    """
    data = log.metadata or {}
    members = classic_members(log.group_id, data)
    return Group(
        type=GroupType.CLASSIC,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        protocol_type=data.get("protocolType") or None,
        assignor=data.get("protocol"),
        generation_id=data.get("generation"),
        leader_id=data.get("leader"),
        state_timestamp_ms=known(data.get("currentStateTimestamp")),
        members=members,
        member_order=tuple(member["memberId"] for member in data.get("members", ())),
        **common,
    )


def classic_members(group_id: str, data: Data) -> tuple[Member, ...]:
    """Return the members of a classic group, sorted by id.

    Args:
        group_id: group id.
        data: GroupMetadata, or the known part of it: session timeouts of members may be None,
            and the leader may be missing. Members may also have `metadataBytes` and
            `assignmentBytes`, the sizes before decoding.
    """
    protocol_type = data.get("protocolType") or None
    members = sorted(data.get("members", ()), key=lambda member: str(member["memberId"]))
    libraries: Iterable[Recognition | None] = repeat(None)
    if protocol_type == _CONSUMER_PROTOCOL_TYPE:
        libraries = recognize(group_id, data.get("protocol"), data.get("leader"), members)
    return tuple(map(partial(_classic_member, protocol_type), members, libraries))


def past_generation(data: Data) -> PastGeneration:
    """Return what a GroupMetadata record with members shows of the strategies that they list."""
    ids: dict[str, list[str]] = {"members": [], "idle": [], "claimed": [], "unclaimed": []}
    for member in data["members"]:
        name, assignment = member["memberId"], member.get("assignment")
        sent = readable(member.get("subscription")) or {}
        ids["members"].append(name)
        if not (isinstance(assignment, Mapping) and assignment.get("assignedPartitions")):
            ids["idle"].append(name)
        if sent.get("ownedPartitions"):
            ids["claimed"].append(name)
        elif generation_before(sent.get("generationId"), sent.get("userData")) is not None:
            ids["unclaimed"].append(name)
    return PastGeneration(
        data["generation"],
        data["protocol"],
        **{kind: tuple(sorted(names)) for kind, names in ids.items()},
    )


def recognized_again(group: Group) -> Group:
    """Return a group of a snapshot with what is known of its client libraries now.

    Earlier versions of kgroup knew less of them; see `recognize_again`.
    """
    if group.type is not GroupType.CLASSIC or group.protocol_type != _CONSUMER_PROTOCOL_TYPE:
        return group
    before = group.last_stable
    if before is not None:
        members = _recognized_again(group.group_id, before.assignor, before.members)
        group = replace(group, last_stable=replace(before, members=members))
    return replace(group, members=_recognized_again(group.group_id, group.assignor, group.members))


def _recognized_again(
    group_id: str, assignor: str | None, members: Iterable[Member]
) -> tuple[Member, ...]:
    return tuple(
        member
        if member.subscription is None or member.client_library_candidates == ()
        else _with_library(
            member,
            recognize_again(
                group_id,
                assignor,
                {
                    "clientId": member.client_id,
                    "groupInstanceId": member.instance_id,
                    "sessionTimeout": member.session_timeout_ms,
                    "rebalanceTimeout": member.rebalance_timeout_ms,
                    "subscription": {
                        "topics": member.subscription.topics or (),
                        "userData": member.subscription.user_data,
                        "ownedPartitions": member.subscription.owned,
                        "generationId": member.subscription.generation_id,
                        "rackId": member.rack_id,
                    },
                },
                Recognition(
                    member.client_library,
                    member.client_library_certainty,
                    member.client_library_evidence if member.client_library_candidates else None,
                    member.client_library_candidates or (),
                ),
            ),
        )
        for member in members
    )


def _with_library(member: Member, library: Recognition) -> Member:
    return replace(
        member,
        client_library=library.name,
        client_library_certainty=library.certainty,
        client_library_evidence=library.evidence,
        client_library_candidates=library.candidates,
    )


def _classic_member(protocol_type: str | None, data: Data, library: Recognition | None) -> Member:
    session_timeout_ms = data["sessionTimeout"]
    rebalance_timeout_ms = known(data.get("rebalanceTimeout"))
    if rebalance_timeout_ms is None:  # until 0.10.1 the session timeout bounded rebalances too
        rebalance_timeout_ms = session_timeout_ms
    sent, assignment = data.get("subscription"), data.get("assignment")
    is_consumer = protocol_type == _CONSUMER_PROTOCOL_TYPE
    subscription = readable(sent) if is_consumer else None
    assigned: tuple[AssignedPartition, ...] | None = None
    user_data: Any = None
    if is_consumer and isinstance(assignment, Mapping):
        if "assignedPartitions" in assignment:
            assigned = _named_partitions(assignment["assignedPartitions"])
            user_data = assignment.get("userData") or None
        elif assignment == _NO_BYTES:  # the leader assigned nothing to the member
            assigned = ()
    member = Member(
        member_id=data["memberId"],
        instance_id=data.get("groupInstanceId"),
        client_id=data["clientId"],
        client_host=data["clientHost"],
        rack_id=None if subscription is None else subscription.get("rackId") or None,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscription=None if subscription is None else _classic_subscription(subscription),
        assignment=assigned,
        protocol_metadata=_meaningful(sent) if subscription is None else None,
        protocol_assignment=None if assigned is not None else _meaningful(assignment),
        metadata_bytes=data.get("metadataBytes"),
        assignment_bytes=data.get("assignmentBytes"),
        assignment_user_data=user_data,
    )
    return member if library is None else _with_library(member, library)


def _classic_subscription(data: Data) -> Subscription:
    owned = data.get("ownedPartitions")
    return Subscription(
        topics=tuple(data["topics"]),
        owned=None if owned is None else _named_partitions(owned),
        generation_id=known(data.get("generationId")),
        user_data=_meaningful(data.get("userData")),
        version=data.get("version"),
    )


def _meaningful(decoded: Any) -> Any:
    """Return None for empty bytes, in either of the forms that the decoder returns."""
    return None if not decoded or decoded == _NO_BYTES else decoded


def _named_partitions(topics: Iterable[Data]) -> tuple[AssignedPartition, ...]:
    return tuple(
        AssignedPartition(None, topic["topic"], partition)
        for topic in topics
        for partition in topic["partitions"]
    )


# --- consumer (KIP-848) and share (KIP-932) ------------------------------------------------------


def _consumer_group(log: GroupLog, topic_names: Mapping[str, str], common: dict[str, Any]) -> Group:
    """Kafka: `ConsumerGroup`, its `maybeUpdateGroupState` and `preferredServerAssignor`."""
    wanted = Counter(
        data["serverAssignor"] for data in log.members.values() if data.get("serverAssignor")
    ).most_common(2)
    # On a tie the coordinator's choice depends on the order of a hash table.
    decided = len(wanted) == 1 or (len(wanted) == 2 and wanted[0][1] > wanted[1][1])
    return Group(
        type=GroupType.CONSUMER,
        state=_epoch_state(log, stable=0),
        protocol_type=_CONSUMER_PROTOCOL_TYPE,
        assignor=wanted[0][0] if decided else None,
        members=tuple(
            _consumer_member(log, member_id, topic_names) for member_id in log.member_ids
        ),
        resolved_regexes={
            regex: tuple(sorted(log.regexes[regex]["topics"])) for regex in sorted(log.regexes)
        },
        **_epochs(log),
        **common,
    )


def _consumer_member(log: GroupLog, member_id: str, topic_names: Mapping[str, str]) -> Member:
    data = log.members.get(member_id, {})
    current = log.current.get(member_id, {})
    classic = data.get("classicMemberMetadata")
    held = current.get("assignedPartitions", ())
    revoked = current.get("partitionsPendingRevocation", ())
    return Member(
        session_timeout_ms=_field(classic, "sessionTimeoutMs"),
        subscription=_consumer_subscription(data),
        # The member owns partitions until it has revoked them; since 4.3 the broker counts them too
        # (ConsumerGroupMember.asConsumerGroupDescribeMember).
        assignment=_partitions((*held, *revoked), topic_names),
        target_assignment=_target(log, member_id, topic_names),
        pending_revocation=_partitions(revoked, topic_names),
        uses_classic_protocol=classic is not None if data else None,
        assignor=data.get("serverAssignor"),
        classic_protocols=classic
        and tuple(protocol["name"] for protocol in classic["supportedProtocols"]),
        **_member_fields(log, member_id, MEMBER_STATES),
    )


def _consumer_subscription(data: Data) -> Subscription | None:
    """Combine the coordinator's data with the subscription of a member with the classic protocol.

    Like the coordinator, this uses the first of the member's protocols
    (`GroupMetadataManager.deserializeSubscription`).
    """
    topics = data.get("subscribedTopicNames")
    if topics is None:
        return None
    classic = data.get("classicMemberMetadata") or {}
    metadata = [protocol["metadata"] for protocol in classic.get("supportedProtocols", ())]
    is_understood = bool(metadata) and isinstance(metadata[0], Mapping) and "topics" in metadata[0]
    return replace(
        _classic_subscription(metadata[0]) if is_understood else Subscription(()),
        topics=tuple(sorted(topics)),
        regex=data.get("subscribedTopicRegex") or None,
    )


def _share_group(log: GroupLog, topic_names: Mapping[str, str], common: dict[str, Any]) -> Group:
    """Kafka: `ShareGroup`; start offsets are in `__share_group_state`, see `share_state`."""
    return Group(
        type=GroupType.SHARE,
        state=GroupState.STABLE if log.member_ids else GroupState.EMPTY,
        protocol_type=GroupType.SHARE.value,
        members=tuple(_share_member(log, member_id, topic_names) for member_id in log.member_ids),
        share_offsets=_share_offsets(log.share_state or {}, topic_names),
        **_epochs(log),
        **common,
    )


def _share_member(log: GroupLog, member_id: str, topic_names: Mapping[str, str]) -> Member:
    topics = log.members.get(member_id, {}).get("subscribedTopicNames")
    assigned = log.current.get(member_id, {}).get("assignedPartitions", ())
    return Member(
        subscription=None if topics is None else Subscription(tuple(sorted(topics))),
        assignment=_partitions(assigned, topic_names),
        target_assignment=_target(log, member_id, topic_names),
        **_member_fields(log, member_id, MEMBER_STATES),
    )


def _share_offsets(data: Data, topic_names: Mapping[str, str]) -> tuple[ShareOffset, ...]:
    """Return the recorded state of each partition; `initializing` overrides `initialized`."""
    noted = [
        (topic["topicId"], partition, state)
        for field, state in (
            ("initializedTopics", "initialized"),
            ("initializingTopics", "initializing"),
        )
        for topic in data.get(field, ())
        for partition in topic["partitions"]
    ]
    noted += [(topic["topicId"], None, "deleting") for topic in data.get("deletingTopics", ())]
    offsets = {
        (topic_id, partition): ShareOffset(topic_id, topic_names.get(topic_id), partition, state)
        for topic_id, partition, state in noted
    }
    return tuple(sorted(offsets.values(), key=lambda offset: offset.sort_key))


# --- streams (KIP-1071) --------------------------------------------------------------------------


def _streams_group(log: GroupLog, topic_names: Mapping[str, str], common: dict[str, Any]) -> Group:
    """Kafka: `StreamsGroup` and its `maybeUpdateGroupState`."""
    return Group(
        type=GroupType.STREAMS,
        state=_streams_state(log),
        protocol_type=GroupType.STREAMS.value,
        members=tuple(_streams_member(log, member_id) for member_id in log.member_ids),
        topology=_topology(log.topology) if log.topology else None,
        **_epochs(log),
        **common,
    )


def _streams_state(log: GroupLog) -> GroupState | None:
    """Return NotReady until the topics of the group's topology were validated.

    Kafka 4.2 and later record the epoch of the validated topology; such records are recognized
    by the assignment's configuration. Before 4.2 the log does not show it.
    """
    if not log.member_ids:
        return GroupState.EMPTY
    if log.metadata is None or (
        "validatedTopologyEpoch" not in log.metadata
        and log.metadata.get("lastAssignmentConfigs") is None
    ):
        return None
    validated = log.metadata.get("validatedTopologyEpoch", -1)
    if log.topology is None or log.topology["epoch"] != validated:
        return GroupState.NOT_READY
    return _epoch_state(log, stable=1)


def _streams_member(log: GroupLog, member_id: str) -> Member:
    data = log.members.get(member_id, {})
    current = log.current.get(member_id, {})
    endpoint = data.get("userEndpoint")
    return Member(
        tasks=_tasks(current),
        target_tasks=_tasks(log.targets.get(member_id, {})),
        pending_revocation_tasks=_tasks(current, "PendingRevocation"),
        topology_epoch=data.get("topologyEpoch"),
        process_id=data.get("processId"),
        user_endpoint=server_text(endpoint["host"], endpoint["port"]) if endpoint else None,
        client_tags={tag["key"]: tag["value"] for tag in data.get("clientTags", ())},
        **_member_fields(log, member_id, _STREAMS_MEMBER_STATES),
    )


def _tasks(data: Data, suffix: str = "") -> TaskAssignment:
    def tasks(field: str) -> tuple[Task, ...]:
        return tuple(
            sorted(
                Task(tasks["subtopologyId"], partition, since_epoch)
                for tasks in data.get(field + suffix, ())
                for partition, since_epoch in partitions_since(tasks)
            )
        )

    return TaskAssignment(tasks("activeTasks"), tasks("standbyTasks"), tasks("warmupTasks"))


def _topology(data: Data) -> Topology:
    return Topology(
        epoch=data["epoch"],
        subtopologies=tuple(
            Subtopology(
                subtopology_id=subtopology["subtopologyId"],
                source_topics=tuple(subtopology["sourceTopics"]),
                source_topic_regex=tuple(subtopology["sourceTopicRegex"]),
                repartition_source_topics=tuple(
                    topic["name"] for topic in subtopology["repartitionSourceTopics"]
                ),
                repartition_sink_topics=tuple(subtopology["repartitionSinkTopics"]),
                state_changelog_topics=tuple(
                    topic["name"] for topic in subtopology["stateChangelogTopics"]
                ),
            )
            for subtopology in sorted(
                data["subtopologies"], key=lambda subtopology: str(subtopology["subtopologyId"])
            )
        ),
    )


# --- common --------------------------------------------------------------------------------------


def _epochs(log: GroupLog) -> dict[str, Any]:
    """Return the fields of every group that is not classic."""
    return {
        "group_epoch": _field(log.metadata, "epoch"),
        "assignment_epoch": known(_field(log.target_metadata, "assignmentEpoch")),
    }


def _epoch_state(log: GroupLog, stable: int) -> GroupState | None:
    """Derive the state from epochs and members (Kafka: `ConsumerGroup.maybeUpdateGroupState`).

    `stable` is the number in member records of a member that is fully reconciled.
    """
    if not log.member_ids:
        return GroupState.EMPTY
    if log.metadata is None:
        return None
    if log.target_metadata is None or log.metadata["epoch"] > (
        epoch := log.target_metadata["assignmentEpoch"]
    ):
        return GroupState.ASSIGNING
    for member_id in log.member_ids:
        current = log.current.get(member_id)
        if current is None or current["memberEpoch"] != epoch:
            return GroupState.RECONCILING
        if "state" not in current:  # early access (3.7)
            return None
        if current["state"] != stable:
            return GroupState.RECONCILING
    return GroupState.STABLE


def _member_fields(
    log: GroupLog, member_id: str, states: Mapping[int, MemberState]
) -> dict[str, Any]:
    """Return the fields of every member of a group that is not classic."""
    data = log.members.get(member_id, {})
    current = log.current.get(member_id, {})
    return {
        "member_id": member_id,
        "instance_id": data.get("instanceId"),
        "client_id": data.get("clientId"),
        "client_host": data.get("clientHost"),
        "rack_id": data.get("rackId"),
        "rebalance_timeout_ms": known(data.get("rebalanceTimeoutMs")),
        "member_epoch": current.get("memberEpoch"),
        "state": states.get(current.get("state", -1)),
        "previous_member_epoch": known(current.get("previousMemberEpoch")),
    }


def _target(
    log: GroupLog, member_id: str, topic_names: Mapping[str, str]
) -> tuple[AssignedPartition, ...]:
    return _partitions(log.targets.get(member_id, {}).get("topicPartitions", ()), topic_names)


def _partitions(
    topics: Iterable[Data], topic_names: Mapping[str, str]
) -> tuple[AssignedPartition, ...]:
    return tuple(
        AssignedPartition(
            topic["topicId"], topic_names.get(topic["topicId"]), partition, since_epoch
        )
        for topic in topics
        for partition, since_epoch in partitions_since(topic)
    )


def partitions_since(assigned: Data) -> Iterable[tuple[int, int | None]]:
    """Yield partitions with the epochs in which the member got them (4.3 and later)."""
    return zip(assigned["partitions"], since_epochs(assigned, None), strict=True)


def since_epochs(assigned: Data, unknown: _Epoch) -> Sequence[int | _Epoch]:
    """Return the epoch in which the member got each partition; `unknown` before 4.3."""
    count, epochs = len(assigned["partitions"]), assigned.get("assignmentEpochs") or ()
    return epochs if len(epochs) == count else [unknown] * count


def _field(data: Data | None, name: str) -> Any:
    return None if data is None else data.get(name)


_BUILDERS: Mapping[GroupType, Callable[[GroupLog, Mapping[str, str], dict[str, Any]], Group]] = {
    GroupType.CLASSIC: _classic_group,
    GroupType.CONSUMER: _consumer_group,
    GroupType.SHARE: _share_group,
    GroupType.STREAMS: _streams_group,
}
