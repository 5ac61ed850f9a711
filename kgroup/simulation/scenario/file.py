"""Scenarios in TOML files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.errors import shown_id
from kgroup.simulation.client.config import COOPERATIVE_STICKY
from kgroup.simulation.cluster import COORDINATOR
from kgroup.simulation.rules import (
    CONSUMER_PROTOCOL,
    COOPERATIVE,
    NEWEST,
    STATIC_MEMBERS,
    BrokerSettings,
    ConsumerSettings,
    MigrationPolicy,
    Version,
)
from kgroup.simulation.scenario.member_reader import (
    MEMBER_FIELDS,
    TOO_OLD,
    ZOOKEEPER_MEMBER_FIELDS,
    JavaMembers,
    MemberReader,
    P,
    ZookeeperMembers,
    read_version,
)
from kgroup.simulation.scenario.scenario import (
    QUIET_MS,
    Action,
    KeptIn,
    Paused,
    Scenario,
    Step,
    last_ms,
)
from kgroup.simulation.scenario.toml_table import TomlTable, read_toml
from kgroup.simulation.world import OPERATOR
from kgroup.simulation.zookeeper.cluster import ZOOKEEPER

MOST = 100_000
"""Most members, and most partitions of a topic; larger numbers are assumed to be typing errors."""
_OF_EVERY_VERSION = ("count", "delay", "failover")
_TICK = "tickTime"
_PROTOCOLS = ("kafka", "zookeeper")
_ON_ZOOKEEPER: Version = (0, 8, 2)
_BROKER: Mapping[str, tuple[str, Callable[[TomlTable, str], Any]]] = {
    "group.min.session.timeout.ms": ("min_session_timeout_ms", TomlTable.duration),
    "group.max.session.timeout.ms": ("max_session_timeout_ms", TomlTable.duration),
    "group.initial.rebalance.delay.ms": ("initial_rebalance_delay_ms", TomlTable.duration),
    "group.max.size": ("max_size", TomlTable.number),
    "message.max.bytes": ("message_max_size", TomlTable.number),
    "offset.metadata.max.bytes": ("offset_metadata_max_size", TomlTable.number),
    "offsets.retention.ms": ("offsets_retention_ms", TomlTable.duration),
    "offsets.retention.check.interval.ms": (
        "offsets_retention_check_interval_ms",
        TomlTable.interval,
    ),
}
"""Broker settings: the attribute, and the method that reads the field."""

_CONSUMER_GROUPS: Mapping[str, tuple[str, Callable[[TomlTable, str], Any]]] = {
    "group.consumer.session.timeout.ms": ("session_timeout_ms", TomlTable.interval),
    "group.consumer.heartbeat.interval.ms": ("heartbeat_interval_ms", TomlTable.interval),
    "group.consumer.max.size": ("max_size", TomlTable.number),
    "group.consumer.assignors": ("assignors", TomlTable.texts),
    "group.consumer.assignment.interval.ms": ("assignment_interval_ms", TomlTable.duration),
    "group.consumer.regex.refresh.interval.ms": ("regex_refresh_interval_ms", TomlTable.interval),
    "group.consumer.migration.policy": (
        "migration_policy",
        lambda table, name: MigrationPolicy(table.choice(name, list(MigrationPolicy))),
    ),
}
"""Broker settings for consumer groups, likewise."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "": {
        "title": "Title: a sentence.",
        "about": "Description of what the scenario shows; printed above the timeline.",
        "group": 'Group id; "group" by default.',
        "protocol": (
            '"zookeeper": consumers of 0.8.2, which coordinate through ZooKeeper; else "kafka".'
        ),
        "version": "Kafka version of brokers and consumers; 4.3.1 by default.",
        "duration": (
            "End of the simulation; by default a minute after the last step; later with --from."
        ),
        "jitter": "Longest random delay of each step; 0 by default.",
        "rate": "Records per second and partition; 10 by default.",
    },
    "topics": {"NAME": "Number of partitions of the topic."},
    "brokers": {
        "count": "Number of brokers; 3 by default. The first one is the coordinator.",
        "delay": (
            "Network delay of a message: one time, or the shortest and the longest; 1 to 5 ms by "
            "default."
        ),
        "load": "Time that a new coordinator needs to load the groups; 200 ms by default.",
        "failover": (
            "Time until another broker leads the partitions of a crashed broker; 9 s by default, "
            "as broker.session.timeout.ms of KRaft; 6 s with consumers on ZooKeeper."
        ),
        _TICK: "tickTime of ZooKeeper; 2 s by default.",
        **dict.fromkeys((*_BROKER, *_CONSUMER_GROUPS), "As in Kafka."),
    },
    "members": {
        "topics": "Subscription of all members that specify none.",
        "…": "Any other field of a member, for all members.",
    },
    "member": MEMBER_FIELDS,
    "member on ZooKeeper": ZOOKEEPER_MEMBER_FIELDS,
    "step": {
        "at": "Time of the action.",
        "do": "Action: " + ", ".join(Action) + ".",
        "member": "Name of the member, or a list of names.",
        "every": "With several members: time between one and the next.",
        "for": (
            "Duration of a restart (5 s by default), of a pause (of a process: until it is "
            "resumed), or of processing a poison record."
        ),
        "what": "What a pause stops: " + ", ".join(Paused) + "; process by default.",
        "set": "Of a restart: table of settings to change.",
        "generation": "Of a commit: generation to send.",
        "topic": "Name of the topic, new or existing; for actions on a partition, its topic.",
        "partitions": "New number of partitions.",
        "partition": "Partition number.",
        "broker": (
            "Broker to stop, to start, or to become the coordinator; by default any other running "
            "one."
        ),
        "to": "Target of copied offsets: kafka or external.",
    },
}
"""All fields by table, with a description."""


