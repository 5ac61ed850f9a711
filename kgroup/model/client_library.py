"""Client library of the members of classic groups, inferred from the bytes that clients send.

Libraries differ in few details: the version of the message, the encoding of missing user
data, the user data of sticky strategies, the encoding of a missing rack, and the order of
topics. There are more libraries than the known ones. Therefore, a library is certain only if
the bytes have a mark, which no other library is known to write (`_MARKS`). That no other known
library writes the rest of the bytes is not enough: then the library is inferred. So it is if the
client id is the library's default, because any application may choose any client id.

The bytes that libraries write were recorded from their groups (`tests/data/clients`); for
earlier versions, they come from the sources. ruby-kafka 1.5.0 was seen with such bytes.
node-rdkafka, @confluentinc/kafka-javascript and rdkafka of Rust contain librdkafka, and write what
it writes.
kafka-rust 0.10 and rskafka 0.6 never join a group: they have no JoinGroup request. samsa 0.1 sends
what none of the known libraries sends. krafka 0.27, kacrab 0.2 and kafka_client 0.5 of Rust send
what others may send, too, so that this is no mark of those.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise, product
from struct import Struct, error
from typing import Any, NamedTuple

from kgroup.described_enum import DescribedEnum
from kgroup.model.record import known

KAFKA_CLIENTS = "kafka-clients"
"""Kafka's own library, in Java."""
LIBRDKAFKA = "librdkafka"
FRANZ_GO = "franz-go"
SARAMA = "sarama"
KAFKA_GO = "kafka-go"
KAFKA_PYTHON = "kafka-python"
KAFKAJS = "kafkajs"
RUBY_KAFKA = "ruby-kafka"
AIOKAFKA = "aiokafka"
KAFKA_NODE = "kafka-node"
KAFKA_TS = "kafka-ts"
PLATFORMATIC = "@platformatic/kafka"


class Certainty(DescribedEnum):
    """How certain the identification of a client library is."""

    CERTAIN = ("certain", "The bytes contain what no other library is known to write.")
    INFERRED = (
        "inferred",
        "Other libraries may send the same bytes; the client id is this library's default, or the "
        "known libraries send others.",
    )


class Recognition(NamedTuple):
    """What a member's bytes and client id say about its client library.

    Attributes:
        name: name of the library; None if unknown.
        certainty: how certain the library is.
        evidence: sentence on what shows the library, or which libraries it may be.
        candidates: known libraries that send such bytes, sorted.
    """

    name: str | None = None
    certainty: Certainty | None = None
    evidence: str | None = None
    candidates: tuple[str, ...] = ()


_HEAD = Struct(">hi")
_INT16 = Struct(">h")
_INT32 = Struct(">i")


def generation_before(generation_id: int | None, user_data: Any) -> int | None:
    """Return the generation that a member was in before it joined; None if none, or unknown.

    Before version 2 of the message, the only place for it is the user data of cooperative-sticky
    (`CooperativeStickyAssignor.subscriptionUserData`).

    Args:
        generation_id: field of the subscription; None before version 2.
        user_data: decoded user data of the subscription.
    """
    if generation_id is None and _form(user_data) is _GENERATION:
        generation_id = user_data["generation"]
    return known(generation_id)


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
    DATED_MEMORY = auto()  # partitions, and a generation
    FORGOTTEN = auto()  # an empty list of partitions, and a generation
    UNDATED_MEMORY = auto()  # partitions, and -1 instead of the generation that assigned them
    GENERATION = auto()  # only a generation
    VERSIONED = auto()  # other data that begins with a version
    OTHER = auto()


