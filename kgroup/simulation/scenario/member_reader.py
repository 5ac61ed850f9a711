"""Members in a scenario file: Java consumers, and consumers that use ZooKeeper."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from kgroup.model.pattern import parse_regex
from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.protocol.zookeeper.topic_filter import parse_filter
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.rules import CONSUMER_PROTOCOL, COOPERATIVE, NEWEST, STATIC_MEMBERS, Version
from kgroup.simulation.scenario.scenario import (
    Action,
    KeptIn,
    MemberPlan,
    Paused,
    ZookeeperMemberPlan,
)
from kgroup.simulation.scenario.toml_table import TomlTable
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig

P = TypeVar("P", bound=MemberPlan | ZookeeperMemberPlan)


class MemberReader(ABC, Generic[P]):
    """Reader of one kind of members.

    Attributes:
        fields: names of all fields of a member.
        has_generations: a commit may specify a generation.
        pauses: kinds of pauses.
        actions: actions on members.
    """

    fields: Collection[str]
    has_generations: bool
    pauses: Collection[Paused]
    actions: Collection[Action]

    @abstractmethod
    def read(self, table: TomlTable, name: str) -> P:
        """Read a member's configuration."""

    @abstractmethod
    def numbered(self, table: TomlTable, plan: P, name: str, number: str) -> P:
        """Return the plan of one of several equal members; `number` is "" for a single one."""

    @abstractmethod
    def topics(self, plan: P) -> tuple[str, ...]:
        """Return the topics that a member names."""

    @abstractmethod
    def changed(self, table: TomlTable, plan: P) -> P:
        """Return a plan with the changes of a step's `set`; other fields stay."""

    @abstractmethod
    def completed(self, common: TomlTable, table: TomlTable) -> TomlTable:
        """Return a member's table, with missing fields taken from the table of all members."""


def read_version(table: TomlTable, default: Version) -> Version:
    """Read the field `version`, from (1, 1) to the newest.

    Raises:
        InputError: the version cannot be simulated.
    """
    if "version" not in table:
        return default
    text = table.text("version")
    parts = text.split(".")
    is_number = text.isascii() and all(part.isdigit() and len(part) < 4 for part in parts)
    if not is_number or not 2 <= len(parts) <= 3:
        raise table.error("version", "a version such as 2.8.2", text)
    version = tuple(map(int, parts))
    if not (1, 1) <= version <= NEWEST:
        raise table.error("version", "a version from 1.1 to 4.3.1", text)
    return version


