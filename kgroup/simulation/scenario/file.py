"""Scenarios in TOML files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.model.pattern import parse_regex
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.cluster import COORDINATOR
from kgroup.simulation.consumer.settings import ConsumerSettings, MigrationPolicy
from kgroup.simulation.rules import (
    CONSUMER_PROTOCOL,
    COOPERATIVE,
    NEWEST,
    STATIC_MEMBERS,
    Settings,
    Version,
)
from kgroup.simulation.scenario.scenario import Action, MemberPlan, Scenario, Step
from kgroup.simulation.scenario.toml_table import Table, read_toml
from kgroup.simulation.world import OPERATOR

__all__ = ["FIELDS", "MOST", "read_scenario"]

MOST = 100_000
"""Of members, and of partitions of a topic: more would be a slip of the finger."""
_QUIET_MS = 60_000
"""How long a scenario goes on behind its last step, if it does not say so."""
_SESSION_45_S: Version = (3, 0)
_TOO_OLD = "version 4.3 or later, for the consumer protocol"
_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
_CLASSES = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": word
    for name, word in zip(
        ("Range", "RoundRobin", "Sticky", "CooperativeSticky"), _STRATEGIES, strict=True
    )
}

_BROKER: Mapping[str, tuple[str, Callable[[Table, str], Any]]] = {
    "group.min.session.timeout.ms": ("min_session_timeout_ms", Table.duration),
    "group.max.session.timeout.ms": ("max_session_timeout_ms", Table.duration),
    "group.initial.rebalance.delay.ms": ("initial_rebalance_delay_ms", Table.duration),
    "group.max.size": ("max_size", Table.number),
    "offset.metadata.max.bytes": ("offset_metadata_max_size", Table.number),
    "offsets.retention.ms": ("offsets_retention_ms", Table.duration),
    "offsets.retention.check.interval.ms": ("offsets_retention_check_interval_ms", Table.interval),
}
"""Settings of brokers: the field, and how it is read."""

_CONSUMER_GROUPS: Mapping[str, tuple[str, Callable[[Table, str], Any]]] = {
    "group.consumer.session.timeout.ms": ("session_timeout_ms", Table.interval),
    "group.consumer.heartbeat.interval.ms": ("heartbeat_interval_ms", Table.interval),
    "group.consumer.max.size": ("max_size", Table.number),
    "group.consumer.assignors": ("assignors", Table.texts),
    "group.consumer.assignment.interval.ms": ("assignment_interval_ms", Table.duration),
    "group.consumer.regex.refresh.interval.ms": ("regex_refresh_interval_ms", Table.interval),
    "group.consumer.migration.policy": (
        "migration_policy",
        lambda table, name: MigrationPolicy(table.choice(name, list(MigrationPolicy))),
    ),
}
"""Likewise of their consumer groups."""

_CONSUMER: Mapping[str, tuple[str, Callable[[Table, str], Any]]] = {
    "session.timeout.ms": ("session_timeout_ms", Table.interval),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", Table.interval),
    "max.poll.interval.ms": ("max_poll_interval_ms", Table.interval),
    "auto.commit.interval.ms": ("auto_commit_interval_ms", Table.interval),
    "metadata.max.age.ms": ("metadata_max_age_ms", Table.interval),
    "retry.backoff.ms": ("retry_backoff_ms", Table.interval),
    "client.rack": ("rack", Table.text),
    "client.id": ("client_id", Table.text),
    "group.remote.assignor": ("remote_assignor", Table.text),
}
"""Likewise of consumers."""

_OTHER = (
    "group.protocol",
    "enable.auto.commit",
    "partition.assignment.strategy",
    "auto.offset.reset",
)
_ONLY: Mapping[str, tuple[str, ...]] = {
    "classic": ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"),
    "consumer": ("group.remote.assignor", "regex"),
}
"""What a consumer may say with one `group.protocol` only (`ConsumerConfig`)."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "": {
        "title": "A sentence.",
        "about": "What there is to see: shown above the timeline.",
        "group": 'Name of the group; "group" by default.',
        "version": "Version of Kafka that brokers and consumers have; 4.3.1 by default.",
        "duration": "When it ends; by default a minute after the last step.",
        "jitter": "By how much each step may be late, as chance decides; 0 by default.",
        "rate": "Records a second that come to each partition; 10 by default.",
    },
    "topics": {"NAME": "How many partitions the topic has."},
    "brokers": {
        "count": "How many; 3 by default. The first coordinates.",
        "delay": "How long a message takes: one time, or the least and the most; 1 to 5 ms.",
        "load": "How long a new coordinator reads before it answers; 200 ms by default.",
        "failover": "Until another broker leads what a crashed one led; 6 s by default.",
        **dict.fromkeys((*_BROKER, *_CONSUMER_GROUPS), "As in Kafka."),
    },
    "members": {
        "topics": "What all members subscribe to, if they do not say otherwise.",
        "…": "Every other field of a member, for all members.",
    },
    "member": {
        "name": "How it is called; with count it is followed by a number.",
        "count": "How many there are of it; 1 by default.",
        "start": "When it starts; not at all without, unless a step starts it.",
        "every": "With count: how long after one the next starts; 0 by default.",
        "topics": "What it subscribes to.",
        "pattern": "In place of topics: a regular expression (RE2) that their names match.",
        "regex": "Likewise, but the broker looks for the topics (group.protocol consumer).",
        "processing": "From one poll() to the next; 500 ms by default.",
        "offsets": '"kafka", or "external": in a store of its own, which it seeks to.',
        "version": "Of its client; by default that of the brokers.",
        "group.instance.id": "Makes it a static member; with count followed by a number.",
        **dict.fromkeys((*_CONSUMER, *_OTHER), "As in Kafka."),
    },
    "step": {
        "at": "When.",
        "do": "What: " + ", ".join(Action) + ".",
        "member": "To whom, or a list of several.",
        "every": "Of several: how long after one the next.",
        "for": "How long a pause or a restart takes, or poison keeps busy.",
        "what": 'Of a pause: "process" stands still with its heartbeats, "processing" without.',
        "set": "Of a restart: a table of settings that are changed.",
        "generation": "Of a commit: the generation that it claims.",
        "topic": "Which is new or has more partitions, or has the poison.",
        "partitions": "How many it has then.",
        "partition": "Which has the poison.",
        "broker": "Which stops, starts, or coordinates.",
    },
}
"""Every field by table, with a sentence."""


