"""The client libraries that are told apart, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple

from kgroup.word import Word

KAFKA_CLIENTS = "kafka-clients"
"""Kafka's own, in Java."""
LIBRDKAFKA = "librdkafka"
FRANZ_GO = "franz-go"
SARAMA = "sarama"
KAFKA_GO = "kafka-go"
KAFKA_PYTHON = "kafka-python"
KAFKAJS = "kafkajs"
RUBY_KAFKA = "ruby-kafka"


class Certainty(Word):
    """How sure it is that a member is of a library."""

    CERTAIN = ("certain", "No other library that is known writes such bytes.")
    INFERRED = (
        "inferred",
        "Other libraries may write such bytes too; the client id is the default of this one.",
    )


class Recognition(NamedTuple):
    """A library, and how sure that is."""

    name: str
    certainty: Certainty