def read_scenario(text: str, file: str, existing: Scenario | None = None) -> Scenario:
    """Read a scenario.

    Args:
        text: content of the TOML file.
        file: file name for messages.
        existing: scenario of an existing group, to which the file adds steps, topics and members.

    Raises:
        InputError: the file is invalid; the message has the line, the field, and the expected and
            the actual value.
    """
    top, arrays = _read_tables(text, file)
    if existing is not None:
        _check_addition(top, arrays)
    protocol = top.choice("protocol", _PROTOCOLS, "kafka")
    is_zookeeper = bool(existing.connectors) if existing is not None else protocol == "zookeeper"
    version = _zookeeper_version(top) if is_zookeeper else read_version(top, NEWEST)
    existing = None if existing is None else _of_version(existing, version, top)
    topics = _topics(top.table("topics"), {} if existing is None else existing.topics)
    brokers = top.table("brokers")
    is_other = set(FIELDS["brokers"]) - {*_OF_EVERY_VERSION, _TICK} if is_zookeeper else {_TICK}
    brokers.only([name for name in FIELDS["brokers"] if name not in is_other])
    group_id = existing.group_id if existing is not None else top.text("group", "group")
    if existing is None and is_zookeeper:
        top.legal_name("group", group_id)
    count = brokers.number("count", 3, 1, 1_000)
    members = {} if existing is None else dict(existing.members)
    steps = [] if existing is None else list(existing.steps)
    connectors = {} if existing is None else dict(existing.connectors)
    if is_zookeeper:
        steps += _read_members(top, arrays, ZookeeperMembers(group_id), connectors, topics, count)
    else:
        reader = JavaMembers(group_id, version)
        steps += _read_members(top, arrays, reader, members, topics, count)
    steps.sort(key=lambda step: step.at_ms)
    jitter_ms = top.duration("jitter", 0)
    done_ms = last_ms(steps, jitter_ms)
    scenario = Scenario(
        group_id,
        topics,
        members,
        tuple(steps),
        top.duration("duration", done_ms + QUIET_MS),
        _title(top, existing),
        top.text("about").strip() if "about" in top else None,
        BrokerSettings() if is_zookeeper else _settings(brokers, version, existing),
        ConsumerSettings() if is_zookeeper else _consumer_settings(brokers, version),
        count,
        top.fraction("rate", 10),
        _delay(brokers),
        brokers.duration("load", 200),
        brokers.duration("failover", 6_000 if is_zookeeper else 9_000),
        jitter_ms,
        None if existing is None else existing.start,
        connectors,
        brokers.interval(_TICK) if _TICK in brokers else 2_000,
    )
    return _watched(scenario, existing, done_ms) if "duration" not in top else scenario


