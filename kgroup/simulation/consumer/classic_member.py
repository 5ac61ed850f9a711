"""Online migration between protocols, and classic members of consumer groups.

A classic group of consumers becomes a consumer group (KIP-848), or the reverse. Classic members
of a consumer group rejoin when the answer to a heartbeat tells them to. The coordinator answers
every JoinGroup at once: it computes the assignment, and the member receives its partitions with
SyncGroup. A classic member is reconciled like other members, but it revokes partitions by
rejoining without them.

Source: the methods `classicGroup...ToConsumerGroup` of `GroupMetadataManager`,
`ConsumerGroup.fromClassicGroup` and `ClassicGroup.fromConsumerGroup` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse
from struct import unpack_from
from typing import Protocol as Interface

from kgroup.model.group import GroupState, MemberState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import base64_bytes, base64_text
from kgroup.protocol.record.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kgroup.simulation.classic.group import ClassicGroup, ClassicMember, RebalanceCause, Watch
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer import validation
from kgroup.simulation.consumer.coordinator import ConsumerCoordinator, ConsumerRuntime, TimerKind
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember, Data, Held
from kgroup.simulation.consumer.message import AnyAnswer, AnyRequest, NumbersByTopic
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import RequestRefused
from kgroup.simulation.message import (
    CONSUMER,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    Protocol,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import ConsumerSettings, Version


def as_consumer_group(
    group: ClassicGroup, topics: TopicImage, records: list[GroupRecord]
) -> ConsumerGroup:
    """Convert a classic group: members keep their partitions, and the generation becomes the epoch.

    Args:
        group: group with the protocol type "consumer".
        topics: existing topics.
        records: list to which the records of the conversion are appended.

    Raises:
        RequestRefused: a member's subscription or assignment cannot be decoded, or has user data
            that would be lost.
    """
    group_id, epoch = group.group_id, group.generation_id
    records.append(GroupRecord("GroupMetadata", {"group": group_id}, None))
    members = [_consumer_member(group, member, topics) for member in group.members]
    made = ConsumerGroup(group_id)
    for member in members:
        made.update_member(member)
    members = [made.members[name] for name in made.member_order]
    metadata_hash = topics.hash_of(made.subscriptions.topics)
    begun = record_of.group_epoch(group_id, epoch, metadata_hash)
    targets = [
        record_of.target_assignment(group_id, member.member_id, member.assigned)
        for member in members
    ]
    assigned = record_of.assignment_epoch(group_id, epoch, 0)
    for record in (begun, *targets, assigned):
        made.replay(record)
    records += [record_of.member_metadata(group_id, member) for member in members]
    records += [begun, *targets, assigned]
    records += [record_of.current_assignment(group_id, member) for member in members]
    return made


def _consumer_member(
    group: ClassicGroup, member: ClassicMember, topics: TopicImage
) -> ConsumerMember:
    metadata = [
        protocol.metadata for protocol in member.protocols if protocol.name == group.protocol
    ]
    if not metadata:
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka does
    subscription = decode_subscription(metadata[0])
    if "topics" not in subscription:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
    return ConsumerMember(
        member.member_id,
        group.generation_id,
        group.generation_id,
        instance_id=member.instance_id,
        rack_id=subscription.get("rackId") or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription["topics"]),
        topic_order=tuple(subscription["topics"]),
        assigned=_assigned(member.assignment, topics, group.generation_id),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(assignment: bytes, topics: TopicImage, epoch: int) -> Held:
    """Decode a leader's assignment; refuse one with user data, which would be lost."""
    if not assignment:
        return {}
    decoded = decode_assignment(assignment)
    if "assignedPartitions" not in decoded or decoded["userData"]:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
    held: dict[str, dict[int, int]] = {}
    for assigned in decoded["assignedPartitions"]:
        topic = topics.get(assigned["topic"])
        if topic is not None and assigned["partitions"]:
            since = dict.fromkeys(assigned["partitions"], epoch)
            held.setdefault(topic.topic_id, {}).update(since)
    return held


