"""Groups of ZooKeeper consumers to migrate: commits, brokers and settings.

Source: `kafka.consumer.ConsumerConfig` and `ZKConfig` of 0.8.2.2;
`org.apache.kafka.clients.consumer.ConsumerConfig` of 0.9.0 to 3.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from kgroup.errors import NotFoundError, UnfitError, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Group, GroupType, server_text
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommitStore
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.zookeeper import BrokerNode
from kgroup.operation.assign.group import find_group
from kgroup.operation.group_scenario import assumptions, scenario_of
from kgroup.operation.plan.plan import (
    OffsetCopy,
    Plan,
    PlannedMember,
    Precondition,
    SettingChange,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, plan_all, planned_members
from kgroup.operation.printed_command import UNKNOWN_ADDRESS, connection_words
from kgroup.operation.report import Report, first_names
from kgroup.operation.zookeeper.commit import kafka_offsets
from kgroup.simulation.scenario.scenario import Scenario
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.source.base import GroupSource, Question

RESETS: Mapping[str, str] = {"smallest": "earliest", "largest": "latest"}
"""Java's `auto.offset.reset` by that of 0.8; other values stop both, as Java's "none" does."""

BECOMES: Mapping[str, str | None] = {
    "zookeeper.connect": "bootstrap.servers",
    "group.id": "group.id",
    "partition.assignment.strategy": "partition.assignment.strategy",
    "auto.offset.reset": "auto.offset.reset",
    "auto.commit.enable": "enable.auto.commit",
    "auto.commit.interval.ms": "auto.commit.interval.ms",
    "client.id": "client.id",
    "exclude.internal.topics": "exclude.internal.topics",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "consumer.id": None,
    "consumer.timeout.ms": None,
    "dual.commit.enabled": None,
    "num.consumer.fetchers": None,
    "offsets.channel.backoff.ms": None,
    "offsets.channel.socket.timeout.ms": None,
    "offsets.commit.max.retries": None,
    "offsets.storage": None,
    "queued.max.message.chunks": None,
    "rebalance.backoff.ms": None,
    "rebalance.max.retries": None,
    "refresh.leader.backoff.ms": None,
    "socket.timeout.ms": None,
    "zookeeper.connection.timeout.ms": None,
    "zookeeper.session.timeout.ms": None,
    "zookeeper.sync.time.ms": None,
}
"""Java's name for every consumer setting of 0.8.2; None if Java has no such setting."""

_OTHER_DEFAULTS: Mapping[str, str] = {
    "auto.commit.interval.ms": "60000",
    "fetch.wait.max.ms": "100",
}
"""Defaults of 0.8.2 that differ from those of the Java consumer."""

