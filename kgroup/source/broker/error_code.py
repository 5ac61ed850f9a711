"""Brokers' error codes: those of a moved leader or coordinator, missing permissions, names."""

from __future__ import annotations

from collections.abc import Mapping

import kafka.errors as kafka_errors

from kgroup.protocol.error_code import ErrorCode

LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""The partition has, or will have, another leader."""

COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The group has, or will have, another coordinator."""

_NEEDS: Mapping[int, str] = {  # resource of the missing permission
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code: "NOT_COORDINATOR"."""
    kind = kafka_errors.for_code(code)
    return str(getattr(kind, "message", kind.__name__))


def what_it_needs(code: int, operation: str = "DESCRIBE") -> str | None:
    """Return the missing permission if an error code means that one is missing."""
    what = _NEEDS.get(code)
    return None if what is None else f"it needs {operation} on the {what}"