def as_classic_group(
    group: ConsumerGroup,
    leaving: Collection[str],
    joining: ConsumerMember | None,
    topics: TopicImage,
    version: Version,
    now_ms: int,
    watch: Watch,
) -> ClassicGroup:
    """Convert a consumer group to a stable classic group with the target assignment.

    The first member becomes leader.

    Args:
        group: the consumer group.
        leaving: ids of members that leave.
        joining: a static member that returns with the classic protocol, replacing its old self.
        topics: existing topics.
        version: version of the broker.
        now_ms: current time, in ms.
        watch: observer of the group's changes.

    Raises:
        RequestRefused: the members have no common protocol, or one has changed its instance; Kafka
            throws here.
    """
    made = ClassicGroup(group.group_id, version, now_ms, watch)
    made.state = GroupState.STABLE
    made.generation_id = group.epoch
    staying = [group.members[name] for name in group.member_order if name not in leaving]
    replaced = None
    if joining is not None:
        replaced = group.statics[joining.instance_id or ""]
        staying = [stayer for stayer in staying if stayer.instance_id != joining.instance_id]
        staying.append(joining)
    counts: Counter[str] = Counter()
    for member in staying:
        if member.classic is None:  # it has another instance id now
            raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        protocols = tuple(protocols_of(member.classic))
        counts.update(protocol.name for protocol in protocols)
        made.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic["sessionTimeoutMs"],
                member.rebalance_timeout_ms,
                CONSUMER,
                protocols,
            )
        )
    common = frozenset(name for name, count in counts.items() if count == len(made))
    if any(
        common.isdisjoint(protocol.name for protocol in member.protocols) for member in made.members
    ):
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
    made.protocol = made.select_protocol()
    made.subscribed_topics = frozenset(topic for consumer in staying for topic in consumer.topics)
    for classic in made.members:
        is_joining = joining is not None and classic.member_id == joining.member_id
        member_id = replaced if is_joining and replaced is not None else classic.member_id
        target = group.targets.get(member_id, {})
        classic.assignment = encoded_assignment(target, topics, classic.metadata(made.protocol))
    return made


_NEWEST_ASSIGNMENT = 3


class ClassicMemberRuntime(ConsumerRuntime, Interface):
    """Takes answers and records, and generates ids."""

    def answer(self, request: AnyRequest, answer: AnyAnswer) -> None:
        """Answer a request."""


