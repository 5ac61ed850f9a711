"""The brokers of a group: supported features and configuration."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from shlex import quote

from kgroup.errors import BrokerError
from kgroup.model.group import Broker, Group, GroupType
from kgroup.operation.printed_command import (
    UNKNOWN_ADDRESS,
    Reach,
    kafka_words,
    kgroup_command,
    reaching,
)
from kgroup.operation.record_limit import (
    RECORD_CODEC,
    is_compressing,
    read_record_limit,
    with_record_limit,
)
from kgroup.simulation.rules import ConsumerSettings, MigrationPolicy
from kgroup.simulation.scenario.scenario import Scenario
from kgroup.source.base import BrokerFeatures, GroupSource

CONSUMER_GROUP_HEARTBEAT = 68
"""API key of ConsumerGroupHeartbeat, which brokers with the consumer protocol support."""

CONSUMER_SESSION = "group.consumer.session.timeout.ms"
LEAST_SESSION, MOST_SESSION = (f"group.{word}.session.timeout.ms" for word in ("min", "max"))
"""Limits for members with the classic protocol."""
INTER_BROKER_VERSION = "inter.broker.protocol.version"
PROTOCOLS = "group.coordinator.rebalance.protocols"
MIGRATION_POLICY = "group.consumer.migration.policy"
ASSIGNORS = "group.consumer.assignors"
_FIRST_DELAY = "group.initial.rebalance.delay.ms"
_SETTINGS = (
    LEAST_SESSION,
    MOST_SESSION,
    _FIRST_DELAY,
    INTER_BROKER_VERSION,
    CONSUMER_SESSION,
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.max.size",
    "group.max.size",
    ASSIGNORS,
    MIGRATION_POLICY,
    PROTOCOLS,
    RECORD_CODEC,
)
_OF_A_GROUP = {
    CONSUMER_SESSION: "consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms": "consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms": "consumer.assignment.interval.ms",
}
"""Broker settings that a group may override, with the group's setting."""
_WHY_NONE = "known only from a live cluster"
_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_BY_CLASS = {f"{_PACKAGE}UniformAssignor": "uniform", f"{_PACKAGE}RangeAssignor": "range"}


@dataclass(frozen=True, slots=True)
class Brokers:
    """Features and configuration of the brokers, and of a group, as far as known.

    Attributes:
        coordinator: coordinator of the group; None if unknown.
        features: features of the coordinator; None if unknown.
        why: why some features or settings are unknown; None if all are known.
        settings: settings by broker id and name.
        group_settings: effective settings of the group.
        record_limit: `max.message.bytes` of `__consumer_offsets`; None if unknown.
        group_why: why the group's settings are unknown; None if known, or not supported (before
            4.0).
    """

    coordinator: Broker | None
    features: BrokerFeatures | None = None
    why: str | None = None
    settings: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    group_settings: Mapping[str, str] = field(default_factory=dict)
    group_why: str | None = None
    record_limit: int | None = None

    @property
    def name(self) -> str:
        """Name of the coordinator in messages."""
        return "the coordinator" if self.coordinator is None else f"broker {self.coordinator.id}"

    def setting(self, name: str) -> str | None:
        """Return a setting of the group, or else of the coordinator; None if unknown."""
        of_group = self.group_settings.get(_OF_A_GROUP.get(name, ""))
        if of_group is not None:
            return of_group
        return None if self.coordinator is None else self._of(self.coordinator.id).get(name)

    def _of(self, broker: int) -> Mapping[str, str]:
        return self.settings.get(broker, {})

    def number(self, name: str) -> int | None:
        """Return a setting as a number; None if unknown."""
        return _number(self.setting(name))

    def numbers(self, name: str) -> Collection[int]:
        """Return the values of a numeric setting on all brokers where it is known."""
        values = (_number(setting.get(name)) for setting in self.settings.values())
        return [value for value in values if value is not None]

    @property
    def session_ms(self) -> int | None:
        """Session timeout of members with the consumer protocol, in milliseconds; None if unknown.

        A setting of the group overrides that of the brokers.
        """
        if self.group_why is not None:
            return None
        of_group = _number(self.group_settings.get(_OF_A_GROUP[CONSUMER_SESSION]))
        return of_group or min(self.numbers(CONSUMER_SESSION), default=None)

    @property
    def assignors(self) -> tuple[str, ...] | None:
        """Names of the server-side assignors, the default first; None if unknown.

        For a custom class, this is the class, as its assignor name is unknown.
        """
        text = self.setting(ASSIGNORS)
        if text is None:
            return None
        names = (part.strip() for part in text.split(","))
        return tuple(_BY_CLASS.get(name, name) for name in names if name)

    @property
    def policy(self) -> MigrationPolicy | None:
        """`group.consumer.migration.policy`; None if unknown."""
        text = (self.setting(MIGRATION_POLICY) or "").lower()
        return next((policy for policy in MigrationPolicy if policy == text), None)

    @property
    def compresses_records(self) -> bool | None:
        """Whether the coordinator compresses its records; None if unknown."""
        return is_compressing(self.setting(RECORD_CODEC))

    def simulated(self, scenario: Scenario) -> Scenario:
        """Return the scenario with these brokers' settings; unknown settings are unchanged."""
        interval_ms = self.number("group.consumer.assignment.interval.ms")
        first_ms = self.number(_FIRST_DELAY)
        names = self.assignors or ()
        classic, known = scenario.settings, scenario.consumer_settings
        if first_ms is not None:
            classic = replace(classic, initial_rebalance_delay_ms=first_ms)
        classic = with_record_limit(classic, self.record_limit, self.compresses_records)
        consumer = ConsumerSettings(
            self.number(CONSUMER_SESSION) or known.session_timeout_ms,
            self.number("group.consumer.heartbeat.interval.ms") or known.heartbeat_interval_ms,
            self.number("group.consumer.max.size") or known.max_size,
            tuple(name for name in names if name in known.assignors) or known.assignors,
            known.assignment_interval_ms if interval_ms is None else interval_ms,
            known.regex_refresh_interval_ms,
            self.policy or known.migration_policy,
        )
        return replace(scenario, settings=classic, consumer_settings=consumer)

    def tool(self, name: str, *words: str) -> str:
        """Return a command line of a Kafka tool that connects to the coordinator."""
        return kafka_tool(self.coordinator, name, *words)

    def ask(self, name: str) -> str:
        """Return a command that shows a setting of the coordinator, or of any broker."""
        number = "ID" if self.coordinator is None else str(self.coordinator.id)
        entity = ("--entity-type", "brokers", "--entity-name", number)
        return self.tool("kafka-configs", "--describe", "--all", *entity, "|", "grep", name)

    def configure(self, group_id: str, session_ms: int) -> str:
        """Return the command that sets a group's session timeout."""
        entity = ("--entity-type", "groups", "--entity-name", quote(group_id))
        added = f"{_OF_A_GROUP[CONSUMER_SESSION]}={session_ms}"
        return self.tool("kafka-configs", "--alter", *entity, "--add-config", added)


