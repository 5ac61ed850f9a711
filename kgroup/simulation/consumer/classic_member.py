"""Members of consumer groups that speak the classic protocol, while a group is upgraded (KIP-848).

They join when heartbeats tell them to, and every JoinGroup is answered at once: the coordinator
assigns, and a member has what it may have when it syncs. It is reconciled like any other, only that
it gives up partitions by joining again without them.

Source: the methods `classicGroup...ToConsumerGroup` of `GroupMetadataManager` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from struct import unpack_from
from typing import Protocol as Interface

from kgroup.model.group import MemberState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import base64_bytes, base64_text
from kgroup.protocol.record.consumer_protocol import decode_subscription, encode_assignment
from kgroup.simulation.classic.group import Cause
from kgroup.simulation.consumer import coordinator, validation
from kgroup.simulation.consumer.coordinator import ConsumerCoordinator
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember, Data
from kgroup.simulation.consumer.member_timers import TimerKind
from kgroup.simulation.consumer.message import AnyAnswer, AnyRequest, IdPartition
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.settings import ConsumerSettings
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import Refusal
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

_NEWEST_ASSIGNMENT = 3


class World(coordinator.World, Interface):
    """Where answers and records go, and where ids come from."""

    def answer(self, request: AnyRequest, answer: AnyAnswer) -> None:
        """Answer a request."""


class ClassicMembers(ConsumerCoordinator):
    """The consumer groups of a broker, with requests of both protocols.

    Args:
        settings: of the broker.
        world: what is around it.
        topics: of the cluster.
    """

    _world: World

    def __init__(
        self, settings: ConsumerSettings, world: World, topics: TopicImage | None = None
    ) -> None:
        super().__init__(settings, world, topics)

    def join_member(self, group: ConsumerGroup, request: JoinGroup) -> None:
        """Take a member in, or give it what it may have now (`classicGroupJoinToConsumerGroup`)."""
        try:
            records, answer = self._join_member(group, request)
        except Refusal as refusal:
            self._world.answer(request, JoinAnswer(refusal.code))
            return
        self._apply(records)
        self._timers.cancel(TimerKind.JOIN, group.group_id, answer.member_id)
        if group.group_id in self.groups and answer.error is ErrorCode.NONE:
            self._expect(group.group_id, answer.member_id, request.session_timeout_ms)
            self._expect_step(TimerKind.SYNC, group, answer.member_id, request.rebalance_timeout_ms)
        self._world.answer(request, answer)

    def sync_member(self, group: ConsumerGroup, request: SyncGroup) -> None:
        """Tell a member what it has (`classicGroupSyncToConsumerGroup`)."""
        try:
            member = _own_member(group, request)
            _check_protocol(member, request)
            waits = member.state is not MemberState.UNREVOKED_PARTITIONS
            if group.assignment_epoch > member.epoch and waits:
                self._expect_join(group, member)
                raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        except Refusal as refusal:
            self._world.answer(request, SyncAnswer(refusal.code))
            return
        assert member.classic is not None
        self._timers.cancel(TimerKind.SYNC, group.group_id, member.member_id)
        self._expect(group.group_id, member.member_id, member.classic["sessionTimeoutMs"])
        metadata = protocols_of(member.classic)[0].metadata
        assignment = encoded_assignment(member.assigned, self.topics, metadata)
        self._world.answer(
            request, SyncAnswer(ErrorCode.NONE, assignment, request.protocol_type, request.protocol)
        )

    def beat_member(self, group: ConsumerGroup, request: Heartbeat) -> None:
        """Keep a member, and have it join again if there is something to give up or to get.

        Kafka: `classicGroupHeartbeatToConsumerGroup`.
        """
        code = ErrorCode.NONE
        try:
            member = _own_member(group, request)
        except Refusal as refusal:
            self._world.answer(request, HeartbeatAnswer(refusal.code))
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
        self._world.answer(request, HeartbeatAnswer(code))

    def leave_members(self, group: ConsumerGroup, request: LeaveGroup) -> None:
        """Remove members, whatever they speak (`classicGroupLeaveToConsumerGroup`)."""
        found: list[tuple[LeavingMember, ErrorCode]] = []
        leaving: dict[str, ConsumerMember] = {}
        for each in request.members:
            try:
                member = _leaving_member(group, each)
            except Refusal as refusal:
                found.append((each, refusal.code))
            else:
                found.append((each, ErrorCode.NONE))
                leaving[member.member_id] = member
        code = ErrorCode.NONE
        try:
            if leaving:
                self._apply(self._let_go(group, list(leaving.values()), Cause.MEMBER_LEFT))
        except Refusal as refusal:
            code, found = refusal.code, []
        self._world.answer(request, LeaveAnswer(code, tuple(found)))

    # --- join -----------------------------------------------------------------------------------

    def _join_member(
        self, group: ConsumerGroup, request: JoinGroup
    ) -> tuple[list[Record], JoinAnswer]:
        member_id = request.member_id or self._world.new_uuid()
        validation.check_size(group, member_id, self._settings.max_size)
        _check_protocols(group, request.protocol_type, request.protocols)
        if not request.member_id and request.instance_id is None and request.version >= 4:
            return [], JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        records: list[Record] = []
        member = self._joining_member(group, request, member_id, records)
        subscription = decode_subscription(request.protocols[0].metadata)
        if "topics" not in subscription:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # which Kafka throws
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
        self, group: ConsumerGroup, request: JoinGroup, member_id: str, records: list[Record]
    ) -> ConsumerMember:
        """Return the member as it was; of a static one that comes back, in its own place."""
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
        owned: frozenset[IdPartition],
        records: list[Record],
    ) -> ConsumerMember:
        """Bring the member to where it can be; return it there.

        Args:
            group: that it joins.
            member: as it was.
            updated: with what it says now.
            instance_id: that it names.
            owned: what it says it has.
            records: that are to be written.
        """
        subscribed, is_new = self._note_member(group, member, updated, records)
        goal = self._update_target(group, member, updated, subscribed, records)
        return self._reconcile(group, updated, goal, is_new, owned, records)

    def _owned(self, subscription: Data) -> frozenset[IdPartition]:
        """Read what a member says it has; nothing in versions that do not say it."""
        topics = [
            (self.topics.get(each["topic"]), each["partitions"])
            for each in subscription.get("ownedPartitions") or ()
        ]
        return frozenset(
            (topic.topic_id, number)
            for topic, numbers in topics
            if topic is not None
            for number in numbers
        )

    # --- what time does -------------------------------------------------------------------------

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
        """Remove a member if it does not join, or sync, in its rebalance timeout."""
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
    """Return what records keep of a member that speaks the classic protocol."""
    return {
        "sessionTimeoutMs": session_timeout_ms,
        "supportedProtocols": [
            {"name": each.name, "metadata": base64_text(each.metadata)} for each in protocols
        ],
    }


def protocols_of(classic: Data) -> list[Protocol]:
    """Return the protocols of a member, as it said them."""
    return [
        Protocol(each["name"], base64_bytes(each["metadata"]))
        for each in classic["supportedProtocols"]
    ]


def encoded_assignment(
    partitions: Iterable[IdPartition], topics: TopicImage, metadata: bytes
) -> bytes:
    """Encode an assignment in the version of a member's subscription."""
    by_name: dict[str, list[int]] = {}
    for topic_id, number in partitions:
        if (name := topics.name_of(topic_id)) is not None:
            by_name.setdefault(name, []).append(number)
    return encode_assignment(
        {
            "version": min(unpack_from(">h", metadata)[0], _NEWEST_ASSIGNMENT),
            "assignedPartitions": [
                {"topic": name, "partitions": numbers} for name, numbers in by_name.items()
            ],
            "userData": None,
        }
    )