def read_scenario(text: str, file: str, there: Scenario | None = None) -> Scenario:
    """Read a scenario.

    Args:
        text: TOML.
        file: its name, for messages.
        there: a group that is there already, to which the file adds steps, topics and members.

    Raises:
        InputError: it is none; says the line, the field, what was expected and what was found.
    """
    top, arrays = read_toml(text, file)
    for name in arrays:
        if name not in ("member", "step"):
            raise top.error(name, "[[member]] or [[step]]", f"[[{name}]]")
    for name in ("member", "step"):
        if name in top:
            raise top.error(name, f"[[{name}]], one table or several", top.data[name])
    top.only([*FIELDS[""], "topics", "brokers", "members"])
    for field in ("group", "version"):
        if there is not None and field in top:
            raise top.error(field, "none, as the group is there already", top.data[field])
    version = _version(top, NEWEST if there is None else there.settings.version)
    topics = {} if there is None else dict(there.topics)
    topics |= _topics(top.table("topics"))
    brokers = top.table("brokers")
    brokers.only(FIELDS["brokers"])
    common = top.table("members")
    group_id = top.text("group", "group") if there is None else there.group_id
    members = {} if there is None else dict(there.members)
    steps = [] if there is None else list(there.steps)
    for table in arrays.get("member", ()):
        for name, plan, start_ms in _members(_with(common, table), group_id, version, topics):
            if name in members:
                raise table.error("name", "a name that no other member has", name)
            members[name] = plan
            if start_ms is not None:
                steps.append(Step(start_ms, Action.START, name))
    if not members:
        raise top.error(None, "at least one [[member]]", "none")
    count = brokers.number("count", 3, 1, 1_000)
    for table in arrays.get("step", ()):
        steps += _steps(table, members, topics, count)
    steps.sort(key=lambda step: step.at_ms)
    jitter_ms = top.duration("jitter", 0)
    last_ms = max((step.at_ms + (step.for_ms or 0) for step in steps), default=0)
    return Scenario(
        group_id,
        topics,
        members,
        tuple(steps),
        top.duration("duration", last_ms + jitter_ms + _QUIET_MS),
        top.text("title") if "title" in top else None,
        top.text("about").strip() if "about" in top else None,
        _settings(brokers, version),
        _consumer_settings(brokers, version),
        count,
        top.fraction("rate", 10),
        _delay(brokers),
        brokers.duration("load", 200),
        brokers.duration("failover", 6_000),
        jitter_ms,
        None if there is None else there.start,
    )