_FIELDS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "rebalance.backoff.ms": "rebalance_backoff_ms",
    "rebalance.max.retries": "rebalance_max_retries",
    "auto.commit.enable": "auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "reset",
    "partition.assignment.strategy": "strategy",
    "num.consumer.fetchers": "fetchers",
    "queued.max.message.chunks": "queued_chunks",
    "fetch.wait.max.ms": "fetch_wait_max_ms",
    "refresh.leader.backoff.ms": "refresh_leader_backoff_ms",
    "offsets.storage": "storage",
    "dual.commit.enabled": "dual_commit",
    "offsets.channel.backoff.ms": "offsets_channel_backoff_ms",
    "offsets.commit.max.retries": "offsets_commit_max_retries",
}
"""Fields of `ZookeeperConfig`, by setting."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "auto.commit.enable": ("true", "false"),
    "dual.commit.enabled": ("true", "false"),
    "offsets.storage": ("zookeeper", "kafka"),
    "partition.assignment.strategy": ("range", "roundrobin"),
}
_MOST = 2**31 - 1


def configured(config: ZookeeperConfig, settings: Mapping[str, str]) -> ZookeeperConfig:
    """Return a consumer configuration with settings; others are unchanged.

    Raises:
        UsageError: a value is invalid in 0.8.2, or the settings have another group id.
    """
    group_id = settings.get("group.id", config.group_id)
    if group_id != config.group_id:
        raise UsageError(
            f"settings of consumers: expected group.id {config.group_id}, found {group_id}"
        )
    changes: dict[str, Any] = {
        _FIELDS[name]: _value(name, text) for name, text in settings.items() if name in _FIELDS
    }
    if "offsets.storage" in settings:
        changes.setdefault("dual_commit", None)  # its default depends on the storage
    if "zookeeper.sync.time.ms" in settings:  # the default of the backoff
        sync_ms = _value("zookeeper.sync.time.ms", settings["zookeeper.sync.time.ms"])
        changes.setdefault("rebalance_backoff_ms", sync_ms)
    return replace(config, **changes)


def _value(name: str, text: str) -> Any:
    if name == "auto.offset.reset":
        return text
    words = _WORDS.get(name)
    if words is not None:
        word = text.lower() if name == "offsets.storage" else text
        if word not in words:
            raise UsageError(f"{name}: expected {' or '.join(words)}, found {text!r}")
        return word == "true" if "true" in words else word
    if not text.isascii() or not text.isdigit() or int(text[:11]) > _MOST:
        raise UsageError(f"{name}: expected a whole number, found {text!r}")
    return int(text)


def java_settings(
    group_id: str, servers: str, strategy: str, settings: Mapping[str, str]
) -> tuple[SettingChange, ...]:
    """Return the settings of Java consumers that replace consumers of 0.8.

    Args:
        group_id: group id of both.
        servers: `bootstrap.servers`.
        strategy: class of the strategy.
        settings: settings of the consumers of 0.8; if empty, placeholders <NAME> are used as
            values.
    """
    made: Mapping[str, Callable[[str], str]] = {
        "zookeeper.connect": lambda _: servers,
        "group.id": lambda _: group_id,
        "partition.assignment.strategy": lambda _: strategy,
        "auto.offset.reset": lambda text: RESETS.get(text, "none"),
    }
    changes = [
        SettingChange(
            None, "key.deserializer", None, "<Deserializer that replaces the Decoder of keys>"
        ),
        SettingChange(
            None, "value.deserializer", None, "<Deserializer that replaces the Decoder of values>"
        ),
    ]
    for name, becomes in BECOMES.items():
        before = settings.get(name)
        is_certain = name in ("zookeeper.connect", "group.id", "partition.assignment.strategy")
        if becomes is None:
            if before is not None:
                changes.append(SettingChange(None, name, before, None))
            continue
        if before is not None:
            after = made.get(name, str)(before)
        elif is_certain:
            after = made[name]("")
        elif settings and name not in _OTHER_DEFAULTS:
            continue
        elif settings:
            after = _OTHER_DEFAULTS[name]
        else:
            after = _unknown(name)
        if becomes != name:
            changes.append(SettingChange(None, name, before, None))
        changes.append(SettingChange(None, becomes, before if becomes == name else None, after))
    return tuple(changes)


def _unknown(name: str) -> str:
    if name == "auto.offset.reset":
        return "<latest if it was largest (the default), earliest if it was smallest>"
    default = _OTHER_DEFAULTS.get(name)
    return f"<{name}>" if default is None else f"<{name}, {default} if it was not set>"


_ALONE = Question(offsets=False, log_budget=0, commit_times=False)
_MADE_ID = re.compile(r".+-\d{13}-[0-9a-f]{1,8}")
"""A generated consumer id: host, start time, and a random part."""
_ENOUGH_BROKERS = 3
"""Number of bootstrap servers to name; a client discovers the others."""


@dataclass(frozen=True, slots=True)
class StoreAddresses:
    """Names of both stores in commands of a plan.

    Attributes:
        zookeeper: value of `--zookeeper`.
        kafka: value of `--bootstrap-server`.
    """

    zookeeper: str
    kafka: str

    def offsets(self, what: str, first: str, second: str, group_id: str) -> str:
        """Return a command that compares or copies offsets between stores of these kinds."""
        stores = {"zookeeper": f"zookeeper:{self.zookeeper}", "kafka": f"kafka:{self.kafka}"}
        execute = self._settings + (" --execute" if what == "copy" else "")
        named = f"{stores[first]} {stores[second]} --group {quote(group_id)}"
        return f"kgroup offsets {what} {named}{execute}"

    @property
    def in_zookeeper(self) -> str:
        """Options of a command that connects to ZooKeeper."""
        return f"--zookeeper {quote(self.zookeeper)}{self._settings}"

    @property
    def in_kafka(self) -> str:
        """Options of a command that connects to the brokers."""
        return f"-b {quote(self.kafka)}{self._settings}"

    @property
    def _settings(self) -> str:
        return "".join(f" {quote(word)}" for word in connection_words(None))

    @property
    def copy(self) -> OffsetCopy | None:
        """The copy from ZooKeeper to Kafka; None if an address is unknown."""
        if UNKNOWN_ADDRESS in (self.zookeeper, self.kafka):
            return None
        return OffsetCopy(f"zookeeper:{self.zookeeper}", f"kafka:{self.kafka}")


@dataclass(frozen=True, slots=True)
class OldGroup:
    """A group of ZooKeeper consumers.

    Attributes:
        group: the group with its commits in ZooKeeper.
        running: the group with a scenario; None if it has no members.
        kafka: its commits in Kafka; None if unknown.
        kafka_members: number of members of the group with the same id in Kafka; None if unknown.
        ranges: log ranges of committed partitions, as far as known.
        brokers: registered brokers.
        has_offsets_topic: whether the topic `__consumer_offsets` exists.
        settings: settings of its consumers, as given by the user.
        address: address of ZooKeeper; None if the source is not live.
    """

    group: Group
    running: RunningGroup | None
    kafka: Mapping[TopicPartition, int] | None
    kafka_members: int | None
    ranges: Mapping[TopicPartition, LogRange]
    brokers: Collection[BrokerNode]
    has_offsets_topic: bool
    settings: Mapping[str, str]
    address: str | None

    @property
    def zookeeper(self) -> Mapping[TopicPartition, int]:
        """The group's commits in ZooKeeper."""
        return {
            (offset.topic, offset.partition): offset.committed_offset
            for offset in self.group.offsets
        }

    @property
    def is_same(self) -> bool:
        """Whether Kafka has all commits of ZooKeeper."""
        kafka = self.kafka
        return kafka is not None and all(
            kafka.get(at) == offset for at, offset in self.zookeeper.items()
        )

    @property
    def planned_members(self) -> tuple[PlannedMember, ...]:
        """The members in the form of a plan."""
        return planned_members(self.group.members)

    @property
    def places(self) -> StoreAddresses:
        """The addresses of both stores."""
        hosts = [
            server_text(broker.host, broker.port)
            for broker in self.brokers
            if broker.host and broker.port
        ]
        servers = ",".join(hosts[:_ENOUGH_BROKERS])
        return StoreAddresses(self.address or UNKNOWN_ADDRESS, servers or UNKNOWN_ADDRESS)

    @property
    def storage(self) -> tuple[CommitStore, Precondition]:
        """The store of the members' commits, and the precondition that it is known."""
        store, verdict, found = self._storage()
        check = (
            "Check offsets.storage and dual.commit.enabled of every member, and give them with "
            "--consumer-config; or check again when all have committed: "
            f"{self.places.offsets('diff', 'zookeeper', 'kafka', self.group.group_id)}"
        )
        text = "It is known where the members commit."
        is_known = verdict is Verdict.VERIFIED
        return store, Precondition("storage", text, verdict, found, None if is_known else check)

    def _storage(self) -> tuple[CommitStore, Verdict, str | None]:
        storage = self.settings.get("offsets.storage", "").lower()
        if storage:
            is_dual = self.settings.get("dual.commit.enabled", "true") == "true"
            store = CommitStore.BOTH if is_dual else CommitStore.KAFKA
            if storage == "zookeeper":
                store = CommitStore.ZOOKEEPER
            return store, Verdict.VERIFIED, f"according to the settings, {_where(store)}"
        zookeeper, kafka = self.zookeeper, self.kafka
        if kafka is None:
            return CommitStore.ZOOKEEPER, Verdict.UNKNOWN, "commits to Kafka are unknown"
        ats = zookeeper.keys() | kafka.keys()
        ahead = sum(kafka.get(at, -1) > zookeeper.get(at, -1) for at in ats)
        behind = sum(kafka.get(at, -1) < zookeeper.get(at, -1) for at in ats)
        if not ats:
            return CommitStore.ZOOKEEPER, Verdict.UNKNOWN, "nothing is committed"
        if not kafka:
            found = f"{_counted_commits(len(ats))} in ZooKeeper, none in Kafka"
            return CommitStore.ZOOKEEPER, Verdict.VERIFIED, found
        if not zookeeper:
            found = f"{_counted_commits(len(ats))} in Kafka, none in ZooKeeper"
            return CommitStore.KAFKA, Verdict.VERIFIED, found
        # Members may be committing to both, or to one while the other is outdated. The assumption
        # ZooKeeper may cost an unnecessary restart, but loses nothing.
        return (
            CommitStore.ZOOKEEPER,
            Verdict.UNKNOWN,
            f"of {len(ats)} commits {len(ats) - ahead - behind} are the same in both, {ahead} are "
            f"larger in Kafka, {behind} in ZooKeeper; the plan assumes that members commit to "
            "ZooKeeper",
        )

    @property
    def leftovers(self) -> Precondition:
        """The precondition that no commit in Kafka is larger than that in ZooKeeper."""
        text = "No commit in Kafka is ahead of ZooKeeper: of two commits, the larger one is used."
        check = (
            "If members commit only to ZooKeeper, records up to it would be skipped: stop the "
            f"group and see `kgroup offsets delete {quote(self.group.group_id)} "
            f"{self.places.in_kafka}`. If they also commit "
            "to Kafka, check again."
        )
        if self.kafka is None:
            return Precondition("leftovers", text, Verdict.UNKNOWN, None, check)
        zookeeper = self.zookeeper
        ahead = sorted(at for at in self.kafka if self.kafka[at] > zookeeper.get(at, -1))
        if not ahead:
            return Precondition("leftovers", text, Verdict.VERIFIED, "none is")
        found = f"ahead: {first_names([f'{topic}-{number}' for topic, number in ahead])}"
        return Precondition("leftovers", text, Verdict.UNKNOWN, found, check)

    @property
    def set_ids(self) -> tuple[str, ...]:
        """Names of members that keep their id in a restart, because `consumer.id` is set."""
        names = [member.name for member in self.planned_members]
        return tuple(name for name in names if not _MADE_ID.fullmatch(name))

    def brokers_since(self, version: int, text: str, advice: str) -> Precondition:
        """Return the precondition that all brokers have version 0.8.2, or 0.9, or later.

        Args:
            version: 9 for 0.9, otherwise 8.
            text: text of the precondition.
            advice: what to do if it does not hold.
        """
        count = len(self.brokers)
        code = "broker-version"
        if count and all(broker.coordinates_groups for broker in self.brokers):
            told = f"{count} are registered, all in the format of 0.9 or later"
            return Precondition(code, text, Verdict.VERIFIED, told)
        old = [str(broker.id) for broker in self.brokers if broker.version == 1]
        if version == 9 and old:
            told = f"registered in the format of 0.8: broker {first_names(old)}"
            return Precondition(code, text, Verdict.REFUTED, told, advice)
        if version != 9 and self.has_offsets_topic:
            told = f"the topic {OFFSETS_TOPIC}, which they create, exists"
            return Precondition(code, text, Verdict.VERIFIED, told)
        told = f"{count} are registered, and ZooKeeper does not contain their version"
        return Precondition(code, text, Verdict.UNKNOWN, told, advice)


