"""What error codes mean in answers to requests that change something."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.errors import ProblemKind
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.error_code import error_name, what_it_needs

OF_PARTITIONS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
"""Codes that keep one partition from being changed and no other; the rest is about the group,
though OffsetCommit gives it partition by partition (`OffsetCommitRequest.getErrorResponse`)."""

_ACTIVE = "it has members, for which only they may commit: stop or remove them"
_REASONS: Mapping[int, tuple[ProblemKind, str]] = {
    ErrorCode.ILLEGAL_GENERATION: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.UNKNOWN_MEMBER_ID: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.REBALANCE_IN_PROGRESS: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.NON_EMPTY_GROUP: (ProblemKind.ACTIVE, "it has members: stop or remove them"),
    ErrorCode.FENCED_MEMBER_EPOCH: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.STALE_MEMBER_EPOCH: (ProblemKind.ACTIVE, _ACTIVE),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        ProblemKind.ACTIVE,
        "members of the group subscribe to the topic: stop them, or let them drop it",
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: (
        ProblemKind.NOT_FOUND,
        "there is no such group, or it is of a type for which this cannot be done",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        ProblemKind.TOPIC_GONE,
        "the cluster has no such topic, or the topic no such partition",
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        ProblemKind.DENIED,
        "the broker takes metadata of offset.metadata.max.bytes at most, 4096 where nobody set it",
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: (
        ProblemKind.DENIED,
        "the commit is larger than max.message.bytes of __consumer_offsets",
    ),
}


def refused(code: int, operation: str) -> tuple[ProblemKind, str]:
    """Return kind and sentence of a problem; `operation` is the permission that is needed."""
    kind, reason = _REASONS.get(code, (ProblemKind.DENIED, what_it_needs(code, operation)))
    return kind, f"The cluster says {error_name(code)}{f' ({reason})' if reason else ''}."