_NULL, _EMPTY, _OTHER = _UserData.NULL, _UserData.EMPTY, _UserData.OTHER
_NO_MEMORY, _MEMORY, _DATED = _UserData.NO_MEMORY, _UserData.MEMORY, _UserData.DATED_MEMORY
_UNDATED, _FORGOTTEN = _UserData.UNDATED_MEMORY, _UserData.FORGOTTEN
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
    _signature(KAFKA_CLIENTS, _STICKY, [0], _EMPTY, _NO_MEMORY, _MEMORY, _DATED, _FORGOTTEN),
    # from 2.4; topics are sorted from 2.8.1 on
    _signature(KAFKA_CLIENTS, _EAGER, [1], _NULL),
    _signature(KAFKA_CLIENTS, _STICKY, [1], _NULL, _DATED, _FORGOTTEN),
    _signature(KAFKA_CLIENTS, _COOPERATIVE, [1], _NULL, _GENERATION),
    _signature(KAFKA_CLIENTS, _EAGER, [2, 3], _NULL, in_order=True),
    _signature(KAFKA_CLIENTS, _STICKY, [2, 3], _NULL, _DATED, _FORGOTTEN, in_order=True),
    _signature(KAFKA_CLIENTS, _COOPERATIVE, [2, 3], _GENERATION, in_order=True),
    _signature(KAFKA_CLIENTS, _STREAM, [0, 1, 2, 3], *_ANY),
    # until 1.5, until 2.2, then
    _signature(LIBRDKAFKA, _EAGER, [0], _EMPTY),
    _signature(LIBRDKAFKA, _EAGER, [1, 3], _EMPTY, no_rack=""),
    _signature(LIBRDKAFKA, _COOPERATIVE, [1, 3], _EMPTY, _DATED, no_rack=""),
    # until 1.14, then; members of sticky forget their partitions before they join again
    _signature(FRANZ_GO, _EAGER, [0], _NULL, in_order=True),
    _signature(FRANZ_GO, _STICKY, [0], _NO_MEMORY, _FORGOTTEN, in_order=True),
    _signature(FRANZ_GO, _COOPERATIVE, [1], _NO_MEMORY, _DATED, in_order=True),
    _signature(FRANZ_GO, _EAGER, [3], _NULL, in_order=True),
    _signature(FRANZ_GO, _STICKY, [3], _NO_MEMORY, _FORGOTTEN, in_order=True),
    _signature(FRANZ_GO, _COOPERATIVE, [3], _NO_MEMORY, _DATED, in_order=True),
    # until 1.4x, then by the version of Kafka that the application names
    _signature(SARAMA, _EAGER, [0, 1, 2], _NULL),
    _signature(SARAMA, _STICKY, [0, 1, 2], _NULL, _DATED, _FORGOTTEN),
    _signature(SARAMA, _COOPERATIVE, [0, 1, 2], _NULL, _GENERATION),  # from 1.60.1
    _signature(KAFKA_GO, _EAGER, [1], _NULL, is_short=True),
    _signature(KAFKA_GO, _RACK_AFFINITY, [1], _NULL, _EMPTY, _OTHER, is_short=True),
    _signature(KAFKA_PYTHON, _EAGER, [0], _EMPTY),
    _signature(KAFKA_PYTHON, _STICKY, [0], _EMPTY, _DATED, _FORGOTTEN, _VERSIONED),
    _signature(KAFKA_PYTHON, _COOPERATIVE, [1], _EMPTY, in_order=True),
    # 1, then 2
    _signature(KAFKAJS, _KAFKAJS, [1], _EMPTY, is_short=True),
    _signature(KAFKAJS, _KAFKAJS, [0], _EMPTY),
    _signature(KAFKA_TS, _KAFKAJS, [0], _EMPTY),
    _signature(RUBY_KAFKA, _ROUNDROBIN, [0], _NULL),
    _signature(AIOKAFKA, _EAGER, [0], _EMPTY),
    _signature(AIOKAFKA, _STICKY, [0], _EMPTY, _UNDATED),
    _signature(KAFKA_NODE, _EAGER, [0], _NULL),
    # until 2.11, then
    _signature(PLATFORMATIC, _ROUNDROBIN, [1], _NULL, is_short=True),
    _signature(PLATFORMATIC, _ROUNDROBIN, [1], _NULL, in_order=True),
    _signature(PLATFORMATIC, _COOPERATIVE, [1], _GENERATION, in_order=True),
    _signature(PLATFORMATIC, _COOPERATIVE, [2, 3], _NULL, in_order=True),
)