TOO_OLD = "version 4.3 or later, for the consumer protocol"
_SESSION_45_S: Version = (3, 0)
_STRATEGIES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""Names of assignors, by class."""

_CONSUMER: Mapping[str, tuple[str, Callable[[TomlTable, str], Any]]] = {
    "session.timeout.ms": ("session_timeout_ms", TomlTable.int_interval),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", TomlTable.int_interval),
    "max.poll.interval.ms": ("max_poll_interval_ms", TomlTable.int_interval),
    "auto.commit.interval.ms": ("auto_commit_interval_ms", TomlTable.int_interval),
    "metadata.max.age.ms": ("metadata_max_age_ms", TomlTable.interval),
    "retry.backoff.ms": ("retry_backoff_ms", TomlTable.interval),
    "client.rack": ("rack", TomlTable.text),
    "client.id": ("client_id", TomlTable.text),
    "group.remote.assignor": ("remote_assignor", TomlTable.text),
}
"""Consumer settings: the attribute, and the method that reads the field."""

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
"""Fields that are valid with one `group.protocol` only (`ConsumerConfig`)."""

MEMBER_FIELDS: Mapping[str, str] = {
    "name": "Name; with count, followed by a number.",
    "count": "Number of such members; 1 by default.",
    "start": "Time of the start; without it, the member does not start unless a step starts it.",
    "every": "With count: time between one start and the next; 0 by default.",
    "topics": "Subscribed topics.",
    "pattern": "Instead of topics: regular expression (RE2) that topic names must match.",
    "regex": (
        "Instead of topics: regular expression (RE2) that the broker resolves (group.protocol "
        "consumer)."
    ),
    "processing": "Time from one poll() to the next; 500 ms by default.",
    "offsets": "Where offsets are stored: kafka, external or both; kafka by default.",
    "version": "Version of the client; by default that of the brokers.",
    "group.instance.id": "Makes the member a static member; with count, followed by a number.",
    **dict.fromkeys((*_CONSUMER, *_OTHER), "As in Kafka."),
}
"""All fields of a member, with a description."""


class JavaMembers(MemberReader[MemberPlan]):
    """Reader of consumers of the classic and the consumer protocol.

    Args:
        group_id: id of their group.
        version: version of the brokers.
    """

    fields = tuple(MEMBER_FIELDS)
    has_generations = True
    pauses = (Paused.PROCESS, Paused.PROCESSING)
    actions = tuple(Action)

    def __init__(self, group_id: str, version: Version) -> None:
        self._group_id = group_id
        self._version = version

    def read(self, table: TomlTable, name: str) -> MemberPlan:
        """Read a member's configuration."""
        version = read_version(table, self._version)
        given = {
            field: read(table, key) for key, (field, read) in _CONSUMER.items() if key in table
        }
        strategies = _strategies(table, version)
        given["group_protocol"] = _protocol(table, min(version, self._version), "classic")
        named = [name for name in ("topics", "pattern", "regex") if name in table.data]
        if len(named) > 1:
            raise table.error(named[-1], "one of topics, pattern and regex", " and ".join(named))
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
        config = ConsumerConfig(
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

    def numbered(self, table: TomlTable, plan: MemberPlan, name: str, number: str) -> MemberPlan:
        """Return the plan of one of several equal members."""
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

    def changed(self, table: TomlTable, plan: MemberPlan) -> MemberPlan:
        """Return a plan with the changes of a step; other fields stay."""
        changes = table.table("set")
        known = {*_CONSUMER, *_OTHER, "topics", "processing", "offsets"}
        changes.only(known)
        config = plan.config
        protocol = _protocol(changes, config.version, config.group_protocol)
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

    def completed(self, common: TomlTable, table: TomlTable) -> TomlTable:
        """Return a member's table, with missing fields taken from the table of all members."""
        own = table.data
        named = {name: value for name, value in common.data.items() if name not in own}
        if "pattern" in own or "regex" in own:
            named.pop("topics", None)
        if "group.protocol" in own:
            for protocol, fields in _ONLY.items():
                if protocol != own["group.protocol"]:
                    named = {name: value for name, value in named.items() if name not in fields}
        return table.with_others(common, named)


def _strategies(table: TomlTable, version: Version) -> tuple[str, ...]:
    name = "partition.assignment.strategy"
    default = ("range", "cooperative-sticky") if version >= _SESSION_45_S else ("range",)
    texts = table.texts(name, default)
    words = tuple(
        _STRATEGIES.get(word.strip(), word.strip()) for text in texts for word in text.split(",")
    )
    for word in words:
        if word not in _STRATEGIES.values():
            raise table.error(name, " or ".join(_STRATEGIES.values()), word)
    if "cooperative-sticky" in words and version < COOPERATIVE:
        older = ".".join(map(str, version))
        raise table.error(name, "version 2.4 or later for cooperative-sticky", older)
    return words


def _protocol(table: TomlTable, version: Version, default: str) -> str:
    """Read `group.protocol`, and refuse fields of the other protocol."""
    protocol = table.choice("group.protocol", tuple(_ONLY), default)
    if protocol == "consumer" and version < CONSUMER_PROTOCOL:
        raise table.error("group.protocol", TOO_OLD, ".".join(map(str, version)))
    for other in set(_ONLY) - {protocol}:
        for name in _ONLY[other]:
            if name in table:
                raise table.error(name, f"none, as group.protocol is {protocol}", name)
    return protocol


def _pattern(table: TomlTable, name: str) -> Callable[[str], bool]:
    text = table.text(name)
    try:
        pattern = parse_regex(text)
    except ValueError as error:
        raise table.wrong(name, str(error)) from None
    return lambda topic: pattern.fullmatch(topic) is not None


_MOST_STREAMS = 1_000

_SETTINGS: Mapping[str, tuple[str, Callable[[TomlTable, str], Any]]] = {
    "zookeeper.session.timeout.ms": ("session_timeout_ms", TomlTable.interval),
    "rebalance.backoff.ms": ("rebalance_backoff_ms", TomlTable.interval),
    "rebalance.max.retries": ("rebalance_max_retries", TomlTable.number),
    "auto.commit.enable": ("auto_commit", lambda table, name: table.flag(name, default=True)),
    "auto.commit.interval.ms": ("auto_commit_interval_ms", TomlTable.interval),
    "auto.offset.reset": ("reset", lambda table, name: table.choice(name, ("largest", "smallest"))),
    "partition.assignment.strategy": (
        "strategy",
        lambda table, name: table.choice(name, ("range", "roundrobin")),
    ),
    "num.consumer.fetchers": ("fetchers", lambda table, name: table.number(name, least=1)),
    "queued.max.message.chunks": ("queued_chunks", lambda table, name: table.number(name, least=1)),
    "fetch.wait.max.ms": ("fetch_wait_max_ms", TomlTable.interval),
    "refresh.leader.backoff.ms": ("refresh_leader_backoff_ms", TomlTable.interval),
    "offsets.storage": ("storage", lambda table, name: table.choice(name, ("zookeeper", "kafka"))),
    "dual.commit.enabled": ("dual_commit", lambda table, name: table.flag(name, default=True)),
    "offsets.channel.backoff.ms": ("offsets_channel_backoff_ms", TomlTable.interval),
    "offsets.commit.max.retries": ("offsets_commit_max_retries", TomlTable.number),
}
"""Consumer settings: the attribute, and the method that reads the field."""

ZOOKEEPER_MEMBER_FIELDS: Mapping[str, str] = {
    "name": "Name; with count, followed by a number.",
    "count": "Number of such members; 1 by default.",
    "start": "Time of the start; without it, the member does not start unless a step starts it.",
    "every": "With count: time between one start and the next; 0 by default.",
    "topics": 'Subscribed topics; "orders:4" with four streams.',
    "whitelist": "Instead of topics: regular expression (Java's) that topic names must match.",
    "blacklist": "Instead of topics: regular expression (Java's) that topic names must not match.",
    "streams": "Number of streams per topic, or for all topics that a list allows; 1 by default.",
    "processing": "Time to process the records of a fetch; 50 ms by default.",
    "consumer.id": "consumer.id for the registration; with count, followed by a number.",
    **dict.fromkeys(_SETTINGS, "As in Kafka."),
}
"""All fields of a member that uses ZooKeeper, with a description."""

_LISTS = {"whitelist": SubscriptionPattern.WHITE_LIST, "blacklist": SubscriptionPattern.BLACK_LIST}


class ZookeeperMembers(MemberReader[ZookeeperMemberPlan]):
    """Reader of consumers of Kafka 0.8.2.

    Args:
        group_id: id of their group.
    """

    fields = tuple(ZOOKEEPER_MEMBER_FIELDS)
    has_generations = False
    pauses = tuple(Paused)
    actions = tuple(
        action
        for action in Action
        if action not in (Action.MOVE_COORDINATOR, Action.REMOVE, Action.COPY_OFFSETS)
    )

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def read(self, table: TomlTable, name: str) -> ZookeeperMemberPlan:
        """Read a member's configuration."""
        del name
        named = [field for field in ("topics", *_LISTS) if field in table]
        if len(named) != 1:
            fields = " and ".join(named) or "none"
            raise table.error(
                named[-1] if named else None, "one of topics, whitelist and blacklist", fields
            )
        config = ZookeeperConfig(self._group_id, _registration(table), **_settings(table))
        if "consumer.id" in table:
            config = replace(
                config, consumer_id=table.legal_name("consumer.id", table.text("consumer.id"))
            )
        return ZookeeperMemberPlan(config, table.duration("processing", 50))

    def numbered(
        self, table: TomlTable, plan: ZookeeperMemberPlan, name: str, number: str
    ) -> ZookeeperMemberPlan:
        """Return the plan of one of several equal members."""
        del table, name
        consumer_id = plan.config.consumer_id
        if consumer_id is None:
            return plan
        return replace(plan, config=replace(plan.config, consumer_id=consumer_id + number))

    def topics(self, plan: ZookeeperMemberPlan) -> tuple[str, ...]:
        """Return the topics that a member names."""
        registration = plan.config.registration
        return tuple(registration.subscription) if registration.is_static else ()

    def changed(self, table: TomlTable, plan: ZookeeperMemberPlan) -> ZookeeperMemberPlan:
        """Return a plan with the changes of a step; other fields stay."""
        changes = table.table("set")
        changes.only([*_SETTINGS, "topics", *_LISTS, "streams", "processing"])
        given = _settings(changes)
        if any(name in changes for name in ("topics", *_LISTS)):
            given["registration"] = _registration(changes)
        elif "streams" in changes:
            raise changes.error("streams", "topics, whitelist or blacklist as well", "none")
        config = replace(plan.config, **given)
        return replace(
            plan, config=config, processing_ms=changes.duration("processing", plan.processing_ms)
        )

    def completed(self, common: TomlTable, table: TomlTable) -> TomlTable:
        """Return a member's table, with missing fields taken from the table of all members."""
        own = table.data
        named = {name: value for name, value in common.data.items() if name not in own}
        if any(name in own for name in ("topics", *_LISTS)):
            for field in ("topics", *_LISTS):
                named.pop(field, None)
        return table.with_others(common, named)


def _settings(table: TomlTable) -> dict[str, Any]:
    return {field: read(table, name) for name, (field, read) in _SETTINGS.items() if name in table}


def _registration(table: TomlTable) -> Registration:
    count = table.number("streams", 1, 1, _MOST_STREAMS)
    for name, pattern in _LISTS.items():
        if name in table:
            text = table.text(name)
            try:
                parse_filter(text)
            except ValueError as error:
                raise table.wrong(name, str(error)) from None
            return Registration({text: count}, pattern)
    streams = {}
    for text in table.texts("topics"):
        topic, _, number = text.partition(":")
        is_number = number.isascii() and number.isdigit()
        if number and not (is_number and 1 <= int(number[:5]) <= _MOST_STREAMS):
            raise table.error("topics", f"a topic, or one with streams: {topic}:4", text)
        streams[topic] = int(number) if number else count
    return Registration(streams)