def _counted_commits(count: int) -> str:
    return f"{count} commit" if count == 1 else f"{count} commits"


def _where(store: CommitStore) -> str:
    match store:
        case CommitStore.ZOOKEEPER:
            return "to ZooKeeper"
        case CommitStore.KAFKA:
            return "to Kafka"
        case CommitStore.BOTH:
            return "to both"


def read_old(
    source: GroupSource,
    group_id: str,
    settings: Mapping[str, str],
    address: str | None = None,
    cluster: GroupSource | None = None,
) -> OldGroup:
    """Read a group of ZooKeeper consumers, to plan for it.

    Args:
        source: source of groups.
        group_id: group id.
        settings: settings of its consumers, as far as given by the user.
        address: address of ZooKeeper; None if the source is not live.
        cluster: the brokers of this ZooKeeper; None: the source connects to them if it can.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group is not in ZooKeeper, or cannot be simulated.
        UsageError: the settings are invalid.
    """
    try:
        reading, group = find_group(source, group_id)
    except NotFoundError:
        if not _is_in_kafka(source, group_id, cluster):
            raise
        raise UnfitError.of_group(
            group_id,
            "expected ZooKeeper consumers, found the group only in Kafka, with its committed "
            "offsets: it has left ZooKeeper, or was never there",
        ) from None
    if group.type is not GroupType.ZOOKEEPER or reading.view is None:
        raise UnfitError.of_group(
            group_id, f"expected ZooKeeper consumers, found a group of type {group.type}"
        )
    offsets = kafka_offsets(source, [group_id])
    kafka = offsets.offsets
    committed = [(offset.topic, offset.partition) for offset in group.offsets]
    old = OldGroup(
        group,
        None,
        None if kafka is None else {at[1:]: kafka[at] for at in kafka},
        offsets.members.get(group_id),
        source.log_ranges(committed).ranges if committed else {},
        [reading.view.brokers[number] for number in sorted(reading.view.brokers)],
        OFFSETS_TOPIC in reading.view.topics,
        settings,
        address,
    )
    if not group.members:
        return old
    report = scenario_of(source, reading, group)
    scenario = _configured(report.data[0], old)
    running = RunningGroup(group, scenario, report.errors, report.notes, assumptions(scenario))
    return replace(old, running=running)


