"""Parse specs of groups from JSON: `kgroup assign --spec`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeVar
from uuid import UUID

import orjson

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.connect import CONNECTOR, configured_items
from kgroup.assignor.group_spec import CLIENTS, GroupSpec, newest, versions
from kgroup.assignor.kafka_streams import (
    CLASSIC_STREAMS,
    STREAMS_VERSIONS,
    StreamsApplication,
    StreamsSettings,
    StreamsTask,
)
from kgroup.assignor.member_spec import NEWEST_VERSION, MemberSpec, Software, UserData
from kgroup.assignor.strategy import strategies
from kgroup.errors import NotFoundError, ProblemKind, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.problem import Problem, ProblemLog
from kgroup.operation.assign.classic_streams import (
    SETTINGS,
    STANDBYS,
    as_task,
    set_streams_settings,
)
from kgroup.operation.assign.client import asked_software, later_note, software, version_of
from kgroup.operation.assign.connect import CONNECT, MOST_TASKS, connect_group, topics_of
from kgroup.operation.assign.streams import STREAMS, with_standbys
from kgroup.operation.report import Report
from kgroup.protocol.record.consumer_protocol import decode_subscription
from kgroup.source.json_fault import utf8_fault


def read_user_data(raw: bytes | None, strategy: str) -> UserData:
    """Decode a member's user data as the sticky assignors do.

    Source: `StickyAssignor.memberData` and `CooperativeStickyAssignor.memberData` of 4.3.1.

    Args:
        raw: user data; None if the member sent none.
        strategy: name of the assignor.
    """
    if raw is None or (not raw and strategy == "sticky"):
        return UserData()
    failure = _failure_in_1_1(raw) if strategy == "sticky" else None
    message = struct.pack(">hii", 0, 0, len(raw)) + raw  # a subscription of version 0
    data = decode_subscription(message, strategy)["userData"]
    if not isinstance(data, Mapping) or "error" in data:
        return UserData((), -1, failure)
    owned = data.get("previousAssignment")
    return UserData(
        None
        if owned is None
        else tuple((topic["topic"], number) for topic in owned for number in topic["partitions"]),
        data.get("generation"),
        failure,
        int.from_bytes(raw[4:8], "big", signed=True) if len(raw) >= 8 else -1,
    )


class _UnreadableError(Exception):
    """Has the message of Kafka's SchemaException."""


def _failure_in_1_1(raw: bytes) -> str | None:
    """Return the error of kafka-clients 1.1.1 for user data that later versions treat as empty.

    Layout: int32 count of topics; for each topic: int16 length and UTF-8 name, int32 count of
    partitions, int32 each. Trailing bytes are not read.

    Source: `StickyAssignor.deserializeTopicPartitionAssignment`, `Schema.read`, `ArrayOf.read`.
    """
    at = 0

    def number(size: int) -> int:
        nonlocal at
        if len(raw) - at < size:
            raise _UnreadableError("java.nio.BufferUnderflowException")
        at += size
        return int.from_bytes(raw[at - size : at], "big", signed=True)

    def sized(what: str, title: str, count: int) -> int:
        if count < 0:
            raise _UnreadableError(f"{title} {count} cannot be negative")
        if count > len(raw) - at:
            rest = f"only {len(raw) - at} bytes available"
            raise _UnreadableError(f"Error reading {what} {count}, {rest}")
        return count

    def field(name: str, read: Callable[[], None]) -> None:
        try:
            read()
        except _UnreadableError as error:
            raise _UnreadableError(f"Error reading field '{name}': {error}") from None

    def array(read: Callable[[], object]) -> None:
        for _ in range(sized("array of size", "Array size", number(4))):
            read()

    def text() -> None:
        nonlocal at
        length = sized("string of length", "String length", number(2))
        at += length

    def topic() -> None:
        field("topic", text)
        field("partitions", lambda: array(lambda: number(4)))

    try:
        field("previous_assignment", lambda: array(topic))
    except _UnreadableError as error:
        return str(error)
    return None