class ClassicMembers(ConsumerCoordinator):
    """The consumer groups of a broker, with requests of both protocols.

    Args:
        settings: settings of the broker.
        runtime: takes answers and records.
        topics: topics of the cluster.
    """

    _runtime: ClassicMemberRuntime

    def __init__(
        self,
        settings: ConsumerSettings,
        runtime: ClassicMemberRuntime,
        topics: TopicImage | None = None,
    ) -> None:
        super().__init__(settings, runtime, topics)

    def join_member(self, group: ConsumerGroup, request: JoinGroup) -> None:
        """Add or update a classic member (`classicGroupJoinToConsumerGroup`)."""
        try:
            records, answer = self._join_member(group, request)
        except RequestRefused as refusal:
            self._runtime.answer(request, JoinAnswer(refusal.code))
            return
        self._apply(records)
        self._timers.cancel(TimerKind.JOIN, group.group_id, answer.member_id)
        if group.group_id in self.groups and answer.error is ErrorCode.NONE:
            self._expect(group.group_id, answer.member_id, request.session_timeout_ms)
            self._expect_step(TimerKind.SYNC, group, answer.member_id, request.rebalance_timeout_ms)
        self._runtime.answer(request, answer)

    def sync_member(self, group: ConsumerGroup, request: SyncGroup) -> None:
        """Answer with the member's current assignment (`classicGroupSyncToConsumerGroup`)."""
        try:
            member = _own_member(group, request)
            _check_protocol(member, request)
            waits = member.state is not MemberState.UNREVOKED_PARTITIONS
            if group.assignment_epoch > member.epoch and waits:
                self._expect_join(group, member)
                raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS)
        except RequestRefused as refusal:
            self._runtime.answer(request, SyncAnswer(refusal.code))
            return
        assert member.classic is not None
        self._timers.cancel(TimerKind.SYNC, group.group_id, member.member_id)
        self._expect(group.group_id, member.member_id, member.classic["sessionTimeoutMs"])
        metadata = protocols_of(member.classic)[0].metadata
        assignment = encoded_assignment(member.assigned, self.topics, metadata)
        self._runtime.answer(
            request, SyncAnswer(ErrorCode.NONE, assignment, request.protocol_type, request.protocol)
        )

    def beat_member(self, group: ConsumerGroup, request: Heartbeat) -> None:
        """Restart the member's session timeout; make it rejoin if its assignment changes.

        Kafka: `classicGroupHeartbeatToConsumerGroup`.
        """
        code = ErrorCode.NONE
        try:
            member = _own_member(group, request)
        except RequestRefused as refusal:
            self._runtime.answer(request, HeartbeatAnswer(refusal.code))
            return
        assert member.classic is not None
        self._expect(group.group_id, member.member_id, member.classic["sessionTimeoutMs"])
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_release(group, member)
            )
        ):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self._expect_join(group, member)
        self._runtime.answer(request, HeartbeatAnswer(code))

    def leave_members(self, group: ConsumerGroup, request: LeaveGroup) -> None:
        """Remove members of either protocol (`classicGroupLeaveToConsumerGroup`)."""
        results: list[tuple[LeavingMember, ErrorCode]] = []
        leaving: dict[str, ConsumerMember] = {}
        for leaver in request.members:
            try:
                member = _leaving_member(group, leaver)
            except RequestRefused as refusal:
                results.append((leaver, refusal.code))
            else:
                results.append((leaver, ErrorCode.NONE))
                leaving[member.member_id] = member
        code = ErrorCode.NONE
        try:
            if leaving:
                self._apply(self._let_go(group, list(leaving.values()), RebalanceCause.MEMBER_LEFT))
        except RequestRefused as refusal:
            code, results = refusal.code, []
        self._runtime.answer(request, LeaveAnswer(code, tuple(results)))

    # --- join -----------------------------------------------------------------------------------

    def _join_member(
        self, group: ConsumerGroup, request: JoinGroup
    ) -> tuple[list[GroupRecord], JoinAnswer]:
        member_id = request.member_id or self._runtime.new_uuid()
        validation.check_size(group, member_id, self._settings.max_size)
        _check_protocols(group, request.protocol_type, request.protocols)
        if not request.member_id and request.instance_id is None and request.version >= 4:
            return [], JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        records: list[GroupRecord] = []
        member = self._joining_member(group, request, member_id, records)
        subscription = decode_subscription(request.protocols[0].metadata)
        if "topics" not in subscription:
            raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka does
        updated = replace(
            member,
            instance_id=request.instance_id or member.instance_id,
            rack_id=subscription.get("rackId") or member.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=frozenset(subscription["topics"]),
            topic_order=tuple(subscription["topics"]),
            regex="",
            client_id=request.client_id,
            client_host=request.client_host,
            classic=classic_metadata(request.session_timeout_ms, request.protocols),
        )
        owned = self._owned(subscription)
        updated = self._settle(group, member, updated, request.instance_id, owned, records)
        return records, JoinAnswer(
            ErrorCode.NONE, member_id, updated.epoch, CONSUMER, request.protocols[0].name
        )

    def _joining_member(
        self, group: ConsumerGroup, request: JoinGroup, member_id: str, records: list[GroupRecord]
    ) -> ConsumerMember:
        """Return the member before the request; for a returning static member, its replacement."""
        if request.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return validation.own_member(group, request)
        static = validation.static_member(group, request.instance_id)
        if static is None:
            return ConsumerMember(member_id)
        return self._replace_member(group, static, member_id, records)

    def _settle(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        instance_id: str | None,
        owned: NumbersByTopic,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        """Update the member and reconcile it as far as possible; return the result.

        Args:
            group: the group that it joins.
            member: the member before the request.
            updated: the member with the request's fields.
            instance_id: instance id in the request.
            owned: owned partitions in the request.
            records: list to which records are appended.
        """
        subscribed, is_new = self._note_member(group, member, updated, records)
        goal = self._update_target(group, member, updated, subscribed, records)
        return self._reconcile(group, updated, goal, is_new, owned, records)

    def _owned(self, subscription: Data) -> NumbersByTopic:
        """Return the owned partitions of a subscription; none in versions without the field."""
        numbers: dict[str, frozenset[int]] = {}
        for owned in subscription.get("ownedPartitions") or ():
            topic = self.topics.get(owned["topic"])
            if topic is not None and owned["partitions"]:
                before = numbers.get(topic.topic_id, frozenset())
                numbers[topic.topic_id] = before.union(owned["partitions"])
        return numbers

    # --- timeouts ---------------------------------------------------------------------------------

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        timeout_ms = member.rebalance_timeout_ms
        self._expect_step(TimerKind.JOIN, group, member.member_id, timeout_ms, anew=False)

    def _expect_step(
        self,
        kind: TimerKind,
        group: ConsumerGroup,
        member_id: str,
        timeout_ms: int,
        *,
        anew: bool = True,
    ) -> None:
        """Remove a member that does not join, or sync, within its rebalance timeout."""
        group_id = group.group_id
        self._timers.start(
            kind,
            group_id,
            member_id,
            timeout_ms,
            lambda: self._expire(kind, group_id, member_id),
            anew=anew,
        )


def classic_metadata(session_timeout_ms: int, protocols: Sequence[Protocol]) -> Data:
    """Return the classic part of a member's record."""
    return {
        "sessionTimeoutMs": session_timeout_ms,
        "supportedProtocols": [
            {"name": protocol.name, "metadata": base64_text(protocol.metadata)}
            for protocol in protocols
        ],
    }


def protocols_of(classic: Data) -> list[Protocol]:
    """Return a classic member's protocols, in its order."""
    return [
        Protocol(protocol["name"], base64_bytes(protocol["metadata"]))
        for protocol in classic["supportedProtocols"]
    ]


def encoded_assignment(
    partitions: Mapping[str, Iterable[int]], topics: TopicImage, metadata: bytes
) -> bytes:
    """Encode an assignment in the version of a member's subscription."""
    return encode_assignment(
        {
            "version": min(unpack_from(">h", metadata)[0], _NEWEST_ASSIGNMENT),
            "assignedPartitions": [
                {"topic": name, "partitions": [*numbers]}
                for topic_id, numbers in partitions.items()
                if (name := topics.name_of(topic_id)) is not None
            ],
            "userData": None,
        }
    )


def _own_member(group: ConsumerGroup, request: SyncGroup | Heartbeat) -> ConsumerMember:
    """Return the classic member that sends a request."""
    member = validation.own_member(group, request)
    if member.classic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != request.generation_id:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION)
    return member


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.instance_id is None:
        return validation.known_member(group, leaving.member_id)
    member = validation.static_member(group, leaving.instance_id)
    if member is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
    if leaving.member_id not in ("", member.member_id):
        raise RequestRefused(ErrorCode.FENCED_INSTANCE_ID)
    return member


def _check_protocols(
    group: ConsumerGroup, protocol_type: str, protocols: Sequence[Protocol]
) -> None:
    """Refuse a member that shares no protocol with the others (`supportsClassicProtocols`)."""
    others = [member.classic for member in group.members.values() if member.classic is not None]
    counts = Counter(
        protocol["name"] for other in others for protocol in other["supportedProtocols"]
    )
    if protocol_type != CONSUMER or not any(
        counts[protocol.name] == len(others) for protocol in protocols
    ):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _check_protocol(member: ConsumerMember, request: SyncGroup) -> None:
    """Kafka: `throwIfClassicProtocolUnmatched`."""
    assert member.classic is not None
    protocol = protocols_of(member.classic)[0].name
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _waits_for_release(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether others hold partitions of its target (`waitingOnUnreleasedPartition`)."""
    return any(
        group.is_held(topic_id, number)
        for topic_id, numbers in group.targets[member.member_id].items()
        for number in filterfalse(member.assigned.get(topic_id, {}).__contains__, numbers)
    )
