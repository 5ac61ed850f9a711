"""Java's consumers in a scenario's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.model.pattern import parse_regex
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.rules import CONSUMER_PROTOCOL, COOPERATIVE, STATIC_MEMBERS, Version
from kgroup.simulation.scenario.member_reader import MemberReader, read_version
from kgroup.simulation.scenario.scenario import Action, KeptIn, MemberPlan, Paused
from kgroup.simulation.scenario.toml_table import Table

TOO_OLD = "version 4.3 or later, for the consumer protocol"
_SESSION_45_S: Version = (3, 0)
_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
_CLASSES = {
    f"org.apache.kafka.clients.consumer.{name}Assignor": word
    for name, word in zip(
        ("Range", "RoundRobin", "Sticky", "CooperativeSticky"), _STRATEGIES, strict=True
    )
}

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
"""Settings of consumers: the field, and how it is read."""

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

MEMBER_FIELDS: Mapping[str, str] = {
    "name": "How it is called; with count it is followed by a number.",
    "count": "How many there are of it; 1 by default.",
    "start": "When it starts; not at all without, unless a step starts it.",
    "every": "With count: how long after one the next starts; 0 by default.",
    "topics": "What it subscribes to.",
    "pattern": "In place of topics: a regular expression (RE2) that their names match.",
    "regex": "Likewise, but the broker looks for the topics (group.protocol consumer).",
    "processing": "From one poll() to the next; 500 ms by default.",
    "offsets": "Where they are kept: kafka, external or both; kafka by default.",
    "version": "Of its client; by default that of the brokers.",
    "group.instance.id": "Makes it a static member; with count followed by a number.",
    **dict.fromkeys((*_CONSUMER, *_OTHER), "As in Kafka."),
}
"""Every field of a member, with a sentence."""


class JavaMembers(MemberReader[MemberPlan]):
    """Reads consumers of the classic and of the consumer protocol.

    Args:
        group_id: of their group.
        version: of the brokers.
    """

    fields = tuple(MEMBER_FIELDS)
    has_generations = True
    pauses = (Paused.PROCESS, Paused.PROCESSING)
    actions = tuple(Action)

    def __init__(self, group_id: str, version: Version) -> None:
        self._group_id = group_id
        self._version = version

    def read(self, table: Table, name: str) -> MemberPlan:
        """Read how a member starts."""
        version = read_version(table, self._version)
        given = {
            field: read(table, key) for key, (field, read) in _CONSUMER.items() if key in table
        }
        strategies = _strategies(table, version)
        given["group_protocol"] = _protocol(table, table, min(version, self._version), "classic")
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
            if min(version, self._version) < STATIC_MEMBERS:
                older = ".".join(map(str, min(version, self._version)))
                raise table.error("group.instance.id", "version 2.3 or later", older)
            given["instance_id"] = table.text("group.instance.id")
        given.setdefault("client_id", name)
        if version < _SESSION_45_S:
            given.setdefault("session_timeout_ms", 10_000)
        config = ClientConfig(
            group_id=self._group_id,
            strategies=strategies,
            enable_auto_commit=table.flag("enable.auto.commit", default=True),
            version=version,
            **given,
        )
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            raise table.error(
                "heartbeat.interval.ms"
                if "heartbeat.interval.ms" in table
                else "session.timeout.ms",
                "a heartbeat interval below the session timeout",
                f"{config.heartbeat_interval_ms} and {config.session_timeout_ms} ms",
            )
        return MemberPlan(
            config,
            table.duration("processing", 500) or 1,
            table.choice("auto.offset.reset", ("latest", "earliest"), "latest"),
            KeptIn(table.choice("offsets", list(KeptIn), KeptIn.KAFKA)),
        )

    def numbered(self, table: Table, plan: MemberPlan, name: str, number: str) -> MemberPlan:
        """Make one of several alike of a plan."""
        instance_id = plan.config.instance_id
        config = replace(
            plan.config,
            client_id=plan.config.client_id if "client.id" in table else name,
            instance_id=None if instance_id is None else instance_id + number,
        )
        return replace(plan, config=config)

    def topics(self, plan: MemberPlan) -> tuple[str, ...]:
        """Return the topics that a member names."""
        return plan.config.topics

    def changed(self, table: Table, plan: MemberPlan) -> MemberPlan:
        """Configure a member anew; what is not named stays."""
        changes = table.table("set")
        known = {*_CONSUMER, *_OTHER, "topics", "processing", "offsets"}
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
            offsets=KeptIn(changes.choice("offsets", list(KeptIn), plan.offsets)),
        )

    def completed(self, common: Table, table: Table) -> Table:
        """Give a member the fields of all members that it does not have itself."""
        own = table.data
        named = {name: value for name, value in common.data.items() if name not in own}
        if "pattern" in own or "regex" in own:
            named.pop("topics", None)
        for other in set(_ONLY) - {own.get("group.protocol", common.data.get("group.protocol"))}:
            if "group.protocol" in own:
                for name in _ONLY[other]:
                    named.pop(name, None)
        return table.with_others(common, named)


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
        older = ".".join(map(str, version))
        raise table.error(name, "version 2.4 or later for cooperative-sticky", older)
    return words


def _protocol(table: Table, member: Table, version: Version, default: str) -> str:
    """Read `group.protocol`, and see that nothing is said that the other one has only."""
    protocol = table.choice("group.protocol", tuple(_ONLY), default)
    if protocol == "consumer" and version < CONSUMER_PROTOCOL:
        raise table.error("group.protocol", TOO_OLD, ".".join(map(str, version)))
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
        raise table.wrong(name, str(error)) from None
    return lambda topic: pattern.fullmatch(topic) is not None