_T = TypeVar("_T")
_Known = dict[tuple[str, ...], tuple[str, ...]]
_PROTOCOLS = ("classic", "consumer", "share", "streams", CLASSIC_STREAMS, "connect", "zookeeper")
_SPEC_FIELDS = (
    "id", "protocol", "strategy", "kafka_version", "client", "topics", "topic_ids", "members",
)  # fmt: skip
_TOPIC_FIELDS = ("partitions", "racks", "leader_racks", "listed")
_MEMBER_FIELDS = (
    "member_id", "instance_id", "client_id", "topics", "owned", "generation", "rack",
    "protocol_version", "subscription_generation", "user_data", "client",
)  # fmt: skip
_CONNECT_FIELDS = (
    "id", "protocol", "strategy", "connectors", "leader", "max_delay_ms", "delay_left_ms",
    "members",
)  # fmt: skip
_STREAMS_FIELDS = ("id", "protocol", "strategy", "subtopologies", "standby_replicas", "members")
_SUBTOPOLOGY_FIELDS = ("tasks", "stateful")
_STREAMS_MEMBER_FIELDS = ("member_id", "client_id", "process_id", "active", "standby")
_APPLICATION_FIELDS = (*_STREAMS_FIELDS, "kafka_version", "settings")
_APPLICATION_SUBTOPOLOGY_FIELDS = (*_SUBTOPOLOGY_FIELDS, "records")
_THREAD_FIELDS = (*_STREAMS_MEMBER_FIELDS, "lags")
_WORKER_FIELDS = ("member_id", "client_id", "owned")
_CONSUMER_FIELDS = ("member_id", "topics", "streams", "owned")
MOST_PARTITIONS = 10_000_000
"""Maximum number of partitions of a topic; limits the memory use."""
_MOST_STREAMS = 100_000
_NUMBER = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)
_INT32 = range(-(1 << 31), 1 << 31)


_LARGE = 1 << 20
_MOST_VALUES = 10_000_000
"""Maximum number of commas in JSON: a value takes up to 72 bytes; a million members need half."""


class SpecError(ValueError):
    """A field of a spec is invalid; the message begins with its path."""


def read_specs(
    text: bytes,
    path: str,
    strategy: str | None = None,
    kafka_version: str | None = None,
    client: Software | None = None,
    on_group: Callable[[GroupSpec], None] = lambda spec: None,
) -> Report[GroupSpec]:
    """Parse one group from JSON, or several from JSON lines; invalid specs are errors.

    Notes name versions of libraries that are later than all known ones.

    Args:
        text: contents of the file.
        path: name of the file, for errors.
        strategy: strategy to use instead of that in the spec; see `as_asked`. It is an error for a
            group that does not have it; the same applies to the next two arguments.
        kafka_version: Kafka version of the assignor.
        client: client library of the leaders.
        on_group: called with each group; a NotFoundError or UsageError is one of this group.

    Raises:
        UsageError: none of the groups has the requested strategy, version or library.
        NotFoundError: `on_group` has raised it for the first of the groups, and for all others.
    """
    text = text.removeprefix(BOM_UTF8)  # some editors write it
    if not text.strip():
        return Report(
            (), (Problem(ProblemKind.BAD_SPEC, "Expected JSON, found nothing.", path=path),)
        )
    try:
        text.decode()
    except UnicodeDecodeError as error:
        fault = utf8_fault(error)
        reason = f"{fault[0].upper()}{fault[1:]}."
        return Report((), (Problem(ProblemKind.BAD_SPEC, reason, path=path),))
    if (values := text.count(b",")) > _MOST_VALUES:
        reason = f"Expected at most {_MOST_VALUES:,} values in a file, found {values:,}: split it."
        return Report((), (Problem(ProblemKind.BAD_SPEC, reason, path=path),))
    specs: list[GroupSpec] = []
    problems = ProblemLog()
    notes: dict[str, None] = {}
    unsuited: list[UsageError | NotFoundError] = []
    for where, spec in _objects(text):
        try:
            if isinstance(spec, orjson.JSONDecodeError):
                raise SpecError(f"expected JSON, found {spec}")
            group = as_asked(read_spec(spec, client), strategy, kafka_version, client)
            on_group(group)
            specs.append(group)
            assert isinstance(spec, Mapping)
            for fields in (spec, *spec["members"]):
                if fields.get("client") is not None and (note := later_note(fields["client"])):
                    notes[note] = None
        except (SpecError, UsageError, NotFoundError) as error:
            if not isinstance(error, SpecError):
                unsuited.append(type(error)(f"{where}{error}"))
            end = "" if str(error).endswith("?") else "."
            problems.add(Problem(ProblemKind.BAD_SPEC, f"{where}{error}{end}", path=path))
    if unsuited and not specs:
        raise unsuited[0]
    return Report(tuple(specs), problems.problems(), tuple(notes))