_ONE_TIMEOUT = frozenset({KAFKA_NODE})
"""Libraries that send JoinGroup of version 0: the session timeout is the rebalance timeout, too."""

_NEVER_STATIC = frozenset({KAFKA_GO, KAFKA_NODE, KAFKAJS, RUBY_KAFKA})
"""Libraries whose members have no instance id, in any version."""

_ASSIGNMENTS = (
    _signature(KAFKA_CLIENTS, _EAGER | _STICKY, [0], _EMPTY),  # until 2.3
    _signature(KAFKA_CLIENTS, _EAGER | _STICKY | _COOPERATIVE, [1, 2, 3], _NULL),
    _signature(KAFKA_CLIENTS, _STREAM, [0, 1, 2, 3], *_ANY),
    # It returns members their own user data.
    _signature(LIBRDKAFKA, _EAGER | _COOPERATIVE, [0], *_ANY),
    _signature(FRANZ_GO, _EAGER | _STICKY | _COOPERATIVE, [0], _NULL, in_order=True),
    _signature(SARAMA, _EAGER | _COOPERATIVE, [0], _NULL),
    _signature(SARAMA, _STICKY, [0], _NULL, _OTHER),
    _signature(KAFKA_GO, _EAGER | _RACK_AFFINITY, [1], _NULL),
    _signature(KAFKA_PYTHON, _EAGER | _STICKY | _COOPERATIVE, [0, 1], _EMPTY, in_order=True),
    _signature(KAFKAJS, _KAFKAJS, [0, 1], _EMPTY),
    _signature(KAFKA_TS, _KAFKAJS, [0], _EMPTY),
    _signature(RUBY_KAFKA, _ROUNDROBIN, [0], _NULL),
    _signature(AIOKAFKA, _EAGER | _STICKY, [0], _EMPTY, in_order=True),
    _signature(KAFKA_NODE, _EAGER, [0], _NULL),
    _signature(PLATFORMATIC, _ROUNDROBIN, [0], _EMPTY, _NULL),  # until 1, then
    _signature(PLATFORMATIC, _COOPERATIVE, [3], _NULL),  # from 2.12
)


class _Mark(NamedTuple):
    """What only one library writes, as far as known.

    Attributes:
        library: name of the library.
        text: what it is, for people.
        strategies: strategies for which the library writes it.
        is_in: returns whether a subscription has it.
    """

    library: str
    text: str
    strategies: frozenset[str]
    is_in: Callable[[Data], bool]


class _LeaderMark(NamedTuple):
    """What only one library writes as the leader, as far as known; see `_Mark`.

    Attributes:
        is_in: returns whether an assignment has it.
        subscribes: returns whether the subscription of the leader is like that of its library.
    """

    library: str
    text: str
    strategies: frozenset[str]
    is_in: Callable[[Data], bool]
    subscribes: Callable[[Data], bool]


def _is_short(subscription: Data) -> bool:
    """Return whether a subscription omits the fields added in version 1."""
    return subscription["version"] > 0 and "ownedPartitions" not in subscription


def _is_in_order(topics: Sequence[str]) -> bool:
    return all(first < other for first, other in pairwise(topics))


_BUILT_IN = _EAGER | _STICKY | _COOPERATIVE

