"""What must hold before members become static.

Source: KIP-345; `KafkaApis.handleJoinGroupRequest` of 2.3 (which refuses static members before
`inter.broker.protocol.version` 2.3), `GroupConfig` (`consumer.session.timeout.ms`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from shlex import quote

from kgroup.model.group import Member
from kgroup.operation.plan.coordinator import (
    CONSUMER_SESSION,
    INTER_BROKER_VERSION,
    LEAST_SESSION,
    MOST_SESSION,
    Brokers,
)
from kgroup.operation.plan.forecast import Habits
from kgroup.operation.plan.instance_id import why_unfit
from kgroup.operation.plan.plan import Precondition, Verdict
from kgroup.operation.plan.running import RunningGroup
from kgroup.operation.report import first_names

INSTANCE_ID = "group.instance.id"
SESSION = "session.timeout.ms"
GROUP_SESSION = "consumer.session.timeout.ms"
_OF_CONSUMER_GROUPS = "group.consumer.max.session.timeout.ms"
_STATIC_SINCE = (2, 3)


def client_version(members: Mapping[str, Member], of_brokers: Collection[str]) -> Precondition:
    """That clients know static members; who has the session of brokers is new enough."""
    text = "Clients know static members: of Java 2.3, librdkafka 1.4, or later."
    unknown = [
        name
        for name, each in members.items()
        if each.instance_id is None
        and name not in of_brokers
        and (each.subscription is None or each.subscription.owned is None)
    ]
    if not unknown:
        found = "members are static, of the consumer protocol, or tell what they own (since 2.4)"
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    return Precondition(
        "client-version",
        text,
        Verdict.UNKNOWN,
        f"subscriptions of version 0, as clients before 2.4 send them, from {first_names(unknown)}",
        "Look at the version of the client that each of them is built with; older ones ignore "
        f"{INSTANCE_ID}, with a warning in their logs.",
    )


def broker_version(members: Mapping[str, Member], brokers: Brokers) -> Precondition:
    """That brokers know static members."""
    text = "Brokers know static members: of 2.3 or later, and so is inter.broker.protocol.version."
    if static := [name for name, each in members.items() if each.instance_id]:
        found = f"static already: {first_names(static)}"
        return Precondition("broker-version", text, Verdict.VERIFIED, found)
    check = (
        "Look at the brokers' version, and at inter.broker.protocol.version where they are older "
        "than 4.0."
    )
    told = {broker: each.get(INTER_BROKER_VERSION) for broker, each in brokers.settings.items()}
    old = {
        broker: version
        for broker, version in told.items()
        if version is not None and _version(version) < _STATIC_SINCE
    }
    if old:
        broker, version = next(iter(old.items()))
        found = f"inter.broker.protocol.version {version} of broker {broker}"
        return Precondition("broker-version", text, Verdict.REFUTED, found, check)
    # Brokers without that setting are of 4.0 or later: all before have it.
    if told and brokers.why is None:
        found = ", ".join(sorted({each or "4.0 or later" for each in told.values()}))
        return Precondition("broker-version", text, Verdict.VERIFIED, found)
    return Precondition("broker-version", text, Verdict.UNKNOWN, brokers.why, check)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def unique_ids(ids: Mapping[str, str], made_of: str) -> Precondition:
    """That no two members get the same instance id, and that each id is one."""
    text = "Every member gets an id that no other has."
    if unfit := why_unfit(ids):
        check = "Choose another --instance-id, with {client}, {host} or {number} in it."
        return Precondition("unique-ids", text, Verdict.REFUTED, unfit, check)
    return Precondition("unique-ids", text, Verdict.VERIFIED, f"made of {made_of}")


def lasting_ids(members: Mapping[str, Member]) -> Precondition:
    """That ids are those of programs, and not of their starts."""
    text = "An id stays with its program over restarts, and no two programs have it at a time."
    if all(each.instance_id for each in members.values()):
        found = "members are static already"
        return Precondition("lasting-ids", text, Verdict.VERIFIED, found)
    return Precondition(
        "lasting-ids",
        text,
        Verdict.UNKNOWN,
        "a group does not tell how its programs are deployed",
        "Take the id from where the program runs: the name of a StatefulSet's pod, of the host, "
        "of the unit; never one that is made at each start. Stop a member before its successor "
        "starts: of two with one id the older is fenced (FENCED_INSTANCE_ID), and its program "
        "ends.",
    )


def restart_time(habits: Habits, *, is_measured: bool) -> Precondition:
    """That nobody is away for longer than the plan goes by."""
    text = f"A restart takes {seconds(habits.restart_ms)} at most."
    if is_measured:
        return Precondition("restart-time", text, Verdict.VERIFIED, "said with --restart-time")
    return Precondition(
        "restart-time",
        text,
        Verdict.UNKNOWN,
        "assumed",
        "Measure the longest: from the stop of a member to its first poll(), with whatever is "
        "pulled, warmed up and restored between; say it with --restart-time.",
    )


def session_of_members(session_ms: int, brokers: Brokers) -> Precondition:
    """That brokers take the session that members of the classic protocol ask for."""
    low, high = LEAST_SESSION, MOST_SESSION
    text = f"Brokers let a member have {SESSION}={session_ms}."
    least = max(brokers.numbers(low), default=None)
    most = min(brokers.numbers(high), default=None)
    check = f"{brokers.ask('session.timeout')} shows {low} and {high}."
    found = f"{low} {least}, {high} {most}"
    if least is None or most is None:
        return Precondition("session-timeout", text, Verdict.UNKNOWN, brokers.why, check)
    if least <= session_ms <= most:
        if brokers.why is None:
            return Precondition("session-timeout", text, Verdict.VERIFIED, found)
        return Precondition(
            "session-timeout", text, Verdict.UNKNOWN, f"{found}; {brokers.why}", check
        )
    return Precondition(
        "session-timeout",
        text,
        Verdict.REFUTED,
        found,
        f"Members would be refused (INVALID_SESSION_TIMEOUT). Raise {high} on every broker and "
        "restart it, or make the restart shorter.",
    )


def session_of_group(running: RunningGroup, needed_ms: int, brokers: Brokers) -> Precondition:
    """Say whether brokers let members be away for so long; they decide it, not the members."""
    most_name, told_ms = _OF_CONSUMER_GROUPS, brokers.session_ms
    text = f"Brokers let the group have a session of {seconds(needed_ms)}."
    most = min(brokers.numbers(most_name), default=None)
    entity = ("--entity-type", "groups", "--entity-name", quote(running.group.group_id))
    shown = brokers.tool("kafka-configs", "--describe", "--all", *entity)
    check = f"{shown} shows {GROUP_SESSION}; of brokers, {CONSUMER_SESSION} and {most_name}."
    if told_ms is None:
        why = brokers.group_why or brokers.why
        return Precondition("group-session-timeout", text, Verdict.UNKNOWN, why, check)
    found = f"{GROUP_SESSION} {told_ms}"
    if told_ms >= needed_ms:
        return Precondition("group-session-timeout", text, Verdict.VERIFIED, found)
    if most is None:
        return Precondition("group-session-timeout", text, Verdict.UNKNOWN, found, check)
    found = f"{found}, {most_name} {most}"
    if needed_ms <= most:
        return Precondition("group-session-timeout", text, Verdict.VERIFIED, found)
    return Precondition(
        "group-session-timeout",
        text,
        Verdict.REFUTED,
        found,
        f"Raise {most_name} on every broker and restart it, or make the restart shorter.",
    )


def seconds(length_ms: int) -> str:
    """Write a length of time."""
    return f"{length_ms / 1000:g} s"