def _objects(text: bytes) -> Iterator[tuple[str, object]]:
    if len(text) > _LARGE and text.lstrip()[:1] == b"[":  # no spec, maybe of millions of values
        yield "", []
        return
    try:
        yield "", orjson.loads(text)
        return
    except orjson.JSONDecodeError as error:
        lines = (line.strip() for line in BytesIO(text))
        first, second = next(filter(None, lines), b""), next(filter(None, lines), b"")
        if not second or not first.endswith(b"}"):
            yield "", error
            return
    for number, line in enumerate(BytesIO(text), 1):
        if line.strip():
            try:
                yield f"line {number}: ", orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield f"line {number}: ", error


def read_spec(spec: object, asked: Software | None = None) -> GroupSpec:
    """Parse a JSON object; `docs/assign.md` describes its fields.

    Args:
        spec: the object.
        asked: library of the assignor, instead of that in the object. If the object has no
            strategy, the first one of this library is used.

    Raises:
        SpecError: the object is not a valid spec.
    """
    if isinstance(spec, Mapping) and spec.get("protocol") == CONNECT:
        return _connect(spec)
    if isinstance(spec, Mapping) and spec.get("protocol") == STREAMS:
        return _streams(spec)
    if isinstance(spec, Mapping) and spec.get("protocol") == CLASSIC_STREAMS:
        return _application(spec)
    fields = _object(spec, "", _SPEC_FIELDS)
    protocol = _choice(fields, "protocol", _PROTOCOLS, "classic")
    version = _choice(fields, "kafka_version", versions(protocol), versions(protocol)[0])
    client: Software | None = newest(protocol)._replace(version=version)
    clients: list[Software] = []
    asked_version: str | None = None
    if fields.get("client") is not None:
        if protocol != "classic" or fields.get("kafka_version") is not None:
            raise SpecError("client: only in classic groups, and in place of kafka_version")
        client = _client(fields["client"], "client")
        asked_version = version_of(fields["client"])
    elif protocol == "classic" and fields.get("kafka_version") is None:
        clients = _clients(fields.get("members"))
        client = None if clients else client
    named = tuple(MemberSpec("", (), client=client) for client in clients)
    asked_strategy = fields.get("strategy")
    text = asked_strategy if isinstance(asked_strategy, str) else ""
    imitated = GroupSpec(text, named, {}, protocol, client).computed_as
    names = (*strategies(protocol, asked or imitated), *strategies(protocol, imitated))
    try:
        strategy = _choice(fields, "strategy", tuple(dict.fromkeys(names)), names[0])
    except SpecError as error:
        raise SpecError(f"{error}{_having(protocol, fields['strategy'])}") from None
    topics = {
        name: _topic(topic, f"topics.{name}")
        for name, topic in _object(fields.get("topics"), "topics").items()
    }
    known: _Known = {}
    read = _members(
        fields,
        "member",
        lambda member, path: (
            _consumer(member, path, known)
            if protocol == "zookeeper"
            else _member(member, path, strategy, known)
        ),
    )
    _check_distinct(read, "instance_id")
    ids = {
        name: _topic_id(text, f"topic_ids.{name}")
        for name, text in _mapping(fields, "topic_ids").items()
    }
    group = GroupSpec(
        strategy,
        read,
        topics,
        protocol,
        client,
        ids,
        _optional(fields, "id", "", _text),
        asked_version=asked_version,
    )
    return with_topic_ids(group) if group.has_topic_ids else group