def _is_in_kafka(source: GroupSource, group_id: str, cluster: GroupSource | None) -> bool:
    if cluster is not None:
        return group_id in cluster.read([group_id], _ALONE).image.groups
    offsets = kafka_offsets(source, [group_id])
    return bool(offsets.offsets or offsets.members.get(group_id))


def _configured(scenario: Scenario, old: OldGroup) -> Scenario:
    """Return the scenario with members that have the settings, and commit to the known store."""
    store, _ = old.storage
    storage = "zookeeper" if store is CommitStore.ZOOKEEPER else "kafka"
    is_dual = store is CommitStore.BOTH
    connectors = {}
    for name, plan in scenario.connectors.items():
        config = configured(plan.config, old.settings)
        connectors[name] = replace(
            plan, config=replace(config, storage=storage, dual_commit=is_dual)
        )
    return replace(scenario, connectors=connectors)


def plan_old(
    source: GroupSource,
    group_ids: Collection[str],
    settings: Mapping[str, str],
    address: str | None,
    make: Callable[[OldGroup], Plan],
    cluster: GroupSource | None = None,
) -> Report[Plan]:
    """Return a plan for each group; arguments as for `read_old` and `plan_all`."""

    def plan(group_id: str) -> Report[Plan]:
        old = read_old(source, group_id, settings, address, cluster)
        made = make(old)
        if old.running is None:
            return Report((made,))
        return old.running.report(made, source)

    return plan_all(group_ids, plan)
