"""Client library of the members of classic groups, inferred from the bytes that clients send.

Libraries differ in few details: the version of the message, the encoding of missing user
data, the user data of sticky strategies, the encoding of a missing rack, and the order of
topics. A library is certain if no other library writes, or has ever written, such bytes.
Otherwise the client id may tell: each library has a default client id, but because any
application may choose any client id, the library is only inferred.

The bytes that libraries write were recorded from their groups (`tests/data/clients`); for
earlier versions, and for ruby-kafka, they come from the sources.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from struct import Struct, error
from typing import Any, NamedTuple

from kgroup.described_enum import DescribedEnum

KAFKA_CLIENTS = "kafka-clients"
"""Kafka's own library, in Java."""
LIBRDKAFKA = "librdkafka"
FRANZ_GO = "franz-go"
SARAMA = "sarama"
KAFKA_GO = "kafka-go"
KAFKA_PYTHON = "kafka-python"
KAFKAJS = "kafkajs"
RUBY_KAFKA = "ruby-kafka"


class Certainty(DescribedEnum):
    """How certain the identification of a client library is."""

    CERTAIN = ("certain", "No other known library sends such bytes.")
    INFERRED = (
        "inferred",
        "Other libraries may send the same bytes; the client id is this library's default.",
    )


class Recognition(NamedTuple):
    """A library, and how sure that is."""

    name: str
    certainty: Certainty


_HEAD = Struct(">hi")
_INT16 = Struct(">h")
_INT32 = Struct(">i")


def readable(subscription: Any) -> Mapping[str, Any] | None:
    """Return a decoded subscription, or the readable part of a truncated one; None for others.

    kafka-go and KafkaJS 1 write subscriptions with version 1 that end where version 0 does.
    Other clients read them; Kafka's own clients and brokers do not. Such a subscription is
    returned without "ownedPartitions"; its "userData" is base64 text.

    Wire layout: version int16, topics [string], user data bytes?.
    """
    if not isinstance(subscription, Mapping):
        return None
    if "topics" in subscription:
        return subscription
    if not isinstance(subscription.get("raw"), str):
        return None
    raw = b64decode(subscription["raw"])
    try:
        version, count, at = *_HEAD.unpack_from(raw), _HEAD.size
        topics = []
        for _ in range(count):
            size = _INT16.unpack_from(raw, at)[0]
            topics.append(raw[at + 2 : at + 2 + size].decode())
            at += 2 + size
        size = _INT32.unpack_from(raw, at)[0]
    except (error, UnicodeDecodeError):
        return None
    is_whole = len(raw) == at + 4 + max(size, 0)
    if version < 1 or count < 0 or not is_whole or not all(topics):
        return None
    user_data = None if size < 0 else b64encode(raw[at + 4 :]).decode()
    return {"version": version, "topics": topics, "userData": user_data}


Data = Mapping[str, Any]
"""A member, a subscription or an assignment, with Kafka's field names, as decoders return them."""


class _UserData(Enum):
    """The form of the data that an assignor has added."""

    NULL = auto()
    EMPTY = auto()
    NO_MEMORY = auto()  # an empty list of partitions
    MEMORY = auto()  # partitions
    DATED_MEMORY = auto()  # a list of partitions, and a generation
    GENERATION = auto()  # only a generation
    VERSIONED = auto()  # other data that begins with a version
    OTHER = auto()


_NULL, _EMPTY, _OTHER = _UserData.NULL, _UserData.EMPTY, _UserData.OTHER
_NO_MEMORY, _MEMORY, _DATED = _UserData.NO_MEMORY, _UserData.MEMORY, _UserData.DATED_MEMORY
_GENERATION, _VERSIONED = _UserData.GENERATION, _UserData.VERSIONED
_ANY = frozenset(_UserData)
_VERSION_1 = "AAE"
"""The start of an int16 1 in base64."""