def _members(
    fields: Mapping[str, Any], what: str, read: Callable[[object, str], MemberSpec]
) -> tuple[MemberSpec, ...]:
    """Parse the members, at least one, each with an id of its own."""
    values = _list(fields.get("members"), "members")
    if not values:
        raise SpecError(f"members: expected at least one {what}, found none")
    members = tuple(read(value, f"members[{at}]") for at, value in enumerate(values))
    _check_distinct(members, "member_id")
    return members


def _check_distinct(members: Sequence[MemberSpec], name: str) -> None:
    seen: dict[str, int] = {}
    for at, own in enumerate(getattr(member, name) for member in members):
        if own is not None and (first := seen.setdefault(own, at)) != at:
            raise SpecError(f"members[{at}].{name}: {own!r} is that of members[{first}] already")


def _connect(spec: object) -> GroupSpec:
    """Parse a Connect cluster."""
    fields = _object(spec, "", _CONNECT_FIELDS)
    names = strategies(CONNECT)
    members = _members(fields, "worker", _worker)
    ids = {member.member_id for member in members}
    leader_id = _optional(fields, "leader", "", _text)
    if leader_id is not None and leader_id not in ids:
        raise SpecError(f"leader: no member has the id {leader_id!r}")
    connectors = {
        name: _number(count, f"connectors.{name}", range(MOST_TASKS))
        for name, count in _mapping(fields, "connectors").items()
    }
    owned = [item for member in members for item in member.owned or ()]
    delays = [
        _optional_number(fields, name, "", range(1 << 31))
        for name in ("max_delay_ms", "delay_left_ms")
    ]
    return connect_group(
        GroupSpec(
            _choice(fields, "strategy", names, names[0]),
            members,
            topics_of((*owned, *configured_items(connectors))),
            CONNECT,
            id=_optional(fields, "id", "", _text),
            leader_id=leader_id,
        ),
        *delays,
    )


def _streams(spec: object) -> GroupSpec:
    """Parse a streams group."""
    fields = _object(spec, "", _STREAMS_FIELDS)
    group, stateful, _ = _tasks(fields, STREAMS, _SUBTOPOLOGY_FIELDS, _STREAMS_MEMBER_FIELDS)
    return with_standbys(group, stateful, _replicas(fields))


def _replicas(fields: Mapping[str, Any]) -> int | None:
    return _optional_number(fields, "standby_replicas", "", range(101))


def _tasks(
    fields: Mapping[str, Any],
    protocol: str,
    subtopology_fields: Sequence[str],
    member_fields: Sequence[str],
) -> tuple[GroupSpec, frozenset[str], Mapping[str, int]]:
    """Return a group, its stateful subtopologies, and the records of a task's changelogs."""
    counts: dict[str, TopicMetadata] = {}
    stateful = set()
    records: dict[str, int] = {}
    for name, value in _object(fields.get("subtopologies"), "subtopologies").items():
        path = f"subtopologies.{name}"
        subtopology = _object(value, path, subtopology_fields)
        tasks = _number(subtopology.get("tasks"), f"{path}.tasks", range(MOST_TASKS))
        counts[name] = TopicMetadata(tasks)
        if _optional(subtopology, "stateful", path, _flag):
            stateful.add(name)
        if (count := _optional_number(subtopology, "records", path, range(1 << 53))) is not None:
            records[name] = count
    if (tasks := sum(topic.partitions for topic in counts.values())) > MOST_TASKS:
        raise SpecError(f"subtopologies: expected at most {MOST_TASKS} tasks, found {tasks}")
    members = _members(
        fields, "member", lambda value, path: _streams_member(value, path, member_fields)
    )
    names = strategies(protocol)
    group = GroupSpec(
        _choice(fields, "strategy", names, names[0]),
        members,
        counts,
        protocol,
        id=_optional(fields, "id", "", _text),
    )
    return group, frozenset(stateful), records


def _streams_member(value: object, path: str, names: Sequence[str]) -> MemberSpec:
    fields = _object(value, path, names)
    member_id = _text(fields.get("member_id"), f"{path}.member_id")
    return MemberSpec(
        member_id,
        (),
        client_id=_optional(fields, "client_id", path, _text),
        owned=_optional(fields, "active", path, _partitions) or (),
        standby=_optional(fields, "standby", path, _partitions) or (),
        process_id=_optional(fields, "process_id", path, _text) or member_id,
    )