def _with(common: Table, table: Table) -> Table:
    """Give a member the fields of all members that it does not have itself."""
    own = table.data
    named = {name: value for name, value in common.data.items() if name not in own}
    if "pattern" in own or "regex" in own:
        named.pop("topics", None)
    for other in set(_ONLY) - {own.get("group.protocol", common.data.get("group.protocol"))}:
        if "group.protocol" in own:
            for name in _ONLY[other]:
                named.pop(name, None)
    return table.with_data({**named, **own})


def _version(table: Table, default: Version) -> Version:
    if "version" not in table:
        return default
    text = table.text("version")
    parts = text.split(".")
    if not all(part.isdigit() and len(part) < 4 for part in parts) or not 2 <= len(parts) <= 3:
        raise table.error("version", "a version such as 2.8.2", text)
    version = tuple(map(int, parts))
    if not (1, 1) <= version <= NEWEST:
        raise table.error("version", "a version from 1.1 to 4.3.1", text)
    return version


def _topics(table: Table) -> dict[str, int]:
    return {name: table.number(name, least=1, most=MOST) for name in table.data}


def _settings(table: Table, version: Version) -> Settings:
    given = {field: read(table, name) for name, (field, read) in _BROKER.items() if name in table}
    return replace(Settings.of(version), **given)


def _consumer_settings(table: Table, version: Version) -> ConsumerSettings:
    given = {}
    for name, (field, read) in _CONSUMER_GROUPS.items():
        if name in table:
            if version < CONSUMER_PROTOCOL:
                raise table.error(name, _TOO_OLD, ".".join(map(str, version)))
            given[field] = read(table, name)
    for name in given.get("assignors", ()):
        if name not in ConsumerSettings().assignors:
            expected = " or ".join(ConsumerSettings().assignors)
            raise table.error("group.consumer.assignors", expected, name)
    return ConsumerSettings(**given)


def _delay(table: Table) -> tuple[int, int]:
    value = table.data.get("delay")
    if not isinstance(value, list):
        delay_ms = table.duration("delay", -1)
        return (1, 5) if delay_ms < 0 else (delay_ms, delay_ms)
    pair = [table.with_data({"delay": each}).duration("delay") for each in value]
    if len(pair) != 2 or pair[0] > pair[1]:
        raise table.error("delay", "one time, or the least and the most", value)
    return pair[0], pair[1]


