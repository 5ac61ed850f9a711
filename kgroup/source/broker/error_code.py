"""Error codes of brokers: those that something follows from here, and the names of all."""

from collections.abc import Mapping
from enum import IntEnum

import kafka.errors as kafka_errors

__all__ = ["COORDINATOR_MOVES", "LEADER_MOVES", "ErrorCode", "error_name", "what_it_needs"]


class ErrorCode(IntEnum):
    """The codes that kgroup acts on or explains, by the names of Kafka's `Errors`."""

    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78


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
"""The partition has, or gets, another leader."""

COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The group has, or gets, another coordinator."""

_NEEDS: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "it needs DESCRIBE on the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "it needs DESCRIBE on the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "it needs DESCRIBE on the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "it needs DESCRIBE on the transactional id",
}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code: "NOT_COORDINATOR"."""
    kind = kafka_errors.for_code(code)
    return str(getattr(kind, "message", kind.__name__))


def what_it_needs(code: int) -> str | None:
    """Say which permission is missing, where an error code says that one is."""
    return _NEEDS.get(code)
