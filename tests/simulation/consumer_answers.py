"""What consumer groups answer and become, for the reference; `test_consumer_answers` holds it.

Sources: the methods `consumerGroup...` and `classicGroup...` of `GroupMetadataManager`,
`ConsumerGroup` and `OffsetMetadataManager` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.consumer.message import JOIN_EPOCH, LEAVE_EPOCH, PAUSE_EPOCH
from kgroup.simulation.message import (
    DeleteGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)

BEAT_EPOCH = JOIN_EPOCH + 1
"""Stands for any epoch of a member that is in the group."""

FOLLOWS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.ASSIGNING, GroupState.STABLE, GroupState.DEAD}),
    GroupState.ASSIGNING: frozenset(
        {GroupState.RECONCILING, GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.RECONCILING: frozenset(
        {GroupState.ASSIGNING, GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset(
        {GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.DEAD: frozenset({GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE}),
}
"""From each state of a consumer group to those in which a request, or time, may leave it."""

_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
_INVALID = (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_ASSIGNOR)
_CLASSIC = (*_MEMBER, ErrorCode.ILLEGAL_GENERATION)

REFUSALS: Mapping[type | int, tuple[ErrorCode, ...]] = {
    PAUSE_EPOCH: (*_MEMBER, *_INVALID),
    LEAVE_EPOCH: (*_MEMBER, *_INVALID),
    JOIN_EPOCH: (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        *_INVALID,
    ),
    BEAT_EPOCH: (
        *_MEMBER,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        *_INVALID,
    ),
    JoinGroup: (
        *_MEMBER,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ),
    SyncGroup: (*_CLASSIC, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    Heartbeat: (*_CLASSIC, ErrorCode.REBALANCE_IN_PROGRESS),
    LeaveGroup: _MEMBER,
    OffsetCommit: (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ),
    OffsetFetch: (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
    ),
    OffsetDelete: (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,),
    DeleteGroup: (ErrorCode.NON_EMPTY_GROUP,),
}
"""With what a group that has members may refuse each request, and heartbeats by their epochs."""
