"""Commands to run next for what was found, whole, with the connection options in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from shlex import join

from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.operation.check.rule import Basis, Finding, NextCommand, Rule
from kgroup.operation.description import GroupDescription
from kgroup.operation.printed_command import (
    UNKNOWN_ADDRESS,
    Reach,
    build_command,
    kafka_words,
    kgroup_command,
    reaching,
)

_PLACE = re.compile(r"\b(?:GROUP|TOPIC|PARTITION|INSTANCE)\b")


def with_commands(finding: Finding, group: GroupDescription | None) -> Finding:
    """Add what to run next, unless it has that.

    Args:
        finding: what was found.
        group: the group that it is about, as it is now; None of the cluster.
    """
    if finding.commands:
        return finding
    return replace(finding, commands=tuple(dict.fromkeys(_commands(finding, group))))


def _commands(finding: Finding, group: GroupDescription | None) -> Iterator[str]:
    values = _values(finding, group)
    for each in finding.code.commands:
        if any(place not in values for place in _PLACE.findall(each.text)):
            continue
        if each.reach is Reach.WAREHOUSE and (build := build_command()) is not None:
            yield build
        yield _written(each, values, group)


def _values(finding: Finding, group: GroupDescription | None) -> dict[str, str]:
    """Give what stands for the places of commands, as far as it is known."""
    instances = {each.member_id: each.instance_id for each in group.members} if group else {}
    topic, partition = finding.topic, finding.partition
    if finding.code is Rule.OPEN_TRANSACTION and finding.basis is Basis.LOG:
        # the commits of the transaction are what hangs
        topic, partition = OFFSETS_TOPIC, group.offsets_partition if group else None
    values = {
        "GROUP": finding.group_id,
        "TOPIC": topic,
        "PARTITION": None if partition is None else str(partition),
        "INSTANCE": instances.get(finding.member_id or ""),
    }
    return {place: value for place, value in values.items() if value is not None}


def _written(command: NextCommand, values: dict[str, str], group: GroupDescription | None) -> str:
    coordinator = group.coordinator if group else None
    servers = coordinator.address if coordinator else None
    words = [_PLACE.sub(lambda place: values[place[0]], each) for each in command.text.split()]
    if command.is_of_kafka:
        return join((words[0], *kafka_words(servers or UNKNOWN_ADDRESS), *words[1:]))
    at = command.text.split().index("GROUP")
    options = (*words[at + 1 :], *reaching(command.reach, servers))
    return kgroup_command(" ".join(words[:at]), (words[at],), options)