def _read_tables(text: str, file: str) -> tuple[TomlTable, Mapping[str, list[TomlTable]]]:
    """Read the tables of a file, and refuse unknown ones."""
    top, arrays = read_toml(text, file)
    for name in arrays:
        if name not in ("member", "step"):
            raise top.error(name, "[[member]] or [[step]]", f"[[{name}]]")
    for name in ("member", "step"):
        if name in top:
            raise top.error(name, f"[[{name}]], one table or several", top.data[name])
    top.only([*FIELDS[""], "topics", "brokers", "members"])
    return top, arrays


def _watched(scenario: Scenario, existing: Scenario | None, done_ms: int) -> Scenario:
    """Extend the scenario of an existing group until its last step has had its effect."""
    if existing is None:
        return scenario
    watched_ms = max(existing.duration_ms, done_ms + scenario.settles_ms)
    return replace(scenario, duration_ms=watched_ms)


def _title(top: TomlTable, existing: Scenario | None) -> str | None:
    """Return the title, which names the existing group if there is one."""
    title = top.text("title") if "title" in top else None
    if existing is None:
        return title
    return existing.title if title is None else f"Group {shown_id(existing.group_id)}: {title}"


def _check_addition(top: TomlTable, arrays: Mapping[str, list[TomlTable]]) -> None:
    """Refuse fields that a file may not have for an existing group."""
    for field in ("group", "protocol"):
        if field in top:
            raise top.error(field, "none, as the group exists already", top.data[field])
    if "members" in top and not arrays.get("member"):
        expected = "[[member]] tables, as [members] applies only to members of this file"
        raise top.error("members", expected, "none")


def _of_version(existing: Scenario, version: Version, top: TomlTable) -> Scenario:
    """Return the scenario with another Kafka version, which must support the group's members."""
    configs = [member.config for member in existing.members.values()]
    needed = {
        CONSUMER_PROTOCOL: any(config.group_protocol == "consumer" for config in configs),
        COOPERATIVE: any(COOPERATIVE_STICKY in config.strategies for config in configs),
        STATIC_MEMBERS: any(config.instance_id is not None for config in configs),
    }
    for oldest, is_needed in needed.items():
        if is_needed and version < oldest:
            text = ".".join(map(str, oldest))
            raise top.error(
                "version", f"{text} or later, for the group's members", top.data["version"]
            )
    members = {
        name: replace(plan, config=replace(plan.config, version=version))
        for name, plan in existing.members.items()
    }
    return replace(existing, members=members)


def _read_members(
    top: TomlTable,
    arrays: Mapping[str, list[TomlTable]],
    reader: MemberReader[P],
    members: dict[str, P],
    topics: dict[str, int],
    brokers: int,
) -> list[Step]:
    """Read members and steps; add the members to `members` and return the steps."""
    common = top.table("members")
    end_ms = top.duration("duration", sys.maxsize)
    steps = []
    for table in arrays.get("member", ()):
        for name, plan, start_ms in _members(reader.completed(common, table), reader, topics):
            if name in members:
                raise table.error("name", "a name that no other member has", name)
            members[name] = plan
            if start_ms is not None:
                _check_time(table, "start", start_ms, end_ms)
                steps.append(Step(start_ms, Action.START, name))
    if not members:
        raise top.error(None, "at least one [[member]]", "none")
    for table in arrays.get("step", ()):
        for step in _steps(table, reader, members, topics, brokers):
            _check_time(table, "at", step.at_ms, end_ms)
            steps.append(step)
    return steps


def _check_time(table: TomlTable, field: str, time_ms: int, end_ms: int) -> None:
    """Refuse a time after the end of the scenario."""
    if time_ms > end_ms:
        field = field if table.duration(field) > end_ms else "every"
        expected = f"a time before the end (duration, {end_ms} ms)"
        raise table.error(field, expected, f"{time_ms} ms")