def _own_member(group: ConsumerGroup, request: SyncGroup | Heartbeat) -> ConsumerMember:
    """Return the member that sends a request, which must speak the classic protocol."""
    member = validation.own_member(group, request)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != request.generation_id:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION)
    return member


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.instance_id is None:
        return validation.known_member(group, leaving.member_id)
    member = validation.static_member(group, leaving.instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if leaving.member_id not in ("", member.member_id):
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
    return member


def _check_protocols(
    group: ConsumerGroup, protocol_type: str, protocols: Sequence[Protocol]
) -> None:
    """Let nobody in who shares no protocol with the others (`supportsClassicProtocols`)."""
    others = [each.classic for each in group.members.values() if each.classic is not None]
    counts = Counter(each["name"] for other in others for each in other["supportedProtocols"])
    if protocol_type != CONSUMER or not any(counts[each.name] == len(others) for each in protocols):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _check_protocol(member: ConsumerMember, request: SyncGroup) -> None:
    """Kafka: `throwIfClassicProtocolUnmatched`."""
    assert member.classic is not None
    protocol = protocols_of(member.classic)[0].name
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _waits_for_release(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Tell whether others have something that it shall have (`waitingOnUnreleasedPartition`)."""
    missing = (each for each in group.targets[member.member_id] if each not in member.assigned)
    return any(map(group.is_held, missing))