_MARKS = (
    _Mark(
        KAFKA_CLIENTS,
        "a generation alone as user data of cooperative-sticky, in version 3 of the message",
        _COOPERATIVE,
        lambda said: said["version"] == 3 and _form(said["userData"]) is _GENERATION,
    ),
    _Mark(KAFKA_CLIENTS, "the strategy of Kafka Streams", _STREAM, lambda said: True),
    _Mark(
        LIBRDKAFKA,
        "a rack of length 0 instead of none",
        _EAGER | _COOPERATIVE,
        lambda said: said.get("rackId") == "",
    ),
    _Mark(
        LIBRDKAFKA,
        "user data of length 0 instead of none, together with owned partitions",
        _EAGER,
        lambda said: "ownedPartitions" in said and _form(said["userData"]) is _EMPTY,
    ),
    _Mark(
        FRANZ_GO,
        "partitions as user data of cooperative-sticky, and no rack, in version 3 of the message",
        _COOPERATIVE,
        lambda said: (
            said["version"] == 3
            and _form(said["userData"]) in (_NO_MEMORY, _DATED)
            and said.get("rackId") is None
        ),
    ),
    _Mark(
        SARAMA,
        "a generation in the user data, but none outside of it, in version 2 of the message",
        _STICKY,
        lambda said: (
            said["version"] == 2
            and _form(said["userData"]) in (_DATED, _FORGOTTEN)
            and said["userData"]["generation"] >= 0 > said["generationId"]
        ),
    ),
    _Mark(KAFKA_GO, "its own strategy rack-affinity", _RACK_AFFINITY, _is_short),
    _Mark(
        KAFKA_PYTHON,
        "a version at the start of the user data of sticky",
        _STICKY,
        lambda said: said["version"] == 0 and _form(said["userData"]) is _VERSIONED,
    ),
    _Mark(
        KAFKA_PYTHON,
        "owned partitions with user data of length 0",
        _COOPERATIVE,
        lambda said: bool(said.get("ownedPartitions")) and _form(said["userData"]) is _EMPTY,
    ),
    _Mark(
        KAFKAJS,
        "RoundRobinAssigner in version 1 of the message",
        _KAFKAJS,
        lambda said: said["version"] == 1,
    ),
)

_LEADER_MARKS = (
    _LeaderMark(
        KAFKA_CLIENTS,
        "assignments in version 2 or 3 of the message",
        _EAGER | _STICKY,
        lambda given: given["version"] in (2, 3) and given["userData"] is None,
        lambda said: not _is_short(said),  # which Java's leader cannot read
    ),
    _LeaderMark(
        KAFKA_CLIENTS,
        "assignments in version 2 or 3 of the message, and a generation alone in subscriptions",
        _COOPERATIVE,
        lambda given: given["version"] in (2, 3) and given["userData"] is None,
        lambda said: said["version"] > 1 and _form(said["userData"]) is _GENERATION,
    ),
    _LeaderMark(
        KAFKA_CLIENTS,
        "assignments in version 1 of the message without user data",
        _BUILT_IN,
        lambda given: given["version"] == 1 and given["userData"] is None,
        lambda said: "ownedPartitions" in said,
    ),
    _LeaderMark(
        FRANZ_GO,
        "assignments in version 0 without user data, and subscriptions in version 3 without a rack",
        _BUILT_IN,
        lambda given: given["version"] == 0 and given["userData"] is None,
        lambda said: said["version"] == 3 and said["rackId"] is None,
    ),
    _LeaderMark(
        SARAMA,
        "assignments in version 0 without user data, and a generation alone in subscriptions",
        _COOPERATIVE,
        lambda given: given["version"] == 0 and given["userData"] is None,
        lambda said: said["version"] in (1, 2) and _form(said["userData"]) is _GENERATION,
    ),
    _LeaderMark(
        SARAMA,
        "user data in assignments of sticky",
        _STICKY,
        lambda given: given["version"] == 0 and _form(given["userData"]) is _OTHER,
        lambda said: said["version"] in (0, 1, 2),
    ),
    _LeaderMark(
        PLATFORMATIC,
        "assignments in version 0, and subscriptions in version 1 without its fields",
        _ROUNDROBIN,
        lambda given: given["version"] == 0,
        lambda said: said["version"] == 1 and _is_short(said),
    ),
    _LeaderMark(
        KAFKA_GO,
        "assignments in version 1, and subscriptions in version 1 without its fields",
        _EAGER,
        lambda given: given["version"] == 1 and given["userData"] is None,
        lambda said: said["version"] == 1 and _is_short(said),
    ),
)

_DEFAULT_CLIENT_IDS: Mapping[str, re.Pattern[str]] = {
    LIBRDKAFKA: re.compile("rdkafka"),
    FRANZ_GO: re.compile("kgo"),
    SARAMA: re.compile("sarama"),
    KAFKA_GO: re.compile(r".*\(github\.com/segmentio/kafka-go\)"),
    KAFKA_PYTHON: re.compile(r"kafka-python-\d+(\.\w+)+"),
    KAFKAJS: re.compile("kafkajs"),
    RUBY_KAFKA: re.compile("ruby-kafka"),
    AIOKAFKA: re.compile(r"aiokafka-\d+(\.\w+)+"),
    KAFKA_NODE: re.compile("kafka-node-client"),
    KAFKA_TS: re.compile(""),
}
"""Default client ids; those of kafka-clients contain the group id, see `_is_default`."""