def _zookeeper_version(top: TomlTable) -> Version:
    text = top.text("version", "0.8.2")
    if text not in ("0.8.2", "0.8.2.1", "0.8.2.2"):
        raise top.error("version", "0.8.2, as protocol is zookeeper", text)
    return _ON_ZOOKEEPER


def _topics(table: TomlTable, existing: Mapping[str, int]) -> dict[str, int]:
    """Return the topics of a table, added to existing ones."""
    topics = dict(existing)
    for name in table.data:
        count = topics[table.legal_name(name, name)] = table.number(name, least=1, most=MOST)
        if existing.get(name, count) != count:
            raise table.error(
                name, f"{existing[name]}, the current number (a step can add_partitions)", count
            )
    return topics


def _settings(table: TomlTable, version: Version, existing: Scenario | None) -> BrokerSettings:
    """Read the settings; the limit of records may be known from an existing group's cluster."""
    settings = BrokerSettings.of(version)
    if existing is not None:
        known = existing.settings
        most = settings.message_max_size if known.is_limit_assumed else known.message_max_size
        settings = replace(
            settings,
            message_max_size=most,
            is_limit_assumed=known.is_limit_assumed,
            may_compress=known.may_compress,
        )
    given = {field: read(table, name) for name, (field, read) in _BROKER.items() if name in table}
    if "message_max_size" in given:
        settings = replace(settings, is_limit_assumed=False)
    return replace(settings, **given)


def _consumer_settings(table: TomlTable, version: Version) -> ConsumerSettings:
    given = {}
    for name, (field, read) in _CONSUMER_GROUPS.items():
        if name in table:
            if version < CONSUMER_PROTOCOL:
                raise table.error(name, TOO_OLD, ".".join(map(str, version)))
            given[field] = read(table, name)
    for name in given.get("assignors", ()):
        if name not in ConsumerSettings().assignors:
            expected = " or ".join(ConsumerSettings().assignors)
            raise table.error("group.consumer.assignors", expected, name)
    return ConsumerSettings(**given)


def _delay(table: TomlTable) -> tuple[int, int]:
    """Read the network delay; it must not be 0, or refused clients would retry for ever."""
    value = table.data.get("delay")
    if not isinstance(value, list):
        return (table.interval("delay"),) * 2 if "delay" in table else (1, 5)
    pair = [table.with_data({"delay": delay}).interval("delay") for delay in value]
    if len(pair) != 2 or pair[0] > pair[1]:
        raise table.error("delay", "one time, or the shortest and the longest", value)
    return pair[0], pair[1]


def _members(
    table: TomlTable, reader: MemberReader[P], topics: Mapping[str, int]
) -> list[tuple[str, P, int | None]]:
    """Read a table of one or several equal members: name, plan and start time of each."""
    table.only(reader.fields)
    base = table.text("name")
    if base in (COORDINATOR, OPERATOR, ZOOKEEPER):
        raise table.error("name", "a name that nothing else in the timeline has", base)
    count = table.number("count", 1, 1, MOST)
    start_ms = table.duration("start") if "start" in table else None
    every_ms = table.duration("every", 0)
    plan = reader.read(table, base)
    for topic in reader.topics(plan):
        if topic not in topics:
            known = ", ".join(topics) or "none"
            raise table.error("topics", f"topics of [topics] ({known})", topic)
    plans = []
    for number in range(count):
        suffix = str(number + 1) if count > 1 else ""
        starts_ms = None if start_ms is None else start_ms + number * every_ms
        name = base + suffix
        plans.append((name, reader.numbered(table, plan, name, suffix), starts_ms))
    return plans