def _application(spec: object) -> GroupSpec:
    """Parse an application of Kafka Streams with the classic protocol."""
    fields = _object(spec, "", _APPLICATION_FIELDS)
    group, stateful, records = _tasks(
        fields, CLASSIC_STREAMS, _APPLICATION_SUBTOPOLOGY_FIELDS, _THREAD_FIELDS
    )
    for name in group.topics:
        if not _NUMBER.fullmatch(name):
            raise SpecError(f"subtopologies: expected numbers as names, found {_shown(name)}")
    items = {
        (name, number) for name, topic in group.topics.items() for number in range(topic.partitions)
    }
    _check_tasks(group.members)
    processes = {
        member.member_id: _process(fields["members"][at].get("process_id"), member.member_id, at)
        for at, member in enumerate(group.members)
    }
    states: dict[str, dict[StreamsTask, int | None]] = {}
    finders = {}
    for at, member in enumerate(group.members):
        process = processes[member.member_id]
        if foreign := {*(member.owned or ()), *member.standby} - items:
            raise SpecError(f"members[{at}]: there is no task {_shown(list(min(foreign)))}")
        own = states.setdefault(process, {})
        own.update({as_task(item): None for item in member.standby if item[0] in stateful})
        lags = _optional(fields["members"][at], "lags", f"members[{at}]", _list) or []
        for number, value in enumerate(lags):
            path = f"members[{at}].lags[{number}]"
            if not isinstance(value, list) or len(value) != 3:
                expected = "expected [subtopology, partition, records]"
                raise SpecError(f"{path}: {expected}, found {_shown(value)}")
            (item,) = _partitions([value[:2]], path)
            if item not in items or item[0] not in records:
                raise SpecError(
                    f"{path}: expected a task of a subtopology with records, found "
                    f"{_shown(list(item))}; set `records` of the subtopology, or remove the lag"
                )
            if (process, as_task(item)) in finders:
                raise SpecError(
                    f"{path}: task {_shown(list(item))} has a lag in this process already; keep one"
                )
            own[as_task(item)] = records[item[0]] - _number(
                value[2], path, range(records[item[0]] + 1)
            )
            finders[process, as_task(item)] = member.member_id
    version = _choice(fields, "kafka_version", STREAMS_VERSIONS, STREAMS_VERSIONS[0])
    tasks = {as_task(item): (item,) for item in sorted(items)}
    copies = Counter(item for member in group.members for item in member.standby)
    replicas = _replicas(fields)
    least = min((copies[item] for item in items if item[0] in stateful), default=0)
    names = [name for name in SETTINGS if name != STANDBYS]
    settings = {
        name: _number(value, f"settings.{name}", range(SETTINGS[name][1], 1 << 53))
        for name, value in _object(_mapping(fields, "settings"), "settings", names).items()
    }
    application = StreamsApplication(
        tasks,
        frozenset(map(int, stateful)),
        end_offset_sums={as_task(at): records[at[0]] for at in items if at[0] in records},
        states=states,
        finders=finders,
        is_idle=True,
        settings=StreamsSettings(least),
    )
    members = tuple(
        replace(member, process_id=processes[member.member_id]) for member in group.members
    )
    client = Software(newest(CLASSIC_STREAMS).name, version)
    group = replace(group, members=members, client=client, application=application)
    settings |= {} if replicas is None else {STANDBYS: replicas}
    return set_streams_settings(group, settings)


def _process(process_id: str | None, member_id: str, at: int) -> str:
    """Return a member's process id as Java writes UUIDs; an invented one if it has none."""
    if process_id is None:
        return str(UUID(bytes=made_up_topic_id(member_id)))
    try:
        return str(UUID(process_id))
    except ValueError:
        path = f"members[{at}].process_id"
        raise SpecError(f"{path}: expected a UUID, found {_shown(process_id)}") from None