_EAGER = frozenset({"range", "roundrobin"})
_ROUNDROBIN = frozenset({"roundrobin"})
_STICKY = frozenset({"sticky"})
_COOPERATIVE = frozenset({"cooperative-sticky"})
_STREAM = frozenset({"stream"})
_KAFKAJS = frozenset({"RoundRobinAssigner"})
_RACK_AFFINITY = frozenset({"rack-affinity"})


class _Signature(NamedTuple):
    """How a library encodes subscriptions.

    Attributes:
        library: name of the library.
        strategies: strategies for which it does so.
        versions: versions of the message that it writes.
        user_data: forms of user data that it writes.
        in_order: whether topics are always sorted.
        is_short: whether it omits the fields added in version 1, whatever version the message
            states.
        no_rack: how it encodes no rack, in versions of the message that have racks.
    """

    library: str
    strategies: frozenset[str]
    versions: frozenset[int]
    user_data: frozenset[_UserData]
    in_order: bool = False
    is_short: bool = False
    no_rack: str | None = None


def _signature(
    library: str,
    strategies: frozenset[str],
    versions: Iterable[int],
    *user_data: _UserData,
    in_order: bool = False,
    is_short: bool = False,
    no_rack: str | None = None,
) -> _Signature:
    forms = frozenset(user_data)
    return _Signature(library, strategies, frozenset(versions), forms, in_order, is_short, no_rack)


_SUBSCRIPTIONS = (
    # until 2.3
    _signature(KAFKA_CLIENTS, _EAGER, [0], _EMPTY),
    _signature(KAFKA_CLIENTS, _STICKY, [0], _EMPTY, _NO_MEMORY, _MEMORY, _DATED),
    # from 2.4; topics are sorted from 2.8.1 on
    _signature(KAFKA_CLIENTS, _EAGER, [1], _NULL),
    _signature(KAFKA_CLIENTS, _STICKY, [1], _NULL, _DATED),
    _signature(KAFKA_CLIENTS, _COOPERATIVE, [1], _NULL, _GENERATION),
    _signature(KAFKA_CLIENTS, _EAGER, [2, 3], _NULL, in_order=True),
    _signature(KAFKA_CLIENTS, _STICKY, [2, 3], _NULL, _DATED, in_order=True),
    _signature(KAFKA_CLIENTS, _COOPERATIVE, [2, 3], _GENERATION, in_order=True),
    _signature(KAFKA_CLIENTS, _STREAM, [0, 1, 2, 3], *_ANY),
    # until 1.5, until 2.2, then
    _signature(LIBRDKAFKA, _EAGER, [0], _EMPTY),
    _signature(LIBRDKAFKA, _EAGER, [1, 3], _EMPTY, no_rack=""),
    _signature(LIBRDKAFKA, _COOPERATIVE, [1, 3], _EMPTY, _DATED, no_rack=""),
    # until 1.14, then
    _signature(FRANZ_GO, _EAGER, [0], _NULL, in_order=True),
    _signature(FRANZ_GO, _STICKY, [0], _NO_MEMORY, _DATED, in_order=True),
    _signature(FRANZ_GO, _COOPERATIVE, [1], _NO_MEMORY, _DATED, in_order=True),
    _signature(FRANZ_GO, _EAGER, [3], _NULL, in_order=True),
    _signature(FRANZ_GO, _STICKY | _COOPERATIVE, [3], _NO_MEMORY, _DATED, in_order=True),
    # until 1.4x, then by the version of Kafka that the application names
    _signature(SARAMA, _EAGER, [0, 1, 2], _NULL),
    _signature(SARAMA, _STICKY, [0, 1, 2], _NULL, _DATED),
    _signature(KAFKA_GO, _EAGER, [1], _NULL, is_short=True),
    _signature(KAFKA_GO, _RACK_AFFINITY, [1], _NULL, _EMPTY, _OTHER, is_short=True),
    _signature(KAFKA_PYTHON, _EAGER, [0], _EMPTY),
    _signature(KAFKA_PYTHON, _STICKY, [0], _EMPTY, _DATED, _VERSIONED),
    _signature(KAFKA_PYTHON, _COOPERATIVE, [1], _EMPTY, in_order=True),
    # 1, then 2
    _signature(KAFKAJS, _KAFKAJS, [1], _EMPTY, is_short=True),
    _signature(KAFKAJS, _KAFKAJS, [0], _EMPTY),
    _signature(RUBY_KAFKA, _ROUNDROBIN, [0], _NULL),
)