NO_BROKERS = Brokers(None, why=_WHY_NONE)
"""Stands for the brokers of a source that is not a live cluster."""


def kafka_tool(broker: Broker | None, name: str, *words: str) -> str:
    """Return a command line of a Kafka tool that connects to a broker, or to a placeholder."""
    where = map(quote, kafka_words(address_of(broker)))
    return " ".join((f"{name}.sh", *where, *words))


def kgroup_on(group: Group, command: str, *options: str) -> str:
    """Return a kgroup command for a group of the same cluster.

    It has the connection options in use, or else the address of the coordinator from a file.
    """
    where = reaching(Reach.LIVE, address_of(group.coordinator))
    return kgroup_command(command, (group.group_id,), (*where, *options))


def address_of(broker: Broker | None) -> str:
    """Return the address of a broker; a placeholder if unknown."""
    return (broker and broker.address) or UNKNOWN_ADDRESS


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def read_brokers(source: GroupSource, group: Group) -> Brokers:
    """Read features and settings of brokers for a group, if the source is live."""
    broker = group.coordinator
    refused: list[str] = []
    features = None
    if source.can(GroupSource.features):
        if broker is None:
            refused.append("the group's coordinator is unknown")
        else:
            try:
                features = source.features(broker.id)
            except BrokerError as error:
                refused.append(str(error))
    if not source.can(GroupSource.broker_settings):
        return Brokers(broker, features, "; ".join(refused) or _WHY_NONE)
    try:
        reading = source.broker_settings(_SETTINGS)
    except BrokerError as error:
        return Brokers(broker, features, "; ".join(dict.fromkeys([*refused, str(error)])))
    refused += dict.fromkeys(problem.reason for problem in reading.problems)
    why = "; ".join(refused) or None
    limit = read_record_limit(source)
    brokers = Brokers(broker, features, why, reading.brokers, record_limit=limit)
    if not _knows_groups(group, features):
        return brokers
    try:
        of_group = source.group_settings(group.group_id, list(_OF_A_GROUP.values()))
    except BrokerError as error:
        return replace(brokers, group_why=str(error))
    return replace(brokers, group_settings=of_group)


def _knows_groups(group: Group, features: BrokerFeatures | None) -> bool:
    """Return whether brokers support settings of groups: since 4.0, as version 1 of this API.

    In 3.7 to 3.9, where the consumer protocol is a preview, DescribeConfigs rejects groups.
    """
    if features is None:
        return group.type is GroupType.CONSUMER
    return features.apis.get(CONSUMER_GROUP_HEARTBEAT, 0) >= 1