def _check_tasks(members: Sequence[MemberSpec]) -> None:
    """Raise a SpecError if a task is active twice, or has two roles in one member."""
    active: dict[TopicPartition, int] = {}
    for at, member in enumerate(members):
        for name, items in (("active", member.owned or ()), ("standby", member.standby)):
            twice = next((item for item, count in Counter(items).items() if count > 1), None)
            if twice is not None:
                path = f"members[{at}].{name}"
                raise SpecError(f"{path}: expected each task once, found {list(twice)} twice")
        for item in member.owned or ():
            if (first := active.setdefault(item, at)) != at:
                raise SpecError(
                    f"members[{at}].active: {list(item)} is active in members[{first}] already; "
                    "remove it from one of them"
                )
        for item in member.standby:
            if active.get(item) == at:
                raise SpecError(
                    f"members[{at}].standby: {list(item)} is active in this member; remove it from "
                    "`active` or `standby`"
                )


def _worker(value: object, path: str) -> MemberSpec:
    fields = _object(value, path, _WORKER_FIELDS)
    return MemberSpec(
        _text(fields.get("member_id"), f"{path}.member_id"),
        (),
        client_id=_optional(fields, "client_id", path, _text),
        owned=_optional(fields, "owned", path, _work),
    )


def _work(value: object, path: str) -> tuple[TopicPartition, ...]:
    items = []
    for at, item in enumerate(_list(value, path)):
        where = f"{path}[{at}]"
        if not isinstance(item, list) or len(item) != 2:
            raise SpecError(
                f"{where}: expected [connector, task] or [connector, null], found {_shown(item)}"
            )
        task = CONNECTOR
        if item[1] is not None:
            task = _number(item[1], f"{where}[1]", range(MOST_TASKS))
        items.append((_text(item[0], f"{where}[0]"), task))
    return tuple(items)


def as_asked(
    spec: GroupSpec, strategy: str | None, kafka_version: str | None, client: Software | None
) -> GroupSpec:
    """Return the spec with another strategy, Kafka version or client library.

    Raises:
        UsageError: the group's protocol has no such strategy.
    """
    try:
        asked = asked_software(spec.protocol, kafka_version, client)
    except ValueError as error:
        raise UsageError(str(error)) from None
    spec = replace(spec, strategy=strategy or spec.strategy)
    if asked is not None:
        spec = replace(spec, client=asked, asked_version=None)
    check_strategy(spec, f"no strategy {spec.strategy!r} for {spec.protocol} groups")
    return spec


def check_strategy(spec: GroupSpec, lack: str) -> None:
    """Raise a UsageError, whose message begins with `lack`, if the software lacks the strategy."""
    known = strategies(spec.protocol, spec.computed_as)
    if spec.strategy not in known:
        raise UsageError(f"{lack} of {spec.computed_as}; there are: {', '.join(known)}")


def with_topic_ids(spec: GroupSpec) -> GroupSpec:
    """Return the group with ids for all topics, also deleted ones; unknown ones are made up."""
    owned = (topic for member in spec.members for topic, _ in member.owned or ())
    names = {*spec.topics, *owned}.difference(spec.topic_ids)
    made_up = {name: made_up_topic_id(name) for name in names}
    return replace(spec, topic_ids={**spec.topic_ids, **made_up}) if names else spec