def _members(
    table: Table, group_id: str, version: Version, topics: Mapping[str, int]
) -> list[tuple[str, MemberPlan, int | None]]:
    """Read a table of one member, or of several that are alike: name, plan, when it starts."""
    table.only(FIELDS["member"])
    base = table.text("name")
    if base in (COORDINATOR, OPERATOR):
        raise table.error("name", "a name that the timeline has for nobody else", base)
    count = table.number("count", 1, 1, MOST)
    start_ms = table.duration("start") if "start" in table else None
    every_ms = table.duration("every", 0)
    plan = _plan(table, group_id, base, version)
    for topic in plan.config.topics:
        if topic not in topics:
            known = ", ".join(topics) or "none"
            raise table.error("topics", f"topics of [topics] ({known})", topic)
    found = []
    for number in range(count):
        suffix = str(number + 1) if count > 1 else ""
        instance_id = plan.config.instance_id
        config = replace(
            plan.config,
            client_id=plan.config.client_id if "client.id" in table else base + suffix,
            instance_id=None if instance_id is None else instance_id + suffix,
        )
        starts_ms = None if start_ms is None else start_ms + number * every_ms
        found.append((base + suffix, replace(plan, config=config), starts_ms))
    return found


def _plan(table: Table, group_id: str, name: str, broker: Version) -> MemberPlan:
    version = _version(table, broker)
    given = {field: read(table, key) for key, (field, read) in _CONSUMER.items() if key in table}
    strategies = _strategies(table, version)
    given["group_protocol"] = _protocol(table, table, min(version, broker), "classic")
    told = [name for name in ("topics", "pattern", "regex") if name in table.data]
    if len(told) > 1:
        raise table.error(told[-1], "one of topics, pattern and regex", " and ".join(told))
    if "pattern" in table:
        given["pattern"] = _pattern(table, "pattern")
    elif "regex" in table:
        _pattern(table, "regex")
        given["regex"] = table.text("regex")
    else:
        given["topics"] = tuple(dict.fromkeys(table.texts("topics")))
    if "group.instance.id" in table:
        if min(version, broker) < STATIC_MEMBERS:
            raise table.error("group.instance.id", "version 2.3 or later", "an older one")
        given["instance_id"] = table.text("group.instance.id")
    given.setdefault("client_id", name)
    if version < _SESSION_45_S:
        given.setdefault("session_timeout_ms", 10_000)
    config = ClientConfig(
        group_id=group_id,
        strategies=strategies,
        enable_auto_commit=table.flag("enable.auto.commit", default=True),
        version=version,
        **given,
    )
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise table.error(
            "heartbeat.interval.ms" if "heartbeat.interval.ms" in table else "session.timeout.ms",
            "a heartbeat interval below the session timeout",
            f"{config.heartbeat_interval_ms} and {config.session_timeout_ms} ms",
        )
    return MemberPlan(
        config,
        table.duration("processing", 500) or 1,
        table.choice("auto.offset.reset", ("latest", "earliest"), "latest"),
        table.choice("offsets", ("kafka", "external"), "kafka") == "external",
    )


def _strategies(table: Table, version: Version) -> tuple[str, ...]:
    name = "partition.assignment.strategy"
    default = ("range", "cooperative-sticky") if version >= _SESSION_45_S else ("range",)
    found = table.texts(name, default)
    words = tuple(
        _CLASSES.get(word.strip(), word.strip()) for each in found for word in each.split(",")
    )
    for word in words:
        if word not in _STRATEGIES:
            raise table.error(name, " or ".join(_STRATEGIES), word)
    if "cooperative-sticky" in words and version < COOPERATIVE:
        raise table.error(name, "version 2.4 or later for cooperative-sticky", "an older one")
    return words


def _protocol(table: Table, member: Table, version: Version, default: str) -> str:
    """Read `group.protocol`, and see that nothing is said that the other one has only."""
    protocol = table.choice("group.protocol", tuple(_ONLY), default)
    if protocol == "consumer" and version < CONSUMER_PROTOCOL:
        raise table.error("group.protocol", _TOO_OLD, ".".join(map(str, version)))
    for other in set(_ONLY) - {protocol}:
        for name in _ONLY[other]:
            if name in member:
                raise member.error(name, f"none, as group.protocol is {protocol}", name)
    return protocol