_ASSIGNMENTS = (
    _signature(KAFKA_CLIENTS, _EAGER | _STICKY, [0], _EMPTY),  # until 2.3
    _signature(KAFKA_CLIENTS, _EAGER | _STICKY | _COOPERATIVE, [1, 2, 3], _NULL),
    _signature(KAFKA_CLIENTS, _STREAM, [0, 1, 2, 3], *_ANY),
    # It returns members their own user data.
    _signature(LIBRDKAFKA, _EAGER | _COOPERATIVE, [0], *_ANY),
    _signature(FRANZ_GO, _EAGER | _STICKY | _COOPERATIVE, [0], _NULL, in_order=True),
    _signature(SARAMA, _EAGER, [0], _NULL),
    _signature(SARAMA, _STICKY, [0], _NULL, _OTHER),
    _signature(KAFKA_GO, _EAGER | _RACK_AFFINITY, [0, 1], _NULL, _EMPTY),
    _signature(KAFKA_PYTHON, _EAGER | _STICKY | _COOPERATIVE, [0, 1], _EMPTY, in_order=True),
    _signature(KAFKAJS, _KAFKAJS, [0, 1], _EMPTY),
    _signature(RUBY_KAFKA, _ROUNDROBIN, [0], _NULL),
)

_DEFAULT_CLIENT_IDS: Mapping[str, re.Pattern[str]] = {
    LIBRDKAFKA: re.compile("rdkafka"),
    FRANZ_GO: re.compile("kgo"),
    SARAMA: re.compile("sarama"),
    KAFKA_GO: re.compile(r".*\(github\.com/segmentio/kafka-go\)"),
    KAFKA_PYTHON: re.compile(r"kafka-python-\d+(\.\w+)+"),
    KAFKAJS: re.compile("kafkajs"),
    RUBY_KAFKA: re.compile("ruby-kafka"),
}
"""Default client ids; those of kafka-clients contain the group id, see `_is_default`."""


def recognize(
    group_id: str, strategy: str | None, leader_id: str | None, members: Sequence[Data]
) -> list[Recognition | None]:
    """Return the library of each member; None if unknown.

    Args:
        group_id: id of a classic group of consumers.
        strategy: name of the assignor that its members agreed on.
        leader_id: member id of the leader; None if unknown; a sole member is the leader.
        members: members, with decoded subscription and assignment.
    """
    if len(members) == 1:
        leader_id = members[0]["memberId"]
    assigning = _assigning(strategy, members)
    recognitions = []
    for member in members:
        libraries = _subscribing(strategy, member)
        if member["memberId"] == leader_id and assigning is not None:
            libraries &= assigning
        recognitions.append(_decided(libraries, group_id, member))
    return recognitions


def leading_library(strategy: str | None, members: Sequence[Data]) -> str | None:
    """Return the library of the leader, whoever leads, from the assignments that it wrote.

    The arguments are those of `recognize`.
    """
    assigning = _assigning(strategy, members)
    if assigning is None:
        return None
    subscribing = frozenset(
        library for member in members for library in _subscribing(strategy, member)
    )
    libraries = assigning & subscribing
    return next(iter(libraries)) if len(libraries) == 1 else None


