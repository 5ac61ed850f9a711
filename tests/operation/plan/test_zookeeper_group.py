"""Settings of consumers of 0.8, and their names in Java's."""

from __future__ import annotations

import pytest

from kgroup.errors import UsageError
from kgroup.operation.plan.zookeeper_group import BECOMES, configured, java_settings
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig

OLD_NAMES = """
group.id consumer.id socket.timeout.ms socket.receive.buffer.bytes fetch.message.max.bytes
num.consumer.fetchers auto.commit.enable auto.commit.interval.ms queued.max.message.chunks
rebalance.max.retries fetch.min.bytes fetch.wait.max.ms rebalance.backoff.ms
refresh.leader.backoff.ms offsets.channel.backoff.ms offsets.channel.socket.timeout.ms
offsets.commit.max.retries offsets.storage dual.commit.enabled auto.offset.reset
consumer.timeout.ms client.id exclude.internal.topics partition.assignment.strategy
zookeeper.connect zookeeper.session.timeout.ms zookeeper.connection.timeout.ms
zookeeper.sync.time.ms
"""
"""What `kafka.consumer.ConsumerConfig` and `ZKConfig` of Kafka 0.8.2.2 read."""

NEW_NAMES = """
group.id bootstrap.servers client.id partition.assignment.strategy auto.offset.reset
enable.auto.commit auto.commit.interval.ms fetch.min.bytes fetch.max.wait.ms
max.partition.fetch.bytes receive.buffer.bytes exclude.internal.topics key.deserializer
value.deserializer
"""
"""Of those that `ConsumerConfig` of kafka-clients 2.8.0 defines."""

CONFIG = ZookeeperConfig("g", Registration({"t": 1}))


def test_every_setting_of_the_old_consumer_is_told_of() -> None:
    assert set(BECOMES) == set(OLD_NAMES.split())
    assert set(filter(None, BECOMES.values())) <= set(NEW_NAMES.split())


def _after(**settings: str) -> dict[str, str | None]:
    old = {name.replace("_", "."): text for name, text in settings.items()}
    changes = java_settings("g", "kafka-1:9092", "RangeAssignor", old)
    return {change.name: change.after for change in changes if "deserializer" not in change.name}


@pytest.mark.parametrize(
    ("before", "after"), [("smallest", "earliest"), ("largest", "latest"), ("disable", "none")]
)
def test_where_to_begin_has_other_names(before: str, after: str) -> None:
    """With "anything else" both consumers throw."""
    assert _after(auto_offset_reset=before)["auto.offset.reset"] == after


def test_what_is_set_gets_its_new_name_and_what_is_not_keeps_its_old_default() -> None:
    assert _after(
        zookeeper_connect="zk-1:2181",
        auto_commit_enable="false",
        fetch_message_max_bytes="4194304",
        queued_max_message_chunks="10",
    ) == {
        "zookeeper.connect": None,
        "bootstrap.servers": "kafka-1:9092",
        "group.id": "g",
        "partition.assignment.strategy": "RangeAssignor",
        "auto.commit.enable": None,
        "enable.auto.commit": "false",
        "auto.commit.interval.ms": "60000",  # Java's is 5000
        "fetch.message.max.bytes": None,
        "max.partition.fetch.bytes": "4194304",
        "fetch.wait.max.ms": None,
        "fetch.max.wait.ms": "100",  # Java's is 500
        "queued.max.message.chunks": None,
    }


def test_without_settings_their_names_stand_for_their_values() -> None:
    found = _after()
    assert found["enable.auto.commit"] == "<auto.commit.enable>"
    assert found["fetch.max.wait.ms"] == "<fetch.wait.max.ms, 100 if it was not set>"
    assert "queued.max.message.chunks" not in found


def test_settings_configure_the_simulated_consumer() -> None:
    settings = {
        "group.id": "g",
        "zookeeper.sync.time.ms": "500",
        "auto.commit.enable": "false",
        "offsets.storage": "Kafka",
        "auto.offset.reset": "smallest",
        "socket.timeout.ms": "1",
        "some.other": "x",
    }
    config = configured(CONFIG, settings)
    assert config.rebalance_backoff_ms == 500  # unless it is set itself
    assert configured(CONFIG, settings | {"rebalance.backoff.ms": "7"}).rebalance_backoff_ms == 7
    assert (config.auto_commit, config.storage, config.reset) == (False, "kafka", "smallest")
    assert config.is_dual
    assert not configured(CONFIG, settings | {"dual.commit.enabled": "false"}).is_dual


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("group.id", "other", "expected group.id g, found other"),
        ("auto.commit.enable", "yes", "auto.commit.enable: expected true or false, found 'yes'"),
        ("offsets.storage", "file", "offsets.storage: expected zookeeper or kafka, found 'file'"),
        ("rebalance.backoff.ms", "2s", "rebalance.backoff.ms: expected a whole number"),
        ("rebalance.backoff.ms", "99999999999", "rebalance.backoff.ms: expected a whole number"),
    ],
)
def test_what_no_consumer_takes(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        configured(CONFIG, {name: text})
