"""The broker that coordinates a group: what it can do and how it is configured, as it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.errors import BrokerError
from kgroup.model.group import Broker, Group
from kgroup.simulation.consumer.settings import ConsumerSettings, MigrationPolicy
from kgroup.source.base import BrokerFeatures, FeatureSource, GroupSource, SettingSource

__all__ = [
    "CONSUMER_GROUP_HEARTBEAT",
    "CONSUMER_SESSION",
    "MIGRATION_POLICY",
    "PROTOCOLS",
    "Coordinator",
    "read_coordinator",
]

CONSUMER_GROUP_HEARTBEAT = 68
"""Number of the API that brokers with the consumer protocol have."""

CONSUMER_SESSION = "group.consumer.session.timeout.ms"
PROTOCOLS = "group.coordinator.rebalance.protocols"
MIGRATION_POLICY = "group.consumer.migration.policy"
_ASSIGNORS = "group.consumer.assignors"
_SETTINGS = (
    CONSUMER_SESSION,
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.max.size",
    "group.max.size",
    _ASSIGNORS,
    MIGRATION_POLICY,
    PROTOCOLS,
)
_OF_A_GROUP = {
    CONSUMER_SESSION: "consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms": "consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms": "consumer.assignment.interval.ms",
}
"""Settings of brokers that a group may have of its own."""
_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_BY_CLASS = {f"{_PACKAGE}UniformAssignor": "uniform", f"{_PACKAGE}RangeAssignor": "range"}


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that coordinates a group, as far as it tells of itself.

    Attributes:
        broker: None where it is not known.
        features: None where it cannot be asked.
        why: it cannot, or does not tell all; None where it does.
        settings: its own, by name, as far as it tells them.
        group_settings: those of the group, as they are in effect; likewise.
    """

    broker: Broker | None
    features: BrokerFeatures | None
    why: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    group_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """What tools of Kafka are given as the bootstrap server."""
        return "HOST:PORT" if self.broker is None else f"{self.broker.host}:{self.broker.port}"

    @property
    def name(self) -> str:
        """By which people know it."""
        return "the coordinator" if self.broker is None else f"broker {self.broker.id}"

    def setting(self, name: str) -> str | None:
        """Return a setting of the broker, or what the group has in its place; None: unknown."""
        of_group = self.group_settings.get(_OF_A_GROUP.get(name, ""))
        return self.settings.get(name) if of_group is None else of_group

    def number(self, name: str) -> int | None:
        """Return a setting that is a number; None: unknown."""
        text = self.setting(name)
        return int(text) if text is not None and text.lstrip("-").isdecimal() else None

    @property
    def assignors(self) -> tuple[str, ...] | None:
        """The server-side assignors, by name, the default first; None: unknown.

        Of classes that are not Kafka's nobody tells the name: they are left as they are.
        """
        text = self.setting(_ASSIGNORS)
        if text is None:
            return None
        names = (each.strip() for each in text.split(","))
        return tuple(_BY_CLASS.get(each, each) for each in names if each)

    @property
    def policy(self) -> MigrationPolicy | None:
        """`group.consumer.migration.policy`; None: unknown."""
        text = (self.setting(MIGRATION_POLICY) or "").lower()
        return next((each for each in MigrationPolicy if each == text), None)

    def simulated(self, known: ConsumerSettings) -> ConsumerSettings:
        """Return settings of brokers as this one has them, as far as it tells; else as known."""
        interval_ms = self.number("group.consumer.assignment.interval.ms")
        names = self.assignors or ()
        return ConsumerSettings(
            self.number(CONSUMER_SESSION) or known.session_timeout_ms,
            self.number("group.consumer.heartbeat.interval.ms") or known.heartbeat_interval_ms,
            self.number("group.consumer.max.size") or known.max_size,
            tuple(each for each in names if each in known.assignors) or known.assignors,
            known.assignment_interval_ms if interval_ms is None else interval_ms,
            known.regex_refresh_interval_ms,
            self.policy or known.migration_policy,
        )

    def ask(self, name: str) -> str:
        """Return a command that shows a setting of the broker."""
        number = "ID" if self.broker is None else str(self.broker.id)
        return (
            f"kafka-configs.sh --bootstrap-server {self.address} --describe --all "
            f"--entity-type brokers --entity-name {number} | grep {name}"
        )


def read_coordinator(source: GroupSource, group: Group) -> Coordinator:
    """Ask the broker that coordinates a group what it can do."""
    broker = group.coordinator
    if not isinstance(source, FeatureSource):
        return Coordinator(broker, None, "only a live cluster tells")
    if broker is None:
        return Coordinator(None, None, "the group's coordinator is not known")
    try:
        features = source.features(broker.id)
    except BrokerError as error:
        return Coordinator(broker, None, str(error))
    if not isinstance(source, SettingSource):
        return Coordinator(broker, features, "this source does not tell settings of brokers")
    reading = source.broker_settings(_SETTINGS)
    refused = [each.reason for each in reading.problems if each.broker == broker.id]
    of_group: Mapping[str, str] = {}
    if CONSUMER_GROUP_HEARTBEAT in features.apis:  # older brokers know no settings of groups
        try:
            of_group = source.group_settings(group.group_id, list(_OF_A_GROUP.values()))
        except BrokerError as error:
            refused.append(str(error))
    settings = reading.brokers.get(broker.id, {})
    return Coordinator(broker, features, "; ".join(refused) or None, settings, of_group)
