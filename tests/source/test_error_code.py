"""Error codes of brokers, against those of kafka-python."""

from __future__ import annotations

from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.error_code import error_name, what_it_needs

_OLD_NAMES = {
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NONE": "NO_ERROR",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",  # Kafka, until 2.6
    "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
    "INVALID_REGULAR_EXPRESSION": "UNKNOWN",  # to kafka-python
}


def test_names() -> None:
    for name, code in ErrorCode.__members__.items():  # with those that have another's number
        assert error_name(code) == _OLD_NAMES.get(name, name)
    unnamed = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert unnamed == (-1, 128)  # as in Kafka's `Errors`
    assert error_name(12345) == "UNKNOWN"


def test_what_is_missing_where_something_may_not_be_described() -> None:
    assert what_it_needs(ErrorCode.GROUP_AUTHORIZATION_FAILED) == "it needs DESCRIBE on the group"
    denied = {code for code in ErrorCode if what_it_needs(code) is not None}
    assert denied == {code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")}
    assert what_it_needs(ErrorCode.NOT_COORDINATOR) is None
    assert what_it_needs(12345) is None
