"""What a member of a classic group states besides topics, and what its assignment schedules."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kgroup.model.group import NEVER_MS

_FOLLOWS = ("prevTasks", "standbyTasks", "taskOffsetSums", "uniqueField", "trailing")
"""Fields of a Streams member's user data that change with its tasks, or whenever it rejoins."""
OPAQUE = "user data"
"""Name in `stated` of user data in an unknown format."""


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member states besides topics, and what its assignment schedules.

    Tasks of Connect are named like ``source-0``, connectors by their name.

    Attributes:
        stated: user data by field, without what follows from the previous assignment.
        config_offset: Connect: how far the worker has read the config topic; None if unknown.
        assigned_config_offset: Connect: config offset for which its assignment was computed.
        running: Connect: what the worker ran when it joined.
        assigned: Connect: what the worker has to start.
        revoked: Connect: what the worker has to stop; then it rejoins.
        delay_ms: Connect: time after which the worker rejoins; 0 if it does not.
        rejoin_ms: Streams: time at which the member rejoins, by the clock of the assigning
            instance; 0 for at once; None if it does not.
    """

    stated: Mapping[str, Any] = field(default_factory=dict)
    config_offset: int | None = None
    assigned_config_offset: int | None = None
    running: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    delay_ms: int = 0
    rejoin_ms: int | None = None


def read_metadata(value_json: str | None) -> Mapping[str, MemberMetadata]:
    """Return the metadata of the members in a GroupMetadata record's value, by member id."""
    data = (orjson.loads(value_json)["data"] if value_json else None) or {}
    read = {"consumer": _consumer, "connect": _connect}.get(data.get("protocolType", ""), _other)
    return {
        member["memberId"]: read(member["subscription"], member["assignment"])
        for member in data.get("members") or ()
    }


def _consumer(subscription: Mapping[str, Any], assignment: Mapping[str, Any]) -> MemberMetadata:
    given, stated = assignment.get("userData"), subscription.get("userData")
    rejoin_ms = given.get("nextRebalanceMs") if isinstance(given, Mapping) else None
    if isinstance(stated, str):
        fields = _opaque(stated, subscription.get("topics") or ())
    elif isinstance(stated, Mapping) and "latestSupportedVersion" in stated:
        fields = {name: stated[name] for name in stated if name not in _FOLLOWS}
    else:
        fields = {}  # of sticky assignors: the previous assignment
    return MemberMetadata(fields, rejoin_ms=None if rejoin_ms == NEVER_MS else rejoin_ms)


def _connect(subscription: Mapping[str, Any], assignment: Mapping[str, Any]) -> MemberMetadata:
    return MemberMetadata(
        config_offset=subscription.get("configOffset"),
        assigned_config_offset=assignment.get("configOffset"),
        running=_tasks((subscription.get("allocation") or {}).get("assignment")),
        assigned=_tasks(assignment.get("assignment")),
        revoked=_tasks(assignment.get("revoked")),
        delay_ms=assignment.get("delay") or 0,
    )


def _other(subscription: Mapping[str, Any], assignment: Mapping[str, Any]) -> MemberMetadata:
    return MemberMetadata(_opaque(subscription.get("raw") or "", ()))


def _opaque(text: str, topics: Collection[str]) -> Mapping[str, Any]:
    """Return user data in an unknown format, unless it may have a previous assignment."""
    raw = b64decode(text)
    return {} if any(topic.encode() in raw for topic in topics) else {OPAQUE: text}


def _tasks(connectors: Collection[Mapping[str, Any]] | None) -> frozenset[str]:
    """Return connectors (task -1) and tasks by name."""
    return frozenset(
        each["connector"] if number == -1 else f"{each['connector']}-{number}"
        for each in connectors or ()
        for number in each["tasks"] or ()
    )