def always_told(strategy: str | None) -> frozenset[str]:
    """Return the libraries whose members are recognized by their bytes alone."""
    signatures = [signature for signature in _SUBSCRIPTIONS if strategy in signature.strategies]
    shared = {
        signature.library
        for signature in signatures
        for other in signatures
        if signature.library != other.library
        and signature.is_short == other.is_short
        and signature.versions & other.versions
        and signature.user_data & other.user_data
    }
    return frozenset(signature.library for signature in signatures) - shared


def _decided(libraries: frozenset[str], group_id: str, member: Data) -> Recognition | None:
    if len(libraries) == 1:
        (library,) = libraries
        return Recognition(library, Certainty.CERTAIN)
    named = [library for library in libraries if _is_default(library, group_id, member)]
    return Recognition(named[0], Certainty.INFERRED) if len(named) == 1 else None


def _is_default(library: str, group_id: str, member: Data) -> bool:
    """Return whether a library generates such a client id if the application sets none."""
    client_id, instance_id = member["clientId"] or "", member.get("groupInstanceId")
    if library != KAFKA_CLIENTS:
        return _DEFAULT_CLIENT_IDS[library].fullmatch(client_id) is not None
    # Kafka: `ConsumerConfig.maybeOverrideClientId`; without the group until 2.3
    number = rf"consumer-({re.escape(group_id)}-)?\d+"
    is_static = bool(instance_id) and client_id == f"consumer-{group_id}-{instance_id}"
    return is_static or re.fullmatch(number, client_id) is not None


def _subscribing(strategy: str | None, member: Data) -> frozenset[str]:
    """Return the libraries that write subscriptions like that of a member."""
    data = readable(member.get("subscription"))
    if data is None or "trailing" in data:
        return frozenset()
    topics = data["topics"]
    rack = data.get("rackId")
    form = _form(data["userData"])
    is_short = data["version"] > 0 and "ownedPartitions" not in data
    return frozenset(
        signature.library
        for signature in _SUBSCRIPTIONS
        if _fits(signature, strategy, data["version"], form, topics)
        and signature.is_short == is_short
        and (rack or "rackId" not in data or rack == signature.no_rack)
    )


def _assigning(strategy: str | None, members: Iterable[Data]) -> frozenset[str] | None:
    """Return libraries that write assignments like those of all members; None if there are none."""
    libraries: frozenset[str] | None = None
    for member in members:
        data = member.get("assignment")
        if isinstance(data, Mapping) and "assignedPartitions" in data:
            topics = [topic["topic"] for topic in data["assignedPartitions"]]
            form = _form(data["userData"])
            could = frozenset(
                signature.library
                for signature in _ASSIGNMENTS
                if _fits(signature, strategy, data["version"], form, topics)
            )
            libraries = could if libraries is None else libraries & could
    return libraries


def _fits(
    signature: _Signature,
    strategy: str | None,
    version: int,
    form: _UserData,
    topics: Sequence[str],
) -> bool:
    return (
        strategy in signature.strategies
        and version in signature.versions
        and form in signature.user_data
        and not (signature.in_order and any(first >= other for first, other in pairwise(topics)))
    )


def _form(user_data: Any) -> _UserData:
    """Return the form of user data, which was decoded by the name of the strategy.

    With Kafka's own cooperative-sticky the user data is a generation, preceded by the version
    1; other libraries have a list, whose length is then read as the generation; the rest is
    trailing.
    """
    if user_data is None:
        return _NULL
    if user_data == "":
        return _EMPTY
    if not isinstance(user_data, Mapping):
        return _OTHER
    if "error" in user_data:
        return _VERSIONED if user_data["raw"].startswith(_VERSION_1) else _OTHER
    if "previousAssignment" in user_data:
        if "generation" in user_data:
            return _OTHER if "trailing" in user_data else _DATED
        return _MEMORY if user_data["previousAssignment"] else _NO_MEMORY
    if "generation" not in user_data:
        return _OTHER
    if "trailing" in user_data:
        return _DATED
    return _GENERATION if user_data["generation"] else _NO_MEMORY