def _steps(
    table: TomlTable,
    reader: MemberReader[P],
    members: Mapping[str, P],
    topics: dict[str, int],
    brokers: int,
) -> list[Step]:
    """Read a step table: one step, or one for each of its members."""
    table.only(FIELDS["step"])
    action = Action(table.choice("do", list(reader.actions)))
    at_ms = table.duration("at")
    known = _STEP_FIELDS[action]
    for field in table.data:
        if field not in ("at", "do", *known):
            expected = " or ".join(known) or "nothing more"
            raise table.error(field, f"of a step that does {action}: {expected}", field)
    step = Step(at_ms, action)
    if "topic" in known:
        step = _about_topic(table, step, topics)
    if "broker" in known and ("broker" in table or action is not Action.MOVE_COORDINATOR):
        step = replace(step, broker=table.number("broker", least=1))
        if step.broker is not None and step.broker > brokers:
            raise table.error("broker", f"a broker from 1 to {brokers}", step.broker)
    if "for" in known and ("for" in table or action is not Action.PAUSE):
        step = replace(step, for_ms=table.duration("for", 5_000 if "member" in known else None))
    if action is Action.COMMIT and "generation" in table:
        if not reader.has_generations:
            raise table.error("generation", "none, as there are none on ZooKeeper", "one")
        step = replace(step, generation_id=table.number("generation"))
    if action is Action.COPY_OFFSETS:
        step = replace(step, to=KeptIn(table.choice("to", (KeptIn.KAFKA, KeptIn.EXTERNAL))))
    if action is Action.PAUSE:
        paused = Paused(table.choice("what", list(reader.pauses), Paused.PROCESS))
        if paused is not Paused.PROCESS and "for" not in table:
            raise table.error(None, "for (its duration)", "none")
        for_ms = step.for_ms
        lasts = "until it is resumed" if for_ms is None else f"for {for_ms / 1000:,g} s"
        step = replace(step, paused=paused, told=f"{paused}, {lasts}")
    if "member" not in known:
        return [step]
    every_ms = table.duration("every", 0)
    if "set" in table:
        changes = table.table("set").data.items()
        step = replace(step, told=", ".join(f"{name} = {_value(value)}" for name, value in changes))
    steps = []
    for number, name in enumerate(table.texts("member")):
        if name not in members:
            raise table.error("member", f"a member ({', '.join(list(members)[:10])})", name)
        plan = reader.changed(table, members[name]) if "set" in table else None
        steps.append(replace(step, at_ms=at_ms + number * every_ms, member=name, plan=plan))
    return steps


def _value(value: object) -> str:
    """Return the value of a setting as text for people."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _about_topic(table: TomlTable, step: Step, topics: dict[str, int]) -> Step:
    topic = table.legal_name("topic", table.text("topic"))
    before = topics.get(topic)
    if (step.action is Action.ADD_TOPIC) is (before is not None):
        expected = "a topic that does not exist yet" if before else "a topic of [topics]"
        raise table.error("topic", expected, topic)
    if step.action in (Action.POISON, Action.DELETE_RECORDS):
        number = table.number("partition")
        assert before is not None
        if number >= before:
            raise table.error("partition", f"a partition from 0 to {before - 1}", number)
        return replace(step, topic=topic, count=number)
    return replace(
        step, topic=topic, count=table.number("partitions", least=(before or 0) + 1, most=MOST)
    )


_STEP_FIELDS: Mapping[Action, tuple[str, ...]] = {
    Action.START: ("member", "every"),
    Action.STOP: ("member", "every"),
    Action.CRASH: ("member", "every"),
    Action.RESTART: ("member", "every", "for", "set"),
    Action.REMOVE: ("member", "every"),
    Action.PAUSE: ("member", "every", "for", "what"),
    Action.RESUME: ("member", "every"),
    Action.COMMIT: ("member", "every", "generation"),
    Action.ADD_PARTITIONS: ("topic", "partitions"),
    Action.ADD_TOPIC: ("topic", "partitions"),
    Action.DELETE_RECORDS: ("topic", "partition"),
    Action.POISON: ("topic", "partition", "for"),
    Action.MOVE_COORDINATOR: ("broker",),
    Action.STOP_BROKER: ("broker",),
    Action.START_BROKER: ("broker",),
    Action.COPY_OFFSETS: ("to",),
}
"""Fields of a step, by its action."""
