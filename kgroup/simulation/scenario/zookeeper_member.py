"""Consumers that live on ZooKeeper in a scenario's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.protocol.zookeeper.topic_filter import parse_filter
from kgroup.simulation.scenario.member_reader import MemberReader
from kgroup.simulation.scenario.scenario import Action, ConnectorPlan, Paused
from kgroup.simulation.scenario.toml_table import Table
from kgroup.simulation.zookeeper.config import ZookeeperConfig
from kgroup.simulation.zookeeper.registration import Registration

_MOST_STREAMS = 1_000

_SETTINGS: Mapping[str, tuple[str, Callable[[Table, str], Any]]] = {
    "zookeeper.session.timeout.ms": ("session_timeout_ms", Table.interval),
    "rebalance.backoff.ms": ("rebalance_backoff_ms", Table.interval),
    "rebalance.max.retries": ("rebalance_max_retries", Table.number),
    "auto.commit.enable": ("auto_commit", lambda table, name: table.flag(name, default=True)),
    "auto.commit.interval.ms": ("auto_commit_interval_ms", Table.interval),
    "auto.offset.reset": ("reset", lambda table, name: table.choice(name, ("largest", "smallest"))),
    "partition.assignment.strategy": (
        "strategy",
        lambda table, name: table.choice(name, ("range", "roundrobin")),
    ),
    "num.consumer.fetchers": ("fetchers", lambda table, name: table.number(name, least=1)),
    "queued.max.message.chunks": ("queued_chunks", lambda table, name: table.number(name, least=1)),
    "fetch.wait.max.ms": ("fetch_wait_max_ms", Table.interval),
    "refresh.leader.backoff.ms": ("refresh_leader_backoff_ms", Table.interval),
    "offsets.storage": ("storage", lambda table, name: table.choice(name, ("zookeeper", "kafka"))),
    "dual.commit.enabled": ("dual_commit", lambda table, name: table.flag(name, default=True)),
    "offsets.channel.backoff.ms": ("offsets_channel_backoff_ms", Table.interval),
    "offsets.commit.max.retries": ("offsets_commit_max_retries", Table.number),
}
"""Settings of consumers: the field, and how it is read."""

ZOOKEEPER_MEMBER_FIELDS: Mapping[str, str] = {
    "name": "How it is called; with count it is followed by a number.",
    "count": "How many there are of it; 1 by default.",
    "start": "When it starts; not at all without, unless a step starts it.",
    "every": "With count: how long after one the next starts; 0 by default.",
    "topics": 'What it subscribes to; "orders:4" with four streams.',
    "whitelist": "In place of topics: a regular expression (Java's) that their names match.",
    "blacklist": "Likewise, one that they do not match.",
    "streams": "How many it has for each topic, or for all that a list allows; 1 by default.",
    "processing": "How long its program takes for the records of a fetch; 50 ms by default.",
    "consumer.id": "By which it is registered; with count followed by a number.",
    **dict.fromkeys(_SETTINGS, "As in Kafka."),
}
"""Every field of such a member, with a sentence."""

_LISTS = {"whitelist": SubscriptionPattern.WHITE_LIST, "blacklist": SubscriptionPattern.BLACK_LIST}


class ZookeeperMembers(MemberReader[ConnectorPlan]):
    """Reads consumers of Kafka 0.8.2.

    Args:
        group_id: of their group.
    """

    fields = tuple(ZOOKEEPER_MEMBER_FIELDS)
    has_generations = False
    pauses = tuple(Paused)
    actions = tuple(
        each
        for each in Action
        if each not in (Action.MOVE_COORDINATOR, Action.REMOVE, Action.COPY_OFFSETS)
    )

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def read(self, table: Table, name: str) -> ConnectorPlan:
        """Read how a member starts."""
        del name
        told = [each for each in ("topics", *_LISTS) if each in table]
        if len(told) != 1:
            found = " and ".join(told) or "none"
            raise table.error(
                told[-1] if told else None, "one of topics, whitelist and blacklist", found
            )
        config = ZookeeperConfig(self._group_id, _registration(table), **_settings(table))
        if "consumer.id" in table:
            config = replace(
                config, consumer_id=table.legal_name("consumer.id", table.text("consumer.id"))
            )
        return ConnectorPlan(config, table.duration("processing", 50))

    def numbered(self, table: Table, plan: ConnectorPlan, name: str, number: str) -> ConnectorPlan:
        """Make one of several alike of a plan."""
        del table, name
        consumer_id = plan.config.consumer_id
        if consumer_id is None:
            return plan
        return replace(plan, config=replace(plan.config, consumer_id=consumer_id + number))

    def topics(self, plan: ConnectorPlan) -> tuple[str, ...]:
        """Return the topics that a member names."""
        registration = plan.config.registration
        return tuple(registration.subscription) if registration.is_static else ()

    def changed(self, table: Table, plan: ConnectorPlan) -> ConnectorPlan:
        """Configure a member anew; what is not named stays."""
        changes = table.table("set")
        changes.only([*_SETTINGS, "topics", *_LISTS, "streams", "processing"])
        given = _settings(changes)
        if any(each in changes for each in ("topics", *_LISTS)):
            given["registration"] = _registration(changes)
        elif "streams" in changes:
            raise changes.error("streams", "topics, whitelist or blacklist beside it", "none")
        config = replace(plan.config, **given)
        return replace(
            plan, config=config, processing_ms=changes.duration("processing", plan.processing_ms)
        )

    def completed(self, common: Table, table: Table) -> Table:
        """Give a member the fields of all members that it does not have itself."""
        own = table.data
        named = {name: value for name, value in common.data.items() if name not in own}
        if any(each in own for each in ("topics", *_LISTS)):
            for each in ("topics", *_LISTS):
                named.pop(each, None)
        return table.with_others(common, named)


def _settings(table: Table) -> dict[str, Any]:
    return {field: read(table, name) for name, (field, read) in _SETTINGS.items() if name in table}


def _registration(table: Table) -> Registration:
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
