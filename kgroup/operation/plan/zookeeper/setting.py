"""Settings of consumers of Kafka 0.8, and what becomes of them in Java's consumer.

Source: `kafka.consumer.ConsumerConfig` and `ZKConfig` of 0.8.2.2;
`org.apache.kafka.clients.consumer.ConsumerConfig` of 0.9.0 to 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.errors import UsageError
from kgroup.operation.plan.plan import Setting
from kgroup.simulation.zookeeper.config import ZookeeperConfig

RESETS: Mapping[str, str] = {"smallest": "earliest", "largest": "latest"}
"""`auto.offset.reset`; with anything else a consumer of 0.8 throws, as Java's does with "none"."""

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
"""Every setting of a consumer of 0.8.2: by which name Java's knows it; None: it has none such."""

_OTHER_DEFAULTS: Mapping[str, str] = {
    "auto.commit.interval.ms": "60000",
    "fetch.wait.max.ms": "100",
}
"""Defaults of 0.8.2 that are not those of Java's consumers."""

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
"""Fields of `ZookeeperConfig`, by settings."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "auto.commit.enable": ("true", "false"),
    "dual.commit.enabled": ("true", "false"),
    "offsets.storage": ("zookeeper", "kafka"),
    "partition.assignment.strategy": ("range", "roundrobin"),
}
_MOST = 2**31 - 1


def configured(config: ZookeeperConfig, settings: Mapping[str, str]) -> ZookeeperConfig:
    """Configure a consumer as its settings say; what they do not say stays.

    Raises:
        UsageError: a value is none of 0.8.2, or the settings are of another group.
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
        changes.setdefault("dual_commit", None)  # its default hangs on the storage
    if "zookeeper.sync.time.ms" in settings:  # of which the backoff is made
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
) -> tuple[Setting, ...]:
    """Tell how Java's consumers are configured in the place of those of 0.8.

    Args:
        group_id: of both.
        servers: `bootstrap.servers`.
        strategy: by its class.
        settings: of those of 0.8; where there are none, <NAME> stands for the value of a setting.
    """
    made: Mapping[str, Callable[[str], str]] = {
        "zookeeper.connect": lambda _: servers,
        "group.id": lambda _: group_id,
        "partition.assignment.strategy": lambda _: strategy,
        "auto.offset.reset": lambda text: RESETS.get(text, "none"),
    }
    found = [
        Setting(None, "key.deserializer", None, "<what Decoder of keys did, as a Deserializer>"),
        Setting(None, "value.deserializer", None, "<what Decoder of values did, likewise>"),
    ]
    for name, becomes in BECOMES.items():
        before = settings.get(name)
        is_certain = name in ("zookeeper.connect", "group.id", "partition.assignment.strategy")
        if becomes is None:
            if before is not None:
                found.append(Setting(None, name, before, None))
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
            found.append(Setting(None, name, before, None))
        found.append(Setting(None, becomes, before if becomes == name else None, after))
    return tuple(found)


def _unknown(name: str) -> str:
    if name == "auto.offset.reset":
        return "<latest where it was largest (the default), earliest where it was smallest>"
    default = _OTHER_DEFAULTS.get(name)
    return f"<{name}>" if default is None else f"<{name}, {default} where it was not set>"
