"""Checks of requests to consumer groups, before anything changes.

Source: `throwIfConsumerGroupHeartbeatRequestIsInvalid` of `GroupCoordinatorService` and the
methods `throwIf...` of `GroupMetadataManager`, of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol as Interface

from kgroup.model.pattern import parse_regex
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    ConsumerGroupHeartbeat,
)


class RequestRefused(Exception):  # noqa: N818 -- not a program error
    """The coordinator refuses a request."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def check_request(request: ConsumerGroupHeartbeat, assignors: Collection[str]) -> None:
    """Refuse a heartbeat that is invalid for any group."""
    epoch = request.member_epoch
    needs_id = request.version >= 1 or epoch > 0 or epoch == LEAVE_EPOCH
    texts = (request.group_id, request.instance_id, request.rack_id)
    joins_wrongly = epoch == JOIN_EPOCH and (bool(request.owned) or not request.is_full)
    if (
        (needs_id and not request.member_id.strip())
        or any(text is not None and not text.strip() for text in texts)
        or joins_wrongly
        or (epoch == PAUSE_EPOCH and request.instance_id is None)
        or epoch < PAUSE_EPOCH
    ):
        raise RequestRefused(ErrorCode.INVALID_REQUEST)
    if request.assignor is not None and request.assignor not in assignors:
        raise RequestRefused(ErrorCode.UNSUPPORTED_ASSIGNOR)


def known_group(groups: Mapping[str, ConsumerGroup], group_id: str) -> ConsumerGroup:
    """Return a group, or refuse the request if it does not exist."""
    if (group := groups.get(group_id)) is None:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
    return group


def check_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Refuse a new member of a full group (`throwIfConsumerGroupIsFull`)."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED)


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """Refuse an epoch that is neither the member's current nor its previous one.

    The previous epoch (of a member that missed an answer) requires a report of owned partitions,
    all of which must be assigned to the member.
    Kafka: `throwIfConsumerGroupMemberEpochIsInvalid`.
    """
    epoch = request.member_epoch
    missed = member.previous_epoch == epoch < member.epoch and member.owns_all(request.owned)
    if epoch != member.epoch and not missed:
        raise RequestRefused(ErrorCode.FENCED_MEMBER_EPOCH)


def check_regex(regex: str) -> None:
    """Refuse an invalid regular expression (`throwIfRegularExpressionIsInvalid`)."""
    try:
        parse_regex(regex)
    except ValueError:
        raise RequestRefused(ErrorCode.INVALID_REGULAR_EXPRESSION) from None


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member, or refuse the request if it does not exist."""
    if (member := group.members.get(member_id)) is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerMember | None:
    """Return the member with an instance id; refuse the request if that member no longer exists."""
    member_id = group.statics.get(instance_id)
    return None if member_id is None else known_member(group, member_id)


class FromMember(Interface):
    """A request of a member."""

    @property
    def member_id(self) -> str:
        """Member id of the sender."""
        ...

    @property
    def instance_id(self) -> str | None:
        """Instance id of the sender, if it is a static member."""
        ...


def own_member(group: ConsumerGroup, request: FromMember) -> ConsumerMember:
    """Return the member that sends a request; an instance id in it must be its own."""
    if request.instance_id is None:
        return known_member(group, request.member_id)
    member = static_member(group, request.instance_id)
    if member is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_id != request.member_id:
        raise RequestRefused(ErrorCode.FENCED_INSTANCE_ID)
    return member
