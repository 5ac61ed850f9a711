"""Error codes, against kafka-python's table of them."""

from __future__ import annotations

import kafka.errors

from kgroup.protocol.error_code import ErrorCode

# What kafka-python calls otherwise, or does not know, by the names of Kafka's `Errors` (4.3.1).
KAFKA = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    17: "INVALID_TOPIC_EXCEPTION",
    128: "INVALID_REGULAR_EXPRESSION",
}


def test_codes_have_the_names_that_kafka_gives_them() -> None:
    names = {number: error.message for number, error in kafka.errors.kafka_errors.items()} | KAFKA
    for name, code in ErrorCode.__members__.items():  # two of one number too
        assert names[code.value] == name