def made_up_topic_id(name: str) -> bytes:
    """Return a stable topic id for a topic whose id is unknown."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _topic(value: object, path: str) -> TopicMetadata:
    fields = _object(value, path, _TOPIC_FIELDS)
    count = _number(fields.get("partitions"), f"{path}.partitions", range(MOST_PARTITIONS + 1))
    listed = _optional(fields, "listed", path, lambda value, at: _listed(value, at, count))

    def racks_of_each(name: str) -> list[Any] | None:
        if fields.get(name) is None:
            return None
        racks = _list(fields[name], f"{path}.{name}")
        if len(racks) != count:
            raise SpecError(
                f"{path}.{name}: expected the racks of {count} partitions, found {len(racks)}"
            )
        return racks

    leaders = racks_of_each("leader_racks")
    leader_racks = None
    if leaders is not None:
        leader_racks = tuple(
            rack if rack is None else _text(rack, f"{path}.leader_racks[{at}]")
            for at, rack in enumerate(leaders)
        )
    racks = racks_of_each("racks")
    if racks is None:
        return TopicMetadata(count, leader_racks=leader_racks, listed=listed)
    known: dict[frozenset[str], frozenset[str]] = {}
    sets = []
    for at, own in enumerate(racks):
        where = f"{path}.racks[{at}]"
        names = frozenset(_text(rack, where) for rack in _list(own, where) if rack is not None)
        sets.append(known.setdefault(names, names))
    return TopicMetadata(count, tuple(sets), leader_racks, listed)


def _listed(value: object, path: str, count: int) -> tuple[int, ...]:
    listed = _list(value, path)
    numbers = tuple(_number(item, f"{path}[{at}]", _INT32) for at, item in enumerate(listed))
    if sorted(numbers) != list(range(count)):
        raise SpecError(f"{path}: expected each of {count} partitions once, found {_shown(value)}")
    return numbers


def _member(value: object, path: str, strategy: str, known: _Known) -> MemberSpec:
    """Parse a member; members with the same topics share one tuple, kept in `known`."""
    fields = _object(value, path, _MEMBER_FIELDS)
    topics = _topics(fields.get("topics"), f"{path}.topics", known)
    version = _optional_number(fields, "protocol_version", path, range(NEWEST_VERSION + 1))
    user_data = _optional(fields, "user_data", path, _base64)
    return MemberSpec(
        member_id=_text(fields.get("member_id"), f"{path}.member_id"),
        topics=topics,
        instance_id=_optional(fields, "instance_id", path, _text),
        client_id=_optional(fields, "client_id", path, _text),
        rack=_optional(fields, "rack", path, _text),
        owned=_optional(fields, "owned", path, _partitions),
        generation=_optional_number(fields, "generation", path, _INT32),
        version=NEWEST_VERSION if version is None else version,
        subscription_generation=_optional_number(fields, "subscription_generation", path, _INT32),
        user_data=None if user_data is None else read_user_data(user_data, strategy),
        client=_optional(fields, "client", path, _client),
    )


def _consumer(value: object, path: str, known: _Known) -> MemberSpec:
    """Parse a ZooKeeper consumer; without `topics`, its topics are those of `streams`."""
    fields = _object(value, path, _CONSUMER_FIELDS)
    where = f"{path}.streams"
    streams = {
        topic: _number(count, f"{where}.{topic}", range(_MOST_STREAMS + 1))
        for topic, count in _mapping(fields, "streams", path).items()
    }
    names: object = list(streams)
    if fields.get("topics") is not None or fields.get("streams") is None:
        names = fields.get("topics")
    topics = _topics(names, f"{path}.topics", known)
    for topic in streams:
        if topic not in topics:
            raise SpecError(f"{where}.{topic}: {path}.topics does not name this topic")
    owned: list[TopicPartition] = []
    threads: dict[TopicPartition, int] = {}
    for at, item in enumerate(_optional(fields, "owned", path, _list) or ()):
        own = f"{path}.owned[{at}]"
        if not isinstance(item, list) or len(item) not in (2, 3):
            raise SpecError(
                f"{own}: expected [topic, partition] or [topic, partition, thread], "
                f"found {_shown(item)}"
            )
        partition = _text(item[0], f"{own}[0]"), _number(item[1], f"{own}[1]", range(1 << 31))
        owned.append(partition)
        if len(item) == 3:
            threads[partition] = _number(item[2], f"{own}[2]", range(_MOST_STREAMS))
    return MemberSpec(
        member_id=_text(fields.get("member_id"), f"{path}.member_id"),
        topics=topics,
        owned=None if fields.get("owned") is None else tuple(owned),
        streams=streams,
        threads=threads,
    )


def _clients(members: object) -> list[Software]:
    """Return the client libraries of those members that are valid."""
    return [
        _client(member["client"], f"members[{at}].client")
        for at, member in enumerate(members if isinstance(members, list) else ())
        if isinstance(member, Mapping) and member.get("client") is not None
    ]


def _client(value: object, path: str) -> Software:
    try:
        return software(_text(value, path))
    except ValueError as error:
        raise SpecError(f"{path}: expected {error}") from None


def _topics(value: object, path: str, known: _Known) -> tuple[str, ...]:
    names = _list(value, path)
    if not set(map(type, names)) <= {str}:
        names = [_text(name, f"{path}[{at}]") for at, name in enumerate(names)]
    topics = tuple(names)
    if topics not in known and len(set(topics)) < len(topics):
        twice = next(topic for topic in topics if topics.count(topic) > 1)
        raise SpecError(f"{path}: expected each topic once, found {twice!r} twice")
    return known.setdefault(topics, topics)


def _partitions(value: object, path: str) -> tuple[TopicPartition, ...]:
    pairs = _list(value, path)
    if set(map(type, pairs)) <= {list} and set(map(len, pairs)) <= {2}:
        topics, numbers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        are_typed = set(map(type, topics)) <= {str} and set(map(type, numbers)) <= {int}
        if are_typed and min(numbers, default=0) >= 0 and max(numbers, default=0) < 1 << 31:
            return tuple(zip(topics, numbers, strict=True))
    for at, pair in enumerate(pairs):
        where = f"{path}[{at}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise SpecError(f"{where}: expected [topic, partition], found {_shown(pair)}")
        _text(pair[0], f"{where}[0]")
        _number(pair[1], f"{where}[1]", range(1 << 31))
    raise AssertionError(path)


def _topic_id(value: object, path: str) -> bytes:
    text = _text(value, path)
    try:
        topic_id = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != 16:
        raise SpecError(f"{path}: expected a topic id of 22 characters, found {_shown(value)}")
    return topic_id


def _base64(value: object, path: str) -> bytes:
    try:
        return base64.b64decode(_text(value, path), validate=True)
    except (binascii.Error, ValueError):
        raise SpecError(f"{path}: expected base64, found {_shown(value)}") from None


def _having(protocol: str, strategy: object) -> str:
    """Return the end of a sentence: which client libraries have a strategy."""
    if protocol != "classic":
        return ""
    similar = [
        name
        for name, library in CLIENTS.items()
        if strategy in strategies(protocol, library.newest)
    ]
    return f"; it is one of client: {' or '.join(similar)}" if similar else ""


def _object(value: object, path: str, names: Sequence[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        hint = "; write several groups one to a line" * (not path and isinstance(value, list))
        raise SpecError(f"{path or 'spec'}: expected an object, found {_shown(value)}{hint}")
    if names is None:
        return value
    unknown = next((name for name in value if name not in names), None)
    if unknown is not None:
        prefix = f"{path}." if path else ""
        raise SpecError(f"{prefix}{unknown}: unknown; the fields are {', '.join(names)}")
    return value


def _mapping(fields: Mapping[str, Any], name: str, path: str = "") -> Mapping[str, Any]:
    return _optional(fields, name, path, _object) or {}


def _choice(fields: Mapping[str, Any], name: str, choices: Iterable[str], default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if value not in choices:
        raise SpecError(f"{name}: expected one of {', '.join(choices)}, found {_shown(value)}")
    return str(value)


def _optional(
    fields: Mapping[str, Any], name: str, path: str, read: Callable[[object, str], _T]
) -> _T | None:
    value = fields.get(name)
    return None if value is None else read(value, f"{path}.{name}" if path else name)


def _optional_number(fields: Mapping[str, Any], name: str, path: str, allowed: range) -> int | None:
    return _optional(fields, name, path, lambda value, at: _number(value, at, allowed))


def _list(value: object, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise SpecError(f"{path}: expected a list, found {_shown(value)}")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{path}: expected a text, found {_shown(value)}")
    return value


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{path}: expected true or false, found {_shown(value)}")
    return value


def _number(value: object, path: str, allowed: range) -> int:
    if type(value) is not int or value not in allowed:
        raise SpecError(
            f"{path}: expected an integer from {allowed[0]} to {allowed[-1]}, found {_shown(value)}"
        )
    return value


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except RecursionError:  # nested almost as deep as the JSON parser allows
        return "lists or objects of many levels"
    return text if len(text) <= 60 else f"{text[:57]}..."