def recognize(
    group_id: str, strategy: str | None, leader_id: str | None, members: Sequence[Data]
) -> list[Recognition]:
    """Return what is known of the library of each member.

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
        marks = _marks(strategy, member)
        if member["memberId"] == leader_id and assigning is not None:
            libraries &= assigning
            marks = _leader_marks(strategy, [member], members) | marks
        recognitions.append(_decided(libraries, marks, group_id, member))
    return recognitions


def recognize_again(
    group_id: str, strategy: str | None, member: Data, before: Recognition
) -> Recognition:
    """Recognize the library of a member that an older version of kgroup described.

    A snapshot keeps neither the version of the subscription nor whether user data or a rack is
    absent or empty. If it has candidates, those that do not send such bytes are left out. Without
    candidates, its version knew fewer libraries: what it was certain of holds unless a library that
    it did not know sends such bytes. If it was not certain, the bytes are none of those that only
    one library sends that it knew; of sticky strategies, it knew less.

    Args:
        group_id: id of a classic group of consumers.
        strategy: name of the assignor that its members agreed on.
        member: the member, with the fields of the subscription that were kept.
        before: what that version said.
    """
    is_certain = before.certainty is Certainty.CERTAIN
    is_open = not is_certain and not before.candidates and strategy in _EAGER
    possible: set[str] = set()
    is_doubtful = False
    for version, data in _possible_subscriptions(member["subscription"]):
        libraries = _subscribing(strategy, {**member, "subscription": data})
        if is_certain and before.name not in libraries:
            continue
        if is_open and len(libraries - _KNOWN_LATER) == 1:
            continue
        possible |= libraries
        is_doubtful |= not libraries.isdisjoint(_KNOWN_LATER)
        is_doubtful |= SARAMA in libraries and strategy in _COOPERATIVE and version < 2
    if before.candidates:
        possible &= {*before.candidates}
        if before.name is not None or not possible or len(possible) == len(before.candidates):
            return before
    candidates = tuple(sorted(possible))
    if before.name in possible and not (is_doubtful and is_certain):
        return before._replace(candidates=candidates)
    return _decided(frozenset(possible), {}, group_id, member)


_KNOWN_LATER = frozenset({AIOKAFKA, KAFKA_NODE, KAFKA_TS, PLATFORMATIC})


def _possible_subscriptions(kept: Data) -> Iterator[tuple[int, Data]]:
    """Yield the subscriptions, with their versions, of which some fields were kept."""
    owned, generation, rack = kept["ownedPartitions"], kept["generationId"], kept["rackId"]
    user_data = kept["userData"]
    remembered = user_data.get("generation") if isinstance(user_data, Mapping) else None
    is_alone = (
        isinstance(remembered, int) and remembered >= 0 and "previousAssignment" not in user_data
    )
    first = 2 if generation is not None else 1 if owned is not None else 0
    last = 1 if generation is None and is_alone else 3  # later, it is sent twice
    forms = product([user_data] if user_data else [None, ""], [rack] if rack else [None, ""])
    for version, (form, no_rack) in product(range(first, last + 1), [*forms]):
        data = {"version": version, "topics": kept["topics"], "userData": form}
        if owned is not None:
            data["ownedPartitions"] = owned
        if version > 1:
            data["generationId"] = -1 if generation is None else generation
        if version > 2:
            data["rackId"] = no_rack
        yield version, data


def leading_library(strategy: str | None, members: Sequence[Data]) -> str | None:
    """Return the library of the leader, if it is certain whoever leads.

    The assignments that it wrote show it: all of them have to be like those of the library, since
    a leader that returns each member its own user data writes assignments with marks of others. The
    arguments are those of `recognize`.
    """
    libraries = _leader_marks(strategy, members, members).keys() & (
        _assigning(strategy, members) or ()
    )
    return libraries.pop() if len(libraries) == 1 else None


def _marks(strategy: str | None, member: Data) -> dict[str, str]:
    """Return libraries whose mark a subscription has, with the marks."""
    data = readable(member.get("subscription"))
    if data is None or "trailing" in data:
        return {}
    return {
        mark.library: f"subscriptions with {mark.text}"
        for mark in _MARKS
        if strategy in mark.strategies and mark.is_in(data)
    }


def _leader_marks(
    strategy: str | None, leaders: Iterable[Data], members: Sequence[Data]
) -> dict[str, str]:
    """Return libraries whose mark is in the assignments, with the marks.

    Args:
        strategy: name of the assignor.
        leaders: the leader, or all members if it is unknown.
        members: all members, with their assignments.
    """
    subscriptions = [readable(leader.get("subscription")) for leader in leaders]
    assignments = [
        data
        for member in members
        if isinstance(data := member.get("assignment"), Mapping) and "assignedPartitions" in data
    ]
    return {
        mark.library: mark.text
        for mark in _LEADER_MARKS
        if strategy in mark.strategies
        and any(map(mark.is_in, assignments))
        and all(said is not None and mark.subscribes(said) for said in subscriptions)
    }


def _decided(
    libraries: frozenset[str], marks: Mapping[str, str], group_id: str, member: Data
) -> Recognition:
    candidates = tuple(sorted(libraries))
    marked = [library for library in candidates if library in marks]
    if len(marked) == 1:
        text = f"No other library is known to write {marks[marked[0]]}."
        return Recognition(marked[0], Certainty.CERTAIN, text, (marked[0],))
    named = [library for library in candidates if _is_default(library, group_id, member)]
    if len(named) == 1:
        text = f"Its client id is the default of {named[0]}."
        return Recognition(named[0], Certainty.INFERRED, text, candidates)
    if len(candidates) == 1:
        text = f"Of the known libraries, only {candidates[0]} sends such bytes."
        return Recognition(candidates[0], Certainty.INFERRED, text, candidates)
    if not candidates:
        return Recognition(evidence="No known library sends such bytes.")
    return Recognition(None, None, f"{all_of(candidates)} send such bytes.", candidates)


def all_of(names: Sequence[str]) -> str:
    """Return names of libraries as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _is_default(library: str, group_id: str, member: Data) -> bool:
    """Return whether a library generates such a client id if the application sets none."""
    client_id, instance_id = member["clientId"] or "", member.get("groupInstanceId")
    if library != KAFKA_CLIENTS:
        pattern = _DEFAULT_CLIENT_IDS.get(library)  # some libraries have no default
        return pattern is not None and pattern.fullmatch(client_id) is not None
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
    is_short = _is_short(data)
    timeouts = [member.get(name) for name in ("sessionTimeout", "rebalanceTimeout")]
    is_one_timeout = None in timeouts or timeouts[0] == timeouts[1]
    return frozenset(
        signature.library
        for signature in _SUBSCRIPTIONS
        if (is_one_timeout or signature.library not in _ONE_TIMEOUT)
        and not (member.get("groupInstanceId") and signature.library in _NEVER_STATIC)
        and _fits(signature, strategy, data["version"], form, topics)
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
        and (not signature.in_order or _is_in_order(topics))
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
        raw = user_data.get("raw")
        is_versioned = isinstance(raw, str) and raw.startswith(_VERSION_1)
        return _VERSIONED if is_versioned else _OTHER
    if "previousAssignment" in user_data:
        if "generation" in user_data:
            if "trailing" in user_data:
                return _OTHER
            if not user_data["previousAssignment"]:
                return _FORGOTTEN
            return _UNDATED if user_data["generation"] < 0 else _DATED
        return _MEMORY if user_data["previousAssignment"] else _NO_MEMORY
    if "generation" not in user_data:
        return _OTHER
    if "trailing" in user_data:
        return _DATED
    return _GENERATION if user_data["generation"] else _NO_MEMORY