def _pattern(table: Table, name: str) -> Callable[[str], bool]:
    text = table.text(name)
    try:
        pattern = parse_regex(text)
    except ValueError as error:
        raise table.error(name, str(error), text) from None
    return lambda topic: pattern.fullmatch(topic) is not None


def _steps(
    table: Table, members: Mapping[str, MemberPlan], topics: dict[str, int], brokers: int
) -> list[Step]:
    """Read a step, of several members several."""
    table.only(FIELDS["step"])
    action = Action(table.choice("do", list(Action)))
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
        step = replace(step, generation_id=table.number("generation"))
    if action is Action.PAUSE:
        what = table.choice("what", ("process", "processing"), "process")
        if what == "processing" and "for" not in table:
            raise table.error(None, "for (how long the processing takes)", "none")
        step = replace(step, is_whole=what == "process")
    if "member" not in known:
        return [step]
    every_ms = table.duration("every", 0)
    steps = []
    for number, name in enumerate(table.texts("member")):
        if name not in members:
            raise table.error("member", f"a member ({', '.join(list(members)[:10])})", name)
        plan = _changed(table, members[name]) if "set" in table else None
        steps.append(replace(step, at_ms=at_ms + number * every_ms, member=name, plan=plan))
    return steps


def _about_topic(table: Table, step: Step, topics: dict[str, int]) -> Step:
    topic = table.text("topic")
    before = topics.get(topic)
    if (step.action is Action.ADD_TOPIC) is (before is not None):
        expected = "a topic that is not there yet" if before else "a topic of [topics]"
        raise table.error("topic", expected, topic)
    if step.action is Action.POISON:
        number = table.number("partition")
        assert before is not None
        if number >= before:
            raise table.error("partition", f"a partition from 0 to {before - 1}", number)
        return replace(step, topic=topic, count=number)
    return replace(
        step, topic=topic, count=table.number("partitions", least=(before or 0) + 1, most=MOST)
    )


def _changed(table: Table, plan: MemberPlan) -> MemberPlan:
    """Configure a member anew; what is not named stays."""
    changes = table.table("set")
    known = {*_CONSUMER, *_OTHER, "topics", "processing"}
    changes.only(known)
    config = plan.config
    protocol = _protocol(changes, changes, config.version, config.group_protocol)
    given = {
        field: read(changes, key) for key, (field, read) in _CONSUMER.items() if key in changes
    }
    if "partition.assignment.strategy" in changes:
        given["strategies"] = _strategies(changes, config.version)
    if "topics" in changes:
        given |= {"topics": changes.texts("topics"), "pattern": None, "regex": None}
    elif protocol == "classic" and config.regex is not None:
        raise changes.error(None, "topics, as only the consumer protocol has a regex", "none")
    given["group_protocol"] = protocol
    given["enable_auto_commit"] = changes.flag(
        "enable.auto.commit", default=config.enable_auto_commit
    )
    return replace(
        plan,
        config=replace(config, **given),
        processing_ms=changes.duration("processing", plan.processing_ms) or 1,
        auto_offset_reset=changes.choice(
            "auto.offset.reset", ("latest", "earliest"), plan.auto_offset_reset
        ),
    )


_STEP_FIELDS: Mapping[Action, tuple[str, ...]] = {
    Action.START: ("member", "every"),
    Action.STOP: ("member", "every"),
    Action.CRASH: ("member", "every"),
    Action.RESTART: ("member", "every", "for", "set"),
    Action.PAUSE: ("member", "every", "for", "what"),
    Action.RESUME: ("member", "every"),
    Action.COMMIT: ("member", "every", "generation"),
    Action.ADD_PARTITIONS: ("topic", "partitions"),
    Action.ADD_TOPIC: ("topic", "partitions"),
    Action.POISON: ("topic", "partition", "for"),
    Action.MOVE_COORDINATOR: ("broker",),
    Action.STOP_BROKER: ("broker",),
    Action.START_BROKER: ("broker",),
}
"""Which fields a step has, by what it does."""
