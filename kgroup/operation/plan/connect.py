"""Groups of Kafka Connect: the consumers of a sink connector's tasks share their settings.

Source: `Worker.baseConsumerConfigs` and `ConnectorsResource` of Kafka 4.3.1; KAFKA-12487 (in 3.2);
KIP-458 (connectors override client settings), KIP-875 (connectors are stopped and resumed).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from kgroup.model.group import Member
from kgroup.operation.plan.plan import Precondition, SettingChange, Verdict
from kgroup.operation.report import first_names

OVERRIDE = "consumer.override."
"""Prefix of consumer settings in a connector's configuration."""
_CLIENT_ID = re.compile(r"connector-consumer-(.+)-\d+", re.DOTALL)
_POLICY = "connector.client.config.override.policy"


def sink_connectors(members: Iterable[Member]) -> tuple[str, ...]:
    """Return the connectors whose tasks are members, by the client ids that Connect assigns."""
    matches = (_CLIENT_ID.fullmatch(member.client_id or "") for member in members)
    return tuple(sorted({match[1] for match in matches if match}))


def settable(connectors: tuple[str, ...]) -> Iterable[Precondition]:
    """Yield the precondition that connectors may override consumer settings, if there are any."""
    if connectors:
        yield Precondition(
            "connector",
            f"Kafka Connect workers let a connector override its consumers' settings: {_POLICY} "
            "is All, or Allowlist with these settings.",
            Verdict.UNKNOWN,
            _found(connectors),
            f"Check {_POLICY} of the workers: All is the default since Kafka 3.0; Allowlist exists "
            "since 4.2. With another policy, change the setting for all connectors in the workers' "
            "own configuration (consumer.NAME=…). That configuration also applies when a step "
            "removes a setting from a connector.",
        )


def own_settings(connectors: tuple[str, ...]) -> Precondition:
    """Return the refuted precondition that tasks can have settings of their own."""
    return Precondition(
        "own-settings",
        "Each member can have its own settings.",
        Verdict.REFUTED,
        _found(connectors),
        f"Leave the tasks dynamic: with the same {OVERRIDE}group.instance.id, each task would "
        "fence the others (FENCED_INSTANCE_ID).",
    )


def tasks_one_by_one() -> Precondition:
    """Return the precondition that workers handle incremental assignment of a task."""
    return Precondition(
        "listeners",
        "Kafka Connect workers handle incremental assignment of a task: version 3.2 or later.",
        Verdict.UNKNOWN,
        "older ones take the added partitions for the whole assignment (KAFKA-12487)",
        "Check the version of the workers: GET / returns it.",
    )


def _found(connectors: tuple[str, ...]) -> str:
    return (
        f"according to their client ids, members are tasks of the Kafka Connect sink connector "
        f"{first_names(connectors)}, and share its settings"
    )


def overrides(connectors: tuple[str, ...]) -> str:
    """Return where to configure the settings of a step."""
    return (
        f"The settings are of the connector, and so of all tasks: in its configuration they have "
        f"the prefix {OVERRIDE} ({_requests(connectors, 'config')}, which takes the whole of it: "
        "GET it there before)."
    )


def how_to_stop_connectors(connectors: tuple[str, ...]) -> str:
    """Return how to stop all tasks of connectors at once."""
    return (
        f"Stop the connector with all of its tasks: {_requests(connectors, 'stop')} at a "
        "worker (Kafka 3.5 or later; before, keep its configuration and delete the connector: the "
        "group's commits stay)."
    )


def how_to_resume(connectors: tuple[str, ...]) -> str:
    """Return how to resume connectors."""
    return f"Start it: {_requests(connectors, 'resume')}; the workers start all of its tasks."


def _requests(connectors: tuple[str, ...], what: str) -> str:
    return ", ".join(
        f"PUT /connectors/{quote(connector, safe='')}/{what}" for connector in connectors
    )


def shared_settings(settings: tuple[SettingChange, ...]) -> tuple[SettingChange, ...]:
    """Return settings of a connector, one for all of its tasks."""
    changes: dict[str, SettingChange] = {}
    for setting in settings:
        name = OVERRIDE + setting.name
        changes.setdefault(name, SettingChange(None, name, setting.before, setting.after))
    return tuple(changes.values())
